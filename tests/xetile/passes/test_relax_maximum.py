"""Maxima of rows that need not propagate NaN: results with NaN and infinities, and where maxima stay as they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_simulator
from tests.kernels import EXECUTIONS, Execution, first_stages

pytestmark = pytest.mark.unoptimised
ROWS, COLUMNS = 16, 32
F32 = xt.Spec((None, None), "f32")


@xt.kernel
def online(X, Y, T):
    """Sums of rows of 2 ** (x - the row's maximum), times ones by a product, and as they are: a loop along the rows."""
    largest, total = xt.full((ROWS, 1), -math.inf, xt.f32), xt.zeros((ROWS, 1), xt.f32)
    out = xt.zeros((ROWS, 16), xt.f32)
    for n in xt.range(0, X.shape[1], COLUMNS):
        s = xt.load_tile(xt.init_tile(X, (0, n), (ROWS, COLUMNS)), padding=-math.inf)
        above = xt.maximum(largest, xt.tile_reduce("max", s, 1))
        p, shrink = xt.exp2(s - above), xt.exp2(largest - above)
        total = total * shrink + xt.tile_reduce("add", p, 1)
        out = xt.tile_mma(p.to(xt.bf16), xt.full((COLUMNS, 16), 1.0, xt.bf16), out * shrink)
        largest = above
    xt.store_tile(out, xt.init_tile(Y, (0, 0), (ROWS, 16)))
    xt.store_tile(total + largest, xt.init_tile(T, (0, 0), (ROWS, 1)))


@xt.kernel
def softmax(X, Y):
    """Softmax of rows of one tile."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (ROWS, COLUMNS)))
    p = xt.exp2(x - xt.tile_reduce("max", x, 1))
    xt.store_tile(p / xt.tile_reduce("add", p, 1), xt.init_tile(Y, (0, 0), (ROWS, COLUMNS)))


@xt.kernel(fast_math=True)
def contracted(X, Y):
    """Softmax of twice the rows: the maximum is of a product that exponents have not been given."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (ROWS, COLUMNS))) * 2.0
    p = xt.exp2(x - xt.tile_reduce("max", x, 1))
    xt.store_tile(p / xt.tile_reduce("add", p, 1), xt.init_tile(Y, (0, 0), (ROWS, COLUMNS)))


@xt.kernel(fast_math=True)
def scaled(X, T, scale):
    """Sums of 2 ** (scaled x - the row's maximum), and these: the scale is known at run time."""
    largest, total = xt.full((ROWS, 1), -math.inf, xt.f32), xt.full((ROWS, 1), 1.0, xt.f32)
    for n in xt.range(0, X.shape[1], COLUMNS):
        s = xt.load_tile(xt.init_tile(X, (0, n), (ROWS, COLUMNS)))
        above = xt.maximum(largest, xt.tile_reduce("max", s, 1) * scale)
        total = total * xt.exp2(largest - above) + xt.tile_reduce("add", xt.exp2(s * scale - above), 1)
        largest = above
    xt.store_tile(total + largest, xt.init_tile(T, (0, 0), (ROWS, 1)))


@xt.kernel(fast_math=True)
def unscaled(X, T, scale):
    """The same, where what is summed does not show that a maximum has become NaN."""
    largest, total = xt.full((ROWS, 1), -math.inf, xt.f32), xt.full((ROWS, 1), 1.0, xt.f32)
    for n in xt.range(0, X.shape[1], COLUMNS):
        s = xt.load_tile(xt.init_tile(X, (0, n), (ROWS, COLUMNS)))
        above = xt.maximum(largest, xt.tile_reduce("max", s, 1) * scale)
        total = total + xt.tile_reduce("add", xt.exp2(s - above), 1)
        largest = above
    xt.store_tile(total, xt.init_tile(T, (0, 0), (ROWS, 1)))


@xt.kernel
def overflowing(X, T, scale, *, factor):
    """The same, where rows are made larger by a number before their maximum is taken, and not in what is summed."""
    largest, total = xt.full((ROWS, 1), -math.inf, xt.f32), xt.full((ROWS, 1), 1.0, xt.f32)
    for n in xt.range(0, X.shape[1], COLUMNS):
        s = xt.load_tile(xt.init_tile(X, (0, n), (ROWS, COLUMNS)))
        above = xt.maximum(largest, xt.tile_reduce("max", s * factor, 1) * scale)
        total = total * xt.exp2(largest - above) + xt.tile_reduce("add", xt.exp2(s * scale - above), 1)
        largest = above
    xt.store_tile(total, xt.init_tile(T, (0, 0), (ROWS, 1)))


@xt.kernel(fast_math=True)
def extremes(X, Y, *, rows=ROWS, factor=1.0):
    """Maxima of multiples of rows, and sums of 2 ** (a multiple - the maximum): of negative ones those of minima."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (rows, COLUMNS))) * factor
    above = xt.tile_reduce("max", x, 1)
    xt.store_tile(xt.tile_reduce("add", xt.exp2(x - above), 1) + above, xt.init_tile(Y, (0, 0), (rows, 1)))


@xt.kernel
def distances(X, Y):
    """Distances from the rows' maxima: a NaN shows in all of its row."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (ROWS, COLUMNS)))
    xt.store_tile(x - xt.tile_reduce("max", x, 1), xt.init_tile(Y, (0, 0), (ROWS, COLUMNS)))


@xt.kernel
def chosen(X, Y):
    """Sums of rows of softmax, where their maximum is under 3: a comparison with NaN decides."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (ROWS, COLUMNS)))
    above = xt.tile_reduce("max", x, 1)
    total = xt.tile_reduce("add", xt.exp2(x - above), 1)
    xt.store_tile(xt.where(above < 3.0, total, 0.0), xt.init_tile(Y, (0, 0), (ROWS, 1)))


@xt.kernel
def other_start(X, M, Y):
    """A running maximum whose first value comes from memory, and may be NaN."""
    largest, total = xt.load_tile(xt.init_tile(M, (0, 0), (ROWS, 1))), xt.zeros((ROWS, 1), xt.f32)
    for n in xt.range(0, X.shape[1], COLUMNS):
        s = xt.load_tile(xt.init_tile(X, (0, n), (ROWS, COLUMNS)))
        above = xt.maximum(largest, xt.tile_reduce("max", s, 1))
        total = total + xt.tile_reduce("add", xt.exp2(s - above), 1)
        largest = above
    xt.store_tile(total, xt.init_tile(Y, (0, 0), (ROWS, 1)))


@xt.kernel
def in_two_loops(X, Y):
    """Softmax of long rows: a loop for maxima and sums, and one that divides."""
    largest, total = xt.full((ROWS, 1), -math.inf, xt.f32), xt.zeros((ROWS, 1), xt.f32)
    for n in xt.range(0, X.shape[1], COLUMNS):
        s = xt.load_tile(xt.init_tile(X, (0, n), (ROWS, COLUMNS)), padding=-math.inf)
        above = xt.maximum(largest, xt.tile_reduce("max", s, 1))
        total = total * xt.exp2(largest - above) + xt.tile_reduce("add", xt.exp2(s - above), 1)
        largest = above
    for n in xt.range(0, X.shape[1], COLUMNS):
        p = xt.exp2(xt.load_tile(xt.init_tile(X, (0, n), (ROWS, COLUMNS))) - largest)
        xt.store_tile(p / total, xt.init_tile(Y, (0, n), (ROWS, COLUMNS)))


def _numbers(columns: int) -> Any:
    """Small integers, with NaN in the first, a later and the last step of a row, and infinities."""
    x = np.random.default_rng(3).integers(-3, 4, (ROWS, columns)).astype(np.float32)
    x[1, 3] = x[4, -1] = x[6, columns // 2] = x[7, 0] = x[7, 1] = np.nan
    x[2, 5], x[3, 7], x[8] = np.inf, -np.inf, -np.inf
    x[9, 0], x[9, -1] = np.inf, np.nan
    return x


@np.errstate(invalid="ignore")
def _weights(x: Any) -> Any:
    return np.exp2(x - x.max(axis=1, keepdims=True))  # propagates NaN


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("columns", [COLUMNS, 4 * COLUMNS])
def test_a_loop_with_nan(execution: Execution, columns: int) -> None:
    """Rows with a NaN are NaN, in every column, whatever comes behind it; others are exact."""
    x = _numbers(columns)
    y, t = np.zeros((ROWS, 16), np.float32), np.zeros((ROWS, 1), np.float32)
    execution.bind(online)[1](x, y, t)
    total = _weights(x).sum(axis=1, keepdims=True)
    total[8] = np.nan  # infinity less infinity
    np.testing.assert_array_equal(t, total + x.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(y, np.broadcast_to(total, y.shape))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("kernel", [softmax, contracted, distances, chosen, other_start],
                         ids=lambda kernel: str(kernel.name))
def test_what_shows_a_nan(execution: Execution, kernel: Any) -> None:
    """Kernels that may not be relaxed are as exact as the one that is."""
    x = _numbers(COLUMNS)
    above, p, twice = x.max(axis=1, keepdims=True), _weights(x), _weights(2 * x)
    first = np.full((ROWS, 1), -5, np.float32)
    first[10:12] = np.nan
    with np.errstate(invalid="ignore"):
        late = np.exp2(x - np.maximum(above, first)).sum(axis=1, keepdims=True)
        expected = {softmax: p / p.sum(axis=1, keepdims=True), distances: x - above, other_start: late,
                    contracted: twice / twice.sum(axis=1, keepdims=True),
                    chosen: np.where(above < 3, p.sum(axis=1, keepdims=True), 0)}[kernel]
    y = np.zeros(expected.shape, np.float32)
    execution.bind(kernel)[1](x, *([first] if kernel is other_start else []), y)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("factor", [1.0, -2.0])
@pytest.mark.parametrize("rows", [16, 8])
def test_extremes_of_either_sign(execution: Execution, rows: int, factor: float) -> None:
    """All negative, all positive, mixed, zeros and infinities: each column has the extreme of some row."""
    rng = np.random.default_rng(rows)
    kinds = [rng.integers(low, high, (rows // 4, COLUMNS)) for low, high in ((-9, -1), (2, 9), (-4, 5), (-7, 1))]
    for turn in range(COLUMNS // rows):
        x = np.concatenate(kinds).astype(np.float32)
        x[np.arange(rows), np.arange(rows) + turn * rows] = x.max(axis=1) + 1 if factor > 0 else x.min(axis=1) - 1
        x[-1], x[-2, 3:6] = -np.abs(x[-1]) * 0.0, -np.inf if factor > 0 else np.inf
        y = np.zeros((rows, 1), np.float32)
        execution.bind(extremes)[1](x, y, rows=rows, factor=factor)
        scaled = x * np.float32(factor)
        above = scaled.max(axis=1, keepdims=True)
        np.testing.assert_array_equal(y, np.exp2(scaled - above).sum(axis=1, keepdims=True) + above)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("scale", [2.0, 0.0, math.inf, math.nan])
def test_a_scale_of_run_time(execution: Execution, scale: float) -> None:
    """A scale that makes NaN of a row's maximum makes one of the row, and shows in the sums."""
    x = _numbers(3 * COLUMNS)
    largest, total = np.full((ROWS, 1), -np.inf), np.ones((ROWS, 1))
    with np.errstate(invalid="ignore"):
        for part in np.split(x.astype(np.float64), 3, axis=1):
            above = np.maximum(largest, part.max(axis=1, keepdims=True) * scale)
            total = total * np.exp2(largest - above) + np.exp2(part * scale - above).sum(axis=1, keepdims=True)
            largest = above
    t = np.zeros((ROWS, 1), np.float32)
    execution.bind(scaled)[1](x, t, scale)
    np.testing.assert_allclose(t, total + largest, rtol=1e-6)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_scale_of_rows_that_overflow(execution: Execution) -> None:
    """A maximum that is NaN only since its row overflowed before it was scaled shows in the sums."""
    x, t = np.full((ROWS, 2 * COLUMNS), 1.0, np.float32), np.zeros((ROWS, 1), np.float32)
    x[3, 5] = x[4, -1] = 2.0**100
    execution.bind(overflowing)[1](x, t, 0.0, factor=2.0**100)
    np.testing.assert_array_equal(t, np.where(np.isin(np.arange(ROWS)[:, None], (3, 4)), np.nan, 2 * COLUMNS))


def test_a_running_maximum_of_scaled_rows_is_relaxed_if_sums_show_the_scale() -> None:
    text = scaled.lower(F32, F32, 0.5, target="pvc").stages["relax-maximum"]
    assert "maximumf" not in str(text)
    text = str(unscaled.lower(F32, F32, 0.5, target="pvc").stages["relax-maximum"])  # the maximum of a step alone
    assert "tile_reduce <maxnumf>" in text
    assert "arith.maximumf" in text


def test_maxima_of_numbers_are_of_bits() -> None:
    """Kernels whose maximum is the largest number, also where one is NaN, combine floats."""
    f16 = xt.Spec((None, None), "f16")
    assert "max_d_of_16_rows" in softmax.lower(F32, F32, target="bmg").opencl
    assert "max_d_of_8_rows" in extremes.lower(F32, F32, target="pvc", rows=8).opencl
    assert "max_ud_of_16_rows" in extremes.lower(F32, F32, target="pvc", factor=-2.0).opencl
    assert "max_d_of_16_rows" in softmax.lower(f16, f16, target="pvc").opencl
    assert "max_d_of" not in distances.lower(F32, F32, target="pvc").opencl
    assert "max_d_of" not in softmax.lower(F32, F32, target="dg2").opencl


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_softmax_in_two_loops(execution: Execution) -> None:
    x = _numbers(3 * COLUMNS)
    y, p = np.zeros(x.shape, np.float32), _weights(x)
    execution.bind(in_two_loops)[1](x, y)
    expected = p / p.sum(axis=1, keepdims=True)
    expected[8] = np.nan
    np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize(("kernel", "relaxed"), [(softmax, 1), (contracted, 1), (in_two_loops, 2), (distances, 0),
                                                 (chosen, 0)],
                         ids=lambda value: str(getattr(value, "name", value)))
def test_which_maxima_are_relaxed(kernel: Any, relaxed: int) -> None:
    text = first_stages(kernel.lower(F32, F32, target="pvc")).get("relax-maximum", "")
    assert text.count("maxnumf") == relaxed


def test_a_running_maximum_is_relaxed_if_it_starts_as_a_number() -> None:
    text = online.lower(F32, F32, F32, target="pvc").stages["relax-maximum"]
    assert text.count("maxnumf") == 2
    assert "maximumf" not in text
    text = other_start.lower(F32, F32, F32, target="pvc").stages["relax-maximum"]  # the maximum of a step alone
    assert "tile_reduce <maxnumf>" in text
    assert "arith.maximumf" in text


@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_every_stage_reads_back_with_its_flag(target: str) -> None:
    x = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) % 7
    lowered = softmax.lower(F32, F32, target=target)
    flagged = [name for name, text in lowered.stages.items() if "nnan" in text]
    assert {"relax-maximum", "blocking", "legalize"} <= {*flagged}
    p = np.exp2(x - x.max(axis=1, keepdims=True))
    for name in flagged:
        read, y = xt.parse(lowered.stages[name])["softmax"], np.zeros_like(x)
        assert "nnan" in read.lower(x, y, target=target).xegpu
        read.on("numpy:xegpu", target=target)[1](x, y)
        np.testing.assert_allclose(y, p / p.sum(axis=1, keepdims=True), rtol=1e-6)


EXTREMES = """func.func @extremes(%A: memref<16x16xf32>, %C: memref<16x1xf32>) {
  %zero = arith.constant 0 : index
  %ta = xetile.init_tile %A[%zero, %zero] : memref<16x16xf32> -> !xetile.tile<16x16xf32>
  %v = xetile.load_tile %ta : !xetile.tile<16x16xf32> -> vector<16x16xf32>
  %m = xetile.tile_reduce <KIND> %v [1] {nnan} : vector<16x16xf32> -> vector<16x1xf32>
  %tc = xetile.init_tile %C[%zero, %zero] : memref<16x1xf32> -> !xetile.tile<16x1xf32>
  xetile.store_tile %m, %tc : vector<16x1xf32>, !xetile.tile<16x1xf32>
  return
}"""


@pytest.mark.parametrize("gpu", ["pvc", "bmg"])
def test_extremes_by_the_bits_of_numbers(gpu: str) -> None:
    """Of rows of negative numbers, of positive ones and of both: softmax is the same with another number of the row."""
    require_simulator()
    a = np.random.default_rng(3).integers(1, 99, (16, 16)).astype(np.float32)
    a[::2] *= -1
    a[1::4, 3:9] *= -1
    for kind, expected in (("maxnumf", a.max(axis=1)), ("minnumf", a.min(axis=1))):
        c = np.zeros((16, 1), np.float32)
        xt.parse(EXTREMES.replace("KIND", kind))["extremes"].on(f"machine:{gpu}")[1](a, c)
        np.testing.assert_array_equal(c[:, 0], expected)
