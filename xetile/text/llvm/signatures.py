"""Signatures of functions in LLVM's form: results and descriptors among the arguments become array arguments.

    gpu.func @f(%A: memref<64x64xf16>) -> vector<8x16xf16> { ... gpu.return %v : vector<8x16xf16> }
becomes
    gpu.func @f(%A: memref<64x64xf16>, %result0: memref<8x16xf16>) {
      ...
      %d = xegpu.create_nd_tdesc %result0 : memref<8x16xf16> -> !xegpu.tensor_desc<8x16xf16>
      xegpu.store_nd %v, %d[0, 0] : vector<8x16xf16>, !xegpu.tensor_desc<8x16xf16>
      gpu.return
    }

A vector of one dimension beside gathers is stored element by element.

    gpu.func @f(%d: !xegpu.tensor_desc<8x16xf16>) { ... }
becomes
    gpu.func @f(%A: memref<?x?xf16, strided<[?, ?]>>) {
      %base, %offset, %sizes:2, %strides:2 = memref.extract_strided_metadata %A
      %d = xegpu.create_nd_tdesc %A, shape : [%sizes#0, %sizes#1], strides : [%strides#0, %strides#1] : ...

since a descriptor describes all of an array.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    StridedLayoutAttr,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from xegpu.interop.llvm.dialect.descriptors import CreateNdTdescOp
from xegpu.interop.llvm.dialect.gather_scatter import StepOp, StoreOp
from xegpu.interop.llvm.dialect.ops import StoreNdOp
from xegpu.interop.llvm.dialect.types import Desc, DescType
from xegpu.interop.llvm.import_blocks import needs_blocks
from xegpu.ir.dtypes import of_mlir
from xegpu.support.errors import TextError, XeError
from xegpu.support.location import author_location
from xetile.text.llvm.layout_facts import Facts

_GLOBAL = 1
"""Memory space of global memory in OpenCL, which a memref without memory space has, too."""


def store_results(function: func.FuncOp) -> None:
    """Replace a function's results by arguments, in place.

    Raises:
        TextError: a result is no vector of one or two dimensions, or a lane's part of one.
    """
    if not (types := list(function.function_type.outputs)):
        return
    block, end = function.body.block, function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    if Facts(function).of_lanes or not all(_is_stored(type_) for type_ in types):
        raise TextError("XT3282", f"@{function.sym_name.data} has results that no array argument can stand for",
                        "results are vectors of one or two dimensions in kernels for a subgroup or a work-group; write "
                        "others to an array argument", author_location(function))
    scattered = needs_blocks(function)
    for position, value in enumerate(end.arguments):
        assert isinstance(value.type, VectorType)
        array = block.insert_arg(MemRefType(value.type.element_type, value.type.get_shape()), len(block.args))
        array.name_hint = f"result{position}"
        for operation in _stores(value, array, scattered=scattered):
            operation.location = end.location
            block.insert_op_before(operation, end)
    done = func.ReturnOp()
    done.location = end.location
    block.insert_op_before(done, end)
    end.detach()  # type: ignore[no-untyped-call]
    function.properties["function_type"] = FunctionType.from_lists([argument.type for argument in block.args], [])


def describe_arguments(function: func.FuncOp) -> None:
    """Replace descriptors among a function's arguments by their arrays, and drop global memory's number, in place."""
    block = function.body.block
    for argument in list(block.args):
        if isinstance(argument.type, MemRefType) and isinstance(space := argument.type.memory_space, IntegerAttr) and \
                space.value.data == _GLOBAL:
            unspaced = MemRefType(argument.type.element_type, argument.type.shape, argument.type.layout)
            Rewriter.replace_value_with_new_type(argument, unspaced)
        if not isinstance(described := argument.type, DescType):
            continue
        desc = described.data
        rank = len(desc.shape)
        type_ = MemRefType(desc.element_type, [DYNAMIC_INDEX] * rank, StridedLayoutAttr([None] * rank))
        array = block.insert_arg(type_, argument.index)
        array.name_hint = argument.name_hint
        metadata = memref.ExtractStridedMetaDataOp(array)
        created = CreateNdTdescOp(array, list(metadata.sizes), list(metadata.strides), described)
        first = block.first_op
        assert first is not None
        for operation in (metadata, created):
            operation.location = function.location
            block.insert_op_before(operation, first)
        argument.replace_all_uses_with(created.result)
        block.erase_arg(argument)
    function.properties["function_type"] = FunctionType.from_lists([argument.type for argument in block.args],
                                                                   list(function.function_type.outputs))


def _is_stored(type_: Attribute) -> bool:
    """Whether a result is a vector that an array has room for."""
    if not isinstance(type_, VectorType) or len(type_.get_shape()) > 2 or type_.element_type == i1:
        return False
    try:
        return not isinstance(type_.element_type, IndexType) and of_mlir(type_.element_type).bits >= 8
    except XeError:
        return False


def _stores(value: SSAValue, array: SSAValue, *, scattered: bool) -> Iterator[Operation]:
    assert isinstance(value.type, VectorType)
    shape, element = value.type.get_shape(), value.type.element_type
    if scattered and len(shape) == 1:
        offsets = StepOp(shape[0])
        ones = DenseIntOrFPElementsAttr.from_list(VectorType(i1, shape), [1] * shape[0])
        mask = arith.ConstantOp(ones)
        yield from (offsets, mask, StoreOp(value, array, offsets.result, mask.result, 1))
        return
    desc = CreateNdTdescOp(array, [], [], DescType(Desc(tuple(shape), element)))
    yield from (desc, StoreNdOp(value, desc.result, [0] * len(shape)))
