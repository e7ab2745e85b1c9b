"""Tiles, descriptors and transfers on parts of arrays: ``memref.subview``, ``collapse_shape`` and ``expand_shape``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EAGER, FEW, Execution

pytestmark = pytest.mark.unoptimised

Array = np.ndarray[Any, Any]
PART = "strided<[48, 1], offset: ?>"
CASES: dict[str, tuple[str, str, Callable[[Array, int, int], Array]]] = {
    "static": ("%v = memref.subview %A[3, 5] [7, 11] [1, 1] : memref<40x48xf32> to memref<7x11xf32, "
               "strided<[48, 1], offset: 149>>", "memref<7x11xf32, strided<[48, 1], offset: 149>>",
               lambda a, i, j: a[3:10, 5:16]),
    "offsets": (f"%v = memref.subview %A[%i, %j] [9, 20] [1, 1] : memref<40x48xf32> to memref<9x20xf32, {PART}>",
                f"memref<9x20xf32, {PART}>", lambda a, i, j: a[i:i + 9, j:j + 20]),
    "to the end": ("%v = memref.subview %A[36, 0] [4, 48] [1, 1] : memref<40x48xf32> to memref<4x48xf32, "
                   "strided<[48, 1], offset: 1728>>", "memref<4x48xf32, strided<[48, 1], offset: 1728>>",
                   lambda a, i, j: a[36:]),
    "every second row": ("%v = memref.subview %A[%i, 5] [6, 16] [2, 1] : memref<40x48xf32> to memref<6x16xf32, "
                         "strided<[96, 1], offset: ?>>", "memref<6x16xf32, strided<[96, 1], offset: ?>>",
                         lambda a, i, j: a[i:i + 12:2, 5:21]),
    "of a part": (f"%u = memref.subview %A[%i, 4] [12, 40] [1, 1] : memref<40x48xf32> to memref<12x40xf32, {PART}>\n"
                  f"%v = memref.subview %u[5, %j] [7, 13] [1, 1] : memref<12x40xf32, {PART}> to "
                  f"memref<7x13xf32, {PART}>",
                  f"memref<7x13xf32, {PART}>", lambda a, i, j: a[i + 5:i + 12, 4 + j:17 + j]),
    "of a transpose": ("%u = memref.transpose %A (i, j) -> (j, i) : memref<40x48xf32> to memref<48x40xf32, "
                       "strided<[1, 48]>>\n%w = memref.transpose %u (i, j) -> (j, i) : memref<48x40xf32, "
                       "strided<[1, 48]>> to memref<40x48xf32>\n"
                       f"%v = memref.subview %w[%i, %j] [9, 20] [1, 1] : memref<40x48xf32> to memref<9x20xf32, {PART}>",
                       f"memref<9x20xf32, {PART}>", lambda a, i, j: a[i:i + 9, j:j + 20]),
    "expanded": ("%u = memref.expand_shape %A [[0, 1], [2]] output_shape [4, 10, 48] : memref<40x48xf32> into "
                 "memref<4x10x48xf32>\n%v = memref.subview %u[2, 1, 5] [1, 8, 16] [1, 1, 1] : memref<4x10x48xf32> to "
                 "memref<8x16xf32, strided<[48, 1], offset: 1013>>", "memref<8x16xf32, strided<[48, 1], offset: 1013>>",
                 lambda a, i, j: a[21:29, 5:21]),
    "collapsed": ("%u = memref.expand_shape %A [[0], [1, 2]] output_shape [40, 3, 16] : memref<40x48xf32> into "
                  "memref<40x3x16xf32>\n%w = memref.collapse_shape %u [[0, 1], [2]] : memref<40x3x16xf32> into "
                  "memref<120x16xf32>\n%v = memref.subview %w[%i, 2] [8, 9] [1, 1] : memref<120x16xf32> to "
                  "memref<8x9xf32, strided<[16, 1], offset: ?>>", "memref<8x9xf32, strided<[16, 1], offset: ?>>",
                  lambda a, i, j: a.reshape(120, 16)[i:i + 8, 2:11]),
}
"""Views of a 40x48 array at row i and column j: text, type, and what they are."""
EXECUTIONS = [each for each in FEW if each != EAGER]


def tiles(view: str, type_: str) -> str:
    """A kernel that copies the part of a tile in the view, and puts 9 where it ends."""
    return f"""gpu.module @m {{
  gpu.func @copied(%A: memref<40x48xf32>, %C: memref<8x16xf32>, %i: index, %j: index) kernel {{
    {view}
    %ta = xetile.init_tile %v[0, 0] : {type_} -> !xetile.tile<8x16xf32>
    %x = xetile.load_tile %ta {{padding = 9.0 : f32}} : !xetile.tile<8x16xf32> -> vector<8x16xf32>
    %tc = xetile.init_tile %C[0, 0] : memref<8x16xf32> -> !xetile.tile<8x16xf32>
    xetile.store_tile %x, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
    gpu.return
  }}
}}"""


def blocks(view: str, type_: str) -> str:
    """The same in LLVM's form, with 0 for what is out of bounds."""
    return f"""gpu.module @m {{
  gpu.func @copied(%A: memref<40x48xf32>, %C: memref<8x16xf32>, %i: index, %j: index) kernel {{
    {view}
    %t = xegpu.create_nd_tdesc %v : {type_} -> !xegpu.tensor_desc<8x16xf32>
    %x = xegpu.load_nd %t[0, 0] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %to = xegpu.create_nd_tdesc %C : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
    xegpu.store_nd %x, %to[0, 0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }}
}}"""


@pytest.mark.parametrize(("form", "padding"), [(tiles, 9), (blocks, 0)], ids=["tiles", "llvm"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_loads(execution: Execution, name: str, form: Callable[[str, str], str], padding: int) -> None:
    view, type_, part = CASES[name]
    a = np.random.default_rng(1).integers(-99, 99, (40, 48)).astype(np.float32)
    c, want, i, j = np.full((8, 16), 7, np.float32), np.full((8, 16), padding, np.float32), 11, 6
    of = part(a, i, j)[:8, :16]
    want[:of.shape[0], :of.shape[1]] = of
    execution.bind(xt.parse(form(view, type_))["copied"])[1](a, c, i, j)
    np.testing.assert_array_equal(c, want)


STORES = f"""gpu.module @m {{
  gpu.func @stored(%A: memref<8x16xf32>, %C: memref<3x40x48xf32>, %b: index, %i: index) kernel {{
    %c0 = arith.constant 0 : index
    %v = memref.subview %C[%b, %i, 5] [1, 6, 13] [1, 1, 1] : memref<3x40x48xf32> to memref<6x13xf32, {PART}>
    %ta = xetile.init_tile %A[0, 0] : memref<8x16xf32> -> !xetile.tile<8x16xf32>
    %x = xetile.load_tile %ta : !xetile.tile<8x16xf32> -> vector<8x16xf32>
    %tc = xetile.init_tile %v[0, 0] : memref<6x13xf32, {PART}> -> !xetile.tile<8x16xf32>
    xetile.store_tile %x, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
    gpu.return
  }}
}}"""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_store_ends_where_the_view_does(execution: Execution) -> None:
    rng = np.random.default_rng(2)
    a, c = (rng.integers(-99, 99, shape).astype(np.float32) for shape in ((8, 16), (3, 40, 48)))
    want = c.copy()
    want[2, 9:15, 5:18] = a[:6, :13]
    execution.bind(xt.parse(STORES)["stored"])[1](a, c, 2, 9)
    np.testing.assert_array_equal(c, want)


BOTH = """
func.func @both(%A: memref<16x32xf32>, %C: memref<16x32xf32>) {
  %c0 = arith.constant 0 : index
  %p = arith.constant 0.0 : f32
  %s = memref.alloc() : memref<16x32xf32, 3>
  %low = memref.subview %s[0, 0] [8, 32] [1, 1] : memref<16x32xf32, 3> to memref<8x32xf32, strided<[32, 1]>, 3>
  %high = memref.subview %s[8, 0] [8, 32] [1, 1] : memref<16x32xf32, 3> to memref<8x32xf32, strided<[32, 1], offset: 256>, 3>
  %v = vector.transfer_read %A[%c0, %c0], %p {in_bounds = [true, true]} : memref<16x32xf32>, vector<16x32xf32>
  vector.transfer_write %v, %s[%c0, %c0] {in_bounds = [true, true]} : vector<16x32xf32>, memref<16x32xf32, 3>
  gpu.barrier
  %th = xetile.init_tile %high[0, 0] : memref<8x32xf32, strided<[32, 1], offset: 256>, 3> -> !xetile.tile<8x32xf32, #slm>
  %h = xetile.load_tile %th : !xetile.tile<8x32xf32, #slm> -> vector<8x32xf32>
  %l = vector.transfer_read %low[%c0, %c0], %p {in_bounds = [true, true]} : memref<8x32xf32, strided<[32, 1]>, 3>, vector<8x32xf32>
  %c8 = arith.constant 8 : index
  vector.transfer_write %h, %C[%c0, %c0] {in_bounds = [true, true]} : vector<8x32xf32>, memref<16x32xf32>
  vector.transfer_write %l, %C[%c8, %c0] {in_bounds = [true, true]} : vector<8x32xf32>, memref<16x32xf32>
  return
}
""".replace("#slm", "#xetile.tile_attr<memory_space = 3>")  # noqa: E501


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_tiles_and_transfers_on_parts_of_shared_memory(execution: Execution) -> None:
    a = np.random.default_rng(3).integers(-99, 99, (16, 32)).astype(np.float32)
    c = np.zeros_like(a)
    execution.bind(xt.parse(BOTH)["both"])[1](a, c)
    np.testing.assert_array_equal(c, np.roll(a, 8, axis=0))


def test_a_part_of_an_array_has_its_offsets() -> None:
    printed = str(xt.parse(tiles(*CASES["offsets"][:2])))
    assert "arith.muli" not in printed
    assert str(xt.parse(printed)) == printed


@pytest.mark.parametrize(("lines", "code"), [
    ("%u = memref.subview %A[0, 0] [40, 16] [1, 1] : memref<40x48xf32> to memref<40x16xf32, strided<[48, 1]>>\n"
     "%v = memref.collapse_shape %u [[0, 1]] : memref<40x16xf32, strided<[48, 1]>> into memref<640xf32>", "XT2081"),
    ("%v = memref.expand_shape %A [[0, 1], [2]] output_shape [5, 7, 48] : memref<40x48xf32> into memref<5x7x48xf32>",
     "XT2082"),
    ("%v = memref.collapse_shape %A [[1], [0]] : memref<40x48xf32> into memref<48x40xf32>", "XT2002"),
    ("%v = memref.expand_shape %A [[0, 1, 2]] output_shape [4, 10, 48] : memref<40x48xf32> into memref<4x10x48xf32>",
     "XT2082"),
])
def test_mistakes(lines: str, code: str) -> None:
    type_ = re.split(r" (?:into|to) ", lines)[-1]
    with pytest.raises(xt.TextError, match=code) as caught:
        xt.parse(tiles(lines, type_), "kernel.mlir")
    assert "kernel.mlir:" in str(caught.value)
