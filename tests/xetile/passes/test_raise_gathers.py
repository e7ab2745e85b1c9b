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
BM, BN = 32, 64
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
    result = np.zeros((height, 2 * BN), a.dtype)
    for k in range(0, height, BM):
        with np.errstate(over="ignore"):
            rows = pattern(np.arange(BM, dtype=dtype), np.asarray(k, dtype)).astype(np.int64)
        for i, row in enumerate(rows[:height - k].tolist()):
            if 0 <= row < HEIGHT:
                columns = np.arange(2 * BN) + column
                inside = (columns >= 0) & (columns < WIDTH)
                result[k + i, inside] = a[row, columns[inside]]
    return result


def check(execution: Execution, pattern: str, *, element: Any = np.float16, dtype: Any = xt.i32,
          layout: tuple[int, int] = (1, 1), height: int = 70, column: int = 0) -> None:
    rng = np.random.default_rng(height)
    a = rng.integers(-100, 100, (HEIGHT, WIDTH)).astype(element)
    y = np.full((height + 1, 2 * BN), 9, element)
    make, _ = PATTERNS[pattern]
    execution.bind(copied)[2](a, y[:-1], pattern=make, column=column, dtype=dtype, layout=layout)
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
