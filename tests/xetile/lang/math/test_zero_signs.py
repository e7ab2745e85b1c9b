"""Signs of zero in differences from zero, which Intel's compiler for GPUs takes for negations."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc

ZEROS = 12


@xt.kernel
def differences(A, C, n, *, dtype):
    a = xt.load_tile(xt.init_tile(A, (0, 0), (1, 16)))
    carried = xt.zeros((1, 16), dtype)
    for _ in xt.range(0, 2):  # two steps that the compiler unrolls
        for _ in xt.range(0, 1):
            carried = carried - xt.abs(a)
    values = [0.0 - a, carried, 0.0 - a * a, xt.full((1, 16), (0.0 - n).to(dtype), dtype), -a, -0.0 - a]
    for row, value in enumerate(values):
        xt.store_tile(value, xt.init_tile(C, (row, 0), (1, 16)))


@xt.kernel
def differences_from_known_zeros(A, C, n, *, dtype):
    a, one = xt.load_tile(xt.init_tile(A, (0, 0), (1, 16))), xt.full((1, 16), 1.0, dtype)
    start = xt.zeros((1, 16), dtype)
    doubled, counted, looped, branch, repeated, negative, total = start, start, start, a, start, -a, start
    for step in xt.range(0, 2):
        doubled = doubled + doubled - xt.abs(a)
        counted = counted + (step.to(dtype) - a)
        looped = looped * 2.0
        total, negative = total + negative, negative * -1.0 * -1.0
        with xt.when(n < 1.0):
            branch = start * 1.0
    count = n
    for _ in xt.while_(lambda: count < 2.0):  # noqa: B023 it is evaluated anew
        count, repeated = count + 1.0, repeated - xt.abs(a)
    values = [(one - one) - a, xt.where(a == a, start, one - one) - a, xt.maximum(start, start) - a, branch - a,
              looped - a, repeated, doubled, counted, total, start + -a, a * -1.0 + start,
              xt.iota((1, 16), 0, xt.i32).to(dtype) - a]
    for row, value in enumerate(values):
        xt.store_tile(value, xt.init_tile(C, (row, 0), (1, 16)))


EVERYWHERE = pytest.mark.parametrize(("dtype", "where"), [
    (dtype, where) for dtype in (xt.f32, xt.f16, xt.bf16, xt.f64)
    for where in ("numpy", "numpy:xegpu", "machine:pvc", "machine:dg2") if dtype is not xt.f64 or where != "machine:dg2"
], ids=str)
"""Types and executions; dg2 has no f64."""


def _run(kernel: xt.Kernel, dtype: xt.DType, where: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    if where.startswith("machine"):
        require_ocloc()
    a = np.resize([0.0, -0.0, 1.0, -1.0], (1, 16)).astype(dtype.numpy)
    c = np.ones((rows, 16), dtype.numpy)
    kernel.on(where)[1](a, c, 0.0, dtype=dtype)
    return a.astype(np.float64), c.astype(np.float64)


def assert_same(result: np.ndarray, expected: np.ndarray) -> None:
    """Compare numbers and the signs of zeros."""
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


@EVERYWHERE
def test_zero_minus_zero_is_positive(dtype: xt.DType, where: str) -> None:
    a, c = _run(differences, dtype, where, 6)
    assert_same(c, np.concatenate([0 - a, -2 * abs(a) + 0.0, 0 - a * a, 0 * abs(a), -a, -a]))


@EVERYWHERE
def test_a_zero_that_a_compiler_comes_to_know_is_one(dtype: xt.DType, where: str) -> None:
    a, c = _run(differences_from_known_zeros, dtype, where, ZEROS)
    twice = -2 * abs(a) + 0.0
    assert_same(c, np.concatenate([*[0 - a] * 5, twice, -3 * abs(a) + 0.0, (0 - a) + (1 - a), 0 - 2 * a,
                                    *[0 - a] * 3]))
