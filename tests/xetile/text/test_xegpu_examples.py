"""``xt.parse`` reads what XeGPU.md prints: every example outside its sections on work items, as it stands."""

from __future__ import annotations

import pytest

from tests.text_examples import Example, check_reads, check_slips, params

ADDRESS, MEMORY = "%mem_addr: uint64", "%mref: memref<1024x1024xbf16>"
SLM = """  %slm = memref.alloc() : memref<512xbf16, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<512xbf16, slm> -> index
  %mem_addr = arith.index_cast %at : index to i64
"""
CHUNKS = "%scatter_tdesc_chunk: tensor_desc<16x8xbf16, memory_scope=slm, scattered=true>, %mask: vector<16xi1>"
A, B = "%vector_a: vector<8x16xbf16>", "%vector_b: vector<16x16xbf16>"
NO_DEFINITION = (("%vector_b, %vector_c", "%vector_b, %c", "%vector_c is not defined above"),)
EXAMPLES = {
    "create_nd_tdesc": Example("""%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2
\t\t: uint64, index, index, index, index, index, index
     \tinto tensor_desc<8x16xbf16>""", ADDRESS),
    "create_nd_tdesc of an array of blocks": Example(
        """%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2
\t\t: uint64, index, index, index, index, index, index
     \tinto tensor_desc<8x16xbf16, array_length=2>""", ADDRESS),
    "create_nd_tdesc of a memref": Example(""" %tdesc2 = XeGPU.create_nd_tdesc  %mref, %offsets:2
\t\t: memref<1024x1024xbf16>, index, index
     \tinto tensor_desc<8x16xbf16>""", MEMORY),
    "create_nd_tdesc of a line": Example(
        SLM + """  #tdesc_attr1 = !xegpu.tdesc_attr< memory_scope=slm, boundary_check=false>
  %tdesc1 = XeGPU.create_nd_tdesc %mem_addr, %offset:
\t\tuint64, index into tensor_desc<16xbf16, #tdesc_attr2>""", "%offset: index",
        (("#tdesc_attr2", "#tdesc_attr1", "#tdesc_attr2 is not defined"),)),
    "load_nd": Example("""  %result = XeGPU.load_nd %tdesc2 {L1_hint = uncached, L3_hint = uncached} :
          tensor_desc<8x16xbf16> into vector<8x16xbf16>""", "%tdesc2: tensor_desc<8x16xbf16>"),
    "load_nd, transposed": Example("""  %at = XeGPU.load_nd %tdesc2 {transpose = [1,0]} :
     tensor_desc<16x8xf32> into vector<8x16xf32>""", "%tdesc2: tensor_desc<16x8xf32>"),
    "load_nd, packed": Example("""  %bt = XeGPU.load_nd %tdesc2 {packed} :
     tensor_desc<16x16xbf16> into vector<8x16x2xbf16>
""", "%tdesc2: tensor_desc<16x16xbf16>"),
    "load_nd, pairs transposed": Example(
        """  %at = XeGPU.load_nd %tdesc1 {transpose = [1,0], transpose_bit_width = 32} :
     tensor_desc<16x16xfp16> into vector<8x32xfp16>""", "%tdesc1: tensor_desc<16x16xf16>"),
    "load_nd in VNNI form by transposing": Example(
        """  %at = XeGPU.load_nd %block_a {transpose = [1, 0], transpose_bit_width = 32} :
     tensor_desc<16x16xfp16> into vector<8x32xfp16>
  %bt = vector.shape_cast %at :  vector<8x64xfp16> into vector<8x32x2xfp16>""", "%block_a: tensor_desc<16x16xf16>",
        (("vector<8x64xfp16>", "vector<8x32xfp16>", "%at is vector<8x32xf16>, and the text says vector<8x64xf16>"),
         ("vector<8x32x2xfp16>", "vector<8x16x2xfp16>", ""))),
    "dpas": Example("""  %vector_c = XeGPU.dpas %vector_a, %vector_b, %vector_c :
     vector<8x16xbf16>, vector<16x16xbf16>, vector<8x16xfloat>
\t   into vector<8x16xfloat>""", f"{A}, {B}, %c: vector<8x16xf32>", NO_DEFINITION),
    "dpas without an accumulator": Example("""  %vector_c = XeGPU.dpas %vector_a, %vector_b :
     vector<8x16xbf16>, vector<16x16xbf16>
\t   into vector<8x16xfloat>""", f"{A}, {B}"),
    "dpas with B in VNNI form": Example("""  %vector_c = XeGPU.dpas %vector_a, %vector_b, %vector_c:
     vector<8x16xbf16>, vector<8x16x2xbf16>
\t   into vector<8x16xfloat>""", f"{A}, %vector_b: vector<8x16x2xbf16>, %c: vector<8x16xf32>", NO_DEFINITION),
    "dpas with A to match": Example("""  %vector_c = XeGPU.dpas %vector_a, %vector_b, %vector_c:
     vector<8x8x2xbf16>, vector<8x16x2xbf16>
\t   into vector<8x16xfloat>""", "%vector_a: vector<8x8x2xbf16>, %vector_b: vector<8x16x2xbf16>, "
                                    "%c: vector<8x16xf32>", NO_DEFINITION),
    "store_nd": Example("""  XeGPU.store_nd %value, %tdesc2:
          vector<8x16xbf16>, tensor_desc<8x16xbf16>""",
                        "%value: vector<8x16xbf16>, %tdesc2: tensor_desc<8x16xbf16>"),
    "store_nd of a line": Example("""  XeGPU.store_nd %value, %tdesc2:
          vector<16xbf16>, tensor_desc<16xbf16>""", "%value: vector<16xbf16>, %tdesc2: tensor_desc<16xbf16>"),
    "prefetch_nd": Example("  XeGPU.prefetch_nd %tdesc2: tensor_desc<8x16xbf16>", "%tdesc2: tensor_desc<8x16xbf16>"),
    "prefetch_nd of a line": Example("  XeGPU.prefetch_nd %tdesc2: tensor_desc<16xbf16>",
                                     "%tdesc2: tensor_desc<16xbf16>"),
    "update_nd_offset": Example("""  %tdesc_updated = XeGpu.update_nd_offset %tdesc, %offsets:2 :
  \t  tensor_desc<8x16xbf16>, index, index into tensor_desc<8x16xbf16>""", "%tdesc: tensor_desc<8x16xbf16>"),
    "create_tdesc": Example("""  %scatter_tdesc0 = XeGPU.create_tdesc %mem_addr, %offsets} :
     \tuint64, Vector<16 x index>, into tensor_desc<16 x uint8, #scattered>""",
                            f"{ADDRESS}, %offsets: vector<16xindex>",
                            (("%offsets}", "%offsets", "its types are missing"),)),
    "create_tdesc of chunks": Example(
        SLM.replace("bf16", "ui16").replace("%mem_addr", "%base_addr") + """
  #tdesc_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true, chunk_size_per_lane=8>
  %scatter_tdesc_chunk = XeGPU.create_tdesc, %base_addr, %offsets
\t\tuint64, vector<16xindex> into tensor_desc<16x8xuint16, #tdesc_attr>""", "%offsets: vector<16xindex>"),
    "load_gather": Example(
        """  %result0 = XeGPU.load_gather %scatter_tdesc0, %mask {L1_hint = cached, L2_hint = uncached} :
        \t  tensor_desc<16xuint8, #Scattered>, vector<16xi1> into vector<16xuint8>""",
                           "%scatter_tdesc0: tensor_desc<16xui8, #scattered>, %mask: vector<16xi1>"),
    "load_gather of chunks": Example(
        """  #tdesc_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true, chunk_size_per_lane=8>
  %result = XeGPU.load_gather %scatter_tdesc_chunk, %mask {L1 = cached, L2 = uncached, transpose=[1,0]} :
          tensor_desc<16x8xbf16, #tdesc_attr>, vector<16xi1> -> vector<8x16xbf16>""", CHUNKS),
    "store_scatter": Example("""XeGPU.store_scatter %value, %scatter_tdesc1, %mask:
     \t vector<16xuint16>, vector<16xi1>, tensor_desc<16xuint16, #scattered>""",
                             "%value: vector<16xui16>, %scatter_tdesc1: tensor_desc<16xui16, #scattered>, "
                             "%mask: vector<16xi1>"),
    "prefetch": Example("XeGPU.prefetch %scatter_tdesc0: tensor_desc<16xuint8, #scattered>",
                        "%scatter_tdesc0: tensor_desc<16xui8, #scattered>"),
    "update_offset": Example("""%tdesc_updated = XeGpu.update_offsets %scatter_tdesc1, %offsets:
  \ttensor_desc<16xuint16, #scattered>, vector<16xuint16>, into tensor_desc<16xuint16, #scattered>""",
                             "%scatter_tdesc1: tensor_desc<16xui16, #scattered>, %offsets: vector<16xindex>",
                             (("vector<16xuint16>, into", "vector<16xindex>, into",
                               "%offsets is vector<16xindex>, and the text says vector<16xui16>"),)),
    "atomic_rmw": Example("""  %ret_value = XeGPU.atomic_rmw \u201caddf\u201d %value, %scatter_Desc1, %mask:
          vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1> to vector<16xbf16>""",
                          "%value: vector<16xbf16>, %scatter_Desc1: tensor_desc<16xbf16, #scattered>, "
                          "%mask: vector<16xi1>"),
    "fence": Example('  XeGPU.fence {scope = "gpu",  memory_kind = "global", }'),
}
TABLE = {
    "create_tdesc": Example(SLM + "%scatter_tdesc1 = XeGPU.create_tdesc %mem_addr, %offset: int64, "
                            "Vector<16 x index> -> tensor_desc<16 x bf16, #scattered, memory_scope=slm, "
                            "chunk_size_per_lane=1> ",
                            "%offset: vector<16xindex>"),
    "load_gather": Example("%result = XeGPU.load_gather %scatter_tdesc2, %mask {L1 = cached, L2 = uncached, "
                           "transpose=[1,0]} : tensor_desc<16x8xbf16, #Scattered>, vector<16xi1> -> vector<8x16xbf16>",
                           "%scatter_tdesc2: tensor_desc<16x8xbf16, #scattered>, %mask: vector<16xi1>"),
    "store_scatter": Example("XeGPU.store_scatter %value, %scatter_tdesc2, %mask {L1 = cached, L2 = uncached} : "
                             "vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1>",
                             "%value: vector<16xbf16>, %scatter_tdesc2: tensor_desc<16xbf16, #scattered>, "
                             "%mask: vector<16xi1>"),
    "update_offset": Example("%tdesc_updated = XeGpu.update_offset %tdesc, %offsets: tensor_desc<16xbf16, #scattered>, "
                             "vector<16x index> -> tensor_desc<16xbf16, #scattered>",
                             "%tdesc: tensor_desc<16xbf16, #scattered>, %offsets: vector<16xindex>"),
    "prefetch": Example("XeGPU.prefetch %scatter_tdesc1 {L1 = cached, L2 = uncached} : tensor_desc<16xbf16, "
                        "#scattered>", "%scatter_tdesc1: tensor_desc<16xbf16, #scattered>"),
    "atomic_rmw": Example("%ret_value = XeGPU.atomic_rmw \u201caddf\u201d, %value, %scatter_mem2, %mask : "
                          "vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1>",
                          "%value: vector<16xbf16>, %scatter_mem2: tensor_desc<16xbf16, #scattered>, "
                          "%mask: vector<16xi1>"),
    "create_nd_tdesc": Example("%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %tile_offset:2, %base_shape:2,"
                               "%base_strides:2: int64, index, index, index, index, index, index -> "
                               "tensor_desc<8x16xbf16, memory_scope=global>", "%mem_addr: i64"),
    "load_nd": Example("%result = XeGPU.load_nd %tdesc2 {L1_hint = uncached, L3_hint = uncached} : "
                       "tensor_desc<8x16xbf16> -> vector<8x16xbf16>", "%tdesc2: tensor_desc<8x16xbf16>"),
    "dpas": Example("%vector_c = XeGPU.dpas %vector_c, %vector_a, %vector_b: vector<8x16xfloat>, vector<8x8x2xbf16>, "
                    "vector<8x16x2xbf16> -> vector<8x16xfloat>",
                    "%c: vector<8x16xf32>, %vector_a: vector<8x8x2xbf16>, %vector_b: vector<8x16x2xbf16>",
                    (("dpas %vector_c", "dpas %c", "%vector_c is not defined above"),)),
    "store_nd": Example("XeGPU.store_nd %value, %tdesc2 {L1_hint = uncached, L3_hint = uncached} : vector<8x16xbf16>, "
                        "tensor_desc<8x16xbf16>", "%value: vector<8x16xbf16>, %tdesc2: tensor_desc<8x16xbf16>"),
    "update_nd_offset": Example("%tdesc_updated = XeGpu.update_nd_offset %tdesc, %offset_x, offset_y, "
                                "tensor_desc<8x16xbf16>, index, index -> tensor_desc<8x16xbf16>",
                                "%tdesc: tensor_desc<8x16xbf16>, %offset_x: index, %offset_y: index",
                                ((" offset_y", " %offset_y", "offset_y stands where an operand"),)),
    "prefetch_nd": Example("XeGPU.prefetch_nd %tdesc2: tensor_desc<8x16xbf16>", "%tdesc2: tensor_desc<8x16xbf16>"),
    "fence": Example("XeGPU.fence {scope = gpu, memory_kind = global}"),
}
ALL = params(EXAMPLES, TABLE)


@pytest.mark.parametrize("example", ALL)
def test_examples(example: Example) -> None:
    check_reads(example)


@pytest.mark.parametrize("example", [param for param in ALL if param.values[0].slips])
def test_slips_of_the_document_are_errors_that_say_so(example: Example) -> None:
    check_slips(example)
