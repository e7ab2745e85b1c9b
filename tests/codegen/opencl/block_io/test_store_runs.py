"""Stores side by side on a processor: one bounds check for a row of blocks, and the same elements at every edge."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

COLUMNS = 64


@xt.kernel
def halves(X, Y, Z, *, start: int, rows: int):
    """Y gets X twice, Z three times, tiles beginning ``start`` rows and columns off the arrays."""
    row = xt.group_id(0) * rows + start
    for n in xt.range(start, X.shape[1], COLUMNS):
        x = xt.load_tile(xt.init_tile(X, (row, n), (rows, COLUMNS)))
        xt.store_tile(x + x, xt.init_tile(Y, (row, n), (rows, COLUMNS)))
        xt.store_tile(x + x + x, xt.init_tile(Z, (row, n), (rows, COLUMNS)))


def checks(text: str) -> int:
    """Bounds checks in front of stores."""
    return len(re.findall(r"LIKELY\(inside\d*\)\) \{\n\s*store_", text))


@pytest.mark.parametrize(("rows", "dtype", "expected"), [(1, "f32", 2), (1, "i16", 2), (4, "f32", 4)])
def test_a_row_of_blocks_is_checked_once(rows: int, dtype: str, expected: int) -> None:
    """Four blocks of 16 columns each for Y and Z; with four words a block, two blocks wait at most."""
    spec = xt.Spec((None, None), dtype)
    text = halves.lower(spec, spec, spec, target="cpu", start=0, rows=rows).opencl
    assert checks(text) == expected


@pytest.mark.execution("opencl:cpu", "cpu")
@pytest.mark.parametrize("columns", [1, 15, 64, 79, 130])
@pytest.mark.parametrize(("rows", "start"), [(1, 0), (1, -3), (2, -3), (4, -1)])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_every_edge(dtype: type, rows: int, start: int, columns: int) -> None:
    require_device()
    rng = np.random.default_rng(columns)
    big = rng.integers(-99, 100, (9, columns + 4)).astype(dtype)
    frames = [np.full((9, columns + 5), 7, dtype) for _ in range(2)]
    x, y, z = (array[1:-1, 2:2 + columns] for array in (big, *frames))
    halves.on("opencl:cpu", target="cpu")[-(-(x.shape[0] - start) // rows),](x, y, z, start=start, rows=rows)
    for frame, times in zip(frames, (2, 3), strict=True):
        expected = np.full_like(frame, 7)
        expected[1:-1, 2:2 + columns] = times * x
        np.testing.assert_array_equal(frame, expected)


@pytest.mark.execution("opencl:cpu", "cpu")
def test_a_tile_over_its_own_input() -> None:
    """Y is X a column further: each tile is read before any of it is written, whatever the lanes do."""
    require_device()
    memory = np.arange(4 * 80, dtype=np.float32).reshape(4, 80)
    before = memory.copy()

    @xt.kernel
    def shift(A):
        row = xt.group_id(0)
        xt.store_tile(xt.load_tile(xt.init_tile(A, (row, 0), (1, COLUMNS))) * 2.0,
                      xt.init_tile(A, (row, 3), (1, COLUMNS)))

    shift.on("opencl:cpu", target="cpu")[4,](memory)
    before[:, 3:3 + COLUMNS] = 2 * before[:, :COLUMNS]
    np.testing.assert_array_equal(memory, before)


@pytest.mark.execution("opencl:cpu", "cpu")
@pytest.mark.parametrize("columns", [16, 11])
def test_a_store_of_a_part_of_a_block_ends_a_run(columns: int) -> None:
    """In each step of a loop a whole block waits for the one beside it, of which a part is stored, in its own way."""
    require_device()

    @xt.kernel
    def rows(X, Y):
        for row in xt.range(0, X.shape[0], 4):
            xt.store_tile(xt.load_tile(xt.init_tile(X, (row, 0), (4, 32))) * 2.0, xt.init_tile(Y, (row, 0), (4, 32)))

    spec = xt.Spec((None, None), "f32")
    text = str(rows.lower(spec, spec, target="cpu").stages["legalize"])
    text = text.replace("[%Y_stride0, %Y_stride1]", "[%pitch, %step]")
    first, second = re.findall(r"xegpu.store_nd %[\w, %]+", text)
    text = text.replace(first, f"{first}{{in_bounds}} ").replace(
        second, f"{second}{{in_bounds, valid = [4, {columns}]}} ")
    text = re.sub(r"(func.func .*)", r"\1\n%pitch = arith.constant 32 : index\n%step = arith.constant 1 : index", text)
    x = np.random.default_rng(columns).integers(-99, 100, (12, 32)).astype(np.float32)
    expected = np.full_like(x, 7)
    expected[:, :16 + columns] = 2 * x[:, :16 + columns]
    for execution in ("numpy", "opencl:cpu"):
        y = np.full_like(x, 7)
        xt.parse(text)["rows"].on(execution, target="cpu")[1,](x, y)
        np.testing.assert_array_equal(y, expected)
