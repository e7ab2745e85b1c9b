"""Indices that advance with a loop's counter: results, and what the loop still carries."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution

pytestmark = pytest.mark.unoptimised
BK = 16


@xt.kernel
def moved(A, rows, B, C, steps, first, *, at_once=1):
    """A[rows, first:] times blocks of B, of which the last comes first, and how far the loop came."""
    indices = xt.load_tile(xt.init_tile(rows, (xt.group_id(0) * 8,), (8,)))
    a = xt.init_tile(A, (indices, first), (8, BK))
    row, far, acc = B.shape[0] - BK, xt.scalar(0), xt.zeros((8, 16), xt.f32)
    for _ in xt.range(first, A.shape[1], BK, unroll=at_once):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(xt.init_tile(B, (row, 0), (BK, 16))), acc)
        a, row, far = xt.update_tile_offset(a, 0, BK), row - 2 * BK, far + 3 * BK
    xt.store_tile(acc, xt.init_tile(C, (xt.group_id(0) * 8, 0), (8, 16)))
    xt.store_tile(xt.full((1, 16), far.to(xt.i32), xt.i32), xt.init_tile(steps, (xt.group_id(0), 0), (1, 16)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, Execution("machine:pvc", "pvc")], ids=str)
@pytest.mark.parametrize(("columns", "first"), [(80, 0), (77, 5), (40, 40)])
def test_all_executions(execution: Execution, columns: int, first: int) -> None:
    """Rows out of bounds, columns from one that is no multiple, and a loop without a step."""
    rng = np.random.default_rng(columns)
    count = -(-(columns - first) // BK)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((30, columns), (2 * BK * max(count, 1), 16)))
    rows = np.array([3, 29, 0, 30, -1, 7, 7, 12, *range(8)], np.int32)
    c, steps = np.full((16, 16), 9, np.float32), np.full((2, 16), 9, np.int32)
    execution.bind(moved)[2](a, rows, b, c, steps, first)
    taken = np.where(((rows >= 0) & (rows < 30))[:, None], a[np.clip(rows, 0, 29)], 0).astype(np.int64)
    blocks = [taken[:, k:k + BK] @ b[len(b) - BK * (2 * step + 1):][:min(BK, columns - k)].astype(np.int64)
              for step, k in enumerate(range(first, columns, BK))]
    np.testing.assert_array_equal(c, sum(blocks, np.zeros((16, 16), np.int64)))
    assert (steps == 3 * BK * count).all()


def test_the_loop_carries_what_is_used_behind_it() -> None:
    half, wide = xt.Spec((None, None), "f16"), xt.Spec((None, None), "f32")
    lowered = moved.lower(half, xt.Spec((None,), "i32"), half, wide, xt.Spec((None, None), "i32"), 0, target="pvc")
    (loop,) = (line for line in lowered.stages["simplify-indvars"].splitlines() if "scf.for" in line)
    assert loop.split(" = ")[0].strip() == "%far, %acc"
    assert "load_rows" in lowered.xegpu  # of contiguous rows, without a mask
