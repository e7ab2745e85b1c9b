"""Negations that Intel's compiler for GPUs drops a zero from, or takes for an absolute value's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.xetile.lang.math.test_zero_signs import EVERYWHERE, assert_same

SUMS, CHOICES = 24, 15


@xt.kernel
def sums_with_zeros(A: Any, B: Any, I: Any, C: Any, *, dtype: Any, wide: Any) -> None:  # noqa: E741
    a, b = (xt.load_tile(xt.init_tile(X, (0, 0), (1, 16))) for X in (A, B))
    i = xt.load_tile(xt.init_tile(I, (0, 0), (1, 16)))
    z, one = xt.zeros((1, 16), dtype), xt.full((1, 16), 1.0, dtype)
    values = [xt.fma(-a, 1.0, z), xt.fma(one, -a, z), xt.fma(a * -1.0, 1.0, z), xt.fma(a * -b, 1.0, z),
              xt.fma(z, one, -a), xt.fma(z, z, -a), xt.fma(-a, one, (i & 0).to(dtype)),
              a * -1.0 - -0.0, -a - -z, -a - z * -1.0,
              a * -b + 0.0, -a * b - -0.0, -a * -b * -b + 0.0, xt.abs(b) * -a + 0.0, xt.maximum(-a, -a) + 0.0,
              ((-a).to(wide) + 0.0).to(dtype),
              -a + (i - i).to(dtype), (i * 0).to(dtype) - a, ((i & 1) >> 1).to(dtype) - a,
              ((i & 3) // 4).to(dtype) - a, ((i & 1) & (i & 2)).to(dtype) - a, (i % 1).to(dtype) - a,
              (a < a).to(dtype) - a, ((i + 1) - i - 1).to(dtype) - a]
    assert len(values) == SUMS
    for row, value in enumerate(values):
        xt.store_tile(value, xt.init_tile(C, (row, 0), (1, 16)))


@xt.kernel
def choices_of_signs(A: Any, C: Any, n: Any, *, dtype: Any, wide: Any) -> None:
    a, one, scalar = xt.load_tile(xt.init_tile(A, (0, 0), (1, 16))), xt.full((1, 16), 1.0, dtype), n.to(dtype)
    chosen = scalar
    with xt.when(scalar < 0.0):
        chosen = -scalar
    values = [xt.where(a < 0.0, -a, a), xt.where(a < 0.0, -a, a), xt.where(-a > 0.0, -a, a),
              xt.where(a < 0.0, a * -1.0, a), xt.where(a < 0.0, a / -1.0, a), xt.where(a < 0.0, -one, one) * a,
              xt.where(a < 0.0, (-a).to(wide), a.to(wide)).to(dtype), xt.where(a >= 0.0, a, -a),
              xt.where(a > 0.0, a, -a), xt.where(a > -a, a, -a), xt.where(a <= 0.0, -a, a),
              a * xt.where(a > 0.0, one, -one),
              xt.where(a < 0.0, a, -a), xt.where(a > 0.0, -a, a), xt.full((1, 16), chosen, dtype)]
    assert len(values) == CHOICES
    for row, value in enumerate(values):
        xt.store_tile(value, xt.init_tile(C, (row, 0), (1, 16)))


def _run(kernel: xt.Kernel, dtype: xt.DType, where: str, rows: int, *more: Any) -> tuple[np.ndarray, np.ndarray]:
    if where.startswith("machine"):
        require_ocloc()
    a = np.resize([0.0, -0.0, 1.0, -1.0], (1, 16)).astype(dtype.numpy)
    c = np.full((rows, 16), 7, dtype.numpy)
    before = (np.ones_like(a), np.resize(np.array([0, 0, 1, -1, 3], np.int32), (1, 16))) if not more else ()
    kernel.on(where)[1](a, *before, c, *more, dtype=dtype, wide=xt.f16 if dtype is xt.f32 else xt.f32)
    return a.astype(np.float64), c.astype(np.float64)


@EVERYWHERE
def test_a_zero_that_is_added_to_a_negation_is_kept(dtype: xt.DType, where: str) -> None:
    a, c = _run(sums_with_zeros, dtype, where, SUMS)
    assert_same(c, np.repeat(0 - a, SUMS, axis=0))


@EVERYWHERE
def test_a_choice_between_two_signs_is_no_absolute_value(dtype: xt.DType, where: str) -> None:
    a, c = _run(choices_of_signs, dtype, where, CHOICES, -0.0)
    below, above = np.where(a < 0, -a, a), np.where(a > 0, a, -a)
    assert_same(c, np.concatenate([*[below] * 8, *[above] * 4, np.where(a < 0, a, -a), np.where(a > 0, -a, a),
                                   np.full((1, 16), -0.0)]))


@xt.kernel
def long_chain(A: Any, I: Any, C: Any, *, step: Any) -> None:  # noqa: E741
    a, i = (xt.load_tile(xt.init_tile(X, (0, 0), (1, 16))) for X in (A, I))
    value, number = -a, i
    known = xt.zeros((1, 16), xt.f32)
    for _ in range(1500):
        value, number, known = step(value, number, known, a, i)
    xt.store_tile(known - a + value + -number.to(xt.f32), xt.init_tile(C, (0, 0), (1, 16)))


@pytest.mark.parametrize("step", [
    lambda value, number, known, a, i: (value * a, number, known),
    lambda value, number, known, a, i: (value, number + i, known),
    lambda value, number, known, a, i: (value, number, known * 0.5 + 0.25),
    lambda value, number, known, a, i: (xt.where(a > 1.0, value, a), number, known),
], ids=["products of a negation", "integers", "constants", "choices"])
def test_long_chains_are_followed(step: Any) -> None:
    row = xt.Spec((1, 16), xt.f32)
    assert long_chain.lower(row, xt.Spec((1, 16), xt.i32), row, step=step, target="pvc").opencl
