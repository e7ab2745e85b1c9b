"""Vectors in blocks: what ``inner_blocks`` of a tile, ``tile_pack`` and ``tile_unpack`` give an author."""

from __future__ import annotations

from typing import Any

from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.compiler.arguments import AtTheCall
from xetile.dialect.tile_ops import (
    TilePackOp,
    TileTransposeOp,
    TileUnpackOp,
    text,
)
from xetile.dialect.wg_map import Pair, WgMap
from xetile.frontend.constants import plain
from xetile.frontend.notes import notes
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import current, is_recording
from xetile.frontend.values import Vector
from xetile.lang.checks import check_map, located, need


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


def wg_map(sg_layout: tuple[int, int], sg_data: tuple[int, int]) -> WgMap:
    """How a work-group's tile is dealt to its subgroups (``xetile.wg_map``); it can be made outside kernels too.

    Args:
        sg_layout: subgroups along rows and columns.
        sg_data: rows and columns of the block that one subgroup takes at a time.

    Raises:
        ShapeError: not two positive integers each.
    """
    if is_recording():
        return located(lambda: WgMap(sg_layout, sg_data))  # type: ignore[no-any-return]
    with AtTheCall():
        return WgMap(sg_layout, sg_data)


def tile_transpose(v: Vector, *, wg_map: WgMap | None = None) -> Vector:
    """The vector with its dimensions exchanged (``tile_transpose``).

    What is loaded and only ever used transposed costs nothing where the target has transposing loads. What was computed
    is transposed in registers.

    Args:
        v: rows x columns.
        wg_map: how the result is dealt to subgroups; by default as ``v`` is, with both dimensions of ``sg_layout`` and
            ``sg_data`` exchanged.

    Raises:
        ShapeError: the map does not deal out the result, or ``v`` has none.
    """
    need(v, Vector, "tile_transpose")
    if v.wg_map is None and wg_map is not None:
        location = current().location()
        raise ShapeError("XT1416", f"tile_transpose gives a result dealt out as {wg_map}, and its {text(v.shape)} "
                         "vector has no map", "give both a wg_map, or neither", location,
                         notes(location, **{"the vector": v}))
    result = wg_map or (v.wg_map and v.wg_map.transposed())
    check_map(result, (v.shape[1], v.shape[0]))
    return Vector(current().emit(TileTransposeOp(v.ssa, result)), result)
