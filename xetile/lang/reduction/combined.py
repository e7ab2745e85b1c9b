"""Reductions and scans by a combining function of the author's: ``xt.reduce``, ``xt.scan``, ``xt.cumsum`` and its kin.

Both are trees over slices of the vector: whole registers are combined first, then lanes, by shifts within a register.
A work-group's vector is redistributed, so that each subgroup has all of the dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.dialect.tile_ops import text
from xetile.frontend.broadcast import cast, check_alike
from xetile.frontend.notes import notes
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector
from xetile.lang.checks import describe_argument
from xetile.lang.creation import iota
from xetile.lang.layout.shapes import axis_of, check_vector, concatenate, redistributed, reshape, shift, undivided
from xetile.lang.math import maximum, minimum, where

_REGISTER = 16
"""Columns that lanes exchange; more of them lie in several registers, which are combined without an exchange."""

Part = tuple[Vector, ...]
"""The same rows and columns of each of the vectors that are combined together."""
Combine = Callable[[Part, Part], Part]
"""The author's function on parts; what it gives is checked."""


def reduce(v: Any, axis: int, combine: Callable[..., Any], *, keepdims: bool = True) -> Any:
    """Reduction along ``axis`` by the author's function; the dimension stays with size 1.

    Args:
        v: a vector of one dimension or two, or a tuple of vectors of one shape that are reduced together.
        axis: the dimension; negative ones count from the last.
        combine: of two vectors, ``combine(a, b)``, or of tuples of n, ``combine(a1, .., an, b1, .., bn)``, the
            combined ones: an associative and commutative function, recorded for vectors of several shapes. Elements are
            combined in an order that is the same in every execution and left open.
        keepdims: False drops the dimension.

    Raises:
        ElementTypeError: what is reduced is no vector, or the function gives other types, or none.
        RankError: no such axis, or vectors of other dimensions.
        ShapeError: vectors of different shapes or maps.
    """
    part, along = _parts_and_axis("reduce", v, axis)
    function = _type_checked("reduce", combine)
    size = part[0].shape[along]
    while size > (1 if along == 0 else _REGISTER):
        half = -(-size // 2) if along == 0 else -(-size // (2 * _REGISTER)) * _REGISTER
        rest = size - half
        folded = function(_slice(part, along, 0, rest), _slice(part, along, half, size))
        part = _concatenated_parts([folded, _slice(part, along, rest, half)], along) if rest < half else folded
        size = half
    while size > 1:  # lanes: elements beyond the first ``half`` are not looked at again
        half = -(-size // 2)
        folded = function(part, _shifted(part, -half, along))
        part = folded if 2 * half == size else _where(_iota(part[0], along) < size - half, folded, part)
        size = half
    map_ = _first_part(v).wg_map
    result = tuple(redistributed(each, map_ and map_.collapsed((along,))) for each in _slice(part, along, 0, 1))
    if len(_first_part(v).shape) == 1 or not keepdims:
        result = tuple(reshape(each, each.shape[1 - along]) for each in result)
    return _results(v, result)


def scan(v: Any, axis: int, combine: Callable[..., Any], *, reverse: bool = False) -> Any:
    """Inclusive scan along ``axis``: element i of the result combines elements 0 to i of ``v``, in order.

    Args:
        v: a vector of one dimension or two, or a tuple of vectors of one shape that are scanned together.
        axis: the dimension; negative ones count from the last.
        combine: as in :func:`reduce`, an associative function; it need not be commutative: what comes first in the
            order of the scan is its first operand. How it is nested is the same in every execution and left open.
        reverse: from the last element to the first.

    Raises:
        As :func:`reduce`.
    """
    part, along = _parts_and_axis("scan", v, axis)
    function = _type_checked("scan", combine)
    step = 1 if along == 0 else _REGISTER
    size = part[0].shape[along]
    pieces = [_slice(part, along, at, min(at + step, size)) for at in range(0, size, step)]
    if along == 1:
        pieces = [_scanned_lanes(piece, function, reverse) for piece in pieces]
    order = range(len(pieces))[::-1] if reverse else range(len(pieces))
    carried: Part | None = None
    for i in order:
        if carried is not None:
            pieces[i] = function(tuple(_repeated(each, pieces[i][0]) for each in carried), pieces[i])
        width = pieces[i][0].shape[along]
        carried = _slice(pieces[i], along, 0, 1) if reverse else _slice(pieces[i], along, width - 1, width)
    result = _concatenated_parts(pieces, along)
    return _results(v, tuple(redistributed(cast(each, _first_part(v).shape), _first_part(v).wg_map) for each in result))


def cumsum(v: Vector, axis: int, *, reverse: bool = False, exclusive: bool = False) -> Vector:
    """Sums of the elements up to each one along ``axis``.

    Those of f16 and bf16 accumulate in float32 and are rounded once each; those of integers wrap in the element type.

    Args:
        v: a vector of one dimension or two.
        axis: the dimension; negative ones count from the last.
        reverse: of the elements from each one to the last.
        exclusive: without the element itself: the first sum is 0.

    Raises:
        As :func:`scan`.
    """
    return _cumulative("cumsum", v, axis, lambda a, b: a + b, reverse, exclusive, 0)


def cumprod(v: Vector, axis: int, *, reverse: bool = False, exclusive: bool = False) -> Vector:
    """Products of the elements up to each one along ``axis``; otherwise as :func:`cumsum`."""
    return _cumulative("cumprod", v, axis, lambda a, b: a * b, reverse, exclusive, 1)


def cummax(v: Vector, axis: int, *, reverse: bool = False) -> Vector:
    """Largest of the elements up to each one along ``axis``; NaN from the first NaN on, as NumPy's
    ``maximum.accumulate``."""
    return _cumulative("cummax", v, axis, maximum, reverse, False, 0)


def cummin(v: Vector, axis: int, *, reverse: bool = False) -> Vector:
    """Smallest of the elements up to each one along ``axis``; otherwise as :func:`cummax`."""
    return _cumulative("cummin", v, axis, minimum, reverse, False, 0)


def _cumulative(name: str, v: Vector, axis: Any, combine: Callable[[Any, Any], Any], reverse: bool, exclusive: bool,
                identity: int) -> Vector:
    current(f"xt.{name}")
    check_vector(name, v)
    narrow = v.dtype in (dtypes.f16, dtypes.bf16)
    result = scan(v.to(dtypes.f32) if narrow else v, axis, combine, reverse=reverse)
    if exclusive:
        moved = shift(undivided(result, axis_of(axis, v)), -1 if reverse else 1, axis, fill=identity)
        result = redistributed(moved, result.wg_map)
    return result.to(v.dtype) if narrow else result  # type: ignore[no-any-return]


def _scanned_lanes(part: Part, combine: Combine, reverse: bool) -> Part:
    """Hillis and Steele's scan of columns that lie in one register."""
    column, distance, count = _iota(part[0], 1), 1, part[0].shape[1]
    while distance < count:
        before = _shifted(part, -distance if reverse else distance, 1)
        reached = column < count - distance if reverse else column >= distance
        part = _where(reached, combine(before, part), part)
        distance *= 2
    return part


def _parts_and_axis(name: str, v: Any, axis: Any) -> tuple[Part, int]:
    """Operands as matrices, and the axis of these.

    Raises:
        ElementTypeError, RankError, ShapeError: it cannot be combined so.
    """
    location = current(f"xt.{name}").location()
    vectors = v if isinstance(v, tuple) else (v,)
    for each in vectors or (v,):
        check_vector(name, each)
        if each.shape != vectors[0].shape:
            raise ShapeError("XT1208", f"{name} takes vectors of one shape, and they are {text(vectors[0].shape)} and "
                             f"{text(each.shape)}", "give all the same rows and columns", location,
                             notes(location, it=each))
    for each in vectors[1:]:
        check_alike(vectors[0], each, name, ("the first", "another"), "the vectors", types=False)
    along, rank = axis_of(axis, vectors[0]), len(vectors[0].shape)
    whole = tuple(undivided(each, along) for each in vectors)
    matrices = tuple(each if rank == 2 else cast(each, (1, each.shape[0])) for each in whole)
    return matrices, along + 2 - rank


def _type_checked(name: str, combine: Callable[..., Any]) -> Combine:
    """The author's function on parts.

    Raises:
        ElementTypeError: it gives something else than vectors of the types and the shape that it gets.
    """
    def apply(first: Part, second: Part) -> Part:
        found = combine(*first, *second)
        results = found if isinstance(found, tuple) else (found,)
        right = len(results) == len(first) and all(
            isinstance(own, Vector) and own.dtype is each.dtype and own.shape == each.shape
            for own, each in zip(results, first, strict=True))
        if not right:
            got = ", ".join(describe_argument(each) for each in results)
            wanted = ", ".join(f"a {each.describe()}" for each in first)
            raise ElementTypeError("XT1272", f"the function of {name} gets {wanted} twice, and gives {got}",
                                   f"return {'as many values' if len(first) > 1 else 'one value'}, of the types and "
                                   "shapes of its operands: .to(dtype) converts", current().location())
        return results
    return apply


def _slice(part: Part, axis: int, start: int, end: int) -> Part:
    if (start, end) == (0, part[0].shape[axis]):
        return part
    return tuple(each[start:end] if axis == 0 else each[:, start:end] for each in part)


def _concatenated_parts(pieces: Sequence[Part], axis: int) -> Part:
    return tuple(each[0] if len(each) == 1 else concatenate(each, axis) for each in zip(*pieces, strict=True))


def _shifted(part: Part, distance: int, axis: int) -> Part:
    return tuple(shift(each, distance, axis) for each in part)


def _where(condition: Vector, chosen: Part, other: Part) -> Part:
    return tuple(where(condition, a, b) for a, b in zip(chosen, other, strict=True))


def _repeated(v: Vector, like: Vector) -> Vector:
    from xetile.lang.reduction import tile_broadcast

    return v if v.shape == like.shape else tile_broadcast(v, (like.shape[0], like.shape[1]), wg_map=like.wg_map)


def _iota(like: Vector, axis: int) -> Vector:
    return iota(like.shape, axis, wg_map=like.wg_map)


def _first_part(v: Any) -> Vector:
    return v[0] if isinstance(v, tuple) else v  # type: ignore[no-any-return]


def _results(v: Any, results: Part) -> Any:
    return results if isinstance(v, tuple) else results[0]
