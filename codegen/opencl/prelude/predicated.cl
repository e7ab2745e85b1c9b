// Predicated loads and stores of single elements (SPV_INTEL_predicated_io): what is masked off touches no memory.
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define PRELUDE_PREDICATED_HALF(define) define(half)
#else
#define PRELUDE_PREDICATED_HALF(define)
#endif
#ifdef cl_khr_fp64
#define PRELUDE_PREDICATED_DOUBLE(define) define(double)
#else
#define PRELUDE_PREDICATED_DOUBLE(define)
#endif

#define PRELUDE_PREDICATED_LOAD_OF(type) \
  type __attribute__((overloadable)) __spirv_PredicatedLoadINTEL(global const type *at, bool active, type otherwise) \
  { return active ? *at : otherwise; }
#define PRELUDE_PREDICATED_STORE_OF(type) \
  void __attribute__((overloadable)) __spirv_PredicatedStoreINTEL(global type *at, type value, bool active) \
  { if (active) *at = value; }

#ifdef __cplusplus
#define PRELUDE_PREDICATED(define)  // the header of the translated text has them
#else
#define PRELUDE_PREDICATED(define) \
  define(char) define(uchar) define(short) define(ushort) define(int) define(uint) define(long) define(ulong) \
  define(float) PRELUDE_PREDICATED_HALF(define) PRELUDE_PREDICATED_DOUBLE(define)
#endif
