"""Reductions, broadcasts and layout conversions of vectors (XeTile.md, ``tile_reduce``, ``tile_broadcast``,
``tile_conv_layout``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xegpu.ir.combining_kind import kind_of
from xegpu.support.errors import ElementTypeError, RankError, ShapeError, XeError
from xetile.dialect.tile_ops import text
from xetile.dialect.vector_ops import TileBroadcastOp, TileConvLayoutOp, TileReduceOp
from xetile.dialect.wg_map import WgMap
from xetile.frontend.constants import plain
from xetile.frontend.notes import describe_map, notes
from xetile.frontend.tracer import current
from xetile.frontend.values import Value, Vector


def broadcast_pair(operator: str, left: Vector, right: Vector) -> tuple[Vector, Vector]:
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
    vectors = [side for side in sides if isinstance(side, Vector)]
    if len({side.shape for side in vectors}) < 2 or any(len(side.shape) != 2 for side in vectors):
        return list(sides)
    rows, columns = (max(side.shape[axis] for side in vectors) for axis in (0, 1))
    if any(side.shape[0] not in (1, rows) or side.shape[1] not in (1, columns) for side in vectors):
        return list(sides)
    map_ = _common_map(vectors, (rows, columns))
    return [broadcast(side, (rows, columns), map_) if isinstance(side, Vector) else side for side in sides]


def _common_map(vectors: Sequence[Vector], shape: tuple[int, int]) -> WgMap | None:
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


def broadcast(v: Vector, shape: tuple[int, int], wg_map: WgMap | None) -> Vector:
    """Broadcast a vector along its dimensions of size 1 to ``shape``, distributed by ``wg_map``.

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
        raise ShapeError("XT1415", f"the vector is {describe_map(v.wg_map)}, its broadcast {describe_map(wg_map)}",
                         "give both a wg_map, or neither: how a broadcast is distributed is not derived", location,
                         notes(location, it=v))
    if axes and v.wg_map is not None and wg_map is not None and wg_map.collapsed(axes) != v.wg_map:
        raise ShapeError("XT1417", f"a vector distributed as {v.wg_map} is not broadcast to one distributed as "
                         f"{wg_map}",
                         f"its map must be {wg_map.collapsed(axes)}: xt.tile_conv_layout(v, wg_map) gives it that",
                         location, notes(location, it=v))
    return Vector(current().emit(TileBroadcastOp(v.ssa, shape, axes, wg_map)), wg_map) if axes else v


def _describe_map(v: Vector) -> str:
    """Map of a vector in an error message."""
    return "no wg_map" if v.wg_map is None else str(v.wg_map)


def _check_sides(operator: str, left: Vector, right: Vector) -> None:
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


def tile_reduce(kind: str, v: Vector, axis: int | tuple[int, int], *, wg_map: WgMap | None = None) -> Vector:
    """Reduction along ``axis``, which is kept with size 1 (``tile_reduce``).

    Sums and products of f16, bf16 and tf32 accumulate in float32 and are rounded once; those of integers wrap in the
    element type.

    Args:
        kind: ``"add"``, ``"mul"``; for floats ``"minnumf"`` and ``"maxnumf"``, which drop NaN, ``"minimumf"`` and
            ``"maximumf"``, which give NaN where there is one; for integers ``"minsi"``, ``"maxsi"``, ``"minui"``,
            ``"maxui"``, ``"and"``, ``"or"``, ``"xor"``; ``"min"`` and ``"max"`` for those of ``minimumf``, ``minsi``,
            ``minui`` and ``maximumf``, ``maxsi``, ``maxui`` that fit the element type.
        v: rows x columns, blocked or not; the result of blocks is blocks of one row or column.
        axis: 0 for 1 x columns, 1 for rows x 1, ``(0, 1)`` for 1 x 1.
        wg_map: distribution of the result: that of ``v`` with ``sg_data`` of 1 along ``axis``, which is the default;
            subgroups that share the reduced dimension exchange their partial results.

    Raises:
        ElementTypeError: the element type has no such kind.
        RankError: ``axis`` is no dimension of a vector.
        ShapeError: the maps contradict each other.
    """
    tracer = current("xt.tile_reduce")
    _check_vector(v, "tile_reduce")
    axes = _axes(axis)
    if len(v.shape) == 4:
        axes = (*axes, *(value + 2 for value in axes))  # blocks have their rows and columns in dimensions of their own
    try:
        name = kind_of(str(kind), v.dtype)
    except XeError as error:
        raise error.at(tracer.location()) from None
    _check_map(v, wg_map, "tile_reduce")
    derived = v.wg_map and v.wg_map.collapsed(axes)
    result = wg_map or derived
    if derived is not None and derived != result:
        raise ShapeError("XT1414",
                         f"a vector distributed as {v.wg_map} and reduced along {list(axes)} is not distributed as "
                         f"{result}", f"its map is {derived}; xt.tile_conv_layout(v, wg_map) gives it another",
                         tracer.location(), notes(tracer.location(), it=v))
    return Vector(tracer.emit(TileReduceOp(name, v.ssa, axes, result)), result)


def tile_broadcast(v: Vector, shape: tuple[int, int], *, wg_map: WgMap | None = None) -> Vector:
    """Broadcast along the dimensions of size 1 to ``shape`` (``tile_broadcast``).

    Operators do this by themselves where one side has a dimension of size 1, as NumPy's do.

    Args:
        v: 1 x columns, rows x 1 or 1 x 1.
        shape: rows and columns of the result.
        wg_map: distribution of the result, needed if ``v`` has one; then ``v`` must have the same ``sg_layout``, and
            ``sg_data`` of 1 along the dimensions that are repeated.

    Raises:
        ShapeError: a dimension that is not 1 differs, or the maps contradict each other.
    """
    tracer = current("xt.tile_broadcast")
    _check_vector(v, "tile_broadcast")
    sizes = tuple(plain(size) for size in shape) if isinstance(shape, (tuple, list)) else ()
    if len(v.shape) == 4:
        raise ShapeError("XT1222", f"tile_broadcast takes rows x columns, and the vector is in blocks: {text(v.shape)}",
                         "use xt.tile_unpack(v) first, xt.tile_pack(v, inner_blocks) afterwards", tracer.location(),
                         notes(tracer.location(), it=v))
    if len(sizes) != 2 or not all(type(size) is int and size > 0 for size in sizes):
        raise ShapeError("XT1223", f"tile_broadcast's shape must be two positive integers, not {shape!r}",
                         "give rows and columns, for example (32, 64)", tracer.location())
    _check_map(v, wg_map, "tile_broadcast")
    return broadcast(v, (sizes[0], sizes[1]), wg_map)


def tile_conv_layout(v: Vector, wg_map: WgMap) -> Vector:
    """Layout conversion: redistribute a vector to the subgroups by another map (``tile_conv_layout``).

    Args:
        v: a vector of a work-group.
        wg_map: distribution of the result, to as many subgroups.

    Raises:
        ShapeError: ``v`` has no map, or the new one does not distribute it.
    """
    tracer = current("xt.tile_conv_layout")
    _check_vector(v, "tile_conv_layout")
    _check_map(v, wg_map, "tile_conv_layout")
    return Vector(tracer.emit(TileConvLayoutOp(v.ssa, wg_map, v.wg_map)), wg_map)


def _axes(axis: Any) -> tuple[int, ...]:
    """Normalized axes: ascending, negative ones counted from the end."""
    axes = [plain(value) for value in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if not axes or not all(type(value) is int and -2 <= value < 2 for value in axes):
        raise RankError("XT1224", f"a vector has dimensions 0 and 1, not {axis!r}",
                        "use 0 to reduce columns, 1 to reduce rows, (0, 1) for both", current().location())
    return tuple(sorted({value % 2 for value in axes}))


def _check_vector(v: Any, function: str) -> None:
    """Check that an operand is a vector."""
    if isinstance(v, Vector):
        return
    what = f"a {v.describe()}" if isinstance(v, Value) else f"{type(v).__name__} {v!r}"
    raise ElementTypeError("XT1225", f"{function} takes a vector, not {what}", "get a vector with xt.load_tile(tile), "
                           "xt.zeros(shape, dtype) or xt.full(shape, value, dtype)", current().location())


def _check_map(v: Vector, result: WgMap | None, function: str) -> None:
    """Check the result's map: it needs one on the operand, with as many subgroups."""
    if result is None and function != "tile_conv_layout":
        return
    location = current().location()
    if not isinstance(result, WgMap):
        raise ElementTypeError("XT1402",
                               f"wg_map is {result!r:.40}, and not a result of xt.wg_map",
                               "make one with xt.wg_map(sg_layout=(8, 4), sg_data=(32, 64))",
                               location)
    if v.wg_map is None:
        raise ShapeError("XT1416",
                         f"{function} gives a result distributed as {result}, and its {text(v.shape)} vector has no "
                         "map",
                         "give both a wg_map, or neither", location, notes(location, it=v))
    current().use_map(result.subgroups)
