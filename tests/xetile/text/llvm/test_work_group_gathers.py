"""Positions, gathers and scatters of a work-group's vectors are printed as LLVM's, and read back to what they mean."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_mlir_opt
from tests.kernels import Execution

EXECUTIONS = [Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("opencl:cpu", "pvc")]


def accepted(text: str) -> str:
    """A text as mlir-opt prints it."""
    done = subprocess.run([require_mlir_opt()], input=text.encode(), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[:2000]
    return done.stdout.decode()


@xt.kernel
def permuted(A: Any, B: Any, N: Any, *, stride: int) -> None:
    """Rows of A in another order, which end at N and have -3 behind; elements of A and B lie one after the other."""
    shape, map_ = (32, 64), xt.wg_map((2, 2), (16, 32))
    row, column = (xt.iota(shape, axis, xt.index, wg_map=map_) for axis in (0, 1))
    number = xt.iota(shape, 1, xt.i32, wg_map=map_)
    at = (31 - row) * stride + column
    v = xt.load_gather(xt.init_tile(A, at), number < N.to(xt.i32), padding=-3.0)
    xt.store_scatter(v + number.to(xt.f32), xt.init_tile(B, row * stride + column), row < 29)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_positions(execution: Execution) -> None:
    a = np.random.default_rng(1).integers(-99, 99, 32 * 70).astype(np.float32)
    b = np.full(32 * 70, 7, np.float32)
    expected = b.copy().reshape(32, 70)
    kept = np.where(np.arange(64) < 41, a.reshape(32, 70)[::-1, :64], -3) + np.arange(64)
    expected[:29, :64] = kept[:29]
    line = xt.Spec((None,), "f32")
    printed = permuted.lower(line, line, 41, target="pvc", stride=70).xegpu_upstream_workgroup
    for text in (printed, accepted(printed)):
        found = b.copy()
        execution.bind(xt.parse(text)["permuted"])[1](a, found, 41)
        np.testing.assert_array_equal(found.reshape(32, 70), expected)


MAPS = "#c = #xegpu.layout<sg_layout = [2, 2], sg_data = [16, 32]>\n" \
       "#b = #xegpu.layout<sg_layout = [2, 2], sg_data = [32, 32]>\n"
BIAS = MAPS + """
gpu.module @m {
  gpu.func @bias(%A: memref<32x64xbf16>, %B: memref<64x64xbf16>, %D: memref<64xf32>, %C: memref<32x64xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %a = xegpu.create_nd_tdesc %A : memref<32x64xbf16> -> !xegpu.tensor_desc<32x32xbf16, #c>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xbf16> -> !xegpu.tensor_desc<32x64xbf16, #b>
    %d = xegpu.create_nd_tdesc %D : memref<64xf32> -> !xegpu.tensor_desc<64xf32, #xegpu.slice<#c, dims = [0]>>
    %c = xegpu.create_nd_tdesc %C : memref<32x64xf32> -> !xegpu.tensor_desc<32x64xf32, #c>
    %zero = arith.constant {layout_result_0 = #c} dense<0.0> : vector<32x64xf32>
    %r = scf.for %k = %c0 to %c64 step %c32 iter_args(%acc = %zero) -> (vector<32x64xf32>) {
      %x = xegpu.load_nd %a[0, %k] : !xegpu.tensor_desc<32x32xbf16, #c> -> vector<32x32xbf16>
      %y = xegpu.load_nd %b[%k, 0] : !xegpu.tensor_desc<32x64xbf16, #b> -> vector<32x64xbf16>
      %n = xegpu.dpas %x, %y, %acc {layout_result_0 = #c}
        : vector<32x32xbf16>, vector<32x64xbf16>, vector<32x64xf32> -> vector<32x64xf32>
      scf.yield %n : vector<32x64xf32>
    }
    %v = xegpu.load_nd %d[0] : !xegpu.tensor_desc<64xf32, #xegpu.slice<#c, dims = [0]>> -> vector<64xf32>
    %w = vector.broadcast %v {layout_result_0 = #c} : vector<64xf32> to vector<32x64xf32>
    %s = arith.addf %r, %w {layout_result_0 = #c} : vector<32x64xf32>
    xegpu.store_nd %s, %c[0, 0] : vector<32x64xf32>, !xegpu.tensor_desc<32x64xf32, #c>
    gpu.return
  }
}
"""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_product_with_a_bias_of_one_dimension(execution: Execution) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-9, 10, shape).astype(xt.bf16.numpy) for shape in ((32, 64), (64, 64)))
    d = rng.integers(-99, 99, 64).astype(np.float32)
    kernel = xt.parse(BIAS)["bias"]
    specs = xt.Spec((32, 64), "bf16"), xt.Spec((64, 64), "bf16"), xt.Spec((64,), "f32"), xt.Spec((32, 64), "f32")
    lowered = kernel.lower(*specs, target="pvc")
    printed = accepted(lowered.xegpu_upstream_workgroup), accepted(lowered.xegpu_upstream)
    for text in (BIAS, *printed):
        c = np.full((32, 64), 7, np.float32)
        execution.bind(xt.parse(text)["bias"])[1](a, b, d, c)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32) + d)
