"""Padding of tf32, which is rounded to the element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution


@xt.kernel
def padded(A: Any, B: Any) -> None:
    tile = xt.init_tile(A, (0, 0), (8, 16))
    xt.store_tile(xt.load_tile(tile, padding=-4.5), xt.init_tile(B, (0, 0), (8, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_padding(execution: Execution) -> None:
    a = np.random.default_rng(1).integers(-9, 9, (5, 13)).astype(np.float32)
    b, expected = np.zeros((8, 16), np.float32), np.full((8, 16), -4.5, np.float32)
    expected[:5, :13] = a
    execution.bind(padded)[1](xt.view(a, xt.tf32), xt.view(b, xt.tf32))
    np.testing.assert_array_equal(b, expected)
