"""Retyping of unsigned integers to MLIR's signless ones, before a kernel is exported to LLVM's dialect.

    %q = arith.divui %a, %b : vector<8x16xui32>
becomes
    %q = arith.divui %a, %b : vector<8x16xi32>

The operations of ``arith`` and ``vector.multi_reduction`` take signless integers alone, and say themselves how they
read the bits. ``xegpu.dpas`` says it by the types of its operands, which stay unsigned, from the array to the product.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    IntegerType,
    MemRefType,
    Signedness,
    UnrealizedConversionCastOp,
    VectorType,
)
from xdsl.ir import Attribute, Data, Operation, SSAValue
from xdsl.rewriter import Rewriter

from xegpu.analysis.webs import Webs
from xegpu.support.errors import TargetError
from xegpu.support.location import author_location

_BY_OPERATION = ("arith", "math")
"""Dialects whose operations say how the bits of integers are read."""


def signless(function: func.FuncOp, products: type[Operation]) -> func.FuncOp:
    """Copy of a kernel without unsigned integers but in the operands of products.

    Args:
        function: the kernel.
        products: the operation that multiplies, whose first two operands are A and B.

    Raises:
        TargetError: what is multiplied as unsigned is calculated with as well.
    """
    if not any(_is_unsigned(value) for value in _values(function)):
        return function
    copy = function.clone()
    webs = Webs(copy, _same_elements)
    multiplied = {value for operation in copy.walk() if isinstance(operation, products)
                  for operand in operation.operands[:2] if _is_unsigned(operand) for value in webs.members(operand)}
    for value in multiplied:
        _check_untouched(value)
    for value in list(_values(copy)):
        if value not in multiplied and _is_unsigned(value):
            Rewriter.replace_value_with_new_type(value, _retyped(value.type))
    for operation in list(copy.walk()):
        if isinstance(operation, (arith.BitcastOp, UnrealizedConversionCastOp)) and \
                operation.operands[0].type == operation.results[0].type:
            operation.results[0].replace_all_uses_with(operation.operands[0])
            Rewriter.erase_op(operation)
    return copy


def _values(function: func.FuncOp) -> Iterable[SSAValue]:
    for operation in function.walk():
        yield from operation.results
        for region in operation.regions:
            for block in region.blocks:
                yield from block.args


def _element(type_: Attribute) -> Attribute:
    """Element type of a vector, an array, a tile or a descriptor; a number's own type."""
    if isinstance(type_, Data):
        return getattr(type_.data, "element_type", type_)
    return getattr(type_, "element_type", type_)


def _is_unsigned(value: SSAValue) -> bool:
    element = _element(value.type)
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED


def _retyped(type_: Attribute) -> Attribute:
    """The type with signless elements."""
    if isinstance(type_, IntegerType):
        return IntegerType(type_.width.data)
    element = _retyped(_element(type_))
    if isinstance(type_, VectorType):
        return VectorType(element, type_.shape, type_.scalable_dims)
    if isinstance(type_, MemRefType):
        return MemRefType(element, type_.shape, type_.layout, type_.memory_space)
    return type_.with_(element_type=element)  # type: ignore[attr-defined, no-any-return]


def _same_elements(operation: Operation) -> list[SSAValue]:
    """Unsigned values that an operation only moves."""
    if _is_arithmetic(operation):
        return []
    return [value for value in (*operation.operands, *operation.results) if _is_unsigned(value)]


def _is_arithmetic(operation: Operation) -> bool:
    return operation.name.split(".")[0] in _BY_OPERATION or isinstance(operation, UnrealizedConversionCastOp)


def _check_untouched(value: SSAValue) -> None:
    """Check that no operation of ``arith`` makes or reads an operand of a product."""
    touching = [use.operation for use in value.uses]
    if isinstance(value.owner, Operation):
        touching.append(value.owner)
    for operation in touching:
        if _is_arithmetic(operation):
            raise TargetError("XT3659", f"LLVM's form multiplies {value.type} and calculates with signless integers, "
                              f"and {operation.name} stands between",
                              "calculate with signed integers, or print the kernel in our own form",
                              author_location(operation))
