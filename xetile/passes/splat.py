"""Splats of integers: a signless constant, cast where the element type is unsigned, and broadcast."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, UnrealizedConversionCastOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue

from xegpu.rewrite.rewriter import Rewriter


def splat(rewriter: Rewriter, number: int, type_: VectorType) -> SSAValue:  # type: ignore[type-arg]
    """Vector of one number, which is below half the range of its type."""
    element = type_.element_type
    assert isinstance(element, IntegerType)
    signless = IntegerType(element.width.data)
    value = rewriter.emit(arith.ConstantOp(IntegerAttr(number, signless)))
    if element != signless:
        value = rewriter.emit(UnrealizedConversionCastOp.create(operands=[value], result_types=[element]))
    return rewriter.emit(BroadcastOp(value, type_))
