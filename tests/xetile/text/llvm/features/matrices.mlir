// Matrices in shared local memory.
#lanes = #xegpu.layout<lane_layout = [1, 16], lane_data = [1, 1]>
#rows = #xegpu.layout<sg_layout = [4, 1], sg_data = [8, 32]>
#columns = #xegpu.layout<sg_layout = [1, 4], sg_data = [32, 8]>
!by_blocks = !xegpu.mem_desc<32x32xf32, #xegpu.mem_layout<stride = [1, 32], block = [16, 16]>>
!in_blocks = !xegpu.mem_desc<32x32xf32, #xegpu.mem_layout<block = [16, 16]>>
!block = !xegpu.tensor_desc<8x16xf32>
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
  gpu.func @lanes(%A: memref<64x64xf32>, %B: memref<64x64xf32>, %s: memref<2048xi8, 3>) kernel {
    %m = xegpu.create_mem_desc %s : memref<2048xi8, 3> -> !xegpu.mem_desc<16x32xf32>
    %c8 = arith.constant 8 : index
    %c15 = arith.constant 15 : index
    %t = gpu.thread_id x
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %v = xegpu.load_nd %a[16, 32] : !block -> vector<8xf32>
    xegpu.store_matrix %v, %m[%t, %c8] : vector<8xf32>, !xegpu.mem_desc<16x32xf32>, index, index
    xegpu.store_matrix %v, %m[%t, 16] : vector<8xf32>, !xegpu.mem_desc<16x32xf32>, index
    gpu.barrier
    %mirrored = arith.subi %c15, %t : index
    %x = xegpu.load_matrix %m[%mirrored, %c8] : !xegpu.mem_desc<16x32xf32>, index, index -> f32
    %n = arith.index_cast %t : index to i32
    %f = arith.sitofp %n : i32 to f32
    %y = arith.mulf %x, %f : f32
    xegpu.store_matrix %y, %m[%t, 20] : f32, !xegpu.mem_desc<16x32xf32>, index
    gpu.barrier
    %w = xegpu.load_matrix %m[%mirrored, 13] : !xegpu.mem_desc<16x32xf32>, index -> vector<8xf32>
    xegpu.store_nd %w, %b[0, 16] : vector<8xf32>, !block
    gpu.return
  }
  gpu.func @lanes_of_blocks(%A: memref<64x64xf32>, %B: memref<64x64xf32>, %m: !by_blocks, %n: !in_blocks) kernel {
    %l = gpu.lane_id
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %v = xegpu.load_nd %a[40, 8] : !block -> vector<8xf32>
    xegpu.store_matrix %v, %m[16, %l] : vector<8xf32>, !by_blocks, index
    xegpu.store_matrix %v, %m[24, %l] : vector<8xf32>, !by_blocks, index
    xegpu.store_matrix %v, %n[8, 16] <{subgroup_block_io}> : vector<8xf32>, !in_blocks
    gpu.barrier
    %w = xegpu.load_matrix %m[16, 0] <{subgroup_block_io}> : !by_blocks -> vector<8xf32>
    %x = xegpu.load_matrix %n[8, 16] <{subgroup_block_io}> : !in_blocks -> vector<8xf32>
    %y = arith.subf %x, %w : vector<8xf32>
    %z = xegpu.load_matrix %n[%l, 20] : !in_blocks, index -> vector<1xf32>
    xegpu.store_nd %y, %b[0, 0] : vector<8xf32>, !block
    gpu.return
  }
}
