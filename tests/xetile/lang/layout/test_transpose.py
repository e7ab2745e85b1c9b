"""Transposed operands: by tile_transpose, by order, and as transposed views, at both levels and in every execution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc
from xegpu.ir import dtypes

pytestmark = pytest.mark.unoptimised

RNG = np.random.default_rng(11)
EXECUTIONS = [("numpy", None), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc"),
              ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]


@xt.kernel
def subgroup_level(A, B, C, *, ta=False, tb=False, BM=16, BN=32, BK=32, accumulator=xt.f32):
    """C = A @ B, the arrays of transposed operands holding their transposes."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (0, m), (BK, BM)) if ta else xt.init_tile(A, (m, 0), (BM, BK))
    b = xt.init_tile(B, (n, 0), (BN, BK)) if tb else xt.init_tile(B, (0, n), (BK, BN))
    acc = xt.zeros((BM, BN), accumulator)
    for _ in xt.range(0, A.shape[0] if ta else A.shape[1], BK):
        left, right = xt.load_tile(a), xt.load_tile(b)
        left = xt.tile_transpose(left) if ta else left
        right = xt.tile_transpose(right) if tb else right
        acc = xt.tile_mma(left, right, acc)
        a = xt.update_tile_offset(a, BK, 0) if ta else xt.update_tile_offset(a, 0, BK)
        b = xt.update_tile_offset(b, 0, BK) if tb else xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def workgroup_level(A, B, C, *, ta=False, tb=False, BM=64, BN=64, BK=32, sg=(4, 2)):
    """The same for a work-group: transposed tiles are distributed so that each subgroup holds what it transposes."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    rows, columns, count = BM // sg[0], BN // sg[1], sg[0] * sg[1]
    map_a, map_b = xt.wg_map(sg, (rows, BK)), xt.wg_map(sg, (BK, columns))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=map_a, order=(0, 1) if ta else (1, 0))
    if tb:
        b = xt.init_tile(B, (n, 0), (BN, BK), wg_map=xt.wg_map((count, 1), (columns, BK)))
    else:
        b = xt.init_tile(B, (0, n), (BK, BN), wg_map=map_b)
    acc = xt.zeros((BM, BN), xt.f32, wg_map=xt.wg_map(sg, (rows, columns)))
    for _ in xt.range(0, A.shape[1], BK):
        right = xt.load_tile(b)
        right = xt.tile_transpose(right, wg_map=map_b) if tb else right
        acc = xt.tile_mma(xt.load_tile(a), right, acc)
        a = xt.update_tile_offset(a, 0, BK)
        b = xt.update_tile_offset(b, 0, BK) if tb else xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN), wg_map=xt.wg_map(sg, (rows, columns))))


def operands(name: str, shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and their product, exact in every type."""
    dtype, (m, n, k) = dtypes.of(name), shape
    a, b = (RNG.integers(0 if dtype.kind == "u" else -4, 5, size).astype(dtype.numpy) for size in ((m, k), (k, n)))
    return a, b, a.astype(np.float64) @ b.astype(np.float64)


def seen_as(array: np.ndarray, name: str) -> Any:
    return xt.view(array, name) if name == "tf32" else array


@pytest.mark.parametrize("shape", [(32, 64, 64), (50, 72, 40), (1, 7, 13)])
@pytest.mark.parametrize(("name", "accumulator", "depth"),
                         [("bf16", xt.f32, 32), ("i8", xt.i32, 64), ("tf32", xt.f32, 16), ("f32", xt.f32, 16)])
@pytest.mark.parametrize(("ta", "tb"), [(False, True), (True, False), (True, True)])
def test_subgroup_level(ta, tb, name, accumulator, depth, shape):
    a, b, expected = operands(name, shape)
    stored = [seen_as(np.ascontiguousarray(x.T) if t else x, name) for x, t in ((a, ta), (b, tb))]
    viewed = [seen_as(np.ascontiguousarray(x.T).T if t else x, name) for x, t in ((a, ta), (b, tb))]
    grid = -(-shape[0] // 16), -(-shape[1] // 32)
    for where, target in EXECUTIONS:
        if (name, target) == ("tf32", "dg2"):
            continue
        if where == "opencl:cpu":
            if (name, shape) != ("bf16", (50, 72, 40)):
                continue  # a kernel takes a second to build there
            require_device(where)
        for arrays, flags in ((stored, {"ta": ta, "tb": tb}), (viewed, {})):
            c = np.full((shape[0], shape[1]), 9, accumulator.numpy)
            subgroup_level.on(where, target=target)[grid](*arrays, c, BK=depth, accumulator=accumulator, **flags)
            assert np.array_equal(c, expected), (where, target, flags)


@pytest.mark.execution("opencl:cpu", "pvc")
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_workgroup_level(ta, tb):
    a, b, expected = operands("bf16", (130, 100, 72))
    arrays = [np.ascontiguousarray(a.T).T if ta else a, np.ascontiguousarray(b.T) if tb else b]
    for where, target in EXECUTIONS:
        if where == "opencl:cpu":
            require_device(where)
        c = np.zeros(expected.shape, np.float32)
        workgroup_level.on(where, target=target)[3, 2](*arrays, c, ta=ta, tb=tb)
        assert np.array_equal(c, expected), (where, target)


def test_the_promise_of_an_order_is_checked():
    a, b, expected = operands("bf16", (64, 64, 64))
    c = np.full(expected.shape, 9, np.float32)
    with pytest.raises(xt.ShapeError, match="XT2131"):
        workgroup_level.on("numpy:xegpu")[1, 1](a, b, c, ta=True)
    assert (c == 9).all()
    workgroup_level.on("numpy:xegpu")[1, 1](a, b, c)
    assert np.array_equal(c, expected)


@pytest.mark.execution("opencl:cpu", "pvc")
def test_a_row_whose_strides_are_both_one_is_the_transpose_of_a_column():
    @xt.kernel
    def copy(X, Y, *, order):
        v = xt.load_tile(xt.init_tile(X, (0, 0), (1, 16), order=order))
        xt.store_tile(v, xt.init_tile(Y, (0, 0), (1, 16)))

    column = RNG.integers(-99, 99, (16, 1)).astype(np.float32)
    assert column.T.strides == (4, 4)
    for where, target in EXECUTIONS:
        if where == "opencl:cpu":
            require_device(where)
        for order in ((0, 1), (1, 0)):
            y = np.zeros((1, 16), np.float32)
            copy.on(where, target=target)[1](column.T, y, order=order)
            assert np.array_equal(y, column.T), (where, target, order)


@pytest.mark.execution("opencl:cpu", "pvc")
def test_a_column_whose_strides_are_both_one_takes_both_orders():
    """Tiles of one column and of more, which the array ends within."""
    @xt.kernel
    def copy(X, Y, *, order, columns):
        v = xt.load_tile(xt.init_tile(X, (3, 0), (16, columns), order=order))
        xt.store_tile(v, xt.init_tile(Y, (3, 0), (16, columns), order=order))

    column = RNG.integers(1, 99, (11, 1)).astype(np.float32)
    assert column.strides == (4, 4)
    for where, target in EXECUTIONS:
        if where == "opencl:cpu":
            require_device(where)
        for order, columns in (((0, 1), 1), ((1, 0), 1), ((0, 1), 16), ((1, 0), 16)):
            y = np.zeros((11, 1), np.float32)
            copy.on(where, target=target)[1](column, y, order=order, columns=columns)
            assert np.array_equal(y[3:], column[3:]), (where, target, order, columns)
            assert not y[:3].any(), (where, target, order, columns)


def test_maps_that_need_an_exchange_are_exchanged():
    @xt.kernel
    def exchanging(B, C, *, sg=(2, 2)):
        b = xt.load_tile(xt.init_tile(B, (0, 0), (32, 64), wg_map=xt.wg_map(sg, (16, 32))))
        t = xt.tile_transpose(b, wg_map=xt.wg_map(sg, (32, 16)))
        xt.store_tile(t, xt.init_tile(C, (0, 0), (64, 32), wg_map=xt.wg_map(sg, (32, 16))))

    b = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    for where in ("numpy", "numpy:xegpu"):
        c = np.zeros((64, 32), np.float32)
        exchanging.on(where)[1](b, c)
        assert np.array_equal(c, b.T), where


@pytest.mark.unoptimised
@pytest.mark.parametrize("where", ["numpy:xegpu", "opencl:cpu"])
@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_constants_alone(where, target):
    """Splats in two lane maps, and nothing that says which one to compute in."""
    @xt.kernel
    def shifted(C):
        v = xt.tile_transpose(xt.full((8, 16), 100, xt.u32)) >> 2
        xt.store_tile(v, xt.init_tile(C, (xt.group_id(0) * 16, 0), (16, 8)))

    c = np.zeros((32, 8), np.uint32)
    shifted.on(where, target=target)[2](c)
    assert (c == 25).all()


def test_b_transposed_is_loaded_by_transposing_messages():
    require_ocloc()
    specs = xt.Spec((4096, 4096), "bf16"), xt.Spec((4096, 4096), "bf16", (1, 4096)), xt.Spec((4096, 4096), "f32")
    for target in ("pvc", "bmg"):
        lowered = subgroup_level.lower(*specs, target=target, BM=32, BN=32)
        report = lowered.report()
        steps = report.unrolled if report.unrolled == 1 else report.unrolled + 1  # those that are left over stand apart
        assert lowered.opencl.count("2d_block_read_transpose_32b_16r8x1c") == 4 * steps
        assert report.loop["dpas"] == 16 * report.unrolled
        assert report.loop["load_block2d"] == 5 * report.unrolled
        assert (report.spill_size, report.private_size) == (0, 0)
