"""``a * b + c`` rounded once, which NumPy does not have."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def fused(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` of float32 or float64 arrays, rounded once to their type."""
    return _through_double(a, b, c) if a.dtype == np.float32 else np.asarray(_exactly(a, b, c), np.float64)


def _through_double(a: Array, b: Array, c: Array) -> Array:
    """In float64 the product is exact; the sum is rounded to odd there, after which rounding to float32 is right.

    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.)
    """
    product, addend = a.astype(np.float64) * b, c.astype(np.float64)
    total = np.asarray(product + addend)
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    bits = np.ascontiguousarray(total).view(np.int64).reshape(total.shape)
    away = np.where((error > 0) == (total > 0), 1, -1)  # to a larger or to a smaller magnitude
    odd = np.where((bits & 1 == 0) & (error != 0) & np.isfinite(total), bits + away, bits)
    return odd.view(np.float64).astype(np.float32)


@np.vectorize
def _exactly(a: float, b: float, c: float) -> float:
    if not (isfinite(a) and isfinite(b) and isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # for the sign of zero
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
