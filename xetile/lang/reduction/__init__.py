"""Reductions, broadcasts and layout conversions of vectors (XeTile.md)."""

from __future__ import annotations

from typing import Any

from xegpu.mlir.combining_kind import kind_of
from xegpu.support.errors import RankError, ShapeError, XeError
from xetile.dialect.reduction import TileReduceOp, check_reduced
from xetile.dialect.tile_ops import text
from xetile.dialect.vector import TileConvLayoutOp
from xetile.dialect.wg_map import WgMap
from xetile.frontend.broadcast import broadcast, cast
from xetile.frontend.constants import python_number
from xetile.frontend.notes import at_author_line, notes
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector
from xetile.lang.checks import check_has_map, check_map_type, check_operand
from xetile.lang.layout.shapes import axis_of, reshape


def tile_reduce(kind: str, v: Vector, axis: int | tuple[int, int], *, wg_map: WgMap | None = None,
                keepdims: bool = True) -> Vector:
    """Reduction along ``axis``, which is kept with size 1 unless ``keepdims`` is False (``tile_reduce``).

    Sums and products of f16 and bf16 accumulate in float32 and are rounded once; those of tf32 are float32's, as all
    arithmetic on it is; those of integers wrap in the element type.

    Args:
        kind: ``"add"``, ``"mul"``; for floats ``"minnumf"`` and ``"maxnumf"``, which drop NaN, ``"minimumf"`` and
            ``"maximumf"``, which give NaN where there is one; for integers ``"minsi"``, ``"maxsi"``, ``"minui"``,
            ``"maxui"``, ``"and"``, ``"or"``, ``"xor"``; ``"min"`` and ``"max"`` for those of ``minimumf``, ``minsi``,
            ``minui`` and ``maximumf``, ``maxsi``, ``maxui`` that fit the element type.
        v: rows x columns, blocked or not; the result of blocks is blocks of one row or column. Or a vector of one
            dimension, of which one element remains.
        axis: 0 for 1 x columns, 1 for rows x 1, ``(0, 1)`` for 1 x 1.
        wg_map: distribution of the result: that of ``v`` with ``sg_data`` of 1 along ``axis``, which is the default;
            subgroups that share the reduced dimension exchange their partial results.
        keepdims: False drops the dimension: of rows x columns remains a vector of one dimension; ``axis`` is 0 or 1.

    Raises:
        ElementTypeError: the element type has no such kind.
        RankError: ``axis`` is no dimension of a vector.
        ShapeError: the maps contradict each other.
    """
    tracer = current("xt.tile_reduce")
    if isinstance(v, Vector) and len(v.shape) == 1:
        axis_of(axis, v)
        return cast(tile_reduce(kind, cast(v, (1, v.shape[0])), 1, wg_map=wg_map), (1,))
    check_operand(v, Vector, "tile_reduce")
    axes = _axes(axis)
    if not keepdims:
        return _without(tile_reduce(kind, v, axis, wg_map=wg_map), axes)
    if len(v.shape) == 4:
        axes = (*axes, *(value + 2 for value in axes))  # blocks have their rows and columns in dimensions of their own
    try:
        name = kind_of(str(kind), v.dtype)
    except XeError as error:
        raise error.at(tracer.location()) from None
    _check_map(v, wg_map, "tile_reduce")
    derived = v.wg_map and v.wg_map.collapsed(axes)
    result = wg_map or derived
    if v.wg_map is not None and result is not None:
        source, wanted = v.wg_map, result
        at_author_line(lambda: check_reduced(source, axes, wanted), it=v)
    return Vector(tracer.emit(TileReduceOp(name, v.ssa, axes, result)), result)


def _without(v: Vector, axes: tuple[int, ...]) -> Vector:
    """A reduced vector without the dimension of size 1."""
    if len(axes) > 1 or len(v.shape) != 2:
        location = current().location()
        raise RankError("XT1224", f"keepdims=False of a vector reduced to {text(v.shape)} leaves no vector of one "
                        "dimension", "reduce one dimension of two; the element of a vector of one is v.item()",
                        location, notes(location, it=v))
    if v.wg_map is not None and axes[0] == 1 and v.shape[0] > 1:
        location = current().location()
        raise ShapeError("XT1418", f"the vector is distributed over subgroups, as {v.wg_map}, and keepdims=False makes "
                         "one dimension of its column",
                         "leave out keepdims=False: operators repeat a column along rows",
                         location, notes(location, it=v))
    return reshape(v, v.shape[1 - axes[0]])


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
    if isinstance(v, Vector) and len(v.shape) == 1:
        v = cast(v, (1, v.shape[0]))
    check_operand(v, Vector, "tile_broadcast")
    sizes = tuple(python_number(size) for size in shape) if isinstance(shape, (tuple, list)) else ()
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
    check_operand(v, Vector, "tile_conv_layout")
    check_map_type(wg_map, optional=False)
    _check_map(v, wg_map, "tile_conv_layout")
    return Vector(tracer.emit(TileConvLayoutOp(v.ssa, wg_map, v.wg_map)), wg_map)


def _axes(axis: Any) -> tuple[int, ...]:
    """Normalized axes: ascending, negative ones counted from the end."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted({checked_axis(value, axis, "use 0 to reduce columns, 1 to reduce rows, (0, 1) for both")
                         for value in axes or (axis,)}))


def checked_axis(value: Any, axis: Any, hint: str) -> int:
    """Dimension of a vector of two, 0 or 1, from a compile-time integer that may count from the end.

    Args:
        value: the dimension.
        axis: the author's argument, for the message.
        hint: which dimensions the function takes.

    Raises:
        RankError: there is no such dimension.
    """
    number = python_number(value)
    if type(number) is not int or not -2 <= number < 2:
        raise RankError("XT1224", f"a vector has dimensions 0 and 1, not {axis!r}", hint, current().location())
    return number % 2


def _check_map(v: Vector, result: WgMap | None, function: str) -> None:
    """Check the result's map: it needs one on the operand, with as many subgroups."""
    check_has_map(v, result, function)
    if result is not None:
        current().use_map(result)
