"""Padding of columns to the lanes: reductions and stores of tiles of 19 to 250 columns, and where it applies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, NUMPY, Execution, first_stages, integers, tiles

pytestmark = pytest.mark.unoptimised
EXECUTIONS = [NUMPY, Execution("numpy:xegpu", "dg2"), *(each for each in DEVICE if each.target == "dg2")]
MACHINE = Execution("machine:dg2", "dg2")
F32 = xt.Spec((None, None), "f32")


@xt.kernel
def reduced(X, W, Y, T, *, BM=8, BN=19, kind="add"):
    """Rows with weights of one row, less a reduction of them, in a window of columns; reductions of the columns."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    x = xt.load_tile(xt.init_tile(X, (m, n), (BM, BN)))
    w = xt.load_tile(xt.init_tile(W, (0, n), (1, BN)))
    y = x + w + 1
    row = xt.tile_reduce(kind, y, 1)
    column = xt.iota((BM, BN), 1, xt.i32).to(x.dtype)
    xt.store_tile(y - row + column, xt.init_tile(Y, (m, n), (BM, BN)))
    xt.store_tile(xt.tile_reduce(kind, y, 0), xt.init_tile(T, (xt.group_id(0), n), (1, BN)))


@xt.kernel
def in_a_loop(X, Y, *, BM=4, BN=250):
    """Sums of the tiles below each other, and the largest element of each row, as an updated tile's."""
    x, total = xt.init_tile(X, (0, 0), (BM, BN)), xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, X.shape[0], BM):
        total = total + xt.load_tile(x, padding=1.0)
        x = xt.update_tile_offset(x, BM, 0)
    at = xt.init_tile(Y, (0, 0), (BM, BN))
    row = xt.tile_reduce("max", total, 1)
    xt.store_tile(xt.load_tile(at) - total * row - xt.tile_reduce("add", xt.tile_reduce("add", total, 1), 0), at)


@xt.kernel
def sums(X, Y, *, BN=19):
    xt.store_tile(xt.tile_reduce("add", xt.load_tile(xt.init_tile(X, (0, 0), (2, BN))), 1),
                  xt.init_tile(Y, (0, 0), (2, 1)))


@xt.kernel
def anywhere(X, N, Y, T, *, BN=19):
    """A tile from a column of run time on, and its sums, where what lies outside is 5."""
    at, column = (4, BN), xt.load_scalar(N, (0, 0))
    x = xt.load_tile(xt.init_tile(X, (0, column), at), padding=5)
    xt.store_tile(x + 1, xt.init_tile(Y, (0, column), at))
    xt.store_tile(xt.tile_reduce("add", x, 1), xt.init_tile(T, (0, 0), (4, 1)))


COMBINED = {"add": np.add, "min": np.minimum, "max": np.maximum, "mul": np.multiply, "and": np.bitwise_and,
            "or": np.bitwise_or, "xor": np.bitwise_xor}


@pytest.mark.parametrize("execution", [*EXECUTIONS, MACHINE], ids=str)
@pytest.mark.parametrize(("dtype", "kind"), [
    (np.float32, "add"), (np.float32, "min"), (np.float32, "max"), (np.int32, "mul"), (np.int32, "min"),
    (np.int32, "max"), (np.uint32, "min"), (np.int16, "and"), (np.uint8, "or"), (np.int32, "xor")], ids=str)
@pytest.mark.parametrize(("BN", "width"), [(19, 50), (101, 250)])
def test_rows_and_columns_are_reduced(execution: Execution, dtype: Any, kind: str, BN: int, width: int) -> None:
    """Each tile's columns alone, where the array goes on behind them, and where it ends before."""
    generator = np.random.default_rng(BN)
    rows, BM = 13, 8
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    limits = (info.min, info.max) if info is not None and kind != "add" else (-9, 9)
    x, w = (generator.integers(*limits, shape, endpoint=True).astype(dtype) for shape in ((rows, width), (1, width)))
    y, t = np.full((rows, width), 7, dtype), np.full((2, width), 7, dtype)
    execution.bind(reduced)[tiles(rows, BM), tiles(width, BN)](x, w, y, t, BN=BN, kind=kind)
    combine: Any = COMBINED[kind]
    for m in range(0, rows, BM):
        for n in range(0, width, BN):
            tile = np.zeros((BM, BN), dtype)
            inside = x[m:m + BM, n:n + BN]
            height, columns = inside.shape
            tile[:height, :columns] = inside
            weights = np.zeros((1, BN), dtype)
            weights[:, :columns] = w[:, n:n + BN]
            with np.errstate(over="ignore"):
                tile = tile + weights + np.array(1, dtype)
                expected = tile - combine.reduce(tile, 1, keepdims=True, dtype=dtype) + np.arange(BN).astype(dtype)
            np.testing.assert_array_equal(y[m:m + BM, n:n + BN], expected[:height, :columns])
            np.testing.assert_array_equal(t[m // BM, n:n + BN], combine.reduce(tile, 0, dtype=dtype)[:columns])


@pytest.mark.parametrize("execution", [*EXECUTIONS, MACHINE], ids=str)
@pytest.mark.parametrize("width", [240, 250, 300])
def test_tiles_that_loops_move(execution: Execution, width: int) -> None:
    generator = np.random.default_rng(width)
    x, y = integers(generator, np.float32, 10, width), integers(generator, np.float32, 6, width)
    result = y.copy()
    execution.bind(in_a_loop)[1](x, result)
    padded = np.ones((12, 250), np.float32)
    padded[:10, :min(width, 250)] = x[:, :250]
    total = padded.reshape(3, 4, 250).sum(0)
    expected = y.copy()
    expected[:4, :250] -= (total * total.max(1, keepdims=True) + total.sum())[:, :min(width, 250)]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("execution", [*EXECUTIONS, MACHINE], ids=str)
@pytest.mark.parametrize("column", [-100, -20, -19, -5, 45, 50, (1 << 31) - 11, 3 - (1 << 31)])
def test_tiles_in_front_of_an_array_and_behind_it(execution: Execution, column: int) -> None:
    """The arrays have frames around them, which are neither read nor written."""
    frames = np.random.default_rng(1).integers(0, 100, (2, 8, 320)).astype(np.float32)
    expected, (x, y) = frames[1].copy(), frames[:, 2:6, 130:180]
    total = np.empty((4, 1), np.float32)
    execution.bind(anywhere)[1,](x, np.array([[column]], np.int32), y, total)
    inside = [j for j in range(50) if column <= j < column + 19]
    expected[2:6, 130:180][:, inside] = x[:, inside] + 1
    np.testing.assert_array_equal(frames[1], expected)
    np.testing.assert_array_equal(total[:, 0], x[:, inside].sum(1) + 5 * (19 - len(inside)))


def is_padded(kernel: Any, *specs: Any, target: str = "dg2", **constants: Any) -> bool:
    return "pad-columns" in first_stages(kernel.lower(*specs, target=target, **constants))


def moved(X, Y, *, BN=19):  # type: ignore[no-untyped-def]
    """Tiles that a loop moves along columns end elsewhere in each step."""
    x, total = xt.init_tile(X, (0, 0), (8, BN)), xt.zeros((8, BN), xt.f32)
    for _ in xt.range(0, X.shape[1], BN):
        total, x = total + xt.load_tile(x), xt.update_tile_offset(x, 0, BN)
    xt.store_tile(total, xt.init_tile(Y, (0, 0), (8, BN)))


def divided(X, Y, *, BN=19):  # type: ignore[no-untyped-def]
    """Integers outside are zeros, by which nothing is divided."""
    x, y = (xt.load_tile(xt.init_tile(X, (row, 0), (8, BN))) for row in (0, 8))
    xt.store_tile(x // y, xt.init_tile(Y, (0, 0), (8, BN)))


def transposed(X, Y, *, BN=19):  # type: ignore[no-untyped-def]
    """Columns that become rows."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (8, BN)))
    xt.store_tile(xt.tile_transpose(x), xt.init_tile(Y, (0, 0), (BN, 8)))


def test_where_it_applies() -> None:
    assert is_padded(sums, F32, F32)
    assert is_padded(sums, F32, F32, target="arl")
    assert is_padded(in_a_loop, F32, F32)
    assert not is_padded(sums, F32, F32, target="pvc")
    assert not is_padded(sums, F32, F32, target="cpu")
    assert not is_padded(sums, F32, F32, BN=9)  # nearly twice as many columns
    assert not is_padded(sums, F32, F32, BN=256)
    assert not is_padded(xt.kernel(moved), F32, F32)
    assert not is_padded(xt.kernel(transposed), F32, F32)
    integers_ = xt.Spec((None, None), "i32")
    assert not is_padded(xt.kernel(divided), integers_, integers_)
