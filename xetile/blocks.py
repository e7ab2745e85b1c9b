"""Vectors in blocks: what ``inner_blocks`` of a tile, ``tile_pack`` and ``tile_unpack`` give an author."""

from __future__ import annotations

from typing import Any

from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.dialect.ops import TilePackOp, TileUnpackOp, text
from xetile.distribution import Pair, WgMap
from xetile.numbers import plain
from xetile.parties import notes
from xetile.tracer import current
from xetile.values import Value, Vector


def tile_pack(v: Vector, inner_blocks: Pair) -> Vector:
    """A vector as its blocks (``tile_pack``): rows x columns to [rows / r, columns / c, r, c].

    Args:
        v: rows x columns.
        inner_blocks: rows and columns of a block, ``(r, c)``.

    Raises:
        ElementTypeError: ``v`` is no vector.
        ShapeError: it is in blocks already, or the blocks do not divide it.
    """
    location = _need(v, "tile_pack")
    if len(v.shape) != 2:
        raise ShapeError("XT1230", f"tile_pack takes a vector of two dimensions, not a {v.describe()}",
                         "unpack it first: xt.tile_unpack(v)", location, notes(location, it=v))
    rows, columns = check_blocks(inner_blocks, (v.shape[0], v.shape[1]), v.describe(), v.wg_map)
    return Vector(current().emit(TilePackOp(v.ssa, (rows, columns))), v.wg_map)


def tile_unpack(v: Vector) -> Vector:
    """A vector in blocks as one of rows and columns (``tile_unpack``).

    Raises:
        ElementTypeError: ``v`` is no vector.
        ShapeError: it is not in blocks.
    """
    location = _need(v, "tile_unpack")
    if len(v.shape) != 4:
        raise ShapeError("XT1231", f"tile_unpack takes a vector of four dimensions, not a {v.describe()}",
                         "it is in no blocks, so leave out the tile_unpack; tile_pack and tiles with inner_blocks give "
                         "vectors in blocks", location, notes(location, it=v))
    return Vector(current().emit(TileUnpackOp(v.ssa)), v.wg_map)


def check_blocks(blocks: Any, shape: Pair, what: str, wg_map: WgMap | None = None) -> Pair:
    """``blocks`` as rows and columns.

    Raises:
        ShapeError: not two positive integers, or they divide neither ``shape`` nor what a subgroup has of it.
    """
    location = current().location()
    sizes = [plain(size) for size in blocks] if isinstance(blocks, (tuple, list)) else []
    if len(sizes) != 2 or not all(type(size) is int and size > 0 for size in sizes):
        raise ShapeError("XT1232",
                         f"inner_blocks must be two positive compile-time integers, not {_shown(blocks)}",
                         "give rows and columns of a block, for example (16, 16)", location)
    for name, covered in ((what, shape), (f"what a subgroup has of it by {wg_map}", wg_map and wg_map.sg_data)):
        if covered and (covered[0] % sizes[0] or covered[1] % sizes[1]):
            raise ShapeError("XT1233", f"blocks of {text(sizes)} do not divide {name}, {text(covered)}",
                             f"use {_nearest(sizes[0], covered[0])} x {_nearest(sizes[1], covered[1])}, or others that "
                             f"divide {text(covered)}", location)
    return sizes[0], sizes[1]


def _nearest(size: int, whole: int) -> int:
    """The divisor of ``whole`` that is nearest to ``size``."""
    return min((each for each in range(1, whole + 1) if whole % each == 0), key=lambda each: abs(each - size))


def _shown(blocks: Any) -> str:
    if isinstance(blocks, (tuple, list)) and (traced := [size for size in blocks if isinstance(size, Value)]):
        return f"a {traced[0].describe()} among them"
    return f"{blocks!r:.40}"


def _need(v: Any, function: str) -> Any:
    location = current(f"xt.{function}").location()
    if not isinstance(v, Vector):
        what = f"a {v.describe()}" if isinstance(v, Value) else f"a {type(v).__name__}"
        raise ElementTypeError("XT1225", f"{function} takes a vector, not {what}",
                               "get one with xt.load_tile(tile) or xt.zeros(shape, dtype)", location)
    return location
