// Conversions between float and the two formats that OpenCL C has no type for: bf16 in a ushort, tf32 in a float.
//
// All round to nearest even. A NaN stays a NaN of its sign, made quiet. Some devices declare part of these names, so
// each is a macro for a function of ours, and the device's own is never called.

#define PRELUDE_INLINE static inline __attribute__((overloadable, always_inline))

// Of scalars they are operators: a CPU's compiler vectorizes these over work-items, but calls OpenCL's own functions,
// such as convert_uint(ushort), once for each, which takes it 10 to 30 ms to compile. Of vectors, clang has a builtin
// that is no call either; other compilers take OpenCL's functions.
#define PRELUDE_CAST(type, value) ((type)(value))
#ifdef __clang__
#define PRELUDE_CONVERT(type, value) __builtin_convertvector(value, type)
#else
#define PRELUDE_CONVERT(type, value) convert_##type(value)
#endif

#define PRELUDE_CONVERSIONS(n, convert)                                                                                \
  PRELUDE_INLINE ushort##n prelude_to_bf16(float##n value) {                                                           \
    uint##n bits = as_uint##n(value);                                                                                  \
    uint##n rounded = bits + 0x7fffu + ((bits >> 16) & 1u), quiet = bits | 0x400000u;                                  \
    return convert(ushort##n, (value != value ? quiet : rounded) >> 16);                                               \
  }                                                                                                                    \
  PRELUDE_INLINE float##n prelude_from_bf16(ushort##n bits) {                                                          \
    return as_float##n(convert(uint##n, bits) << 16);                                                                  \
  }                                                                                                                    \
  PRELUDE_INLINE float##n prelude_to_tf32(float##n value) {                                                            \
    uint##n bits = as_uint##n(value);                                                                                  \
    uint##n rounded = bits + 0xfffu + ((bits >> 13) & 1u), quiet = bits | 0x400000u;                                   \
    return as_float##n((value != value ? quiet : rounded) & 0xffffe000u);                                              \
  }
PRELUDE_CONVERSIONS(, PRELUDE_CAST)
PRELUDE_CONVERSIONS(2, PRELUDE_CONVERT)
PRELUDE_CONVERSIONS(3, PRELUDE_CONVERT)
PRELUDE_CONVERSIONS(4, PRELUDE_CONVERT)
PRELUDE_CONVERSIONS(8, PRELUDE_CONVERT)
PRELUDE_CONVERSIONS(16, PRELUDE_CONVERT)
