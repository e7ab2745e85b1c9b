// XeGPU.md, outside its sections on work items: every example, and the operations of its table.
// ===== create_nd_tdesc
// arguments: %mem_addr: uint64
%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2
		: uint64, index, index, index, index, index, index
     	into tensor_desc<8x16xbf16>
// ===== create_nd_tdesc of an array of blocks
// arguments: %mem_addr: uint64
%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2
		: uint64, index, index, index, index, index, index
     	into tensor_desc<8x16xbf16, array_length=2>
// ===== create_nd_tdesc of a memref
// arguments: %mref: memref<1024x1024xbf16>
 %tdesc2 = XeGPU.create_nd_tdesc  %mref, %offsets:2
		: memref<1024x1024xbf16>, index, index
     	into tensor_desc<8x16xbf16>
// ===== create_nd_tdesc of a line
// arguments: %offset: index
// slip: ["#tdesc_attr2", "#tdesc_attr1", "XT2008"]
  %slm = memref.alloc() : memref<512xbf16, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<512xbf16, slm> -> index
  %mem_addr = arith.index_cast %at : index to i64
  #tdesc_attr1 = !xegpu.tdesc_attr< memory_scope=slm, boundary_check=false>
  %tdesc1 = XeGPU.create_nd_tdesc %mem_addr, %offset:
		uint64, index into tensor_desc<16xbf16, #tdesc_attr2>
// ===== load_nd
// arguments: %tdesc2: tensor_desc<8x16xbf16>
  %result = XeGPU.load_nd %tdesc2 {L1_hint = uncached, L3_hint = uncached} :
          tensor_desc<8x16xbf16> into vector<8x16xbf16>
// ===== load_nd, transposed
// arguments: %tdesc2: tensor_desc<16x8xf32>
  %at = XeGPU.load_nd %tdesc2 {transpose = [1,0]} :
     tensor_desc<16x8xf32> into vector<8x16xf32>
// ===== load_nd, packed
// arguments: %tdesc2: tensor_desc<16x16xbf16>
  %bt = XeGPU.load_nd %tdesc2 {packed} :
     tensor_desc<16x16xbf16> into vector<8x16x2xbf16>

// ===== load_nd, pairs transposed
// arguments: %tdesc1: tensor_desc<16x16xf16>
  %at = XeGPU.load_nd %tdesc1 {transpose = [1,0], transpose_bit_width = 32} :
     tensor_desc<16x16xfp16> into vector<8x32xfp16>
// ===== load_nd in VNNI form by transposing
// arguments: %block_a: tensor_desc<16x16xf16>
// slip: ["vector<8x64xfp16>", "vector<8x32xfp16>", "XT2039"]
// slip: ["vector<8x32x2xfp16>", "vector<8x16x2xfp16>", "XT3222"]
  %at = XeGPU.load_nd %block_a {transpose = [1, 0], transpose_bit_width = 32} :
     tensor_desc<16x16xfp16> into vector<8x32xfp16>
  %bt = vector.shape_cast %at :  vector<8x64xfp16> into vector<8x32x2xfp16>
// ===== dpas
// arguments: %vector_a: vector<8x16xbf16>, %vector_b: vector<16x16xbf16>, %c: vector<8x16xf32>
// slip: ["%vector_b, %vector_c", "%vector_b, %c", "XT2005"]
  %vector_c = XeGPU.dpas %vector_a, %vector_b, %vector_c :
     vector<8x16xbf16>, vector<16x16xbf16>, vector<8x16xfloat>
	   into vector<8x16xfloat>
// ===== dpas without an accumulator
// arguments: %vector_a: vector<8x16xbf16>, %vector_b: vector<16x16xbf16>
  %vector_c = XeGPU.dpas %vector_a, %vector_b :
     vector<8x16xbf16>, vector<16x16xbf16>
	   into vector<8x16xfloat>
// ===== dpas with B in VNNI form
// arguments: %vector_a: vector<8x16xbf16>, %vector_b: vector<8x16x2xbf16>, %c: vector<8x16xf32>
// slip: ["%vector_b, %vector_c", "%vector_b, %c", "XT2005"]
  %vector_c = XeGPU.dpas %vector_a, %vector_b, %vector_c:
     vector<8x16xbf16>, vector<8x16x2xbf16>
	   into vector<8x16xfloat>
// ===== dpas with A to match
// arguments: %vector_a: vector<8x8x2xbf16>, %vector_b: vector<8x16x2xbf16>, %c: vector<8x16xf32>
// slip: ["%vector_b, %vector_c", "%vector_b, %c", "XT2005"]
  %vector_c = XeGPU.dpas %vector_a, %vector_b, %vector_c:
     vector<8x8x2xbf16>, vector<8x16x2xbf16>
	   into vector<8x16xfloat>
// ===== store_nd
// arguments: %value: vector<8x16xbf16>, %tdesc2: tensor_desc<8x16xbf16>
  XeGPU.store_nd %value, %tdesc2:
          vector<8x16xbf16>, tensor_desc<8x16xbf16>
// ===== store_nd of a line
// arguments: %value: vector<16xbf16>, %tdesc2: tensor_desc<16xbf16>
  XeGPU.store_nd %value, %tdesc2:
          vector<16xbf16>, tensor_desc<16xbf16>
// ===== prefetch_nd
// arguments: %tdesc2: tensor_desc<8x16xbf16>
  XeGPU.prefetch_nd %tdesc2: tensor_desc<8x16xbf16>
// ===== prefetch_nd of a line
// arguments: %tdesc2: tensor_desc<16xbf16>
  XeGPU.prefetch_nd %tdesc2: tensor_desc<16xbf16>
// ===== update_nd_offset
// arguments: %tdesc: tensor_desc<8x16xbf16>
  %tdesc_updated = XeGpu.update_nd_offset %tdesc, %offsets:2 :
  	  tensor_desc<8x16xbf16>, index, index into tensor_desc<8x16xbf16>
// ===== create_tdesc
// arguments: %mem_addr: uint64, %offsets: vector<16xindex>
// slip: ["%offsets}", "%offsets", "XT2035"]
  %scatter_tdesc0 = XeGPU.create_tdesc %mem_addr, %offsets} :
     	uint64, Vector<16 x index>, into tensor_desc<16 x uint8, #scattered>
// ===== create_tdesc of chunks
// arguments: %offsets: vector<16xindex>
  %slm = memref.alloc() : memref<512xui16, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<512xui16, slm> -> index
  %base_addr = arith.index_cast %at : index to i64

  #tdesc_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true, chunk_size_per_lane=8>
  %scatter_tdesc_chunk = XeGPU.create_tdesc, %base_addr, %offsets
		uint64, vector<16xindex> into tensor_desc<16x8xuint16, #tdesc_attr>
// ===== load_gather
// arguments: %scatter_tdesc0: tensor_desc<16xui8, #scattered>, %mask: vector<16xi1>
  %result0 = XeGPU.load_gather %scatter_tdesc0, %mask {L1_hint = cached, L2_hint = uncached} :
        	  tensor_desc<16xuint8, #Scattered>, vector<16xi1> into vector<16xuint8>
// ===== load_gather of chunks
// arguments: %scatter_tdesc_chunk: tensor_desc<16x8xbf16, memory_scope=slm, scattered=true>, %mask: vector<16xi1>
  #tdesc_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true, chunk_size_per_lane=8>
  %result = XeGPU.load_gather %scatter_tdesc_chunk, %mask {L1 = cached, L2 = uncached, transpose=[1,0]} :
          tensor_desc<16x8xbf16, #tdesc_attr>, vector<16xi1> -> vector<8x16xbf16>
// ===== store_scatter
// arguments: %value: vector<16xui16>, %scatter_tdesc1: tensor_desc<16xui16, #scattered>, %mask: vector<16xi1>
XeGPU.store_scatter %value, %scatter_tdesc1, %mask:
     	 vector<16xuint16>, vector<16xi1>, tensor_desc<16xuint16, #scattered>
// ===== prefetch
// arguments: %scatter_tdesc0: tensor_desc<16xui8, #scattered>
XeGPU.prefetch %scatter_tdesc0: tensor_desc<16xuint8, #scattered>
// ===== update_offset
// arguments: %scatter_tdesc1: tensor_desc<16xui16, #scattered>, %offsets: vector<16xindex>
// slip: ["vector<16xuint16>, into", "vector<16xindex>, into", "XT2039"]
%tdesc_updated = XeGpu.update_offsets %scatter_tdesc1, %offsets:
  	tensor_desc<16xuint16, #scattered>, vector<16xuint16>, into tensor_desc<16xuint16, #scattered>
// ===== atomic_rmw
// arguments: %value: vector<16xbf16>, %scatter_Desc1: tensor_desc<16xbf16, #scattered>, %mask: vector<16xi1>
  %ret_value = XeGPU.atomic_rmw “addf” %value, %scatter_Desc1, %mask:
          vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1> to vector<16xbf16>
// ===== fence
  XeGPU.fence {scope = "gpu",  memory_kind = "global", }
// ===== table: create_tdesc
// arguments: %offset: vector<16xindex>
  %slm = memref.alloc() : memref<512xbf16, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<512xbf16, slm> -> index
  %mem_addr = arith.index_cast %at : index to i64
%scatter_tdesc1 = XeGPU.create_tdesc %mem_addr, %offset: int64, Vector<16 x index> -> tensor_desc<16 x bf16, #scattered, memory_scope=slm, chunk_size_per_lane=1> 
// ===== table: load_gather
// arguments: %scatter_tdesc2: tensor_desc<16x8xbf16, #scattered>, %mask: vector<16xi1>
%result = XeGPU.load_gather %scatter_tdesc2, %mask {L1 = cached, L2 = uncached, transpose=[1,0]} : tensor_desc<16x8xbf16, #Scattered>, vector<16xi1> -> vector<8x16xbf16>
// ===== table: store_scatter
// arguments: %value: vector<16xbf16>, %scatter_tdesc2: tensor_desc<16xbf16, #scattered>, %mask: vector<16xi1>
XeGPU.store_scatter %value, %scatter_tdesc2, %mask {L1 = cached, L2 = uncached} : vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1>
// ===== table: update_offset
// arguments: %tdesc: tensor_desc<16xbf16, #scattered>, %offsets: vector<16xindex>
%tdesc_updated = XeGpu.update_offset %tdesc, %offsets: tensor_desc<16xbf16, #scattered>, vector<16x index> -> tensor_desc<16xbf16, #scattered>
// ===== table: prefetch
// arguments: %scatter_tdesc1: tensor_desc<16xbf16, #scattered>
XeGPU.prefetch %scatter_tdesc1 {L1 = cached, L2 = uncached} : tensor_desc<16xbf16, #scattered>
// ===== table: atomic_rmw
// arguments: %value: vector<16xbf16>, %scatter_mem2: tensor_desc<16xbf16, #scattered>, %mask: vector<16xi1>
%ret_value = XeGPU.atomic_rmw “addf”, %value, %scatter_mem2, %mask : vector<16xbf16>, tensor_desc<16xbf16, #scattered>, vector<16xi1>
// ===== table: create_nd_tdesc
// arguments: %mem_addr: i64
%tdesc2 = XeGPU.create_nd_tdesc %mem_addr, %tile_offset:2, %base_shape:2,%base_strides:2: int64, index, index, index, index, index, index -> tensor_desc<8x16xbf16, memory_scope=global>
// ===== table: load_nd
// arguments: %tdesc2: tensor_desc<8x16xbf16>
%result = XeGPU.load_nd %tdesc2 {L1_hint = uncached, L3_hint = uncached} : tensor_desc<8x16xbf16> -> vector<8x16xbf16>
// ===== table: dpas
// arguments: %c: vector<8x16xf32>, %vector_a: vector<8x8x2xbf16>, %vector_b: vector<8x16x2xbf16>
// slip: ["dpas %vector_c", "dpas %c", "XT2005"]
%vector_c = XeGPU.dpas %vector_c, %vector_a, %vector_b: vector<8x16xfloat>, vector<8x8x2xbf16>, vector<8x16x2xbf16> -> vector<8x16xfloat>
// ===== table: store_nd
// arguments: %value: vector<8x16xbf16>, %tdesc2: tensor_desc<8x16xbf16>
XeGPU.store_nd %value, %tdesc2 {L1_hint = uncached, L3_hint = uncached} : vector<8x16xbf16>, tensor_desc<8x16xbf16>
// ===== table: update_nd_offset
// arguments: %tdesc: tensor_desc<8x16xbf16>, %offset_x: index, %offset_y: index
// slip: [" offset_y", " %offset_y", "XT2036"]
%tdesc_updated = XeGpu.update_nd_offset %tdesc, %offset_x, offset_y, tensor_desc<8x16xbf16>, index, index -> tensor_desc<8x16xbf16>
// ===== table: prefetch_nd
// arguments: %tdesc2: tensor_desc<8x16xbf16>
XeGPU.prefetch_nd %tdesc2: tensor_desc<8x16xbf16>
// ===== table: fence
XeGPU.fence {scope = gpu, memory_kind = global}
