// Results, descriptors and memory spaces of functions.
gpu.module @signatures {
  gpu.func @result(%A: memref<64x64xf32>) -> vector<8x16xf32> {
    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %d[8, 16] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %w = arith.addf %v, %v : vector<8x16xf32>
    gpu.return %w : vector<8x16xf32>
  }
  func.func @two_results(%A: memref<64x64xf32>) -> (vector<8x16xf32>, vector<16xf32>) {
    %zero = arith.constant dense<0.0> : vector<16xf32>
    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %d[24, 32] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %w = vector.multi_reduction <add>, %v, %zero [0] : vector<8x16xf32> to vector<16xf32>
    return %v, %w : vector<8x16xf32>, vector<16xf32>
  }
  gpu.func @gathered_result(%A: memref<320xf32>) -> vector<32xf32> {
    %three = arith.constant dense<3> : vector<32xindex>
    %mask = arith.constant dense<true> : vector<32xi1>
    %step = vector.step : vector<32xindex>
    %o = arith.muli %step, %three : vector<32xindex>
    %v = xegpu.load %A[%o], %mask : memref<320xf32>, vector<32xindex>, vector<32xi1> -> vector<32xf32>
    gpu.return %v : vector<32xf32>
  }
  gpu.func @work_group_result(%A: memref<64x64xf32>) -> vector<64x32xf32>
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32>
      -> !xegpu.tensor_desc<64x32xf32, #xegpu.layout<sg_layout = [2, 2], sg_data = [32, 16]>>
    %v = xegpu.load_nd %d[0, 16] : !xegpu.tensor_desc<64x32xf32, #xegpu.layout<sg_layout = [2, 2], sg_data = [32, 16]>>
      -> vector<64x32xf32>
    %w = arith.mulf %v, %v : vector<64x32xf32>
    gpu.return %w : vector<64x32xf32>
  }
  gpu.func @descriptors(%a: !xegpu.tensor_desc<8x16xf32>, %b: !xegpu.tensor_desc<8x16xf32>) {
    %v = xegpu.load_nd %a[8, 32] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    xegpu.store_nd %v, %b[40, 16] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
  gpu.func @memory_space(%A: memref<64x64xf32, 1>, %B: memref<64x64xf32, 1>) kernel {
    %a = memref.memory_space_cast %A : memref<64x64xf32, 1> to memref<64x64xf32>
    %b = memref.memory_space_cast %B : memref<64x64xf32, 1> to memref<64x64xf32>
    %c = xegpu.create_nd_tdesc %a : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %d = xegpu.create_nd_tdesc %b : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %c[16, 16] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    xegpu.store_nd %v, %d[0, 48] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
  gpu.func @reduced_beside_a_scatter(%A: memref<64x64xf32>, %B: memref<320xf32>) kernel {
    %one = arith.constant 1.0 : f32
    %offsets = arith.constant dense<[0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45]> : vector<16xindex>
    %mask = arith.constant dense<true> : vector<16xi1>
    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %d[24, 8] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %s = vector.multi_reduction <add>, %v, %one [0, 1] : vector<8x16xf32> to f32
    %w = vector.broadcast %s : f32 to vector<16xf32>
    xegpu.store %w, %B[%offsets], %mask : vector<16xf32>, memref<320xf32>, vector<16xindex>, vector<16xi1>
    gpu.return
  }
  gpu.func @many_lanes(%A: memref<320xf32>, %B: memref<320xf32>) kernel {
    %two = arith.constant dense<2> : vector<128xindex>
    %mask = arith.constant dense<true> : vector<128xi1>
    %step = vector.step : vector<128xindex>
    %o = arith.muli %step, %two : vector<128xindex>
    %v = xegpu.load %A[%o], %mask : memref<320xf32>, vector<128xindex>, vector<128xi1> -> vector<128xf32>
    %w = arith.addf %v, %v : vector<128xf32>
    xegpu.store %w, %B[%step], %mask : vector<128xf32>, memref<320xf32>, vector<128xindex>, vector<128xi1>
    gpu.return
  }
}
