"""Whole rows by an index vector, and arrays of one dimension."""

from __future__ import annotations

import numpy as np

from tests.fuzz.generator import Generator
from tests.fuzz.numerics import Array, is_float, limits
from tests.fuzz.program import ArrayArg, Map, Shape, State, Value
from tests.fuzz.statements.elementwise import calculated, tame
from tests.fuzz.statements.memory import NO_BOUND, read_window, window, write_window
from tests.fuzz.statements.scalars import constant, index
from tests.fuzz.statements.scattered import ATOMICS

_NOT_STORED = ("e4m3", "e5m2", "i1", "tf32", "index")


def _flat(generator: Generator, dtype: str, size: tuple[int, int], low: int | None, high: int | None, *,
          written: bool = False) -> ArrayArg:
    """An array of one dimension, whose elements may lie apart."""
    return generator.array(dtype, (1, 0), size, low, high, written=written, rank=1)


def _rows(generator: Generator, count: int, map_: Map | None, highest: int) -> Value:
    """Row numbers that an array of one dimension, or a column, holds: -2 to ``highest``."""
    choices = generator.choices
    dtype = choices.pick(("i32", "i64", "i16", "u32"))
    low = max(-2, limits(dtype)[0])
    if map_ is None and choices.chance(0.6):
        array = _flat(generator, dtype, (count + choices.below(4), 0), low, highest)
        return generator.let(f"xt.load_tile(xt.init_tile({array.name}, (0,), ({count},)))", (),
                             lambda state: np.broadcast_to(state.arrays[array.name][:count], (state.count, count)),
                             "rows", (), low=low, high=highest)
    column = map_ and Map(map_.layout, (map_.data[0], 1))
    array = generator.array(dtype, (count, 0), (1 + choices.below(3), 0), low, highest)
    order = ", order=(0, 1)" if array.promised else ""
    words = order + (f", wg_map={column}" if column else "")
    return generator.let(f"xt.load_tile(xt.init_tile({array.name}, (0, 0), ({count}, 1){words}))", (),
                         lambda state: np.broadcast_to(state.arrays[array.name][:count, 0], (state.count, count)),
                         "rows", (), low=low, high=highest)


def _elements(state: State, matrix: Array, at: Array, column: Array, columns: int) -> tuple[Array, Array, Array]:
    """Row and column of each element of tiles of whole rows, and which are inside."""
    _, across, inside = window(state, 0, column, (at.shape[1], columns), (NO_BOUND, matrix.shape[1]))
    down = np.broadcast_to(at.astype(np.int64)[:, :, None], across.shape)
    return down, across, inside & (down >= 0) & (down < matrix.shape[0])


def _tile(generator: Generator, array: ArrayArg, shape: Shape, map_: Map | None) -> str:
    words = (", order=(0, 1)" if array.promised else "") + (f", wg_map={map_}" if map_ else "")
    return f"xt.init_tile({array.name}, ({{0}}, {{1}}), {shape}{words})"


def gather(generator: Generator) -> Value | None:
    """``load_tile`` of rows that an index vector names, some of them outside."""
    choices, shape, dtype = generator.choices, generator.shape(), generator.dtype()
    if dtype == "i1":
        return None
    map_ = generator.map(shape)
    rows, columns = choices.pick(((9, 0), (shape[0], 0), (3, 1))), choices.pick(((shape[1], 0), (shape[1] - 1, 3)))
    array = generator.array(dtype, rows, columns, *generator.data_range(dtype))
    at = _rows(generator, shape[0], map_, 9)
    column = index(generator, 1, shape[1]) if choices.chance(0.5) else constant(generator, 0)
    padding = choices.pick((0, 0, 3)) if dtype not in ("e4m3", "e5m2") else 0

    def function(state: State, rows: Array, start: Array) -> Array:
        matrix = state.arrays[array.name]
        down, across, inside = _elements(state, matrix, rows, start, shape[1])
        values = matrix[np.where(inside, down, 0), np.where(inside, across, 0)]
        return np.where(inside, values, np.asarray(padding).astype(values.dtype))

    generator.features.add("rows gathered")
    text = f"xt.load_tile({_tile(generator, array, shape, map_)}" + (f", padding={padding})" if padding else ")")
    return generator.let(text, (at, column), function, dtype, shape, map_,
                         low=None if array.low is None else min(array.low, 0),
                         high=None if array.high is None else max(array.high, padding), zero_sign=array.low is not None)


def scatter(generator: Generator) -> None:
    """``store_tile`` to rows of the instance's own, in the reverse order."""
    value = generator.vector(lambda each: each.dtype not in _NOT_STORED)
    if value is None or generator.outputs > 6 or generator.mapped:
        return
    shape: Shape = value.shape  # type: ignore[assignment]
    count, extra = shape[0], generator.choices.below(3)
    x, y = generator.position
    array = generator.array(value.dtype, (-generator.choices.below(3), count), (0, shape[1] + extra), value.low,
                            value.high, written=True)
    text = f"{{0}}.to(xt.i32) * {count} + ({count - 1} - xt.iota(({count},), 0, xt.i32))"
    at = generator.let(text, (x,), lambda state, p: p[:, None] * count + np.arange(count)[::-1], "rows", (), low=0,
                       high=2**12)
    column = generator.let(f"{{0}} * {shape[1] + extra}", (y,), lambda state, q: q * (shape[1] + extra), "index", (),
                           low=0, high=2**12)

    def function(state: State, active: Array, rows: Array, start: Array, values: Array) -> None:
        matrix = state.arrays[array.name]
        down, across, inside = _elements(state, matrix, rows, start, shape[1])
        keep = inside & active[:, None, None]
        matrix[down[keep], across[keep]] = values[keep]

    generator.outputs += 1
    generator.features.add("rows scattered")
    array.exact = value.exact
    generator.effect(f"xt.store_tile({{2}}, {_tile(generator, array, shape, None)})", (at, column, value), function,
                     array.name)


def atomic(generator: Generator) -> None:
    """``atomic_rmw_tile`` on rows that all instances update."""
    value = generator.vector(lambda each: calculated(each) and (not is_float(each.dtype) or each.most is not None))
    if value is None or generator.outputs > 6 or generator.mapped:
        return
    choices = generator.choices
    shape: Shape = value.shape  # type: ignore[assignment]
    kind = choices.pick(("add", "max", "min"))
    if kind == "add" and value.dtype not in ("u8", "u16", "u32", "u64"):
        value = tame(generator, value, 1 if value.dtype in ("i8", "bf16") else 7)
    array = generator.array(value.dtype, (4, 0), (shape[1] + choices.pick((0, -1, 2)), 0), 0, 1, written=True)
    at, column = _rows(generator, shape[0], None, 4), constant(generator, 0)

    def function(state: State, active: Array, rows: Array, start: Array, values: Array) -> None:
        matrix = state.arrays[array.name]
        down, across, inside = _elements(state, matrix, rows, start, shape[1])
        for instance in np.flatnonzero(active):
            for row in range(shape[0]):
                keep = inside[instance, row]
                where = down[instance, row][keep], across[instance, row][keep]
                matrix[where] = ATOMICS[kind](matrix[where], values[instance, row][keep])

    generator.outputs += 1
    generator.features.add("rows updated")
    generator.effect(f'xt.atomic_rmw_tile("{kind}", {{2}}, {_tile(generator, array, shape, None)})',
                     (at, column, value), function, array.name)


def load_vector(generator: Generator) -> Value | None:
    """``load_tile`` of an array of one dimension, reshaped to a row, a column or a tile."""
    choices, dtype, shape = generator.choices, generator.dtype(), generator.shape()
    if generator.mapped or dtype in ("i1", "e4m3", "e5m2", "tf32"):
        return None
    count = shape[0] * shape[1]
    array = _flat(generator, dtype, choices.pick(((count, 0), (count - 1, 2), (0, count))),
                  *generator.data_range(dtype))
    start = index(generator, 1, count)
    padding = choices.pick((0, 0, 5))

    def function(state: State, first: Array) -> Array:
        values = read_window(state, state.arrays[array.name][None], (0, first), (1, count), padding)
        return values.reshape(state.count, *shape)

    generator.features.add("one dimension")
    words = f", padding={padding}" if padding else ""
    return generator.let(f"xt.reshape(xt.load_tile(xt.init_tile({array.name}, ({{0}},), ({count},)){words}), {shape})",
                         (start,), function, dtype, shape, None, low=None if array.low is None else min(array.low, 0),
                         high=None if array.high is None else max(array.high, padding), zero_sign=array.low is not None)


def store_vector(generator: Generator) -> None:
    """``store_tile`` of a vector of one dimension to the instance's own part of an array."""
    value = generator.vector(lambda each: each.dtype not in _NOT_STORED)
    if value is None or generator.outputs > 6 or generator.mapped:
        return
    rows, columns = value.shape
    count = rows * columns
    array = _flat(generator, value.dtype, (-generator.choices.below(3), count), value.low, value.high, written=True)
    x, y = generator.position
    along = f"(xt.num_groups(1) * {generator.subgroups[1]})"
    first = generator.let(f"({{0}} * {along} + {{1}}) * {count}", (x, y), lambda state, p, q: (
        p * state.grid[1] * generator.subgroups[1] + q) * count, "index", (), low=0, high=2**20)

    def function(state: State, active: Array, start: Array, values: Array) -> None:
        write_window(state, active, state.arrays[array.name][None], (0, start), values.reshape(-1, 1, count))

    generator.outputs += 1
    generator.features.add("one dimension stored")
    array.exact = value.exact
    generator.effect(f"xt.store_tile(xt.reshape({{1}}, ({count},)), xt.init_tile({array.name}, ({{0}},), ({count},)))",
                     (first, value), function, array.name)
