"""Arithmetic between loads, products and stores: values that change blocks, layouts and element types on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, LANES, NUMPY, Array, Execution, Types, integers, product, viewed, wide
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType

pytestmark = pytest.mark.unoptimised

EXECUTIONS = [NUMPY, *LANES, *DEVICE]
NAMES = ["bf16", "f16", "tf32", "f32", "i8", "u8"]
BUILT = {("bf16", target) for target in ("pvc", "dg2", "cpu")} | {("i8", "pvc"), ("i8", "dg2"), ("tf32", "pvc")}
"""Element types that are built for each target: a build takes seconds."""


def accumulator(dtype: DType) -> DType:
    return xt.f32 if dtype.is_float else xt.i32


def cases(names: list[str]) -> list[Any]:
    """Every element type on every execution that takes it; on the device some of them."""
    return [pytest.param(dtypes.of(name), execution,
                         id=f"{name}-{execution}") for name in names for execution in EXECUTIONS
            if Types(dtypes.of(name), dtypes.of(name), accumulator(dtypes.of(name))).on(execution)
            and (execution not in DEVICE or (name, execution.target) in BUILT)]


@xt.kernel
def scaled(A, B, C, *, acc, BM=16, BN=32, BK=32):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    total = xt.zeros((BM, BN), acc)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a) * 2, xt.load_tile(b) * 3, total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


@pytest.mark.parametrize(("dtype", "execution"), cases(NAMES))
def test_operands_may_be_computed(dtype: DType, execution: Execution) -> None:
    rng, acc = np.random.default_rng(1), accumulator(dtype)
    a, b = integers(rng, dtype, 37, 52), integers(rng, dtype, 52, 45)
    c = np.full((37, 45), 7, acc.numpy)
    execution.bind(scaled)[3, 2](viewed(a, dtype), viewed(b, dtype), c, acc=acc)
    np.testing.assert_array_equal(c, 6 * product(a, b, acc))


@xt.kernel
def mixed(A, B, C, *, dtype, BM=16, BN=32, BK=32):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    total = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a).to(dtype), xt.load_tile(b).to(dtype), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


@pytest.mark.parametrize("bytes_", ["i8", "u8"])
@pytest.mark.parametrize(("dtype", "execution"), cases(NAMES[:4]))
def test_bytes_become_floats_on_the_way(dtype: DType, execution: Execution, bytes_: str) -> None:
    rng = np.random.default_rng(2)
    a, b = integers(rng, bytes_, 37, 52, most=120), integers(rng, "i8", 52, 45, most=9)
    c = np.full((37, 45), 7, np.float32)
    execution.bind(mixed)[3, 2](a, b, c, dtype=dtype)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


@xt.kernel
def onto(A, B, C, *, dtype, BM=16, BN=32, BK=32):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    c = xt.init_tile(C, (m, n), (BM, BN))
    total = xt.load_tile(c).to(xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total.to(dtype), c)


@pytest.mark.parametrize(("dtype", "execution"), cases(["bf16", "f16", "f32"]))
def test_a_narrow_result_is_added_to(dtype: DType, execution: Execution) -> None:
    rng = np.random.default_rng(3)
    a, b = integers(rng, dtype, 37, 52, most=3), integers(rng, dtype, 52, 45, most=3)
    c = integers(rng, dtype, 37, 45)
    expected = (wide(a) @ wide(b) + wide(c)).astype(np.float32).astype(c.dtype)
    execution.bind(onto)[3, 2](a, b, c, dtype=dtype)
    np.testing.assert_array_equal(wide(c), wide(expected))


@xt.kernel
def used_twice(A, B, C, *, acc, BM=16, BK=32):
    m = xt.group_id(0) * BM
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, 0), (BK, BK))
    total = xt.zeros((BM, BK), acc)
    for _ in xt.range(0, A.shape[1], BK):
        loaded = xt.load_tile(a)
        total = xt.tile_mma(loaded, xt.load_tile(b), total) + loaded.to(acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, 0), (BM, BK)))


@pytest.mark.parametrize(("dtype", "execution"), cases(NAMES))
def test_a_loaded_tile_may_be_operand_and_summand(dtype: DType, execution: Execution) -> None:
    rng, acc = np.random.default_rng(4), accumulator(dtype)
    a, b = integers(rng, dtype, 37, 64), integers(rng, dtype, 64, 32)
    c = np.full((37, 32), 7, acc.numpy)
    execution.bind(used_twice)[3,](viewed(a, dtype), viewed(b, dtype), c, acc=acc)
    np.testing.assert_array_equal(c, product(a, b, acc) + wide(a[:, :32]) + wide(a[:, 32:]))


@xt.kernel
def chained(A, B, D, C, *, dtype, acc, M=16, K=32, N=32, P=32):
    m = xt.group_id(0) * M
    a, b = xt.load_tile(xt.init_tile(A, (m, 0), (M, K))), xt.load_tile(xt.init_tile(B, (0, 0), (K, N)))
    first = xt.tile_mma(a, b, xt.zeros((M, N), acc)).to(dtype)
    second = xt.tile_mma(first, xt.load_tile(xt.init_tile(D, (0, 0), (N, P))))
    xt.store_tile(second, xt.init_tile(C, (m, 0), (M, P)))


@xt.kernel
def chained_as_b(A, B, D, C, *, dtype, acc, M=16, K=32, N=32, P=32):
    n = xt.group_id(0) * P
    a, b = xt.load_tile(xt.init_tile(A, (0, 0), (N, K))), xt.load_tile(xt.init_tile(B, (0, n), (K, P)))
    first = xt.tile_mma(a, b, xt.zeros((N, P), acc)).to(dtype)
    second = xt.tile_mma(xt.load_tile(xt.init_tile(D, (0, 0), (M, N))), first)
    xt.store_tile(second, xt.init_tile(C, (0, n), (M, P)))


def chain_of(kernel: Any, dtype: DType, execution: Execution, grid: tuple[int, ...], a: Array, b: Array, d: Array,
             c: Array) -> Array:
    arrays = [viewed(array, dtype) for array in (a, b, d)]
    execution.bind(kernel)[grid](*arrays, c, dtype=dtype, acc=accumulator(dtype))
    return c


@pytest.mark.parametrize(("dtype", "execution"), cases(NAMES))
def test_a_product_may_be_the_left_operand_of_another(dtype: DType, execution: Execution) -> None:
    rng = np.random.default_rng(5)
    a, b, d = (integers(rng, dtype, rows, 32, most=1) for rows in (33, 32, 32))
    c = np.full((33, 32), 7, accumulator(dtype).numpy)
    chain_of(chained, dtype, execution, (3,), a, b, d, c)
    np.testing.assert_array_equal(c, wide(a) @ wide(b) @ wide(d))


@pytest.mark.parametrize(("dtype", "execution"), cases(NAMES))
def test_a_product_may_be_the_right_operand_of_another(dtype: DType, execution: Execution) -> None:
    rng = np.random.default_rng(6)
    a, b, d = (integers(rng, dtype, *shape, most=1) for shape in ((32, 32), (32, 50), (13, 32)))
    c = np.full((13, 50), 7, accumulator(dtype).numpy)
    chain_of(chained_as_b, dtype, execution, (2,), a, b, d, c)
    np.testing.assert_array_equal(c, wide(d) @ (wide(a) @ wide(b)))


@xt.kernel
def one_tile_for_both(A, C, *, N=32):
    value = xt.load_tile(xt.init_tile(A, (0, 0), (N, N)))
    xt.store_tile(xt.tile_mma(value, value), xt.init_tile(C, (0, 0), (N, N)))


@pytest.mark.parametrize("execution", [NUMPY, *LANES, DEVICE[0]], ids=str)
def test_a_tile_may_be_both_operands(execution: Execution) -> None:
    a = integers(np.random.default_rng(7), xt.bf16, 32, 32)
    c = np.zeros((32, 32), np.float32)
    execution.bind(one_tile_for_both)[1,](a, c)
    np.testing.assert_array_equal(c, wide(a) @ wide(a))


@xt.kernel
def loaded_ahead(A, B, C, *, BM=16, BN=16, BK=32):
    """Loads run one step ahead of products: loaded values are carried by the loop."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    left, right = xt.load_tile(a), xt.load_tile(b)
    total = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
        total = xt.tile_mma(left, right, total)
        left, right = xt.load_tile(a), xt.load_tile(b)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_loaded_values_may_be_carried_by_a_loop(execution: Execution) -> None:
    rng = np.random.default_rng(8)
    a, b = integers(rng, xt.bf16, 40, 100), integers(rng, xt.bf16, 100, 30)
    c = np.full((40, 30), 7, np.float32)
    execution.bind(loaded_ahead)[3, 2](a, b, c)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


def doubled(tile: tuple[int, int]) -> Any:
    @xt.kernel
    def twice(A, C):
        offsets = xt.group_id(0) * tile[0], xt.group_id(1) * tile[1]
        value = xt.load_tile(xt.init_tile(A, offsets, tile))
        xt.store_tile(value + value, xt.init_tile(C, offsets, tile))

    return twice


@pytest.mark.parametrize("execution", [NUMPY, *LANES], ids=str)
@pytest.mark.parametrize("tile", [(1, 16), (3, 48), (8, 8), (16, 24), (24, 80), (7, 16), (16, 4), (32, 1)], ids=str)
def test_tiles_of_any_shape_are_copied_and_computed_with(tile: tuple[int, int], execution: Execution) -> None:
    a = integers(np.random.default_rng(9), xt.i32, 2 * tile[0], 3 * tile[1] - tile[1] // 2)
    c = np.zeros_like(a)
    execution.bind(doubled(tile))[2, 3](a, c)
    np.testing.assert_array_equal(c, 2 * a)


@pytest.mark.parametrize("execution", [NUMPY, *LANES, *DEVICE], ids=str)
@pytest.mark.parametrize("tile", [(2, 1), (3, 8), (2, 4), (1, 1), (1, 8), (8, 1), (1, 20)], ids=str)
def test_tiles_smaller_than_a_register_repeat_over_the_lanes(tile: tuple[int, int], execution: Execution) -> None:
    a = integers(np.random.default_rng(10), xt.i32, 2 * tile[0], 3 * tile[1] - tile[1] // 2)
    c = np.zeros_like(a)
    execution.bind(doubled(tile))[2, 3](a, c)
    np.testing.assert_array_equal(c, 2 * a)


@xt.kernel
def filling(X, Y, *, rows, wg_map=None):
    v = xt.load_tile(xt.init_tile(X, (0, 0), (rows, 256), wg_map=wg_map))
    xt.store_tile(v + v, xt.init_tile(Y, (0, 0), (rows, 256), wg_map=wg_map))


@pytest.mark.parametrize(("rows", "wg_map"), [(256, None), (512, xt.wg_map((2, 1), (256, 256)))], ids=["one", "two"])
def test_a_subgroup_lowers_a_vector_of_256_kib_and_no_more(rows: int, wg_map: Any) -> None:
    """The limit counts what a subgroup holds, and the error is at the line that loads it."""
    matrix, more = xt.Spec((1024, 256), "f32"), 8 * rows // 256
    assert filling.lower(matrix, matrix, target="pvc", rows=rows, wg_map=wg_map).xegpu
    if wg_map is not None:
        wg_map = xt.wg_map((2, 1), (264, 256))
    with pytest.raises(xt.XeError, match="264x256 elements of f32, 270336 bytes") as raised:
        _ = filling.lower(matrix, matrix, target="pvc", rows=rows + more, wg_map=wg_map).xegpu
    assert raised.value.code == "XT4113"
