// XeGPU-older.md: every example, and the operations of its table.
// ===== create_nd_tdesc
// arguments: %mem_addr: uint64
  #sg_map_a = xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 2]>
%tdesc1 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2
		: uint64, index, index, index, index, index, index
     	into tensor_desc<8x16xbf16, #sg_map_a>
// ===== create_nd_tdesc, vc
// arguments: %mem_addr: uint64
%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2 {mode =vc}
		: uint64, index, index, index, index, index, index
     	into tensor_desc<8x16xbf16>
// ===== create_nd_tdesc of an array of blocks
// arguments: %mem_addr: uint64
%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2 {mode =vc}
		: uint64, index, index, index, index, index, index
     	into tensor_desc<8x16xbf16, array_length=2>
// ===== create_nd_tdesc of a memref
// arguments: %mref: memref<1024x1024xbf16>
  #sg_map_a = xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 2]>
 %tdesc1 = XeGPU.create_nd_tdesc %mref, %offsets:2
		: memref<1024x1024xbf16>, index, index
     	into tensor_desc<8x16xbf16, #sg_map_a>
// ===== create_nd_tdesc of a memref, vc
// arguments: %mref: memref<1024x1024xbf16>
 %tdesc2 = XeGPU.create_nd_tdesc  %mref, %offsets:2 {mode =vc}
		: memref<1024x1024xbf16>, index, index
     	into tensor_desc<8x16xbf16>
// ===== create_nd_tdesc of a line
// arguments: %offset: index
  %slm = memref.alloc() : memref<512xbf16, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<512xbf16, slm> -> index
  %mem_addr = arith.index_cast %at : index to i64
  #sg_map_a = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
  #tdesc_attr1 = !xegpu.tdesc_attr< memory_scope=slm, boundary_check=false, sg= #sg_map_a>
  %tdesc1 = XeGPU.create_nd_tdesc %mem_addr, %offset :
		uint64, index into tensor_desc<16xbf16, #tdesc_attr1>
// ===== create_nd_tdesc of a line, vc
// arguments: %offset: index
  %slm = memref.alloc() : memref<512xbf16, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<512xbf16, slm> -> index
  %mem_addr = arith.index_cast %at : index to i64
  #tdesc_attr2 = !xegpu.tdesc_attr< memory_scope=slm, boundary_check=false>
  %tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %offset {mode = vc} :
		uint64, index into tensor_desc<16xbf16, #tdesc_attr2>
// ===== load_nd
// arguments: %tdesc1: tensor_desc<8x16xbf16, sg = #xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 2]>>, %tdesc2: tensor_desc<8x16xbf16>
// slip: ["#sg_map_a", "sg = #xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 2]>", "XT2008"]
  %result = XeGPU.load_nd %tdesc1 {L1_hint = uncached, L3_hint = uncached} :
          tensor_desc<8x16xbf16, #sg_map_a> into vector<4x2xbf16>

  %result2 = XeGPU.load_nd %tdesc2 {L1_hint = uncached, L3_hint = uncached, mode = vc} :
          tensor_desc<8x16xbf16> into vector<8x16xbf16>
// ===== load_nd, transposed
// arguments: %tdesc2: tensor_desc<8x16xf32>
  %at = XeGPU.load_nd %tdesc2 {transpose = [1,0], mode = vc} :
     tile<8x16xf32> into vector<16x8xf32>
// ===== load_nd, vnni_axis 0
// arguments: %tdesc1: tensor_desc<16x16xbf16, sg = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>>, %tdesc2: tensor_desc<16x16xbf16>
// slip: ["#sg_map_b> into vector<8x16x2xbf16>", "sg = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>> into vector<8x2xbf16>", "XT2008"]
  %bt = XeGPU.load_nd %tdesc1 {vnni_axis = 0} :
     tile<16x16xbf16, #sg_map_b> into vector<8x16x2xbf16>
  %bt2 = XeGPU.load_nd %tdesc2 {vnni_axis = 0, mode = vc} :
     tile<16x16xbf16> into vector<8x16x2xbf16>
// ===== load_nd, vnni_axis 1
// arguments: %tdesc1: tensor_desc<8x16xbf16, sg = #xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 2]>>, %tdesc2: tensor_desc<8x16xbf16>
// slip: ["#sg_map_a> into vector<8x8x2xbf16>", "sg = #xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 2]>> into vector<4x2xbf16>", "XT2008"]
  %at = XeGPU.load_nd %tdesc1 {vnni_axis = 1} :
     tile<8x16xbf16, #sg_map_a> into vector<8x8x2xbf16>

  %at2 = XeGPU.load_nd %tdesc2 {vnni_axis = 1, mode = vc} :
     tile<8x16xbf16> into vector<8x8x2xbf16>
// ===== load_nd, pairs transposed
// arguments: %tdesc1: tensor_desc<32x16xf16>
// slip: [", #sg_map>", ">", "XT2008"]
  %at = XeGPU.load_nd %tdesc1 {transpose = [1,0], transpose_bit_width = 32, mode = vc} :
     tile<32x16xf16, #sg_map> into vector<8x64xf16>
// ===== load_nd in VNNI form by transposing
// arguments: %block_a: tensor_desc<32x16xf16>
  %at = XeGPU.load_nd %block_a {transpose = [1, 0], transpose_bit_width = 32, mode = vc} :
     tile<32x16xf16> into vector<8x64xf16>
  %bt = vector.shape_cast %at :  vector<8x64xf16> into vector<8x32x2xf16>
// ===== dpas
// arguments: %vector_a: vector<8x8x2xbf16>, %vector_b: vector<8x16x2xbf16>
  %vector_c = XeGPU.dpas %vector_a, %vector_b {mode = vc} :
     vector<8x8x2xbf16>, vector<8x16x2xbf16>
	   into vector<8x16xfloat>  
// ===== store_nd
// arguments: %value: vector<8x1xf32>, %tdesc2: tensor_desc<8x16xf32, sg = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>, %value2: vector<8x16xbf16>, %tdesc3: tensor_desc<8x16xbf16>
// slip: ["#sg_map_c", "sg = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>", "XT2008"]
  XeGPU.store_nd %value, %tdesc2:
          vector<8x1xfp32>, tensor_desc<8x16xfp32, #sg_map_c>

  XeGPU.store_nd %value2, %tdesc3 {mode = vc} :
          vector<8x16xbf16>, tensor_desc<8x16xbf16>
// ===== prefetch_nd
// arguments: %tdesc2: tensor_desc<8x16xbf16>, %tdesc3: tensor_desc<16xbf16>
  XeGPU.prefetch_nd %tdesc2 {mode = vc} : tensor_desc<8x16xbf16>
  XeGPU.prefetch_nd %tdesc3 {mode = vc} : tensor_desc<16xbf16>
// ===== update_nd_offset
// arguments: %tdesc: tensor_desc<8x16xbf16>
  %tdesc_updated = XeGpu.update_nd_offset %tdesc, %offsets:2 {mode = vc} :
  	  tensor_desc<8x16xbf16>, index, index into tensor_desc<8x16xbf16>
// ===== create_tdesc
// arguments: %mem_addr: uint64, %offsets: vector<16xindex>
// slip: [", mode = vc}", " {mode = vc}", "XT2036"]
  %scatter_tdesc0 = XeGPU.create_tdesc %mem_addr, %offsets, mode = vc} :
     	uint64, Vector<16 x index>, into tensor_desc<16 x uint8, #scattered>
// ===== load_gather
// arguments: %scatter_tdesc0: tensor_desc<16xui8, #scattered>, %mask: vector<16xi1>
  %result0 = XeGPU.load_gather %scatter_tdesc0, %mask {L1_hint = cached, L2_hint = uncached, mode = vc} :
        	  tensor_desc<16xuint8, #Scattered>, vector<16xi1> into vector<16xuint8>
// ===== load_gather of chunks
// arguments: %scatter_tdesc_chunk: tensor_desc<16x8xbf16, #scattered>, %mask: vector<16xi1>
%result = XeGPU.load_gather %scatter_tdesc_chunk, %mask {L1 = cached, L2 = uncached, transpose=[1,0], mode = vc} :
          tensor_desc<16x8xbf16, #Scattered>, vector<16xi1> -> vector<8x16xbf16>
// ===== store_scatter
// arguments: %value: vector<16xui16>, %scatter_tdesc1: tensor_desc<16xui16, #scattered>, %mask: vector<16xi1>
XeGPU.store_scatter %value, %scatter_tdesc1, %mask {mode = vc} :
     	 vector<16xuint16>, vector<16xi1>, tensor_desc<16xuint16, #scattered>
// ===== prefetch
// arguments: %scatter_tdesc0: tensor_desc<16xui8, #scattered>
XeGPU.prefetch %scatter_tdesc0 {mode = vc} : tensor_desc<16xuint8, #scattered>
// ===== update_offset
// arguments: %scatter_tdesc1: tensor_desc<16xui16, #scattered>, %offsets: vector<16xindex>
// slip: ["vector<16xuint16>, into", "vector<16xindex>, into", "XT2039"]
%tdesc_updated = XeGpu.update_offsets %scatter_tdesc1, %offsets {mode = vc} :
  	tensor_desc<16xuint16, #scattered>, vector<16xuint16>, into tensor_desc<16xuint16, #scattered>
// ===== atomic_rmw
// arguments: %value: vector<16xbf16>, %scatter_Desc1: tensor_desc<16xbf16, #scattered>, %mask: vector<16xi1>
  %ret_value = XeGPU.atomic_rmw “addf” %value, %scatter_Desc1, %mask {mode = vc} :
          vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1> to vector<16xbf16>
// ===== mfence
  XeGPU.mfence {memory_kind = "ugm", fence_op = "none", fence_scope = "local"}
// ===== compile_hint
XeGPU.compile_hint {hint=schedule_barrier}
// ===== table: compile_hint
XeGPU.compile_hint {scheduling_barrier}
// ===== table: mfence
// slip: ["{fence_scope = global}", "{fence_scope = \"tile\", fence_op = \"none\", memory_kind = \"ugm\"}", "XT2053"]
XeGPU.mfence {fence_scope = global}
