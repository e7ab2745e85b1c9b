"""What an author gives to the functions of the language: whether it is what they take, and what messages call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xegpu.support.errors import ElementTypeError, RankError, ShapeError, XeError
from xetile.dialect.tile_ops import text
from xetile.dialect.wg_map import WgMap
from xetile.frontend.constants import plain
from xetile.frontend.notes import notes
from xetile.frontend.ssa_value import Value
from xetile.frontend.tiles import Array, Tile
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector


def located(make: Callable[[], Any]) -> Any:
    """The result of ``make``, with an error of it placed at the author's line."""
    try:
        return make()
    except XeError as error:
        raise error.at(current().location()) from None


def two_sizes(shape: Any, whose: str) -> tuple[int, int]:
    """Rows and columns.

    Args:
        shape: what was given for them.
        whose: what has this shape, for messages.

    Raises:
        ShapeError: it is not two positive compile-time integers.
    """
    location = current().location()
    sizes = [plain(size) for size in shape] if isinstance(shape, (tuple, list)) else []
    if any(isinstance(size, Value) for size in sizes):
        raise ShapeError("XT1105",
                         f"{whose} holds a run-time value", "sizes of tiles and vectors are compile-time constants: "
                         "make them keyword-only parameters, as in def kernel(A, *, BM=32)", location)
    if len(sizes) != 2 or not all(type(size) is int and size > 0 for size in sizes):
        whole = len(sizes) == 2 and all(type(size) in (int, float) and size == int(size) > 0 for size in sizes)
        raise ShapeError("XT1106", f"{whose} must be two positive integers, not {text_of(shape)}",
                         f"divide with //, which gives {tuple(map(int, sizes))}" if whole else
                         "give rows and columns, for example (32, 64)", location)
    return sizes[0], sizes[1]


def check_is_map(wg_map: Any) -> None:
    """Raise unless it is a work-group map, or None.

    Raises:
        ElementTypeError: it is something else.
    """
    if wg_map is not None and not isinstance(wg_map, WgMap):
        raise ElementTypeError("XT1402", f"wg_map is {what(wg_map)}", "make one with xt.wg_map(sg_layout=(8, 4), "
                               "sg_data=(32, 64))", current().location())


def check_map(wg_map: Any, shape: tuple[int, int]) -> None:
    """Raise unless a map, if there is one, deals out ``shape``; the work-group has its subgroups from then on.

    Raises:
        ElementTypeError: it is no map.
        ShapeError: it does not deal out the shape, or to other subgroups than another map of the kernel.
    """
    check_is_map(wg_map)
    if wg_map is None:
        return
    located(lambda: wg_map.check(shape))
    current().use_map(wg_map.subgroups)


def need(value: Any, kind: type[Value], function: str, *, any_rank: bool = False) -> None:
    """Raise unless a value is what a function takes; vectors have two dimensions, or four in blocks, unless any do.

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
    if not isinstance(value, kind):
        name = value.name if isinstance(value, Array) else "array"
        made = f"xt.init_tile({name}, (row, column), (rows, columns))"
        loaded = made if isinstance(value, Array) else "tile"
        code, hint = ("XT1120", f"make a tile with {made}") if kind is Tile else \
            ("XT1225", f"get a vector with xt.load_tile({loaded}), xt.zeros(shape, dtype) or "
                       "xt.full(shape, value, dtype)")
        raise ElementTypeError(code, f"{function} takes a {kind.__name__.lower()}, not {what(value)}", hint, location,
                               notes(location, **({name: value} if isinstance(value, Array) else {"it": value})))
    if isinstance(value, Vector) and not any_rank and len(value.shape) not in (2, 4):
        raise RankError("XT1122", f"{function} takes a vector of two dimensions, not a {value.describe()}",
                        "read it with two dimensions, or write it with xt.vector.transfer_write", location,
                        notes(location, **{"the vector": value}))


def what(value: Any) -> str:
    """A text for an object of the author's that is not what it should be, for messages."""
    if isinstance(value, Value):
        return f"a {value.describe()}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array of {text(value.shape)} {value.dtype}"
    return f"{type(value).__name__} {text_of(value)}"


def text_of(value: Any) -> str:
    """A short text for an object of the author's, for messages."""
    shown = repr(value)
    return shown if len(shown) < 40 else shown[:37] + "..."
