"""OpenCL C as C++: what the translation does to words, and what the header means, run on the CPU device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen import sycl
from codegen.opencl.prelude import prelude_for
from codegen.opencl.source import Parameter, Prototype, Source, split_prototypes
from codegen.runtime import launcher, usm
from codegen.sycl.opencl_to_cxx import declarations, translate
from codegen.toolchain.spirv import entry_points
from codegen.toolchain.sycl import compile_sycl
from tests.conftest import require_device, require_sycl_compiler
from xegpu.ir import dtypes
from xegpu.support.errors import TargetError


@pytest.mark.parametrize(("opencl", "cplusplus"), [
    ("(float8)(a, b)", "make_float8(a, b)"),
    ("x = (uchar16)(0);", "x = make_uchar16(0);"),
    ("(TC##8)(a)", "joined<TC##8>(a)"),
    ("(half)(x) + (float)y", "(half)(x) + (float)y"),
    ("((float8)x)", "((float8)x)"),
    ("(private uint *)a", "(XETILE_PRIVATE uint *)a"),
    ("f(global const half *p, private float8 *q)", "f(XETILE_GLOBAL const half *p, float8 *q)"),
    ("local float *p", "XETILE_LOCAL float *p"),
    ("local int t[4][16];",
     "auto &t = *(XETILE_LOCAL int(*)[4][16])__sycl_allocateLocalMemory(sizeof(int[4][16]), 64);"),
    ("__attribute__((opencl_unroll_hint(1)))", '_Pragma("clang loop unroll(disable)")'),
    ("int new = this + newer;", "int new_cplusplus = this_cplusplus + newer;"),
    ("// global (float8)(a)\nx / 2 /* new */", "// global (float8)(a)\nx / 2 /* new */"),
    ("globals local_id privately", "globals local_id privately"),
])
def test_words_are_translated(opencl: str, cplusplus: str) -> None:
    assert translate(opencl) == cplusplus


@pytest.mark.parametrize(("name", "lanes", "declared"), [
    ("intel_sub_group_bf16_bf16_matrix_mad_k16", 16,
     ["float8 @(short8, int8, float8);", "short2 @(short2, int8, short2);"]),
    ("intel_sub_group_bf16_bf16_matrix_mad_k16", 8, ["float8 @(int8, int8, float8);"]),
    ("intel_sub_group_u8_i8_matrix_mad_k32", 16, ["int4 @(ushort4, int8, int4);"]),
    ("intel_sub_group_i8_u8_matrix_mad_k32", 8, ["int @(int, uint8, int);"]),
    ("intel_sub_group_tf32_tf32_matrix_mad_k8", 16,
     ["float8 @(float4, float8, float8);", "float @(float, float8, float);"]),
    ("intel_sub_group_f16_f16_matrix_mad_k16", 16,
     ['half8 @(short8, int8, half8) __asm__("_Z38@Dv8_sDv8_iDv8_Dh");']),
    ("intel_sub_group_2d_block_read_8b_8r32x1c", 16, ["int2, XETILE_PRIVATE ushort *);"]),
    ("intel_sub_group_2d_block_read_8b_8r16x4c", 16, ["int2, XETILE_PRIVATE uchar *);"]),
    ("intel_sub_group_2d_block_read_transform_16b_32r16x2c", 16, ["int2, XETILE_PRIVATE uint *);"]),
    ("intel_sub_group_2d_block_write_8b_8r16x1c", 16, ["int2, XETILE_PRIVATE uchar *);"]),
    ("intel_sub_group_2d_block_prefetch_16b_8r16x2c", 16, ["int, int, int, int2);"]),
])
def test_builtins_are_declared_with_the_operands_that_they_take(name: str, lanes: int, declared: list[str]) -> None:
    text = declarations({name}, lanes)
    for line in declared:
        assert line.replace("@", name) in text


def test_an_unknown_builtin_is_named() -> None:
    with pytest.raises(TargetError, match="XT9405"):
        declarations({"intel_sub_group_2d_block_read_sideways"}, 16)


def run_both(body: str, *arrays: np.ndarray[Any, Any], lanes: int = 16, subgroups: int = 1,
             before: str = "") -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """Results of a kernel of this body for copies of the arrays a, b ...: of its OpenCL C, and of its SYCL form."""
    queue = require_device()
    require_sycl_compiler()
    types = [dtypes.of(array.dtype) for array in arrays]
    source = kernel_of(f"{body}\n", types, subgroups, lanes, before)
    spirv = compile_sycl(sycl.emit(source))
    results = []
    programs = (prelude_for(source.text) + source.text, "f", "-cl-std=CL3.0"), (spirv, entry_points(spirv)[0], "")
    for program, name, options in programs:
        copies = [array.copy() for array in arrays]
        on_device = usm.copy_in(copies, queue)
        kernel = launcher.find_kernel(launcher.build_program(queue, program, options), name)
        launcher.launch(queue, kernel, on_device, (2,), lanes * subgroups).wait()
        for there, here in zip(on_device, copies, strict=True):
            usm.copy_out(there, here)
        results.append(copies)
    return results[0], results[1]


def kernel_of(body: str, types: list[dtypes.DType], subgroups: int, lanes: int, *declarations: str | Prototype,
              predefined: frozenset[str] = frozenset()) -> Source:
    """A kernel f with arrays a, b ... of these types."""
    parameters = tuple(Parameter(name, dtype.opencl, dtype, pointer=True)
                       for dtype, name in zip(types, "abcd", strict=False))
    return Source("f", parameters, body, "", subgroups, lanes, (0,) * len(types), declarations,
                  predefined=predefined)


def test_prototypes_stand_outside_the_kernels_namespace() -> None:
    """Devices' compilers know builtins by their C++ names."""
    overload = "__attribute__((overloadable)) __spirv_PredicatedLoadINTEL(global const float *, bool, float);"
    prototypes = f"int get_mystery(int, global float *);\nfloat {overload}\nint __builtin_IB_mystery(int);\n"
    before = split_prototypes(f"#define of(f)\n{prototypes}static int own(int, int);\nstatic int two(int);\n")
    assert [each.name for each in before if isinstance(each, Prototype)] == [
        "get_mystery", "__spirv_PredicatedLoadINTEL", "__builtin_IB_mystery"]
    file = sycl.emit(kernel_of("  a[0] = get_mystery(2, a);\n", [dtypes.f32], 1, 8, *before))
    outside = file[:file.index("namespace xetile::f {")]
    assert "\nXETILE_EXTERN int get_mystery(int, XETILE_GLOBAL float *);\n" in outside
    assert '\nextern "C" XETILE_EXTERN int __builtin_IB_mystery(int);\n' in outside
    assert file.count("get_mystery") == 2
    assert file.count("__spirv_PredicatedLoadINTEL") == 1  # the header's
    assert "#define of(f)\nstatic int own(int, int);\nstatic int two(int);\n" in file[len(outside):]


@pytest.mark.parametrize(("lanes", "doubles"), [(16, True), (8, False)])
def test_a_kernel_learns_which_atomics_the_gpu_has(lanes: int, doubles: bool) -> None:
    macros = frozenset(f"__opencl_c_ext_fp{bits}_global_atomic_add" for bits in (32, 64))
    source = kernel_of("", [dtypes.f32], 1, lanes, predefined=macros)
    file = sycl.emit(source)
    assert "#define __opencl_c_ext_fp32_global_atomic_add 1\n" in file
    assert ("#define __opencl_c_ext_fp64_global_atomic_add 1\n" in file) == doubles
    assert "#define __opencl_c" not in sycl.emit(source, "")


BODIES = {
    "literals": "  float8 v = (float8)(a[i], (float2)(b[i], 2), (float4)(a[i] * 2), b[i]);\n"
                "  float4 w = (float4)(v.s1, v.s70, v.s3);\n  a[i] = v.s0 + 2 * v.s6 + w.s1 * 3;\n"
                "  b[i] = w.s2 - v.s2;",
    "comparisons": "  float4 x = (float4)(a[i], b[i], NAN, -0.0f), y = (float4)(b[i], a[i], 1, 0);\n"
                   "  int4 less = x < y;\n  float4 z = select(x, y, less | isnan(x));\n"
                   "  a[i] = z.s0 + z.s2; b[i] = less.s0 + 2 * less.s3 + z.s1 + isnan(a[i]);",
    "unsigned conditions": "  uint4 x = (uint4)(as_uint(a[i]), i, 3, 4), y = (uint4)(as_uint(b[i]), 5, i, 7);\n"
                           "  uint4 z = select(x, y, (uint4)(0x80000000u, 0x7fffffffu, -(i & 1), i << 31));\n"
                           "  ushort2 w = select((ushort2)(1, 2), (ushort2)(3, 4), convert_ushort2((short2)(i, 8) > "
                           "(short2)(9, 2)));\n  z = bitselect(z, x.s3210, 0xff00ffu);\n"
                           "  a[i] = z.s0 / 4 + z.s1 % 1009 + 3 * w.s0;\n"
                           "  b[i] = z.s2 % 511 + z.s3 % 257 + 5 * w.s1 + bitselect(7u, (uint)i, 5u);",
    "conversions": "  int4 n = convert_int4_sat_rtz((float4)(a[i] * 1e9f, -a[i] * 1e9f, b[i] + 0.7f, NAN));\n"
                   "  uchar4 u = convert_uchar4_sat_rtz((float4)(a[i] * 40, b[i], -1, 300));\n"
                   "  a[i] = n.s0 / 64 + n.s1 / 128 + n.s2 + n.s3;\n  b[i] = convert_float(as_uint(u) >> 8);",
    "mathematics": "  a[i] = exp(a[i]) + fma(b[i], a[i], 2.0f) + max(a[i], b[i]) - min(a[i], 0.5f) + tanh(b[i]);\n"
                   "  b[i] = floor(b[i]) + fabs(a[i]) + rsqrt(fabs(b[i]) + 1) + abs((int)b[i]) + erf(b[i]) +"
                   " rint(b[i]);",
    "lanes": "  uint lane = get_sub_group_local_id();\n  float x = a[i];\n"
             "  a[i] = intel_sub_group_shuffle(x, (lane * 3) & 15) + sub_group_broadcast(b[i], 5);\n"
             "  b[i] = intel_sub_group_shuffle_xor(x, 6) + sub_group_reduce_add(lane) + sub_group_reduce_max(x);",
    "blocks": "  ushort2 v = intel_sub_group_block_read_us2((global const ushort *)(a + (i & ~15)));\n"
              "  sub_group_barrier(CLK_GLOBAL_MEM_FENCE);\n"
              "  intel_sub_group_block_write_us2((global ushort *)(b + (i & ~15)), v.s10);",
    "local memory": "  local float t[64] __attribute__((aligned(64)));\n  local ushort words[128];\n"
                    "  int r = get_local_id(0) / 16, c = get_local_id(0) % 16;\n"
                    "  t[r * 16 + c] = a[i];\n  vstore2((ushort2)(c, r), i & 63, words);\n"
                    "  barrier(CLK_LOCAL_MEM_FENCE);\n  a[i] = t[(3 - r) * 16 + ((c + 5) & 15)];\n"
                    "  b[i] = get_num_groups(0) + 10 * get_sub_group_id() + 100 * get_local_size(0) + "
                    "vload2((i + 17) & 63, words).s0;",
    "split barrier": "  local float t[64];\n  t[i & 63] = a[i];\n"
                     "  intel_work_group_barrier_arrive(CLK_LOCAL_MEM_FENCE);\n  b[i] = i;\n"
                     "  intel_work_group_barrier_wait(CLK_LOCAL_MEM_FENCE);\n  a[i] = t[(i + 17) & 63];\n",
    "atomics": "  volatile global int *at = (volatile global int *)b;\n"
               "  atomic_fetch_add_explicit((volatile global atomic_int *)at, (int)a[i], memory_order_relaxed, "
               "memory_scope_device);\n"
               "  atomic_fetch_max_explicit((volatile global atomic_uint *)(at + 1), (uint)i, memory_order_relaxed, "
               "memory_scope_device);\n"
               "  uint seen, found = as_uint(b[2]);\n  do {\n    seen = found;\n"
               "    found = atomic_cmpxchg((volatile global uint *)(b + 2), seen, as_uint(as_float(seen) + 1));\n"
               "  } while (found != seen);",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_the_header_means_what_opencl_means(body: str) -> None:
    rng = np.random.default_rng(5)
    arrays = [rng.integers(-40, 41, 128).astype(np.float32) / 8 for _ in range(2)]
    index = "  int i = get_group_id(0) * get_local_size(0) + get_local_id(0);\n"
    by_opencl, by_sycl = run_both(index + body, *arrays, subgroups=4)
    for one, other in zip(by_opencl, by_sycl, strict=True):
        np.testing.assert_array_equal(one, other)
    assert any(not np.array_equal(one, before) for one, before in zip(by_opencl, arrays, strict=True))


def test_a_function_beside_the_kernel_writes_through_pointers() -> None:
    before = "static void both(global const short *at, private short4 *x, private short2 *y)\n{\n" \
             "  *x = (short4)(at[0], at[1], at[2], at[3]);\n  *y = (short2)(at[4], -at[5]);\n}\n"
    body = "  short4 x;\n  short2 y;\n  both(a, &x, &y);\n  const short kept[2] = { x.s3 * y.s1, x.s0 };\n" \
           "  if (get_global_id(0) == 3) { a[6] = kept[0]; a[7] = kept[1] + y.s0; }"
    by_opencl, by_sycl = run_both(body, np.arange(3, 11, dtype=np.int16), before=before)
    np.testing.assert_array_equal(by_opencl[0], by_sycl[0])
    assert list(by_sycl[0][6:]) == [-48, 10]

