"""Export of loads that transpose words of several elements, which LLVM's dialect has not."""

from __future__ import annotations

import numpy as np

import xetile as xt
from tests.xegpu.interop.llvm.test_exporter import mlir_opt

LOAD = """
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %b = xegpu.create_nd_tdesc %B, [%c8, %c8] : memref<40x48xf16> -> !xegpu.tensor_desc<16x16xf16>
  %words = xegpu.load_nd %b {transpose = [1, 0], transpose_bit_width = 32} : !xegpu.tensor_desc<16x16xf16>
    -> vector<8x32xf16>
"""
PRODUCT = f"""
func.func @k(%A: memref<8x32xf16>, %B: memref<40x48xf16>, %C: memref<8x16xf32>) {{{LOAD}
  %vnni = vector.shape_cast %words : vector<8x32xf16> to vector<8x16x2xf16>
  %a = xegpu.create_nd_tdesc %A, [%c0, %c0] : memref<8x32xf16> -> !xegpu.tensor_desc<8x16xf16>
  %x = xegpu.load_nd %a : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
  %d = xegpu.dpas %x, %vnni : vector<8x16xf16>, vector<8x16x2xf16> -> vector<8x16xf32>
  %c = xegpu.create_nd_tdesc %C, [%c0, %c0] : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  xegpu.store_nd %d, %c : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  return
}}
"""
COPY = f"""
func.func @k(%B: memref<40x48xf16>, %C: memref<8x32xf16>) {{{LOAD}
  %c = xegpu.create_nd_tdesc %C, [%c0, %c0] : memref<8x32xf16> -> !xegpu.tensor_desc<8x32xf16>
  xegpu.store_nd %words, %c : vector<8x32xf16>, !xegpu.tensor_desc<8x32xf16>
  return
}}
"""


def test_an_operand_in_vnni_form_is_a_transpose() -> None:
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((8, 32), (40, 48)))
    c = np.zeros((8, 16), np.float32)
    text = xt.parse(PRODUCT)["k"].lower(a, b, c, target="pvc").xegpu_upstream
    for kernel in (xt.parse(PRODUCT)["k"], xt.parse(text)["k"]):
        c[:] = 7
        kernel.on("numpy:xegpu")[1](a, b, c)
        np.testing.assert_array_equal(c, a[:, :16].astype(np.float32) @ b[8:24, 8:24].astype(np.float32).T)
    mlir_opt(text)


def test_other_words_are_transposed_as_integers() -> None:
    b, c = np.arange(1920, dtype=np.float16).reshape(40, 48), np.zeros((8, 32), np.float16)
    kernel = xt.parse(COPY)["k"]
    kernel.on("numpy:xegpu")[1](b, c)
    np.testing.assert_array_equal(c.view(np.uint32), b[8:24, 8:24].copy().view(np.uint32).T)
    text = kernel.lower(b, c, target="pvc").xegpu_upstream
    assert [line.split(" : ")[-1] for line in text.splitlines() if "bitcast" in line or "transpose" in line] == [
        "vector<16x16xf16> to vector<16x8xi32>", "vector<16x8xi32> to vector<8x16xi32>",
        "vector<8x16xi32> to vector<8x32xf16>"]
    mlir_opt(text)
