"""Wrong operands of products in text: messages say which operand it is, and what would work."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt

LLVM = """gpu.module @m {{ gpu.func @f(%A: memref<8x16xf16>, %B: memref<16x16xf16>) kernel {{
  %a = xegpu.create_nd_tdesc %A : memref<8x16xf16> -> !xegpu.tensor_desc<8x16xf16>
  %b = xegpu.create_nd_tdesc %B : memref<16x16xf16> -> !xegpu.tensor_desc<16x16xf16>
  %v = xegpu.load_nd %a[0, 0] : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
  %w = xegpu.load_nd %b[0, 0] : !xegpu.tensor_desc<16x16xf16> -> vector<16x16xf16>
  %z = arith.constant dense<0.0> : vector<8x16xf32>
  %r = xegpu.dpas {line}
  gpu.return }} }}"""
XETILE = """func.func @f(%A: memref<8x16xf16>, %B: memref<16x16xf16>) {{
  %c0 = arith.constant 0 : index
  %x = arith.constant 0.0 : f16
  %a = xetile.init_tile %A[%c0, %c0] : memref<8x16xf16> -> !xetile.tile<8x16xf16>
  %b = xetile.init_tile %B[%c0, %c0] : memref<16x16xf16> -> !xetile.tile<16x16xf16>
  %v = xetile.load_tile %a : !xetile.tile<8x16xf16> -> vector<8x16xf16>
  %r = xetile.tile_mma {line}
  func.return }}"""
HALVES, SUMS = "vector<8x16xf16>, vector<16x16xf16>", "vector<8x16xf32>"


@pytest.mark.parametrize(("text", "line", "code", "says"), [
    (LLVM, f"%w, %v : vector<16x16xf16>, vector<8x16xf16> -> {SUMS}", "XT3202", "A and B are exchanged"),
    (LLVM, f"%z, %v, %w : {SUMS}, {HALVES} -> {SUMS}", "XT3201", "write it behind A and B"),
    (LLVM, f"%v, %w, %z : {HALVES} -> {SUMS}", "XT2035", "the type of each operand"),
    (LLVM, f"%a, %w : !xegpu.tensor_desc<8x16xf16>, vector<16x16xf16> -> {SUMS}", "XT2002", "xegpu.load_nd"),
    (LLVM, f"%A, %w : memref<8x16xf16>, vector<16x16xf16> -> {SUMS}", "XT2002", "describe a block of the array"),
    (XETILE, f"%v, %b : vector<8x16xf16>, !xetile.tile<16x16xf16> -> {SUMS}", "XT2001", "xetile.load_tile"),
    (XETILE, f"%v, %x : vector<8x16xf16>, f16 -> {SUMS}", "XT2001", "b is f16, and no vector"),
])
def test_operands_of_products(text: str, line: str, code: str, says: str) -> None:
    text = text.format(line=line)
    with pytest.raises(xt.XeError) as caught:
        xt.parse(text)
    assert caught.value.code == code
    assert says in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line == text[:text.index("%r =")].count("\n") + 1


def test_vectors_are_no_arguments() -> None:
    text = LLVM.replace("%B: memref<16x16xf16>", "%B: memref<16x16xf16>, %p: vector<16x16xf16>").format(
        line=f"%v, %p : {HALVES} -> {SUMS}")
    a, b = np.zeros((8, 16), np.float16), np.zeros((16, 16), np.float16)
    with pytest.raises(xt.XeError, match=r"(?s)XT2083.*memref<16x16xf16>") as caught:
        xt.parse(text)["f"].on("numpy")[1](a, b, b)
    assert caught.value.code == "XT2083"
