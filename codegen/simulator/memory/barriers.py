"""Work-group barriers and named barriers: who arrived, who is notified, and what that orders.

An arrival counts as a producer, a consumer or both. When both counts that it names are reached, the barrier's consumers
are notified and it starts anew; ``sync.bar`` takes a notification, or waits for one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.findings import Finding

Integers = NDArray[np.int64]
BARRIERS = 32
"""Barriers of a work-group."""
BOTH, PRODUCER, CONSUMER = range(3)
"""Kinds of arrival, as the gateway's message has them."""


class Barriers:
    """The barriers of the work-groups that run side by side.

    Args:
        groups: work-groups.
        group: work-group of each thread.
        with_clocks: whether to keep what barriers order, in :attr:`clocks`.

    Attributes:
        clocks: vector clocks, (threads, subgroups): the last moment of each other subgroup that a thread is behind.
            None without ``with_clocks``.
    """

    def __init__(self, groups: int, group: Integers, subgroup: Integers, with_clocks: bool) -> None:
        self._group, self._subgroup = group, subgroup
        self._arrived = np.zeros((2, groups, BARRIERS), np.int64)  # producers, consumers
        self._expected = np.zeros((2, groups, BARRIERS), np.int64)
        self._consumes = np.zeros((len(group), BARRIERS), np.bool_)
        self._notified = np.zeros((len(group), BARRIERS), np.bool_)
        self._late: list[tuple[int, int, int, int, int]] = []
        self.clocks: Integers | None = None
        if with_clocks:
            size = int(subgroup.max(initial=0)) + 1
            self.clocks = np.zeros((len(group), size), np.int64)
            self.clocks[np.arange(len(group)), subgroup] = 1
            self._published = np.zeros((groups, BARRIERS, size), np.int64)
            self._received = np.zeros((len(group), BARRIERS, size), np.int64)

    def arrive(self, rows: Integers, number: Integers, kind: Integers, producers: Integers,
               consumers: Integers) -> None:
        """Arrivals of threads.

        Args:
            rows: the threads; the other arrays have a value for each.
            number: the barrier.
            kind: :data:`BOTH`, :data:`PRODUCER` or :data:`CONSUMER`.
            producers, consumers: arrivals that complete the barrier.

        Raises:
            Finding: arrivals at one barrier name different counts.
        """
        self._check_counts(rows, number, producers, consumers)
        late = self._too_many(rows, number, kind, producers, consumers)
        if late.any():
            everything = rows, number, kind, producers, consumers
            self._late += zip(*(each[late].tolist() for each in everything), strict=True)
            rows, number, kind, producers, consumers = (each[~late] for each in everything)
        self._count(rows, number, kind, producers, consumers)
        while self._complete() and self._late:
            waiting, self._late = self._late, []
            for entry in waiting:
                self.arrive(*(np.array([value], np.int64) for value in entry))

    def _check_counts(self, rows: Integers, number: Integers, producers: Integers, consumers: Integers) -> None:
        """Raise if arrivals name other counts than those before them."""
        group = self._group[rows]
        for side, counts in ((0, producers), (1, consumers)):
            begun = self._arrived[:, group, number].any(0)
            different = begun & (self._expected[side, group, number] != counts)
            if different.any():
                at = int(np.flatnonzero(different)[0])
                raise Finding("XT6107", f"arrives at barrier {number[at]} for {counts[at]} "
                              f"{('producers', 'consumers')[side]}, and others for "
                              f"{self._expected[side, group[at], number[at]]}",
                              "have all that arrive at a barrier name the same counts", int(rows[at]))

    def _too_many(self, rows: Integers, number: Integers, kind: Integers, producers: Integers,
                  consumers: Integers) -> NDArray[np.bool_]:
        """Arrivals that belong to a later phase of their barrier: this one's are there already."""
        group = self._group[rows]
        late: NDArray[np.bool_] = np.zeros(len(rows), np.bool_)
        for side, counts, others in ((0, producers, CONSUMER), (1, consumers, PRODUCER)):
            mine = kind != others
            slots = group * BARRIERS + number
            order = np.argsort(slots[mine], kind="stable")
            sorted_slots = slots[mine][order]
            first = np.searchsorted(sorted_slots, sorted_slots)
            rank = np.empty(len(order), np.int64)
            rank[order] = np.arange(len(order)) - first
            late[mine] |= self._arrived[side][group[mine], number[mine]] + rank >= counts[mine]
        return late

    def _count(self, rows: Integers, number: Integers, kind: Integers, producers: Integers,
               consumers: Integers) -> None:
        group = self._group[rows]
        for side, counts, others in ((0, producers, CONSUMER), (1, consumers, PRODUCER)):
            self._expected[side, group, number] = counts
            np.add.at(self._arrived[side], (group, number), kind != others)
        self._consumes[rows, number] |= kind != PRODUCER
        if self.clocks is not None:
            producing = kind != CONSUMER
            np.maximum.at(self._published, (group[producing], number[producing]), self.clocks[rows[producing]])
            self.clocks[rows[producing], self._subgroup[rows[producing]]] += 1

    def _complete(self) -> bool:
        """Notify the consumers of barriers whose counts are reached; whether there were any."""
        done = (self._arrived == self._expected).all(0) & self._arrived.any(0)
        if not done.any():
            return False
        notified = done[self._group] & self._consumes
        if self.clocks is not None:
            row, number = np.nonzero(notified)
            self._received[row, number] = self._published[self._group[row], number]
            self._published[done] = 0
        self._notified |= notified
        self._consumes &= ~notified
        self._arrived[:, done] = 0
        return True

    def may_pass(self, rows: Integers, numbers: Integers) -> NDArray[np.bool_]:
        """Mask of the threads whose waits at barriers end now; those take their notification."""
        passing: NDArray[np.bool_] = self._notified[rows, numbers]
        rows, numbers = rows[passing], numbers[passing]
        self._notified[rows, numbers] = False
        if self.clocks is not None:
            self.clocks[rows] = np.maximum(self.clocks[rows], self._received[rows, numbers])
        return passing

    def stuck(self, rows: Integers, numbers: Integers) -> Finding:
        """The finding for threads that wait for barriers while nothing can go on."""
        row, number = int(rows[0]), int(numbers[0])
        group = self._group[row]
        others = sorted({int(self._subgroup[r]) for r in rows[self._group[rows] == group]})
        arrived, expected = self._arrived[:, group, number], self._expected[:, group, number]
        if not arrived.any():
            what = f"waits at barrier {number}, where it never arrived"
        else:
            what = f"waits at barrier {number}, where {_counts(arrived)} of {_counts(expected)} arrived, and no " \
                   "other subgroup comes"
        return Finding("XT6106", f"{what}; subgroups {_ranges_text(others)} of the work-group wait",
                       "have every subgroup that a barrier counts reach it, equally often", row)


def _counts(values: Integers) -> str:
    return f"{values[0]} producers and {values[1]} consumers" if values[0] != values[1] else f"{values[0]}"


def _ranges_text(numbers: list[int]) -> str:
    return ", ".join(_ranges(numbers))


def _ranges(numbers: list[int]) -> Iterator[str]:
    """Runs of consecutive numbers, as ``3`` and ``5-8``."""
    start = previous = numbers[0]
    for number in [*numbers[1:], None]:
        if number is None or number != previous + 1:
            yield str(start) if start == previous else f"{start}-{previous}"
            start = number if number is not None else 0
        previous = number if number is not None else 0
