"""Operations of LLVM's dialect have a counterpart, which export and import share."""

from __future__ import annotations

import pytest

import xetile as xt
from xegpu.interop.llvm import block_level
from xegpu.interop.llvm.dialect import UpstreamXeGPU, ops
from xetile.text.llvm import tile_level

BLOCKS = """
  gpu.module @kernels {
    gpu.func @copy(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
      %c0 = arith.constant 0 : index
      %c16 = arith.constant 16 : index
      %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<16x16xf32>
      %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
      xegpu.prefetch_nd %a[%c0, %c16] <{l1_hint = #xegpu.cache_hint<streaming>}> : !xegpu.tensor_desc<16x16xf32>
      %v = xegpu.load_nd %a[%c0, 16] <{l1_hint = #xegpu.cache_hint<streaming>}>
        : !xegpu.tensor_desc<16x16xf32> -> vector<16x16xf32>
      %s = vector.extract_strided_slice %v {offsets = [8, 0], sizes = [8, 16], strides = [1, 1]}
        : vector<16x16xf32> to vector<8x16xf32>
      xegpu.store_nd %s, %b[%c0, %c16] <{l3_hint = #xegpu.cache_hint<cached>}>
        : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
      gpu.return
    }
  }
"""


@pytest.mark.parametrize("operation", [*UpstreamXeGPU.operations], ids=lambda operation: operation.name)
def test_every_operation_has_a_counterpart(operation: type) -> None:
    blocks = {pair.llvm for pair in block_level.CORRESPONDENCES}
    tiles = {pair.llvm for pair in tile_level.CORRESPONDENCES}
    assert operation in (blocks & tiles if operation in ops.OPERATIONS else blocks | tiles)


def test_hints_are_read_at_subgroup_level() -> None:
    specs = xt.Spec((64, 64), xt.f32), xt.Spec((64, 64), xt.f32)
    text = str(xt.parse(BLOCKS)["copy"].lower(*specs, target="pvc").stages["to-xegpu"])
    load, prefetch, store = (next(line for line in text.splitlines() if f"xegpu.{name} " in line)
                             for name in ("load_nd", "prefetch_nd", "store_nd"))
    assert "l1_hint = #xegpu.cache_hint<streaming>" in load
    assert "l1_hint = #xegpu.cache_hint<streaming>" in prefetch
    assert "l3_hint = #xegpu.cache_hint<write_back>" in store
