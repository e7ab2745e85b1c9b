"""What scattered tiles are for: gathers, scatters and atomic updates (XeTile.md, ``load_gather``, ``store_scatter``,
``atomic_rmw_tile``)."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue

from xegpu.ir import dtypes
from xegpu.ir.atomic_kind import fault, full_name
from xegpu.support.errors import ElementTypeError
from xetile.caches import said
from xetile.dialect.attributes import WgMapAttr
from xetile.dialect.scattered import AtomicRMWTileOp, LoadGatherOp, StoreScatterOp
from xetile.given import need, what
from xetile.paddings import padding_of
from xetile.parties import notes
from xetile.scattered import check_alike
from xetile.tiles import Tile
from xetile.tracer import current
from xetile.values import Vector


def load_gather(tile: Tile, mask: Vector | None = None, *, padding: float = 0,
                l1: str | None = None, l3: str | None = None) -> Vector:
    """The elements of a scattered tile; those masked off are ``padding`` (``load_gather``).

    Args:
        tile: made by ``init_tile(array, offsets=index_vector)``.
        mask: an i1 vector of the tile's shape; None for all. What is masked off touches no memory, however wild its
            offset. What is not masked off must lie in the array's memory: NumPy checks it, devices do not.
        padding: a Python number, rounded to the element type.
        l1, l3: hints for the caches, as for :func:`load_tile`.

    Raises:
        ElementTypeError: the mask is not i1, or the element type does not hold ``padding``.
        ShapeError: the mask has another shape or map than the tile, or the tile is a window on an array.
    """
    need(tile, Tile, "load_gather")
    made = LoadGatherOp(tile.ssa, _mask(tile, mask, "load_gather"), padding_of(padding, tile.dtype))
    return Vector(current().emit(said(made, "load", l1, l3)), tile.wg_map)


def store_scatter(value: Vector, tile: Tile, mask: Vector | None = None, *, l1: str | None = None,
                  l3: str | None = None) -> None:
    """Write a vector to the elements of a scattered tile (``store_scatter``).

    Where several elements fall on one place, which of them stays is left open.

    Args:
        value: of the tile's shape and element type.
        tile: made by ``init_tile(array, offsets=index_vector)``.
        mask: an i1 vector of the tile's shape; None for all. What is masked off touches no memory.
        l1, l3: hints for the caches, as for :func:`store_tile`.

    Raises:
        ElementTypeError: the mask is not i1.
        ShapeError: shape, element type or map of value, mask and tile differ, or the tile is a window on an array.
    """
    need(value, Vector, "store_scatter(value, tile)")
    need(tile, Tile, "store_scatter(value, tile)")
    check_alike(tile, value, "vector")
    made = StoreScatterOp(value.ssa, tile.ssa, _mask(tile, mask, "store_scatter"))
    current().emit(said(made, "store", l1, l3))


def atomic_rmw_tile(kind: str, value: Vector, tile: Tile, mask: Vector | None = None) -> Vector:
    """Update each element of a tile atomically; the values that were found (``atomic_rmw_tile``).

    Updates of one element by any number of work-groups happen one after the other, in an order that is left open; so is
    the order of other memory operations around them (relaxed order, on the whole device).

    Args:
        kind: an ``arith.AtomicRMWKind`` (addf addi assign maximumf maxnumf maxs maxu minimumf minnumf mins minu mulf
            muli andi ori xori), or add, mul, max, min, and, or, xor, exchange, which choose by the element type: max
            and min keep NaN, as xt.maximum does; maxnumf and minnumf drop it, and GPUs have instructions for them.
        value: the other operand of the update.
        tile: a window on an array, or a scattered tile. Elements outside the array are not touched, and 0 stands for
            what was found there.
        mask: for scattered tiles, an i1 vector of the tile's shape; None for all.

    Raises:
        ElementTypeError: the element type has no such kind, or the mask is not i1.
        ShapeError: shape, element type or map of value, mask and tile differ; a mask on a window.
    """
    need(value, Vector, "atomic_rmw_tile(kind, value, tile)")
    need(tile, Tile, "atomic_rmw_tile(kind, value, tile)")
    if not isinstance(kind, str):
        raise ElementTypeError("XT1447", f"the kind of an atomic update is {what(kind)}, not a name",
                               'give its name, such as "add"', current().location())
    name = full_name(kind, tile.dtype)
    code, message, hint = fault(name, tile.dtype)
    location = current().location()
    if code:
        raise ElementTypeError(code, message, hint, location, notes(location, **{"the tile": tile}))
    check_alike(tile, value, "vector")
    masked = None if mask is None else _mask(tile, mask, "atomic_rmw_tile")
    return Vector(current().emit(AtomicRMWTileOp(name, value.ssa, tile.ssa, masked)), tile.wg_map)


def _mask(tile: Tile, mask: Any, function: str) -> SSAValue:
    """A mask for a tile: the author's, or one of which nothing is off."""
    if mask is not None:
        if not isinstance(mask, Vector) or mask.dtype is not dtypes.i1:
            location = current().location()
            raise ElementTypeError("XT1449", f"the mask of {function} is {what(mask)}, not a vector of i1",
                                   "make a vector of i1: compare vectors, or load it from an array of bool", location,
                                   notes(location, **{"the mask": mask}))
        check_alike(tile, mask, "mask")
        return mask.ssa
    operation = BroadcastOp(current().constant(1, dtypes.i1), VectorType(dtypes.i1.mlir, tile.shape))
    if tile.wg_map is not None:
        operation.attributes["wg_map"] = WgMapAttr(tile.wg_map)
    return current().emit(operation)  # type: ignore[no-any-return]
