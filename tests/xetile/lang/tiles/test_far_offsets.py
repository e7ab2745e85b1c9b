"""Offsets at the ends of 32-bit integers: outside every array, read as padding and not written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Array, Bordered, Execution, Types, integers, operands, product

pytestmark = pytest.mark.optimised  # an optimiser takes signed sums never to overflow

FAR = [2**31 - 1, 2**31 - 8, 2**31 - 16, 2**31 - 17, -2**31, -2**31 + 5]
NEAR = [-5, 7]
"""Offsets at which a part of a tile is inside, which the same program treats."""


@xt.kernel
def copied(A: Any, Stored: Any, Loaded: Any, Padded: Any, Written: Any, n: xt.i32, *, columns: bool) -> None:
    at = (0, n) if columns else (n, 0)
    tile = xt.init_tile(A, at, (16, 32))
    xt.store_tile(xt.load_tile(tile), xt.init_tile(Loaded, (0, 0), (16, 32)))
    xt.store_tile(xt.load_tile(tile, padding=3), xt.init_tile(Padded, (0, 0), (16, 32)))
    stored = xt.load_tile(xt.init_tile(Stored, (0, 0), (16, 32)))
    xt.store_tile(stored, xt.init_tile(Written, at, (16, 32)))


def window(array: Array, row: int, column: int, padding: int, shape: tuple[int, int] = (16, 32)) -> Array:
    """Elements of an array from a row and a column on."""
    result = np.full(shape, padding, array.dtype)
    for i, j in np.ndindex(shape):
        if 0 <= row + i < array.shape[0] and 0 <= column + j < array.shape[1]:
            result[i, j] = array[row + i, column + j]
    return result


def pasted(array: Array, row: int, column: int, tile: Array) -> Array:
    """The array with a tile stored at a row and a column, as far as it lies inside."""
    result = array.copy()
    for i, j in np.ndindex(tile.shape):
        if 0 <= row + i < array.shape[0] and 0 <= column + j < array.shape[1]:
            result[row + i, column + j] = tile[i, j]
    return result


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("dtype", [xt.f32, xt.i8, xt.bf16], ids=str)
def test_loads_and_stores(dtype: Any, columns: bool, execution: Execution) -> None:
    rng = np.random.default_rng(1)
    kernel = execution.bind(copied)
    for n in FAR + NEAR:
        row, column = (0, n) if columns else (n, 0)
        a, stored = integers(rng, dtype, 19, 64), integers(rng, dtype, 16, 32)
        loaded, padded, written = Bordered(dtype, (16, 32)), Bordered(dtype, (16, 32)), Bordered(dtype, (21, 72))
        before = written.array.copy()
        kernel[1](a, stored, loaded.array, padded.array, written.array, n, columns=columns)
        loaded.check(window(a, row, column, 0))
        padded.check(window(a, row, column, 3))
        written.check(pasted(before, row, column, stored))


@xt.kernel
def copied_in_shared_memory(A: Any, B: Any, n: xt.i32, *, columns: bool) -> None:
    shared = xt.alloc_slm((16, 32), xt.f32)
    first = xt.init_tile(shared, (0, 0), (16, 32))
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (16, 32))), first)
    far = xt.init_tile(shared, (0, n) if columns else (n, 0), (16, 32))
    moved = xt.load_tile(far)
    xt.store_tile(xt.load_tile(first) + 100.0, far)
    xt.store_tile(moved, xt.init_tile(B, (0, 0), (16, 32)))
    xt.store_tile(xt.load_tile(first), xt.init_tile(B, (16, 0), (16, 32)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_shared_memory(columns: bool, execution: Execution) -> None:
    a = integers(np.random.default_rng(2), xt.f32, 16, 32)
    kernel = execution.bind(copied_in_shared_memory)
    for n in FAR + NEAR:
        row, column = (0, n) if columns else (n, 0)
        b = Bordered(xt.f32, (32, 32))
        kernel[1](a, b.array, n, columns=columns)
        b.check(np.concatenate([window(a, row, column, 0), pasted(a, row, column, a + 100)]))


@xt.kernel
def product_from(A: Any, B: Any, C: Any, m: xt.i32, n: xt.i32, *, acc: Any) -> None:
    a, b = xt.init_tile(A, (m, 0), (16, 32)), xt.init_tile(B, (0, n), (32, 32))
    total = xt.zeros((16, 32), acc)
    for _ in xt.range(0, A.shape[1], 32):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (16, 32)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("types", [Types(xt.bf16, xt.bf16, xt.f32), Types(xt.i8, xt.i8, xt.i32)], ids=str)
def test_products(types: Types, execution: Execution) -> None:
    rng = np.random.default_rng(3)
    kernel = execution.bind(product_from)
    for m, n in [(far, 0) for far in FAR] + [(0, far) for far in FAR] + [(-5, 7), (7, -5)]:
        a, b = operands(rng, types, 19, 50, 70)
        c = Bordered(types.acc, (21, 48))
        before, whole = c.array.copy(), product(window(a, m, 0, 0, (16, 70)), window(b, 0, n, 0, (70, 32)), types.acc)
        kernel[1](a, b, c.array, m, n, acc=types.acc)
        c.check(pasted(before, m, n, whole))
