"""``xt.parse``: the text of every stage reads back to a kernel that gives the same result."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device
from tests.device import device_targets
from xetile.compiler.compiled import CompiledKernel

pytestmark = pytest.mark.unoptimised

STAGES = ("xetile", "distribute-subgroups", "blocking", "to-xegpu", "pack-vnni", "distribute-lanes",
          "schedule", "induction-variables", "legalize")
TARGETS = ("pvc", "dg2", "cpu")


@xt.kernel
def product(A, B, C, alpha, *, BM=64, BN=64, BK=32, sg=(2, 2)):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    acc = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        xt.prefetch_tile(a)
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile((acc * alpha - 0.1).to(xt.f16), xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@xt.kernel
def integers(A, C, shift, *, rows=16):
    a = xt.load_tile(xt.init_tile(A, (xt.group_id(0) * rows, 0), (rows, 32)))
    for k in xt.range(3):
        a = (a + 200) // 7 % 50 - k.to(xt.u8)
    c = a.to(xt.i32) * -3 // 5 + shift.to(xt.i32)
    xt.store_tile(xt.maximum(c, -40), xt.init_tile(C, (xt.group_id(0) * rows, 0), (rows, 32)))


@cache
def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return (rng.integers(-4, 5, (70, 100)).astype(ml_dtypes.bfloat16),
            rng.integers(-4, 5, (100, 90)).astype(ml_dtypes.bfloat16))


@cache
def lowered(target: str) -> CompiledKernel:
    a, b = data()
    return product.lower(a, b, np.zeros((70, 90), np.float16), 2.0, target=target)


@cache
def wanted() -> Any:
    c = np.zeros((70, 90), np.float16)
    product.on("numpy")[2, 2](*data(), c, 2.0)
    return c


def test_stages() -> None:
    """Some passes change something for some targets alone; rows of odd pitch are loaded cooperatively."""
    assert set(STAGES) <= set(lowered("dg2").stages)
    assert tuple(lowered("pvc").stages) == (
        "xetile", "cooperative-loads", "distribute-subgroups", "blocking", "to-xegpu", "pack-vnni", "distribute-lanes",
        "interleave-columns", "licm", "schedule", "induction-variables", "slm-panels", "legalize", "grf-mode",
        "peel-bounds")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("stage", STAGES)
def test_text_stays(stage: str, target: str) -> None:
    text = lowered(target).stages[stage]
    module = xt.parse(text)
    assert list(module) == ["product"]
    assert module["product"].parameters == ("A", "B", "C", "alpha")
    assert str(module) == text
    assert str(module["product"]) == text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize("stage", STAGES)
def test_same_result(stage: str, where: str, target: str) -> None:
    kernel = xt.parse(lowered(target).stages[stage])["product"]
    c = np.zeros((70, 90), np.float16)
    kernel.on(where)[2, 2](*data(), c, 2.0)
    np.testing.assert_array_equal(c, wanted())


@pytest.mark.launches
@pytest.mark.parametrize("target", device_targets(*TARGETS))
@pytest.mark.parametrize("stage", ["xetile", "blocking", "pack-vnni", "legalize"])
def test_same_result_on_a_device(stage: str, target: str, device_queue: Any) -> None:
    kernel = xt.parse(lowered(target).stages[stage])["product"]
    c = np.zeros((70, 90), np.float16)
    kernel.on(device_queue, target=target)[2, 2](*data(), c, 2.0)
    np.testing.assert_array_equal(c, wanted())


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize("stage", STAGES)
def test_integers(stage: str, where: str) -> None:
    a = np.random.default_rng(4).integers(0, 256, (48, 32)).astype(np.uint8)
    want = a.copy()
    for k in range(3):
        want = (want + np.uint8(200)) // np.uint8(7) % np.uint8(50) - np.uint8(k)
    want = np.maximum(want.astype(np.int32) * -3 // 5 + 11, -40)
    text = integers.lower(a, np.zeros((48, 32), np.int32), 11).stages[stage]
    read = xt.parse(text)
    assert str(read) == text
    c = np.zeros((48, 32), np.int32)
    read["integers"].on(where)[3](a, c, 11)
    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("stage", ["xetile", "blocking", "legalize"])
def test_same_source_from_text(stage: str) -> None:
    original = lowered("pvc")
    parsed = xt.parse(original.stages[stage])["product"].lower(*data(), np.zeros((70, 90), np.float16), 2.0)
    assert parsed.target is original.target
    assert parsed.access == original.access
    assert _without_lines(parsed.opencl) == _without_lines(original.opencl)


def _without_lines(source: str) -> str:
    """OpenCL C without the comments that say which line something comes from."""
    return re.sub(r"\n *//.*", "", source)


def test_another_target() -> None:
    kernel = xt.parse(lowered("pvc").xegpu)["product"]
    c = np.full((70, 90), 7, np.float16)
    for where, target in (("numpy:xegpu", "dg2"), ("numpy", "bmg")):
        with pytest.raises(xt.TargetError, match="XT2020") as caught:
            kernel.on(where, target=target)[2, 2](*data(), c, 2.0)
        assert "help: choose target='pvc'" in str(caught.value)
    assert (c == 7).all()
    xt.parse(lowered("pvc").stages["xetile"])["product"].on("numpy:xegpu", target="dg2")[2, 2](*data(), c, 2.0)
    np.testing.assert_array_equal(c, wanted())


def test_arrays_that_the_text_cannot_reach(cpu_queue: Any) -> None:
    specs = [xt.Spec((None, None), dtype) for dtype in (xt.bf16, xt.bf16, xt.f16)]
    text = product.lower(*specs, 2.0).xegpu
    assert 'xegpu.access = ["block", "block", "block", ""]' in text
    c = np.full((70, 90), 7, np.float16)
    with pytest.raises(xt.ShapeError, match="XT2022"):
        xt.parse(text)["product"].on(cpu_queue, target="pvc")[2, 2](*data(), c, 2.0)
    assert (c == 7).all()
    xt.parse(text)["product"].on("numpy:xegpu")[2, 2](*data(), c, 2.0)  # NumPy reaches any memory
    np.testing.assert_array_equal(c, wanted())


def test_arguments() -> None:
    kernel = xt.parse(lowered("pvc").stages["xetile"])["product"]
    a, b = data()
    c = np.full((70, 90), 7, np.float16)
    calls = [
        (IndexError, "XT2026", (a[0], b, c, 2.0), {}),
        (IndexError, "XT2026", (1, b, c, 2.0), {}),
        (TypeError, "XT2027", (a.astype(np.float32), b, c, 2.0), {}),
        (TypeError, "alpha is a number of type index", (a, b, c, 2), {}),
        (TypeError, "alpha is an array", (a, b, c, c), {}),
        (TypeError, "takes 4 arguments", (a, b, c), {}),
        (TypeError, "takes no constant BM", (a, b, c, 2.0), {"BM": 32}),
    ]
    for error, message, arguments, constants in calls:
        with pytest.raises(error, match=message) as caught:
            kernel.on("numpy")[2, 2](*arguments, **constants)
        assert isinstance(caught.value, xt.XeError)
        assert "  help: " in str(caught.value)
        assert "test_parsed.py" in str(caught.value)
    assert (c == 7).all()


COPY = """func.func @copy(%A: memref<?x?xf32, strided<[?, ?]>>, %C: memref<?x?xf32, strided<[?, ?]>>) {
  %0 = arith.constant 0 : index
  %b, %o, %m, %n, %s, %t = memref.extract_strided_metadata %A : memref<?x?xf32, strided<[?, ?]>> -> memref<f32>, index, index, index, index, index
  %tile = xetile.init_tile %A, [%0, %0], [%m, %n], [%s, %t] : memref<?x?xf32, strided<[?, ?]>> -> !xetile.tile<8x16xf32>
  %value = xetile.load_tile %tile : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %out = xetile.init_tile %C, [%0, %0], [%m, %n], [%s, %t] : memref<?x?xf32, strided<[?, ?]>> -> !xetile.tile<8x16xf32>
  xetile.store_tile %value, %out : vector<8x16xf32>, !xetile.tile<8x16xf32>
  func.return
}
"""  # noqa: E501


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_written_by_hand(where: str) -> None:
    a, c = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros((8, 16), np.float32)
    xt.parse(COPY)["copy"].on(where)[1](a, c)
    np.testing.assert_array_equal(c, a)


@pytest.mark.parametrize("stage", ["distribute-subgroups", "blocking"])
def test_a_later_stage_written_by_hand(stage: str) -> None:
    """Operations that the passes do not know are rewritten there, too."""
    blocks, encoding = ("1x1x", ", #xetile.tile_attr<inner_blocks = [8, 16]>") if stage == "blocking" else ("", "")
    text = f"""
builtin.module attributes {{xetile.stage = "{stage}"}} {{
  func.func @put(%C: memref<12x24xf32>) {{
    %0 = arith.constant 0 : index
    %v = arith.constant dense<3.0> : vector<{blocks}8x16xf32>
    %w = arith.negf %v : vector<{blocks}8x16xf32>
    %t = xetile.init_tile %C[%0, %0] : memref<12x24xf32> -> !xetile.tile<8x16xf32{encoding}>
    xetile.store_tile %w, %t : vector<{blocks}8x16xf32>, !xetile.tile<8x16xf32{encoding}>
    func.return
  }}
}}"""
    expected = np.full((12, 24), 7, np.float32)
    expected[:8, :16] = -3
    for where in ("numpy", "numpy:xegpu"):
        c = np.full((12, 24), 7, np.float32)
        xt.parse(text)["put"].on(where)[1](c)
        np.testing.assert_array_equal(c, expected)


def test_several_kernels() -> None:
    module = xt.parse(COPY + COPY.replace("@copy", "@again"))
    assert list(module) == ["copy", "again"]
    for name in module:
        a, c = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
        module[name].on("numpy")[1](a, c)
        assert (c == 1).all()


@pytest.mark.parametrize(("old", "new", "line", "at", "message"), [
    ("func.return", "func.retrun", 8, "func.retrun", "no operation func.retrun"),
    ("%value,", "%valeu,", 7, "%valeu", "valeu"),
    ("xetile.load_tile", "xetile.laod_tile", 5, "xetile.laod_tile", "no operation xetile.laod_tile"),
    ("-> vector<8x16xf32>", "-> vector<8x16xf16>", 7, "%value", "vector<8x16xf16>"),
    ("!xetile.tile<8x16xf32>\n  xetile", "!xetile.tile<8x8xf32>\n  xetile", 7, "%out", "tile<8x8xf32>"),
    ("!xetile.tile<8x16xf32>\n  %value", "!xetile.tile<8x16xf33>\n  %value", 4, "", "f33"),
    ("!xetile.tile<8x16xf32>\n  %value", "!xetile.tile<8x16xf32, #xetile.tile_attr<odrer = [0, 1]>>\n  %value", 4, "",
     "odrer"),
    ("!xetile.tile<8x16xf32>\n  %value", "!xetile.tile<8x16xf32, #xetile.tile_attr<order = [0, 0]>>\n  %value", 5,
     "%tile", "order = [0, 0]"),
    ("}\n", "}\n" + COPY.replace("@copy", "@wrong").replace("[%m, %n]", "[%m]", 1), 13, "%tile = xetile.init_tile",
     "needs 2 sizes and 2 strides, not 1 and 2"),
    ("}\n", "", 8, "func.return", "the text ends too early"),
])
def test_broken_text(old: str, new: str, line: int, at: str, message: str) -> None:
    text = COPY.replace(old, new, 1)
    assert text != COPY
    with pytest.raises(xt.TextError, match=re.escape(message)) as caught:
        xt.parse(text, "kernel.mlir")
    shown = str(caught.value).splitlines()
    location = caught.value.location
    assert location is not None
    assert location.line == line, str(caught.value)
    if at:
        assert shown[1] == f"  kernel.mlir:{line}"
        assert shown[2][shown[3].index("^"):].startswith(at)
    assert shown[-1].startswith("  help: ")


@pytest.mark.parametrize("text", ["", "%", "func.func @f()", "builtin.module {}", "\x00", "func.func private @f()",
                                  'builtin.module attributes {xetile.stage = "none"} {}',
                                  "builtin.module attributes {xetile.stage = 3} {}",
                                  'builtin.module attributes {xetile.target = "gen9"} {}'])
def test_text_without_a_kernel(text: str) -> None:
    with pytest.raises(xt.TextError, match="help: "):
        xt.parse(text)


def test_every_cut_is_an_error_or_a_kernel() -> None:
    text = lowered("pvc").xegpu
    for end in range(0, len(text), 997):
        with pytest.raises(xt.TextError):
            xt.parse(text[:end])


def test_not_a_text() -> None:
    with pytest.raises(TypeError, match="XT2013"):
        xt.parse(None)  # type: ignore[arg-type]


def test_passes_point_at_the_text() -> None:
    text = product.lower(*data(), np.zeros((70, 90), np.float16), 2.0, BK=24).xetile
    kernel = xt.parse(text, "product.mlir")["product"]
    with pytest.raises(xt.ShapeError, match="XT2510") as caught:
        kernel.on("numpy:xegpu")[2, 2](*data(), np.zeros((70, 90), np.float16), 2.0)
    assert "xetile.tile_mma" in str(caught.value).splitlines()[2]
    assert "product.mlir" in str(caught.value)


NUMBER = """
func.func @shifted(%A: memref<8x16xi32>, %C: memref<8x16xi32>, %n: i32) {
  %c0 = arith.constant 0 : index
  %three = arith.constant 3 : i32
  %a = xetile.init_tile %A[%c0, %c0] : memref<8x16xi32> -> !xetile.tile<8x16xi32>
  %c = xetile.init_tile %C[%c0, %c0] : memref<8x16xi32> -> !xetile.tile<8x16xi32>
  %v = xetile.load_tile %a : !xetile.tile<8x16xi32> -> vector<8x16xi32>
  %square = arith.muli %n, %n : i32
  %s = arith.shrsi %square, %three : i32
  %w = vector.broadcast %s : i32 to vector<8x16xi32>
  %r = arith.addi %v, %w : vector<8x16xi32>
  xetile.store_tile %r, %c : vector<8x16xi32>, !xetile.tile<8x16xi32>
  func.return
}
"""


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
@pytest.mark.parametrize("n", [5, -7, np.int32(65537), np.int8(-3), 2 ** 31 - 1, -2 ** 31], ids=str)
def test_numbers_of_32_bits(n: int, where: str) -> None:
    """Arithmetic on them wraps."""
    if not where.startswith("numpy"):
        require_device()
    a, c = np.random.default_rng(1).integers(-2 ** 31, 2 ** 31, (8, 16)).astype(np.int32), np.zeros((8, 16), np.int32)
    xt.parse(NUMBER)["shifted"].on(where, target="pvc")[1](a, c, n)
    square = (int(n) * int(n) + 2 ** 31) % 2 ** 32 - 2 ** 31
    np.testing.assert_array_equal(c, (a.astype(np.int64) + (square >> 3)).astype(np.int32))


@pytest.mark.parametrize("n", [np.int64(9), 2 ** 31, 3.0, True], ids=str)
def test_other_numbers_are_no_i32(n: object) -> None:
    a, c = np.zeros((2, 8, 16), np.int32)
    with pytest.raises(xt.XeError, match="XT2028"):
        xt.parse(NUMBER)["shifted"].on("numpy")[1](a, c, n)


LOADED = """
func.func @rows(%A: memref<32x16xi32>, %N: memref<2x3xi32>, %C: memref<8x16xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %count = memref.load %N[%c0, %c1] : memref<2x3xi32>
  %first = memref.load %N[%c1, 2] : memref<2x3xi32>
  %n = arith.index_cast %count : i32 to index
  %at = arith.index_cast %first : i32 to index
  %c = xetile.init_tile %C[%c0, %c0] : memref<8x16xi32> -> !xetile.tile<8x16xi32>
  %zero = arith.constant dense<0> : vector<8x16xi32>
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> (vector<8x16xi32>) {
    %row = arith.addi %at, %i : index
    %a = xetile.init_tile %A[%row, %c0] : memref<32x16xi32> -> !xetile.tile<8x16xi32>
    %v = xetile.load_tile %a : !xetile.tile<8x16xi32> -> vector<8x16xi32>
    %t = arith.addi %s, %v : vector<8x16xi32>
    scf.yield %t : vector<8x16xi32>
  }
  %total = arith.muli %count, %first : i32
  %w = vector.broadcast %total : i32 to vector<8x16xi32>
  %r = arith.addi %sum, %w : vector<8x16xi32>
  xetile.store_tile %r, %c : vector<8x16xi32>, !xetile.tile<8x16xi32>
  func.return
}
"""


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
def test_numbers_from_memory(where: str) -> None:
    """A bound, an offset, and arithmetic."""
    if not where.startswith("numpy"):
        require_device()
    a = np.random.default_rng(2).integers(-2 ** 31, 2 ** 31, (32, 16)).astype(np.int32)
    n, c = np.array([[9, 3, 9], [9, 9, 5]], np.int32), np.zeros((8, 16), np.int32)
    xt.parse(LOADED)["rows"].on(where, target="pvc")[1](a, n, c)
    expected = sum(a[5 + i:13 + i].astype(np.int64) for i in range(3)) + 15
    np.testing.assert_array_equal(c, expected.astype(np.int32))
