"""Kernels written for LLVM's XeGPU, in the manner of its own tests: they run here, and LLVM verifies them too."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_mlir_opt, require_ocloc
from tests.kernels import Execution

pytestmark = pytest.mark.unoptimised

Array = np.ndarray[Any, Any]
EXECUTIONS = [Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "dg2"),
              Execution("numpy:xegpu", "cpu"),
              Execution("opencl:cpu", "pvc"), Execution("opencl:cpu", "dg2"), Execution("opencl:cpu", "cpu")]
_FOLDER = Path(__file__).parent / "kernels"
WIDE = [execution for execution in EXECUTIONS if execution.target != "dg2"]

SUBGROUP = (_FOLDER / "subgroup_gemm.mlir").read_text()
WORKGROUP = (_FOLDER / "workgroup_gemm.mlir").read_text()
LANE = (_FOLDER / "lane_gemm.mlir").read_text()
MOVED = (_FOLDER / "moved_gemm.mlir").read_text()


def verified_by_llvm(text: str) -> None:
    done = subprocess.run([require_mlir_opt()], input=text.encode(), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[:2000]


def integers(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def product_of(kernel: Any, execution: Execution, grid: tuple[int, ...] | None) -> None:
    """C += A @ B, compared with NumPy."""
    a, b = integers((256, 256), np.float16, 1), integers((256, 256), np.float16, 2)
    c = integers((256, 256), np.float32, 3)
    expected = c + a.astype(np.float32) @ b.astype(np.float32)
    bound = execution.bind(kernel)
    (bound if grid is None else bound[grid])(a, b, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_subgroup_gemm(execution: Execution) -> None:
    """The grid is what the host function beside it launches."""
    product_of(xt.parse(SUBGROUP)["simple_gemm"], execution, None)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_workgroup_gemm(execution: Execution) -> None:
    product_of(xt.parse(WORKGROUP)["test_kernel"], execution, None)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_lane_gemm(execution: Execution) -> None:
    """Vectors of a lane; a constant is in the block that it is added to."""
    product_of(xt.parse(LANE)["simple_gemm"], execution, (32, 16))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_moved_descriptors(execution: Execution) -> None:
    """The form up to LLVM 22: offsets in descriptors, which a loop carries and moves."""
    product_of(xt.parse(MOVED)["test_kernel"], execution, (32, 16))


@pytest.mark.parametrize("text", [SUBGROUP, WORKGROUP, LANE])
def test_llvm_verifies_them(text: str) -> None:
    verified_by_llvm(text)


_KERNELS = [(SUBGROUP, "simple_gemm"), (WORKGROUP, "test_kernel"), (LANE, "simple_gemm"), (MOVED, "test_kernel")]


@pytest.mark.parametrize(("text", "name", "target"), [
    (text, name, target) for text, name in _KERNELS for target in ("pvc", "bmg", "dg2")
    if not (text is WORKGROUP and target == "dg2")  # a subgroup's block of C is larger than dg2's registers
])
def test_machine_code(text: str, name: str, target: str) -> None:
    require_ocloc()
    specs = [xt.Spec((256, 256), dtype) for dtype in ("f16", "f16", "f32")]
    report = xt.parse(text)[name].lower(*specs, target=target).report()
    assert report.spill_size == 0
    assert report.loop["dpas"] > 0


def _kernel(body: str, arguments: str = "%A: memref<64x64xf32>, %B: memref<64x64xf32>", attributes: str = "") -> str:
    return f"""
!pair = !xegpu.tensor_desc<8x16xf32, #xegpu.block_tdesc_attr<array_length = 2 : i64>>
!wide_pair = !xegpu.tensor_desc<16x16xbf16, #xegpu.block_tdesc_attr<array_length = 2 : i64>>
gpu.module @m {{
  gpu.func @f({arguments}) kernel {attributes} {{
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
{body}
    gpu.return
  }}
}}"""


_PAIR = """
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<16x32xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<16x32xf32>
    %v = xegpu.load_nd %a[%c16, %c32] : !xegpu.tensor_desc<16x32xf32> -> vector<16x32xf32>
"""
BODIES: dict[str, tuple[str, Any]] = {
    "transposed": ("""
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<16x32xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<32x16xf32>
    %v = xegpu.load_nd %a[16, %c32] : !xegpu.tensor_desc<16x32xf32> -> vector<16x32xf32>
    %t = vector.transpose %v, [1, 0] : vector<16x32xf32> to vector<32x16xf32>
    xegpu.store_nd %t, %b[%c0, 8] : vector<32x16xf32>, !xegpu.tensor_desc<32x16xf32>
""", lambda a, b: b.__setitem__(np.s_[:32, 8:24], a[16:32, 32:].T)),
    "transposed by the load": ("""
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<16x8xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %a[16, 32] <{transpose = array<i64: 1, 0>}>
        : !xegpu.tensor_desc<16x8xf32> -> vector<8x16xf32>
    xegpu.store_nd %v, %b[0, 0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
""", lambda a, b: b.__setitem__(np.s_[:8, :16], a[16:32, 32:40].T)),
    "element by element": (_PAIR + """
    %two = arith.constant dense<2.0> : vector<16x32xf32>
    %w = arith.mulf %v, %two : vector<16x32xf32>
    %x = arith.maximumf %w, %v : vector<16x32xf32>
    xegpu.store_nd %x, %b[%c0, %c0] : vector<16x32xf32>, !xegpu.tensor_desc<16x32xf32>
""", lambda a, b: b.__setitem__(np.s_[:16, :32], np.maximum(2 * a[16:32, 32:], a[16:32, 32:]))),
    "reduced": (_PAIR + """
    %zero = arith.constant dense<0.0> : vector<16xf32>
    %r = vector.multi_reduction <add>, %v, %zero [1] : vector<16x32xf32> to vector<16xf32>
    %twice = arith.addf %r, %r : vector<16xf32>
    %c = vector.shape_cast %twice : vector<16xf32> to vector<16x1xf32>
    %w = vector.broadcast %c : vector<16x1xf32> to vector<16x32xf32>
    xegpu.store_nd %w, %b[%c0, %c0] : vector<16x32xf32>, !xegpu.tensor_desc<16x32xf32>
""", lambda a, b: b.__setitem__(np.s_[:16, :32], 2 * a[16:32, 32:].sum(1, keepdims=True))),
    "reduced along columns": (_PAIR + """
    %low = arith.constant dense<0xFF800000> : vector<32xf32>
    %r = vector.multi_reduction <maximumf>, %v, %low [0] : vector<16x32xf32> to vector<32xf32>
    %w = vector.broadcast %r : vector<32xf32> to vector<16x32xf32>
    xegpu.store_nd %w, %b[%c0, %c0] : vector<16x32xf32>, !xegpu.tensor_desc<16x32xf32>
""", lambda a, b: b.__setitem__(np.s_[:16, :32], a[16:32, 32:].max(0, keepdims=True))),
    "reduced onto": (_PAIR + """
    %start = arith.constant dense<5.0> : vector<16xf32>
    %zero = arith.constant dense<0.0> : vector<16xf32>
    %r = vector.multi_reduction <add>, %v, %zero [1] : vector<16x32xf32> to vector<16xf32>
    %w = arith.addf %v, %v : vector<16x32xf32>
    %s = vector.multi_reduction <add>, %w, %r [1] : vector<16x32xf32> to vector<16xf32>
    %m = vector.multi_reduction <maximumf>, %v, %start [1] : vector<16x32xf32> to vector<16xf32>
    %both = arith.subf %s, %m : vector<16xf32>
    %c = vector.shape_cast %both : vector<16xf32> to vector<16x1xf32>
    %x = vector.broadcast %c : vector<16x1xf32> to vector<16x32xf32>
    xegpu.store_nd %x, %b[%c0, %c0] : vector<16x32xf32>, !xegpu.tensor_desc<16x32xf32>
""", lambda a, b: b.__setitem__(np.s_[:16, :32], 3 * a[16:32, 32:].sum(1, keepdims=True) - 5)),
    "side by side": ("""
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !pair
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %a[%c8, %c16] : !pair -> vector<2x8x16xf32>
    %v0 = vector.extract %v[0] : vector<8x16xf32> from vector<2x8x16xf32>
    %v1 = vector.extract %v[1] : vector<8x16xf32> from vector<2x8x16xf32>
    %w = arith.subf %v1, %v0 : vector<8x16xf32>
    xegpu.store_nd %w, %b[%c0, %c0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
""", lambda a, b: b.__setitem__(np.s_[:8, :16], a[8:16, 32:48] - a[8:16, 16:32])),
    "numbers of indices": ("""
    %c5 = arith.constant 5 : index
    %x = gpu.block_id x
    %q = arith.divui %c32, %c5 : index
    %r = arith.remui %q, %c5 : index
    %row = arith.muli %r, %c16 : index
    %fence = arith.constant 0 : index
    xegpu.fence memory_kind = global, fence_scope = workgroup
    gpu.barrier
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %v = xegpu.load_nd %a[%row, %c0] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
    xegpu.store_nd %v, %b[%x, %c0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
""", lambda a, b: b.__setitem__(np.s_[:8, :16], a[16:24, :16])),
}


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("name", BODIES)
def test_pieces(name: str, execution: Execution) -> None:
    body, expect = BODIES[name]
    a, b = integers((64, 64), np.float32, 4), integers((64, 64), np.float32, 5)
    expected = b.copy()
    expect(a, expected)
    execution.bind(xt.parse(_kernel(body))["f"])[1](a, b)
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("name", BODIES)
def test_llvm_verifies_the_pieces(name: str) -> None:
    verified_by_llvm(_kernel(BODIES[name][0]))


_SLICED = """
    %a = xegpu.create_nd_tdesc %A : memref<64x64xbf16> -> !wide_pair
    %b = xegpu.create_nd_tdesc %B : memref<64x64xbf16> -> !xegpu.tensor_desc<32x16xbf16>
    %c = xegpu.create_nd_tdesc %C : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>
    %zero = arith.constant dense<0.0> : vector<8x16xf32>
    %va = xegpu.load_nd %a[%c16, %c0] : !wide_pair -> vector<2x16x16xbf16>
    %vb = xegpu.load_nd %b[%c0, %c16] : !xegpu.tensor_desc<32x16xbf16> -> vector<32x16xbf16>
    %a0 = vector.extract %va[0] : vector<16x16xbf16> from vector<2x16x16xbf16>
    %a1 = vector.extract %va[1] : vector<16x16xbf16> from vector<2x16x16xbf16>
    %a00 = vector.extract_strided_slice %a0 {offsets = [8, 0], sizes = [8, 16], strides = [1, 1]}
        : vector<16x16xbf16> to vector<8x16xbf16>
    %a10 = vector.extract_strided_slice %a1 {offsets = [8, 0], sizes = [8, 16], strides = [1, 1]}
        : vector<16x16xbf16> to vector<8x16xbf16>
    %b0 = vector.extract_strided_slice %vb {offsets = [0, 0], sizes = [16, 16], strides = [1, 1]}
        : vector<32x16xbf16> to vector<16x16xbf16>
    %b1 = vector.extract_strided_slice %vb {offsets = [16, 0], sizes = [16, 16], strides = [1, 1]}
        : vector<32x16xbf16> to vector<16x16xbf16>
    %d0 = xegpu.dpas %a00, %b0, %zero : vector<8x16xbf16>, vector<16x16xbf16>, vector<8x16xf32> -> vector<8x16xf32>
    %d1 = xegpu.dpas %a10, %b1, %d0 : vector<8x16xbf16>, vector<16x16xbf16>, vector<8x16xf32> -> vector<8x16xf32>
    %sum = vector.multi_reduction <add>, %d1, %row0 [0] : vector<8x16xf32> to vector<16xf32>
    %row = vector.shape_cast %sum : vector<16xf32> to vector<1x16xf32>
    %all = vector.broadcast %row : vector<1x16xf32> to vector<8x16xf32>
    %e = arith.addf %d1, %all : vector<8x16xf32>
    xegpu.store_nd %e, %c[%c8, %c32] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
"""
SLICED = _kernel("    %row0 = arith.constant dense<0.0> : vector<16xf32>" + _SLICED,
                 "%A: memref<64x64xbf16>, %B: memref<64x64xbf16>, %C: memref<64x64xf32>")


@pytest.mark.parametrize("execution", WIDE, ids=str)
def test_slices(execution: Execution) -> None:
    """A kernel that cuts blocks up itself keeps its blocks."""
    a, b = (integers((64, 64), ml_dtypes.bfloat16, seed) for seed in (6, 7))
    c = integers((64, 64), np.float32, 8)
    expected = c.copy()
    product = a[24:32, :32].astype(np.float32) @ b[:32, 16:32].astype(np.float32)
    expected[8:16, 32:48] = product + product.sum(0, keepdims=True)
    execution.bind(xt.parse(SLICED)["f"])[1](a, b, c)
    np.testing.assert_array_equal(c, expected)


def test_slices_are_for_one_width() -> None:
    verified_by_llvm(SLICED)
    specs = [xt.Spec((64, 64), dtype) for dtype in ("bf16", "bf16", "f32")]
    with pytest.raises(xt.TargetError, match="16 lanes, and those of dg2 have 8"):
        xt.parse(SLICED)["f"].lower(*specs, target="dg2")


_DEALT = """
    %a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<64x64xf32, #xegpu.layout<{a}>>
    %b = xegpu.create_nd_tdesc %B : memref<64x64xf32> -> !xegpu.tensor_desc<64x64xf32, #xegpu.layout<{b}>>
    %v = xegpu.load_nd %a[%c0, %c0] : !xegpu.tensor_desc<64x64xf32, #xegpu.layout<{a}>> -> vector<64x64xf32>
    {between}
    xegpu.store_nd %{value}, %b[%c0, %c0] : vector<64x64xf32>, !xegpu.tensor_desc<64x64xf32, #xegpu.layout<{b}>>
"""
_ROWS = "sg_layout = [4, 2], sg_data = [16, 32]"
_COLUMNS = "sg_layout = [4, 2], sg_data = [16, 32], order = [0, 1]"


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_converted_layout(execution: Execution) -> None:
    """Blocks change owners."""
    other = "sg_layout = [2, 4], sg_data = [32, 16]"
    between = f"%w = xegpu.convert_layout %v <{{input_layout = #xegpu.layout<{_ROWS}>, " \
              f"target_layout = #xegpu.layout<{other}>}}> : vector<64x64xf32>"
    text = _kernel(_DEALT.format(a=_ROWS, b=other, between=between, value="w"))
    a, b = integers((64, 64), np.float32, 9), np.zeros((64, 64), np.float32)
    execution.bind(xt.parse(text)["f"])[1](a, b)
    np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_subgroups_along_columns(execution: Execution) -> None:
    """``order = [0, 1]``: which subgroup moves which block changes nothing that one can see."""
    text = _kernel(_DEALT.format(a=_COLUMNS, b=_COLUMNS, between="", value="v"),
                   attributes="attributes {known_block_size = array<i32: 128, 1, 1>}")
    verified_by_llvm(text)
    a, b = integers((64, 64), np.float32, 9), np.zeros((64, 64), np.float32)
    execution.bind(xt.parse(text)["f"])[1](a, b)
    np.testing.assert_array_equal(b, a)


@xt.kernel
def rows(X, Y, *, map_=None):
    """Each row less its largest element, and twice its sum."""
    m = xt.group_id(0) * 16
    v = xt.load_tile(xt.init_tile(X, (m, 0), (16, 32), wg_map=map_))
    spread = lambda u: xt.tile_broadcast(u, (16, 32), wg_map=map_)  # noqa: E731
    w = v - spread(xt.tile_reduce("max", v, 1)) + spread(xt.tile_reduce("add", v, 1)) * 2.0
    with xt.when(m < 48):
        xt.store_tile(w, xt.init_tile(Y, (m, 0), (16, 32), wg_map=map_))


@xt.kernel
def products(A, BT, C):
    """A batch of A @ BT.T."""
    batch, column = xt.group_id(0), xt.group_id(1) * 32
    a = xt.init_tile(A, (batch, 0, 0), (32, 32))
    b = xt.init_tile(BT, (batch, column, 0), (32, 32))
    acc = xt.zeros((32, 32), xt.f32)
    for _ in xt.range(0, A.shape[2], 32):
        b_turned = xt.tile_transpose(xt.load_tile(b))
        acc = xt.tile_mma(xt.load_tile(a), b_turned, acc)
        a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 0, 32)
    xt.store_tile(acc, xt.init_tile(C, (batch, 0, column), (32, 32)))


_PRINTED: dict[str, tuple[Any, tuple[int, ...], tuple[tuple[int, ...], ...], Any, dict[str, Any]]] = {
    "rows": (rows, (3,), ((64, 64), (64, 64)), np.float32, {}),
    "rows of a work-group": (rows, (3,), ((64, 64), (64, 64)), np.float32, {"map_": xt.WgMap((4, 1), (4, 32))}),
    "products": (products, (2, 2), ((2, 32, 64), (2, 64, 64), (2, 32, 64)), ml_dtypes.bfloat16, {}),
}


@pytest.mark.parametrize("execution", WIDE, ids=str)
@pytest.mark.parametrize("name", _PRINTED)
def test_printed_kernels_run(name: str, execution: Execution) -> None:
    """Round trip through LLVM's form: it verifies there, and computes what the kernel does when it is read again."""
    kernel, grid, shapes, dtype, constants = _PRINTED[name]
    arrays = [integers(shape, dtype, seed) for seed, shape in enumerate(shapes[:-1])]
    c, again = np.zeros(shapes[-1], np.float32), np.zeros(shapes[-1], np.float32)
    kernel[grid](*arrays, c, **constants)
    specs = [xt.Spec(array.shape, array.dtype) for array in (*arrays, c)]
    lowered = kernel.lower(*specs, **constants)
    text = lowered.xegpu_upstream_workgroup if constants else lowered.xegpu_upstream
    verified_by_llvm(text)
    execution.bind(xt.parse(text)[lowered.name])[grid](*arrays, again)
    assert c.any()
    np.testing.assert_array_equal(again, c)


def test_text_and_stages() -> None:
    """The text reads back; the first stage is in our own form, and reads back too."""
    module = xt.parse(SUBGROUP)
    assert str(xt.parse(str(module))) == str(module)
    kernel = module["simple_gemm"]
    assert "xetile.tile_mma" in str(kernel)
    assert "write_back" in str(kernel)
    specs = [xt.Spec((256, 256), dtype) for dtype in ("f16", "f16", "f32")]
    for stage in kernel.lower(*specs).stages.values():
        assert str(xt.parse(stage)) == stage.rstrip("\n")


_LOAD = "    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>\n"


@pytest.mark.parametrize(("body", "message"), [
    (_LOAD + "    %v = xegpu.load_nd %d[%c0, %c0] : !xegpu.tensor_desc<8x16xf32> -> vector<16x16xf32>", "XT3107"),
    (_LOAD + "    %v = xegpu.load_nd %d[%c0] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>", "XT3605"),
    (_LOAD + "    %v = xegpu.load_nd %d[%c0, %c0] <{packed}> : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>",
     "XT3106"),
    ("    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf16>", "XT3009"),
    ("    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32, "
     "#xegpu.layout<sg_layuot = [1, 1]>>", "XT3013"),
    ("    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32, "
     "#xegpu.layout<sg_layout = [8, 1], sg_data = [2, 16]>>", "XT3612"),
    ("    %d = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<16xf32>\n"
     "    %v = xegpu.load_nd %d[%c0, %c0] : !xegpu.tensor_desc<16xf32> -> vector<16xf32>", "XT3605"),
    (_LOAD + "    %t = gpu.thread_id x\n"
     "    %v = xegpu.load_nd %d[%t, %c0] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>\n"
     "    xegpu.store_nd %v, %d[%c0, %c0] : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>", "XT3637"),
    (_LOAD + "    %n = gpu.block_dim x\n"
     "    xegpu.prefetch_nd %d[%n, %c0] : !xegpu.tensor_desc<8x16xf32>", "known_block_size"),
    (_LOAD + "    xegpu.prefetch_nd %d[%c0, %c0] <{l1_hint = #xegpu.cache_hint<hot>}> : !xegpu.tensor_desc<8x16xf32>",
     "XT3110"),
    (_LOAD + "    %v = xegpu.load_nd %d[%c0, %c0] : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>\n"
     "    %r = vector.multi_reduction <add>, %v, %v [1] : vector<8x16xf32> to vector<8x16xf32>", "leaves"),
    ("    %n = xegpu.init_nbarrier %c0, %c0 : index, index -> !xegpu.nbarrier\n" + _LOAD, "XT3358"),
    ("    %m = xegpu.create_mem_desc %src : memref<64xi8, 3> -> !xegpu.mem_desc<8x8xi8>\n" + _LOAD, "XT2005"),
])
def test_mistakes(body: str, message: str) -> None:
    with pytest.raises(xt.TextError, match=message) as error:
        xt.parse(_kernel(body))
    assert "<text>:" in str(error.value)
    assert error.value.hint


def test_threads_and_layouts_contradict() -> None:
    text = _kernel(_DEALT.format(a=_ROWS, b=_ROWS, between="", value="v"),
                   attributes="attributes {known_block_size = array<i32: 64, 1, 1>}")
    with pytest.raises(xt.TextError, match="XT2407"):
        xt.parse(text)
