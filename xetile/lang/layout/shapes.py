"""Shapes of vectors: ``reshape``, ``concatenate``, ``interleave`` and ``shift``."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xegpu.ir import dtypes
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp
from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.dialect.vector import TileConvLayoutOp
from xetile.dialect.wg_map import WgMap
from xetile.frontend.broadcast import cast, check_alike, check_unblocked
from xetile.frontend.constants import python_number, scalar_of_element
from xetile.frontend.notes import notes
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector
from xetile.lang.checks import check_operand, describe_argument, short_repr
from xetile.lang.creation import full
from xetile.lang.math import bitcast


def reshape(v: Vector, shape: Any) -> Vector:
    """The elements of a vector, row by row, in another shape of one dimension or two.

    Args:
        v: a vector of one dimension or two.
        shape: compile-time integers; one of them may be -1, and is what the others leave.

    Raises:
        ShapeError: another number of elements, or ``v`` is distributed over subgroups.
        RankError: vectors of other dimensions.
    """
    check_vector("reshape", v)
    sizes = [python_number(size) for size in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    count = prod(v.shape)
    if sizes.count(-1) == 1 and all(type(size) is int for size in sizes) and (rest := -prod(sizes)) > 0:
        sizes[sizes.index(-1)] = count // rest
    if len(sizes) not in (1, 2) or not all(type(size) is int and size > 0 for size in sizes) or prod(sizes) != count:
        location = current().location()
        raise ShapeError("XT1249", f"a {v.describe()} has {count} elements, and the shape is {short_repr(shape)}",
                         f"give one or two compile-time integers whose product is {count}; one may be -1", location,
                         notes(location, it=v))
    if v.wg_map is not None and tuple(sizes) != v.shape and {v.shape, tuple(sizes)} != {(count,), (1, count)}:
        raise _distributed("reshape", v)
    return cast(v, tuple(sizes))


def concatenate(vectors: Sequence[Vector], axis: int = 0) -> Vector:
    """Vectors side by side (``axis = 1``) or below each other (``axis = 0``), as ``numpy.concatenate`` does.

    Args:
        vectors: of one element type, all of one dimension or all of two, whose other sizes are equal.
        axis: the dimension along which they follow each other; negative ones count from the last.

    Raises:
        ShapeError: other sizes or maps differ, or a vector is distributed over subgroups along the axis.
        RankError: no such axis, or vectors of different dimensions.
        ElementTypeError: no vectors, or their element types differ.
    """
    parts = _parts("concatenate", vectors)
    first, rank = parts[0], len(parts[0].shape)
    along = axis_of(axis, first)
    for part in parts[1:]:
        if part.dtype is not first.dtype:
            check_alike(first, part, "concatenate", ("the first", "another"), "the vectors")
        others = [(*each.shape[:along], *each.shape[along + 1:]) for each in (first, part)]
        if len(part.shape) != rank or others[0] != others[1]:
            location = current().location()
            raise ShapeError("XT1208", f"a {part.describe()} does not follow a {first.describe()} along axis {along}",
                             "give all one number of dimensions, and the same sizes but along the axis", location,
                             notes(location, **{"the first": first, "another": part}))
    total = sum(part.shape[along] for part in parts)
    shape = tuple(total if i == along else size for i, size in enumerate(first.shape))
    rows, at, down = [_matrix(part) for part in parts], 0, rank == 2 and along == 0
    whole = (1, total) if rank == 1 else (shape[0], shape[1])
    result = full(whole, 0, rows[0].dtype, wg_map=_concatenated_map(rows, 0 if down else 1, whole))
    for row in rows:
        offset = (at, 0) if down else (0, at)
        result = result.like(current().emit(InsertStridedSliceOp(row.ssa, result.ssa, offset)))
        at += row.shape[0 if down else 1]
    return _like(cast(result, shape), first)


def interleave(vectors: Sequence[Vector], axis: int = -1) -> Vector:
    """Vectors whose elements alternate along an axis: element ``i`` of the second of two is element ``2 * i + 1``.

    ``result[:, j::len(vectors)]`` is ``vectors[j]``. Along rows (``axis = 0``) whole rows alternate.

    Args:
        vectors: of one shape and element type, of one dimension or two.
        axis: the dimension along which they alternate, by default the last.

    Raises:
        ShapeError: the shapes differ, or a vector is distributed over subgroups.
        RankError: no such axis.
        ElementTypeError: no vectors, or their element types differ.
    """
    parts = _parts("interleave", vectors)
    first, count = parts[0], len(parts)
    along, size = axis_of(axis, first), prod(first.shape)
    for part in parts:
        check_alike(first, part, "interleave", ("the first", "another"), "the vectors")
        if part.wg_map is not None:
            raise _distributed("interleave", part)
    if len(first.shape) == 2 and along == 0:
        return reshape(concatenate(parts, 1), (count * first.shape[0], first.shape[1]))
    columns = concatenate([reshape(part, (size, 1)) for part in parts], 1)
    return reshape(columns, (*first.shape[:-1], count * first.shape[-1]))


def _parts(function: str, vectors: Any) -> list[Vector]:
    """Vectors that a function puts together.

    Raises:
        ElementTypeError: none, or something else.
    """
    parts = list(vectors) if isinstance(vectors, (tuple, list)) else []
    if not parts:
        raise ElementTypeError("XT1225", f"{function} takes a list of vectors, not {describe_argument(vectors)}",
                               f"write xt.{function}([a, b])", current(f"xt.{function}").location())
    for part in parts:
        check_vector(function, part)
    return parts


def _concatenated_map(parts: Sequence[Vector], axis: int, shape: Sequence[int]) -> WgMap | None:
    """Map of vectors side by side: each subgroup has its blocks of each of them.

    Raises:
        ShapeError: maps that differ elsewhere, or blocks that end within the axis.
    """
    map_ = parts[0].wg_map and parts[0].wg_map.sliced(parts[0].shape, shape)
    for part in parts:
        if part.wg_map is not None and part.wg_map.sg_data[axis] != part.shape[axis]:
            raise _divided("concatenate", part, axis)
        if (part.wg_map and part.wg_map.sliced(part.shape, shape)) != map_:
            check_alike(parts[0], part, "concatenate", ("the first", "another"), "the vectors")
    return map_


def shift(v: Vector, distance: int, axis: int = -1, *, fill: float = 0) -> Vector:
    """A vector whose elements have moved by ``distance`` along a dimension; ``fill`` stands where none came.

    ``xt.shift(v, 1)[i]`` is ``v[i - 1]``, and ``xt.shift(v, -1)[i]`` is ``v[i + 1]``.

    Args:
        v: a vector of one dimension or two.
        distance: a compile-time integer; negative towards the first element.
        axis: the dimension, by default the last.
        fill: a Python number that the element type holds.

    Raises:
        ElementTypeError: a distance that is known at run time only, or a fill that the type does not hold.
        RankError: no such axis.
        ShapeError: ``v`` is distributed over subgroups along the axis.
    """
    check_vector("shift", v)
    along, distance = axis_of(axis, v) + 2 - len(v.shape), python_number(distance)
    if type(distance) is not int:
        raise ElementTypeError("XT1246", f"the distance of a shift is {describe_argument(distance)}, and elements move "
                               "by a compile-time integer", "make it a keyword-only parameter, or load the elements "
                               "from their new place", current().location())
    matrix = _matrix(v)
    if matrix.wg_map is not None and matrix.wg_map.sg_data[along] != matrix.shape[along]:
        raise _divided("shift", matrix, along)
    left = matrix.shape[along] - abs(distance)
    scalar_of_element(python_number(fill), v.dtype) if fill else None  # which refuses what the type does not hold
    result = full(matrix.shape, fill, matrix.dtype, wg_map=matrix.wg_map)
    if left > 0:
        start, end = [0, 0], [0, 0]
        start[along], end[along] = max(-distance, 0), max(distance, 0)
        sizes = [left if axis == along else size for axis, size in enumerate(matrix.shape)]
        kept = current().emit(ExtractStridedSliceOp(matrix.ssa, start, sizes))
        result = result.like(current().emit(InsertStridedSliceOp(kept, result.ssa, end)))
    return _like(cast(result, v.shape), v)


def check_vector(function: str, v: Any) -> None:
    """Check that an operand is a vector of one dimension or two."""
    check_operand(v, Vector, function, any_rank=True)
    check_unblocked(function, v)


def undivided(v: Vector, axis: int) -> Vector:
    """A vector with a map under which each subgroup has all of a dimension."""
    if v.wg_map is None or (map_ := v.wg_map.undivided(axis + 2 - len(v.shape), _matrix_shape(v))) == v.wg_map:
        return v
    return redistributed(v, map_)


def redistributed(v: Vector, wg_map: WgMap | None) -> Vector:
    """A vector with another map (``tile_conv_layout``)."""
    if wg_map is None or v.wg_map == wg_map:
        return v
    matrix = cast(v, _matrix_shape(v))
    return cast(Vector(current().emit(TileConvLayoutOp(matrix.ssa, wg_map, v.wg_map)), wg_map), v.shape)


def _matrix_shape(v: Vector) -> tuple[int, ...]:
    return v.shape if len(v.shape) == 2 else (1, v.shape[0])


def _divided(function: str, v: Vector, axis: int) -> ShapeError:
    """Error for a vector that is distributed along a dimension in which elements would move between subgroups."""
    location = current().location()
    assert v.wg_map is not None
    return ShapeError("XT1418", f"the vector is distributed over subgroups, as {v.wg_map}, and {function} moves its "
                      f"elements along dimension {axis}", "give each subgroup all of that dimension: "
                      f"xt.tile_conv_layout(v, xt.{v.wg_map.undivided(axis, v.shape)})", location,
                      notes(location, it=v))


def _distributed(function: str, v: Vector) -> ShapeError:
    """Error for a vector of a work-group."""
    location = current().location()
    return ShapeError("XT1418", f"the vector is distributed over subgroups, as {v.wg_map}, and {function} moves or "
                      "combines its elements", "exchange them through an array of xt.alloc_slm, or use a vector "
                      "without a wg_map", location, notes(location, it=v))


def axis_of(axis: Any, v: Vector) -> int:
    """Axis of a vector, counted from the first."""
    number, rank = python_number(axis), len(v.shape)
    if type(number) is not int or not -rank <= number < rank:
        raise RankError("XT1224", f"a {v.describe()} has no axis {axis!r:.40}",
                        f"use {' or '.join(map(str, range(rank)))}", current().location())
    return number % rank


def _matrix(v: Vector) -> Vector:
    """A vector in two dimensions, whose elements can be constants: 8-bit floats as integers."""
    row = cast(v, _matrix_shape(v))
    return bitcast(row, dtypes.u8) if v.dtype.kind == "s" else row  # type: ignore[no-any-return]


def _like(v: Vector, like: Vector) -> Vector:
    """A vector as the element type of another, whose bits it has."""
    return bitcast(v, like.dtype) if like.dtype.kind == "s" else v  # type: ignore[no-any-return]
