"""Counting instructions: on assembly written here, and on what ocloc makes of real kernels."""

from __future__ import annotations

import pytest

from codegen.perf.isa import InstructionMix, read_instructions, read_mix
from codegen.toolchain.ocloc import compile_device, disassemble, find_ocloc
from xegpu.support.errors import ToolError
from xegpu.target.targets import TARGETS

ASM = """L0:
(W)     send.ugm (1|M0) r1 r255    null:0  0xFF  0x62  {A@1,$0} // wr:1+0, rd:1; load.ugm.d32x16t.a32.bti[255]
(W)     mov (1|M0)               r1.10<1>:d    192:w
L64:
        mov (16|M0)              r2.0<1>:d     0:w                               {Compacted}
L128:
(W)     send.ugm (1|M0) r36 r69  null:0  0x0  0x03F00203  {I@5,$7} // wr:1+0, rd:31; load_block2d.ugm.d16.a64
(W)     send.ugm (1|M0) null r3   null:0  0x0  0x02080203  {I@4,$1} // wr:1+0, rd:0; load_block2d.ugm.d16.a64.ca.ca
        send.ugm (16|M0) r9 r7   null:0  0x0  0x04100580  {I@1,$3} // wr:2+0, rd:1; load.ugm.d32.a64
        sync.allwr                           ($5,$8,$9)
        dpas.8x8 (16|M0)         r3:f     r3:f  r70:bf  r36.0:bf   {Atomic}
        dpas.8x8 (16|M0)         r11:f    r11:f r70:bf  r44.0:bf
(W&f0.0) jmpi                                L128
L300:
        send.slm (16|M0) null r10  r9:1    0x0  0x0200  {$3} // wr:1+1, rd:0; store.slm.d32.a32
(W)     send.slm (1|M0) r11 r0   null:0  0x0  0x0210001F  {$4} // wr:1+0, rd:1; fence.slm.none.group
(W)     send.gtwy (1|M0) null r12  null:0  0x0  0x02000004  {$5} // wr:1+0, rd:0; signal barrier
(W)     sync.bar                             0x0                                 {Compacted}
(W)     send.ugm (1|M0) null r28  r30:1   0x0  0x0400058C  {$9} // wr:2+1, rd:0; atomic_iadd.ugm.d32.a64
        send.ugm (16|M0) r28 r26  null:0  a0.0 0x42  {ExBSO,$8} // wr:1+0, rd:1; load.ugm.d32.a32.ss[a0.0]
(~f0.1) goto.b (16|M0)                       L300                  L64
        join (16|M0)                         L608
L608:
        send.ugm (1|M0) null r3   r105:8  0x0  0x02000407  {I@5,$5} // wr:1+8, rd:0; store_block2d.ugm.d32.a64
        send.ugm (16|M0) null r15  r3:1    0x0  0x04000584  {I@1,$3} // wr:2+1, rd:0; store.ugm.d32.a64
(W)     send.gtwy (1|M0) null r127 null:0  0x0  0x02000010  {EOT,F@1,$4} // wr:1+0, rd:0; end of thread
        illegal
"""
GEMM = """
#define MAD(a, b, c) intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, c)
__attribute__((intel_reqd_sub_group_size(16)))
kernel void gemm(global float *C, global ushort *A, global ushort *B, int M, int N, int K) {
  const int m = get_group_id(1) * 8, n = get_group_id(0) * 16;
  float8 c = 0;
  int k = 0;
  do {
    short8 a;
    int8 b;
    intel_sub_group_2d_block_read_16b_8r16x1c(A, K * 2, M, K * 2, (int2)(k, m), (private ushort *)&a);
    intel_sub_group_2d_block_read_transform_16b_16r16x1c(B, N * 2, K, N * 2, (int2)(n, k), (private uint *)&b);
    intel_sub_group_2d_block_prefetch_16b_8r16x1c(A, K * 2, M, K * 2, (int2)(k + 32, m));
    c = MAD(a, b, c);
    k += 16;
  } while (k < K);
  intel_sub_group_2d_block_write_32b_8r16x1c(C, N * 4, M, N * 4, (int2)(n, m), (private uint *)&c);
}"""
NO_MATRIX = """
__attribute__((intel_reqd_sub_group_size(SG))) kernel void steps(global int *a) {
  int x = a[get_global_id(0)], c = 0;
  while (x > 1) { x = x & 1 ? 3 * x + 1 : x / 2; c++; }
  a[get_global_id(0)] = c;
}"""


def mix_of(source: str, target: str, options: str = "") -> InstructionMix:
    """The hot loop's mix, by ocloc."""
    try:
        find_ocloc()
    except ToolError as error:
        pytest.skip(f"needs ocloc: {error}")  # the error names XETILE_OCLOC
    (kernel,) = disassemble(compile_device(source, target, options)).kernels.values()
    loop = read_mix(kernel.asm).loop
    assert loop is not None
    return loop


def test_every_kind_of_instruction_is_told_apart() -> None:
    whole = read_mix(ASM).whole
    assert whole.categories == {
        "dpas": 2,
        "load_block2d": 1,
        "store_block2d": 1,
        "prefetch": 1,
        "load": 2,
        "store": 1,
        "atomic": 1,
        "slm": 1,
        "scratch": 1,
        "sync": 4,
        "scalar": 1,
        "vector": 1,
        "branch": 3,
        "other": 2,
    }
    assert whole.total == whole.categories.total() == 22
    assert whole.opcodes["dpas.8x8"] == 2
    assert whole.opcodes["sync.bar"] == 1


def test_the_hot_loop_is_the_innermost_with_dpas() -> None:
    loop = read_mix(ASM).loop
    assert loop is not None
    assert (loop.total, loop.categories["dpas"], loop.categories["branch"]) == (7, 2, 1)
    assert loop.density == pytest.approx(2 / 7)
    assert str(loop).endswith("density 0.286")


def test_arithmetic_takes_a_pass_for_each_register_of_its_widest_operand() -> None:
    """By pipe, that of the destination's type; messages, products and branches take none."""
    lines = ["add (32|M0) r2.0<1>:w  r3.0<1;1,0>:b  100:w", "add (32|M0) r4.0<1>:d  r3.0<1;1,0>:b  100:d",
             "add (32|M0) r6.0<1>:hf  r6.0<1;1,0>:hf  0x1:hf",
             "mul (16|M0) r8.0<2>:bf r9.0<1;1,0>:bf r7.0<1;1,0>:f {F@1}",
             "mov (32|M0) r10.0<1>:hf  r12.0<1;1,0>:f", "(W) mov (1|M0) r1.10<1>:d 192:w",
             "math.exp (16|M0) r8.0<1>:f r9.0<1;1,0>:f", "add (16|M0) r20.0<1>:df r20.0<1;1,0>:df r22.0<1;1,0>:df",
             "cmp (16|M0) (gt)f0.0 null<1>:f r9.0<1;1,0>:f 0x0:f", "mov (16|M0) r2.0<1>:uw 0x76543210:uv"]
    mix = InstructionMix.of(read_instructions("\n".join(lines))[0])
    assert mix.alu_passes(64) == {"integer": 1 + 2 + 1 + 1, "float": 1 + 1 + 2 + 1, "math": 1, "double": 2}
    assert mix.alu_passes(32)["integer"] == 2 + 4 + 1 + 1
    assert read_mix(ASM).whole.alu_passes(64) == {"integer": 2}


def test_without_dpas_the_longest_innermost_loop_counts() -> None:
    loop = read_mix(ASM.replace("dpas.8x8", "mad")).loop
    assert loop is not None
    assert loop.total == 7  # as long as the other, which is first; the loop around both is not innermost
    assert loop.categories["vector"] == 2


def test_dpas_around_an_inner_loop_are_found() -> None:
    asm = "L0:\n        dpas.8x8 (16|M0)   r3:f r3:f r70:bf r36.0:bf\nL1:\n        mov (16|M0) r1 r2\n"
    asm += "(W&f0.0) jmpi   L1\n(W&f0.0) jmpi   L0\n"
    loop = read_mix(asm).loop
    assert loop is not None
    assert (loop.total, loop.categories["dpas"]) == (4, 1)


def test_straight_code_has_no_loop() -> None:
    kernel = read_mix("L0:\n        mov (16|M0) r1 r2\n(W)     jmpi   L9\nL9:\n")
    assert kernel.loop is None
    assert kernel.whole.density == 0.0
    assert read_mix("").whole.density == 0.0


def test_labels_are_placed_before_their_instruction() -> None:
    instructions, positions = read_instructions(ASM)
    assert positions["L128"] == 3
    assert instructions[positions["L128"]].category == "load_block2d"


@pytest.mark.parametrize("target", [target.name for target in TARGETS.values() if target.block_io])
def test_a_matrix_kernel_is_read(target: str) -> None:
    loop = mix_of(GEMM, target, "-cl-intel-256-GRF-per-thread")
    found = [loop.categories[name] for name in ("dpas", "load_block2d", "prefetch", "branch", "scratch")]
    assert found == [loop.categories["dpas"], 2 * found[0], found[0], 1, 0]
    assert found[0] > 0


@pytest.mark.parametrize(("target", "size"), [("pvc", 16), ("bmg", 16), ("dg2", 8), ("arl", 8)])
def test_a_loop_with_diverging_branches_is_found(target: str, size: int) -> None:
    loop = mix_of(NO_MATRIX, target, f"-DSG={size}")
    assert loop.categories["branch"] >= 1
    assert loop.categories["vector"] >= 4
    assert loop.density == 0


def test_the_compilers_own_dpas_do_not_count() -> None:
    asm = "L0:\n        dpas.8x8 (8|M0)   r195:f   null:f   r195:bf   r195.0:bf  {Atomic}\n"
    asm += "        dpas.8x8 (8|M0)   r195:f   r195:f   r131:bf   r67.0:bf   {Atomic}\n"
    asm += "        dpas.8x8 (8|M0)   r6:f     null:f   r23:bf    r23.0:bf   {Atomic}\n"
    asm += "        dpas.8x8 (8|M0)   r187:f   null:f   r131:bf   r67.0:bf\n"  # a product without an accumulator
    assert read_mix(asm).whole.categories == {"other": 2, "dpas": 2}


def test_without_dpas_the_loop_with_most_vector_multiply_adds_counts() -> None:
    asm = "L0:\n" + "        mad (16|M0)   r3 r3 r70 r36\n" * 2 + "L1:\n" + "        mov (16|M0) r1 r2\n" * 9
    loop = read_mix(asm + "(W&f0.0) jmpi   L1\n(W&f0.0) jmpi   L0\n").loop
    assert loop is not None
    assert loop.opcodes["mad"] == 2
