"""Layout of columns narrower than the words along a row: the word of each lane, and its bits there.

Eight columns of 4 bits in a word of 32: lanes 0 to 7 have a word, lanes 8 to 15 the next, each with a shift of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_STRIDES = (0, 1, 2, 4)
"""Horizontal strides that a register region has."""
_PITCHES = (0, 1, 2, 4, 8, 16, 32)
"""Vertical strides that a register region has."""

Region = tuple[int, int, int]
"""Register region ``<v;w,h>``: lane i has the element ``i // w * v + i % w * h``."""


@dataclass(frozen=True)
class WordColumns:
    """Columns in words.

    Attributes:
        start: first word of the first row, counted through the lanes of a fragment's registers.
        pitch: from a row's first word to the next row's.
        offsets: for each lane how far behind the row's first word its own lies.
        bits: for each lane the lowest bit of its column in the word.
    """

    start: int
    pitch: int
    offsets: tuple[int, ...]
    bits: tuple[int, ...]

    @staticmethod
    def of(index: np.ndarray[Any, Any], bits: np.ndarray[Any, Any]) -> WordColumns | None:
        """The columns that have these words and bits, ``[rows, lanes]``; None if rows differ, or no region has them."""
        start, rows = int(index[0].min()), np.arange(len(index))[:, None]
        offsets, pitch = index[0] - start, int(index[1, 0] - index[0, 0])
        found = WordColumns(start, pitch, tuple(offsets.tolist()), tuple(bits[0].tolist()))
        regular = (index == start + pitch * rows + offsets).all() and (bits == bits[0]).all()
        return found if regular and found.is_regular else None

    @property
    def is_regular(self) -> bool:
        """Whether rows share registers evenly, and a register region has the words of each."""
        lanes = len(self.offsets)
        return 0 < self.pitch <= lanes and lanes % self.pitch == 0 and self.region is not None and \
            0 <= self.start < self.start + max(self.offsets) + 1 <= self.pitch

    @property
    def region(self) -> Region | None:
        """The register region that the words of a row are, if there is one."""
        return region_of(self.offsets)

    @property
    def step(self) -> int:
        """Distance in words to the region that continues this one in as many more lanes; 0 if there is none."""
        assert self.region is not None
        pitch, width, _ = self.region
        return len(self.offsets) // width * pitch

    def units(self, rows: int) -> int:
        """Registers of a fragment that these rows need."""
        return -(-rows * self.pitch // len(self.offsets))


def region_of(offsets: tuple[int, ...]) -> Region | None:
    """The register region in which lanes have elements so far behind the first lane's; None if there is none."""
    lanes = len(offsets)
    for width in (1 << bit for bit in reversed(range(lanes.bit_length()))):
        stride = offsets[1] - offsets[0] if width > 1 else 0
        pitch = offsets[width] - offsets[0] if width < lanes else 0
        if stride in _STRIDES and pitch in _PITCHES and offsets[0] == 0 and offsets == tuple(
                lane // width * pitch + lane % width * stride for lane in range(lanes)):
            return pitch, width, stride
    return None
