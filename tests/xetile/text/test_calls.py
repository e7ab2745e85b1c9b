"""Functions that kernels call: they are inlined, in texts of tiles, of transfers and in LLVM's form."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EAGER, FEW, Execution

pytestmark = pytest.mark.unoptimised

HELPERS = """
func.func private @row(%g: index) -> (index, index) {
  %c8 = arith.constant 8 : index
  %r = arith.muli %g, %c8 : index
  return %r, %g : index, index
}
func.func @power(%v: vector<8x16xf32>, %n: index) -> vector<8x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %p = scf.for %i = %c0 to %n step %c1 iter_args(%w = %v) -> (vector<8x16xf32>) {
    %x = call @times(%w, %v) : (vector<8x16xf32>, vector<8x16xf32>) -> vector<8x16xf32>
    scf.yield %x : vector<8x16xf32>
  }
  return %p : vector<8x16xf32>
}
func.func private @same(%v: vector<8x16xf32>, %c: i1) -> vector<8x16xf32> {
  cf.cond_br %c, ^plain(%v : vector<8x16xf32>), ^negated
^negated:
  %n = arith.negf %v : vector<8x16xf32>
  cf.br ^plain(%n : vector<8x16xf32>)
^plain(%w: vector<8x16xf32>):
  return %w : vector<8x16xf32>
}
func.func private @times(%a: vector<8x16xf32>, %b: vector<8x16xf32>) -> vector<8x16xf32> {
  %c = arith.mulf %a, %b : vector<8x16xf32>
  return %c : vector<8x16xf32>
}
"""
TILES = f"""
module {{
  {HELPERS}
  func.func @powers(%A: memref<24x16xf32>, %C: memref<24x16xf32>, %n: index, %plain: i1) {{
    %x = gpu.block_id x
    %r, %g = func.call @row(%x) : (index) -> (index, index)
    %ta = xetile.init_tile %A[%r, 0] : memref<24x16xf32> -> !xetile.tile<8x16xf32>
    %tc = xetile.init_tile %C[%r, 0] : memref<24x16xf32> -> !xetile.tile<8x16xf32>
    %v = xetile.load_tile %ta : !xetile.tile<8x16xf32> -> vector<8x16xf32>
    %m = arith.addi %n, %g : index
    %p = func.call @power(%v, %m) : (vector<8x16xf32>, index) -> vector<8x16xf32>
    %q = func.call @same(%p, %plain) : (vector<8x16xf32>, i1) -> vector<8x16xf32>
    func.call @stored(%tc, %q) : (!xetile.tile<8x16xf32>, vector<8x16xf32>) -> ()
    return
  }}
  func.func private @stored(%t: !xetile.tile<8x16xf32>, %v: vector<8x16xf32>) {{
    xetile.store_tile %v, %t : vector<8x16xf32>, !xetile.tile<8x16xf32>
    return
  }}
}}
"""
BLOCKS = f"""
gpu.module @m {{
  {HELPERS}
  gpu.func @powers(%A: memref<24x16xf32>, %C: memref<24x16xf32>, %n: index, %plain: i1) kernel {{
    %x = gpu.block_id x
    %r, %g = func.call @row(%x) : (index) -> (index, index)
    %ta = xegpu.create_nd_tdesc %A : memref<24x16xf32> -> !xegpu.tensor_desc<8x16xf32>
    %tc = xegpu.create_nd_tdesc %C : memref<24x16xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %ta[%r, 0] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %m = arith.addi %n, %g : index
    %p = func.call @power(%v, %m) : (vector<8x16xf32>, index) -> vector<8x16xf32>
    %q = func.call @same(%p, %plain) : (vector<8x16xf32>, i1) -> vector<8x16xf32>
    xegpu.store_nd %q, %tc[%r, 0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize("text", [TILES, BLOCKS], ids=["tiles", "llvm"])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("execution", [each for each in FEW if each != EAGER], ids=str)
def test_calls(execution: Execution, plain: bool, text: str) -> None:
    rng = np.random.default_rng(5)
    a, c = (rng.integers(-3, 4, (24, 16)).astype(np.float32) for _ in range(2))
    kernels = xt.parse(text)
    assert list(kernels) == ["powers"]
    execution.bind(kernels["powers"])[3](a, c, 1, plain)
    exponents = 2 + np.repeat(np.arange(3), 8)[:, None]
    np.testing.assert_array_equal(c, a**exponents if plain else -(a**exponents))


def test_what_is_printed_has_no_calls() -> None:
    printed = str(xt.parse(TILES))
    assert "call" not in printed
    assert str(xt.parse(printed)) == printed


TWICE = "func.func private @f{}(%v: index) -> index {{\n" + 2 * "  %{} = call @f{}(%{}) : (index) -> index\n" + \
        "  return %b : index\n}}\n"
GROWTH = "func.func private @f0(%v: index) -> index {\n  %b = arith.addi %v, %v : index\n  return %b : index\n}\n" + \
    "".join(TWICE.format(level, "a", level - 1, "v", "b", level - 1, "a") for level in range(1, 20))
FUNCTIONS = {
    "it calls itself": ("func.func private @f(%v: index) -> index {\n  %w = call @f(%v) : (index) -> index\n  return "
                        "%w : index\n}", "XT2087"),
    "they call each other": ("".join(f"func.func private @{a}(%v: index) -> index {{\n  %w = call @{b}(%v) : (index) "
                                     "-> index\n  return %w : index\n}\n" for a, b in ("fg", "gf")), "XT2087"),
    "there is none": ("", "XT2086"),
    "it has no body": ("func.func private @f(index) -> index", "XT2086"),
    "other arguments": ("func.func private @f(%v: f32) -> index {\n  %w = arith.constant 1 : index\n  return %w : "
                        "index\n}", "XT2086"),
    "other results": ("func.func private @f(%v: index) {\n  return\n}", "XT2086"),
    "they inflate": (GROWTH.replace("@f19(", "@f("), "XT2079"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_that_are_refused(name: str) -> None:
    functions, code = FUNCTIONS[name]
    kernel = "func.func @k(%A: memref<8x16xf32>, %n: index) {\n  %m = func.call @f(%n) : (index) -> index\n  return\n}"
    with pytest.raises(xt.TextError) as caught:
        xt.parse(f"{kernel}\n{functions}\n", "kernel.mlir")
    assert caught.value.code == code
    assert "kernel.mlir:" in str(caught.value)
