// Vectors: bit casts, masks, constants whose elements differ, reductions, interleaving, loops without parentheses.
#slice = #xegpu.slice<#xegpu.slice<#xegpu.layout<sg_layout = [1, 2, 2], sg_data = [1, 16, 16]>, dims = [0]>, dims = [1]>
!block = !xegpu.tensor_desc<8x16xf32>
!words = !xegpu.tensor_desc<8x16xi32>
!halves = !xegpu.tensor_desc<8x32xi16>
gpu.module @vectors {
  gpu.func @bitcast(%A: memref<64x64xi32>, %B: memref<64x64xi16>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xi32> -> !words
    %b = xegpu.create_nd_tdesc %B : memref<64x64xi16> -> !halves
    %v = xegpu.load_nd %a[8, 16] : !words -> vector<8x16xi32>
    %w = vector.bitcast %v : vector<8x16xi32> to vector<8x32xi16>
    xegpu.store_nd %w, %b[0, 16] : vector<8x32xi16>, !halves
    gpu.return
  }
  gpu.func @masks(%A: memref<64x64xf32>, %B: memref<64x64xf32>, %n: index) kernel {
    %c5 = arith.constant 5 : index
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %v = xegpu.load_nd %a[8, 16] : !block -> vector<8x16xf32>
    %m = vector.create_mask %c5, %n : vector<8x16xi1>
    %k = vector.constant_mask [7, 3] : vector<8x16xi1>
    %zero = arith.constant dense<0.0> : vector<8x16xf32>
    %w = arith.select %m, %v, %zero : vector<8x16xi1>, vector<8x16xf32>
    %x = arith.select %k, %w, %v : vector<8x16xi1>, vector<8x16xf32>
    xegpu.store_nd %w, %b[0, 0] : vector<8x16xf32>, !block
    xegpu.store_nd %x, %b[32, 0] : vector<8x16xf32>, !block
    gpu.return
  }
  gpu.func @unequal_constants(%B: memref<64x64xf32>) kernel {
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<2x4xf32>
    %v = arith.constant dense<[[1.0, 1.0, 2.0, 3.0], [4.0, -5.0, 2.0, 2.0]]> : vector<2x4xf32>
    xegpu.store_nd %v, %b[3, 8] : vector<2x4xf32>, !xegpu.tensor_desc<2x4xf32>
    gpu.return
  }
  gpu.func @reduced_to_a_scalar(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %v = xegpu.load_nd %a[8, 16] : !block -> vector<8x16xf32>
    %zero = arith.constant 0.0 : f32
    %seven = arith.constant 7.0 : f32
    %s = vector.multi_reduction <add>, %v, %zero [0, 1] : vector<8x16xf32> to f32
    %t = arith.addf %s, %seven : f32
    %low = arith.constant 3.0 : f32
    %m = vector.multi_reduction <maximumf>, %v, %low [0, 1] : vector<8x16xf32> to f32
    %u = arith.mulf %t, %m : f32
    %w = vector.broadcast %u : f32 to vector<8x16xf32>
    xegpu.store_nd %w, %b[0, 0] : vector<8x16xf32>, !block
    gpu.return
  }
  gpu.func @reduced_from_three_dimensions(%A: memref<2x8x16xf32>, %B: memref<64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<2x8x16xf32> -> !xegpu.tensor_desc<2x8x16xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64xf32> -> !xegpu.tensor_desc<16xf32>
    %v = xegpu.load_nd %a[0, 0, 0] : !xegpu.tensor_desc<2x8x16xf32> -> vector<2x8x16xf32>
    %zero = arith.constant dense<0.0> : vector<16xf32>
    %s = vector.multi_reduction <add>, %v, %zero {layout_result_0 = #slice} [0, 1] : vector<2x8x16xf32> to vector<16xf32>
    xegpu.store_nd %s, %b[24] : vector<16xf32>, !xegpu.tensor_desc<16xf32>
    gpu.return
  }
  gpu.func @reduced_onto_ones(%A: memref<64x64xf32>, %B: memref<64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64xf32> -> !xegpu.tensor_desc<8xf32>
    %v = xegpu.load_nd %a[8, 16] : !block -> vector<8x16xf32>
    %one = arith.constant dense<1.0> : vector<8xf32>
    %s = vector.multi_reduction <add>, %v, %one [1] : vector<8x16xf32> to vector<8xf32>
    xegpu.store_nd %s, %b[24] : vector<8xf32>, !xegpu.tensor_desc<8xf32>
    gpu.return
  }
  gpu.func @reduction_of_a_row(%A: memref<64xf32>, %B: memref<64xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64xf32> -> !xegpu.tensor_desc<16xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64xf32> -> !xegpu.tensor_desc<16xf32>
    %v = xegpu.load_nd %a[24] : !xegpu.tensor_desc<16xf32> -> vector<16xf32>
    %start = arith.constant 4.0 : f32
    %s = vector.reduction <add>, %v, %start : vector<16xf32> into f32
    %w = vector.broadcast %s : f32 to vector<16xf32>
    xegpu.store_nd %w, %b[0] : vector<16xf32>, !xegpu.tensor_desc<16xf32>
    gpu.return
  }
  gpu.func @interleaved(%A: memref<64x64xi16>, %B: memref<64x64xi16>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xi16> -> !xegpu.tensor_desc<8x16xi16>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xi16> -> !halves
    %v = xegpu.load_nd %a[8, 16] : !xegpu.tensor_desc<8x16xi16> -> vector<8x16xi16>
    %w = xegpu.load_nd %a[16, 32] : !xegpu.tensor_desc<8x16xi16> -> vector<8x16xi16>
    %i = vector.interleave %v, %w : vector<8x16xi16> -> vector<8x32xi16>
    xegpu.store_nd %i, %b[0, 16] : vector<8x32xi16>, !halves
    gpu.return
  }
  gpu.func @loop_without_parentheses(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %zero = arith.constant dense<0.0> : vector<8x16xf32>
    %s = scf.for %i = %c0 to %c32 step %c8 iter_args(%sum = %zero) -> vector<8x16xf32> {
      %v = xegpu.load_nd %a[%i, 16] : !block -> vector<8x16xf32>
      %w = arith.addf %v, %sum : vector<8x16xf32>
      scf.yield %w : vector<8x16xf32>
    } {range = #xegpu.range<[0, 4]>}
    xegpu.store_nd %s, %b[0, 0] : vector<8x16xf32>, !block
    gpu.return
  }
  gpu.func @lane_constants(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %w = arith.constant dense<[1.0, -2.0, 3.0, 0.0, 5.0, -6.0, 7.0, -8.0]> : vector<8xf32>
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %a[16, 32] : !xegpu.tensor_desc<8x16xf32> -> vector<8xf32>
    %x = arith.mulf %v, %w : vector<8xf32>
    xegpu.store_nd %x, %b[8, 16] : vector<8xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
}
