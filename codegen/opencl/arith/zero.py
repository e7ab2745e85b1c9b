"""Differences from zero in OpenCL C, whose signs Intel's compiler for GPUs does not keep.

``0.0f - x`` is 0.0 for x = 0.0. That compiler makes the negation of it, which is -0.0, wherever it comes to know the
zero: a constant, what it computes of constants, a loop's first value in the first of the steps that it unrolls, the
conversion of an integer that is 0 by its bits. Of ``0.0f + -x`` it makes the difference first. It leaves
``fma(x, -1, 0)`` alone, which has the same value for every x and is one instruction too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, UnrealizedConversionCastOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, SSAValue

from codegen.opencl.arith.operands import literal
from codegen.opencl.emitter import Emitter
from codegen.opencl.values import vector_type
from xegpu.analysis.integral_floats import signed_range
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
    operations, and for processors."""
    if emitter.target.is_cpu or not isinstance(operation, (arith.SubfOp, arith.AddfOp)):
        return None
    others = (1,) if isinstance(operation, arith.SubfOp) else (
        i for i, value in enumerate(operation.operands) if _is_negation(value))
    return next((1 - i for i in others if may_be_zero(operation.operands[1 - i])), None)


def _is_negation(value: SSAValue) -> bool:
    """Whether a value is ``-0.0 - x`` or ``x * -1``, or one of values of which one is, in a loop the initial one."""
    return any(
        (isinstance(owner := each.owner, arith.SubfOp) and has(
            owner.lhs, lambda number: number == 0 and is_negative(number)))
        or (isinstance(owner, arith.MulfOp) and any(
            has(factor, lambda number: number == -1) for factor in owner.operands))
        for each in _sources(value, _first_choices))


def may_be_zero(value: SSAValue) -> bool:
    """Whether a compiler may know that a value, or an element of it, is 0.0, if only in a loop's first step."""
    known: dict[SSAValue, bool] = {}
    return any(_is_zero(each, known) for each in _sources(value, _zero_if_one_is))


def _is_zero(value: SSAValue, known: dict[SSAValue, bool]) -> bool:
    """Whether a compiler may know that a value is 0.0 by itself, not by one of the values that it has elements of."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        return has(value, lambda number: number == 0 and not is_negative(number))
    if isinstance(owner, _MAKES_ZERO):
        return True
    if isinstance(owner, _INTEGER_OPERATIONS):
        return _is_small(owner)
    return not _zero_if_one_is(value) and may_be_known(value, known)


def _sources(value: SSAValue, of: Callable[[SSAValue], Sequence[SSAValue]]) -> Iterator[SSAValue]:
    """A value, those that it is made of, and so on; each once."""
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        yield current
        found = [each for each in dict.fromkeys(of(current)) if each not in seen]
        seen.update(found)
        pending += found


def _first_choices(value: SSAValue) -> Sequence[SSAValue]:
    """Values of which a value is one, in a loop the initial one; what has its elements in another layout."""
    owner = value.owner
    if isinstance(owner, (BroadcastOp, UnrealizedConversionCastOp)):
        return owner.operands
    return _chosen_from(value)[:1] if isinstance(owner, Block) else _chosen_from(value)


def _zero_if_one_is(value: SSAValue) -> Sequence[SSAValue]:
    """Values of which one may be zero where a value is."""
    if isinstance(owner := value.owner, (*_VALUE_OF_OPERAND, *_INTEGER_OPERATIONS)):
        return owner.operands
    return _chosen_from(value)


def _is_small(owner: Operation) -> bool:
    """Whether an operation on integers is 0 by the range of its operands, or may be by their bits."""
    if isinstance(owner, arith.AndIOp):
        return not any(isinstance(operand.owner, arith.ConstantOp) or has(operand, bool) for operand in owner.operands)
    if isinstance(owner, _REMAINDERS):
        return has(owner.rhs, lambda number: abs(number) == 1)
    if not isinstance(owner, _QUOTIENTS):
        return False
    dividend, shifts = signed_range(owner.lhs), isinstance(owner, (arith.ShRSIOp, arith.ShRUIOp))
    return dividend.low >= 0 and has(owner.rhs, lambda number: dividend.high < (2 ** number if shifts else number))


def may_be_known(value: SSAValue, known: dict[SSAValue, bool]) -> bool:
    """Whether a compiler may know a value, as all that it is computed of.

    Args:
        value: the value.
        known: the answers; False for values that are being asked for, which loops carry.
    """
    pending = [] if value in known else [value]
    known.setdefault(value, False)
    while pending:
        current = pending[-1]
        parts, one_is_enough = _known_by(current)
        for part in parts:
            if part not in known:
                known[part] = False
                pending.append(part)
                break
            if known[part] is one_is_enough:
                break
        if pending[-1] is current:
            combine = any if one_is_enough else all
            known[current] = isinstance(current.owner, arith.ConstantOp) or \
                (bool(parts) and combine(known[part] for part in parts))
            pending.pop()
    return known[value]


def _known_by(value: SSAValue) -> tuple[Sequence[SSAValue], bool]:
    """Values that a compiler knows a value by, and whether one of them is enough."""
    owner = value.owner
    if among := incoming(value):
        return among, True
    if isinstance(owner, Operation):  # the last operands first: those of a chain of sums are what is added
        return owner.operands[::-1], False
    return ((loop.lb,), True) if isinstance(loop := owner.parent_op(), scf.ForOp) else ((), True)


def _chosen_from(value: SSAValue) -> Sequence[SSAValue]:
    """Values of which a value is one."""
    owner = value.owner
    return owner.operands[1:] if isinstance(owner, SelectOp) else incoming(value)


def has(value: SSAValue, test: Callable[[float], bool]) -> bool:
    """Whether a value is a constant of which an element passes a test."""
    owner = value.owner
    if isinstance(owner, (BroadcastOp, UnrealizedConversionCastOp)):
        return has(owner.operands[0], test)
    attribute = owner.value if isinstance(owner, arith.ConstantOp) else None
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return any(map(test, attribute.get_values()))
    return isinstance(attribute, FloatAttr | IntegerAttr) and test(attribute.value.data)


def is_negative(number: float) -> bool:
    """Whether a number has its sign bit set, as -0.0 has."""
    return math.copysign(1, number) < 0


def difference(zero: str, subtrahend: str, dtype: DType, width: int) -> str:
    """Expression of a difference from what may be 0.0, in the type in which it is computed."""
    computed = f32 if dtype is bf16 else dtype
    return f"fma({subtrahend}, ({vector_type(computed.opencl, width)})({literal(-1.0, computed)}), {zero})"
