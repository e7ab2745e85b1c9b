"""Reading and writing blocks of a 2D NumPy array for many program instances at once.

Offsets are integers, or arrays over the batch axes. Where they form a lattice, as the tiles of a grid do, a read is a
view of the array with the instances along the batch axes, and nothing is copied; elsewhere it is a gather.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xegpu.dtypes import DType, i1

Offset = int | np.ndarray[Any, Any]
Block = np.ndarray[Any, Any]
_SPARSE = 4


@dataclass(frozen=True)
class _Progression:
    """Offsets that grow evenly along one batch axis: ``start + step * i`` for ``i < count``."""

    start: int
    step: int = 0
    count: int = 1
    axis: int | None = None

    def end(self, size: int) -> int:
        return self.start + self.step * (self.count - 1) + size


def _progression(offset: Offset) -> _Progression | None:
    if not isinstance(offset, np.ndarray):
        return _Progression(int(offset))
    axes = [axis for axis, size in enumerate(offset.shape) if size > 1]
    values = offset.reshape(-1)
    if not axes:
        return _Progression(int(values[0]))
    step = int(values[1] - values[0])
    if len(axes) > 1 or step <= 0 or not np.array_equal(values, values[0] + step * np.arange(len(values))):
        return None
    return _Progression(int(values[0]), step, len(values), axes[0])


def read(array: Block, row: Offset, column: Offset, shape: tuple[int, int], batch: int, padding: Any = 0) -> Block:
    """Blocks of ``shape`` at (row, column), elements outside ``array`` being ``padding``.

    Args:
        array: two dimensions, any strides.
        row, column: integers, or integer arrays with ``batch`` axes.
        shape: rows and columns of a block.
        batch: number of batch axes.
        padding: the value outside.

    Returns:
        ``batch`` axes, each of size 1 where no offset varies along it, then ``shape``; it may be a view of ``array``.
    """
    rows, columns = _progression(row), _progression(column)
    if rows is None or columns is None or (rows.axis is not None and rows.axis == columns.axis):
        return _gather(array, row, column, shape, padding, batch)
    height, width = rows.end(shape[0]) - rows.start, columns.end(shape[1]) - columns.start
    if height * width > _SPARSE * rows.count * columns.count * shape[0] * shape[1]:
        return _gather(array, row, column, shape, padding, batch)
    slab = _slab(array, rows.start, columns.start, (height, width), padding)
    return _windows(slab, rows, columns, shape, batch)


def as_numbers(block: Block, dtype: DType) -> Block:
    """What was read, in the compute type of its element type; every byte that is not zero is true."""
    return block.view(np.uint8) != 0 if dtype is i1 else block.astype(dtype.compute, copy=False)


def _windows(slab: Block, rows: _Progression, columns: _Progression, shape: tuple[int, int], batch: int) -> Block:
    sizes, strides = [1] * batch, [0] * batch
    for progression, stride in zip((rows, columns), slab.strides, strict=True):
        if progression.axis is not None:
            sizes[progression.axis], strides[progression.axis] = progression.count, progression.step * stride
    return np.lib.stride_tricks.as_strided(slab, (*sizes, *shape), (*strides, *slab.strides))


def _slab(array: Block, row: int, column: int, shape: tuple[int, int], padding: Any) -> Block:
    inside = [(max(start, 0), min(start + size, limit))
              for start, size, limit in zip((row, column), shape, array.shape, strict=True)]
    if all(end - begin == size for (begin, end), size in zip(inside, shape, strict=True)):
        return array[inside[0][0]:inside[0][1], inside[1][0]:inside[1][1]]
    slab = np.full(shape, padding, array.dtype)
    if all(end > begin for begin, end in inside):
        (top, bottom), (left, right) = inside
        slab[top - row:bottom - row, left - column:right - column] = array[top:bottom, left:right]
    return slab


def _indices(row: Offset, column: Offset, shape: tuple[int, int], batch: int) -> tuple[Block, Block]:
    rows = np.asarray(row, np.int64).reshape(np.shape(row) or (1,) * batch)[..., None, None]
    columns = np.asarray(column, np.int64).reshape(np.shape(column) or (1,) * batch)[..., None, None]
    return rows + np.arange(shape[0])[:, None], columns + np.arange(shape[1])


def _gather(array: Block, row: Offset, column: Offset, shape: tuple[int, int], padding: Any, batch: int) -> Block:
    return gather(array, *_indices(row, column, shape, batch), padding)


def gather(array: Block, rows: Block, columns: Block, padding: Any = 0) -> Block:
    """Single elements of ``array``; those outside are ``padding``. The index arrays broadcast."""
    inside = _inside(array, rows, columns)
    if array.size == 0:
        return np.full(inside.shape, padding, array.dtype)
    values = array[np.clip(rows, 0, array.shape[0] - 1), np.clip(columns, 0, array.shape[1] - 1)]
    return np.where(inside, values, np.asarray(padding, array.dtype))


def _inside(array: Block, rows: Block, columns: Block) -> Block:
    inside: Block = (rows >= 0) & (rows < array.shape[0]) & (columns >= 0) & (columns < array.shape[1])
    return inside


def is_inside(array: Block, row: Offset, column: Offset, shape: tuple[int, int], batch: int) -> Block:
    """Which elements of blocks of ``shape`` at (row, column) lie inside ``array``, in the shape of a read."""
    return _inside(array, *_indices(row, column, shape, batch))


def write(array: Block, row: Offset, column: Offset, value: Block, active: Block | None = None) -> None:
    """Blocks to ``array``; elements outside it are dropped, and so are instances that are not ``active``.

    Args:
        array: two dimensions, any strides; changed in place.
        row, column: integers, or integer arrays with the batch axes of ``value``.
        value: batch axes, then rows and columns.
        active: for each instance, whether it writes; None for all.
    """
    batch = value.ndim - 2
    shape = (value.shape[-2], value.shape[-1])
    rows, columns = _progression(row), _progression(column)
    lattice = rows is not None and columns is not None and (rows.axis is None or rows.axis != columns.axis)
    if lattice and active is None and _covers(rows, columns, value.shape[:-2]):  # type: ignore[arg-type]
        assert rows is not None
        assert columns is not None
        inside = rows.start >= 0 and columns.start >= 0 and rows.end(shape[0]) <= array.shape[0] \
            and columns.end(shape[1]) <= array.shape[1]
        if inside and array.size:
            slab = array[rows.start:rows.end(shape[0]), columns.start:columns.end(shape[1])]
            _windows(slab, rows, columns, shape, batch)[...] = value
            return
    scatter(array, *_indices(row, column, shape, batch), value, None if active is None else active[..., None, None])


def _covers(rows: _Progression, columns: _Progression, batch: tuple[int, ...]) -> bool:
    """Whether the instances of ``value`` are those of the lattice, none writing where another does."""
    sizes = [1] * len(batch)
    for progression in (rows, columns):
        if progression.axis is not None:
            sizes[progression.axis] = progression.count
    return tuple(sizes) == batch


def scatter(array: Block, rows: Block, columns: Block, value: Block, active: Block | None = None) -> None:
    """Single elements to ``array``; those outside it, or not active, are dropped."""
    inside = _inside(array, rows, columns)
    if active is not None:
        inside = inside & active
    shape = np.broadcast_shapes(inside.shape, value.shape)
    chosen = np.broadcast_to(inside, shape)
    array[np.broadcast_to(rows, shape)[chosen], np.broadcast_to(columns, shape)[chosen]] = \
        np.broadcast_to(value, shape)[chosen].astype(array.dtype)
