"""Failures on a rank of a test, by the names of cases, one after the other; each prints what was caught, as JSON.

    mpiexec -n 3 python -m mpi4py tests/xetile/distributed/failing.py agreed later
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from counting import Counting
from mpi4py import MPI

import xetile as xt
import xetile.distributed as xd
from xetile.distributed import executor
from xetile.distributed.memory import HostMemory

WORLD = Counting(MPI.COMM_WORLD)
BAD = WORLD.rank == 1
M, N, K = 12, 10, 18
GRID = xd.Grid(1, WORLD.size, 1, m=M, n=N, k=K, comm=WORLD)


def blocks() -> tuple[Any, Any]:
    """This rank's blocks of random integers."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(-8, 9, (M, K)).astype(np.float32), rng.integers(-8, 9, (K, N)).astype(np.float32)
    return a[GRID.block("a")], b[GRID.block("b")]


def _no_room(*args: Any) -> Any:
    raise MemoryError("no room for a panel")


def out_of_memory() -> None:
    """An allocation that fails on one rank."""
    whole = HostMemory.empty
    HostMemory.empty = _no_room if BAD else whole  # type: ignore[method-assign, assignment]
    try:
        xd.matmul(*blocks(), grid=GRID)
    finally:
        HostMemory.empty = whole  # type: ignore[method-assign]


def wrong_block() -> None:
    """A block of another shape on one rank."""
    a, b = blocks()
    xd.matmul(a[:, :-1] if BAD else a, b, grid=GRID)


def read_only() -> None:
    """A result that cannot be written on one rank."""
    out = GRID.zeros("c")
    out.flags.writeable = not BAD
    xd.matmul(*blocks(), grid=GRID, out=out)


def _activation(x: Any) -> Any:
    return 7 if BAD else x


AGREED: dict[str, Callable[[], object]] = {
    "options": lambda: xd.matmul(*blocks(), grid=GRID, out_dtype=xt.f16 if BAD else xt.f32),
    "grid": lambda: xd.matmul(*blocks(), grid=xd.Grid(1, WORLD.size, 1, m=M, n=N, k=K + BAD, comm=WORLD)),
    "element type": lambda: xd.matmul(blocks()[0].astype(np.float16 if BAD else np.float32), blocks()[1], grid=GRID),
    "wrong block": wrong_block,
    "out of memory": out_of_memory,
    "limit": lambda: xd.matmul(*blocks(), grid=GRID, memory=10 if BAD else None),
    "compile error": lambda: xd.matmul(*blocks(), grid=GRID, activation=_activation),
    "ranks": lambda: xd.matmul(*blocks(), grid=xd.Grid(1, WORLD.size + 1, 1, m=M, n=N, k=K, comm=WORLD)),
    "layer": lambda: xd.all_gather_matmul(np.zeros((4, 3 + BAD), np.float32), np.zeros((3 + BAD, 2), np.float32),
                                          comm=WORLD),
    "no matrix": lambda: xd.matmul_reduce_scatter(7 if BAD else np.zeros((4, 6)), np.zeros((6, 2)), comm=WORLD),
    "read-only": read_only,
    "memory": lambda: xd.Grid.choose(M, N, K, memory=1 << (30 + BAD), comm=WORLD),
    "timeout": lambda: xd.plan(GRID, timeout=-1),
    "root": lambda: GRID.scatter(np.zeros((M, K), np.float32), "a", root=int(BAD)),
    "no root": lambda: GRID.gather(blocks()[0], "a", root=3 * BAD),
    "operand": lambda: GRID.gather(blocks()[BAD], "ab"[BAD]),
    "elements": lambda: GRID.scatter(np.zeros((M, K), complex) if BAD else None, "a", root=1),
    "no block": lambda: GRID.gather(None if BAD else blocks()[0], "a"),
    "scatter": lambda: GRID.scatter(np.zeros((M, K - 1)) if BAD else None, "a", root=1),
}


def agreed() -> None:
    """Each mistake is raised on all ranks, nothing is sent, and then a product works."""
    found = {}
    for name, act in AGREED.items():
        before = Counting.received
        try:
            act()
        except xt.XeError as error:
            found[name] = [type(error).__name__, error.code, error.message, error.hint]
        if Counting.received != before:
            found[name] = ["something was received"]
    c = xd.matmul(*blocks(), grid=GRID)
    a, b = (GRID.gather(block, name) for block, name in zip(blocks(), "ab", strict=True))
    whole = GRID.gather(c)
    usable = WORLD.rank != 0 or bool(np.array_equal(whole, a @ b))
    every = WORLD.gather((found, usable))
    if WORLD.rank == 0:
        print(json.dumps(every))


def _fails(*args: Any, **options: Any) -> None:
    raise MemoryError("no room in the middle")


def behind() -> tuple[list[str], bool]:
    """One rank fails when all others can end: they are told in their next call, and all that they are not in step."""
    grid = xd.Grid(1, WORLD.size, 1, m=M, n=N, k=K, comm=WORLD)
    whole = [np.random.default_rng(3).integers(-8, 9, shape).astype(np.float32) for shape in ((M, K), (K, N))]
    a, b = whole[0][grid.block("a")], whole[1][grid.block("b")]
    plan = xd.plan(grid)
    plan(a, b)
    right = executor.finish_sums
    executor.finish_sums = _fails if BAD else right  # type: ignore[assignment]
    codes: list[str] = []
    while "XT7210" not in codes:
        try:
            plan(a, b)
            codes.append("ended")
        except xt.XeError as error:
            codes.append(error.code)
        except MemoryError:
            codes.append("XT7211")
        executor.finish_sums = right
    c = grid.gather(plan(a, b))
    return codes, WORLD.rank != 0 or bool(np.array_equal(c, whole[0] @ whole[1]))


def later() -> None:
    """An error of one rank in a later call, while others send and wait for ever: all raise it, and go on together."""
    found: list[object] = []
    rng = np.random.default_rng(2)
    for shape in ((1, WORLD.size, 1), (1, 1, WORLD.size)):  # every rank needs something of each other
        grid = xd.Grid(*shape, m=M, n=N, k=K, comm=WORLD)
        whole = rng.integers(-8, 9, (M, K)).astype(np.float32), rng.integers(-8, 9, (K, N)).astype(np.float32)
        a, b = whole[0][grid.block("a")], whole[1][grid.block("b")]
        plan = xd.plan(grid)
        plan(a, b)
        right = executor.matmul
        for wrong_block in (True, False):
            executor.matmul = _fails if BAD and not wrong_block else right  # type: ignore[assignment]
            try:
                plan(a[:-1] if BAD and wrong_block else a, b)
                found.append("no error")
            except xt.XeError as error:
                found.append([error.code, error.message.removeprefix("rank 1: ")])
            except MemoryError as error:
                found.append(["XT7211", f"MemoryError: {error}"])
            executor.matmul = right
            a = a + 1  # a message of the call that failed would be seen
            c = grid.gather(plan(a, b))
            found.append(WORLD.rank != 0 or bool(np.array_equal(c, (whole[0] + 1 + (not wrong_block)) @ whole[1])))
            WORLD.barrier()
    every = WORLD.gather((found, behind()))
    if WORLD.rank == 0:
        print(json.dumps(every))


def timed_out(act: Callable[[], object]) -> None:
    """Print the error of a rank that waits; the job ends with the other one's error or at once."""
    try:
        act()
    except xt.XeError as error:
        print(json.dumps([WORLD.rank, error.code, error.message]), flush=True)
        MPI.COMM_WORLD.Abort(3)


def absent() -> None:
    """One rank does not call."""
    if BAD:
        time.sleep(20)
    timed_out(lambda: xd.all_gather_matmul(*blocks()[::-1], comm=WORLD, timeout=0.5))


def apart() -> None:
    """One rank gathers nothing."""
    if BAD:
        GRID.scatter(None, "a")
        time.sleep(20)
    else:
        GRID.scatter(np.zeros((M, K), np.float32), "a", timeout=10)
    timed_out(lambda: GRID.gather(np.zeros((M, -(-N // WORLD.size)), np.float32), timeout=0.5))


def stuck() -> None:
    """One rank stays away in the middle of a product."""
    def act() -> None:
        with xd.plan(GRID) as plan:
            plan(*blocks())
            plan.timeout = 1.5
            Counting.delay = 20 if BAD else 0
            plan(*blocks())

    timed_out(act)


def killed() -> None:
    """One rank dies."""
    if BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    xd.matmul(*blocks(), grid=GRID)


def raised() -> None:
    """One rank has an error of its own, outside any product."""
    if BAD:
        raise ValueError("an error of the author's")
    xd.matmul(*blocks(), grid=GRID)


for name in sys.argv[1:]:
    {each.__name__: each for each in (agreed, later, absent, apart, stuck, killed, raised)}[name]()
