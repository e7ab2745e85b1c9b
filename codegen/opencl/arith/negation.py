"""Negations that are hidden from Intel's compiler for GPUs, which folds them wrongly where zeros meet.

That compiler drops a sum of a negation and a zero (``-x + 0.0`` is 0.0 for x = 0.0, ``-x`` is not), in an ``fma``,
behind products and conversions, too, and takes a choice by their order between ``x`` and ``-x`` for an absolute value,
which has no -0.0. Where a value comes to one of these, it is negated by an exclusive or with the sign bit: the
compiler does not take that for a negation.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue, Use

from codegen.opencl.arith.zero import (
    SAME_ELEMENTS,
    has_only,
    is_negative_zero,
    may_be_known,
    may_be_zero,
    zero_of,
)
from codegen.opencl.emitter import Emitter
from codegen.opencl.values import vector_type
from xegpu.ir.dtypes import DType, bf16
from xegpu.ir.region_branch import incoming, outgoing
from xegpu.mlir.arith import CmpFOp, SelectOp

_EXTREMES = (arith.MaximumfOp, arith.MinimumfOp, arith.MaxnumfOp, arith.MinnumfOp)
_KEEPS_NEGATION = (*SAME_ELEMENTS, arith.TruncFOp, arith.MulfOp, arith.DivfOp, SelectOp, *_EXTREMES)
"""Operations through which the compiler moves a negation of an operand."""
_SAME_NUMBER = (*SAME_ELEMENTS, arith.TruncFOp)
_INTEGERS = {16: "short", 32: "int", 64: "long"}


def hidden_negation(emitter: Emitter, operation: Operation) -> int | None:
    """The operand that an operation negates in a way that a GPU's compiler must not see; None if it may see it."""
    if emitter.target.is_cpu or (negated := _negated(operation)) is None:
        return None
    return negated if _meets_zero(emitter, operation.results[0], _root(operation.operands[negated])) else None


def hidden_sign(emitter: Emitter, operation: Operation) -> int | None:
    """The operand of a product that is 1 or -1 by the order of the other one, which is an absolute value to a GPU's
    compiler; None for other operations."""
    if emitter.target.is_cpu or not isinstance(operation, arith.MulfOp):
        return None
    for index, operand in enumerate(operation.operands):
        chosen = _whole_root(operand).owner
        if isinstance(chosen, SelectOp) and all(_is_unit(arm) for arm in chosen.operands[1:]) and \
                isinstance(order := _root(chosen.operands[0]).owner, CmpFOp) and \
                _root(operation.operands[1 - index]) in map(_root, order.operands):
            return index
    return None


def with_sign(value: str, sign: str, dtype: DType, width: int) -> str:
    """Expression of a product with 1 or -1 by the sign bit, of a type that computes in itself."""
    integers, mask = _sign_bit(dtype, width)
    return _as_number(f"as_{integers}({value}) ^ (as_{integers}({sign}) & {mask})", dtype, width)


def hidden(value: str, dtype: DType, width: int) -> str:
    """Expression of a negation by its sign bit, of a type that computes in itself."""
    integers, mask = _sign_bit(dtype, width)
    return _as_number(f"as_{integers}({value}) ^ {mask}", dtype, width)


def _sign_bit(dtype: DType, width: int) -> tuple[str, str]:
    """The type of the bits of numbers, and their sign bits in it."""
    integers = vector_type(_INTEGERS[dtype.bits], width)
    return integers, f"({integers}){1 << dtype.bits - 1:#x}{'ul' if dtype.bits == 64 else ''}"


def _as_number(bits: str, dtype: DType, width: int) -> str:
    narrow = f"({vector_type('short', width)})({bits})" if dtype.bits == 16 else bits  # C computes short as int
    return f"as_{vector_type(dtype.opencl, width)}({narrow})"


def _is_unit(value: SSAValue) -> bool:
    """Whether all elements of a constant, or of the negation of one, are 1 or -1."""
    owner = _whole_root(value).owner
    if isinstance(owner, Operation) and (negated := _negated(owner)) is not None:
        return _is_unit(owner.operands[negated])
    return has_only(value, lambda number: abs(number) == 1)


def _negated(operation: Operation) -> int | None:
    """The operand of ``-0.0 - x``, ``x * -1``, ``x / -1``, in all elements; None of other operations."""
    if isinstance(operation, arith.SubfOp):
        return 1 if has_only(operation.lhs, is_negative_zero) else None
    if isinstance(operation, (arith.MulfOp, arith.DivfOp)):
        sides = (0, 1) if isinstance(operation, arith.MulfOp) else (0,)
        return next((i for i in sides if has_only(operation.operands[1 - i], lambda number: number == -1)), None)
    return None


def _meets_zero(emitter: Emitter, negation: SSAValue, negated: SSAValue) -> bool:
    """Whether a negation, or a value computed from it, is added to a possible zero or selected instead of its operand.

    Args:
        emitter: the emitter.
        negation: the negation.
        negated: the operand, without conversions; the negation may be selected instead of it until it is multiplied.
    """
    pending, followed = [(negation, True)], set[tuple[Use, bool]]()
    while pending:  # chains of operations are longer than Python's stack
        value, as_it_is = pending.pop()
        for use in value.uses:
            if (use, as_it_is) in followed:
                continue
            followed.add((use, as_it_is))
            user, index = use.operation, use.index
            if _drops_zero(emitter, user, index) or (
                    as_it_is and any(_root(other) is negated for other in _alternatives(user, index))):
                return True
            results: Sequence[SSAValue] = outgoing(user, index) or ()
            if isinstance(user, _KEEPS_NEGATION) and not (isinstance(user, SelectOp) and index == 0):
                results = user.results
            still = as_it_is and not isinstance(user, (arith.MulfOp, arith.DivfOp))
            pending += [(result, still) for result in results]
    return False


def _drops_zero(emitter: Emitter, user: Operation, index: int) -> bool:
    """Whether the compiler may drop the zero that an operation adds to a negation, its operand ``index``."""
    if isinstance(user, arith.AddfOp):
        return zero_of(emitter, user) is None and may_be_zero(emitter, user.operands[1 - index])
    if isinstance(user, arith.SubfOp):
        return index == 0 and may_be_known(emitter, user.rhs)
    if not isinstance(user, math.FmaOp):
        return False
    if index == 2:
        return may_be_known(emitter, user.a) and may_be_known(emitter, user.b)
    return may_be_zero(emitter, user.c) and may_be_known(emitter, user.operands[1 - index])


def _alternatives(user: Operation, index: int) -> tuple[SSAValue, ...]:
    """Operands that an operation may select instead of operand ``index``."""
    if isinstance(user, SelectOp):
        return (user.operands[3 - index],) if index else ()
    if isinstance(user, _EXTREMES):
        return (user.operands[1 - index],)
    above = user.parent_op()
    return incoming(above.results[index]) if isinstance(user, scf.YieldOp) and isinstance(above, scf.IfOp) else ()


def _root(value: SSAValue) -> SSAValue:
    """A value without conversions between floats and layouts."""
    while isinstance(owner := value.owner, (BroadcastOp, UnrealizedConversionCastOp, *_SAME_NUMBER)):
        value = owner.operands[0]
    return value


def _whole_root(value: SSAValue) -> SSAValue:
    """The same, but only through operations with a single operand, not through insertions of slices."""
    while isinstance(owner := value.owner, (BroadcastOp, UnrealizedConversionCastOp, *_SAME_NUMBER)) and \
            len(owner.operands) == 1:
        value = owner.operands[0]
    return value


def has_sign_bit(dtype: DType) -> bool:
    """Whether the numbers are computed in the type that holds them; bf16 is rounded by integers."""
    return dtype is not bf16 and dtype.bits in _INTEGERS
