"""Positions of extremes along a dimension: ``xt.argmax``, ``xt.argmin``."""

from __future__ import annotations

from typing import Any

from xegpu.ir import dtypes
from xetile.frontend.broadcast import broadcast_operands, cast
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector
from xetile.lang.checks import check_operand
from xetile.lang.creation import iota
from xetile.lang.layout import tile_unpack
from xetile.lang.layout.shapes import axis_of
from xetile.lang.math import where
from xetile.lang.reduction import checked_axis, tile_reduce


def argmax(v: Vector, axis: int, *, keepdims: bool = True) -> Vector:
    """Position of the largest element along ``axis``, in ``i32``.

    The first of equal elements counts, and the first NaN before all numbers, as in NumPy.

    Args:
        v: rows x columns, of integers or floats; or a vector of one dimension, of which one position remains.
        axis: 0 for 1 x columns, 1 for rows x 1.
        keepdims: False drops the dimension, which else is kept with size 1, as that of ``tile_reduce``.

    Raises:
        RankError: there is no such axis.
        ElementTypeError: the element type has no order.
    """
    return _extreme_index("max", v, axis, keepdims)


def argmin(v: Vector, axis: int, *, keepdims: bool = True) -> Vector:
    """Position of the smallest element along ``axis``; otherwise as :func:`argmax`."""
    return _extreme_index("min", v, axis, keepdims)


def _extreme_index(kind: str, v: Vector, axis: Any, keepdims: bool) -> Vector:
    """Reduce to the extreme, then to the first position that holds it."""
    current(f"xt.arg{kind}")
    if isinstance(v, Vector) and len(v.shape) == 1:
        axis_of(axis, v)
        return cast(_extreme_index(kind, cast(v, (1, v.shape[0])), 1, True), (1,))
    check_operand(v, Vector, f"arg{kind}")
    along = checked_axis(axis, axis, "use 0 for the position in each column, 1 for that in each row")
    if len(v.shape) == 4:
        v = tile_unpack(v)
    holds = v == broadcast_operands([tile_reduce(kind, v, along), v])[0]
    if v.dtype.is_float:
        holds = holds | (v != v)  # the extreme of a row with NaN is NaN, which equals nothing
    positions = iota(v.shape, along, dtypes.i32, wg_map=v.wg_map)  # type: ignore[arg-type]
    return tile_reduce("min", where(holds, positions, v.shape[along]), along, keepdims=keepdims)
