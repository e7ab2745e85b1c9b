"""``memref.view``, ``memref.reinterpret_cast`` and ``memref.transpose``, of arguments and of shared local memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

EXECUTIONS = [("numpy", "pvc"), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc"),
              ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]

ARGUMENTS = """
#columns = #xetile.tile_attr<order = [0, 1]>
gpu.module @m {
  gpu.func @arguments(%A: memref<2000xf32>, %B: memref<?x?xf32>, %D: memref<3x40x48xf32>, %C: memref<32x32xf32>, %o: index, %i: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %a = memref.reinterpret_cast %A to offset: [%o], sizes: [30, 29], strides: [33, 1] : memref<2000xf32> to memref<30x29xf32, strided<[33, 1], offset: ?>>
    %b = memref.transpose %B (i, j) -> (j, i) : memref<?x?xf32> to memref<?x?xf32, strided<[1, ?]>>
    %d = memref.reinterpret_cast %D to offset: [77], sizes: [25, 31], strides: [1, 40] : memref<3x40x48xf32> to memref<25x31xf32, strided<[1, 40], offset: 77>>
    %h = memref.dim %b, %c0 : memref<?x?xf32, strided<[1, ?]>>
    %w = memref.dim %b, %c1 : memref<?x?xf32, strided<[1, ?]>>
    %p = memref.dim %B, %c1 : memref<?x?xf32>
    %ta = xetile.init_tile %a[%i, %c1] : memref<30x29xf32, strided<[33, 1], offset: ?>> -> !xetile.tile<32x32xf32>
    %tb = xetile.init_tile %b[%c1, %i], [%h, %w], [%c1, %p] : memref<?x?xf32, strided<[1, ?]>> -> !xetile.tile<32x32xf32, #columns>
    %td = xetile.init_tile %d[%i, %i] : memref<25x31xf32, strided<[1, 40], offset: 77>> -> !xetile.tile<32x32xf32, #columns>
    %va = xetile.load_tile %ta {padding = 3.0 : f32} : !xetile.tile<32x32xf32> -> vector<32x32xf32>
    %vb = xetile.load_tile %tb : !xetile.tile<32x32xf32, #columns> -> vector<32x32xf32>
    %vd = xetile.load_tile %td {padding = 7.0 : f32} : !xetile.tile<32x32xf32, #columns> -> vector<32x32xf32>
    %ab = arith.addf %va, %vb : vector<32x32xf32>
    %s = arith.addf %ab, %vd : vector<32x32xf32>
    %c = memref.transpose %C (i, j) -> (j, i) : memref<32x32xf32> to memref<32x32xf32, affine_map<(d0, d1) -> (d1 * 32 + d0)>>
    %tc = xetile.init_tile %c[0, 0] : memref<32x32xf32, affine_map<(d0, d1) -> (d1 * 32 + d0)>> -> !xetile.tile<32x32xf32, #columns>
    xetile.store_tile %s, %tc : vector<32x32xf32>, !xetile.tile<32x32xf32, #columns>
    gpu.return
  }
}
"""  # noqa: E501
BUFFER = """
#slm = #xetile.tile_attr<memory_space = 3>
#columns = #xetile.tile_attr<order = [0, 1], memory_space = 3>
gpu.module @m {
  gpu.func @buffer(%A: memref<16x32xf16>, %B: memref<16x32xf32>, %C: memref<32x16xf16>, %D: memref<8x64xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1024 = arith.constant 1024 : index
    %bytes = memref.alloc() : memref<3072xi8, 3>
    %half = memref.view %bytes[%c0][] : memref<3072xi8, 3> to memref<16x32xf16, 3>
    %single = memref.view %bytes[%c1024][] : memref<3072xi8, 3> to memref<16x32xf32, 3>
    %turned = memref.transpose %half (i, j) -> (j, i) : memref<16x32xf16, 3> to memref<32x16xf16, strided<[1, 32]>, 3>
    %wide = memref.reinterpret_cast %single to offset: [0], sizes: [8, 64], strides: [64, 1] : memref<16x32xf32, 3> to memref<8x64xf32, 3>
    %ta = xetile.init_tile %A[0, 0] : memref<16x32xf16> -> !xetile.tile<16x32xf16>
    %tb = xetile.init_tile %B[0, 0] : memref<16x32xf32> -> !xetile.tile<16x32xf32>
    %va = xetile.load_tile %ta : !xetile.tile<16x32xf16> -> vector<16x32xf16>
    %vb = xetile.load_tile %tb : !xetile.tile<16x32xf32> -> vector<16x32xf32>
    %th = xetile.init_tile %half[0, 0] : memref<16x32xf16, 3> -> !xetile.tile<16x32xf16, #slm>
    %ts = xetile.init_tile %single[0, 0] : memref<16x32xf32, 3> -> !xetile.tile<16x32xf32, #slm>
    xetile.store_tile %va, %th : vector<16x32xf16>, !xetile.tile<16x32xf16, #slm>
    xetile.store_tile %vb, %ts : vector<16x32xf32>, !xetile.tile<16x32xf32, #slm>
    gpu.barrier
    %tt = xetile.init_tile %turned[0, 0] : memref<32x16xf16, strided<[1, 32]>, 3> -> !xetile.tile<32x16xf16, #columns>
    %tw = xetile.init_tile %wide[0, 0] : memref<8x64xf32, 3> -> !xetile.tile<8x64xf32, #slm>
    %vt = xetile.load_tile %tt : !xetile.tile<32x16xf16, #columns> -> vector<32x16xf16>
    %vw = xetile.load_tile %tw : !xetile.tile<8x64xf32, #slm> -> vector<8x64xf32>
    %tc = xetile.init_tile %C[0, 0] : memref<32x16xf16> -> !xetile.tile<32x16xf16>
    %td = xetile.init_tile %D[0, 0] : memref<8x64xf32> -> !xetile.tile<8x64xf32>
    xetile.store_tile %vt, %tc : vector<32x16xf16>, !xetile.tile<32x16xf16>
    xetile.store_tile %vw, %td : vector<8x64xf32>, !xetile.tile<8x64xf32>
    gpu.return
  }
}
"""  # noqa: E501
HALVES = """
gpu.module @m {
  gpu.func @halves(%A: memref<16x16xi32>, %B: memref<8x16xi32>, %C: memref<8x32xi32>, %k: index) kernel {
    %c0 = arith.constant 0 : index
    %c512 = arith.constant 512 : index
    %s = memref.alloc() : memref<1024xi8, 3>
    %all = memref.view %s[%c0][] : memref<1024xi8, 3> to memref<16x16xi32, 3>
    %shift = arith.muli %k, %c512 : index
    %one = memref.view %s[%shift][] : memref<1024xi8, 3> to memref<8x16xi32, 3>
    %row = memref.reinterpret_cast %all to offset: [40], sizes: [8, 32], strides: [16, 1] : memref<16x16xi32, 3> to memref<8x32xi32, strided<[16, 1], offset: 40>, 3>
    %ta = xetile.init_tile %A[0, 0] : memref<16x16xi32> -> !xetile.tile<16x16xi32>
    %va = xetile.load_tile %ta : !xetile.tile<16x16xi32> -> vector<16x16xi32>
    %ts = xetile.init_tile %all[0, 0] : memref<16x16xi32, 3> -> !xetile.tile<16x16xi32>
    xetile.store_tile %va, %ts : vector<16x16xi32>, !xetile.tile<16x16xi32>
    gpu.barrier
    %to = xetile.init_tile %one[0, 0] : memref<8x16xi32, 3> -> !xetile.tile<8x16xi32>
    %vo = xetile.load_tile %to : !xetile.tile<8x16xi32> -> vector<8x16xi32>
    %tb = xetile.init_tile %B[0, 0] : memref<8x16xi32> -> !xetile.tile<8x16xi32>
    xetile.store_tile %vo, %tb : vector<8x16xi32>, !xetile.tile<8x16xi32>
    %tr = xetile.init_tile %row[0, 0] : memref<8x32xi32, strided<[16, 1], offset: 40>, 3> -> !xetile.tile<8x32xi32>
    %vr = xetile.load_tile %tr : !xetile.tile<8x32xi32> -> vector<8x32xi32>
    %tc = xetile.init_tile %C[0, 0] : memref<8x32xi32> -> !xetile.tile<8x32xi32>
    xetile.store_tile %vr, %tc : vector<8x32xi32>, !xetile.tile<8x32xi32>
    gpu.return
  }
}
"""  # noqa: E501
SCATTERED = """
#scattered = #xetile.tile_attr<scattered = true>
gpu.module @m {
  gpu.func @pick(%A: memref<500xf32>, %I: memref<8x16xi32>, %C: memref<8x16xf32>) kernel {
    %all = arith.constant dense<true> : vector<8x16xi1>
    %a = memref.reinterpret_cast %A to offset: [100], sizes: [400], strides: [1] : memref<500xf32> to memref<400xf32, strided<[1], offset: 100>>
    %ti = xetile.init_tile %I[0, 0] : memref<8x16xi32> -> !xetile.tile<8x16xi32>
    %i = xetile.load_tile %ti : !xetile.tile<8x16xi32> -> vector<8x16xi32>
    %index = arith.index_cast %i : vector<8x16xi32> to vector<8x16xindex>
    %t = xetile.init_tile %a, %index : memref<400xf32, strided<[1], offset: 100>>, vector<8x16xindex> -> !xetile.tile<8x16xf32, #scattered>
    %v = xetile.load %t, %all : !xetile.tile<8x16xf32, #scattered>, vector<8x16xi1> -> vector<8x16xf32>
    %tc = xetile.init_tile %C[0, 0] : memref<8x16xf32> -> !xetile.tile<8x16xf32>
    xetile.store_tile %v, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
    gpu.return
  }
}
"""  # noqa: E501


def kernel(text: str, name: str, where: str, target: str) -> Any:
    if where == "opencl:cpu":
        require_device(where)
    return xt.parse(text)[name].on(where, target=target)


def padded(view: Any, row: int, column: int, shape: tuple[int, int], padding: float) -> Any:
    """The part of a view that a tile covers, with padding outside of it."""
    result = np.full(shape, padding, view.dtype)
    part = view[row:row + shape[0], column:column + shape[1]]
    result[:part.shape[0], :part.shape[1]] = part
    return result


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_arguments(where: str, target: str) -> None:
    rng, strided = np.random.default_rng(9), np.lib.stride_tricks.as_strided
    a, b, d = (rng.integers(-99, 99, shape).astype(np.float32) for shape in (2000, (45, 38), (3, 40, 48)))
    c, o, i = np.zeros((32, 32), np.float32), 111, 3
    want = padded(strided(a[o:], (30, 29), (33 * 4, 4)), i, 1, (32, 32), 3) + padded(b.T, 1, i, (32, 32), 0) + padded(
        strided(d.ravel()[77:], (25, 31), (4, 160)), i, i, (32, 32), 7)
    kernel(ARGUMENTS, "arguments", where, target)[1](a, b, d, c, o, i)
    np.testing.assert_array_equal(c, want.T)


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_buffer_of_bytes(where: str, target: str) -> None:
    rng = np.random.default_rng(10)
    a, b = rng.integers(-99, 99, (16, 32)).astype(np.float16), rng.integers(-99, 99, (16, 32)).astype(np.float32)
    c, d = np.zeros((32, 16), np.float16), np.zeros((8, 64), np.float32)
    kernel(BUFFER, "buffer", where, target)[1](a, b, c, d)
    np.testing.assert_array_equal(c, a.T)
    np.testing.assert_array_equal(d, b.reshape(8, 64))


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_overlapping_views(where: str, target: str, k: int) -> None:
    a = np.random.default_rng(11).integers(-99, 99, (16, 16)).astype(np.int32)
    b, c = np.zeros((8, 16), np.int32), np.zeros((8, 32), np.int32)
    kernel(HALVES, "halves", where, target)[1](a, b, c, k)
    np.testing.assert_array_equal(b, a[8 * k:8 * k + 8])
    np.testing.assert_array_equal(c, np.lib.stride_tricks.as_strided(a.ravel()[40:], (8, 32), (64, 4)))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_scattered_tile_on_a_view(where: str, target: str) -> None:
    rng = np.random.default_rng(12)
    a, index = rng.integers(-99, 99, 500).astype(np.float32), rng.integers(-100, 400, (8, 16)).astype(np.int32)
    c = np.zeros((8, 16), np.float32)
    kernel(SCATTERED, "pick", where, target)[1](a, index, c)
    np.testing.assert_array_equal(c, a[100 + index])


def test_views_are_arrays_of_their_own() -> None:
    printed = str(xt.parse(BUFFER))
    assert re.search(r"%\w+ = memref.alloc\(\) : memref<16x32xf16, 3", printed)
    assert printed.count("memref.alloc()") == 2
    assert str(xt.parse(printed)) == printed


HEAD = """gpu.module @m { gpu.func @f(%A: memref<64xi8>, %B: memref<64x64xf32>, %n: index) kernel {
%c0 = arith.constant 0 : index
%c6 = arith.constant 6 : index
%s = memref.alloc() : memref<2048xi8, 3>
"""
TILE = "-> !xetile.tile<8x16xf32>"


@pytest.mark.parametrize(("lines", "code"), [
    (f"%v = memref.view %s[%c6][] : memref<2048xi8, 3> to memref<8x16xf32, 3>\n"
     f"%t = xetile.init_tile %v[0, 0] : memref<8x16xf32, 3> {TILE}", "XT2614"),
    (f"%v = memref.view %A[%c0][] : memref<64xi8> to memref<4x4xf32>\n"
     f"%t = xetile.init_tile %v[0, 0] : memref<4x4xf32> {TILE}", "XT2613"),
    ("%v = memref.view %B[%c0][] : memref<64x64xf32> to memref<4x4xf32>", "XT2002"),
    (f"%v = memref.view %s[%c0][] : memref<2048xi8, 3> to memref<8x16xf32, 3>\n"
     f"%w = memref.view %s[%c0][] : memref<2048xi8, 3> to memref<8x32xf16, 3>\n"
     f"%t = xetile.init_tile %v[0, 0] : memref<8x16xf32, 3> {TILE}\n"
     "%u = xetile.init_tile %w[0, 0] : memref<8x32xf16, 3> -> !xetile.tile<8x32xf16>", "XT2616"),
    ("%v = memref.reinterpret_cast %B to offset: [3], sizes: [8, 16], strides: [64, 2] : memref<64x64xf32> to "
     f"memref<8x16xf32, strided<[64, 2], offset: 3>>\n%t = xetile.init_tile %v[0, 0] : "
     f"memref<8x16xf32, strided<[64, 2], offset: 3>> {TILE}", "XT2617"),
    ("%v = memref.transpose %B (i, j) -> (i, i) : memref<64x64xf32> to memref<64x64xf32>", "XT2610"),
    ("%v = memref.transpose %B (i, j) -> (j, i) : memref<64x64xf32> to memref<64x64xf32, strided<[1, 64]>>\n"
     "%p = memref.extract_aligned_pointer_as_index %v : memref<64x64xf32, strided<[1, 64]>> -> index", "XT2080"),
])
def test_mistakes(lines: str, code: str) -> None:
    with pytest.raises(xt.TextError, match=code) as caught:
        xt.parse(f"{HEAD}{lines}\ngpu.return\n}} }}", "kernel.mlir")
    assert "kernel.mlir:" in str(caught.value)


ROWS_IN_A_LINE = """func.func @f(%A: memref<64x64xf32>, %C: memref<16x16xf32>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %m = memref.alloc() : memref<1024xf32, 3>
  %ta = xetile.init_tile %A[8, 16] : memref<64x64xf32> -> !xetile.tile<8x16xf32>
  %a = xetile.load_tile %ta : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %s = xetile.init_tile %m[%c8, 7], [20, PITCH], [PITCH, 1] : memref<1024xf32, 3> -> !xetile.tile<8x16xf32, #slm>
  xetile.store_tile %a, %s : vector<8x16xf32>, !xetile.tile<8x16xf32, #slm>
  gpu.barrier
  %b = xetile.load_tile %s : !xetile.tile<8x16xf32, #slm> -> vector<8x16xf32>
  %t = xetile.init_tile %m[10, 12], [20, PITCH], [PITCH, 1] : memref<1024xf32, 3> -> !xetile.tile<4x8xf32, #slm>
  %c = xetile.load_tile %t : !xetile.tile<4x8xf32, #slm> -> vector<4x8xf32>
  %tb = xetile.init_tile %C[%c0, %c0] : memref<16x16xf32> -> !xetile.tile<8x16xf32>
  xetile.store_tile %b, %tb : vector<8x16xf32>, !xetile.tile<8x16xf32>
  %tc = xetile.init_tile %C[%c8, 3] : memref<16x16xf32> -> !xetile.tile<4x8xf32>
  xetile.store_tile %c, %tc : vector<4x8xf32>, !xetile.tile<4x8xf32>
  func.return
}"""


@pytest.mark.parametrize("pitch", [37, 48])
@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_rows_on_shared_memory_of_one_dimension(where: str, target: str, pitch: int) -> None:
    """Sizes and strides say where the rows lie; they do not overlap."""
    if where == "opencl:cpu":
        require_device(where)
    text = "#slm = #xetile.tile_attr<memory_space = 3>\n" + ROWS_IN_A_LINE.replace("PITCH", str(pitch))
    a, c = np.random.default_rng(6).integers(-99, 99, (64, 64)).astype(np.float32), np.zeros((16, 16), np.float32)
    expected = c.copy()
    expected[:8], expected[8:12, 3:11] = a[8:16, 16:32], a[10:14, 21:29]
    xt.parse(text)["f"].on(where, target=target)[1](a, c)
    np.testing.assert_array_equal(c, expected)
