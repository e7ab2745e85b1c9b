// Products whose operands have a scale for each 32 elements along K.
gpu.module @scaled {
  gpu.func @dpas_mx(%A: memref<8x64xf8E5M2>, %B: memref<64x16xf8E5M2>, %S: memref<8x2xf8E8M0FNU>,
                    %T: memref<2x16xf8E8M0FNU>, %C: memref<8x16xf32>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<8x64xf8E5M2> -> !xegpu.tensor_desc<8x64xf8E5M2>
    %b = xegpu.create_nd_tdesc %B : memref<64x16xf8E5M2> -> !xegpu.tensor_desc<64x16xf8E5M2>
    %s = xegpu.create_nd_tdesc %S : memref<8x2xf8E8M0FNU> -> !xegpu.tensor_desc<8x2xf8E8M0FNU>
    %t = xegpu.create_nd_tdesc %T : memref<2x16xf8E8M0FNU> -> !xegpu.tensor_desc<2x16xf8E8M0FNU>
    %c = xegpu.create_nd_tdesc %C : memref<8x16xf32> -> !xegpu.tensor_desc<8x16xf32>
    %x = xegpu.load_nd %a[0, 0] : !xegpu.tensor_desc<8x64xf8E5M2> -> vector<8x64xf8E5M2>
    %y = xegpu.load_nd %b[0, 0] : !xegpu.tensor_desc<64x16xf8E5M2> -> vector<64x16xf8E5M2>
    %u = xegpu.load_nd %s[0, 0] : !xegpu.tensor_desc<8x2xf8E8M0FNU> -> vector<8x2xf8E8M0FNU>
    %v = xegpu.load_nd %t[0, 0] : !xegpu.tensor_desc<2x16xf8E8M0FNU> -> vector<2x16xf8E8M0FNU>
    %z = xegpu.load_nd %c[0, 0] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    %d = xegpu.dpas_mx %x, %y, %z scale_a = %u scale_b = %v : (vector<8x64xf8E5M2>, vector<64x16xf8E5M2>, vector<8x16xf32>, vector<8x2xf8E8M0FNU>, vector<2x16xf8E8M0FNU>) -> vector<8x16xf32>
    xegpu.store_nd %d, %c[0, 0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
    gpu.return
  }
  gpu.func @dpas_mx_to_bf16(%A: memref<8x64xf8E5M2>, %B: memref<64x16xf8E5M2>, %S: memref<8x2xf8E8M0FNU>,
                    %T: memref<2x16xf8E8M0FNU>, %C: memref<8x16xbf16>) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<8x64xf8E5M2> -> !xegpu.tensor_desc<8x64xf8E5M2>
    %b = xegpu.create_nd_tdesc %B : memref<64x16xf8E5M2> -> !xegpu.tensor_desc<64x16xf8E5M2>
    %s = xegpu.create_nd_tdesc %S : memref<8x2xf8E8M0FNU> -> !xegpu.tensor_desc<8x2xf8E8M0FNU>
    %t = xegpu.create_nd_tdesc %T : memref<2x16xf8E8M0FNU> -> !xegpu.tensor_desc<2x16xf8E8M0FNU>
    %c = xegpu.create_nd_tdesc %C : memref<8x16xbf16> -> !xegpu.tensor_desc<8x16xbf16>
    %x = xegpu.load_nd %a[0, 0] : !xegpu.tensor_desc<8x64xf8E5M2> -> vector<8x64xf8E5M2>
    %y = xegpu.load_nd %b[0, 0] : !xegpu.tensor_desc<64x16xf8E5M2> -> vector<64x16xf8E5M2>
    %u = xegpu.load_nd %s[0, 0] : !xegpu.tensor_desc<8x2xf8E8M0FNU> -> vector<8x2xf8E8M0FNU>
    %v = xegpu.load_nd %t[0, 0] : !xegpu.tensor_desc<2x16xf8E8M0FNU> -> vector<2x16xf8E8M0FNU>
    %z = xegpu.load_nd %c[0, 0] : !xegpu.tensor_desc<8x16xbf16> -> vector<8x16xbf16>
    %d = xegpu.dpas_mx %x, %y, %z scale_a = %u scale_b = %v : (vector<8x64xf8E5M2>, vector<64x16xf8E5M2>, vector<8x16xbf16>, vector<8x2xf8E8M0FNU>, vector<2x16xf8E8M0FNU>) -> vector<8x16xbf16>
    xegpu.store_nd %d, %c[0, 0] : vector<8x16xbf16>, !xegpu.tensor_desc<8x16xbf16>
    gpu.return
  }
}
