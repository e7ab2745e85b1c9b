"""Importer of LLVM's XeGPU dialect at subgroup level to block-level XeGPU.

    %d = xegpu.create_nd_tdesc %A, ... -> !xegpu.tensor_desc<32x16xbf16, #xegpu.block_tdesc_attr<array_length = 2>>
    %v = xegpu.load_nd %d[%m, %k] : ... -> vector<2x32x16xbf16>
    %a = vector.extract_strided_slice ...
becomes
    %d = xegpu.create_nd_tdesc %A, [%m, %k], [...], [...] : ... -> !xegpu.tensor_desc<32x16xbf16, ...>
    %v = xegpu.load_nd %d : ... -> vector<2x32x16xbf16>
    %a = vector.extract_strided_slice ...

It is for kernels that extract slices of blocks, which tiles do not support: they are written for one device's sizes.
Lane layouts are dropped and inferred by the passes.

Scattered accesses:

    %v = xegpu.load %A[%o], %m : memref<?xf32>, vector<16xindex>, vector<16xi1> -> vector<16xf32>
becomes
    %d = xegpu.create_tdesc %A, %o : memref<?xf32>, vector<16xindex> -> !xegpu.tensor_desc<16xf32, ...>
    %v = xegpu.load_gather %d, %m

Masked-off elements, undefined in LLVM's dialect, are 0 here. Chunks of several elements a lane are transposed in LLVM's
dialect, and are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, func, memref
from xdsl.dialects import vector as xdsl_vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.dialect import gather_scatter, reduction
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp
from xegpu.dialect.hints import with_hints
from xegpu.dialect.scalar import LoadScalarOp
from xegpu.dialect.types import BlockTdesc, ScatterTdesc, TensorDesc, TensorDescType
from xegpu.dialect.vector import BitcastOp
from xegpu.interop.llvm.correspondence import imported_hints
from xegpu.interop.llvm.dialect import ops as upstream
from xegpu.interop.llvm.dialect.gather_scatter import ElementsOp, LoadOp, PrefetchOp, StepOp, StoreOp
from xegpu.interop.llvm.dialect.scaled import DpasMxOp, TruncfOp
from xegpu.interop.llvm.dialect.types import LayoutAttr, SliceAttr
from xegpu.interop.llvm.dialect.vector import (
    ConstantMaskOp,
    CreateMaskOp,
    InsertStridedSliceOp,
    InterleaveOp,
    MultiReductionOp,
)
from xegpu.interop.llvm.importer import Described, Import, matrix_at
from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.vector import ExtractStridedSliceOp, ShapeCastOp, TransposeOp, shape_of, vector_type
from xegpu.rewrite.rewriter import ConvertedValues


def _scattered_desc(rewriter: Any, operation: ElementsOp, element: Any) -> SSAValue:
    """Scattered descriptor of the operation's elements."""
    shape = operation.offsets.type.get_shape()  # type: ignore[attr-defined]
    if getattr(operation, "chunk_size", None) is not None or len(shape) != 1:
        rewriter.refuse("XT3643", "chunks of several elements a lane are not read",
                     "load the elements one by one, with offsets of their own; or write the kernel in our own form, "
                     "whose chunks lie in front: vector<4x16xf32>")
    type_ = TensorDescType(TensorDesc(tuple(shape), element, scatter=ScatterTdesc()))
    source, offsets = source_of(rewriter, operation), rewriter.single(operation.offsets)
    return rewriter.emit(gather_scatter.CreateTdescOp(source, offsets, type_))  # type: ignore


def source_of(rewriter: Any, operation: ElementsOp) -> SSAValue:
    """Base array, also where the base is its aligned pointer: offsets count from the same first element."""
    source = operation.source
    if isinstance(source.type, IntegerType) and isinstance(source.owner, Operation) and source.owner.operands:
        matrix = matrix_at(source)
        if matrix is not None and not any(at is not None for at in matrix.lead):
            return rewriter.single(matrix.array)  # type: ignore[no-any-return]
        rewriter.refuse("XT3635",
                     "this address is not that of an array", "take it with memref.extract_aligned_pointer_as_index of "
                     "the array, or pass it as an argument")
    return rewriter.single(source)  # type: ignore[no-any-return]


def load_gathered(rewriter: Any, operation: LoadOp) -> None:
    """Convert to ``load_gather`` of a scattered descriptor."""
    result = operation.result.type
    assert isinstance(result, VectorType)
    desc = _scattered_desc(rewriter, operation, result.element_type)
    load = gather_scatter.LoadGatherOp(desc, rewriter.single(operation.mask))
    rewriter.set(operation.result, rewriter.emit(with_hints(load, imported_hints(operation))))


def bitcast(rewriter: Any, operation: xdsl_vector.BitcastOp) -> None:
    """Convert to a bit cast along the rows of the transpose."""
    source, result = operation.source.type, operation.result.type
    assert isinstance(result, VectorType)
    before, after = (of_mlir(type_.element_type).bits for type_ in (source, result))  # type: ignore[attr-defined]
    value = rewriter.single(operation.source)
    if after >= before or len(result.get_shape()) != 2:
        rewriter.refuse("XT2412", f"{source} is not read as {result}",
                        "cast two dimensions to narrower elements, or load the array as those elements")
    columns = value.owner.source if isinstance(value.owner, TransposeOp) else rewriter.emit(TransposeOp(value))
    rewriter.set(operation.result, rewriter.emit(TransposeOp(rewriter.emit(BitcastOp(columns, result.element_type)))))


def store_gathered(rewriter: Any, operation: StoreOp) -> None:
    """Convert to ``store_scatter``; a reduction's result, which keeps both dimensions here, is stored as a line."""
    value, sizes = rewriter.single(operation.value), operation.value.type.get_shape()  # type: ignore[attr-defined]
    if len(sizes) == 1:
        value = rewriter.reshaped(value, sizes)
    desc = _scattered_desc(rewriter, operation, operation.value.type.element_type)  # type: ignore[attr-defined]
    rewriter.emit(with_hints(gather_scatter.StoreScatterOp(value, desc, rewriter.single(operation.mask)),
                             imported_hints(operation)))


def prefetch_gathered(rewriter: Any, operation: PrefetchOp) -> None:
    """Convert to a scattered prefetch."""
    source, size = source_of(rewriter, operation), operation.offset_align_byte
    element = IntegerType(8 * size.value.data) if size is not None else source.type.element_type  # type: ignore
    new = gather_scatter.PrefetchOp(_scattered_desc(rewriter, operation, element))
    rewriter.emit(with_hints(new, imported_hints(operation)))


def step(rewriter: Any, operation: StepOp) -> None:
    """Lower to a constant."""
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    numbers = DenseIntOrFPElementsAttr.from_list(type_, list(range(type_.get_shape()[0])))  # type: ignore[arg-type]
    rewriter.set(operation.result, rewriter.emit(arith.ConstantOp(numbers)))


def load_scalar(rewriter: Any, operation: memref.LoadOp) -> None:
    """Convert ``memref.load`` of a number to ``load_scalar``."""
    if isinstance(operation.res.type, VectorType):
        rewriter.copy(operation)
        return
    array, indices = rewriter.single(operation.memref), [rewriter.single(index) for index in operation.indices]
    rewriter.set(operation.res, rewriter.emit(LoadScalarOp(array, indices)))


_REDUCED = "what a reduction left"
_TRANSPOSED = "transposed by its load"
_SLICES = (ExtractStridedSliceOp, InsertStridedSliceOp, ElementsOp)


def needs_blocks(function: func.FuncOp) -> bool:
    """Whether a kernel extracts slices of blocks or has scattered accesses, so that it cannot become tiles."""
    found = [operation for operation in function.walk() if isinstance(operation, _SLICES)]
    return any(not isinstance(operation, ElementsOp) or _is_line(operation) for operation in found) and \
        not any(_is_of_tiles(operation) for operation in function.walk())


def _is_of_tiles(operation: Operation) -> bool:
    """Whether an operation has no form on blocks, and becomes one on tiles."""
    if isinstance(operation, MultiReductionOp):
        return len(shape_of(operation.source)) != 2 or not (len(operation.axes) == 1 or _is_only_repeated(operation))
    if isinstance(operation, BroadcastOp):
        return len(shape_of(operation.vector)) > 2
    if isinstance(operation, ElementsOp) and isinstance(operation.offsets.type, VectorType):
        sizes = shape_of(operation.offsets)
        return operation.chunk > 1 or len(sizes) != 1 or sizes[0] not in gather_scatter.LANES
    if isinstance(operation, memref.LoadOp):
        return isinstance(operation.res.type, VectorType)
    return isinstance(operation, _OF_TILES)


def _is_only_repeated(operation: MultiReductionOp) -> bool:
    """Whether the number that a reduction leaves is only broadcast to blocks and reduced on."""
    return all(isinstance(use.operation, MultiReductionOp) or
               (isinstance(use.operation, BroadcastOp) and len(shape_of(use.operation.vector)) == 2)
               for use in operation.results[0].uses)


def _is_line(operation: ElementsOp) -> bool:
    """Whether a subgroup accesses one element a lane."""
    layouts = [operation.layout, *operation.attributes.values()]
    distributed = any(isinstance(layout, LayoutAttr) and layout.data.sg_layout is not None for layout in layouts)
    return operation.chunk == 1 and len(getattr(operation.offsets.type, "shape", ())) == 1 and not distributed


_OF_TILES = (ConstantMaskOp, CreateMaskOp, InterleaveOp, DpasMxOp, TruncfOp, memref.StoreOp, xdsl_vector.ReductionOp)
"""Operations that become those of tiles alone."""


class Blocks(Import):
    """Conversion of one kernel to block-level XeGPU."""

    def visit(self, operation: Operation) -> None:
        """Convert one operation; slices of one dimension would cross lanes."""
        if isinstance(operation, (ExtractStridedSliceOp, InsertStridedSliceOp)) and \
                len(shape_of(operation.results[0])) == 1:
            self.refuse("XT3633", f"{operation.name}: a slice of a vector of one dimension is not read",
                        "cut blocks of two dimensions, or store the vector and load the part of it")
        super().visit(operation)

    def copy(self, operation: Operation) -> None:
        """Clone an operation without LLVM's layout attributes."""
        super().copy(operation)
        for result in operation.results:
            new = self.single(result).owner
            if isinstance(new, Operation):
                new.attributes = {name: value for name, value in new.attributes.items()
                                  if not isinstance(value, (LayoutAttr, SliceAttr))}

    def like(self, operation: Operation, operands: Sequence[SSAValue], types: Sequence[Attribute]) -> Operation:
        """Clone an operation; operands of one dimension beside a reduction's result take its two dimensions."""
        left = next((new for new, old in zip(operands, operation.operands, strict=True)
                     if self.lookup(old).encoding == _REDUCED), None)
        if left is not None:
            operands = [self.reshaped(new, shape_of(left)) if isinstance(new.type, VectorType) else new
                        for new in operands]
        return super().like(operation, operands, types)

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """Reshape a line to a reduction's result, or the reverse, where a loop or a condition joins them."""
        if parts.encoding != like.encoding and {parts.encoding, like.encoding} == {None, _REDUCED}:
            return ConvertedValues((self.reshaped(parts.values[0], shape_of(like.values[0])),), like.encoding)
        return super().match(parts, like)

    def combine(self, operation: MultiReductionOp, reduced: SSAValue, acc: SSAValue) -> SSAValue:
        """Combine a reduction with its accumulator, reshaped to the reduction's result."""
        return super().combine(operation, reduced, self.reshaped(acc, shape_of(reduced)))

    def reshaped(self, value: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """The same elements as a line, or as a block of one row or one column."""
        if len(shape) == 2 and len(shape_of(value)) == 1:
            value = self.emit(ShapeCastOp(value, (1, *shape_of(value))))
        if len(shape) == 2 and shape_of(value) == shape[::-1] != shape:
            return self.emit(TransposeOp(value))
        return value if shape_of(value) == shape else self.emit(ShapeCastOp(value, shape))

    def desc(self, operation: upstream.MovementOp) -> SSAValue:
        """Descriptor with the offsets of a load, store or prefetch."""
        form = self.lookup(operation.desc).encoding
        assert isinstance(form, Described)
        if len(form.desc.shape) != 2:
            self.refuse("XT3633", f"a tensor_desc of {len(form.desc.shape)} dimensions is not read beside slices",
                        "describe blocks of two dimensions: !xegpu.tensor_desc<1x32xf32>")
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


def load_nd(rewriter: Blocks, operation: upstream.LoadNdOp) -> None:
    """Convert to ``load_nd``; a transpose of all that is loaded is folded into it."""
    width = operation.transpose_bit_width
    if _is_only_transposed(operation):
        load = LoadNdOp(rewriter.desc(operation), transpose=True)
        rewriter.set(operation.result, rewriter.emit(with_hints(load, imported_hints(operation))), _TRANSPOSED)
        return
    load = LoadNdOp(rewriter.desc(operation), packed=operation.packed is not None,
                        transpose=operation.transpose is not None,
                        transpose_bit_width=None if width is None else width.value.data)
    if load.result.type != operation.result.type:
        rewriter.refuse("XT3646", f"this load gives {load.result.type}, not {operation.result.type}",
                     "vectors of one lane are read in kernels that do not cut them into slices")
    rewriter.set(operation.result, rewriter.emit(with_hints(load, imported_hints(operation))))


def _is_only_transposed(operation: upstream.LoadNdOp) -> bool:
    """Whether all users of a load are transposes, so that they can be folded into it."""
    is_block = operation.packed is None and operation.transpose is None and len(operation.result.type.get_shape()) == 2
    return is_block and all(isinstance(use.operation, TransposeOp) for use in operation.result.uses)


def transpose(rewriter: Blocks, operation: TransposeOp) -> None:
    """Drop a transpose that was folded into its load."""
    source = rewriter.lookup(operation.source)
    if source.encoding == _TRANSPOSED:
        rewriter.set(operation.result, source.values[0])
    elif isinstance(value := rewriter.single(operation.source).owner, TransposeOp):
        rewriter.set(operation.result, value.source)
    else:
        rewriter.copy(operation)


def convert_layout(rewriter: Blocks, operation: upstream.ConvertLayoutOp) -> None:
    """Drop it: layouts within a subgroup are inferred."""
    rewriter.set(operation.result, rewriter.single(operation.source))


def multi_reduction(rewriter: Blocks, operation: MultiReductionOp) -> None:
    """Lower a reduction; the result keeps both dimensions here."""
    if len(operation.axes) == 1:
        rewriter.check_reduction(operation)
    source = rewriter.single(operation.source)
    shape = [1 if axis in operation.axes else size for axis, size in enumerate(shape_of(source))]
    result = vector_type(shape, operation.source.type.element_type)  # type: ignore[attr-defined]
    new = rewriter.emit(reduction.ReduceOp(operation.kind.data, [source], operation.axes, result))
    rewriter.set(operation.result, rewriter.onto(operation, new), _REDUCED)


def shape_cast(rewriter: Blocks, operation: ShapeCastOp) -> None:
    """Drop the cast of a reduction's result, which keeps both dimensions here; a column that becomes a row moves."""
    source = rewriter.lookup(operation.source)
    if source.encoding != _REDUCED:
        rewriter.copy(operation)
        return
    value, result = source.values[0], operation.result.type
    assert isinstance(result, VectorType)
    if len(result.get_shape()) == 2 and shape_of(value) == result.get_shape()[::-1]:
        value = rewriter.emit(TransposeOp(value))
    if value.type != result:
        rewriter.refuse("XT3647", f"what a reduction left is {value.type} of its block, not {result}",
                        "cast it to the block's own dimensions")
    rewriter.set(operation.result, value)


def broadcast(rewriter: Blocks, operation: BroadcastOp) -> None:
    """Convert to ``broadcast``, or to a splat of a scalar."""
    source = rewriter.single(operation.source)
    if not isinstance(source.type, VectorType):
        rewriter.fill(source, operation.vector)
        return
    shape = operation.vector.type.get_shape()
    if isinstance(operation.source.type, VectorType) and len(operation.source.type.get_shape()) == 1:
        source = rewriter.reshaped(source, (1, *shape_of(operation.source)))
    if len(shape) > 2 or len(shape_of(source)) != 2:
        rewriter.refuse("XT2416", f"{operation.source.type} does not repeat in {operation.vector.type}",
                        "broadcast vectors of one dimension to two, or of two to two")
    block = (1, *shape) if len(shape) == 1 else shape
    axes = [axis for axis, size in enumerate(block) if size != shape_of(source)[axis]]
    if axes:
        type_ = vector_type(block, operation.vector.type.element_type)
        source = rewriter.emit(reduction.BroadcastOp(source, axes, type_))
    rewriter.set(operation.vector, rewriter.reshaped(source, shape))
