"""For every element of memory, which instance wrote it last and which has read it: one number for each.

A number has three fields: the work-group from 1, the barriers that it has passed, and the subgroup from 1. Zero is
nobody. Where several subgroups, or several groups, have read an element, the field says ``MANY``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from codegen.usm import bounds
from xetile.checking.regions import Region

Array = np.ndarray[Any, Any]
MANY = 0xFFF
MANY_GROUPS = 0x3FFFFFFF
OUTSIDE = -1
_GROUP, _EPOCH = 32, 12
_MOST = 512
"""Regions that a span remembers."""


def code(group: Any, epoch: int, subgroup: Any) -> Any:
    """The number of an instance: ``group`` and ``subgroup`` from 0, or ``MANY_GROUPS - 1`` and ``MANY - 1``."""
    groups, subgroups = np.asarray(group, np.int64) + 1, np.asarray(subgroup, np.int64) + 1
    return groups << _GROUP | (epoch & 0xFFFFF) << _EPOCH | subgroups


def fields(value: int) -> tuple[int, int]:
    """Work-group and subgroup of a number, from 0; the subgroup is -1 for several."""
    subgroup = value & MANY
    return (value >> _GROUP) - 1, -1 if subgroup == MANY else subgroup - 1


def meets(before: Array, now: Array) -> bool:
    """Whether anybody of the same work-group was there since the last barrier."""
    return bool((before >> _EPOCH == now >> _EPOCH).any())


def conflicts(before: Array, now: Array, *, within: bool, one_group: bool) -> Array:
    """Where two accesses are those of different instances with nothing between them that orders them.

    Args:
        before: who was there; zero for nobody, ``OUTSIDE`` for no element.
        now: who comes.
        within: whether subgroups of one work-group count: not where each waits at barriers of its own.
        one_group: whether only one work-group reaches the memory.
    """
    if one_group and not meets(before, now):
        return np.zeros((1,) * before.ndim, bool)
    there = before > 0
    groups: Array = there & (before >> _GROUP != now >> _GROUP)
    if not within:
        return groups
    same: Array = there & (before >> _EPOCH == now >> _EPOCH)  # group and barriers
    unordered: Array = groups | (same & ((before != now) | (now & MANY == MANY)))
    return unordered


def merged(before: Array, now: Array) -> Array:
    """Who has read an element, once ``now`` has too."""
    other_group = (before > 0) & (before >> _GROUP != now >> _GROUP)
    other = (before >> _EPOCH == now >> _EPOCH) & (before != now)
    many = np.where(other, now | MANY, now)
    return np.where(other_group, now | MANY_GROUPS << _GROUP, many)


@dataclass
class Span:
    """Memory that arrays lie in.

    Attributes:
        low, high: its first byte, and the one after its last.
        unit: bytes of the smallest element.
        writer: who wrote each element last.
        reader: who has read it; None where nothing reads the memory.
        regions: what reached the memory so far and is not in ``writer`` and ``reader`` yet; None where all is.
    """

    low: int
    high: int
    unit: int
    writer: Array
    reader: Array | None
    regions: list[Region] | None = field(default_factory=list)

    def takes(self, region: Region | None, *, needs_writer: bool) -> bool:
        """Whether no two instances meet in a region; if that is not sure, each element must be looked at from now on.

        Args:
            region: what an operation reaches, None if that is no region.
            needs_writer: whether somebody must have written it.
        """
        if self.regions is None:
            return False
        if region is not None and self._fits(region, needs_writer=needs_writer):
            kept = [o for o in self.regions if not (region.whole and region.like(o) and o.writes == region.writes)]
            self.regions = [*kept, region]
            return True
        regions, self.regions = self.regions, None
        for each in regions:
            each.record()
        return False

    def _fits(self, region: Region, *, needs_writer: bool) -> bool:
        others = self.regions or []
        return len(others) < _MOST and all(region.like(other) or region.misses(other) for other in others) and \
            (not needs_writer or any(region.like(other) and other.writes and other.whole for other in others))


class Shadows:
    """The spans of a launch."""

    def __init__(self) -> None:
        self._spans: list[Span] = []

    def arguments(self, arrays: Iterable[tuple[Array, bool, bool]]) -> None:
        """The arrays of a launch, each with whether the kernel reads and writes it; what overlaps becomes one span."""
        ordered = sorted((*bounds(array), array.itemsize, reads, writes) for array, reads, writes in arrays)
        joined: list[list[Any]] = []
        for low, high, unit, reads, writes in ordered:
            if joined and low < joined[-1][1]:
                last = joined[-1]
                joined[-1] = [last[0], max(last[1], high), min(last[2], unit), last[3] or reads, last[4] or writes]
            elif low < high:
                joined.append([low, high, unit, reads, writes])
        for low, high, unit, reads, writes in joined:
            if writes:
                self._add(low, high, unit, reads)

    def shared(self, array: Array) -> None:
        """An array in shared local memory, for all work-groups that run now."""
        low, high = bounds(array)
        self._spans = [span for span in self._spans if span.high <= low or high <= span.low]
        self._add(low, high, array.itemsize, True)

    def _add(self, low: int, high: int, unit: int, reads: bool) -> None:
        count = -(-(high - low) // unit)
        reader = np.zeros(count, np.int64) if reads else None
        self._spans.append(Span(low, high, unit, np.zeros(count, np.int64), reader))

    def find(self, array: Array) -> Span | None:
        """The span that an array lies in; None if nothing writes it."""
        if not array.size:
            return None
        at = array.__array_interface__["data"][0]
        return next((span for span in self._spans if span.low <= at < span.high), None)


def seen(span: Span, numbers: Array, array: Array) -> Array:
    """The numbers of a span as the elements of an array lie in it."""
    first = (array.__array_interface__["data"][0] - span.low) // span.unit
    strides = tuple(stride // span.unit * numbers.itemsize for stride in array.strides)
    return np.lib.stride_tricks.as_strided(numbers[first:], array.shape, strides)
