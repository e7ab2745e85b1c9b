"""Matrix products, whose sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.generator import Generator
from tests.fuzz.numerics import EXACT, HOLDS, Array
from tests.fuzz.program import Map, Shape, Value
from tests.fuzz.statements import memory
from tests.fuzz.statements.elementwise import tame
from tests.fuzz.statements.layout import keyword

PRODUCTS = (("bf16", "bf16", "f32"), ("f32", "f32", "f32"), ("f16", "f16", "f32"), ("i8", "i8", "i32"),
            ("u8", "i8", "i32"), ("tf32", "tf32", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "bf16"))


def _operand(generator: Generator, shape: Shape, dtype: str, most: int, map_: Map | None) -> Value:
    """A vector of small integers: one in scope, or one that is loaded, possibly transposed."""
    fitting = generator.vectors(lambda each: each.dtype == dtype and each.shape == shape and each.map == map_
                                and dtype != "tf32")
    if fitting and generator.choices.chance(0.5):
        return tame(generator, generator.choices.pick(fitting), most)
    if map_ is None and generator.choices.chance(0.25):
        value = memory.load(generator, shape[::-1], dtype, None, most=most)
        generator.features.add("transposed operand")
        return generator.let("xt.tile_transpose({0})", (value,), lambda state, v: np.swapaxes(v, 1, 2), dtype, shape,
                             low=value.low, high=value.high)
    return memory.load(generator, shape, dtype, map_, most=most)


def product(generator: Generator) -> Value | None:
    """``tile_mma``, with an accumulator or without."""
    choices = generator.choices
    a_type, b_type, acc_type = choices.pick(PRODUCTS)
    step = 32 if a_type in ("i8", "u8") else 16
    m, n, k = choices.pick((8, 1, 2, 3, 4, 6, 7, 16, 24)), choices.pick((16, 32, 48)), step * choices.between(1, 2)
    maps: list[Map | None] = [None, None, None]
    if generator.mapped:
        layout = choices.pick(generator.layouts)
        times = choices.pick((1, 2)), choices.pick((1, 1, 2))
        rows, columns = choices.pick((8, 16, 4)), 16
        m, n = rows * layout[0] * times[0], columns * layout[1] * times[1]
        if m * n > 2048:
            return None
        maps = [Map(layout, (rows, k)), Map(layout, (k, columns)), Map(layout, (rows, columns))]
    most = {"f16": 2, "bf16": 1}.get(acc_type, 4)
    if most * most * k > EXACT.get(acc_type, 2**30):
        k = step
        if generator.mapped:
            maps[0], maps[1] = Map(layout, (rows, k)), Map(layout, (k, columns))
    a = _operand(generator, (m, k), a_type, most, maps[0])
    b = _operand(generator, (k, n), b_type, most, maps[1])
    bound = most * most * k
    acc = None
    if choices.chance(0.6) or acc_type in ("f16", "bf16"):
        known = generator.vectors(lambda each: each.dtype == acc_type and each.shape == (m, n) and each.map == maps[2])
        most_acc = EXACT.get(acc_type, 2**24) // 2
        if known and choices.chance(0.7):
            acc = tame(generator, choices.pick(known), most_acc)
        else:
            acc = generator.let(f"xt.zeros({(m, n)}, xt.{acc_type}{keyword(maps[2])})", (),
                                lambda state: np.zeros((state.count, m, n), HOLDS[acc_type]), acc_type, (m, n),
                                maps[2], low=0, high=0)
        bound += acc.most or 0
    wide = np.int64 if acc_type == "i32" else np.float64

    def function(state: Any, x: Array, y: Array, z: Array | None = None) -> Array:
        total = x.astype(wide) @ y.astype(wide)
        return (total if z is None else total + z.astype(wide)).astype(HOLDS[acc_type])

    operands = (a, b) if acc is None else (a, b, acc)
    result_map = keyword(maps[2]) if acc is None else ""
    generator.features.add(f"product {a_type}")
    return generator.let(f"xt.tile_mma({{0}}, {{1}}{', {2}' if acc else ''}{result_map})", operands, function,
                         acc_type, (m, n), maps[2], low=-bound, high=bound, zero_sign=False)
