"""Replay: the schedules of all ranks, executed in one process in NumPy, with every message checked."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

import numpy as np

from xegpu.ir.dtypes import NDArray
from xetile.distributed.regions import Region
from xetile.distributed.steps import (
    Add,
    Broadcast,
    Finish,
    Multiply,
    Pack,
    Receive,
    Schedule,
    Send,
    Step,
    Wait,
    buffer_bytes,
)


def replay(schedules: Sequence[Schedule], a: NDArray, b: NDArray) -> tuple[NDArray, int]:
    """Product of whole matrices by the schedules of all ranks, and the bytes that were received.

    Buffers are filled with NaN, or with the least integer, before they are used, and sent regions are not copied before
    they are received: a buffer that is used again too early, or read before it was filled, gives a wrong product.

    Raises:
        AssertionError: the ranks wait for each other, or a message does not fit what is received.
    """
    grid = schedules[0].grid
    sums = np.dtype(np.float32 if grid.dtype.is_float else np.int32)
    c = np.full((grid.m, grid.n), _undefined(sums), sums)
    ranks = [_Rank(schedule, a, b, c) for schedule in schedules]
    waiting = deque(ranks)
    idle = 0
    while waiting:
        rank = waiting.popleft()
        progressed = rank.run(ranks)
        if not rank.done:
            waiting.append(rank)
        idle = 0 if progressed else idle + 1
        assert idle <= len(waiting), "the ranks wait for each other"
    assert all(not queue for rank in ranks for queue in rank.inbox.values()), "a message was never received"
    return c, sum(rank.received for rank in ranks)


def _undefined(dtype: np.dtype[Any]) -> Any:
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).min


class _Rank:
    """State of one rank: its buffers, pending messages, and position in the schedule."""

    def __init__(self, schedule: Schedule, a: NDArray, b: NDArray, c: NDArray) -> None:
        self.schedule, self.c, self.received, self.done = schedule, c, 0, False
        grid, rank = schedule.grid, schedule.rank
        self.inbox: defaultdict[_Channel, deque[tuple[NDArray, Region]]] = defaultdict(deque)
        self.posted: list[Receive | Broadcast] = []
        self.regions = {name: grid.region(name, rank) for name in ("a", "b")}
        rows, columns, _ = grid.product_of(rank)
        self.regions["sums"] = Region(rows, columns)
        self.arrays: dict[str, NDArray] = {
            "a": _widened(a)[self.regions["a"].slices], "b": _widened(b)[self.regions["b"].slices],
            "sums": np.full(self.regions["sums"].shape, _undefined(c.dtype), c.dtype)}
        self._steps = self._run()

    def run(self, ranks: Sequence[_Rank]) -> bool:
        """Advance to the next message that has not come; whether there was any progress."""
        self.ranks, before = ranks, self.received
        moved = False
        for progress in self._steps:
            if not progress:
                return moved or self.received > before
            moved = True
        self.done = True
        return True

    def _run(self) -> Generator[bool, None, None]:
        for step in self.schedule.steps:
            while not self._arrived(step):
                yield False
            self._execute(step)
            yield True
        while self.posted:
            self._take()
            yield False

    def view(self, name: str, region: Region) -> NDArray:
        """The region of a buffer."""
        return self.arrays[name][region.within(self.regions[name])]

    def _arrived(self, step: Step) -> bool:
        """Whether the buffers that a step reads, or overwrites, have been received."""
        self._take()
        names = {getattr(step, field, "") for field in ("a", "b", "buffer", "source", "target")}
        return not any(isinstance(step, Wait) or posted.buffer in names for posted in self.posted)

    def _take(self) -> None:
        """Receive messages that have come, of each sender in the order in which they were posted."""
        blocked, left = set[_Channel](), list[Receive | Broadcast]()
        for posted in self.posted:
            channel = _channel(posted)
            if channel in blocked or not self.inbox[channel]:
                blocked.add(channel)
                left.append(posted)
                continue
            sent, what = self.inbox[channel].popleft()
            size = buffer_bytes(self.schedule.grid, posted.buffer)
            assert (what, sent.size * size) == (posted.region, posted.bytes), (self.schedule.rank, posted, what)
            self.arrays[posted.buffer], self.regions[posted.buffer] = sent.copy(), what
            self.received += posted.bytes
        self.posted = left

    def _execute(self, step: Step) -> None:
        match step:
            case Pack(source, region, target):
                self.arrays[target], self.regions[target] = self.view(source, region).copy(), region
            case Broadcast(buffer, region, root, ranks) if root == self.schedule.rank:
                for peer in ranks:
                    if peer != root:
                        self.ranks[peer].inbox[_channel(step)].append((self.view(buffer, region), region))
            case Send(buffer, region, peer):
                channel = (self.schedule.rank, ())
                self.ranks[peer].inbox[channel].append((self.view(buffer, region), region))
            case Receive() | Broadcast():
                self.posted.append(step)
            case Multiply() if step.is_empty:
                if step.first and not step.fused:
                    self.view("sums", step.region)[...] = 0
            case Multiply():
                product = self.view(step.a, step.a_region) @ self.view(step.b, step.b_region)
                if step.fused:
                    self.c[step.region.slices] = product
                else:
                    sums = self.view("sums", step.region)
                    sums[...] = product if step.first else sums + product
            case Add(source, target, region):
                total = self.view(target, region)
                total[...] = self.view(source, region) + total
            case Finish(region, source):
                self.c[region.slices] = self.view(source, region)


_Channel: TypeAlias = tuple[int, tuple[int, ...]]


def _channel(step: Receive | Broadcast) -> _Channel:
    """Sender and communicator of a message: those of one channel arrive in order."""
    return (step.root, step.ranks) if isinstance(step, Broadcast) else (step.peer, ())


def _widened(array: NDArray) -> NDArray:
    return array.astype(np.float32 if array.dtype.kind not in "iu" else np.int32)
