"""Element types in plain NumPy: what holds them, how they round, and which integers they hold exactly.

Written from the rules of the language (docs/pipeline.md, "Numeric rules"), without the package that is tested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

HOLDS: dict[str, np.dtype[Any]] = {name: np.dtype(numpy) for name, numpy in {
    "f32": np.float32, "i32": np.int32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "u8": np.uint8,
    "i16": np.int16, "u16": np.uint16, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "f64": np.float64,
    "tf32": np.float32, "i1": np.bool_, "index": np.int64, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2}.items()}
"""NumPy's type for each element type."""
FLOATS = ("f32", "f16", "bf16", "f64")
SIGNED = ("i32", "i8", "i16", "i64")
UNSIGNED = ("u8", "u32", "u16", "u64")
INTEGERS = ("i32", "u8", "i8", "u32", "i16", "u16", "i64", "u64")
BITS = {name: numpy.itemsize * 8 for name, numpy in HOLDS.items()}
EXACT = {"f16": 2**11, "bf16": 2**8, "tf32": 2**11, "f32": 2**24, "f64": 2**53, "e4m3": 16, "e5m2": 8}
"""The largest integer up to which a float type holds all."""


def limits(dtype: str) -> tuple[int, int]:
    """The range of an integer type."""
    if dtype == "i1":
        return 0, 1
    if dtype == "index":  # 32 bits on devices
        return -2**31, 2**31 - 1
    info = np.iinfo(HOLDS[dtype])
    return int(info.min), int(info.max)


def is_float(dtype: str) -> bool:
    """Whether values of a type are floats."""
    return dtype in EXACT


def widened(values: Array, dtype: str) -> Array:
    """Values in the type that the language computes in: float32 for 16-bit floats."""
    return values.astype(np.float32) if dtype in ("f16", "bf16") else values


def apply(function: Callable[..., Any], dtype: str, *operands: Array) -> Array:
    """An element-wise operation of one type, rounded once to it."""
    result = np.asarray(function(*(widened(each, dtype) for each in operands)))
    return result.astype(HOLDS[dtype], copy=False)


def convert(values: Array, source: str, target: str) -> Array:
    """Conversion: floats round to nearest even, float to integer truncates and saturates, integers wrap around."""
    if target == "i1":
        return values.astype(np.float64) != 0 if is_float(source) else values != 0
    if is_float(source) and not is_float(target):
        return _truncated(values.astype(np.float64), target)
    if target in ("bf16", "tf32", "e4m3", "e5m2") or source in ("bf16", "e4m3", "e5m2"):
        values = values.astype(np.float32)
    return _rounded_tf32(values) if target == "tf32" else values.astype(HOLDS[target])


def _truncated(values: Array, target: str) -> Array:
    low, high = limits(target)
    whole = np.trunc(np.nan_to_num(values, nan=0.0, posinf=2.0**70, neginf=-2.0**70))
    inside = np.clip(whole, float(low), np.nextafter(float(high) + 1, 0))
    result = inside.astype(np.uint64 if target == "u64" else np.int64)
    result = np.where(whole >= float(high) + 1, np.asarray(high, result.dtype), result)
    return result.astype(HOLDS[target])


def _rounded_tf32(values: Array) -> Array:
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values)


def reduced(kind: str, values: Array, axes: tuple[int, ...], dtype: str) -> Array:
    """A reduction of the last two axes, kept with size 1: sums in a wide type, rounded once."""
    at = tuple(axis - 2 for axis in axes)
    if kind in ("add", "mul"):
        function = np.sum if kind == "add" else np.prod
        if is_float(dtype):
            return function(values.astype(np.float64), axis=at, keepdims=True).astype(np.float32 if dtype != "f64" else
                                                                                     np.float64).astype(HOLDS[dtype])
        return function(values, axis=at, keepdims=True, dtype=values.dtype)
    if kind in ("minui", "maxui"):
        unsigned = values.view(f"u{values.dtype.itemsize}")
        return np.asarray((np.min if kind == "minui" else np.max)(unsigned, axis=at, keepdims=True)).view(values.dtype)
    bitwise = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    if kind in bitwise:
        return bitwise[kind].reduce(values, axis=at, keepdims=True)
    wide = widened(values, dtype)
    return _SELECTING[kind].reduce(wide, axis=at, keepdims=True).astype(values.dtype)


_SELECTING = {"min": np.minimum, "minimumf": np.minimum, "minsi": np.minimum, "minnumf": np.fmin,
              "max": np.maximum, "maximumf": np.maximum, "maxsi": np.maximum, "maxnumf": np.fmax}
