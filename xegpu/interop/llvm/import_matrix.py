"""Importer of LLVM's matrices in shared local memory: their arrays, and block loads and stores.

    %s = memref.alloca() : memref<2048xi8, 3>
    %m = xegpu.create_mem_desc %s : memref<2048xi8, 3> -> !xegpu.mem_desc<16x32xf32>
    %v = xegpu.load_matrix %m[%i, 16] : !xegpu.mem_desc<16x32xf32>, index -> vector<8x16xf32>
becomes
    %s = memref.alloc() : memref<16x32xf32, 3>
    %d = xegpu.create_nd_tdesc %s, [%i, %c16] : memref<16x32xf32, 3> -> !xegpu.tensor_desc<8x16xf32, ...>
    %v = xegpu.load_nd %d
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerType,
    MemRefType,
    StridedLayoutAttr,
    VectorType,
)
from xdsl.ir import Operation, SSAValue

from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp
from xegpu.dialect.types import BlockTdesc, TensorDesc, TensorDescType
from xegpu.interop.llvm.dialect.matrix import (
    CreateMemDescOp,
    LoadMatrixOp,
    MatrixOp,
    MemDesc,
    MemDescType,
    MemLayout,
    StoreMatrixOp,
    flat_shape,
    matrix_of,
)
from xegpu.ir.memref import SHARED_SPACE, is_shared
from xegpu.support.errors import TextError
from xegpu.support.location import author_location

"""Memory space of shared local memory."""


def allocate_shared(function: func.FuncOp) -> None:
    """Allocate arrays and matrices in shared local memory that are arguments in the kernel, in place.

    Each work-group has its own, whose elements are undefined when it starts; no launch passes one.
    """
    entry = function.body.block
    for argument in list(entry.args):
        type_ = argument.type
        if isinstance(type_, MemDescType):
            size = MemRefType(IntegerType(8), [-(-type_.data.bits // 8)], memory_space=SHARED_SPACE)
        elif isinstance(type_, MemRefType) and is_shared(type_):
            size = type_
        else:
            continue
        if DYNAMIC_INDEX in size.get_shape():
            raise TextError("XT2413", f"{type_}, an argument in shared local memory, has no static size",
                            "give it static dimensions: memref<4096xi8, 3>", author_location(function))
        array: Operation = memref.AllocaOp.get(size)
        created = [array]
        if isinstance(type_, MemDescType):
            created.append(CreateMemDescOp(array.results[0], type_))
        for operation in created:
            operation.location = function.location
        assert entry.first_op is not None
        entry.insert_ops_before(created, entry.first_op)
        argument.replace_all_uses_with(created[-1].results[0])
        entry.erase_arg(argument)
    function.update_function_type()  # type: ignore[no-untyped-call]


def alloca(rewriter: Any, operation: memref.AllocaOp | memref.AllocOp) -> None:
    """Allocate an array in shared local memory, of the shape and type that the matrices on it are views of."""
    type_ = operation.memref.type
    assert isinstance(type_, MemRefType)
    uses = [use.operation for use in operation.memref.uses]
    types = {use.result.type: matrix_of(use.result) for use in uses if isinstance(use, CreateMemDescOp)}
    if types:
        only = len(types) == 1  # what order the elements of a single matrix have cannot be seen
        stored = {(flat_shape(matrix.shape) if only else _stored_shape(matrix), matrix.element_type)
                  for matrix in types.values()}
        (shape, element), *others = stored
        if others or shape is None or not all(isinstance(use, CreateMemDescOp) for use in uses):
            rewriter.refuse("XT2413", "this array is used as several types", "give each matrix an array of its own")
        assert shape is not None
        type_ = MemRefType(element, shape, memory_space=SHARED_SPACE)
    rewriter.set(operation.memref, rewriter.emit(memref.AllocOp([], [], type_)))


def _stored_shape(matrix: MemDesc) -> tuple[int, int] | None:
    """Shape of the row-major array that a matrix of two dimensions, or its transpose, is; None for any other."""
    rows, columns = flat_shape(matrix.shape)
    layout = MemLayout() if matrix.layout is None else matrix.layout.data
    if layout.block is None and layout.stride in (None, (columns, 1)):
        return rows, columns
    return (columns, rows) if layout.block is None and layout.stride == (1, rows) else None


def create_mem_desc(rewriter: Any, operation: CreateMemDescOp) -> None:
    """Replace a matrix by its array, or by sizes and strides of the transpose."""
    if not isinstance(operation.source.owner, (memref.AllocaOp, memref.AllocOp)):
        rewriter.refuse("XT2413", "a matrix stands on an array that the kernel does not allocate",
                        "allocate it in the kernel: memref.alloca() : memref<2048xi8, 3>")
    source = rewriter.single(operation.source)
    rows, columns = flat_shape(matrix_of(operation.result).shape)
    layout, views = matrix_of(operation.result).layout, {use.operation.results[0].type for use in operation.source.uses}
    if len(views) == 1 or layout is None or layout.data.stride == (columns, 1):
        rewriter.set(operation.result, source)
        return
    dynamic = MemRefType(source.type.element_type, [DYNAMIC_INDEX] * 2, StridedLayoutAttr([None] * 2),
                         source.type.memory_space)
    numbers = [rewriter.constant(number) for number in (rows, columns, 1, rows)]
    rewriter.set(operation.result, (rewriter.emit(memref.CastOp.get(source, dynamic)), *numbers))


def view_of(rewriter: Any, operation: MatrixOp) -> tuple[SSAValue, list[SSAValue], list[SSAValue]]:
    """Array of a matrix with its sizes and strides; none of these where the array's type has them."""
    source, *numbers = rewriter.lookup(operation.desc).values
    return source, numbers[:2], numbers[2:]


def starts_of(rewriter: Any, operation: MatrixOp) -> list[SSAValue]:
    """Row and column at which an access of a matrix starts: all dimensions but the last are rows."""
    shape, starts = matrix_of(operation.desc).shape, rewriter.mixed(operation.starts)
    row = starts[0] if len(starts) > 1 else rewriter.constant(0)
    for size, start in zip(shape[1:-1], starts[1:-1], strict=True):
        row = rewriter.add(rewriter.index(arith.MuliOp, row, rewriter.constant(size)), start)
    return [row, starts[-1]]


def refuse_part(rewriter: Any, operation: MatrixOp, moved: SSAValue) -> None:
    """Refuse an access to a part that is not a block of a matrix.

    Raises:
        TextError: always.
    """
    rewriter.refuse("XT2413", f"{moved.type} of {operation.desc.type} is not read",
                    "move blocks of two dimensions, at subgroup or work-group level")


def _desc(rewriter: Any, operation: MatrixOp, moved: SSAValue) -> SSAValue:
    """Descriptor of the part of a matrix that an operation accesses."""
    type_ = moved.type
    shape = type_.get_shape() if isinstance(type_, VectorType) else ()
    if len(shape) != 2:
        refuse_part(rewriter, operation, moved)
    desc = TensorDesc(shape, matrix_of(operation.desc).element_type, BlockTdesc(memory_scope="slm"))
    source, sizes, strides = view_of(rewriter, operation)
    new = CreateNdTdescOp(source, starts_of(rewriter, operation), sizes, strides, TensorDescType(desc))
    return rewriter.emit(new)  # type: ignore[no-any-return]


def load_matrix(rewriter: Any, operation: LoadMatrixOp) -> None:
    """Convert to a block load."""
    rewriter.set(operation.result, rewriter.emit(LoadNdOp(_desc(rewriter, operation, operation.result))))


def store_matrix(rewriter: Any, operation: StoreMatrixOp) -> None:
    """Convert to a block store."""
    rewriter.emit(StoreNdOp(rewriter.single(operation.value), _desc(rewriter, operation, operation.value)))
