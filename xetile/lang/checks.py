"""Argument checks of the language functions, and how values are named in diagnostics."""

from __future__ import annotations

from typing import Any

import numpy as np

from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.dialect.tile_ops import text
from xetile.dialect.wg_map import WgMap
from xetile.frontend.constants import python_number
from xetile.frontend.notes import at_author_line, notes
from xetile.frontend.operators.sub_byte import SubByteTile, SubByteVector
from xetile.frontend.ssa_value import Value
from xetile.frontend.tiles import Array, Tile
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector


def check_shape_2d(shape: Any, whose: str) -> tuple[int, int]:
    """Check a 2D shape: (rows, columns).

    Args:
        shape: the author's argument.
        whose: name of the operand with this shape, for messages.

    Raises:
        ShapeError: it is not two positive compile-time integers.
    """
    location = current().location()
    sizes = [python_number(size) for size in shape] if isinstance(shape, (tuple, list)) else []
    if any(isinstance(size, Value) for size in sizes):
        raise ShapeError("XT1105",
                         f"{whose} holds a run-time value", "sizes of tiles and vectors are compile-time constants: "
                         "make them keyword-only parameters, as in def kernel(A, *, BM=32)", location)
    if len(sizes) != 2 or not all(type(size) is int and size > 0 for size in sizes):
        is_integral = len(sizes) == 2 and all(type(size) in (int, float) and size == int(size) > 0 for size in sizes)
        raise ShapeError("XT1106", f"{whose} must be two positive integers, not {short_repr(shape)}",
                         f"divide with //, which gives {tuple(map(int, sizes))}" if is_integral else
                         "give rows and columns, for example (32, 64)", location)
    return sizes[0], sizes[1]


def line_length(shape: Any) -> int | None:
    """Length of a shape of one dimension, ``(64,)`` or ``64``; None for any other shape.

    Raises:
        ShapeError: a length that is no positive compile-time integer.
    """
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    if len(sizes) != 1 or shape is None:
        return None
    size = python_number(sizes[0])
    if type(size) is int and size > 0:
        return size
    if isinstance(size, Value):
        raise ShapeError("XT1105", "a shape of one dimension holds a run-time value", "sizes of tiles and vectors are "
                         "compile-time constants: make them keyword-only parameters, as in def kernel(A, *, N=64)",
                         current().location())
    raise ShapeError("XT1106", f"a shape of one dimension is a positive integer, not {short_repr(shape)}",
                     "give the length, for example (64,); or rows and columns, for example (32, 64)",
                     current().location())


def check_map_type(wg_map: Any, *, optional: bool = True) -> None:
    """Check that ``wg_map`` is a work-group map, or None where it is optional.

    Raises:
        ElementTypeError: it is something else.
    """
    if not isinstance(wg_map, WgMap) and not (optional and wg_map is None):
        raise ElementTypeError("XT1402", f"wg_map is {describe_argument(wg_map)}, and not a result of xt.wg_map",
                               "make one with xt.wg_map(sg_layout=(8, 4), sg_data=(32, 64))", current().location())


def check_map(wg_map: Any, shape: tuple[int, int]) -> None:
    """Check that ``wg_map``, unless None, distributes ``shape``, and fix the work-group's number of subgroups.

    Raises:
        ElementTypeError: it is no map.
        ShapeError: it does not distribute the shape, or its number of subgroups differs from another map's.
    """
    check_map_type(wg_map)
    if wg_map is None:
        return
    at_author_line(lambda: wg_map.check(shape))
    current().use_map(wg_map)


def check_has_map(v: Vector, result: WgMap | None, function: str) -> None:
    """Check that a vector has a work-group map where the result of ``function`` gets one (ShapeError)."""
    check_map_type(result)
    if result is not None and v.wg_map is None:
        location = current().location()
        raise ShapeError("XT1416", f"{function} gives a result distributed as {result}, and its {text(v.shape)} vector "
                         "has no map", "give both a wg_map, or neither", location, notes(location, **{"the vector": v}))


def check_operand(value: Any, kind: type[Value], function: str, *, any_rank: bool = False) -> None:
    """Check an operand's class and rank: vectors are 2D, or 4D when blocked, unless ``any_rank``.

    Args:
        value: the value.
        kind: the class that it must have.
        function: the function's name, for messages; it may show its parameters.
        any_rank: whether vectors of any rank will do.

    Raises:
        ElementTypeError: it is something else.
        RankError: it is a vector of another rank.
    """
    location = current(f"xt.{function}").location()
    if isinstance(value, SubByteVector):
        value.refuse()
    if not isinstance(value, kind):
        name = value.name if isinstance(value, Array) else "array"
        window = f"xt.init_tile({name}, (row, column), (rows, columns))"
        tile = window if isinstance(value, Array) else "tile"
        code, hint = ("XT1120", f"make a tile with {window}") if kind is Tile else \
            ("XT1225", f"get a vector with xt.load_tile({tile}), xt.zeros(shape, dtype) or "
             "xt.full(shape, value, dtype)")
        raise ElementTypeError(code, f"{function} takes a {kind.__name__.lower()}, not {describe_argument(value)}",
                               hint, location,
                               notes(location, **({name: value} if isinstance(value, Array) else {"it": value})))
    if isinstance(value, Vector) and not any_rank and len(value.shape) not in (2, 4):
        raise RankError("XT1122", f"{function} takes a vector of two dimensions, not a {value.describe()}",
                        "make it a row or a column, v[None, :] or v[:, None]" if len(value.shape) == 1 else
                        "read it with two dimensions, or write it with xt.vector.transfer_write", location,
                        notes(location, **{"the vector": value}))


def check_like_tile(value: Vector | SubByteVector, tile: Any) -> None:
    """Check that a vector has shape and element type of a tile of rows, or of 4-bit integers.

    Raises:
        ShapeError: the shape is another.
        ElementTypeError: the element type is another.
    """
    location = current().location()
    message = f"a {value.describe()} cannot be stored to a {tile.describe()}"
    if value.shape != tile.shape:
        raise ShapeError("XT1130", message, f"make it {text(tile.shape)}", location, notes(location, value=value))
    if value.dtype is not tile.dtype:
        raise ElementTypeError("XT1131", message, f"convert it with .to(xt.{tile.dtype})", location,
                               notes(location, value=value))


def describe_value(value: Any) -> str:
    """Description of an argument in an error message; of a Python object, its representation alone."""
    return f"a {value.describe()}" if isinstance(value, Value) else short_repr(value)


def describe_argument(value: Any) -> str:
    """Description of an argument in an error message, such as ``a tile of 8x16 f16`` or ``int 7``."""
    if isinstance(value, (Value, SubByteTile, SubByteVector)):
        return f"a {value.describe()}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array of {text(value.shape)} {value.dtype}"
    return f"{type(value).__name__} {short_repr(value)}"


def short_repr(value: Any) -> str:
    """Shortened ``repr`` of an argument for an error message."""
    shown = repr(value)
    return shown if len(shown) < 40 else shown[:37] + "..."
