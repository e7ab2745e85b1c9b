"""Cases of matrix products: all operand and accumulator types that some target multiplies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import xetile as xt
from tests.operations.case import Array, Case, Operands, operands
from xegpu.dialect.convert_layout import WIDENED, WORDS
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.target.targets import TARGETS, Target

A, B = ((0, 0), (13, 32)), ((3, 7), (32, 16))
"""Windows of the operands in an array of small integers: M = 13, N = 16, K = 32."""

ROW = 39 - 2 * np.arange(16)
"""Rows of a gathered operand."""


def _part(array: Array, window: tuple[tuple[int, int], tuple[int, int]]) -> Array:
    (row, column), (rows, columns) = window
    return array[row:row + rows, column:column + columns]


def cases(dtype: DType) -> Iterator[Case]:
    """Products whose A has the element type; B and the accumulator are converted to theirs."""
    _, _, c = operands(dtype)
    wide = c.astype(np.float64)
    forms = dict.fromkeys((shape.b, acc) for target in TARGETS.values() for shape in target.mma_shapes
                          if shape.a is dtype for acc in shape.accumulators)
    for b, acc in forms:
        right = _part(wide, B) % 256 if b.kind == "u" else _part(wide, B)
        expected = _part(wide, A) @ right
        runs = partial(_multiplies, dtype, b, acc)
        yield Case(f"by {b} in {acc}", partial(_multiply, b, acc, 0), expected, acc, runs=runs)
        yield Case(f"by {b} onto {acc}", partial(_multiply, b, acc, 1), expected + 1, acc, runs=runs)
        if b is dtype:
            expected = wide[:16, :40] @ wide[:40, 32:48]
            yield Case(f"in steps, in {acc}", partial(_multiply_in_steps, acc), expected, acc, runs=runs)
    if dtype in (dtypes.f16, dtypes.bf16, dtypes.tf32, dtypes.i8, dtypes.u8):
        product = (_part(wide, A) @ _part(wide, B)).astype(np.int64)
        acc = dtypes.i32 if dtype.bits == 8 else dtypes.f32
        again = product.astype(dtype.numpy).astype(np.float64) @ wide[20:36, 4:20]
        yield Case("product of a product", partial(_multiply_again, acc), again, acc,
                   runs=partial(_multiplies, dtype, dtype, acc))
    if dtype in (dtypes.f16, dtypes.bf16):
        yield Case("of gathered rows", _multiply_rows, wide[ROW][:, 8:40] @ _part(wide, B), dtypes.f32)
    if dtype in WIDENED:
        yield Case("widened", _multiply_widened, _part(wide, A) @ _part(wide, B), dtypes.f32)
    if dtype.kind == "s":
        scale = 2.0 ** (np.arange(16) % 5 - 2)
        expected = _part(wide, A)[:8] * scale[:8, None] @ (_part(wide, B) * scale)
        yield Case("scaled", _multiply_scaled, expected, dtypes.f32,
                   runs=lambda where, target: where == "numpy" or target.block_scales)
    if dtype in WORDS:
        words = operands(dtype)[0][:16, :16].astype(np.int64)
        weights = [((words >> 4 * i & 15) - 1) * 0.5 for i in range(dtype.bits // 4)]
        expected = np.asarray(sum(wide[:16, i:i + 16] @ part for i, part in enumerate(weights)))
        for element in (dtypes.f16, dtypes.bf16):
            yield Case(f"dequantized to {element}", partial(_multiply_dequantized, element), expected, dtypes.f32)


def _multiplies(a: DType, b: DType, acc: DType, where: str, target: Target) -> bool:
    return where == "numpy" or any((shape.a, shape.b) == (a, b) and acc in shape.accumulators
                                   for shape in target.mma_shapes)


def _load(array: Any, window: tuple[tuple[int, int], tuple[int, int]]) -> Any:
    return xt.load_tile(xt.init_tile(array, *window))


def _multiply(b: DType, acc: DType, start: int, x: Operands) -> Any:
    left, right = _load(x.C, A), _load(x.C, B)
    if right.dtype is not b:
        right = right.to(b)
    return xt.tile_mma(left, right, xt.full((13, 16), start, acc))


def _multiply_in_steps(acc: DType, x: Operands) -> Any:
    """The second step has 8 rows of B: the others are padding, as are all of the third one."""
    total = xt.zeros((16, 16), acc)
    left, right = xt.init_tile(x.C, (0, 0), (16, 32)), xt.init_tile(x.C, (0, 32), (32, 16))
    ahead = xt.init_tile(x.C, (0, 32), (16, 32))
    for _ in xt.range(0, 96, 32, unroll=2, barrier=1):
        xt.prefetch_tile(ahead)
        total = xt.tile_mma(xt.load_tile(left), xt.load_tile(right), total)
        left, right = xt.update_tile_offset(left, 0, 32), xt.update_tile_offset(right, 32, 0)
        ahead = xt.update_tile_offset(ahead, 0, 32)
    return total


def _multiply_again(acc: DType, x: Operands) -> Any:
    """The product's 16 columns, and as many of zeros, are the second one's K."""
    product = xt.tile_mma(_load(x.C, A), _load(x.C, B), xt.zeros((13, 16), acc)).to(x.C.dtype)
    left = xt.concatenate((product, xt.zeros((13, 16), x.C.dtype)), 1)
    return xt.tile_mma(left, _load(x.C, ((20, 4), (32, 16))), xt.zeros((13, 16), acc))


def _multiply_rows(x: Operands) -> Any:
    rows = 39 - 2 * xt.iota((16, 1), 0)
    left = xt.load_tile(xt.init_tile(x.C, (rows, 8), (16, 32)))
    return xt.tile_mma(left, _load(x.C, B), xt.zeros((16, 16), xt.f32))


def _multiply_widened(x: Operands) -> Any:
    return xt.tile_mma(_load(x.C, A).to(xt.bf16), _load(x.C, B).to(xt.bf16), xt.zeros((13, 16), xt.f32))


def _multiply_scaled(x: Operands) -> Any:
    scales = [(xt.iota(shape, axis) % 5 + 125).to(xt.u8) for axis, shape in enumerate(((8, 1), (1, 16)))]
    return xt.tile_mma_scaled(_load(x.C, ((0, 0), (8, 32))), _load(x.C, B), xt.zeros((8, 16), xt.f32), *scales)


def _multiply_dequantized(element: DType, x: Operands) -> Any:
    total, one = xt.zeros((16, 16), xt.f32), xt.full((1, 16), 1, element)
    words = _load(x.A, ((0, 0), (16, 16)))
    for i in range(x.A.dtype.bits // 4):
        weights = (((words >> 4 * i) & 15).to(element) - one) * (one * 0.5)
        total = xt.tile_mma(_load(x.C, ((0, i), (16, 16))).to(element), weights, total)
    return total
