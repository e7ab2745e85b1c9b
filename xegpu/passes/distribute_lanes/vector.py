"""Lane distribution of vectors: slices are runs of a lane's registers, other vectors lie one element a lane.

    %a = vector.extract_strided_slice %v {offsets = [8, 0], sizes = [8, 16]} : vector<32x16xbf16> to vector<8x16xbf16>
becomes
    %a = vector.extract_strided_slice %v {offsets = [8, 0], sizes = [8, 1]} : vector<32x1xbf16> to vector<8x1xbf16>
"""

from __future__ import annotations

from xdsl.dialects import ub
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.convert_layout import WidenOp
from xegpu.dialect.types import two_sizes
from xegpu.dialect.vector import ExtractScalarOp, IotaOp, ShuffleOp
from xegpu.layout import lane_map
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, values_of
from xegpu.passes.distribute_lanes.operand_roles import CONVERSIONS, widened_side
from xegpu.passes.distribute_lanes.rewriter import Distributed, DistributeLanesRewriter, Shape, WidenedSlice
from xegpu.rewrite.rewriter import ConvertedValues, Rule


def _extract(rewriter: DistributeLanesRewriter, operation: ExtractOp) -> None:
    """``vector.extract`` of a block from a load with ``array_length``."""
    source = rewriter.lookup(operation.vector)
    position = list(operation.static_position.get_values())
    form: Distributed = source.encoding
    element = operation.vector.type.element_type  # type: ignore[attr-defined]
    part = rewriter.fragment(form.shape, form.lanes, element)
    rewriter.set(operation.result, rewriter.emit(ExtractOp(source.values[0], position, part)), form)  # type: ignore


def _extract_scalar(rewriter: DistributeLanesRewriter, operation: ExtractScalarOp) -> None:
    source = rewriter.lookup(operation.vector)
    value = rewriter.converted(source, rewriter.default_map(source.encoding.shape))
    rewriter.set(operation.result, rewriter.emit(ExtractScalarOp(value)))


def _extract_strided_slice(rewriter: DistributeLanesRewriter, operation: ExtractStridedSliceOp) -> None:
    source = rewriter.lookup(operation.source)
    form: Distributed = source.encoding
    factor = form.lanes.wi_data[0] if form.packed else 1
    (row, column, *_), (rows, columns, *_) = values_of(operation.offsets), values_of(operation.sizes)
    if form.lanes.per_lane > 1 and all(widened_side(rewriter.webs, use.operation) for use in operation.result.uses):
        slice_ = WidenedSlice((rows, columns), form.lanes, form.packed, form.shape, (row, column))
        rewriter.set(operation.result, source.values, slice_)
        return
    shape = (rows * factor, columns)
    whole = not any(size % unit for size, unit in zip((row * factor, column, *shape), form.lanes.unit * 2, strict=True))
    lanes = form.lanes if form.packed or whole else rewriter.default_map(shape)
    value, block = rewriter.converted(source, lanes), Distributed(form.shape, lanes, form.packed)
    result = Distributed(shape, lanes, form.packed)
    rewriter.set(operation.result, _units(rewriter, value, block, result, (row * factor, column), operation.source),
                 result)


def _convert(rewriter: DistributeLanesRewriter, operation: Operation) -> None:
    """A conversion between element types; one of words as DPAS takes them is a ``widen``."""
    source, side = rewriter.lookup(operation.operands[0]), widened_side(rewriter.webs, operation)
    form = source.encoding
    if not side or not isinstance(form, Distributed) or form.lanes.per_lane == 1:
        rewriter.copy(operation)
        return
    element = operation.results[0].type.element_type  # type: ignore[attr-defined]
    lanes = (lane_map.operand_a if side == "a" else lane_map.operand_b)(rewriter.target.subgroup_size, 16)
    block, offsets = (form.block, form.offsets) if isinstance(form, WidenedSlice) else (form.shape, (0, 0))
    result = rewriter.fragment(form.shape, lanes, element)
    widen = WidenOp(source.values[0], (form.lanes, lanes), block, offsets, result)
    rewriter.set(operation.results[0], rewriter.emit(widen), Distributed(form.shape, lanes, side == "b"))


def _units(rewriter: DistributeLanesRewriter, value: SSAValue, source: Distributed, part: Distributed, at: Shape,
           block: SSAValue) -> SSAValue:
    """The fragment of a part of a block, which may be whole units only: a run of them, or several put together."""
    height, width = source.lanes.unit
    if at[0] % height or at[1] % width or part.shape[0] % height:
        rewriter.fail("XT3523",
                   f"a slice of {part.shape[0]}x{part.shape[1]} at {list(at)} of a "
                   f"{source.shape[0]}x{source.shape[1]} block "
                   f"does not fall on whole registers ({height}x{width} elements each)",
                   f"start at a row that is a multiple of {height} and a column that is one of {width}, and take whole "
                   f"registers; or store the block, and load the part", **{"the block": block})
    across, count = source.shape[1] // width, part.shape[1] // width
    first = at[0] // height * across + at[1] // width
    rows = part.shape[0] // height
    if count == across or rows == 1:
        return rewriter.emit(ExtractStridedSliceOp(value, (first, 0), (rows * count, source.lanes.per_lane)))
    runs = [rewriter.emit(ExtractStridedSliceOp(value, (first + i * across, 0), (count, source.lanes.per_lane)))
            for i in range(rows)]
    result: SSAValue = rewriter.emit(ub.PoisonOp(rewriter.fragment(part.shape, part.lanes, value.type.element_type)))  # type: ignore
    for i, run in enumerate(runs):
        result = rewriter.emit(InsertStridedSliceOp(run, result, (i * count, 0)))
    return result


def _insert_strided_slice(rewriter: DistributeLanesRewriter, operation: InsertStridedSliceOp) -> None:
    source, dest = rewriter.lookup(operation.source), rewriter.lookup(operation.dest)
    form: Distributed = dest.encoding
    part: Distributed = source.encoding
    row, column = values_of(operation.offsets)
    if part.lanes != form.lanes:
        source, dest = _assembled(rewriter, source, dest)
        form, part = dest.encoding, source.encoding
    height, width = form.lanes.unit
    if part.lanes != form.lanes or row % height or column % width:
        rewriter.fail("XT3523",
                   f"blocks of {part.shape[0]}x{part.shape[1]} do not assemble into {form.shape[0]}x{form.shape[1]} on "
                   f"whole registers ({height}x{width} elements each)",
                   f"put them at rows that are multiples of {height} and columns that are multiples of {width}, or "
                   f"store "
                   "the parts, and load the whole", **{"the part": operation.source, "the whole": operation.dest})
    across, count = form.shape[1] // width, part.shape[1] // width
    first, rows = row // height * across + column // width, part.shape[0] // height
    if count == across:
        rows, count = 1, rows * count
    result = dest.values[0]
    for i in range(rows):
        run = source.values[0] if rows == 1 else \
            rewriter.emit(ExtractStridedSliceOp(source.values[0], (i * count, 0), (count, form.lanes.per_lane)))
        result = rewriter.emit(InsertStridedSliceOp(run, result, (first + i * across, 0)))
    rewriter.set(operation.result, result, form)


def _assembled(rewriter: DistributeLanesRewriter, source: ConvertedValues,
               dest: ConvertedValues) -> tuple[ConvertedValues, ConvertedValues]:
    """A part and the block that it is inserted into under one map: the block's, if the part has whole units of it."""
    block: Distributed = dest.encoding
    part: Distributed = source.encoding
    if not any(size % unit for size, unit in zip(part.shape, block.lanes.unit, strict=True)):
        return ConvertedValues((rewriter.converted(source, block.lanes),), rewriter.form(part.shape, block.lanes)), dest
    if isinstance(dest.values[0].owner, ub.PoisonOp):  # nothing is in it yet
        element = dest.values[0].type.element_type  # type: ignore[attr-defined]
        fragment = rewriter.fragment(block.shape, part.lanes, element)
        return source, ConvertedValues((rewriter.emit(ub.PoisonOp(fragment)),), rewriter.form(block.shape, part.lanes))
    return source, ConvertedValues((rewriter.converted(dest, part.lanes),), rewriter.form(block.shape, part.lanes))


def _poison(rewriter: DistributeLanesRewriter, operation: ub.PoisonOp) -> None:
    shape, element = shape_of(operation.result), operation.result.type.element_type  # type: ignore[attr-defined]
    form = Distributed((shape[0], shape[1]), rewriter.default_map((shape[0], shape[1])))
    fragment = rewriter.fragment(form.shape, form.lanes, element)
    new_op = ub.PoisonOp.create(result_types=[fragment], properties=dict(operation.properties))
    rewriter.set(operation.result, rewriter.emit(new_op), form)


def _broadcast(rewriter: DistributeLanesRewriter, operation: BroadcastOp) -> None:
    shape = operation.vector.type.get_shape()
    if len(shape) == 1:
        line = VectorType(operation.vector.type.element_type, (1,))
        value = rewriter.emit(BroadcastOp(rewriter.single(operation.source), line))
        rewriter.set(operation.vector, value, rewriter.line(shape[0]))
        return
    form = Distributed((shape[0], shape[1]), rewriter.default_map((shape[0], shape[1])))
    fragment = rewriter.fragment(form.shape, form.lanes, operation.vector.type.element_type)
    rewriter.set(operation.vector, rewriter.emit(BroadcastOp(rewriter.single(operation.source), fragment)), form)


def _iota(rewriter: DistributeLanesRewriter, operation: IotaOp) -> None:
    shape = operation.block_shape()
    form = Distributed(shape, rewriter.default_map(shape))
    fragment = rewriter.fragment(shape, form.lanes, operation.result.type.element_type)  # type: ignore[attr-defined]
    new_op = IotaOp(rewriter.single(operation.start), operation.axis.value.data, fragment, shape, form.lanes)
    rewriter.set(operation.result, rewriter.emit(new_op), form)


def _shuffle(rewriter: DistributeLanesRewriter, operation: ShuffleOp) -> None:
    parts = [rewriter.lookup(source) for source in operation.sources]
    if any(part.encoding.packed for part in parts):
        rewriter.refuse_packed(operation)
    shape = two_sizes(shape_of(operation.result))
    shapes = [part.encoding.shape for part in parts]
    maps = [part.encoding.lanes if part.encoding.lanes.per_lane == 1 else rewriter.default_map(part.encoding.shape)
            for part in parts]
    form = rewriter.form(shape, rewriter.default_map(shape))
    values = [rewriter.converted(part, lanes) for part, lanes in zip(parts, maps, strict=True)]
    fragment = rewriter.fragment(shape, form.lanes, operation.result.type.element_type)  # type: ignore[attr-defined]
    shuffled = ShuffleOp(values, operation.mask.get_values(), fragment, [*shapes, shape], [*maps, form.lanes])
    rewriter.shuffles.append(shuffled)
    rewriter.set(operation.result, rewriter.emit(shuffled), form)


RULES: dict[type[Operation], Rule] = {
    ShuffleOp: _shuffle, ExtractOp: _extract, ExtractScalarOp: _extract_scalar,
    ExtractStridedSliceOp: _extract_strided_slice, InsertStridedSliceOp: _insert_strided_slice,
    **dict.fromkeys(CONVERSIONS, _convert), ub.PoisonOp: _poison, BroadcastOp: _broadcast, IotaOp: _iota,
}
"""Rules of :mod:`xegpu.passes.distribute_lanes`."""
