"""Statements along one axis of a subgroup's own vectors: scans, sorts, positions of extremes, shifts and parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.generator import Generator
from tests.fuzz.numerics import EXACT, HOLDS, UNSIGNED, Array, is_float, limits, widened
from tests.fuzz.program import Map, Shape, Value
from tests.fuzz.statements.elementwise import calculated, tame

_LONGEST = 40
"""Elements along the axis of a sort, whose network grows faster than they do."""


def _own(value: Value) -> bool:
    return calculated(value) and value.map is None


def cumulative(generator: Generator) -> Value | None:
    """``cumsum``, ``cummax`` and ``cummin``."""
    value = generator.vector(_own)
    if value is None or generator.mapped:
        return None
    choices, dtype = generator.choices, value.dtype
    name, axis = choices.pick(("cumsum", "cummax", "cummin")), choices.below(2)
    reverse, exclusive = choices.chance(0.4), name == "cumsum" and choices.chance(0.3)
    low, high = value.low, value.high
    if name == "cumsum":
        most = EXACT["f32"] if dtype in ("f16", "bf16") else EXACT.get(dtype) or limits(dtype)[1]
        most = min(most // value.shape[axis], 2**7) if is_float(dtype) else most // value.shape[axis]
        if most < 1:
            return None
        value = tame(generator, value, most)
        reach = (value.most or most) * value.shape[axis]
        low, high = (0 if dtype in UNSIGNED or ((value.low or 0) >= 0 and value.low is not None) else -reach), reach

    def function(state: Any, v: Array) -> Array:
        v = np.flip(v, axis + 1) if reverse else v
        if name == "cumsum":
            wide = np.cumsum(v, axis + 1, dtype=np.float64 if is_float(dtype) else v.dtype)
            if exclusive:
                wide = np.roll(wide, 1, axis + 1)
                wide[(slice(None),) * (axis + 1) + (0,)] = 0
            result = wide.astype(np.float32).astype(v.dtype) if dtype in ("f16", "bf16") else wide.astype(v.dtype)
        else:
            extreme = np.maximum if name == "cummax" else np.minimum
            result = extreme.accumulate(widened(v, dtype), axis + 1).astype(v.dtype)
        return np.flip(result, axis + 1) if reverse else result

    generator.features.add("scan")
    options = f"{', reverse=True' if reverse else ''}{', exclusive=True' if exclusive else ''}"
    return generator.let(f"xt.{name}({{0}}, {axis}{options})", (value,), function, dtype, value.shape, None, low=low,
                         high=high, zero_sign=False)


def scan(generator: Generator) -> Value | None:
    """``scan`` of two vectors by a function that is not commutative: compositions of affine maps, modulo 2^bits."""
    factor = generator.vector(lambda each: _own(each) and each.dtype in UNSIGNED)
    if factor is None or generator.mapped:
        return None
    choices, dtype, shape = generator.choices, factor.dtype, factor.shape
    added = choices.pick([each for each in generator.vectors(_own) if each.dtype == dtype and each.shape == shape])
    axis, reverse, which = choices.below(2), choices.chance(0.4), choices.below(2)

    def function(state: Any, a: Array, b: Array) -> Array:
        a, b = (np.array(np.moveaxis(np.flip(v, axis + 1) if reverse else v, axis + 1, 0)) for v in (a, b))
        for i in range(1, len(a)):
            a[i], b[i] = a[i - 1] * a[i], b[i - 1] * a[i] + b[i]
        result = np.moveaxis((a, b)[which], 0, axis + 1)
        return np.flip(result, axis + 1) if reverse else result

    generator.features.add("scan")
    combine = "lambda a, b, c, d: (a * c, b * c + d)"
    low, high = limits(dtype)
    return generator.let(f"xt.scan(({{0}}, {{1}}), {axis}, {combine}{', reverse=True' if reverse else ''})[{which}]",
                         (factor, added), function, dtype, shape, None, low=low, high=high)


def sort(generator: Generator) -> Value | None:
    """``sort`` and ``top_k``: values, or positions, of which those of signed zeros and NaN depend on their bits."""
    value = generator.vector(lambda each: _own(each) and min(each.shape) <= _LONGEST)
    if value is None or generator.mapped:
        return None
    choices, dtype, shape = generator.choices, value.dtype, value.shape
    axis = choices.pick([each for each in (0, 1) if shape[each] <= _LONGEST])
    positions = choices.chance(0.4) and (not is_float(dtype) or (value.zero_sign and value.most is not None))
    count = choices.between(1, shape[axis]) if choices.chance(0.3) else None
    descending = count is not None or choices.chance(0.4)

    def function(state: Any, v: Array) -> Array:
        v, first = widened(v, dtype), np.zeros(v.shape, np.bool_)
        if is_float(dtype) and positions:
            first = np.signbit(v)  # -0.0 counts as smaller than 0.0
        flipped = np.flip(v, axis + 1) if descending else v
        sign = ~first if not descending else ~np.flip(first, axis + 1)
        order = np.lexsort((sign, flipped), axis + 1)
        if descending:  # the last of equal ones in the flipped order is the first
            order = v.shape[axis + 1] - 1 - np.flip(order, axis + 1)
        result = order.astype(np.int32) if positions else np.take_along_axis(v, order, axis + 1).astype(HOLDS[dtype])
        return np.take(result, range(count), axis + 1) if count else result

    generator.features.add("sort")
    if count:
        text, shape = f"xt.top_k({{0}}, {count}, {axis})[{int(positions)}]", _with(value, axis, count)
    else:
        options = f"{', descending=True' if descending else ''}{', indices=True' if positions else ''}"
        text = f"xt.sort({{0}}, {axis}{options}){'[1]' if positions else ''}"
    if positions:
        return generator.let(text, (value,), function, "i32", shape, None, low=0, high=value.shape[axis] - 1)
    return generator.let(text, (value,), function, dtype, shape, None, low=value.low, high=value.high, zero_sign=False)


def _with(value: Value, axis: int, size: int) -> Shape:
    rows, columns = value.shape  # type: ignore[misc]
    return (size, columns) if axis == 0 else (rows, size)


def extreme_index(generator: Generator) -> Value | None:
    """``argmax`` and ``argmin``."""
    value = generator.vector(calculated)
    if value is None:
        return None
    choices, dtype = generator.choices, value.dtype
    name, axis = choices.pick(("argmax", "argmin")), choices.below(2)
    find = np.argmax if name == "argmax" else np.argmin
    data = value.map and tuple(1 if each == axis else size for each, size in enumerate(value.map.data))
    map_ = Map(value.map.layout, data) if value.map else None  # type: ignore[arg-type]
    generator.features.add("argmax")
    return generator.let(f"xt.{name}({{0}}, {axis})", (value,), lambda state, v: np.asarray(find(
        widened(v, dtype), axis + 1, keepdims=True)).astype(np.int32), "i32", _with(value, axis, 1), map_, low=0,
        high=value.shape[axis] - 1)


def shift(generator: Generator) -> Value | None:
    """``shift``."""
    value = generator.vector(_own)
    if value is None or generator.mapped:
        return None
    choices, axis = generator.choices, generator.choices.below(2)
    size = value.shape[axis]
    distance, fill = choices.between(-size, size), choices.pick((0, 1, 7))

    def function(state: Any, v: Array) -> Array:
        result, rows = np.full_like(v, fill), np.moveaxis(v, axis + 1, 0)
        target = np.moveaxis(result, axis + 1, 0)
        kept = size - abs(distance)
        if kept:
            target[max(distance, 0):max(distance, 0) + kept] = rows[max(-distance, 0):max(-distance, 0) + kept]
        return result

    known = value.low is not None and value.high is not None
    generator.features.add("shift")
    return generator.let(f"xt.shift({{0}}, {distance}, {axis}, fill={fill})", (value,), function, value.dtype,
                         value.shape, None, low=min(value.low or 0, fill) if known else None,
                         high=max(value.high or 0, fill) if known else None, zero_sign=value.zero_sign)


def part(generator: Generator) -> Value | None:
    """A slice, or two vectors behind each other or with alternating elements."""
    value = generator.vector(_own)
    if value is None or generator.mapped:
        return None
    choices = generator.choices
    if choices.chance(0.5):
        ends = [sorted((choices.between(0, size), choices.between(0, size))) for size in value.shape]
        (top, bottom), (left, right) = [(a, b) if a < b else (0, size) for (a, b), size in
                                        zip(ends, value.shape, strict=True)]
        return generator.let(f"{{0}}[{top}:{bottom}, {left}:{right}]", (value,),
                             lambda state, v: v[:, top:bottom, left:right], value.dtype, (bottom - top, right - left),
                             None, low=value.low, high=value.high, zero_sign=value.zero_sign)
    axis = choices.below(2)
    fitting = [each for each in generator.vectors(_own) if each.dtype == value.dtype
               and each.shape[1 - axis] == value.shape[1 - axis]]
    other = choices.pick(fitting)
    shape = _with(value, axis, value.shape[axis] + other.shape[axis])
    if shape[0] * shape[1] > 1024:
        return None
    known = value.low is not None and other.low is not None
    function = "interleave" if other.shape == value.shape and choices.chance(0.5) else "concatenate"
    generator.features.add(function)
    return generator.let(f"xt.{function}([{{0}}, {{1}}], {axis})", (value, other),
                         lambda state, a, b: np.concatenate([a, b], axis + 1) if function == "concatenate" else
                         np.stack([a, b], axis + 2).reshape(len(a), *shape), value.dtype, shape, None,
                         low=min(value.low or 0, other.low or 0) if known else None,
                         high=max(value.high or 0, other.high or 0) if known else None,
                         zero_sign=value.zero_sign and other.zero_sign)
