"""Reductions, broadcasts and transpositions of blocked vectors to operations on single blocks.

    %r = tile_reduce <add> %v [1, 3] : vector<1x2x16x16xf32> -> vector<1x1x16x1xf32>
    %b = tile_broadcast %r [1, 3] : vector<1x1x16x1xf32> -> vector<1x2x16x16xf32>
    %t = tile_transpose (unpack %b) : vector<16x32xf32> -> vector<32x16xf32>
becomes
    %r = xegpu.reduce %v0, %v1 {kind = "add", axes = [1]} : vector<16x16xf32>, vector<16x16xf32> -> vector<16x1xf32>
    %b = xegpu.broadcast %r {axes = [1]} : vector<16x1xf32> -> vector<16x16xf32>        the same for both blocks
    %t0 = vector.transpose %b, [1, 0] ; %t1 = vector.transpose %b, [1, 0]
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from xegpu.dialect.reduction import BroadcastOp, ReduceOp
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.combining_kind import keep_nnan
from xegpu.mlir.vector import TransposeOp, shape_of
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.wg_map import Pair

Reblock = Callable[[Rewriter, ConvertedValues, Pair], ConvertedValues]
"""Converts a blocked vector to blocks of another shape."""


def _block_grid(value: SSAValue) -> tuple[tuple[int, ...], Attribute]:
    """The shape of a blocked vector, and the type of one of its blocks."""
    type_ = value.type
    assert isinstance(type_, VectorType)
    shape = type_.get_shape()
    return shape, VectorType(type_.element_type, shape[2:])


def _axes(operation: TileReduceOp | TileBroadcastOp) -> tuple[int, ...]:
    return tuple(axis for axis in axes_of(operation) if axis < 2)


def reduce(rewriter: Rewriter, operation: TileReduceOp) -> tuple[SSAValue, ...]:
    """``tile_reduce``: each block of the result is one ``xegpu.reduce`` of the source's blocks along the axes."""
    (down, across, *_), (rows, columns, *_) = shape_of(operation.source), shape_of(operation.result)
    values, part, axes = rewriter.lookup(operation.source).values, _block_grid(operation.result)[1], _axes(operation)
    reduced = []
    for i in range(rows):
        for j in range(columns):
            blocks = [values[r * across + c] for r in (range(down) if 0 in axes else (i,))
                      for c in (range(across) if 1 in axes else (j,))]
            reduced.append(rewriter.emit(keep_nnan(ReduceOp(operation.kind.data, blocks, axes, part), operation)))
    return tuple(reduced)


def broadcast(rewriter: Rewriter, operation: TileBroadcastOp) -> tuple[SSAValue, ...]:
    """``tile_broadcast``: one ``xegpu.broadcast`` for each block of the source; equal blocks are one value."""
    (rows, columns, *_), part = _block_grid(operation.result)
    values, axes = rewriter.lookup(operation.source).values, _axes(operation)
    _, across, *_ = shape_of(operation.source)
    broadcasts = {value: rewriter.emit(BroadcastOp(value, axes, part)) for value in values}
    return tuple(broadcasts[values[(0 if 0 in axes else i) * across + (0 if 1 in axes else j)]]
                 for i in range(rows) for j in range(columns))


def transpose(rewriter: Rewriter, source: ConvertedValues, lanes: int,
              reblock: Reblock) -> tuple[tuple[SSAValue, ...], Pair]:
    """``tile_transpose``: the row-major blocks of the result, and their shape.

    Blocks are squares of ``lanes`` where these divide the vector, or as many squares below each other as elements fit
    into 32 bits: these are moved together.
    """
    form: Any = source.encoding
    rows, columns = form.shape
    together = max(4 // of_mlir(source.values[0].type.element_type).bytes, 1)  # type: ignore[attr-defined]
    block = gcd(rows, lanes * together), gcd(columns, lanes)
    values = reblock(rewriter, source, block).values
    down, across = rows // block[0], columns // block[1]
    transposed = {value: rewriter.emit(TransposeOp(value)) for value in values}
    return tuple(transposed[values[i * across + j]] for j in range(across) for i in range(down)), (block[1], block[0])
