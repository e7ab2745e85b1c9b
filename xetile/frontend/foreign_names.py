"""Foreign names: those of NumPy, Python, Triton, Pallas and CUDA with their counterparts here, for error hints."""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xegpu.support.location import Location

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
       "logical_and": "a & b", "logical_or": "a | b", "logical_not": "~a", "isnan": "x != x",
       "where": "xt.where(condition, a, b)", "clip": "xt.minimum(xt.maximum(x, low), high)",
       "dot": "xt.tile_mma(a, b, acc)", "transpose": "xt.tile_transpose(x)", "round": "xt.round(x)",
       "reshape": "xt.reshape(x, shape)", "concatenate": "xt.concatenate([a, b], axis)",
       "roll": "xt.shift(x, distance)", "flip": "x[::-1]", "flipud": "x[::-1]", "fliplr": "x[:, ::-1]",
       "cumsum": "xt.cumsum(x, axis)", "cumprod": "xt.cumprod(x, axis)", "sort": "xt.sort(x, axis)",
       "argsort": "xt.sort(x, axis, indices=True)[1]", "argmax": "xt.argmax(x, axis)",
       "argmin": "xt.argmin(x, axis)", "vstack": "xt.concatenate([a, b], 0)", "hstack": "xt.concatenate([a, b], 1)",
       "maximum.accumulate": "xt.cummax(x, axis)", "minimum.accumulate": "xt.cummin(x, axis)",
       "add.accumulate": "xt.cumsum(x, axis)", "multiply.accumulate": "xt.cumprod(x, axis)",
       "zeros_like": "xt.zeros(x.shape, x.dtype)", "full_like": "xt.full(x.shape, value, x.dtype)",
       "sum": 'xt.tile_reduce("add", x, axis)', "prod": 'xt.tile_reduce("mul", x, axis)',
       "max": 'xt.tile_reduce("max", x, axis)', "amax": 'xt.tile_reduce("max", x, axis)',
       "min": 'xt.tile_reduce("min", x, axis)', "amin": 'xt.tile_reduce("min", x, axis)',
       "mean": 'xt.tile_reduce("add", x, axis) / x.shape[axis]',
       "add.reduce": 'xt.tile_reduce("add", x, axis)',
       "multiply.reduce": 'xt.tile_reduce("mul", x, axis)', "maximum.reduce": 'xt.tile_reduce("max", x, axis)',
       "minimum.reduce": 'xt.tile_reduce("min", x, axis)'}
"""Replacement for NumPy functions of other names."""

METHODS = {"astype": "x.to(xt.f16), with the element type that you want", "T": "xt.tile_transpose(x)",
           "transpose": "xt.tile_transpose(x)", "reshape": "xt.reshape(x, shape)",
           "sum": 'xt.tile_reduce("add", x, axis)',
           "max": 'xt.tile_reduce("max", x, axis)', "min": 'xt.tile_reduce("min", x, axis)',
           "prod": 'xt.tile_reduce("mul", x, axis)', "mean": 'xt.tile_reduce("add", x, axis) / x.shape[axis]',
           **{name: f"xt.{name}(x, axis)" for name in ("cumsum", "cumprod", "sort", "argmax", "argmin")},
           "argsort": "xt.sort(x, axis, indices=True)[1]",
           "dot": "xt.tile_mma(a, b, acc)", "view": "xt.bitcast(x, dtype) for a vector, xt.view(X, dtype) for an array",
           "fill": "xt.full(shape, value, dtype)", "copy": "x itself: nothing changes a value",
           "item": "the value itself: a run-time number takes part in arithmetic as it is"}
"""Replacement for methods of NumPy arrays."""

ARRAY_METHODS = {"reshape": "A.reshape(...) at the launch, or xt.init_tile(A, offsets, shape, base_shape=(rows, "
                            "columns), base_strides=(columns, 1)) for other sizes of the same memory",
                 "T": "A.T at the launch, or xt.tile_transpose(x) of a vector x that was loaded from it",
                 "load": "xt.load_tile(xt.init_tile(A, (row, column), (rows, columns)))",
                 "store": "xt.store_tile(x, xt.init_tile(A, (row, column), (rows, columns)))"}
"""Replacement for methods of arrays that mean something else for arrays of a kernel than for vectors."""

MATH = {**{name: f"xt.{name}(x)" for name in (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "sinh", "cosh", "tanh", "sin",
            "cos", "tan", "asin", "acos", "atan", "erf", "floor", "ceil", "trunc")},
        "fabs": "xt.abs(x)", "pow": "a ** b", "atan2": "xt.atan2(y, x)", "copysign": "xt.copysign(a, b)",
        "fma": "xt.fma(a, b, c)", "hypot": "xt.sqrt(a * a + b * b)", "isnan": "x != x", "erfc": "1 - xt.erf(x)",
        "isinf": "xt.abs(x) == math.inf", "isfinite": "xt.abs(x) < math.inf"}
"""Replacement for functions of Python's ``math``, which calculate with Python numbers."""

BUILTINS = {"max": "xt.maximum(a, b)", "min": "xt.minimum(a, b)", "any": "a | b", "all": "a & b",
            "round": "xt.round(x)"}
"""Replacement for Python's builtins that branch on their arguments, or convert them."""

_WINDOW = "xt.init_tile(A, (row, column), (rows, columns))"
_TYPES = {"float16": "f16", "half": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "double": "f64",
          "float8e4nv": "e4m3", "float8e5": "e5m2", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "bool": "i1",
          "bool_": "i1", "int1": "i1", **{f"int{bits}": f"i{bits}" for bits in (4, 8, 16, 32, 64)},
          **{f"uint{bits}": f"u{bits}" for bits in (4, 8, 16, 32, 64)}}
OTHER_TOOLS = {
    **{name: f"xt.{ours}" for name, ours in _TYPES.items()},
    # Triton
    "permute": "xt.tile_transpose(x)", "split": "x[:, 0::2] and x[:, 1::2], or x[:, :n] and x[:, n:]",
    "join": "xt.interleave([a, b]), in place of a further dimension", "deinterleave": "x[:, 0::2] and x[:, 1::2]",
    "jit": "@xt.kernel", "constexpr": "a keyword-only parameter: behind a bare * every parameter is a constant",
    "program_id": "xt.group_id(d)", "num_programs": "xt.num_groups(d)", "cdiv": "(a + b - 1) // b",
    "load": f"xt.load_tile(tile), of a tile = {_WINDOW}, or xt.load_scalar(A, (row, column)) for one number",
    "store": f"xt.store_tile(x, tile), to a tile = {_WINDOW}",
    "make_block_ptr": _WINDOW, "make_tensor_descriptor": _WINDOW,
    "advance": "xt.update_tile_offset(tile, rows, columns)",
    "arange": "xt.iota(shape, axis) for a vector of positions; xt.init_tile takes a position itself, without masks",
    "dot": "xt.tile_mma(a, b, acc)", "dot_scaled": "xt.tile_mma_scaled", "trans": "xt.tile_transpose(x)",
    "static_range": "range(n), Python's own, which unrolls", "static_assert": "assert, on compile-time constants",
    "static_print": "print", "debug_barrier": "xt.barrier()", "sigmoid": "1 / (1 + xt.exp(-x))",
    "softmax": 'e / xt.tile_reduce("add", e, axis) with e = xt.exp(x - xt.tile_reduce("max", x, axis))',
    "gelu": "0.5 * x * (1 + xt.erf(x * 0.5 ** 0.5))", "silu": "x / (1 + xt.exp(-x))", "relu": "xt.maximum(x, 0.0)",
    "topk": "xt.top_k(x, k)", "cast": "x.to(dtype)", "clamp": "xt.minimum(xt.maximum(x, low), high)",
    "pow": "a ** b", "stack": "xt.concatenate([a, b], axis)", "cat": "xt.concatenate([a, b], axis)",
    "broadcast_to": "an operator or xt.where, which repeat dimensions of size one", "atomic_add":
    'xt.atomic_rmw_tile("add", x, tile)', "atomic_max": 'xt.atomic_rmw_tile("max", x, tile)',
    "atomic_min": 'xt.atomic_rmw_tile("min", x, tile)',
    # Pallas
    "pallas_call": "@xt.kernel, launched with kernel[grid](arrays)", "BlockSpec": _WINDOW, "ds": _WINDOW,
    "fori_loop": "for k in xt.range(start, stop, step)",
    # CUDA
    "blockIdx": "xt.group_id(d)", "gridDim": "xt.num_groups(d)", "syncthreads": "xt.barrier()",
    "shared": "xt.alloc_slm(shape, dtype)", "atomicAdd": 'xt.atomic_rmw_tile("add", x, tile)',
    "threadIdx": "xt.subgroup_id(d); lanes have no number, vectors are calculated with as a whole",
    # NumPy
    **REPLACEMENTS, "arctan": "xt.atan(x)", "empty": "xt.zeros(shape, dtype)", "ones": "xt.full(shape, 1, dtype)",
    "array": "xt.full(shape, value, dtype), or an array argument of the kernel", "power": "a ** b",
    "associative_scan": "xt.scan(v, axis, combine)",
}
"""Names in ``xt`` of functions and types of Triton, Pallas, CUDA and NumPy."""

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
    methods = {**METHODS, **ARRAY_METHODS} if "strides" in members else METHODS
    if name in methods:
        return f"write {methods[name]}"
    near = difflib.get_close_matches(name, members, 1)
    has = f"it has {', '.join(f'.{each}' for each in members)}; all else is functions, such as xt.exp(x)"
    return f"did you mean .{near[0]}?" if near else has


def module_hint(name: str, public: Iterable[str]) -> str:
    """Hint for a name that the package lacks; ``public`` are those that it has."""
    if name in OTHER_TOOLS:
        return f"write {OTHER_TOOLS[name]}"
    near = difflib.get_close_matches(name, public, 1)
    return f"did you mean xt.{near[0]}?" if near else "docs/reference.md lists what there is"


def signature_text(name: str, function: Callable[..., Any]) -> str:
    """Signature of a public function: ``xt.load_tile(tile, *, padding=None)``."""
    parameters = [parameter.replace(annotation=inspect.Parameter.empty)
                  for parameter in inspect.signature(function).parameters.values()]
    return f"xt.{name}{inspect.Signature(parameters)}"


def call_hint(location: Location | None, *, is_float: bool) -> str:
    """Hint for a function of ``math`` or a builtin that the author's line calls; empty for any other code.

    Args:
        location: the author's line.
        is_float: whether the value that the function got has a float type, which ``xt``'s functions take.
    """
    name = _called(location).removeprefix("math.")
    if name in BUILTINS:
        return f"write {BUILTINS[name]}"
    if name not in MATH:
        return ""
    return f"write {MATH[name]}{'' if is_float else ', of a float: x.to(xt.f32) converts'}"


def _called(location: Location | None) -> str:
    """Name of the function that a location's expression calls, as it is written; empty if it is no call."""
    positions = location.positions if location else []
    if not positions:
        return ""
    line = linecache.getline(positions[0].file, positions[0].line).encode()
    try:
        node = ast.parse(line[positions[0].column:positions[0].end].decode().strip(), mode="eval").body
    except (SyntaxError, UnicodeDecodeError, ValueError):  # several lines, or a statement
        return ""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""
