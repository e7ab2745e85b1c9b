"""Kernels in the spelling of XeGPU.md run everywhere, and their machine code has the instructions that are meant."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import require_device, require_ocloc
from products import PLACES, Place

import xetile as xt

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


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_lines(place: Place) -> None:
    a, b, c = small(1, (264,)), small(2, (264,)), np.full(264, 7, bf16)
    kept, address = memory(b)
    expected = np.full(264, 7, np.float32)
    sums = 1 + 2 * a.astype(np.float32) + b.astype(np.float32)
    for start in range(8, 200, 64):
        expected[start:start + 32] = sums[start:start + 32]
        expected[start + 32:start + 64] = b[start:start + 32]
    where = kept.sycl_queue if place.where.startswith("opencl") else place.where
    xt.parse(LINES)["lines"].on(where, target=place.target)[3,](a, address, c)
    np.testing.assert_array_equal(c.astype(np.float32), expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_lines_are_block_messages_without_checks(target: str) -> None:
    require_ocloc()
    lowered = xt.parse(LINES)["lines"].lower(small(1, (264,)), np.uint64(64), small(1, (264,)), target=target)
    assert "checked" not in lowered.opencl
    assert "intel_sub_group_block_read_us2" in lowered.opencl
    report = lowered.report()
    assert (report.spill_size, report.private_size) == (0, 0)
