// DPAS, emulated: D[M,N] = C[M,N] + A[M,K] x B[K,N], N = subgroup size, M = 1, 2, 4 or 8 (the vector width of C).
//
// Where the elements are (cl_intel_subgroup_matrix_multiply_accumulate):
//   A, subgroup of 16: one short a row; lane l holds the 16 bits l of the row (one f16 or bf16, two i8, four i4)
//   A, subgroup of 8:  one int a row; lane l holds the 32 bits l of the row
//   A, tf32:           one float for two rows; even rows in lanes 0-7, odd rows in lanes 8-15
//   B:                 eight ints; int j of lane n holds the 32 bits j of column n
//   C, D:              element m of lane n holds row m, column n
// The type of A tells the two subgroup sizes apart, so both are overloads of one name.
//
// A row of D is K multiply-adds of a broadcast element of A with a lane's own element of B. The lane that is broadcast
// is always a constant: only then does the CPU's compiler keep the lanes of a subgroup in one vector register.
// The sum starts from C and runs in order of increasing k. Products of two f16 or two bf16 are exact in float, so that
// fma() and a multiplication followed by an addition give the same bits.
//
// Each builtin stays a function of its own (noinline). A kernel with 64 DPAS then builds in 2 s instead of 10 s on the
// CPU device, at five sixths of the speed.

#define PRELUDE_INLINE static inline __attribute__((overloadable, always_inline))
#define PRELUDE_FUNCTION static __attribute__((overloadable, noinline))
#ifdef __OPTIMIZE__
#define PRELUDE_PART PRELUDE_INLINE
#else  // with -cl-opt-disable rows are functions, too: a product then builds in two thirds of the time
#define PRELUDE_PART PRELUDE_FUNCTION
#endif

// The four repeat counts of one builtin. COLUMN unpacks a lane's column of B once for all rows, ROW is one row of D.
#define PRELUDE_DPAS(name, TA, TB, TC, TCOLUMN, COLUMN, ROW)                                                           \
  PRELUDE_FUNCTION TC name(TA a, TB##8 b, TC c) {                                                                      \
    TCOLUMN k = COLUMN(b);                                                                                             \
    return ROW(a, k, c);                                                                                               \
  }                                                                                                                    \
  PRELUDE_FUNCTION TC##2 name(TA##2 a, TB##8 b, TC##2 c) {                                                             \
    TCOLUMN k = COLUMN(b);                                                                                             \
    return (TC##2)(ROW(a.s0, k, c.s0), ROW(a.s1, k, c.s1));                                                            \
  }                                                                                                                    \
  PRELUDE_FUNCTION TC##4 name(TA##4 a, TB##8 b, TC##4 c) {                                                             \
    TCOLUMN k = COLUMN(b);                                                                                             \
    return (TC##4)(ROW(a.s0, k, c.s0), ROW(a.s1, k, c.s1), ROW(a.s2, k, c.s2), ROW(a.s3, k, c.s3));                    \
  }                                                                                                                    \
  PRELUDE_FUNCTION TC##8 name(TA##8 a, TB##8 b, TC##8 c) {                                                             \
    TCOLUMN k = COLUMN(b);                                                                                             \
    return (TC##8)(ROW(a.s0, k, c.s0), ROW(a.s1, k, c.s1), ROW(a.s2, k, c.s2), ROW(a.s3, k, c.s3),                     \
                   ROW(a.s4, k, c.s4), ROW(a.s5, k, c.s5), ROW(a.s6, k, c.s6), ROW(a.s7, k, c.s7));                    \
  }

// --- 16-bit floating point, K = 16 -----------------------------------------------------------------------------------

PRELUDE_INLINE float prelude_bf16_to_f32(ushort bits) { return as_float((uint)bits << 16); }
PRELUDE_INLINE float prelude_f16_to_f32(ushort bits) { return (float)as_half(bits); }

// Nearest even. A NaN stays a NaN of its sign: the rounding bias could carry it into infinity or into the sign.
PRELUDE_INLINE short prelude_f32_to_bf16(float value) {
  uint bits = as_uint(value);
  uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return as_short((ushort)(isnan(value) ? (bits >> 16) | 0x40u : rounded));
}

#define PRELUDE_COLUMN(name, TO_F32)                                                                                   \
  PRELUDE_PART float16 name(int8 b) {                                                                                  \
    ushort16 e = as_ushort16(b);                                                                                       \
    return (float16)(TO_F32(e.s0), TO_F32(e.s1), TO_F32(e.s2), TO_F32(e.s3), TO_F32(e.s4), TO_F32(e.s5),               \
                     TO_F32(e.s6), TO_F32(e.s7), TO_F32(e.s8), TO_F32(e.s9), TO_F32(e.sa), TO_F32(e.sb),               \
                     TO_F32(e.sc), TO_F32(e.sd), TO_F32(e.se), TO_F32(e.sf));                                          \
  }
PRELUDE_COLUMN(prelude_column_bf16, prelude_bf16_to_f32)
PRELUDE_COLUMN(prelude_column_f16, prelude_f16_to_f32)

#define PRELUDE_TERM(a, lane, k) sum = fma(sub_group_broadcast(a, lane), b.s##k, sum)
PRELUDE_INLINE float prelude_row_sg16(float a, float16 b, float sum) {
  PRELUDE_TERM(a, 0, 0), PRELUDE_TERM(a, 1, 1), PRELUDE_TERM(a, 2, 2), PRELUDE_TERM(a, 3, 3);
  PRELUDE_TERM(a, 4, 4), PRELUDE_TERM(a, 5, 5), PRELUDE_TERM(a, 6, 6), PRELUDE_TERM(a, 7, 7);
  PRELUDE_TERM(a, 8, 8), PRELUDE_TERM(a, 9, 9), PRELUDE_TERM(a, 10, a), PRELUDE_TERM(a, 11, b);
  PRELUDE_TERM(a, 12, c), PRELUDE_TERM(a, 13, d), PRELUDE_TERM(a, 14, e), PRELUDE_TERM(a, 15, f);
  return sum;
}
PRELUDE_INLINE float prelude_row_sg8(float even, float odd, float16 b, float sum) {
  PRELUDE_TERM(even, 0, 0), PRELUDE_TERM(odd, 0, 1), PRELUDE_TERM(even, 1, 2), PRELUDE_TERM(odd, 1, 3);
  PRELUDE_TERM(even, 2, 4), PRELUDE_TERM(odd, 2, 5), PRELUDE_TERM(even, 3, 6), PRELUDE_TERM(odd, 3, 7);
  PRELUDE_TERM(even, 4, 8), PRELUDE_TERM(odd, 4, 9), PRELUDE_TERM(even, 5, a), PRELUDE_TERM(odd, 5, b);
  PRELUDE_TERM(even, 6, c), PRELUDE_TERM(odd, 6, d), PRELUDE_TERM(even, 7, e), PRELUDE_TERM(odd, 7, f);
  return sum;
}

#define PRELUDE_ROW_16BIT(name, TO_F32)                                                                                \
  PRELUDE_PART float name(short a, float16 b, float c) { return prelude_row_sg16(TO_F32(as_ushort(a)), b, c); }        \
  PRELUDE_PART float name(int a, float16 b, float c) {                                                                 \
    return prelude_row_sg8(TO_F32(as_ushort2(a).s0), TO_F32(as_ushort2(a).s1), b, c);                                  \
  }
PRELUDE_ROW_16BIT(prelude_row_bf16, prelude_bf16_to_f32)
PRELUDE_ROW_16BIT(prelude_row_f16, prelude_f16_to_f32)

// A 16-bit accumulator is widened, and the whole sum is rounded once.
PRELUDE_INLINE short prelude_row_bf16(short a, float16 b, short c) {
  return prelude_f32_to_bf16(prelude_row_bf16(a, b, prelude_bf16_to_f32(as_ushort(c))));
}
PRELUDE_INLINE half prelude_row_f16(short a, float16 b, half c) {
  return convert_half_rte(prelude_row_f16(a, b, (float)c));
}

#define PRELUDE_DPAS_BF16(name)                                                                                        \
  PRELUDE_DPAS(name, short, int, float, float16, prelude_column_bf16, prelude_row_bf16)                                \
  PRELUDE_DPAS(name, short, int, short, float16, prelude_column_bf16, prelude_row_bf16)                                \
  PRELUDE_DPAS(name, int, int, float, float16, prelude_column_bf16, prelude_row_bf16)
#define PRELUDE_DPAS_F16(name)                                                                                         \
  PRELUDE_DPAS(name, short, int, float, float16, prelude_column_f16, prelude_row_f16)                                  \
  PRELUDE_DPAS(name, short, int, half, float16, prelude_column_f16, prelude_row_f16)                                   \
  PRELUDE_DPAS(name, int, int, float, float16, prelude_column_f16, prelude_row_f16)

// --- integers, K = 32 (8 bits) and K = 64 (4 bits) -------------------------------------------------------------------

// The eight 32-bit words of a row of A, word j in lane j: as a subgroup of 8 has them, and one of 16 is brought to.
PRELUDE_INLINE uint prelude_words(int a) { return as_uint(a); }
PRELUDE_INLINE uint prelude_words(uint a) { return a; }
PRELUDE_INLINE uint prelude_words(ushort a) {
  uint even = (get_sub_group_local_id() * 2) & 15;
  return intel_sub_group_shuffle((uint)a, even) | intel_sub_group_shuffle((uint)a, even + 1) << 16;
}
PRELUDE_INLINE uint prelude_words(short a) { return prelude_words(as_ushort(a)); }

// Sums run in uint, where wrapping is defined.
#define PRELUDE_BYTE_i8(word, i) ((uint)(int)as_char4(word).s##i)
#define PRELUDE_BYTE_u8(word, i) ((uint)as_uchar4(word).s##i)
#define PRELUDE_DOT_8(TA, TB)                                                                                          \
  PRELUDE_INLINE uint prelude_dot_##TA##_##TB(uint a, uint b) {                                                        \
    return PRELUDE_BYTE_##TA(a, 0) * PRELUDE_BYTE_##TB(b, 0) + PRELUDE_BYTE_##TA(a, 1) * PRELUDE_BYTE_##TB(b, 1) +     \
           PRELUDE_BYTE_##TA(a, 2) * PRELUDE_BYTE_##TB(b, 2) + PRELUDE_BYTE_##TA(a, 3) * PRELUDE_BYTE_##TB(b, 3);      \
  }
PRELUDE_DOT_8(i8, i8)
PRELUDE_DOT_8(i8, u8)
PRELUDE_DOT_8(u8, i8)
PRELUDE_DOT_8(u8, u8)

// Eight nibbles become two words of four bytes, the even nibbles and the odd ones. The sign is spread in each byte by
// (n ^ 8) - 8; the top bit, set before and cleared after, keeps the borrow inside the byte.
PRELUDE_INLINE uint prelude_nibbles_u4(uint word) { return word & 0x0f0f0f0fu; }
PRELUDE_INLINE uint prelude_nibbles_i4(uint word) {
  return (((word & 0x0f0f0f0fu) ^ 0x88888888u) - 0x08080808u) ^ 0x80808080u;
}
#define PRELUDE_DOT_4(TA, TB, DOT)                                                                                     \
  PRELUDE_INLINE uint prelude_dot_##TA##_##TB(uint a, uint b) {                                                        \
    return DOT(prelude_nibbles_##TA(a), prelude_nibbles_##TB(b)) +                                                     \
           DOT(prelude_nibbles_##TA(a >> 4), prelude_nibbles_##TB(b >> 4));                                            \
  }
PRELUDE_DOT_4(i4, i4, prelude_dot_i8_i8)
PRELUDE_DOT_4(i4, u4, prelude_dot_i8_u8)
PRELUDE_DOT_4(u4, i4, prelude_dot_u8_i8)
PRELUDE_DOT_4(u4, u4, prelude_dot_u8_u8)

#define PRELUDE_ROW_INTEGER(TA, TB, T)                                                                                 \
  PRELUDE_PART int prelude_row_##TA##_##TB(T a, uint8 b, int c) {                                                      \
    uint words = prelude_words(a), sum = as_uint(c);                                                                   \
    sum += prelude_dot_##TA##_##TB(sub_group_broadcast(words, 0), b.s0);                                               \
    sum += prelude_dot_##TA##_##TB(sub_group_broadcast(words, 1), b.s1);                                               \
    sum += prelude_dot_##TA##_##TB(sub_group_broadcast(words, 2), b.s2);                                               \
    sum += prelude_dot_##TA##_##TB(sub_group_broadcast(words, 3), b.s3);                                               \
    sum += prelude_dot_##TA##_##TB(sub_group_broadcast(words, 4), b.s4);                                               \
    sum += prelude_dot_##TA##_##TB(sub_group_broadcast(words, 5), b.s5);                                               \
    sum += prelude_dot_##TA##_##TB(sub_group_broadcast(words, 6), b.s6);                                               \
    sum += prelude_dot_##TA##_##TB(sub_group_broadcast(words, 7), b.s7);                                               \
    return as_int(sum);                                                                                                \
  }
#define PRELUDE_SHORT_i8 short
#define PRELUDE_SHORT_u8 ushort
#define PRELUDE_SHORT_i4 short
#define PRELUDE_SHORT_u4 ushort
#define PRELUDE_INT_i8 int
#define PRELUDE_INT_u8 uint
#define PRELUDE_INT_i4 int
#define PRELUDE_INT_u4 uint
#define PRELUDE_JOIN_(a, b, c, d, e, f, g) PRELUDE_DPAS(a, b, c, d, e, f, g)
#define PRELUDE_DPAS_INTEGER(name, TA, TB)                                                                             \
  PRELUDE_ROW_INTEGER(TA, TB, PRELUDE_SHORT_##TA)                                                                      \
  PRELUDE_ROW_INTEGER(TA, TB, PRELUDE_INT_##TA)                                                                        \
  PRELUDE_JOIN_(name, PRELUDE_SHORT_##TA, PRELUDE_INT_##TB, int, uint8, as_uint8, prelude_row_##TA##_##TB)             \
  PRELUDE_JOIN_(name, PRELUDE_INT_##TA, PRELUDE_INT_##TB, int, uint8, as_uint8, prelude_row_##TA##_##TB)

// --- 8-bit floating point, K = 32, subgroups of 16 only ----------------------------------------------------------------

PRELUDE_INLINE float prelude_e5m2(uint bits) { return (float)as_half((ushort)(bits << 8)); }
// Bias 7 where f16 has 15; no infinities, and all ones is NaN.
PRELUDE_INLINE float prelude_e4m3(uint bits) {
  float size = (float)as_half((ushort)((bits & 0x7f) << 7)) * 256.0f;
  return (bits & 0x7f) == 0x7f ? NAN : (bits & 0x80) ? -size : size;
}

// A lane's column of B, or its two elements of A: even and odd rows of B, even and odd columns of A.
typedef struct { float16 even, odd; } prelude_float8_column;

#define PRELUDE_HALVES(TO_F32, e, shift)                                                                               \
  (float16)(TO_F32(e.s0 >> shift & 255), TO_F32(e.s1 >> shift & 255), TO_F32(e.s2 >> shift & 255),                     \
            TO_F32(e.s3 >> shift & 255), TO_F32(e.s4 >> shift & 255), TO_F32(e.s5 >> shift & 255),                     \
            TO_F32(e.s6 >> shift & 255), TO_F32(e.s7 >> shift & 255), TO_F32(e.s8 >> shift & 255),                     \
            TO_F32(e.s9 >> shift & 255), TO_F32(e.sa >> shift & 255), TO_F32(e.sb >> shift & 255),                     \
            TO_F32(e.sc >> shift & 255), TO_F32(e.sd >> shift & 255), TO_F32(e.se >> shift & 255),                     \
            TO_F32(e.sf >> shift & 255))
#define PRELUDE_FLOAT8(type)                                                                                           \
  PRELUDE_PART prelude_float8_column prelude_column_##type(int8 b) {                                                   \
    ushort16 e = as_ushort16(b);                                                                                       \
    prelude_float8_column k;                                                                                           \
    k.even = PRELUDE_HALVES(prelude_##type, e, 0);                                                                     \
    k.odd = PRELUDE_HALVES(prelude_##type, e, 8);                                                                      \
    return k;                                                                                                          \
  }                                                                                                                    \
  PRELUDE_PART float prelude_row_##type(short a, prelude_float8_column k, float sum) {                                 \
    float even = prelude_##type(as_ushort(a) & 255u), odd = prelude_##type(as_ushort(a) >> 8);                         \
    PRELUDE_TWO(0, 0), PRELUDE_TWO(1, 1), PRELUDE_TWO(2, 2), PRELUDE_TWO(3, 3), PRELUDE_TWO(4, 4), PRELUDE_TWO(5, 5);  \
    PRELUDE_TWO(6, 6), PRELUDE_TWO(7, 7), PRELUDE_TWO(8, 8), PRELUDE_TWO(9, 9), PRELUDE_TWO(10, a), PRELUDE_TWO(11, b);\
    PRELUDE_TWO(12, c), PRELUDE_TWO(13, d), PRELUDE_TWO(14, e), PRELUDE_TWO(15, f);                                    \
    return sum;                                                                                                        \
  }
#define PRELUDE_TWO(lane, i)                                                                                           \
  sum = fma(sub_group_broadcast(odd, lane), k.odd.s##i, fma(sub_group_broadcast(even, lane), k.even.s##i, sum))
PRELUDE_FLOAT8(e4m3)
PRELUDE_FLOAT8(e5m2)

#define PRELUDE_DPAS_FLOAT8(name, TA, TB)                                                                              \
  PRELUDE_DPAS(name, short, int, float, prelude_float8_column, prelude_column_##TB, prelude_row_##TA)

// Scales: lane m has that of row m of A, lane n that of column n of B: 2^(scale - 127), 255 is NaN.
PRELUDE_INLINE float prelude_scale(uchar s) { return s == 255 ? NAN : as_float(s == 0 ? 0x400000u : (uint)s << 23); }
#define PRELUDE_SCALED(ROW, m) fma(ROW(a.s##m, k, 0.0f) * sub_group_broadcast(rows, m), column, c.s##m)
#define PRELUDE_DPAS_SCALED(name, TA, TB)                                                                              \
  PRELUDE_FUNCTION float8 name(short8 a, int8 b, float8 c, uchar scale_a, uchar scale_b) {                             \
    prelude_float8_column k = prelude_column_##TB(b);                                                                  \
    float rows = prelude_scale(scale_a), column = prelude_scale(scale_b);                                              \
    return (float8)(PRELUDE_SCALED(prelude_row_##TA, 0), PRELUDE_SCALED(prelude_row_##TA, 1),                          \
                    PRELUDE_SCALED(prelude_row_##TA, 2), PRELUDE_SCALED(prelude_row_##TA, 3),                          \
                    PRELUDE_SCALED(prelude_row_##TA, 4), PRELUDE_SCALED(prelude_row_##TA, 5),                          \
                    PRELUDE_SCALED(prelude_row_##TA, 6), PRELUDE_SCALED(prelude_row_##TA, 7));                         \
  }

// --- tf32, K = 8, subgroups of 16 only -------------------------------------------------------------------------------

// The engine does not look at the low 13 bits of an operand.
#define PRELUDE_TF32(T, TBITS, value) as_##T(as_##TBITS(value) & 0xffffe000u)

#define PRELUDE_PRODUCT(first, k) sum = fma(sub_group_broadcast(a, first + k), b.s##k, sum)
PRELUDE_PART float prelude_row_tf32_even(float a, float8 b, float sum) {
  PRELUDE_PRODUCT(0, 0), PRELUDE_PRODUCT(0, 1), PRELUDE_PRODUCT(0, 2), PRELUDE_PRODUCT(0, 3);
  PRELUDE_PRODUCT(0, 4), PRELUDE_PRODUCT(0, 5), PRELUDE_PRODUCT(0, 6), PRELUDE_PRODUCT(0, 7);
  return sum;
}
PRELUDE_PART float prelude_row_tf32_odd(float a, float8 b, float sum) {
  PRELUDE_PRODUCT(8, 0), PRELUDE_PRODUCT(8, 1), PRELUDE_PRODUCT(8, 2), PRELUDE_PRODUCT(8, 3);
  PRELUDE_PRODUCT(8, 4), PRELUDE_PRODUCT(8, 5), PRELUDE_PRODUCT(8, 6), PRELUDE_PRODUCT(8, 7);
  return sum;
}
#define PRELUDE_PAIR(a, b, c) (float2)(prelude_row_tf32_even(a, b, (c).s0), prelude_row_tf32_odd(a, b, (c).s1))

#define PRELUDE_DPAS_TF32(name)                                                                                        \
  PRELUDE_FUNCTION float name(float a, float8 b, float c) {                                                            \
    return prelude_row_tf32_even(PRELUDE_TF32(float, uint, a), PRELUDE_TF32(float8, uint8, b), c);                     \
  }                                                                                                                    \
  PRELUDE_FUNCTION float2 name(float a, float8 b, float2 c) {                                                          \
    a = PRELUDE_TF32(float, uint, a), b = PRELUDE_TF32(float8, uint8, b);                                              \
    return PRELUDE_PAIR(a, b, c);                                                                                      \
  }                                                                                                                    \
  PRELUDE_FUNCTION float4 name(float2 a, float8 b, float4 c) {                                                         \
    a = PRELUDE_TF32(float2, uint2, a), b = PRELUDE_TF32(float8, uint8, b);                                            \
    return (float4)(PRELUDE_PAIR(a.s0, b, c.s01), PRELUDE_PAIR(a.s1, b, c.s23));                                       \
  }                                                                                                                    \
  PRELUDE_FUNCTION float8 name(float4 a, float8 b, float8 c) {                                                         \
    a = PRELUDE_TF32(float4, uint4, a), b = PRELUDE_TF32(float8, uint8, b);                                            \
    return (float8)(PRELUDE_PAIR(a.s0, b, c.s01), PRELUDE_PAIR(a.s1, b, c.s23), PRELUDE_PAIR(a.s2, b, c.s45),          \
                    PRELUDE_PAIR(a.s3, b, c.s67));                                                                     \
  }
