"""Broadcasting, as NumPy does it: dimensions of size 1 of vectors are repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.dialect.tile_ops import text
from xetile.dialect.vector_ops import TileBroadcastOp
from xetile.dialect.wg_map import WgMap
from xetile.frontend.notes import dealt, notes
from xetile.frontend.ssa_value import VectorBase
from xetile.frontend.tracer import current

V = TypeVar("V", bound=VectorBase)


def alike(operator: str, left: VectorBase, right: VectorBase) -> tuple[VectorBase, VectorBase]:
    """Two vectors of one element type in one shape: dimensions of size 1 are repeated, as NumPy repeats them.

    Raises:
        ElementTypeError: the element types differ.
        ShapeError: other dimensions, or the work-group maps, differ.
    """
    if left.dtype is right.dtype:
        left, right = in_one_shape([left, right])
    _check_alike(operator, left, right)
    return left, right


def in_one_shape(sides: Sequence[Any]) -> list[Any]:
    """Operands with their vectors in one shape; as they are where their shapes do not go together.

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
    """The map in which vectors meet: that of a side that has ``shape``, or rows of one and columns of another."""
    maps = [side.wg_map for side in vectors]
    if None in maps:
        return next((map_ for map_ in maps if map_ is not None), None)
    if whole := next((side.wg_map for side in vectors if side.shape == shape), None):
        return whole
    down, across = (next(side.wg_map for side in vectors if side.shape[axis] == shape[axis]) for axis in (0, 1))
    assert down is not None
    assert across is not None
    return WgMap(down.sg_layout, (down.sg_data[0], across.sg_data[1]))


def broadcast(v: V, shape: tuple[int, int], wg_map: WgMap | None) -> V:
    """A vector repeated along its dimensions of size 1 up to ``shape``, dealt out by ``wg_map``.

    Raises:
        ShapeError: another dimension differs, or the maps contradict each other.
    """
    location = current().location()
    axes = [axis for axis, (old, new) in enumerate(zip(v.shape, shape, strict=True)) if old != new]
    if wide := [axis for axis in axes if v.shape[axis] != 1]:
        raise ShapeError("XT1220", f"a {v.describe()} is not broadcast to {text(shape)}: dimension {wide[0]} has "
                         f"{v.shape[wide[0]]} elements", "only dimensions of size 1 are repeated: broadcast to "
                         f"{text([new if old == 1 else old for old, new in zip(v.shape, shape, strict=True)])}, or "
                         f"reduce it first with xt.tile_reduce(kind, v, axis={wide[0]})", location,
                         notes(location, it=v))
    if axes and (v.wg_map is None) != (wg_map is None):
        raise ShapeError("XT1415", f"the vector is {dealt(v.wg_map)}, its broadcast {dealt(wg_map)}",
                         "give both a wg_map, or neither: how a broadcast is dealt out is not derived", location,
                         notes(location, it=v))
    if axes and v.wg_map is not None and wg_map is not None and wg_map.collapsed(axes) != v.wg_map:
        raise ShapeError("XT1417", f"a vector dealt out as {v.wg_map} is not broadcast to one dealt out as {wg_map}",
                         f"its map must be {wg_map.collapsed(axes)}: xt.tile_conv_layout(v, wg_map) gives it that",
                         location, notes(location, it=v))
    if not axes:
        return v
    return type(v)(current().emit(TileBroadcastOp(v.ssa, shape, axes, wg_map)), wg_map)


def _map(v: VectorBase) -> str:
    return "no wg_map" if v.wg_map is None else str(v.wg_map)


def _check_alike(operator: str, left: VectorBase, right: VectorBase) -> None:
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
                         f"the sides of {operator} are dealt out differently: {_map(left)} and {_map(right)}",
                         "give both the same wg_map" if None in (left.wg_map, right.wg_map) else
                         f"give both the same wg_map, or bring one over: xt.tile_conv_layout(v, {left.wg_map})",
                         location, notes(location, **sides))
