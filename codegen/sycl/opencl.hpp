// What OpenCL C has and C++ has not, in clang's SYCL mode: vector types and their literals, conversions, built-in
// functions under OpenCL's names, address spaces. Functions end in the operations of SPIR-V, which clang knows by name.

static_assert(sizeof(long) == 8, "written for systems on which a long has 64 bits, as in OpenCL C");
#pragma clang diagnostic ignored "-Wc++11-narrowing"  // C narrows in braces

#define XETILE_GLOBAL __attribute__((opencl_global))
#define XETILE_LOCAL __attribute__((opencl_local))
#define XETILE_PRIVATE __attribute__((opencl_private))
#define XETILE_EXTERN __attribute__((sycl_device))
#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
#define XETILE_VECTORS(T)                          \
  typedef T T##2 __attribute__((ext_vector_type(2))); \
  typedef T T##3 __attribute__((ext_vector_type(3))); \
  typedef T T##4 __attribute__((ext_vector_type(4))); \
  typedef T T##8 __attribute__((ext_vector_type(8))); \
  typedef T T##16 __attribute__((ext_vector_type(16)));
#define XETILE_INTEGERS(define, ...)                                                          \
  define(char, ##__VA_ARGS__) define(short, ##__VA_ARGS__) define(int, ##__VA_ARGS__) define(long, ##__VA_ARGS__)
#define XETILE_UNSIGNED(define, ...)                                                          \
  define(uchar, ##__VA_ARGS__) define(ushort, ##__VA_ARGS__) define(uint, ##__VA_ARGS__) define(ulong, ##__VA_ARGS__)
#define XETILE_FLOATS(define, ...) \
  define(half, ##__VA_ARGS__) define(float, ##__VA_ARGS__) define(double, ##__VA_ARGS__)
XETILE_INTEGERS(XETILE_VECTORS)
XETILE_UNSIGNED(XETILE_VECTORS)
XETILE_FLOATS(XETILE_VECTORS)

// Names of SPIR-V that clang does not declare itself; SYCL's headers declare them alike.
#define XETILE_POSITION(T, name, ...) XETILE_EXTERN __attribute__((const)) T __spirv_BuiltIn##name(__VA_ARGS__)
XETILE_POSITION(ulong, WorkgroupId, int);
XETILE_POSITION(ulong, NumWorkgroups, int);
XETILE_POSITION(ulong, WorkgroupSize, int);
XETILE_POSITION(ulong, LocalInvocationId, int);
XETILE_POSITION(ulong, GlobalInvocationId, int);
XETILE_POSITION(ulong, GlobalSize, int);
XETILE_POSITION(uint, SubgroupSize);
XETILE_POSITION(uint, NumSubgroups);
XETILE_POSITION(uint, SubgroupId);
XETILE_POSITION(uint, SubgroupLocalInvocationId);
#define XETILE_BLOCK_IO(T)                                                                                        \
  template <class V> XETILE_EXTERN __attribute__((convergent)) V __spirv_SubgroupBlockReadINTEL(                   \
      const XETILE_GLOBAL T *) noexcept;                                                                           \
  template <class V> XETILE_EXTERN __attribute__((convergent)) V __spirv_SubgroupBlockReadINTEL(                   \
      const XETILE_LOCAL T *) noexcept;
XETILE_UNSIGNED(XETILE_BLOCK_IO)
#define XETILE_CONVERSIONS(n)                                                       \
  XETILE_EXTERN ushort##n __spirv_ConvertFToBF16INTEL(float##n) noexcept;            \
  XETILE_EXTERN float##n __spirv_ConvertBF16ToFINTEL(ushort##n) noexcept;
XETILE_CONVERSIONS()
XETILE_CONVERSIONS(2)
XETILE_CONVERSIONS(3)
XETILE_CONVERSIONS(4)
XETILE_CONVERSIONS(8)
XETILE_CONVERSIONS(16)
template <class... Values>
XETILE_EXTERN int __spirv_ocl_printf(const __attribute__((opencl_constant)) char *format, Values... values);
extern "C" XETILE_EXTERN XETILE_LOCAL unsigned char *__sycl_allocateLocalMemory(unsigned long, unsigned long);

namespace xetile::opencl {

// --- vectors ---------------------------------------------------------------------------------------------------------

template <class T> struct shape { using element = T; static constexpr int width = 1; };
template <class T, int N> struct shape<T __attribute__((ext_vector_type(N)))> {
  using element = T;
  static constexpr int width = N;
};

template <int at, class T, class First, class... Rest> inline void fill(T &vector, First first, Rest... rest) {
  if constexpr (shape<First>::width == 1) {
    vector[at] = (typename shape<T>::element)first;
  } else {
#pragma unroll
    for (int i = 0; i < shape<First>::width; ++i) vector[at + i] = first[i];
  }
  if constexpr (sizeof...(Rest) > 0) fill<at + shape<First>::width>(vector, rest...);
}

// OpenCL's (float8)(...): parts side by side, or one scalar everywhere.
template <class T, class... Parts> inline T joined(Parts... parts) {
  constexpr int count = (shape<Parts>::width + ...);
  static_assert(count == 1 || count == shape<T>::width, "the parts of a vector literal do not fill it");
  T vector;
  if constexpr (count == 1) return (T)(parts, ...);
  else fill<0>(vector, parts...);
  return vector;
}

template <class T, class V> inline T converted(V value) {
  if constexpr (shape<T>::width == 1) return (T)value;
  else return __builtin_convertvector(value, T);
}

#define XETILE_OF_TYPE(T)                                                                     \
  template <class... Parts> inline T make_##T(Parts... parts) { return joined<T>(parts...); } \
  template <class V> inline T as_##T(V value) { return __builtin_bit_cast(T, value); }        \
  template <class V> inline T convert_##T(V value) { return converted<T>(value); }
#define XETILE_SATURATED(T, operation) \
  template <class V> inline T convert_##T##_sat_rtz(V value) { return __spirv_##operation##_R##T##_sat_rtz(value); }
#define XETILE_HALF_OF(T) \
  template <class V> inline T convert_##T##_rte(V value) { return converted<T>(value); }
#define XETILE_WIDTHS(T, define, ...)                                                                     \
  define(T, ##__VA_ARGS__) define(T##2, ##__VA_ARGS__) define(T##3, ##__VA_ARGS__) define(T##4, ##__VA_ARGS__) \
  define(T##8, ##__VA_ARGS__) define(T##16, ##__VA_ARGS__)
XETILE_INTEGERS(XETILE_WIDTHS, XETILE_OF_TYPE)
XETILE_UNSIGNED(XETILE_WIDTHS, XETILE_OF_TYPE)
XETILE_FLOATS(XETILE_WIDTHS, XETILE_OF_TYPE)
XETILE_INTEGERS(XETILE_WIDTHS, XETILE_SATURATED, ConvertFToS)
XETILE_UNSIGNED(XETILE_WIDTHS, XETILE_SATURATED, ConvertFToU)
XETILE_WIDTHS(half, XETILE_HALF_OF)

template <class T, int n> using vector_of = T __attribute__((ext_vector_type(n)));
#define XETILE_VECTOR_ACCESS(n, memory)                                                            \
  template <class T> inline vector_of<T, n> vload##n(ulong offset, const memory T *at) {           \
    vector_of<T, n> vector;                                                                        \
    _Pragma("unroll") for (int i = 0; i < n; ++i) vector[i] = at[offset * n + i];                  \
    return vector;                                                                                 \
  }                                                                                                \
  template <class T> inline void vstore##n(vector_of<T, n> vector, ulong offset, memory T *at) {   \
    _Pragma("unroll") for (int i = 0; i < n; ++i) at[offset * n + i] = vector[i];                  \
  }
#define XETILE_VECTOR_ACCESSES(n) XETILE_VECTOR_ACCESS(n, XETILE_GLOBAL) XETILE_VECTOR_ACCESS(n, XETILE_LOCAL)
XETILE_VECTOR_ACCESSES(2)
XETILE_VECTOR_ACCESSES(3)
XETILE_VECTOR_ACCESSES(4)
XETILE_VECTOR_ACCESSES(8)
XETILE_VECTOR_ACCESSES(16)

template <class T, class C> inline T select(T otherwise, T value, C condition) {
  if constexpr (shape<C>::width == 1) return condition ? value : otherwise;
  else return (condition >> (8 * sizeof(typename shape<C>::element) - 1)) != 0 ? value : otherwise;  // the highest bit
}

template <class T> inline T bitselect(T otherwise, T value, typename shape<T>::element mask) {
  return (T)((otherwise & ~mask) | (value & mask));
}

// --- mathematics -----------------------------------------------------------------------------------------------------

#define XETILE_MATH(name) \
  template <class... V> inline auto name(V... value) { return __spirv_ocl_##name(value...); }
XETILE_MATH(acos) XETILE_MATH(asin) XETILE_MATH(atan) XETILE_MATH(atan2) XETILE_MATH(cbrt) XETILE_MATH(ceil)
XETILE_MATH(copysign) XETILE_MATH(cos) XETILE_MATH(cosh) XETILE_MATH(erf) XETILE_MATH(exp) XETILE_MATH(exp2)
XETILE_MATH(expm1) XETILE_MATH(fabs) XETILE_MATH(floor) XETILE_MATH(fma) XETILE_MATH(fmax) XETILE_MATH(fmin)
XETILE_MATH(fmod) XETILE_MATH(log) XETILE_MATH(log10) XETILE_MATH(log1p) XETILE_MATH(log2) XETILE_MATH(pow)
XETILE_MATH(rint) XETILE_MATH(rsqrt) XETILE_MATH(sin) XETILE_MATH(sinh) XETILE_MATH(sqrt) XETILE_MATH(tan)
XETILE_MATH(tanh) XETILE_MATH(trunc) XETILE_MATH(native_exp2) XETILE_MATH(native_log2) XETILE_MATH(native_recip)
XETILE_MATH(native_rsqrt) XETILE_MATH(clz) XETILE_MATH(popcount)
#define XETILE_BF16(n)                                                                                             \
  inline ushort##n intel_convert_bfloat16##n##_as_ushort##n(float##n v) { return __spirv_ConvertFToBF16INTEL(v); } \
  inline float##n intel_convert_as_bfloat16##n##_float##n(ushort##n v) { return __spirv_ConvertBF16ToFINTEL(v); }
XETILE_BF16()
XETILE_BF16(2)
XETILE_BF16(3)
XETILE_BF16(4)
XETILE_BF16(8)
XETILE_BF16(16)

template <class T> struct itself { using type = T; };
template <class T> inline T min(T a, typename itself<T>::type b) { return b < a ? b : a; }
template <class T> inline T max(T a, typename itself<T>::type b) { return a < b ? b : a; }
template <class T> inline T abs(T value) { return value < (typename shape<T>::element)0 ? -value : value; }
template <class T> inline auto isnan(T value) {
  if constexpr (shape<T>::width == 1) return (int)(value != value);
  else return value != value;
}

// --- positions, and exchange between the lanes of a subgroup ---------------------------------------------------------

inline ulong get_group_id(uint axis) { return __spirv_BuiltInWorkgroupId(axis); }
inline ulong get_num_groups(uint axis) { return __spirv_BuiltInNumWorkgroups(axis); }
inline ulong get_local_size(uint axis) { return __spirv_BuiltInWorkgroupSize(axis); }
inline ulong get_local_id(uint axis) { return __spirv_BuiltInLocalInvocationId(axis); }
inline ulong get_global_id(uint axis) { return __spirv_BuiltInGlobalInvocationId(axis); }
inline ulong get_global_size(uint axis) { return __spirv_BuiltInGlobalSize(axis); }
inline uint get_sub_group_size() { return __spirv_BuiltInSubgroupSize(); }
inline uint get_num_sub_groups() { return __spirv_BuiltInNumSubgroups(); }
inline uint get_sub_group_id() { return __spirv_BuiltInSubgroupId(); }
inline uint get_sub_group_local_id() { return __spirv_BuiltInSubgroupLocalInvocationId(); }

constexpr int subgroup_scope = 3;  // SPIR-V's scope
inline int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }
template <class T> inline T sub_group_broadcast(T v, uint lane) { return __spirv_GroupBroadcast(subgroup_scope, v, lane); }
// XETILE_CALL is defined before this header for a CPU, whose compiler crashes (SIGFPE, or SIGABRT: "Cannot emit physreg
// copy") over rotations by constants of integers widened from 16 bits. The same words as floats it compiles.
#ifdef XETILE_CALL
template <class T> inline auto exchanged(T v) {
  if constexpr (shape<T>::width == 1 && sizeof(T) == sizeof(float)) return __builtin_bit_cast(float, v);
  else return v;
}
#else
template <class T> inline T exchanged(T v) { return v; }
#endif
template <class T> inline T intel_sub_group_shuffle(T v, uint lane) {
  return __builtin_bit_cast(T, __spirv_SubgroupShuffleINTEL(exchanged(v), lane));
}
template <class T> inline T intel_sub_group_shuffle_xor(T v, uint m) { return __spirv_SubgroupShuffleXorINTEL(v, m); }
template <class T> inline T intel_sub_group_shuffle_down(T v, typename itself<T>::type next, uint by) {
  return __builtin_bit_cast(T, __spirv_SubgroupShuffleDownINTEL(exchanged(v), exchanged((T)next), by));
}
template <class T> inline T intel_sub_group_shuffle_up(T before, typename itself<T>::type v, uint by) {
  return __spirv_SubgroupShuffleUpINTEL(before, v, by);
}
#define XETILE_REDUCED(T, letter, kind)                                             \
  inline T sub_group_reduce_add(T value) { return __spirv_Group##letter##Add(subgroup_scope, 0, value); } \
  inline T sub_group_reduce_min(T value) { return __spirv_Group##kind##Min(subgroup_scope, 0, value); }   \
  inline T sub_group_reduce_max(T value) { return __spirv_Group##kind##Max(subgroup_scope, 0, value); }
XETILE_REDUCED(int, I, S)
XETILE_REDUCED(uint, I, U)
XETILE_REDUCED(long, I, S)
XETILE_REDUCED(ulong, I, U)
XETILE_REDUCED(half, F, F)
XETILE_REDUCED(float, F, F)
XETILE_REDUCED(double, F, F)
#define XETILE_BLOCK(name, T, n)                                                            \
  template <class P> inline T##n intel_sub_group_block_read##name##n(P *at) {               \
    return __spirv_SubgroupBlockReadINTEL<T##n>(at);                                        \
  }                                                                                         \
  template <class P> inline void intel_sub_group_block_write##name##n(P *at, T##n value) {  \
    __spirv_SubgroupBlockWriteINTEL(at, value);                                             \
  }
#define XETILE_BLOCKS(name, T) \
  XETILE_BLOCK(name, T, ) XETILE_BLOCK(name, T, 2) XETILE_BLOCK(name, T, 4) XETILE_BLOCK(name, T, 8)
XETILE_BLOCKS(, uint)
XETILE_BLOCKS(_uc, uchar)
XETILE_BLOCKS(_us, ushort)
XETILE_BLOCKS(_ui, uint)
XETILE_BLOCKS(_ul, ulong)
XETILE_BLOCK(_uc, uchar, 16)
XETILE_BLOCK(_us, ushort, 16)

// --- synchronisation -------------------------------------------------------------------------------------------------

typedef uint cl_mem_fence_flags, memory_order, memory_scope;
constexpr uint CLK_LOCAL_MEM_FENCE = 0x100, CLK_GLOBAL_MEM_FENCE = 0x200;
constexpr uint memory_order_relaxed = 0, memory_order_acquire = 2, memory_order_release = 4, memory_order_acq_rel = 8,
               memory_order_seq_cst = 16;
constexpr uint memory_scope_all_svm_devices = 0, memory_scope_device = 1, memory_scope_work_group = 2,
               memory_scope_sub_group = 3, memory_scope_work_item = 4;
inline void work_group_barrier(uint flags, uint scope = memory_scope_work_group) {
  __spirv_ControlBarrier(memory_scope_work_group, scope, flags | memory_order_seq_cst);
}
inline void barrier(uint flags) { work_group_barrier(flags); }
inline void sub_group_barrier(uint flags, uint scope = memory_scope_sub_group) {
  __spirv_ControlBarrier(memory_scope_sub_group, scope, flags | memory_order_seq_cst);
}
inline void atomic_work_item_fence(uint flags, uint order, uint scope) { __spirv_MemoryBarrier(scope, flags | order); }

// SYCL's compiler passes no split barrier on: arriving is a release, and the whole barrier stands at the wait.
inline void intel_work_group_barrier_arrive(uint flags, uint scope = memory_scope_work_group) {
  atomic_work_item_fence(flags, memory_order_release, scope);
}
inline void intel_work_group_barrier_wait(uint flags, uint scope = memory_scope_work_group) {
  work_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE, scope);
}

typedef int atomic_int;
typedef uint atomic_uint;
typedef long atomic_long;
typedef ulong atomic_ulong;
typedef half atomic_half;
typedef float atomic_float;
typedef double atomic_double;
template <class T> struct unqualified { using type = T; };
template <class T> struct unqualified<volatile T> { using type = T; };
template <class V> constexpr bool is_float = V(0.5f) != V(0);
template <class V> constexpr bool is_signed = V(-1) < V(0);
#define XETILE_ATOMIC(name, of_floats, of_signed, of_unsigned)                                            \
  template <class P, class V> inline V atomic_##name##_explicit(P *at, V value, uint order, uint scope) { \
    auto *place = (typename unqualified<P>::type *)at;                                                    \
    if constexpr (is_float<V>) return __spirv_Atomic##of_floats(place, scope, order, value);              \
    else if constexpr (is_signed<V>) return __spirv_Atomic##of_signed(place, scope, order, value);        \
    else return __spirv_Atomic##of_unsigned(place, scope, order, value);                                  \
  }
XETILE_ATOMIC(fetch_add, FAddEXT, IAdd, IAdd)
XETILE_ATOMIC(fetch_min, FMinEXT, SMin, UMin)
XETILE_ATOMIC(fetch_max, FMaxEXT, SMax, UMax)
XETILE_ATOMIC(fetch_sub, ISub, ISub, ISub)
XETILE_ATOMIC(fetch_and, And, And, And)
XETILE_ATOMIC(fetch_or, Or, Or, Or)
XETILE_ATOMIC(fetch_xor, Xor, Xor, Xor)
XETILE_ATOMIC(exchange, Exchange, Exchange, Exchange)
template <class P, class V> inline V atomic_cmpxchg(P *at, V expected, V value) {
  auto *place = (typename unqualified<P>::type *)at;
  return __spirv_AtomicCompareExchange(place, memory_scope_device, 0, 0, value, expected);
}
template <class P, class V> inline V atom_cmpxchg(P *at, V expected, V value) {
  return atomic_cmpxchg(at, expected, value);
}

// A format lies in constant memory. Without the ellipsis of C floats are not widened to what some devices have not.
#define printf(format, ...)                                                            \
  do {                                                                                 \
    static const __attribute__((opencl_constant)) char text_of_printf[] = format;      \
    __spirv_ocl_printf(text_of_printf, ##__VA_ARGS__);                                 \
  } while (0)

// SPIR-V's predicated loads and stores, which SYCL's compiler does not pass on, as branches.
template <class T>
inline T __spirv_PredicatedLoadINTEL(const XETILE_GLOBAL T *at, bool active, typename itself<T>::type otherwise) {
  if (active) otherwise = *at;
  return otherwise;
}
template <class T>
inline void __spirv_PredicatedStoreINTEL(XETILE_GLOBAL T *at, typename itself<T>::type value, bool active) {
  if (active) *at = value;
}
template <class P> inline void prefetch(P *at, ulong count) { __spirv_ocl_prefetch(at, count); }

}  // namespace xetile::opencl
