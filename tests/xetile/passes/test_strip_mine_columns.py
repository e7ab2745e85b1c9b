"""Strip mining of columns: results of loops over strips, where rows stay whole, and machine code without spills."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, first_stages, integers

pytestmark = pytest.mark.unoptimised
BN = 4096
F32 = xt.Spec((None, None), "f32")
EVERYWHERE = [*EXECUTIONS, Execution("machine:dg2", "dg2")]
ON_CPUS = [each for each in EXECUTIONS if each.target == "cpu"]


@xt.kernel
def chained(X, R, W, S, N, Y, first, *, BM=1):
    """Rows with a residual that is stored back, of whose maxima, and sums of what is left, a result is made."""
    m = xt.group_id(0) * BM
    at = xt.init_tile(R, (m, 0), (BM, BN))
    x = xt.load_tile(xt.init_tile(X, (m, 0), (BM, BN)), padding=-100.0).to(xt.f32) + xt.load_tile(at)
    xt.store_tile(x, at)
    top, bottom = xt.tile_reduce("max", x, 1), xt.tile_reduce("min", x, 1)
    less = xt.where(x < top - 3.0, x, top + bottom)
    total = xt.tile_reduce("add", less, 1)
    xt.store_tile(total * 2.0, xt.init_tile(S, (m, 0), (BM, 1)))
    w = xt.load_tile(xt.init_tile(W, (0, 0), (1, BN)))
    column = xt.iota((BM, BN), 1, xt.i32) + first.to(xt.i32)
    xt.store_tile(less * w + total + column.to(xt.f32), xt.init_tile(Y, (m, 0), (BM, BN)))
    count = xt.tile_reduce("add", xt.where(less > 0.0, 1.0, 0.0), 1)
    xt.store_tile(count, xt.init_tile(N, (m, 0), (BM, 1)))


def expected_of(x: Any, r: Any, w: Any, first: int) -> tuple[Any, ...]:
    width = x.shape[1]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, BN - width)), constant_values=-100)
    padded[:, :width] += r
    top, bottom = padded.max(1, keepdims=True), padded.min(1, keepdims=True)
    less = np.where(padded < top - 3, padded, top + bottom)
    total, count = less.sum(1, keepdims=True), (less > 0).sum(1, keepdims=True)
    y = less * np.pad(w, ((0, 0), (0, BN - width))) + total + np.arange(BN) + first
    return padded[:, :width], y[:, :width], total * 2, count


@pytest.mark.parametrize("execution", EVERYWHERE, ids=str)
@pytest.mark.parametrize(("dtype", "rows", "width", "height"), [
    (np.float32, 3, 4096, 1), (np.float16, 2, 4001, 1), (np.float32, 5, 3998, 2)], ids=str)
def test_rows_in_strips(execution: Execution, dtype: Any, rows: int, width: int, height: int) -> None:
    """Rows and columns beyond the array too, and rows of which a strip has several."""
    generator = np.random.default_rng(width)
    x, r, w = (integers(generator, kind, *shape) for kind, shape in (
        (dtype, (rows, width)), (np.float32, (rows, width)), (np.float32, (1, width))))
    whole, kept = np.full((rows + 2, width + 8), 7, np.float32), r.copy()
    sums, counts = (np.full((rows, 1), 7, np.float32) for _ in range(2))
    y = whole[1:-1, 4:-4]
    execution.bind(chained)[-(-rows // height)](x, kept, w, sums, counts, y, 3, BM=height)
    for found, expected in zip((kept, y, sums, counts), expected_of(x, r, w, 3), strict=True):
        np.testing.assert_array_equal(found, expected)
    whole[1:-1, 4:-4] = 7
    assert (whole == 7).all()


@xt.kernel
def at_last(X, S, N):
    """Positions of the largest elements, behind which no loop follows, and sums in a place that is stored twice."""
    x = xt.load_tile(xt.init_tile(X, (xt.group_id(0), 0), (1, BN)))
    top, sums = xt.tile_reduce("max", x, 1), xt.init_tile(S, (xt.group_id(0), 0), (1, 1))
    xt.store_tile(xt.tile_reduce("add", x - top, 1), sums)
    xt.store_tile(top, sums)
    place = xt.where(x == top, xt.iota((1, BN), 1, xt.i32).to(xt.f32), 1e9)
    xt.store_tile(xt.tile_reduce("min", place, 1).to(xt.i32), xt.init_tile(N, (xt.group_id(0), 0), (1, 1)))


@pytest.mark.parametrize("execution", EVERYWHERE, ids=str)
def test_columns_that_are_stored(execution: Execution) -> None:
    """Stores behind the last loop, and to one place, of which the last one stays."""
    x = integers(np.random.default_rng(6), np.float32, 2, BN - 9)
    x[:, :-5] -= 10
    sums, places = np.full((2, 1), 7, np.float32), np.full((2, 1), 7, np.int32)
    execution.bind(at_last)[2](x, sums, places)
    padded = np.pad(x, ((0, 0), (0, 9)))
    np.testing.assert_array_equal(sums, padded.max(1, keepdims=True))
    np.testing.assert_array_equal(places, padded.argmax(1)[:, None])


@xt.kernel
def mixed(X, S, Y, *, BM, columns):
    """Columns of any number, of any type, of which a sum and a largest one are kept."""
    m = xt.group_id(0) * BM
    x = xt.load_tile(xt.init_tile(X, (m, 0), (BM, columns)))
    total, top = xt.tile_reduce("add", x, 1), xt.tile_reduce("max", x, 1)
    xt.store_tile(total, xt.init_tile(S, (m, 0), (BM, 1)))
    xt.store_tile(xt.where(x < top, x, total), xt.init_tile(Y, (m, 0), (BM, columns)))


@pytest.mark.parametrize("execution", ON_CPUS, ids=str)
@pytest.mark.parametrize(("dtype", "columns", "height"), [
    (np.float16, 4001, 1), (ml_dtypes.bfloat16, 4096, 2), (np.float64, 2046, 1), (np.int8, 4097, 2),
    (np.uint32, 4016, 1)], ids=str)
def test_strips_that_are_left(execution: Execution, dtype: Any, columns: int, height: int) -> None:
    """Columns that are no whole strips, in part none of all lanes; sums of 16-bit floats are rounded once."""
    x = np.zeros((3, columns - 3), dtype)
    x[:, 5] = 100 if dtype is np.int8 else 2048
    x[:, 69::64] = 0.5 if np.dtype(dtype).kind not in "iu" else 1  # beside 2048 less than half of a f16's last place
    x[1, -1] = x[2, 0] = 3
    wide = np.int64 if np.dtype(dtype).kind in "iu" else np.float64
    total, y = x.astype(wide).sum(1, keepdims=True).astype(dtype), np.zeros_like(x)
    sums = np.zeros_like(total)
    execution.bind(mixed)[-(-3 // height)](x, sums, y, BM=height, columns=columns)
    np.testing.assert_array_equal(sums, total)
    np.testing.assert_array_equal(y, np.where(x < x.max(1, keepdims=True), x, total))


def test_long_rows_are_no_more_text() -> None:
    """A processor's compiler takes minutes for a row of 4096 elements in straight-line code, seconds for a loop."""
    sizes = [len(mixed.lower(F32, F32, F32, target="cpu", BM=1, columns=columns).opencl) for columns in (2048, 16384)]
    assert sizes[1] < 1.01 * sizes[0]


@xt.kernel
def short(X, Y):
    """A row of as many elements as stay in straight-line code."""
    x = xt.load_tile(xt.init_tile(X, (xt.group_id(0), 0), (1, 256)))
    xt.store_tile(x - xt.tile_reduce("add", x, 1), xt.init_tile(Y, (xt.group_id(0), 0), (1, 256)))


def is_strip_mined(kernel: Any, *specs: Any, target: str = "dg2", **constants: Any) -> bool:
    return "strip-mine-columns" in first_stages(kernel.lower(*specs, target=target, **constants))


def centred(X, Y, *, BM=1):  # type: ignore[no-untyped-def]
    """Rows less their sums."""
    x = xt.load_tile(xt.init_tile(X, (xt.group_id(0) * BM, 0), (BM, BN)))
    xt.store_tile(x - xt.tile_reduce("add", x, 1), xt.init_tile(Y, (xt.group_id(0) * BM, 0), (BM, BN)))


def shifted(X):  # type: ignore[no-untyped-def]
    """Rows in place, a column further on."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (1, BN)))
    xt.store_tile(x - xt.tile_reduce("add", x, 1), xt.init_tile(X, (0, 1), (1, BN)))


def loaded_again(X, Y):  # type: ignore[no-untyped-def]
    """A row that is overwritten, and loaded again."""
    at = xt.init_tile(X, (0, 0), (1, BN))
    x = xt.load_tile(at)
    xt.store_tile(x - xt.tile_reduce("max", x, 1), at)
    y = xt.load_tile(at)
    xt.store_tile(y - xt.tile_reduce("add", y, 1), xt.init_tile(Y, (0, 0), (1, BN)))


def counted(X, Y):  # type: ignore[no-untyped-def]
    """A number of the array that is overwritten."""
    at = xt.init_tile(X, (0, 0), (1, BN))
    x = xt.load_tile(at)
    xt.store_tile(x - xt.tile_reduce("add", x, 1), at)
    xt.store_tile(x - xt.load_scalar(X, (0, 0)), xt.init_tile(Y, (0, 0), (1, BN)))


def running(X, Y):  # type: ignore[no-untyped-def]
    """Sums of all columns in front of each."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (1, BN)))
    xt.store_tile(xt.cumsum(x, 1) - xt.tile_reduce("add", x, 1), xt.init_tile(Y, (0, 0), (1, BN)))


def test_where_it_applies() -> None:
    """Where rows exceed the registers; not where columns depend on each other, or what is loaded again may change."""
    for target in ("pvc", "bmg", "dg2", "arl"):
        assert is_strip_mined(xt.kernel(centred), F32, F32, target=target)
        assert is_strip_mined(xt.kernel(centred), F32, F32, target=target, BM=8)
    for kernel in (xt.kernel(centred, may_alias=True), *map(xt.kernel, (shifted, loaded_again, counted, running))):
        assert not is_strip_mined(kernel, *[F32] * kernel.function.__code__.co_argcount)
    assert is_strip_mined(xt.kernel(centred), F32, F32, target="cpu")
    assert not is_strip_mined(short, F32, F32, target="cpu")


@pytest.mark.parametrize("kernel", [shifted, loaded_again, counted])
def test_rows_that_stay_whole(kernel: Any) -> None:
    x = integers(np.random.default_rng(4), np.float32, 1, BN + 1)
    arrays = [x.copy(), np.zeros_like(x)][:kernel.__code__.co_argcount]
    expected = [array.copy() for array in arrays]
    kernel_ = xt.kernel(kernel)
    kernel_.on("numpy:xegpu", target="dg2")[1](*arrays)
    kernel_.on("numpy")[1](*expected)
    for found, right in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_rows_of_nan() -> None:
    """The largest of elements that are no numbers is none, else a number."""
    @xt.kernel
    def extremes(X, S, Y):
        x = xt.load_tile(xt.init_tile(X, (xt.group_id(0), 0), (1, BN)))
        largest, total = xt.tile_reduce("maxnumf", x, 1), xt.tile_reduce("add", x, 1)
        xt.store_tile(xt.where(x == x, largest, largest), xt.init_tile(Y, (xt.group_id(0), 0), (1, BN)))
        xt.store_tile(total, xt.init_tile(S, (xt.group_id(0), 0), (1, 1)))

    x = np.full((2, BN), np.nan, np.float32)
    x[1, 77] = 5
    sums, y = np.zeros((2, 1), np.float32), np.zeros_like(x)
    assert is_strip_mined(extremes, F32, F32, F32)
    extremes.on("numpy:xegpu", target="dg2")[2](x, sums, y)
    assert np.isnan(sums).all()
    assert np.isnan(y[0]).all()
    np.testing.assert_array_equal(y[1], 5)


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2", "arl"])
def test_machine_code_spills_nothing(target: str) -> None:
    require_ocloc()
    report = chained.lower(*[F32] * 6, 3, target=target).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
