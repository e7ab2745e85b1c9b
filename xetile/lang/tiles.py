"""Tile operations (XeTile.md): ``init_tile``, loads, stores, prefetches and ``update_tile_offset``."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import StringAttr, UnitAttr

from xegpu.ir.dtypes import i8
from xegpu.ir.memref import ALIGNED
from xegpu.support.errors import ArgumentError, ElementTypeError, RankError
from xetile.dialect.tile_ops import (
    OOB,
    InitTileOp,
    LoadTileOp,
    PrefetchTileOp,
    StoreTileOp,
    UpdateTileOffsetOp,
    check_stored,
    tile_of,
)
from xetile.dialect.types import TileEncoding, TileParameters, TileType, check_locality, check_order, verify_same_map
from xetile.dialect.wg_map import WgMap
from xetile.frontend.constants import scalar
from xetile.frontend.notes import at_author_line
from xetile.frontend.operators.sub_byte import (
    SubByteTile,
    SubByteVector,
    halved,
    halved_map,
    halved_offset,
    like,
)
from xetile.frontend.tiles import Array, LineTile, RowTile, SubByteArray, Tile
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector
from xetile.lang.checks import check_like_tile, check_map, check_operand, check_shape_2d, line_length
from xetile.lang.gather_scatter import (
    elements,
    init_scattered,
    load_gather,
    prefetched_elements,
    store_scatter,
    update_scattered,
)
from xetile.lang.gather_scatter.rows import check_rows, has_row_indices, init_rows, update_rows
from xetile.lang.hints import check_zero_padding, padding_of, with_cache_hints
from xetile.lang.layout import check_blocks
from xetile.lang.memory import memory_of, offsets_of
from xetile.lang.memory.bounds import bounded
from xetile.lang.memory.lines import as_row, like_tile, line_memory, line_offsets


def init_tile(
    base: Array | Scalar,
    offsets: Any,
    shape: Any = None,
    *,
    order: tuple[int, int] = (1, 0),
    wg_map: WgMap | None = None,
    inner_blocks: tuple[int, int] | None = None,
    base_shape: tuple[Any, ...] | None = None,
    base_strides: tuple[Any, ...] | None = None,
    dtype: Any = None,
    aligned: bool = False,
    rows: Any = None,
    columns: Any = None,
) -> Tile:
    """Tile of ``shape`` at ``offsets`` of an array (``init_tile``), in the array's last two dimensions.

    With an index vector as ``offsets`` it is a scattered tile: each element is that many elements of memory from the
    array's first one (``row * array.strides[0] + column * array.strides[1]``), and the array may have any dimensions.
    Shape and map are those of the index vector. Its base may be an address, too: a run-time i64 or u64.

    Args:
        base: an array argument of the kernel, or a view of one; an array of ``xt.alloc_slm``; or an address, a
            run-time i64 or u64, with ``base_shape``, ``base_strides`` and ``dtype``.
        offsets: row and column of the tile's first element; integers or run-time indices. An array of more than two
            dimensions is a batch of matrices: the indices of the matrix come first. With a vector of integers for the
            rows it is a tile of whole rows, wherever each lies: ``(indices, column)``. Or a vector of indices.
        shape: rows and columns, compile-time integers. One integer, as in ``(64,)``, makes a tile of one dimension:
            a part of an array of one dimension, or of a row of a matrix, whose vectors have one dimension.
        order: ``(0, 1)`` promises that the array is stored column by column, as a transposed view is; the promise is
            checked when the kernel is lowered for an array. Such arrays work without it too.
        wg_map: distribution of the work-group's tile to the subgroups.
        inner_blocks: rows and columns of the blocks in which its vectors come: ``[rows / r, columns / c, r, c]``. A
            message moves such a block where the target has one that does.
        base_shape, base_strides: sizes and strides in elements, integers or run-time indices, that describe the memory
            from its first element on; they replace those of an array.
        dtype: the type of the elements at an address.
        aligned: guarantees that memory with explicit sizes is legal for 2D block messages: it starts at a multiple of
            64 bytes, its rows (with ``base_strides=(1, pitch)`` its columns) have 64 bytes at least and a multiple of
            4, and the pitch is a multiple of 16 bytes. NumPy checks it, devices do not.
        rows, columns: bounds of the array for this tile, integers or run-time indices, such as the length of a
            sequence: what lies from there on counts as out of bounds. A bound beyond the array's changes nothing, one
            below 1 leaves nothing. With ``rows`` (of a column-major array: ``columns``) block messages stay.

    Raises:
        RankError: the array has less than two dimensions, or not as many as there are offsets, sizes or strides.
        ShapeError: the map does not distribute the shape, or ``order`` is none.
        ElementTypeError: ``base`` is neither an array nor an address; ``dtype`` with an array, or an address without.
    """
    tracer = current("xt.init_tile")
    at_author_line(lambda: check_order(order))
    if isinstance(base, SubByteArray):
        return _init_sub_byte(  # type: ignore[no-any-return]
            base, offsets, shape, order, wg_map, inner_blocks=inner_blocks, base_shape=base_shape,
                              base_strides=base_strides, dtype=dtype, aligned=aligned or None, rows=rows,
                              columns=columns)
    if isinstance(offsets, Vector) and isinstance(base, (Array, Scalar)):
        return init_scattered(base, offsets, shape, order, wg_map, dtype, inner_blocks=inner_blocks,
                              base_shape=base_shape, base_strides=base_strides, aligned=aligned or None, rows=rows,
                              columns=columns)
    if has_row_indices(offsets):
        return init_rows(base, offsets, shape, wg_map, inner_blocks=inner_blocks, base_shape=base_shape,  # type: ignore
                         dtype=dtype, base_strides=base_strides, aligned=aligned or None, rows=rows, columns=columns)
    length = line_length(shape)
    if length is not None and isinstance(base, Array) and base.rank == 1:
        memory, offsets = line_memory(base, base_shape, dtype), line_offsets(base, offsets)
    else:
        memory = memory_of(base, base_shape, base_strides, dtype, aligned=aligned)
    size = check_shape_2d(shape, "a tile's shape") if length is None else (1, length)
    check_map(wg_map, size)
    source, first = memory.source, offsets_of(base, memory.rank, offsets)
    if rows is None and columns is None:
        numbers = memory.description()
    else:
        source, first, numbers = bounded(base, memory, first, (rows, columns), aligned=aligned)
    blocks = None if inner_blocks is None else check_blocks(inner_blocks, size, "the tile", wg_map)
    parameters = TileParameters(size, memory.dtype.mlir, TileEncoding((order[0], order[1]), wg_map, blocks))
    operation = InitTileOp(source, first, *numbers, TileType(parameters))
    if aligned:
        operation.attributes[ALIGNED] = UnitAttr()
    return (Tile if length is None else LineTile)(tracer.emit(operation))


def _init_sub_byte(base: SubByteArray, offsets: Any, shape: Any, order: tuple[int, int], wg_map: WgMap | None,
                   **others: Any) -> Any:
    """Tile of 4-bit integers: that of their bytes.

    Raises:
        ShapeError: a size or an offset along the packed dimension is odd, or there are less than two dimensions.
        ElementTypeError: an option that describes other memory.
    """
    location = current().location()
    if wrong := [name for name, value in others.items() if value is not None]:
        raise ElementTypeError("XT1134", f"{wrong[0]}= does not go with an array of {base.dtype}",
                               "describe the bytes instead: pass them as an array of uint8", location)
    if base.rank < 2 or not isinstance(offsets, (tuple, list)) or len(offsets) != base.rank:
        count = len(offsets) if isinstance(offsets, (tuple, list)) else 1
        raise RankError("XT1102", f"a tile on an array of {base.dtype} takes two dimensions or more and an offset for "
                        f"each, and {base.name} has {base.rank} with {count} offset{'' if count == 1 else 's'}",
                        "give a row and a column; pass a line as a matrix of one row", location)
    size, axis = check_shape_2d(shape, "a tile's shape"), base.axis
    check_map(wg_map, size)
    first = [*offsets]
    first[axis - 2] = _halved(first[axis - 2], axis)
    tile = init_tile(base.array, tuple(first), halved(size, axis, "the tile"), order=order,
                     wg_map=halved_map(wg_map, axis))
    return SubByteTile(tile, base.dtype, axis)


def _halved(offset: Any, axis: int) -> Any:
    """Offset in bytes of one in elements."""
    found = halved_offset(offset, axis)
    return found if isinstance(found, int) else Scalar(found)


def load_tile(tile: Tile, *, padding: float = 0, l1: str | None = None, l3: str | None = None,
              oob: str = "padding") -> Vector:
    """Load a tile; out-of-bounds elements are ``padding`` (``load_tile``).

    Args:
        tile: the tile.
        padding: a Python number, rounded to the element type. Zero costs nothing: the hardware pads with it.
        l1, l3: hints for the caches: ``"cached"``, ``"uncached"``, ``"streaming"`` or ``"read_invalidate"``.
        oob: ``"error"`` states that the tile is in bounds. ``.on("numpy", check=True)`` checks it;
            elsewhere it changes nothing.

    Raises:
        ElementTypeError: ``tile`` is no tile, its element type does not hold ``padding``, or there is no such hint.
        TargetError: the target has no such combination. This is raised when the kernel is lowered for it.
    """
    if isinstance(tile, RowTile):
        return load_gather(*elements(tile, oob, "padding"), padding=padding, l1=l1, l3=l3)
    if isinstance(tile, SubByteTile):
        check_zero_padding(padding, tile.dtype, i8)
        return SubByteVector(load_tile(tile.tile, l1=l1, l3=l3, oob=oob), tile.dtype, tile.axis)  # type: ignore
    check_operand(tile, Tile, "load_tile")
    operation = _with_bounds_guarantee(LoadTileOp(tile.ssa, padding_of(padding, tile.dtype)), oob, "padding")
    value = Vector(current().emit(with_cache_hints(operation, "load", l1, l3)), tile.wg_map)
    return like_tile(value, tile)


def _with_bounds_guarantee(operation: Any, oob: str, default: str) -> Any:
    """Attach ``oob="error"``: the guarantee that the tile is in bounds.

    Raises:
        ArgumentError: neither ``"error"`` nor the default.
    """
    if oob not in ("error", default):
        raise ArgumentError("XT1126",
                            f"there is no oob={oob!r}", f'use oob="error" or oob="{default}", which is the '
                            "default", current().location())
    if oob == "error":
        operation.attributes[OOB] = StringAttr(oob)
    return operation


def store_tile(value: Vector, tile: Tile, *, l1: str | None = None, l3: str | None = None,
               oob: str = "drop") -> None:
    """Store a vector to a tile; out-of-bounds elements are dropped (``store_tile``).

    Args:
        value: the vector.
        tile: the destination.
        l1, l3: hints for the caches: ``"uncached"``, ``"write_through"``, ``"write_back"`` or ``"streaming"``.
        oob: ``"error"`` states that the tile is in bounds, as for :func:`load_tile`.

    Raises:
        TargetError: the target has no such combination of hints. This is raised when the kernel is lowered for it.
        ShapeError: shape, element type or work-group map of the two differ.
    """
    if isinstance(value, Tile) and isinstance(tile, Vector):
        raise ElementTypeError("XT1120", "store_tile(value, tile) takes the value first, and got the tile first",
                               "exchange the two: xt.store_tile(value, tile)", current("xt.store_tile").location())
    if isinstance(tile, RowTile):
        check_rows(value, tile, "store_tile(value, tile)")
        store_scatter(value, *elements(tile, oob, "drop"), l1=l1, l3=l3)
        return
    if isinstance(tile, SubByteTile):
        _store_sub_byte(value, tile, l1=l1, l3=l3, oob=oob)
        return
    value = as_row(value, tile)
    check_operand(value, Vector, "store_tile(value, tile)")
    check_operand(tile, Tile, "store_tile(value, tile)")
    operands = {"the value": value, "the tile": tile}
    at_author_line(lambda: check_stored(value.ssa, tile_of(tile.ssa)), **operands)
    at_author_line(lambda: verify_same_map(value.wg_map, tile.wg_map), **operands)
    operation = _with_bounds_guarantee(StoreTileOp(value.ssa, tile.ssa), oob, "drop")
    current().emit(with_cache_hints(operation, "store", l1, l3))


def _store_sub_byte(value: Any, tile: SubByteTile, **hints: Any) -> None:
    """Store a vector of 4-bit integers.

    Raises:
        ElementTypeError: the value is of another type.
        ShapeError: its shape or work-group map is another.
    """
    if not isinstance(value, SubByteVector):
        check_operand(value, Vector, "store_tile(value, tile)")
    check_like_tile(value, tile)
    store_tile(value.packed(tile.axis), tile.tile, **hints)


def prefetch_tile(tile: Tile, *, locality: int = 3, l1: str | None = None,
                  l3: str | None = None) -> None:
    """Prefetch a tile to the caches; it changes no result (``prefetch_tile``).

    Args:
        tile: the tile; a work-group's tile is prefetched cooperatively, as its map distributes it.
        locality: 3 keeps it close, in L1 and L3; 2 in L3; 1 in both, in L1 for a while; 0 nowhere: then it is not
            prefetched.
        l1, l3: hints for the caches, instead of a locality: ``"cached"``, ``"uncached"`` or ``"streaming"``.

    Raises:
        ShapeError: another locality, or a tile in shared local memory.
    """
    if isinstance(tile, RowTile):
        tile = prefetched_elements(tile)
    if isinstance(tile, SubByteTile):
        tile = tile.tile
    check_operand(tile, Tile, "prefetch_tile")
    at_author_line(lambda: check_locality(locality))
    current().emit(with_cache_hints(PrefetchTileOp(tile.ssa, locality), "prefetch", l1, l3))


def update_tile_offset(tile: Tile, d0: Any, d1: Any = None, *more: Any) -> Tile:
    """Advance a tile by ``d0`` rows and ``d1`` columns (``update_tile_offset``).

    A tile of one dimension takes one offset, along its elements. A scattered tile takes one index vector, by which each
    of its elements moves.

    Raises:
        RankError: more than two offsets: a tile does not move from matrix to matrix.
    """
    if isinstance(tile, RowTile):
        return update_rows(tile, d0, d1, *more)  # type: ignore[return-value]
    if isinstance(tile, SubByteTile):
        offsets = [offset for offset in (d0, d1, *more) if offset is not None]
        if len(offsets) == 2:
            offsets[tile.axis] = _halved(offsets[tile.axis], tile.axis)
        return like(tile, update_tile_offset(tile.tile, *offsets))  # type: ignore[return-value]
    check_operand(tile, Tile, "update_tile_offset")
    if isinstance(d0, Vector) and d1 is None:
        return update_scattered(tile, d0)
    if isinstance(tile, LineTile) and d1 is None:
        d0, d1 = 0, d0
    offsets = [scalar(offset) for offset in (d0, d1, *more) if offset is not None]
    return tile.like(current().emit(UpdateTileOffsetOp(tile.ssa, offsets)))  # type: ignore[no-any-return]


