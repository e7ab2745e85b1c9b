"""Conversion of shape casts, broadcasts and reductions of vectors of any rank: the blocks of two dimensions they are.

    %w = vector.shape_cast %v : vector<8x64xf32> to vector<2x16x16xf32>
becomes
    %w = vector.shape_cast %v {wg_map = ...} : vector<8x64xf32> to vector<32x16xf32>

which :mod:`xetile.text.canonicalize.reshape` takes through shared local memory. A vector of one dimension is a block of
one row, or, where a reduction of rows left it, of one column; a transpose leads from one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import prod
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, VectorType, i1
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.interop.llvm.dialect.matrix import flat_shape
from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.interop.llvm.export_vector import is_neutral
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.vector import ShapeCastOp, shape_of, shape_of_type
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.tile_ops import text
from xetile.dialect.types import WgMapAttr
from xetile.dialect.vector import IotaOp
from xetile.dialect.wg_map import Pair, WgMap
from xetile.dialect.wg_map_inference import map_of
from xetile.text.llvm.elements import BLOCK, number, positions, splat, spread

SCALAR = "a number, as a block of one element"
"""Encoding of a scalar that a reduction left."""


def reshaped(rewriter: Any, value: SSAValue, shape: Pair, map_: WgMap | None = None) -> SSAValue:
    """Block with the same elements in the same order, in another shape."""
    rows, columns = shape_of(value)
    if (rows, columns) == shape:
        return value
    map_ = map_ or _map_like(value, shape)
    owner = value.owner
    if isinstance(owner, ShapeCastOp):
        return reshaped(rewriter, owner.source, shape, map_)
    if isinstance(owner, BroadcastOp) and not isinstance(owner.source.type, VectorType):
        return splat(rewriter, owner.source, shape, map_)
    element = value.type.element_type  # type: ignore[attr-defined]
    if (isinstance(element, IndexType) or element == i1) and \
            (computed := _Recomputed(rewriter, shape, map_).value(value)) is not None:
        return computed
    if (columns, rows) == shape and 1 in shape:
        return rewriter.transposed(value, map_)  # type: ignore[no-any-return]
    if isinstance(element, IndexType) or element == i1 or of_mlir(element).bits < 8:
        rewriter.refuse("XT2409", f"a block of {rows}x{columns} {element} is not cast to {text(shape)}",
                        "cast vectors of numbers, which shared local memory holds, or compute it in that shape")
    cast = ShapeCastOp(value, shape)
    if map_ is not None:
        cast.attributes["wg_map"] = WgMapAttr(map_)
    return rewriter.emit(cast)  # type: ignore[no-any-return]


class _Recomputed:
    """Indices and masks in another shape: computed from the positions of elements, as the ones that are there.

    Args:
        rewriter: the import.
        shape, map_: of the new blocks.
    """

    def __init__(self, rewriter: Any, shape: Pair, map_: WgMap | None) -> None:
        self.rewriter, self.shape, self.map = rewriter, shape, map_
        self._known: dict[SSAValue, SSAValue | None] = {}

    def value(self, value: SSAValue) -> SSAValue | None:
        """The block of a value's elements; None if it is not computed from numbers and positions alone."""
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def _compute(self, value: SSAValue) -> SSAValue | None:
        owner = value.owner
        if not isinstance(value.type, VectorType):
            return value
        if isinstance(owner, BroadcastOp) and not isinstance(owner.source.type, VectorType):
            return splat(self.rewriter, owner.source, self.shape, self.map)
        if isinstance(owner, IotaOp):
            return self._positions(owner)
        if not isinstance(owner, Operation) or not owner.name.startswith("arith.") or len(owner.results) != 1:
            return None
        operands = [new for operand in owner.operands if (new := self.value(operand)) is not None]
        if not operands or len(operands) < len(owner.operands):
            return None
        type_ = VectorType(value.type.element_type, self.shape)
        return self.rewriter.emit(type(owner).create(  # type: ignore[no-any-return]
            operands=operands, result_types=[type_], properties=owner.properties, location=owner.location))

    def _positions(self, iota: IotaOp) -> SSAValue:
        """Row or column that each element has in the block of an iota."""
        columns = shape_of(iota.result)[1]
        row, column = (positions(self.rewriter, self.shape, axis, self.map) for axis in (0, 1))
        at = self._with(arith.AddiOp, self._with(arith.MuliOp, row, self.shape[1]), column)
        old_row = self._with(arith.FloorDivSIOp, at, columns)
        if iota.axis.value.data == 0:
            return old_row
        return self._with(arith.SubiOp, at, self._with(arith.MuliOp, old_row, columns))

    def _with(self, kind: Any, left: SSAValue, right: SSAValue | int) -> SSAValue:
        """An operation on a block, and another or a number."""
        block = number(self.rewriter, right, self.shape, self.map) if isinstance(right, int) else right
        return self.rewriter.emit(kind(left, block))  # type: ignore[no-any-return]


def _map_like(value: SSAValue, shape: Pair) -> WgMap | None:
    """Work-group map of a shape for the subgroups of a value: rows, columns, or all in each subgroup."""
    known = map_of(value)
    if known is None:
        return None
    count = known.subgroups
    for axis in (0, 1):
        if shape[axis] % count == 0:
            part = tuple(size // count if axis == at else size for at, size in enumerate(shape))
            return WgMap((count, 1) if axis == 0 else (1, count), (part[0], part[1]))
    return WgMap((count, 1), shape)


def _map_of_part(map_: WgMap | None, shape: Pair) -> WgMap | None:
    """Work-group map of a row, a column or an element that is repeated to a block of a map."""
    if map_ is None:
        return None
    rows, columns = (1 if size == 1 else part for size, part in zip(shape, map_.sg_data, strict=True))
    return WgMap(map_.sg_layout, (rows, columns))


def shape_cast(rewriter: Any, operation: ShapeCastOp) -> None:
    """Convert a shape cast: a no-op between fragments of a lane."""
    source, result = rewriter.lookup(operation.source), operation.result.type
    assert isinstance(result, VectorType)
    if rewriter.facts.of_lanes or len(source.values) > 1:
        if not rewriter.facts.of_lanes:
            rewriter.refuse("XT2409", f"{operation.source.type} is cast to {result}, and is blocks side by side",
                            "extract the blocks first")
        rewriter.set(operation.result, source.values, source.encoding)
        return
    value = source.values[0]
    if len(result.get_shape()) > 1 or 1 not in shape_of(value):
        shape = rewriter.block_of(operation.result)
        value = reshaped(rewriter, value, shape, rewriter.map_of(rewriter.facts.layout(operation.result), shape))
    rewriter.set(operation.result, value, source.encoding)


def broadcast(rewriter: Any, operation: BroadcastOp) -> None:
    """Convert ``vector.broadcast`` of a vector: along the rows, then block after block."""
    source, target = (shape_of_type(value.type) for value in (operation.source, operation.vector))
    shape = rewriter.block_of(operation.vector)
    map_ = rewriter.map_of(rewriter.facts.layout(operation.vector), shape)
    value = rewriter.single(operation.source)
    owner = value.owner
    if isinstance(owner, BroadcastOp) and not isinstance(owner.source.type, VectorType):
        rewriter.set(operation.vector, splat(rewriter, owner.source, shape, map_), BLOCK)
        return
    if len(source) == 1 and len(target) > 1 and not rewriter.facts.of_lanes:
        value = reshaped(rewriter, value, (1, source[0]), _map_of_part(map_, (1, source[0])))
    rows, columns = shape_of(value)
    if rows in (1, shape[0]) and columns in (1, shape[1]):
        rewriter.set(operation.vector, spread(rewriter, value, shape, map_), BLOCK)
        return
    lead = (1,) * (len(target) - len(source)) + source
    outer = len(list(takewhile(lambda size: size == 1, lead[:-1])))
    if lead[outer:-1] != target[outer:-1]:
        rewriter.refuse("XT2416", f"{operation.source.type} does not repeat in the rows of {operation.vector.type}",
                        "repeat the last dimension, the first ones, or both")
    block, times = rows * shape[1], prod(target[:outer])
    wide = (rows, shape[1])
    line = reshaped(rewriter, spread(rewriter, value, wide, _map_like(value, wide)), (1, block))
    repeated = spread(rewriter, line, (times, block), _map_like(line, (times, block)))
    rewriter.set(operation.vector, reshaped(rewriter, repeated, shape, map_), BLOCK)


def multi_reduction(rewriter: Any, operation: MultiReductionOp) -> None:
    """Convert ``vector.multi_reduction`` to ``tile_reduce``: the last dimensions, then the first ones."""
    kind = operation.kind.data
    result = _reduced(rewriter, operation, kind)
    is_vector = isinstance(operation.result.type, VectorType)
    if is_vector and not rewriter.facts.of_lanes and len(shape_of_type(operation.result.type)) > 1:
        shape = flat_shape(shape_of_type(operation.result.type))
        result = reshaped(rewriter, result, shape, rewriter.map_of(rewriter.facts.layout(operation.result), shape))
    if not is_neutral(operation):
        acc = rewriter.aligned(rewriter.as_block(operation.acc), shape_of(result))
        result = rewriter.combine(operation, result, acc)
    rewriter.set(operation.result, result, BLOCK if is_vector else SCALAR)


def _reduced(rewriter: Any, operation: MultiReductionOp, kind: str) -> SSAValue:
    """Reduced block without the accumulator: a row, a column, or one element."""
    value: SSAValue = rewriter.single(operation.source)
    sizes, axes = shape_of_type(operation.source.type), set(operation.axes)
    last, lead = len(sizes) - 1, {axis for axis, size in enumerate(sizes[:-1]) if size > 1}
    if len(sizes) == 1:
        return _along(rewriter, kind, value, [0 if shape_of(value)[1] == 1 else 1] if axes else [])
    rows = lead & axes
    if not rows or rows == lead:
        by_rows = rows or (not lead and axes - {last})
        return _along(rewriter, kind, value, [*([0] if by_rows else []), *([1] if last in axes else [])])
    kept = [axis for axis, size in enumerate(sizes) if axis not in axes and size > 1]
    if rewriter.facts.of_lanes or any(kept[0] < axis < kept[-1] and sizes[axis] > 1 for axis in axes):
        rewriter.refuse("XT3631", f"dimensions between those that remain of {operation.source.type} are reduced",
                        "reduce the first dimensions, the last ones, or both")
    inner, outer = (prod(sizes[axis] for axis in side) for side in (
        [axis for axis in axes if axis > kept[-1]], [axis for axis in axes if axis < kept[0]]))
    if inner > 1:
        value = _along(rewriter, kind, reshaped(rewriter, value, (prod(sizes) // inner, inner)), [1])
    if outer > 1:
        value = _along(rewriter, kind, reshaped(rewriter, value, (outer, prod(sizes) // inner // outer)), [0])
    return value


def _along(rewriter: Any, kind: str, value: SSAValue, axes: Sequence[int]) -> SSAValue:
    for axis in axes:
        value = rewriter.emit(TileReduceOp(kind, value, (axis,)))
    return value
