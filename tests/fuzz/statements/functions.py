"""Functions of the author's: helpers that are kernels themselves, reductions by a function, elements as numbers."""

from __future__ import annotations

import numpy as np

from tests.fuzz.generator import Generator
from tests.fuzz.numerics import HOLDS, UNSIGNED, Array, limits
from tests.fuzz.program import Map, Shape, State, Value
from tests.fuzz.statements.elementwise import calculated, tame
from tests.fuzz.statements.layout import keyword
from tests.fuzz.statements.memory import read_window


def helper(generator: Generator) -> Value | None:
    """A call of an ``@xt.kernel`` that loads a tile and gives two vectors, of which one is used."""
    value = generator.vector(lambda each: each.dtype in UNSIGNED)
    if value is None:
        return None
    choices, dtype = generator.choices, value.dtype
    shape: Shape = value.shape  # type: ignore[assignment]
    array = generator.array(dtype, (shape[0] - choices.below(2), 0), (shape[1], 0), *limits(dtype))
    name, which, factor = generator.name("helper"), choices.below(2), choices.pick((1, 3, 5))
    order = ", order=(0, 1)" if array.promised else ""
    generator.helpers.append(
        f"@xt.kernel\ndef {name}(x, table):\n"
        f"    loaded = xt.load_tile(xt.init_tile(table, (0, 0), {shape}{order}{keyword(value.map)}))\n"
        f"    with xt.when(xt.group_id(0) > 0):\n        loaded = loaded + x\n"
        f"    return loaded, x * {factor} - loaded\n\n\n")

    def function(state: State, x: Array) -> Array:
        at = np.zeros(state.count, np.int64)
        loaded = read_window(state, state.arrays[array.name], (at, at), shape, 0)
        loaded = np.where((state.group // state.grid[1] > 0)[:, None, None], loaded + x, loaded)
        return loaded if which == 0 else x * np.asarray(factor, x.dtype) - loaded

    generator.features.add("helper")
    low, high = limits(dtype)
    return generator.let(f"{name}({{0}}, {array.name})[{which}]", (value,), function, dtype, shape, value.map, low=low,
                         high=high)


def reduction(generator: Generator) -> Value | None:
    """``reduce`` of two vectors by a function: products of Gaussian integers, modulo 2^bits."""
    first = generator.vector(lambda each: each.dtype in UNSIGNED)
    if first is None:
        return None
    choices, dtype = generator.choices, first.dtype
    second = choices.pick([each for each in generator.vectors(calculated) if each.dtype == dtype
                           and each.shape == first.shape and each.map == first.map])
    axis, which = choices.below(2), choices.below(2)
    shape: Shape = tuple(1 if each == axis else size for each, size in enumerate(first.shape))  # type: ignore[assignment]
    data = first.map and tuple(1 if each == axis else size for each, size in enumerate(first.map.data))
    map_ = Map(first.map.layout, data) if first.map else None  # type: ignore[arg-type]

    def function(state: State, a: Array, b: Array) -> Array:
        a, b = (np.moveaxis(v, axis + 1, 0) for v in (a, b))
        real, imaginary = a[0], b[0]
        for i in range(1, len(a)):
            real, imaginary = real * a[i] - imaginary * b[i], real * b[i] + imaginary * a[i]
        return np.expand_dims((real, imaginary)[which], axis + 1)

    generator.features.add("reduce")
    low, high = limits(dtype)
    combine = "lambda a, b, c, d: (a * c - b * d, a * d + b * c)"
    return generator.let(f"xt.reduce(({{0}}, {{1}}), {axis}, {combine})[{which}]",
                         (first, second), function, dtype, shape, map_, low=low, high=high)


def item(generator: Generator) -> Value | None:
    """``.item()`` of a reduction to one element, as an index."""
    value = generator.vector(lambda each: each.dtype in ("i32", "u32", "i64"))
    if value is None:
        return None
    value = tame(generator, value, 7)
    if value.low is None or value.high is None:
        return None
    kind = generator.choices.pick(("max", "min"))
    text = f'xt.tile_reduce("{kind}", {{0}}, (0, 1))'

    def function(state: State, v: Array) -> Array:
        return (np.max if kind == "max" else np.min)(v, axis=(1, 2)).astype(HOLDS["index"])

    generator.features.add("item")
    return generator.let(f"{text}.item().to(xt.index)", (value,), function, "index", (), low=value.low, high=value.high)
