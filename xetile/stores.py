"""What goes into a tile: a vector of its shape, its element type and its work-group map."""

from __future__ import annotations

from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.dialect.ops import flat_shape, text
from xetile.parties import dealt, notes
from xetile.tiles import Tile
from xetile.tracer import current
from xetile.values import Vector


def check_stored(value: Vector, tile: Tile) -> None:
    """Raise unless a vector goes into a tile.

    Raises:
        ShapeError: shape or work-group map differ.
        ElementTypeError: the element types differ.
    """
    location = current().location()
    others = {"the value": value, "the tile": tile}
    if value.shape != tile.blocked_shape:
        raise ShapeError("XT1130", f"a {value.describe()} does not go into a {tile.describe()}",
                         _fitting_tile(value, tile), location, notes(location, **others))
    if value.dtype is not tile.dtype:
        raise ElementTypeError("XT1131", f"a {value.describe()} does not go into a {tile.describe()}",
                               f"convert it with .to(xt.{tile.dtype})", location, notes(location, **others))
    if value.wg_map != tile.wg_map:
        hint = f"give both the same wg_map, or bring the vector over: xt.tile_conv_layout(v, {tile.wg_map})" \
            if value.wg_map and tile.wg_map else "give both a wg_map, or neither"
        raise ShapeError("XT1401", f"the vector is {dealt(value.wg_map)}, the tile {dealt(tile.wg_map)}",
                         hint, location, notes(location, **others))


def _fitting_tile(value: Vector, tile: Tile) -> str:
    if flat_shape(value.shape) != tile.shape:
        return f"make a tile of {text(value.shape)}: xt.init_tile(array, offsets, {value.shape})"
    if len(value.shape) == 2:
        return f"give it the tile's blocks: xt.tile_pack(v, {tile.encoding.inner_blocks})"
    return f"make the tile with inner_blocks={value.shape[2:]}, or use xt.tile_unpack(v)"
