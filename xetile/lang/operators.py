"""Operators of vectors and run-time scalars: broadcasting of operands, one operation each, and powers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import math
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, ElementTypeError, ShapeError
from xetile.dialect.tile_ops import text
from xetile.dialect.types import WgMapAttr
from xetile.frontend import values
from xetile.frontend.arith_rules import constant_of, fold, rules_of
from xetile.frontend.constants import plain, scalar, scalar_of_element
from xetile.frontend.notes import notes
from xetile.frontend.tracer import current
from xetile.frontend.values import Arithmetic, Scalar, Value, Vector
from xetile.lang.reduction import broadcast_operands, broadcast_pair

_MAX_EXPONENT = 64
"""Largest integer exponent that is expanded to multiplications."""
_ROOT, _PRECISE = 0.5, (1, 2, 3, 4)
"""Float exponents that become a square root, and multiplications of fewer roundings than the power function's."""


def power(base: Any, exponent: Any, general: Callable[[str, Any, Any], Any]) -> Any:
    """Power: ``base ** exponent``.

    Integers are multiplied; their exponent is a Python number from 0 to 64. Floats are multiplied for exponents up to
    4, whose roundings are fewer than those of the power function, f16 and bf16 in float32; the rest is that function.

    Args:
        base: a vector or a run-time number.
        exponent: a number, or a float vector or run-time float.
        general: emits the operation of an operator.

    Raises:
        ElementTypeError: integers to the power of something else.
    """
    if base.dtype.is_float:
        return _float_power(base, exponent, general)
    if type(exponent) is not int or not 0 <= exponent <= _MAX_EXPONENT or base.dtype is dtypes.i1:
        shown = f"a {exponent.describe()}" if hasattr(exponent, "describe") else repr(exponent)
        raise ElementTypeError("XT1210", f"integers have no such power: a {base.describe()} to the power of {shown}",
                               f"integers take Python integers from 0 to {_MAX_EXPONENT} as exponents; for others "
                               "convert with "
                               ".to(xt.f32)", current().location())
    return _power_by_squaring(base, exponent)


def _float_power(base: Any, exponent: Any, general: Callable[[str, Any, Any], Any]) -> Any:
    """Power of a float: a square root, multiplications, or the power function."""
    if isinstance(exponent, (int, float)) and exponent == _ROOT:
        return base.like(current().emit(math.SqrtOp(base.ssa)))
    if not isinstance(exponent, (int, float)) or exponent not in _PRECISE:
        return general("**", base, exponent)
    narrow = base.dtype.bits < 32 and exponent > 2
    wide = base.to(dtypes.f32) if narrow else base
    product = _power_by_squaring(wide, int(exponent))
    return product.to(base.dtype) if narrow else product


def _power_by_squaring(base: Any, exponent: int) -> Any:
    """Exponentiation by squaring; to the power of 0 it is 1."""
    result, square = None, base
    while exponent:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        square = square * square if exponent else square
    return base * 0 + 1 if result is None else result


def operate(operator: str, left: Any, right: Any) -> Any:
    """Result of an operator: :func:`power` for ``**``, else :func:`binary`."""
    if operator == "**" and isinstance(left, Arithmetic):
        return power(left, plain(right), binary)
    return binary(operator, left, right)


def binary(operator: str, left: Any, right: Any) -> Any:
    """Binary operator on two values; scalars are broadcast to vectors.

    Raises:
        ElementTypeError: the element types differ, or have no such operator.
        ShapeError: the shapes, or the work-group maps, differ.
        ArgumentError: an integer is divided by the number 0.
    """
    left, right = plain(left), plain(right)
    if wrong := [side for side in (left, right) if not isinstance(side, (Arithmetic, int, float))]:
        raise operand_error(operator, wrong[0])
    if operator in ("//", "%") and isinstance(right, (int, float)) and right == 0:
        raise ArgumentError("XT1216", f"a {left.describe()} {operator} 0 has no value",
                            "divide by a number that is not 0; where the divisor is calculated, keep it at 1 or more: "
                            f"x {operator} xt.maximum(d, 1)", current().location())
    if not isinstance(left, Vector) and not isinstance(right, Vector):
        return _scalar_binary(operator, left, right)
    shaped = left if isinstance(left, Vector) else right
    location = current().location()
    if isinstance(left, Vector) and isinstance(right, Vector):
        left, right = broadcast_pair(operator, left, right)
        shaped = left
    rule = rules_of(shaped.dtype).get(operator)
    if rule is None:
        raise ElementTypeError("XT1202", f"vectors of {shaped.dtype} have no operator {operator}",
                               _operator_hint(operator, shaped.dtype), location)
    if operator == "%" and shaped.dtype.kind == "i":
        return left - (left // right) * right  # Python's sign rule, which arith.remsi does not have
    operands = [side.ssa if isinstance(side, Vector) else splat(side, shaped) for side in (left, right)]
    return Vector(current().emit(rule(*operands)), shaped.wg_map)


def operand_error(function: str, side: Any) -> ElementTypeError:
    """Error for an operand that is neither a vector nor a number."""
    location = current().location()
    if isinstance(side, Value):
        what, hint = side.describe(), "load the elements first: xt.load_tile(tile) gives a vector"
    else:
        what, hint = type(side).__name__, "of Python's own objects only numbers take part; pass an array as an " \
            "argument of the kernel, and load a tile of it with xt.load_tile"
    return ElementTypeError("XT1201", f"{function} takes vectors and numbers, not a {what}", hint, location,
                            notes(location, it=side))


def _scalar_binary(operator: str, left: Any, right: Any) -> Scalar:
    """Binary operator on run-time scalars, folded where that is possible."""
    dtype = left.dtype if isinstance(left, Scalar) else right.dtype
    operands = scalar(left, dtype), scalar(right, dtype)
    rule = rules_of(dtype).get(operator)
    if rule is None:
        raise ElementTypeError("XT1202",
                               f"run-time numbers of {dtype} have no operator {operator}", _operator_hint(operator,
                                                                                                          dtype),
                               current().location())
    if (folded := fold(operator, dtype, *operands)) is not None:
        return Scalar(folded)
    divisor = constant_of(operands[1])
    power = isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0
    if operator in ("//", "%") and dtype.signed and isinstance(divisor, int) and power:
        # Exact for negative numbers too: an arithmetic shift of two's complement rounds down.
        shift, mask = divisor.bit_length() - 1, divisor - 1
        return binary(">>", left, shift) if operator == "//" else binary("&", left, mask)  # type: ignore[no-any-return]
    if operator == "%" and dtype.signed:
        return left - (left // right) * right  # type: ignore[no-any-return]
    return Scalar(current().emit(rule(*operands)))


def _operator_hint(operator: str, dtype: DType) -> str:
    """Hint for an operator that an element type lacks."""
    if dtype is dtypes.i1:
        return "truth values have & | ^ ~ and comparisons; count them with .to(xt.i32)"
    if dtype.kind == "s":
        return "convert with .to(xt.f16), which holds 8-bit floats exactly"
    other = {"/": "//", "//": "/"}.get(operator, "")
    kind = "xt.f32" if operator in ("/", "**") else "xt.i32"
    return f"use {other}, or convert with .to({kind})" if other else f"convert with .to({kind})"


def splat(number: Any, like: Vector, dtype: DType | None = None) -> SSAValue:
    """Broadcast a scalar to the shape and map of ``like``, in its element type or ``dtype``."""
    dtype = dtype or like.dtype
    operation = BroadcastOp(scalar_of_element(number, dtype), VectorType(dtype.mlir, like.shape))
    if like.wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(like.wg_map)
    return current().emit(operation)  # type: ignore[no-any-return]


values.operate = operate


def matched_operands(function: str, *sides: Any) -> tuple[Vector | Scalar, list[SSAValue]]:
    """Operands of an n-ary function in one shape, element type and map, and the one that determines them.

    Args:
        function: the name, for messages.
        sides: vectors, run-time numbers and Python numbers; the first vector, else the first run-time number, decides.

    Raises:
        ElementTypeError: one is something else, all are Python numbers, or element types differ.
        ShapeError: shapes or work-group maps differ.
    """
    numbers = broadcast_operands([plain(side) for side in sides])
    for side in numbers:
        if not isinstance(side, (Arithmetic, int, float)):
            raise operand_error(function, side)
    like = next((side for kind in (Vector, Scalar) for side in numbers if isinstance(side, kind)), None)
    if like is None:
        raise ElementTypeError("XT1161",
                               f"{function} of Python numbers", "calculate with Python, or make one of them a run-time "
                               f"number: xt.scalar({numbers[0]}, xt.f32)", current().location())
    return like, [matched_operand(function, side, like) for side in numbers]


def matched_operand(function: str, side: Any, like: Vector | Scalar) -> SSAValue:
    """Operand in the shape of ``like``: a scalar is broadcast, a vector checked."""
    if isinstance(side, Vector):
        _check_operands(function, like, side)
        return side.ssa
    return splat(side, like) if isinstance(like, Vector) else scalar_of_element(side, like.dtype)


def _check_operands(function: str, like: Any, side: Vector) -> None:
    """Check that two operands have one element type, shape and map."""
    location = current().location()
    if side.dtype is not like.dtype:
        raise ElementTypeError("XT1207",
                               f"{function} of a {like.describe()} and a {side.describe()}: the element types differ",
                               f"convert one with .to(xt.{like.dtype}) or .to(xt.{side.dtype})", location,
                               notes(location, **{"the one": like, "the other": side}))
    check_shapes(function, like, side)


def check_shapes(function: str, first: Vector, second: Vector) -> None:
    """Check that two vectors have one shape and one work-group map (ShapeError)."""
    location = current().location()
    others = {"the first": first, "the second": second}
    if first.shape != second.shape:
        raise ShapeError("XT1208", f"{function} of a {first.describe()} and a {second.describe()}: the shapes differ",
                         f"make both {text(first.shape)} or both {text(second.shape)}", location,
                         notes(location, **others))
    if first.wg_map != second.wg_map:
        raise ShapeError("XT1400",
                         f"the operands of {function} are distributed differently: {first.wg_map} and {second.wg_map}",
                         "give both the same wg_map", location, notes(location, **others))
