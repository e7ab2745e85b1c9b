"""Broadcasting of operands to a common shape and work-group map, as in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.dialect.reduction import TileBroadcastOp, check_broadcast, check_repeated
from xetile.dialect.tile_ops import text
from xetile.dialect.wg_map import WgMap
from xetile.frontend.notes import at_author_line, notes
from xetile.frontend.ssa_value import VectorBase
from xetile.frontend.tracer import current

V = TypeVar("V", bound=VectorBase)


def broadcast_pair(operator: str, left: VectorBase, right: VectorBase) -> tuple[VectorBase, VectorBase]:
    """Broadcast two vectors of one element type to a common shape: dimensions of size 1 are repeated, as in NumPy.

    Raises:
        ElementTypeError: the element types differ.
        ShapeError: other dimensions, or the work-group maps, differ.
    """
    if left.dtype is right.dtype:
        left, right = broadcast_operands([left, right])
    _check_sides(operator, left, right)
    return left, right


def broadcast_operands(sides: Sequence[Any]) -> list[Any]:
    """Broadcast operands to a common shape; unchanged where their shapes are not compatible.

    Raises:
        ShapeError: the work-group maps of vectors that are repeated contradict each other.
    """
    vectors = [side for side in sides if isinstance(side, VectorBase)]
    if len({side.shape for side in vectors}) < 2 or any(len(side.shape) != 2 for side in vectors):
        return list(sides)
    rows, columns = (max(side.shape[axis] for side in vectors) for axis in (0, 1))
    if any(side.shape[0] not in (1, rows) or side.shape[1] not in (1, columns) for side in vectors):
        return list(sides)
    map_ = _common_map(vectors, (rows, columns))
    return [broadcast(side, (rows, columns), map_) if isinstance(side, VectorBase) else side for side in sides]


def _common_map(vectors: Sequence[VectorBase], shape: tuple[int, int]) -> WgMap | None:
    """Common map of broadcast operands: that of one with ``shape``, or rows of one and columns of another."""
    maps = [side.wg_map for side in vectors]
    if None in maps:
        return next((map_ for map_ in maps if map_ is not None), None)
    if full := next((side.wg_map for side in vectors if side.shape == shape), None):
        return full
    down, across = (next(side.wg_map for side in vectors if side.shape[axis] == shape[axis]) for axis in (0, 1))
    assert down is not None
    assert across is not None
    return WgMap(down.sg_layout, (down.sg_data[0], across.sg_data[1]))


def broadcast(v: V, shape: tuple[int, int], wg_map: WgMap | None) -> V:
    """Broadcast a vector along its dimensions of size 1 to ``shape``, distributed by ``wg_map``.

    Raises:
        ShapeError: another dimension differs, or the maps contradict each other.
    """
    axes = [axis for axis, (old, new) in enumerate(zip(v.shape, shape, strict=True)) if old != new]
    at_author_line(lambda: check_repeated(v.shape, axes, shape), it=v)
    if not axes:
        return v
    at_author_line(lambda: check_broadcast(v.wg_map, axes, wg_map), it=v)
    return type(v)(current().emit(TileBroadcastOp(v.ssa, shape, axes, wg_map)), wg_map)


def _describe_map(v: VectorBase) -> str:
    """Map of a vector in an error message."""
    return "no wg_map" if v.wg_map is None else str(v.wg_map)


def _check_sides(operator: str, left: VectorBase, right: VectorBase) -> None:
    """Check that the sides of an operator have one element type, shape and map."""
    location, sides = current().location(), {"the left side": left, "the right side": right}
    if left.dtype is not right.dtype:
        raise ElementTypeError("XT1207", f"{left.describe()} {operator} {right.describe()}: the element types differ",
                               f"convert one with .to(xt.{left.dtype}) or .to(xt.{right.dtype})", location,
                               notes(location, **sides))
    if left.shape != right.shape:
        raise ShapeError("XT1208", f"{left.describe()} {operator} {right.describe()}: the shapes differ",
                         f"make both {text(left.shape)} or both {text(right.shape)}", location,
                         notes(location, **sides))
    if left.wg_map != right.wg_map:
        raise ShapeError("XT1400",
                         f"the sides of {operator} are distributed differently: {_describe_map(left)} and "
                         f"{_describe_map(right)}",
                         "give both the same wg_map" if None in (left.wg_map, right.wg_map) else
                         f"give both the same wg_map, or bring one over: xt.tile_conv_layout(v, {left.wg_map})",
                         location, notes(location, **sides))
