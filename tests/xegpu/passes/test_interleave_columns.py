"""B of unaligned rows, copied to shared local memory: even columns in front of odd ones, in order behind the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.perf.isa import hot_lines
from tests.conftest import require_ocloc
from tests.kernels import Execution, integers, tiles
from tests.kernels import product as multiplied
from tests.xetile.passes.test_cooperative_copies import BF16, specs, unaligned
from tests.xetile.passes.test_cooperative_loads import without_places
from xegpu.passes.loops.interleave_columns import by_place

BM, BK = 32, 32


@xt.kernel
def product(A: Any, B: Any, C: Any, *, BN: int = 32, sg: Any = (2, 2), start: Any = 0, other: str = "") -> None:
    """Sums of products that begin with a number or with C; subgroups share the operands, or there is one."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    c = xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c)
    acc = xt.load_tile(c) if start == "C" else xt.full((BM, BN), start, xt.f32, wg_map=map_c)
    if other == "columns":
        acc = acc + xt.iota((BM, BN), 1, xt.f32, wg_map=map_c)
    for k in xt.range(0, A.shape[1], BK):
        x, y = xt.load_tile(a), xt.load_tile(b)
        acc = xt.tile_mma(x, y, acc)
        if other == "scaled":
            acc = acc * 1.0
        if other == "twice":
            acc = xt.tile_mma(x, y, acc)
        if other == "aligned":
            acc = xt.tile_mma(x, xt.load_tile(xt.init_tile(A, (k, 0), (BK, BN), wg_map=xt.wg_map(
                sg, (BK, BN // sg[1])))), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc + 1.0 if start == "C" else acc, c)


def shuffles(**constants: Any) -> tuple[int, int]:
    """Copies whose columns are put by parity, and accumulators whose columns change places."""
    even = xt.Spec((130, 160), xt.bf16), *specs(BF16, 130, 141, 160)[1:]
    stage = product.lower(*even, target="pvc", **constants).stages.get("interleave-columns", "")
    return stage.count("= vector.shuffle"), stage.count("= xegpu.shuffle")


CASES: tuple[dict[str, Any], ...] = (
    {}, {"BN": 64}, {"start": 3}, {"start": "C"}, {"start": "C", "BN": 64}, {"other": "columns", "BN": 64},
    {"other": "scaled"}, {"other": "twice", "BN": 64}, {"sg": (1, 1)}, {"sg": (1, 1), "start": "C"})


@pytest.mark.unoptimised
@pytest.mark.parametrize("constants", CASES, ids=str)
@pytest.mark.parametrize("first", [0, 1], ids=lambda first: f"base {2 * first}")
@pytest.mark.parametrize("execution", [Execution("numpy", "pvc"), Execution("numpy:xegpu", "bmg"),
                                       Execution("opencl:cpu", "pvc"), Execution("opencl:cpu", "bmg")], ids=str)
def test_the_result_is_right(execution: Execution, first: int, constants: dict[str, Any]) -> None:
    """Rows, columns and K that are no whole tiles; all columns of B and of what is there before differ."""
    generator = np.random.default_rng(3)
    bn = constants.get("BN", 32)
    for (m, n, k), gap in (((37, 75, 167), 0), ((70, 66, 131), 1)):
        a, b = integers(generator, xt.bf16, m, 168)[:, :k], unaligned(generator, xt.bf16, k, n, n + gap, first)
        c = generator.integers(-99, 99, (m, n)).astype(np.float32)
        want = multiplied(a, b, xt.f32) * (2 if constants.get("other") == "twice" else 1)
        want = want + (c + 1 if constants.get("start") == "C" else constants.get("start", 0))
        if constants.get("other") == "columns":
            want = want + np.arange(n) % bn
        execution.bind(product)[tiles(m, BM), tiles(n, bn)](a, b, c, **constants)
        np.testing.assert_array_equal(c, want)


def test_where_it_applies() -> None:
    """Copies before a loop and in it, and four blocks of C a subgroup, or twice as many where they come from memory."""
    assert shuffles() == (2, 2)
    assert shuffles(BN=64) == (2, 4)
    assert shuffles(start=3) == (2, 2)
    assert shuffles(start="C") == (2, 4)
    assert shuffles(other="columns") == (2, 4)
    assert shuffles(other="twice") == (2, 2)
    assert shuffles(sg=(1, 1)) == (2, 8)
    assert shuffles(other="scaled") == (0, 0)  # a use that is no product
    assert shuffles(other="aligned") == (0, 0)  # whose columns lie otherwise
    assert by_place(8, 2) == (0, 2, 4, 6, 1, 3, 5, 7)
    assert by_place(16, 4) == (0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)


def test_stages_read_back() -> None:
    odd = specs(BF16, 130, 141, 165)
    low = product.lower(*odd, target="bmg", start="C")
    for stage in ("interleave-columns", "unroll", "peel-bounds"):
        again = xt.parse(low.stages[stage])["product"].lower(*odd, target="bmg")
        assert without_places(again.opencl) == without_places(low.opencl), stage


@xt.kernel
def widened(A: Any, C: Any) -> None:
    """A copy through shared local memory of 64-bit elements."""
    kept = xt.init_tile(xt.alloc_slm((8, 16), xt.i64), (0, 0), (8, 16))
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))).to(xt.i64), kept)
    xt.barrier()
    xt.store_tile(xt.load_tile(kept).to(xt.i16), xt.init_tile(C, (0, 0), (8, 16)))


def test_elements_of_64_bits_are_no_columns_of_b() -> None:
    """Operand B has no layout for them, which the pass must not ask for."""
    a = integers(np.random.default_rng(4), xt.i16, 8, 17)[:, :16]
    c = np.zeros((8, 17), np.int16)[:, :16]
    widened.on("numpy:xegpu", target="pvc")[1](a, c)
    np.testing.assert_array_equal(c, a)


@pytest.mark.everything
@pytest.mark.parametrize(("target", "bn"), [("pvc", 64), ("bmg", 32)])
def test_two_registers_are_selected_at_once(target: str, bn: int) -> None:
    require_ocloc()
    low = product.lower(*specs(BF16, 4096, 50257, 4096), target=target, BN=bn)
    lines = next(iter(low.isa().kernels.values())).asm.splitlines()
    selects = [line for number in hot_lines("\n".join(lines)) if " sel " in (line := lines[number])]
    assert selects
    assert all("(32|M0)" in line for line in selects)
    assert low.report(remedies=False).spill_size == 0


