"""Operators of vectors and scalars: binary operators with broadcasting, ``abs``, splats, and ``**``."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, prod
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, ElementTypeError
from xetile.dialect.types import WgMapAttr
from xetile.frontend.arith_rules import constant_of, fold, rules_of
from xetile.frontend.broadcast import broadcast_pair
from xetile.frontend.constants import python_number, scalar, scalar_of_element
from xetile.frontend.notes import notes
from xetile.frontend.ssa_value import Arithmetic, ScalarBase, Value, VectorBase
from xetile.frontend.tracer import current

_MAX_UNROLLED = 64
"""Largest integer exponent that is expanded to multiplications."""
_ROOT, _PRECISE = 0.5, (1, 2, 3, 4)
"""Float exponents that become a square root, and multiplications of fewer roundings than the power function's."""

_INDEX_BITS = 32
"""Bits of an index on devices."""


def operate(operator: str, left: Any, right: Any) -> Any:
    """Result of an operator: :func:`power` for ``**``, else :func:`binary`."""
    if operator == "**" and isinstance(left, Arithmetic):
        return power(left, python_number(right), binary)
    return binary(operator, left, right)


def binary(operator: str, left: Any, right: Any) -> Any:
    """Binary operator on two values; scalars are broadcast to vectors.

    Raises:
        ElementTypeError: the element types differ, or have no such operator.
        ShapeError: the shapes, or the work-group maps, differ.
        ArgumentError: an integer is divided by the number 0, or shifted by a number that is no distance within it.
    """
    left, right = python_number(left), python_number(right)
    if wrong := [side for side in (left, right) if not isinstance(side, (Arithmetic, int, float))]:
        raise operand_error(operator, wrong[0])
    if operator in ("//", "%") and isinstance(right, (int, float)) and right == 0:
        raise ArgumentError("XT1216", f"a {left.describe()} {operator} 0 has no value",
                            "divide by a number that is not 0; where the divisor is calculated, keep it at 1 or more: "
                            f"x {operator} xt.maximum(d, 1)", current().location())
    if operator in ("<<", ">>"):
        right = _shift_distance(operator, left, right)
    if not isinstance(left, VectorBase) and not isinstance(right, VectorBase):
        return _scalar_binary(operator, left, right)
    shaped = left if isinstance(left, VectorBase) else right
    if operator in ("+", "-") and current().fast_math and (fused := _contracted(operator, left, right)) is not None:
        return fused
    if operator == "/" and (reciprocal := _exact_reciprocal(right, shaped.dtype)) is not None:
        operator, right = "*", reciprocal
    location = current().location()
    if isinstance(left, VectorBase) and isinstance(right, VectorBase):
        left, right = broadcast_pair(operator, left, right)
        shaped = left
    rule = rules_of(shaped.dtype).get(operator)
    if rule is None:
        raise ElementTypeError("XT1202", f"vectors of {shaped.dtype} have no operator {operator}",
                               _operator_hint(operator, shaped.dtype), location)
    if operator == "%" and shaped.dtype.kind == "i":
        return left - (left // right) * right  # Python's sign rule, which arith.remsi does not have
    operands = [side.ssa if isinstance(side, VectorBase) else splat(side, shaped) for side in (left, right)]
    return shaped.like(current().emit(rule(*operands)))


def _exact_reciprocal(divisor: Any, dtype: DType) -> float | None:
    """Reciprocal of a power of two, a product by which is the quotient, bit by bit; None for other divisors."""
    limit = 14 if dtype is dtypes.f16 else 126  # in the type neither it nor its reciprocal is a subnormal number
    if not dtype.is_float or isinstance(divisor, Arithmetic) or not 2.0**-limit <= abs(divisor) <= 2.0**limit:
        return None
    return 1 / divisor if abs(frexp(divisor)[0]) == 0.5 else None


def _contracted(operator: str, left: Any, right: Any) -> VectorBase | None:
    """Contraction: a product and a sum as one ``fma``, rounded once; None where neither side is a product."""
    for product, other in ((left, right), (right, left)):
        if not isinstance(product, VectorBase) or not isinstance(times := product.ssa.owner, arith.MulfOp) or \
                not _is_addend(other, product):
            continue
        added = other if operator == "+" or product is right else _negated(other)
        if isinstance(added, VectorBase):
            wide, added = broadcast_pair(operator, product, added)
            if wide.ssa is not product.ssa:
                continue
        factor = product.like(times.lhs)
        factor = _negated(factor) if operator == "-" and product is right else factor
        term = added.ssa if isinstance(added, VectorBase) else splat(added, product)
        return product.like(current().emit(math.FmaOp(factor.ssa, times.rhs, term)))  # type: ignore[no-any-return]
    return None


def _is_addend(other: Any, product: VectorBase) -> bool:
    """Whether a sum with a product has the product's elements, once each; a sum with 0 is no sum."""
    if isinstance(other, VectorBase):
        fits = other.shape == product.shape or prod(other.shape) < prod(product.shape)
        return other.dtype is product.dtype and fits
    return isinstance(other, Arithmetic) or other != 0


def _negated(value: Any) -> Any:
    return binary("-", -0.0, value) if isinstance(value, Arithmetic) else -value


def _shift_distance(operator: str, value: Any, distance: Any) -> Any:
    """A shift's distance in the element type of what is shifted, which represents each distance within its bits."""
    if isinstance(distance, int):
        _check_distance(operator, value, distance)
    elif not isinstance(distance, float) and (
            isinstance(value, VectorBase) or (isinstance(value, ScalarBase) and isinstance(distance, ScalarBase))):
        mixed = {value.dtype, distance.dtype} not in ({value.dtype}, {dtypes.i32, dtypes.index})
        if mixed and all(operator in rules_of(side.dtype) for side in (value, distance)):
            return distance.to(value.dtype)
    return distance


def _check_distance(operator: str, value: Arithmetic, distance: int) -> None:
    """Check a shift's compile-time distance, of which MLIR and devices take those below the number of bits alone."""
    bits = _INDEX_BITS if value.dtype is dtypes.index else value.dtype.bits
    if 0 <= distance < bits or operator not in rules_of(value.dtype):
        return
    if distance < 0:
        hint = f"shift the other way: x {'>>' if operator == '<<' else '<<'} {-distance}"
    elif value.dtype is dtypes.index or bits < 64:
        hint = "convert to a wider type first, as in x.to(xt.u64), or write what is meant: zeros, or the sign"
    else:
        hint = "write what is meant: zeros, or the sign"
    raise ArgumentError("XT1217", f"a {value.describe()} has {bits} bits, and cannot be shifted by {distance}", hint,
                        current().location())


def absolute(v: Arithmetic) -> Any:
    """``v`` without its sign, of floats and integers; the smallest signed integer stays as it is."""
    if not v.dtype.is_float and not v.dtype.signed:
        return v
    operation = math.AbsFOp if v.dtype.is_float else math.AbsIOp
    return v.like(current("abs").emit(operation.create(operands=[v.ssa], result_types=[v.ssa.type])))


def operand_error(function: str, side: Any) -> ElementTypeError:
    """Error for an operand that is neither a vector nor a number."""
    location = current().location()
    if isinstance(side, Value):
        operand = side.describe()
        hint = side.number_hint() or "load the elements first: xt.load_tile(tile) gives a vector"
    else:
        operand, hint = type(side).__name__, "of Python's own objects only numbers take part; pass an array as an " \
            "argument of the kernel, and load a tile of it with xt.load_tile"
    return ElementTypeError("XT1201", f"{function} takes vectors and numbers, not a {operand}", hint, location,
                            notes(location, it=side))


def _scalar_binary(operator: str, left: Any, right: Any) -> ScalarBase:
    """Binary operator on run-time scalars, folded where that is possible; of an index and an i32 one on indices."""
    like = left if isinstance(left, ScalarBase) else right
    if {dtypes.i32, dtypes.index} == {getattr(side, "dtype", None) for side in (left, right)}:
        like = left if left.dtype is dtypes.index else right
        left, right = (like.like(scalar(side)) for side in (left, right))
    dtype = like.dtype
    operands = scalar(left, dtype), scalar(right, dtype)
    rule = rules_of(dtype).get(operator)
    if rule is None:
        raise ElementTypeError("XT1202",
                               f"run-time numbers of {dtype} have no operator {operator}", _operator_hint(operator,
                                                                                                          dtype),
                               current().location())
    if (folded := fold(operator, dtype, *operands)) is not None:
        return like.like(folded)  # type: ignore[no-any-return]
    divisor = constant_of(operands[1])
    power = isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0
    if operator in ("//", "%") and dtype.signed and isinstance(divisor, int) and power:
        # Exact for negative numbers too: an arithmetic shift of two's complement rounds down.
        shift, mask = divisor.bit_length() - 1, divisor - 1
        return (  # type: ignore[no-any-return]
            binary(">>", left, shift) if operator == "//" else binary("&", left, mask))
    if operator == "%" and dtype.signed:
        return left - (left // right) * right  # type: ignore[no-any-return]
    return like.like(current().emit(rule(*operands)))  # type: ignore[no-any-return]


def _operator_hint(operator: str, dtype: DType) -> str:
    """Hint for an operator that an element type lacks."""
    if dtype is dtypes.i1:
        return "truth values have & | ^ ~ and comparisons; count them with .to(xt.i32)"
    if dtype.kind == "s":
        return "convert with .to(xt.f16), which represents 8-bit floats exactly"
    if dtype.is_float and operator in ("//", "%"):  # integers would lose the fractions
        return "write xt.floor(x / y)" if operator == "//" else "write x - xt.floor(x / y) * y"
    other = {"/": "//"}.get(operator, "")
    kind = "xt.f32" if operator in ("/", "**") else "xt.i32"
    return f"use {other}, or convert with .to({kind})" if other else f"convert with .to({kind})"


def splat(number: Any, like: VectorBase, dtype: DType | None = None) -> SSAValue:
    """Broadcast a scalar to the shape and map of ``like``, in its element type or ``dtype``."""
    dtype = dtype or like.dtype
    operation = BroadcastOp(scalar_of_element(number, dtype), VectorType(dtype.mlir, like.shape))
    if like.wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(like.wg_map)
    return current().emit(operation)  # type: ignore[no-any-return]


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
    if type(exponent) is not int or not 0 <= exponent <= _MAX_UNROLLED or base.dtype is dtypes.i1:
        shown = f"a {exponent.describe()}" if hasattr(exponent, "describe") else repr(exponent)
        raise ElementTypeError("XT1210", f"integers have no such power: a {base.describe()} to the power of {shown}",
                               f"integers take Python integers from 0 to {_MAX_UNROLLED} as exponents; for others "
                               "convert with .to(xt.f32)", current().location())
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
