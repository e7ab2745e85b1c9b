"""Tiles of columns that are contiguous in memory and computed with: messages transpose words of their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Array, Execution
from xegpu.ir import dtypes

pytestmark = pytest.mark.unoptimised

MACHINES = [Execution(f"machine:{gpu}", gpu) for gpu in ("pvc", "bmg")]
SHAPES = {"aligned": (160, 33), "rows alone": (161, 33), "narrow": (12, 40)}
"""Rows of memory with 2D block IO, and two without it."""


@xt.kernel
def negated(X: Any, Y: Any, *, rows: int = 64, columns: int = 32) -> None:
    """Minus the transpose of X, from row and column -4 on."""
    at, by = xt.group_id(0) * rows - 4, xt.group_id(1) * columns - 4
    v = xt.tile_transpose(xt.load_tile(xt.init_tile(X, (by, at), (columns, rows))))
    xt.store_tile(-v, xt.init_tile(Y, (at, by), (rows, columns)))


def numbers(name: str, shape: tuple[int, int]) -> Array:
    """Integers of all bits; floats of both signs, which differ in all bytes."""
    dtype, rng = dtypes.of(name), np.random.default_rng(3)
    values: Array = rng.integers(0, 1 << dtype.bits, shape, np.uint64).astype(f"u{dtype.bits // 8}")
    return rng.standard_normal(shape).astype(dtype.numpy) if dtype.is_float else values.view(dtype.numpy)


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["u8", "i8", "u16", "i16", "f16", "bf16", "u32", "i32", "f32"])
def test_each_element(name: str, shape: str, execution: Execution) -> None:
    x = numbers(name, SHAPES[shape][::-1])
    y = np.ones(x.T.shape, x.dtype)
    execution.bind(negated)[-(-y.shape[0] // 64) + 1, -(-y.shape[1] // 32) + 1](x, y)
    np.testing.assert_array_equal(y, -x.T)


@pytest.mark.parametrize("name", ["u8", "bf16", "f32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_messages_transpose_them(name: str, shape: str) -> None:
    lowered = negated.lower(numbers(name, SHAPES[shape][::-1]), numbers(name, SHAPES[shape]),
                            target="pvc")
    assert ("2d_block_read_transpose_32b_16r8x1c" in lowered.opencl) == (shape == "aligned")
