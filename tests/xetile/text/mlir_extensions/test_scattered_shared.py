"""Scattered tiles and atomic updates of shared local memory, in texts of mlir-extensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

EXECUTIONS = [("numpy", "pvc"), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc"),
              ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]

PERMUTE = """
#scattered = #xetile.tile_attr<scattered = true, memory_space = 3>
gpu.module @m {
  gpu.func @permute(%A: memref<8x32xf32>, %I: memref<8x32xi32>, %C: memref<8x32xf32>, %D: memref<8x32xf32>) kernel {
    %limit = arith.constant dense<256> : vector<8x32xi32>
    %all = arith.constant dense<true> : vector<8x32xi1>
    %s = memref.alloc() : memref<8x32xf32, 3>
    %ta = xetile.init_tile %A[0, 0] : memref<8x32xf32> -> !xetile.tile<8x32xf32>
    %va = xetile.load_tile %ta : !xetile.tile<8x32xf32> -> vector<8x32xf32>
    %ts = xetile.init_tile %s[0, 0] : memref<8x32xf32, 3> -> !xetile.tile<8x32xf32, #xetile.tile_attr<memory_space = 3>>
    xetile.store_tile %va, %ts : vector<8x32xf32>, !xetile.tile<8x32xf32, #xetile.tile_attr<memory_space = 3>>
    gpu.barrier
    %ti = xetile.init_tile %I[0, 0] : memref<8x32xi32> -> !xetile.tile<8x32xi32>
    %i = xetile.load_tile %ti : !xetile.tile<8x32xi32> -> vector<8x32xi32>
    %mask = arith.cmpi ult, %i, %limit : vector<8x32xi32>
    %index = arith.index_cast %i : vector<8x32xi32> to vector<8x32xindex>
    %g = xetile.init_tile %s, %index : memref<8x32xf32, 3>, vector<8x32xindex> -> !xetile.tile<8x32xf32, #scattered>
    %v = xetile.load %g, %mask {padding = 7.0 : f32} : !xetile.tile<8x32xf32, #scattered>, vector<8x32xi1> -> vector<8x32xf32>
    %tc = xetile.init_tile %C[0, 0] : memref<8x32xf32> -> !xetile.tile<8x32xf32>
    xetile.store_tile %v, %tc : vector<8x32xf32>, !xetile.tile<8x32xf32>
    gpu.barrier
    xetile.store %va, %g, %mask : vector<8x32xf32>, !xetile.tile<8x32xf32, #scattered>, vector<8x32xi1>
    gpu.barrier
    %w = xetile.load_tile %ts : !xetile.tile<8x32xf32, #xetile.tile_attr<memory_space = 3>> -> vector<8x32xf32>
    %td = xetile.init_tile %D[0, 0] : memref<8x32xf32> -> !xetile.tile<8x32xf32>
    xetile.store_tile %w, %td : vector<8x32xf32>, !xetile.tile<8x32xf32>
    gpu.return
  }
}
"""  # noqa: E501
HISTOGRAM = """
#map = #xetile.wg_map<sg_layout = [4, 1], sg_data = [8, 32]>
#bins = #xetile.wg_map<sg_layout = [4, 1], sg_data = [2, 16]>
#scattered = #xetile.tile_attr<scattered = true, wg_map = #map>
#slm = #xetile.tile_attr<memory_space = 3, wg_map = #bins>
#t = #xetile.tile_attr<wg_map = #map>
#b = #xetile.tile_attr<wg_map = #bins>
gpu.module @m {
  gpu.func @histogram(%I: memref<32x32xi32>, %H: memref<8x16xi32>) kernel {
    %zero = arith.constant {map = #bins} dense<0> : vector<8x16xi32>
    %one = arith.constant {map = #map} dense<1> : vector<32x32xi32>
    %s = memref.alloc() : memref<8x16xi32, 3>
    %ts = xetile.init_tile %s[0, 0] : memref<8x16xi32, 3> -> !xetile.tile<8x16xi32, #slm>
    xetile.store_tile %zero, %ts : vector<8x16xi32>, !xetile.tile<8x16xi32, #slm>
    gpu.barrier
    %ti = xetile.init_tile %I[0, 0] : memref<32x32xi32> -> !xetile.tile<32x32xi32, #t>
    %i = xetile.load_tile %ti : !xetile.tile<32x32xi32, #t> -> vector<32x32xi32>
    %index = arith.index_cast %i : vector<32x32xi32> to vector<32x32xindex>
    %g = xetile.init_tile %s, %index : memref<8x16xi32, 3>, vector<32x32xindex> -> !xetile.tile<32x32xi32, #scattered>
    %old = xetile.atomic_rmw addi %one, %g : vector<32x32xi32>, !xetile.tile<32x32xi32, #scattered> -> vector<32x32xi32>
    gpu.barrier
    %more = xetile.load_tile %ts : !xetile.tile<8x16xi32, #slm> -> vector<8x16xi32>
    %twice = xetile.atomic_rmw addi %more, %ts : vector<8x16xi32>, !xetile.tile<8x16xi32, #slm> -> vector<8x16xi32>
    gpu.barrier
    %h = xetile.load_tile %ts : !xetile.tile<8x16xi32, #slm> -> vector<8x16xi32>
    %th = xetile.init_tile %H[0, 0] : memref<8x16xi32> -> !xetile.tile<8x16xi32, #b>
    xetile.store_tile %h, %th : vector<8x16xi32>, !xetile.tile<8x16xi32, #b>
    gpu.return
  }
}
"""


def kernel(text: str, name: str, where: str, target: str) -> Any:
    if where == "opencl:cpu":
        require_device(where)
    return xt.parse(text)[name].on(where, target=target)


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_gather_and_scatter(where: str, target: str) -> None:
    rng = np.random.default_rng(11)
    a = rng.integers(-99, 99, (8, 32)).astype(np.float32)
    c, d = np.zeros_like(a), np.zeros_like(a)
    index = rng.permutation(256).reshape(8, 32).astype(np.int32)
    index[rng.random((8, 32)) < 0.2] = -5
    kernel(PERMUTE, "permute", where, target)[1](a, index, c, d)
    kept = index >= 0
    np.testing.assert_array_equal(c, np.where(kept, a.ravel()[np.where(kept, index, 0)], 7))
    want = a.ravel().copy()
    want[index[kept]] = a[kept]
    np.testing.assert_array_equal(d.ravel(), want)


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_atomic_updates(where: str, target: str) -> None:
    index = np.random.default_rng(12).integers(0, 128, (32, 32)).astype(np.int32)
    counts = np.zeros((8, 16), np.int32)
    kernel(HISTOGRAM, "histogram", where, target)[1](index, counts)
    np.testing.assert_array_equal(counts.ravel(), 2 * np.bincount(index.ravel(), minlength=128))


def test_the_sanitizer_takes_scattered_elements_as_written() -> None:
    """Shared local memory that only a scatter writes is read without a finding; so are counts that atomics update."""
    text = PERMUTE.replace("    xetile.store_tile %va, %ts : vector<8x32xf32>, !xetile.tile<8x32xf32, "
                           "#xetile.tile_attr<memory_space = 3>>\n", "")
    first, last = text.index("    %v = xetile.load %g"), text.index("    gpu.barrier\n    xetile.store %va")
    rng = np.random.default_rng(13)
    a, index = rng.random((8, 32)).astype(np.float32), rng.permutation(256).astype(np.int32).reshape(8, 32)
    c, d = np.zeros_like(a), np.zeros_like(a)
    xt.parse(text[:first] + text[last:])["permute"].on("numpy", check=True)[1](a, index, c, d)
    assert (d.ravel()[index] == a).all()
    counts, bins = np.zeros((8, 16), np.int32), rng.integers(0, 128, (32, 32)).astype(np.int32)
    xt.parse(HISTOGRAM)["histogram"].on("numpy", check=True)[1](bins, counts)
    assert counts.sum() == 2 * 32 * 32
