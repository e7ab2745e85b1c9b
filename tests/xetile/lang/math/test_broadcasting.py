"""Operands of several shapes in functions of two and of three: dimensions of size 1 are repeated."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution, integers

pytestmark = pytest.mark.unoptimised


@xt.kernel
def mixed(A, B, C, *, M, N, maps=None):
    """Operands of several shapes in functions of two and of three."""
    tile, row, column = maps or (None, None, None)
    a = xt.load_tile(xt.init_tile(A, (0, 0), (M, N), wg_map=tile))
    r = xt.load_tile(xt.init_tile(B, (0, 0), (1, N), wg_map=row))
    c = xt.tile_reduce("max", a, 1, wg_map=column)
    xt.store_tile(xt.where(a > r, xt.maximum(a, c - 1), xt.fma(a, r, c)), xt.init_tile(C, (0, 0), (M, N), wg_map=tile))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dealt", [False, True])
def test_functions_repeat_dimensions_of_one(execution: Execution, dealt: bool) -> None:
    rng = np.random.default_rng(8)
    a, b = integers(rng, "f32", 32, 64, most=9), integers(rng, "f32", 1, 64, most=9)
    maps = tuple(xt.wg_map((2, 1), data) for data in ((16, 64), (1, 64), (16, 1))) if dealt else None
    c, largest = np.zeros_like(a), a.max(axis=1, keepdims=True)
    execution.bind(mixed)[1](a, b, c, M=32, N=64, maps=maps)
    np.testing.assert_array_equal(c, np.where(a > b, np.maximum(a, largest - 1), a * b + largest))
