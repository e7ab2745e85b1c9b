"""Powers, fused multiply-adds, extremes, bits and positions of elements, in every execution."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, NUMPY, Array, Execution, viewed, wide
from xegpu.interpreter.arith.fma import fused
from xegpu.ir.dtypes import DType
from xegpu.target.targets import find_target

pytestmark = pytest.mark.unoptimised

EXECUTIONS = [NUMPY, Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "dg2"), *DEVICE]
FLOATS = [xt.f64, xt.f32, xt.f16, xt.bf16]
INTEGERS = [xt.i64, xt.i32, xt.i16, xt.i8, xt.u64, xt.u32, xt.u16, xt.u8]
RNG = np.random.default_rng(23)
SHAPE = (8, 32)


def cases(types: list[DType]) -> list[Any]:
    return [pytest.param(dtype, execution, id=f"{dtype}-{execution}") for dtype in types for execution in EXECUTIONS
            if execution.where == "numpy" or dtype not in find_target(execution.target).unsupported_types]


def floats(dtype: DType, spread: int = 3) -> Array:
    return (RNG.standard_normal(SHAPE) * 2.0 ** RNG.integers(-spread, spread + 1, SHAPE)).astype(dtype.numpy)


def whole_range(dtype: DType) -> Array:
    limits = np.iinfo(dtype.numpy)
    return RNG.integers(limits.min, limits.max, SHAPE, dtype.numpy, endpoint=True)


def run(execution: Execution, function: Any, dtype: DType, *arrays: Array, results: int = 1) -> list[Array]:
    """Results of ``function`` of the arrays' vectors: one vector or several."""
    @xt.kernel
    def kernel(A, B, C, D):
        loaded = [xt.load_tile(xt.init_tile(array, (0, 0), SHAPE)) for array in (A, B, C)]
        made = function(*loaded[:len(arrays)])
        for i, value in enumerate(made if isinstance(made, tuple) else (made,)):
            xt.store_tile(value, xt.init_tile(D, (8 * i, 0), SHAPE))

    d = np.zeros((8 * results, 32), dtype.numpy)
    execution.bind(kernel)[1](*(viewed(x, dtype) for x in (*arrays, *[arrays[0]] * (3 - len(arrays)))),
                              viewed(d, dtype))
    return [d[8 * i:8 * i + 8] for i in range(results)]


def exact_fma(a: Array, b: Array, c: Array) -> Array:
    return np.vectorize(lambda x, y, z: float(Fraction(x) * Fraction(y) + Fraction(z)))(*map(wide, (a, b, c)))


@pytest.mark.parametrize(("dtype", "execution"), cases([xt.f64, xt.f32]))
def test_fma_rounds_once(dtype: DType, execution: Execution) -> None:
    """c nearly cancels a * b, so that what a product loses by its own rounding would be all of the result."""
    a, b = floats(dtype), floats(dtype)
    c = (-a * b).astype(dtype.numpy)
    c[:, ::3] = floats(dtype)[:, ::3]
    (d,) = run(execution, xt.fma, dtype, a, b, c)
    exact = exact_fma(a, b, c)  # rounded to float64, and what cancels is exact in it
    if dtype is xt.f32:
        assert not np.array_equal(a * b + c, exact.astype(np.float32))
    np.testing.assert_array_equal(d, exact.astype(dtype.numpy))


@pytest.mark.parametrize(("dtype", "execution"), cases([xt.f16, xt.bf16]))
def test_fma_of_narrow_floats_is_that_of_float32(dtype: DType, execution: Execution) -> None:
    a, b, c = (floats(dtype) for _ in range(3))
    (d,) = run(execution, xt.fma, dtype, a, b, c)
    expected = fused(*(x.astype(np.float32) for x in (a, b, c))).astype(dtype.numpy)
    np.testing.assert_array_equal(wide(d), wide(expected))


def test_the_fused_sum_is_exact_where_rounding_twice_is_not() -> None:
    """Halves between two float32, off by less than float64 sees: rounded to float64 first, they would go to even."""
    a, b = (np.float32([1 + 2.0**-12]) for _ in range(2))
    c = np.float32([2.0**-80])
    for sign in (1, -1):
        exact = Fraction(float(a[0])) * Fraction(float(b[0])) + sign * Fraction(float(c[0]))
        below = np.float32(1 + 2.0**-11)
        above = np.nextafter(below, np.float32(2))
        middle = (Fraction(float(below)) + Fraction(float(above))) / 2
        assert (fused(a, b, sign * c)[0] == above) == (exact > middle)
    with np.errstate(all="ignore"):
        check_odd_ends()


def check_odd_ends() -> None:
    big, tiny = np.float32([3e38]), np.float32([1e-45])
    assert fused(big, big, -big)[0] == np.inf
    assert fused(tiny, tiny, np.float32([0]))[0] == 0
    assert np.isnan(fused(big * 2, tiny * 0, tiny)[0])
    wild = RNG.standard_normal((3, 2000)) * 10.0 ** RNG.integers(-20, 20, (3, 2000))
    for a, b, c in wild.astype(np.float32).T[:500]:
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        near = np.float32(float(exact))
        candidates = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
        finite = [x for x in candidates if np.isfinite(x)]
        expected = min(finite, key=lambda x: abs(Fraction(float(x)) - exact)) if np.isfinite(near) else near
        assert fused(np.array([a]), np.array([b]), np.array([c]))[0] == expected


POWERS = (0, 1, 2, 3, 4, 5, 7)


@pytest.mark.parametrize(("dtype", "execution"), cases(INTEGERS))
def test_powers_of_integers(dtype: DType, execution: Execution) -> None:
    a = whole_range(dtype)
    results = run(execution, lambda v: tuple(v ** n for n in POWERS), dtype, a, results=len(POWERS))
    for n, result in zip(POWERS, results, strict=True):
        expected = np.ones_like(a)
        for _ in range(n):
            expected = expected * a
        np.testing.assert_array_equal(result, expected, err_msg=str(n))


ROUNDING = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
EXPONENTS = (0.5, 1, 2, 3, 4, -1, 1.5, 7)


@pytest.mark.parametrize(("dtype", "execution"), cases(FLOATS))
def test_powers_of_floats(dtype: DType, execution: Execution) -> None:
    a, b = (np.clip(wide(floats(dtype, 1)), *limits).astype(dtype.numpy) for limits in ((0.25, 4), (-4, 4)))

    def powers(v: Any, w: Any) -> tuple[Any, ...]:
        return (*(v ** n for n in EXPONENTS), v ** w, 2.0 ** w)

    results = run(execution, powers, dtype, a, b, results=len(EXPONENTS) + 2)
    x, y = wide(a), wide(b)
    expected = [*(x ** n for n in EXPONENTS), x ** y, 2.0 ** y]
    own = min(ROUNDING[dtype.name], 2.0**-24)
    for n, result, exact in zip((*EXPONENTS, "v", "2"), results, expected, strict=True):
        units = 1.5 if n in (0.5, 1, 2, 3, 4) else 17  # OpenCL gives pow 16 units in the last place
        bound = np.abs(exact) * (2 * own * units + ROUNDING[dtype.name]) + 2.0**-24 * (dtype is xt.f16)
        assert (np.abs(wide(result) - exact) <= bound).all(), n


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_negative_bases(execution: Execution) -> None:
    a = -np.abs(floats(xt.f32)) - np.float32(0.1)
    square, cube, fifth, odd = run(execution, lambda v: (v ** 2, v ** 3, v ** 5, v ** 2.5), xt.f32, a, results=4)
    x = wide(a)
    for result, exact in ((square, x ** 2), (cube, x ** 3), (fifth, x ** 5)):
        assert np.allclose(result, exact, rtol=4e-6)
    assert np.isnan(odd).all()


@pytest.mark.parametrize(("dtype", "execution"), cases(FLOATS))
def test_missing_numbers(dtype: DType, execution: Execution) -> None:
    """``maximum`` and ``minimum`` hand NaN on, ``maxnum`` and ``minnum`` drop it."""
    a, b = floats(dtype), floats(dtype)
    a[RNG.random(SHAPE) < 0.3], b[RNG.random(SHAPE) < 0.3] = np.nan, np.nan
    a[0, :4], b[0, :4] = [np.inf, -np.inf, np.nan, np.nan], [np.nan, np.nan, np.inf, np.nan]
    results = run(execution, lambda v, w: (xt.maximum(v, w), xt.minimum(v, w), xt.maxnum(v, w), xt.minnum(v, w)), dtype,
                  a, b, results=4)
    with np.errstate(invalid="ignore"):
        expected = [function(wide(a), wide(b)) for function in (np.maximum, np.minimum, np.fmax, np.fmin)]
    for result, values in zip(results, expected, strict=True):
        np.testing.assert_array_equal(wide(result), values)


@pytest.mark.parametrize(("dtype", "execution"), cases(INTEGERS))
def test_bits_and_extremes_of_integers(dtype: DType, execution: Execution) -> None:
    a, b = whole_range(dtype), whole_range(dtype)

    def operations(v: Any, w: Any) -> tuple[Any, ...]:
        return ~v, v & ~w, v | w, v ^ 5, v << 3, v >> 2, xt.maxnum(v, w), xt.minnum(v, w), xt.maximum(v, 7), +v, -v

    results = run(execution, operations, dtype, a, b, results=11)
    five, three, two, seven = (dtype.numpy.type(n) for n in (5, 3, 2, 7))
    expected = (~a, a & ~b, a | b, a ^ five, a << three, a >> two, np.maximum(a, b), np.minimum(a, b),
                np.maximum(a, seven), a, np.negative(a))
    for i, (result, values) in enumerate(zip(results, expected, strict=True)):
        np.testing.assert_array_equal(result, values, err_msg=str(i))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_truth_values(execution: Execution) -> None:
    a, b = (RNG.integers(0, 2, SHAPE).astype(bool) for _ in range(2))

    def operations(v: Any, w: Any) -> tuple[Any, ...]:
        true = xt.full(SHAPE, True, xt.i1)
        return ~v, v & w, v | ~w, v ^ w, v == w, v != True, v < w, v | False, true & w  # noqa: E712

    results = run(execution, operations, xt.i1, a, b, results=9)
    expected = (~a, a & b, a | ~b, a ^ b, a == b, ~a, a < b, a, b)
    for i, (result, values) in enumerate(zip(results, expected, strict=True)):
        np.testing.assert_array_equal(result, values, err_msg=str(i))


COUNTED = [*FLOATS, xt.tf32, *INTEGERS]


@xt.kernel
def positions(C, *, dtype, shape, wg_map):
    for axis in (0, 1):
        rows = shape[0]
        xt.store_tile(xt.iota(shape, axis, dtype, wg_map=wg_map),
                      xt.init_tile(C, (rows * axis + xt.group_id(0) * 2 * rows, 0), shape, wg_map=wg_map))


@pytest.mark.parametrize(("dtype", "execution"), cases(COUNTED))
def test_positions(dtype: DType, execution: Execution) -> None:
    shape = (24, 48)
    c = np.zeros((4 * 24, 48), dtype.numpy)
    execution.bind(positions)[2](viewed(c, dtype), dtype=dtype, shape=shape, wg_map=None)
    np.testing.assert_array_equal(wide(c), np.tile(np.vstack(np.indices(shape)), (2, 1)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("layout", "data"), [((2, 2), (8, 16)), ((1, 4), (16, 16)), ((4, 1), (8, 64)),
                                              ((2, 1), (16, 32)), ((2, 2), (32, 16))])
def test_positions_of_a_work_group(layout: tuple[int, int], data: tuple[int, int], execution: Execution) -> None:
    """Blocks in several rounds, each once, and shared ones: every subgroup counts from where its blocks start."""
    shape = (32, 64)
    c = np.zeros((64, 64), np.int32)
    execution.bind(positions)[1](c, dtype=xt.i32, shape=shape, wg_map=xt.wg_map(layout, data))
    np.testing.assert_array_equal(c, np.vstack(np.indices(shape)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("shape", [(8, 8), (32, 4), (16, 2), (1, 16), (8, 16)])
def test_positions_of_narrow_vectors(shape: tuple[int, int], execution: Execution) -> None:
    """Rows shorter than the lanes share a register."""
    c = np.zeros((2 * shape[0], shape[1]), np.float32)
    execution.bind(positions)[1](c, dtype=xt.f32, shape=shape, wg_map=None)
    np.testing.assert_array_equal(c, np.vstack(np.indices(shape)))


@xt.kernel
def causal(S, C, *, BM, BN, sg):
    """Scores of a row beyond the diagonal are left out, as in attention."""
    m = xt.group_id(0) * BM
    map_ = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    row = xt.iota((BM, BN), 0, wg_map=map_) + m.to(xt.i32)
    for n in xt.range(0, S.shape[1], BN):
        column = xt.iota((BM, BN), 1, wg_map=map_) + n.to(xt.i32)
        scores = xt.load_tile(xt.init_tile(S, (m, n), (BM, BN), wg_map=map_))
        xt.store_tile(xt.where(column <= row, scores, float("-inf")), xt.init_tile(C, (m, n), (BM, BN), wg_map=map_))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_causal_mask(execution: Execution) -> None:
    s = RNG.standard_normal((60, 61)).astype(np.float32)
    c = np.zeros_like(s)
    execution.bind(causal)[2](s, c, BM=32, BN=32, sg=(2, 2))
    np.testing.assert_array_equal(c, np.where(np.tri(60, 61, dtype=bool), s, -np.inf))


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_positions_take_no_memory(target: str) -> None:
    require_ocloc()
    matrix = xt.Spec((None, None), xt.f32)
    lowered = causal.lower(matrix, matrix, target=target, BM=32, BN=32, sg=(2, 2))
    assert lowered.report().spill_size == lowered.report().private_size == 0


@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_every_stage_parses_back(target: str) -> None:
    matrix = xt.Spec((None, None), xt.f32)
    stages = causal.lower(matrix, matrix, target=target, BM=32, BN=32, sg=(2, 2)).stages
    assert "xetile.iota" in stages["distribute-subgroups"]
    assert "xegpu.iota" in [*stages.values()][-1]
    for name, text in stages.items():
        assert str(xt.parse(text)) == text, name


@pytest.mark.parametrize(("wrong", "message"), [
    (lambda v, k: xt.iota((8, 16), 2), "XT1155"),
    (lambda v, k: xt.iota((8, 16), True), "XT1155"),
    (lambda v, k: xt.iota((8, 16), xt.i32), "XT1155"), (lambda v, k: xt.iota(16, np.int32), "XT1155"),
    (lambda v, k: xt.iota((8, 16), k), "XT1155"),
    (lambda v, k: xt.iota((8, 512), 1, xt.u8), "XT3264"),
    (lambda v, k: xt.iota((8, 256), 1, xt.i8), "XT3264"),
    (lambda v, k: xt.iota((8, 512), 1, xt.bf16), "XT3264"),
    (lambda v, k: xt.iota((8, 16), 1, xt.i1), "XT3264"),
    (lambda v, k: xt.iota((8, k), 1), "XT1105"),
    (lambda v, k: xt.iota((8, 16), 1, wg_map=xt.wg_map((3, 1), (3, 16))), "8"),
    (lambda v, k: xt.iota((8, 16), 1, xt.i4), "XT3271"),
    (lambda v, k: v.to(xt.u4) + 1, "XT1226"),
    (lambda v, k: xt.zeros((8, 16), "i4"), "XT3271"),
    (lambda v, k: xt.fma(v, v, xt.zeros((8, 32), xt.f32)), "XT1208"),
    (lambda v, k: xt.fma(v, v, v.to(xt.f16)), "XT1207"),
    (lambda v, k: xt.fma(1.0, 2.0, 3.0), "XT1161"),
    (lambda v, k: xt.fma(k, k, k), "XT1211"),
    (lambda v, k: xt.atan2(v.to(xt.i32), 1), "XT1211"),
    (lambda v, k: xt.copysign(v, "x"), "XT1201"),
    (lambda v, k: v.to(xt.i32) ** -1, "XT1210"),
    (lambda v, k: v.to(xt.i32) ** 2.0, "XT1210"),
    (lambda v, k: v.to(xt.i32) ** v.to(xt.i32), "XT1210"),
    (lambda v, k: ~v, "XT1202"),
    (lambda v, k: -(v > 0), "XT1202"),
    (lambda v, k: xt.log2(2.0), "XT1212"),
])
def test_mistakes(wrong: Any, message: str) -> None:
    @xt.kernel
    def kernel(A):
        wrong(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), xt.group_id(0))

    with pytest.raises(xt.XeError, match=message) as caught:
        kernel[1](np.ones((8, 16), np.float32))
    assert caught.value.hint
    assert caught.value.location.line


@pytest.mark.parametrize(("line", "message"), [
    ("%v = xetile.iota {axis = 2 : i64} : vector<8x16xi32>", "XT1155"),
    ("%v = xetile.iota {axis = 0 : i64} : vector<8xi32>", "XT2150"),
    ("%v = xetile.iota {axis = 1 : i64} : vector<8x512xi8>", "XT3264"),
    ("%v = xetile.iota {axis = 1 : i64, wg_map = #xetile.wg_map<sg_layout = [2, 1], sg_data = [3, 16]>} : "
     "vector<8x16xi32>", "8"),
    ("%v = xegpu.iota %k {axis = 2 : i64} : vector<8x16xi32>", "there is no axis 2"),
    ("%v = xegpu.iota %k {axis = 0 : i64, shape = [8 : i64, 16 : i64]} : vector<8x1xi32>", "XT3261"),
    ("%v = xegpu.iota %k {axis = 0 : i64, shape = [8 : i64, 16 : i64], sg_map = "
     "#xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>} : vector<4x1xi32>", "XT3263"),
])
def test_mistakes_in_text(line: str, message: str) -> None:
    with pytest.raises(xt.TextError, match=message):
        xt.parse(f"func.func @wrong(%k: index) {{\n{line}\nfunc.return\n}}")


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_arrays_of_half_bytes_are_refused(dtype: str) -> None:
    import ml_dtypes

    @xt.kernel
    def copy(A):
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), xt.init_tile(A, (0, 0), (8, 16)))

    with pytest.raises(xt.ElementTypeError, match="XT3271") as caught:
        copy[1](np.ones((8, 16), getattr(ml_dtypes, dtype)))
    assert "xt.pack(array, xt." in caught.value.hint


def test_numbers_outside_vectors() -> None:
    """The same operators and functions on run-time numbers."""
    @xt.kernel
    def scalars(C, n, x):
        values = (x ** 2, xt.fma(x, x, 1.0), xt.atan2(x, 2.0), xt.maxnum(x, 3.0), (n ** 3).to(xt.i32).to(xt.f32),
                  (~n).to(xt.i32).to(xt.f32), (n > 2).to(xt.i32).to(xt.f32), xt.copysign(x, -1.0),
                  (n != 0).to(xt.f32), x.to(xt.i1).to(xt.f32))
        for i, value in enumerate(values):
            xt.store_tile(xt.full((1, 16), value, xt.f32), xt.init_tile(C, (i, 0), (1, 16)))

    for execution in EXECUTIONS:
        c = np.zeros((10, 16), np.float32)
        execution.bind(scalars)[1](c, 3, 1.5)
        expected = [2.25, 3.25, math.atan2(1.5, 2), 3, 27, -4, 1, -1.5, 1, 1]
        np.testing.assert_allclose(c[:, 3], expected, rtol=1e-6)
