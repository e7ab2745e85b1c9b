"""Reserved identifiers of emitted texts, which no kernel, argument or variable may have.

An author's ``exp`` or ``float4`` would hide the builtin of that name from the rest of the text, and some compilers
refuse it at once. The table has the words of OpenCL C and of C++ (of which ``.sycl`` is), the builtins and macros of
OpenCL C 3.0 with the extensions that Intel's drivers declare, and what the emitter's rules, the prelude and the SYCL
header define themselves.
"""

from __future__ import annotations

import re
from functools import lru_cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words("""
    auto break case char const continue default do double else enum extern float for goto half if inline int long
    register return short signed sizeof static struct switch typedef union unsigned void volatile while kernel global
    local constant private uchar ushort uint ulong bool read_only write_only read_write generic pipe event_t main
""")
"""Keywords and scalar types of OpenCL C."""
CPLUSPLUS = _words("""
    alignas alignof and and_eq asm bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl
    concept consteval constexpr constinit const_cast decltype delete dynamic_cast explicit export friend mutable
    namespace new noexcept not not_eq nullptr operator or or_eq protected public reinterpret_cast requires
    static_assert static_cast template this thread_local throw try typeid typename using virtual wchar_t xor xor_eq
""")
"""Keywords of C++ that are names in OpenCL C."""
RULES = _words("lane row column base out")
"""Names that rules of the emitter write as they are, in kernels."""
_HELPERS = _words("""
    slm_position assertions assertion_failed odd_half byte_bits word_of words_or_zeros extreme_quotient
""")
"""Functions that rules of the emitter define, and parameters that they add."""
_MORE_KEYWORDS = _words("""
    false restrict true typeof uniform vec_step complex imaginary quad addrspace_cast
""")
_SYCL = _words("""
    launch sycl std xetile opencl linux unix i386 shape fill joined converted vector_of itself unqualified is_float
    is_signed subgroup_scope text_of_printf
""")
"""What a ``.sycl`` file defines or looks up in the namespace that has the kernel's name, and macros of gnu++."""
_TYPES = _words("""
    size_t ptrdiff_t intptr_t uintptr_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t sampler_t
    event_t clk_event_t queue_t ndrange_t reserve_id_t clk_profiling_info kernel_enqueue_flags_t memory_order
    memory_scope
""")
_FUNCTIONS = _words("""
    abs abs_diff acos acosh acospi add_sat all any asin asinh asinpi atan atan2 atan2pi atanh atanpi barrier bit_reverse
    bitfield_extract_signed bitfield_extract_unsigned bitfield_insert bitselect capture_event_profiling_info cbrt ceil
    clamp clz copysign cos cosh cospi create_user_event cross ctz degrees distance dot dot_acc_sat enqueue_kernel
    enqueue_marker erf erfc exp exp10 exp2 expm1 fabs fast_distance fast_length fast_normalize fdim floor fma fmax fmin
    fmod fract frexp hadd hypot ilogb is_valid_event is_valid_reserve_id isequal isfinite isgreater isgreaterequal isinf
    isless islessequal islessgreater isnan isnormal isnotequal isordered isunordered kernel_exec ldexp length lgamma
    lgamma_r log log10 log1p log2 logb mad mad24 mad_hi mad_sat max maxmag mem_fence min minmag mix modf mul24 mul_hi
    nan ndrange_1D ndrange_2D ndrange_3D nextafter normalize popcount pow pown powr prefetch printf radians
    read_mem_fence release_event remainder remquo retain_event rhadd rint rootn rotate round rsqrt select
    set_user_event_status shuffle shuffle2 sign signbit sin sincos sinh sinpi smoothstep sqrt step sub_sat tan tanh
    tanpi tgamma to_global to_local to_private trunc upsample wait_group_events write_mem_fence
    memchr memcmp memcpy memmove memset CLINKAGE
""")
"""Builtin functions of OpenCL C that belong to no family of :data:`_FAMILIES`, and those of C that LLVM calls."""
_SCALAR = r"(?:u?(?:char|short|int|long)|half|float|double)"
_VALUE = rf"(?:{_SCALAR}(?:2|3|4|8|16)?|bool|size_t|ptrdiff_t|u?intptr_t)"
_ROUNDING = r"(?:_rt[ezpn])?"
_FAMILIES = re.compile("|".join((
    r"__.*|_[A-Z].*",  # of the implementation, by the standard of C
    r"(?:xetile|XETILE|prelude|PRELUDE|NBARRIER|emulated)_.*",  # of the text, the prelude, and ocloc's SPIR-V
    _VALUE,
    rf"as_{_VALUE}|make_{_VALUE}|convert_{_VALUE}(?:_sat)?{_ROUNDING}",
    r"(?:native|half)_(?:cos|divide|exp|exp2|exp10|log|log2|log10|powr|recip|rsqrt|sin|sqrt|tan)",
    rf"v(?:load|store)a?(?:_half)?(?:2|3|4|8|16)?{_ROUNDING}",
    r"atom(?:ic)?_(?:add|and|cmpxchg|compare_\w+|dec|exchange\w*|fetch_\w+|flag_\w+|inc|init|load\w*|max|min|or|store\w*"
    r"|sub|work_item_fence|xchg|xor|u?int|u?long|half|float|double|flag|u?intptr_t|size_t|ptrdiff_t)",
    r"intel_(?:sub_group|work_group|convert|reqd|split)\w+",
    r"(?:sub|work)_group_(?:all|any|ballot|barrier|broadcast|clustered|elect|inverse|non_uniform|reduce|reserve|commit"
    r"|rotate|scan|shuffle)\w*|async_work_group_\w+",
    r"get_(?:default_queue|fence|work_dim|image_\w+|pipe_\w+|kernel_\w+|enqueued_\w+|max_sub_group_size|num_groups"
    r"|num_sub_groups|sub_group_\w+|group_id|(?:global|local)_(?:linear_)?(?:id|size)|global_offset)",
    r"(?:read|write)_(?:image|pipe)\w*|(?:reserve|commit)_(?:read|write)_pipe|image\dd_\w*t|clock_read_\w+|dot_4x8packed"
    r"_\w+|dot_acc_sat_\w+",
    # functions that the emitter's rules define
    r"(?:divide|floor_divide|ceil_divide|remainder)_u?(?:char|short|int|long)\d*|f64_to_(?:odd_)?float\d*|fast_(?:tanh|erf)\d*"
    r"|accurate_(?:log2|tanh)\d*|widen_[ab]_\w+|dequantize_\w+|pair_halves_of_\d+|shift_by_\d+_of_\d+"
    r"|paired_fields_of_\d+|(?:lower|upper)_\d_lanes_of_\d",
    r"cl_\w+|CLK?_\w+|memory_(?:order|scope)_\w+|ATOMIC_\w+_INIT|FP_(?:FAST_FMAF?\w*|ILOGB\w+|CONTRACT)",
    r"(?:S?CHAR|SHRT|INT|LONG|UCHAR|USHRT|UINT|ULONG)_(?:MAX|MIN|BIT)|MAX_WORK_DIM|NULL|NAN|INFINITY|MAXFLOAT|HUGE_VALF?",
    r"(?:DBL|FLT|HALF)_(?:DIG|EPSILON|MANT_DIG|MAX|MAX_10_EXP|MAX_EXP|MIN|MIN_10_EXP|MIN_EXP|RADIX)",
    r"M_(?:1_PI|2_PI|2_SQRTPI|E|LN10|LN2|LOG10E|LOG2E|PI|PI_2|PI_4|SQRT1_2|SQRT2)(?:_[FH])?",
)))
"""Names that come in families."""
OTHERS = _HELPERS | _MORE_KEYWORDS | _SYCL | _TYPES | _FUNCTIONS
"""Types, functions and macros, and names that the emitter and a ``.sycl`` file define beside kernels."""
_WORDS = KEYWORDS | CPLUSPLUS | RULES | OTHERS


@lru_cache(maxsize=4096)
def is_reserved(name: str) -> bool:
    """Whether a name is reserved by OpenCL C, C++ or the emitter."""
    return name in _WORDS or _FAMILIES.fullmatch(name) is not None
