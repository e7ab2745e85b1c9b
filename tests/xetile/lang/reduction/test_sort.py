"""``sort`` and ``top_k`` against NumPy's stable sort: duplicates, NaN, extremes of the types, odd sizes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import FEW, Array, Execution
from xegpu.ir.dtypes import DType
from xetile.lang.reduction.sort import comparators

pytestmark = pytest.mark.unoptimised  # networks are long texts

TYPES = [xt.f32, xt.f16, xt.bf16, xt.i32, xt.u32, xt.i8, xt.u16, xt.i64]
SHAPES = [(8, 16), (5, 7), (3, 33), (11, 1), (8, 24)]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 11, 16])
def test_the_network_sorts_all_zeros_and_ones(count: int) -> None:
    """Knuth's principle: a network that sorts these sorts everything."""
    rng = np.random.default_rng(1)
    cases = product((0, 1), repeat=count) if count < 12 else rng.integers(0, 2, (500, count)).tolist()
    for case in cases:
        values = list(case)
        for i, j in comparators(count):
            values[i], values[j] = min(values[i], values[j]), max(values[i], values[j])
        assert values == sorted(case)


def data(dtype: DType, shape: tuple[int, int]) -> Array:
    """Duplicates and extremes; of floats infinities and NaN, and no -0.0, which NumPy holds for equal to 0.0."""
    rng = np.random.default_rng(21)
    if not dtype.is_float:
        limits = np.iinfo(dtype.numpy)
        numbers = rng.integers(limits.min, limits.max, 9, dtype.numpy, endpoint=True)
        return rng.choice(np.array([limits.min, limits.max, 0, 1, 2, *numbers], dtype.numpy), shape)
    numbers = rng.normal(size=9)
    return rng.choice(np.array([0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, *numbers]).astype(dtype.numpy), shape)


def ranks(a: Array, descending: bool) -> Array:
    """Numbers in the order that is asked for, with NaN as the largest."""
    _, order = np.unique(a.astype(np.float64) if a.dtype.kind not in "iu" else a, return_inverse=True)
    return -order.reshape(a.shape) if descending else order.reshape(a.shape)


@xt.kernel
def ordered(A, C, D, E, *, shape, axis, descending):
    v = xt.load_tile(xt.init_tile(A, (0, 0), shape))
    values, positions = xt.sort(v, axis, descending=descending, indices=True)
    xt.store_tile(values, xt.init_tile(C, (0, 0), shape))
    xt.store_tile(positions, xt.init_tile(D, (0, 0), shape))
    xt.store_tile(xt.sort(v, axis, descending=descending), xt.init_tile(E, (0, 0), shape))


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sorted(dtype: DType, shape: tuple[int, int], axis: int, descending: bool, execution: Execution) -> None:
    a = data(dtype, shape)
    c, d, e = np.zeros_like(a), np.zeros(shape, np.int32), np.zeros_like(a)
    execution.bind(ordered)[1](a, c, d, e, shape=shape, axis=axis, descending=descending)
    order = np.argsort(ranks(a, descending), axis, kind="stable")
    expected = np.take_along_axis(a, order, axis)
    assert (d == order).all()
    for found in (c, e):
        np.testing.assert_array_equal(found.astype(np.float64) if dtype.is_float else found,
                                      expected.astype(np.float64) if dtype.is_float else expected)


@xt.kernel
def largest(A, C, D, *, shape, k, axis):
    v = xt.load_tile(xt.init_tile(A, (0, 0), shape))
    for result, X in zip(xt.top_k(v, k, axis), (C, D), strict=True):
        xt.store_tile(result, xt.init_tile(X, (0, 0), result.shape))


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize(("shape", "k", "axis"), [((8, 40), 3, 1), ((21, 16), 5, 0), ((4, 6), 6, -1)])
@pytest.mark.parametrize("dtype", [xt.f32, xt.bf16, xt.i32, xt.u8], ids=str)
def test_the_largest(dtype: DType, shape: tuple[int, int], k: int, axis: int, execution: Execution) -> None:
    a = data(dtype, shape)
    size = (k, shape[1]) if axis == 0 else (shape[0], k)
    c, d = np.zeros(size, dtype.numpy), np.zeros(size, np.int32)
    execution.bind(largest)[1](a, c, d, shape=shape, k=k, axis=axis)
    order = np.take(np.argsort(ranks(a, True), axis, kind="stable"), range(k), axis)
    assert (d == order).all()
    expected = np.take_along_axis(a, order, axis)
    np.testing.assert_array_equal(c.astype(np.float64), expected.astype(np.float64))


@xt.kernel
def row(A, C):
    xt.store_tile(xt.sort(xt.load_tile(xt.init_tile(A, (0,), (32,)))), xt.init_tile(C, (0,), (32,)))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_a_vector_of_one_dimension(execution: Execution) -> None:
    a = np.random.default_rng(22).integers(-2**31, 2**31, 32).astype(np.int32)
    c = np.zeros_like(a)
    execution.bind(row)[1](a, c)
    assert (c == np.sort(a)).all()


@pytest.mark.parametrize(("use", "code"), [
    (lambda v: xt.sort(v, 2), "XT1224"), (lambda v: xt.top_k(v, 17), "XT1273"), (lambda v: xt.top_k(v, 1.5), "XT1273"),
    (lambda v: xt.sort(v > 0), "XT1274"), (lambda v: xt.sort(xt.zeros((1, 300), xt.f32)), "XT1273"),
])
def test_mistakes(use: Any, code: str) -> None:
    kernel = xt.kernel(lambda A: use(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))))
    with pytest.raises(xt.XeError) as caught:
        kernel[1](np.zeros((8, 16), np.float32))
    assert caught.value.code == code
