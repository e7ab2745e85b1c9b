// XeGPU.md, its sections on work items: every example.
// ===== a map
// arguments: %mem_addr: uint64
  #sg_map_a = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
  %tdesc_a = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2
		: uint64, index, index, index, index, index, index
     	into tensor_desc<8x16xbf16, #sg_map_a>
// ===== load_nd
// arguments: %tdesc_a: tensor_desc<8x16xbf16, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>
// slip: ["#sg_map_b>", "#sg_map_a>", "XT2008"]
  #sg_map_a = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
  %vector_a = XeGPU.load_nd %tdesc_a:
     tensor_desc<8x16xbf16, #sg_map_b> into vector<8x1xbf16>
// ===== load_nd, packed
// arguments: %tdesc1: tensor_desc<16x16xbf16, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>>
  #sg_map_b = xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>
  %vector_b = XeGPU.load_nd {packed} %tdesc1:
     tensor_desc<16x16xbf16, #sg_map_b> into vector<8x2xbf16>
// ===== load_nd, transposed
// arguments: %tdesc1: tensor_desc<16x8xf32, #xegpu.sg_map<wi_layout = [16, 1], wi_data = [1, 1]>>
  #sg_map_at = xegpu.sg_map<wi_layout = [16, 1], wi_data = [1, 1]>
  %at = XeGPU.load_nd %tdesc1 {transpose = [1,0]} :
     tensor_desc<16x8xf32, #sg_map_at> into vector<8x1xf32>
// ===== regular load
// arguments: %offsets: vector<1xindex>, %mask: vector<1xi1>
// slip: ["vector<16xindex>", "vector<1xindex>", "XT2039"]
// slip: ["vector<16xi1>", "vector<1xi1>", "XT2039"]
  %slm = memref.alloc() : memref<512xf32, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<512xf32, slm> -> index
  %src_addr = arith.index_cast %at : index to i64
  #sg_map_t = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
  #scatter_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true>
  %scatter_tdesc = XeGPU.create_tdesc, %src_addr, %offsets:
		uint64, vector<16xindex> into tensor_desc<16xfp32, #scatter_attr, #sg_map_t>

  %result = XeGPU.load_gather %scatter_tdesc, %mask {L1 = cached, L2 = uncached} :
          tensor_desc<16xfp32, #scatter_attr, #sg_map_t>, vector<16xi1> -> vector<1xfp32>
// ===== regular load of chunks
// arguments: %offsets: vector<1xindex>, %mask: vector<1xi1>
// slip: ["vector<16xindex>", "vector<1xindex>", "XT2039"]
// slip: ["vector<16xi1>", "vector<1xi1>", "XT2039"]
  %slm = memref.alloc() : memref<512xf32, slm>
  %at = memref.extract_aligned_pointer_as_index %slm : memref<512xf32, slm> -> index
  %src_addr = arith.index_cast %at : index to i64
  #sg_map_t = xegpu.sg_map<wi_layout = [16, 1], wi_data = [1, 1]>
  #scatter_attr = !xegpu.tdesc_attr< memory_scope=slm, scattered=true>
  %scatter_tdesc_chunk = XeGPU.create_tdesc, %src_addr, %offsets
		{chunk_size_per_lane=4} :
		uint64, vector<16xindex> into tensor_desc<16x4xfp32, #scatter_attr, #sg_map_t>

  %result = XeGPU.load_gather %scatter_tdesc_chunk, %mask {L1 = cached, L2 = uncached, transpose=[1,0]} :
          tensor_desc<16x4xfp32, #scatter_attr, #sg_map_t>, vector<16xi1> -> vector<4x1xfp32>
// ===== use case of 2d loads
// arguments: %mem_addr: uint64, %b: tensor_desc<16x16xbf16, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>>, %tdesc2: tensor_desc<8x16xf32, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>
// slip: ["load_nd %tdesc1:\n     tensor_desc<16x16", "load_nd %b:\n     tensor_desc<16x16", "XT2039"]
// slip: ["update_nd_offset %tdesc,", "update_nd_offset %tdesc1,", "XT2005"]
  #sg_map_a = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>
  #sg_map_b = xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>
  #sg_map_c = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>

  %tdesc1 = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2,%base_stride:2
		: uint64, index, index, index, index, index, index
     	into tensor_desc<8x16xbf16, #sg_map_a>

  %vector_a = XeGPU.load_nd %tdesc1:
     tensor_desc<8x16xbf16, #sg_map_a> into vector<8x1xbf16>

  XeGPU.prefetch_nd %tdesc1: tensor_desc<8x16xbf16, #sg_map_a>

  %vector_b = XeGPU.load_nd %tdesc1:
     tensor_desc<16x16xbf16, #sg_map_b> into vector<8x2xbf16>

  %vector_c = XeGPU.dpas %vector_a, %vector_b {#sg_map_a #sg_map_b #sg_map_c} :vector<8x1xbf16>, vector<8x2xbf16> into vector<8x1xfloat>

  XeGPU.store_nd %vector_c, %tdesc2:
          vector<8x1xfloat>, tensor_desc<8x16xfloat, #sg_map_c>

  %tdesc_updated = XeGpu.update_nd_offset %tdesc, %offsets:2 :
  	  tensor_desc<8x16xbf16, #sg_map_a>, index, index into tensor_desc<8x16xbf16, #sg_map_a>
