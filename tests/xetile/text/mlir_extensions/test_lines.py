"""Vectors of one dimension at the level of tiles: ``vector.multi_reduction``, ``vector.broadcast``, ``shape_cast``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

EXECUTIONS = [("numpy", "pvc"), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc"),
              ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]

SOFTMAX = """
gpu.module @m {
  gpu.func @normal(%A: memref<16x32xf32>, %B: memref<1x32xf32>, %C: memref<16x32xf32>, %S: memref<16x1xf32>) kernel {
    %z = arith.constant dense<-1.0> : vector<16xf32>
    %k = arith.constant dense<3.0> : vector<32xf32>
    %ta = xetile.init_tile %A[0, 0] : memref<16x32xf32> -> !xetile.tile<16x32xf32>
    %tb = xetile.init_tile %B[0, 0] : memref<1x32xf32> -> !xetile.tile<1x32xf32>
    %a = xetile.load_tile %ta : !xetile.tile<16x32xf32> -> vector<16x32xf32>
    %b0 = xetile.load_tile %tb : !xetile.tile<1x32xf32> -> vector<1x32xf32>
    %b1 = vector.shape_cast %b0 : vector<1x32xf32> to vector<32xf32>
    %b = arith.mulf %b1, %k : vector<32xf32>
    %max = vector.multi_reduction <maximumf>, %a, %z [1] : vector<16x32xf32> to vector<16xf32>
    %column = vector.shape_cast %max : vector<16xf32> to vector<16x1xf32>
    %wide = vector.broadcast %column : vector<16x1xf32> to vector<16x32xf32>
    %rows = vector.broadcast %b : vector<32xf32> to vector<16x32xf32>
    %d = arith.subf %a, %wide : vector<16x32xf32>
    %e = arith.addf %d, %rows : vector<16x32xf32>
    %zero = arith.constant dense<0.0> : vector<32xf32>
    %sum = vector.multi_reduction <add>, %a, %zero [0] : vector<16x32xf32> to vector<32xf32>
    %sums = vector.broadcast %sum : vector<32xf32> to vector<16x32xf32>
    %f = arith.addf %e, %sums : vector<16x32xf32>
    %f0 = arith.constant 5.0 : f32
    %all = vector.multi_reduction <add>, %a, %f0 [0, 1] : vector<16x32xf32> to f32
    %twice = arith.addf %all, %all : f32
    %splat = vector.broadcast %twice : f32 to vector<16x32xf32>
    %g = arith.addf %f, %splat : vector<16x32xf32>
    %tc = xetile.init_tile %C[0, 0] : memref<16x32xf32> -> !xetile.tile<16x32xf32>
    xetile.store_tile %g, %tc : vector<16x32xf32>, !xetile.tile<16x32xf32>
    %ts = xetile.init_tile %S[0, 0] : memref<16x1xf32> -> !xetile.tile<16x1xf32>
    xetile.store_tile %column, %ts : vector<16x1xf32>, !xetile.tile<16x1xf32>
    gpu.return
  }
}
"""
LOOP = """
#map = #xetile.wg_map<sg_layout = [4, 2], sg_data = [8, 32]>
#column = #xetile.wg_map<sg_layout = [4, 2], sg_data = [8, 1]>
#row = #xetile.wg_map<sg_layout = [4, 2], sg_data = [1, 32]>
#t = #xetile.tile_attr<wg_map = #map>
#tc = #xetile.tile_attr<wg_map = #column>
gpu.module @m {
  gpu.func @sums(%A: memref<32x256xi32>, %C: memref<32x1xi32>, %D: memref<32x64xi32>) kernel {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %zero = arith.constant {map = #column} dense<0> : vector<32xi32>
    %none = arith.constant {map = #row} dense<-1000> : vector<64xi32>
    %ta = xetile.init_tile %A[0, 0] : memref<32x256xi32> -> !xetile.tile<32x64xi32, #t>
    %r:3 = scf.for %k = %c0 to %c256 step %c64 iter_args(%t = %ta, %s = %zero, %m = %none) -> (!xetile.tile<32x64xi32, #t>, vector<32xi32>, vector<64xi32>) {
      %v = xetile.load_tile %t : !xetile.tile<32x64xi32, #t> -> vector<32x64xi32>
      %n = vector.multi_reduction <add>, %v, %s {map = #column} [1] : vector<32x64xi32> to vector<32xi32>
      %x = vector.multi_reduction <maxsi>, %v, %m {map = #row} [0] : vector<32x64xi32> to vector<64xi32>
      %u = xetile.update_tile_offset %t, [%c0, %c64] : !xetile.tile<32x64xi32, #t>
      scf.yield %u, %n, %x : !xetile.tile<32x64xi32, #t>, vector<32xi32>, vector<64xi32>
    }
    %c = vector.shape_cast %r#1 {map = #column} : vector<32xi32> to vector<32x1xi32>
    %tc = xetile.init_tile %C[0, 0] : memref<32x1xi32> -> !xetile.tile<32x1xi32, #tc>
    xetile.store_tile %c, %tc : vector<32x1xi32>, !xetile.tile<32x1xi32, #tc>
    %w = vector.broadcast %c {map = #map} : vector<32x1xi32> to vector<32x64xi32>
    %y = vector.broadcast %r#2 {map = #map} : vector<64xi32> to vector<32x64xi32>
    %d = arith.addi %w, %y {map = #map} : vector<32x64xi32>
    %td = xetile.init_tile %D[0, 0] : memref<32x64xi32> -> !xetile.tile<32x64xi32, #t>
    xetile.store_tile %d, %td : vector<32x64xi32>, !xetile.tile<32x64xi32, #t>
    gpu.return
  }
}
"""  # noqa: E501
TURNED = """
gpu.module @m {
  gpu.func @turned(%A: memref<32x32xf32>, %C: memref<32x32xf32>) kernel {
    %z = arith.constant dense<0.0> : vector<32xf32>
    %ta = xetile.init_tile %A[0, 0] : memref<32x32xf32> -> !xetile.tile<32x32xf32>
    %a = xetile.load_tile %ta : !xetile.tile<32x32xf32> -> vector<32x32xf32>
    %rows = vector.multi_reduction <add>, %a, %z [1] : vector<32x32xf32> to vector<32xf32>
    %columns = vector.multi_reduction <maximumf>, %a, %z [0] : vector<32x32xf32> to vector<32xf32>
    %both = arith.mulf %rows, %columns : vector<32xf32>
    %w = vector.broadcast %both : vector<32xf32> to vector<32x32xf32>
    %tc = xetile.init_tile %C[0, 0] : memref<32x32xf32> -> !xetile.tile<32x32xf32>
    xetile.store_tile %w, %tc : vector<32x32xf32>, !xetile.tile<32x32xf32>
    gpu.return
  }
}
"""
RESHAPED = """
#wide = #xetile.wg_map<sg_layout = [2, 2], sg_data = [8, 32]>
#tall = #xetile.wg_map<sg_layout = [4, 1], sg_data = [16, 16]>
#tw = #xetile.tile_attr<wg_map = #wide>
#tt = #xetile.tile_attr<wg_map = #tall>
gpu.module @m {
  gpu.func @reshaped(%A: memref<16x64xf32>, %C: memref<64x16xf32>) kernel {
    %ta = xetile.init_tile %A[0, 0] : memref<16x64xf32> -> !xetile.tile<16x64xf32, #tw>
    %a = xetile.load_tile %ta : !xetile.tile<16x64xf32, #tw> -> vector<16x64xf32>
    %b = vector.shape_cast %a {map = #tall} : vector<16x64xf32> to vector<64x16xf32>
    %c = arith.addf %b, %b : vector<64x16xf32>
    %tc = xetile.init_tile %C[0, 0] : memref<64x16xf32> -> !xetile.tile<64x16xf32, #tt>
    xetile.store_tile %c, %tc : vector<64x16xf32>, !xetile.tile<64x16xf32, #tt>
    gpu.return
  }
  gpu.func @own(%A: memref<32x32xf32>, %C: memref<64x16xf32>) kernel attributes {known_block_size = array<i32: 2, 2, 1>} {
    %s = gpu.subgroup_id : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %row = arith.muli %s, %c8 : index
    %down = arith.muli %s, %c16 : index
    %ta = xetile.init_tile %A[%row, 0] : memref<32x32xf32> -> !xetile.tile<8x32xf32>
    %a = xetile.load_tile %ta : !xetile.tile<8x32xf32> -> vector<8x32xf32>
    %b = vector.shape_cast %a : vector<8x32xf32> to vector<16x16xf32>
    %tc = xetile.init_tile %C[%down, 0] : memref<64x16xf32> -> !xetile.tile<16x16xf32>
    xetile.store_tile %b, %tc : vector<16x16xf32>, !xetile.tile<16x16xf32>
    gpu.return
  }
}
"""  # noqa: E501


def kernel(text: str, name: str, where: str, target: str) -> Any:
    if where == "opencl:cpu":
        require_device(where)
    return xt.parse(text)[name].on(where, target=target)


def integers(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 5) -> Any:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_reductions_and_broadcasts(where: str, target: str) -> None:
    a, b = integers((16, 32)), integers((1, 32), seed=6)
    c, s = np.zeros((16, 32), np.float32), np.zeros((16, 1), np.float32)
    kernel(SOFTMAX, "normal", where, target)[1](a, b, c, s)
    largest = np.maximum(a.max(1, keepdims=True), -1)
    np.testing.assert_array_equal(s, largest)
    np.testing.assert_array_equal(c, a - largest + 3 * b + a.sum(0) + 2 * (a.sum() + 5))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
@pytest.mark.parametrize("maps", ["written", "derived"])
def test_lines_of_work_groups_in_a_loop(maps: str, where: str, target: str) -> None:
    """Accumulators without a map have that which the reduction derives from its tile."""
    text = LOOP if maps == "written" else re.sub(r"\{map = #(column|row)\} ?", "", LOOP)
    a, c, d = integers((32, 256), np.int32), np.zeros((32, 1), np.int32), np.zeros((32, 64), np.int32)
    kernel(text, "sums", where, target)[1](a, c, d)
    sums = a.sum(1, keepdims=True)
    np.testing.assert_array_equal(c, sums)
    np.testing.assert_array_equal(d, sums + a.reshape(32, 4, 64).max((0, 1)))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_rows_with_columns(where: str, target: str) -> None:
    a, c = integers((32, 32)), np.zeros((32, 32), np.float32)
    kernel(TURNED, "turned", where, target)[1](a, c)
    np.testing.assert_array_equal(c, np.broadcast_to(a.sum(1) * np.maximum(a.max(0), 0), (32, 32)))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_shape_cast(where: str, target: str) -> None:
    a, c = integers((16, 64)), np.zeros((64, 16), np.float32)
    kernel(RESHAPED, "reshaped", where, target)[1](a, c)
    np.testing.assert_array_equal(c, 2 * a.reshape(64, 16))
    b, d = integers((32, 32), seed=7), np.zeros((64, 16), np.float32)
    kernel(RESHAPED, "own", where, target)[1](b, d)
    np.testing.assert_array_equal(d, b.reshape(64, 16))


@pytest.mark.parametrize("text", [SOFTMAX, LOOP, TURNED, RESHAPED], ids=["softmax", "loop", "turned", "reshaped"])
def test_goes_round(text: str) -> None:
    printed = str(xt.parse(text))
    assert "multi_reduction" not in printed
    assert str(xt.parse(printed)) == printed


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_broadcast_to_the_same_shape(where: str) -> None:
    text = """func.func @f(%A: memref<5x1xi32>, %C: memref<5x1xi32>) {
  %c0 = arith.constant 0 : index
  %ta = xetile.init_tile %A[%c0, %c0] : memref<5x1xi32> -> !xetile.tile<5x1xi32>
  %a = xetile.load_tile %ta : !xetile.tile<5x1xi32> -> vector<5x1xi32>
  %b = vector.broadcast %a : vector<5x1xi32> to vector<5x1xi32>
  %tc = xetile.init_tile %C[%c0, %c0] : memref<5x1xi32> -> !xetile.tile<5x1xi32>
  xetile.store_tile %b, %tc : vector<5x1xi32>, !xetile.tile<5x1xi32>
  return
}"""
    a, c = integers((5, 1), np.int32), np.zeros((5, 1), np.int32)
    kernel(text, "f", where, "pvc")[1](a, c)
    np.testing.assert_array_equal(c, a)


HEAD = """gpu.module @m { gpu.func @f(%A: memref<16x32xf32>, %C: memref<16x32xf32>) kernel {
%f0 = arith.constant 0.0 : f32
%z = arith.constant dense<0.0> : vector<16xf32>
%t = xetile.init_tile %A[0, 0] : memref<16x32xf32> -> !xetile.tile<16x32xf32>
%a = xetile.load_tile %t : !xetile.tile<16x32xf32> -> vector<16x32xf32>
"""


@pytest.mark.parametrize(("lines", "code"), [
    ("%r = vector.multi_reduction <add>, %a, %f0 [0, 1] : vector<16x32xf32> to f32\n"
     "%n = xegpu.load_scalar %A, %r : f32", None),
    ("%r = vector.multi_reduction <addd>, %a, %z [1] : vector<16x32xf32> to vector<16xf32>", "XT3640"),
    ("%r = vector.multi_reduction <add>, %a, %z [0] : vector<16x32xf32> to vector<16xf32>", "XT3641"),
    ("%r = vector.multi_reduction <add>, %a, %a [] : vector<16x32xf32> to vector<16x32xf32>", "XT2621"),
    ("%r = vector.broadcast %z : vector<16xf32> to vector<16x32xf32>", "XT1220"),
    ("%r = vector.multi_reduction <add>, %a, %f0 [0, 1] : vector<16x32xf32> to f32\n"
     "%b = arith.cmpf ogt, %r, %f0 : f32\nscf.if %b {\n gpu.barrier\n}", "XT2620"),
    ("%s = vector.shape_cast %a : vector<16x32xf32> to vector<32x16xf32>\n%q = gpu.thread_id x", "XT2623"),
])
def test_mistakes(lines: str, code: str | None) -> None:
    with pytest.raises(xt.XeError, match=code) as caught:
        xt.parse(f"{HEAD}{lines}\ngpu.return\n}} }}", "kernel.mlir")
    assert "kernel.mlir:" in str(caught.value)
