"""VNNI form of blocks in NumPy: ``[..., k / v, n, v]``, words of ``v`` rows of a column (XeGPU.md, ``packed``)."""

from __future__ import annotations

import numpy as np

from xegpu.ir.dtypes import NDArray


def vnni(block: NDArray, factor: int) -> NDArray:
    """VNNI packing: ``[..., k, n]`` to ``[..., k / v, n, v]``; ``v`` rows of a column become one word."""
    *batch, rows, columns = block.shape
    return np.swapaxes(block.reshape(*batch, rows // factor, factor, columns), -1, -2)


def from_vnni(packed: NDArray) -> NDArray:
    """VNNI unpacking, the inverse of :func:`vnni`."""
    *batch, words, columns, factor = packed.shape
    return np.swapaxes(packed, -1, -2).reshape(*batch, words * factor, columns)
