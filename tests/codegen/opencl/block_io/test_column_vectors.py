"""Vectors of one column, such as those that name rows: how far their numbers lie apart in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution

ROWS, COLUMNS, COUNT = 21, 16, 16
INDEX = [0, 20, -1, 21, -(1 << 31), (1 << 31) - 1, 7, 7, -21, 22, 19, 1, 2, 3, -2, 20]
"""The first and last row, and what is near them and far from them."""


@xt.kernel
def named_rows(A: Any, index: Any, C: Any) -> None:
    rows = xt.load_tile(xt.init_tile(index, (0, 0), (COUNT, 1)))
    xt.store_tile(xt.load_tile(xt.init_tile(A, (rows, 0), (COUNT, COLUMNS))), xt.init_tile(C, (0, 0), (COUNT, COLUMNS)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("step", [1, 2, 3])
def test_rows_out_of_bounds_are_zeros(execution: Execution, step: int) -> None:
    """Of a vector whose numbers lie behind each other, which are a constant apart, and of one among others."""
    a = np.random.default_rng(step).integers(1, 100, (ROWS, COLUMNS)).astype(np.int32)
    whole = np.full((COUNT, step), 5, np.int32)
    index = whole[:, :1]
    index[:, 0] = INDEX
    c = np.full((COUNT, COLUMNS), 7, np.int32)
    execution.bind(named_rows)[1](a, index, c)
    expected = [a[row] if 0 <= row < ROWS else np.zeros(COLUMNS, np.int32) for row in INDEX]
    np.testing.assert_array_equal(c, np.array(expected))
    if execution.target in ("pvc", "bmg", "dg2") and execution.where != "numpy:program":
        text = named_rows.lower(a, index, c, target=execution.target).opencl
        assert ("(index, index_size0, index_size1, 1, index_stride1, 0, 0" in text) == (step == 1)
