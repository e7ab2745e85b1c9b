"""Cases that load and store windows of arrays: inside, across and outside of their edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import xetile as xt
from tests.operations.case import COLUMNS, ROWS, Array, Case, Operands, operands
from xegpu.ir.dtypes import DType

BORDER = 48
"""Rows and columns around an array that hold its padding, in the expected results."""


def _window(array: Array, row: int, column: int, shape: tuple[int, int] = (8, 16), padding: int = 0) -> Array:
    padded = np.full((ROWS + 2 * BORDER, COLUMNS + 2 * BORDER), padding, np.int8).astype(array.dtype)
    padded[BORDER:BORDER + ROWS, BORDER:BORDER + COLUMNS] = array
    row, column = row + BORDER, column + BORDER
    return padded[row:row + shape[0], column:column + shape[1]]


def _load(row: int, column: int, shape: tuple[int, int] = (8, 16), **options: Any) -> Callable[[Operands], Any]:
    return lambda x: xt.load_tile(xt.init_tile(x.A, (row, column), shape), **options)


def cases(dtype: DType) -> Iterator[Case]:
    """Loads and stores: edges, odd shapes, padding, moved tiles, blocks."""
    a, b, _ = operands(dtype)
    yield Case("beyond the last row and column", _load(36, 56), _window(a, 36, 56), dtype)
    yield Case("before the first row and column", _load(-3, -5), _window(a, -3, -5), dtype)
    yield Case("outside", _load(ROWS, -40), _window(a, ROWS, -40), dtype)
    yield Case("odd shape", _load(7, 9, (5, 11)), _window(a, 7, 9, (5, 11)), dtype)
    yield Case("one row", _load(9, 30, (1, 40)), _window(a, 9, 30, (1, 40)), dtype)
    yield Case("one column", _load(30, 17, (24, 1)), _window(a, 30, 17, (24, 1)), dtype)
    if dtype.kind != "s":  # which are padded with zeros
        yield Case("padding", _load(36, 56, padding=1), _window(a, 36, 56, padding=1), dtype)
    yield Case("transposed", lambda x: xt.tile_transpose(xt.load_tile(xt.init_tile(x.A, (30, 5), (16, 8)))),
               _window(a, 30, 5, (16, 8)).T, dtype)
    yield Case("in blocks", lambda x: xt.tile_unpack(xt.load_tile(
        xt.init_tile(x.A, (8, 40), (16, 32), inner_blocks=(8, 16)))), _window(a, 8, 40, (16, 32)), dtype)
    yield Case("moved", _load_moved, _window(a, 27, 21), dtype)
    yield Case("in steps", _copy_in_steps, np.hstack((a[8:16], np.zeros((8, 16), dtype.numpy))), dtype)
    start = np.ones((11, 21), dtype.numpy)
    expected = start.copy()
    expected[5:, 10:] = a[8:14, 16:27]
    expected[:4, :4] = b[28:32, 44:48]
    yield Case("stores across edges", _store, expected, dtype, start)


def _load_moved(x: Operands) -> Any:
    tile = xt.init_tile(x.A, (0, 0), (8, 16))
    xt.prefetch_tile(xt.init_tile(x.A, (0, 0), (8, 32)))
    xt.prefetch_tile(tile)
    for _ in xt.range(3):
        tile = xt.update_tile_offset(tile, 9, 7)
    return xt.load_tile(tile)


def _copy_in_steps(x: Operands) -> None:
    """The last step lies outside of A; two steps in each turn of the loop."""
    tile, out = xt.init_tile(x.A, (8, 0), (8, 16)), xt.init_tile(x.out, (0, 0), (8, 16))
    for k in xt.range(0, 80, 16, unroll=2):
        xt.prefetch_tile(xt.init_tile(x.A, (8, k + 32), (8, 16)))
        xt.store_tile(xt.load_tile(tile), out)
        tile, out = xt.update_tile_offset(tile, 0, 16), xt.update_tile_offset(out, 0, 16)


def _store(x: Operands) -> None:
    xt.store_tile(x.a, xt.init_tile(x.out, (5, 10), (8, 16)))
    xt.store_tile(x.b, xt.init_tile(x.out, (-4, -12), (8, 16)))
