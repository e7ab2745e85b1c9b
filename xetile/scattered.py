"""Scattered tiles in the language: how they are made and moved (XeTile.md, "support for load_gather ...")."""

from __future__ import annotations

from typing import Any

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.addresses import refuse_type
from xetile.dialect.attributes import TileEncoding, TileParameters, TileType
from xetile.dialect.ops import text
from xetile.dialect.scattered import InitScatteredTileOp, UpdateScatteredTileOp
from xetile.parties import dealt, notes
from xetile.tiles import Array, Tile
from xetile.tracer import current
from xetile.values import Scalar, Vector


def init_scattered(base: Array | Scalar, offsets: Vector, shape: Any, order: Any, wg_map: Any, dtype: Any,
                   **refused: Any) -> Tile:
    """A tile of the elements at ``offsets`` of an array or an address; what the index vector says may be said again.

    Args:
        base, offsets, shape, order, wg_map, dtype: as for ``init_tile``.
        refused: what says something of tiles on windows only; all None.

    Raises:
        ElementTypeError: the offsets are no indices; an address without an element type, or an array with another.
        ShapeError: a shape, an order or a map that are not those of the index vector, or something that is refused.
    """
    _refuse(**refused)
    _check_indices(offsets)
    location = current().location()
    rows, columns = offsets.shape
    if shape is not None and tuple(shape) != (rows, columns):
        raise ShapeError("XT1440", f"the index vector is {text(offsets.shape)}, and the shape given is {shape!r}",
                         "drop the shape: a scattered tile has that of its index vector", location,
                         notes(location, **{"the index vector": offsets}))
    if tuple(order) != (1, 0):
        raise ShapeError("XT1441", "a scattered tile has no order: each element has an offset of its own",
                         f"drop order={tuple(order)}", location)
    if wg_map is not None and wg_map != offsets.wg_map:
        raise ShapeError("XT1442", f"the index vector is {dealt(offsets.wg_map)}, the tile {dealt(wg_map)}",
                         "drop wg_map=: a scattered tile has that of its index vector", location,
                         notes(location, **{"the index vector": offsets}))
    encoding = TileEncoding(wg_map=offsets.wg_map, scatter=True)
    result = TileType(TileParameters((rows, columns), _element(base, dtype).mlir, encoding))
    return Tile(current().emit(InitScatteredTileOp(base.ssa, offsets.ssa, result)))


def _refuse(**given: Any) -> None:
    said = [name for name, value in given.items() if value is not None]
    if said:
        raise ShapeError("XT1108",
                         f"{said[0]}= stands beside an index vector, whose elements each have an offset of their own",
                         f"drop {' and '.join(f'{name}=' for name in said)}", current().location())


def _element(base: Array | Scalar, dtype: Any) -> DType:
    """The element type: an array has one, an address does not say."""
    location = current().location()
    try:
        given = None if dtype is None else dtypes.of(dtype)
    except ElementTypeError as error:
        raise error.at(location) from None
    if isinstance(base, Scalar):
        if base.dtype not in (dtypes.i64, dtypes.u64):
            raise ElementTypeError("XT1111", f"a {base.describe()} is no address",
                                   "an address is an i64 or a u64: give the kernel a pointer as such, or convert it "
                                   "with .to(xt.u64)", location, notes(location, it=base))
        if given is None:
            raise ElementTypeError("XT1112", "an address does not say what lies there",
                                   "give the element type, such as dtype=xt.f32", location)
        return given
    if given not in (None, base.dtype):
        refuse_type(base, given)
    return base.dtype


def update_scattered(tile: Tile, offsets: Vector) -> Tile:
    """The tile with each element moved by its own offset.

    Raises:
        ElementTypeError: the offsets are no indices.
        ShapeError: they have another shape or map than the tile, or the tile is a window on an array.
    """
    _check_indices(offsets)
    check_alike(tile, offsets, "index vector")
    return Tile(current().emit(UpdateScatteredTileOp(tile.ssa, offsets.ssa)))


def check_alike(tile: Tile, vector: Vector, name: str) -> None:
    """Raise unless a vector is dealt out to the subgroups as a tile is."""
    location = current().location()
    if vector.wg_map != tile.wg_map:
        raise ShapeError("XT1401", f"the {name} is {dealt(vector.wg_map)}, the tile {dealt(tile.wg_map)}",
                         f"give both the same wg_map, or bring the {name} over: xt.tile_conv_layout(v, {tile.wg_map})"
                         if vector.wg_map is not None and tile.wg_map is not None else "give both a wg_map, or neither",
                         location, notes(location, **{f"the {name}": vector, "the tile": tile}))


def _check_indices(offsets: Vector) -> None:
    if offsets.dtype is not dtypes.index:
        location = current().location()
        raise ElementTypeError("XT1446", f"a {offsets.describe()} does not say where elements are: offsets are indices",
                               "convert it with .to(xt.index)", location, notes(location, it=offsets))
