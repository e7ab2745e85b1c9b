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

Only the CPU's OpenCL driver gets ``XETILE_WHOLE`` defined; other compilers get the portable text of
:mod:`codegen.opencl.cpu_gemm.simt`.
"""

from __future__ import annotations

from codegen.opencl.cpu_gemm.macrokernel import FENCE, ProductText
from codegen.opencl.cpu_gemm.microkernel import DOT
from codegen.opencl.cpu_gemm.skinny import FewRows
from codegen.opencl.emitter import Emitter
from codegen.opencl.prelude.macros import WHOLE
from xegpu.ir.dtypes import bf16
from xegpu.target.gemm_microkernel import MicrokernelShape


def function_name(shape: MicrokernelShape) -> str:
    """Name of the micro-kernel function of a shape."""
    return f"xetile_product_{shape.a}_{shape.rows}x{shape.columns}"


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
    return f"{name}((global float *)(ulong){sums}, {shape.columns}, {operands}, 1, 0)"


def define(emitter: Emitter, shape: MicrokernelShape) -> None:
    """Define the micro-kernel function of a shape, once."""
    element, name = shape.a.opencl, function_name(shape)
    operands = (f"global const {element} *A, long pitch_a, global const {element} *B, long pitch_b, int depth, "
                "int rows, int columns, int below")
    parameters = f"(private float *sums, {operands})" if shape.is_skinny else \
        f"(global float *C, long pitch_c, {operands}, int adds, int past)"
    # Asm labels: both functions link to the symbol ``name``, and are two functions in LLVM's IR, since "\01" (use the
    # label verbatim) is part of the name there. The call is of the undefined one, so the vectorizer leaves it scalar.
    lines = [f"#ifdef {WHOLE}", f'void {name}_call{parameters} __asm("{name}");',
             f'__attribute__((noinline, used)) void {name}{parameters} __asm("\\01{name}");',
             f"__attribute__((noinline, used)) void {name}{parameters}", "{"]
    if shape.is_skinny:
        lines += FewRows(shape.rows, shape.columns, shape.a).body()
    elif shape.a is bf16:
        lines += [f"#ifdef {DOT}", *_text(shape, pairs=True).body(), "#else", *_text(shape).body(), "#endif"]
    else:
        lines += _text(shape).body()
    emitter.functions[name] = "\n".join([*lines, "}", "#endif", ""])


def _text(shape: MicrokernelShape, *, pairs: bool = False) -> ProductText:
    return ProductText(shape.rows, shape.columns, shape.a, pairs)


DOT_BF16 = (
    "typedef __bf16 xetile_bf16x32 __attribute__((ext_vector_type(32)));\n"
    "typedef uint xetile_pair __attribute__((aligned(2)));\n"
    "typedef uint16 xetile_pairs __attribute__((aligned(2)));\n"
    "float16 xetile_dot_bf16(float16 c, xetile_bf16x32 a, xetile_bf16x32 b) "
    '__asm("llvm.x86.avx512bf16.dpbf16ps.512");\n'
    f"#define {DOT}(c, a, b) "
    "xetile_dot_bf16(c, __builtin_astype(a, xetile_bf16x32), __builtin_astype(b, xetile_bf16x32))\n")
"""Declarations on processors with ``avx512_bf16``: the instruction vdpbf16ps, two products per element added in f32;
subnormals count as zero. The asm label is LLVM's intrinsic, which clang passes through."""
FENCE_X86 = f'void {FENCE}(void) __asm("llvm.x86.sse.sfence");\n'
"""Declaration of the store fence after non-temporal stores; the asm label is LLVM's intrinsic of sfence."""
