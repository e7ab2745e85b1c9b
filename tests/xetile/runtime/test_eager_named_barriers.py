"""Named barriers of kernels that run themselves, ``"numpy:program"``: as in the other executions, errors included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, LANES, NUMPY

pytestmark = pytest.mark.unoptimised

EAGER = "numpy:program"
EXECUTIONS = [EAGER, NUMPY, *LANES[:2]]


def on(kernel: Any, where: Any) -> Any:
    return kernel.on(where) if where == EAGER else where.bind(kernel)


def numbers(rows: int) -> Any:
    return np.random.default_rng(3).integers(-9, 10, (rows, 16)).astype(np.float32)


def rows(array: Any, row: Any) -> Any:
    return xt.init_tile(array, (row, 0), (8, 16))


@xt.kernel(subgroups=(4, 1))
def swap(A, C):
    """Subgroups 0 and 1 swap tiles through shared local memory, and so do 2 and 3."""
    mine, top = xt.subgroup_id(), xt.group_id(0) * 32
    memory = xt.alloc_slm((32, 16), xt.f32)
    barrier = xt.nbarrier(mine // 2, 2)
    xt.store_tile(xt.load_tile(rows(A, top + mine * 8)), rows(memory, mine * 8))
    barrier.arrive()
    barrier.wait()
    xt.store_tile(xt.load_tile(rows(memory, (mine + 1 - mine % 2 * 2) * 8)), rows(C, top + mine * 8))


@xt.kernel(subgroups=(4, 1))
def rotate(A, C):
    """A split barrier of all subgroups, in a loop: each takes its neighbour's tile, three times."""
    mine = xt.subgroup_id()
    memory, barrier, tile = xt.alloc_slm((32, 16), xt.f32), xt.nbarrier(2, 4), xt.load_tile(rows(A, mine * 8))
    for _ in xt.range(3):
        xt.store_tile(tile, rows(memory, mine * 8))
        barrier.arrive()
        tile = tile + 1
        barrier.wait()
        tile = tile + xt.load_tile(rows(memory, (mine + 1) % 4 * 8))
        barrier.arrive()
        barrier.wait()
    xt.store_tile(tile, rows(C, mine * 8))


@xt.kernel(subgroups=(2, 1))
def one_way(A, C, n):
    """Subgroup 0 fills a slot and only arrives; subgroup 1 only waits and empties it."""
    mine, memory = xt.subgroup_id(), xt.alloc_slm((8, 16), xt.f32)
    full, empty = xt.nbarrier(0, 2), xt.nbarrier(1, 2)
    with xt.when(mine == 0):
        for k in xt.range(n):
            xt.store_tile(xt.load_tile(rows(A, k * 8)), rows(memory, 0))
            full.arrive()
            empty.wait()
    with xt.otherwise():
        for k in xt.range(n):
            full.wait()
            tile = xt.load_tile(rows(memory, 0))
            empty.arrive()
            xt.store_tile(tile * 2, rows(C, k * 8))


@xt.kernel(subgroups=(4, 1))
def collect(A, C, *, producers=3, rounds=1, takes=3):
    """Subgroups 0 to 2 hand a tile each to subgroup 3."""
    mine, memory = xt.subgroup_id(), xt.alloc_slm((24, 16), xt.f32)
    done = xt.nbarrier(5, 4, producers=producers)
    with xt.when(mine < takes):
        xt.store_tile(xt.load_tile(rows(A, mine * 8)), rows(memory, mine * 8))
        for _ in range(rounds):
            done.arrive()
    with xt.otherwise():
        done.wait()
        parts = [xt.load_tile(rows(memory, 8 * i)) for i in range(3)]
        xt.store_tile(parts[0] - parts[1] * 2 + parts[2] * 3, rows(C, 0))


@pytest.mark.parametrize("where", [*EXECUTIONS, DEVICE[0]], ids=str)
def test_a_swap_through_shared_memory(where: Any) -> None:
    a, c = numbers(64), np.full((64, 16), 7, np.float32)
    on(swap, where)[2](a, c)
    np.testing.assert_array_equal(c, a.reshape(4, 2, 8, 16)[:, ::-1].reshape(64, 16))


@pytest.mark.parametrize("where", [*EXECUTIONS, DEVICE[0]], ids=str)
def test_a_split_barrier_of_all(where: Any) -> None:
    a, c = numbers(32), np.full((32, 16), 7, np.float32)
    on(rotate, where)[1](a, c)
    expected = a
    for _ in range(3):
        expected = expected + 1 + np.roll(expected, -8, 0)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("where", EXECUTIONS, ids=str)
def test_producers_and_consumers(where: Any) -> None:
    a, c = numbers(32), np.full((32, 16), 7, np.float32)
    on(one_way, where)[1](a, c, 4)
    np.testing.assert_array_equal(c, a * 2)
    on(collect, where)[1](a, c)
    np.testing.assert_array_equal(c[:8], a[:8] - a[8:16] * 2 + a[16:24] * 3)
    np.testing.assert_array_equal(c[8:], a[8:] * 2)


@pytest.mark.parametrize("where", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("wrong", "codes"), [
    ({"rounds": 2}, ["XT1484"]), ({"takes": 2}, ["XT1485", "XT1483"]), ({"producers": 2}, ["XT1485"])], ids=str)
def test_too_many_or_too_few_arrive(wrong: dict[str, int], codes: list[str], where: Any) -> None:
    a, c = numbers(32), np.full((32, 16), 7, np.float32)
    with pytest.raises(xt.XeError) as caught:
        on(collect, where)[1](a, c, **wrong)
    assert caught.value.code in codes
    assert caught.value.location is not None
    np.testing.assert_array_equal(c[8:], np.full((24, 16), 7))


@xt.kernel(subgroups=(4, 1))
def mistaken(C, *, what):
    mine, barrier = xt.subgroup_id(), xt.nbarrier(0, 4)
    if what == "too many":
        xt.nbarrier(1, 5)
    if what == "another number":
        xt.nbarrier(0, 3)
    if what != "no arrival":
        barrier.arrive()
    if what == "second arrival":
        barrier.arrive()
    if what != "no wait":
        barrier.wait()
    xt.store_tile(xt.zeros((8, 16), xt.f32), rows(C, mine * 8))


@pytest.mark.parametrize("where", EXECUTIONS[:2], ids=str)
@pytest.mark.parametrize(("what", "code"), [
    ("too many", "XT1470"), ("another number", "XT1471"), ("no wait", "XT1477"), ("second arrival", "XT1478"),
    ("no arrival", "XT1479")])
def test_a_recording_refuses_and_a_run_does_too(what: str, code: str, where: Any) -> None:
    with pytest.raises(xt.XeError) as caught:
        on(mistaken, where)[1](np.zeros((32, 16), np.float32), what=what)
    assert caught.value.code == code
    assert Path(__file__).name in str(caught.value)


@xt.kernel
def alone(C):
    xt.barrier()
    barrier = xt.nbarrier(0, 1)
    barrier.arrive()
    barrier.wait()
    xt.store_tile(xt.zeros((8, 16), xt.f32), rows(C, 0))


@pytest.mark.parametrize("where", EXECUTIONS, ids=str)
def test_a_single_subgroup_waits_for_nobody(where: Any) -> None:
    c = np.full((8, 16), 7, np.float32)
    on(alone, where)[1](c)
    assert not c.any()
