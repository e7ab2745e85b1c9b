// Layouts that stand at one operation alone, and reach what leads to it.
gpu.module @anchors {
  gpu.func @reduced_to_a_line(%A: memref<32x64xf32>, %B: memref<32xf32>) kernel {
    %zero = arith.constant dense<0.0> : vector<32xf32>
    %a = xegpu.create_nd_tdesc %A : memref<32x64xf32> -> !xegpu.tensor_desc<32x64xf32>
    %v = xegpu.load_nd %a[0, 0] : !xegpu.tensor_desc<32x64xf32> -> vector<32x64xf32>
    %r = vector.multi_reduction <add>, %v, %zero [1] : vector<32x64xf32> to vector<32xf32>
    %b = xegpu.create_nd_tdesc %B : memref<32xf32> -> !xegpu.tensor_desc<32xf32>
    xegpu.store_nd %r, %b[0] <{layout = #xegpu.layout<sg_layout = [32], sg_data = [1]>}>
      : vector<32xf32>, !xegpu.tensor_desc<32xf32>
    gpu.return
  }
  gpu.func @scattered_by_a_layout(%B: memref<600xf32>) kernel {
    %step = vector.step : vector<256xindex>
    %two = arith.constant dense<2> : vector<256xindex>
    %at = arith.muli %step, %two : vector<256xindex>
    %n = arith.index_cast %at : vector<256xindex> to vector<256xi32>
    %v = arith.sitofp %n : vector<256xi32> to vector<256xf32>
    %end = arith.constant dense<500> : vector<256xindex>
    %some = arith.cmpi ult, %at, %end : vector<256xindex>
    xegpu.store %v, %B[%at], %some {layout = #xegpu.layout<sg_layout = [32], sg_data = [8]>}
      : vector<256xf32>, memref<600xf32>, vector<256xindex>, vector<256xi1>
    gpu.return
  }
  gpu.func @chunks_by_a_layout(%A: memref<1024xf16>, %B: memref<1024xf16>) kernel {
    %step = vector.step : vector<256xindex>
    %four = arith.constant dense<4> : vector<256xindex>
    %last = arith.constant dense<1020> : vector<256xindex>
    %at = arith.muli %step, %four : vector<256xindex>
    %back = arith.subi %last, %at : vector<256xindex>
    %all = arith.constant dense<true> : vector<256xi1>
    %v = xegpu.load %A[%at], %all {chunk_size = 4, layout = #xegpu.layout<sg_layout = [32, 1], sg_data = [8, 4]>}
      : memref<1024xf16>, vector<256xindex>, vector<256xi1> -> vector<256x4xf16>
    xegpu.store %v, %B[%back], %all {chunk_size = 4, layout = #xegpu.layout<sg_layout = [32, 1], sg_data = [8, 4]>}
      : vector<256x4xf16>, memref<1024xf16>, vector<256xindex>, vector<256xi1>
    gpu.return
  }
}
