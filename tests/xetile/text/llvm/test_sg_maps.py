"""LLVM 19 and 20 spell lane layouts ``sg_map``: on descriptors of whole blocks, and of fragments of two dimensions."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_mlir_opt
from tests.kernels import Execution

EXECUTIONS = [Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("opencl:cpu", "pvc")]
M, N, K = 24, 48, 64


def sg_map(layout: str, data: str) -> str:
    return f"#xegpu.sg_map<wi_layout = [{layout}], wi_data = [{data}]>"


ACC = sg_map("1, 16", "1, 1")
TYPES = {  # of A and B: the depth of a product, their maps, and a lane's fragments
    "f16": (16, ACC, sg_map("1, 16", "2, 1"), "8x1", "8x2"),
    "bf16": (16, sg_map("2, 8", "1, 2"), sg_map("1, 16", "2, 1"), "4x2", "8x2"),
    "i8": (32, sg_map("1, 16", "1, 2"), sg_map("1, 16", "4, 1"), "8x2", "8x4"),
    "tf32": (8, sg_map("2, 8", "1, 1"), ACC, "4x1", "8x1"),
}


def gemm(element: str, fragments: bool) -> str:
    """A product with a loop, of fragments or of whole blocks with the same maps."""
    depth, map_a, map_b, of_a, of_b = TYPES[element]
    out, packed = ("i32" if element == "i8" else "f32"), " <{packed}>" if of_b != "8x1" else ""
    factor = {"f16": 2, "bf16": 2, "i8": 4, "tf32": 1}[element]
    if not fragments:
        of_a, of_b = f"8x{depth}", f"{depth // factor}x16x{factor}" if packed else f"{depth}x16"
    of_c, zero = "8x1" if fragments else "8x16", "0" if out == "i32" else "0.000000e+00"
    desc_a, desc_b, desc_c = (f"!xegpu.tensor_desc<{shape}x{type_}, {map_}>" for shape, type_, map_ in (
        (f"8x{depth}", element, "#a"), (f"{depth}x16", element, "#b"), ("8x16", out, "#c")))
    maps = "{sg_map_a = #a, sg_map_b = #b, sg_map_c = #c}" if fragments else "{sg_map = #c}"
    cached = "<{l1_hint = #xegpu.cache_hint<cached>, l2_hint = #xegpu.cache_hint<uncached>}>"
    absolute = "math.absi" if out == "i32" else "math.absf"
    return f"""
#a = {map_a}
#b = {map_b}
#c = {ACC}
gpu.module @test {{
  gpu.func @gemm(%A: memref<{M}x{K}x{element}>, %B: memref<{K}x{N}x{element}>, %C: memref<{M}x{N}x{out}>) kernel {{
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %k = arith.constant {K} : index
    %step = arith.constant {depth} : index
    %x = gpu.block_id x
    %y = gpu.block_id y
    %m = arith.muli %x, %c8 : index
    %n = arith.muli %y, %c16 : index
    %zero = arith.constant dense<{zero}> : vector<{of_c}x{out}>
    %r = scf.for %i = %c0 to %k step %step iter_args(%acc = %zero) -> (vector<{of_c}x{out}>) {{
      %0 = xegpu.create_nd_tdesc %A[%m, %i] : memref<{M}x{K}x{element}> -> {desc_a}
      %1 = xegpu.load_nd %0 {cached} : {desc_a} -> vector<{of_a}x{element}>
      %2 = xegpu.create_nd_tdesc %B[%i, %n] : memref<{K}x{N}x{element}> -> {desc_b}
      %3 = xegpu.load_nd %2{packed} : {desc_b} -> vector<{of_b}x{element}>
      %4 = xegpu.dpas %1, %3, %acc {maps} : vector<{of_a}x{element}>, vector<{of_b}x{element}>, vector<{of_c}x{out}>
        -> vector<{of_c}x{out}>
      scf.yield %4 : vector<{of_c}x{out}>
    }}
    %e = {absolute} %r {{sg_map = #c}} : vector<{of_c}x{out}>
    %5 = xegpu.create_nd_tdesc %C[%m, %n] : memref<{M}x{N}x{out}> -> {desc_c}
    xegpu.store_nd %e, %5 : vector<{of_c}x{out}>, {desc_c}
    gpu.return
  }}
}}
"""


def operands(element: str) -> tuple[Any, Any, Any, Any]:
    """A, B, C and the result; integers whose sums are exact."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-9, 9, shape) for shape in ((M, K), (K, N)))
    out = np.int32 if element == "i8" else np.float32
    if element == "tf32":
        arrays = [xt.view(value.astype(np.float32), xt.tf32) for value in (a, b)]
    else:
        arrays = [value.astype(getattr(xt, element).numpy) for value in (a, b)]
    return arrays[0], arrays[1], np.full((M, N), 7, out), np.abs(a @ b).astype(out)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("fragments", [True, False])
@pytest.mark.parametrize("element", TYPES)
def test_gemm(element: str, fragments: bool, execution: Execution) -> None:
    a, b, c, expected = operands(element)
    execution.bind(xt.parse(gemm(element, fragments))["gemm"])[M // 8, N // 16](a, b, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("fragments", [True, False])
def test_it_is_printed_in_the_present_spelling(fragments: bool) -> None:
    a, b, c, expected = operands("f16")
    kernel = xt.parse(gemm("f16", fragments))["gemm"]
    specs = xt.Spec((M, K), "f16"), xt.Spec((K, N), "f16"), xt.Spec((M, N), "f32")
    printed = kernel.lower(*specs, target="pvc").xegpu_upstream
    assert "sg_map" not in printed
    done = subprocess.run([require_mlir_opt()], input=printed.encode(), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[:2000]
    xt.parse(done.stdout.decode())["gemm"].on("numpy")[M // 8, N // 16](a, b, c)
    np.testing.assert_array_equal(c, expected)


TURNED = f"""
gpu.module @test {{
  gpu.func @turned(%A: memref<64x64xf32>, %C: memref<64x64xf32>) kernel {{
    %0 = xegpu.create_nd_tdesc %A[8, 16] : memref<64x64xf32> -> !xegpu.tensor_desc<16x8xf32, {sg_map("16, 1", "1, 1")}>
    %1 = xegpu.load_nd %0 <{{transpose = array<i64: 1, 0>}}>
      : !xegpu.tensor_desc<16x8xf32, {sg_map("16, 1", "1, 1")}> -> vector<8x1xf32>
    %2 = xegpu.create_nd_tdesc %C[24, 32] : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32, {ACC}>
    xegpu.store_nd %1, %2 : vector<8x1xf32>, !xegpu.tensor_desc<8x16xf32, {ACC}>
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_transposed_fragment(execution: Execution) -> None:
    a, c = np.random.default_rng(2).normal(size=(64, 64)).astype(np.float32), np.full((64, 64), 7, np.float32)
    expected = c.copy()
    expected[24:32, 32:48] = a[8:24, 16:24].T
    execution.bind(xt.parse(TURNED)["turned"])[1](a, c)
    np.testing.assert_array_equal(c, expected)


CONVERTED = f"""
gpu.module @test {{
  gpu.func @converted(%A: memref<64x64xf32>, %C: memref<64x64xf32>) kernel {{
    %0 = xegpu.create_nd_tdesc %A[8, 16] : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32, {sg_map("2, 8", "1, 1")}>
    %1 = xegpu.load_nd %0 : !xegpu.tensor_desc<8x16xf32, {sg_map("2, 8", "1, 1")}> -> vector<8x1xf32>
    %w = xegpu.convert_layout %1 {{srcMap = {sg_map("2, 8", "1, 1")}, resMap = {ACC}}} : vector<8x1xf32>
    %2 = xegpu.create_nd_tdesc %C[24, 32] : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32, {ACC}>
    xegpu.store_nd %w, %2 : vector<8x1xf32>, !xegpu.tensor_desc<8x16xf32, {ACC}>
    gpu.return
  }}
}}
"""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_converted_fragment(execution: Execution) -> None:
    a, c = np.random.default_rng(2).normal(size=(64, 64)).astype(np.float32), np.full((64, 64), 7, np.float32)
    expected = c.copy()
    expected[24:32, 32:48] = a[8:16, 16:32]
    execution.bind(xt.parse(CONVERTED)["converted"])[1](a, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize(("old", "new", "code", "line"), [
    ("store_nd %w", "store_nd %1", "XT3515", 8),  # the fragment of another map
    ("vector<8x1xf32>", "vector<4x1xf32>", "XT3107", 5),
    ("wi_layout = [2, 8], wi_data = [1, 1]", "wi_layout = [16, 1], wi_data = [1, 1]", "XT3503", 5),
    ("wi_layout = [2, 8]", "wi_layout = [2, 0]", "XT3501", 4),
])
def test_wrong_maps_are_refused(old: str, new: str, code: str, line: int) -> None:
    assert old in CONVERTED
    with pytest.raises(xt.XeError) as caught:
        xt.parse(CONVERTED.replace(old, new))
    assert caught.value.code == code
    assert caught.value.location is not None
    assert caught.value.location.line == line
