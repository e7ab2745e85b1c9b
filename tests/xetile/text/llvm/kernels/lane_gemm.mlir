module @gemm attributes {gpu.container_module} {
  gpu.module @kernel {
    gpu.func @simple_gemm(%a: memref<256x256xf16>, %b: memref<256x256xf16>, %c: memref<256x256xf32>) kernel {
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %c16 = arith.constant 16 : index
      %c256 = arith.constant 256 : index
      %two = arith.constant dense<2.0> : vector<8xf32>
      %zero = arith.constant dense<0.0> : vector<8xf32>
      %block_x = gpu.block_id x
      %block_y = gpu.block_id y
      %m = arith.muli %block_x, %c8 : index
      %n = arith.muli %block_y, %c16 : index
      %c_tdesc = xegpu.create_nd_tdesc %c : memref<256x256xf32> -> !xegpu.tensor_desc<8x16xf32>
      %old = xegpu.load_nd %c_tdesc[%m, %n] : !xegpu.tensor_desc<8x16xf32> -> vector<8xf32>
      %a_tdesc = xegpu.create_nd_tdesc %a : memref<256x256xf16> -> !xegpu.tensor_desc<8x16xf16>
      %b_tdesc = xegpu.create_nd_tdesc %b : memref<256x256xf16> -> !xegpu.tensor_desc<16x16xf16>
      %r = scf.for %k = %c0 to %c256 step %c16 iter_args(%acc = %zero) -> (vector<8xf32>) {
        %a_val = xegpu.load_nd %a_tdesc[%m, %k] : !xegpu.tensor_desc<8x16xf16> -> vector<8xf16>
        %b_val = xegpu.load_nd %b_tdesc[%k, %n] <{packed}> : !xegpu.tensor_desc<16x16xf16> -> vector<16xf16>
        %dpas = xegpu.dpas %a_val, %b_val, %acc : vector<8xf16>, vector<16xf16>, vector<8xf32> -> vector<8xf32>
        scf.yield %dpas : vector<8xf32>
      }
      %half = arith.mulf %r, %two : vector<8xf32>
      %scaled = arith.divf %half, %two : vector<8xf32>
      %sum = arith.addf %scaled, %old : vector<8xf32>
      xegpu.store_nd %sum, %c_tdesc[%m, %n] : vector<8xf32>, !xegpu.tensor_desc<8x16xf32>
      gpu.return
    }
  }
}
