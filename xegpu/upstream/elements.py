"""Single elements to LLVM's form of the dialect, a part of ``export``.

    %d = create_tdesc %A, %o : memref<?xf32>, vector<16xindex> -> tensor_desc<16x2xf32, #scatter>
    %e = update_offset %d, %by
    %v = load_gather %e, %m {transpose = [1, 0]} : ... -> vector<2x16xf32>
becomes
    %p = arith.addi %o, %by : vector<16xindex>
    %c = xegpu.load %A[%p], %m <{chunk_size = 2 : i64}> : ... -> vector<16x2xf32>
    %w = arith.select of the mask, %c and zeros
    %v = vector.transpose %w, [1, 0] : vector<16x2xf32> to vector<2x16xf32>

What is masked off LLVM leaves open. A descriptor that a loop carries is the offsets that it carries.
"""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, MemRefType, NoneAttr, VectorType, i64
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.dialect import scattered
from xegpu.dialect.comparisons import SelectOp
from xegpu.dialect.descriptors import desc_of
from xegpu.dialect.hints import hints_of, with_hints
from xegpu.dialect.positions import IotaOp
from xegpu.dialect.vectors import ShapeCastOp, TransposeOp, shape_of, vector
from xegpu.memrefs import is_shared
from xegpu.rewriting import Rule
from xegpu.upstream.exporting import Export
from xegpu.upstream.scattered import LoadOp, PrefetchOp, StepOp, StoreOp

_ELEMENTS = "single elements of an array"


def _create(build: Export, operation: scattered.CreateTdescOp) -> None:
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


def _update(build: Export, operation: scattered.UpdateOffsetOp) -> None:
    source, offsets = build.get(operation.desc).values
    moved = build.emit(arith.AddiOp(offsets, build.one(operation.offsets)))
    build.set(operation.result, (source, moved), _ELEMENTS)


def _load(build: Export, operation: scattered.LoadGatherOp) -> None:
    desc, (source, offsets) = desc_of(operation.desc), build.get(operation.desc).values
    chunk, mask = scattered.scatter_of(desc).chunk_size, build.one(operation.mask)
    made = LoadOp(source, offsets, mask, vector(desc.shape, desc.element_type), chunk)
    loaded = build.emit(with_hints(made, hints_of(operation)))
    if chunk > 1:
        column = build.emit(ShapeCastOp(mask, (desc.shape[0], 1)))
        mask = build.emit(BroadcastOp(column, vector(desc.shape, column.type.element_type)))  # type: ignore[attr-defined]
    kept = build.emit(SelectOp(mask, loaded, _padding(build, operation, loaded.type)))  # type: ignore[arg-type]
    build.set(operation.result, build.emit(TransposeOp(kept)) if chunk > 1 else kept)


def _padding(build: Export, operation: scattered.LoadGatherOp, type_: VectorType) -> SSAValue:  # type: ignore[type-arg]
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


def _store(build: Export, operation: scattered.StoreScatterOp) -> None:
    source, offsets = build.get(operation.desc).values
    chunk, value = scattered.scatter_of(desc_of(operation.desc)).chunk_size, build.one(operation.value)
    value = build.emit(TransposeOp(value)) if chunk > 1 else value
    build.emit(with_hints(StoreOp(value, source, offsets, build.one(operation.mask), chunk), hints_of(operation)))


def _prefetch(build: Export, operation: scattered.PrefetchOp) -> None:
    source, offsets = build.get(operation.desc).values
    made = PrefetchOp(source, offsets, desc_of(operation.desc).dtype.bytes)
    build.emit(with_hints(made, hints_of(operation)))


def _iota(build: Export, operation: IotaOp) -> None:
    """Rows or columns, counted from a start, as ``vector.step`` seen along the other dimension."""
    shape, axis = shape_of(operation.result), operation.axis.value.data
    steps = build.emit(StepOp(shape[axis]))
    line = vector(shape_of(steps), IndexType())
    counted = build.emit(arith.AddiOp(steps, build.emit(BroadcastOp(build.one(operation.start), line))))
    unit = build.emit(ShapeCastOp(counted, (shape[0], 1) if axis == 0 else (1, shape[1])))
    whole = unit if shape_of(unit) == shape else build.emit(BroadcastOp(unit, vector(shape, IndexType())))
    build.set(operation.result, whole)


RULES: dict[type[Operation], Rule] = {
    scattered.CreateTdescOp: _create,
    scattered.UpdateOffsetOp: _update,
    scattered.LoadGatherOp: _load,
    scattered.StoreScatterOp: _store,
    scattered.PrefetchOp: _prefetch,
    IotaOp: _iota,
}
