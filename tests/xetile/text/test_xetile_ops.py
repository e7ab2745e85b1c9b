"""A program like that of XeTile.md's Appendix 2.1, read and run; and padding as the document prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc
from tests.text_examples import read_document

XETILE = Path(__file__).parent / "documents" / "xetile.mlir"
GEMM = """
#mp_a     = #wg_map<sg_layout=[4,2], sg_data=[16,32]>
#mp_a_pfh = #wg_map<sg_layout=[8,1], sg_data=[8,32]>
#mp_b     = #wg_map<sg_layout=[4,2], sg_data=[32,32]>
#mp_b_pfh = #wg_map<sg_layout=[4,2], sg_data=[8,32]>
#mp_c     = #wg_map<sg_layout=[4,2], sg_data=[16,32]>

func.func @test_gemm(%a : memref<128x96xf16>,
       %b: memref<96x192xf16>,
       %c: memref<128x192xf32> ) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c96 = arith.constant 96 : index
  %c128 = arith.constant 128 : index
  %c192 = arith.constant 192 : index
  %zero = arith.constant dense<0.0> : vector<64x64xf32>
  scf.for %i = %c0 to %c128 step %c64 {
    scf.for %j = %c0 to %c192 step %c64 {
       %1 = init_tile %a[%i, %c0] : memref<128x96xf16> -> tile<64x32xf16, #mp_a>   // sg_layout=[4,2], sg_data=[16,32]
       %2 = init_tile %b[%c0, %j] : memref<96x192xf16> -> tile<32x64xf16, #mp_b> // sg_layout=[4,2], sg_data=[32,32]
       %p1 = init_tile %a[%i, %c32] : memref<128x96xf16> -> tile<64x32xf16, #mp_a_pfh>  // sg_layout=[8,1]
       %p2 = init_tile %b[%c32, %j] : memref<96x192xf16> -> tile<32x64xf16, #mp_b_pfh> // sg_layout=[4,2]

       %3 = init_tile %c[%i, %j] : memref<128x192xf32> -> tile<64x64xf32, #mp_c>

       %r:5 = scf.for %k= %c0 to %c96 step %c32 iter_args(%ta = %1, %tb = %2, %pa = %p1, %pb = %p2, %acc = %zero)
           -> (tile<64x32xf16, #mp_a>, tile<32x64xf16, #mp_b>, tile<64x32xf16, #mp_a_pfh>, tile<32x64xf16, #mp_b_pfh>,
               vector<64x64xf32>) {
           %4  = load_tile %ta : tile<64x32xf16  #mp_a > -> vector<64x32xf16>\t             // sg_layout=[4,2]
           %10 = load_tile %tb  : tile<32x64xf16 #mp_b> -> vector<32x64xf16>

           prefetch_tile %pa : tile<64x32xf16, #mp_a_pfh>             \t\t\t      // sg_layout=[8,1]
           prefetch_tile %pb locality<2> : tile<32x64xf16, #mp_b_pfh>
           %6 = tile_mma %4, %10, %acc {#mp_a #mp_b #mp_c} : (vector<64x32xf16>, vector<32x64xf16>, vector<64x64xf32>) -> vector<64x64xf32>
           %5 = update_tile_offset   %ta, %c0, %c32 :  tile<64x32xf16, #mp_a> -> tile<64x32xf16, #mp_a>
           %7 = update_tile_offset   %tb, %c32, %c0 :  tile<32x64xf16, #mp_b> -> tile<32x64xf16, #mp_b>
           %8 = update_tile_offset   %pa, %c0, %c32 :  tile<64x32xf16, #mp_a_pfh> -> tile<64x32xf16, #mp_a_pfh>
           %9 = update_tile_offset   %pb, %c32, %c0 :  tile<32x64xf16, #mp_b_pfh> -> tile<32x64xf16, #mp_b_pfh>
           scf.yield %5, %7, %8, %9, %6 : tile<64x32xf16, #mp_a>, tile<32x64xf16, #mp_b>, tile<64x32xf16, #mp_a_pfh>,
               tile<32x64xf16, #mp_b_pfh>, vector<64x64xf32>
         }
         store_tile %3, %r#4: (tile<64x64xf32, #mp_c>, vector<64x64xf32>)                    // sg_layout=[4, 2]
    }
  }
  func.return
}
"""  # noqa: E501
LAUNCHED = [(where, target) for where in ("numpy", "numpy:xegpu", "opencl:cpu") for target in ("pvc", "dg2", "cpu")]


def operands(rows: int, depth: int, columns: int, dtype: Any = np.float16) -> tuple[Any, Any, Any]:
    """A, B and their product, exact in float32."""
    rng = np.random.default_rng(11)
    a, b = rng.integers(-4, 5, (rows, depth)).astype(dtype), rng.integers(-4, 5, (depth, columns)).astype(dtype)
    return a, b, a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.parametrize(("where", "target"), LAUNCHED)
def test_gemm_of_the_appendix(where: str, target: str) -> None:
    if where == "opencl:cpu":
        require_device(where)
    a, b, want = operands(128, 96, 192)
    c = np.zeros((128, 192), np.float32)
    xt.parse(GEMM)["test_gemm"].on(where, target=target)[1](a, b, c)
    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_gemm_of_the_appendix_is_machine_code(target: str) -> None:
    require_ocloc()
    specs = [xt.Spec(shape, dtype) for shape, dtype in (((128, 96), xt.f16), ((96, 192), xt.f16), ((128, 192), xt.f32))]
    report = xt.parse(GEMM)["test_gemm"].lower(*specs, target=target).report()
    assert report.spill_size == 0
    assert report.mix.whole.categories["dpas"] > 0
    if target != "dg2":
        assert report.mix.whole.categories["load_block2d"] > 0
        assert report.mix.whole.categories["prefetch"] > 0


def test_every_stage_of_the_gemm_reads_back() -> None:
    a, b, want = operands(128, 96, 192)
    for text in xt.parse(GEMM)["test_gemm"].lower(a, b, np.zeros_like(want)).stages.values():
        assert str(xt.parse(text)) == text


def test_padding_that_the_seed_prints() -> None:
    text = read_document(XETILE)["load_tile with padding"].lines.replace("64x64", "8x16")
    program = "func.func @pad(%A: memref<6x12xbf16>, %C: memref<8x16xbf16>) {\n  %c0 = arith.constant 0 : index\n" \
        "  %tile_a = init_tile %A[%c0, 0] : memref<6x12xbf16> -> tile<8x16xbf16>\n" + text + \
        "\n  %t = init_tile %C[0, 0] : memref<8x16xbf16> -> tile<8x16xbf16>\n" \
        "  store_tile %vector_a, %t : vector<8x16xbf16>, tile<8x16xbf16>\n  func.return\n}\n"
    a = np.random.default_rng(1).integers(-9, 9, (6, 12)).astype(ml_dtypes.bfloat16)
    want = np.ones((8, 16), ml_dtypes.bfloat16)
    want[:6, :12] = a
    for where in ("numpy", "numpy:xegpu"):
        c = np.zeros((8, 16), ml_dtypes.bfloat16)
        xt.parse(program)["pad"].on(where)[1](a, c)
        np.testing.assert_array_equal(c, want)
