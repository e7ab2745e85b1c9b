// Conversions between float and the two formats that OpenCL C has no type for: bf16 in a ushort, tf32 in a float.
//
// All round to nearest even. A NaN stays a NaN of its sign, made quiet. Some devices declare part of these names, so
// each is a macro for a function of ours, and the device's own is never called.

#define PRELUDE_INLINE static inline __attribute__((overloadable, always_inline))

// Of scalars they are operators: a CPU's compiler vectorizes these over work-items, but calls OpenCL's own functions,
// such as convert_uint(ushort), once for each, which takes it 10 to 30 ms to compile.
#define PRELUDE_AS_USHORT(value) ((ushort)(value))
#define PRELUDE_AS_UINT(value) ((uint)(value))
#define PRELUDE_SCALAR_UNLESS_NAN(value, rounded, quiet) ((value) != (value) ? (quiet) : (rounded))
#define PRELUDE_UNLESS_NAN(value, rounded, quiet) select(rounded, quiet, isnan(value))

#define PRELUDE_AS_USHORT2(value) __builtin_convertvector(value, ushort2)
#define PRELUDE_AS_UINT2(value) __builtin_convertvector(value, uint2)
#define PRELUDE_AS_USHORT3(value) __builtin_convertvector(value, ushort3)
#define PRELUDE_AS_UINT3(value) __builtin_convertvector(value, uint3)
#define PRELUDE_AS_USHORT4(value) __builtin_convertvector(value, ushort4)
#define PRELUDE_AS_UINT4(value) __builtin_convertvector(value, uint4)
#define PRELUDE_AS_USHORT8(value) __builtin_convertvector(value, ushort8)
#define PRELUDE_AS_UINT8(value) __builtin_convertvector(value, uint8)
#define PRELUDE_AS_USHORT16(value) __builtin_convertvector(value, ushort16)
#define PRELUDE_AS_UINT16(value) __builtin_convertvector(value, uint16)
#define PRELUDE_CONVERSIONS(n, to_ushort, to_uint, unless_nan)                                                         \
  PRELUDE_INLINE ushort##n prelude_to_bf16(float##n value) {                                                           \
    uint##n bits = as_uint##n(value);                                                                                  \
    uint##n rounded = bits + 0x7fffu + ((bits >> 16) & 1u), quiet = bits | 0x400000u;                                  \
    return to_ushort(unless_nan(value, rounded, quiet) >> 16);                                                         \
  }                                                                                                                    \
  PRELUDE_INLINE float##n prelude_from_bf16(ushort##n bits) { return as_float##n(to_uint(bits) << 16); }               \
  PRELUDE_INLINE float##n prelude_to_tf32(float##n value) {                                                            \
    uint##n bits = as_uint##n(value);                                                                                  \
    uint##n rounded = bits + 0xfffu + ((bits >> 13) & 1u), quiet = bits | 0x400000u;                                   \
    return as_float##n(unless_nan(value, rounded, quiet) & 0xffffe000u);                                               \
  }
PRELUDE_CONVERSIONS(, PRELUDE_AS_USHORT, PRELUDE_AS_UINT, PRELUDE_SCALAR_UNLESS_NAN)
PRELUDE_CONVERSIONS(2, PRELUDE_AS_USHORT2, PRELUDE_AS_UINT2, PRELUDE_SCALAR_UNLESS_NAN)
PRELUDE_CONVERSIONS(3, PRELUDE_AS_USHORT3, PRELUDE_AS_UINT3, PRELUDE_SCALAR_UNLESS_NAN)
PRELUDE_CONVERSIONS(4, PRELUDE_AS_USHORT4, PRELUDE_AS_UINT4, PRELUDE_SCALAR_UNLESS_NAN)
PRELUDE_CONVERSIONS(8, PRELUDE_AS_USHORT8, PRELUDE_AS_UINT8, PRELUDE_SCALAR_UNLESS_NAN)
PRELUDE_CONVERSIONS(16, PRELUDE_AS_USHORT16, PRELUDE_AS_UINT16, PRELUDE_SCALAR_UNLESS_NAN)
