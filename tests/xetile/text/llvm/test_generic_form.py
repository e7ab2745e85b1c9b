"""Texts as mlir-opt prints them otherwise: in the generic form, with locations, canonicalized."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_mlir_opt
from tests.kernels import Execution
from tests.xetile.text.llvm.test_features import TEXTS, module, run

_KERNELS = {name: (Path(__file__).parent / "kernels" / f"{name}.mlir").read_text()
            for name in ("subgroup_gemm", "workgroup_gemm", "lane_gemm")}
_ALL = {**TEXTS, **_KERNELS}
GENERIC, LOCATIONS = "--mlir-print-op-generic", "--mlir-print-debuginfo"


def printed(text: str, *options: str) -> str:
    """A text as mlir-opt prints it."""
    done = subprocess.run([require_mlir_opt(), *options], input=text, text=True, capture_output=True, check=True)
    return done.stdout


def unnamed(kernel: Any) -> str:
    """Text of a kernel without the names of its values, which the generic form has not."""
    return re.sub(r"%[\w#]+", "%", str(kernel.module))


@pytest.mark.parametrize("options", [(GENERIC,), (LOCATIONS,), (GENERIC, LOCATIONS)], ids=" ".join)
@pytest.mark.parametrize("file", _ALL)
def test_it_is_read_as_the_custom_form(file: str, options: tuple[str, ...]) -> None:
    kernels, again = xt.parse(_ALL[file]), xt.parse(printed(_ALL[file], *options))
    assert list(kernels) == list(again)
    for name, kernel in kernels.items():
        assert unnamed(again[name]) == unnamed(kernel)


@pytest.mark.parametrize("file", ["anchors", "control_flow", "reshapes"])
def test_what_is_canonicalized_in_the_generic_form_means_the_same(file: str) -> None:
    again = xt.parse(printed(TEXTS[file], GENERIC, "--canonicalize", "--cse"))
    for name in module(file):
        run(again[name], name, Execution("numpy", "pvc"))


REDUCED = """
gpu.module @m {
  gpu.func @summed(%A: memref<32x64xf32>, %L: memref<500xf32>, %C: memref<32x64xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %zero = arith.constant dense<2.0> : vector<32xf32>
    %t = xegpu.create_nd_tdesc %A : memref<32x64xf32> -> !xegpu.tensor_desc<32x64xf32, #layout>
    %v = xegpu.load_nd %t[0, 0] : !xegpu.tensor_desc<32x64xf32, #layout> -> vector<32x64xf32>
    %r = vector.multi_reduction <add>, %v, %zero {layout_result_0 = #xegpu.slice<#layout, dims = [1]>} [1] : vector<32x64xf32> to vector<32xf32>
    %s = vector.shape_cast %r : vector<32xf32> to vector<32x1xf32>
    %b = vector.broadcast %s {layout_result_0 = #layout} : vector<32x1xf32> to vector<32x64xf32>
    gpu.barrier
    %u = xegpu.create_nd_tdesc %C : memref<32x64xf32> -> !xegpu.tensor_desc<32x64xf32, #layout>
    xegpu.store_nd %b, %u[0, 0] : vector<32x64xf32>, !xegpu.tensor_desc<32x64xf32, #layout>
    gpu.return
  }
}
""".replace("#layout", "#xegpu.layout<sg_layout = [4, 1], sg_data = [8, 64]>")  # noqa: E501


@pytest.mark.parametrize("execution", [Execution("numpy", "pvc"), Execution("opencl:cpu", "pvc")], ids=str)
def test_a_work_groups_reduction(execution: Execution) -> None:
    rng = np.random.default_rng(6)
    a, c = (rng.integers(-9, 9, (32, 64)).astype(np.float32) for _ in range(2))
    execution.bind(xt.parse(printed(REDUCED, GENERIC))["summed"])[1](a, np.zeros(500, np.float32), c)
    np.testing.assert_array_equal(c, np.broadcast_to(a.sum(1, keepdims=True) + 2, c.shape))


def test_barriers_of_other_scopes_are_refused() -> None:
    text = printed(REDUCED, GENERIC)
    assert "barrier_scope<workgroup>" in text
    with pytest.raises(xt.TextError) as caught:
        xt.parse(text.replace("barrier_scope<workgroup>", "barrier_scope<cluster>"), "kernel.mlir")
    assert "kernel.mlir:" in str(caught.value)


TRANSFERS = """
func.func @product(%A: memref<20x40xf16>, %B: memref<30x40xf16>, %C: memref<24x40xf32>) {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0.0 : f16
  %nine = arith.constant 9.0 : f32
  %a = vector.transfer_read %A[%c3, %c3], %zero : memref<20x40xf16>, vector<16x32xf16>
  %b = vector.transfer_read %B[%c3, %c3], %zero {permutation_map = affine_map<(d0, d1) -> (d1, d0)>} : memref<30x40xf16>, vector<32x16xf16>
  %c = vector.transfer_read %C[%c0, %c3], %nine {in_bounds = [true, true]} : memref<24x40xf32>, vector<16x16xf32>
  %d = vector.contract {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %c : vector<16x32xf16>, vector<32x16xf16> into vector<16x16xf32>
  %e = vector.fma %d, %d, %d : vector<16x16xf32>
  vector.transfer_write %e, %C[%c0, %c3] : vector<16x16xf32>, memref<24x40xf32>
  return
}
"""  # noqa: E501


@pytest.mark.parametrize("options", [(GENERIC,), (GENERIC, "--canonicalize"), (LOCATIONS,)], ids=" ".join)
@pytest.mark.parametrize("execution", [Execution("numpy", "pvc"), Execution("numpy:xegpu", "dg2"),
                                       Execution("opencl:cpu", "pvc")], ids=str)
def test_transfers(execution: Execution, options: tuple[str, ...]) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((20, 40), (30, 40)))
    c = rng.integers(-9, 9, (24, 40)).astype(np.float32)
    want, wide = c.copy(), np.zeros((48, 80), np.float32)
    left, right = wide.copy(), wide.copy()
    left[:20, :40], right[:30, :40] = a, b
    product = left[3:19, 3:35] @ right[3:19, 3:35].T + c[:16, 3:19]
    want[:16, 3:19] = product * product + product
    execution.bind(xt.parse(printed(TRANSFERS, *options))["product"])[1](a, b, c)
    np.testing.assert_array_equal(c, want)
