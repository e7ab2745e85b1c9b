// Loops that count in scf.while, also inside others, a truth value among the arguments, quotients of negative indices.
!block = !xegpu.tensor_desc<8x16xf32>
gpu.module @control_flow {
  gpu.func @while_loop(%A: memref<64x64xf32>, %B: memref<64x64xf32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %one = arith.constant dense<1.0> : vector<8x16xf32>
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %r:2 = scf.while (%v = %one, %i = %c0) : (vector<8x16xf32>, index) -> (index, vector<8x16xf32>) {
      %more = arith.cmpi slt, %i, %n : index
      scf.condition(%more) %i, %v : index, vector<8x16xf32>
    } do {
    ^bb0(%i: index, %v: vector<8x16xf32>):
      %w = xegpu.load_nd %a[%i, 32] : !block -> vector<8x16xf32>
      %s = arith.addf %v, %w : vector<8x16xf32>
      %next = arith.addi %i, %c8 : index
      scf.yield %s, %next : vector<8x16xf32>, index
    }
    xegpu.store_nd %r#1, %b[%r#0, 16] : vector<8x16xf32>, !block
    gpu.return
  }
  gpu.func @while_in_a_loop(%A: memref<64x64xf32>, %B: memref<64x64xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c24 = arith.constant 24 : index
    %c32 = arith.constant 32 : index
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    scf.for %row = %c0 to %c24 step %c8 {
      %first = xegpu.load_nd %a[%row, 0] : !block -> vector<8x16xf32>
      %r:2 = scf.while (%i = %row, %v = %first) : (index, vector<8x16xf32>) -> (index, vector<8x16xf32>) {
        %twice = arith.addf %v, %v : vector<8x16xf32>
        %more = arith.cmpi sgt, %c32, %i : index
        scf.condition(%more) %i, %twice : index, vector<8x16xf32>
      } do {
      ^bb0(%j: index, %v: vector<8x16xf32>):
        %next = arith.addi %j, %c8 : index
        scf.yield %next, %v : index, vector<8x16xf32>
      }
      xegpu.store_nd %r#1, %b[%row, 40] : vector<8x16xf32>, !block
    }
    gpu.return
  }
  gpu.func @truth_argument(%A: memref<64x64xf32>, %B: memref<64x64xf32>, %first: i1) kernel {
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !block
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !block
    %v = xegpu.load_nd %a[8, 16] : !block -> vector<8x16xf32>
    %w = xegpu.load_nd %a[24, 32] : !block -> vector<8x16xf32>
    %x = arith.select %first, %v, %w : vector<8x16xf32>
    xegpu.store_nd %x, %b[0, 0] : vector<8x16xf32>, !block
    scf.if %first {
      xegpu.store_nd %w, %b[16, 8] : vector<8x16xf32>, !block
    }
    gpu.return
  }
  gpu.func @divided_indices(%B: memref<64x64xi32>, %n: index) kernel {
    %c3 = arith.constant 3 : index
    %k = arith.constant -8 : index
    %b = xegpu.create_nd_tdesc %B : memref<64x64xi32> -> !xegpu.tensor_desc<8x16xi32>
    %x0 = arith.divsi %n, %c3 : index
    %y0 = arith.index_cast %x0 : index to i32
    %v0 = vector.broadcast %y0 : i32 to vector<8x16xi32>
    xegpu.store_nd %v0, %b[0, 16] : vector<8x16xi32>, !xegpu.tensor_desc<8x16xi32>
    %x1 = arith.remsi %n, %c3 : index
    %y1 = arith.index_cast %x1 : index to i32
    %v1 = vector.broadcast %y1 : i32 to vector<8x16xi32>
    xegpu.store_nd %v1, %b[8, 16] : vector<8x16xi32>, !xegpu.tensor_desc<8x16xi32>
    %x2 = arith.divui %n, %c3 : index
    %y2 = arith.index_cast %x2 : index to i32
    %v2 = vector.broadcast %y2 : i32 to vector<8x16xi32>
    xegpu.store_nd %v2, %b[16, 16] : vector<8x16xi32>, !xegpu.tensor_desc<8x16xi32>
    %x3 = arith.remui %n, %c3 : index
    %y3 = arith.index_cast %x3 : index to i32
    %v3 = vector.broadcast %y3 : i32 to vector<8x16xi32>
    xegpu.store_nd %v3, %b[24, 16] : vector<8x16xi32>, !xegpu.tensor_desc<8x16xi32>
    %x4 = arith.divsi %k, %c3 : index
    %y4 = arith.index_cast %x4 : index to i32
    %v4 = vector.broadcast %y4 : i32 to vector<8x16xi32>
    xegpu.store_nd %v4, %b[32, 16] : vector<8x16xi32>, !xegpu.tensor_desc<8x16xi32>
    %x5 = arith.remsi %k, %c3 : index
    %y5 = arith.index_cast %x5 : index to i32
    %v5 = vector.broadcast %y5 : i32 to vector<8x16xi32>
    xegpu.store_nd %v5, %b[40, 16] : vector<8x16xi32>, !xegpu.tensor_desc<8x16xi32>
    gpu.return
  }
}
