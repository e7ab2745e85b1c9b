"""Signs of zero in differences from zero, which Intel's compiler for GPUs takes for negations."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc


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


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "machine:pvc", "machine:dg2"])
@pytest.mark.parametrize("dtype", [xt.f32, xt.f16, xt.bf16, xt.f64], ids=str)
def test_zero_minus_zero_is_positive(dtype: xt.DType, where: str) -> None:
    if where.startswith("machine"):
        require_ocloc()
        if dtype is xt.f64 and where.endswith("dg2"):
            pytest.skip("the target lacks the type")
    a = np.resize([0.0, -0.0, 1.0, -1.0], (1, 16)).astype(dtype.numpy)
    c = np.ones((6, 16), dtype.numpy)
    differences.on(where)[1](a, c, 0.0, dtype=dtype)
    wide = a.astype(np.float64)
    expected = np.concatenate([0 - wide, -2 * abs(wide) + 0.0, 0 - wide * wide, 0 * abs(wide), -wide, -wide])
    np.testing.assert_array_equal(c.astype(np.float64), expected)
    np.testing.assert_array_equal(np.signbit(c), np.signbit(expected))
