"""Splats: a number, for integers a signless constant that is cast where the element type is unsigned, and broadcast."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, UnrealizedConversionCastOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue

from xegpu.ir.dtypes import i1, of_mlir
from xegpu.mlir.combining_kind import neutral
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


def neutral_splat(rewriter: Rewriter, kind: str, type_: VectorType) -> SSAValue:  # type: ignore[type-arg]
    """Vector of neutral elements of a reduction; of sums of floats it is -0.0, which keeps a sum of those."""
    dtype = of_mlir(type_.element_type)
    value = neutral(kind, dtype)
    if dtype is i1 or not dtype.is_float:
        assert isinstance(type_.element_type, IntegerType)
        return splat(rewriter, int(value), type_)
    constant = arith.ConstantOp(FloatAttr(-0.0 if kind == "add" else value, type_.element_type))  # type: ignore
    return rewriter.emit(BroadcastOp(rewriter.emit(constant), type_))
