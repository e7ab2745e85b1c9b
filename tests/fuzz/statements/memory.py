"""Statements that touch memory: tiles, gathers and scatters, atomics, shared local memory, single numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.generator import Generator
from tests.fuzz.numerics import HOLDS, Array, is_float, limits
from tests.fuzz.program import ArrayArg, Map, Shape, State, Value
from tests.fuzz.statements.scalars import index

NO_BOUND = 2**31 - 1
"""Bound of a tile that has none of its own."""


def window(state: State, rows: Any, columns: Any, shape: Shape, sizes: Sequence[Any]) -> tuple[Array, Array, Array]:
    """Row and column of each element of tiles, and which are inside; sizes are the same or each instance's own."""
    sizes = [np.broadcast_to(np.asarray(each), (state.count,))[:, None, None] for each in sizes]
    row = np.broadcast_to(np.asarray(rows), (state.count,))[:, None, None] + np.arange(shape[0])[None, :, None]
    column = np.broadcast_to(np.asarray(columns), (state.count,))[:, None, None] + np.arange(shape[1])[None, None, :]
    row, column = np.broadcast_arrays(row, column)
    return row, column, (row >= 0) & (row < sizes[0]) & (column >= 0) & (column < sizes[1])


def read_window(state: State, matrix: Array, at: tuple[Any, Any], shape: Shape, padding: float,
                bounds: tuple[Any, Any] = (NO_BOUND, NO_BOUND)) -> Array:
    """Tiles of a matrix, with padding for what lies outside."""
    row, column, inside = window(state, *at, shape, np.minimum(np.transpose(bounds), matrix.shape).T)
    row, column = np.clip(row, 0, matrix.shape[0] - 1), np.clip(column, 0, matrix.shape[1] - 1)
    return np.where(inside, matrix[row, column], np.asarray(padding).astype(matrix.dtype))


def write_window(state: State, active: Array, matrix: Array, at: tuple[Any, Any], values: Array,
                 bounds: tuple[Any, Any] = (NO_BOUND, NO_BOUND)) -> None:
    """Store tiles, without what lies outside."""
    row, column, inside = window(state, *at, values.shape[1:], np.minimum(np.transpose(bounds), matrix.shape).T)
    keep = inside & active[:, None, None]
    matrix[row[keep], column[keep]] = values[keep]


def arguments(map_: Map | None, array: ArrayArg | None = None) -> str:
    """Keyword arguments of ``init_tile``."""
    order = ", order=(0, 1)" if array is not None and array.promised else ""
    return order + (f", wg_map={map_}" if map_ else "")


def load(generator: Generator, shape: Shape | None = None, dtype: str | None = None,
         map_: Map | None = None, *, most: int | None = None) -> Value:
    """``load_tile`` of an array argument, with offsets that may reach outside.

    Args:
        generator: the program.
        shape, dtype, map_: what is wanted; chosen if not given.
        most: a bound of the data.
    """
    choices = generator.choices
    shape = shape or generator.shape()
    dtype = dtype or generator.dtype()
    map_ = map_ or generator.map(shape)
    tiles = [each for each in reversed(generator.scope) if each.dtype == "tile" and each.array and most is None
             and each.shape == shape and each.map == map_ and each.array.dtype == dtype]
    if tiles and choices.chance(0.5):
        return _load_from(generator, choices.pick(tiles))
    known = [each for each in generator.arrays if each.dtype == dtype and not each.written and each.rank > 1
             and (most is None or (each.high is not None and each.high <= most))]
    if known and choices.chance(0.4):
        array = choices.pick(known)
    else:
        low, high = generator.data_range(dtype)
        if most is not None:
            low, high = max(-most, limits(dtype)[0]) if not is_float(dtype) else -most, most
        rows, columns = (choices.pick(((size, size), (size, 0), (size - 1, size), (3, 1), (1, 0), (2 * size + 1, 1)))
                         for size in shape)
        array = generator.array(dtype, rows, columns, low, high, rank=3 if choices.chance(0.08) else 2)
    return _load_from(generator, tile_of(generator, array, shape, map_))


def tile_of(generator: Generator, array: ArrayArg, shape: Shape, map_: Map | None) -> Value:
    """``init_tile``."""
    rows = index(generator, 0, shape[0])
    columns = index(generator, 1, shape[1])
    batch = f"{generator.choices.between(0, array.batch)}, " if array.rank == 3 else ""
    matrix = int(batch[:-2]) if batch else 0
    words, bounds = bounds_of(generator, 2)
    template = f"xt.init_tile({array.name}, ({batch}{{0}}, {{1}}), {shape}{words}{arguments(map_, array)})"

    def function(state: State, row: Array, column: Array, *own: Array) -> Array:
        return np.stack([np.full(state.count, matrix), row, column, *bounds.of(state, own)], 1)

    return generator.let(template, (rows, columns, *bounds.operands), function, "tile", shape, map_, array=array)


@dataclass(frozen=True)
class Bounds:
    """``rows=`` and ``columns=`` of a tile: run-time numbers, or None for the array's own."""

    rows: Value | None
    columns: Value | None

    @property
    def operands(self) -> list[Value]:
        """The numbers that there are."""
        return [each for each in (self.rows, self.columns) if each]

    def of(self, state: State, values: Sequence[Array]) -> tuple[Array, Array]:
        """The bounds of all instances, from the values of the operands."""
        left = list(values)
        rows, columns = (left.pop(0) if each else np.full(state.count, NO_BOUND) for each in (self.rows, self.columns))
        return rows, columns


def bounds_of(generator: Generator, first: int) -> tuple[str, Bounds]:
    """Keyword arguments that bound a tile, whose values are the operands from ``first`` on; mostly none."""
    found: list[Value | None] = []
    words = ""
    for axis, keyword in enumerate(("rows", "columns")):
        bound = index(generator, axis, 8) if generator.choices.chance(0.1) else None
        if bound:
            words += f", {keyword}={{{first + sum(each is not None for each in found)}}}"
            generator.features.add(f"{keyword}=")
        found.append(bound)
    return words, Bounds(*found)


def _matrix(state: State, array: ArrayArg, which: int) -> Array:
    """A matrix of an array; outside a batch an empty one."""
    values = state.arrays[array.name]
    if array.rank == 2:
        return values
    return values[which] if which < len(values) else np.full((1, 1), 0, values.dtype)


def _load_from(generator: Generator, tile: Value) -> Value:
    choices, array = generator.choices, tile.array
    assert array is not None
    shape: Shape = tile.shape  # type: ignore[assignment]
    padding: float = 0
    if array.dtype not in ("e4m3", "e5m2") and choices.chance(0.25):
        top = 1 if array.dtype == "i1" else 7
        padding = choices.between(1, top) * (-1 if choices.chance(0.3) and (
            is_float(array.dtype) or limits(array.dtype)[0] < 0) else 1)
    hint = choices.pick(("", "", "", "", "", ', l1="cached", l3="cached"', ', l1="streaming", l3="cached"',
                         ', l1="uncached", l3="uncached"'))
    text = "xt.load_tile({0}" + (f", padding={padding}" if padding else "") + hint + ")"

    def function(state: State, at: Array) -> Array:
        matrix = int(at[0, 0])
        if array.rank == 3 and matrix >= array.batch:
            return np.full((state.count, *shape), padding).astype(HOLDS[array.dtype])
        return read_window(state, _matrix(state, array, matrix), (at[:, 1], at[:, 2]), shape, padding,
                           (at[:, 3], at[:, 4]))

    low = None if array.low is None else min(array.low, int(padding), 0)
    high = None if array.high is None else max(array.high, int(padding), 0)
    generator.features.add("padding" if padding else "load")
    return generator.let(text, (tile,), function, array.dtype, shape, tile.map, low=low, high=high,
                         zero_sign=array.low is not None)


def move_tile(generator: Generator) -> Value | None:
    """``update_tile_offset``."""
    tiles = [each for each in reversed(generator.scope) if each.dtype == "tile"]
    if not tiles:
        return None
    tile = generator.choices.pick(tiles)
    rows, columns = (generator.choices.pick((0, 1, 8, 16, -1, -3, 5)) for _ in range(2))
    return generator.let(f"xt.update_tile_offset({{0}}, {rows}, {columns})", (tile,),
                         lambda state, at: at + np.array([0, rows, columns, 0, 0]), "tile", tile.shape, tile.map,
                         array=tile.array)


def prefetch(generator: Generator) -> None:
    """``prefetch_tile``, which changes nothing."""
    tiles = [each for each in reversed(generator.scope) if each.dtype == "tile" and each.array
             and each.array.dtype != "i1"]
    if tiles:
        tile = generator.choices.pick(tiles)
        generator.effect("xt.prefetch_tile({0})", (tile,), lambda state, active, at: None)


def store(generator: Generator, value: Value | None = None) -> None:
    """``store_tile`` to a part of an array that is the instance's own, or hangs over its end."""
    choices = generator.choices
    value = value or generator.vector()
    if value is None or value.dtype in ("e4m3", "e5m2") or generator.outputs > 6:
        return
    shape: Shape = value.shape  # type: ignore[assignment]
    gap, cut, shift = ([choices.pick((0, 0, 1, 3)) for _ in range(2)], [choices.pick((0, 0, 0, 1, 2, -4))
                       for _ in range(2)], [choices.pick((0, 0, 0, -1, -2, 1)) for _ in range(2)])
    sizes = [(-cut[axis], shape[axis] + gap[axis]) for axis in (0, 1)]
    array = generator.array(value.dtype, sizes[0], sizes[1], value.low, value.high, written=True)
    array.step = 1 if array.promised or choices.chance(0.8) else array.step
    generator.outputs += 1
    positions = [generator.let(f"{{0}} * {shape[axis] + gap[axis]} + {shift[axis]}", (generator.position[axis],),
                               lambda state, x, axis=axis: x * (shape[axis] + gap[axis]) + shift[axis], "index", (),
                               low=-2, high=4000) for axis in (0, 1)]
    hint = choices.pick(("", "", "", "", "", ', l1="write_back", l3="write_back"', ', l1="uncached", l3="write_back"'))

    words, bounds = bounds_of(generator, 3)

    def function(state: State, active: Array, row: Array, column: Array, values: Array, *own: Array) -> None:
        write_window(state, active, state.arrays[array.name], (row, column), values, bounds.of(state, own))

    tile = f"xt.init_tile({array.name}, ({{0}}, {{1}}), {shape}{words}{arguments(value.map, array)})"
    text = f"xt.store_tile({{2}}, {tile}{hint})"
    array.exact = value.exact
    generator.effect(text, (*positions, value, *bounds.operands), function, array.name)
    generator.features.add(f"store {value.dtype}")


def finish(generator: Generator) -> None:
    """Store the last values, if the program has few outputs yet."""
    no_results = ("tile", "index", "e4m3", "e5m2")
    unused = [each for each in reversed(generator.scope) if each.shape and each.dtype not in no_results]
    for value in unused[:3]:
        with generator.choices.span():
            if generator.outputs and not generator.choices.chance(0.8):
                continue
            store(generator, value)
