"""Loops that count in integers, which the passes know as loops that count in indices."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, LANES, NUMPY, Execution
from xegpu.support.errors import TextError

TEXT = """
func.func @f(%A: memref<24x32xf32>, %C: memref<24x32xf32>, %n: i32) {
  %c8 = arith.constant 8 : index
  %lower, %upper, %step = BOUNDS
  %ta = xetile.init_tile %A[%c8, %c8] : memref<24x32xf32> -> !xetile.tile<8x16xf32>
  %tc = xetile.init_tile %C[%c8, %c8] : memref<24x32xf32> -> !xetile.tile<8x16xf32>
  %a = xetile.load_tile %ta : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %r, %last = scf.for %i = %lower to %upper step %step iter_args(%sum = %a, %at = %step)
      -> (vector<8x16xf32>, TYPE) : TYPE {
    %inner = scf.for %j = %lower to %i step %step iter_args(%t = %sum) -> (vector<8x16xf32>) : TYPE {
      %g = arith.sitofp %j : TYPE to f32
      %w = vector.broadcast %g : f32 to vector<8x16xf32>
      %v = arith.subf %t, %w : vector<8x16xf32>
      scf.yield %v : vector<8x16xf32>
    }
    %f = arith.sitofp %i : TYPE to f32
    %b = vector.broadcast %f : f32 to vector<8x16xf32>
    %v = arith.addf %inner, %b : vector<8x16xf32>
    scf.yield %v, %i : vector<8x16xf32>, TYPE
  }
  %g = arith.sitofp %last : TYPE to f32
  %w = vector.broadcast %g : f32 to vector<8x16xf32>
  %s = arith.mulf %r, %w : vector<8x16xf32>
  xetile.store_tile %s, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
  return
}
"""
CONSTANTS = "\n".join(f"  %{name} = arith.constant {value} : i8" for name, value in (("lower", 254), ("upper", 7),
                                                                                       ("step", 3)))
GIVEN = "  %lower = arith.constant -2 : i32\n  %upper = arith.muli %n, %n : i32\n  %step = arith.constant 3 : i32"
WIDE = "  %m = arith.extsi %n : i32 to i64\n" + GIVEN.replace("i32", "i64").replace("%n", "%m")
"""-2 to 7 in steps of 3; 254 is -2 in 8 bits."""


@pytest.mark.parametrize("execution", [NUMPY, *LANES[:1], *DEVICE], ids=str)
@pytest.mark.parametrize(("bounds", "type_", "upper"), [(CONSTANTS, "i8", 7), (GIVEN, "i32", 9), (WIDE, "i64", 9)],
                         ids=("constant", "i32", "i64"))
def test_a_loop_counts_in_integers(execution: Execution, bounds: str, type_: str, upper: int) -> None:
    text = TEXT.replace("  %lower, %upper, %step = BOUNDS", bounds).replace("TYPE", type_)
    rng = np.random.default_rng(3)
    a, c = rng.integers(-9, 9, (24, 32)).astype(np.float32), np.full((24, 32), 7, np.float32)
    expected = c.copy()
    counted = range(-2, upper, 3)
    total = sum(i - sum(range(-2, i, 3)) for i in counted)
    expected[8:16, 8:24] = (a[8:16, 8:24] + total) * counted[-1]
    printed = str(xt.parse(text))
    assert f": {type_} {{" not in printed
    for each in (text, printed):
        c[:] = 7
        execution.bind(xt.parse(each)["f"])[1](a, c, np.int32(3))
        np.testing.assert_array_equal(c, expected)


UNSIGNED = """
func.func @f(%A: memref<24x32xf32>, %m: i32) {
  %n = arith.trunci %m : i32 to i8
  %lower = arith.constant 100 : i8
  %upper = arith.BOUND : i8
  %step = arith.constant 50 : i8
  %t = xetile.init_tile %A[8, 8] : memref<24x32xf32> -> !xetile.tile<8x16xf32>
  %a = xetile.load_tile %t : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %r = scf.for unsigned %i = %lower to %upper step %step iter_args(%v = %a) -> (vector<8x16xf32>) : i8 {
    %f = arith.uitofp %i : i8 to f32
    %b = vector.broadcast %f : f32 to vector<8x16xf32>
    %w = vector.fma %v, %b, %a : vector<8x16xf32>
    scf.yield %w : vector<8x16xf32>
  }
  xetile.store_tile %r, %t : vector<8x16xf32>, !xetile.tile<8x16xf32>
  return
}
"""


@pytest.mark.parametrize("execution", [NUMPY, *LANES[:1], *DEVICE], ids=str)
@pytest.mark.parametrize("bound", ["constant 210", "addi %n, %lower"], ids=("constant", "sum"))
def test_bounds_are_compared_as_unsigned_integers(execution: Execution, bound: str) -> None:
    text = UNSIGNED.replace("BOUND", bound)
    a = np.random.default_rng(4).integers(-3, 4, (24, 32)).astype(np.float32)
    printed = str(xt.parse(text))
    assert "unsigned" not in printed
    for each in (text, printed):
        c, want = a.copy(), a.copy()
        part = want[8:16, 8:24]
        for factor in (100, 150, 200):
            part[:] = part * factor + a[8:16, 8:24]
        execution.bind(xt.parse(each)["f"])[1](c, np.int32(110))
        np.testing.assert_array_equal(c, want)


SIGN = """
func.func @f(%A: memref<24x32xi32>, %from: i64, %to: i64, %by: i64) {
  %lower, %upper, %step = BOUNDS
  %t = xetile.init_tile %A[8, 8] : memref<24x32xi32> -> !xetile.tile<8x16xi32>
  %a = xetile.load_tile %t : !xetile.tile<8x16xi32> -> vector<8x16xi32>
  %three = arith.constant dense<3> : vector<8x16xi32>
  %r = scf.for unsigned %i = %lower to %upper step %step iter_args(%v = %a) -> (vector<8x16xi32>) : TYPE {
    %j = arith.CAST %i : TYPE to i32
    %b = vector.broadcast %j : i32 to vector<8x16xi32>
    %m = arith.muli %v, %three : vector<8x16xi32>
    %w = arith.addi %m, %b : vector<8x16xi32>
    scf.yield %w : vector<8x16xi32>
  }
  xetile.store_tile %r, %t : vector<8x16xi32>, !xetile.tile<8x16xi32>
  return
}
"""
CASTS = {"i16": ("trunci", "extui"), "i32": ("trunci", "bitcast"), "i64": ("ori", "trunci"),
         "index": ("index_cast", "index_cast")}


@pytest.mark.parametrize("execution", [NUMPY, *LANES[:1], *DEVICE], ids=str)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("type_", CASTS)
def test_unsigned_bounds_on_both_sides_of_the_sign_bit(execution: Execution, type_: str, constant: bool) -> None:
    bits = 64 if type_ == "index" else int(type_[1:])
    half, whole = 1 << bits - 1, 1 << bits
    bounds = [(whole - 9, whole - 1, 4), (half + 5, 3, 1), (2, 9, 3), (5, 2, 1)]
    if type_ != "index":
        bounds += [(half - 3, half + 4, 2), (half - 9, half, 4), (half - 5, whole - 1, half // 2 + 1)]
    else:  # an index has 32 bits on devices
        bounds[1] = (whole - 5, 3, 1)
    into, out = CASTS[type_]
    a = np.random.default_rng(4).integers(-9, 9, (24, 32)).astype(np.int32)
    for numbers in bounds:
        signed = [number - whole if number >= half else number for number in numbers]
        lines = [f"  %{name} = arith.constant {number} : {type_}" if constant else
                 f"  %{name} = arith.{into} {source}, {source} : i64" if into == "ori" else
                 f"  %{name} = arith.{into} {source} : i64 to {type_}"
                 for name, number, source in zip(("lower", "upper", "step"), signed, ("%from", "%to", "%by"),
                                                 strict=True)]
        text = SIGN.replace("  %lower, %upper, %step = BOUNDS", "\n".join(lines)).replace("TYPE", type_)
        text = text.replace(" : index {", " {").replace("CAST", out)
        c, want = a.copy(), a.copy()
        part = want[8:16, 8:24].view(np.uint32)
        for i in range(*numbers):
            part[:] = part * np.uint32(3) + np.uint32(i & 0xffffffff)
        execution.bind(xt.parse(text)["f"])[1](c, *map(np.int64, signed))
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize(("types", "body"), [
    ("i32, i32, i32", "^bb0(%i: i32):"), ("i32, i32, i32", ""), ("i32, i32, i32", "scf.yield"),
    ("i32, i32, i32", "^bb0(%i: i64): scf.yield"), ("i64, i32, i64", "^bb0(%i: i64): scf.yield")],
    ids=("empty", "nothing", "no counter", "another counter", "another bound"))
def test_a_loop_that_is_not_well_formed_is_refused(types: str, body: str) -> None:
    first, *_ = types.split(", ")
    with pytest.raises(TextError) as error:
        xt.parse(f"""func.func @f(%n: i32) {{
  %a = arith.constant 4 : {first}
  "scf.for"(%a, %n, %a) ({{
    {body}
  }}) : ({types}) -> ()
  return
}}""")
    assert error.value.code == "XT2001"
