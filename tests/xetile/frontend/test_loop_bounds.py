"""Loops whose bounds are at the ends of 32-bit integers, and steps that are not positive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution

pytestmark = pytest.mark.optimised  # an optimiser takes a counter never to overflow
TOP = 2**31


@xt.kernel
def visited(X: Any, Out: Any, start: xt.i32, stop: xt.i32, step: xt.i32, *, fixed: int, unroll: int) -> None:
    """The number of iterations, and the sum of what each loads."""
    tile = xt.init_tile(X, (0, 0), (1, 16))
    total = xt.load_tile(tile) * 0
    for k in xt.range(start, stop, fixed or step, unroll=unroll):
        total = total + xt.load_tile(xt.update_tile_offset(tile, 0, k % 1)) + (k % 7).to(xt.i32)
    xt.store_tile(total, xt.init_tile(Out, (0, 0), (1, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "run_time"])
@pytest.mark.parametrize("unroll", [1, 2])
def test_the_last_iteration_is_the_last(unroll: int, fixed: bool, execution: Execution) -> None:
    x = np.arange(1, 17, dtype=np.int32)[None]
    kernel = execution.bind(visited)
    bounds = [(TOP - 70, TOP - 1, 32), (TOP - 1, TOP - 1, 32), (0, TOP - 1, 1 << 29), (-TOP, TOP - 1, 1 << 30),
              (-TOP, -TOP + 5, 64), (5, -TOP, 64), (0, -TOP, 64), (3, 200, 64), (TOP - 3, TOP - 1, 1)]
    for start, stop, step in bounds:
        out = np.zeros((1, 16), np.int32)
        kernel[1](x, out, start, stop, step, fixed=step if fixed else 0, unroll=unroll)
        expected = sum(x + k % 7 for k in range(start, stop, step)) + x * 0
        np.testing.assert_array_equal(out, expected, err_msg=f"{start}, {stop}, {step}")


@xt.kernel
def columns(A: Any, B: Any, C: Any, stop: xt.i32, *, BK: int) -> None:
    """A product along ``stop`` columns of A, most of which do not exist."""
    total = xt.zeros((16, 16), xt.f32)
    for k in xt.range(0, stop, BK):
        total = xt.tile_mma(xt.load_tile(xt.init_tile(A, (0, k), (16, BK))),
                            xt.load_tile(xt.init_tile(B, (k, 0), (BK, 16))), total)
    xt.store_tile(total, xt.init_tile(C, (0, 0), (16, 16)))


@pytest.mark.parametrize("execution", [each for each in EXECUTIONS if each.where.startswith("opencl")], ids=str)
def test_a_negative_bound_of_a_product_runs_nothing(execution: Execution) -> None:
    a, b = np.ones((16, 64), np.float32), np.ones((64, 16), np.float32)
    kernel = execution.bind(columns)
    for stop in (-TOP, -TOP + 40, -1, 0):
        c = np.full((16, 16), 7, np.float32)
        kernel[1](a, b, c, stop, BK=16)
        np.testing.assert_array_equal(c, np.zeros((16, 16)))


@xt.kernel
def visited_while(Out: Any, stop: xt.i32, step: xt.i32, left: xt.i32) -> None:
    """The number of iterations of a loop with a condition, which holds long."""
    total = xt.zeros((1, 16), xt.i32)
    for _ in xt.range(0, stop, step, while_=lambda: left > 0):  # noqa: B023 - the loop sees what its body rebinds
        total = total + 1
        left = left - 1
    xt.store_tile(total, xt.init_tile(Out, (0, 0), (1, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("step", [0, -3])
def test_a_step_that_is_not_positive(step: int, execution: Execution) -> None:
    """No iteration anywhere."""
    x = np.ones((1, 16), np.int32)
    for unroll in (1, 2):
        out = np.full((1, 16), 5, np.int32)
        execution.bind(visited)[1](x, out, 0, 10, step, fixed=0, unroll=unroll)
        assert (out == 0).all()
    out = np.full((1, 16), 5, np.int32)
    execution.bind(visited_while)[1](out, 10, step, 99)
    assert (out == 0).all()


@xt.kernel
def own_steps(Out: Any) -> None:
    """The number of iterations with a step that differs between work-groups: -1, 0, 1, 2."""
    total = xt.zeros((1, 16), xt.i32)
    for _ in xt.range(0, 4, xt.group_id(0) - 1):
        total = total + 1
    xt.store_tile(total, xt.init_tile(Out, (xt.group_id(0), 0), (1, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_steps_of_either_sign(execution: Execution) -> None:
    out = np.full((4, 16), 9, np.int32)
    execution.bind(own_steps)[4](out)
    np.testing.assert_array_equal(out[:, 0], [0, 0, 4, 2])


def test_checks_find_a_step_that_is_not_positive() -> None:
    out = np.zeros((4, 16), np.int32)
    with pytest.raises(xt.XeError, match="the step of a loop is -1") as raised:
        own_steps.on("numpy", check=True)[4](out)
    assert raised.value.code == "XT1331"


TEXT = """
func.func @f(%A: memref<8x16xf32>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  scf.for %k = %c0 to %c8 step %c0 {
  }
  func.return
}
"""


def test_a_step_of_zero_in_text() -> None:
    with pytest.raises(xt.XeError) as raised:
        xt.parse(TEXT)
    assert raised.value.code == "XT1331"
