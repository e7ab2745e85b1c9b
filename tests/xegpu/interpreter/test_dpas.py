"""Products that NumPy computes late: what they are worth, and that nothing can tell that they were late."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import integers, product
from xegpu.interpreter import dpas
from xegpu.ir import dtypes

Array = np.ndarray[Any, Any]
VARYING = [((), ()), ((0,), (1,)), ((1,), (0,)), ((0, 3), (1, 4)), ((0, 2), (1, 2)), ((2, 4), (0, 2, 3)),
           ((0, 1), (0, 1)), ((), (3,)), ((4,), ())]


@pytest.mark.parametrize(("down", "across"), VARYING)
def test_a_product_over_any_batch_axes(down: tuple[int, ...], across: tuple[int, ...]) -> None:
    rng, counts = np.random.default_rng(1), (2, 3, 4, 2, 3)
    batch_a, batch_b = ([count if axis in axes else 1 for axis, count in enumerate(counts)] for axes in (down, across))
    a = [integers(rng, xt.f32, *batch_a, 5, k) for k in (3, 8)]
    b = [integers(rng, xt.f32, *batch_b, k, 7) for k in (3, 8)]
    found = dpas.matmul(a, b, np.dtype(np.float32))
    np.testing.assert_array_equal(found, sum(np.matmul(x, y) for x, y in zip(a, b, strict=True)))


@pytest.mark.parametrize("names", ["u8 u8 i32", "i8 u8 i32", "i8 i8 i32"])
@pytest.mark.parametrize("depth", [96, 1024])
def test_integers_stay_exact_at_their_largest(names: str, depth: int) -> None:
    types = tuple(map(dtypes.of, names.split()))
    a, b = (np.full((2, depth, depth) if square else (2, 3, depth), np.iinfo(dtype.numpy).min or 255, dtype.numpy)
            for dtype, square in zip(types, (False, True), strict=False))
    b[:, ::2, 1] -= 1
    found = dpas.sum_of_products([a[..., :32], a[..., 32:]], [b[:, :32], b[:, 32:]], *types)
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))


@xt.kernel
def overwritten(A, B, C, D, *, steps):
    """A's tile changes after it was loaded, and the sum is looked at, and added to, in two ways."""
    a, b = xt.init_tile(A, (0, 0), (8, 16)), xt.init_tile(B, (0, 0), (16, 16))
    total = xt.zeros((8, 16), xt.f32)
    for _ in xt.range(steps):
        value = xt.load_tile(a)
        total = xt.tile_mma(value, xt.load_tile(b), total)
        xt.store_tile(value + 1, a)
    doubled = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
    xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))
    xt.store_tile(doubled, xt.init_tile(D, (0, 0), (8, 16)))


def test_nothing_shows_that_a_sum_was_late() -> None:
    rng = np.random.default_rng(2)
    a, b = integers(rng, xt.f32, 8, 16), integers(rng, xt.f32, 16, 16)
    each = [(a + step) @ b for step in range(6)]
    c, d = np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32)
    overwritten.on("numpy")[1](a, b, c, d, steps=5)
    np.testing.assert_array_equal(c, sum(each[:5]))
    np.testing.assert_array_equal(d, sum(each))


@xt.kernel
def some(A, B, C, *, acc=xt.f32):
    """Every instance multiplies as often as its group's number says, and the even ones once more."""
    m = xt.group_id(0) * 8
    a, b = xt.init_tile(A, (m, 0), (8, 16)), xt.init_tile(B, (0, 0), (16, 16))
    total = xt.zeros((8, 16), acc)
    for _ in xt.range(xt.group_id(0)):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
    with xt.when(xt.group_id(0) % 2 == 0):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
    xt.store_tile(total, xt.init_tile(C, (m, 0), (8, 16)))


def test_instances_that_leave_a_loop_keep_their_sum() -> None:
    rng = np.random.default_rng(3)
    a, b = integers(rng, xt.f32, 32, 16), integers(rng, xt.f32, 16, 16)
    c = np.zeros((32, 16), np.float32)
    some.on("numpy")[4](a, b, c)
    times = np.repeat([1, 1, 3, 3], 8)[:, None]
    np.testing.assert_array_equal(c, times * (a @ b))


def test_an_accumulator_of_16_bits_rounds_after_each_product() -> None:
    a, b = np.zeros((32, 16), np.float16), np.zeros((16, 16), np.float16)
    a[:, 0], b[0] = 1, 1
    a[24:, 0] = 2048  # 2048 + 1 is 2048 in f16, each time

    @xt.kernel
    def ones_onto(A, B, C):
        b = xt.load_tile(xt.init_tile(B, (0, 0), (16, 16)))
        total = xt.tile_mma(xt.load_tile(xt.init_tile(A, (24, 0), (8, 16))), b, xt.zeros((8, 16), xt.f16))
        for _ in xt.range(4):
            total = xt.tile_mma(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), b, total)
        xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))

    c = np.zeros((8, 16), np.float16)
    ones_onto.on("numpy")[1](a, b, c)
    np.testing.assert_array_equal(c, np.full_like(c, 2048))


def test_a_large_product_takes_little_memory_beside_its_arrays() -> None:
    @xt.kernel
    def gemm(A, B, C):
        m, n = xt.group_id(0) * 64, xt.group_id(1) * 64
        a, b = xt.init_tile(A, (m, 0), (64, 32)), xt.init_tile(B, (0, n), (32, 64))
        total = xt.zeros((64, 64), xt.i32)
        for _ in xt.range(0, A.shape[1], 32):
            total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
            a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
        xt.store_tile(total, xt.init_tile(C, (m, n), (64, 64)))

    rng = np.random.default_rng(4)
    a, b = integers(rng, xt.i8, 2560, 1500), integers(rng, xt.i8, 1500, 2560)
    c = np.full((2560, 2560), 7, np.int32)
    tracemalloc.start()
    try:
        gemm.on("numpy")[40, 40](a, b, c)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(c[::7, ::7], product(a[::7], b[:, ::7], xt.i32))
    assert peak < 512 << 20
