"""Kernels as SYCL C++: compiled by the SYCL runtime's compiler, run from that SPIR-V, and built by ocloc."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.opencl.arith.text import TEXT
from codegen.opencl.kernel import LARGE_BUFFERS, LARGE_BUFFERS_LEVEL_ZERO
from codegen.perf.isa import read_mix
from codegen.toolchain import sycl, sycl_jit
from codegen.toolchain.ocloc import compile_device, disassemble
from codegen.toolchain.spirv import entry_points, imports, is_spirv
from codegen.toolchain.sycl import compile_sycl
from tests.codegen.opencl.test_emitter import arithmetic, conversions, half_product, rounded_product
from tests.codegen.opencl.test_emitter import integers as integer_operators
from tests.conftest import ROOT, require_device, require_ocloc, require_sycl_compiler, unavailable
from tests.kernels import (
    DEVICE,
    TYPES,
    Bordered,
    Execution,
    Types,
    chosen,
    gemm,
    gemm_shared,
    integers,
    operands,
    product,
    run_gemm,
)
from xegpu.ir import dtypes
from xetile.compiler.compiled import CompiledKernel

WHOLE = "-UXETILE_KERNEL_ONLY"
"""Compiles SYCL's headers and the host part too."""


@pytest.fixture
def by_sycl(monkeypatch: pytest.MonkeyPatch) -> None:
    """All devices get SPIR-V from the SYCL runtime's compiler."""
    require_sycl_compiler()
    monkeypatch.setenv("XETILE_SPIRV", "sycl")


def matrix(dtype: str, shape: tuple[Any, Any] = (None, None)) -> xt.Spec:
    return xt.Spec(shape, dtype)


def lowered_gemm(types: Types, target: str, **constants: Any) -> CompiledKernel:
    return gemm.lower(*(matrix(str(dtype)) for dtype in (types.a, types.b, types.acc)), target=target, acc=types.acc,
                      **constants)


# Run on the CPU device


@xt.kernel
def exchanged(A, B, C, n):
    """Two tiles that change places in each step."""
    one, other = xt.init_tile(A, (0, 0), (8, 16)), xt.init_tile(B, (0, 0), (8, 16))
    for _ in xt.range(n):
        one, other = other, xt.update_tile_offset(one, 8, 0)
    xt.store_tile(xt.load_tile(one) - xt.load_tile(other) * 2, xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("target", ["pvc", "cpu"])
def test_tiles_change_places(target: str, by_sycl: None) -> None:
    a, b = (integers(np.random.default_rng(seed), xt.f32, 32, 16) for seed in (1, 2))
    for n, (one, other) in enumerate([(a[:8], b[:8]), (b[:8], a[8:16]), (a[8:16], b[8:16]), (b[8:16], a[16:24])]):
        c = np.full((8, 16), 77, np.float32)
        Execution("opencl:cpu", target).bind(exchanged)[1](a, b, c, n)
        np.testing.assert_array_equal(c, one - other * 2)


BLOCKS, RAGGED = (48, 64, 96), (37, 45, 71)
PRODUCTS = [(name, target, BLOCKS if target == "pvc" else RAGGED) for name, targets in {
    "bf16-bf16-f32": "pvc dg2 cpu", "f16-f16-f16": "pvc cpu", "tf32-tf32-f32": "pvc", "f32-f32-f32": "pvc dg2 cpu",
    "i8-u8-i32": "pvc dg2"}.items() for target in targets.split()]


@pytest.mark.everything
@pytest.mark.parametrize(("name", "target", "shape"), [*PRODUCTS, ("u8-i8-i32", "pvc", RAGGED)])
def test_products_are_exact(name: str, target: str, shape: tuple[int, int, int], by_sycl: None) -> None:
    types, execution = next(types for types in TYPES if str(types) == name), Execution("opencl:cpu", target)
    m, n, k = shape
    a, b = operands(np.random.default_rng(1), types, m, n, k)
    c = Bordered(types.acc, (m, n))
    run_gemm(execution, types, a, b, c.array, bm=32, bn=32)
    c.check(product(a, b, types.acc))


@pytest.mark.parametrize("execution", DEVICE, ids=str)
def test_a_work_group_with_an_epilogue_and_padding(execution: Execution, by_sycl: None) -> None:
    @xt.kernel
    def fused(A, B, R, C, *, sg=(2, 2)):
        m, n = xt.group_id(0) * 32, xt.group_id(1) * 32
        maps = [xt.wg_map(sg, data) for data in ((16, 32), (32, 16), (16, 16))]
        acc = xt.zeros((32, 32), xt.f32, wg_map=maps[2])
        a = xt.init_tile(A, (m, 0), (32, 32), wg_map=maps[0])
        b = xt.init_tile(B, (0, n), (32, 32), wg_map=maps[1])
        for _ in xt.range(0, A.shape[1], 32):
            acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
            a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
        rest = xt.load_tile(xt.init_tile(R, (m - 3, n), (32, 32), wg_map=maps[2]), padding=0.5)
        value = xt.maximum(acc * 0.5 + rest.to(xt.f32), 0.0)
        xt.store_tile(value.to(xt.bf16), xt.init_tile(C, (m, n), (32, 32), wg_map=maps[2]))

    rng = np.random.default_rng(2)
    a, b = (integers(rng, "bf16", *shape, most=2) for shape in ((64, 96), (96, 32)))
    rest = integers(rng, "f16", 64, 32, most=9)
    c = np.zeros((64, 32), dtypes.bf16.numpy)
    execution.bind(fused)[2, 1](a, b, rest, c)
    padded = np.full((64, 32), 0.5)
    padded[3:] = rest[:61]
    expected = np.maximum(a.astype(float) @ b.astype(float) * 0.5 + padded, 0).astype(np.float32).astype(c.dtype)
    np.testing.assert_array_equal(c.astype(float), expected.astype(float))


@pytest.mark.parametrize("execution", DEVICE, ids=str)
def test_functions_and_comparisons_agree_to_the_bit_with_opencl(execution: Execution,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN, infinities and saturated conversions included: the compiler takes no liberties with numbers."""
    @xt.kernel
    def several(A, B, C, D):
        a, b = (xt.load_tile(xt.init_tile(array, (0, 0), (8, 16))) for array in (A, B))
        c = xt.exp(a) * b + xt.maximum(a, b) - xt.minimum(a, 2.0) + xt.tanh(a) / xt.sqrt(b)
        xt.store_tile(c, xt.init_tile(C, (0, 0), (8, 16)))
        xt.store_tile((a * 3.0).to(xt.i8), xt.init_tile(D, (0, 0), (8, 16)))

    require_sycl_compiler()
    rng = np.random.default_rng(3)
    a, b = (rng.normal(size=(8, 16)).astype(np.float32) * scale for scale in (100, 5))
    a[0, :3], b[1, :3] = (np.nan, np.inf, -np.inf), (np.nan, np.inf, 0)
    results = []
    for compiler in ("", "sycl"):
        monkeypatch.setenv("XETILE_SPIRV", compiler)
        c, d = np.zeros_like(a), np.zeros(a.shape, np.int8)
        execution.bind(several)[1](a, b, c, d)
        results.append((c, d))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert np.isnan(results[1][0]).sum() > 2
    assert set(results[1][1].ravel()) >= {-128, 127}


ROTATIONS = """import sys

import numpy as np

import xetile as xt


@xt.kernel
def shifted(A, O):
    values = xt.load_tile(xt.init_tile(A, (0, 0), (4, 16)))
    xt.store_tile(xt.shift(values, 1, 1), xt.init_tile(O, (0, 0), (4, 16)))


@xt.kernel
def scanned(A, O):
    source = xt.init_tile(A, (1, 1), (4, 32))
    xt.store_tile(xt.cummax(xt.load_tile(source), 1) * 5 | xt.load_tile(source),
                  xt.init_tile(O, (0, 0), (4, 32), order=(0, 1)))


@xt.kernel
def moved(A, O):
    xt.store_tile(xt.shift(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), 3, 1), xt.init_tile(O, (0, 0), (8, 16)))


pairs = np.random.default_rng(3).integers(0, 2**16, (9, 128)).astype(np.uint16)[:, ::2]
result = np.zeros((4, 16), np.uint16)
shifted.on("opencl:cpu", target="pvc")[1](pairs, result)
np.testing.assert_array_equal(result, np.pad(pairs[:4, :15], ((0, 0), (1, 0))))

result = np.zeros((4, 32), np.uint16, order="F")
scanned.on("opencl:cpu", target="pvc")[1](pairs, result)
part = pairs[1:5, 1:33]
np.testing.assert_array_equal(result, np.maximum.accumulate(part, 1) * np.uint16(5) | part)

words = np.random.default_rng(4).integers(0, 2**32, (8, 16)).astype(np.uint32)
words[:, :8] = words[:, :8] & 0x807fffff | (0x7f800000, 0, 0x7f800000, 0x80000000) * 2  # NaN, subnormal numbers
result = np.zeros((8, 16), np.uint32)
moved.on("opencl:cpu", target="pvc")[1](words, result)
np.testing.assert_array_equal(result, np.pad(words[:, :13], ((0, 0), (3, 0))))
"""
"""Words that lanes take from others: strided rows of 16 bits, and integers that are NaN as floats."""


def test_rotations_of_words_by_constants(by_sycl: None, tmp_path: Path) -> None:
    """The CPU's compiler kills its process over them where they are rotated as integers."""
    require_device("opencl:cpu")
    program = tmp_path / "rotations.py"
    program.write_text(ROTATIONS)
    done = subprocess.run([sys.executable, str(program)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.everything
def test_names_that_mean_something_in_cplusplus(by_sycl: None) -> None:
    @xt.kernel
    def namespace(new, queue, grid):
        this = xt.load_tile(xt.init_tile(new, (0, 0), (8, 16)))
        template = this + xt.load_tile(xt.init_tile(queue, (0, 0), (8, 16)))
        xt.store_tile(template, xt.init_tile(grid, (0, 0), (8, 16)))

    a = np.arange(128, dtype=np.float32).reshape(8, 16)
    c = np.zeros_like(a)
    Execution("opencl:cpu", "pvc").bind(namespace)[1](a, a * 3, c)
    np.testing.assert_array_equal(c, a * 4)
    text = namespace.lower(a, a, c).sycl
    assert "launch(sycl::queue &queue_, sycl::range<3> grid_, const float *new1, " in text
    assert is_spirv(compile_sycl(text, WHOLE))


# Machine code

# f64 is read row by row, and the compilers' address arithmetic for that differs.
MACHINE = chosen([types for types in TYPES if types.a is not dtypes.f64], ("pvc", "bmg", "dg2"),
                 lambda types, target: types.on(Execution("opencl:cpu", target)))


@pytest.mark.parametrize(("types", "target"), MACHINE, ids=str)
def test_machine_code_is_that_of_opencl_c(types: Types, target: str) -> None:
    require_ocloc()
    require_sycl_compiler()
    small = target == "dg2" or types.a.bits == 32
    tile = {"BM": 16, "BN": 16, "BK": 32} if small else {"BM": 32, "BN": 64, "BK": 32}
    low = lowered_gemm(types, target, **tile)
    binary = compile_device(low.spirv("sycl"), target, low.emitted.options, spirv=True)
    (kernel,), (other,) = disassemble(binary).kernels.values(), low.isa().kernels.values()
    assert (kernel.spill_size, kernel.private_size) == (0, 0)
    assert (kernel.simd_size, kernel.grf_count) == (other.simd_size, other.grf_count)
    mixes = [read_mix(facts.asm).whole for facts in (kernel, other)]
    for category in ("dpas", "load_block2d", "store_block2d", "scratch"):
        assert mixes[0].categories[category] == mixes[1].categories[category], category
    assert ("dpas" in mixes[0].categories) == (types.a is not dtypes.f32)
    assert ("load_block2d" in mixes[0].categories) == (target != "dg2")
    if target == "dg2":
        return
    loops = [read_mix(facts.asm).loop for facts in (kernel, other)]
    assert abs(loops[0].total - loops[1].total) <= loops[1].total // 50
    # between the two loops of an unrolled product, halves of registers may be packed and unpacked
    between = 128 if target == "bmg" and types.acc is dtypes.f16 else 0
    assert abs(mixes[0].total - mixes[1].total) <= mixes[1].total // 50 + between


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
@pytest.mark.parametrize(("kernel", "types"), [
    (conversions, "f32 f16 bf16 tf32 i8 u8"), (arithmetic, "f32 f16 bf16 tf32"), (integer_operators, "i32 i8 u8"),
    (half_product, "f16 f16 f16"), (rounded_product, "f32 f32 f32")], ids=lambda value: getattr(value, "name", ""))
def test_every_kind_of_text_compiles(kernel: Any, types: str, target: str) -> None:
    require_ocloc()
    require_sycl_compiler()
    if target == "dg2" and kernel in (half_product, rounded_product):
        return
    low = kernel.lower(*(matrix(dtype, (64, 128)) for dtype in types.split()), target=target)
    binary = compile_device(low.spirv("sycl"), target, low.emitted.options, spirv=True)
    (facts,) = disassemble(binary).kernels.values()
    assert (facts.spill_size, facts.private_size) == (0, 0)
    assert facts.simd_size == low.emitted.lanes


# The file


def work_group_gemm() -> CompiledKernel:
    """A product that needs large registers and several subgroups."""
    return gemm_shared.lower(matrix("bf16"), matrix("bf16"), matrix("f32"), target="pvc", BM=128, BN=256, BK=32,
                             sg=(4, 4), data_a=(32, 32), data_b=(32, 64), data_c=(32, 64))


@pytest.mark.everything
def test_the_whole_file_compiles_and_its_kernel_is_the_one_that_runs() -> None:
    """The compiler looks at the host part as well: SYCL's headers, the launch, its types."""
    require_sycl_compiler()
    low = work_group_gemm()
    assert compile_sycl(low.sycl, WHOLE) == low.spirv("sycl")
    wrong = low.sycl.replace(".get_device()", ".get_devices()")
    assert wrong != low.sycl
    with pytest.raises(xt.ToolError, match="get_devices"):
        compile_sycl(wrong, WHOLE)


@pytest.mark.everything
def test_the_host_part_compiles_for_a_host(tmp_path: Path) -> None:
    """By g++, which stands in for icpx's host compiler; what icpx tells it of the kernel is added."""
    compiler, headers = shutil.which("g++"), Path(sys.prefix) / "include"
    if compiler is None or not (headers / "sycl" / "sycl.hpp").exists():
        unavailable("needs g++ and SYCL's headers")
    known = "}\nnamespace sycl { inline namespace _V1 { namespace ext::oneapi::experimental {\n" \
            "template <> struct is_kernel<&xetile::gemm_shared::gemm_shared> {\n" \
            "static constexpr bool value = true; };\n} } }\nnamespace xetile::gemm_shared {\nsycl::event launch("
    file = tmp_path / "gemm.cpp"
    file.write_text(re.sub(r"(?m)^sycl::event launch\(", known, work_group_gemm().sycl))
    done = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", "-w", f"-I{headers}", str(file)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_the_file_says() -> None:
    low = work_group_gemm()
    text = low.sycl
    pointers = r"const sycl::ext::oneapi::bfloat16 \*A, int A_size0, .*, float \*C, int C_size0, .*int C_stride1\)"
    assert re.search(rf"(?m)^sycl::event launch\(sycl::queue &queue, sycl::range<3> grid, {pointers}$", text)
    for part in ("icpx -fsycl", "sub_group_size<16>", "work_group_size<1, 1, 256>", "grf_size<256>",
                 "sycl::nd_range<3>(grid * groups, groups)", "groups(1, 1, 256)", "// kernels.py:"):
        assert part in text
    assert "= make_float8(0.0f);" in text
    assert "= (float8)(" not in text
    assert "kernel void gemm_shared(global ushort *A" in low.opencl


@pytest.mark.parametrize("kind", ["add", "xor"])
def test_sums_of_integer_vectors_need_no_intrinsic(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM makes ``llvm.vector.reduce`` of two bytes in shared local memory, which SPIR-V has not."""
    require_sycl_compiler()
    reduced = work_group_reduction(kind)
    spec = xt.Spec((None, None), "u8")
    names = imports(reduced.lower(spec, spec, target="pvc").spirv("sycl"))
    assert not [name for name in names if name.startswith("llvm.")]
    require_device()
    monkeypatch.setenv("XETILE_SPIRV", "sycl")
    x, y = np.random.default_rng(0).integers(0, 256, (16, 32), np.uint8), np.zeros((1, 32), np.uint8)
    reduced.on("opencl:cpu", target="pvc")[1](x, y)
    assert np.array_equal(y[0], {"add": np.add, "xor": np.bitwise_xor}[kind].reduce(x, 0, np.uint8))


def work_group_reduction(kind: str) -> Any:
    @xt.kernel
    def reduced(X, Y):
        x = xt.load_tile(xt.init_tile(X, (0, 0), (16, 32), wg_map=xt.wg_map((2, 2), (8, 16))))
        y = xt.tile_reduce(kind, x, 0)
        xt.store_tile(y, xt.init_tile(Y, (0, 0), (1, 32), wg_map=y.wg_map))

    return reduced


def test_the_file_says_which_option_large_and_reversed_arrays_take() -> None:
    @xt.kernel
    def copied(X, Y):
        xt.store_tile(xt.load_tile(xt.init_tile(X, (0, 0), (8, 16))), xt.init_tile(Y, (0, 0), (8, 16)))

    unknown, x = xt.Spec((None, None), "f32"), np.zeros((8, 16), np.float32)
    for target, arrays, says in (
            ("dg2", (unknown, unknown), "add"), ("arl", (x, x), "add"), ("pvc", (unknown, x), None),
            ("dg2", (x[::-1], x), "build it with"), ("dg2", (xt.Spec((1 << 17, 1 << 14), "f32"), x), "build it with"),
            ("pvc", (x[::-1], x), None)):
        head = copied.lower(*arrays, target=target).sycl.partition("#ifndef")[0]
        for option in (LARGE_BUFFERS, LARGE_BUFFERS_LEVEL_ZERO):
            assert (f'-Xs "{option}"' in head) == (says is not None), (target, head)
        assert says is None or f"{says}\n// -Xs" in head


@pytest.mark.parametrize(("dtype", "host"), [
    ("f16", "sycl::half *"), ("bf16", "sycl::ext::oneapi::bfloat16 *"), ("i8", "std::int8_t *"),
    ("u8", "std::uint8_t *"), ("i32", "std::int32_t *"), ("f32", "float *"), ("tf32", "float *")])
def test_pointers_have_the_types_of_the_host(dtype: str, host: str) -> None:
    @xt.kernel
    def copy(X, Y, n, scale):
        value = xt.load_tile(xt.init_tile(X, (n, 0), (8, 16)))
        xt.store_tile(value, xt.init_tile(Y, (0, 0), (8, 16)))

    text = copy.lower(matrix(dtype), matrix(dtype), 3, 0.5, target="pvc").sycl
    (line,) = re.findall(r"(?m)^sycl::event launch.*", text)
    assert f"const {host}X, int X_size0" in line
    assert f" {host}Y, int Y_size0" in line
    assert line.endswith("n, float scale)")
    if require_sycl_compiler() and dtype == "f16":
        assert is_spirv(compile_sycl(text, WHOLE))


# The compiler


def test_spirv_says_its_kernel_and_what_it_lacks() -> None:
    require_sycl_compiler()
    low = work_group_gemm()
    spirv = low.spirv("sycl")
    (name,) = entry_points(spirv)
    assert "gemm_shared" in name
    assert [re.sub(r"^_Z\d+(\w+?)(P|Dv).*", r"\1", each) for each in imports(spirv)] == [
        "intel_sub_group_bf16_bf16_matrix_mad_k16", "intel_sub_group_2d_block_read_16b_32r16x2c",
        "intel_sub_group_2d_block_write_32b_8r16x1c", "intel_sub_group_2d_block_read_transform_16b_32r16x2c"]
    assert imports(low.spirv("sycl", emulated=True)) == []


def test_a_refused_text_shows_the_compilers_log() -> None:
    require_sycl_compiler()
    text = lowered_gemm(TYPES[0], "pvc").sycl.replace("make_float8(0.0f)", "missing(0.0f)", 1)
    with pytest.raises(xt.ToolError, match="XT5110") as caught:
        compile_sycl(text)
    assert "missing(0.0f)" in caught.value.log


def test_a_function_that_exists_nowhere_is_named() -> None:
    """Devices' compilers link such a call to nothing, and say nothing."""
    require_sycl_compiler()
    text = lowered_gemm(TYPES[0], "pvc").sycl
    text = text.replace("XETILE_EXTERN void intel_", "XETILE_EXTERN float nowhere(int);\nXETILE_EXTERN void intel_", 1)
    with pytest.raises(xt.ToolError, match="XT5131"):
        compile_sycl(text.replace("make_float8(0.0f)", "make_float8(nowhere(m))", 1))
    half = lowered_gemm(TYPES[2], "pvc").sycl
    with pytest.raises(xt.ToolError, match="XT5131"):
        compile_sycl(re.sub(r' __asm__\("\w+"\)', "", half))


@pytest.mark.parametrize(("answer", "says"), [
    ({"image_count": 2}, "2 images instead of one"), ({"format": 9}, "format 9"), ({"size": 1 << 40}, "bytes is none"),
    ({"begin": None}, "is none that is known"), ({"data": b"LLVM" * 9}, "no SPIR-V"), ({"data": b""}, "0 bytes")])
def test_a_changed_interface_is_noticed(answer: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = answer.get("data", b"\x03\x02\x23\x07" * 9)
    buffer = ctypes.create_string_buffer(data, max(len(data), 1))
    image = sycl_jit.Image(answer.get("format", 2), 64, ctypes.addressof(buffer), answer.get("size", len(data)))
    if "begin" in answer:
        image.begin = answer["begin"]
    result = sycl_jit.Result(0, 0, ctypes.pointer(image), answer.get("image_count", 1))

    def compiled(*_: Any) -> bytes:
        try:
            return sycl_jit.compiled(SimpleNamespace(compileSYCL=Answer(result)), b"", [])
        except sycl_jit.Changed as error:
            raise sycl._changed(str(error)) from None

    require_sycl_compiler()
    monkeypatch.setattr(sycl, "_compiled", compiled)
    with pytest.raises(xt.ToolError, match="XT5133"):
        compile_sycl(f"// {says}")


class Answer:
    """A function of a library that gives one result, whatever it is called with."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def __call__(self, *_: Any) -> Any:
        return self.result


@pytest.mark.parametrize(("script", "says"), [
    ("import sys; sys.stderr.write('an extension'); sys.exit(18)", "XT5132"),
    ("import os; os.abort()", "XT5132"),
    ("import sys; sys.stderr.write('no function compileSYCL'); sys.exit(66)", "XT5133"),
])
def test_a_compiler_that_ends_its_process_ends_no_other(script: str, says: str, monkeypatch: pytest.MonkeyPatch,
                                                        tmp_path: Path) -> None:
    """The library calls exit() where its translator meets what it does not expect."""
    require_sycl_compiler()
    program = tmp_path / "jit.py"
    program.write_text(script)
    monkeypatch.setattr(sycl_jit, "__file__", str(program))
    with pytest.raises(xt.ToolError, match=says):
        compile_sycl(f"// {says}")


def test_a_library_without_the_function_is_another_one() -> None:
    with pytest.raises(sycl_jit.Changed, match="no function compileSYCL"):
        sycl_jit.compiled(SimpleNamespace(), b"", [])


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.metadata.files", lambda _: [])
    monkeypatch.setattr(sycl.sys, "prefix", str(tmp_path))
    assert not sycl.has_sycl_compiler()
    with pytest.raises(xt.ToolError, match="XT5130"):
        sycl.find_sycl_compiler()


def test_the_header_declares_every_function_of_floats() -> None:
    header = (ROOT / "codegen" / "sycl" / "opencl.hpp").read_text()
    declared = set(re.findall(r"XETILE_MATH\((\w+)\)", header))
    assert {text.text for text in TEXT.values() if text.form == "float call"} <= declared
