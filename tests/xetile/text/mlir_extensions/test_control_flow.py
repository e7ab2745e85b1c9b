"""``cf.br`` and ``cf.cond_br``, as mlir-opt leaves loops and branches, are lifted back to ``scf``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

EXECUTIONS = [("numpy", "pvc"), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc"),
              ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]

NESTED = """
module {
  func.func @nested(%A: memref<40x48xi32>, %C: memref<8x16xi32>, %n: index, %p: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %q = arith.cmpi sgt, %p, %c0 : index
    %z = arith.constant dense<0> : vector<8x16xi32>
    %ta = xetile.init_tile %A[%c0, %c0] : memref<40x48xi32> -> !xetile.tile<8x16xi32>
    cf.br ^bb1(%c0, %z, %c1, %ta : index, vector<8x16xi32>, index, !xetile.tile<8x16xi32>)
  ^bb1(%i: index, %sum: vector<8x16xi32>, %s: index, %t: !xetile.tile<8x16xi32>):  // 2 preds: ^bb0, ^bb8
    %more = arith.cmpi slt, %i, %n : index
    cf.cond_br %more, ^bb2, ^bb9
  ^bb2:  // pred: ^bb1
    %v = xetile.load_tile %t : !xetile.tile<8x16xi32> -> vector<8x16xi32>
    %w = arith.addi %sum, %v : vector<8x16xi32>
    %odd = arith.cmpi slt, %i, %s : index
    cf.cond_br %odd, ^bb3, ^bb4(%w : vector<8x16xi32>)
  ^bb3:  // pred: ^bb2
    %twice = arith.addi %w, %w : vector<8x16xi32>
    cf.br ^bb4(%twice : vector<8x16xi32>)
  ^bb4(%x: vector<8x16xi32>):  // 2 preds: ^bb2, ^bb3
    cf.cond_br %q, ^bb5, ^bb6(%i, %s : index, index)
  ^bb5:  // pred: ^bb4
    gpu.barrier
    cf.br ^bb6(%c1, %s : index, index)
  ^bb6(%j: index, %e: index):  // 3 preds: ^bb4, ^bb5, ^bb7
    %inner = arith.cmpi slt, %j, %n : index
    cf.cond_br %inner, ^bb7, ^bb8
  ^bb7:  // pred: ^bb6
    %f = arith.addi %e, %j : index
    %jj = arith.addi %j, %c1 : index
    cf.br ^bb6(%jj, %f : index, index)
  ^bb8:  // pred: ^bb6
    %tt = xetile.update_tile_offset %t, [%c8, %c3] : !xetile.tile<8x16xi32>, index, index -> !xetile.tile<8x16xi32>
    %ii = arith.addi %i, %c1 : index
    cf.br ^bb1(%ii, %x, %e, %tt : index, vector<8x16xi32>, index, !xetile.tile<8x16xi32>)
  ^bb9:  // pred: ^bb1
    %last = arith.addi %i, %s : index
    %number = arith.index_cast %last : index to i32
    %splat = vector.splat %number : vector<8x16xi32>
    %result = arith.addi %sum, %splat : vector<8x16xi32>
    %tc = xetile.init_tile %C[%c0, %c0] : memref<8x16xi32> -> !xetile.tile<8x16xi32>
    xetile.store_tile %result, %tc : vector<8x16xi32>, !xetile.tile<8x16xi32>
    return
  }
}
"""
DIAMOND = """
gpu.module @m {
  gpu.func @choose(%C: memref<8x16xi32>, %ia: index, %ib: index) kernel {
    %a = arith.index_cast %ia : index to i32
    %b = arith.index_cast %ib : index to i32
    %c5 = arith.constant 5 : i32
    %first = arith.cmpi slt, %a, %c5 : i32
    cf.cond_br %first, ^bb1, ^bb3
  ^bb1:
    %second = arith.cmpi slt, %b, %c5 : i32
    cf.cond_br %second, ^bb2, ^bb3
  ^bb2:
    %sum = arith.addi %a, %b : i32
    cf.br ^bb4(%sum : i32)
  ^bb3:
    %product = arith.muli %a, %b : i32
    cf.br ^bb4(%product : i32)
  ^bb4(%r: i32):
    %v = vector.splat %r : vector<8x16xi32>
    %t = xetile.init_tile %C[0, 0] : memref<8x16xi32> -> !xetile.tile<8x16xi32>
    %large = arith.cmpi sgt, %r, %c5 : i32
    cf.cond_br %large, ^bb5, ^bb6
  ^bb5:
    xetile.store_tile %v, %t : vector<8x16xi32>, !xetile.tile<8x16xi32>
    gpu.return
  ^bb6:
    gpu.return
  }
}
"""
COUNTED = """
func.func @count(%C: memref<8x16xi32>, %first: index, %last: index) {
  %from = arith.CAST %first : index to TYPE
  %to = arith.CAST %last : index to TYPE
  %c0 = arith.constant 0 : index
  %step = arith.constant STEP : TYPE
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  cf.br ^head(%zero, %from : i32, TYPE)
^head(%n: i32, %i: TYPE):
  %more = arith.cmpi COMPARED : TYPE
  cf.cond_br %more, ^TRUE, ^FALSE
^body:
  %m = arith.addi %n, %one : i32
  %j = arith.addi %step, %i : TYPE
  cf.br ^head(%m, %j : i32, TYPE)
^end:
  %v = vector.splat %n : vector<8x16xi32>
  %t = xetile.init_tile %C[%c0, 0] : memref<8x16xi32> -> !xetile.tile<8x16xi32>
  xetile.store_tile %v, %t : vector<8x16xi32>, !xetile.tile<8x16xi32>
  return
}
"""


def counted(kind: str) -> str:
    """A loop whose counter is an index or an integer."""
    text = COUNTED
    if kind == "index":
        text = re.sub(r"  %(from|to) = arith.CAST.*\n", "", text).replace("%from", "%first").replace("%to", "%last")
    return text.replace("CAST", "index_cast").replace("TYPE", kind)


def kernel(text: str, name: str, where: str, target: str) -> Any:
    if where == "opencl:cpu":
        require_device(where)
    return xt.parse(text)[name].on(where, target=target)


@pytest.mark.parametrize("p", [0, 1])
@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_nested_loops(where: str, target: str, n: int, p: int) -> None:
    """Values of the outer head are used behind the loop, its counter among them."""
    a, c = np.random.default_rng(3).integers(-9, 9, (40, 48)).astype(np.int32), np.zeros((8, 16), np.int32)
    want, s = np.zeros((8, 16), np.int32), 1
    for i in range(n):
        want = want + a[8 * i:8 * i + 8, 3 * i:3 * i + 16]
        want = 2 * want if i < s else want
        s += sum(range(1 if p else i, n))
    kernel(NESTED, "nested", where, target)[1](a, c, n, p)
    np.testing.assert_array_equal(c, want + n + s)


@pytest.mark.parametrize(("a", "b"), [(2, 3), (4, 4), (7, 2), (3, 9), (-3, 2), (9, -1)])
@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_conditions_that_share_a_block(where: str, target: str, a: int, b: int) -> None:
    """``a < 5 and b < 5`` as two branches, then a return inside of a branch."""
    c = np.full((8, 16), -7, np.int32)
    kernel(DIAMOND, "choose", where, target)[1](c, a, b)
    result = a + b if a < 5 and b < 5 else a * b
    assert (c == (result if result > 5 else -7)).all()


@pytest.mark.parametrize("kind", ["index", "i32"])
@pytest.mark.parametrize(("compared", "goes_on"), [
    ("slt, %i, %to", True), ("sgt, %to, %i", True), ("sle, %i, %to", True), ("sge, %i, %to", False),
    ("slt, %to, %i", False)])
@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
def test_comparisons(where: str, compared: str, goes_on: bool, kind: str) -> None:
    targets = ("body", "end") if goes_on else ("end", "body")
    text = counted(kind).replace("STEP", "3").replace("COMPARED", compared)
    text = text if kind == "i32" else text.replace("%to", "%last")
    text = text.replace("TRUE", targets[0]).replace("FALSE", targets[1])
    module = kernel(text, "count", where, "pvc")
    for start, stop in ((0, 0), (0, 7), (2, 11), (-4, 5), (5, 4)):
        c = np.zeros((8, 16), np.int32)
        module[1](c, start, stop)
        inclusive = compared in ("sle, %i, %to", "slt, %to, %i")
        assert (c == len(range(start, stop + inclusive, 3))).all(), (start, stop)


def test_the_result_is_structured() -> None:
    printed = str(xt.parse(NESTED))
    assert not re.search(r"\bcf\.", printed)
    assert printed.count("scf.for") == 2
    assert str(xt.parse(printed)) == printed


LOOP = counted("index").replace("STEP", "3").replace("TRUE", "body").replace("FALSE", "end").replace(
    "COMPARED", "slt, %i, %last")


@pytest.mark.parametrize(("old", "new", "code"), [
    ("cf.br ^head(%m, %j : i32, index)", "cf.cond_br %more, ^head(%m, %j : i32, index), ^end", "XT2604"),
    ("cf.br ^head(%zero, %first : i32, index)", "%t0 = arith.cmpi slt, %first, %last : index\n"
     "cf.cond_br %t0, ^head(%zero, %first : i32, index), ^body", "XT2601"),
    ("cf.br ^head(%m, %j : i32, index)", "cf.br ^head(%m, %i : i32, index)", "XT2606"),
    ("arith.cmpi slt, %i, %last", "arith.cmpi ne, %i, %last", "XT2606"),
    ("arith.cmpi slt, %i, %last", "arith.cmpi ult, %i, %last", "XT2607"),
    ("%more = arith.cmpi", "gpu.barrier\n%more = arith.cmpi", "XT2605"),
    ("cf.cond_br %more, ^body, ^end", "cf.br ^body", "XT2602"),
    ("cf.br ^head(%m, %j : i32, index)", "cf.br ^head(%j, %m : index, i32)", "XT2608"),
    ("  cf.br ^head(%m, %j : i32, index)\n", "", "XT2609"),
    ("arith.constant 3 : index", "arith.constant -3 : index", "XT2606"),
])
def test_mistakes(old: str, new: str, code: str) -> None:
    assert old in LOOP
    with pytest.raises(xt.TextError, match=re.escape(code)) as caught:
        xt.parse(LOOP.replace(old, new), "kernel.mlir")
    assert "kernel.mlir:" in str(caught.value)
    assert "  help: " in str(caught.value)
