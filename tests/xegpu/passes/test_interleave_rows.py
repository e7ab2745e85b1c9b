"""A stored by columns, 16-bit elements: even and odd rows in blocks of their own, put in order behind the loop.

This is where a kernel's shared local memory leaves no room to transpose A in.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc
from xegpu.passes.interleave_rows import EVEN, ODD


@xt.kernel
def product(A, B, C, *, BM=32, BN=32, BK=32, start=0, ahead=0, scale=False, unroll=None, taken=127):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    if taken:
        xt.store_tile(xt.zeros((1, 64), xt.u8), xt.init_tile(xt.alloc_slm((taken, 1024), xt.u8), (0, 0), (1, 64)))
    a, b, c = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN)), xt.init_tile(C, (m, n), (BM, BN))
    pa = xt.init_tile(A, (m, ahead), (BM, BK))
    acc = xt.load_tile(c) if start == "C" else xt.full((BM, BN), start, xt.f32)
    for _ in xt.range(0, A.shape[1], BK, **({} if unroll is None else {"unroll": unroll})):
        if ahead:
            xt.prefetch_tile(pa)
            pa = xt.update_tile_offset(pa, 0, BK)
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        acc = acc * 1.0 if scale else acc
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc + 1.0 if start == "C" else acc, c)


def specs(kind: str = "bf16") -> list[xt.Spec]:
    return [xt.Spec((512, 512), kind, (1, 512)), xt.Spec((512, 512), kind), xt.Spec((512, 512), "f32")]


def shuffles(**constants) -> int:
    return product.lower(*specs(), target="pvc", **constants).stages.get("interleave-rows", "").count("vector.shuffle")


CASES = [{}, {"start": 3}, {"start": "C"}, {"ahead": 64}, {"unroll": 2}, {"BM": 48, "BN": 48}, {"BM": 16},
         {"start": "C", "BK": 16}, {"taken": 0}, {"taken": 0, "start": "C"}, {"taken": 0, "ahead": 64}]


@pytest.mark.execution("opencl:cpu", "pvc")
@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("constants", CASES, ids=str)
def test_the_result_is_right(constants, kind) -> None:
    """At odd sizes, against NumPy, on the text for pvc; even and odd rows differ everywhere."""
    require_device()
    generator = np.random.default_rng(5)
    m, n, k = 64 + 40, 71, 90
    a = np.asfortranarray(generator.integers(-8, 9, (m, k)).astype(kind))
    b = generator.integers(-8, 9, (k, 72)).astype(kind)[:, :n]
    b = np.ascontiguousarray(np.pad(b, ((0, 0), (0, 1))))
    c = generator.integers(-8, 9, (m, n + 1)).astype(np.float32)
    before = c.copy()
    grid = -(-m // constants.get("BM", 32)), -(-(n + 1) // constants.get("BN", 32))
    product.on("opencl:cpu", target="pvc")[grid](a, b, c, **constants)
    start = constants.get("start", 0)
    added = before + 1 if start == "C" else np.float32(start)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32) + added)


def test_memory_that_no_message_reaches() -> None:
    """A row of A of 26 bytes: elements are read one by one, and their rows come in order."""
    require_device()
    generator = np.random.default_rng(6)
    a = np.asfortranarray(generator.integers(-8, 9, (13, 64)).astype(ml_dtypes.bfloat16))
    b, c = generator.integers(-8, 9, (64, 32)).astype(ml_dtypes.bfloat16), np.zeros((13, 32), np.float32)
    product.on("opencl:cpu", target="pvc")[1, 1](a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_where_it_applies() -> None:
    """Two shuffles for each load, and two for each pair of accumulators; two more where they start from memory."""
    assert shuffles() == 4 * 2 + 4 * 2
    assert shuffles(start=3) == 4 * 2 + 4 * 2
    assert shuffles(start="C") == 4 * 2 + 4 * 2 + 4 * 2
    assert shuffles(scale=True) == 0
    plain = [xt.Spec((512, 512), "bf16"), *specs()[1:]]
    assert "interleave-rows" not in product.lower(*plain, target="pvc").stages
    assert shuffles(taken=0) == 0
    for target in ("dg2", "cpu"):
        assert "interleave-rows" not in product.lower(*specs(), target=target, taken=0).stages


def test_stages_read_back() -> None:
    low = product.lower(*specs(), target="pvc", start="C")
    again = xt.parse(low.stages["interleave-rows"])["product"].lower(*specs(), target="pvc")
    assert again.opencl.count("XETILE_DEINTERLEAVE_ROWS(a") == 4


def test_machine_code_of_a_stage_read_back() -> None:
    require_ocloc()
    low = product.lower(*specs(), target="pvc", start="C")
    again = xt.parse(low.stages["interleave-rows"])["product"].lower(*specs(), target="pvc")
    assert again.report().mix.loop == low.report().mix.loop


@pytest.mark.parametrize(("target", "steps"), [("pvc", 1), ("bmg", None)])
def test_one_move_a_register_of_a(target: str, steps: int | None) -> None:
    """32 x 64 by 32 takes 32 moves of two rows each in a step, and no spills; it took 96."""
    require_ocloc()
    low = product.lower(*specs(), target=target, BN=64, unroll=steps, taken=127 if target == "pvc" else 63)
    report = low.report()
    assert report.spill_size == 0
    loop = report.mix.loop
    assert loop is not None
    taken = loop.categories["dpas"] // 32
    assert loop.categories["dpas"] == 32 * taken
    assert 32 * taken <= loop.categories["vector"] <= 34 * taken
    assert loop.categories["load_block2d"] <= 6 * taken
    # Low halves of two registers of words become one register of A, and so do the high ones.
    halves = re.findall(r"mov \(32\|M0\) +r\d+\.0<1>:u?w +r(\d+)\.([01])<2;1,0>:u?w", str(low.isa()))
    assert len(halves) >= 32 * taken
    assert sum(half == "0" for _, half in halves) == sum(half == "1" for _, half in halves)


def test_masks_are_rows() -> None:
    assert sorted((*EVEN, *ODD)) == list(range(16))
