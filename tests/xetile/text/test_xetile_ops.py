"""``xt.parse`` reads what XeTile.md prints: its examples, and a program like that of Appendix 2.1."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc
from tests.text_examples import Example

MEMORY = "%base_memref: memref<128x128xbf16>"
INNER = "  #tile_attr = #xetile.tile_attr<inner_blocks=[16,16]>\n"
ORDER = "  #tile_attr = #xetile.tile_attr<order = [0, 1]>\n"
EXAMPLES = {
    "init_tile": Example("""  %tile0 = xetile.init_tile %base_memref, [%tile_offset:2] :
     memref<128x128xbf16> into tile<8x16xbf16>""", MEMORY),
    "init_tile of dynamic shape": Example(
        """  %tile0 = xetile.init_tile %base_memref, [%tile_offset:2], [%base_shape:2], [%base_strides:2]:
     memref<?x?xbf16> into tile<8x16xbf16>""", "%base_memref: memref<?x?xbf16>"),
    "init_tile of an address": Example(
        """  %tile0 = xetile.init_tile %base_addr, [%tile_offset:2], [%base_shape:2], [%base_strides:2]:
     i64 into tile<8x16xbf16>""", "%base_addr: i64"),
    "init_tile with an order": Example(ORDER + """  %tile0 = xetile.init_tile %base_memref, [%tile_offset:2]:
     memref<128x128xbf16, affine_map=<(d0, d1)->(d1, d0)> into tile<64x32xbf16, #tile_attr>""",
                                       "%base_memref: memref<128x128xbf16, affine_map<(d0, d1) -> (d1, d0)>>",
                                       (("(d1, d0)> into", "(d1, d0)>> into", "'>' expected"),)),
    "load_tile": Example("""  %vector_a = xetile.load_tile %tile_a :
     tile<64x64xbf16> into vector<64x64xb16>""", "%tile_a: tile<64x64xbf16>"),
    "load_tile with padding": Example("""  %vector_a = xetile.load_tile %tile_a {padding = 1.0} :
     tile<64x64xbf16> into vector<64x64xb16>""", "%tile_a: tile<64x64xbf16>"),
    "load_tile with an order": Example(ORDER + """  %vector_a = xetile.load_tile %tile_a :
     tile<64x32xbf16, #tile_attr> into vector<64x32xb16>""", "%tile_a: tile<64x32xbf16, order = [0, 1]>"),
    "store_tile": Example("""  xetile.store_tile %tile_a, %vector_a :
   vector<64x64xbf16> into tile<64x64xbf16>""", "%tile_a: tile<64x64xbf16>, %vector_a: vector<64x64xbf16>"),
    "store_tile with an order": Example(ORDER + """  %vector_a = xetile.store_tile %tile_a :
     vector<64x32xb16> to tile<64x32xbf16, #tile_attr>""",
                                        "%tile_a: tile<64x32xbf16, order = [0, 1]>, %v: vector<64x32xbf16>",
                                        (("store_tile %tile_a", "store_tile %tile_a, %v",
                                          "no operand has the type vector<64x32x"),)),
    "prefetch_tile": Example("  xetile.prefetch_tile %coop_tile locality<3>: tile<8x32xbf16>",
                             "%coop_tile: tile<8x32xbf16>"),
    "tile_mma": Example("""  %vector_c = xetile.tile_mma %vector_b, %vector_a, %vector_c:
     vector<64x32xbf16>, vector<32x128xbf16>, vector<64x128xfloat>
\t   into vector<64x128xfloat>""",
                        "%vector_b: vector<64x32xbf16>, %vector_a: vector<32x128xbf16>, %c: vector<64x128xfloat>",
                        (("%vector_a, %vector_c", "%vector_a, %c", "%vector_c is not defined above"),)),
    "tile_mma without an accumulator": Example("""  %vector_c = xetile.tile_mma %vector_a, %vector_b :
     vector<64x32xbf16>, vector<32x128xbf16>
\t   into vector<64x128xfloat>""", "%vector_a: vector<64x32xbf16>, %vector_b: vector<32x128xbf16>"),
    "update_tile_offset": Example("""  %tile_updated = xetile.update_tile_offset %tile, %offset_x, offset_y :
\t\ttile<64x64xbf16>, index, index into tile <64x64xbf16>""",
                                  "%tile: tile<64x64xbf16>, %offset_x: index, %offset_y: index",
                                  ((" offset_y", " %offset_y", "offset_y stands where an operand"),)),
    "atomic_rmw": Example("""  %ret_value = xetile.atomic_rmw <addf> %value, %tile:
          vector<8x16xbf16>, tile<8x16xbf16> to vector<8x16xbf16>""",
                          "%value: vector<8x16xbf16>, %tile: tile<8x16xbf16>"),
    "tile_transpose": Example(
        "   %vector_a = xetile.tile_transpose [1, 0] %vector_b: vector<64x32xfloat> into vector<32x64xfloat>",
        "%vector_b: vector<64x32xfloat>"),
    "tile_reduce": Example(
        "   %vector_a = xetile.tile_reduce <add> %vector_b [1]: vector<64x32xfloat> into vector<64x1xfloat>",
        "%vector_b: vector<64x32xfloat>"),
    "tile_broadcast": Example(
        "   %vector_a = xetile.tile_broadcast %vector_b [0]: vector<1x32xfloat> into vector<64x32xfloat>",
        "%vector_b: vector<1x32xfloat>"),
    "init_tile with inner_blocks": Example(INNER + """  %tile0 = xetile.init_tile %base_memref, [%tile_offset:2]:
     memref<128x128xbf16> into tile<64x32xbf16, #tile_attr>""", MEMORY),
    "load_tile of blocks": Example(INNER + """  %vector_a = xetile.load_tile %tile_a :
     tile<64x32xbf16, #tile_attr> into vector<4x2x16x16xb16>""", "%tile_a: tile<64x32xbf16, inner_blocks = [16, 16]>"),
    "store_tile of blocks": Example(
        INNER + """  xetile.store_tile %vector_a, %tile_a :
     vector<4x2x16x16xb16> into tile<64x32xbf16, #tile_attr>""",
        "%tile_a: tile<64x32xbf16, inner_blocks = [16, 16]>, %vector_a: vector<4x2x16x16xbf16>"),
    "atomic_rmw_tile of blocks": Example(
        """#tile_attr = #xetile.tile_attr<inner_blocks=[8,16]>
%vector_a = atomic_rmw_tile <add> %value, %tile: vector<8x48x16xbf16>, tile<64x64xbf16, #tile_attr> to """
        "vector<8x4x8x16xbf16>",
        "%value: vector<8x4x8x16xbf16>, %tile: tile<64x64xbf16, inner_blocks = [8, 16]>",
        (("8x48x16", "8x4x8x16", "%value is vector<8x4x8x16xbf16>, and the text says vector<8x48x16xbf16>"),)),
    "tile_mma of blocks": Example("""   %vector_c = xetile.tile_mma %vector_a, %vector_b, %vector_c :
     vector<8x4x8x8xbf16>, vector<4x8x8x16xbf16>, vector<8x8x8x16xfloat>
\t   into vector<8x8x8x16xfloat>""",
                                  "%vector_a: vector<8x4x8x8xbf16>, %vector_b: vector<4x8x8x16xbf16>, "
                                  "%c: vector<8x8x8x16xf32>",
                                  (("%vector_b, %vector_c", "%vector_b, %c", "%vector_c is not defined above"),)),
    "tile_reduce of blocks": Example(
        "   %vector_a = xetile.tile_reduce <add> %vector_b [1, 3]: vector<8x4x8x16xfloat> into vector<8x1x8x1float>",
        "%vector_b: vector<8x4x8x16xf32>", (("8x1float", "8x1xfloat", "Expected 'x' in shape delimiter"),)),
    "tile_broadcast of blocks": Example(
        "   %vector_a = xetile.tile_broadcast %vector_b [1, 3]: vector<8x1x8x1xfloat> into vector<8x4x8x16xfloat>",
        "%vector_b: vector<8x1x8x1xf32>"),
    "tile_pack": Example("""  %0 = xetile.tile_pack %1 {inner_blocks = array<i64: 16, 16>}
    : vector<64x32xf32> -> vector<4x2x16x16xf32>""", "%1: vector<64x32xf32>"),
    "tile_unpack": Example("""  %0 = xetile.tile_unpack %1 {inner_blocks = array<i64: 64, 16>}
    : vector<1x2x64x16xf32> -> vector<64x32xf32>""", "%1: vector<1x2x64x16xf32>"),
    "init_tile of single elements": Example(
        """  %tile0 = xetile.init_tile %base_addr, %tile_offsets:
     i64, vector<1x256xindex> into tile<1x256xbf16, #scatter>""",
        "%base_addr: i64, %tile_offsets: vector<1x256xindex>"),
    "load_gather": Example("""  %vector_a = xetile.load_gather %tile_0, %mask, {padding = 1.0} :
     tile<1x256xbf16, #scatter> into vector<1x256xbf16>""",
                           "%tile_0: tile<1x256xbf16, #scatter>, %mask: vector<1x256xi1>"),
    "store_scatter": Example(
        """  xetile.store_scatter %vector_a, %mask, %tile_0 :
     vector<1x256xbf16> into tile<1x256xbf16, #scatter>""",
        "%vector_a: vector<1x256xbf16>, %tile_0: tile<1x256xbf16, #scatter>, %mask: vector<1x256xi1>"),
    "init_tile of a work-group": Example(
        """   #wg_map_a = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 128]>
   #tile_attr = #xetile.tile_attr<wg = #wg_map_a, order = [0, 1], inner_blocks = array<i64: 32,16> >

   %wg_tile = xetile.init_tile %A[%m, %c0] : memref<1024x1024xf16> -> !xetile.tile<128x128xf16, #tile_attr>""",
        "%A: memref<1024x1024xf16, affine_map<(d0, d1) -> (d1, d0)>>, %m: index, %c0: index",
        (("memref<1024x1024xf16>", "memref<1024x1024xf16, affine_map=<(d0, d1)->(d1, d0)>>",
          "and the text says memref<1024x1024xf16>"),)),
    "tile_mma of a work-group": Example("""   #wg_map_d = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]>

   %vector_d = xetile.tile_mma %vector_a, %vector_b, %vector_c {#wg_map_d}:
     vector<256x256xfloat>, vector<256x32xbf16>, vector<32x256xbf16>
\t   into vector<256x256xfloat>""",
                                        "%vector_a: vector<256x32xbf16>, %vector_b: vector<32x256xbf16>, "
                                        "%vector_c: vector<256x256xf32>"),
    "maps of a product": Example(
        """   #wg_map_a = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 32]> //wg_map for %vector_a
   #wg_map_b = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]> //wg_map for %vector_b
   #wg_map_c = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]> //wg_map for %vector_c"""),
    "tile_reduce of a work-group": Example(
        """   #wg_map_a = #xetile.wg_map<sg_layout = [32, 1], sg_data = [8, 1]>
   %vector_a = xetile.tile_reduce <add> %vector_b [1] {#wg_map_a}: vector<256x128xfloat> into vector<256x1xfloat>""",
        "%vector_b: vector<256x128xf32>"),
    "map of what is reduced": Example(
        "   #wg_map_b = #xetile.wg_map<sg_layout = [32, 1], sg_data = [8, 128]>  //wg_map for %vector_b"),
    "tile_broadcast of a work-group": Example(
        """   #wg_map_a = #xetile.wg_map<sg_layout = [16, 1], sg_data = [16, 256]>
   %vector_a = xetile.tile_broadcast %vector_b [1] {#wg_map_a}: vector<256x1xfloat> into vector<256x256xfloat>""",
        "%vector_b: vector<256x1xf32>"),
    "map of what is broadcast": Example(
        "   #wg_map_b = #xetile.wg_map<sg_layout = [16, 1], sg_data = [16, 1]>  //wg_map for %vector_b"),
    "tile_transpose of a work-group": Example(
        """   #wg_map_a = #xetile.wg_map<sg_layout = [4, 8], sg_data = [32, 64]>
   %vector_a = xetile.tile_transpose %vector_b {#wg_map_a}: vector<512x128xfloat> into vector<128x512xfloat>""",
        "%vector_b: vector<512x128xf32>"),
    "map of what is transposed": Example(
        "   #wg_map_b = #xetile.wg_map<sg_layout = [8, 4], sg_data = [64, 32]>  //wg_map for %vector_b"),
    "tile_conv_layout with both maps": Example(
        """   #wg_map_b = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]>  // used for cooperative load/prefetch
   #wg_map_a = #xetile.wg_map<sg_layout = [32, 1], sg_data = [8, 256]> // used as mma's input matrix A
   %vector_a = xetile.tile_conv_layout %vector_b {#wg_map_a #wg_map_b}: vector<256x256xfloat> into """
        "vector<256x256xfloat>", "%vector_b: vector<256x256xf32>"),
    "tile_conv_layout": Example(
        """   #wg_map_a = #xetile.wg_map<sg_layout = [32, 1], sg_data = [8, 256]> // used as mma's input matrix A
   %vector_a = xetile.tile_conv_layout %vector_b {#wg_map_a}: vector<256x256xfloat> into vector<256x256xfloat>""",
        "%vector_b: vector<256x256xf32>"),
}
TABLES = {
    "init_tile": Example("%block = xetile.init_tile %base_memref, %tile_offset:2 memref<128x128xbf16> into "
                         "tile<8x16xbf16>", MEMORY),
    "load_tile": Example("%vector_a = xetile.load_tile %tile_a {padding=0} : tile<64x32xbf16> into vector<32x64xbf16>",
                         "%tile_a: tile<64x32xbf16>",
                         (("vector<32x64", "vector<64x32", "gives a vector<64x32xbf16>"),)),
    "store_tile": Example("xetile.store_tile %tile_a, %vector_a: vector<64x64xbf16> into tile<64x64xbf16>",
                          "%tile_a: tile<64x64xbf16>, %vector_a: vector<64x64xbf16>"),
    "prefetch_tile": Example("xetile.prefetch_tile %coop_tile: tile<16x32xbf16>", "%coop_tile: tile<16x32xbf16>"),
    "atomic_rmw_tile": Example(
        "%vector_a = xetile.atomic_rmw_tile <add> %value, %tile: vector<8x16xbf16>, tile<8x16xbf16> to "
        "vector<8x16xbf16>",
        "%value: vector<8x16xbf16>, %tile: tile<8x16xbf16>"),
    "tile_transpose": Example("%vector_a = xetile.tile_transpose %vector_b [1, 0]: vector<64x32xfloat> into "
                              "vector<32x64xfloat>", "%vector_b: vector<64x32xfloat>"),
    "tile_broadcast": Example("%vector_a = xetile.tile_broadcast %vector_b[0]: vector<1x32xfloat> into "
                              "vector<64x32xfloat>", "%vector_b: vector<1x32xfloat>"),
    "tile_unpack": Example("%vector_a = xetile.tile_upack %vector_b {inner_blocks=array<i64: 64, 16>} : "
                           "vector<1x2x64x16xfloat> into vector<64x32xfloat>", "%vector_b: vector<1x2x64x16xfloat>"),
}
ALL = [*(pytest.param(example, id=name) for name, example in EXAMPLES.items()),
       *(pytest.param(example, id=f"table: {name}") for name, example in TABLES.items())]


@pytest.mark.parametrize("example", ALL)
def test_examples(example: Example) -> None:
    module = xt.parse(example.text())
    assert str(xt.parse(str(module))) == str(module)


@pytest.mark.parametrize("example", [param for param in ALL if param.values[0].slips])
def test_slips_of_the_seed_are_errors_that_say_so(example: Example) -> None:
    with pytest.raises(xt.TextError, match=re.escape(example.slips[0][2])) as caught:
        xt.parse(example.text(mended=False))
    assert "  help: " in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line > 1


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
    text = EXAMPLES["load_tile with padding"].lines.replace("64x64", "8x16")
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
