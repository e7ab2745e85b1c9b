"""``base ** exponent``: products and roots where the exponent is a small Python number, else the power function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import math

from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError
from xetile.tracer import current

_MOST = 64
"""The largest exponent that becomes multiplications."""
_ROOT, _PRECISE = 0.5, (1, 2, 3, 4)


def power(base: Any, exponent: Any, general: Callable[[str, Any, Any], Any]) -> Any:
    """``base ** exponent``.

    Integers are multiplied; their exponent is a Python number from 0 to 64. Floats are multiplied for exponents up to
    4, whose roundings are fewer than those of the power function, f16 and bf16 in float32; the rest is that function.

    Args:
        base: a vector or a run-time number.
        exponent: a number, or a float vector or run-time float.
        general: makes the operation of an operator.

    Raises:
        ElementTypeError: integers to the power of something else.
    """
    if base.dtype.is_float:
        return _of_float(base, exponent, general)
    if type(exponent) is not int or not 0 <= exponent <= _MOST or base.dtype is dtypes.i1:
        shown = f"a {exponent.describe()}" if hasattr(exponent, "describe") else repr(exponent)
        raise ElementTypeError("XT1210", f"integers have no such power: a {base.describe()} to the power of {shown}",
                               f"integers take Python integers from 0 to {_MOST} as exponents; for others convert with "
                               ".to(xt.f32)", current().location())
    return _multiplied(base, exponent)


def _of_float(base: Any, exponent: Any, general: Callable[[str, Any, Any], Any]) -> Any:
    if isinstance(exponent, (int, float)) and exponent == _ROOT:
        return base.like(current().emit(math.SqrtOp(base.ssa)))
    if not isinstance(exponent, (int, float)) or exponent not in _PRECISE:
        return general("**", base, exponent)
    narrow = base.dtype.bits < 32 and exponent > 2
    wide = base.to(dtypes.f32) if narrow else base
    product = _multiplied(wide, int(exponent))
    return product.to(base.dtype) if narrow else product


def _multiplied(base: Any, exponent: int) -> Any:
    """``base`` multiplied by squaring; to the power of 0 it is 1."""
    result, square = None, base
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        square = square * square if exponent else square
    return base * 0 + 1 if result is None else result
