"""Kernels in the spelling of XeGPU.md run everywhere, and their machine code has the instructions that are meant."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc
from tests.kernels import EXECUTIONS, Execution

bf16 = np.dtype(ml_dtypes.bfloat16)


def memory(values: np.ndarray[Any, Any]) -> tuple[Any, np.uint64]:
    """Memory that host and CPU device share with an array's values in it, and its address."""
    import dpctl.memory

    shared = dpctl.memory.MemoryUSMShared(values.nbytes, queue=require_device())
    shared.copy_from_host(values.view(np.uint8).reshape(-1))
    return shared, np.uint64(shared._pointer)


def small(seed: int, shape: tuple[int, ...], dtype: Any = bf16) -> np.ndarray[Any, Any]:
    """Integers that sums of a few products stay exact with."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


LINES = """
func.func @lines(%A: memref<264xbf16>, %mem_addr: uint64, %C: memref<264xbf16>) {
  %x = gpu.block_id x
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %step = arith.muli %x, %c64 : index
  %offset = arith.addi %step, %c8 : index
  #tdesc_attr1 = !xegpu.tdesc_attr< memory_scope=global, boundary_check=false>
  #tdesc_attr2 = !xegpu.tdesc_attr< memory_scope=slm, boundary_check=false>
  %a = XeGPU.create_nd_tdesc %A, %offset : memref<264xbf16>, index into tensor_desc<32xbf16, #tdesc_attr1>
  %b = XeGPU.create_nd_tdesc %mem_addr, %offset:
\t\tuint64, index into tensor_desc<32xbf16, #tdesc_attr1>
  %c = XeGPU.create_nd_tdesc %C, %offset : memref<264xbf16>, index into tensor_desc<32xbf16, #tdesc_attr1>
  %slm = memref.alloc() : memref<64xbf16, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<64xbf16, slm> -> index
  %slm_addr = arith.index_cast %at : index to i64
  %s = XeGPU.create_nd_tdesc %slm_addr, %c32:
\t\tuint64, index into tensor_desc<32xbf16, #tdesc_attr2>
  XeGPU.prefetch_nd %a: tensor_desc<32xbf16>
  %av = XeGPU.load_nd %a {L1_hint = uncached, L3_hint = uncached} : tensor_desc<32xbf16> into vector<32xbf16>
  %bv = XeGPU.load_nd %b : tensor_desc<32xbf16> into vector<32xbf16>
  %one = arith.constant dense<1.0> : vector<32xbf16>
  %twice = scf.for %i = %c0 to %c64 step %c32 iter_args(%sum = %one) -> (vector<32xbf16>) {
    %next = arith.addf %sum, %av : vector<32xbf16>
    scf.yield %next : vector<32xbf16>
  }
  %t = arith.addf %twice, %bv : vector<32xbf16>
  XeGPU.store_nd %t, %s : vector<32xbf16>, tensor_desc<32xbf16, #tdesc_attr2>
  %u = XeGPU.load_nd %s : tensor_desc<32xbf16, #tdesc_attr2> into vector<32xbf16>
  XeGPU.store_nd %u, %c : vector<32xbf16>, tensor_desc<32xbf16>
  %moved = XeGpu.update_nd_offset %c, %c32 : tensor_desc<32xbf16>, index into tensor_desc<32xbf16>
  XeGPU.store_nd %bv, %moved : vector<32xbf16>, tensor_desc<32xbf16>
  func.return
}
"""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_lines(execution: Execution) -> None:
    a, b, c = small(1, (264,)), small(2, (264,)), np.full(264, 7, bf16)
    kept, address = memory(b)
    expected = np.full(264, 7, np.float32)
    sums = 1 + 2 * a.astype(np.float32) + b.astype(np.float32)
    for start in range(8, 200, 64):
        expected[start:start + 32] = sums[start:start + 32]
        expected[start + 32:start + 64] = b[start:start + 32]
    where = kept.sycl_queue if execution.where.startswith("opencl") else execution.where
    xt.parse(LINES)["lines"].on(where, target=execution.target)[3,](a, address, c)
    np.testing.assert_array_equal(c.astype(np.float32), expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_lines_are_block_messages_without_checks(target: str) -> None:
    require_ocloc()
    lowered = xt.parse(LINES)["lines"].lower(small(1, (264,)), np.uint64(64), small(1, (264,)), target=target)
    assert "checked" not in lowered.opencl
    assert "intel_sub_group_block_read_us2" in lowered.opencl
    report = lowered.report()
    assert (report.spill_size, report.private_size) == (0, 0)


SCATTERED = """
func.func @scattered(%mem_addr: uint64, %C: memref<64x16xui16>, %S: memref<16xi32>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c128 = arith.constant 128 : index
  %x = gpu.block_id x
  %row = arith.muli %x, %c16 : index
  %next = arith.addi %row, %c8 : index
  %iota = xegpu.iota %c0 {axis = 1 : i64} : vector<1x16xindex>
  %lanes = vector.shape_cast %iota : vector<1x16xindex> into vector<16xindex>
  %eight = arith.constant dense<8> : vector<16xindex>
  %first = arith.muli %lanes, %eight : vector<16xindex>
  %ahead = arith.muli %x, %c128 : index
  %group = vector.broadcast %ahead : index to vector<16xindex>
  %mask = arith.constant dense<true> : vector<16xi1>
  %four = arith.constant dense<4> : vector<16xindex>
  %some = arith.cmpi ne, %lanes, %four : vector<16xindex>

  %here = XeGPU.create_tdesc %mem_addr, %first :
     \tuint64, Vector<16 x index>, into tensor_desc<16x8 x uint16, #scattered>
  %tdesc_updated = XeGpu.update_offsets %here, %group:
  \ttensor_desc<16x8xuint16, #scattered>, vector<16xindex>, into tensor_desc<16x8xuint16, #scattered>
  XeGPU.prefetch %tdesc_updated: tensor_desc<16x8xuint16, #scattered>
  %value = XeGPU.load_gather %tdesc_updated, %some {L1 = cached, L2 = uncached, transpose=[1,0]} :
          tensor_desc<16x8xuint16, #Scattered>, vector<16xi1> -> vector<8x16xuint16>
  %c = XeGPU.create_nd_tdesc %C, %row, %c0 : memref<64x16xui16>, index, index into tensor_desc<8x16xui16>
  XeGPU.store_nd %value, %c : vector<8x16xui16>, tensor_desc<8x16xui16>

  %slm = memref.alloc() : memref<256xui16, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<256xui16, slm> -> index
  %base_addr = arith.index_cast %at : index to i64
  #tdesc_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true, chunk_size_per_lane=8>
  %scatter_tdesc_chunk = XeGPU.create_tdesc, %base_addr, %first
\t\tuint64, vector<16xindex> into tensor_desc<16x8xuint16, #tdesc_attr>
  XeGPU.store_scatter %value, %scatter_tdesc_chunk, %mask:
     \t vector<8x16xuint16>, vector<16xi1>, tensor_desc<16x8xuint16, #tdesc_attr>
  gpu.barrier
  %line = XeGPU.create_nd_tdesc %base_addr, %c0 : uint64, index into tensor_desc<16xui16, memory_scope = slm>
  %found = XeGPU.load_nd %line : tensor_desc<16xui16, memory_scope = slm> into vector<16xui16>
  %found_row = vector.shape_cast %found : vector<16xui16> into vector<1x16xui16>
  %d = XeGPU.create_nd_tdesc %C, %next, %c0 : memref<64x16xui16>, index, index into tensor_desc<1x16xui16>
  XeGPU.store_nd %found_row, %d : vector<1x16xui16>, tensor_desc<1x16xui16>

  %ones = arith.constant dense<1> : vector<16xi32>
  %sums = XeGPU.create_tdesc %S, %lanes : memref<16xi32>, vector<16xindex> into tensor_desc<16xint32, #scattered>
  %ret_value = XeGPU.atomic_rmw \u201caddi\u201d %ones, %sums, %some:
          vector<16xint32>, tensor_desc<16xint32, #scattered>, vector<16xi1> to vector<16xint32>
  func.return
}
"""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_single_elements(execution: Execution) -> None:
    a = np.random.default_rng(7).integers(0, 999, (4, 16, 8)).astype(np.uint16)
    kept, address = memory(a)
    c, s = np.full((64, 16), 7, np.uint16), np.zeros(16, np.int32)
    expected = c.copy()
    for group in range(4):
        block = a[group].T.copy()
        block[:, 4] = 0
        expected[16 * group:16 * group + 8] = block
        expected[16 * group + 8] = block.T.reshape(-1)[:16]
    where = kept.sycl_queue if execution.where.startswith("opencl") else execution.where
    xt.parse(SCATTERED)["scattered"].on(where, target=execution.target)[4,](address, c, s)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(s, np.where(np.arange(16) == 4, 0, 4))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_single_elements_are_messages(target: str) -> None:
    require_ocloc()
    specs = [np.uint64(64), xt.Spec((64, 16), "u16"), xt.Spec((16,), "i32")]
    asm = str(xt.parse(SCATTERED)["scattered"].lower(*specs, target=target).isa())
    assert "load.ugm" in asm
    assert "store.slm" in asm
    assert "load.slm" in asm
    assert "atomic_iadd.ugm" in asm or "atomic_iinc.ugm" in asm


LONG = """
func.func @long(%A: memref<256xf32>, %S: memref<32xi32>) {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %iota = xegpu.iota %c0 {axis = 1 : i64} : vector<1x32xindex>
  %lanes = vector.shape_cast %iota : vector<1x32xindex> into vector<32xindex>
  %two = arith.constant dense<2> : vector<32xindex>
  %five = arith.constant dense<5> : vector<32xindex>
  %pairs = arith.muli %lanes, %two : vector<32xindex>
  %rest = arith.remsi %lanes, %five : vector<32xindex>
  %mask = arith.cmpi ne, %rest, %two : vector<32xindex>
  %far = vector.broadcast %c64 : index to vector<32xindex>
  %a = XeGPU.create_tdesc %A, %pairs : memref<256xf32>, vector<32xindex> into tensor_desc<32x2xf32, #scattered>
  %zero = arith.constant dense<0.0> : vector<2x32xf32>
  %r:2 = scf.for %k = %c0 to %c128 step %c64 iter_args(%at = %a, %sum = %zero)
      -> (tensor_desc<32x2xf32, #scattered>, vector<2x32xf32>) {
    XeGPU.prefetch %at : tensor_desc<32x2xf32, #scattered>
    %v = XeGPU.load_gather %at, %mask {transpose = [1,0]} :
      tensor_desc<32x2xf32, #scattered>, vector<32xi1> -> vector<2x32xf32>
    %more = arith.addf %sum, %v : vector<2x32xf32>
    %next = XeGpu.update_offsets %at, %far : tensor_desc<32x2xf32, #scattered>, vector<32xindex>,
      into tensor_desc<32x2xf32, #scattered>
    scf.yield %next, %more : tensor_desc<32x2xf32, #scattered>, vector<2x32xf32>
  }
  %d = XeGpu.update_offsets %r#0, %far : tensor_desc<32x2xf32, #scattered>, vector<32xindex>,
      into tensor_desc<32x2xf32, #scattered>
  XeGPU.store_scatter %r#1, %d, %mask: vector<2x32xf32>, vector<32xi1>, tensor_desc<32x2xf32, #scattered>
  %s = XeGPU.create_tdesc %S, %lanes : memref<32xi32>, vector<32xindex> into tensor_desc<32xint32, #scattered>
  %number = arith.index_cast %lanes : vector<32xindex> to vector<32xi32>
  %old = XeGPU.atomic_rmw "addi" %number, %s, %mask:
          vector<32xint32>, tensor_desc<32xint32, #scattered>, vector<32xi1> to vector<32xint32>
  func.return
}
"""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_more_elements_than_lanes(execution: Execution) -> None:
    """32 elements on every target: two registers of 16 lanes, or four of 8."""
    a, s = small(9, (256,), np.float32), np.full(32, 7, np.int32)
    expected, active = a.copy(), np.arange(32) % 5 != 2
    sums = (a[:64] + a[64:128]).reshape(32, 2)
    expected[192:].reshape(32, 2)[active] = sums[active]
    execution.bind(xt.parse(LONG)["long"])[1,](a, s)
    np.testing.assert_array_equal(a, expected)
    np.testing.assert_array_equal(s, 7 + np.where(active, np.arange(32), 0))


CONSTANTS = """
func.func @constants(%A: memref<64xf32>, %C: memref<64xf32>, %D: memref<4x16xi8>) {
  %c0 = arith.constant 0 : index
  %from = arith.constant dense<[60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0]> : vector<16xindex>
  %to = arith.constant dense<[5, 3, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 61]> : vector<16xindex>
  %mask = arith.constant dense<[1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1]> : vector<16xi1>
  %f = arith.constant dense<[1.0, 2.0, 3.0, 4.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -9.0]>
    : vector<16xf32>
  %two = arith.constant dense<[[7, 7, 7, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
                              [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -2]]> : vector<2x16xi8>
  %a = XeGPU.create_tdesc %A, %from : memref<64xf32>, vector<16xindex> into tensor_desc<16xf32, #scattered>
  %c = XeGPU.create_tdesc %C, %to : memref<64xf32>, vector<16xindex> into tensor_desc<16xf32, #scattered>
  %v = XeGPU.load_gather %a, %mask : tensor_desc<16xf32, #scattered>, vector<16xi1> -> vector<16xf32>
  %w = arith.addf %v, %f : vector<16xf32>
  XeGPU.store_scatter %w, %c, %mask : vector<16xf32>, vector<16xi1>, tensor_desc<16xf32, #scattered>
  %d = XeGPU.create_nd_tdesc %D, %c0, %c0 : memref<4x16xi8>, index, index into tensor_desc<2x16xi8>
  XeGPU.store_nd %two, %d : vector<2x16xi8>, tensor_desc<2x16xi8>
  func.return
}
"""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_constants_whose_elements_differ(execution: Execution) -> None:
    a, c, d = small(10, (64,), np.float32), np.full(64, 7, np.float32), np.full((4, 16), 9, np.int8)
    expected, mask = c.copy(), np.ones(16, bool)
    mask[[3, 12, 13]] = False
    added = np.array([1, 2, 3, 4.5, *[1] * 11, -9], np.float32)
    expected[np.array([5, 3, *range(8, 57, 4), 61])[mask]] = (a[60::-4] + added)[mask]
    execution.bind(xt.parse(CONSTANTS)["constants"])[1,](a, c, d)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(d.reshape(-1), [*[7] * 4, *[1] * 27, -2, *[9] * 32])


GEMM = """
func.func @gemm(%A: memref<24x48xbf16>, %mem_addr: uint64, %C: memref<24x80xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c48 = arith.constant 48 : index
  %c64 = arith.constant 64 : index
  %x = gpu.block_id x
  %y = gpu.block_id y
  %m = arith.muli %x, %c8 : index
  %n = arith.muli %y, %c16 : index
  %tdesc_c = XeGPU.create_nd_tdesc %C, %m, %n : memref<24x80xf32>, index, index into tensor_desc<8x16xfloat>
  %start = XeGPU.load_nd %tdesc_c : tensor_desc<8x16xfloat> into vector<8x16xfloat>
  %tdesc_a = XeGPU.create_nd_tdesc %A, %m, %c0 : memref<24x48xbf16>, index, index into tensor_desc<8x16xbf16>
  %tdesc_b = XeGPU.create_nd_tdesc %mem_addr, %c0, %n, %c48, %c64, %c64, %c1
\t\t: uint64, index, index, index, index, index, index
     \tinto tensor_desc<16x16xbf16>
  %r:3 = scf.for %k = %c0 to %c48 step %c16 iter_args(%ta = %tdesc_a, %tb = %tdesc_b, %sum = %start)
      -> (tensor_desc<8x16xbf16>, tensor_desc<16x16xbf16>, vector<8x16xfloat>) {
    XeGPU.prefetch_nd %tb: tensor_desc<16x16xbf16>
    %vector_a = XeGPU.load_nd %ta {L1_hint = uncached, L3_hint = uncached} :
          tensor_desc<8x16xbf16> into vector<8x16xbf16>
    %vector_b = XeGPU.load_nd %tb {packed} : tensor_desc<16x16xbf16> into vector<8x16x2xbf16>
    %vector_c = XeGPU.dpas %vector_a, %vector_b, %sum:
     vector<8x16xbf16>, vector<8x16x2xbf16>
\t   into vector<8x16xfloat>
    %na = XeGpu.update_nd_offset %ta, %c0, %c16 :
  \t  tensor_desc<8x16xbf16>, index, index into tensor_desc<8x16xbf16>
    %nb = XeGpu.update_nd_offset %tb, %c16, %c0 :
  \t  tensor_desc<16x16xbf16>, index, index into tensor_desc<16x16xbf16>
    scf.yield %na, %nb, %vector_c : tensor_desc<8x16xbf16>, tensor_desc<16x16xbf16>, vector<8x16xfloat>
  }
  XeGPU.fence {scope = "gpu",  memory_kind = "global", }
  XeGPU.store_nd %r#2, %tdesc_c: vector<8x16xfloat>, tensor_desc<8x16xfloat>
  func.return
}
"""
NARROW = re.sub(r"16x16xbf16", "16x8xbf16", GEMM).replace("8x16xfloat", "8x8xfloat").replace(
    "8x16x2xbf16", "8x8x2xbf16").replace("%n = arith.muli %y, %c16", "%n = arith.muli %y, %c8")
"""The same for engines of eight lanes."""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_gemm(execution: Execution) -> None:
    text, columns = (NARROW, 8) if execution.target == "dg2" else (GEMM, 16)
    a, b, c = small(8, (24, 48)), small(9, (48, 64)), small(10, (24, 80), np.float32)
    kept, address = memory(b)
    expected = c.copy()
    expected[:, :64] += a.astype(np.float32) @ b.astype(np.float32)
    where = kept.sycl_queue if execution.where.startswith("opencl") else execution.where
    xt.parse(text)["gemm"].on(where, target=execution.target)[3, 64 // columns](a, address, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_gemm_is_machine_code(target: str) -> None:
    require_ocloc()
    specs = [xt.Spec((24, 48), "bf16"), np.uint64(64), xt.Spec((24, 80), "f32")]
    report = xt.parse(NARROW if target == "dg2" else GEMM)["gemm"].lower(*specs, target=target).report()
    found = report.mix.whole.categories
    assert found["dpas"] >= 1
    assert target == "dg2" or (found["load_block2d"] >= 2 and found["store_block2d"] == 1)
    assert (report.spill_size, report.private_size) == (0, 0)


@pytest.mark.parametrize(("described", "loaded", "hint"), [
    ("16x16xbf16", "{packed} : tensor_desc<16x16xbf16> into vector<16x16xbf16>", "write vector<8x16x2xbf16>"),
    ("16x16xf16", ": tensor_desc<16x16xf16> into vector<16x16xf16>", "describe bf16, or view the array as f16"),
])
def test_hints_say_what_to_write(described: str, loaded: str, hint: str) -> None:
    text = f"""
func.func @wrong(%A: memref<64x64xbf16>) {{
  %c0 = arith.constant 0 : index
  %a = XeGPU.create_nd_tdesc %A, %c0, %c0 : memref<64x64xbf16>, index, index into tensor_desc<{described}>
  %v = XeGPU.load_nd %a {loaded}
  func.return
}}
"""
    with pytest.raises(xt.XeError) as caught:
        xt.parse(text)
    assert hint in str(caught.value)


ROWS_OF_A_LINE = """
func.func @rows(%A: memref<16x32xf32>, %C: memref<16x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c16 = arith.constant 16 : index
  %c24 = arith.constant 24 : index
  %c76 = arith.constant 76 : index
  %s = memref.alloc() : memref<512xf32, 3>
  %a = xegpu.create_nd_tdesc %A, [%c3, %c16] : memref<16x32xf32> -> !xegpu.tensor_desc<4x16xf32>
  %v = xegpu.load_nd %a : !xegpu.tensor_desc<4x16xf32> -> vector<4x16xf32>
  %d = xegpu.create_nd_tdesc %s, [%c3, %c1], [%c16, %c24], [%c24, %c1] : memref<512xf32, 3>
    -> !xegpu.tensor_desc<4x16xf32, memory_scope = slm>
  xegpu.store_nd %v, %d : vector<4x16xf32>, !xegpu.tensor_desc<4x16xf32, memory_scope = slm>
  gpu.barrier
  %line = xegpu.create_nd_tdesc %s, [%c76] : memref<512xf32, 3>
    -> !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false>
  %u = xegpu.load_nd %line : !xegpu.tensor_desc<16xf32, memory_scope = slm, boundary_check = false> -> vector<16xf32>
  %row = vector.shape_cast %u : vector<16xf32> to vector<1x16xf32>
  %e = xegpu.update_nd_offset %d, [%c1, %c0] : !xegpu.tensor_desc<4x16xf32, memory_scope = slm>
  %w = xegpu.load_nd %e : !xegpu.tensor_desc<4x16xf32, memory_scope = slm> -> vector<4x16xf32>
  %b = xegpu.create_nd_tdesc %C, [%c1, %c0] : memref<16x32xf32> -> !xegpu.tensor_desc<4x16xf32>
  xegpu.store_nd %w, %b : vector<4x16xf32>, !xegpu.tensor_desc<4x16xf32>
  %c = xegpu.create_nd_tdesc %C, [%c0, %c16] : memref<16x32xf32> -> !xegpu.tensor_desc<1x16xf32>
  xegpu.store_nd %row, %c : vector<1x16xf32>, !xegpu.tensor_desc<1x16xf32>
  func.return
}
"""
"""Rows of 24 elements on shared memory of one dimension, and a line of it: element 76 is column 4 of row 3."""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_rows_of_shared_memory_of_one_dimension(execution: Execution) -> None:
    a, c = small(1, (16, 32), np.float32), np.full((16, 32), 7, np.float32)
    execution.bind(xt.parse(ROWS_OF_A_LINE)["rows"])[1](a, c)
    np.testing.assert_array_equal(c[1:4, :16], a[4:7, 16:])
    np.testing.assert_array_equal(c[0, 16:29], a[3, 19:])
