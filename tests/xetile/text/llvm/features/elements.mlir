// Single elements: chunks, contiguity, offsets of two dimensions, scalar offsets and masks, layouts; numbers of arrays.
#sg = #xegpu.layout<sg_layout = [4], sg_data = [16]>
!row = !xegpu.tensor_desc<16xf32>
gpu.module @elements {
  gpu.func @chunks(%A: memref<512xf32>, %B: memref<512xf32>) kernel {
    %s = vector.step : vector<16xindex>
    %c9 = arith.constant dense<9> : vector<16xindex>
    %o = arith.muli %s, %c9 : vector<16xindex>
    %c11 = arith.constant dense<11> : vector<16xindex>
    %m = arith.cmpi ult, %s, %c11 : vector<16xindex>
    %v = xegpu.load %A[%o], %m <{chunk_size = 8 : i64, l1_hint = #xegpu.cache_hint<cached>}> : memref<512xf32>, vector<16xindex>, vector<16xi1> -> vector<16x8xf32>
    %w = arith.addf %v, %v : vector<16x8xf32>
    xegpu.store %w, %B[%o], %m <{chunk_size = 8 : i64}> : vector<16x8xf32>, memref<512xf32>, vector<16xindex>, vector<16xi1>
    gpu.return
  }
  gpu.func @chunks_beside_lines(%A: memref<512xf32>, %B: memref<512xf32>) kernel {
    %s = vector.step : vector<16xindex>
    %c20 = arith.constant dense<20> : vector<16xindex>
    %o = arith.muli %s, %c20 : vector<16xindex>
    %c13 = arith.constant dense<13> : vector<16xindex>
    %m = arith.cmpi ult, %s, %c13 : vector<16xindex>
    xegpu.prefetch %A[%o] <{l1_hint = #xegpu.cache_hint<cached>}> : memref<512xf32>, vector<16xindex>
    %v = xegpu.load %A[%o], %m <{chunk_size = 4 : i64}> : memref<512xf32>, vector<16xindex>, vector<16xi1> -> vector<16x4xf32>
    %w = xegpu.load %A[%s], %m : memref<512xf32>, vector<16xindex>, vector<16xi1> -> vector<16xf32>
    xegpu.store %v, %B[%o], %m <{chunk_size = 4 : i64}> : vector<16x4xf32>, memref<512xf32>, vector<16xindex>, vector<16xi1>
    %c5 = arith.constant dense<5> : vector<16xindex>
    %p = arith.addi %o, %c5 : vector<16xindex>
    xegpu.store %w, %B[%p], %m : vector<16xf32>, memref<512xf32>, vector<16xindex>, vector<16xi1>
    gpu.return
  }
  gpu.func @two_dimensions(%A: memref<512xf32>, %B: memref<512xf32>) kernel {
    %i = arith.constant dense<[[0], [100], [30], [7]]> : vector<4x1xindex>
    %rows = vector.broadcast %i : vector<4x1xindex> to vector<4x16xindex>
    %s = vector.step : vector<16xindex>
    %columns = vector.broadcast %s : vector<16xindex> to vector<4x16xindex>
    %o = arith.addi %rows, %columns : vector<4x16xindex>
    %m = vector.constant_mask [3, 9] : vector<4x16xi1>
    %v = xegpu.load %A[%o], %m <{contiguity = 16 : i64}> : memref<512xf32>, vector<4x16xindex>, vector<4x16xi1> -> vector<4x16xf32>
    xegpu.store %v, %B[%o], %m <{contiguity = 16 : i64}> : vector<4x16xf32>, memref<512xf32>, vector<4x16xindex>, vector<4x16xi1>
    gpu.return
  }
  gpu.func @scalar_offset(%A: memref<512xf32>, %B: memref<512xf32>) kernel {
    %o = arith.constant 37 : index
    %p = arith.constant 5 : index
    %t = arith.constant true
    %f = arith.constant false
    %l = xegpu.load %A[%o], %t <{chunk_size = 8 : i64}> : memref<512xf32>, index, i1 -> vector<8xf32>
    %w = arith.constant dense<[1.0, -2.0, 3.0, 0.0, 5.0, -6.0, 7.0, -8.0]> : vector<8xf32>
    %v = arith.mulf %l, %w : vector<8xf32>
    xegpu.store %v, %B[%p], %t <{chunk_size = 8 : i64}> : vector<8xf32>, memref<512xf32>, index, i1
    xegpu.store %v, %B[%o], %f <{chunk_size = 8 : i64}> : vector<8xf32>, memref<512xf32>, index, i1
    gpu.return
  }
  gpu.func @distributed(%A: memref<512xf32>, %B: memref<512xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %s = vector.step {layout_result_0 = #sg} : vector<64xindex>
    %c3 = arith.constant {layout_result_0 = #sg} dense<3> : vector<64xindex>
    %o = arith.muli %s, %c3 {layout_result_0 = #sg} : vector<64xindex>
    %m = arith.constant {layout_result_0 = #sg} dense<true> : vector<64xi1>
    %v = xegpu.load %A[%o], %m <{layout = #sg}> : memref<512xf32>, vector<64xindex>, vector<64xi1> -> vector<64xf32>
    xegpu.store %v, %B[%s], %m <{layout = #sg}> : vector<64xf32>, memref<512xf32>, vector<64xindex>, vector<64xi1>
    gpu.return
  }
  gpu.func @distributed_by_results(%A: memref<512xf32>, %B: memref<512xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %s = vector.step {layout_result_0 = #sg} : vector<64xindex>
    %c5 = arith.constant {layout_result_0 = #sg} dense<5> : vector<64xindex>
    %o = arith.muli %s, %c5 {layout_result_0 = #sg} : vector<64xindex>
    %m = arith.constant {layout_result_0 = #sg} dense<true> : vector<64xi1>
    %v = xegpu.load %A[%o], %m {layout_result_0 = #sg} : memref<512xf32>, vector<64xindex>, vector<64xi1> -> vector<64xf32>
    xegpu.store %v, %B[%s], %m {layout_operand_0 = #sg} : vector<64xf32>, memref<512xf32>, vector<64xindex>, vector<64xi1>
    gpu.return
  }
  gpu.func @number_of_an_array(%A: memref<16xi32>, %B: memref<64x64xf32>) kernel {
    %c3 = arith.constant 3 : index
    %n = memref.load %A[%c3] : memref<16xi32>
    %at = arith.index_cast %n : i32 to index
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = arith.constant dense<1.0> : vector<8x16xf32>
    xegpu.store_nd %v, %b[%at, 0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
  gpu.func @guarded_numbers(%A: memref<64xf32>, %B: memref<64xf32>, %i: index) kernel {
    %c3 = arith.constant 3 : index
    %c5 = arith.constant 5 : index
    %true = arith.constant true
    %less = arith.cmpi slt, %i, %c5 : index
    %zero = arith.constant 0.0 : f32
    %all = arith.constant dense<true> : vector<16xi1>
    %at = vector.step : vector<16xindex>
    %v = xegpu.load %A[%i], %true : memref<64xf32>, index, i1 -> f32
    xegpu.store %v, %B[%c5], %true : f32, memref<64xf32>, index, i1
    xegpu.store %v, %B[%c3], %less : f32, memref<64xf32>, index, i1
    %w = xegpu.load %A[%at], %all : memref<64xf32>, vector<16xindex>, vector<16xi1> -> vector<16xf32>
    %s = vector.multi_reduction <add>, %w, %zero [0] : vector<16xf32> to f32
    %t = arith.addf %s, %v : f32
    xegpu.store %t, %B[%i], %true : f32, memref<64xf32>, index, i1
    gpu.return
  }
  gpu.func @stored_numbers(%A: memref<64x64xf32>, %B: memref<4x16x64xf32>, %C: memref<320xf32>) kernel {
    %c2 = arith.constant 2 : index
    %c5 = arith.constant 5 : index
    %c11 = arith.constant 11 : index
    %zero = arith.constant 0.0 : f32
    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %d[8, 16] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %s = vector.multi_reduction <add>, %v, %zero [0, 1] : vector<8x16xf32> to f32
    %x = memref.load %A[%c11, %c5] : memref<64x64xf32>
    memref.store %s, %B[%c2, %c5, %c11] : memref<4x16x64xf32>
    memref.store %x, %C[%c11] : memref<320xf32>
    gpu.return
  }
}
