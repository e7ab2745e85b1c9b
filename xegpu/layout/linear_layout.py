"""Lane maps of blocks whose sizes are powers of two, bit by bit.

An element's row and column are bits, and so are its lane and its unit: a lane map says which bit of row or column each
bit of the lane and of the unit is. Another map of the same block is another order of these bits, which a subgroup
reaches by exchanges of a lane's bit with a unit's: half of the lanes swap one of two words with a lane apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from xegpu.layout.lane_map import LaneMap

Bit = tuple[int, int]
"""Axis (0 row, 1 column) and number of a bit of an element's position."""


@dataclass(frozen=True)
class LaneBits:
    """What the bits of a lane's number and of a unit's number are.

    Attributes:
        lane: for each bit of the lane, from the lowest; None where lanes that differ in it hold the same.
        unit: for each bit of the unit.
    """

    lane: tuple[Bit | None, ...]
    unit: tuple[Bit, ...]

    @property
    def units(self) -> int:
        """Words that a lane holds."""
        return 1 << len(self.unit)


def _log2(size: int) -> int:
    return size.bit_length() - 1


def _is_power(*sizes: int) -> bool:
    return all(size > 0 and size & (size - 1) == 0 for size in sizes)


def bits_of(shape: tuple[int, int], lanes: LaneMap, subgroup: int) -> LaneBits | None:
    """The bits of a map; None where a size is no power of two, or a lane holds several elements of a unit."""
    rows, columns = lanes.wi_layout
    if lanes.per_lane != 1 or not _is_power(*shape, rows, columns, subgroup):
        return None
    lane: list[Bit | None] = [(1, k) for k in range(_log2(columns))]
    lane += [(0, k) for k in range(_log2(rows))]
    lane += [None] * (_log2(subgroup) - len(lane))
    unit = [(1, k) for k in range(_log2(columns), _log2(shape[1]))]
    unit += [(0, k) for k in range(_log2(rows), _log2(shape[0]))]
    return LaneBits(tuple(lane), tuple(unit))
