"""Tiles of bytes whose rows are shorter than those of any message: of a wider one the last blocks are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution

pytestmark = pytest.mark.unoptimised

MACHINES = [Execution(f"machine:{gpu}", gpu) for gpu in ("pvc", "bmg")]


@xt.kernel
def negated(X: Any, Y: Any, *, columns: int, padding: int = 0) -> None:
    """Minus X, from row and column -4 on, in a tile that moves along a row."""
    at = xt.group_id(0) * 16 - 4
    x, y = xt.init_tile(X, (at, -4), (16, columns)), xt.init_tile(Y, (at, -4), (16, columns))
    for _ in xt.range(0, X.shape[1] + 4, columns):
        xt.store_tile(-xt.load_tile(x, padding=padding), y)
        x, y = xt.update_tile_offset(x, 0, columns), xt.update_tile_offset(y, 0, columns)


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("width", [112, 113])
@pytest.mark.parametrize("columns", [16, 32, 48, 96])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_each_byte(dtype: Any, columns: int, width: int, execution: Execution) -> None:
    """Of rows with and without 2D block IO."""
    rng = np.random.default_rng(7)
    x = rng.integers(0, 256, (37, width), np.uint8).view(dtype)
    y = np.full((37, 120), 5, dtype)
    execution.bind(negated)[3](x, y, columns=columns, padding=3)
    expected = np.full_like(y, 5)
    expected[:, :-(-(width + 4) // columns) * columns - 4] = -np.array([3], dtype)
    expected[:, :width] = -x
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("width", [112, 113])
def test_a_message_loads_them(width: int) -> None:
    lowered = negated.lower(*[np.zeros((37, width), np.uint8)] * 2, target="pvc", columns=32)
    assert ("2d_block_read_8b_16r16x4c" in lowered.opencl) == (width == 112)
