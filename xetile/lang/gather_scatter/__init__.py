"""Scattered tiles: creation, offsets, gathers, scatters and atomic updates (XeTile.md)."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.mlir.atomic_kind import fault, full_name
from xegpu.support.errors import ArgumentError, ElementTypeError, ShapeError
from xetile.dialect.gather_scatter import (
    AtomicRMWTileOp,
    InitScatteredTileOp,
    LoadGatherOp,
    StoreScatterOp,
    UpdateScatteredTileOp,
)
from xetile.dialect.tile_ops import text, tile_of
from xetile.dialect.types import TileEncoding, TileParameters, TileType, WgMapAttr, verify_same_map
from xetile.dialect.wg_map import describe_map
from xetile.frontend.broadcast import cast
from xetile.frontend.notes import at_author_line, notes
from xetile.frontend.tiles import Array, LineTile, RowTile, Tile
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector
from xetile.lang.checks import check_operand, describe_argument
from xetile.lang.gather_scatter.rows import check_rows, row_offsets
from xetile.lang.hints import padding_of, with_cache_hints
from xetile.lang.math import where
from xetile.lang.memory import check_address, refuse_type
from xetile.lang.memory.lines import as_row, like_tile


def init_scattered(base: Array | Scalar, offsets: Vector, shape: Any, order: Any, wg_map: Any, dtype: Any,
                   **window_only: Any) -> Tile:
    """Scattered tile: elements at the indices ``offsets`` of an array or an address.

    Args:
        base, offsets, shape, order, wg_map, dtype: as for ``init_tile``.
        window_only: arguments that apply to rectangular tiles alone; each must be None.

    Raises:
        ElementTypeError: the offsets are no indices; an address without an element type, or an array with another.
        ShapeError: a shape, an order or a map that are not those of the index vector, or something that is refused.
    """
    _check_window_only(**window_only)
    location = current().location()
    row = cast(offsets, (1, offsets.shape[0])) if len(offsets.shape) == 1 else offsets
    rows, columns = row.shape
    if shape is not None and tuple(shape) != offsets.shape:
        raise ShapeError("XT1440", f"the index vector is {text(offsets.shape)}, and the shape given is {shape!r}",
                         "drop the shape: a scattered tile has that of its index vector", location,
                         notes(location, **{"the index vector": offsets}))
    if wg_map is not None and wg_map != offsets.wg_map:
        raise ShapeError("XT1442", f"the index vector is {describe_map(offsets.wg_map)}, the tile "
                         f"{describe_map(wg_map)}",
                         "drop wg_map=: a scattered tile has that of its index vector", location,
                         notes(location, **{"the index vector": offsets}))
    encoding = TileEncoding((order[0], order[1]), offsets.wg_map, scatter=True)
    result = TileType(TileParameters((rows, columns), _element_of_base(base, dtype).mlir, encoding))
    return (Tile if row is offsets else LineTile)(current().emit(InitScatteredTileOp(base.ssa, row.ssa, result)))


def _check_window_only(**arguments: Any) -> None:
    """Raise for an argument that has no meaning with an index vector."""
    present = [name for name, value in arguments.items() if value is not None]
    if present:
        raise ShapeError("XT1108",
                         f"{present[0]}= is passed with an index vector, whose elements each have an offset of their "
                         "own",
                         f"drop {' and '.join(f'{name}=' for name in present)}", current().location())


def _element_of_base(base: Array | Scalar, dtype: Any) -> DType:
    """Element type of a scattered tile: the array's, or ``dtype`` for an address."""
    location = current().location()
    try:
        requested = None if dtype is None else dtypes.of(dtype)
    except ElementTypeError as error:
        raise error.at(location) from None
    if isinstance(base, Scalar):
        check_address(base)
        if requested is None:
            raise ElementTypeError("XT1112", "an address has no element type",
                                   "give the element type, such as dtype=xt.f32", location)
        return requested
    if requested not in (None, base.dtype):
        refuse_type(base, requested)
    return base.dtype


def update_scattered(tile: Tile, offsets: Vector) -> Tile:
    """Advance a scattered tile: each element by its own offset.

    Raises:
        ElementTypeError: the offsets are no indices.
        ShapeError: they have another shape or map than the tile, or the tile is a window on an array.
    """
    offsets = as_row(offsets, tile)
    _check_map(tile, offsets, "index vector")
    return tile.like(current().emit(UpdateScatteredTileOp(tile.ssa, offsets.ssa)))  # type: ignore[no-any-return]


def _check_map(tile: Tile, vector: Vector, name: str) -> None:
    """Check that a vector has the work-group map of a tile."""
    at_author_line(lambda: verify_same_map(vector.wg_map, tile.wg_map, name),
                   **{f"the {name}": vector, "the tile": tile})


def load_gather(tile: Tile, mask: Vector | None = None, *, padding: float = 0,
                l1: str | None = None, l3: str | None = None) -> Vector:
    """Gather the elements of a scattered tile; masked-off elements are ``padding`` (``load_gather``).

    Args:
        tile: scattered tile, from ``init_tile(array, offsets=index_vector)``.
        mask: an i1 vector of the tile's shape; None for all. Masked-off elements access no memory, whatever their
            offset. The others must be in the bounds of the array's memory: NumPy checks it, devices do not.
        padding: a Python number, rounded to the element type.
        l1, l3: hints for the caches, as for :func:`load_tile`.

    Raises:
        ElementTypeError: the mask is not i1, or the element type does not hold ``padding``.
        ShapeError: the mask has another shape or map than the tile, or the tile is a window on an array.
    """
    check_operand(tile, Tile, "load_gather")
    operation = LoadGatherOp(tile.ssa, _mask(tile, mask, "load_gather"), padding_of(padding, tile.dtype))
    return like_tile(Vector(current().emit(with_cache_hints(operation, "load", l1, l3)), tile.wg_map), tile)


def store_scatter(value: Vector, tile: Tile, mask: Vector | None = None, *, l1: str | None = None,
                  l3: str | None = None) -> None:
    """Scatter a vector to the elements of a scattered tile (``store_scatter``).

    Where several elements have the same address, which of them is stored is unspecified.

    Args:
        value: of the tile's shape and element type.
        tile: scattered tile, from ``init_tile(array, offsets=index_vector)``.
        mask: an i1 vector of the tile's shape; None for all. Masked-off elements access no memory.
        l1, l3: hints for the caches, as for :func:`store_tile`.

    Raises:
        ElementTypeError: the mask is not i1.
        ShapeError: shape, element type or map of value, mask and tile differ, or the tile is a window on an array.
    """
    value = as_row(value, tile)
    check_operand(value, Vector, "store_scatter(value, tile)")
    check_operand(tile, Tile, "store_scatter(value, tile)")
    _check_map(tile, value, "vector")
    operation = StoreScatterOp(value.ssa, tile.ssa, _mask(tile, mask, "store_scatter"))
    current().emit(with_cache_hints(operation, "store", l1, l3))


def atomic_rmw_tile(kind: str, value: Vector, tile: Tile, mask: Vector | None = None) -> Vector:
    """Atomic read-modify-write of each element of a tile; returns the old values (``atomic_rmw_tile``).

    Updates of one element by any number of work-groups happen one after the other, in an unspecified order; so is
    the order of other memory operations around them (relaxed order, on the whole device).

    Args:
        kind: an ``arith.AtomicRMWKind`` (addf addi assign maximumf maxnumf maxs maxu minimumf minnumf mins minu mulf
            muli andi ori xori), or add, mul, max, min, and, or, xor, exchange, which choose by the element type: max
            and min keep NaN, as xt.maximum does; maxnumf and minnumf drop it, and GPUs have instructions for them.
        value: the other operand of the update.
        tile: a window on an array, or a scattered tile. Out-of-bounds elements are not accessed; their
            old value is 0.
        mask: for scattered tiles, an i1 vector of the tile's shape; None for all.

    Raises:
        ElementTypeError: the element type has no such kind, or the mask is not i1.
        ShapeError: shape, element type or map of value, mask and tile differ; a mask on a window.
    """
    if isinstance(tile, RowTile):
        tile, mask = _row_elements(value, tile, mask)
    value = as_row(value, tile)
    check_operand(value, Vector, "atomic_rmw_tile(kind, value, tile)")
    check_operand(tile, Tile, "atomic_rmw_tile(kind, value, tile)")
    if not isinstance(kind, str):
        raise ElementTypeError("XT1447", f"the kind of an atomic update is {describe_argument(kind)}, not a name",
                               'give its name, such as "add"', current().location())
    name = full_name(kind, tile.dtype)
    code, message, hint = fault(name, tile.dtype)
    location = current().location()
    if code:
        raise ElementTypeError(code, message, hint, location, notes(location, **{"the tile": tile}))
    _check_map(tile, value, "vector")
    masked = None if mask is None else _mask(tile, mask, "atomic_rmw_tile")
    return like_tile(Vector(current().emit(AtomicRMWTileOp(name, value.ssa, tile.ssa, masked)), tile.wg_map), tile)


def elements(tile: RowTile, oob: str = "drop", default: str = "drop") -> tuple[Tile, Vector]:
    """The scattered tile of a tile of rows, and the mask of the elements in bounds.

    Raises:
        ArgumentError: ``oob`` is not the default.
    """
    if oob != default:
        raise ArgumentError("XT1126", f"oob={oob!r} is passed with rows by an index vector",
                            "check the indices themselves, with xt.device_assert", current().location())
    offsets, mask = row_offsets(tile)
    return init_scattered(tile.array, offsets, None, (1, 0), None, None), mask


def prefetched_elements(tile: RowTile) -> Tile:
    """The scattered tile of a tile of rows for a prefetch, which has no mask: elements out of bounds are the first."""
    offsets, mask = row_offsets(tile)
    return init_scattered(tile.array, where(mask, offsets, 0), None, (1, 0), None, None)


def _row_elements(value: Vector, tile: RowTile, mask: Any) -> tuple[Tile, Vector]:
    """The elements of a tile of rows, and the mask of those that are updated: in bounds, and not masked off."""
    check_rows(value, tile, "atomic_rmw_tile(kind, value, tile)")
    scattered, inside = elements(tile)
    return scattered, inside if mask is None else inside & mask


def _mask(tile: Tile, mask: Any, function: str) -> SSAValue:
    """Mask operand of a scattered access: the author's, or all true."""
    if mask is not None:
        if not isinstance(mask, Vector):
            location = current().location()
            raise ElementTypeError("XT1449", f"the mask of {function} is {describe_argument(mask)}, not a vector of i1",
                                   "make a vector of i1: compare vectors, or load it from an array of bool", location,
                                   notes(location, **{"the mask": mask}))
        mask = as_row(mask, tile)
        _check_map(tile, mask, "mask")
        return mask.ssa  # type: ignore[no-any-return]
    shape = tile_of(tile.ssa).shape
    operation = BroadcastOp(current().constant(1, dtypes.i1), VectorType(dtypes.i1.mlir, shape))
    if tile.wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(tile.wg_map)
    return current().emit(operation)  # type: ignore[no-any-return]
