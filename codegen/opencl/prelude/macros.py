"""Macros of emitted text: names, and definitions for compilers other than Intel's for GPUs.

The text of a kernel defines each macro that it uses under ``#ifndef``, for Intel's GPUs; a definition that stands
before the text replaces that one. :mod:`codegen.runtime.program_source` says which compiler gets which.
"""

from __future__ import annotations

CALL = "XETILE_CALL"
"""Attribute of helper functions; nothing, unless it is defined to keep calls as calls."""
FILL = "XETILE_FILL"
"""The same for functions that give their results through pointers, which fewer compilers can keep."""
FETCH = "XETILE_FETCH"
"""``FETCH(pointer)``: prefetch of a cache line; nothing, unless it is defined for a CPU."""
FETCH_L1 = "XETILE_L1_FETCH"
"""``FETCH_L1(pointer)``: the same into the first cache."""
MAXNUM = {"fmax": "XETILE_FMAX", "fmin": "XETILE_FMIN"}
"""``FMAX(a, b)`` and ``FMIN(a, b)``: these functions of ``float``, of a CPU's compiler where it has them."""
LIKELY = "XETILE_LIKELY"
"""``LIKELY(condition)``: a condition that mostly holds; itself, unless it is defined for a CPU."""
LDEXP = "XETILE_LDEXP"
"""``LDEXP(value, exponent)``: value * 2^exponent, defined where that is an instruction of a CPU's vectors."""
ROLLED = "XETILE_ROLLED"
"""Defined where main loops that no author asked for are left out (``xegpu.skip_if_rolled``)."""
MICROKERNELS = "XETILE_MICROKERNELS"
"""Defined where a kernel can call the CPU GEMM micro-kernels (:mod:`codegen.opencl.cpu_gemm`)."""
SIGNAL, WAIT = "NBARRIER_SIGNAL", "NBARRIER_WAIT"
"""``SIGNAL(id, count)`` and ``WAIT(id)``: named barriers; with ``_AT``, of an id that is not a constant."""
SCHEDULE_BARRIER = "XETILE_SCHEDULE_BARRIER"
"""Barrier for the compiler's instruction schedulers."""
DEINTERLEAVE_ROWS = "XETILE_DEINTERLEAVE_ROWS"
"""``DEINTERLEAVE_ROWS(even, odd, words)``: low and high halves of eight words, which are rows of 16-bit elements."""
NO_VISA = "XETILE_NO_VISA"
"""Defined where a compiler takes no virtual assembly of Intel's GPUs."""
F64_TO_F32 = "XETILE_F64_TO_F32"
"""``F64_TO_F32(to, from)``: conversion that Intel's GPU compiler gets wrong for vectors."""
SLM_READ = "XETILE_SLM_READ_"
"""With an OpenCL vector type behind it, ``SLM_READ(words, from, distance)``: 512 bytes of shared local memory."""
SLM_ADDRESS = "XETILE_SLM_ADDRESS"
"""``SLM_ADDRESS(at, pointer)``: an address in shared local memory, in a register that a loop keeps."""

_BARRIER = "work_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)"

CPU_CALL = (CALL, "__attribute__((noinline))")
"""``CALL`` for CPUs: their compiler takes seven times as long where every out-of-bounds-checked load is inlined."""
CPU_FILL = (FILL, "__attribute__((noinline))")
"""``FILL``, for the OpenCL driver only: with SYCL's compiler, such a call let a lane read a later write of another."""
CPU_FETCH = (f"{FETCH}(pointer)", "__builtin_prefetch(pointer, 0, 2)")
"""``FETCH`` for CPUs: the prefetch instruction into L2 (locality 2), as L1 is full of live data. OpenCL's ``prefetch``
is a call per lane there, and SPIR-V has no such instruction."""
CPU_FETCH_L1 = (f"{FETCH_L1}(pointer)", "__builtin_prefetch(pointer, 0, 3)")
CPU_MAXNUM = ((f"{MAXNUM['fmax']}(a, b)", "__builtin_fmaxf(a, b)"),
              (f"{MAXNUM['fmin']}(a, b)", "__builtin_fminf(a, b)"))
"""A maximum, a comparison with itself and a masked move. OpenCL's are two comparisons, whose masks are combined
first, which takes twice the time where each waits for the one before, as in a reduction."""
CPU_LIKELY = (f"{LIKELY}(condition)", "__builtin_expect(condition, 1)")
CPU_LDEXP = (f"{LDEXP}(value, exponent)", "__builtin_ldexpf(value, exponent)")
"""``LDEXP`` for AVX-512, ``vscalefps``: of OpenCL's ``ldexp`` the compiler makes a dozen instructions."""
NAMED_BARRIERS = ((f"{SIGNAL}(id, count)", "(void)(id)"), (f"{WAIT}(id)", _BARRIER),
                  (f"{SIGNAL}_AT(id, count)", "(void)(id)"), (f"{WAIT}_AT(id)", _BARRIER))
"""Named barriers in uniform control flow, as work-group barriers at the wait."""
SCHEDULE_BARRIERS = ((SCHEDULE_BARRIER, ""),)
"""A device that does not compile through vISA has no use for a scheduling barrier."""
ROWS = ((f"{DEINTERLEAVE_ROWS}(even, odd, words)",
         "even = convert_ushort8((words) & 0xffffu), odd = convert_ushort8((words) >> 16)"),)
PORTABLE = ((NO_VISA, ""),)
NATIVE = (("native_exp2", "exp2"), ("native_log2", "log2"), ("native_rsqrt", "rsqrt"),
          ("native_recip(v)", "(1.0f / (v))"))
"""Functions that are one instruction of a GPU; those of Intel's CPU driver are good to 11 bits only."""
F64_NARROWING = ((f"{F64_TO_F32}(to, from)", "to = (float)(from)"),)
SLM_READS = tuple(
    (f"{SLM_READ}{word}{width}(words, from, distance)",
     f"words = prelude_slm_{word}{width}((local const {word} *)(from) + (distance) / sizeof({word}))")
    for word, width in (("ushort", 16), ("uint", 8)))


def define(*macros: tuple[str, str]) -> str:
    """Preprocessor definitions of macros, each a name with its parameters and its expansion."""
    return "".join(f"#define {name} {body}".rstrip() + "\n" for name, body in macros)


def name_of(macro: tuple[str, str]) -> str:
    """Name of a macro without its parameters."""
    return macro[0].partition("(")[0]


def fallbacks(text: str) -> str:
    """Definitions of the optional macros that a text uses, as empty or as their argument, unless they are defined."""
    optional = ((CALL, ""), (FILL, ""), (CPU_FETCH[0], ""), (CPU_FETCH_L1[0], ""), (CPU_LIKELY[0], "(condition)"),
                *((f"{macro}(a, b)", f"{name}(a, b)") for name, macro in MAXNUM.items()))
    used = [macro for macro in optional if name_of(macro) in text]
    lines = [f"#ifndef {name_of(macro)}\n{define(macro)}#endif\n" for macro in used]
    return "".join([*lines, "\n" * bool(used)])
