"""XeGPU operations on whole blocks to LLVM's present form of the dialect, at subgroup level.

    %d = create_nd_tdesc %A, [%m, %k0], [%M, %K], [%p, %c1] : ... -> tensor_desc<16x16xbf16, array_length = 2>
    %e = update_nd_offset %d, [%c0, %c32]
    %v = load_nd %e : -> vector<2x16x16xbf16>
becomes
    %d = xegpu.create_nd_tdesc %A, shape : [%M, %K], strides : [%p, 1] : ... -> !xegpu.tensor_desc<16x16xbf16>
    %k = arith.addi %k0, %c32
    %v0 = xegpu.load_nd %d[%m, %k] : ... -> vector<16x16xbf16>
    %v1 = xegpu.load_nd %d[%m, %k + 16]

A descriptor that a loop carries is the two offsets that it carries. Blocks side by side become loads of their own:
LLVM's lowering takes one block a load, and joins neighbours itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import arith, func, memref
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    VectorType,
    i8,
    i64,
)
from xdsl.dialects.vector import BroadcastOp, ExtractOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.webs import Webs, view_webs
from xegpu.dialect import gather_scatter, reduction, sync
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.hints import hints_of, of_locality, with_hints
from xegpu.dialect.vector import IotaOp
from xegpu.interop.llvm import ops as upstream
from xegpu.interop.llvm.export_vector import reduced
from xegpu.interop.llvm.exporter import Export, as_gpu_module, check_chip, desc_type
from xegpu.interop.llvm.gather_scatter import LoadOp, PrefetchOp, StepOp, StoreOp
from xegpu.interop.llvm.types import Layout, LayoutAttr
from xegpu.interop.llvm.vector import FenceOp
from xegpu.interop.llvm.vector import InsertStridedSliceOp as UpstreamInsertOp
from xegpu.ir.matchers import number
from xegpu.ir.memref import is_shared
from xegpu.layout.lane_map import LaneMap, operand_b, plain
from xegpu.mlir.arith import IndexCastOp, SelectOp
from xegpu.mlir.vector import InsertStridedSliceOp, ShapeCastOp, TransposeOp, shape_of, values_of, vector_type
from xegpu.passes.distribute_lanes.operand_roles import sides
from xegpu.rewrite.rewriter import Rule
from xegpu.support.errors import ShapeError
from xegpu.target.targets import Target

# Single elements to LLVM's form of the dialect, a part of ``export``.
#
#     %d = create_tdesc %A, %o : memref<?xf32>, vector<16xindex> -> tensor_desc<16x2xf32, #scatter>
#     %e = update_offset %d, %by
#     %v = load_gather %e, %m {transpose = [1, 0]} : ... -> vector<2x16xf32>
# becomes
#     %p = arith.addi %o, %by : vector<16xindex>
#     %c = xegpu.load %A[%p], %m <{chunk_size = 2 : i64}> : ... -> vector<16x2xf32>
#     %w = arith.select of the mask, %c and zeros
#     %v = vector.transpose %w, [1, 0] : vector<16x2xf32> to vector<2x16xf32>
#
# What is masked off LLVM leaves open. A descriptor that a loop carries is the offsets that it carries.


_ELEMENTS = "single elements of an array"


def _create_tdesc(build: Export, operation: gather_scatter.CreateTdescOp) -> None:
    source = build.one(operation.source)
    if isinstance(source.type, MemRefType) and not _is_line(source.type):
        if is_shared(source.type):
            build.refuse("XT3652",
                         f"LLVM's loads of single elements stand on arrays of one dimension, not on {source.type}",
                         "print the kernel in our own form: .xegpu or .stages")
        source = build.shared(("elements", source), lambda: _address(build, source))
    build.set(operation.result, (source, build.one(operation.offsets)), _ELEMENTS)


def _is_line(type_: MemRefType) -> bool:  # type: ignore[type-arg]
    return len(type_.get_shape()) == 1 and isinstance(type_.layout, NoneAttr)


def _address(build: Export, source: SSAValue) -> SSAValue:
    address = build.emit(memref.ExtractAlignedPointerAsIndexOp.get(source))
    return build.emit(arith.IndexCastOp(address, i64))


def _update_offset(build: Export, operation: gather_scatter.UpdateOffsetOp) -> None:
    source, offsets = build.get(operation.desc).values
    moved = build.emit(arith.AddiOp(offsets, build.one(operation.offsets)))
    build.set(operation.result, (source, moved), _ELEMENTS)


def _load_gather(build: Export, operation: gather_scatter.LoadGatherOp) -> None:
    desc, (source, offsets) = desc_of(operation.desc), build.get(operation.desc).values
    chunk, mask = gather_scatter.scatter_of(desc).chunk_size, build.one(operation.mask)
    made = LoadOp(source, offsets, mask, vector_type(desc.shape, desc.element_type), chunk)
    loaded = build.emit(with_hints(made, hints_of(operation)))
    if chunk > 1:
        column = build.emit(ShapeCastOp(mask, (desc.shape[0], 1)))
        mask = build.emit(BroadcastOp(column, vector_type(desc.shape, column.type.element_type)))  # type: ignore[attr-defined]
    kept = build.emit(SelectOp(mask, loaded, _padding(build, operation, loaded.type)))  # type: ignore[arg-type]
    build.set(operation.result, build.emit(TransposeOp(kept)) if chunk > 1 else kept)


def _padding(build: Export, operation: gather_scatter.LoadGatherOp, type_: VectorType) -> SSAValue:  # type: ignore[type-arg]
    element = type_.element_type
    dtype = desc_of(operation.desc).dtype
    if dtype.kind == "u":
        build.refuse("XT3653", f"MLIR has no constants of {dtype}, which what is masked off would be",
                     "view the array as signed integers of the same size, or print the kernel in our own form")
    if dtype.is_float:
        number: FloatAttr | IntegerAttr = FloatAttr(operation.number, element)  # type: ignore
    else:
        number = IntegerAttr(int(operation.number), element)  # type: ignore
    return build.emit(BroadcastOp(build.emit(arith.ConstantOp(number)), type_))


def _store_scatter(build: Export, operation: gather_scatter.StoreScatterOp) -> None:
    source, offsets = build.get(operation.desc).values
    chunk, value = gather_scatter.scatter_of(desc_of(operation.desc)).chunk_size, build.one(operation.value)
    value = build.emit(TransposeOp(value)) if chunk > 1 else value
    build.emit(with_hints(StoreOp(value, source, offsets, build.one(operation.mask), chunk), hints_of(operation)))


def _prefetch_elements(build: Export, operation: gather_scatter.PrefetchOp) -> None:
    source, offsets = build.get(operation.desc).values
    made = PrefetchOp(source, offsets, desc_of(operation.desc).dtype.bytes)
    build.emit(with_hints(made, hints_of(operation)))


def _iota(build: Export, operation: IotaOp) -> None:
    """Rows or columns, counted from a start, as ``vector.step`` seen along the other dimension."""
    shape, axis = shape_of(operation.result), operation.axis.value.data
    steps = build.emit(StepOp(shape[axis]))
    line = vector_type(shape_of(steps), IndexType())
    counted = build.emit(arith.AddiOp(steps, build.emit(BroadcastOp(build.one(operation.start), line))))
    unit = build.emit(ShapeCastOp(counted, (shape[0], 1) if axis == 0 else (1, shape[1])))
    whole = unit if shape_of(unit) == shape else build.emit(BroadcastOp(unit, vector_type(shape, IndexType())))
    build.set(operation.result, whole)


ELEMENT_RULES: dict[type[Operation], Rule] = {
    gather_scatter.CreateTdescOp: _create_tdesc,
    gather_scatter.UpdateOffsetOp: _update_offset,
    gather_scatter.LoadGatherOp: _load_gather,
    gather_scatter.StoreScatterOp: _store_scatter,
    gather_scatter.PrefetchOp: _prefetch_elements,
    IotaOp: _iota,
}


_SIDE_BY_SIDE = "blocks side by side"


def export(function: func.FuncOp, target: Target, access: Sequence[str]) -> ModuleOp:
    """A kernel at stage ``to-xegpu`` in LLVM's form, at subgroup level.

    Args:
        function: the kernel.
        target: the device, one that LLVM knows.
        access: for each argument, how it may be reached.

    Raises:
        TargetError: LLVM's dialect lacks the target or something that the kernel needs.
    """
    check_chip(target)
    webs = view_webs(function)
    rules: dict[type[Operation], Rule] = {**RULES, CreateNdTdescOp: _create(webs, target)}
    build = Export(rules, target, dict(zip(function.body.block.args, access, strict=True)))
    counts = function.attributes.get("xegpu.subgroups")
    subgroups = prod(size.value.data for size in counts) if isinstance(counts, ArrayAttr) else 1
    return as_gpu_module(build.function(function), subgroups, target.subgroup_size)


def _create(webs: Webs, target: Target) -> Callable[[Export, CreateNdTdescOp], None]:
    def create(build: Export, operation: CreateNdTdescOp) -> None:
        desc, lanes = desc_of(operation.result), _lanes(webs, operation.result, target)
        turned = _is_turned(webs, operation.result)
        layout = LayoutAttr(Layout(lane_layout=lanes.wi_layout, lane_data=lanes.wi_data)) if lanes else None
        build.put(operation, desc_type(desc.shape, desc.element_type, None if turned else layout), turned)

    return create


def _is_turned(webs: Webs, desc: SSAValue) -> bool:
    """Whether a descriptor's blocks are transposed when they are loaded."""
    return any(isinstance(use.operation, LoadNdOp) and use.operation.transposes for use in webs.uses(desc))


def _lanes(webs: Webs, desc: SSAValue, target: Target) -> LaneMap | None:
    """How lanes share what a descriptor moves: B of a product in words along K, all else one element a lane."""
    parameters = desc_of(desc)
    if parameters.dtype.bits < 32 and sides(webs, desc) == {"b"}:
        return operand_b(target.subgroup_size, parameters.dtype.bits)
    try:
        return plain(target.subgroup_size, parameters.shape[1])
    except ShapeError:  # LLVM finds one, or says that there is none
        return None


def _load_nd(build: Export, operation: LoadNdOp) -> None:
    desc = desc_of(operation.desc)
    if operation.transposes:
        _turned(build, operation)
        return
    parts = []
    for column in range(0, desc.shape[1] * desc.block.array_length, desc.shape[1]):
        base, starts = build.standing(operation.desc, 0, column)
        load = upstream.LoadNdOp(base, starts, vector_type(desc.shape, desc.element_type))
        parts.append(build.emit(with_hints(load, hints_of(operation))))
    build.set(operation.result, tuple(parts), _SIDE_BY_SIDE if len(parts) > 1 else None)


def _reduce(build: Export, operation: reduction.ReduceOp) -> None:
    values = [build.one(source) for source in operation.sources]
    result = operation.result.type
    assert isinstance(result, VectorType)
    build.set(operation.result, reduced(build, operation.kind.data, values, operation.dimensions, result))


def _broadcast(build: Export, operation: reduction.BroadcastOp) -> None:
    result = operation.result.type
    assert isinstance(result, VectorType)
    build.set(operation.result, build.emit(BroadcastOp(build.one(operation.source), result)))


def _fence(build: Export, operation: sync.FenceOp) -> None:
    memory = {"shared": "slm"}.get(operation.memory_kind.data, operation.memory_kind.data)
    build.emit(FenceOp(memory, operation.scope.data))


def _init_nbarrier(build: Export, operation: sync.InitNbarrierOp) -> None:
    """LLVM counts barriers and participants in bytes."""
    id_, count = (_byte(build, value) for value in operation.operands)
    build.set(operation.result, build.emit(sync.InitNbarrierOp(id_, count, operation.said_producers)))


def _byte(build: Export, value: SSAValue) -> SSAValue:
    if not isinstance(value.type, IndexType):
        return build.one(value)
    known = number(value)
    return build.emit(IndexCastOp(build.one(value), i8) if known is None else ConstantOp(IntegerAttr(known, i8)))


def _insert_strided_slice(build: Export, operation: InsertStridedSliceOp) -> None:
    made = UpstreamInsertOp(build.one(operation.source), build.one(operation.dest), values_of(operation.offsets))
    build.set(operation.result, build.emit(made))


def _extract(build: Export, operation: ExtractOp) -> None:
    source = build.get(operation.vector)
    if source.form != _SIDE_BY_SIDE:
        build.copy(operation)
        return
    (position,) = operation.static_position.get_values()
    build.set(operation.result, source.values[position])


def _turned(build: Export, operation: LoadNdOp) -> None:
    """A transposed load: LLVM's lowering folds the transposition, and wants an address for it."""
    desc = desc_of(operation.desc)
    made = upstream.LoadNdOp(*build.standing(operation.desc), vector_type(desc.shape, desc.element_type))
    load = build.emit(with_hints(made, hints_of(operation)))
    build.set(operation.result, build.emit(TransposeOp(load)))


def _store_nd(build: Export, operation: StoreNdOp) -> None:
    made = upstream.StoreNdOp(build.one(operation.value), *build.standing(operation.desc))
    build.emit(with_hints(made, hints_of(operation)))


def _prefetch_nd(build: Export, operation: PrefetchNdOp) -> None:
    desc = desc_of(operation.desc)
    for column in range(0, desc.shape[1] * desc.block.array_length, desc.shape[1]):
        hints = hints_of(operation)
        made = upstream.PrefetchNdOp(*build.standing(operation.desc, 0, column))
        build.emit(with_hints(made, {} if hints == of_locality(3) else hints))  # LLVM's own say the same


def _dpas(build: Export, operation: DpasOp) -> None:
    a, b = build.one(operation.a), build.one(operation.b)
    if a.type.element_type != b.type.element_type:  # type: ignore[attr-defined]
        build.refuse("XT3606",
                     f"LLVM's dpas takes two operands of one type, not {operation.a.type} and {operation.b.type}",
                     "convert one of them, or print the kernel in our own form")
    acc = None if operation.acc is None else build.one(operation.acc)
    build.set(operation.result, build.emit(upstream.DpasOp(a, b, acc, operation.result.type)))


RULES: dict[type[Operation], Rule] = {
    UpdateNdOffsetOp: Export.move,
    LoadNdOp: _load_nd,
    StoreNdOp: _store_nd,
    PrefetchNdOp: _prefetch_nd,
    DpasOp: _dpas,
    ExtractOp: _extract,
    InsertStridedSliceOp: _insert_strided_slice,
    reduction.ReduceOp: _reduce,
    reduction.BroadcastOp: _broadcast,
    sync.FenceOp: _fence,
    **dict.fromkeys(sync.NAMED, Export.copy),
    sync.InitNbarrierOp: _init_nbarrier,
    **ELEMENT_RULES,
}
