"""``xt.tile_mma_scaled``: products of 8-bit floats with a scale for each 32 elements of K."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import NUMPY, Execution, integers
from xegpu.ir.dtypes import DType

Array = np.ndarray[Any, Any]
CRI = [NUMPY, Execution("numpy:xegpu", "cri"), Execution("opencl:cpu", "cri")]


@xt.kernel
def scaled(A, B, SA, SB, C, *, BM=16, BN=32, BK=64, sg=None, start=True):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    rows, columns = (BM, BN) if sg is None else (BM // sg[0], BN // sg[1])

    def load(array, at, shape, part):
        return xt.load_tile(xt.init_tile(array, at, shape, wg_map=None if sg is None else xt.wg_map(sg, part)))

    map_c = None if sg is None else xt.wg_map(sg, (rows, columns))
    total = xt.zeros((BM, BN), xt.f32, wg_map=map_c) if start else None
    for k in xt.range(0, A.shape[1], BK) if start else (0,):
        total = xt.tile_mma_scaled(
            load(A, (m, k), (BM, BK), (rows, BK)), load(B, (k, n), (BK, BN), (BK, columns)), total,
            load(SA, (m, k // 32), (BM, BK // 32), (rows, BK // 32)),
            load(SB, (k // 32, n), (BK // 32, BN), (BK // 32, columns)))
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def operands(a_type: DType, b_type: DType, shape: tuple[int, int, int]) -> tuple[list[Array], Array]:
    """A, B and their scales, small enough that every sum is exact, and the product."""
    (m, n, k), rng = shape, np.random.default_rng(1)
    a, b = integers(rng, a_type, m, k, most=4), integers(rng, b_type, k, n, most=4)
    scale_a, scale_b = (rng.integers(124, 131, size).astype(np.uint8) for size in ((m, k // 32), (k // 32, n)))
    left = a.astype(np.float64) * np.repeat(2.0 ** (scale_a.astype(int) - 127), 32, 1)
    right = b.astype(np.float64) * np.repeat(2.0 ** (scale_b.astype(int) - 127), 32, 0)
    return [a, b, scale_a, scale_b], left @ right


@pytest.mark.parametrize(("a_type", "b_type", "tile", "execution"), [
    *((xt.e4m3, xt.e5m2, {"BM": 32, "BN": 64, "sg": (2, 2)}, execution) for execution in CRI),
    *((xt.e5m2, xt.e4m3, {"BK": 32}, execution) for execution in CRI[:2])], ids=str)
def test_scales_of_32_elements(a_type: DType, b_type: DType, tile: dict[str, Any], execution: Execution) -> None:
    shape = 2 * tile.get("BM", 16) - 3, tile.get("BN", 32) + 5, 192
    given, expected = operands(a_type, b_type, shape)
    c = np.full((shape[0] + 2, shape[1] + 3), 7, np.float32)
    execution.bind(scaled)[2, 2](*given, c[1:-1, 1:-2], **tile)
    np.testing.assert_array_equal(c[1:-1, 1:-2], expected)
    c[1:-1, 1:-2] = 7
    assert (c == 7).all()


@pytest.mark.parametrize("execution", CRI, ids=str)
def test_the_least_scale_and_the_one_that_is_nan(execution: Execution) -> None:
    (a, b, scale_a, scale_b), _ = operands(xt.e4m3, xt.e4m3, (16, 32, 64))
    a[:] = 1
    b[:] = 1
    scale_a[:], scale_b[:] = 127, 127
    scale_a[3], scale_b[:, 5], scale_a[8, 1] = 0, 254, 255
    c = np.zeros((16, 32), np.float32)
    execution.bind(scaled)[1, 1](a, b, scale_a, scale_b, c, start=False)
    assert c[3, 5] == 64
    assert np.isnan(c[8]).all()
    assert c[0, 0] == 64
    assert not np.isnan(np.delete(c, 8, 0)).any()


def specs(a: DType = xt.e4m3, b: DType = xt.e5m2, scale: DType = xt.u8) -> list[xt.Spec]:
    return [xt.Spec((None, None), dtype) for dtype in (a, b, scale, scale, xt.f32)]


def test_the_text_of_each_stage_reads_back() -> None:
    given, expected = operands(xt.e4m3, xt.e5m2, (16, 32, 128))
    low = scaled.lower(*specs(), target="cri")
    assert "xetile.tile_mma_scaled" in low.xetile
    assert "xegpu.dpas_scaled" in low.xegpu
    for text in low.stages.values():
        c = np.zeros((16, 32), np.float32)
        xt.parse(text)["scaled"].on("numpy")[1, 1](*given, c)
        np.testing.assert_array_equal(c, expected)


def test_the_engine_takes_the_scales_in_machine_code() -> None:
    require_ocloc()
    low = scaled.lower(*specs(), target="cri", BM=128, BN=256, BK=32, sg=(8, 4))
    report = low.report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] == 8 * report.unrolled
    lines = [line for line in str(low.isa()).splitlines() if "dpas." in line]
    assert len(lines) == 8 * report.unrolled
    pattern = r"bdpas\.8x8 .*:f +r\d+:f +r\d+(\.0)?:bf8 +r\d+(\.0)?:hf8 +r\d+(\.\d+)?:ub +r\d+(\.\d+)?:ub"
    assert all(re.search(pattern, line) for line in lines)


@pytest.mark.parametrize("target", ["pvc", "dg2", "cpu"])
def test_other_engines_say_what_to_do(target: str) -> None:
    with pytest.raises(xt.XeError, match="XT4108") as caught:
        _ = scaled.lower(*specs(), target=target).opencl
    assert "cri takes scales" in str(caught.value)


@xt.kernel
def with_four(A, B, SA, SB, C, *, what, dealt=False):
    shapes = (16, 64), (64, 32), (16, 2), (2, 32)
    maps = [xt.wg_map((2, 1), (8, 64)), xt.wg_map((2, 1), (64, 32)), xt.wg_map((2, 1), (16, 2)),
            xt.wg_map((2, 1), (2, 32))] if dealt else [None] * 4
    what(*(xt.load_tile(xt.init_tile(array, (0, 0), shape, wg_map=map_))
           for array, shape, map_ in zip((A, B, SA, SB), shapes, maps, strict=True)))


MISTAKES: list[tuple[Callable[..., Any], bool, str, str]] = [
    (lambda a, b, s, t: xt.tile_mma_scaled(a.to(xt.f16), b, None, s, t), False, "XT1260",
     "e4m3 or e5m2 into f32, with scales"),
    (lambda a, b, s, t: xt.tile_mma_scaled(a, b, None, s.to(xt.f32), t), False, "scales of f32 and u8", "of u8"),
    (lambda a, b, s, t: xt.tile_mma_scaled(a, b, None, t, s), False, "the scales of A are 2x32", "16x2"),
    (lambda a, b, s, t: xt.tile_mma_scaled(a, b, None, s, 1.0), False, "tile_mma_scaled takes a vector, not float 1.0",
     "load_tile"),
    (lambda a, b, s, t: xt.tile_mma_scaled(a, b, None, s, t), True, "the scales of A are distributed as",
     "sg_data=[8, 2]"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes(number: int) -> None:
    what, dealt, said, hint = MISTAKES[number]
    with pytest.raises(xt.XeError) as caught:
        with_four.lower(*specs(), target="cri", what=what, dealt=dealt)
    assert said in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(("change", "said"), [
    (("vector<16x2xui8>", "vector<16x1xui8>"), "XT1261"),
    (("vector<16x64xf8E4M3FN>", "vector<16x64xf16>"), "XT1260")])
def test_what_the_text_may_not_say(change: tuple[str, str], said: str) -> None:
    types = "vector<16x64xf8E4M3FN>, vector<64x32xf8E5M2>, vector<16x32xf32>, vector<16x2xui8>, vector<2x32xui8>"
    types = types.replace(*change)
    names = [f"%{i}: {type_}" for i, type_ in zip("abcde", types.split(", "), strict=True)]
    with pytest.raises(xt.XeError, match=said):
        xt.parse(f"func.func @f({', '.join(names)}) {{\n  %f = xetile.tile_mma_scaled %a, %b, %c, %d, %e : {types} "
                 "-> vector<16x32xf32>\n  return\n}")
