"""Panel layouts of matrices in shared local memory, so that few messages move a block.

Shared local memory is private to the kernel, so its layout is free. A matrix is split into contiguous *panels* of a few
columns. A panel is row-major, and ``rows`` of its rows may be interleaved: the elements of a column in these rows are
adjacent, as in the words of VNNI form. Where panels have the columns of an operand, all of a block is contiguous, and a
message of 256 or 512 bytes moves as much of it.

    16 columns, 1 row       row-major panels: operand A of 16 bits, and accumulators
    16 columns, 2 rows      a word for each column of two rows: operand B of 16 bits
    all columns, 1 row      row-major order

A matrix may be split into *slabs* of 8 rows first, each a matrix of panels by itself. So 8 rows of 32 columns
of 16 bits are one message, which has an operand A of each product in a step of K = 32, where 16 rows of 16 columns have
those of half of it: products then wait for each other's loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Positions = np.ndarray[Any, Any]
MESSAGE = 512
"""Bytes of the largest message: 64 elements of 64 bits (``d64x64t``), or 8 words of 16 lanes (``d32x8``)."""
RUN = 8
"""Most words of a lane in one run; rows of an operand A."""


@dataclass(frozen=True)
class Panels:
    """Panel layout of a matrix in shared local memory.

    Attributes:
        height, width: rows and columns of the matrix.
        rows: interleaved rows, whose elements of one column are adjacent.
        columns: columns of a panel.
        slab: rows of a slab; 0 where all rows are one.
    """

    height: int
    width: int
    rows: int
    columns: int
    slab: int = 0

    @classmethod
    def row_major(cls, height: int, width: int) -> Panels:
        """The row-major layout: one panel of all columns."""
        return cls(height, width, 1, width)

    @property
    def is_row_major(self) -> bool:
        """Whether the matrix is one panel without interleaving."""
        return self.rows == 1 and self.columns == self.width

    @property
    def label(self) -> str:
        """Its rows, columns and slab, as part of a name."""
        return f"{self.rows}x{self.columns}{f'_slabs_{self.slab}' if self.slab else ''}"

    @property
    def fits(self) -> bool:
        """Whether panels divide the matrix evenly, so that it needs no padding."""
        return self.height % (self.slab or self.rows) == 0 and self.width % self.columns == 0

    def position(self, row: Any, column: Any) -> Any:
        """Linear index of an element; for integers and for arrays of them."""
        height = self.slab or self.height
        slab, panel = row // height * height * self.width, column // self.columns * height * self.columns
        word = row % height // self.rows * self.rows * self.columns
        return slab + panel + word + column % self.columns * self.rows + row % self.rows

    @property
    def weights(self) -> tuple[int, int]:
        """Strides of row and column in the linear index, at multiples of :attr:`unit`."""
        if self.slab:
            return self.width, self.slab
        return (self.width, 1) if self.is_row_major else (self.columns, self.height)

    @property
    def unit(self) -> tuple[int, int]:
        """Rows and columns at whose multiples a block of any shape has the layout that it has at (0, 0)."""
        return (1, 1) if self.is_row_major else (self.slab or self.rows, self.columns)


@dataclass(frozen=True)
class Run:
    """Memory words that one message moves for one lane.

    Attributes:
        start: linear index of the first lane's first word, in elements.
        words: for each word, the indices of its elements in the lane's fragment.
        together: whether words are interleaved by lane (word 0 of all lanes, then word 1); else each lane's words are
            contiguous.
    """

    start: int
    words: tuple[tuple[int, ...], ...]
    together: bool

    @property
    def elements(self) -> int:
        """Elements per word."""
        return len(self.words[0])


def runs(positions: Positions, size: int, aligned: int) -> list[Run]:
    """Split the transfer of a fragment into the fewest messages.

    Args:
        positions: linear index of each element of a fragment, ``[lanes, elements]``.
        size: bytes of an element.
        aligned: known alignment of the first position in bytes.

    Returns:
        runs interleaved by lane where the layout allows, else runs contiguous in each lane; none if the lanes differ in
        more than their first position.
    """
    fitting = [elements for elements in (4, 2, 1) if elements * size <= 4]
    options = (_interleaved_runs(positions, elements) for elements in fitting)
    found = next((run for run in options if run is not None), None)
    if found is not None and aligned % 16 == 0 and all(run.start * size % 16 == 0 for run in found):
        return found
    return _contiguous_runs(positions, size, aligned)


def _interleaved_runs(positions: Positions, elements: int) -> list[Run] | None:
    """Runs interleaved by lane, with words of so many elements; None where the layout has none."""
    lanes, count = positions.shape
    order = np.argsort(positions[0], kind="stable")
    if count % elements:
        return None
    words = order.reshape(-1, elements)
    starts = positions[0][words[:, 0]]
    expected = starts[:, None] + np.arange(lanes)[:, None, None] * elements + np.arange(elements)
    if not np.array_equal(positions[:, words], expected):
        return None
    return [Run(int(starts[group[0]]), tuple(tuple(map(int, words[i])) for i in group), True)
            for group in _grouped(starts, lanes * elements)]


def _contiguous_runs(positions: Positions, size: int, aligned: int) -> list[Run]:
    """Runs contiguous in each lane; every lane has the same offsets from its first element."""
    relative = positions - positions[:, :1]
    if not (relative == relative[0]).all():
        return []
    order = np.argsort(positions[0], kind="stable")
    begins = positions[:, 0] * size
    for elements in (4 // size, 2 // size, 1) if size < 4 else (1,):
        if positions.shape[1] % elements or elements == 0:
            continue
        words = order.reshape(-1, elements)
        starts = positions[0][words[:, 0]]
        whole = np.array_equal(positions[0][words], starts[:, None] + np.arange(elements))
        offsets = np.concatenate([starts * size, begins - begins[0]])
        if whole and aligned % (elements * size) == 0 and not (offsets % (elements * size)).any():
            return [Run(int(starts[group[0]]), tuple(tuple(map(int, words[i])) for i in group), False)
                    for group in _grouped(starts, elements)]
    return []


def _grouped(starts: Positions, step: int) -> list[list[int]]:
    """Group the indices of words at distances of ``step`` into vectors of 8, 4, 2 and 1."""
    groups: list[list[int]] = []
    chain: list[int] = []
    for i, start in enumerate(starts):
        if chain and start != starts[chain[-1]] + step:
            groups += _cut(chain)
            chain = []
        chain.append(i)
    return groups + _cut(chain)


def _cut(chain: list[int]) -> list[list[int]]:
    groups = []
    while chain:
        width = next(width for width in (RUN, 4, 2, 1) if width <= len(chain))
        groups.append(chain[:width])
        chain = chain[width:]
    return groups
