"""Exporter of block-level XeGPU to LLVM's XeGPU dialect, at subgroup level.

    %d = create_nd_tdesc %A, [%m, %k0], [%M, %K], [%p, %c1] : ... -> tensor_desc<16x16xbf16, array_length = 2>
    %e = update_nd_offset %d, [%c0, %c32]
    %v = load_nd %e : -> vector<2x16x16xbf16>
becomes
    %d = xegpu.create_nd_tdesc %A, shape : [%M, %K], strides : [%p, 1] : ... -> !xegpu.tensor_desc<16x16xbf16>
    %k = arith.addi %k0, %c32
    %v0 = xegpu.load_nd %d[%m, %k] : ... -> vector<16x16xbf16>
    %v1 = xegpu.load_nd %d[%m, %k + 16]

A loop-carried descriptor becomes two loop-carried offsets. Blocks side by side become separate loads: LLVM's lowering
takes one block per load, and merges adjacent ones itself.

Scattered descriptors:

    %d = create_tdesc %A, %o : memref<?xf32>, vector<16xindex> -> tensor_desc<16x2xf32, #scatter>
    %e = update_offset %d, %by
    %v = load_gather %e, %m {transpose = [1, 0]} : ... -> vector<2x16xf32>
becomes
    %p = arith.addi %o, %by : vector<16xindex>
    %c = xegpu.load %A[%p], %m <{chunk_size = 2 : i64}> : ... -> vector<16x2xf32>
    %w = arith.select of the mask, %c and zeros
    %v = vector.transpose %w, [1, 0] : vector<16x2xf32> to vector<2x16xf32>

LLVM leaves masked-off elements undefined, hence the select. A loop-carried descriptor becomes loop-carried offsets.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    VectorType,
    i8,
    i32,
    i64,
)
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, SSAValue

from xegpu.analysis.memory_access import access_kind
from xegpu.analysis.webs import Webs
from xegpu.dialect import gather_scatter, reduction, sync
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.hints import of_locality, with_hints
from xegpu.dialect.vector import BitcastOp, IotaOp
from xegpu.interop.llvm.correspondence import exported_hints
from xegpu.interop.llvm.dialect import ops as upstream
from xegpu.interop.llvm.dialect.gather_scatter import LoadOp, PrefetchOp, StepOp, StoreOp
from xegpu.interop.llvm.dialect.matrix import LoadMatrixOp, StoreMatrixOp
from xegpu.interop.llvm.dialect.types import Layout, LayoutAttr
from xegpu.interop.llvm.export_vector import reduced
from xegpu.interop.llvm.exporter import Export, desc_type
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import number
from xegpu.ir.memref import is_shared
from xegpu.layout.lane_map import LaneMap, default, operand_b
from xegpu.mlir.arith import IndexCastOp, SelectOp, SIToFPOp
from xegpu.mlir.vector import ExtractOp, ShapeCastOp, TransposeOp, shape_of, vector_type
from xegpu.passes.distribute_lanes.operand_roles import sides
from xegpu.support.errors import Invalid, ShapeError
from xegpu.target.targets import Target

ELEMENTS = "single elements of an array"
"""Encoding of a scattered descriptor or tile: its base and its offsets."""


def create_tdesc(rewriter: Export, operation: gather_scatter.CreateTdescOp) -> None:
    """Replace a scattered descriptor by its base and its offsets."""
    base = base_of_elements(rewriter, operation.source)
    rewriter.set(operation.result, (base, rewriter.single(operation.offsets)), ELEMENTS)


def base_of_elements(rewriter: Export, array: SSAValue) -> SSAValue:
    """Base from which LLVM counts single elements: an array of one dimension, else the address of one."""
    source = rewriter.single(array)
    if isinstance(source.type, MemRefType) and not _is_line(source.type):
        if is_shared(source.type):
            rewriter.refuse("XT3652",
                         f"LLVM's loads of single elements stand on arrays of one dimension, not on {source.type}",
                         "print the kernel in our own form: .xegpu or .stages")
        source = rewriter.shared(("elements", source), lambda: _address(rewriter, source))
    return source


def _is_line(type_: MemRefType) -> bool:  # type: ignore[type-arg]
    return len(type_.get_shape()) == 1 and isinstance(type_.layout, NoneAttr)


def _address(rewriter: Export, source: SSAValue) -> SSAValue:
    address = rewriter.emit(memref.ExtractAlignedPointerAsIndexOp.get(source))
    return rewriter.emit(arith.IndexCastOp(address, i64))


def update_offset(rewriter: Export, operation: gather_scatter.UpdateOffsetOp) -> None:
    """Add to the offsets."""
    source, offsets = rewriter.lookup(operation.desc).values
    moved = rewriter.emit(arith.AddiOp(offsets, rewriter.single(operation.offsets)))
    rewriter.set(operation.result, (source, moved), ELEMENTS)


def load_gather(rewriter: Export, operation: gather_scatter.LoadGatherOp) -> None:
    """Convert to ``load``; LLVM leaves masked-off elements undefined, hence the select."""
    desc, (source, offsets) = desc_of(operation.desc), rewriter.lookup(operation.desc).values
    chunk, mask = gather_scatter.scatter_of(desc).chunk_size, rewriter.single(operation.mask)
    new = LoadOp(source, offsets, mask, vector_type(desc.shape, desc.element_type), chunk)
    loaded = rewriter.emit(with_hints(new, exported_hints(operation)))
    if chunk > 1:
        column = rewriter.emit(ShapeCastOp(mask, (desc.shape[0], 1)))
        mask = rewriter.emit(BroadcastOp(column, vector_type(desc.shape, column.type.element_type)))  # type: ignore[attr-defined]
    kept = rewriter.emit(SelectOp(mask, loaded, padding(rewriter, operation.number, loaded.type)))  # type: ignore
    rewriter.set(operation.result, rewriter.emit(TransposeOp(kept)) if chunk > 1 else kept)


def padding(rewriter: Export, number_: float, type_: VectorType) -> SSAValue:  # type: ignore[type-arg]
    """Vector of the number that is loaded where a mask is off."""
    element = type_.element_type
    is_float = of_mlir(element).is_float
    value: Any = FloatAttr(number_, element) if is_float else IntegerAttr(int(number_), element)  # type: ignore
    return rewriter.emit(BroadcastOp(rewriter.emit(arith.ConstantOp(value)), type_))


def store_scatter(rewriter: Export, operation: gather_scatter.StoreScatterOp) -> None:
    """Convert to ``store``, with chunks behind."""
    source, offsets = rewriter.lookup(operation.desc).values
    chunk, value = gather_scatter.scatter_of(desc_of(operation.desc)).chunk_size, rewriter.single(operation.value)
    value = rewriter.emit(TransposeOp(value)) if chunk > 1 else value
    rewriter.emit(with_hints(StoreOp(value, source, offsets, rewriter.single(operation.mask), chunk),
                             exported_hints(operation)))


def prefetch_scattered(rewriter: Export, operation: gather_scatter.PrefetchOp) -> None:
    """Convert to ``prefetch``."""
    source, offsets = rewriter.lookup(operation.desc).values
    new = PrefetchOp(source, offsets, desc_of(operation.desc).dtype.bytes)
    rewriter.emit(with_hints(new, exported_hints(operation)))


def iota(rewriter: Export, operation: IotaOp) -> None:
    """Lower iota to a broadcast ``vector.step`` plus the start, converted to the element type."""
    shape, axis = shape_of(operation.result), operation.axis.value.data
    steps = rewriter.emit(StepOp(shape[axis]))
    line = vector_type(shape_of(steps), IndexType())
    counted = rewriter.emit(arith.AddiOp(steps, rewriter.emit(BroadcastOp(rewriter.single(operation.start), line))))
    unit = rewriter.emit(ShapeCastOp(counted, (shape[0], 1) if axis == 0 else (1, shape[1])))
    offset_vector = unit if shape_of(unit) == shape else rewriter.emit(BroadcastOp(unit,
                                                                                   vector_type(shape, IndexType())))
    rewriter.set(operation.result, _counted_in(rewriter, offset_vector, operation.result.type.element_type))  # type: ignore


def _counted_in(rewriter: Export, positions: SSAValue, element: Attribute) -> SSAValue:
    """Convert positions to an element type."""
    if isinstance(element, IndexType):
        return positions
    shape, dtype = shape_of(positions), of_mlir(element)
    integers = rewriter.emit(IndexCastOp(positions, vector_type(shape, i32 if dtype.is_float else element)))
    return rewriter.emit(SIToFPOp(integers, vector_type(shape, element))) if dtype.is_float else integers


_SIDE_BY_SIDE = "blocks side by side"
_OPERAND_B = "an operand B"


def create_nd_tdesc(rewriter: Export, operation: CreateNdTdescOp) -> None:
    """Describe the complete array as it lies in memory; the offsets become operands of the accesses."""
    webs, target = rewriter.webs, rewriter.target
    desc, lanes = desc_of(operation.result), _lanes(webs, operation.result, target)
    by_columns = access_kind(operation, rewriter.access_kinds) == "block-columns" and \
        not is_shared(operation.source.type)
    transposed = _is_transposed(webs, operation.result) != by_columns
    layout = None if transposed or by_columns else _lane_layout(lanes, desc.shape)
    shape = desc.shape[::-1] if by_columns else desc.shape
    rewriter.create_descriptor(operation, desc_type(shape, desc.element_type, layout), transposed, by_columns)


def _lane_layout(lanes: LaneMap | None, shape: tuple[int, ...]) -> LayoutAttr | None:
    """Layout of a lane map; None where the block is smaller than its lanes, which LLVM's layouts cannot say."""
    if lanes is None:
        return None
    layout = Layout(lane_layout=lanes.wi_layout, lane_data=lanes.wi_data)
    try:
        layout.check(shape)
    except Invalid:
        return None
    return LayoutAttr(layout)


def _is_transposed(webs: Webs, desc: SSAValue) -> bool:
    """Whether a descriptor's blocks are loaded with transposition."""
    return any(isinstance(use.operation, LoadNdOp) and use.operation.transposes for use in webs.uses(desc))


def _lanes(webs: Webs, desc: SSAValue, target: Target) -> LaneMap | None:
    """Lane map of a descriptor's blocks: VNNI words along K for operand B, else one element a lane."""
    parameters = desc_of(desc)
    if parameters.dtype.bits < 32 and sides(webs, desc) == {"b"}:
        return operand_b(target.subgroup_size, parameters.dtype.bits)
    try:
        return default(target.subgroup_size, parameters.shape[1])
    except ShapeError:  # left to LLVM's layout inference
        return None


def load_nd(rewriter: Export, operation: LoadNdOp) -> None:
    """Convert to one load a block, and ``vector.transpose`` if transposed, which LLVM folds for addresses."""
    desc, by_columns = desc_of(operation.desc), rewriter.lookup(operation.desc).encoding.transposed
    shape = desc.shape[::-1] if by_columns else desc.shape
    parts = []
    for column in range(0, desc.shape[1] * desc.block.array_length, desc.shape[1]):
        base, starts = rewriter.block_at(operation.desc, 0, column)
        load = rewriter.load_block(base, starts, vector_type(shape, desc.element_type))
        value = rewriter.emit(load if isinstance(load, LoadMatrixOp) else with_hints(load, exported_hints(operation)))
        if desc.dtype.bits < operation.transposes and not _is_operand_b(operation):
            value = _words_transposed(rewriter, value, by_columns, operation.transposes)
        elif bool(operation.transposes) != by_columns:
            value = rewriter.emit(TransposeOp(value))
        parts.append(value)
    words = _OPERAND_B if desc.dtype.bits < operation.transposes and _is_operand_b(operation) else None
    rewriter.set(operation.result, tuple(parts), _SIDE_BY_SIDE if len(parts) > 1 else words)


def _is_operand_b(operation: LoadNdOp) -> bool:
    """Whether a load of transposed words is cast to VNNI form, and that is operand B and nothing else."""
    casts = [use.operation for use in operation.result.uses]
    return all(isinstance(cast, ShapeCastOp) and all(
        isinstance(use.operation, DpasOp) and use.operation.b is cast.result for use in cast.result.uses)
        for cast in casts)


def _words_transposed(rewriter: Export, value: SSAValue, by_columns: bool, bits: int) -> SSAValue:
    """Transpose words of several elements of a row: LLVM transposes elements, so that they become integers."""
    rows = rewriter.emit(TransposeOp(value)) if by_columns else value
    element, (height, width) = rows.type.element_type, shape_of(rows)  # type: ignore[attr-defined]
    factor = bits // of_mlir(element).bits
    words = rewriter.emit(vector.BitcastOp.build(
        operands=[rows], result_types=[vector_type((height, width // factor), IntegerType(bits))]))
    return rewriter.emit(vector.BitcastOp.build(
        operands=[rewriter.emit(TransposeOp(words))],
        result_types=[vector_type((width // factor, height * factor), element)]))


def shape_cast(rewriter: Export, operation: ShapeCastOp) -> None:
    """Clone, but for the one to VNNI form of operand B, which LLVM's dpas takes as it is."""
    source = rewriter.lookup(operation.operands[0])
    if source.encoding == _OPERAND_B:
        rewriter.set(operation.result, source.values)
    else:
        rewriter.copy(operation)


def reduce(rewriter: Export, operation: reduction.ReduceOp) -> None:
    """Lower to ``vector.multi_reduction``, which drops the dimension."""
    values = [rewriter.single(source) for source in operation.sources]
    result = operation.result.type
    assert isinstance(result, VectorType)
    rewriter.set(operation.result, reduced(rewriter, operation.kind.data, values, operation.dimensions, result))


def broadcast(rewriter: Export, operation: reduction.BroadcastOp) -> None:
    """Convert to ``vector.broadcast``."""
    result = operation.result.type
    assert isinstance(result, VectorType)
    rewriter.set(operation.result, rewriter.emit(BroadcastOp(rewriter.single(operation.source), result)))


def init_nbarrier(rewriter: Export, operation: sync.InitNbarrierOp) -> None:
    """Convert id and participant count to ``i8``, as LLVM's operation takes them."""
    id_, count = (_byte(rewriter, value) for value in operation.operands)
    rewriter.set(operation.result, rewriter.emit(sync.InitNbarrierOp(id_, count, operation.declared_producers)))


def _byte(rewriter: Export, value: SSAValue) -> SSAValue:
    if not isinstance(value.type, IndexType):
        return rewriter.single(value)
    known = number(value)
    return rewriter.emit(IndexCastOp(rewriter.single(value), i8) if known is None else ConstantOp(IntegerAttr(known,
                                                                                                              i8)))


def extract(rewriter: Export, operation: ExtractOp) -> None:
    """Select one of the blocks side by side."""
    source = rewriter.lookup(operation.vector)
    if source.encoding != _SIDE_BY_SIDE:
        rewriter.copy(operation)
        return
    (position,) = operation.static_position.get_values()
    rewriter.set(operation.result, source.values[position])


def bitcast(rewriter: Export, operation: BitcastOp) -> None:
    """Convert a bit cast along the rows to one along the columns of the transpose."""
    rows = rewriter.emit(TransposeOp(rewriter.single(operation.source)))
    narrow: Any = operation.result.type
    cast = vector.BitcastOp.build(operands=[rows],
                                  result_types=[vector_type(narrow.get_shape()[::-1], narrow.element_type)])
    rewriter.set(operation.result, rewriter.emit(TransposeOp(rewriter.emit(cast))))


def store_nd(rewriter: Export, operation: StoreNdOp) -> None:
    """Convert to a store, which does not transpose."""
    rewriter.check_store(operation.desc)
    new = rewriter.store_block(rewriter.single(operation.value), *rewriter.block_at(operation.desc))
    rewriter.emit(new if isinstance(new, StoreMatrixOp) else with_hints(new, exported_hints(operation)))


def prefetch_nd(rewriter: Export, operation: PrefetchNdOp) -> None:
    """Convert to one prefetch a block."""
    desc = desc_of(operation.desc)
    for column in range(0, desc.shape[1] * desc.block.array_length, desc.shape[1]):
        hints = exported_hints(operation)
        new = upstream.PrefetchNdOp(*rewriter.block_at(operation.desc, 0, column))
        rewriter.emit(with_hints(new, {} if hints == of_locality(3) else hints))  # LLVM's own say the same


def dpas(rewriter: Export, operation: DpasOp) -> None:
    """Convert to LLVM's ``dpas``, whose operands have one type."""
    a, b = rewriter.single(operation.a), rewriter.single(operation.b)
    if a.type.element_type != b.type.element_type:  # type: ignore[attr-defined]
        rewriter.refuse("XT3606",
                     f"LLVM's dpas takes two operands of one type, not {operation.a.type} and {operation.b.type}",
                     "convert one of them, or print the kernel in our own form")
    acc = None if operation.acc is None else rewriter.single(operation.acc)
    rewriter.set(operation.result, rewriter.emit(upstream.DpasOp(a, b, acc, operation.result.type)))
