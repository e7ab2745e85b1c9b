// Blocks: layouts on accesses, attributes, descriptors and vectors of one and of more than two dimensions.
#lanes = #xegpu.layout<lane_layout = [1, 16], lane_data = [1, 1]>
#subgroups = #xegpu.layout<sg_layout = [2, 2], sg_data = [16, 16]>
!block = !xegpu.tensor_desc<8x16xf32>
!tile = !xegpu.tensor_desc<32x32xf32>
!row = !xegpu.tensor_desc<16xf32>
!cube = !xegpu.tensor_desc<2x4x16xf32>
!slab = !xegpu.tensor_desc<1x8x16xf32>
!pair = !xegpu.tensor_desc<8x16xf32, #xegpu.block_tdesc_attr<array_length = 2 : i64>>
gpu.module @blocks {
  gpu.func @layout_on_accesses(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    xegpu.prefetch_nd %a[8, 16] <{l1_hint = #xegpu.cache_hint<cached>, layout = #lanes}> : !block
    %v = xegpu.load_nd %a[8, 16] <{l1_hint = #xegpu.cache_hint<cached>, layout = #lanes}> : !block -> vector<8x16xf32>
    xegpu.store_nd %v, %b[0, 32] <{l1_hint = #xegpu.cache_hint<write_back>, layout = #lanes}> : vector<8x16xf32>, !block
    gpu.return
  }
  gpu.func @attributes(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A {note = "a"} : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %v = xegpu.load_nd %a[0, 0] <{l1_hint = #xegpu.cache_hint<cached>}> {layout_result_0 = #lanes} : !block -> vector<8x16xf32>
    %w = xegpu.load_nd %a[8, 0] {layout = #lanes} : !block -> vector<8x16xf32>
    %s = arith.addf %v, %w {layout_result_0 = #lanes} : vector<8x16xf32>
    xegpu.store_nd %s, %b[0, 0] <{l1_hint = #xegpu.cache_hint<uncached>}> {layout = #lanes} : vector<8x16xf32>, !block
    gpu.return
  }
  gpu.func @transposed_columns_of_tall_matrix(%A: memref<64x48xf16>, %B: memref<64x48xf32>) kernel {
    %pointer = memref.extract_aligned_pointer_as_index %A : memref<64x48xf16> -> index
    %address = arith.index_cast %pointer : index to i64
    %a = xegpu.create_nd_tdesc %address, shape : [64, 48], strides : [48, 1] : i64 -> !xegpu.tensor_desc<16x16xf16>
    %b = xegpu.create_nd_tdesc %B : memref<64x48xf32> -> !xegpu.tensor_desc<16x16xf32>
    %v = xegpu.load_nd %a[40, 16] : !xegpu.tensor_desc<16x16xf16> -> vector<16x16xf16>
    %w = xegpu.load_nd %a[56, 32] : !xegpu.tensor_desc<16x16xf16> -> vector<16x16xf16>
    %t = vector.transpose %v, [1, 0] : vector<16x16xf16> to vector<16x16xf16>
    %u = vector.transpose %w, [1, 0] : vector<16x16xf16> to vector<16x16xf16>
    %f = arith.extf %t : vector<16x16xf16> to vector<16x16xf32>
    %g = arith.extf %u : vector<16x16xf16> to vector<16x16xf32>
    %s = arith.addf %f, %g : vector<16x16xf32>
    xegpu.store_nd %s, %b[0, 0] : vector<16x16xf32>, !xegpu.tensor_desc<16x16xf32>
    xegpu.store_nd %g, %b[16, 32] : vector<16x16xf32>, !xegpu.tensor_desc<16x16xf32>
    gpu.return
  }
  func.func @function_in_a_module(%A: memref<64x64xf32>, %B: memref<64x64xf32>) {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %v = xegpu.load_nd %a[40, 40] : !block -> vector<8x16xf32>
    xegpu.store_nd %v, %b[1, 3] : vector<8x16xf32>, !block
    return
  }
  gpu.func @layout_at_the_store_alone(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !tile
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !tile
    %v = xegpu.load_nd %a[16, 8] : !tile -> vector<32x32xf32>
    %w = arith.mulf %v, %v : vector<32x32xf32>
    xegpu.store_nd %w, %b[32, 16] <{layout = #subgroups}> : vector<32x32xf32>, !tile
    gpu.return
  }
  gpu.func @layout_at_a_conversion_alone(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !tile
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !tile
    %v = xegpu.load_nd %a[16, 8] : !tile -> vector<32x32xf32>
    %t = vector.transpose %v, [1, 0] : vector<32x32xf32> to vector<32x32xf32>
    %c = xegpu.convert_layout %t <{input_layout = #subgroups, target_layout = #xegpu.layout<sg_layout = [4, 1], sg_data = [8, 32]>}> : vector<32x32xf32>
    %w = arith.addf %c, %c : vector<32x32xf32>
    xegpu.store_nd %w, %b[32, 16] : vector<32x32xf32>, !tile
    gpu.return
  }
  gpu.func @one_dimension(%A: memref<60xf32>, %B: memref<64x64xf32>) kernel {
    %c40 = arith.constant 40 : index
    %a = xegpu.create_nd_tdesc %A : memref<60xf32> -> !row
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !row
    %v = xegpu.load_nd %a[%c40] : !row -> vector<16xf32>
    %w = xegpu.load_nd %a[48] : !row -> vector<16xf32>
    %s = arith.addf %v, %w : vector<16xf32>
    xegpu.prefetch_nd %a[0] : !row
    xegpu.store_nd %s, %b[8] : vector<16xf32>, !row
    gpu.return
  }
  gpu.func @one_dimension_of_an_address(%A: i64, %B: memref<64xf32>) kernel {
    %i = arith.index_cast %A : i64 to index
    %row = arith.remui %i, %i : index
    %b = xegpu.create_nd_tdesc %B : memref<64xf32> -> !row
    %z = arith.constant dense<3.0> : vector<16xf32>
    xegpu.store_nd %z, %b[%row] : vector<16xf32>, !row
    gpu.return
  }
  gpu.func @three_dimensions(%A: memref<3x9x40xf32>, %B: memref<4x8x64xf32>) kernel {
    %c1 = arith.constant 1 : index
    %a = xegpu.create_nd_tdesc %A : memref<3x9x40xf32> -> !cube
    %b = xegpu.create_nd_tdesc %B : memref<4x8x64xf32> -> !cube
    %v = xegpu.load_nd %a[%c1, 2, 16] : !cube -> vector<2x4x16xf32>
    %w = xegpu.load_nd %a[2, 7, 32] : !cube -> vector<2x4x16xf32>
    %two = arith.constant dense<2.0> : vector<2x4x16xf32>
    %x = arith.mulf %w, %two : vector<2x4x16xf32>
    %s = arith.addf %v, %x : vector<2x4x16xf32>
    xegpu.store_nd %s, %b[2, 3, 40] : vector<2x4x16xf32>, !cube
    gpu.return
  }
  gpu.func @leading_ones(%A: memref<3x16x64xf32>, %B: memref<4x8x64xf32>) kernel {
    %c2 = arith.constant 2 : index
    %a = xegpu.create_nd_tdesc %A : memref<3x16x64xf32> -> !slab
    %b = xegpu.create_nd_tdesc %B : memref<4x8x64xf32> -> !slab
    %v = xegpu.load_nd %a[%c2, 5, 16] : !slab -> vector<1x8x16xf32>
    xegpu.store_nd %v, %b[3, 0, 48] : vector<1x8x16xf32>, !slab
    gpu.return
  }
  gpu.func @blocks_below_each_other(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !pair
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<16x16xf32>
    %v = xegpu.load_nd %a[60, 16] : !pair -> vector<16x16xf32>
    xegpu.store_nd %v, %b[8, 8] : vector<16x16xf32>, !xegpu.tensor_desc<16x16xf32>
    gpu.return
  }
  gpu.func @slice_of_rows(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<24x16xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %v = xegpu.load_nd %a[16, 32] : !xegpu.tensor_desc<24x16xf32> -> vector<24x16xf32>
    %w = vector.extract_strided_slice %v {offsets = [8], sizes = [8], strides = [1]} : vector<24x16xf32> to vector<8x16xf32>
    xegpu.store_nd %w, %b[0, 16] : vector<8x16xf32>, !block
    gpu.return
  }
  gpu.func @product_with_leading_ones(%A: memref<2x1x8x16xf16>, %B: memref<1x3x16x16xf16>, %C: memref<1x1x8x16xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<2x1x8x16xf16> -> !xegpu.tensor_desc<1x1x8x16xf16>
    %b = xegpu.create_nd_tdesc %B : memref<1x3x16x16xf16> -> !xegpu.tensor_desc<1x1x16x16xf16>
    %c = xegpu.create_nd_tdesc %C : memref<1x1x8x16xf32> -> !xegpu.tensor_desc<1x1x8x16xf32>
    %x = xegpu.load_nd %a[1, 0, 0, 0] : !xegpu.tensor_desc<1x1x8x16xf16> -> vector<1x1x8x16xf16>
    %y = xegpu.load_nd %b[0, 2, 0, 0] : !xegpu.tensor_desc<1x1x16x16xf16> -> vector<1x1x16x16xf16>
    %z = xegpu.dpas %x, %y : vector<1x1x8x16xf16>, vector<1x1x16x16xf16> -> vector<1x1x8x16xf32>
    xegpu.store_nd %z, %c[0, 0, 0, 0] : vector<1x1x8x16xf32>, !xegpu.tensor_desc<1x1x8x16xf32>
    gpu.return
  }
}
