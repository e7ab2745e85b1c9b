"""What the operators of vectors and run-time numbers do: one operation each, on sides of one shape."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, ElementTypeError
from xetile import values
from xetile.arithmetic import constant_of, fold, rules_of
from xetile.broadcasting import alike
from xetile.dialect.attributes import WgMapAttr
from xetile.numbers import plain, scalar, scalar_of_element
from xetile.parties import notes
from xetile.powers import power
from xetile.tracer import current
from xetile.values import Arithmetic, Scalar, Value, Vector


def operate(operator: str, left: Any, right: Any) -> Any:
    """The result of an operator; see :func:`binary`, and :func:`xetile.powers.power` for powers."""
    if operator == "**" and isinstance(left, Arithmetic):
        return power(left, plain(right), binary)
    return binary(operator, left, right)


def binary(operator: str, left: Any, right: Any) -> Any:
    """One arithmetic operator on two values; numbers are spread over vectors.

    Raises:
        ElementTypeError: the element types differ, or have no such operator.
        ShapeError: the shapes, or the work-group maps, differ.
        ArgumentError: an integer is divided by the number 0.
    """
    left, right = plain(left), plain(right)
    if strangers := [side for side in (left, right) if not isinstance(side, (Arithmetic, int, float))]:
        raise stranger(operator, strangers[0])
    if operator in ("//", "%") and isinstance(right, (int, float)) and right == 0:
        raise ArgumentError("XT1216", f"a {left.describe()} {operator} 0 has no value",
                            "divide by a number that is not 0; where the divisor is calculated, keep it at 1 or more: "
                            f"x {operator} xt.maximum(d, 1)", current().location())
    if not isinstance(left, Vector) and not isinstance(right, Vector):
        return _scalar_binary(operator, left, right)
    shaped = left if isinstance(left, Vector) else right
    location = current().location()
    if isinstance(left, Vector) and isinstance(right, Vector):
        left, right = alike(operator, left, right)
        shaped = left
    rule = rules_of(shaped.dtype).get(operator)
    if rule is None:
        raise ElementTypeError("XT1202", f"vectors of {shaped.dtype} have no operator {operator}",
                               _instead(operator, shaped.dtype), location)
    if operator == "%" and shaped.dtype.kind == "i":
        return left - (left // right) * right  # Python's sign rule, which arith.remsi does not have
    operands = [side.ssa if isinstance(side, Vector) else spread(side, shaped) for side in (left, right)]
    return Vector(current().emit(rule(*operands)), shaped.wg_map)


def stranger(function: str, side: Any) -> ElementTypeError:
    """The error of a function or an operator that is given something else than vectors and numbers."""
    location = current().location()
    if isinstance(side, Value):
        what, hint = side.describe(), "load the elements first: xt.load_tile(tile) gives a vector"
    else:
        what, hint = type(side).__name__, "of Python's own objects only numbers take part; pass an array as an " \
            "argument of the kernel, and load a tile of it with xt.load_tile"
    return ElementTypeError("XT1201", f"{function} takes vectors and numbers, not a {what}", hint, location,
                            notes(location, it=side))


def _scalar_binary(operator: str, left: Any, right: Any) -> Scalar:
    dtype = left.dtype if isinstance(left, Scalar) else right.dtype
    operands = scalar(left, dtype), scalar(right, dtype)
    rule = rules_of(dtype).get(operator)
    if rule is None:
        raise ElementTypeError("XT1202",
                               f"run-time numbers of {dtype} have no operator {operator}", _instead(operator, dtype),
                               current().location())
    if (folded := fold(operator, dtype, *operands)) is not None:
        return Scalar(folded)
    divisor = constant_of(operands[1])
    power = isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0
    if operator in ("//", "%") and dtype.signed and isinstance(divisor, int) and power:
        # Exact for negative numbers too: two's complement rounds down.
        shift, mask = divisor.bit_length() - 1, divisor - 1
        return binary(">>", left, shift) if operator == "//" else binary("&", left, mask)  # type: ignore[no-any-return]
    if operator == "%" and dtype.signed:
        return left - (left // right) * right  # type: ignore[no-any-return]
    return Scalar(current().emit(rule(*operands)))


def _instead(operator: str, dtype: DType) -> str:
    """What an author writes where an element type lacks an operator."""
    if dtype is dtypes.i1:
        return "truth values have & | ^ ~ and comparisons; count them with .to(xt.i32)"
    if dtype.kind == "s":
        return "convert with .to(xt.f16), which holds 8-bit floats exactly"
    other = {"/": "//", "//": "/"}.get(operator, "")
    kind = "xt.f32" if operator in ("/", "**") else "xt.i32"
    return f"use {other}, or convert with .to({kind})" if other else f"convert with .to({kind})"


def spread(number: Any, like: Vector, dtype: DType | None = None) -> SSAValue:
    """A number spread over a vector of the shape of ``like``, of its element type or another."""
    dtype = dtype or like.dtype
    operation = BroadcastOp(scalar_of_element(number, dtype), VectorType(dtype.mlir, like.shape))
    if like.wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(like.wg_map)
    return current().emit(operation)  # type: ignore[no-any-return]


values.operate = operate
