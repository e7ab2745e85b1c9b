"""Reference semantics of element-wise operations, independent of the package: Python's integers and exact fractions.

Functions of analysis are NumPy's in float64, which is exact to the last bits of f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

# --- integers ---------------------------------------------------------------------------------------------------------


def toward_zero(a: int, b: int) -> int:
    """Quotient, rounded toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


SIGNED: dict[str, Callable[[int, int], int]] = {
    "divsi": toward_zero, "remsi": lambda a, b: a - b * toward_zero(a, b), "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b), "maxsi": max, "minsi": min, "shrsi": lambda a, b: a >> b,
}
UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "divui": lambda a, b: a // b, "remui": lambda a, b: a % b, "ceildivui": lambda a, b: -(-a // b), "maxui": max,
    "minui": min, "shrui": lambda a, b: a >> b,
}
EITHER: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b, "shli": lambda a, b: a << b,
    "andi": lambda a, b: a & b, "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b,
}
BINARY = {**SIGNED, **UNSIGNED, **EITHER}
PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    **dict.fromkeys(("slt", "ult"), lambda a, b: a < b), **dict.fromkeys(("sle", "ule"), lambda a, b: a <= b),
    **dict.fromkeys(("sgt", "ugt"), lambda a, b: a > b), **dict.fromkeys(("sge", "uge"), lambda a, b: a >= b),
}


def read(bits: int, width: int, sign: str) -> int:
    """An integer of ``width`` bits, read as signed (``"s"``) or unsigned."""
    bits &= (1 << width) - 1
    return bits - (1 << width) if sign == "s" and bits >> (width - 1) else bits


# --- floats -----------------------------------------------------------------------------------------------------------

FORMATS = {"f16": (11, 15), "bf16": (8, 127), "tf32": (11, 127), "f32": (24, 127), "f64": (53, 1023)}
"""Bits of the mantissa with the implicit one, and the largest exponent."""


def nearest(exact: Fraction, format_: str) -> float:
    """The float nearest to a number, ties to even; too large a number is infinite."""
    digits, largest = FORMATS[format_]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, 1 - largest) - digits + 1)
    count, rest = divmod(size, quantum)
    count += 2 * rest > quantum or (2 * rest == quantum and count % 2 == 1)
    rounded = math.inf if count * quantum >= Fraction(2) ** (largest + 1) else float(count * quantum)
    return math.copysign(rounded, -1 if exact < 0 else 1)


def rounded(number: float, format_: str) -> float:
    """A float of another format."""
    return nearest(Fraction(number), format_) if math.isfinite(number) and number else number


def spacing(number: float, format_: str) -> float:
    """One unit in the last place."""
    digits, largest = FORMATS[format_]
    exponent = math.frexp(number)[1] - 1 if number else -largest
    return math.ldexp(1.0, max(exponent, 1 - largest) - digits + 1)


def _exactly(function: Callable[..., Any]) -> Callable[..., float]:
    """Function of finite floats, evaluated in fractions and rounded once; others as Python's floats."""
    def rounded_once(format_: str, *numbers: float) -> float:
        if not all(map(math.isfinite, numbers)):
            return float(function(*numbers))
        exact = function(*map(Fraction, numbers))
        return nearest(exact, format_) if exact else float(function(*numbers))  # for the sign of zero

    return rounded_once


def _divide(format_: str, a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return _exactly(lambda a, b: a / b)(format_, a, b)


def _fma(format_: str, a: float, b: float, c: float) -> float:
    if math.isfinite(a) and math.isfinite(b) and not math.isfinite(c):
        return c
    return _exactly(lambda a, b, c: a * b + c)(format_, a, b, c)


def _root(format_: str, a: float) -> float:
    if not a > 0 or math.isinf(a):
        return math.nan if a < 0 else a
    scale = 200 - math.frexp(a)[1] // 2  # digits enough that the integer root rounds as the real one
    number = Fraction(a) * 4 ** scale if scale >= 0 else Fraction(a) / 4 ** -scale
    root = math.isqrt(math.floor(number))
    return nearest(Fraction(2 * root + (root * root != number), 2) / Fraction(2) ** scale, format_)


def _whole(function: Callable[[float], float]) -> Callable[[str, float], float]:
    """Rounding to integers, with the sign of the operand also at zero."""
    return lambda format_, a: math.copysign(float(function(a)), a) if math.isfinite(a) else a


def _remainder(format_: str, a: float, b: float) -> float:
    """Remainder that has the sign of the dividend; it is exact."""
    return math.nan if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0 else math.fmod(a, b)


def _extreme(function: Callable[[float, float], float], *, drops: bool) -> Callable[[str, float, float], float]:
    def chosen(format_: str, a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return (b if math.isnan(a) else a) if drops else math.nan
        return function(a, b)

    return chosen


FLOATS: dict[str, Callable[..., float]] = {
    "arith.addf": _exactly(lambda a, b: a + b), "arith.subf": _exactly(lambda a, b: a - b),
    "arith.mulf": _exactly(lambda a, b: a * b), "arith.divf": _divide, "arith.remf": _remainder, "math.fma": _fma,
    "math.sqrt": _root,
    "arith.maximumf": _extreme(max, drops=False), "arith.minimumf": _extreme(min, drops=False),
    "arith.maxnumf": _extreme(max, drops=True), "arith.minnumf": _extreme(min, drops=True),
    "math.absf": lambda format_, a: abs(a), "math.copysign": lambda format_, a, b: math.copysign(a, b),
    "math.floor": _whole(math.floor), "math.ceil": _whole(math.ceil), "math.trunc": _whole(math.trunc),
    "math.roundeven": _whole(round),
}
"""Floats that are exact or rounded once, with the name of the format first."""
def _power(a: float, b: float) -> float:
    """Power; NumPy takes a square root for exponents that are all 0.5, whose rule at -inf differs."""
    return float(np.power(np.array([a, 1.0]), np.array([b, 2.0]))[0])


ANALYSIS: dict[str, Callable[..., Any]] = {
    "math.rsqrt": lambda a: 1 / np.sqrt(a), "math.cbrt": np.cbrt, "math.exp": np.exp, "math.exp2": np.exp2,
    "math.expm1": np.expm1, "math.log": np.log, "math.log2": np.log2, "math.log10": np.log10, "math.log1p": np.log1p,
    "math.sin": np.sin, "math.cos": np.cos, "math.tan": np.tan, "math.asin": np.arcsin, "math.acos": np.arccos,
    "math.atan": np.arctan, "math.atan2": np.arctan2, "math.sinh": np.sinh, "math.cosh": np.cosh, "math.tanh": np.tanh,
    "math.erf": math.erf, "math.powf": _power,
}
"""Functions of analysis, of float64 numbers."""
CONVERSIONS = ("extsi", "extui", "trunci", "index_cast", "sitofp", "uitofp", "fptosi", "fptoui", "extf", "truncf",
               "bitcast")
COMPARED = ("cmpi", "cmpf", "select")


def compare_floats(predicate: str, a: float, b: float) -> bool:
    """``arith.cmpf``: ordered predicates are false with NaN, unordered ones true."""
    unordered = math.isnan(a) or math.isnan(b)
    if predicate in ("true", "false"):
        return predicate == "true"
    if predicate in ("uno", "ord"):
        return unordered == (predicate == "uno")
    holds = PREDICATES[predicate[1:] if predicate[1:] in ("eq", "ne") else f"s{predicate[1:]}"](a, b)
    return (holds or unordered) if predicate[0] == "u" else (holds and not unordered)


def to_integer(number: float, width: int, sign: str) -> int:
    """Conversion toward zero, saturated at the limits of the signedness; NaN is 0."""
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if sign == "s" else (0, (1 << width) - 1)
    return 0 if math.isnan(number) else low if number < low else high if number > high else int(number)
