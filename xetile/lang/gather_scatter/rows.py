"""Row gathers by an index vector, ``init_tile(A, (indices, column), shape)``, as of embeddings or a paged cache.

A tile of rows is made a scattered tile and a mask where it is used: rows and columns out of bounds are masked off. The
elements of a row are adjacent, in memory as over the lanes.
"""

from __future__ import annotations

from typing import Any

from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.dialect.tile_ops import check_move, text
from xetile.dialect.wg_map import WgMap
from xetile.frontend.broadcast import cast
from xetile.frontend.constants import scalar
from xetile.frontend.notes import at_author_line, notes
from xetile.frontend.tiles import Array, RowTile
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector
from xetile.lang.checks import check_like_tile, check_map, check_operand, check_shape_2d
from xetile.lang.creation import full, iota
from xetile.lang.math import where

_BEYOND = 1 << 30
"""Column that no row has, for those in front of the first one; the opposite is no row."""
_INDEX_LIMIT = 1 << 31
"""Of an index of 32 bits: it is below."""


def has_row_indices(offsets: Any) -> bool:
    """Whether offsets name rows by an index vector."""
    return isinstance(offsets, (tuple, list)) and any(isinstance(offset, Vector) for offset in offsets)


def init_rows(base: Any, offsets: Any, shape: Any, wg_map: WgMap | None, **window_only: Any) -> RowTile:
    """Tile of the rows of an array that a vector names.

    Args:
        base: an array of two dimensions or more.
        offsets: the indices of the matrix, of the rows, and the first column; the rows are a vector.
        shape: rows and columns.
        wg_map: of the tile; then the vector is a column with the map of a column.
        window_only: arguments that apply to rectangular tiles alone; each must be None.

    Raises:
        RankError: not an offset for each dimension.
        ShapeError: the vector stands elsewhere, has another length than the tile has rows, or an argument that a
            rectangular tile takes alone.
        ElementTypeError: the base is no array, or the vector holds no integers.
    """
    location, size = current().location(), check_shape_2d(shape, "a tile's shape")
    if not isinstance(base, Array):
        raise ElementTypeError("XT1443", "rows by an index vector need an array, and the base is none",
                               "pass the array; at an address make a scattered tile: xt.init_tile(address, "
                               "index_vector, dtype=...)", location)
    if present := [name for name, value in window_only.items() if value is not None]:
        instead = {"rows": "give -1 for a row that shall be padding",
                   "columns": "hide others: xt.where(xt.iota(shape, 1, xt.index) < columns - first, v, 0)"}
        raise ShapeError("XT1108", f"{present[0]}= is passed with rows by an index vector, which lie anywhere",
                         f"drop {' and '.join(f'{name}=' for name in present)}"
                         + "".join(f"; {instead[name]}" for name in present if name in instead), location)
    if len(offsets) != base.rank or base.rank < 2:
        raise RankError("XT1443", f"{base.name} has {base.rank} dimension{'' if base.rank == 1 else 's'}, and there "
                        f"are {len(offsets)} offsets", "give one for each dimension, the index vector for the rows: "
                        f"({'matrix, ' * max(base.rank - 2, 0)}indices, column)", location)
    *lead, indices, column = offsets
    if not isinstance(indices, Vector) or any(isinstance(each, Vector) for each in (*lead, column)):
        raise ShapeError("XT1443", "an index vector stands for another dimension than the rows, the second to last",
                         "give one index vector, as in (indices, column); elements at any place are those of a "
                         "scattered tile: xt.init_tile(A, index_vector)", location)
    check_map(wg_map, size)
    return RowTile(base, tuple(Scalar(scalar(each)) for each in lead), _row_numbers(base, indices, size),
                   Scalar(scalar(column)), size, wg_map)


def _row_numbers(base: Array, indices: Vector, size: tuple[int, int]) -> Vector:
    """Rows as a column of indices; what an index of 32 bits does not hold becomes a number far from all rows.

    Far, since ``update_tile_offset`` may still move it: no move of less than 2^30 rows makes a row of it.
    """
    location, rows = current().location(), size[0]
    if indices.shape not in ((rows,), (rows, 1)):
        raise ShapeError("XT1443", f"the index vector is {text(indices.shape)}, and the tile has {rows} rows",
                         f"make it {rows}, or {rows}x1", location, notes(location, **{"the index vector": indices}))
    if indices.dtype.is_float or indices.dtype is dtypes.i1 or indices.dtype.kind == "s":
        raise ElementTypeError("XT1446", f"the index vector has elements of {indices.dtype}, not of integers",
                               "convert it with .to(xt.i32)", location,
                               notes(location, **{"the index vector": indices}))
    column = cast(indices, (rows, 1))
    if indices.dtype is not dtypes.index and (indices.dtype.bits == 64 or indices.dtype is dtypes.u32):
        held = column < _INDEX_LIMIT
        if indices.dtype.signed:
            held = held & (column >= -_INDEX_LIMIT)
        column = where(held, column.to(dtypes.index), -_BEYOND)
    return column if column.dtype is dtypes.index else column.to(dtypes.index)


def row_offsets(tile: RowTile) -> tuple[Vector, Vector]:
    """Offset of each element in the array, and whether it is in bounds."""
    (_, columns), map_ = tile.shape, tile.wg_map
    *sizes, height, width = (Scalar(scalar(size)) for size in tile.array.shape)
    *steps, down, across = tile.array.strides
    first, end = Scalar(scalar(0)), width
    for index, size, step in zip(tile.lead, sizes, steps, strict=True):
        there = (index >= 0) & (index < size)
        first, end = first + where(there, index, 0) * step, where(there, end, 0)
    indices = tile.indices
    ends = where((indices >= 0) & (indices < height), end, _column(tile, 0))
    counted = iota((1, columns), 1, dtypes.index, wg_map=map_ and map_.collapsed((0,))) + tile.column
    counted = where(counted >= 0, counted, _BEYOND)
    mask = _spread(counted, tile) < _spread(ends, tile)
    offsets = _spread(indices * down + first, tile) + _spread(counted * across, tile)
    return offsets, mask


def _column(tile: RowTile, value: int) -> Vector:
    """A column of one number."""
    return full((tile.shape[0], 1), value, dtypes.index, wg_map=tile.indices.wg_map)


def _spread(v: Vector, tile: RowTile) -> Vector:
    """A row or a column, repeated over the tile."""
    return v + full(tile.shape, 0, dtypes.index, wg_map=tile.wg_map)  # type: ignore[no-any-return]


def check_rows(value: Any, tile: RowTile, function: str) -> None:
    """Check that a vector has shape and element type of a tile of rows."""
    check_operand(value, Vector, function)
    check_like_tile(value, tile)


def update_rows(tile: RowTile, d0: Any, d1: Any = None, *more: Any) -> RowTile:
    """A tile of rows advanced: every row by ``d0``, the columns by ``d1``.

    Raises:
        RankError: not two offsets.
    """
    at_author_line(lambda: check_move(1 + (d1 is not None) + len(more)))
    down = Scalar(scalar(d0))
    moved = tile.indices if isinstance(d0, int) and d0 == 0 else tile.indices + down
    return RowTile(tile.array, tile.lead, moved, tile.column + Scalar(scalar(d1)), tile.shape, tile.wg_map)
