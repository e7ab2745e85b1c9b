"""Stores side by side on a GPU without 2D block IO: 1D block writes of rows, and the same elements at every edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, Execution, integers

COLUMNS = 40
"""Columns of a tile: five blocks, which a message of four words and one of a single word write."""


@xt.kernel
def twice(X, Y, *, start: int, rows: int):
    """Y gets X twice, tiles beginning ``start`` rows and columns off the arrays."""
    row, column = xt.group_id(0) * rows + start, xt.group_id(1) * COLUMNS + start
    x = xt.load_tile(xt.init_tile(X, (row, column), (rows, COLUMNS)))
    xt.store_tile(x + x, xt.init_tile(Y, (row, column), (rows, COLUMNS)))


@pytest.mark.parametrize(("rows", "dtype", "writes"), [(1, "f32", 2), (4, "f16", 8), (8, "f32", 16), (1, "i8", 0),
                                                       (1, "i64", 0)])
def test_rows_that_are_written(rows: int, dtype: str, writes: int) -> None:
    """Two messages for a row of five blocks; none for blocks with rows of 8 bytes, and for elements of 64 bits."""
    spec = xt.Spec((None, None), dtype)
    text = twice.lower(spec, spec, target="dg2", start=0, rows=rows).opencl
    assert text.count("sub_group_block_write") == writes
    assert "sub_group_block_write" not in twice.lower(spec, spec, target="pvc", start=0, rows=rows).opencl


@pytest.mark.parametrize("execution", [*DEVICE[1:2], Execution("machine:dg2", "dg2")], ids=str)
@pytest.mark.parametrize(("rows", "start", "width"), [(1, 0, 80), (4, -4, 91), (1, -3, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_every_edge(execution: Execution, dtype: Any, rows: int, start: int, width: int) -> None:
    """Rows and bases on and off 16-byte boundaries, tiles before and beyond the array."""
    x = integers(np.random.default_rng(width), dtype, 9, width)
    grid = tuple(-(-(size - start) // each) for size, each in zip(x.shape, (rows, COLUMNS), strict=True))
    bound = execution.bind(twice)
    for left, right in ((0, 16 - width % 8), (1, 15 - width % 8), (3, 2), (8, 8)):
        frame = np.full((11, left + width + right), 7, dtype)
        bound[grid](x, frame[1:-1, left:left + width], start=start, rows=rows)
        expected = np.full_like(frame, 7)
        expected[1:-1, left:left + width] = 2 * x
        np.testing.assert_array_equal(frame, expected)
