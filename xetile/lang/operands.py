"""Operators of vectors and run-time scalars: broadcasting of operands, one operation each, and powers."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from xegpu.support.errors import ElementTypeError
from xetile.frontend.broadcast import broadcast_operands, check_alike
from xetile.frontend.constants import python_number, scalar_of_element
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
        check_operands(function, like, side)  # type: ignore[arg-type]
        return side.ssa
    return splat(side, like) if isinstance(like, Vector) else scalar_of_element(side, like.dtype)


def check_operands(function: str, first: Vector, second: Vector, *, types: bool = True) -> None:
    """Check that two operands of a function have one shape, one map and, if ``types``, one element type."""
    check_alike(first, second, f"{function} of a {first.describe()} and a {second.describe()}",
                ("the first", "the second"), f"the operands of {function}", types=types)
