"""Lane distribution of reductions, broadcasts and transpositions of blocks in registers.

    %r = xegpu.reduce %v {kind = "add", axes = [1]} : vector<16x16xf32> -> vector<16x1xf32>
    %t = vector.transpose %v, [1, 0] : vector<16x16xf32> to vector<16x16xf32>
becomes, a lane holding one element of each row of ``%v``,
    %r = xegpu.reduce %v {..., source_map = <[1, 16]>, target_map = <[16, 1]>} : vector<16x1xf32> -> vector<1x1xf32>

A transposition is no operation here: the fragment is that of the transposed block under the transposed map. What needs
another map converts it.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from xdsl.dialects import ub
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from xegpu.dialect.reduction import BroadcastOp, ReduceOp
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.combining_kind import keep_nnan
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, TransposeOp, shape_of
from xegpu.rewrite.rewriter import ConvertedValues, Rule


def _reduce(rewriter: Any, operation: ReduceOp) -> None:
    parts = [rewriter.lookup(source) for source in operation.sources]
    shape, result, element = parts[0].encoding.shape, shape_of(operation.result), operation.result.type.element_type  # type: ignore
    lanes = rewriter.common_map([part.encoding for part in parts])
    target = rewriter.default_map(result)
    values = [rewriter.converted(part, lanes) for part in parts]
    fragment = VectorType(element, target.fragment(result))
    new_op = ReduceOp(operation.kind.data, values, operation.dimensions, fragment, (lanes, target), shape)
    rewriter.set(operation.result, rewriter.emit(keep_nnan(new_op, operation)), rewriter.form(result, target))


def _broadcast(rewriter: Any, operation: BroadcastOp) -> None:
    source, (rows, columns) = rewriter.lookup(operation.source), shape_of(operation.result)
    shape = rows, columns
    lanes, target = rewriter.default_map(source.encoding.shape), rewriter.default_map(shape)
    fragment = VectorType(operation.result.type.element_type, target.fragment(shape))  # type: ignore[attr-defined]
    new_op = BroadcastOp(rewriter.converted(source, lanes), operation.dimensions, fragment, (lanes, target), shape)
    rewriter.set(operation.result, rewriter.emit(new_op), rewriter.form(shape, target))


def _transpose(rewriter: Any, operation: TransposeOp) -> None:
    source = rewriter.lookup(operation.source)
    if source.encoding.packed:
        rewriter.refuse_packed(operation)
    new = transposed(rewriter, source)
    rewriter.set(operation.result, new.values[0], new.encoding)


def transposed(rewriter: Any, source: ConvertedValues) -> ConvertedValues:
    """Transpose of a fragment in registers: with lanes along one dimension, only the map changes."""
    shape = source.encoding.shape
    lanes = source.encoding.lanes.along_one(shape)
    value = transposed_units(rewriter, rewriter.converted(source, lanes), shape, lanes)
    return ConvertedValues((value,), rewriter.form(shape[::-1], lanes.transposed))


def transposed_units(rewriter: Any, value: SSAValue, shape: tuple[int, int], lanes: LaneMap) -> SSAValue:
    """A fragment with its units column by column: so they are row by row in the transposed block."""
    rows, columns = (size // unit for size, unit in zip(shape, lanes.unit, strict=True))
    if min(rows, columns) == 1:
        return value
    result: SSAValue = rewriter.emit(ub.PoisonOp(value.type))
    for position, (j, i) in enumerate(product(range(columns), range(rows))):
        unit = rewriter.emit(ExtractStridedSliceOp(value, (i * columns + j, 0), (1, lanes.per_lane)))
        result = rewriter.emit(InsertStridedSliceOp(unit, result, (position, 0)))
    return result


RULES: dict[type[Any], Rule] = {ReduceOp: _reduce, BroadcastOp: _broadcast, TransposeOp: _transpose}
"""Rules of :mod:`xegpu.passes.distribute_lanes`, whose rebuilder knows the maps."""
