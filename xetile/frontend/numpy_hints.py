"""Hints for NumPy habits: the language's function for each NumPy function, method or operator."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

REFLECTED = {"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
             "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "power": "__rpow__", "bitwise_and": "__rand__",
             "bitwise_or": "__ror__", "bitwise_xor": "__rxor__", "left_shift": "__rlshift__",
             "right_shift": "__rrshift__", "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__",
             "greater_equal": "__le__", "equal": "__eq__", "not_equal": "__ne__"}
"""Reflected method of each ufunc that a NumPy scalar on the left of an operator calls."""

SAME_NAME = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sinh", "cosh", "tanh", "sin", "cos",
    "tan", "floor", "ceil", "trunc", "maximum", "minimum", "copysign"))
"""NumPy functions that the language has under the same name."""

BINARY = frozenset(("maximum", "minimum", "copysign"))
"""Those of ``SAME_NAME`` with two arguments."""

REPLACEMENTS = {"absolute": "xt.abs(x)", "fabs": "xt.abs(x)", "rint": "xt.round(x)", "arctan": "xt.atan(x)",
       "arctan2": "xt.atan2(y, x)", "arcsin": "xt.asin(x)", "arccos": "xt.acos(x)", "fmax": "xt.maxnum(a, b)",
       "fmin": "xt.minnum(a, b)", "matmul": "xt.tile_mma(a, b, acc)", "reciprocal": "1.0 / x", "square": "x * x",
       "logical_and": "a & b", "logical_or": "a | b", "logical_not": "~a",
       "add.reduce": 'xt.tile_reduce("add", x, axis)',
       "multiply.reduce": 'xt.tile_reduce("mul", x, axis)', "maximum.reduce": 'xt.tile_reduce("max", x, axis)',
       "minimum.reduce": 'xt.tile_reduce("min", x, axis)'}
"""Replacement for NumPy functions of other names."""

METHODS = {"astype": "x.to(xt.f16), with the element type that you want", "T": "xt.tile_transpose(x)",
           "transpose": "xt.tile_transpose(x)", "sum": 'xt.tile_reduce("add", x, axis)',
           "max": 'xt.tile_reduce("max", x, axis)', "min": 'xt.tile_reduce("min", x, axis)',
           "prod": 'xt.tile_reduce("mul", x, axis)', "mean": 'xt.tile_reduce("add", x, axis) / x.shape[axis]',
           "dot": "xt.tile_mma(a, b, acc)", "view": "xt.bitcast(x, dtype) for a vector, xt.view(X, dtype) for an array",
           "fill": "xt.full(shape, value, dtype)", "copy": "x itself: nothing changes a value",
           "item": "the value itself: a run-time number takes part in arithmetic as it is"}
"""Replacement for methods of NumPy arrays."""

PUBLIC = ("shape", "strides", "dtype", "wg_map", "to")
"""Public attributes and methods of values; each class has some of them."""


def function_hint(function: str, method: str) -> str:
    """Hint for a NumPy function, or for a ufunc method such as ``numpy.add.reduce``."""
    name = function if method == "__call__" else f"{function}.{method}"
    replacement = REPLACEMENTS.get(name, f"xt.{name}({'a, b' if name in BINARY else 'x'})" if name in SAME_NAME else "")
    return f"write {replacement}" if replacement else \
        "calculate with the operators and functions of the language, such as xt.exp, xt.where and xt.tile_reduce"


def member_hint(name: str, members: Sequence[str]) -> str:
    """Hint for an attribute that a value lacks; ``members`` are those that it has."""
    if name in METHODS:
        return f"write {METHODS[name]}"
    near = difflib.get_close_matches(name, members, 1)
    has = f"it has {', '.join(f'.{each}' for each in members)}; all else is functions, such as xt.exp(x)"
    return f"did you mean .{near[0]}?" if near else has
