"""Loops with a condition and early exits: ``xt.while_``, ``xt.range(while_=)`` and ``xt.return_if`` against Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Bordered, Execution, integers
from xegpu.support.errors import XeError

pytestmark = pytest.mark.unoptimised

PROGRAM = Execution("numpy:program", "pvc")
EVERYWHERE = [*EXECUTIONS, PROGRAM]


def run(kernel: Any, execution: Execution, groups: int, *arrays: Any) -> None:
    (kernel.on("numpy:program") if execution is PROGRAM else execution.bind(kernel))[groups](*arrays)


@xt.kernel
def collatz(X: Any, Y: Any, N: Any) -> None:
    g = xt.group_id(0)
    x, n, steps = xt.load_tile(xt.init_tile(X, (g * 8, 0), (8, 16))), xt.load_scalar(N, (0, g)), xt.scalar(0)
    previous = x * 0.0
    for _ in xt.while_(lambda: n > 1):
        x, previous = x + 1.0, x
        n = xt.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps = steps + 1
    with xt.when(steps > 5):
        for k in xt.range(0, 100, 3, while_=lambda: steps < 50):
            steps = steps + k.to(xt.index)
    xt.store_tile(x - previous * 2.0, xt.init_tile(Y, (g * 8, 0), (8, 16)))
    xt.return_if(steps > 52)
    xt.store_tile(x * steps.to(xt.f32), xt.init_tile(Y, (g * 8, 0), (8, 16)))


@pytest.mark.parametrize("execution", EVERYWHERE, ids=str)
def test_collatz(execution: Execution) -> None:
    """Groups leave the loop, the bounded loop and the kernel at different times, one of them before the first step."""
    numbers, x = [1, 7, 27, 2, 3, 9, 97, -4], integers(np.random.default_rng(1), "f32", 64, 16)
    want = np.empty_like(x)
    for group, n in enumerate(numbers):
        rows, steps = slice(group * 8, group * 8 + 8), 0
        value, previous = x[rows], x[rows] * 0
        while n > 1:
            value, previous = value + 1, value
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        for k in range(0, 100, 3):
            if steps <= 5 or steps >= 50:
                break
            steps += k
        want[rows] = value - previous * 2 if steps > 52 else value * steps
    y = Bordered("f32", (64, 16))
    run(collatz, execution, len(numbers), x, y.array, np.array([numbers], np.int32))
    y.check(want)


@xt.kernel
def moving_tiles(A: Any, B: Any, Y: Any, LIMIT: Any) -> None:
    row = xt.group_id(0) * 8
    a, b, out = (xt.init_tile(array, (row, 0), (8, 16)) for array in (A, B, Y))
    total, k = xt.zeros((8, 16), xt.f32), xt.scalar(0)
    limit = xt.load_scalar(LIMIT, (0, 0))
    for _ in xt.while_(lambda: (k < A.shape[1]) & (k.to(xt.i32) < limit)):
        for i in xt.range(2):  # loops in loops, and a branch
            total = total + xt.load_tile(a) * (i + 1).to(xt.f32)
            with xt.when(k > 16):
                total = total - xt.load_tile(b)
        xt.store_tile(total, out)
        a, b = xt.update_tile_offset(b, 0, 16), xt.update_tile_offset(a, 0, 16)  # to the other array, too
        out, k = xt.update_tile_offset(out, 0, 16), k + 16


@pytest.mark.parametrize("limit", [0, 40, 1000])
@pytest.mark.parametrize("execution", EVERYWHERE, ids=str)
def test_carries_tiles(execution: Execution, limit: int) -> None:
    """Tiles are carried from one array to another and moved, up to a column known at run time."""
    a, b = integers(np.random.default_rng(2), "f32", 21, 83), integers(np.random.default_rng(3), "f32", 21, 83)
    y = Bordered("f32", (21, 83))
    want = y.array.copy()
    for rows in (slice(0, 8), slice(8, 16), slice(16, 21)):
        total, sides = np.zeros((rows.stop - rows.start, 16), np.float32), (a, b)
        for k in range(0, min(83, limit), 16):
            one, other = (np.pad(side, ((0, 0), (0, 16)))[rows, k:k + 16] for side in sides)
            total = total + one * 3 - other * (2 if k > 16 else 0)
            want[rows, k:k + 16] = total[:, :83 - k]
            sides = sides[::-1]
    run(moving_tiles, execution, 3, a, b, y.array, np.array([[limit]], np.int32))
    y.check(want)


@xt.kernel
def converged(A: Any, X: Any, STEPS: Any, *, whole: Any) -> None:
    """x = A @ x until the largest step is small; a work-group with a map."""
    a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32), wg_map=whole))
    x = xt.load_tile(xt.init_tile(X, (0, 0), (32, 32), wg_map=whole))
    n = xt.scalar(0)
    limit = xt.load_scalar(STEPS, (0, 0))
    for _ in xt.while_(lambda: n.to(xt.i32) < limit):
        x = xt.maximum(a, x * 2.0 - a)
        n = n + 1
    xt.return_if(n > 6)
    xt.store_tile(x, xt.init_tile(X, (0, 0), (32, 32), wg_map=whole))


@pytest.mark.parametrize("steps", [0, 3, 9])
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_work_group(execution: Execution, steps: int) -> None:
    """The subgroups of a work-group run the loop together."""
    a, x = integers(np.random.default_rng(4), "f32", 32, 32), integers(np.random.default_rng(5), "f32", 32, 32)
    want = x.copy()
    for _ in range(steps if steps <= 6 else 0):
        want = np.maximum(a, want * 2 - a)
    run_map = xt.wg_map(sg_layout=(2, 2), sg_data=(16, 16))
    execution.bind(converged)[1](a, x, np.array([[steps]], np.int32), whole=run_map)
    assert np.array_equal(x, want)


@xt.kernel(subgroups=(2, 1))
def barrier_in_loop(X: Any, Y: Any, N: Any) -> None:
    me, n = xt.subgroup_id(), xt.load_scalar(N, (0, 0))
    slm = xt.alloc_slm((16, 16), xt.f32)
    value = xt.load_tile(xt.init_tile(X, (me * 8, 0), (8, 16)))
    for _ in xt.while_(lambda: n > 0):
        xt.store_tile(value, xt.init_tile(slm, (me * 8, 0), (8, 16)))
        xt.barrier()
        value = value + xt.load_tile(xt.init_tile(slm, ((1 - me) * 8, 0), (8, 16)))
        xt.barrier()
        n = n - 1
    xt.store_tile(value, xt.init_tile(Y, (me * 8, 0), (8, 16)))


@pytest.mark.parametrize("execution", EVERYWHERE, ids=str)
def test_barriers(execution: Execution) -> None:
    """Subgroups exchange values in shared local memory in each iteration."""
    x, y = integers(np.random.default_rng(6), "f32", 16, 16), np.zeros((16, 16), np.float32)
    run(barrier_in_loop, execution, 1, x, y, np.array([[3]], np.int32))
    want = x
    for _ in range(3):
        want = want + np.roll(want, 8, 0)
    assert np.array_equal(y, want)


def test_text_round_trip() -> None:
    """The printed kernel is read again, and computes the same."""
    numbers, x = [6, 1, 27], integers(np.random.default_rng(7), "f32", 24, 16)
    first, second = np.zeros_like(x), np.zeros_like(x)
    n = np.array([numbers], np.int32)
    lowered = collatz.lower(x, first, n)
    again = xt.parse(lowered.stages["xetile"])["collatz"]
    collatz.on("numpy")[3](x, first, n)
    again.on("numpy")[3](x, second, n)
    assert np.array_equal(first, second)
    assert first.any()


FORWARDS = """
func.func @forwards(%X: memref<8x16xf32>, %Y: memref<8x16xf32>, %m: index) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %n = arith.index_cast %m : index to i32
  %d = xegpu.create_nd_tdesc %X[%c0, %c0] : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  %x = xegpu.load_nd %d : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  %r:3 = scf.while (%k = %n, %v = %x) : (i32, vector<8x16xf32>) -> (vector<8x16xf32>, i32, vector<8x16xf32>) {
    %less = arith.subi %k, %one : i32
    %twice = arith.addf %v, %v : vector<8x16xf32>
    %more = arith.cmpi sgt, %less, %one : i32
    scf.condition(%more) %twice, %less, %v : vector<8x16xf32>, i32, vector<8x16xf32>
  } do {
  ^bb0(%w: vector<8x16xf32>, %l: i32, %v2: vector<8x16xf32>):
    %s = arith.subf %w, %x : vector<8x16xf32>
    scf.yield %l, %s : i32, vector<8x16xf32>
  }
  %i = arith.sitofp %r#1 : i32 to f32
  %b = vector.broadcast %i : f32 to vector<8x16xf32>
  %t = arith.subf %r#0, %r#2 : vector<8x16xf32>
  %u = arith.addf %t, %b : vector<8x16xf32>
  %o = xegpu.create_nd_tdesc %Y[%c0, %c0] : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  xegpu.store_nd %u, %o : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}
"""


@pytest.mark.parametrize("n", [0, 3, 6])
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_forwards_what_it_computes(execution: Execution, n: int) -> None:
    """A text whose condition forwards other values, in number and type, than the loop carries."""
    x = integers(np.random.default_rng(8), "f32", 8, 16)
    out = np.zeros_like(x)
    execution.bind(xt.parse(FORWARDS)["forwards"])[1](x, out, n)
    k, v = n, x
    while True:
        k, twice = k - 1, v + v
        if k <= 1:
            break
        v = twice - x
    assert np.array_equal(out, twice - v + k)


def _refused(function: Any) -> XeError:
    with pytest.raises(XeError) as caught:
        xt.kernel(function).lower(xt.Spec((None, None), "f32"))
    return caught.value


def test_errors() -> None:
    """Conditions that are none, or change what they should only compare, are refused."""
    def no_function(X: Any) -> None:
        n = xt.scalar(3)
        for _ in xt.while_(n > 0):
            n = n - 1

    def constant(X: Any) -> None:
        for _ in xt.while_(lambda: True):
            pass

    def changes(X: Any) -> None:
        box = [xt.scalar(3)]

        def step() -> Any:
            box[0] = box[0] - 1
            return box[0] > 0
        for _ in xt.while_(step):
            pass

    def options(X: Any) -> None:
        for _ in xt.range(8, unroll=2, while_=lambda: X.shape[0] > 8):
            pass

    def in_loop(X: Any) -> None:
        for k in xt.range(8):
            xt.return_if(k > 3)

    def left(X: Any) -> None:
        for _ in xt.while_(lambda: X.shape[0] > 8):
            break

    def divergent(X: Any) -> None:
        n = xt.subgroup_id()
        for _ in xt.while_(lambda: n > 0):
            xt.barrier()
            n = n - 1
    cases = {"XT1336": no_function, "XT1324": constant, "XT1337": changes, "XT1338": options, "XT1328": in_loop,
             "XT1335": left, "XT1486": divergent}
    assert {code: _refused(case).code for code, case in cases.items()} == {code: code for code in cases}
