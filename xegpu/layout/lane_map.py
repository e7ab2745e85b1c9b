"""Lane maps: the mapping of a block's elements to lanes, ``sg_map`` (XeGPU.md, "Work Item Level semantics").

A subgroup of ``wi_layout[0] * wi_layout[1]`` lanes shares a block. One *distribution unit* covers
``wi_layout * wi_data`` elements, ``wi_data`` of them a lane; units follow each other in row-major order. A lane's
fragment is therefore ``[number of units, wi_data[0] * wi_data[1]]``.

A map of fewer lanes than the subgroup is *replicated*: lane ``l`` holds the elements of lane
``l % (wi_layout[0] * wi_layout[1])``. Results of reductions have such maps, 8x1 over 16 lanes for example.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import gcd
from typing import Any

import numpy as np

from xegpu.layout.cooperative_matrix import b_element, b_owner
from xegpu.support.errors import ShapeError


@dataclass(frozen=True)
class LaneMap:
    """Distribution of a block over the lanes of a subgroup.

    Attributes:
        wi_layout: lanes along rows and columns.
        wi_data: adjacent elements that one lane holds along rows and columns.

    Raises:
        ShapeError: these are not two positive numbers each.
    """

    wi_layout: tuple[int, int]
    wi_data: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        for name, pair in (("wi_layout", self.wi_layout), ("wi_data", self.wi_data)):
            if not isinstance(pair, tuple) or len(pair) != 2 or min(pair) < 1:
                actual = list(pair) if isinstance(pair, tuple) else pair
                raise ShapeError("XT3501", f"{name} is two positive numbers, not {actual}", f"write {name} = [1, 16]")

    @property
    def lanes(self) -> int:
        """Number of distinct lanes, at most those of the subgroup; the map is replicated over the others."""
        return self.wi_layout[0] * self.wi_layout[1]

    @property
    def unit(self) -> tuple[int, int]:
        """Rows and columns of one distribution unit."""
        return self.wi_layout[0] * self.wi_data[0], self.wi_layout[1] * self.wi_data[1]

    @property
    def per_lane(self) -> int:
        """Elements of one unit per lane."""
        return self.wi_data[0] * self.wi_data[1]

    @property
    def transposed(self) -> LaneMap:
        """Lane map of the transposed block: each lane keeps its elements in the same order.

        Raises:
            ShapeError: lanes lie along both dimensions; lanes are numbered row-major, and transposed they would not be.
        """
        if min(self.wi_layout) > 1:
            raise ShapeError("XT3502",
                             f"a block over {self.wi_layout[0]}x{self.wi_layout[1]} lanes has no transposed map",
                             "use lanes along one dimension, or load the block as it lies and vector.transpose it")
        return LaneMap((self.wi_layout[1], self.wi_layout[0]), (self.wi_data[1], self.wi_data[0]))

    def along_one(self, shape: tuple[int, int]) -> LaneMap:
        """Lane map with one element a lane and lanes along one dimension: this one, or the one with most lanes."""
        if min(self.wi_layout) == 1:
            return self
        rows, columns = (gcd(size, self.lanes) for size in shape)
        return LaneMap((rows, 1) if rows > columns else (1, columns))

    def fragment(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Shape of a lane's fragment of a block of ``shape``: units, elements a unit.

        Raises:
            ShapeError: the block is not a whole number of units.
        """
        rows, columns = self.unit
        if shape[0] % rows or shape[1] % columns:
            raise ShapeError("XT3503",
                f"a {shape[0]}x{shape[1]} block does not divide into units of {rows}x{columns} "
                f"(wi_layout {list(self.wi_layout)}, wi_data {list(self.wi_data)})",
                f"rows must be a multiple of {rows} and columns a multiple of {columns}",
            )
        return shape[0] * shape[1] // (self.lanes * self.per_lane), self.per_lane

    def block(self, fragment: tuple[int, int], columns: int) -> tuple[int, int]:
        """Shape of the block of ``columns`` columns whose fragment is ``fragment``."""
        elements = fragment[0] * fragment[1] * self.lanes
        return elements // columns, columns


@cache
def positions(shape: tuple[int, int], lanes: LaneMap,
              subgroup: int | None = None) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Row and column of every element of a fragment, each as ``[lanes, units, elements a unit]``.

    They agree with the layout of a cooperative matrix B of the block's transpose, in words of ``wi_data`` elements.

    Args:
        shape: rows and columns of the block.
        lanes: its map.
        subgroup: lanes of the subgroup, over which the map is replicated; by default those of the map.
    """
    units, per_lane = lanes.fragment(shape)
    lane = np.arange(subgroup or lanes.lanes)[:, None, None] % lanes.lanes
    unit = np.arange(units)[None, :, None]
    element = np.arange(per_lane)[None, None, :]
    column, row = b_element(lane, unit, shape[1] // lanes.wi_data[1], lanes.wi_layout[1], lanes.lanes)
    row = row * lanes.wi_data[0] + element // lanes.wi_data[1]
    column = column * lanes.wi_data[1] + element % lanes.wi_data[1]
    return row, column


def holder(shape: tuple[int, int], lanes: LaneMap, row: Any, column: Any) -> tuple[Any, Any]:
    """Lane and index in the lane's fragment of an element: the inverse of :func:`positions`.

    Args:
        shape: rows and columns of the block.
        lanes: its map.
        row, column: integers, or arrays of them.
    """
    (down, across), (height, width) = lanes.wi_layout, lanes.wi_data
    lane, unit = b_owner(column // width, row // height, shape[1] // width, across, down * across)
    return lane, unit * lanes.per_lane + row % height * width + column % width


def gather(fragments: np.ndarray[Any, Any], shape: tuple[int, int], lanes: LaneMap) -> np.ndarray[Any, Any]:
    """Assemble a block ``[..., rows, columns]`` from fragments ``[..., lanes, units, elements a unit]``."""
    row, column = positions(shape, lanes)
    block = np.empty((*fragments.shape[:-3], *shape), fragments.dtype)
    block[..., row, column] = fragments[..., :lanes.lanes, :, :]
    return block


def scatter(block: np.ndarray[Any, Any], lanes: LaneMap, subgroup: int | None = None) -> np.ndarray[Any, Any]:
    """Distribute a block ``[..., rows, columns]`` into fragments ``[..., lanes, units, elements a unit]``.

    Args:
        block: the block.
        lanes: the map.
        subgroup: lanes of the subgroup, over which the map is replicated; by default those of the map.
    """
    row, column = positions((block.shape[-2], block.shape[-1]), lanes, subgroup)
    return block[..., row, column]


def default(subgroup: int, columns: int, rows: int | None = None) -> LaneMap:
    """Default lane map: one element a lane along a row; rows shorter than the subgroup share a unit.

    It is the layout of accumulators and of element-wise operations.

    Args:
        subgroup: lanes of the subgroup.
        columns: columns of the block.
        rows: its rows, by default as many as a unit has. Where they are fewer, the map is replicated.

    Raises:
        ShapeError: columns that are neither a multiple nor a divisor of the lanes.
    """
    if columns % subgroup == 0:
        return LaneMap((1, subgroup))
    if columns < subgroup and subgroup % columns == 0:
        most = subgroup // columns
        return LaneMap((most if rows is None else gcd(most, rows), columns))
    raise ShapeError("XT3504",
        f"a row of {columns} elements does not spread over {subgroup} lanes",
        f"use a multiple of {subgroup} columns, or a divisor of it",
    )


def operand_a(subgroup: int, bits: int, rows: int = 8) -> LaneMap:
    """Lane map of DPAS operand A: a row of 8 words over the lanes (XeGPU.md, "Rules of sg_map", matrix A).

    Args:
        subgroup: lanes of a subgroup.
        bits: of an element.
        rows: of the operand. Where two rows fill a register, a single one is replicated; the engine reads it once.
    """
    if subgroup == 8:
        return LaneMap((1, 8), (1, 32 // bits))
    if bits == 32:
        return LaneMap((gcd(2, rows), 8))
    return LaneMap((1, 16), (1, 16 // bits))


def operand_b(subgroup: int, bits: int) -> LaneMap:
    """Lane map of DPAS operand B in VNNI form: a lane's word holds ``32 / bits`` rows of one column (matrix B)."""
    return LaneMap((1, subgroup), (32 // bits, 1))


def unaligned_copy(side: str, bits: int = 16) -> LaneMap:
    """Lane map in which elements of operand A or B are copied from rows that may begin anywhere, in the middle of a
    word, too.

    A lane has one row, or two: they are vectors of words in memory, wherever they begin, and in the panels of shared
    local memory. Words of 16-bit elements have two columns of a row of A, or two rows of a column of B (VNNI), of 8-bit
    ones four.

    Args:
        side: ``a`` or ``b``.
        bits: of an element, 8, 16 or 32.
    """
    return LaneMap((16, 1), (1, 32 // bits) if side == "a" else (32 // bits, 1))
