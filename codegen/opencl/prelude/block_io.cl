// 2D block IO, emulated: a subgroup of 16 reads or writes a tile of a matrix (cl_intel_subgroup_2d_block_io).
//
// The surface is (base, width in bytes, height in rows, pitch in bytes); `at` is the tile's first element (x, y), x in
// elements. Elements outside the surface read as 0 and are not written; negative x and y are outside. All arguments
// but the private pointer are the same in every lane, as the extension demands.
//
// Where the elements are. A tile is `blocks` blocks side by side, each of rows x columns; l is the lane:
//   read            to[block * rows + row] = element l of the row; 8-bit rows of 32: the bytes 2l and 2l + 1
//   read, 32b x 8   two rows to a register: lanes 0-7 the even row, lanes 8-15 the odd row, or 0 where there is none
//   read_transform  to[(block * rows + row) / n] = column l of the n = 32 / bits rows from `row` on, the first lowest
//   read_transpose  to[(column * rows + row) / 16] = row + l of that column, row = 0, 16. Intel's compiler passes the
//                   load's registers on in their order, and the load delivers the transposed tile row by row: of 32
//                   rows, a column fills two registers that follow each other
//   write           as read, with one block
//
// A surface obeys the rules of block IO: base aligned to 64 bytes, 64 <= width <= pitch, height > 0. Reads of a surface
// narrower than 64 bytes return the right values, but touch up to 64 bytes from the beginning of a row.

#define PRELUDE_INLINE static inline __attribute__((overloadable, always_inline))
#define PRELUDE_SURFACE global void *base, int width, int height, int pitch
#define PRELUDE_TILE global void *base, int width, int height, int pitch, int2 at
#define PRELUDE_LANE ((int)get_sub_group_local_id())

// A row of 16 elements. It is read by one subgroup load, which the CPU's compiler makes one vector load; from pointers
// that differ by lane it would make gathers. The load is first moved to where it lies inside the surface, then its
// lanes are moved back and those outside become 0. `&` instead of `&&` spares the compiler a branch a row.
#define PRELUDE_ROW(bits, T, LOAD)                                                                                     \
  PRELUDE_INLINE T prelude_row_##bits(PRELUDE_SURFACE, int x, int y) {                                                 \
    int columns = width / (bits / 8);                                                                                  \
    int first = max(min(x, columns - 16), 0), row = max(min(y, height - 1), 0);                                        \
    T value = LOAD((global T *)((global uchar *)base + (long)row * pitch + (long)first * (bits / 8)));                 \
    int from = PRELUDE_LANE + (x - first);                                                                             \
    value = intel_sub_group_shuffle(value, (uint)from & 15);                                                           \
    return (row == y) & ((uint)from < (uint)min(columns, 16)) ? value : (T)0;                                          \
  }
PRELUDE_ROW(8, uchar, intel_sub_group_block_read_uc)
PRELUDE_ROW(16, ushort, intel_sub_group_block_read_us)
PRELUDE_ROW(32, uint, intel_sub_group_block_read)

// A row of 32 bytes, two a lane. Over an edge, the two may come from different lanes.
PRELUDE_INLINE ushort prelude_byte(ushort row, int from, int columns) {
  ushort pair = intel_sub_group_shuffle(row, (uint)(from >> 1) & 15);
  return (uint)from < (uint)min(columns, 32) ? (pair >> (8 * (from & 1))) & 0xff : 0;
}
PRELUDE_INLINE ushort prelude_row_pairs(PRELUDE_SURFACE, int x, int y) {
  int first = max(min(x, width - 32), 0), row = max(min(y, height - 1), 0);
  ushort value = intel_sub_group_block_read_us((global ushort *)((global uchar *)base + (long)row * pitch + first));
  int from = 2 * PRELUDE_LANE + (x - first);
  ushort pair = prelude_byte(value, from, width) | prelude_byte(value, from + 1, width) << 8;
  return row == y ? pair : (ushort)0;
}

// One element, for the shapes that are not rows.
#define PRELUDE_ELEMENT(bits, T)                                                                                       \
  PRELUDE_INLINE bool prelude_inside_##bits(int width, int height, int x, int y) {                                     \
    return (uint)x < (uint)(width / (bits / 8)) && (uint)y < (uint)height;                                             \
  }                                                                                                                    \
  PRELUDE_INLINE T prelude_load_##bits(PRELUDE_SURFACE, int x, int y) {                                                \
    T value = 0;                                                                                                       \
    if (prelude_inside_##bits(width, height, x, y))                                                                    \
      value = *(global T *)((global uchar *)base + (long)y * pitch + (long)x * (bits / 8));                            \
    return value;                                                                                                      \
  }                                                                                                                    \
  PRELUDE_INLINE void prelude_store_##bits(PRELUDE_SURFACE, int x, int y, T value) {                                   \
    if (prelude_inside_##bits(width, height, x, y))                                                                    \
      *(global T *)((global uchar *)base + (long)y * pitch + (long)x * (bits / 8)) = value;                            \
  }
PRELUDE_ELEMENT(8, uchar)
PRELUDE_ELEMENT(16, ushort)
PRELUDE_ELEMENT(32, uint)

#define PRELUDE_FOR(i, stop, step) _Pragma("unroll") for (int i = 0; i < (stop); i += (step))

// --- reads -----------------------------------------------------------------------------------------------------------

#define PRELUDE_READ_ROWS(name, T, ROW, rows, columns, blocks)                                                         \
  PRELUDE_INLINE void name(PRELUDE_TILE, private T *to) {                                                              \
    PRELUDE_FOR(block, blocks, 1)                                                                                      \
    PRELUDE_FOR(row, rows, 1)                                                                                          \
    to[block * rows + row] = ROW(base, width, height, pitch, at.x + block * columns, at.y + row);                      \
  }
#define PRELUDE_READ_8b_32(name, rows, blocks) PRELUDE_READ_ROWS(name, ushort, prelude_row_pairs, rows, 32, blocks)
#define PRELUDE_READ_8b_16(name, rows, blocks) PRELUDE_READ_ROWS(name, uchar, prelude_row_8, rows, 16, blocks)
#define PRELUDE_READ_16b_16(name, rows, blocks) PRELUDE_READ_ROWS(name, ushort, prelude_row_16, rows, 16, blocks)
#define PRELUDE_READ_32b_16(name, rows, blocks) PRELUDE_READ_ROWS(name, uint, prelude_row_32, rows, 16, blocks)

// Rows of eight: two rows side by side in one register.
PRELUDE_INLINE uint prelude_two_rows(PRELUDE_SURFACE, int x, int y, int rows) {
  uint even = prelude_row_32(base, width, height, pitch, x, y);
  uint odd = rows > 1 ? prelude_row_32(base, width, height, pitch, x, y + 1) : 0;
  odd = intel_sub_group_shuffle(odd, (uint)PRELUDE_LANE & 7);
  return PRELUDE_LANE < 8 ? even : odd;
}
#define PRELUDE_READ_32b_8(name, rows, blocks)                                                                         \
  PRELUDE_INLINE void name(PRELUDE_TILE, private uint *to) {                                                           \
    PRELUDE_FOR(block, blocks, 1)                                                                                      \
    PRELUDE_FOR(row, rows, 2)                                                                                          \
    to[block * ((rows + 1) / 2) + row / 2] =                                                                           \
        prelude_two_rows(base, width, height, pitch, at.x + block * 8, at.y + row, rows - row);                        \
  }

#define PRELUDE_ROW_AT(bits, i) (uint)prelude_row_##bits(base, width, height, pitch, at.x + block * 16, at.y + row + i)
#define PRELUDE_READ_TRANSFORM_16b_16(name, rows, blocks)                                                              \
  PRELUDE_INLINE void name(PRELUDE_TILE, private uint *to) {                                                           \
    PRELUDE_FOR(block, blocks, 1)                                                                                      \
    PRELUDE_FOR(row, rows, 2)                                                                                          \
    to[(block * rows + row) / 2] = PRELUDE_ROW_AT(16, 0) | PRELUDE_ROW_AT(16, 1) << 16;                                \
  }
#define PRELUDE_READ_TRANSFORM_8b_16(name, rows, blocks)                                                               \
  PRELUDE_INLINE void name(PRELUDE_TILE, private uint *to) {                                                           \
    PRELUDE_FOR(block, blocks, 1)                                                                                      \
    PRELUDE_FOR(row, rows, 4)                                                                                          \
    to[(block * rows + row) / 4] = PRELUDE_ROW_AT(8, 0) | PRELUDE_ROW_AT(8, 1) << 8 | PRELUDE_ROW_AT(8, 2) << 16 |     \
                                   PRELUDE_ROW_AT(8, 3) << 24;                                                         \
  }

#define PRELUDE_READ_TRANSPOSE_32b_8(name, rows, blocks)                                                               \
  PRELUDE_INLINE void name(PRELUDE_TILE, private uint *to) {                                                           \
    PRELUDE_FOR(column, 8, 1)                                                                                          \
    PRELUDE_FOR(row, rows, 16)                                                                                         \
    to[(column * rows + row) / 16] =                                                                                   \
        prelude_load_32(base, width, height, pitch, at.x + column, at.y + row + PRELUDE_LANE);                         \
  }

// A prefetch changes nothing that a kernel can see.
#define PRELUDE_PREFETCH(name)                                                                                         \
  PRELUDE_INLINE void name(PRELUDE_TILE) {}

// --- writes ----------------------------------------------------------------------------------------------------------

#define PRELUDE_WRITE(name, bits, T, rows)                                                                             \
  PRELUDE_INLINE void name(PRELUDE_TILE, private T *from) {                                                            \
    PRELUDE_FOR(row, rows, 1)                                                                                          \
    prelude_store_##bits(base, width, height, pitch, at.x + PRELUDE_LANE, at.y + row, from[row]);                      \
  }
#define PRELUDE_WRITE_8b_16(name, rows, blocks) PRELUDE_WRITE(name, 8, uchar, rows)
#define PRELUDE_WRITE_16b_16(name, rows, blocks) PRELUDE_WRITE(name, 16, ushort, rows)
#define PRELUDE_WRITE_32b_16(name, rows, blocks) PRELUDE_WRITE(name, 32, uint, rows)
#define PRELUDE_WRITE_8b_32(name, rows, blocks)                                                                        \
  PRELUDE_INLINE void name(PRELUDE_TILE, private ushort *from) {                                                       \
    PRELUDE_FOR(row, rows, 1) {                                                                                        \
      int x = at.x + 2 * PRELUDE_LANE;                                                                                 \
      prelude_store_8(base, width, height, pitch, x, at.y + row, (uchar)from[row]);                                    \
      prelude_store_8(base, width, height, pitch, x + 1, at.y + row, (uchar)(from[row] >> 8));                         \
    }                                                                                                                  \
  }
