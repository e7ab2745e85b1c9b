gpu.module @test_kernel attributes {spirv.target_env = #spirv.target_env<#spirv.vce<v1.4, [Addresses, Kernel], []>, #spirv.resource_limits<>>} {
  gpu.func @test_kernel(%A: memref<256x256xf16>, %B: memref<256x256xf16>, %C: memref<256x256xf32>) kernel attributes {VectorComputeFunctionINTEL, spirv.entry_point_abi = #spirv.entry_point_abi<>} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c256 = arith.constant 256 : index
    %x = gpu.block_id x
    %y = gpu.block_id y
    %m = arith.muli %x, %c8 : index
    %n = arith.muli %y, %c16 : index
    %c_tdesc = xegpu.create_nd_tdesc %C[%m, %n] : memref<256x256xf32> -> !xegpu.tensor_desc<8x16xf32>
    %c_init = xegpu.load_nd %c_tdesc : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %a0 = xegpu.create_nd_tdesc %A[%m, %c0] : memref<256x256xf16> -> !xegpu.tensor_desc<8x16xf16>
    %b0 = xegpu.create_nd_tdesc %B[%c0, %n] : memref<256x256xf16> -> !xegpu.tensor_desc<16x16xf16>
    %r:3 = scf.for %k = %c0 to %c256 step %c16 iter_args(%a = %a0, %b = %b0, %acc = %c_init) -> (!xegpu.tensor_desc<8x16xf16>, !xegpu.tensor_desc<16x16xf16>, vector<8x16xf32>) {
      %va = xegpu.load_nd %a : !xegpu.tensor_desc<8x16xf16> -> vector<8x16xf16>
      %vb = xegpu.load_nd %b {packed} : !xegpu.tensor_desc<16x16xf16> -> vector<8x16x2xf16>
      %d = xegpu.dpas %va, %vb, %acc : vector<8x16xf16>, vector<8x16x2xf16>, vector<8x16xf32> -> vector<8x16xf32>
      %a1 = xegpu.update_nd_offset %a, [%c0, %c16] : !xegpu.tensor_desc<8x16xf16>
      %b1 = xegpu.update_nd_offset %b, [%c16, %c0] : !xegpu.tensor_desc<16x16xf16>
      scf.yield %a1, %b1, %d : !xegpu.tensor_desc<8x16xf16>, !xegpu.tensor_desc<16x16xf16>, vector<8x16xf32>
    }
    xegpu.store_nd %r#2, %c_tdesc : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
}
