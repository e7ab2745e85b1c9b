"""Region check: accesses by disjoint blocks, which need no check of single elements.

In most kernels each instance stores a block of its own. As long as any two regions of a span are the same blocks of
the same instances, or disjoint, or both only read, there is no race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xegpu.interpreter.memory import Progression, lattice_of
from xegpu.interpreter.memory.elements import identity


@dataclass(frozen=True)
class Region:
    """Blocks that the active instances access by one operation.

    Attributes:
        surface: what tells the array from others.
        along: for each dimension of the array, where the instances' blocks start.
        sizes: and how large they are.
        owner: what tells whose a block is: the instances, and how it is distributed to subgroups; None where several
            instances may reach one element.
        writes: whether the operation writes.
        all_active: whether all instances are active.
        record: notes for each element who reached it.
    """

    surface: Any
    along: tuple[Progression, ...]
    sizes: tuple[int, ...]
    owner: Any
    writes: bool
    all_active: bool
    record: Callable[[], None]

    def fits(self, other: Region) -> bool:
        """Whether two regions, one of them written, provably have no conflict."""
        if not self.writes and not other.writes:
            return True
        alike = self.owner is not None and self.owner == other.owner and self._is_on(other) and self._is_at(other)
        return alike or self._misses(other)

    def repeats(self, other: Region) -> bool:
        """Whether another region covers this one."""
        return self.writes == other.writes and (other.all_active or not self.all_active) and self.owner == other.owner \
            and self._is_on(other) and self._is_at(other)

    def _is_on(self, other: Region) -> bool:
        return bool(self.surface == other.surface)

    def _is_at(self, other: Region) -> bool:
        return self.along == other.along and self.sizes == other.sizes

    def _misses(self, other: Region) -> bool:
        return self._is_on(other) and any(
            _disjoint(*pair) for pair in zip(self.along, self.sizes, other.along, other.sizes, strict=True))


def _disjoint(one: Progression, size: int, other: Progression, other_size: int) -> bool:
    """Whether blocks along a dimension are disjoint: one before the other, or interleaved."""
    if one.end(size) <= other.start or other.end(other_size) <= one.start:
        return True
    if len(one.axes) != 1 or len(other.axes) != 1 or one.axes[0][1] != other.axes[0][1]:
        return False
    step = one.axes[0][1]
    between = (other.start - one.start) % step
    return size <= between <= step - other_size


def region_of(array: np.ndarray[Any, Any], offsets: Sequence[Any], shape: tuple[int, int], instances: Sequence[int],
              owner: Any, *, writes: bool, all_active: bool, record: Callable[[], None]) -> Region | None:
    """Region of a tile access; None where instances may write the same elements.

    Args:
        array: the array.
        offsets: of the tile, for each dimension.
        shape: rows and columns of the tile.
        instances: how many there are along each batch axis.
        owner, writes, all_active, record: the other fields; the owner is None for replicated blocks.
    """
    along, sizes = lattice_of(offsets), (*[1] * (len(offsets) - 2), *shape)
    disjoint = along is not None and owner is not None and _all_disjoint(along, sizes, instances)
    if writes and not disjoint:
        return None
    if along is None:
        low, high = ([int(of(offset)) for offset in offsets] for of in (np.min, np.max))
        along = list(map(Progression, low))
        sizes = tuple(last - first + size for last, first, size in zip(high, low, sizes, strict=True))
    return Region(identity(array), tuple(along), sizes, owner if disjoint else None, writes, all_active, record)


def _all_disjoint(along: Sequence[Progression], sizes: Sequence[int], instances: Sequence[int]) -> bool:
    """Whether the blocks of any two instances are disjoint."""
    moving = {axis for each in along for axis, _, _ in each.axes}
    return all(_are_disjoint(each, size) for each, size in zip(along, sizes, strict=True)) and \
        not any(count > 1 and axis not in moving for axis, count in enumerate(instances))


def _are_disjoint(along: Progression, size: int) -> bool:
    """Whether blocks of ``size`` at these offsets are disjoint."""
    for _, step, count in sorted(along.axes, key=lambda axis: axis[1]):
        if step < size:
            return False
        size += step * (count - 1)
    return True
