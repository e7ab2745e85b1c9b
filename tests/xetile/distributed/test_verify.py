"""Checks of products by weighted sums of rows: exact for integers, within the documented bound for floats."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xetile.distributed.executor import Epilogue
from xetile.distributed.verify.checks import wrong_row, wrong_row_of_epilogue
from xetile.library.activations import Activation, find_activation

RNG = np.random.default_rng(40)


@pytest.mark.parametrize("first", [True, False])
def test_integers_are_compared_modulo_2_32(first: bool) -> None:
    a, b = RNG.integers(-128, 128, (7, 300), np.int8), RNG.integers(-128, 128, (300, 11), np.int8)
    before = None if first else RNG.integers(-2**31, 2**31, (7, 11), np.int64).astype(np.int32)  # sums wrap
    with np.errstate(over="ignore"):
        after = a.astype(np.int32) @ b.astype(np.int32) + (0 if before is None else before)
    assert wrong_row(after, before, a, b) is None
    for row, column, bit in ((0, 0, 0), (3, 10, 31), (6, 5, 17)):
        changed = after.copy()
        changed.view(np.uint32)[row, column] ^= np.uint32(1 << bit)
        assert wrong_row(changed, before, a, b) == row


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("depth", [1, 37, 2000])
def test_roundings_of_floats_are_no_faults(dtype: type, depth: int) -> None:
    a, b = (RNG.standard_normal(shape).astype(dtype) for shape in ((9, depth), (depth, 13)))
    before = RNG.standard_normal((9, 13)).astype(np.float32)
    after = before.copy()
    for k in range(depth):  # one rounding for each product and for each sum, the worst order
        after += a[:, k:k + 1].astype(np.float32) * b[k].astype(np.float32)
    assert wrong_row(after, before, a, b) is None
    size = np.abs(before) + np.abs(a).astype(np.float32) @ np.abs(b).astype(np.float32)
    for row, column in ((0, 12), (8, 0)):
        changed = after.copy()
        changed[row, column] += 2 * (depth + 3) * 2.0**-24 * 2 * size[row].sum()  # weights are at most 2
        assert wrong_row(changed, before, a, b) == row
        changed[row, column] = np.nan
        assert wrong_row(changed, before, a, b) == row


def test_sums_of_buffers() -> None:
    one, other = RNG.standard_normal((2, 5, 6)).astype(np.float32)
    assert wrong_row(one + other, one, other, None) is None
    changed = one + other
    changed[4, 2] += 0.01
    assert wrong_row(changed, one, other, None) == 4


def test_what_f32_cannot_hold_is_not_judged() -> None:
    a, b = np.full((2, 3), 2e19, np.float32), np.full((3, 2), 2e19, np.float32)
    a[1] = 1
    with np.errstate(over="ignore"):
        after = a @ b
    assert np.isinf(after[0]).all()
    assert wrong_row(after, None, a, b) is None
    after[1, 0] = 0
    assert wrong_row(after, None, a, b) == 1


_PHI = np.vectorize(math.erf)
_ACTIVATIONS: dict[str | Activation | None, Any] = {
    None: lambda x: x, "relu": lambda x: np.maximum(x, 0), "gelu": lambda x: x / 2 * (1 + _PHI(x / 2**0.5)),
    "silu": lambda x: x / (1 + np.exp(-x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh,
    lambda x: x * x: np.square}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.int8])
def test_epilogues(dtype: type) -> None:
    """Against formulas in f64: their roundings pass, and four units in the last place of one element do not."""
    sums, bias = RNG.standard_normal((2, 6, 40)).astype(np.float32) * 4
    old = (RNG.standard_normal((6, 40)) * 4).astype(dtype)
    for activation, formula in _ACTIVATIONS.items():
        epilogue = Epilogue(find_activation(activation), 0.5, -1.5, None)
        exact = formula(0.5 * sums.astype(np.float64) - 1.5 * old.astype(np.float64) + bias)
        found = exact.astype(np.float32).astype(dtype)
        assert wrong_row_of_epilogue(found, sums, old, bias, epilogue) is None
        changed = found.copy()
        unit = 4 if dtype is np.int8 else np.maximum(4 * float(ml_dtypes.finfo(dtype).eps), 2.0**-12)
        changed[4, 39] = dtype(exact[4, 39] + unit * max(abs(exact[4, 39]), 1))
        assert wrong_row_of_epilogue(changed, sums, old, bias, epilogue) == 4, activation
        if dtype is not np.int8:
            changed[4, 39] = np.nan
            assert wrong_row_of_epilogue(changed, sums, old, bias, epilogue) == 4


def test_epilogues_of_integers_are_exact() -> None:
    sums, old, bias = RNG.integers(-2**31, 2**31, (3, 5, 9), np.int64).astype(np.int32)
    with np.errstate(over="ignore"):
        found = sums + old + bias
    epilogue = Epilogue(None, 1, 1, None)
    assert wrong_row_of_epilogue(found, sums, old, bias, epilogue) is None
    found[2, 3] ^= 1
    assert wrong_row_of_epilogue(found, sums, old, bias, epilogue) == 2


def test_epilogues_beyond_the_type_are_not_judged() -> None:
    sums = np.array([[7e4], [1.0]], np.float32)
    found = np.array([[np.inf], [1]], np.float16)
    assert wrong_row_of_epilogue(found, sums, None, None, Epilogue(None, 1, 0, None)) is None
