"""Integer functions: population count, leading zeros, and the upper half of a product."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import math
from xdsl.ir import Operation

from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError
from xetile.frontend.broadcast import broadcast_operands
from xetile.frontend.constants import python_number
from xetile.frontend.notes import notes
from xetile.frontend.ssa_value import Arithmetic
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector
from xetile.lang.checks import describe_argument
from xetile.lang.math import bitcast
from xetile.lang.operands import matched_operands

_SIGNED = {8: dtypes.i8, 16: dtypes.i16, 32: dtypes.i32, 64: dtypes.i64}
_UNSIGNED = {8: dtypes.u8, 16: dtypes.u16, 32: dtypes.u32, 64: dtypes.u64}


def popcount(v: Any) -> Any:
    """Population count: the number of bits of ``v`` that are one (``math.ctpop``), in the type of ``v``.

    Args:
        v: a vector or a run-time number of integers of 8 to 64 bits; negative ones count in two's complement.

    Raises:
        ElementTypeError: it is none.
    """
    return _bit_count("popcount", math.CtPopOp, v)


def clz(v: Any) -> Any:
    """The number of leading zeros in the bits of ``v`` (``math.ctlz``), in the type of ``v``; of zero all bits.

    Args:
        v: a vector or a run-time number of integers of 8 to 64 bits; negative ones have no leading zero.

    Raises:
        ElementTypeError: it is none.
    """
    return _bit_count("clz", math.CountLeadingZerosOp, v)


def _bit_count(name: str, operation: type[Operation], v: Any) -> Any:
    """Emit a count of bits."""
    tracer = current(f"xt.{name}")
    _check_integers(name, v)
    # MLIR's counts take signless integers, which are the signed ones here.
    signless = v if v.dtype.signed else bitcast(v, _SIGNED[v.dtype.bits])
    result = tracer.emit(operation.create(operands=[signless.ssa], result_types=[signless.ssa.type]))
    counted = Vector(result, v.wg_map) if isinstance(v, Vector) else Scalar(result)
    return counted if v.dtype.signed else bitcast(counted, v.dtype)


def _check_integers(name: str, v: Any) -> None:
    """Check that an operand is a traced integer of 8 to 64 bits."""
    if isinstance(v, Arithmetic) and v.dtype.kind in "iu" and v.dtype is not dtypes.i1:
        return
    location = current().location()
    it = f"a {v.describe()}" if isinstance(v, Arithmetic) else describe_argument(v)
    raise ElementTypeError("XT1270", f"xt.{name} takes integers of 8 to 64 bits, not {it}",
                           "convert it with .to(xt.i32), or read a float's bits with xt.bitcast(v, xt.u32)"
                           if isinstance(v, Arithmetic) else "make a run-time number of it: xt.scalar(2, xt.u32)",
                           location, notes(location, it=v))


def mul_hi(a: Any, b: Any) -> Any:
    """The upper half of the exact product ``a * b``, of twice as many bits; signed for signed types.

    Args:
        a, b: integers of 8 to 64 bits of one type: vectors of one shape, run-time numbers, or Python numbers, but not
            both of them.

    Raises:
        ElementTypeError, ShapeError: they are no integers, or differ in type, shape or map.
    """
    current("xt.mul_hi")
    a, b = broadcast_operands([python_number(a), python_number(b)])
    for side in (a, b):
        if isinstance(side, Arithmetic):
            _check_integers("mul_hi", side)
    like, operands = matched_operands("xt.mul_hi", a, b)
    left, right = (like.like(operand) for operand in operands)
    bits = like.dtype.bits
    if bits == 64:
        return _upper_64(left, right)
    wide = (_SIGNED if like.dtype.signed else _UNSIGNED)[2 * bits]
    return ((left.to(wide) * right.to(wide)) >> bits).to(like.dtype)


def _upper_64(a: Any, b: Any) -> Any:
    """Upper 64 bits of the product, of products of halves: none of the sums leaves 64 bits.

    The upper halves keep the sign of ``a`` and ``b``, and shifts of signed sums round down.
    """
    low_a, low_b, high_a, high_b = a & 0xFFFFFFFF, b & 0xFFFFFFFF, a >> 32, b >> 32
    lowest = low_a.to(dtypes.u64) * low_b.to(dtypes.u64)
    middle = high_a * low_b + (lowest >> 32).to(a.dtype)
    other = low_a * high_b + (middle & 0xFFFFFFFF)
    return high_a * high_b + (middle >> 32) + (other >> 32)
