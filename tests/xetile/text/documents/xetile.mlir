// XeTile.md: every example, and the operations of its tables.
// ===== init_tile
// arguments: %base_memref: memref<128x128xbf16>
  %tile0 = xetile.init_tile %base_memref, [%tile_offset:2] :
     memref<128x128xbf16> into tile<8x16xbf16>
// ===== init_tile of dynamic shape
// arguments: %base_memref: memref<?x?xbf16>
  %tile0 = xetile.init_tile %base_memref, [%tile_offset:2], [%base_shape:2], [%base_strides:2]:
     memref<?x?xbf16> into tile<8x16xbf16>
// ===== init_tile of an address
// arguments: %base_addr: i64
  %tile0 = xetile.init_tile %base_addr, [%tile_offset:2], [%base_shape:2], [%base_strides:2]:
     i64 into tile<8x16xbf16>
// ===== init_tile with an order
// arguments: %base_memref: memref<128x128xbf16, affine_map<(d0, d1) -> (d1, d0)>>
// slip: ["(d1, d0)> into", "(d1, d0)>> into", "XT2002"]
  #tile_attr = #xetile.tile_attr<order = [0, 1]>
  %tile0 = xetile.init_tile %base_memref, [%tile_offset:2]:
     memref<128x128xbf16, affine_map=<(d0, d1)->(d1, d0)> into tile<64x32xbf16, #tile_attr>
// ===== load_tile
// arguments: %tile_a: tile<64x64xbf16>
  %vector_a = xetile.load_tile %tile_a :
     tile<64x64xbf16> into vector<64x64xb16>
// ===== load_tile with padding
// arguments: %tile_a: tile<64x64xbf16>
  %vector_a = xetile.load_tile %tile_a {padding = 1.0} :
     tile<64x64xbf16> into vector<64x64xb16>
// ===== load_tile with an order
// arguments: %tile_a: tile<64x32xbf16, order = [0, 1]>
  #tile_attr = #xetile.tile_attr<order = [0, 1]>
  %vector_a = xetile.load_tile %tile_a :
     tile<64x32xbf16, #tile_attr> into vector<64x32xb16>
// ===== store_tile
// arguments: %tile_a: tile<64x64xbf16>, %vector_a: vector<64x64xbf16>
  xetile.store_tile %tile_a, %vector_a :
   vector<64x64xbf16> into tile<64x64xbf16>
// ===== store_tile with an order
// arguments: %tile_a: tile<64x32xbf16, order = [0, 1]>, %v: vector<64x32xbf16>
// slip: ["store_tile %tile_a", "store_tile %tile_a, %v", "XT2039"]
  #tile_attr = #xetile.tile_attr<order = [0, 1]>
  %vector_a = xetile.store_tile %tile_a :
     vector<64x32xb16> to tile<64x32xbf16, #tile_attr>
// ===== prefetch_tile
// arguments: %coop_tile: tile<8x32xbf16>
  xetile.prefetch_tile %coop_tile locality<3>: tile<8x32xbf16>
// ===== tile_mma
// arguments: %vector_b: vector<64x32xbf16>, %vector_a: vector<32x128xbf16>, %c: vector<64x128xfloat>
// slip: ["%vector_a, %vector_c", "%vector_a, %c", "XT2005"]
  %vector_c = xetile.tile_mma %vector_b, %vector_a, %vector_c:
     vector<64x32xbf16>, vector<32x128xbf16>, vector<64x128xfloat>
	   into vector<64x128xfloat>
// ===== tile_mma without an accumulator
// arguments: %vector_a: vector<64x32xbf16>, %vector_b: vector<32x128xbf16>
  %vector_c = xetile.tile_mma %vector_a, %vector_b :
     vector<64x32xbf16>, vector<32x128xbf16>
	   into vector<64x128xfloat>
// ===== update_tile_offset
// arguments: %tile: tile<64x64xbf16>, %offset_x: index, %offset_y: index
// slip: [" offset_y", " %offset_y", "XT2036"]
  %tile_updated = xetile.update_tile_offset %tile, %offset_x, offset_y :
		tile<64x64xbf16>, index, index into tile <64x64xbf16>
// ===== atomic_rmw
// arguments: %value: vector<8x16xbf16>, %tile: tile<8x16xbf16>
  %ret_value = xetile.atomic_rmw <addf> %value, %tile:
          vector<8x16xbf16>, tile<8x16xbf16> to vector<8x16xbf16>
// ===== tile_transpose
// arguments: %vector_b: vector<64x32xfloat>
   %vector_a = xetile.tile_transpose [1, 0] %vector_b: vector<64x32xfloat> into vector<32x64xfloat>
// ===== tile_reduce
// arguments: %vector_b: vector<64x32xfloat>
   %vector_a = xetile.tile_reduce <add> %vector_b [1]: vector<64x32xfloat> into vector<64x1xfloat>
// ===== tile_broadcast
// arguments: %vector_b: vector<1x32xfloat>
   %vector_a = xetile.tile_broadcast %vector_b [0]: vector<1x32xfloat> into vector<64x32xfloat>
// ===== init_tile with inner_blocks
// arguments: %base_memref: memref<128x128xbf16>
  #tile_attr = #xetile.tile_attr<inner_blocks=[16,16]>
  %tile0 = xetile.init_tile %base_memref, [%tile_offset:2]:
     memref<128x128xbf16> into tile<64x32xbf16, #tile_attr>
// ===== load_tile of blocks
// arguments: %tile_a: tile<64x32xbf16, inner_blocks = [16, 16]>
  #tile_attr = #xetile.tile_attr<inner_blocks=[16,16]>
  %vector_a = xetile.load_tile %tile_a :
     tile<64x32xbf16, #tile_attr> into vector<4x2x16x16xb16>
// ===== store_tile of blocks
// arguments: %tile_a: tile<64x32xbf16, inner_blocks = [16, 16]>, %vector_a: vector<4x2x16x16xbf16>
  #tile_attr = #xetile.tile_attr<inner_blocks=[16,16]>
  xetile.store_tile %vector_a, %tile_a :
     vector<4x2x16x16xb16> into tile<64x32xbf16, #tile_attr>
// ===== atomic_rmw_tile of blocks
// arguments: %value: vector<8x4x8x16xbf16>, %tile: tile<64x64xbf16, inner_blocks = [8, 16]>
// slip: ["8x48x16", "8x4x8x16", "XT2039"]
#tile_attr = #xetile.tile_attr<inner_blocks=[8,16]>
%vector_a = atomic_rmw_tile <add> %value, %tile: vector<8x48x16xbf16>, tile<64x64xbf16, #tile_attr> to vector<8x4x8x16xbf16>
// ===== tile_mma of blocks
// arguments: %vector_a: vector<8x4x8x8xbf16>, %vector_b: vector<4x8x8x16xbf16>, %c: vector<8x8x8x16xf32>
// slip: ["%vector_b, %vector_c", "%vector_b, %c", "XT2005"]
   %vector_c = xetile.tile_mma %vector_a, %vector_b, %vector_c :
     vector<8x4x8x8xbf16>, vector<4x8x8x16xbf16>, vector<8x8x8x16xfloat>
	   into vector<8x8x8x16xfloat>
// ===== tile_reduce of blocks
// arguments: %vector_b: vector<8x4x8x16xf32>
// slip: ["8x1float", "8x1xfloat", "XT2002"]
   %vector_a = xetile.tile_reduce <add> %vector_b [1, 3]: vector<8x4x8x16xfloat> into vector<8x1x8x1float>
// ===== tile_broadcast of blocks
// arguments: %vector_b: vector<8x1x8x1xf32>
   %vector_a = xetile.tile_broadcast %vector_b [1, 3]: vector<8x1x8x1xfloat> into vector<8x4x8x16xfloat>
// ===== tile_pack
// arguments: %1: vector<64x32xf32>
  %0 = xetile.tile_pack %1 {inner_blocks = array<i64: 16, 16>}
    : vector<64x32xf32> -> vector<4x2x16x16xf32>
// ===== tile_unpack
// arguments: %1: vector<1x2x64x16xf32>
  %0 = xetile.tile_unpack %1 {inner_blocks = array<i64: 64, 16>}
    : vector<1x2x64x16xf32> -> vector<64x32xf32>
// ===== init_tile of single elements
// arguments: %base_addr: i64, %tile_offsets: vector<1x256xindex>
  %tile0 = xetile.init_tile %base_addr, %tile_offsets:
     i64, vector<1x256xindex> into tile<1x256xbf16, #scatter>
// ===== load_gather
// arguments: %tile_0: tile<1x256xbf16, #scatter>, %mask: vector<1x256xi1>
  %vector_a = xetile.load_gather %tile_0, %mask, {padding = 1.0} :
     tile<1x256xbf16, #scatter> into vector<1x256xbf16>
// ===== store_scatter
// arguments: %vector_a: vector<1x256xbf16>, %tile_0: tile<1x256xbf16, #scatter>, %mask: vector<1x256xi1>
  xetile.store_scatter %vector_a, %mask, %tile_0 :
     vector<1x256xbf16> into tile<1x256xbf16, #scatter>
// ===== init_tile of a work-group
// arguments: %A: memref<1024x1024xf16, affine_map<(d0, d1) -> (d1, d0)>>, %m: index, %c0: index
// slip: ["memref<1024x1024xf16>", "memref<1024x1024xf16, affine_map=<(d0, d1)->(d1, d0)>>", "XT2039"]
   #wg_map_a = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 128]>
   #tile_attr = #xetile.tile_attr<wg = #wg_map_a, order = [0, 1], inner_blocks = array<i64: 32,16> >

   %wg_tile = xetile.init_tile %A[%m, %c0] : memref<1024x1024xf16> -> !xetile.tile<128x128xf16, #tile_attr>
// ===== tile_mma of a work-group
// arguments: %vector_a: vector<256x32xbf16>, %vector_b: vector<32x256xbf16>, %vector_c: vector<256x256xf32>
   #wg_map_d = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]>

   %vector_d = xetile.tile_mma %vector_a, %vector_b, %vector_c {#wg_map_d}:
     vector<256x256xfloat>, vector<256x32xbf16>, vector<32x256xbf16>
	   into vector<256x256xfloat>
// ===== maps of a product
   #wg_map_a = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 32]> //wg_map for %vector_a
   #wg_map_b = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]> //wg_map for %vector_b
   #wg_map_c = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]> //wg_map for %vector_c
// ===== tile_reduce of a work-group
// arguments: %vector_b: vector<256x128xf32>
   #wg_map_a = #xetile.wg_map<sg_layout = [32, 1], sg_data = [8, 1]>
   %vector_a = xetile.tile_reduce <add> %vector_b [1] {#wg_map_a}: vector<256x128xfloat> into vector<256x1xfloat>
// ===== map of what is reduced
   #wg_map_b = #xetile.wg_map<sg_layout = [32, 1], sg_data = [8, 128]>  //wg_map for %vector_b
// ===== tile_broadcast of a work-group
// arguments: %vector_b: vector<256x1xf32>
   #wg_map_a = #xetile.wg_map<sg_layout = [16, 1], sg_data = [16, 256]>
   %vector_a = xetile.tile_broadcast %vector_b [1] {#wg_map_a}: vector<256x1xfloat> into vector<256x256xfloat>
// ===== map of what is broadcast
   #wg_map_b = #xetile.wg_map<sg_layout = [16, 1], sg_data = [16, 1]>  //wg_map for %vector_b
// ===== tile_transpose of a work-group
// arguments: %vector_b: vector<512x128xf32>
   #wg_map_a = #xetile.wg_map<sg_layout = [4, 8], sg_data = [32, 64]>
   %vector_a = xetile.tile_transpose %vector_b {#wg_map_a}: vector<512x128xfloat> into vector<128x512xfloat>
// ===== map of what is transposed
   #wg_map_b = #xetile.wg_map<sg_layout = [8, 4], sg_data = [64, 32]>  //wg_map for %vector_b
// ===== tile_conv_layout with both maps
// arguments: %vector_b: vector<256x256xf32>
   #wg_map_b = #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]>  // used for cooperative load/prefetch
   #wg_map_a = #xetile.wg_map<sg_layout = [32, 1], sg_data = [8, 256]> // used as mma's input matrix A
   %vector_a = xetile.tile_conv_layout %vector_b {#wg_map_a #wg_map_b}: vector<256x256xfloat> into vector<256x256xfloat>
// ===== tile_conv_layout
// arguments: %vector_b: vector<256x256xf32>
   #wg_map_a = #xetile.wg_map<sg_layout = [32, 1], sg_data = [8, 256]> // used as mma's input matrix A
   %vector_a = xetile.tile_conv_layout %vector_b {#wg_map_a}: vector<256x256xfloat> into vector<256x256xfloat>
// ===== table: init_tile
// arguments: %base_memref: memref<128x128xbf16>
%block = xetile.init_tile %base_memref, %tile_offset:2 memref<128x128xbf16> into tile<8x16xbf16>
// ===== table: load_tile
// arguments: %tile_a: tile<64x32xbf16>
// slip: ["vector<32x64", "vector<64x32", "XT2117"]
%vector_a = xetile.load_tile %tile_a {padding=0} : tile<64x32xbf16> into vector<32x64xbf16>
// ===== table: store_tile
// arguments: %tile_a: tile<64x64xbf16>, %vector_a: vector<64x64xbf16>
xetile.store_tile %tile_a, %vector_a: vector<64x64xbf16> into tile<64x64xbf16>
// ===== table: prefetch_tile
// arguments: %coop_tile: tile<16x32xbf16>
xetile.prefetch_tile %coop_tile: tile<16x32xbf16>
// ===== table: atomic_rmw_tile
// arguments: %value: vector<8x16xbf16>, %tile: tile<8x16xbf16>
%vector_a = xetile.atomic_rmw_tile <add> %value, %tile: vector<8x16xbf16>, tile<8x16xbf16> to vector<8x16xbf16>
// ===== table: tile_transpose
// arguments: %vector_b: vector<64x32xfloat>
%vector_a = xetile.tile_transpose %vector_b [1, 0]: vector<64x32xfloat> into vector<32x64xfloat>
// ===== table: tile_broadcast
// arguments: %vector_b: vector<1x32xfloat>
%vector_a = xetile.tile_broadcast %vector_b[0]: vector<1x32xfloat> into vector<64x32xfloat>
// ===== table: tile_unpack
// arguments: %vector_b: vector<1x2x64x16xfloat>
%vector_a = xetile.tile_upack %vector_b {inner_blocks=array<i64: 64, 16>} : vector<1x2x64x16xfloat> into vector<64x32xfloat>
