"""Whole rows of an array by an index vector: loads, stores, atomic updates, in bounds or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EAGER, EXECUTIONS, FEW, Array, Bordered, Execution, integers
from xegpu.ir import dtypes

pytestmark = pytest.mark.unoptimised


@xt.kernel
def embedding(table, words, out, column, *, C=32, padding=0):
    """Rows of a table, a window of columns of which moves along them."""
    row = xt.group_id(0) * 16
    indices = xt.load_tile(xt.init_tile(words, (row,), (16,)))
    rows = xt.init_tile(table, (indices, column), (16, C))
    to = xt.init_tile(out, (row, 0), (16, C))
    for _ in xt.range(2):
        xt.store_tile(xt.load_tile(rows, padding=padding), to)
        rows, to = xt.update_tile_offset(rows, 0, C), xt.update_tile_offset(to, 0, C)


def picked(table: Array, words: Array, column: int, width: int, padding: int) -> Array:
    """The rows that words name, from a column on; what lies outside the table is padding."""
    result = np.full((len(words), width), padding, table.dtype)
    for i, word in enumerate(words.tolist()):
        for j in range(width):
            if 0 <= word < table.shape[0] and 0 <= column + j < table.shape[1]:
                result[i, j] = table[word, column + j]
    return result


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
@pytest.mark.parametrize(("element", "index", "column"), [("f32", "i32", 0), ("bf16", "i64", 3), ("i8", "u8", -5)])
def test_an_embedding(element: str, index: str, column: int, execution: Execution) -> None:
    rng = np.random.default_rng(1)
    table = integers(rng, dtypes.of(element), 40, 60, most=9)
    words = rng.integers(-4 if index[0] == "i" else 0, 45, 37).astype(dtypes.of(index).numpy)
    if index == "i64":
        words[:3] = 2**32 + 1, -2**32 + 2, -1  # cut to 32 bits the first two are rows
    out = Bordered(dtypes.of(element), (37, 64))
    execution.bind(embedding)[3](table, words, out.array, column, padding=-1)
    out.check(picked(table, words, column, 64, -1))


@xt.kernel
def scattered(values, slots, pages, sums):
    """Rows of a cache are written, and those of a sum updated, where a table of slots says."""
    row = xt.group_id(0) * 8
    slot = xt.load_tile(xt.init_tile(slots, (row, 0), (8, 1)))
    value = xt.load_tile(xt.init_tile(values, (row, 0), (8, 48)))
    xt.store_tile(value, xt.init_tile(pages, (1, slot, 2), (8, 48)))
    old = xt.atomic_rmw_tile("add", value, xt.init_tile(sums, (slot, 0), (8, 48)))
    xt.prefetch_tile(xt.init_tile(sums, (slot, 0), (8, 48)))
    xt.store_tile(old, xt.init_tile(values, (row, 0), (8, 48)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
def test_stores_and_atomic_updates_of_rows(execution: Execution) -> None:
    rng = np.random.default_rng(2)
    values, slots = integers(rng, xt.i32, 24, 48), rng.permutation(40)[:24].astype(np.int32)[:, None] - 6
    pages, sums = integers(rng, xt.i32, 2, 30, 47), integers(rng, xt.i32, 30, 48)
    old, expected, total = np.zeros_like(values), pages.copy(), sums.copy()
    for i, slot in enumerate(slots[:, 0].tolist()):
        if 0 <= slot < 30:
            expected[1, slot, 2:] = values[i, :45]
            old[i], total[slot] = sums[slot], sums[slot] + values[i]
    execution.bind(scattered)[3](values, slots, pages, sums)
    np.testing.assert_array_equal(pages, expected)
    np.testing.assert_array_equal(sums, total)
    np.testing.assert_array_equal(values, old)


@xt.kernel
def moved_up(A, K, C):
    """Rows that are moved by -1 before they are used."""
    rows = xt.init_tile(A, (xt.load_tile(xt.init_tile(K, (0,), (8,))), 0), (8, 16))
    xt.store_tile(xt.load_tile(xt.update_tile_offset(rows, -1, 0)), xt.init_tile(C, (0, 0), (8, 16)))
    low = xt.init_tile(A, (xt.load_tile(xt.init_tile(K, (8,), (8,))), 0), (8, 16))
    xt.store_tile(xt.load_tile(xt.update_tile_offset(low, 1, 0)), xt.init_tile(C, (8, 0), (8, 16)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
@pytest.mark.parametrize("index", ["i64", "u64", "u32"])
def test_rows_out_of_bounds_that_are_moved(index: str, execution: Execution) -> None:
    a = integers(np.random.default_rng(4), dtypes.f32, 6, 16) + np.float32(9)
    most = np.iinfo(dtypes.of(index).numpy).max
    words = np.array([6, 7, 1, 0, 3, 2**31 + 1, 2**31, most, 5, 6, 2**32 - 1, most, 0, 2**31 - 2, 4, most - 5],
                     dtypes.of(index).numpy)
    if index == "i64":
        words[[0, 8, 9]] = -2**32 + 3, -1, -2**32 - 1
    rows = [int(word) - 1 for word in words[:8]] + [int(word) + 1 for word in words[8:]]
    out = Bordered(dtypes.f32, (16, 16))
    execution.bind(moved_up)[1](a, words, out.array)
    out.check(np.stack([a[row] if 0 <= row < 6 else np.zeros(16, np.float32) for row in rows]))


@xt.kernel
def of_a_batch(A, K, C, matrix):
    indices = xt.load_tile(xt.init_tile(K, (0,), (16,)))
    xt.store_tile(xt.load_tile(xt.init_tile(A, (matrix, indices, 0), (16, 16))), xt.init_tile(C, (0, 0), (16, 16)))


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize("matrix", [2, -1, 3])
def test_rows_of_a_matrix_that_a_batch_may_lack(matrix: int, execution: Execution) -> None:
    rng = np.random.default_rng(3)
    a, i = integers(rng, xt.f16, 3, 20, 17)[:, :, ::-1], rng.integers(0, 20, 16).astype(np.int32)
    c = np.full((16, 16), 7, np.float16)
    execution.bind(of_a_batch)[1](a, i, c, matrix)
    np.testing.assert_array_equal(c, a[matrix][i, :16] if matrix == 2 else 0)


@xt.kernel
def by_subgroups(A, K, C, *, sg=(4, 2)):
    """A work-group's tile of rows, distributed to its subgroups."""
    map_ = xt.wg_map(sg, (64 // sg[0], 32 // sg[1]))
    indices = xt.load_tile(xt.init_tile(K, (0, 0), (64, 1), wg_map=xt.wg_map(sg, (64 // sg[0], 1))))
    rows = xt.load_tile(xt.init_tile(A, (indices, 0), (64, 32), wg_map=map_))
    xt.store_tile(rows, xt.init_tile(C, (0, 0), (64, 32), wg_map=map_))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_rows_of_a_work_group(execution: Execution) -> None:
    rng = np.random.default_rng(4)
    a, i = integers(rng, xt.f32, 50, 32), rng.integers(-3, 55, (64, 1)).astype(np.int32)
    c = np.full((64, 32), 7, np.float32)
    execution.bind(by_subgroups)[1](a, i, c)
    np.testing.assert_array_equal(c, picked(a, i[:, 0], 0, 32, 0))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_rows_of_shared_local_memory(execution: Execution) -> None:
    @xt.kernel
    def permuted(A, K, C):
        shared = xt.alloc_slm((16, 32), xt.f32)
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (16, 32))), xt.init_tile(shared, (0, 0), (16, 32)))
        xt.barrier()
        indices = xt.load_tile(xt.init_tile(K, (0,), (8,)))
        xt.store_tile(xt.load_tile(xt.init_tile(shared, (indices, 4), (8, 32))), xt.init_tile(C, (0, 0), (8, 32)))

    a, i = integers(np.random.default_rng(5), xt.f32, 16, 32), np.array([3, 15, -1, 16, 0, 0, 7, 9], np.int32)
    c = np.full((8, 32), 7, np.float32)
    execution.bind(permuted)[1](a, i, c)
    np.testing.assert_array_equal(c, picked(a, i, 4, 32, 0))


def test_a_row_is_contiguous_over_the_lanes() -> None:
    specs = [xt.Spec((None, 64), "f32"), xt.Spec((None,), "i32"), xt.Spec((None, 64), "f32"), 0]
    text = embedding.lower(*specs, target="pvc").opencl
    assert "predicated" in text.lower() or "PredicatedLoad" in text
    assert "2d_block_write" in text


def wrong_length(A, K):
    xt.load_tile(xt.init_tile(A, (xt.load_tile(xt.init_tile(K, (0,), (8,))), 0), (16, 32)))


def wrong_place(A, K):
    xt.load_tile(xt.init_tile(A, (0, xt.load_tile(xt.init_tile(K, (0,), (16,)))), (16, 32)))


def floats(A, K):
    xt.load_tile(xt.init_tile(A, (xt.load_tile(xt.init_tile(K, (0,), (16,))).to(xt.f32), 0), (16, 32)))


def too_few(A, K):
    xt.load_tile(xt.init_tile(A, (xt.load_tile(xt.init_tile(K, (0,), (16,))),), (16, 32)))


def window(A, K):
    xt.load_tile(xt.init_tile(A, (xt.load_tile(xt.init_tile(K, (0,), (16,))), 0), (16, 32), rows=3))


def other_shape(A, K):
    tile = xt.init_tile(A, (xt.load_tile(xt.init_tile(K, (0,), (16,))), 0), (16, 32))
    xt.store_tile(xt.zeros((16, 16), xt.f32), tile)


def promised(A, K):
    xt.load_tile(xt.init_tile(A, (xt.load_tile(xt.init_tile(K, (0,), (16,))), 0), (16, 32)), oob="error")


@pytest.mark.parametrize(("function", "code"), [
    (wrong_length, "XT1443"), (wrong_place, "XT1443"), (floats, "XT1446"), (too_few, "XT1443"), (window, "XT1108"),
    (other_shape, "XT1130"), (promised, "XT1126")])
def test_what_is_refused(function: Any, code: str) -> None:
    with pytest.raises(xt.XeError) as raised:
        xt.kernel(function).lower(xt.Spec((None, None), "f32"), xt.Spec((None,), "i32"))
    assert raised.value.code == code
