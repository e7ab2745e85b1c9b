// Matrices in shared local memory.
#lanes = #xegpu.layout<lane_layout = [1, 16], lane_data = [1, 1]>
#rows = #xegpu.layout<sg_layout = [4, 1], sg_data = [8, 32]>
#columns = #xegpu.layout<sg_layout = [1, 4], sg_data = [32, 8]>
!by_blocks = !xegpu.mem_desc<32x32xf32, #xegpu.mem_layout<stride = [1, 32], block = [16, 16]>>
gpu.module @matrices {
  gpu.func @subgroup(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %s = memref.alloca() {alignment = 1024} : memref<2048xi8, 3>
    %m = xegpu.create_mem_desc %s : memref<2048xi8, 3> -> !xegpu.mem_desc<16x32xf32>
    %c8 = arith.constant 8 : index
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<16x32xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %a[16, 16] : !xegpu.tensor_desc<16x32xf32> -> vector<16x32xf32>
    xegpu.store_matrix %v, %m[0, 0] : vector<16x32xf32>, !xegpu.mem_desc<16x32xf32>
    gpu.barrier
    %w = xegpu.load_matrix %m[%c8, 16] <{layout = #lanes}> : !xegpu.mem_desc<16x32xf32>, index -> vector<8x16xf32>
    xegpu.store_nd %w, %b[0, 0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
  gpu.func @work_group(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel
      attributes {known_block_size = array<i32: 64, 1, 1>} {
    %s = memref.alloca() : memref<4096xi8, 3>
    %m = xegpu.create_mem_desc %s : memref<4096xi8, 3> -> !by_blocks
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<32x32xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<32x32xf32>
    %v = xegpu.load_nd %a[16, 16] <{layout = #rows}> : !xegpu.tensor_desc<32x32xf32> -> vector<32x32xf32>
    xegpu.store_matrix %v, %m[0, 0] <{layout = #rows}> : vector<32x32xf32>, !by_blocks
    gpu.barrier
    %w = xegpu.load_matrix %m[0, 0] <{layout = #columns}> : !by_blocks -> vector<32x32xf32>
    %t = vector.transpose %w, [1, 0] : vector<32x32xf32> to vector<32x32xf32>
    xegpu.store_nd %t, %b[0, 8] <{layout = #rows}> : vector<32x32xf32>, !xegpu.tensor_desc<32x32xf32>
    gpu.return
  }
}
