"""Strip mining of independent rows: results of strips, where tiles stay whole, and machine code that spills nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, first_stages, integers, tiles

pytestmark = pytest.mark.unoptimised
BM, BN = 16, 256
F32 = xt.Spec((None, None), "f32")


@xt.kernel
def centred(X, R, W, Y, first):
    """Rows with a residual, which is stored back, less their maxima, times weights, plus their sums and numbers."""
    m = xt.group_id(0) * BM
    at = xt.init_tile(R, (m, 0), (BM, BN))
    x = xt.load_tile(xt.init_tile(X, (m, 0), (BM, BN)), padding=-100.0).to(xt.f32) + xt.load_tile(at)
    xt.store_tile(x, at)
    total = xt.tile_reduce("add", x, 1)
    y = x - xt.tile_reduce("max", x, 1)
    w = xt.load_tile(xt.init_tile(W, (0, 0), (1, BN)))
    row = xt.iota((BM, BN), 0, xt.i32) + first.to(xt.i32)
    xt.store_tile(y * w + total + row.to(xt.f32), xt.init_tile(Y, (m, 0), (BM, BN)))


@xt.kernel
def in_loops(X, Y):
    """Rows of any length less their sums: a loop that sums, and one that stores."""
    m = xt.group_id(0) * BM
    total = xt.zeros((BM, 1), xt.f32)
    at = xt.init_tile(X, (m, 0), (BM, BN))
    kept = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, X.shape[1], BN):
        x = xt.load_tile(at)
        kept = kept + x
        total = total + xt.tile_reduce("add", x, 1)
        at = xt.update_tile_offset(at, 0, BN)
    for n in xt.range(0, X.shape[1], BN):
        x = xt.load_tile(xt.init_tile(X, (m, n), (BM, BN)))
        xt.store_tile(x - total + kept, xt.init_tile(Y, (m, n), (BM, BN)))


@xt.kernel
def momentum(W, M, G, first):
    """Weights and their momenta in place, of a gradient: no row is reduced."""
    m = xt.group_id(0) * BM
    weights, momenta = (xt.init_tile(array, (m, 0), (BM, BN)) for array in (W, M))
    gradient = xt.load_tile(xt.init_tile(G, (m, 0), (BM, BN)))
    moved = xt.load_tile(momenta) * 2.0 + gradient
    row = xt.iota((BM, BN), 0, xt.i32) + first.to(xt.i32)
    xt.store_tile(xt.load_tile(weights) - moved + row.to(xt.f32), weights)
    xt.store_tile(moved, momenta)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("rows", "width"), [(21, 250), (16, 256), (5, 201)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["f32", "f16"])
def test_rows_of_a_tile(execution: Execution, dtype: Any, rows: int, width: int) -> None:
    """Rows and columns beyond the array too: strips that begin below it, and a residual in place."""
    generator = np.random.default_rng(width)
    x, r, w = (integers(generator, kind, *shape) for kind, shape in (
        (dtype, (rows, width)), (np.float32, (rows, width)), (np.float32, (1, width))))
    whole = np.full((rows + 2, width + 8), 7, np.float32)
    y, kept = whole[1:-1, 4:-4], r.copy()
    execution.bind(centred)[tiles(rows, BM)](x, kept, w, y, 3)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, BN - width)), constant_values=-100)
    padded[:, :width] += r
    row = np.arange(rows)[:, None] % BM + 3
    expected = (padded - padded.max(1, keepdims=True))[:, :width] * w + padded.sum(1, keepdims=True) + row
    np.testing.assert_array_equal(kept, padded[:, :width])
    np.testing.assert_array_equal(y, expected)
    whole[1:-1, 4:-4] = 7
    assert (whole == 7).all()


@pytest.mark.parametrize("execution", [*EXECUTIONS, Execution("machine:dg2", "dg2")], ids=str)
@pytest.mark.parametrize(("rows", "width"), [(21, 250), (16, 256)])
def test_rows_that_are_not_reduced(execution: Execution, rows: int, width: int) -> None:
    generator = np.random.default_rng(width)
    w, m, g = (integers(generator, np.float32, rows, width) for _ in range(3))
    weights, momenta = w.copy(), m.copy()
    execution.bind(momentum)[tiles(rows, BM)](weights, momenta, g, 3)
    np.testing.assert_array_equal(momenta, 2 * m + g)
    np.testing.assert_array_equal(weights, w - momenta + np.arange(rows)[:, None] % BM + 3)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_loops_in_a_strip(execution: Execution) -> None:
    x = integers(np.random.default_rng(1), np.float32, 19, 600)
    y = np.full_like(x, 7)
    execution.bind(in_loops)[tiles(19, BM)](x, y)
    kept = np.pad(x, ((0, 0), (0, 168))).reshape(19, 3, BN).sum(1)
    np.testing.assert_array_equal(y, x - x.sum(1, keepdims=True) + np.tile(kept, 3)[:, :600])


def is_strip_mined(kernel: Any, *specs: Any, target: str = "pvc", **constants: Any) -> bool:
    return "strip-mine" in first_stages(kernel.lower(*specs, target=target, **constants))


def shifted(X, Y):  # type: ignore[no-untyped-def]
    """Shares of rows, stored where the array's next rows may be loaded from."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (BM, BN)))
    xt.store_tile(x - xt.tile_reduce("add", x, 1), xt.init_tile(Y, (0, 0), (BM, BN)))


def down(X):  # type: ignore[no-untyped-def]
    """Rows that are stored a row below those that they are made of."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (BM, BN)))
    xt.store_tile(x - xt.tile_reduce("add", x, 1), xt.init_tile(X, (1, 0), (BM, BN)))


def of_columns(X, Y):  # type: ignore[no-untyped-def]
    """Rows that depend on each other."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (BM, BN)))
    xt.store_tile(x - xt.tile_reduce("add", x, 1) - xt.tile_reduce("max", x, 0), xt.init_tile(Y, (0, 0), (BM, BN)))


def overlapping(X, Y):  # type: ignore[no-untyped-def]
    """Rows in place that begin an element apart."""
    at = xt.init_tile(X, (0, 0), (BM, BN), base_shape=(BM, BN), base_strides=(1, 1))
    total = xt.tile_reduce("add", xt.load_tile(at), 1)
    xt.store_tile(xt.zeros((BM, BN), xt.f32), at)
    xt.store_tile(xt.zeros((BM, BN), xt.f32) + total, xt.init_tile(Y, (0, 0), (BM, BN)))


def counted(X, Y):  # type: ignore[no-untyped-def]
    """Rows less their sums, and less a number that a loop counts and one that follows from it."""
    x, rows = xt.load_tile(xt.init_tile(X, (0, 0), (BM, BN))), xt.scalar(0, xt.i32)
    for _ in xt.range(0, X.shape[0], 1):
        rows = rows + 1
    twice = rows * 2
    xt.store_tile(x - xt.tile_reduce("add", x, 1) - twice.to(xt.f32), xt.init_tile(Y, (0, 0), (BM, BN)))


def test_numbers_of_loops_in_a_strip() -> None:
    """Operations on a loop's results stay behind the loop."""
    x = integers(np.random.default_rng(2), np.float32, BM, BN)
    y = np.full_like(x, 7)
    assert is_strip_mined(xt.kernel(counted), F32, F32)
    xt.kernel(counted).on("numpy:xegpu", target="pvc")[1](x, y)
    np.testing.assert_array_equal(y, x - x.sum(1, keepdims=True) - 2 * BM)


def test_rows_that_share_elements() -> None:
    """All rows are loaded before the first is stored, also where strides that the author writes make them overlap."""
    x = integers(np.random.default_rng(3), np.float32, BM, BN)
    windows = np.lib.stride_tricks.sliding_window_view(x.ravel(), BN)[:BM]
    expected, y = np.repeat(windows.sum(1, keepdims=True), BN, 1), np.full_like(x, 7)
    xt.kernel(overlapping).on("numpy:xegpu", target="pvc")[1](x, y)
    np.testing.assert_array_equal(y, expected)


def test_where_it_applies() -> None:
    """Where rows are independent and exceed the registers; not where the order of a load and a store may matter."""
    for target in ("pvc", "bmg", "dg2", "arl", "cpu"):
        assert is_strip_mined(xt.kernel(shifted), F32, F32, target=target)
        assert is_strip_mined(in_loops, F32, F32, target=target)
        assert is_strip_mined(centred, F32, F32, F32, F32, 3, target=target)
        assert is_strip_mined(momentum, F32, F32, F32, 3, target=target) == (target != "cpu")  # no row is reduced
        assert not is_strip_mined(xt.kernel(shifted, may_alias=True), F32, F32, target=target)
        assert not is_strip_mined(xt.kernel(down), F32, target=target)
        assert not is_strip_mined(xt.kernel(of_columns), F32, F32, target=target)
    half = xt.Spec((None, None), "f16")
    assert not is_strip_mined(xt.kernel(shifted), half, half, target="pvc")  # all rows fit


@xt.kernel
def tall(X, Y, *, rows):
    """Rows less their sums, of any number."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (rows, BN)))
    xt.store_tile(x - xt.tile_reduce("add", x, 1), xt.init_tile(Y, (0, 0), (rows, BN)))


def test_many_rows_are_no_more_text() -> None:
    """A processor's compiler takes as many times longer for straight-line code of several rows."""
    sizes = [len(tall.lower(F32, F32, target="cpu", rows=rows).opencl) for rows in (8, 16, 64)]
    assert max(sizes) < 1.01 * sizes[0]


@pytest.mark.parametrize("target", ["pvc", "dg2"])
@pytest.mark.parametrize("kernel", [xt.kernel(shifted, may_alias=True), xt.kernel(down)], ids=["aliased", "down"])
def test_rows_that_are_stored_below_those_they_are_made_of(kernel: Any, target: str) -> None:
    """All rows are loaded before the first is stored."""
    x = integers(np.random.default_rng(5), np.float32, BM + 1, BN)
    result = x.copy()
    arrays = (result,) if len(kernel.parameters) == 1 else (result[:-1], result[1:])
    kernel.on("numpy:xegpu", target=target)[1](*arrays)
    top = x[:-1]
    np.testing.assert_array_equal(result[1:], top - top.sum(1, keepdims=True))
    np.testing.assert_array_equal(result[:1], x[:1])


def test_parsed_text_says_that_arrays_may_be_aliased() -> None:
    """The kernel's assumption changes with the attribute, also after the kernel was compiled."""
    parsed = xt.parse(str(xt.kernel(shifted).lower(F32, F32, target="pvc").xetile))["shifted"]
    assert is_strip_mined(parsed, F32, F32)
    parsed.may_alias = True
    assert not is_strip_mined(parsed, F32, F32)


@pytest.mark.everything
@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
@pytest.mark.parametrize("kernel", [centred, in_loops, momentum])
def test_machine_code_spills_nothing(kernel: Any, target: str) -> None:
    require_ocloc()
    specs = {"centred": (F32, F32, F32, F32, 3), "momentum": (F32, F32, F32, 3)}.get(kernel.__name__, (F32, F32))
    report = kernel.lower(*specs, target=target).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
