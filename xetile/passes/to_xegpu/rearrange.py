"""Slices, casts and insertions of vectors to shuffles of the elements of their blocks.

    %s = vector.extract_strided_slice %v {offsets = [0, 3], sizes = [8, 4], ...} : vector<8x32xf32> to vector<8x4xf32>
becomes, in blocks of 8x16,
    %s = xegpu.shuffle %v0 {mask = array<i32: 3, 4, 5, 6, 19, ...>} : vector<8x16xf32> -> vector<8x4xf32>

A block of the result that is one of the source needs none.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.vector import ShuffleOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp, shape_of, values_of, vector_type
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter
from xetile.dialect.vector import TilePackOp
from xetile.dialect.wg_map import Pair

Numbers = np.ndarray[Any, Any]
"""For each element the number of its block, and of its element in that."""


def _numbered(source: ConvertedValues, first: int) -> Numbers:
    """Block and element of each element of a vector; blocks are counted from ``first`` on."""
    (rows, columns), (height, width) = source.encoding.shape, source.encoding.block
    row, column = np.arange(rows)[:, None], np.arange(columns)
    block = first + row // height * (columns // width) + column // width
    return np.stack([block, row % height * width + column % width], -1)


def _slice(operation: ExtractStridedSliceOp, source: Numbers) -> Numbers:
    (row, column), (rows, columns) = values_of(operation.offsets), values_of(operation.sizes)
    return source[row:row + rows, column:column + columns]


def _cast(operation: ShapeCastOp, source: Numbers) -> Numbers:
    return source.reshape(*shape_of(operation.result), 2)


def _insert(operation: InsertStridedSliceOp, source: Numbers, dest: Numbers) -> Numbers:
    (row, column), (rows, columns) = values_of(operation.offsets), source.shape[:2]
    result = dest.copy()
    result[row:row + rows, column:column + columns] = source
    return result


def rearrange(rewriter: Rewriter, operation: Operation, numbers: Callable[..., Numbers]) -> None:
    """Lower an operation that moves elements: ``numbers`` says which element of its operands each of the result is."""
    (use,) = operation.results[0].uses
    assert isinstance(use.operation, TilePackOp), "blocking packs what it lets these operations give"
    rows, columns, height, width = shape_of(use.operation.result)
    parts = [rewriter.lookup(operand) for operand in operation.operands]
    blocks = [value for part in parts for value in part.values]
    starts = np.cumsum([0, *(len(part.values) for part in parts)])
    elements = numbers(operation, *(_numbered(part, int(first)) for part, first in zip(parts, starts, strict=False)))
    of_blocks = elements.reshape(rows, height, columns, width, 2).swapaxes(1, 2).reshape(-1, height * width, 2)
    sources = of_blocks[:, 0, 0]
    whole = ((of_blocks[..., 0] == sources[:, None]) & (of_blocks[..., 1] == np.arange(height * width))).all(1)
    values = tuple(blocks[source] if is_whole and shape_of(blocks[source]) == (height, width) else
                   _block(rewriter, blocks, block, (height, width))
                   for source, is_whole, block in zip(sources, whole, of_blocks, strict=True))
    form = type(parts[0].encoding)((rows * height, columns * width), (height, width))
    rewriter.set(operation.results[0], values, form)


def _block(rewriter: Rewriter, blocks: list[SSAValue], elements: Numbers, block: Pair) -> SSAValue:
    """The block that these elements make: one shuffle, also of what shuffles have made."""
    roots: dict[SSAValue, int] = {}
    numbers, offsets = elements[:, 0].copy(), elements[:, 1].copy()
    for number in np.unique(elements[:, 0]).tolist():
        here = elements[:, 0] == number
        values, owners, inside = _sources(blocks[number], offsets[here])
        positions = np.array([roots.setdefault(value, len(roots)) for value in values])
        numbers[here], offsets[here] = positions[owners], inside
    taken = [value for value, root in roots.items() if (numbers == root).any()]
    if len(taken) == 1 and shape_of(taken[0]) == block and (offsets == np.arange(len(offsets))).all():
        return taken[0]
    starts = np.zeros(len(roots), int)
    starts[[roots[value] for value in taken]] = np.cumsum([0, *map(_size, taken)])[:-1]
    type_ = taken[0].type
    assert isinstance(type_, VectorType)
    return rewriter.emit(ShuffleOp(taken, (starts[numbers] + offsets).tolist(), vector_type(block, type_.element_type)))


def _sources(value: SSAValue, offsets: Numbers) -> tuple[list[SSAValue], Numbers, Numbers]:
    """Vectors that elements were shuffled from, and for each element its vector's number and its position in that."""
    if not isinstance(value.owner, ShuffleOp):
        return [value], np.zeros(len(offsets), int), offsets
    sources = list(value.owner.sources)
    starts = np.cumsum([0, *map(_size, sources)])
    elements = np.frombuffer(value.owner.mask.data.data, "<i4")[offsets]
    owners = np.searchsorted(starts, elements, "right") - 1
    return sources, owners, elements - starts[owners]


def _size(value: SSAValue) -> int:
    return prod(shape_of(value))


KINDS: dict[type[Operation], Callable[..., Numbers]] = {
    ExtractStridedSliceOp: _slice, ShapeCastOp: _cast, InsertStridedSliceOp: _insert}
"""Operations that move elements, each with the numbers of its result."""
