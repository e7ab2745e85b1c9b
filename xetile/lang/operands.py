"""Operators of vectors and run-time scalars: broadcasting of operands, one operation each, and powers."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.dialect.tile_ops import text
from xetile.frontend.broadcast import broadcast_operands
from xetile.frontend.constants import python_number, scalar_of_element
from xetile.frontend.notes import notes
from xetile.frontend.operators import operand_error, splat
from xetile.frontend.ssa_value import Arithmetic
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector


def matched_operands(function: str, *sides: Any) -> tuple[Vector | Scalar, list[SSAValue]]:
    """Operands of an n-ary function in one shape, element type and map, and the one that determines them.

    Args:
        function: the name, for messages.
        sides: vectors, run-time numbers and Python numbers; the first vector, else the first run-time number, decides.

    Raises:
        ElementTypeError: one is something else, all are Python numbers, or element types differ.
        ShapeError: shapes or work-group maps differ.
    """
    numbers = broadcast_operands([python_number(side) for side in sides])
    for side in numbers:
        if not isinstance(side, (Arithmetic, int, float)):
            raise operand_error(function, side)
    like = next((side for kind in (Vector, Scalar) for side in numbers if isinstance(side, kind)), None)
    if like is None:
        raise ElementTypeError("XT1161",
                               f"{function} of Python numbers", "calculate with Python, or make one of them a run-time "
                               f"number: xt.scalar({numbers[0]}, xt.f32)", current().location())
    return like, [matched_operand(function, side, like) for side in numbers]


def matched_operand(function: str, side: Any, like: Vector | Scalar) -> SSAValue:
    """Operand in the shape of ``like``: a scalar is broadcast, a vector checked."""
    if isinstance(side, Vector):
        _check_operands(function, like, side)
        return side.ssa
    return splat(side, like) if isinstance(like, Vector) else scalar_of_element(side, like.dtype)


def _check_operands(function: str, like: Any, side: Vector) -> None:
    """Check that two operands have one element type, shape and map."""
    location = current().location()
    if side.dtype is not like.dtype:
        raise ElementTypeError("XT1207",
                               f"{function} of a {like.describe()} and a {side.describe()}: the element types differ",
                               f"convert one with .to(xt.{like.dtype}) or .to(xt.{side.dtype})", location,
                               notes(location, **{"the one": like, "the other": side}))
    check_shapes(function, like, side)


def check_shapes(function: str, first: Vector, second: Vector) -> None:
    """Check that two vectors have one shape and one work-group map (ShapeError)."""
    location = current().location()
    others = {"the first": first, "the second": second}
    if first.shape != second.shape:
        raise ShapeError("XT1208", f"{function} of a {first.describe()} and a {second.describe()}: the shapes differ",
                         f"make both {text(first.shape)} or both {text(second.shape)}", location,
                         notes(location, **others))
    if first.wg_map != second.wg_map:
        raise ShapeError("XT1400",
                         f"the operands of {function} are distributed differently: {first.wg_map} and {second.wg_map}",
                         "give both the same wg_map", location, notes(location, **others))
