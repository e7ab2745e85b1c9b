"""Bytes that are read and written as words or rows at many offsets at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
_WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class ByteStore:
    """Bytes that are read and written as words or rows at many offsets at once.

    Args:
        data: contiguous, its first byte at an address that is a multiple of 8, its size too.
    """

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self._aligned = {size: data.view(word) for size, word in _WORDS.items()}
        self._any: dict[int, Any] = {}

    def gather(self, at: Integers, size: int) -> NDArray[Any]:
        """Words of ``size`` bytes at offsets, in the shape of the offsets."""
        if size == 1 or not (at & (size - 1)).any():
            found: NDArray[Any] = self._aligned[size][at // size]
        else:
            found = self.rows(at, size).view(_WORDS[size])[..., 0]
        return found

    def scatter(self, at: Integers, values: NDArray[Any]) -> None:
        """Write words at offsets; of several at one offset the last one stays."""
        size = values.dtype.itemsize
        if size == 1 or not (at & (size - 1)).any():
            self._aligned[size][at // size] = values
        else:
            self.write_rows(at, np.ascontiguousarray(values).view(np.uint8).reshape(*at.shape, size))

    def rows(self, at: Integers, length: int) -> Bytes:
        """``length`` bytes from each offset on: uint8 of shape (*at.shape, length)."""
        found: Bytes = self._windows(length)[at].view(np.uint8).reshape(*at.shape, length)
        return found

    def write_rows(self, at: Integers, values: Bytes) -> None:
        """Write the last axis of ``values`` from each offset on."""
        length = values.shape[-1]
        self._windows(length)[at] = np.ascontiguousarray(values).view(f"V{length}")[..., 0]

    def _windows(self, length: int) -> Any:
        """Every run of ``length`` bytes as one opaque element: overlapping, which NumPy copies as a whole."""
        if length not in self._any:
            self._any[length] = np.ndarray((self.data.size - length + 1,), f"V{length}", self.data, strides=(1,))
        return self._any[length]
