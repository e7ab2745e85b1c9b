"""Arrays and vectors of one dimension: tiles of them, arithmetic and broadcasts, reductions, scattered tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EAGER, EXECUTIONS, FEW, Execution, integers
from xegpu.ir import dtypes

pytestmark = pytest.mark.unoptimised


@xt.kernel
def scaled(A, B, scale, *, N=64):
    """B = scale * A of arrays of one dimension, two tiles for each group, which a loop moves."""
    at = xt.group_id(0) * 2 * N
    a, b = xt.init_tile(A, (at,), (N,)), xt.init_tile(B, at, N)
    for _ in xt.range(2):
        value = xt.load_tile(a, padding=1)
        xt.store_tile(value * scale + xt.iota(N, dtype=B.dtype), b)
        a, b = xt.update_tile_offset(a, N), xt.update_tile_offset(b, N)


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
@pytest.mark.parametrize("view", [slice(None), slice(1, None), slice(None, None, 3)], ids=["whole", "odd", "strided"])
def test_tiles_of_an_array_of_one_dimension(view: slice, execution: Execution) -> None:
    rng = np.random.default_rng(1)
    whole = np.full(900, 77, np.float32)
    a, b = integers(rng, xt.f32, 900)[view][:250], whole[view][:250]
    execution.bind(scaled)[3](a, b, 2.0)
    np.testing.assert_array_equal(b, a * 2 + np.arange(250) % 64)
    b[...] = 77
    assert (whole == 77).all()


@xt.kernel
def linear(A, B, bias, factor, C, *, BM=16, BN=32, BK=16):
    """C = relu(A @ B + bias) * factor: a bias for each column, a factor for each row."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    total = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (BM, BK))),
                            xt.load_tile(xt.init_tile(B, (k, n), (BK, BN))), total)
    total = xt.maximum(total + xt.load_tile(xt.init_tile(bias, (n,), (BN,))), 0.0)
    xt.store_tile(total * xt.load_tile(xt.init_tile(factor, (m,), (BM,)))[:, None], xt.init_tile(C, (m, n), (BM, BN)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
def test_a_bias_of_one_dimension(execution: Execution) -> None:
    rng = np.random.default_rng(2)
    a, b = integers(rng, xt.f16, 37, 48), integers(rng, xt.f16, 48, 70)
    bias, factor, c = integers(rng, xt.f32, 70, most=50), integers(rng, xt.f32, 37), np.zeros((37, 70), np.float32)
    execution.bind(linear)[3, 3](a, b, bias, factor, c)
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias, 0) * factor[:, None]
    np.testing.assert_array_equal(c, expected)


@xt.kernel
def reduced(A, rows, columns, total, highest):
    a = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32)))
    down = xt.tile_reduce("add", a, 0, keepdims=False)
    xt.store_tile(down, xt.init_tile(columns, (0,), (32,)))
    xt.store_tile(xt.tile_reduce("max", a, 1, keepdims=False), xt.init_tile(rows, (0,), (16,)))
    xt.store_tile(xt.tile_reduce("add", down, 0), xt.init_tile(total, (0,), (1,)))
    highest_of = xt.tile_reduce("max", down, -1).item()
    xt.store_tile(xt.where(down == highest_of, 1, xt.zeros(32, highest.dtype)), xt.init_tile(highest, (1, 0), (32,)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, EAGER], ids=str)
@pytest.mark.parametrize("element", ["i32", "f32"])
def test_reductions_to_one_dimension(element: str, execution: Execution) -> None:
    a = integers(np.random.default_rng(3), dtypes.of(element), 16, 32, most=50)
    rows, columns, total, highest = (np.full(shape, 7, a.dtype) for shape in (16, 32, 1, (3, 32)))
    execution.bind(reduced)[1](a, rows, columns, total, highest)
    sums = a.sum(0)
    np.testing.assert_array_equal(rows, a.max(1))
    np.testing.assert_array_equal(columns, sums)
    np.testing.assert_array_equal(total, a.sum())
    np.testing.assert_array_equal(highest, [[7] * 32, sums == sums.max(), [7] * 32])


@xt.kernel
def histogram(values, counts, found, *, N=64):
    """Counts of values, and what stood at their places before, by scattered tiles of one dimension."""
    at = xt.group_id(0) * N
    value = xt.load_tile(xt.init_tile(values, (at,), (N,)))
    inside = (value >= 0) & (value < 10)
    tile = xt.init_tile(counts, xt.where(inside, value, 0).to(xt.index))
    xt.atomic_rmw_tile("add", xt.full(N, 1, xt.i32), tile, inside)
    table = xt.update_tile_offset(tile, xt.full((N,), 10, xt.index))
    xt.store_tile(xt.load_gather(table, inside, padding=-1), xt.init_tile(found, (at,), (N,)))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_scattered_tiles_of_one_dimension(execution: Execution) -> None:
    values = np.random.default_rng(4).integers(-3, 14, 128).astype(np.int32)
    counts, found = np.zeros(20, np.int32), np.zeros(128, np.int32)
    counts[10:] = np.arange(10) * 3
    execution.bind(histogram)[2](values, counts, found)
    inside = (values >= 0) & (values < 10)
    np.testing.assert_array_equal(counts[:10], np.bincount(values[inside], minlength=10))
    np.testing.assert_array_equal(found, np.where(inside, values * 3, -1))


@xt.kernel
def bounded_lines(A, B, n, *, sg=(1, 4)):
    """A work-group's vectors of one dimension, up to a run-time bound, and a row of a matrix as one."""
    map_ = xt.wg_map(sg, (1, 32))
    value = xt.load_tile(xt.init_tile(A, (1, 3), (128,), wg_map=map_))
    xt.store_tile(value + value, xt.init_tile(B, (0,), (128,), wg_map=map_, columns=n))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_lines_of_a_work_group(execution: Execution) -> None:
    a, b = integers(np.random.default_rng(5), xt.f32, 2, 150), np.full(140, 7, np.float32)
    execution.bind(bounded_lines)[1](a, b, 77)
    np.testing.assert_array_equal(b, np.where(np.arange(140) < 77, 2 * a[1, 3:143], 7))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_an_element_a_lane_is_one_message(target: str) -> None:
    """Predicated, so that no branch asks whether the lanes are in bounds."""
    text = scaled.lower(xt.Spec((None,), "f32", (1,)), xt.Spec((None,), "f32", (1,)), 2.0, target=target).opencl
    assert "__spirv_PredicatedLoadINTEL" in text
    assert not any(word in text for word in ("sub_group_block_read", "checked_float"))


def test_the_text_is_read_back() -> None:
    specs = [xt.Spec((16, 32), "f32"), *[xt.Spec((None,), "f32")] * 3, xt.Spec((None, None), "f32")]
    parsed = xt.parse(reduced.lower(*specs).xetile)["reduced"]
    a = integers(np.random.default_rng(6), xt.f32, 16, 32)
    rows, columns, total, highest = (np.zeros(shape, np.float32) for shape in (16, 32, 1, (3, 32)))
    parsed[1](a, rows, columns, total, highest)
    np.testing.assert_array_equal(rows, a.max(1))
    np.testing.assert_array_equal(columns, a.sum(0))


@pytest.mark.parametrize(("function", "code"), [
    (lambda A: xt.init_tile(A, (0, 0), (64,)), "XT1103"),
    (lambda A: xt.init_tile(A, (0,), (xt.group_id(0),)), "XT1105"),
    (lambda A: xt.init_tile(A, (0,), (-3,)), "XT1106"), (lambda A: xt.init_tile(A, (0, 0), (8, 8)), "XT1102"),
    (lambda A: xt.init_tile(A, (0,), (8,), base_shape=(4,)), "XT1114"), (lambda A: xt.iota(8, 1), "XT1155"),
    (lambda A: xt.tile_transpose(xt.zeros(8, xt.f32)), "XT1122"),
    (lambda A: xt.tile_reduce("add", xt.zeros((8, 8), xt.f32), (0, 1), keepdims=False), "XT1224"),
    (lambda A: xt.tile_reduce("add", xt.zeros(8, xt.f32), 1), "XT1224"),
    (lambda A: xt.zeros(8, xt.f32) + xt.zeros(9, xt.f32), "XT1208"),
    (lambda A: xt.zeros(8, xt.f32) + xt.zeros((8, 9), xt.f32), "XT1208"),
    (lambda A: xt.store_tile(xt.zeros(8, xt.f32), xt.init_tile(A, (0,), (16,))), "XT1130")])
def test_what_is_refused(function: Any, code: str) -> None:
    @xt.kernel
    def refused(A):
        function(A)

    with pytest.raises(xt.XeError) as raised:
        refused.lower(xt.Spec((None,), "f32"))
    assert raised.value.code == code
