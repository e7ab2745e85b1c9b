"""How a matrix lies in shared local memory, so that few messages move a block of it.

No one but the kernel sees that memory, so its order is free. A matrix is cut into *panels* of a few columns, one after
the other. In a panel the rows follow each other, and ``rows`` of them may be interleaved: the elements of a column in
these rows are neighbours, as the words of VNNI form want them. Where panels have the columns of an operand, all of a
block is contiguous, and a message of 256 or 512 bytes moves as much of it.

    16 columns, 1 row       the rows of a panel one after the other: operand A of 16 bits, and what is computed
    16 columns, 2 rows      a word for each column of two rows: operand B of 16 bits
    all columns, 1 row      row-major order
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Positions = np.ndarray[Any, Any]
_WORDS = 8


@dataclass(frozen=True)
class Panels:
    """The order of a matrix in shared local memory.

    Attributes:
        height, width: rows and columns of the matrix.
        rows: rows whose elements of one column are neighbours.
        columns: columns of a panel.
    """

    height: int
    width: int
    rows: int
    columns: int

    @classmethod
    def row_major(cls, height: int, width: int) -> Panels:
        """Rows one after the other."""
        return cls(height, width, 1, width)

    @property
    def is_row_major(self) -> bool:
        """Whether the matrix is one panel, in plain order."""
        return self.rows == 1 and self.columns == self.width

    @property
    def fits(self) -> bool:
        """Whether panels cover the matrix evenly, so that it takes the memory of its elements and no more."""
        return self.height % self.rows == 0 and self.width % self.columns == 0

    def position(self, row: Any, column: Any) -> Any:
        """Where an element is, counted in elements; for numbers and for arrays of them."""
        panel, word = column // self.columns * self.height * self.columns, row // self.rows * self.rows * self.columns
        return panel + word + column % self.columns * self.rows + row % self.rows

    @property
    def weights(self) -> tuple[int, int]:
        """Where ``(row, column)`` is, at multiples of :attr:`unit`, as weights of row and column."""
        return (self.width, 1) if self.is_row_major else (self.columns, self.height)

    @property
    def unit(self) -> tuple[int, int]:
        """Rows and columns at whose multiples a block of any shape lies as it does at (0, 0)."""
        return (1, 1) if self.is_row_major else (self.rows, self.columns)


@dataclass(frozen=True)
class Run:
    """Memory words that one message moves, of one lane.

    Attributes:
        start: where the first lane's first word begins, in elements.
        words: for each word, the elements of the lane's fragment that it holds, by their number there.
        together: whether the words of all lanes lie side by side, and then come their next ones; else each lane has its
            words side by side.
    """

    start: int
    words: tuple[tuple[int, ...], ...]
    together: bool

    @property
    def elements(self) -> int:
        """Elements in a word."""
        return len(self.words[0])


def runs(positions: Positions, size: int, aligned: int) -> list[Run]:
    """The fewest runs that move a fragment.

    Args:
        positions: where each element of a fragment is, ``[lanes, elements]``, counted in elements.
        size: bytes of an element.
        aligned: bytes that the first position is surely a multiple of.

    Returns:
        runs of all lanes together where memory allows, else runs of each lane by itself; none if the lanes differ in
        more than where their elements begin.
    """
    fitting = [elements for elements in (4, 2, 1) if elements * size <= 4]
    options = (_together(positions, elements) for elements in fitting)
    found = next((run for run in options if run is not None), None)
    if found is not None and aligned % 16 == 0 and all(run.start * size % 16 == 0 for run in found):
        return found
    return _apart(positions, size, aligned)


def _together(positions: Positions, elements: int) -> list[Run] | None:
    """Runs in which lanes lie side by side, each with a word of so many elements; None where they do not."""
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


def _apart(positions: Positions, size: int, aligned: int) -> list[Run]:
    """Runs of each lane by itself, which all have their elements in the same places relative to their first."""
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
    """Numbers of words that follow each other at ``step``, in groups of 8, 4, 2 and 1."""
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
        width = next(width for width in (_WORDS, 4, 2, 1) if width <= len(chain))
        groups.append(chain[:width])
        chain = chain[width:]
    return groups
