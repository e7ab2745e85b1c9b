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

from xdsl.dialects import func
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, ModuleOp, VectorType, i8
from xdsl.dialects.vector import BroadcastOp, ExtractOp
from xdsl.ir import Operation, SSAValue

from xegpu.constants import number
from xegpu.dialect import block_ops, synchronisation
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, StoreNdOp
from xegpu.dialect.conversions import IndexCastOp
from xegpu.dialect.descriptors import CreateNdTdescOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.hints import hints_of, of_locality, with_hints
from xegpu.dialect.products import DpasOp
from xegpu.dialect.vectors import InsertStridedSliceOp, TransposeOp, values_of, vector
from xegpu.errors import ShapeError
from xegpu.layouts import LaneMap, operand_b, plain
from xegpu.passes.operands import descriptor_webs, sides
from xegpu.rewriting import Rule
from xegpu.targets import Target
from xegpu.upstream import elements
from xegpu.upstream import ops as upstream
from xegpu.upstream.attributes import Layout, LayoutAttr
from xegpu.upstream.exporting import Export, as_gpu_module, check_chip, desc_type
from xegpu.upstream.reductions import reduced
from xegpu.upstream.vectors import FenceOp
from xegpu.upstream.vectors import InsertStridedSliceOp as UpstreamInsertOp
from xegpu.webs import Webs

_SIDE_BY_SIDE = "blocks side by side"


def export(function: func.FuncOp, target: Target, access: Sequence[str]) -> ModuleOp:
    """A kernel at stage ``xegpu-blocks`` in LLVM's form, at subgroup level.

    Args:
        function: the kernel.
        target: the device, one that LLVM knows.
        access: for each argument, how it may be reached.

    Raises:
        TargetError: LLVM's dialect lacks the target or something that the kernel needs.
    """
    check_chip(target)
    webs = descriptor_webs(function)
    rules: dict[type[Operation], Rule] = {**RULES, CreateNdTdescOp: _create(webs, target)}
    build = Export(rules, target, dict(zip(function.body.block.args, access, strict=True)))
    counts = function.attributes.get("xegpu.subgroups")
    subgroups = prod(size.value.data for size in counts) if isinstance(counts, ArrayAttr) else 1
    return as_gpu_module(build.function(function), subgroups, target.subgroup)


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
        return operand_b(target.subgroup, parameters.dtype.bits)
    try:
        return plain(target.subgroup, parameters.shape[1])
    except ShapeError:  # LLVM finds one, or says that there is none
        return None


def _load(build: Export, operation: LoadNdOp) -> None:
    desc = desc_of(operation.desc)
    if operation.transposes:
        _turned(build, operation)
        return
    parts = []
    for column in range(0, desc.shape[1] * desc.block.array_length, desc.shape[1]):
        base, starts = build.standing(operation.desc, 0, column)
        load = upstream.LoadNdOp(base, starts, vector(desc.shape, desc.element_type))
        parts.append(build.emit(with_hints(load, hints_of(operation))))
    build.set(operation.result, tuple(parts), _SIDE_BY_SIDE if len(parts) > 1 else None)


def _reduce(build: Export, operation: block_ops.ReduceOp) -> None:
    values = [build.one(source) for source in operation.sources]
    result = operation.result.type
    assert isinstance(result, VectorType)
    build.set(operation.result, reduced(build, operation.kind.data, values, operation.dimensions, result))


def _repeat(build: Export, operation: block_ops.BroadcastOp) -> None:
    result = operation.result.type
    assert isinstance(result, VectorType)
    build.set(operation.result, build.emit(BroadcastOp(build.one(operation.source), result)))


def _fence(build: Export, operation: synchronisation.FenceOp) -> None:
    memory = {"shared": "slm"}.get(operation.memory_kind.data, operation.memory_kind.data)
    build.emit(FenceOp(memory, operation.scope.data))


def _nbarrier(build: Export, operation: synchronisation.InitNbarrierOp) -> None:
    """LLVM counts barriers and participants in bytes."""
    id_, count = (_byte(build, value) for value in operation.operands)
    build.set(operation.result, build.emit(synchronisation.InitNbarrierOp(id_, count, operation.said_producers)))


def _byte(build: Export, value: SSAValue) -> SSAValue:
    if not isinstance(value.type, IndexType):
        return build.one(value)
    known = number(value)
    return build.emit(IndexCastOp(build.one(value), i8) if known is None else ConstantOp(IntegerAttr(known, i8)))


def _insert(build: Export, operation: InsertStridedSliceOp) -> None:
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
    made = upstream.LoadNdOp(*build.standing(operation.desc), vector(desc.shape, desc.element_type))
    load = build.emit(with_hints(made, hints_of(operation)))
    build.set(operation.result, build.emit(TransposeOp(load)))


def _store(build: Export, operation: StoreNdOp) -> None:
    made = upstream.StoreNdOp(build.one(operation.value), *build.standing(operation.desc))
    build.emit(with_hints(made, hints_of(operation)))


def _prefetch(build: Export, operation: PrefetchNdOp) -> None:
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
    LoadNdOp: _load,
    StoreNdOp: _store,
    PrefetchNdOp: _prefetch,
    DpasOp: _dpas,
    ExtractOp: _extract,
    InsertStridedSliceOp: _insert,
    block_ops.ReduceOp: _reduce,
    block_ops.BroadcastOp: _repeat,
    synchronisation.FenceOp: _fence,
    **dict.fromkeys(synchronisation.NAMED, Export.copy),
    synchronisation.InitNbarrierOp: _nbarrier,
    **elements.RULES,
}
