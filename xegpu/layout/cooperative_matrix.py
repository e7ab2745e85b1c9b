"""Cooperative matrix layouts: the distribution of a matrix over the lanes of a subgroup (coopmatrix_layout.rst).

Every lane holds a vector of the same number of components. *Coordinates* are row and column of a component; components
past the last column are padding, which reads as zero. The functions take integers or arrays of them.

Element-wise loads and stores follow :func:`lane_element` and :func:`component_offset`: the map of the document's matrix
B, with ``I`` as a parameter. A :class:`xegpu.layout.lane_map.LaneMap` is that map of a block's transpose, in words of
``wi_data`` elements; ``I`` is ``wi_layout[1]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xegpu.ir.dtypes import NDArray
from xegpu.support.errors import ShapeError

Coordinates = tuple[Any, Any]
USES = ("acc", "a", "b")


def lane_element(lane: Any, side: int) -> Coordinates:
    """Row and column of a lane's first component in matrix B: ``i = p mod I`` and ``j = p / I``; ``side`` is ``I``."""
    return lane % side, lane // side


def component_offset(component: Any, rows: int, side: int, lanes: int) -> Coordinates:
    """Offset of component ``w + u K`` from the first in matrix B: ``w I`` rows and ``u S / I`` columns."""
    steps = rows // side
    return component % steps * side, component // steps * (lanes // side)


def b_element(lane: Any, component: Any, rows: int, side: int, lanes: int) -> Coordinates:
    """Row and column of a component in matrix B."""
    (row, column), (down, right) = lane_element(lane, side), component_offset(component, rows, side, lanes)
    return row + down, column + right


def b_owner(row: Any, column: Any, rows: int, side: int, lanes: int) -> Coordinates:
    """Lane and component of an element of matrix B: the inverse of :func:`b_element`."""
    across = lanes // side
    return row % side + column % across * side, row // side + column // across * (rows // side)


def acc_element(lane: Any, component: Any, columns: int, lanes: int) -> Coordinates:
    """Row and column of component ``u + w J`` of the accumulator: ``p + w S`` and ``u``; ``columns`` is ``J``."""
    return lane + component // columns * lanes, component % columns


def acc_owner(row: Any, column: Any, columns: int, lanes: int) -> Coordinates:
    """Lane and component of an element of the accumulator: the inverse of :func:`acc_element`."""
    return row % lanes, column + row // lanes * columns


def a_element(lane: Any, component: Any, columns: int, lanes: int, packed: int) -> Coordinates:
    """Row and column of a component in matrix A: the accumulator's tensor after the VNNI transform.

    Args:
        lane, component: ``p``, and ``u + w J``.
        columns: ``J``.
        lanes: ``S``.
        packed: ``o``, the elements of 32 bits.
    """
    u, w = component % columns, component // columns
    return lane // packed + u % packed * (lanes // packed) + w * lanes, lane % packed + u // packed * packed


def a_owner(row: Any, column: Any, columns: int, lanes: int, packed: int) -> Coordinates:
    """Lane and component of an element of matrix A: the inverse of :func:`a_element`."""
    i, w = row % lanes, row // lanes
    lane = i * packed % lanes + column % packed
    return lane, i // (lanes // packed) + column // packed * packed + w * columns


@dataclass(frozen=True)
class Matrix:
    """Layout of a cooperative matrix.

    Attributes:
        use: ``"acc"``, ``"a"`` or ``"b"``.
        rows, columns: ``M`` and ``N``.
        subgroup: ``S``, a power of two.
        bits: of an element.

    Raises:
        ShapeError: a subgroup that is no power of two, or rows that the use does not take.
    """

    use: str
    rows: int
    columns: int
    subgroup: int
    bits: int = 32

    def __post_init__(self) -> None:
        if self.use not in USES:
            raise ShapeError("XT3550",
                             f"a cooperative matrix is of use {', '.join(USES[:-1])} or {USES[-1]}, not {self.use}",
                             f"write {' or '.join(map(repr, USES))}")
        if not _is_power(self.subgroup):
            raise ShapeError("XT3551",
                             f"a subgroup of {self.subgroup} lanes is not a power of two", "use 8, 16 or 32 lanes")
        if min(self.rows, self.columns) < 1:
            raise ShapeError("XT3552",
                             f"a matrix of {self.rows}x{self.columns} holds nothing", "give it a row and a column")
        if self.use == "b" and not _is_power(self.rows):
            raise ShapeError("XT3553", f"matrix B has {self.rows} rows, which is not a power of two",
                             f"use {1 << self.rows.bit_length()}: rows outside the array read as zero")
        if self.use != "b" and self.rows % self.subgroup:
            raise ShapeError("XT3554", f"{self.rows} rows are not a multiple of the subgroup's {self.subgroup} lanes",
                             f"use {self.rows + -self.rows % self.subgroup}: rows outside the array read as zero")
        if self.use == "a" and self.subgroup % self.packed:
            raise ShapeError("XT3555",
                             f"a subgroup of {self.subgroup} lanes does not share words of {self.packed} elements",
                             f"use at least {self.packed} lanes")

    @property
    def packed(self) -> int:
        """``o``: packing factor, elements in 32 bits."""
        return max(1, 32 // self.bits)

    @property
    def side(self) -> int:
        """``I``: lanes along rows."""
        return min(self.rows, self.subgroup)

    @property
    def padded(self) -> int:
        """``J``: columns, padded to a lane's words or to the last column of lanes."""
        unit = self.subgroup // self.side if self.use == "b" else self.packed
        return -(-self.columns // unit) * unit

    @property
    def components(self) -> int:
        """``V``: components per lane."""
        return self.rows * self.padded // self.subgroup

    def element(self, lane: Any, component: Any) -> Coordinates:
        """Row and column of a lane's component; columns at and past ``columns`` are padding."""
        if self.use == "b":
            return b_element(lane, component, self.rows, self.side, self.subgroup)
        if self.use == "a":
            return a_element(lane, component, self.padded, self.subgroup, self.packed)
        return acc_element(lane, component, self.padded, self.subgroup)

    def owner(self, row: Any, column: Any) -> Coordinates:
        """Lane and component of an element: the inverse of :meth:`element`."""
        if self.use == "b":
            return b_owner(row, column, self.rows, self.side, self.subgroup)
        if self.use == "a":
            return a_owner(row, column, self.padded, self.subgroup, self.packed)
        return acc_owner(row, column, self.padded, self.subgroup)

    def elements(self) -> Coordinates:
        """Row and column of every component, each as ``[lanes, components]``."""
        return self.element(np.arange(self.subgroup)[:, None], np.arange(self.components)[None, :])


def load(matrix: Matrix, array: NDArray, position: tuple[int, int] = (0, 0), *, transposed: bool = False,
         rows_checked: bool = True, columns_checked: bool = True) -> NDArray:
    """Load a cooperative matrix from an array, as the document's load code does.

    Args:
        matrix: its layout.
        array: two dimensions, with any strides.
        position: row and column in the array, or in its transpose, of the matrix's first element.
        transposed: whether the matrix is loaded from the array's transpose.
        rows_checked, columns_checked: whether rows and columns outside the array read as zero.

    Returns:
        ``[lanes, components]``.

    Raises:
        ShapeError: an element is out of bounds along a dimension that is not checked.
    """
    array = array.T if transposed else array
    row, column, is_there = _reached(matrix, array, position, rows_checked, columns_checked)
    values: NDArray = np.zeros(row.shape, array.dtype)
    values[is_there] = array[row[is_there], column[is_there]]
    return values


def store(matrix: Matrix, values: NDArray, array: NDArray, position: tuple[int, int] = (0, 0), *,
          transposed: bool = False, rows_checked: bool = True, columns_checked: bool = True) -> None:
    """Store a cooperative matrix to an array; arguments and errors are those of :func:`load`."""
    array = array.T if transposed else array
    row, column, is_there = _reached(matrix, array, position, rows_checked, columns_checked)
    array[row[is_there], column[is_there]] = values[is_there]


def _reached(matrix: Matrix, array: NDArray, position: tuple[int, int], rows_checked: bool,
             columns_checked: bool) -> tuple[NDArray, NDArray, NDArray]:
    """Row and column in the array of each component, and the mask of those inside both matrix and array."""
    row, column = np.broadcast_arrays(*matrix.elements())
    is_element = column < matrix.columns
    row, column = row + position[0], column + position[1]
    inside = np.ones(row.shape, bool)
    for name, at, size, checked in (("row", row, array.shape[0], rows_checked),
                                    ("column", column, array.shape[1], columns_checked)):
        fits = (at >= 0) & (at < size)
        if not checked and (outside := is_element & ~fits).any():
            raise ShapeError("XT3556",
                             f"{name} {at[outside][0]} lies outside an array of {size} {name}s, and is not checked",
                             f"pass {name}s_checked=True")
        inside &= fits
    return row, column, is_element & inside


def _is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0
