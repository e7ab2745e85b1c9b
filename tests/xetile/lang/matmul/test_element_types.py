"""Products in every element type, on every execution, compared with NumPy on wide operands."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.kernels import (
    EXECUTIONS,
    NUMPY,
    TYPES,
    Array,
    Execution,
    Types,
    gemm_onto,
    integers,
    operands,
    product,
    run_gemm,
    viewed,
)
from xegpu.ir.dtypes import truncate_tf32

pytestmark = pytest.mark.unoptimised

BY_NAME = {str(types): types for types in TYPES}
WITH_EXECUTIONS = [pytest.param(types, execution, id=f"{types}-{execution}") for types in TYPES
                   for execution in EXECUTIONS if types.on(execution)]
FLOATS = [types for types in TYPES if types.acc.is_float]
EPSILON = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
NUMPY_EXECUTIONS = [execution for execution in EXECUTIONS if execution.where.startswith("numpy")]


def executions_of(name: str, executions: list[Execution] = EXECUTIONS) -> list[Execution]:
    return [execution for execution in executions if BY_NAME[name].on(execution)]


def result_of(execution: Execution, types: Types, a: Array, b: Array) -> Array:
    c = np.full((a.shape[0], b.shape[1]), 99, types.acc.numpy)
    run_gemm(execution, types, a, b, c)
    return c


@pytest.mark.parametrize(("types", "execution"), WITH_EXECUTIONS)
def test_integer_values_multiply_exactly(types: Types, execution: Execution) -> None:
    rng = np.random.default_rng(1)
    for m, n, k in ((37, 45, 77), (16, 64, 128)):
        a, b = operands(rng, types, m, n, k)
        np.testing.assert_array_equal(result_of(execution, types, a, b), product(a, b, types.acc))


@pytest.mark.parametrize(("types", "execution"), [case for case in WITH_EXECUTIONS if case.values[0].acc.is_float])
def test_random_floats_stay_within_the_rounding_of_the_sum(types: Types, execution: Execution) -> None:
    """A sum of k products has at most k roundings, each relative to a partial sum that is at most the sum of sizes."""
    rng = np.random.default_rng(2)
    m, n, k = 37, 45, 77
    a, b = (rng.standard_normal(shape).astype(types.a.numpy) for shape in ((m, k), (k, n)))
    exact_a, exact_b = (truncate_tf32(x) if types.a is xt.tf32 else x for x in (a, b))
    exact = exact_a.astype(np.longdouble) @ exact_b.astype(np.longdouble)
    sizes = np.abs(exact_a).astype(np.longdouble) @ np.abs(exact_b).astype(np.longdouble)
    roundings = k + 1 if types.acc in (xt.f32, xt.f64) else -(-k // 8) + 1
    error = np.abs(result_of(execution, types, a, b).astype(np.longdouble) - exact)
    sums = EPSILON["f64" if types.acc is xt.f64 else "f32"]
    assert (error <= sizes * (roundings * EPSILON[types.acc.name] + k * sums)).all()


@pytest.mark.parametrize("execution", executions_of("tf32-tf32-f32"), ids=str)
def test_tf32_ignores_the_lowest_bits(execution: Execution) -> None:
    types, rng = BY_NAME["tf32-tf32-f32"], np.random.default_rng(3)
    exact = operands(rng, types, 33, 20, 48)
    noise = [rng.integers(0, 1 << 13, x.shape, dtype=np.uint32) for x in exact]
    a, b = ((x.view(np.uint32) | bits).view(np.float32) for x, bits in zip(exact, noise, strict=True))
    assert not np.array_equal(a, exact[0])
    np.testing.assert_array_equal(truncate_tf32(a), exact[0])
    np.testing.assert_array_equal(result_of(execution, types, a, b), product(*exact, xt.f32))


@xt.kernel
def transposed_product(A, B, C, *, M, N, K, transposed):
    """A product of one tile, of which A may be transposed in registers."""
    a = xt.load_tile(xt.init_tile(A, (0, 0), (K, M) if transposed else (M, K)))
    b = xt.load_tile(xt.init_tile(B, (0, 0), (K, N)))
    c = xt.tile_mma(xt.tile_transpose(a) if transposed else a, b)
    xt.store_tile(c, xt.init_tile(C, (0, 0), (M, N)))


@pytest.mark.parametrize("rows", [1, 3, 5, 7])
@pytest.mark.parametrize("execution", executions_of("tf32-tf32-f32"), ids=str)
def test_odd_rows_of_tf32_are_multiplied(execution: Execution, rows: int) -> None:
    """Two rows of A fill a register of 16 lanes; a single one is replicated over it."""
    types, rng = BY_NAME["tf32-tf32-f32"], np.random.default_rng(rows)
    a, b = operands(rng, types, rows, 32, 16)
    bound, expected = execution.bind(transposed_product), product(a, b, types.acc)
    for transposed in (False, True):
        c = np.full((rows + 1, 33), 99, np.float32)
        stored = np.ascontiguousarray(a.T) if transposed else a
        bound[1](viewed(stored, xt.tf32), viewed(b, xt.tf32), c[:rows, :32], M=rows, N=32, K=16, transposed=transposed)
        np.testing.assert_array_equal(c[:rows, :32], expected)
        assert (c[rows:] == 99).all()
        assert (c[:, 32:] == 99).all()


@pytest.mark.parametrize(("types", "execution"), [case for case in WITH_EXECUTIONS if case.values[0].acc is xt.i32])
def test_bytes_use_their_whole_range_and_sums_wrap_around(types: Types, execution: Execution) -> None:
    rng = np.random.default_rng(4)
    limits = [np.iinfo(dtype.numpy) for dtype in (types.a, types.b)]
    a, b = (rng.integers(limit.min, limit.max + 1, shape).astype(limit.dtype)
            for limit, shape in zip(limits, ((33, 70), (70, 20)), strict=True))
    a[0], b[:, 0] = limits[0].min, limits[1].max
    c = rng.choice(np.array([2**31 - 5, -(2**31) + 5, 0, 12345], np.int32), (33, 20))
    expected = (a.astype(np.int64) @ b.astype(np.int64) + c).astype(np.int32)
    run_gemm(execution, types, a, b, c, kernel=gemm_onto)
    np.testing.assert_array_equal(c, expected)


SPECIAL = ["bf16-bf16-f32", "f16-f16-f16", "f32-f32-f32", "f64-f64-f64"]


@pytest.mark.parametrize(("name", "execution"),
                         [(name, execution) for name in SPECIAL for execution in executions_of(name)],
                         ids=str)
def test_nan_and_infinity_go_where_they_belong(name: str, execution: Execution) -> None:
    types, rng = BY_NAME[name], np.random.default_rng(5)
    a, b = operands(rng, types, 20, 20, 40)
    a[2, 39], a[5, 3], a[7, 0], b[11, 4], b[39, 6] = np.nan, np.inf, -np.inf, np.inf, np.nan
    expected = product(a, b, types.acc)
    assert np.isnan(expected).any()
    assert np.isinf(expected).any()
    np.testing.assert_array_equal(result_of(execution, types, a, b), expected)


@pytest.mark.parametrize("execution", executions_of("f16-f16-f16"), ids=str)
def test_a_half_accumulator_overflows_to_infinity(execution: Execution) -> None:
    types = BY_NAME["f16-f16-f16"]
    a, b = np.full((16, 16), 128, np.float16), np.full((16, 16), 128, np.float16)
    a[3] = -128
    a[4] = 1
    np.testing.assert_array_equal(result_of(execution, types, a, b), product(a, b, xt.f16))


@xt.kernel
def untouched(A, C, *, M, N, dtype):
    tile = xt.init_tile(A, (xt.group_id(0) * M, 0), (M, N))
    xt.store_tile(xt.load_tile(tile).to(dtype), xt.init_tile(C, (xt.group_id(0) * M, 0), (M, N)))


COPIED = ["f64", "f32", "tf32", "f16", "bf16", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"]


@pytest.mark.parametrize(("dtype", "execution"), [
    (dtype, execution) for dtype in COPIED for execution in NUMPY_EXECUTIONS
    if dtype != "f64" or execution.target != "dg2"], ids=str)
def test_every_type_is_loaded_and_stored_unchanged(dtype: str, execution: Execution) -> None:
    element = xt.f32 if dtype == "tf32" else getattr(xt, dtype)
    bits = np.random.default_rng(6).integers(0, 256, (21, 32 * element.bytes), dtype=np.uint8)
    a = bits.view(element.numpy)
    c = np.zeros_like(a)
    given, result = (xt.view(x, xt.tf32) if dtype == "tf32" else x for x in (a, c))
    execution.bind(untouched)[3,](given, result, M=8, N=32, dtype=dtype)
    if element.is_float:
        np.testing.assert_array_equal(c.astype(element.compute), a.astype(element.compute))
    else:
        np.testing.assert_array_equal(c, a)


@pytest.mark.parametrize(("source", "target"), [("f32", "bf16"), ("f32", "f16"), ("f32", "tf32"), ("f16", "f32"),
                                                ("bf16", "f16"), ("f16", "bf16"), ("f64", "f32")])
def test_conversions_between_floats_round_to_nearest_even(source: str, target: str) -> None:
    rng = np.random.default_rng(7)
    a = (rng.standard_normal((8, 32)) * 10.0 ** rng.integers(-6, 4, (8, 32))).astype(getattr(xt, source).numpy)
    element = getattr(xt, target)
    c = np.zeros(a.shape, element.numpy)
    out = xt.view(c, target) if target == "tf32" else c
    NUMPY.bind(untouched)[1,](a, out, M=8, N=32, dtype=target)
    expected = a.astype(element.numpy)
    if target == "tf32":
        bits = a.view(np.uint32).astype(np.uint64)
        expected = (((bits + 0xFFF + ((bits >> 13) & 1)) >> 13) << 13).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(c, expected)


def test_results_of_both_numpy_levels_agree_bit_by_bit_in_narrow_accumulators() -> None:
    """One product of one DPAS: the same sums, the same single rounding."""
    rng = np.random.default_rng(8)
    for name in ("bf16-bf16-bf16", "f16-f16-f16"):
        types = BY_NAME[name]
        a, b = (integers(rng, types.a, 16, 16, most=100) for _ in range(2))
        results = [result_of(execution, types, a, b) for execution in (NUMPY, Execution("numpy:xegpu", "pvc"))]
        np.testing.assert_array_equal(*results)
