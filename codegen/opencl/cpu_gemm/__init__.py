"""Products of a subgroup's whole tile by one call: vectors of 16 numbers written out, instead of one number a lane.

    float scratch[2048];  private float *sums = lane 0's scratch;
    sums[0 + lane] = c0; sums[16 + lane] = c1; ...
    if (lane == 0) product_call(sums, 64, &A[row * pitch + k], pitch, &B[k * pitch + column], pitch, depth, ...);
    c0 = sums[0 + lane]; c1 = sums[16 + lane]; ...

Intel's compiler for processors makes a vector of 16 work-items, and no builtin of OpenCL C multiplies pairs of bf16. In
a function that it leaves alone, a vector is a ``float16``, and LLVM's own word for the instruction can be said. It
leaves alone what it takes for a function of somewhere else: ``product_call`` is declared, not defined, and
``product``, which the linker finds under the same name, is called by nobody. Of what is called directly it would make a
second version for 16 lanes at once, with vectors of 256 numbers.

Where the sums of all of K are only stored, the call gets the place in C instead
(:mod:`codegen.opencl.cpu_gemm.fused_store`). What the function does with all this is in
:mod:`codegen.opencl.cpu_gemm.macrokernel`; for very few rows of A, in :mod:`codegen.opencl.cpu_gemm.skinny`.

All of this is for the OpenCL driver of processors alone, which gets ``XETILE_WHOLE`` defined; every other compiler
reads the portable text that stands beside it.
"""

from __future__ import annotations

from codegen.opencl.cpu_gemm.macrokernel import FENCE, ProductText
from codegen.opencl.cpu_gemm.microkernel import DOT
from codegen.opencl.cpu_gemm.skinny import FewRows
from codegen.opencl.emitter import Emitter
from xegpu.ir.dtypes import bf16
from xegpu.target.gemm_microkernel import MicrokernelShape

WHOLE = "XETILE_WHOLE"
"""Defined where functions of whole vectors can be called in this way."""


def function_name(shape: MicrokernelShape) -> str:
    """The name of the function of a shape."""
    return f"xetile_product_{shape.a}_{shape.rows}x{shape.columns}"


def function_call(shape: MicrokernelShape, sums: str, operands: str) -> str:
    """A call that adds products to the sums of a whole tile in private memory.

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
    """Write the function of a shape, once."""
    element, name = shape.a.opencl, function_name(shape)
    operands = (f"global const {element} *A, long pitch_a, global const {element} *B, long pitch_b, int depth, "
                "int rows, int columns, int below")
    parameters = f"(private float *sums, {operands})" if shape.is_skinny else \
        f"(global float *C, long pitch_c, {operands}, int adds, int past)"
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
"""What stands before a text on processors with ``avx512_bf16``: two products a number and instruction, added up in f32;
numbers under 2^-126 count as zero. LLVM's name of the instruction, which clang passes on."""
FENCE_X86 = f'void {FENCE}(void) __asm("llvm.x86.sse.sfence");\n'
"""What stands before functions of whole vectors: stores past the caches are seen before all that follows."""
