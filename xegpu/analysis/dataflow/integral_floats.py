"""Integer range analysis of vectors of floats that are converted from integers (as MLIR's IntegerRangeAnalysis)."""

from __future__ import annotations

from functools import reduce
from operator import or_

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, UnrealizedConversionCastOp
from xdsl.dialects.vector import BroadcastOp as SplatOp
from xdsl.ir import SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.analysis.dataflow.integer_range import ANY, Range
from xegpu.dialect.convert_layout import ConvertLayoutOp
from xegpu.dialect.reduction import BroadcastOp
from xegpu.dialect.vector import ShuffleOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import number
from xegpu.mlir.arith import ExtSIOp, ExtUIOp, SIToFPOp, TruncIOp, UIToFPOp
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, ShapeCastOp

_STRUCTURAL = (SplatOp, BroadcastOp, ConvertLayoutOp, ExtractOp, ExtractStridedSliceOp, ShapeCastOp,
               UnrealizedConversionCastOp)
"""Operations whose results have elements of their first operand."""

_DEPTH = 12
"""Operations that are followed from a value on."""


def integral_range(value: SSAValue) -> Range | None:
    """Range of floats that are converted from integers, or a constant integer; None for others."""
    owner = value.owner
    if isinstance(owner, _STRUCTURAL):
        return integral_range(owner.operands[0])
    if isinstance(owner, ShuffleOp):
        ranges = [integral_range(source) for source in owner.sources]
        return None if None in ranges else reduce(or_, ranges)  # type: ignore[arg-type]
    if isinstance(owner, (UIToFPOp, SIToFPOp)):
        return _range(owner.input, isinstance(owner, SIToFPOp))
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, FloatAttr):
        constant = owner.value.value.data
        return Range(int(constant), int(constant)) if constant.is_integer() else None
    return None


def signed_range(value: SSAValue) -> Range:
    """Range of integers whose bits are read as signed."""
    return _range(value, signed=True)


def signed_limits(bits: int) -> tuple[int, int]:
    """Lowest and highest signed integer of so many bits."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def _range(value: SSAValue, signed: bool, depth: int = _DEPTH) -> Range:
    """Range of integers whose bits are read as signed or not."""
    owner, bits = value.owner, of_mlir(get_element_type_or_self(value.type)).bits
    limits = Range(*signed_limits(bits)) if signed else Range(0, (1 << bits) - 1)
    found = limits
    if not depth:
        return limits
    if isinstance(owner, _STRUCTURAL):
        found = _range(owner.operands[0], signed, depth - 1)
    elif isinstance(owner, ShuffleOp):
        found = reduce(or_, (_range(source, signed, depth - 1) for source in owner.sources))
    elif (constant := number(value)) is not None:
        found = Range(constant, constant)
    elif isinstance(owner, (ExtUIOp, ExtSIOp)):
        found = _range(owner.input, isinstance(owner, ExtSIOp), depth - 1)
    elif isinstance(owner, (TruncIOp, arith.BitcastOp)) and \
            of_mlir(get_element_type_or_self(owner.input.type)).kind in "iu":
        found = _range(owner.input, signed, depth - 1)
    elif isinstance(owner, arith.AndIOp):
        found = _masked(*(_range(operand, signed, depth - 1) for operand in owner.operands))
    elif isinstance(owner, arith.ShRUIOp):
        by = _range(owner.rhs, False, depth - 1)
        found = Range(0, ((1 << bits) - 1) >> by.low) if by.low < bits else limits
    elif isinstance(owner, (arith.AddiOp, arith.SubiOp)):
        a, b = (_range(operand, signed, depth - 1) for operand in owner.operands)
        found = a + b if isinstance(owner, arith.AddiOp) else a - b
    return found if found.within(limits.low, limits.high) else limits


def _masked(a: Range, b: Range) -> Range:
    """Range of the common bits of two integers: none exceeds one that is not negative."""
    highs = [operand.high for operand in (a, b) if operand.low >= 0]
    return Range(0, min(highs)) if highs else ANY
