"""Scales of block-scaled products, ``f8E8M0FNU`` in LLVM: bytes here, of which only products make numbers."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float8E8M0FNUType,
    FunctionType,
    MemRefType,
    ModuleOp,
    VectorType,
    i8,
)
from xdsl.ir import Attribute, Operation
from xdsl.rewriter import Rewriter
from xdsl.utils.type import get_element_type_or_self

from xegpu.interop.llvm.dialect.matrix import MemDescType
from xegpu.interop.llvm.dialect.types import DescType
from xegpu.ir.dtypes import u8
from xegpu.mlir.gpu import GpuFuncOp
from xegpu.support.errors import ElementTypeError
from xegpu.support.location import author_location

_OF_NUMBERS = ("arith.", "math.", "vector.multi_reduction", "vector.reduction", "vector.fma", "xegpu.truncf")
"""Beginnings of the names of operations that would take a scale for a number."""


def _as_bytes(type_: Attribute) -> Attribute:
    """The type with bytes in the place of scales."""
    if isinstance(type_, Float8E8M0FNUType):
        return u8.mlir
    if isinstance(type_, VectorType) and isinstance(type_.element_type, Float8E8M0FNUType):
        return VectorType(u8.mlir, type_.get_shape())
    if isinstance(type_, MemRefType) and isinstance(type_.element_type, Float8E8M0FNUType):
        return MemRefType(u8.mlir, type_.get_shape(), type_.layout, type_.memory_space)
    if isinstance(type_, (DescType, MemDescType)) and isinstance(type_.data.element_type, Float8E8M0FNUType):
        return type(type_)(replace(type_.data, element_type=u8.mlir))  # type: ignore[type-var, arg-type]
    return type_


def _moves_bits(operation: Operation) -> bool:
    """Whether an operation takes scales for bytes: a bit cast, a vector constant."""
    return isinstance(operation, arith.BitcastOp) or (
        isinstance(operation, arith.ConstantOp) and isinstance(operation.value, DenseIntOrFPElementsAttr))


def _constant_as_bytes(operation: arith.ConstantOp) -> None:
    """Replace a vector constant of scales by one of their bytes, which MLIR has without a sign."""
    dense = operation.value
    if not isinstance(dense, DenseIntOrFPElementsAttr) or (type_ := _as_bytes(dense.type)) == dense.type:
        return
    assert isinstance(type_, VectorType)
    bits = VectorType(i8, type_.get_shape())
    constant = arith.ConstantOp(DenseIntOrFPElementsAttr(bits, dense.data))
    cast = arith.BitcastOp(constant.result, type_)
    for new in (constant, cast):
        new.location = operation.location
    Rewriter.replace_op(operation, [constant, cast], [cast.result])


def scales_as_bytes(module: ModuleOp) -> None:
    """Convert the element type of scales to ``ui8``.

    Raises:
        ElementTypeError: an operation calculates with scales as with numbers.
    """
    for operation in module.walk():
        if operation.name.startswith(_OF_NUMBERS) and not _moves_bits(operation) and any(
                isinstance(get_element_type_or_self(value.type), Float8E8M0FNUType)
                for value in (*operation.operands, *operation.results)):
            raise ElementTypeError("XT3272", "element type f8E8M0FNU is not supported by " + operation.name,
                                   "load scales and pass them to dpas_mx; their bytes are ui8",
                                   author_location(operation))
    for operation in list(module.walk()):
        if isinstance(operation, arith.ConstantOp):
            _constant_as_bytes(operation)
    for operation in module.walk():
        arguments = [argument for region in operation.regions for block in region.blocks for argument in block.args]
        for value in (*operation.results, *arguments):
            if (type_ := _as_bytes(value.type)) != value.type:
                Rewriter.replace_value_with_new_type(value, type_)
        if isinstance(operation, (func.FuncOp, GpuFuncOp)):
            inputs, outputs = ([_as_bytes(type_) for type_ in types] for types in
                               (operation.function_type.inputs, operation.function_type.outputs))
            operation.function_type = FunctionType.from_lists(inputs, outputs)
