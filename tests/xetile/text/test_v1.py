"""XeGPU-older.md: its examples, its own rules, its programs everywhere, and both ways to the present generation."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution
from tests.text_examples import Example

MAP_A = "  #sg_map_a = xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 2]>\n"
MAP_B = "  #sg_map_b = xegpu.sg_map<wi_layout = [1, 16], wi_data = [2, 1]>\n"
MAP_C = "  #sg_map_c = xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>\n"
OF_A, OF_B = "sg = #xegpu.sg_map<wi_layout = [2, 8], wi_data = [1, 2]>", "sg = #xegpu.sg_map<wi_layout = [1, 16], " \
    "wi_data = [2, 1]>"
OF_C = "sg = #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>"
ADDRESS = "%mem_addr: uint64"
WIDE = f"tensor_desc<8x24xbf16, {OF_C}>"
BF16, F32 = "tensor_desc<8x16xbf16>", "tensor_desc<8x16xf32>"
SCATTERED = "tensor_desc<16xui8, #scattered>"
RULES = {
    "vc must be declared": (Example("%v = XeGPU.load_nd %d : tensor_desc<8x16xbf16> into vector<8x16xbf16>\n"
                                    "XeGPU.mfence {memory_kind = ugm, fence_op = none, fence_scope = local}",
                                    f"%d: {BF16}"), "XT3403"),
    "vc without an sg_map": (Example(f"XeGPU.prefetch_nd %d {{mode = vc}} : tensor_desc<8x16xbf16, {OF_A}>",
                                     f"%d: tensor_desc<8x16xbf16, {OF_A}>"), "XT3402"),
    "there is no other mode": (Example("XeGPU.prefetch_nd %d {mode = simd} : tensor_desc<8x16xbf16>", f"%d: {BF16}"),
                               "XT3401"),
    "single elements are of vc": (Example("XeGPU.prefetch %d : tensor_desc<16xui8, #scattered>\n"
                                          "XeGPU.mfence {memory_kind = ugm, fence_op = none, fence_scope = local}",
                                          f"%d: {SCATTERED}"), "XT3404"),
    "transpose_bit_width is of vc": (
        Example("%v = XeGPU.load_nd %d {transpose = [1, 0], transpose_bit_width = 32} : tensor_desc<16x16xbf16, "
                "sg = #xegpu.sg_map<wi_layout = [16, 1]>> into vector<8x2xbf16>",
                "%d: tensor_desc<16x16xbf16, sg = #xegpu.sg_map<wi_layout = [16, 1]>>"), "XT3405"),
    "vnni_axis and transpose": (Example("%v = XeGPU.load_nd %d {vnni_axis = 0, transpose = [1, 0], mode = vc} : "
                                        "tensor_desc<16x16xbf16> into vector<8x16x2xbf16>",
                                        "%d: tensor_desc<16x16xbf16>"), "XT3407"),
    "vnni_axis is 0 or 1": (Example("%v = XeGPU.load_nd %d {vnni_axis = 2, mode = vc} : tensor_desc<16x16xbf16> into "
                                    "vector<8x16x2xbf16>", "%d: tensor_desc<16x16xbf16>"), "XT3406"),
    "vnni_axis of 32 bits": (Example("%v = XeGPU.load_nd %d {vnni_axis = 0, mode = vc} : tensor_desc<8x16xf32> into "
                                     "vector<8x16xf32>", f"%d: {F32}"), "XT3408"),
    "wi_data along vnni_axis": (Example(f"%v = XeGPU.load_nd %d {{vnni_axis = 0}} : tensor_desc<16x16xbf16, {OF_C}> "
                                        "into vector<16x1xbf16>", f"%d: tensor_desc<16x16xbf16, {OF_C}>"),
                                "XT3409"),
    "B of dpas in VNNI form": (Example("%c = XeGPU.dpas %a, %b {mode = vc} : vector<8x8x2xbf16>, vector<16x16xbf16> "
                                       "into vector<8x16xf32>", "%a: vector<8x8x2xbf16>, %b: vector<16x16xbf16>"),
                               "XT3410"),
    "A of dpas in words": (Example("%c = XeGPU.dpas %a, %b {mode = vc} : vector<8x16xbf16>, vector<8x16x2xbf16> "
                                   "into vector<8x16xf32>", "%a: vector<8x16xbf16>, %b: vector<8x16x2xbf16>"),
                           "XT3410"),
    "the result of dpas": (Example("%c = XeGPU.dpas %a, %b {mode = vc} : vector<8x8x2xbf16>, vector<8x16x2xbf16> "
                                   "into vector<4x16x2xf32>", "%a: vector<8x8x2xbf16>, %b: vector<8x16x2xbf16>"),
                           "XT3202"),
    "a line has no bounds": (Example("%d = XeGPU.create_nd_tdesc %mem_addr, %i {mode = vc} : uint64, index into "
                                     "tensor_desc<16xbf16, boundary_check = true>", ADDRESS),
                             "XT3006"),
    "the map of a line": (Example("%d = XeGPU.create_nd_tdesc %mem_addr, %i : uint64, index into "
                                  "tensor_desc<32xbf16, boundary_check = false, sg = #xegpu.sg_map<wi_layout = [2, 8], "
                                  "wi_data = [1, 1]>>", ADDRESS), "XT3008"),
    "blocks divide into units": (Example(f"%d = XeGPU.create_nd_tdesc %mem_addr, %i, %j, %i, %j, %i, %j : uint64, "
                                         f"index, index, index, index, index, index into {WIDE}",
                                         ADDRESS), "XT3503"),
    "fence_scope": (Example("XeGPU.mfence {memory_kind = ugm, fence_op = none, fence_scope = gpu}"), "XT3413"),
    "fence_op": (Example("XeGPU.mfence {memory_kind = ugm, fence_op = evict, fence_scope = tile}"), "XT3413"),
    "memory_kind": (Example("XeGPU.mfence {memory_kind = global, fence_op = none, fence_scope = tile}"), "XT3413"),
    "slm is of one XeCore": (Example("XeGPU.mfence {memory_kind = slm, fence_op = none, fence_scope = tile}"),
                             "XT3352"),
    "hint": (Example("XeGPU.compile_hint {hint = unroll}\n"
                     "XeGPU.mfence {memory_kind = ugm, fence_op = none, fence_scope = local}"),
             "XT3283"),
    "chunk of the descriptor": (Example("%d = XeGPU.create_tdesc %mem_addr, %o {chunk_size_per_lane = 4, mode = vc} : "
                                        "uint64, vector<16xindex> into tensor_desc<16x8xui16, #scattered>",
                                        f"{ADDRESS}, %o: vector<16xindex>"), "XT3411"),
    "a chunk is transposed": (Example("%v = XeGPU.load_gather %d, %m {mode = vc} : tensor_desc<16x8xui16, #scattered>, "
                                      "vector<16xi1> into vector<8x16xui16>",
                                      "%d: tensor_desc<16x8xui16, #scattered>, %m: vector<16xi1>"),
                              "XT3310"),
    "fragments without a map": (Example("%c = XeGPU.dpas %a, %b : vector<4x2xbf16>, vector<8x2xbf16> into "
                                        "vector<8x1xf32>\n"
                                        "XeGPU.mfence {memory_kind = ugm, fence_op = none, fence_scope = local}",
                                        "%a: vector<4x2xbf16>, %b: vector<8x2xbf16>"),
                                "XT3514"),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: str) -> None:
    example, code = RULES[rule]
    with pytest.raises(xt.XeError) as caught:
        xt.parse(example.text())
    assert caught.value.code == code
    assert caught.value.location is not None
    assert caught.value.location.line == 2


def gemm(mode: str, a: str, b: str, c: str, of_a: str, of_b: str, of_c: str) -> str:
    """The product of the document's operations, with the fragments and maps of a mode."""
    only, more = f"{{{mode}}}" if mode else "", f", {mode}" if mode else ""
    da, db = f"tensor_desc<8x16xbf16{of_a}>", f"tensor_desc<16x16xbf16{of_b}>"
    dc = f"tensor_desc<8x16xfp32{of_c}>"
    return f"""
{MAP_A}{MAP_B}{MAP_C}
func.func @gemm(%A: memref<24x48xbf16>, %mem_addr: uint64, %C: memref<24x80xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %c48 = arith.constant 48 : index
  %c64 = arith.constant 64 : index
  %x = gpu.block_id x
  %y = gpu.block_id y
  %m = arith.muli %x, %c8 : index
  %n = arith.muli %y, %c16 : index
  %tdesc_c = XeGPU.create_nd_tdesc %C, %m, %n {only} : memref<24x80xf32>, index, index into {dc}
  %start = XeGPU.load_nd %tdesc_c {only} : {dc} into vector<{c}xfloat>
  %tdesc_a = XeGPU.create_nd_tdesc %A, %m, %c0 {only} : memref<24x48xbf16>, index, index into {da}
  %tdesc_b = XeGPU.create_nd_tdesc %mem_addr, %c0, %n, %c48, %c64, %c64, %c1 {only}
\t\t: uint64, index, index, index, index, index, index
     \tinto {db}
  %r:3 = scf.for %k = %c0 to %c48 step %c16 iter_args(%ta = %tdesc_a, %tb = %tdesc_b, %sum = %start)
      -> ({da}, {db}, vector<{c}xf32>) {{
    XeGPU.prefetch_nd %ta {only} : {da}
    %vector_a = XeGPU.load_nd %ta {{vnni_axis = 1{more}}} : {da} into vector<{a}xbf16>
    %vector_b = XeGPU.load_nd %tb {{vnni_axis = 0{more}}} : {db} into vector<{b}xbf16>
    XeGPU.compile_hint {{hint=schedule_barrier}}
    %vector_c = XeGPU.dpas %vector_a, %vector_b, %sum {only} : vector<{a}xbf16>, vector<{b}xbf16>
\t   into vector<{c}xfloat>
    %na = XeGpu.update_nd_offset %ta, %c0, %c16 {only} : {da}, index, index into {da}
    %nb = XeGpu.update_nd_offset %tb, %c16, %c0 {only} : {db}, index, index into {db}
    scf.yield %na, %nb, %vector_c : {da}, {db}, vector<{c}xf32>
  }}
  XeGPU.mfence {{memory_kind = "ugm", fence_op = "none", fence_scope = "tile"}}
  XeGPU.store_nd %r#2, %tdesc_c {only} : vector<{c}xfp32>, {dc}
  func.return
}}
"""


GEMMS = {"vc": gemm("mode = vc", "8x8x2", "8x16x2", "8x16", "", "", ""),
         "SIMT": gemm("", "4x2", "8x2", "8x1", ", #sg_map_a", ", #sg_map_b", ", #sg_map_c")}
SIXTEEN = [execution for execution in EXECUTIONS if execution.target != "dg2"]


def operands() -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((24, 48), (48, 64)))
    c = rng.integers(-4, 5, (24, 80)).astype(np.float32)
    expected = c.copy()
    expected[:, :64] += a.astype(np.float32) @ b.astype(np.float32)
    return a, b, c, expected


@pytest.mark.parametrize("execution", SIXTEEN, ids=str)
@pytest.mark.parametrize("mode", GEMMS)
def test_gemm(mode: str, execution: Execution) -> None:
    from tests.xetile.text.test_xegpu_kernels import memory

    a, b, c, expected = operands()
    kept, address = memory(b)
    where = kept.sycl_queue if execution.where.startswith("opencl") else execution.where
    xt.parse(GEMMS[mode])["gemm"].on(where, target=execution.target)[3, 4](a, address, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("execution", SIXTEEN, ids=str)
@pytest.mark.parametrize("rows", [0, 48])
def test_sums_that_begin_as_a_constant(rows: int, execution: Execution) -> None:
    """A constant is a fragment of whatever map the loop, or the other branch of a condition, gives it."""
    from tests.xetile.text.test_xegpu_kernels import memory

    constant = re.sub(r"%start = .*", "%start = arith.constant dense<2.0> : vector<8x1xf32>", GEMMS["SIMT"])
    text = constant.replace("  XeGPU.mfence", """\
  %any = arith.cmpi sgt, %rows, %c0 : index
  %sum = scf.if %any -> (vector<8x1xf32>) {
    scf.yield %r#2 : vector<8x1xf32>
  } else {
    scf.yield %start : vector<8x1xf32>
  }
  XeGPU.mfence""").replace("%r#2, %tdesc_c", "%sum, %tdesc_c").replace("%C: ", "%rows: index, %C: ")
    a, b, c, _ = operands()
    expected = c.copy()
    expected[:, :64] = (a.astype(np.float32) @ b.astype(np.float32) if rows else 0) + 2
    kept, address = memory(b)
    where = kept.sycl_queue if execution.where.startswith("opencl") else execution.where
    xt.parse(text)["gemm"].on(where, target=execution.target)[3, 4](a, address, rows, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("mode", GEMMS)
def test_gemm_is_machine_code(mode: str, target: str) -> None:
    require_ocloc()
    a, _, c, _ = operands()
    lowered = xt.parse(GEMMS[mode])["gemm"].lower(a, np.uint64(64), c, target=target)
    report = lowered.report()
    assert report.mix.whole.categories["dpas"] >= 1
    assert report.mix.whole.categories["load_block2d"] >= 2
    assert report.mix.whole.categories["store_block2d"] == 1
    assert (report.spill_size, report.private_size) == (0, 0)


@pytest.mark.parametrize("mode", GEMMS)
def test_round_trip(mode: str) -> None:
    """The earlier generation, converted to the present one and back, is the same; so is what is read of it again."""
    a, _, c, _ = operands()
    module = xt.parse(GEMMS[mode])
    back = module["gemm"].lower(a, np.uint64(64), c, target="pvc").xegpu_older
    assert _words(back) == _words(str(module))
    assert xt.parse(back)["gemm"].lower(a, np.uint64(64), c, target="pvc").xegpu_older == back


def _words(text: str) -> list[str]:
    """The operations of a text with their attributes and types, without names of values and constants."""
    lines = [re.sub(r"%[\w#:]+", "%", line.strip()) for line in text.splitlines() if "arith.constant" not in line]
    return [re.sub(r"\{.*?\}", lambda found: str(sorted(found[0].strip("{}").split(", "))), line)
            for line in lines if not line.startswith(("func.func", "builtin.module"))]


def test_a_kernel_in_python_prints_in_the_earlier_generation() -> None:
    @xt.kernel
    def product(A, B, C):
        a, b = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32))), xt.load_tile(xt.init_tile(B, (0, 0), (32, 32)))
        xt.store_tile(xt.tile_mma(a, b), xt.init_tile(C, (0, 0), (16, 32)))

    rng = np.random.default_rng(4)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((16, 32), (32, 32)))
    c = np.zeros((16, 32), np.float32)
    text = product.lower(a, b, c, target="pvc").xegpu_older
    assert "mode = vc, vnni_axis = 0" in text
    xt.parse(text)["product"].on("numpy:xegpu")[1,](a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@xt.kernel
def separate(A, B, C):
    """Nothing keeps the compiler from loading B before it computes with A."""
    a = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
    root = xt.sqrt(a) * xt.exp2(a)
    b = xt.load_tile(xt.init_tile(B, (0, 0), (8, 16)))
    xt.store_tile(root * b, xt.init_tile(C, (0, 0), (8, 16)))


def test_the_schedule_barrier_keeps_a_load_behind_it() -> None:
    require_ocloc()
    spec = xt.Spec((8, 16), xt.f32)
    text = separate.lower(spec, spec, spec, target="pvc").stages["to-xegpu"]
    hint = '    xegpu.compile_hint {hint = "schedule_barrier"}\n'
    second = [line for line in text.splitlines(True) if "xegpu.load_nd" in line][1]
    hinted = text.replace(second, hint + second)
    assert _math_before_last_load(text) < _math_before_last_load(hinted)


def _math_before_last_load(text: str) -> int:
    """Instructions of the extended math unit in front of the last load."""
    spec = xt.Spec((8, 16), xt.f32)
    asm = str(xt.parse(text)["separate"].lower(spec, spec, spec, target="pvc").isa()).splitlines()
    loads = [i for i, line in enumerate(asm) if re.search(r"\bload_block2d|\bload\.ugm", line)]
    return sum("math." in line for line in asm[:max(loads)])


OFFSETS_IN_BRACKETS = """
func.func @kernel(%A: memref<64x64xf32>) {
  %0 = arith.constant 8 : index
  %t = xegpu.create_nd_tdesc %A[%0, %0] {mode = vc} : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
  %v = xegpu.load_nd %t {mode = vc} : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  %w = arith.addf %v, %v : vector<8x16xf32>
  xegpu.store_nd %w, %t {mode = vc} : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  return
}
"""


def test_offsets_in_brackets_are_of_this_generation_where_there_is_a_mode() -> None:
    """mlir-extensions wrote them so; LLVM's form has no mode."""
    a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    expected = a.copy()
    expected[8:16, 8:24] *= 2
    xt.parse(OFFSETS_IN_BRACKETS)["kernel"].on("numpy:xegpu", target="pvc")[1,](a)
    np.testing.assert_array_equal(a, expected)
