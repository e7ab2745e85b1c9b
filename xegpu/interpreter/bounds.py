"""Bounds checks of blocks in NumPy: of an array's memory, as a kernel for a device sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xegpu.dialect.block_io import desc_of
from xegpu.dialect.bounds import ALIGNMENT, InBoundsOp
from xegpu.interpreter.memory import Surfaces


def _in_bounds(machine: Any, operation: InBoundsOp, operands: Sequence[Any]) -> list[Any]:
    """Whether the box is inside and aligned, and by how many rows and columns it could go on."""
    (window,), (top, left, bottom, right) = operands, operation.sides
    array, size = window.array, desc_of(operation.desc).dtype.bytes
    row, column, exists = window.row, window.column, True
    if isinstance(array, Surfaces):
        (height, width), pitch = array.sizes, array.strides[0] * array.flat.itemsize
        address = array.flat.ctypes.data + array.first * array.flat.itemsize
    else:
        (height, width), pitch, address = array.shape[-2:], array.strides[-2], array.ctypes.data
        for index, count, stride in zip(window.lead, array.shape, array.strides, strict=False):
            exists, address = exists & (index >= 0) & (index < count), address + index * stride
    inside = exists & (row + top >= 0) & (column + left >= 0) & (row + bottom <= height) & (column + right <= width)
    if size < ALIGNMENT:
        inside = inside & ((address | pitch | (column + left) * size) % ALIGNMENT == 0)
    rows, columns = height - (row + bottom), width - (column + right)
    return [np.bool_(inside) if np.ndim(inside) == 0 else inside, rows, columns]


MEANINGS: Mapping[type[Operation], Callable[..., Any]] = {InBoundsOp: _in_bounds}
