"""LLVM's XeGPU at subgroup level to ours on whole blocks, operation by operation.

    %d = xegpu.create_nd_tdesc %A, ... -> !xegpu.tensor_desc<32x16xbf16, #xegpu.block_tdesc_attr<array_length = 2>>
    %v = xegpu.load_nd %d[%m, %k] : ... -> vector<2x32x16xbf16>
    %a = vector.extract_strided_slice ...
becomes
    %d = xegpu.create_nd_tdesc %A, [%m, %k], [...], [...] : ... -> !xegpu.tensor_desc<32x16xbf16, ...>
    %v = xegpu.load_nd %d : ... -> vector<2x32x16xbf16>
    %a = vector.extract_strided_slice ...

It is for kernels that cut blocks into slices, which tiles do not do: their sizes are those of the device that they were
written for. Layouts of lanes are our passes' to find.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, MemRefType, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.dialect import gather_scatter, reduction
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.hints import hints_of, with_hints
from xegpu.dialect.types import BlockTdesc, ScatterTdesc, TensorDesc, TensorDescType
from xegpu.interop.llvm import ops as upstream
from xegpu.interop.llvm.gather_scatter import ElementsOp, LoadOp, PrefetchOp, StepOp, StoreOp
from xegpu.interop.llvm.importer import RULES as COMMON
from xegpu.interop.llvm.importer import Described, Import, place_of
from xegpu.interop.llvm.types import LayoutAttr, SliceAttr
from xegpu.interop.llvm.vector import InsertStridedSliceOp, MultiReductionOp
from xegpu.mlir.vector import ExtractStridedSliceOp, ShapeCastOp, TransposeOp, shape_of, vector_type
from xegpu.rewrite.rewriter import Rule

# LLVM's operations on single elements to ours, a part of :mod:`xegpu.interop.llvm.import_blocks`.
#
#     %v = xegpu.load %A[%o], %m : memref<?xf32>, vector<16xindex>, vector<16xi1> -> vector<16xf32>
# becomes
#     %d = xegpu.create_tdesc %A, %o : memref<?xf32>, vector<16xindex> -> !xegpu.tensor_desc<16xf32, ...>
#     %v = xegpu.load_gather %d, %m
#
# What LLVM leaves open where the mask is false is 0 here. Chunks of several elements a lane lie the other way round in
# LLVM's form, and are not read.


def _desc(build: Any, operation: ElementsOp, element: Any) -> SSAValue:
    """A descriptor of the elements."""
    shape = operation.offsets.type.get_shape()  # type: ignore[attr-defined]
    if getattr(operation, "chunk_size", None) is not None or len(shape) != 1:
        build.refuse("XT3643", "chunks of several elements a lane are not read",
                     "load the elements one by one, with offsets of their own; or write the kernel in our own form, "
                     "whose chunks lie in front: vector<4x16xf32>")
    type_ = TensorDescType(TensorDesc(tuple(shape), element, scatter=ScatterTdesc()))
    return build.emit(gather_scatter.CreateTdescOp(_source(build, operation), build.one(operation.offsets), type_))  # type: ignore


def _source(build: Any, operation: ElementsOp) -> SSAValue:
    """The array itself where the base is its address: it counts from its first element, too."""
    source = operation.source
    if isinstance(source.type, IntegerType) and isinstance(source.owner, Operation) and source.owner.operands:
        place = place_of(source)
        if place is not None and not any(at is not None for at in place.lead):
            return build.one(place.array)  # type: ignore[no-any-return]
        build.refuse("XT3635",
                     "this address is not that of an array", "take it with memref.extract_aligned_pointer_as_index of "
                     "the array, or pass it as an argument")
    return build.one(source)  # type: ignore[no-any-return]


def _load_gathered(build: Any, operation: LoadOp) -> None:
    result = operation.result.type
    assert isinstance(result, VectorType)
    made = gather_scatter.LoadGatherOp(_desc(build, operation, result.element_type), build.one(operation.mask))
    build.set(operation.result, build.emit(with_hints(made, hints_of(operation))))


def _store_gathered(build: Any, operation: StoreOp) -> None:
    value = build.one(operation.value)
    desc = _desc(build, operation, operation.value.type.element_type)  # type: ignore[attr-defined]
    build.emit(with_hints(gather_scatter.StoreScatterOp(value, desc, build.one(operation.mask)), hints_of(operation)))


def _prefetch_gathered(build: Any, operation: PrefetchOp) -> None:
    source = _source(build, operation)
    if not isinstance(source.type, MemRefType):
        build.refuse("XT3644", "nothing says what elements are prefetched from this address",
                     "prefetch from a memref, whose type says it")
    element = source.type.element_type  # type: ignore[attr-defined]
    made = gather_scatter.PrefetchOp(_desc(build, operation, element))
    build.emit(with_hints(made, hints_of(operation)))


def _step(build: Any, operation: StepOp) -> None:
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    numbers = DenseIntOrFPElementsAttr.from_list(type_, list(range(type_.get_shape()[0])))  # type: ignore[arg-type]
    build.set(operation.result, build.emit(arith.ConstantOp(numbers)))


GATHER_RULES: dict[type[Operation], Rule] = {LoadOp: _load_gathered, StoreOp: _store_gathered,
                                             PrefetchOp: _prefetch_gathered, StepOp: _step}


_REDUCED = "what a reduction left"
_TURNED = "transposed by its load"
_SLICES = (ExtractStridedSliceOp, InsertStridedSliceOp, ElementsOp)


def needs_blocks(function: func.FuncOp) -> bool:
    """Whether a kernel cuts blocks into slices, or reaches single elements."""
    return any(isinstance(operation, _SLICES) for operation in function.walk())


class Blocks(Import):
    """The conversion of one kernel."""

    def __init__(self, threads: int | None) -> None:
        super().__init__(RULES, threads)

    def copy(self, operation: Operation) -> None:
        """The operation on what its operands became, without LLVM's layouts."""
        super().copy(operation)
        for result in operation.results:
            made = self.one(result).owner
            if isinstance(made, Operation):
                made.attributes = {name: value for name, value in made.attributes.items()
                                   if not isinstance(value, (LayoutAttr, SliceAttr))}

    def desc(self, operation: upstream.MovementOp) -> SSAValue:
        """The descriptor, standing where an operation moves data."""
        form = self.get(operation.desc).form
        assert isinstance(form, Described)
        layout = operation.layout or form.desc.layout
        if isinstance(layout, LayoutAttr) and layout.data.sg_layout:
            self.refuse("XT3645", "a kernel for the whole work-group is cut into slices",
                        "cut at subgroup level, or leave the cutting to the compiler")
        block = form.desc.block
        type_ = TensorDescType(TensorDesc(form.desc.shape, form.desc.element_type,
                                          BlockTdesc(array_length=block.array_length,
                                                     boundary_check=block.boundary_check)))
        source, sizes, strides = self.spelled_out(form)
        return self.emit(CreateNdTdescOp(source, self.starts(operation), sizes, strides, type_))


def _load_nd(build: Blocks, operation: upstream.LoadNdOp) -> None:
    width = operation.transpose_bit_width
    if _is_only_turned(operation):
        build.set(operation.result, build.emit(LoadNdOp(build.desc(operation), transpose=True)), _TURNED)
        return
    load = LoadNdOp(build.desc(operation), packed=operation.packed is not None,
                        transpose=operation.transpose is not None,
                        transpose_bit_width=None if width is None else width.value.data)
    if load.result.type != operation.result.type:
        build.refuse("XT3646", f"this load gives {load.result.type}, not {operation.result.type}",
                     "vectors of one lane are read in kernels that do not cut them into slices")
    build.set(operation.result, build.emit(load))


def _is_only_turned(operation: upstream.LoadNdOp) -> bool:
    """Whether a plain block is transposed by all that uses it, as a load can do itself."""
    plain = operation.packed is None and operation.transpose is None and len(operation.result.type.get_shape()) == 2
    return plain and all(isinstance(use.operation, TransposeOp) for use in operation.result.uses)


def _transpose(build: Blocks, operation: TransposeOp) -> None:
    source = build.get(operation.source)
    if source.form == _TURNED:
        build.set(operation.result, source.values[0])
    else:
        build.copy(operation)


def _store_nd(build: Blocks, operation: upstream.StoreNdOp) -> None:
    build.emit(StoreNdOp(build.one(operation.value), build.desc(operation)))


def _prefetch_nd(build: Blocks, operation: upstream.PrefetchNdOp) -> None:
    build.emit(PrefetchNdOp(build.desc(operation)))


def _dpas(build: Blocks, operation: upstream.DpasOp) -> None:
    acc = None if operation.acc is None else build.one(operation.acc)
    made = DpasOp(build.one(operation.a), build.one(operation.b), acc, operation.result.type)
    build.set(operation.result, build.emit(made))


def _convert_layout(build: Blocks, operation: upstream.ConvertLayoutOp) -> None:
    build.set(operation.result, build.one(operation.source))


def _multi_reduction(build: Blocks, operation: MultiReductionOp) -> None:
    """A reduction; what is left keeps both dimensions here."""
    build.check_reduction(operation)
    source = build.one(operation.source)
    shape = [1 if axis in operation.axes else size for axis, size in enumerate(shape_of(source))]
    result = vector_type(shape, operation.source.type.element_type)  # type: ignore[attr-defined]
    made = build.emit(reduction.ReduceOp(operation.kind.data, [source], operation.axes, result))
    build.set(operation.result, build.onto(operation, made), _REDUCED)


def _shape_cast(build: Blocks, operation: ShapeCastOp) -> None:
    source = build.get(operation.source)
    if source.form == _REDUCED:
        if source.values[0].type != operation.result.type:
            build.refuse("XT3647",
                         f"what a reduction left is {source.values[0].type} of its block, not {operation.result.type}",
                         "cast it to the block's own dimensions")
        build.set(operation.result, source.values[0])
    else:
        build.copy(operation)


def _broadcast(build: Blocks, operation: BroadcastOp) -> None:
    source = build.one(operation.source)
    if not isinstance(source.type, VectorType):
        build.fill(source, operation.vector)
        return
    shape, small = operation.vector.type.get_shape(), shape_of(source)
    axes = [axis for axis, size in enumerate(shape) if size != small[axis]]
    made = build.emit(reduction.BroadcastOp(source, axes, operation.vector.type)) if axes else source
    build.set(operation.vector, made)


def _constant(build: Blocks, operation: arith.ConstantOp) -> None:
    """Constants whose elements differ stay: :mod:`xegpu.passes.normalize` computes them."""
    dense = operation.value
    if isinstance(dense, DenseIntOrFPElementsAttr) and len(set(dense.get_attrs())) > 1:
        build.copy(operation)
    else:
        COMMON[arith.ConstantOp](build, operation)


RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    upstream.LoadNdOp: _load_nd,
    upstream.StoreNdOp: _store_nd,
    upstream.PrefetchNdOp: _prefetch_nd,
    upstream.DpasOp: _dpas,
    upstream.ConvertLayoutOp: _convert_layout,
    MultiReductionOp: _multi_reduction,
    ShapeCastOp: _shape_cast,
    TransposeOp: _transpose,
    BroadcastOp: _broadcast,
    **GATHER_RULES,
}
