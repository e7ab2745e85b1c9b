// Shape casts, broadcasts and reductions of vectors of any rank.
#subgroups = #xegpu.layout<sg_layout = [2, 2], sg_data = [16, 16]>
!block = !xegpu.tensor_desc<8x16xf32>
!tile = !xegpu.tensor_desc<32x32xf32>
!square = !xegpu.tensor_desc<16x16xf32>
!cube = !xegpu.tensor_desc<4x8x16xf32>
gpu.module @reshapes {
  gpu.func @cast_between_ranks(%A: memref<64x64xf32>, %B: memref<4x64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<4x64xf32> -> !xegpu.tensor_desc<4x32xf32>
    %v = xegpu.load_nd %a[8, 16] : !block -> vector<8x16xf32>
    %w = vector.shape_cast %v : vector<8x16xf32> to vector<128xf32>
    %x = vector.shape_cast %w : vector<128xf32> to vector<2x2x32xf32>
    %y = vector.shape_cast %x : vector<2x2x32xf32> to vector<4x32xf32>
    xegpu.store_nd %y, %b[0, 16] : vector<4x32xf32>, !xegpu.tensor_desc<4x32xf32>
    gpu.return
  }
  gpu.func @column_as_a_row(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %z = arith.constant dense<0.0> : vector<16xf32>
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !square
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !square
    %v = xegpu.load_nd %a[16, 32] : !square -> vector<16x16xf32>
    %rows = vector.multi_reduction <add>, %v, %z [1] : vector<16x16xf32> to vector<16xf32>
    %columns = vector.multi_reduction <add>, %v, %rows [0] : vector<16x16xf32> to vector<16xf32>
    %s = arith.subf %columns, %rows : vector<16xf32>
    %w = vector.broadcast %s : vector<16xf32> to vector<16x16xf32>
    %r = vector.broadcast %rows : vector<16xf32> to vector<16x16xf32>
    %x = arith.addf %w, %r : vector<16x16xf32>
    xegpu.store_nd %x, %b[0, 16] : vector<16x16xf32>, !square
    gpu.return
  }
  gpu.func @repeated_block(%A: memref<64x64xf32>, %B: memref<4x64x64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<4x64x64xf32> -> !cube
    %v = xegpu.load_nd %a[8, 16] : !block -> vector<8x16xf32>
    %w = vector.broadcast %v : vector<8x16xf32> to vector<4x8x16xf32>
    xegpu.store_nd %w, %b[0, 3, 40] : vector<4x8x16xf32>, !cube
    gpu.return
  }
  gpu.func @reduced_first_of_three(%A: memref<4x64x64xf32>, %B: memref<64x64xf32>) kernel {
    %one = arith.constant dense<1.0> : vector<8x16xf32>
    %a = xegpu.create_nd_tdesc %A : memref<4x64x64xf32> -> !cube
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %v = xegpu.load_nd %a[0, 8, 16] : !cube -> vector<4x8x16xf32>
    %w = vector.multi_reduction <add>, %v, %one [0] : vector<4x8x16xf32> to vector<8x16xf32>
    xegpu.store_nd %w, %b[32, 24] : vector<8x16xf32>, !block
    gpu.return
  }
  gpu.func @reduced_last_two_of_three(%A: memref<4x64x64xf32>, %B: memref<4xf32>) kernel {
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %all = arith.constant dense<true> : vector<4xi1>
    %at = vector.step : vector<4xindex>
    %a = xegpu.create_nd_tdesc %A : memref<4x64x64xf32> -> !cube
    %v = xegpu.load_nd %a[0, 8, 16] : !cube -> vector<4x8x16xf32>
    %w = vector.multi_reduction <add>, %v, %zero [1, 2] : vector<4x8x16xf32> to vector<4xf32>
    xegpu.store %w, %B[%at], %all : vector<4xf32>, memref<4xf32>, vector<4xindex>, vector<4xi1>
    gpu.return
  }
  gpu.func @indices(%A: memref<1024xf32>, %B: memref<64x64xf32>) kernel {
    %c3 = arith.constant dense<3> : vector<128xindex>
    %c300 = arith.constant dense<300> : vector<128xindex>
    %at = vector.step : vector<128xindex>
    %thrice = arith.muli %at, %c3 : vector<128xindex>
    %inside = arith.cmpi slt, %thrice, %c300 : vector<128xindex>
    %m = vector.shape_cast %inside : vector<128xi1> to vector<8x16xi1>
    %o = vector.shape_cast %thrice : vector<128xindex> to vector<8x16xindex>
    %zero = arith.constant dense<0.0> : vector<8x16xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load %A[%o], %m : memref<1024xf32>, vector<8x16xindex>, vector<8x16xi1> -> vector<8x16xf32>
    %w = arith.select %m, %v, %zero : vector<8x16xi1>, vector<8x16xf32>
    xegpu.store_nd %w, %b[2, 3] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
  gpu.func @distributed_cast(%A: memref<64x64xf32>, %B: memref<16x64xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !tile
    %b = xegpu.create_nd_tdesc %B : memref<16x64xf32> -> !xegpu.tensor_desc<16x64xf32>
    %v = xegpu.load_nd %a[16, 8] <{layout = #subgroups}> : !tile -> vector<32x32xf32>
    %w = vector.shape_cast %v : vector<32x32xf32> to vector<16x64xf32>
    %x = arith.addf %w, %w : vector<16x64xf32>
    xegpu.store_nd %x, %b[0, 0] <{layout = #xegpu.layout<sg_layout = [4, 1], sg_data = [4, 64]>}> : vector<16x64xf32>, !xegpu.tensor_desc<16x64xf32>
    gpu.return
  }
}
