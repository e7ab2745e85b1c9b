"""Memory that instances share out among themselves, each a block of its own: no element needs to be looked at.

Most kernels store so. As long as all that reaches a span of memory is such a region, and any two of them are the same
one or have no element in common, no two instances meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xegpu.memory import Progression, lattice_of
from xegpu.scattered_memory import identity


@dataclass(frozen=True)
class Region:
    """What the instances that run reach with one operation.

    Attributes:
        surface: what tells the array from others.
        along: for each dimension of the array, where the instances' blocks start.
        sizes: and how large they are.
        ran: the instances.
        map: how a block is dealt to subgroups.
        writes: whether the operation writes.
        whole: whether all instances take part.
        record: notes for each element who reached it.
    """

    surface: Any
    along: tuple[Progression, ...]
    sizes: tuple[int, ...]
    ran: Any
    map: Any
    writes: bool
    whole: bool
    record: Callable[[], None]

    def like(self, other: Region) -> bool:
        """Whether each instance reaches the same elements in both."""
        return all(getattr(self, name) == getattr(other, name) for name in ("surface", "along", "sizes", "ran", "map"))

    def misses(self, other: Region) -> bool:
        """Whether the two surely have no element in common."""
        return self.surface == other.surface and any(
            _apart(*pair) for pair in zip(self.along, self.sizes, other.along, other.sizes, strict=True))


def _apart(one: Progression, size: int, other: Progression, other_size: int) -> bool:
    """Whether blocks along a dimension have nothing in common: one before the other, or in each other's gaps."""
    if one.end(size) <= other.start or other.end(other_size) <= one.start:
        return True
    if len(one.axes) != 1 or len(other.axes) != 1 or one.axes[0][1] != other.axes[0][1]:
        return False
    step = one.axes[0][1]
    between = (other.start - one.start) % step
    return size <= between <= step - other_size


def region_of(array: np.ndarray[Any, Any], offsets: Sequence[Any], shape: tuple[int, int], instances: Sequence[int],
              **more: Any) -> Region | None:
    """The region of an operation on a tile; None where instances may reach the same elements.

    Args:
        array: the array.
        offsets: where the tile stands, for each dimension.
        shape: rows and columns of the tile.
        instances: how many there are along each batch axis.
        more: the other fields.
    """
    along, sizes = lattice_of(offsets), (*[1] * (len(offsets) - 2), *shape)
    if along is None or not all(_own(each, size) for each, size in zip(along, sizes, strict=True)):
        return None
    moving = {axis for each in along for axis, _, _ in each.axes}
    if any(count > 1 and axis not in moving for axis, count in enumerate(instances)):
        return None
    return Region(identity(array), tuple(along), sizes, **more)


def _own(along: Progression, size: int) -> bool:
    """Whether blocks of a size that start so do not overlap."""
    for _, step, count in sorted(along.axes, key=lambda axis: axis[1]):
        if step < size:
            return False
        size += step * (count - 1)
    return True
