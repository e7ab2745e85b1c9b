"""Checks of the options of distributed products."""

from __future__ import annotations

import numbers
import operator
from typing import Any

from xegpu.support.errors import ArgumentError, ShapeError
from xetile.library.array_operands import Operand


def check_choice(name: str, value: str, among: tuple[str, ...]) -> None:
    """Check an option that has a few values.

    Raises:
        ArgumentError: it has another one.
    """
    if value not in among:
        raise ArgumentError("XT7230", f"there is no {name} {value!r}", f"use one of {', '.join(among)}")


def whole_number(name: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """An option that is a whole number, as an integer.

    Raises:
        ArgumentError: it is none, or outside its range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError("XT7213", f"{name} is {value!r}, and no whole number",
                            f"give an integer, such as {name}=4") from None
    if (least is not None and number < least) or (most is not None and number > most):
        ends = f"{least} or more" if most is None else f"one of {least} to {most}"
        raise ArgumentError("XT7213", f"{name} is {number}", f"give {ends}")
    return number


def check_timeout(value: Any) -> None:
    """Check a number of seconds.

    Raises:
        ArgumentError: it is neither None nor a positive number.
    """
    if value is None or (isinstance(value, numbers.Real) and float(value) > 0):
        return
    raise ArgumentError("XT7233", f"a timeout of {value!r} is not a duration",
                        "give seconds, such as timeout=60; None waits for any time")


def no_matrices(what: str, a: Operand, b: Operand) -> ShapeError:
    """The error of a product whose operands are no matrices."""
    return ShapeError("XT7212", f"{what} multiplies an array of {len(a.shape)} by one of {len(b.shape)} dimensions",
                      "pass two matrices; fold batches into rows, as in x.reshape(-1, x.shape[-1])")
