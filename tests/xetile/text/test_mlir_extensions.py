"""``xt.parse`` reads the spelling that mlir-extensions ended with, in gpu.module and gpu.func; the kernels run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc

EXECUTIONS = [(where, target) for where in ("numpy", "numpy:xegpu", "opencl:cpu") for target in ("pvc", "dg2", "cpu")]

GEMM = """
module @gemm attributes {gpu.container_module} {
  memref.global "private" constant @__zeros : memref<4xf16> = dense<0.0>
  func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}
  func.func @test(%A: memref<64x96xf16>, %B: memref<96x64xf16>) -> memref<64x64xf32> attributes {llvm.emit_c_interface} {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %A_gpu = gpu.alloc host_shared () : memref<64x96xf16>
    gpu.launch_func @test_kernel::@test_kernel blocks in (%c2, %c2, %c1) threads in (%c2, %c2, %c1)
        args(%A_gpu : memref<64x96xf16>, %B_gpu : memref<96x64xf16>, %C_gpu : memref<64x64xf32>)
    return %C_gpu : memref<64x64xf32>
  }
  gpu.module @test_kernel attributes {spirv.target_env = #spirv.target_env<#spirv.vce<v1.4, [Addresses, Float16Buffer,
      Int64], [SPV_EXT_shader_atomic_float_add]>, api=OpenCL, #spirv.resource_limits<>>} {
    gpu.func @test_kernel(%A: memref<64x96xf16>, %B: memref<96x64xf16>, %C: memref<64x64xf32>) kernel attributes {VectorComputeFunctionINTEL, spirv.entry_point_abi = #spirv.entry_point_abi<>} {
      %c0 = arith.constant 0 : index
      %c16 = arith.constant 16 : index
      %c32 = arith.constant 32 : index
      %c96 = arith.constant 96 : index
      %block_id_x = gpu.block_id x
      %block_dim_x = gpu.block_dim x
      %thread_id_x = gpu.thread_id x
      %global_id_y = gpu.global_id y
      %first = arith.muli %block_id_x, %block_dim_x : index
      %sg_x = arith.addi %first, %thread_id_x : index
      %m = arith.muli %sg_x, %c16 : index
      %n = arith.muli %global_id_y, %c16 : index
      %ta = xetile.init_tile %A[%m, %c0] : memref<64x96xf16> -> !xetile.tile<16x32xf16>
      %tb = xetile.init_tile %B[%c0, %n] : memref<96x64xf16> -> !xetile.tile<32x16xf16>
      %tc = xetile.init_tile %C[%m, %n] : memref<64x64xf32> -> !xetile.tile<16x16xf32>
      %zero = arith.constant dense<0.0> : vector<16x16xf32>
      %out:3 = scf.for %k = %c0 to %c96 step %c32 iter_args(%a = %ta, %b = %tb, %acc = %zero)
          -> (!xetile.tile<16x32xf16>, !xetile.tile<32x16xf16>, vector<16x16xf32>) {
        %va = xetile.load_tile %a {padding = 0.000000e+00 : f32} : !xetile.tile<16x32xf16> -> vector<16x32xf16>
        %vb = xetile.load_tile %b {padding = 0.000000e+00 : f32} : !xetile.tile<32x16xf16> -> vector<32x16xf16>
        xetile.prefetch_tile %a {l1_hint = #xetile.cache_hint<uncached>, l2_hint = #xetile.cache_hint<cached>} : !xetile.tile<16x32xf16>
        %c = xetile.tile_mma %va, %vb, %acc : vector<16x32xf16>, vector<32x16xf16>, vector<16x16xf32> -> vector<16x16xf32>
        %na = xetile.update_tile_offset %a, [%c0, %c32] : !xetile.tile<16x32xf16>
        %nb = xetile.update_tile_offset %b, [%c32, %c0] : !xetile.tile<32x16xf16>, index, index -> !xetile.tile<32x16xf16>
        scf.yield %na, %nb, %c : !xetile.tile<16x32xf16>, !xetile.tile<32x16xf16>, vector<16x16xf32>
      }
      xetile.store_tile %out#2, %tc : vector<16x16xf32>, !xetile.tile<16x16xf32>
      gpu.return
    }
  }
}
"""  # noqa: E501
WORKGROUP = """
#map_a = #xetile.wg_map<sg_layout = [2, 4], sg_data = [32, 32]>
#map_b = #xetile.wg_map<sg_layout = [2, 4], sg_data = [32, 16]>
#map_c = #xetile.wg_map<sg_layout = [2, 4], sg_data = [32, 16]>
#map_r = #xetile.wg_map<sg_layout = [8, 1], sg_data = [8, 64]>
#map_s = #xetile.wg_map<sg_layout = [8, 1], sg_data = [8, 1]>
#map_bias = #xetile.wg_map<sg_layout = [2, 4], sg_data = [1, 16]>
#tile_attr_a = #xetile.tile_attr<wg_map = #map_a, order = [1, 0], memory_space = 0 : i32, scattered = false>
#tile_attr_bt = #xetile.tile_attr<wg_map = <sg_layout = [4, 2], sg_data = [16, 32]>>
#tile_attr_c = #xetile.tile_attr<wg_map = #map_c>
gpu.module @kernels {
  gpu.func @relu(%A: memref<?x?xf16>, %BT: memref<128x96xf16>, %bias: memref<1x128xf32>, %C: memref<128x128xf32>, %S: memref<128x2xf32>) kernel attributes {VectorComputeFunctionINTEL, known_block_size = array<i32: 2, 4, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %c96 = arith.constant 96 : index
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %m = arith.muli %bx, %c64 : index
    %n = arith.muli %by, %c64 : index
    %h = memref.dim %A, %c0 : memref<?x?xf16>
    %w = memref.dim %BT, %c1 : memref<128x96xf16>
    %ta = xetile.init_tile %A[%m, %c0], [%h, %w], [%w, %c1] : memref<?x?xf16> -> !xetile.tile<64x32xf16, #tile_attr_a>
    %tb = xetile.init_tile %BT[%n, 0] : memref<128x96xf16> -> !xetile.tile<64x32xf16, #tile_attr_bt>
    %tbias = xetile.init_tile %bias[%c0, %n] : memref<1x128xf32> -> !xetile.tile<1x64xf32, #xetile.tile_attr<wg_map = #map_bias>>
    %z = arith.constant {map = #map_c} dense<0.0> : vector<64x64xf32>
    %r:3 = scf.for %k = %c0 to %c96 step %c32 iter_args(%a = %ta, %b = %tb, %acc = %z)
        -> (!xetile.tile<64x32xf16, #tile_attr_a>, !xetile.tile<64x32xf16, #tile_attr_bt>, vector<64x64xf32>) {
      %va = xetile.load_tile %a : !xetile.tile<64x32xf16, #tile_attr_a> -> vector<64x32xf16>
      %vbt = xetile.load_tile %b : !xetile.tile<64x32xf16, #tile_attr_bt> -> vector<64x32xf16>
      %vb0 = xetile.transpose %vbt, [1, 0] : vector<64x32xf16> -> vector<32x64xf16>
      %vb = xetile.convert_layout %vb0 {wg_map_result = #map_b} : vector<32x64xf16>
      %c = xetile.tile_mma %va, %vb, %acc {wg_map_a = #map_a, wg_map_b = #map_b, wg_map_c = #map_c} : vector<64x32xf16>, vector<32x64xf16>, vector<64x64xf32> -> vector<64x64xf32>
      %na = xetile.update_tile_offset %a, [%c0, %c32] : !xetile.tile<64x32xf16, #tile_attr_a>
      %nb = xetile.update_tile_offset %b, [%c0, %c32] : !xetile.tile<64x32xf16, #tile_attr_bt>
      scf.yield %na, %nb, %c : !xetile.tile<64x32xf16, #tile_attr_a>, !xetile.tile<64x32xf16, #tile_attr_bt>, vector<64x64xf32>
    }
    %vbias = xetile.load_tile %tbias : !xetile.tile<1x64xf32, #xetile.tile_attr<wg_map = #map_bias>> -> vector<1x64xf32>
    %bb = xetile.broadcast %vbias [0] {wg_map = #map_c} : vector<1x64xf32> -> vector<64x64xf32>
    %sum = arith.addf %r#2, %bb {map = #map_c} : vector<64x64xf32>
    %half = arith.constant dense<0.5> : vector<64x64xf32>
    %scaled = arith.mulf %sum, %half {layout_result_0 = #map_c} : vector<64x64xf32>
    %zero = arith.constant dense<0.0> : vector<64x64xf32>
    %positive = arith.cmpf ogt, %scaled, %zero : vector<64x64xf32>
    %relu = arith.select %positive, %scaled, %zero : vector<64x64xi1>, vector<64x64xf32>
    %tc = xetile.init_tile %C[%m, %n] : memref<128x128xf32> -> !xetile.tile<64x64xf32, #tile_attr_c>
    xetile.store_tile %relu, %tc : vector<64x64xf32>, !xetile.tile<64x64xf32, #tile_attr_c>
    %rows = xetile.convert_layout %relu {wg_map_source = #map_c, wg_map_result = #map_r} : vector<64x64xf32> -> vector<64x64xf32>
    %total = xetile.reduction <add>, %rows [1] {map = #map_s} : vector<64x64xf32> -> vector<64x1xf32>
    %ts = xetile.init_tile %S[%m, %by] : memref<128x2xf32> -> !xetile.tile<64x1xf32, #xetile.tile_attr<wg_map = #map_s>>
    xetile.store_tile %total, %ts : vector<64x1xf32>, !xetile.tile<64x1xf32, #xetile.tile_attr<wg_map = #map_s>>
    gpu.return
  }
}
"""  # noqa: E501
SHARED = """
gpu.module @m {
  gpu.func @rotate(%A: memref<64x64xf16>, %C: memref<64x64xf32>, %alpha: f32, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c3 = arith.constant 3 : i32
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %by = gpu.block_dim y
    %first = arith.muli %tx, %by : index
    %linear = arith.addi %first, %ty : index
    %s = memref.alloc() : memref<64x32xf16, 3>
    %row = arith.muli %linear, %c16 : index
    %ta = xetile.init_tile %A[%row, %c0] : memref<64x64xf16> -> !xetile.tile<16x32xf16>
    %ts = xetile.init_tile %s[%row, %c0] : memref<64x32xf16, 3> -> !xetile.tile<16x32xf16, #xetile.tile_attr<memory_space = 3>>
    %va = xetile.load_tile %ta : !xetile.tile<16x32xf16> -> vector<16x32xf16>
    xetile.store_tile %va, %ts : vector<16x32xf16>, !xetile.tile<16x32xf16, #xetile.tile_attr<memory_space = 3>>
    gpu.barrier
    %next = arith.addi %linear, %c1 : index
    %other = arith.remui %next, %c4 : index
    %row2 = arith.muli %other, %c16 : index
    %ts2 = xetile.init_tile %s[%row2, %c0] : memref<64x32xf16, slm> -> !xetile.tile<16x32xf16, #xetile.tile_attr<memory_space = 3>>
    %v = xetile.load_tile %ts2 : !xetile.tile<16x32xf16, #xetile.tile_attr<memory_space = 3>> -> vector<16x32xf16>
    %f = arith.extf %v : vector<16x32xf16> to vector<16x32xf32>
    %al = vector.splat %alpha : vector<16x32xf32>
    %scaled = arith.mulf %f, %al fastmath<fast> : vector<16x32xf32>
    %g = arith.negf %scaled : vector<16x32xf32>
    %i = arith.index_cast %c3 : i32 to index
    %small = arith.cmpi slt, %n, %i : index
    %result = scf.if %small -> (vector<16x32xf32>) {
      %e = math.absf %g : vector<16x32xf32>
      scf.yield %e : vector<16x32xf32>
    } else {
      scf.yield %g : vector<16x32xf32>
    }
    %tc = xetile.init_tile %C[%row, %c0] : memref<64x64xf32> -> !xetile.tile<16x32xf32>
    xetile.store_tile %result, %tc : vector<16x32xf32>, !xetile.tile<16x32xf32>
    gpu.return
  }
}
"""  # noqa: E501
TEXTS = {"test_kernel": GEMM, "relu": WORKGROUP, "rotate": SHARED}


def integers(shape: tuple[int, ...], dtype: Any = np.float16, seed: int = 5) -> Any:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("name", TEXTS)
def test_text_goes_round(name: str) -> None:
    module = xt.parse(TEXTS[name])
    assert list(module) == [name]
    assert "gpu.func @" in str(module)
    assert "  gpu.return" in str(module)
    assert str(xt.parse(str(module))) == str(module)
    assert str(module[name]) == str(xt.parse(str(module[name]))[name])


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_gemm_of_subgroups(where: str, target: str) -> None:
    """The host's launch says grid and subgroups, so none is passed here."""
    if where == "opencl:cpu":
        require_device(where)
    a, b, c = integers((64, 96)), integers((96, 64), seed=6), np.zeros((64, 64), np.float32)
    xt.parse(GEMM)["test_kernel"].on(where, target=target)(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_work_group_with_maps(where: str, target: str) -> None:
    if where == "opencl:cpu":
        require_device(where)
    a, bt, bias = integers((128, 96)), integers((128, 96), seed=7), integers((1, 128), np.float32, 8)
    want = np.maximum((a.astype(np.float32) @ bt.T.astype(np.float32) + bias) / 2, 0)
    c, sums = np.zeros((128, 128), np.float32), np.zeros((128, 2), np.float32)
    xt.parse(WORKGROUP)["relu"].on(where, target=target)[2, 2](a, bt, bias, c, sums)
    np.testing.assert_array_equal(c, want)
    np.testing.assert_array_equal(sums, want.reshape(128, 2, 64).sum(2))


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_shared_memory_and_branches(where: str, target: str, n: int) -> None:
    if where == "opencl:cpu":
        require_device(where)
    a, c = integers((64, 64)), np.zeros((64, 64), np.float32)
    want = -2 * np.roll(a[:, :32].astype(np.float32).reshape(4, 16, 32), -1, 0).reshape(64, 32)
    xt.parse(SHARED)["rotate"].on(where, target=target, subgroups=(2, 2))[1](a, c, 2.0, n)
    np.testing.assert_array_equal(c[:, :32], abs(want) if n < 3 else want)
    assert not c[:, 32:].any()


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_every_stage_reads_back_and_runs(where: str) -> None:
    a, b = integers((64, 96)), integers((96, 64), seed=6)
    want = a.astype(np.float32) @ b.astype(np.float32)
    for stage, text in xt.parse(GEMM)["test_kernel"].lower(a, b, want).stages.items():
        module = xt.parse(text)
        assert str(module) == text, stage
        assert "gpu.module @test_kernel attributes {spirv.target_env = #spirv.target_env<#spirv.vce<v1.4" in text
        c = np.zeros((64, 64), np.float32)
        module["test_kernel"].on(where)(a, b, c)
        np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_machine_code(target: str) -> None:
    require_ocloc()
    specs = [xt.Spec((64, 96), xt.f16), xt.Spec((96, 64), xt.f16), xt.Spec((64, 64), xt.f32)]
    report = xt.parse(GEMM)["test_kernel"].lower(*specs, target=target).report()
    assert report.spill_size == 0
    assert report.mix.whole.categories["dpas"] > 0


@pytest.mark.parametrize("block", [(2, 2, 1), (4, 1, 1), (1, 4, 1), (1, 2, 2)])
def test_threads_count_subgroups(block: tuple[int, int, int]) -> None:
    """x runs over the first number of the block, y over the second; together they are all subgroups."""
    text = """
gpu.module @m { gpu.func @where(%C: memref<64x32xf32>) kernel attributes {known_block_size = array<i32: X, Y, Z>} {
  %x = gpu.thread_id x
  %y = gpu.thread_id y
  %z = gpu.thread_id z
  %ny = gpu.block_dim y
  %nz = gpu.block_dim z
  %all = gpu.num_subgroups : index
  %xy0 = arith.muli %x, %ny : index
  %xy = arith.addi %xy0, %y : index
  %xyz0 = arith.muli %xy, %nz : index
  %row = arith.addi %xyz0, %z : index
  %c8 = arith.constant 8 : index
  %c100 = arith.constant 100 : index
  %at = arith.muli %row, %c8 : index
  %x100 = arith.muli %x, %c100 : index
  %xall = arith.addi %x100, %all : index
  %i = arith.index_cast %xall : index to i32
  %f = arith.sitofp %i : i32 to f32
  %v = vector.broadcast %f : f32 to vector<8x16xf32>
  %t = xetile.init_tile %C[%at, 0] : memref<64x32xf32> -> !xetile.tile<8x16xf32>
  xetile.store_tile %v, %t : vector<8x16xf32>, !xetile.tile<8x16xf32>
  gpu.return
} }"""
    for letter, size in zip("XYZ", block, strict=True):
        text = text.replace(f" {letter}", f" {size}")
    want = [100 * (row // (block[1] * block[2])) + 4 for row in range(4)]
    for where in ("numpy", "numpy:xegpu"):
        c = np.zeros((64, 32), np.float32)
        xt.parse(text)["where"].on(where)[1](c)
        np.testing.assert_array_equal(c[:32:8, 0], want)
        assert not c[32:].any()


def test_nothing_says_how_many_subgroups() -> None:
    a, c = integers((64, 64)), np.zeros((64, 64), np.float32)
    kernel = xt.parse(SHARED)["rotate"]
    with pytest.raises(xt.ShapeError, match="XT2025") as caught:
        kernel.on("numpy")[1](a, c, 2.0, 1)
    assert "known_block_size" in str(caught.value)
    with pytest.raises(xt.ArgumentError, match="XT2024"):
        xt.parse(GEMM)["test_kernel"].on("numpy", subgroups=(2, 2))(a, a, c)


HEAD = """#m = #xetile.wg_map<sg_layout = [2, 1], sg_data = [8, 16]>
#other = #xetile.wg_map<sg_layout = [1, 2], sg_data = [16, 8]>
gpu.module @m { gpu.func @f(%A: memref<32x32xf32>, %C: memref<32x32xf32>, %i: index) kernel {
%c0 = arith.constant 0 : index
%t = xetile.init_tile %A[%c0, 0] : memref<32x32xf32> -> !xetile.tile<16x16xf32, #m>
%v = xetile.load_tile %t : !xetile.tile<16x16xf32, #m> -> vector<16x16xf32>
"""


@pytest.mark.parametrize(("line", "message", "hint"), [
    ("%x = arith.addf %v, %v {map = #other} : vector<16x16xf32>",
     "distributed as wg_map(sg_layout=[1, 2], sg_data=[16, 8]), and what it is computed with as "
     "wg_map(sg_layout=[2, 1], sg_data=[8, 16])", "tile_conv_layout"),
    ("%x = arith.addf %v, %v {mapp = #other} : vector<16x16xf32>", "no attribute mapp", "did you mean map?"),
    ("%x = xetile.load_tile %t {pading = 1.0} : !xetile.tile<16x16xf32, #m> -> vector<16x16xf32>",
     "no attribute pading", "did you mean padding?"),
    ("%x = xetile.load_tile %t : !xetile.tile<16x16xf32, #mm> -> vector<16x16xf32>", "#mm is not defined",
     "did you mean #m?"),
    ("%x = xetile.load_tile %tt : !xetile.tile<16x16xf32, #m> -> vector<16x16xf32>", "%tt is not defined above",
     "did you mean %t?"),
    ("%x = xetile.load_tile %t : !xetile.tile<16x16xf32> -> vector<16x16xf32>",
     "%t is !xetile.tile<16x16xf32, #xetile.tile_attr<wg_map", "write !xetile.tile"),
    ("%x = xetile.laod_tile %t : !xetile.tile<16x16xf32> -> vector<16x16xf32>", "no operation xetile.laod_tile",
     "did you mean xetile.load_tile?"),
    ("%x = xetile.reduction <ad>, %v [1] : vector<16x16xf32> -> vector<16x1xf32>", "f32 has no reduction 'ad'",
     "use one of: add"),
    ("%x = xetile.reduction <add>, %v [2] : vector<16x16xf32> -> vector<16x1xf32>", "not dimensions to reduce",
     "use [0]"),
    ("%x = xetile.transpose %v, [0, 1] : vector<16x16xf32> -> vector<16x16xf32>", "its permutation is [1, 0]", ""),
    ("%x = xetile.convert_layout %v {wg_map_source = #other, wg_map_result = #m} : vector<16x16xf32>",
     "the vector is distributed as wg_map(sg_layout=[2, 1]", "leave the second map out"),
    ("%x = xetile.convert_layout %v : vector<16x16xf32>", "needs the map of its result", "wg_map ="),
    ("%x = xetile.init_tile %A[%c0, 0] : memref<32x32xf32> -> !xetile.tile<8x16xf32, #xetile.tile_attr<memory_space = "
     "3>>", "the tile is in memory space 3", "drop memory_space"),
    ("%x = xetile.init_tile %A[%c0, 0] : memref<32x32xf32> -> !xetile.tile<8x16xf32, #xetile.tile_attr<odrer = "
     "[1, 0]>>", "a tile_attr has no field odrer", "did you mean order?"),
    ("%x = xetile.init_tile %A[%c0, 0] : memref<32x32xf32> -> !xetile.tile<8x16xf32, #xetile.tile_attr<sg_map = "
     "<wi_layout = [3, 5], wi_data = [1, 1]>>>", "has 15 lanes", "8, 16 or 32"),
    ("%x = xetile.init_tile %A[%c0] : memref<32x32xf32> -> !xetile.tile<8x16xf32>", "takes 2 offsets, not 1", ""),
    ("xetile.prefetch_tile %t {l1_hint = #xetile.cache_hint<cache>} : !xetile.tile<16x16xf32, #m>",
     "no cache hint cache", "did you mean cached?"),
    ("xetile.store_tile %v, %v : vector<16x16xf32>, vector<16x16xf32>", "it takes a tile and a vector", ""),
    ("%x = arith.constant dense<[[[1.0, 2.0]]]> : vector<1x1x2xf32>", "elements differ", "vector<1x32xf32>"),
    ("%x = arith.constant dense<1.0> : vector<1x2x16xf32>", "has 3 dimensions", "vector<1x32xf32>"),
    ("%p = xetile.tile_pack %v {inner_blocks = [8, 16]} : vector<16x16xf32> -> vector<2x1x8x16xf32>\n"
     "%x = vector.extract %v[0] : vector<16xf32> from vector<16x16xf32>", "a vector is a tile", "tile_reduce"),
    ("%x = gpu.lane_id", "gpu.lane_id cannot be a part of a kernel", "docs/text.md"),
    ("%x = memref.alloca() : memref<4x4xf32>", "memref.alloca cannot be a part of a kernel", "docs/text.md"),
    ("%x = gpu.thread_id w", "along x, y or z, not w", "gpu.thread_id x"),
    ("%x = memref.dim %A, %i : memref<32x32xf32>", "which dimension is meant is not known", "constant index"),
    ("%b = vector.splat %i : vector<16x16xindex>\n%x = xetile.load_tile %t\n%y = arith.addf %v, %v : vector<16x16xf32>",
     "its types are missing", "behind a colon"),
])
def test_mistakes(line: str, message: str, hint: str) -> None:
    text = HEAD + line + "\ngpu.return\n} }\n"
    with pytest.raises(xt.TextError, match=re.escape(message)) as caught:
        xt.parse(text, "kernel.mlir")
    shown = str(caught.value)
    assert "kernel.mlir:" in shown
    assert hint in shown.rpartition("  help: ")[2]
    execution = caught.value.location
    assert execution is not None
    assert 1 <= execution.line <= text.count("\n")


def test_maps_that_a_product_derives() -> None:
    text = """#a = #xetile.wg_map<sg_layout = [2, 2], sg_data = [8, 32]>
#b = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 16]>
#wrong = #xetile.wg_map<sg_layout = [2, 2], sg_data = [16, 16]>
gpu.module @m { gpu.func @f(%A: memref<16x32xf16>, %B: memref<32x32xf16>) kernel {
%ta = xetile.init_tile %A[0, 0] : memref<16x32xf16> -> !xetile.tile<16x32xf16, #a>
%tb = xetile.init_tile %B[0, 0] : memref<32x32xf16> -> !xetile.tile<32x32xf16, #b>
%a = xetile.load_tile %ta : !xetile.tile<16x32xf16, #a> -> vector<16x32xf16>
%b = xetile.load_tile %tb : !xetile.tile<32x32xf16, #b> -> vector<32x32xf16>
%c = xetile.tile_mma %a, %b : vector<16x32xf16>, vector<32x32xf16> -> vector<16x32xf32>
gpu.return
} }"""
    assert "{wg_map = #xetile.wg_map<sg_layout = [2, 2], sg_data = [8, 16]>} : vector<16x32xf16>" in str(xt.parse(text))
    with pytest.raises(xt.TextError, match="XT1412"):
        xt.parse(text.replace("tile_mma %a, %b", "tile_mma %a, %b {wg_map = #wrong}"))
    with pytest.raises(xt.TextError, match="XT2076"):
        xt.parse(text.replace("tile_mma %a, %b", "tile_mma %a, %b {#wrong #b #a}"))


def test_scattered_tiles() -> None:
    tile = "!xetile.tile<1x16xf32, #xetile.tile_attr<scattered = true>>"
    text = f"""gpu.module @m {{ gpu.func @f(%A: memref<4096xf32>, %i: vector<1x16xindex>, %m: vector<1x16xi1>) kernel {{
%t = xetile.init_tile %A, %i : memref<4096xf32>, vector<1x16xindex> -> {tile}
%x = xetile.load %t, %m {{padding = 1.0 : f32}} : {tile}, vector<1x16xi1> -> vector<1x16xf32>
xetile.store %x, %t, %m : vector<1x16xf32>, {tile}, vector<1x16xi1>
%u = xetile.update_tile_offset %t, %i : {tile}, vector<1x16xindex>
%old = xetile.atomic_rmw addf %x, %u : vector<1x16xf32>, {tile} -> vector<1x16xf32>
gpu.return
}} }}"""
    printed = str(xt.parse(text))
    for name in ("load_gather", "store_scatter", "atomic_rmw_tile <addf>"):
        assert f"xetile.{name}" in printed
    assert str(xt.parse(printed)) == printed


SCATTERED = """
#scattered = #xetile.tile_attr<scattered = true>
gpu.module @m {
  gpu.func @pick(%A: memref<64x64xf32>, %I: memref<8x32xi32>, %C: memref<8x32xf32>, %D: memref<64x64xf32>) kernel {
    %limit = arith.constant dense<4096> : vector<8x32xi32>
    %ti = xetile.init_tile %I[0, 0] : memref<8x32xi32> -> !xetile.tile<8x32xi32>
    %i = xetile.load_tile %ti : !xetile.tile<8x32xi32> -> vector<8x32xi32>
    %mask = arith.cmpi ult, %i, %limit : vector<8x32xi32>
    %index = arith.index_cast %i : vector<8x32xi32> to vector<8x32xindex>
    %ta = xetile.init_tile %A, %index : memref<64x64xf32>, vector<8x32xindex> -> !xetile.tile<8x32xf32, #scattered>
    %v = xetile.load %ta, %mask {padding = 7.0 : f32} : !xetile.tile<8x32xf32, #scattered>, vector<8x32xi1> -> vector<8x32xf32>
    %tc = xetile.init_tile %C[0, 0] : memref<8x32xf32> -> !xetile.tile<8x32xf32>
    xetile.store_tile %v, %tc : vector<8x32xf32>, !xetile.tile<8x32xf32>
    %td = xetile.init_tile %D, %index : memref<64x64xf32>, vector<8x32xindex> -> !xetile.tile<8x32xf32, #scattered>
    xetile.store %v, %td, %mask : vector<8x32xf32>, !xetile.tile<8x32xf32, #scattered>, vector<8x32xi1>
    gpu.return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_gather_and_scatter(where: str, target: str) -> None:
    if where == "opencl:cpu":
        require_device(where)
    rng = np.random.default_rng(3)
    a, c, d = integers((64, 64), np.float32), np.zeros((8, 32), np.float32), np.zeros((64, 64), np.float32)
    index = rng.permutation(4096)[:256].reshape(8, 32).astype(np.int32)
    index[rng.random((8, 32)) < 0.3] = -99_999_999
    held = index >= 0
    xt.parse(SCATTERED)["pick"].on(where, target=target)[1](a, index, c, d)
    np.testing.assert_array_equal(c, np.where(held, a.ravel()[np.where(held, index, 0)], 7))
    want = np.zeros(4096, np.float32)
    want[index[held]] = c[held]
    np.testing.assert_array_equal(d.ravel(), want)


def test_a_kernel_returns_nothing() -> None:
    with pytest.raises(xt.TextError, match="XT3282") as caught:
        xt.parse(HEAD + "gpu.return %i : index\n} }\n")
    assert "array argument" in str(caught.value)


def test_kernels_of_one_name() -> None:
    with pytest.raises(xt.TextError, match="XT2010"):
        xt.parse(HEAD + "gpu.return\n} }\n" + HEAD[HEAD.index("gpu.module"):].replace("@m", "@n") +
                 "gpu.return\n} }\n")


def test_what_a_cache_hint_says_is_kept() -> None:
    text = HEAD + "xetile.prefetch_tile %t {l1_hint = #xetile.cache_hint<uncached>, l3_hint = " \
        "#xetile.cache_hint<cached>} : !xetile.tile<16x16xf32, #m>\ngpu.return\n} }\n"
    printed = str(xt.parse(text))
    assert "l1_hint = #xetile.cache_hint<uncached>, l3_hint = #xetile.cache_hint<cached>, locality = 2" in printed


def test_a_hint_beside_offsets_of_loads() -> None:
    """``xegpu.compile_hint`` without a hint, in a kernel whose other operations are those of LLVM's form."""
    text = """gpu.module @m {
  gpu.func @f(%A: memref<64x64xf32>, %C: memref<64x64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A[8, 16] : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %a : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    xegpu.compile_hint
    %c = xegpu.create_nd_tdesc %C[0, 32] : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    xegpu.store_nd %v, %c : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
}"""
    array, out = np.arange(4096, dtype=np.float32).reshape(64, 64), np.zeros((64, 64), np.float32)
    xt.parse(text)["f"].on("numpy")[1](array, out)
    np.testing.assert_array_equal(out[:8, 32:48], array[8:16, 16:32])
