"""Statements that move elements of vectors, reduce, repeat or create them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.generator import Generator
from tests.fuzz.numerics import EXACT, HOLDS, SIGNED, UNSIGNED, is_float, limits, reduced
from tests.fuzz.program import Map, Shape, Value
from tests.fuzz.statements.elementwise import calculated, tame


def keyword(map_: Map | None) -> str:
    """The map as an argument."""
    return f", wg_map={map_}" if map_ else ""


def _like(value: Value) -> dict[str, Any]:
    return {"low": value.low, "high": value.high, "zero_sign": value.zero_sign}


def transpose(generator: Generator) -> Value | None:
    """``tile_transpose``."""
    value = generator.vector(lambda each: each.dtype not in ("e4m3", "e5m2"))
    if value is None:
        return None
    shape: Shape = value.shape[::-1]  # type: ignore[assignment]
    map_ = Map(value.map.layout[::-1], value.map.data[::-1]) if value.map else None
    generator.features.add("transpose")
    return generator.let("xt.tile_transpose({0})", (value,), lambda state, v: np.swapaxes(v, 1, 2), value.dtype, shape,
                         map_, **_like(value))


def reduction(generator: Generator) -> Value | None:
    """``tile_reduce``."""
    value = generator.vector(lambda each: calculated(each))
    if value is None:
        return None
    choices, dtype = generator.choices, value.dtype
    kinds = ["add", "max", "min"]
    kinds += ["maxnumf", "minnumf", "maximumf", "minimumf"] if is_float(dtype) else ["and", "or", "xor"]
    kinds += ["maxsi", "minsi"] if dtype in SIGNED else []
    kinds += ["maxui", "minui"] if dtype in UNSIGNED else []
    kind, axes = choices.pick(kinds), choices.pick(((1,), (0,), (0, 1)))
    rows, columns = value.shape
    count = (rows if 0 in axes else 1) * (columns if 1 in axes else 1)
    if kind == "add" and dtype not in UNSIGNED:
        limit = (EXACT["f32"] if dtype in ("f16", "bf16") else EXACT.get(dtype) or limits(dtype)[1]) // count
        if limit < 1:
            return None
        if is_float(dtype):
            limit = min(limit, 2**7)
        value = tame(generator, value, limit)
    low, high = value.low, value.high
    if kind == "add" and low is not None and high is not None:
        low, high = low * count, high * count
        if not is_float(dtype) and (low < limits(dtype)[0] or high > limits(dtype)[1]):
            low, high = limits(dtype)
    elif kind in ("and", "or", "xor") and low is not None and high is not None:
        reach = 1 << max(high, -low - 1).bit_length()
        low, high = (0 if low >= 0 else -reach), reach - 1
    shape: Shape = tuple(1 if axis in axes else size for axis, size in enumerate(value.shape))  # type: ignore[assignment]
    map_ = value.map and Map(value.map.layout, tuple(
        1 if axis in axes else size for axis, size in enumerate(value.map.data)))  # type: ignore[arg-type]
    text = axes[0] if len(axes) == 1 else axes
    generator.features.add("reduction")
    return generator.let(f'xt.tile_reduce("{kind}", {{0}}, {text})', (value,),
                         lambda state, v: reduced(kind, v, axes, dtype), dtype, shape, map_, low=low, high=high,
                         zero_sign=False)


def broadcast(generator: Generator) -> Value | None:
    """``tile_broadcast``."""
    value = generator.vector(lambda each: 1 in each.shape and each.dtype not in ("e4m3", "e5m2"))
    if value is None:
        return None
    choices = generator.choices
    shape: Shape = tuple(choices.pick((8, 16, 3, 5, 32)) if size == 1 else size
                         for size in value.shape)  # type: ignore[assignment]
    if shape[0] * shape[1] > 2048:
        return None
    map_ = None
    if value.map:
        data = tuple(choices.pick([each for each in (1, 2, 3, 4, 5, 8, 16, 32) if to % each == 0 and (
            to % (each * count) == 0 or each * count % to == 0)]) if size == 1 else kept for size, kept, to, count in
            zip(value.shape, value.map.data, shape, value.map.layout, strict=True))
        map_ = Map(value.map.layout, data)  # type: ignore[arg-type]
        if any(size == 1 and kept != 1 for size, kept in zip(value.shape, value.map.data, strict=True)):
            return None
    generator.features.add("broadcast")
    return generator.let(f"xt.tile_broadcast({{0}}, {shape}{keyword(map_)})", (value,),
                         lambda state, v: np.broadcast_to(v, (state.count, *shape)), value.dtype, shape, map_,
                         **_like(value))


def blocks(generator: Generator) -> Value | None:
    """``tile_pack`` and ``tile_unpack``, with nothing between."""
    value = generator.vector(lambda each: True)
    if value is None or value.map or value.dtype in ("e4m3", "e5m2"):
        return None
    inner = tuple(generator.choices.pick([each for each in (8, 4, 2, 1, 16, 3) if size % each == 0])
                  for size in value.shape)
    return generator.let(f"xt.tile_unpack(xt.tile_pack({{0}}, {inner}))", (value,), lambda state, v: v, value.dtype,
                         value.shape, None, **_like(value))


def convert_layout(generator: Generator) -> Value | None:
    """``tile_conv_layout``."""
    value = generator.vector(lambda each: each.map is not None
                             and each.dtype not in ("e4m3", "e5m2"))
    if value is None:
        return None
    map_ = generator.map(value.shape)  # type: ignore[arg-type]
    generator.features.add("convert layout")
    return generator.let(f"xt.tile_conv_layout({{0}}, {map_})", (value,), lambda state, v: v, value.dtype, value.shape,
                         map_, **_like(value))


def iota(generator: Generator) -> Value | None:
    """``iota``."""
    shape, axis = generator.shape(), generator.choices.below(2)
    map_, dtype = generator.map(shape), generator.dtype()
    if shape[axis] - 1 > (EXACT[dtype] if is_float(dtype) else limits(dtype)[1]):
        return None
    positions = np.arange(shape[axis]).reshape((-1, 1) if axis == 0 else (1, -1))
    generator.features.add("iota")
    return generator.let(f"xt.iota({shape}, {axis}, xt.{dtype}{keyword(map_)})", (), lambda state: np.broadcast_to(
        positions, (state.count, *shape)).astype(HOLDS[dtype]), dtype, shape, map_, low=0, high=shape[axis] - 1)


def filled(generator: Generator) -> Value | None:
    """``full`` and ``zeros``."""
    shape, dtype, choices = generator.shape(), generator.dtype(), generator.choices
    map_ = generator.map(shape)
    number = choices.pick((0, 1, 3, 100))
    text = f"xt.full({shape}, {number}, xt.{dtype}{keyword(map_)})" if number else \
        f"xt.zeros({shape}, xt.{dtype}{keyword(map_)})"
    return generator.let(text, (), lambda state: np.full((state.count, *shape), number).astype(HOLDS[dtype]), dtype,
                         shape, map_, low=number, high=number)
