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
