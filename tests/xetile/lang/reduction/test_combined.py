"""Reductions and scans by an author's function, against loops in Python and NumPy's accumulations."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import FEW, Array, Execution
from xegpu.ir.dtypes import DType
from xetile.dialect import wg_map_inference

pytestmark = pytest.mark.unoptimised  # scans are long texts

SHAPES = [(8, 16), (5, 40), (16, 1), (1, 37), (3, 7)]


def affine(a, b, c, d):
    """Composition of x -> a x + b, then x -> c x + d, in integers: associative, and not commutative."""
    return a * c, b * c + d


def larger_of_pairs(a, i, b, j):
    """The pair with the larger value, of equal ones that with the smaller index."""
    first = (a > b) | ((a == b) & (i < j))
    return xt.where(first, a, b), xt.where(first, i, j)


@xt.kernel
def scanned(A, B, C, D, *, shape, axis, reverse):
    a, b = (xt.load_tile(xt.init_tile(X, (0, 0), shape)) for X in (A, B))
    for result, X in zip(xt.scan((a, b), axis, affine, reverse=reverse), (C, D), strict=True):
        xt.store_tile(result, xt.init_tile(X, (0, 0), shape))


@xt.kernel
def reduced(A, C, D, *, shape, axis):
    a = xt.load_tile(xt.init_tile(A, (0, 0), shape))
    for result, X in zip(xt.reduce((a, xt.iota(shape, axis)), axis, larger_of_pairs), (C, D), strict=True):
        xt.store_tile(result, xt.init_tile(X, (0, 0), result.shape))


def accumulated(a: Array, b: Array, axis: int, reverse: bool) -> tuple[Array, Array]:
    """The scan, element by element."""
    a, b = (np.moveaxis(x, axis, 0).astype(np.int64) for x in (a, b))
    order = range(len(a))[::-1] if reverse else range(len(a))
    first: Any = None
    results = np.zeros_like(a), np.zeros_like(b)
    for i in order:
        first = (a[i], b[i]) if first is None else (first[0] * a[i], first[1] * a[i] + b[i])
        for result, value in zip(results, first, strict=True):
            result[i] = value
    return np.moveaxis(results[0], 0, axis), np.moveaxis(results[1], 0, axis)


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_associative_function_is_scanned_in_order(shape: tuple[int, int], axis: int, reverse: bool,
                                                     execution: Execution) -> None:
    rng = np.random.default_rng(11)
    a, b = rng.integers(-2**31, 2**31, (2, *shape)).astype(np.int32)
    c, d = np.zeros_like(a), np.zeros_like(a)
    execution.bind(scanned)[1](a, b, c, d, shape=shape, axis=axis, reverse=reverse)
    with np.errstate(over="ignore"):
        expected = accumulated(a, b, axis, reverse)
    for found, wanted in zip((c, d), expected, strict=True):
        assert (found == wanted.astype(np.int32)).all()


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pairs_are_reduced(shape: tuple[int, int], axis: int, execution: Execution) -> None:
    rng = np.random.default_rng(12)
    a = rng.integers(-9, 10, shape).astype(np.float32)
    size = tuple(1 if i == axis else n for i, n in enumerate(shape))
    c, d = np.zeros(size, np.float32), np.zeros(size, np.int32)
    execution.bind(reduced)[1](a, c, d, shape=shape, axis=axis)
    assert (c == a.max(axis, keepdims=True)).all()
    assert (d == a.argmax(axis, keepdims=True)).all()


@xt.kernel
def cumulated(A, C, *, shape):
    v = xt.load_tile(xt.init_tile(A, (0, 0), shape))
    results = [xt.cumsum(v, 1), xt.cumsum(v, 0, reverse=True), xt.cumsum(v, -1, exclusive=True),
               xt.cumsum(v, 1, reverse=True, exclusive=True), xt.cumprod(v, 1), xt.cummax(v, 1), xt.cummin(v, 0)]
    for i, result in enumerate(results):
        xt.store_tile(result, xt.init_tile(C, (i, 0, 0), shape))


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize("dtype", [xt.i32, xt.i8, xt.u16, xt.i64, xt.f32, xt.bf16], ids=str)
def test_numpys_accumulations(dtype: DType, execution: Execution) -> None:
    rng, shape = np.random.default_rng(13), (4, 32)
    if dtype.is_float:  # exact: sums below 256, products of powers of two
        a = rng.choice(np.array([1, -1, 2, 0.5, -0.5, 0]), shape, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1]).astype(dtype.numpy)
        a[1, 5] = a[3, 31] = np.nan
    else:
        limits = np.iinfo(dtype.numpy)
        a = rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
    c = np.zeros((7, *shape), dtype.numpy)
    execution.bind(cumulated)[1](a, c, shape=shape)
    wide = a.astype(np.float32) if dtype.is_float else a
    total = lambda x, axis: np.add.accumulate(x, axis, dtype=x.dtype)  # noqa: E731
    before = np.pad(total(wide, 1), ((0, 0), (1, 0)))[:, :-1]
    after = np.pad(total(wide[:, ::-1], 1)[:, ::-1], ((0, 0), (0, 1)))[:, 1:]
    expected = [total(wide, 1), total(wide[::-1], 0)[::-1], before, after,
                np.multiply.accumulate(wide, 1, dtype=wide.dtype), np.maximum.accumulate(wide, 1),
                np.minimum.accumulate(wide, 0)]
    np.testing.assert_array_equal(c.astype(wide.dtype), np.stack(expected).astype(dtype.numpy).astype(wide.dtype))


@xt.kernel
def of_one_dimension(A, C, D):
    v = xt.load_tile(xt.init_tile(A, (0,), (48,)))
    xt.store_tile(xt.cumsum(v, 0), xt.init_tile(C, (0,), (48,)))
    xt.store_tile(xt.reduce(v, -1, lambda a, b: a ^ b), xt.init_tile(D, (0,), (1,)))


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_a_vector_of_one_dimension(execution: Execution) -> None:
    a = np.random.default_rng(14).integers(-2**31, 2**31, 48).astype(np.int32)
    c, d = np.zeros_like(a), np.zeros(1, np.int32)
    execution.bind(of_one_dimension)[1](a, c, d)
    assert (c == np.cumsum(a, dtype=np.int32)).all()
    assert d[0] == reduce(lambda x, y: x ^ y, a.tolist())


@pytest.mark.parametrize(("use", "code"), [
    (lambda v: xt.scan(v, 2, lambda a, b: a + b), "XT1224"),
    (lambda v: xt.reduce((v, xt.zeros((8, 8), xt.f32)), 0, lambda a, b, c, d: (a, b)), "XT1208"),
    (lambda v: xt.scan(v, 1, lambda a, b: a > b), "XT1272"),
    (lambda v: xt.reduce((v, v), 1, lambda a, b, c, d: a), "XT1272"),
    (lambda v: xt.scan(3, 1, lambda a, b: a), "XT1225"), (lambda v: xt.cumsum((v, v), 1), "XT1225"),
])
def test_mistakes(use: Any, code: str) -> None:
    kernel = xt.kernel(lambda A: use(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))))
    with pytest.raises(xt.XeError) as caught:
        kernel[1](np.zeros((8, 16), np.float32))
    assert caught.value.code == code


@xt.kernel
def scanned_often(A, C, *, count):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 16)))
    for i in range(count):
        v = xt.cumsum(v, i % 2)
    xt.store_tile(v, xt.init_tile(C, (0, 0), (16, 16)))


def test_scans_of_scans_are_recorded_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each inserts slices into a vector without a map, of which both operands are searched for one."""
    found, counts = wg_map_inference.map_of, []
    for count in (4, 8):
        calls = [0]

        def counted(value: Any, calls: list[int] = calls) -> Any:
            calls[0] += 1
            return found(value)

        monkeypatch.setattr(wg_map_inference, "map_of", counted)
        a = np.zeros((16, 16), np.int32)
        _ = scanned_often.lower(a, a, target="cpu", count=count).xetile
        counts.append(calls[0])
    assert counts[0] < counts[1] < 3 * counts[0]
