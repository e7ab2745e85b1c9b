"""Gathers, scatters, atomics, shared local memory and single elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.generator import Generator
from tests.fuzz.numerics import HOLDS, Array, convert, is_float
from tests.fuzz.program import ArrayArg, Shape, State, Value
from tests.fuzz.statements.elementwise import calculated, tame
from tests.fuzz.statements.layout import keyword
from tests.fuzz.statements.scalars import constant


def _flat(generator: Generator, dtype: str, columns: tuple[int, int], low: int | None, high: int | None, *,
          written: bool = False) -> ArrayArg:
    array = generator.array(dtype, (1, 0), columns, low, high, written=written, rank=1)
    array.step, array.pad = 1, 0
    return array


def _positions(generator: Generator, shape: Shape, map_: Any) -> Value:
    """An index vector whose elements differ: 0 to rows * columns - 1, in an order."""
    rows, columns = shape
    order = generator.choices.below(3)
    a, b = (columns, 1) if order != 1 else (1, rows)
    text = (f"xt.iota({shape}, 0, xt.index{keyword(map_)}) * {a} + xt.iota({shape}, 1, xt.index{keyword(map_)}) * {b}")
    last = rows * columns - 1
    positions = np.arange(rows)[:, None] * a + np.arange(columns) * b
    if order == 2:
        text, positions = f"{last} - ({text})", last - positions
    return generator.let(text, (), lambda state: np.broadcast_to(positions, (state.count, *shape)), "index", shape,
                         map_, low=0, high=last)


def gather(generator: Generator) -> Value | None:
    """``load_gather``, of computed positions or positions in order, with or without a mask."""
    choices = generator.choices
    source = generator.vector(lambda each: each.dtype in ("i32", "u32", "i64", "i16", "u8", "i8", "u16"))
    if source is not None and choices.chance(0.5):
        low = tame(generator, source, 63)
        where = generator.let("({0} & 63).to(xt.index)", (low,), lambda state, v: (v & np.asarray(63, v.dtype)).astype(
            np.int64), "index", source.shape, source.map, low=0, high=63)
    else:
        shape = generator.shape()
        where = _positions(generator, shape, generator.map(shape))
    dtype, last = generator.dtype(), where.high
    assert last is not None
    array = _flat(generator, dtype, (last + 1 + choices.below(5), 0), *generator.data_range(dtype))
    masks = generator.vectors(lambda each: each.dtype == "i1" and each.shape == where.shape and each.map == where.map)
    mask = choices.pick(masks) if masks and choices.chance(0.7) else None
    padding = choices.pick((0, 0, 3, 7)) if mask else 0
    text = f"xt.load_gather(xt.init_tile({array.name}, {{0}})" + (", {1}" if mask else "") + (
        f", padding={padding}" if padding else "") + ")"

    def function(state: State, at: Array, chosen: Array | None = None) -> Array:
        values = state.arrays[array.name][at]
        return values if chosen is None else np.where(chosen, values, np.asarray(padding).astype(values.dtype))

    operands = (where, mask) if mask else (where,)
    generator.features.add("gather")
    low_, high = array.low, array.high
    return generator.let(text, operands, function, dtype, where.shape, where.map,
                         low=None if low_ is None else min(low_, 0), high=None if high is None else max(high, padding))


def _own(generator: Generator, value: Value, slot: int) -> Value:
    """Positions in the instance's own part of a flat array of parts of ``slot`` elements."""
    shape: Shape = value.shape  # type: ignore[assignment]
    where = _positions(generator, shape, value.map)
    x, y = generator.position
    along = f"(xt.num_groups(1) * {generator.subgroups[1]})"
    return generator.let(f"{{0}} + ({{1}} * {along} + {{2}}) * {slot}", (where, x, y), lambda state, at, p, q:
                         at + ((p * state.grid[1] * (1 if generator.mapped else generator.subgroups[1]) + q)
                               * slot)[:, None, None],
                         "index", shape, value.map, low=0, high=2**20)


def scatter(generator: Generator) -> None:
    """``store_scatter`` to elements that are the instance's own."""
    value = generator.vector(lambda each: each.dtype not in ("e4m3", "e5m2", "i1", "tf32", "index"))
    if value is None or generator.outputs > 6:
        return
    slot = value.shape[0] * value.shape[1] + generator.choices.below(3)
    where = _own(generator, value, slot)
    masks = generator.vectors(lambda each: each.dtype == "i1" and each.shape == value.shape and each.map == value.map)
    mask = generator.choices.pick(masks) if masks and generator.choices.chance(0.7) else None
    array = _flat(generator, value.dtype, (0, slot), value.low, value.high, written=True)

    def function(state: State, active: Array, at: Array, values: Array, chosen: Array | None = None) -> None:
        keep = np.broadcast_to(active[:, None, None], at.shape) & (True if chosen is None else chosen)
        state.arrays[array.name][at[keep]] = values[keep]

    generator.outputs += 1
    generator.features.add("scatter")
    generator.effect(f"xt.store_scatter({{1}}, xt.init_tile({array.name}, {{0}})" + (", {2})" if mask else ")"),
                     (where, value, mask) if mask else (where, value), function, array.name)


ATOMICS = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
           "xor": np.bitwise_xor}


def atomic(generator: Generator) -> None:
    """``atomic_rmw_tile`` on elements that all instances update: scattered, or a window."""
    value = generator.vector(lambda each: calculated(each) and (not is_float(each.dtype) or each.most is not None)
                             and each.shape[0] * each.shape[1] <= 512)
    if value is None or generator.outputs > 6:
        return
    choices, shape = generator.choices, value.shape
    if value.map is not None and any(count * data > size for count, data, size in zip(
            value.map.layout, value.map.data, shape, strict=True)):
        return
    kind = choices.pick(("add", "max", "min") if is_float(value.dtype) else tuple(ATOMICS))
    if kind == "add" and value.dtype not in ("u8", "u16", "u32", "u64"):
        value = tame(generator, value, 1 if value.dtype in ("i8", "bf16") else 7)
    scattered = choices.chance(0.5)
    function = ATOMICS[kind]
    generator.outputs += 1
    generator.features.add("atomic")
    if scattered:
        where = _positions(generator, shape, value.map)  # type: ignore[arg-type]
        array = _flat(generator, value.dtype, (shape[0] * shape[1], 0), 0, 1, written=True)
        masks = generator.vectors(lambda each: each.dtype == "i1" and each.shape == shape and each.map == value.map)
        mask = choices.pick(masks) if masks and choices.chance(0.7) else None
        text = f'xt.atomic_rmw_tile("{kind}", {{1}}, xt.init_tile({array.name}, {{0}})' + (", {2})" if mask else ")")

        def run(state: State, active: Array, at: Array, values: Array, chosen: Array | None = None) -> None:
            for instance in np.flatnonzero(active):
                keep = np.ones(shape, bool) if chosen is None else chosen[instance]
                old = state.arrays[array.name][at[instance][keep]]
                state.arrays[array.name][at[instance][keep]] = function(old, values[instance][keep])

        generator.effect(text, (where, value, mask) if mask else (where, value), run, array.name)
        return
    cut = choices.pick((0, 0, 1, 2))
    array = generator.array(value.dtype, (shape[0] - cut, 0), (shape[1] + choices.below(3), 0), 0, 1, written=True)

    def run_window(state: State, active: Array, values: Array) -> None:
        matrix = state.arrays[array.name]
        rows, columns = (min(a, b) for a, b in zip(matrix.shape, shape, strict=True))
        for instance in np.flatnonzero(active):
            matrix[:rows, :columns] = function(matrix[:rows, :columns], values[instance, :rows, :columns])

    generator.effect(f'xt.atomic_rmw_tile("{kind}", {{0}}, xt.init_tile({array.name}, (0, 0), {shape}'
                     f"{', order=(0, 1)' if array.promised else ''}{keyword(value.map)}))", (value,), run_window,
                     array.name)


def shared(generator: Generator) -> Value | None:
    """A vector through shared local memory: stored, and loaded by another subgroup, as another part, or transposed."""
    value = generator.vector(lambda each: each.dtype not in ("e4m3", "e5m2", "i1", "tf32", "index"))
    if value is None or not generator.uniform or generator.depth:
        return None
    choices, shape = generator.choices, value.shape
    subgroups = generator.subgroups[0] * generator.subgroups[1]
    rows, columns = shape  # type: ignore[misc]
    if rows * columns * subgroups * HOLDS[value.dtype].itemsize > 8192:
        return None
    memory, place = generator.name("m"), generator.name("p")
    by = choices.below(subgroups)
    own = f"(xt.subgroup_id() * {rows}, 0)" if subgroups > 1 else "(0, 0)"
    other = f"((xt.subgroup_id() + {by}) % {subgroups} * {rows}, 0)" if subgroups > 1 else "(0, 0)"

    def write(state: State, active: Array, values: Array) -> None:
        held = np.zeros((state.groups, subgroups, rows, columns), values.dtype)
        held[state.group, state.subgroup] = values
        state.shared[memory] = held

    map_ = value.map if not value.map or choices.chance(0.5) else generator.map((rows, columns))
    generator.effect(f"{memory} = xt.alloc_slm(({rows * subgroups}, {columns}), xt.{value.dtype})\n"
                     f"{place} = xt.init_tile({memory}, {own}, ({rows}, {columns}){keyword(value.map)})\n"
                     f"xt.store_tile({{0}}, {place})\nxt.barrier()", (value,), write)
    barrier = generator.body[-1]

    def read(state: State) -> Array:
        return state.shared[memory][state.group, (state.subgroup + by) % subgroups]

    generator.features.add("shared memory")
    barrier.arrays = (memory,)  # type: ignore[attr-defined]
    return generator.let(f"xt.load_tile(xt.init_tile({memory}, {other}, ({rows}, {columns}){keyword(map_)}))", (),
                         read, value.dtype, (rows, columns), map_, low=value.low, high=value.high,
                         zero_sign=value.zero_sign)


def single(generator: Generator) -> Value | None:
    """``load_scalar`` of an element."""
    choices = generator.choices
    dtype = choices.pick(("i32", "i64", "f32", "i32"))
    array = _flat(generator, dtype, (8 + choices.below(4), 0), *((0, 6) if choices.chance(0.6) else (-9, 9)))
    known = generator.scalars(lambda each: each.dtype == "index" and each.low is not None and each.low >= 0)
    at = choices.pick(known) if known and choices.chance(0.7) else constant(generator, choices.below(8))
    text = f"xt.load_scalar({array.name}, " + ("{0} % 8)" if (at.high or 0) > 7 else "{0})")
    value = generator.let(text, (at,), lambda state, i: state.arrays[array.name][i % 8], dtype, (), low=array.low,
                          high=array.high, uniform=at.uniform)
    generator.features.add("load_scalar")
    if dtype != "f32" and choices.chance(0.6):
        return generator.let("{0}.to(xt.index)", (value,), lambda state, x: convert(x, dtype, "index"), "index", (),
                             low=array.low, high=array.high, uniform=at.uniform)
    return value
