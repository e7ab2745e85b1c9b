"""Blocks taken apart and put together, as runs of a lane's registers: a part of ``distribute``.

    %a = vector.extract_strided_slice %v {offsets = [8, 0], sizes = [8, 16]} : vector<32x16xbf16> to vector<8x16xbf16>
becomes
    %a = vector.extract_strided_slice %v {offsets = [8, 0], sizes = [8, 1]} : vector<32x1xbf16> to vector<8x1xbf16>
"""

from __future__ import annotations

from xdsl.dialects import ub
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp, ExtractOp
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.debug import AssertOp, DiagnosticOp, PrintOp
from xegpu.dialect.vector import IotaOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, values_of
from xegpu.passes.distribute_lanes.rewriter import Distributed, Distributor, Shape
from xegpu.rewrite.rewriter import Parts, Rule


def _extract(build: Distributor, operation: ExtractOp) -> None:
    """One of the blocks that lie side by side in a message."""
    source = build.get(operation.vector)
    position = list(operation.static_position.get_values())
    form: Distributed = source.form
    element = operation.vector.type.element_type  # type: ignore[attr-defined]
    part = build.fragment(form.shape, form.lanes, element)
    build.set(operation.result, build.emit(ExtractOp(source.values[0], position, part)), form)  # type: ignore


def _extract_strided_slice(build: Distributor, operation: ExtractStridedSliceOp) -> None:
    source = build.get(operation.source)
    form: Distributed = source.form
    factor = form.lanes.wi_data[0] if form.packed else 1
    (row, column, *_), (rows, columns, *_) = values_of(operation.offsets), values_of(operation.sizes)
    shape = (rows * factor, columns)
    whole = not any(size % unit for size, unit in zip((row * factor, column, *shape), form.lanes.unit * 2, strict=True))
    lanes = form.lanes if form.packed or whole else build.plain(shape)
    value, block = build.converted(source, lanes), Distributed(form.shape, lanes, form.packed)
    result = Distributed(shape, lanes, form.packed)
    build.set(operation.result, _units(build, value, block, result, (row * factor, column), operation.source), result)


def _units(build: Distributor, value: SSAValue, source: Distributed, part: Distributed, at: Shape,
           block: SSAValue) -> SSAValue:
    """The fragment of a part of a block, which may be whole units only: a run of them, or several put together."""
    height, width = source.lanes.unit
    if at[0] % height or at[1] % width or part.shape[0] % height:
        build.fail("XT3523",
                   f"a slice of {part.shape[0]}x{part.shape[1]} at {list(at)} of a "
                   f"{source.shape[0]}x{source.shape[1]} block "
                   f"does not fall on whole registers ({height}x{width} elements each)",
                   f"start at a row that is a multiple of {height} and a column that is one of {width}, and take whole "
                   f"registers; or store the block, and load the part", **{"the block": block})
    across, count = source.shape[1] // width, part.shape[1] // width
    first = at[0] // height * across + at[1] // width
    rows = part.shape[0] // height
    if count == across or rows == 1:
        return build.emit(ExtractStridedSliceOp(value, (first, 0), (rows * count, source.lanes.per_lane)))
    runs = [build.emit(ExtractStridedSliceOp(value, (first + i * across, 0), (count, source.lanes.per_lane)))
            for i in range(rows)]
    result: SSAValue = build.emit(ub.PoisonOp(build.fragment(part.shape, part.lanes, value.type.element_type)))  # type: ignore
    for i, run in enumerate(runs):
        result = build.emit(InsertStridedSliceOp(run, result, (i * count, 0)))
    return result


def _insert_strided_slice(build: Distributor, operation: InsertStridedSliceOp) -> None:
    source, dest = build.get(operation.source), build.get(operation.dest)
    form: Distributed = dest.form
    part: Distributed = source.form
    row, column = values_of(operation.offsets)
    if part.lanes != form.lanes:
        source, dest = _assembled(build, source, dest)
        form, part = dest.form, source.form
    height, width = form.lanes.unit
    if part.lanes != form.lanes or row % height or column % width:
        build.fail("XT3523",
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
            build.emit(ExtractStridedSliceOp(source.values[0], (i * count, 0), (count, form.lanes.per_lane)))
        result = build.emit(InsertStridedSliceOp(run, result, (first + i * across, 0)))
    build.set(operation.result, result, form)


def _assembled(build: Distributor, source: Parts, dest: Parts) -> tuple[Parts, Parts]:
    """A part and the block that it goes into under one map, that of the block if the part is whole units of it."""
    block: Distributed = dest.form
    part: Distributed = source.form
    if not any(size % unit for size, unit in zip(part.shape, block.lanes.unit, strict=True)):
        return Parts((build.converted(source, block.lanes),), build.form(part.shape, block.lanes)), dest
    if isinstance(dest.values[0].owner, ub.PoisonOp):  # nothing is in it yet
        element = dest.values[0].type.element_type  # type: ignore[attr-defined]
        fragment = build.fragment(block.shape, part.lanes, element)
        return source, Parts((build.emit(ub.PoisonOp(fragment)),), build.form(block.shape, part.lanes))
    return source, Parts((build.converted(dest, part.lanes),), build.form(block.shape, part.lanes))


RULES: dict[type[Operation], Rule] = {
    ExtractOp: _extract, ExtractStridedSliceOp: _extract_strided_slice, InsertStridedSliceOp: _insert_strided_slice,
}
"""Rules of :mod:`xegpu.passes.distribute_lanes`."""


# Vectors that come from no other block, and those that are told of, to the fragments of one lane.
#
# A part of ``distribute``: one element a lane along its rows.


def _poison(build: Distributor, operation: ub.PoisonOp) -> None:
    shape, element = shape_of(operation.result), operation.result.type.element_type  # type: ignore[attr-defined]
    form = Distributed((shape[0], shape[1]), build.plain((shape[0], shape[1])))
    fragment = build.fragment(form.shape, form.lanes, element)
    made = ub.PoisonOp.create(result_types=[fragment], properties=dict(operation.properties))
    build.set(operation.result, build.emit(made), form)


def _broadcast(build: Distributor, operation: BroadcastOp) -> None:
    shape = operation.vector.type.get_shape()
    if len(shape) == 1:
        line = VectorType(operation.vector.type.element_type, (1,))
        value = build.emit(BroadcastOp(build.one(operation.source), line))
        build.set(operation.vector, value, build.line(shape[0]))
        return
    form = Distributed((shape[0], shape[1]), build.plain((shape[0], shape[1])))
    fragment = build.fragment(form.shape, form.lanes, operation.vector.type.element_type)
    build.set(operation.vector, build.emit(BroadcastOp(build.one(operation.source), fragment)), form)


def _iota(build: Distributor, operation: IotaOp) -> None:
    shape = operation.block_shape()
    form = Distributed(shape, build.plain(shape))
    fragment = build.fragment(shape, form.lanes, operation.result.type.element_type)  # type: ignore[attr-defined]
    made = IotaOp(build.one(operation.start), operation.axis.value.data, fragment, shape, form.lanes)
    build.set(operation.result, build.emit(made), form)


def _diagnostic(build: Distributor, operation: DiagnosticOp) -> None:
    """Vectors one element a lane; where the lanes repeat what they hold, the first ones speak."""
    form = next((f for value in operation.values if isinstance(f := build.get(value).form, Distributed)), None)
    if form is None:
        build.copy(operation)
        return
    lanes = build.plain(form.shape)
    parts = [build.get(value) for value in operation.values]
    values = [build.converted(part, lanes) if isinstance(part.form, Distributed) else part.values[0] for part in parts]
    build.emit(type(operation)(operation.message.data, values, lanes.lanes))


VALUE_RULES: dict[type[Operation], Rule] = {
    ub.PoisonOp: _poison, BroadcastOp: _broadcast, IotaOp: _iota, PrintOp: _diagnostic, AssertOp: _diagnostic,
}
"""Rules of :mod:`xegpu.passes.distribute_lanes`."""
