"""Transposed loads of blocks whose transpose lies over rows and columns of lanes: transposed in registers."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution

SHAPES = [(8, 16), (16, 8), (8, 8), (4, 16), (2, 16), (1, 16), (16, 1), (8, 32), (16, 16), (32, 16)]
"""Blocks in memory. With 16 lanes the transposes of the first lie over 2x8, of the fourth over 4x4 of them."""


def _blocks() -> str:
    """A kernel that writes the transpose of each block to rows of its own."""
    lines = []
    for n, (rows, columns) in enumerate(SHAPES):
        block, result = (f"!xegpu.tensor_desc<{shape}xi32>" for shape in (f"{rows}x{columns}", f"{columns}x{rows}"))
        lines.append(f"""
  %r{n} = arith.constant {40 * n} : index
  %a{n} = xegpu.create_nd_tdesc %A, [%c8, %c16] : memref<64x80xi32> -> {block}
  %b{n} = xegpu.create_nd_tdesc %B, [%r{n}, %c8] : memref<400x64xi32> -> {result}
  %v{n} = xegpu.load_nd %a{n} {{transpose = [1, 0]}} : {block} -> vector<{columns}x{rows}xi32>
  xegpu.store_nd %v{n}, %b{n} : vector<{columns}x{rows}xi32>, {result}""")
    return ("func.func @blocks(%A: memref<64x80xi32>, %B: memref<400x64xi32>) {\n"
            "  %c8 = arith.constant 8 : index\n  %c16 = arith.constant 16 : index" + "".join(lines) +
            "\n  func.return\n}")


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_transposed_blocks(execution: Execution) -> None:
    a = np.random.default_rng(5).integers(-2 ** 31, 2 ** 31, (64, 80)).astype(np.int32)
    b = np.full((400, 64), 7, np.int32)
    expected = b.copy()
    for n, (rows, columns) in enumerate(SHAPES):
        expected[40 * n:40 * n + columns, 8:8 + rows] = a[8:8 + rows, 16:16 + columns].T
    execution.bind(xt.parse(_blocks())["blocks"])[1](a, b)
    np.testing.assert_array_equal(b, expected)


OPERAND_A = """
func.func @product(%A: memref<64x64xtf32>, %B: memref<64x64xtf32>, %C: memref<64x64xf32>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %d = xegpu.create_nd_tdesc %A, [%c8, %c16] : memref<64x64xtf32> -> !xegpu.tensor_desc<8x8xtf32>
  %e = xegpu.create_nd_tdesc %B, [%c0, %c8] : memref<64x64xtf32> -> !xegpu.tensor_desc<8x16xtf32>
  %c = xegpu.create_nd_tdesc %C, [%c0, %c0] : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
  %a = xegpu.load_nd %d {transpose = [1, 0]} : !xegpu.tensor_desc<8x8xtf32> -> vector<8x8xtf32>
  %b = xegpu.load_nd %e : !xegpu.tensor_desc<8x16xtf32> -> vector<8x16xtf32>
  %r = xegpu.dpas %a, %b : vector<8x8xtf32>, vector<8x16xtf32> -> vector<8x16xf32>
  xegpu.store_nd %r, %c : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}
"""


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
def test_transposed_operand_a_of_tf32(where: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 9, (64, 64)).astype(np.float32) for _ in "ab")
    c = np.full((64, 64), 7, np.float32)
    expected = c.copy()
    expected[:8, :16] = a[8:16, 16:24].T @ b[:8, 8:24]
    kernel = Execution(where, "pvc").bind(xt.parse(OPERAND_A)["product"])
    kernel[1](xt.view(a, xt.tf32), xt.view(b, xt.tf32), c)
    np.testing.assert_array_equal(c, expected)
