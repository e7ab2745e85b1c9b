"""CPU GEMM: ABI and dispatch of micro-kernels, explicitly vectorized functions for a subgroup's tile.

    float scratch[2048];  private float *sums = lane 0's scratch;
    sums[0 + lane] = c0; sums[16 + lane] = c1; ...
    if (lane == 0) product_call(sums, 64, &A[row * pitch + k], pitch, &B[k * pitch + column], pitch, depth, ...);
    c0 = sums[0 + lane]; c1 = sums[16 + lane]; ...

Intel's CPU compiler vectorizes over 16 work-items, and OpenCL C has no builtin for dot products of bf16 pairs. In a
function that is not vectorized over work-items, a vector is a ``float16``, and LLVM's intrinsic can be called by its
name. The work-item vectorizer skips calls to undefined functions, so the kernel calls ``product_call``, an undefined
alias (asm label) of the micro-kernel ``product``; a direct call would be vectorized 16-fold, to vectors of 256 numbers.

Where the sums over all of K are only stored, the call gets the address in C instead
(:mod:`codegen.opencl.cpu_gemm.fused_store`). The micro-kernel is in :mod:`codegen.opencl.cpu_gemm.macrokernel`; for
M <= 4, in :mod:`codegen.opencl.cpu_gemm.skinny`.

Only the CPU's OpenCL driver gets ``XETILE_MICROKERNELS`` defined; other compilers get the portable text of
:mod:`codegen.opencl.cpu_gemm.simt`.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.opencl.cpu_gemm.macrokernel import FENCE, ProductText
from codegen.opencl.cpu_gemm.microkernel import DOT, DOT_I8, INTERLEAVE
from codegen.opencl.cpu_gemm.skinny import FewRows
from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import MICROKERNELS
from xegpu.ir.dtypes import bf16
from xegpu.target.gemm_microkernel import MicrokernelShape


def function_name(shape: MicrokernelShape) -> str:
    """Name of the micro-kernel function of a shape."""
    types = f"{shape.a}" if shape.a is shape.b else f"{shape.a}_{shape.b}"
    return f"xetile_product_{types}_{shape.rows}x{shape.columns}"


def guard(shape: MicrokernelShape) -> str:
    """Macro that is defined where the micro-kernel of a shape exists; bytes have one only with their dot product."""
    return DOT_I8 if shape.has_bytes else MICROKERNELS


def function_call(shape: MicrokernelShape, sums: str, operands: str) -> str:
    """Call of a micro-kernel that accumulates into a tile in private memory.

    Args:
        shape: of the tile.
        sums: the pointer.
        operands: A, its pitch, B, its pitch, depth, rows, columns, and how many rows of B there are from the
            first on.
    """
    name = f"{function_name(shape)}_call"
    if shape.is_skinny:
        return f"{name}({sums}, {operands})"
    return f"{name}((global {shape.accumulator.opencl} *)(ulong){sums}, {shape.columns}, {operands}, 1, 0)"


def define(emitter: Emitter, shape: MicrokernelShape) -> None:
    """Define the micro-kernel function of a shape, once."""
    name, sums = function_name(shape), shape.accumulator.opencl
    operands = (f"global const {shape.a.opencl} *A, long pitch_a, global const {shape.b.opencl} *B, long pitch_b, "
                "int depth, int rows, int columns, int below")
    parameters = f"(private {sums} *sums, {operands})" if shape.is_skinny else \
        f"(global {sums} *C, long pitch_c, {operands}, int adds, int past)"
    # Asm labels: both functions link to the symbol ``name``, and are two functions in LLVM's IR, since "\01" (use the
    # label verbatim) is part of the name there. The call is of the undefined one, so the vectorizer leaves it scalar.
    lines = [f"#ifdef {guard(shape)}", f'void {name}_call{parameters} __asm("{name}");',
             f'__attribute__((noinline, used)) void {name}{parameters} __asm("\\01{name}");',
             f"__attribute__((noinline, used)) void {name}{parameters}", "{"]
    if shape.is_skinny:
        lines += FewRows(shape.rows, shape.columns, shape.a).body()
    elif shape.a is bf16:
        lines += [f"#ifdef {DOT}", *ProductText(shape, 2).body(), "#else", *ProductText(shape).body(), "#endif"]
    else:
        lines += ProductText(shape, 4 if shape.has_bytes else 1).body()
    emitter.function("\n".join([*lines, "}", "#endif", ""]), name)


_DECLARATIONS_BF16 = (
    "typedef __bf16 xetile_bf16x32 __attribute__((ext_vector_type(32)));\n"
    "typedef uint xetile_pair __attribute__((aligned(2)));\n"
    "typedef uint16 xetile_pairs __attribute__((aligned(2)));\n"
    "float16 xetile_dot_bf16(float16 c, xetile_bf16x32 a, xetile_bf16x32 b) "
    '__asm("llvm.x86.avx512bf16.dpbf16ps.512");\n'
    f"#define {DOT}(c, a, b) "
    "xetile_dot_bf16(c, __builtin_astype(a, xetile_bf16x32), __builtin_astype(b, xetile_bf16x32))\n")
"""Declarations on CPUs with ``avx512_bf16``: the instruction vdpbf16ps, two products per element added in f32;
subnormals count as zero. The asm label is LLVM's intrinsic, which clang passes through."""


@dataclass(frozen=True)
class DotProduct:
    """Dot product instruction of x86.

    Attributes:
        macro: its name in a kernel's text.
        elements: element type of the operands.
        instruction: mnemonic.
        feature: the CPU's feature, by its name in Linux.
        declarations: OpenCL C text that defines the macro.
    """

    macro: str
    elements: str
    instruction: str
    feature: str
    declarations: str


_PAIRS, _QUADS = (
    [(", ".join(f"{first + i}, {other + first + i}" for i in range(other // 2))) for first in (0, other // 2)]
    for other in (64, 32))
_DECLARATIONS_I8 = (
    "typedef uchar xetile_u8x64 __attribute__((ext_vector_type(64)));\n"
    "typedef ushort xetile_u16x32 __attribute__((ext_vector_type(32)));\n"
    "typedef xetile_u8x64 xetile_row __attribute__((aligned(1)));\n"
    "typedef uint16 xetile_words __attribute__((aligned(1)));\n"
    f'int16 {DOT_I8.lower()}(int16 c, xetile_u8x64 a, xetile_u8x64 b) __asm("llvm.x86.avx512.vpdpbusd.512");\n'
    f"#define {DOT_I8}(c, a, b) "
    f"{DOT_I8.lower()}(c, __builtin_astype(a, xetile_u8x64), __builtin_astype(b, xetile_u8x64))\n"
    f"__attribute__((always_inline)) static void {INTERLEAVE}(uint16 *words, global const uchar *from, long pitch)\n"
    "{\n"
    + "".join(f"  const xetile_u8x64 r{row} = *(global const xetile_row *)(from + {row} * pitch);\n"
              for row in range(4))
    + "".join(f"  const xetile_u16x32 p{row}{half} = __builtin_astype(__builtin_shufflevector("
              f"r{row}, r{row + 1}, {_PAIRS[half]}), xetile_u16x32);\n" for row in (0, 2) for half in (0, 1))
    + "".join(f"  words[{2 * half + quarter}] = __builtin_astype(__builtin_shufflevector("
              f"p0{half}, p2{half}, {_QUADS[quarter]}), uint16);\n" for half in (0, 1) for quarter in (0, 1))
    + "}\n")
"""Declarations on CPUs with ``avx512_vnni``: the instruction vpdpbusd, four products of unsigned by signed bytes
per element added in i32 without saturation, and the interleaving of four rows of 64 bytes. The asm label is LLVM's
intrinsic, which clang passes through."""
DOT_PRODUCTS = (DotProduct(DOT, "bf16", "vdpbf16ps", "avx512_bf16", _DECLARATIONS_BF16),
                DotProduct(DOT_I8, "i8", "vpdpbusd", "avx512_vnni", _DECLARATIONS_I8))
FENCE_X86 = f'void {FENCE}(void) __asm("llvm.x86.sse.sfence");\n'
"""Declaration of the store fence after non-temporal stores; the asm label is LLVM's intrinsic of sfence."""
