"""Schedules without MPI: volumes, ownership, messages, and the replay of all ranks against NumPy."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xetile as xt
from xetile.distributed import executor, memory
from xetile.distributed import grid as grid_module
from xetile.distributed.communication.transport import Alone, Pending
from xetile.distributed.executor import Epilogue, Executor
from xetile.distributed.grid import Grid, best_grids, shapes_of
from xetile.distributed.memory import HostMemory
from xetile.distributed.regions import Region
from xetile.distributed.replay import replay
from xetile.distributed.schedule import ORDERS, OVERLAPS, schedule
from xetile.distributed.steps import Broadcast, Receive, Schedule, Send

SIZES = [(13, 9, 17), (3, 2, 5), (1, 1, 1), (7, 1, 64), (0, 3, 2), (4, 5, 0), (40, 33, 50)]


def _schedules(grid: Grid, **options: Any) -> list[Schedule]:
    return [schedule(grid, rank, **options) for rank in range(grid.ranks)]


def _integers(rows: int, columns: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-8, 9, (rows, columns)).astype(np.float32)


def _check(grid: Grid, **options: Any) -> None:
    a, b = _integers(grid.m, grid.k, 1), _integers(grid.k, grid.n, 2)
    schedules = _schedules(grid, **options)
    c, received = replay(schedules, a, b)
    assert np.array_equal(c, a @ b)
    assert received == sum(each.received for each in schedules) == grid.volume
    assert sum(each.flops for each in schedules) == 2 * grid.m * grid.n * grid.k


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("overlap", OVERLAPS)
def test_every_grid_gives_the_product_and_the_volume(overlap: str, order: str) -> None:
    for ranks in (1, 2, 3, 4, 6, 8, 12):
        for position, shape in enumerate(shapes_of(ranks)):
            m, n, k = SIZES[position % len(SIZES)]
            for panel in (None, 4):
                _check(Grid(*shape, m=m, n=n, k=k), overlap=overlap, order=order, panel=panel)
                if shape == (1, ranks, 1):
                    _check(Grid(*shape, m=m, n=n, k=k, rows_of_a=True), overlap=overlap, order=order, panel=panel)


_SIZE = st.integers(0, 40)


@given(_SIZE, _SIZE, _SIZE, st.integers(1, 12), st.randoms(), st.sampled_from(OVERLAPS), st.sampled_from(ORDERS),
       st.none() | st.integers(1, 20))
def test_random_grids(m: int, n: int, k: int, ranks: int, random: Any, overlap: str, order: str,
                      panel: int | None) -> None:
    shape = random.choice(list(shapes_of(ranks)))
    _check(Grid(*shape, m=m, n=n, k=k), overlap=overlap, order=order, panel=panel)


@pytest.mark.parametrize("shape", [(2, 3, 1), (1, 6, 1), (6, 1, 1), (1, 1, 6), (3, 2, 2), (2, 2, 3)])
def test_each_element_is_owned_once(shape: tuple[int, int, int]) -> None:
    grid = Grid(*shape, m=13, n=9, k=17)
    for operand, whole in (("a", (13, 17)), ("b", (17, 9)), ("c", (13, 9))):
        count = np.zeros(whole, int)
        for rank in range(grid.ranks):
            count[grid.region(operand, rank).slices] += 1
        assert (count == 1).all()


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_each_message_is_received(overlap: str) -> None:
    for shape in shapes_of(12):
        schedules = _schedules(Grid(*shape, m=25, n=26, k=27), overlap=overlap, panel=3)
        sent = Counter((each.rank, step.peer, step.region) for each in schedules for step in each.steps
                       if isinstance(step, Send))
        received = Counter((step.peer, each.rank, step.region) for each in schedules for step in each.steps
                           if isinstance(step, Receive))
        assert sent == received
        for each in schedules:
            for step in each.steps:
                if isinstance(step, Broadcast):
                    assert {each.rank, step.root} <= set(step.ranks)


@pytest.mark.parametrize(("shape", "volume"), [
    ((25, 25, 16), 156 << 40), ((100, 100, 1), 396 << 40), ((1, 10000, 1), 2 * 9999 << 40)])
def test_the_volume_of_a_million_cubed_on_ten_thousand_ranks(shape: tuple[int, int, int], volume: int) -> None:
    grid = Grid(*shape, m=1 << 20, n=1 << 20, k=1 << 20, dtype=xt.bf16)
    assert grid.volume == volume
    if shape == (25, 25, 16):
        assert grid.volume == 171_523_813_933_056
        # The ranks of the first layer, 0 to 624, receive the bands of all layers but that of the last one.
        layer = [schedule(grid, rank, panel=4096).received for rank in range(625)]
        sums = 4 * ((1 << 40) - sum(grid.region("c", 625 * 15 + rank).size for rank in range(625)))
        whole = 2 * 65536 * (1 << 20) * 24 * 2
        assert sum(layer) == whole + sums


def test_the_best_grid_has_the_least_volume() -> None:
    """Sizes and grids of a node and of a hundred, against a search over all grids."""
    for sizes, ranks, best in (((65536,) * 3, 12, (3, 4, 1)), ((262144,) * 3, 96, (4, 6, 4)),
                               ((1 << 20,) * 3, 10000, (25, 25, 16))):
        found = best_grids(*sizes, xt.bf16, ranks)
        assert found[0].volume == min(Grid(*shape, m=sizes[0], n=sizes[1], k=sizes[2], dtype=xt.bf16).volume
                                      for shape in shapes_of(ranks))
        assert found[0].volume == Grid(*best, m=sizes[0], n=sizes[1], k=sizes[2], dtype=xt.bf16).volume


def test_the_workspace_is_what_the_grid_says_at_most() -> None:
    for shape in shapes_of(12):
        grid = Grid(*shape, m=50, n=51, k=52, dtype=xt.bf16)
        for each in _schedules(grid, panel=8):
            assert each.workspace <= grid.workspace(8)


def test_a_replay_notices_a_swapped_rank() -> None:
    """The checks of this file fail for a schedule of another rank, and for a message that nobody receives."""
    grid = Grid(2, 3, 1, m=13, n=9, k=17)
    schedules = _schedules(grid)
    swapped = [schedules[0], schedules[2], schedules[1], *schedules[3:]]
    a, b = _integers(13, 17, 1), _integers(17, 9, 2)
    with pytest.raises((AssertionError, ValueError)):
        replay(swapped, a, b)
    fewer = Schedule(grid, 1, tuple(step for step in schedules[1].steps if not isinstance(step, Broadcast)), {})
    with pytest.raises((AssertionError, KeyError)):
        replay([schedules[0], fewer, *schedules[2:]], a, b)


def test_regions() -> None:
    region = Region((2, 5), (10, 14))
    assert (region.shape, region.size, str(region)) == ((3, 4), 12, "[2:5, 10:14]")
    assert region.within(Region((2, 9), (8, 20))) == (slice(0, 3), slice(2, 6))


@pytest.mark.parametrize(("gpus", "sharing", "share"), [(6, 6, 1), (2, 5, 3)])
def test_a_grid_fits_the_memory_of_the_ranks_gpu(monkeypatch: pytest.MonkeyPatch, gpus: int, sharing: int,
                                                 share: int) -> None:
    """A node of GPUs of 1000 bytes each: nine tenths of one, or of the part of it that a rank has."""
    monkeypatch.setattr(memory, "_gpus", lambda: [SimpleNamespace(global_mem_size=1000)] * gpus)
    monkeypatch.setattr(memory, "_position_on_node", lambda transport: (0, sharing))
    assert memory.default_limit(Alone()) == 1000 // share * 9 // 10
    monkeypatch.setattr(grid_module, "transport_of_all", lambda comm, timeout: Alone())
    assert Grid.choose(4, 4, 4).ranks == 1  # 192 bytes
    with pytest.raises(xt.DeviceError, match="the best grid of 1 rank,") as caught:
        Grid.choose(10, 10, 10)
    assert caught.value.code == "XT7240"


@pytest.mark.parametrize("grid", [Grid(1, 3, 1, m=6, n=6, k=9), Grid(3, 1, 1, m=6, n=6, k=9),
                                  Grid(2, 2, 1, m=6, n=6, k=12)], ids=str)
def test_a_panel_travels_while_it_is_multiplied(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent behind a product that only reads it: the last one launched has not been waited for."""
    launched, awaited, behind = [0], [0], list[bool]()

    class Device(HostMemory):
        """Memory of a device whose products end when they are waited for."""

        def now(self) -> int:
            return launched[0]

        def wait(self, event: Any) -> None:
            awaited[0] = max(awaited[0], event or 0)

    class Link(Alone):
        """Messages that come at once, of anything."""

        def wait(self, pending: Pending, timeout: float | None) -> None:
            pass

        def receive(self, view: Any, peer: int, description: str) -> Pending:
            return Pending([], description, view)

        def send(self, view: Any, peer: int, description: str) -> Pending:
            behind.append(awaited[0] == launched[0] > 0)
            return Pending([], description, view)

        def broadcast(self, view: Any, root: int, group: tuple[int, ...], description: str) -> Pending:
            return self.send(view, root, description) if root == 0 else Pending([], description, view)

    def multiply(*args: Any, **options: Any) -> None:
        launched[0] += 1

    monkeypatch.setattr(executor, "matmul", multiply)
    monkeypatch.setattr(executor, "finish_sums", lambda *args, **options: None)
    blocks = [np.ones(grid.region(name, 0).shape, np.float32) for name in "abc"]
    Executor(schedule(grid, 0, panel=3), Device(), Link(), None).run(*blocks, None, Epilogue(None, 1, 0, None))
    assert len(behind) >= 2
    assert not any(behind)
