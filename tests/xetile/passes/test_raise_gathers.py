"""Gathers of rows that are affine in positions: exact in all executions, whatever rows there are, and block loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, FEW, Execution, first_stages

pytestmark = pytest.mark.unoptimised
BM, BN = 32, 32
HEIGHT, WIDTH = 43, 80

PATTERNS: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "words of eight rows": (lambda i, k: (i + k) // 8, True),
    "shifted": (lambda i, k: (k + i >> 2) + 5, True),
    "negative quotients": (lambda i, k: (i - 5 - k) // 4 + 3, True),
    "in front and behind": (lambda i, k: i - 9 + k + k, True),
    "every second": (lambda i, k: 2 * i + k - 4, True),
    "remainders": (lambda i, k: (i + k) % 8 + k, True),
    "masked": (lambda i, k: (i + k & 15) + 2, True),
    "from the last": (lambda i, k: 40 - i - k, True),
    "quotients of quotients": (lambda i, k: (i + k) // 4 // 2 * 8 + (i + k) // 16, True),
    "every third": (lambda i, k: 3 * i + k, False),
    "of no multiple": (lambda i, k: (i + k + 3 * k // 32) // 8, False),
    "squares": (lambda i, k: i * (k + 1), False),
}
"""Row numbers of positions and of a loop's counter, and whether they are those of a block."""


@xt.kernel
def copied(A, Y, *, pattern, column=0, dtype=xt.i32, layout=(1, 1)):
    """Rows of A in steps of 32, from a column before that of Y."""
    n = xt.group_id(0) * BN
    down, across = layout
    size = BM // down, BN // across
    map_, map_r = xt.wg_map(layout, size), xt.wg_map(layout, (size[0], 1))
    for k in xt.range(0, Y.shape[0], BM):
        rows = pattern(xt.iota((BM, 1), 0, dtype, wg_map=map_r), k.to(dtype))
        v = xt.load_tile(xt.init_tile(A, (rows, n + column), (BM, BN), wg_map=map_))
        xt.store_tile(v, xt.init_tile(Y, (k, n), (BM, BN), wg_map=map_))


def expected(a: Any, pattern: Callable[[Any, Any], Any], dtype: Any, height: int, column: int) -> Any:
    """Rows of an array, zeros where it has none."""
    result = np.zeros((height, 3 * BN), a.dtype)
    for k in range(0, height, BM):
        with np.errstate(over="ignore"):
            rows = pattern(np.arange(BM, dtype=dtype), np.asarray(k, dtype)).astype(np.int64)
        for i, row in enumerate(rows[:height - k].tolist()):
            if 0 <= row < HEIGHT:
                columns = np.arange(3 * BN) + column
                inside = (columns >= 0) & (columns < WIDTH)
                result[k + i, inside] = a[row, columns[inside]]
    return result


def check(execution: Execution, pattern: str, *, element: Any = np.float16, dtype: Any = xt.i32,
          layout: tuple[int, int] = (1, 1), height: int = 70, column: int = 0) -> None:
    rng = np.random.default_rng(height)
    a = rng.integers(-100, 100, (HEIGHT, WIDTH)).astype(element)
    y = np.full((height + 1, 3 * BN), 9, element)
    make, _ = PATTERNS[pattern]
    execution.bind(copied)[3](a, y[:-1], pattern=make, column=column, dtype=dtype, layout=layout)
    number = np.int64 if dtype is xt.index else dtype.numpy
    np.testing.assert_array_equal(y[:-1], expected(a, make, number, height, column))
    assert (y[-1] == 9).all()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("element", "column"), [(np.float16, -8), (ml_dtypes.bfloat16, 0), (np.int32, 3),
                                                 (np.uint8, 16), (np.float16, 1)])
def test_patterns(execution: Execution, pattern: str, element: Any, column: int) -> None:
    check(execution, pattern, element=element, column=column)


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize("dtype", [xt.index, xt.i64, xt.u64, xt.u32], ids=str)
@pytest.mark.parametrize("pattern", ["words of eight rows", "in front and behind", "negative quotients",
                                     "from the last"])
def test_index_types(execution: Execution, dtype: Any, pattern: str) -> None:
    """Numbers without a sign that are below zero are behind the last row."""
    check(execution, pattern, dtype=dtype)


@pytest.mark.parametrize("execution", FEW, ids=str)
@pytest.mark.parametrize("layout", [(4, 1), (2, 2), (1, 2)])
@pytest.mark.parametrize("pattern", ["words of eight rows", "remainders", "negative quotients"])
def test_several_subgroups(execution: Execution, layout: tuple[int, int], pattern: str) -> None:
    check(execution, pattern, layout=layout)


@pytest.mark.parametrize(("pattern", "raised"), [(name, raised) for name, (_, raised) in PATTERNS.items()])
def test_what_is_raised(pattern: str, raised: bool) -> None:
    matrix = xt.Spec((None, None), "f16")
    text = first_stages(copied.lower(matrix, matrix, target="pvc", pattern=PATTERNS[pattern][0]))
    last = [*text.values()][-1]
    assert ("load_gather" not in last) == raised


NUMBERS = (3, 128, 255, 259, -1, 65540, 32768, 40)
NARROWED = ((), (xt.i8,), (xt.u8,), (xt.i16,), (xt.u16, xt.i32), (xt.i64,), (xt.index, xt.i8))


@xt.kernel
def from_numbers(A, N, Y):
    """Rows from a number in memory on, as it is, and as conversions leave it."""
    for place, types in enumerate(NARROWED):
        first = xt.load_scalar(N, xt.group_id(0))
        for dtype in types:
            first = first.to(dtype)
        rows = xt.iota((8, 1)) + first.to(xt.i32)
        tile = xt.init_tile(Y, (place, xt.group_id(0) * 8, 0), (8, 32))
        xt.store_tile(xt.load_tile(xt.init_tile(A, (rows, 0), (8, 32))), tile)


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_numbers_of_run_time(execution: Execution) -> None:
    """Bits that a narrower type cuts off a run-time number stay lost."""
    a = np.random.default_rng(8).integers(-100, 100, (140, 32)).astype(np.int32)
    first, y = np.array(NUMBERS, np.int32), np.full((len(NARROWED), 8 * len(NUMBERS), 32), 9, np.int32)
    execution.bind(from_numbers)[len(NUMBERS)](a, first, y)
    for types, found in zip(NARROWED, y, strict=True):
        narrowed = first
        for dtype in types:
            narrowed = narrowed.astype(np.int64 if dtype is xt.index else dtype.numpy)
        rows = (narrowed.astype(np.int64)[:, None] + np.arange(8)).ravel()
        inside = (rows >= 0) & (rows < len(a))
        np.testing.assert_array_equal(found, np.where(inside[:, None], a[np.where(inside, rows, 0)], 0))


@xt.kernel
def four_bits(A, W, S, Z, C, *, form, layout=(1, 1), BK=32):
    """A @ ((W - Z) * S), eight rows of weights in a word: words of rows, of a tile that moves, or each by itself."""
    down, across = layout
    n, width = xt.group_id(0) * BN, BN // across
    map_a, map_b, map_c = (xt.wg_map(layout, size) for size in ((16, BK), (BK, width), (16, width)))
    map_k, map_n = xt.wg_map(layout, (BK, 1)), xt.wg_map(layout, (1, width))
    acc, i = xt.zeros((16 * down, BN), xt.f32, wg_map=map_c), xt.iota((BK, 1), wg_map=map_k)
    tile = xt.init_tile(W, (i // 8, n), (BK, BN), wg_map=map_b)
    columns = xt.iota((1, BN), 1, xt.index, wg_map=map_n) + n
    whole = xt.full((BK, BN), True, xt.i1, wg_map=map_b)
    for k in xt.range(0, A.shape[1], BK):
        rows = (i + k.to(xt.i32)) // 8
        if form == "elements":
            rows, all_columns = rows.to(xt.index), xt.full((BK, BN), 0, xt.index, wg_map=map_b) + columns
            at, there = rows * W.strides[0] + all_columns, (rows < W.shape[0]) & (all_columns < W.shape[1]) & whole
            words = xt.load_gather(xt.init_tile(W, at), there)
        else:
            words = xt.load_tile(xt.init_tile(W, (rows, n), (BK, BN), wg_map=map_b) if form == "rows" else tile)
        tile = xt.update_tile_offset(tile, BK // 8, 0)
        scale, zero = (xt.load_tile(xt.init_tile(T, (k // 64, n), (1, BN), wg_map=map_n)) for T in (S, Z))
        weights = ((words >> (i % 8 * 4).to(W.dtype)) & 15).to(A.dtype)
        a = xt.load_tile(xt.init_tile(A, (0, k), (16 * down, BK), wg_map=map_a))
        acc = xt.tile_mma(a, (weights - zero) * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (0, n), (16 * down, BN), wg_map=map_c))


FORMS = ("rows", "moved", "elements")


@pytest.mark.parametrize("execution", [*FEW, Execution("machine:pvc", "pvc")], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("layout", "depth"), [((1, 1), 128), ((2, 2), 77)])
@pytest.mark.parametrize("type_", [np.int32, np.uint32])
def test_words_of_four_bits(execution: Execution, form: str, layout: tuple[int, int], depth: int, type_: Any) -> None:
    """Sign bits, words that end with the last rows, and columns behind the last one."""
    rng, columns = np.random.default_rng(depth), 120
    weights = rng.integers(0, 16, (-(-depth // 8) * 8, columns))
    packed = (weights.reshape(-1, 8, columns) << 4 * np.arange(8)[:, None]).sum(1)
    words = packed.astype(np.uint32).view(type_)
    a = rng.integers(-3, 4, (16 * layout[0], depth)).astype(np.float16)
    scale, zero = (rng.integers(1, high, (2, columns)).astype(np.float16) for high in (3, 16))
    c = np.full((16 * layout[0], columns), 7, np.float32)
    execution.bind(four_bits)[4](a, words, scale, zero, c, form=form, layout=layout)
    group = np.arange(depth) // 64
    np.testing.assert_array_equal(c, a.astype(np.int64) @ ((weights[:depth] - zero[group]) * scale[group]))


@pytest.mark.parametrize("form", FORMS)
def test_words_become_weights_in_registers(form: str) -> None:
    half, wide = xt.Spec((None, None), "f16"), xt.Spec((None, None), "f32")
    lowered = four_bits.lower(half, xt.Spec((None, None), "i32"), half, half, wide, target="pvc", form=form)
    text = lowered.stages["distribute-lanes"]
    assert "xegpu.dequantize" in text
    assert not any(word in text for word in ("load_gather", "xegpu.pack "))


@xt.kernel
def named(A, index, B, C, Y, first, *, BK=32, rows):
    """Rows of A that an index vector names, times B, and those of B by the same, in steps of rows; copied, too."""
    acc, p, q = xt.zeros((16, 16), xt.f32), xt.iota((16, 1)), xt.iota((BK, 1))
    of_a = xt.load_tile(xt.init_tile(index, (0, 0), (16, 1)))
    for k in xt.range(0, A.shape[1], BK):
        a = xt.load_tile(xt.init_tile(A, (rows(of_a, p.to(index.dtype)), k), (16, BK)))
        acc = xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (k, 0), (BK, 16))), acc)
    for n in xt.range(0, index.shape[0], BK):
        of_b = xt.load_tile(xt.init_tile(index, (n, 0), (BK, 1)))
        a = xt.load_tile(xt.init_tile(A, (0, n), (16, BK)))
        acc = xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (rows(of_b, q.to(index.dtype)), first), (BK, 16))), acc)
    xt.store_tile(acc, xt.init_tile(C, (0, 0), (16, 16)))
    xt.store_tile(xt.load_tile(xt.init_tile(A, (rows(of_a, p.to(index.dtype)), first), (16, BK)), padding=5),
                  xt.init_tile(Y, (0, 0), (16, BK)))


NAMED: dict[str, Callable[[Any, Any], Any]] = {
    "as they are": lambda i, p: i,
    "some rows on": lambda i, p: i + 3 - p % 2,
    "of quotients": lambda i, p: i // 2 + 1,
    "of two vectors": lambda i, p: i + (i >> 1),
}


@pytest.mark.parametrize("execution", [*EXECUTIONS, Execution("machine:dg2", "dg2")], ids=str)
@pytest.mark.parametrize(("pattern", "width", "first", "type_"), [
    ("as they are", 64, 0, np.int32), ("as they are", 70, 2, np.int64), ("some rows on", 51, 3, np.int32),
    ("of quotients", 64, -2, np.int32), ("of two vectors", 40, 16, np.int16)])
@pytest.mark.parametrize("inside", [True, False])
def test_named_rows(execution: Execution, pattern: str, width: int, first: int, type_: Any, inside: bool) -> None:
    """Rows in bounds, in front and behind; of any pitch, from any column on."""
    rng = np.random.default_rng(width)
    a, b = (rng.integers(-3, 4, (height, columns)).astype(ml_dtypes.bfloat16) for height, columns in (
        (60, width), (64, 33)))
    index = rng.integers(0, 30, (64, 1)).astype(type_)
    if not inside:
        index[:20:3, 0] = [-1, 63, 59, -20, 44, 100, 0]
    c, y = np.zeros((16, 16), np.float32), np.full((17, 32), 9, ml_dtypes.bfloat16)
    execution.bind(named)[1](a, index, b, c, y[:-1], first, rows=NAMED[pattern])
    at, of_b = (NAMED[pattern](index[:count].astype(np.int64)[:, 0], np.arange(count) % 32) for count in (16, 64))
    framed = np.zeros((64, 256))
    framed[:, 64:64 + 33] = b
    wide, whole = np.zeros((60, 256)), np.zeros((16, 256))
    wide[:, 64:64 + width] = a
    whole[:, :width] = a[:16]
    expected = picked(a, at, 0) @ np.pad(b, ((0, 192), (0, 0)))[:width, :16].astype(np.float64)
    expected += whole[:, :64] @ picked(framed, of_b, 0)[:, 64 + first:80 + first]
    np.testing.assert_array_equal(c, expected)
    copied_ = picked(wide, at, 5)[:, 64 + first:96 + first]
    beyond = (np.arange(32) + first < 0) | (np.arange(32) + first >= width)
    copied_[:, beyond] = 5
    np.testing.assert_array_equal(y[:-1].astype(np.float64), copied_)
    assert (y[-1] == 9).all()


def picked(table: Any, rows: Any, padding: int) -> Any:
    """Rows of a table, and padding for those that it has not."""
    inside = (rows >= 0) & (rows < len(table))
    return np.where(inside[:, None], table[np.where(inside, rows, 0)].astype(np.float64), padding)


def test_named_rows_are_loaded_one_by_one() -> None:
    """Where there is no 2D block IO: a row by a block read, and no element by itself."""
    matrix, wide = xt.Spec((None, None), "bf16"), xt.Spec((None, None), "f32")
    for pattern in NAMED.values():
        lowered = named.lower(matrix, xt.Spec((None, 1), "i32"), matrix, wide, matrix, 0, target="dg2",
                              rows=pattern)
        assert "load_gather" not in lowered.stages["distribute-lanes"]
        before_loops = lowered.stages["raise-gathers"].split("scf.for")[0]
        assert before_loops.count("extract_scalar") >= 16


@xt.kernel
def columns_of_rows(A, index, Y):
    """16 columns of each row from one on that the row's number says."""
    rows, there = xt.iota((16, 1), 0, xt.index), xt.full((16, 16), True, xt.i1)
    first = xt.load_tile(xt.init_tile(index, (0, 0), (16, 1))).to(xt.index)
    at, zeros = xt.iota((1, 16), 1, xt.index) + first, xt.full((16, 16), 0, xt.index)
    inside = there & (at < A.shape[1]) & (at >= 0) & (rows + zeros < A.shape[0])
    xt.store_tile(xt.load_gather(xt.init_tile(A, rows * A.strides[0] + at), inside), xt.init_tile(Y, (0, 0), (16, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_named_columns_stay_gathers(execution: Execution) -> None:
    a = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    index, y = np.random.default_rng(3).integers(0, 60, (16, 1)).astype(np.int32), np.zeros((16, 16), np.float32)
    execution.bind(columns_of_rows)[1](a, index, y)
    at = index + np.arange(16)
    np.testing.assert_array_equal(y, np.where(at < 64, a[np.arange(16)[:, None], at.clip(0, 63)], 0))
