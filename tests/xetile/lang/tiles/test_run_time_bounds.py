"""Run-time bounds of the array of a tile: ``rows=``, ``columns=``, and ``base_shape=`` that differs between groups."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EAGER, EXECUTIONS, FEW, LANES, NUMPY, Array, Bordered, Execution, integers, product

pytestmark = pytest.mark.unoptimised
LENGTHS = np.array([0, 5, 16, 21, 100, -3, 40], np.int32)


def cut(array: Array, length: int, axis: int, fill: float) -> Array:
    """The 48 x 64 corner of an array of which only ``length`` rows or columns are there, the rest ``fill``."""
    whole = np.full((48, 64), fill, array.dtype)
    rows, columns = array.shape
    size = max(0, min(length, array.shape[axis]))
    keep = (slice(0, size), slice(0, columns)) if axis == 0 else (slice(0, rows), slice(0, size))
    whole[keep] = array[keep]
    return whole


@xt.kernel
def padded(A, C, lengths, *, axis=0):
    """Two tiles for each group, the second one moved; one is padded with -1."""
    g = xt.group_id(0)
    n = xt.load_scalar(lengths, g).to(xt.index)
    bounds = {"rows": n} if axis == 0 else {"columns": n}
    a = xt.init_tile(A, (0, 0), (16, 32), **bounds)
    xt.store_tile(xt.load_tile(a, padding=-1), xt.init_tile(C, (g * 32, 0), (16, 32)))
    a = xt.update_tile_offset(a, 16, 8)
    xt.store_tile(xt.load_tile(a), xt.init_tile(C, (g * 32 + 16, 0), (16, 32)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("by_columns", [False, True])
def test_loads_beyond_a_bound_give_padding(by_columns: bool, axis: int, execution: Execution) -> None:
    a = integers(np.random.default_rng(axis), xt.f16, 40, 64, most=9)
    argument = np.asfortranarray(a) if by_columns else a
    c = np.full((32 * len(LENGTHS), 32), 7, np.float16)
    execution.bind(padded)[len(LENGTHS)](argument, c, LENGTHS, axis=axis)
    for g, length in enumerate(LENGTHS):
        np.testing.assert_array_equal(c[32 * g:32 * g + 16], cut(a, length, axis, -1)[:16, :32])
        np.testing.assert_array_equal(c[32 * g + 16:32 * g + 32], cut(a, length, axis, 0)[16:32, 8:40])


@xt.kernel
def stored(A, C, S, heights, widths):
    """For each group a matrix of its own size: C = A and S += A, up to the bounds."""
    g = xt.group_id(0)
    bounds = {"rows": xt.load_scalar(heights, g).to(xt.index), "columns": xt.load_scalar(widths, g).to(xt.index)}
    value = xt.load_tile(xt.init_tile(A, (g, 0, 0), (16, 32)))
    xt.store_tile(value, xt.init_tile(C, (g, 0, 0), (16, 32), **bounds))
    xt.atomic_rmw_tile("add", value, xt.init_tile(S, (g, 0, 0), (16, 32), **bounds))


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
def test_stores_and_atomics_beyond_a_bound_are_dropped(execution: Execution) -> None:
    rng = np.random.default_rng(5)
    a = integers(rng, xt.i32, 6, 16, 32)
    heights, widths = np.array([16, 3, 0, 9, 99, -1], np.int32), np.array([32, 7, 32, 1, 20, 5], np.int32)
    c, s = np.full_like(a, 50), integers(rng, xt.i32, 6, 16, 32)
    expected, total = c.copy(), s.copy()
    for g, (height, width) in enumerate(zip(heights, widths, strict=True)):
        inside = slice(0, max(height, 0)), slice(0, width)
        expected[g][inside], total[g][inside] = a[g][inside], total[g][inside] + a[g][inside]
    execution.bind(stored)[6](a, c, s, heights, widths)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(s, total)


@xt.kernel
def grouped_product(A, B, C, starts, *, BM=16, BN=32, BK=32, sg=None):
    """Ragged groups of rows of A, each times its matrix of the batch B: the bounds of A and of C are run-time rows."""
    g, n = xt.group_id(0), xt.group_id(1) * BN
    first, last = (xt.load_scalar(starts, g + i).to(xt.index) for i in range(2))
    for m in xt.range(first, last, BM):
        total = xt.zeros((BM, BN), xt.f32)
        for k in xt.range(0, A.shape[1], BK):
            total = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (BM, BK), rows=last)),
                                xt.load_tile(xt.init_tile(B, (g, k, n), (BK, BN))), total)
        xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), rows=last))


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
def test_a_ragged_grouped_product(execution: Execution) -> None:
    rng, starts = np.random.default_rng(6), np.array([0, 5, 5, 40, 57], np.int32)
    a, b = integers(rng, xt.bf16, 57, 64, most=3), integers(rng, xt.bf16, 4, 64, 64, most=3)
    c = Bordered(xt.f32, (57, 64))
    execution.bind(grouped_product)[4, 2](a, b, c.array, starts)
    c.check(np.concatenate([product(a[i:j], b[g], xt.f32) for g, (i, j) in enumerate(pairwise(starts))]))


def test_bounds_of_rows_keep_block_messages() -> None:
    specs = [xt.Spec((None, 64), "bf16"), xt.Spec((4, 64, 64), "bf16"), xt.Spec((None, 64), "f32"),
             xt.Spec((None,), "i32")]
    for target in ("pvc", "bmg"):
        text = grouped_product.lower(*specs, target=target).opencl
        assert "2d_block_read_16b" in text
        assert "2d_block_write_32b" in text
        assert "load_block" not in text
        assert "store_" not in text


@xt.kernel
def scores(Q, K, C, n):
    """Q times the first ``n`` columns of K: those of a sequence, whose keys lie column by column."""
    total = xt.zeros((16, 32), xt.f32)
    for k in xt.range(0, Q.shape[1], 32):
        total = xt.tile_mma(xt.load_tile(xt.init_tile(Q, (0, k), (16, 32))),
                            xt.load_tile(xt.init_tile(K, (k, 0), (32, 32), columns=n)), total)
    xt.store_tile(total, xt.init_tile(C, (0, 0), (16, 32)))


@pytest.mark.parametrize("execution", [NUMPY, EAGER, *LANES, *EXECUTIONS[-3:]], ids=str)
def test_columns_of_a_column_major_array(execution: Execution) -> None:
    rng = np.random.default_rng(9)
    q, keys = integers(rng, xt.bf16, 16, 64, most=3), integers(rng, xt.bf16, 40, 64, most=3)
    c, expected = np.full((16, 32), 7, np.float32), product(q, keys.T, xt.f32)[:, :32].copy()
    execution.bind(scores)[1](q, keys.T, c, 21)
    expected[:, 21:] = 0
    np.testing.assert_array_equal(c, expected)


def test_columns_of_a_column_major_array_keep_block_messages() -> None:
    keys = xt.Spec((64, None), "bf16", (1, 64))
    text = scores.lower(xt.Spec((16, 64), "bf16"), keys, xt.Spec((16, 64), "f32"), 21, target="pvc").opencl
    assert "2d_block_read_transpose" in text
    assert "load_bf16" not in text


@pytest.mark.parametrize("execution", [NUMPY, EAGER, *LANES[:1]], ids=str)
def test_shared_local_memory_has_bounds(execution: Execution) -> None:
    @xt.kernel
    def corner(A, C, n):
        shared = xt.alloc_slm((16, 32), xt.f32)
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (16, 32))), xt.init_tile(shared, (0, 0), (16, 32)))
        xt.barrier()
        xt.store_tile(xt.load_tile(xt.init_tile(shared, (0, 0), (16, 32), rows=n, columns=9)),
                      xt.init_tile(C, (0, 0), (16, 32)))

    a, c = integers(np.random.default_rng(7), xt.f32, 16, 32), np.full((16, 32), 7, np.float32)
    execution.bind(corner)[1](a, c, 5)
    expected = np.zeros_like(a)
    expected[:5, :9] = a[:5, :9]
    np.testing.assert_array_equal(c, expected)


@xt.kernel
def reshaped(A, C, sizes):
    """Of each matrix of a batch, some of which are not there, a part of another size."""
    g = xt.group_id(0)
    rows, columns = (xt.load_scalar(sizes, (g, i)).to(xt.index) for i in range(2))
    a = xt.init_tile(A, (g - 1, 0, 0), (8, 16), base_shape=(A.shape[0], rows, columns), base_strides=A.strides)
    xt.store_tile(xt.load_tile(a), xt.init_tile(C, (g, 0, 0), (8, 16)))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_base_shape_may_differ_between_groups(execution: Execution) -> None:
    a, c = integers(np.random.default_rng(8), xt.f32, 3, 8, 16), np.full((5, 8, 16), 7, np.float32)
    sizes = np.array([[8, 16], [3, 9], [0, 16], [8, 1], [4, 4]], np.int32)
    execution.bind(reshaped)[5](a, c, sizes)
    expected = np.zeros_like(c)
    for g in range(1, 4):
        expected[g, :sizes[g, 0], :sizes[g, 1]] = a[g - 1, :sizes[g, 0], :sizes[g, 1]]
    np.testing.assert_array_equal(c, expected)


def test_an_aligned_address_takes_no_bound_of_columns() -> None:
    @xt.kernel
    def wrong(at, n):
        xt.load_tile(xt.init_tile(at, (0, 0), (8, 16), base_shape=(8, 16), base_strides=(16, 1), dtype=xt.f32,
                                  aligned=True, columns=n))

    with pytest.raises(xt.ShapeError) as raised:
        wrong[1](np.uint64(64), 3)
    assert raised.value.code == "XT1117"
