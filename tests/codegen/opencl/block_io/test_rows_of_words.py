"""Rows of 8 words of 32 bits: block messages of half a register, which both halves of the lanes have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import FEW, Execution

pytestmark = pytest.mark.unoptimised
MACHINES = [Execution(f"machine:{target}", target) for target in ("pvc", "bmg")]


@xt.kernel
def rows(A: Any, B: Any, *, count: int) -> None:
    """Row after row of A, from column 8 on, added to 16 rows of B, two of which are in a register."""
    total, n = xt.zeros((16, 8), A.dtype), xt.group_id(0) * 8
    for k in xt.range(count):
        total = total * 3 + xt.load_tile(xt.init_tile(A, (k, n + 8), (1, 8)))
    xt.store_tile(total, xt.init_tile(B, (0, n), (16, 8)))


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32])
def test_every_lane_has_its_word(execution: Execution, dtype: Any) -> None:
    """Of rows and columns that leave the array, too: these are zeros."""
    a = np.random.default_rng(3).integers(1, 99, (3, 28)).astype(dtype)
    b = np.full((16, 36), 7, dtype)
    execution.bind(rows)[3](a, b[:, :24], count=4)
    expected = np.zeros(24, dtype)
    for row in [*a, np.zeros(28, dtype)]:
        expected = expected * 3 + np.pad(row[8:], (0, 4))
    np.testing.assert_array_equal(b[:, :24], np.tile(expected, (16, 1)))
    assert (b[:, 24:] == 7).all()


def test_a_row_is_one_message() -> None:
    matrix = xt.Spec((None, None), "i32")
    text = rows.lower(matrix, matrix, target="pvc", count=4).opencl
    assert "2d_block_read_32b_1r8x1c(A" in text
    assert "predicated" not in text
