"""Linear layouts (as in Triton): lane maps of power-of-two blocks as permutations of index bits.

An element's row and column are bits, and so are its lane and its unit: a lane map assigns a bit of row or column to
each bit of the lane and of the unit. Another map of the same block is another permutation of these bits. A subgroup
converts one to the other by exchanging a lane bit with a unit bit: lanes that differ in that bit swap one of two words.
"""

from __future__ import annotations

from dataclasses import dataclass

from xegpu.layout.lane_map import LaneMap

Bit = tuple[int, int]
"""An index bit: axis (0 row, 1 column) and bit number."""


@dataclass(frozen=True)
class LaneBits:
    """Linear layout: the index bit of each bit of the lane and of the unit number.

    Attributes:
        lane: for each bit of the lane, from the lowest; None for a bit over which the map is replicated.
        unit: for each bit of the unit.
    """

    lane: tuple[Bit | None, ...]
    unit: tuple[Bit, ...]

    @property
    def units(self) -> int:
        """Units per lane."""
        return 1 << len(self.unit)


def _log2(size: int) -> int:
    return size.bit_length() - 1


def _is_power(*sizes: int) -> bool:
    return all(size > 0 and size & (size - 1) == 0 for size in sizes)


def bits_of(shape: tuple[int, int], lanes: LaneMap, subgroup: int) -> LaneBits | None:
    """Linear layout of a lane map; None where a size is no power of two or a unit has several elements a lane."""
    rows, columns = lanes.wi_layout
    if lanes.per_lane != 1 or not _is_power(*shape, rows, columns, subgroup):
        return None
    lane: list[Bit | None] = [(1, k) for k in range(_log2(columns))]
    lane += [(0, k) for k in range(_log2(rows))]
    lane += [None] * (_log2(subgroup) - len(lane))
    unit = [(1, k) for k in range(_log2(columns), _log2(shape[1]))]
    unit += [(0, k) for k in range(_log2(rows), _log2(shape[0]))]
    return LaneBits(tuple(lane), tuple(unit))
