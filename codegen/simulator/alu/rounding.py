"""Rounding of floating-point results in all modes of cr0, and fused multiply-add.

Errors of sums and products are exact (Knuth's and Dekker's transformations). A sum rounded to odd in a wider type, then
rounded to the narrower one, equals the sum rounded once (Boldo and Melquiond).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from codegen.simulator.alu.regions import Array

TO_EVEN, UP, DOWN, TO_ZERO = range(4)
"""Rounding modes in bits 5:4 of cr0."""
_SPLITTER = 2.0 ** 27 + 1  # of float64's 53 bits into 26 and 27
_HALF = np.uint64(1 << 28)  # float64's bits behind float32's mantissa, where they are half of its last place
_BEHIND = np.uint64((1 << 29) - 1)


def round_to(value: Array, dtype: np.dtype[Any], mode: int) -> Array:
    """Round values to a floating-point type."""
    if value.dtype == dtype:
        return value
    if mode == TO_EVEN:
        return _quiet(value, value.astype(dtype))
    wide = value.astype(np.longdouble if value.dtype.itemsize == 8 else np.float64)
    rounded = value.astype(dtype)
    return _directed(rounded, wide - rounded.astype(wide.dtype), mode)


def _quiet(value: Array, converted: Array) -> Array:
    """Conversions make signalling NaN quiet, and keep the sign and the upper bits; those of NumPy may not."""
    if (nan := np.isnan(value)).any():
        words = {2: np.uint16, 4: np.uint32, 8: np.uint64}
        bits = converted.view(words[converted.dtype.itemsize])
        mantissa = ml_dtypes.finfo(converted.dtype).nmant  # type: ignore[no-untyped-call]
        if converted.dtype == ml_dtypes.bfloat16 and value.dtype == np.float32:  # whose cast drops them
            bits[nan] = value[nan].view(np.uint32) >> 16
        bits[nan] |= bits.dtype.type(1 << (mantissa - 1))
    return converted


def add(a: Array, b: Array, mode: int) -> Array:
    """Sum of values of one type."""
    if mode == TO_EVEN:
        return np.asarray(a + b)
    if a.dtype == np.float32:
        return round_to(_add_to_odd(a.astype(np.float64), b.astype(np.float64)), np.dtype(np.float32), mode)
    return _directed(*_two_sum(a, b), mode)


def multiply(a: Array, b: Array, mode: int) -> Array:
    """Product of values of one type."""
    if mode == TO_EVEN:
        return np.asarray(a * b)
    if a.dtype == np.float32:
        return round_to(a.astype(np.float64) * b, np.dtype(np.float32), mode)
    return _directed(*_two_product(a, b), mode)


def fused(a: Array, b: Array, c: Array, mode: int) -> Array:
    """``a * b + c``, rounded once."""
    if a.dtype == np.float32:
        return _fused_single(a, b, c, mode)
    scale = np.where(_overflows_alone(a, b, c), 0.25, 1.0)
    if (scale != 1).any():
        larger = np.abs(a) >= np.abs(b)
        return fused(np.where(larger, a * scale, a), np.where(larger, b, b * scale), c * scale, mode) / scale
    high, low = _two_product(a, b)
    third, fourth = _two_sum(c, low)
    top, rest = _two_sum(high, third)
    tail = _add_to_odd(fourth, rest)
    result, error = _two_sum(top, tail)
    nearest = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, a * b + c)  # a * b alone may overflow
    nearest = np.where((nearest == 0) & (c == 0) & (a != 0) & (b != 0), a * b, nearest)  # underflow
    usable = np.isfinite(nearest) & np.isfinite(error) & ((result != 0) | (error != 0))  # _two_sum loses a zero's sign
    return np.where(usable, _directed(result, np.where(usable, error, 0), mode), nearest)


def _overflows_alone(a: Array, b: Array, c: Array) -> Array:
    """Mask of products that overflow float64 though the sum may not."""
    quarter = np.where(np.abs(a) >= np.abs(b), a / 4 * b, b / 4 * a)
    found: Array = np.isinf(a * b) & np.isfinite(c) & np.isfinite(quarter)
    return found


def _fused_single(a: Array, b: Array, c: Array, mode: int) -> Array:
    product = np.multiply(a, b, dtype=np.float64)  # exact
    total = product + c
    if mode == TO_EVEN and not ((total.view(np.uint64) & _BEHIND) == _HALF).any():
        return total.astype(np.float32)
    return round_to(_add_to_odd(product, np.broadcast_to(c, product.shape).astype(np.float64)),
                    np.dtype(np.float32), mode)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Sum and its error (Knuth)."""
    total = a + b
    second = total - a
    return total, (a - (total - second)) + (b - second)


def _split(a: Array) -> tuple[Array, Array]:
    """High and low halves of float64 (Veltkamp)."""
    scaled = a * _SPLITTER
    high = scaled - (scaled - a)
    return high, a - high


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Product and its error (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, np.where(np.isfinite(error), error, 0)


def _add_to_odd(a: Array, b: Array) -> Array:
    """Sum of float64 rounded to odd: where it is inexact, the neighbour whose last bit is 1."""
    total, error = _two_sum(a, b)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    change = even & (error != 0) & np.isfinite(total)
    return np.where(change, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def _directed(rounded: Array, error: Array, mode: int) -> Array:
    """Correct a result that was rounded to even by the sign of its error."""
    if mode == TO_EVEN:
        return rounded
    up = (error > 0) & ((mode == UP) | ((mode == TO_ZERO) & (rounded < 0)))
    down = (error < 0) & ((mode == DOWN) | ((mode == TO_ZERO) & (rounded > 0)))
    infinity = np.array(np.inf, rounded.dtype)
    result = np.where(up, np.nextafter(rounded, infinity), np.where(down, np.nextafter(rounded, -infinity), rounded))
    return result.astype(rounded.dtype)
