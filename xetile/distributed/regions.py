"""Regions of distributed matrices: rectangles of rows and columns, and even splits of a range."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Region:
    """Rectangle of a whole matrix: half-open ranges of rows and columns."""

    rows: tuple[int, int]
    columns: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows[1] - self.rows[0], self.columns[1] - self.columns[0]

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def slices(self) -> tuple[slice, slice]:
        """Index into the whole matrix."""
        return slice(*self.rows), slice(*self.columns)

    def within(self, outer: Region) -> tuple[slice, slice]:
        """Index into an array that has the region ``outer`` of the matrix."""
        row, column = outer.rows[0], outer.columns[0]
        return slice(self.rows[0] - row, self.rows[1] - row), \
            slice(self.columns[0] - column, self.columns[1] - column)

    def __str__(self) -> str:
        return f"[{self.rows[0]}:{self.rows[1]}, {self.columns[0]}:{self.columns[1]}]"


def split(span: tuple[int, int], parts: int, part: int) -> tuple[int, int]:
    """Even split of a range: the ``part``-th of ``parts``, of which the first ones are one longer."""
    each, longer = divmod(span[1] - span[0], parts)
    start = span[0] + part * each + min(part, longer)
    return start, start + each + (part < longer)
