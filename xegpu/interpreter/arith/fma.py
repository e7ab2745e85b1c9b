"""NumPy semantics of fused multiply-add."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
from xdsl.dialects import math
from xdsl.ir import Operation

from xegpu.interpreter.interpreter import Interpreter, Semantics
from xegpu.ir.dtypes import NDArray, arithmetic_result, element_type


def fused(a: NDArray, b: NDArray, c: NDArray) -> NDArray:
    """Fused multiply-add ``a * b + c`` of float32 or float64 arrays, rounded once; NumPy has none."""
    return _through_double(a, b, c) if a.dtype == np.float32 else np.asarray(_exactly(a, b, c), np.float64)


def _through_double(a: NDArray, b: NDArray, c: NDArray) -> NDArray:
    """Float32 fma in float64: the product is exact, and the sum is rounded to odd, so that rounding again is right.

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
    if not (isfinite(a) and isfinite(b)):
        return a * b + c
    if not isfinite(c):
        return c  # the product is finite, though a * b may overflow
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # for the sign of zero
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _fma(machine: Interpreter, operation: Operation, operands: Sequence[Any]) -> Any:
    dtype = element_type(operation.results[0].type)
    return arithmetic_result(fused(*(np.asarray(value, dtype.compute) for value in operands)), dtype)


SEMANTICS: Semantics = {math.FmaOp: _fma}
