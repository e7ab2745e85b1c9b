"""Shadow memory: for every element, codes of the instances that last wrote, read and updated it.

A code has three fields: the work-group from 1, the barriers that it has passed, and the subgroup from 1. Zero is
nobody. Where several subgroups, or several groups, have read or updated an element, all bits of the field are set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from codegen.runtime.usm import bounds
from xegpu.ir.dtypes import NDArray
from xetile.runtime.sanitizer.regions import Region

OUTSIDE = -1
READ, WRITE, UPDATE = "read", "write", "update"
AGAINST = {READ: (WRITE, UPDATE), WRITE: (WRITE, UPDATE, READ), UPDATE: (WRITE, READ)}
"""Conflicting accesses of other instances, for each access: atomic updates do not disturb each other."""
_EPOCH = 20
_MOST = 512
"""Regions that a span remembers."""


@dataclass(frozen=True)
class Codes:
    """Encoding of instances as integers.

    Attributes:
        type: their type; the smaller, the faster is a check.
        subgroup_bits: bits of the subgroup, from 1.
        epoch_bits: bits of the barriers that the group has passed.
    """

    type: np.dtype[Any]
    subgroup_bits: int
    epoch_bits: int

    @classmethod
    def fitting(cls, groups: int, subgroups: int, *, barriers: bool) -> Codes:
        """Narrowest encoding for a launch."""
        subgroup_bits, epoch_bits = (subgroups + 2).bit_length(), _EPOCH if barriers else 0
        small = (groups + 2).bit_length() + subgroup_bits + epoch_bits < 31
        return cls(np.dtype(np.int32 if small else np.int64), subgroup_bits, epoch_bits)

    @property
    def many(self) -> int:
        """Subgroup field for several subgroups."""
        return (1 << self.subgroup_bits) - 1

    @property
    def _shift(self) -> int:
        return self.subgroup_bits + self.epoch_bits

    @property
    def _many_groups(self) -> int:
        return (1 << (self.type.itemsize * 8 - 2 - self._shift)) - 1

    def of(self, group: Any, epoch: Any, subgroup: Any) -> NDArray:
        """Code of an instance, of ``group`` and ``subgroup`` from 0; either None for several."""
        groups = self._many_groups if group is None else np.asarray(group, np.int64) + 1
        subgroups = self.many if subgroup is None else np.asarray(subgroup, np.int64) + 1
        passed = epoch & ((1 << self.epoch_bits) - 1)
        return np.asarray(groups << self._shift | passed << self.subgroup_bits | subgroups, self.type)

    def fields(self, value: int) -> tuple[int | None, int | None]:
        """Work-group and subgroup of a code, from 0; None for several."""
        group, subgroup = value >> self._shift, value & self.many
        return (None if group == self._many_groups else group - 1), (None if subgroup == self.many else subgroup - 1)

    def conflicts(self, before: NDArray, now: NDArray, *, within: bool, one_group: bool) -> NDArray:
        """Mask of accesses by different instances without a barrier in between.

        Args:
            before: who was there; zero for nobody, ``OUTSIDE`` for no element.
            now: who comes.
            within: whether subgroups of one work-group count: not if subgroups wait at different barriers.
            one_group: whether only one work-group reaches the memory.
        """
        there = before > 0
        same: NDArray = before >> self.subgroup_bits == now >> self.subgroup_bits  # group and barriers
        if one_group and not same.any():
            return np.zeros((1,) * before.ndim, bool)
        group = now >> self._shift
        groups: NDArray = there & ((before >> self._shift != group) | (group == self._many_groups))
        if not within:
            return groups
        return np.asarray(groups | (there & same & ((before != now) | (now & self.many == self.many))))

    def merged(self, before: NDArray, now: NDArray) -> NDArray:
        """Code of the readers or updaters of an element, with another one added."""
        other_group = (before > 0) & (before >> self._shift != now >> self._shift)
        other = (before >> self.subgroup_bits == now >> self.subgroup_bits) & (before != now)
        most = np.where(other, now | self.many, now)
        return np.where(other_group, now | self._many_groups << self._shift, most)


@dataclass
class Span:
    """Shadow of a span of memory in which arrays lie.

    Attributes:
        low, high: its first byte, and the one after its last.
        unit: bytes of the smallest element.
        numbers: for each kind of access that the kernel has, who did it to each element.
        touched: the kinds of which ``numbers`` has any.
        written: in shared local memory, whether anything wrote each element; None once all of it is written.
        regions: what reached the memory so far and is not in ``numbers`` yet; None where all is.
    """

    low: int
    high: int
    unit: int
    numbers: dict[str, NDArray]
    touched: set[str] = field(default_factory=set)
    written: NDArray | None = None
    regions: list[Region] | None = field(default_factory=list)

    def takes(self, region: Region | None) -> bool:
        """Whether a region has no conflict; otherwise elements are checked one by one from now on.

        Args:
            region: what an operation reaches, None if that is no region.
        """
        if self.regions is None:
            return False
        if region is not None and len(self.regions) < _MOST and all(map(region.fits, self.regions)):
            if not any(region.repeats(other) for other in self.regions):
                self.regions.append(region)
            return True
        regions, self.regions = self.regions, None
        for each in regions:
            each.record()
        return False


    def enters(self, region: Region | None, record: Callable[[], None]) -> None:
        """Record the regions that were found free of conflicts.

        Args:
            region: what was reached, None if that is no region.
            record: notes for each element who reached it.
        """
        if region is None:
            self.takes(None)
        if region is None or self.regions is None:
            record()
        else:
            self.regions.append(replace(region, record=record))


class Shadows:
    """Shadow memory of a launch."""

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._spans: list[Span] = []
        self._shared: list[Span] = []

    def arguments(self, arrays: Iterable[tuple[NDArray, frozenset[str]]]) -> None:
        """Add the arrays of a launch, each with the kernel's kinds of access; overlapping ones share a span."""
        ordered = sorted(((*bounds(array), array.itemsize, kinds) for array, kinds in arrays),
                         key=lambda each: each[:3])
        joined: list[tuple[int, int, int, frozenset[str]]] = []
        for low, high, unit, kinds in ordered:
            if joined and low < joined[-1][1]:
                first, last, smallest, others = joined.pop()
                joined.append((first, max(last, high), min(smallest, unit), others | kinds))
            elif low < high:
                joined.append((low, high, unit, kinds))
        for low, high, unit, kinds in joined:
            if any(other in kinds for kind in kinds for other in AGAINST[kind]):
                self._spans.append(self._span(low, high, unit, kinds))

    def shared(self, array: NDArray) -> None:
        """Add an array in shared local memory, for all work-groups that run now."""
        low, high = bounds(array)
        self._shared = [span for span in self._shared if span.high <= low or high <= span.low]
        span = self._span(low, high, array.itemsize, frozenset((READ, WRITE, UPDATE)))
        span.written = np.zeros((high - low) // array.itemsize, bool)
        self._shared.append(span)

    def barrier(self) -> None:
        """Forget the accesses to shared local memory before a barrier of all subgroups."""
        for span in self._shared:
            span.regions = []

    def _span(self, low: int, high: int, unit: int, kinds: frozenset[str]) -> Span:
        count = -(-(high - low) // unit)
        return Span(low, high, unit, {kind: np.zeros(count, self._codes.type) for kind in kinds})

    def find(self, array: NDArray, *, shared: bool) -> Span | None:
        """Span of an array; None if its elements are not tracked."""
        if not array.size:
            return None
        at = array.__array_interface__["data"][0]
        spans = self._shared if shared else self._spans
        return next((span for span in spans if span.low <= at < span.high), None)


def seen(span: Span, numbers: NDArray, array: NDArray) -> NDArray:
    """Codes of a span in the layout of an array."""
    first = (array.__array_interface__["data"][0] - span.low) // span.unit
    strides = tuple(stride // span.unit * numbers.itemsize for stride in array.strides)
    return np.ndarray(array.shape, numbers.dtype, numbers, first * numbers.itemsize, strides)
