"""Checks of products, sums and epilogues on the host.

Of a product S' = S + A B the check compares S' w with S w + A (B w) for a vector w of weights (Huang and Abraham,
algorithm-based fault tolerance): O(mn + mk + kn) operations, in 64 bits. Integers are compared modulo 2^32, with odd
weights, so that one wrong element is always found. Floats may differ by
``(k + 3) 2^-24 (|S| w + |A| (|B| w))`` in a row, which bounds the roundings of sums in f32 in any order; a row in which
``|S| w + |A| (|B| w)`` is beyond f32, or no number, is not judged.

An epilogue is computed again: in f64 up to the activation, which is evaluated in f32 at the value and at both ends of
its roundings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from xegpu.ir import dtypes
from xegpu.ir.dtypes import NDArray
from xetile.library.matmul import finish_sums

if TYPE_CHECKING:
    from xetile.distributed.executor import Epilogue


_MANTISSA = 2.0**-24
_LEAST = 2.0**-125
"""Of products and sums this small, devices keep nothing."""
_LARGEST = float(np.finfo(np.float32).max)
_LINEAR = 8 * _MANTISSA
"""Of ``|alpha| |S| + |beta| |C| + |bias|``: roundings of its three products and two sums, and of conversions."""
_ACTIVATION = 2.0**-14, 2.0**-20
"""Tolerance of activations of a device, relative and absolute; those of fast arithmetic by 3e-5."""


def wrong_row(after: NDArray, before: NDArray | None, a: NDArray, b: NDArray | None) -> int | None:
    """First row in which ``after`` is not ``before + a @ b``, by weighted sums of rows; None if all are right.

    Args:
        after, before: sums of f32 or i32; ``before`` None for zeros.
        a, b: the operands; ``b`` None for the unit matrix.
    """
    rng = np.random.default_rng(after.shape[1])
    if after.dtype.kind in "iu":
        odd = rng.integers(0, 2**30, after.shape[1], np.int64) * 2 + 1
        difference = _row_sums(after, None, None, odd) - _row_sums(before, a, b, odd)
        wrong = difference & 0xFFFFFFFF != 0
    else:
        weights = 1 + rng.random(after.shape[1])
        depth = 1 if b is None else a.shape[1]
        with np.errstate(all="ignore"):
            size = _row_sums(_magnitude(before), _magnitude(a), _magnitude(b), weights)
            bound = (depth + 3) * (_MANTISSA * size + _LEAST * weights.sum())
            difference = np.abs(_row_sums(after, None, None, weights) - _row_sums(before, a, b, weights))
            wrong = (size < _LARGEST) & ~(difference <= bound)
    found = np.flatnonzero(wrong)
    return int(found[0]) if found.size else None


def _row_sums(sums: NDArray | None, a: NDArray | None, b: NDArray | None, weights: NDArray) -> NDArray:
    """``sums @ weights + a @ (b @ weights)`` in the type of the weights; None counts as zero."""
    wide = weights.dtype
    total = np.zeros((), wide) if sums is None else sums.astype(wide) @ weights
    if a is not None:
        total = total + a.astype(wide) @ (weights if b is None else b.astype(wide) @ weights)
    return np.asarray(total)


def _magnitude(part: NDArray | None) -> NDArray | None:
    return None if part is None else np.abs(part)


def wrong_row_of_epilogue(found: NDArray, sums: NDArray, old: NDArray | None, bias: NDArray | None,
                          epilogue: Epilogue) -> int | None:
    """First row in which ``found`` is not ``activation(alpha * sums + beta * old + bias)``; None if all are right.

    Integers whose epilogue converts nothing to floats are compared modulo 2^32. What is beyond the type of ``found``,
    or no number, is not judged.

    Args:
        found: the result, in any element type.
        sums: of f32 or i32.
        old: the values that ``beta`` scales; None if it is zero.
        bias: of the shape of the result; None for zeros.
        epilogue: its activation and factors.
    """
    kinds = [array.dtype.kind for array in (found, sums, old, bias) if array is not None]
    if found.itemsize >= sums.itemsize and all(kind in "iu" for kind in kinds) and epilogue.activation is None and \
            epilogue.alpha == 1 and epilogue.beta in (0, 1):
        total = sum((part.astype(np.int64) for part in (old, bias) if part is not None), sums.astype(np.int64))
        wrong = (found.astype(np.int64) - total) & 0xFFFFFFFF != 0
    else:
        with np.errstate(all="ignore"):
            wrong = _outside(found, *_interval(sums, old, bias, epilogue), epilogue.activation is not None)
    rows = np.flatnonzero(wrong.any(1))
    return int(rows[0]) if rows.size else None


def _interval(sums: NDArray, old: NDArray | None, bias: NDArray | None, epilogue: Epilogue) -> tuple[NDArray, NDArray]:
    """Least and largest value of an epilogue within the roundings of what its activation is applied to."""
    parts = [epilogue.alpha * sums.astype(np.float64)]
    parts += [epilogue.beta * old.astype(np.float64)] if old is not None else []
    parts += [bias.astype(np.float64)] if bias is not None else []
    middle = np.add.reduce(parts)
    slack = _LINEAR * np.add.reduce([np.abs(part) for part in parts]) + _LEAST
    ends = [middle - slack, middle, middle + slack]
    if epilogue.activation is not None:
        ends = [_activated(np.asarray(each, np.float32), epilogue.activation) for each in ends]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _activated(values: NDArray, activation: Any) -> NDArray:
    out = np.empty_like(values)
    finish_sums(values, out=out, activation=activation)
    return out.astype(np.float64)


def _outside(found: NDArray, least: NDArray, most: NDArray, activated: bool) -> NDArray:
    """Mask of the elements that are outside an interval by more than their type and activation allow."""
    relative, absolute = _ACTIVATION if activated else (0.0, 0.0)
    limits: Any  # ml_dtypes has no annotations
    if dtypes.of(found.dtype).kind in "fs":
        limits = ml_dtypes.finfo(found.dtype)  # type: ignore[no-untyped-call]
        relative, absolute = relative + float(limits.eps), absolute + float(limits.smallest_subnormal) + _LEAST
    else:  # a fraction is cut off, that of a bias as well
        limits, absolute = ml_dtypes.iinfo(found.dtype), absolute + 2  # type: ignore[no-untyped-call]
    slack = relative * np.maximum(np.abs(least), np.abs(most)) + absolute
    judged = (least > float(limits.min)) & (most < float(limits.max))
    value = found.astype(np.float64)
    return judged & ~((value >= least - slack) & (value <= most + slack))
