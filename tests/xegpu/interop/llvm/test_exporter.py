"""LLVM's form of XeGPU: what we print verifies there, and LLVM's own lowering makes GPU code of it."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import batched_gemm
import gemm
import gemm_gelu
import gemm_subgroup
import gemm_transposed
import gemm_two_levels
import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

import xetile as xt
from codegen.perf.isa import read_mix
from codegen.toolchain import ocloc
from tests.conftest import require_mlir_opt, require_ocloc
from xegpu.interop.llvm.dialect import context
from xegpu.interop.llvm.dialect.types import Layout
from xegpu.support.errors import error_parts
from xetile.compiler.compiled import CompiledKernel
from xetile.dialect.wg_map import WgMap
from xetile.text.llvm.exporter import layout_of

SQUARE = (4096, 4096)
LARGE_REGISTERS = "-cl-intel-256-GRF-per-thread"


def mlir_opt(text: str, *options: str) -> str:
    """Output of mlir-opt for a text; the test fails with its message if it refuses."""
    done = subprocess.run([require_mlir_opt(), *options], input=text.encode(), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[:2000]
    return done.stdout.decode()


def refused(text: str) -> str:
    """Diagnostics of mlir-opt for a text that it refuses."""
    done = subprocess.run([require_mlir_opt()], input=text.encode(), capture_output=True, timeout=300)
    assert done.returncode != 0, "mlir-opt takes it"
    return done.stderr.decode(errors="replace")


def spirv_of(text: str, level: str, chip: str) -> bytes:
    """SPIR-V that LLVM's own pipeline makes of a kernel."""
    made = mlir_opt(text, f"--gpu-lower-to-xevm-pipeline=xegpu-op-level={level} zebin-chip={chip} binary-format=isa")
    found = re.search(r'assembly = "((?:[^"\\]|\\.)*)"', made)
    assert found, "there is no gpu.binary"
    pieces = re.findall(r'\\([0-9A-F]{2})|\\(.)|([^\\])', found[1], re.DOTALL)
    return bytes(int(code, 16) if code else ord(escaped or plain) for code, escaped, plain in pieces)


def _gemm(a: Any, b: Any = None, c: Any = "f32", *, target: str = "pvc", **constants: Any) -> CompiledKernel:
    """The work-group example for these element types."""
    return gemm.gemm.lower(xt.Spec(SQUARE, a), xt.Spec(SQUARE, b or a), xt.Spec(SQUARE, c), target=target, **constants)


def _specs(*shapes_and_types: tuple[tuple[int, ...], str]) -> list[xt.Spec]:
    return [xt.Spec(shape, dtype) for shape, dtype in shapes_and_types]


_PRODUCT = ((SQUARE, "bf16"), (SQUARE, "bf16"), (SQUARE, "f32"))
_BATCH = (8, 1024, 1024)
KERNELS = {
    "bf16": lambda target: _gemm("bf16", target=target),
    "f16": lambda target: _gemm("f16", target=target),
    "tf32": lambda target: _gemm("tf32", target=target, BK=16),
    "i8": lambda target: _gemm("i8", c="i32", target=target, BK=64, accumulator=xt.i32),
    "u8": lambda target: _gemm("u8", c="i32", target=target, BK=64, accumulator=xt.i32),
    "columns": lambda target: gemm.gemm.lower(
        xt.Spec(SQUARE, "f16"), xt.Spec(SQUARE, "f16", (1, 4096)), xt.Spec(SQUARE, "f32"), target=target),
    "gelu": lambda target: gemm_gelu.gemm_gelu.lower(
        *_specs(*_PRODUCT[:2], ((1, 4096), "f32"), (SQUARE, "f32")), target=target),
    "batched": lambda target: batched_gemm.batched_gemm.lower(
        *_specs((_BATCH, "bf16"), (_BATCH, "bf16"), (_BATCH, "f32")), target=target),
    "transposed": lambda target: gemm_transposed.gemm_transposed.lower(*_specs(*_PRODUCT), target=target),
    "two levels": lambda target: gemm_two_levels.gemm_two_levels.lower(*_specs(*_PRODUCT), target=target),
}
SUBGROUP = {**KERNELS, "subgroup": lambda target: gemm_subgroup.gemm.lower(*_specs(*_PRODUCT), target=target)}


@pytest.mark.parametrize("name", SUBGROUP)
def test_subgroup_form_verifies(name: str) -> None:
    text = SUBGROUP[name]("pvc").xegpu_upstream
    mlir_opt(text)
    assert "update_nd_offset" not in text
    assert "lane_layout" in text


@xt.kernel
def shifted(A, WHERE, C):
    """A gather and a scatter, one further, of elements whose index is above 3."""
    at = xt.load_tile(xt.init_tile(WHERE, (0, 0), (8, 16))).to(xt.index)
    value = xt.load_gather(xt.init_tile(A, at), at > 3)
    xt.store_tile(value, xt.init_tile(C, (0, 0), (8, 16)))
    xt.store_scatter(value, xt.init_tile(A, at + 1), at > 3)


CHUNKS = """
func.func @chunks(%A: memref<128xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %iota = xegpu.iota %c1 {axis = 1 : i64} : vector<1x16xindex>
  %lanes = vector.shape_cast %iota : vector<1x16xindex> into vector<16xindex>
  %eight = arith.constant dense<8> : vector<16xindex>
  %two = arith.constant dense<2> : vector<16xindex>
  %some = arith.cmpi ne, %lanes, %eight : vector<16xindex>
  %a = XeGPU.create_tdesc %A, %lanes : memref<128xf32>, vector<16xindex> into tensor_desc<16x2xf32, #scattered>
  %r = scf.for %k = %c0 to %c4 step %c1 iter_args(%at = %a) -> (tensor_desc<16x2xf32, #scattered>) {
    %v = XeGPU.load_gather %at, %some {L1_hint = cached, transpose=[1,0]} :
      tensor_desc<16x2xf32, #scattered>, vector<16xi1> -> vector<2x16xf32>
    %next = XeGpu.update_offsets %at, %two : tensor_desc<16x2xf32, #scattered>, vector<16xindex>,
      into tensor_desc<16x2xf32, #scattered>
    XeGPU.prefetch %next : tensor_desc<16x2xf32, #scattered>
    XeGPU.store_scatter %v, %next, %some: vector<2x16xf32>, vector<16xi1>, tensor_desc<16x2xf32, #scattered>
    scf.yield %next : tensor_desc<16x2xf32, #scattered>
  }
  func.return
}
"""


def test_single_elements_verify() -> None:
    line, table = xt.Spec((None,), "bf16"), xt.Spec((None, None), "bf16")
    text = shifted.lower(line, xt.Spec((None, None), "i32"), table, target="pvc").xegpu_upstream
    mlir_opt(text)
    assert (text.count("xegpu.load %"), text.count("xegpu.store %")) == (8, 8)
    text = xt.parse(CHUNKS)["chunks"].lower(xt.Spec((128,), "f32"), target="pvc").xegpu_upstream
    made = mlir_opt(text)
    assert "<{chunk_size = 2 : i64, l1_hint = #xegpu.cache_hint<cached>}>" in made
    assert re.search(r"iter_args\(%\w+ = %\w+\) -> \(vector<16xindex>\)", made)
    assert "arith.select" in made  # what is masked off is zero
    assert "vector.step" in made
    unsigned = shifted.lower(xt.Spec((None,), "u8"), xt.Spec((None, None), "i32"), xt.Spec((None, None), "u8"),
                             target="pvc")
    assert "ui8" not in mlir_opt(unsigned.xegpu_upstream)


@pytest.mark.parametrize("name", KERNELS)
def test_workgroup_form_verifies(name: str) -> None:
    text = KERNELS[name]("bmg").xegpu_upstream_workgroup
    mlir_opt(text)
    assert "sg_layout" in text
    assert "xetile" not in text


@pytest.mark.parametrize("name", SUBGROUP)
def test_reads_back(name: str) -> None:
    texts = [SUBGROUP[name]("pvc").xegpu_upstream]
    texts += [KERNELS[name]("pvc").xegpu_upstream_workgroup] if name in KERNELS else []
    for text in texts:
        module = Parser(context(), text).parse_module()
        module.verify()
        assert str(module) == text


@pytest.mark.parametrize("chip", ["pvc", "bmg"])
@pytest.mark.parametrize("name", ["bf16", "f16", "columns", "batched", "transposed", "two levels", "subgroup"])
def test_lowering_of_the_subgroup_form(name: str, chip: str) -> None:
    """LLVM's own pipeline makes SPIR-V, of which ocloc makes as many dpas as of ours, and no spills."""
    lowered = SUBGROUP[name](chip)
    _check_machine_code(lowered, spirv_of(lowered.xegpu_upstream, "subgroup", chip), chip)


@pytest.mark.parametrize("chip", ["pvc", "bmg"])
@pytest.mark.parametrize("name", ["bf16", "f16", "batched", "transposed", "two levels"])
def test_lowering_of_the_workgroup_form(name: str, chip: str) -> None:
    lowered = KERNELS[name](chip)
    _check_machine_code(lowered, spirv_of(lowered.xegpu_upstream_workgroup, "workgroup", chip), chip)


def _check_machine_code(lowered: CompiledKernel, spirv: bytes, chip: str) -> None:
    require_ocloc()
    binary = ocloc.compile_device(spirv, chip, LARGE_REGISTERS, spirv=True)
    facts = ocloc.disassemble(binary).kernels[lowered.name]
    loop = read_mix(facts.asm).loop
    assert loop is not None
    assert (facts.spill_size, facts.private_size, facts.simd_size) == (0, 0, 16)
    ours = lowered.report()
    assert loop.categories["dpas"] * (ours.unrolled or 1) == ours.loop["dpas"]
    assert loop.categories["load_block2d"] > 0


@xt.kernel
def padded(X, Y):
    xt.store_tile(xt.load_tile(xt.init_tile(X, (0, 0), (16, 16)), padding=1), xt.init_tile(Y, (0, 0), (16, 16)))


@xt.kernel
def copied(X, Y):
    xt.store_tile(xt.load_tile(xt.init_tile(X, (0, 0), (16, 16))), xt.init_tile(Y, (0, 0), (16, 16)))


@xt.kernel
def rebound(X, Y, Z):
    tile = xt.init_tile(X, (0, 0), (8, 16))
    for k in xt.range(X.shape[0]):
        with xt.when(k % 3 == 2):
            tile = xt.init_tile(Y, (k, 0), (8, 16))
        with xt.otherwise():
            tile = xt.update_tile_offset(tile, 1, 0)
        xt.store_tile(xt.load_tile(tile), xt.init_tile(Z, (k, 0), (8, 16)))


def test_what_llvm_lacks() -> None:
    small = [xt.Spec((64, 64), "f32")] * 2
    with pytest.raises(xt.TargetError) as caught:
        copied.lower(*small, target="dg2").xegpu_upstream  # noqa: B018
    assert caught.value.code == "XT3657"
    with pytest.raises(xt.TargetError, match="XT3654"):
        padded.lower(*small).xegpu_upstream  # noqa: B018
    with pytest.raises(xt.TargetError, match="XT2400"):
        copied.lower(*small).xegpu_upstream_workgroup  # noqa: B018
    with pytest.raises(xt.TargetError, match="XT3606"):
        _gemm("i8", "u8", "i32", BK=64, accumulator=xt.i32).xegpu_upstream  # noqa: B018
    with pytest.raises(xt.TargetError, match="XT3656"):
        copied.lower(xt.Spec((64, 64), "f32", (256, 2)), small[1]).xegpu_upstream  # noqa: B018
    with pytest.raises(xt.TargetError, match="XT3653"):
        rebound.lower(*small, small[0]).xegpu_upstream  # noqa: B018


@pytest.mark.parametrize(("layout", "data", "shape", "expected"), [
    ((8, 4), (32, 64), (256, 256), Layout(sg_layout=(8, 4), sg_data=(32, 64))),
    ((8, 4), (32, 64), (32, 256), Layout(sg_layout=(8, 4), sg_data=(32, 64))),
    ((32, 1), (64, 32), (256, 32), Layout(sg_layout=(4, 8), sg_data=(64, 32), order=(0, 1))),
    ((1, 32), (32, 64), (32, 256), Layout(sg_layout=(8, 4), sg_data=(32, 64))),
])
def test_layouts(layout: Any, data: Any, shape: Any, expected: Layout) -> None:
    """The subgroups that own a block by the map own it by the layout."""
    map_ = WgMap(layout, data)
    made = layout_of(map_, shape)
    assert made is not None
    assert made.data == expected
    assert _owners(made.data, shape) == map_.owners(shape)


def _owners(layout: Layout, shape: Any) -> dict[tuple[int, int], list[int]]:
    """LLVM's rule: blocks go round among the subgroups, ids run along the dimension that ``order`` names first."""
    assert layout.sg_layout is not None
    assert layout.sg_data is not None
    (rows, columns), (height, width) = layout.sg_layout, layout.sg_data
    table: dict[tuple[int, int], list[int]] = {}
    for linear in range(rows * columns):
        row, column = divmod(linear, columns) if layout.is_row_major else divmod(linear, rows)[::-1]
        for top in range(0, shape[0], height) if height < shape[0] else [0]:
            for left in range(0, shape[1], width) if width < shape[1] else [0]:
                mine = (height == shape[0] or top // height % rows == row) and \
                    (width == shape[1] or left // width % columns == column)
                if mine:
                    table.setdefault((top, left), []).append(linear)
    return dict(sorted(table.items()))


def test_a_map_that_no_layout_says() -> None:
    with pytest.raises(VerifyException) as caught:
        layout_of(WgMap((8, 4), (64, 8)), (256, 32))
    assert error_parts(caught.value)[0] == "XT2401"


_REFUSED = """
func.func @f(%A: memref<256x256xbf16>, %v: vector<8x16xbf16>) {{
  %c = arith.constant 0 : index
  {line}
  return
}}
"""


@pytest.mark.parametrize("line", [
    "%d = xegpu.create_nd_tdesc %A : memref<256x256xbf16> -> !xegpu.tensor_desc<8x16xf16>",
    "%d = xegpu.create_nd_tdesc %A : memref<256x256xbf16> -> !xegpu.tensor_desc<256x32xbf16, "
    "#xegpu.layout<sg_layout = [32, 1], sg_data = [64, 32]>>",
    "%d = xegpu.create_nd_tdesc %A : memref<256x256xbf16> -> !xegpu.tensor_desc<8x16xbf16>\n"
    "%w = xegpu.load_nd %d[%c, %c] : !xegpu.tensor_desc<8x16xbf16> -> vector<16x16xbf16>",
    "%d = xegpu.create_nd_tdesc %A : memref<256x256xbf16> -> !xegpu.tensor_desc<8x16xbf16>\n"
    "%w = xegpu.load_nd %d[%c] : !xegpu.tensor_desc<8x16xbf16> -> vector<8x16xbf16>",
    "%d = xegpu.create_nd_tdesc %A : memref<256x256xbf16> -> !xegpu.tensor_desc<16x16xbf16>\n"
    "%w = xegpu.load_nd %d[%c, %c] <{transpose = array<i64: 0, 1>}> : !xegpu.tensor_desc<16x16xbf16> -> "
    "vector<8x16xbf16>",
    "%w = xegpu.dpas %v, %v : vector<8x16xbf16>, vector<8x16xbf16> -> vector<8x16xf32>",
    "%d = xegpu.create_nd_tdesc %A : memref<256x256xbf16> -> !xegpu.tensor_desc<8x16xbf16>\n"
    "xegpu.prefetch_nd %d[%c, %c] <{l1_hint = #xegpu.cache_hint<quickly>}> : !xegpu.tensor_desc<8x16xbf16>",
    "xegpu.fence memory_kind = local, fence_scope = workgroup",
])
def test_mistakes_are_refused_here_as_there(line: str) -> None:
    text = _REFUSED.format(line=line)
    with pytest.raises(Exception) as error:  # noqa: PT011 - verifier's, parser's or ours
        Parser(context(), text).parse_module().verify()
    assert str(error.value)
    refused(text)
