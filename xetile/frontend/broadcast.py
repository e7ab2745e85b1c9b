"""Broadcasting of operands to a common shape and work-group map, as in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.mlir.vector import ShapeCastOp
from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.dialect.reduction import TileBroadcastOp, check_broadcast, check_repeated
from xetile.dialect.supervector import NAME as SUPERVECTOR
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
    check_alike(left, right, f"{left.describe()} {operator} {right.describe()}", ("the left side", "the right side"),
                f"the sides of {operator}")
    return left, right


def broadcast_operands(sides: Sequence[Any]) -> list[Any]:
    """Broadcast operands to a common shape; unchanged where their shapes are not compatible.

    Raises:
        ShapeError: the work-group maps of vectors that are repeated contradict each other.
    """
    vectors = [side for side in sides if isinstance(side, VectorBase)]
    if len({side.shape for side in vectors}) < 2 or any(len(side.shape) > 2 for side in vectors):
        return list(sides)
    if {len(side.shape) for side in vectors} == {1, 2}:  # one dimension is a row
        return broadcast_operands([cast(side, (1, side.shape[0])) if isinstance(side, VectorBase) and
                                   len(side.shape) == 1 else side for side in sides])
    if any(len(side.shape) == 1 for side in vectors):
        return _broadcast_lines(sides, vectors)
    rows, columns = (max(side.shape[axis] for side in vectors) for axis in (0, 1))
    if any(side.shape[0] not in (1, rows) or side.shape[1] not in (1, columns) for side in vectors):
        return list(sides)
    map_ = _common_map(vectors, (rows, columns))
    return [broadcast(side, (rows, columns), map_) if isinstance(side, VectorBase) else side for side in sides]


def _broadcast_lines(sides: Sequence[Any], vectors: Sequence[VectorBase]) -> list[Any]:
    """Broadcast vectors of one dimension, of which some have a single element; unchanged where that does not fit."""
    size = max(side.shape[0] for side in vectors)
    if any(side.shape[0] not in (1, size) for side in vectors):
        return list(sides)
    rows = broadcast_operands([cast(side, (1, side.shape[0])) if isinstance(side, VectorBase) else side
                               for side in sides])
    return [cast(side, (size,)) if isinstance(side, VectorBase) else side for side in rows]


def cast(v: V, shape: tuple[int, ...]) -> V:
    """Shape cast (``vector.shape_cast``): the same elements, row by row, in another shape of one dimension or two."""
    if v.shape == shape:
        return v
    tracer = current()
    if 1 in (len(v.shape), len(shape)):
        tracer.stage = SUPERVECTOR  # whose lowering makes rows of vectors of one dimension
    return type(v)(tracer.emit(ShapeCastOp(v.ssa, shape)), v.wg_map)


def check_unblocked(function: str, v: VectorBase) -> None:
    """Check that a vector is of one dimension or two.

    Raises:
        RankError: it is in blocks.
    """
    if len(v.shape) not in (1, 2):
        location = current().location()
        raise RankError("XT1122", f"{function} takes a vector of one dimension or two, not a {v.describe()}",
                        "use xt.tile_unpack(v) first", location, notes(location, it=v))


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


def check_alike(first: VectorBase, second: VectorBase, expression: str, names: tuple[str, str], of: str, *,
                types: bool = True) -> None:
    """Check that two operands have one element type, shape and work-group map.

    Args:
        first, second: the operands; scalars among them have no shape and no map.
        expression: how messages show what is computed of them.
        names: what notes call them.
        of: what messages call both.
        types: whether the element types must agree.

    Raises:
        ElementTypeError: the element types differ.
        ShapeError: shapes or maps differ.
    """
    location, operands = current().location(), dict(zip(names, (first, second), strict=True))
    if types and first.dtype is not second.dtype:
        raise ElementTypeError("XT1207", f"{expression}: the element types differ",
                               _conversions(first.dtype, second.dtype), location, notes(location, **operands))
    if first.shape != second.shape:
        raise ShapeError("XT1208", f"{expression}: the shapes differ",
                         f"make both {text(first.shape)} or both {text(second.shape)}", location,
                         notes(location, **operands))
    maps = first.wg_map, second.wg_map
    if maps[0] != maps[1]:
        raise ShapeError("XT1400", f"{of} are distributed differently: {maps[0] or 'no wg_map'} and "
                         f"{maps[1] or 'no wg_map'}", "give both the same wg_map" if None in maps else
                         f"give both the same wg_map, or bring one over: xt.tile_conv_layout(v, {maps[0]})",
                         location, notes(location, **operands))


def _conversions(first: DType, second: DType) -> str:
    """Hint that brings two element types together; a wider one where neither of two integers holds the other's."""
    hint = f"convert one with .to(xt.{first}) or .to(xt.{second})"
    if {first.kind, second.kind} != {"i", "u"}:
        return hint
    held = [dtypes.integers_of(dtype) for dtype in (first, second)]
    low, high = min(each[0] for each in held), max(each[-1] for each in held)
    if any((low, high) == (each[0], each[-1]) for each in held):
        return hint
    wider = next((dtype for dtype in (dtypes.i16, dtypes.i32, dtypes.i64)
                  if low in dtypes.integers_of(dtype) and high in dtypes.integers_of(dtype)), None)
    both = f", or both with .to(xt.{wider}), which holds all numbers of both" if wider is not None else ""
    return f"{hint}, which wraps around{both}"
