"""Differences from zero in OpenCL C, whose signs Intel's compiler for GPUs loses.

``0.0f - x`` is 0.0 for x = 0.0. That compiler makes the negation of it, which is -0.0, wherever it comes to know the
zero: a constant, what it computes of constants, a loop's first value in the first of the steps that it unrolls, the
conversion of an integer that is 0 by its bits. Of ``0.0f + -x`` it makes the difference first. It leaves
``fma(x, -1, 0)`` alone, which has the same value for every x and is one instruction too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, UnrealizedConversionCastOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, SSAValue

from codegen.opencl.arith.operands import literal
from codegen.opencl.emitter import Emitter
from codegen.opencl.values import vector_type
from xegpu.analysis.dataflow.integral_floats import signed_range
from xegpu.analysis.dataflow.known_values import known_values
from xegpu.dialect import reduction
from xegpu.dialect.convert_layout import ConvertLayoutOp
from xegpu.dialect.vector import ExtractScalarOp, PadOp, ShuffleOp
from xegpu.ir.dtypes import DType, bf16, f32
from xegpu.ir.region_branch import incoming
from xegpu.mlir.arith import CmpFOp, CmpIOp, ExtSIOp, ExtUIOp, SelectOp, SIToFPOp, TruncIOp, UIToFPOp
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp

SAME_ELEMENTS = (BroadcastOp, UnrealizedConversionCastOp, arith.ExtFOp, reduction.BroadcastOp, ConvertLayoutOp,
                 ExtractScalarOp, PadOp, ShuffleOp, ExtractOp, ExtractStridedSliceOp, InsertStridedSliceOp,
                 ShapeCastOp)
"""Operations whose results have elements of their operands."""
_VALUE_OF_OPERAND = (*SAME_ELEMENTS, SIToFPOp, UIToFPOp, ExtSIOp, ExtUIOp)
"""Operations whose results are zero where those of their operands are."""
_MAKES_ZERO = (arith.SubiOp, arith.XOrIOp, CmpIOp, CmpFOp)
"""Operations whose results a compiler may know to be 0 though it does not know the operands, as of ``n - n``."""
_QUOTIENTS = (arith.ShRSIOp, arith.ShRUIOp, arith.DivSIOp, arith.DivUIOp, arith.FloorDivSIOp)
_REMAINDERS = (arith.RemSIOp, arith.RemUIOp)
_INTEGER_OPERATIONS = (arith.AddiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.ShLIOp, arith.MinSIOp,
                       arith.MinUIOp, arith.MaxSIOp, arith.MaxUIOp, TruncIOp, *_QUOTIENTS, *_REMAINDERS)


def zero_of(emitter: Emitter, operation: Operation) -> int | None:
    """The operand of a difference or of a sum with a negation that a GPU's compiler may know to be 0.0; None for other
    operations, and for CPUs."""
    if emitter.target.is_cpu or not isinstance(operation, (arith.SubfOp, arith.AddfOp)):
        return None
    others = (1,) if isinstance(operation, arith.SubfOp) else (
        i for i, value in enumerate(operation.operands) if _is_negation(value))
    return next((1 - i for i in others if may_be_zero(emitter, operation.operands[1 - i])), None)


def _is_negation(value: SSAValue) -> bool:
    """Whether a value is ``-0.0 - x`` or ``x * -1``, or one of values of which one is, in a loop the initial one."""
    pending, seen = [value], {value}
    while pending:
        owner = (value := pending.pop()).owner
        if isinstance(owner, (BroadcastOp, UnrealizedConversionCastOp)):
            among: Sequence[SSAValue] = owner.operands[:1]
        elif among := _chosen_from(value):
            among = among[:1] if isinstance(owner, Block) else among
        elif (isinstance(owner, arith.SubfOp) and has(owner.lhs, is_negative_zero)) or (
                isinstance(owner, arith.MulfOp) and any(has(factor, lambda number: number == -1)
                                                        for factor in owner.operands)):
            return True
        pending += [each for each in among if each not in seen]
        seen.update(among)
    return False


def may_be_zero(emitter: Emitter, value: SSAValue) -> bool:
    """Whether a compiler may know of an element of a value that it is 0.0, if only in a loop's first step."""
    pending, seen = [value], {value}
    while pending:
        owner, sources = (value := pending.pop()).owner, _sources(value)
        if isinstance(owner, arith.ConstantOp):
            found = has(value, lambda number: number == 0 and not is_negative(number))
        elif isinstance(owner, _INTEGER_OPERATIONS):
            found = _is_small(owner)
        else:
            found = isinstance(owner, _MAKES_ZERO) or (not sources and may_be_known(emitter, value))
        if found:
            return True
        pending += [each for each in reversed(sources) if each not in seen]
        seen.update(sources)
    return False


def _sources(value: SSAValue) -> Sequence[SSAValue]:
    """Values of which a value is zero where one of them is."""
    takes_operands = isinstance(value.owner, (*_VALUE_OF_OPERAND, *_INTEGER_OPERATIONS))
    return value.owner.operands if takes_operands else _chosen_from(value)  # type: ignore[union-attr]


def _is_small(owner: Operation) -> bool:
    """Whether an operation on integers is 0 by the range of its operands, or may be by their bits."""
    if isinstance(owner, arith.AndIOp):
        return not any(isinstance(operand.owner, arith.ConstantOp) or has(operand, bool) for operand in owner.operands)
    if isinstance(owner, _REMAINDERS):
        return has(owner.rhs, lambda number: abs(number) == 1)
    if not isinstance(owner, _QUOTIENTS):
        return False
    dividend, shifts = signed_range(owner.lhs), isinstance(owner, (arith.ShRSIOp, arith.ShRUIOp))
    return dividend.low >= 0 and has(owner.rhs, lambda number: number >= 0 and (
        dividend.high >> number == 0 if shifts else dividend.high < number))  # type: ignore[operator]


def may_be_known(emitter: Emitter, value: SSAValue) -> bool:
    """Whether a compiler may know a value, as all that it is computed of."""
    if emitter.known_values is None:
        assert emitter.kernel is not None
        emitter.known_values = known_values(emitter.kernel)
    return value in emitter.known_values


def _chosen_from(value: SSAValue) -> Sequence[SSAValue]:
    """Values of which a value is one."""
    owner = value.owner
    return owner.operands[1:] if isinstance(owner, SelectOp) else incoming(value)


def has(value: SSAValue, test: Callable[[float], bool]) -> bool:
    """Whether a value is a constant of which an element passes a test."""
    return any(map(test, _elements(value)))


def has_only(value: SSAValue, test: Callable[[float], bool]) -> bool:
    """Whether a value is a constant all of whose elements pass a test."""
    elements = _elements(value)
    return bool(elements) and all(map(test, elements))


def _elements(value: SSAValue) -> Sequence[float]:
    """The elements of a constant; of one number that one; none of other values."""
    while isinstance(owner := value.owner, (BroadcastOp, UnrealizedConversionCastOp)):
        value = owner.operands[0]
    attribute = owner.value if isinstance(owner, arith.ConstantOp) else None
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return attribute.get_values()
    return (attribute.value.data,) if isinstance(attribute, FloatAttr | IntegerAttr) else ()


def is_negative(number: float) -> bool:
    """Whether a number has its sign bit set, as -0.0 has."""
    return math.copysign(1, number) < 0


def is_negative_zero(number: float) -> bool:
    """Whether a number is -0.0."""
    return number == 0 and is_negative(number)


def difference(zero: str, subtrahend: str, dtype: DType, width: int) -> str:
    """Expression of a difference from what may be 0.0, in the type in which it is computed."""
    computed = f32 if dtype is bf16 else dtype
    return f"fma({subtrahend}, ({vector_type(computed.opencl, width)})({literal(-1.0, computed)}), {zero})"
