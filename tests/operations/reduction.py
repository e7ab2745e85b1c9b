"""Cases of reductions: each combining kind along each axis."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import xetile as xt
from tests.operations.case import Case, Operands, blocks, quiet
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType

AXES: dict[Any, tuple[int, ...]] = {0: (0,), 1: (1,), (0, 1): (0, 1)}
BITWISE: dict[str, Any] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
ORDER: dict[str, Any] = {"min": np.minimum, "max": np.maximum}


def cases(dtype: DType) -> Iterator[Case]:
    """Integers of random bits, which wrap; minima and maxima of floats with NaN; sums and products that are exact."""
    a, _, c = blocks(dtype)
    if dtype is dtypes.i1:
        yield from _along_axes(BITWISE, "a", a, dtype)
    elif dtype.kind == "f":
        yield from _along_axes({**ORDER, "minnumf": np.fmin, "maxnumf": np.fmax}, "a", quiet(a), dtype)
        yield from _along_axes({"add": np.add}, "c", c.astype(np.float64), dtype)
        factors = np.where(c == 0, 1, c).astype(np.float64)
        yield from _along_axes({"mul": np.multiply}, "factors", factors, dtype)
    elif dtype.kind in "iu":
        yield from _along_axes({**BITWISE, **ORDER, "add": np.add, "mul": np.multiply}, "a", a, dtype)
        yield from _along_axes({"minui": np.minimum, "maxui": np.maximum}, "a", a.view(f"u{dtype.bytes}"), dtype)


def _along_axes(kinds: dict[str, Any], operand: str, values: np.ndarray[Any, Any], dtype: DType) -> Iterator[Case]:
    for kind, function in kinds.items():
        for axis, axes in AXES.items():
            with np.errstate(all="ignore"):
                expected = function.reduce(values, axis=axes, keepdims=True, dtype=values.dtype)
                expected = expected.view(dtype.numpy) if values.dtype.kind == "u" else expected.astype(dtype.numpy)
            yield Case(f"{kind} along {axis}", partial(_reduce, kind, operand, axis), expected, dtype,
                       signed_zeros=False)


def _reduce(kind: str, operand: str, axis: Any, x: Operands) -> Any:
    value = xt.where(x.c == 0, 1, x.c) if operand == "factors" else getattr(x, operand)
    return xt.tile_reduce(kind, value, axis)
