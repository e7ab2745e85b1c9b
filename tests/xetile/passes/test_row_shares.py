"""Operands on targets without 2D block IO: subgroups load shares of them by rows, in the registers of the product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.kernels import work_group_gemm
from tests.conftest import require_ocloc
from tests.kernels import Execution, Types, gemm_shared, integers, tiles, viewed
from tests.kernels import product as multiplied
from tests.xetile.passes.test_cooperative_copies import unaligned
from tests.xetile.passes.test_cooperative_loads import check, is_shared
from xegpu.target.targets import find_target
from xetile.dialect.wg_map import WgMap
from xetile.passes.cooperative_loads.row_shares import row_shares

NUMPY, XEGPU = Execution("numpy", "dg2"), Execution("numpy:xegpu", "dg2")
DEVICE, MACHINE = Execution("opencl:cpu", "dg2"), Execution("machine:dg2", "dg2")
BF16, F16 = (Types(dtype, dtype, xt.f32) for dtype in (xt.bf16, xt.f16))
I8, MIXED = Types(xt.i8, xt.i8, xt.i32), Types(xt.u8, xt.i8, xt.i32)
DG2 = find_target("dg2")


def maps(bm: int, bn: int, sg: tuple[int, int], types: Types = BF16, bk: int = 0) -> dict[str, Any]:
    """Constants of a product by work-groups, with steps of 64 bytes."""
    bk = bk or 64 * 8 // types.a.bits
    return {"BM": bm, "BN": bn, "BK": bk, "sg": sg, "data_a": (bm // sg[0], bk), "data_b": (bk, bn // sg[1]),
            "data_c": (bm // sg[0], bn // sg[1]), "acc": types.acc}


def specs(types: Types = BF16) -> list[xt.Spec]:
    return [xt.Spec((4096, 4096), dtype) for dtype in (types.a, types.b, types.acc)]


@pytest.mark.unoptimised
@pytest.mark.parametrize(("bm", "bn", "sg"), [(32, 32, (2, 2)), (64, 64, (4, 4)), (128, 64, (4, 2))], ids=str)
@pytest.mark.parametrize(("types", "execution"), [
    (BF16, NUMPY), (F16, XEGPU), (BF16, DEVICE), (I8, DEVICE), (MIXED, XEGPU), (BF16, MACHINE), (F16, MACHINE),
    (I8, MACHINE), (MIXED, MACHINE)], ids=str)
def test_the_result_is_right(types: Types, execution: Execution, bm: int, bn: int, sg: tuple[int, int]) -> None:
    """Whole tiles; rows, columns and K that are none; less than a step; rows that begin in the middle of a word."""
    generator, constants = np.random.default_rng(1), maps(bm, bn, sg, types)
    assert is_shared(gemm_shared, *specs(types), target="dg2", **constants)
    for (m, n, k), gap, first in (((bm, bn, 192), 0, 0), ((bm + 37, bn + 53, 165), 3, 0), ((bm + 5, bn - 3, 7), 1, 1),
                                  ((bm - 8, bn + 8, 100), 4, 2)):
        a, b = unaligned(generator, types.a, m, k, k + gap, first), unaligned(generator, types.b, k, n, n + gap, first)
        check(execution.bind(gemm_shared), (viewed(a, types.a), viewed(b, types.b)), (tiles(m, bm), tiles(n, bn)),
              multiplied(a, b, types.acc), **constants)


@pytest.mark.parametrize("execution", [DEVICE, MACHINE], ids=str)
@pytest.mark.parametrize("dtype", [xt.bf16, xt.i8], ids=str)
def test_the_librarys_largest_tile(dtype: Any, execution: Execution) -> None:
    """The tile that the library takes: 32 subgroups, each with 32 x 32, of two work-groups along each axis."""
    types, generator = Types(dtype, dtype, xt.f32 if dtype.is_float else xt.i32), np.random.default_rng(2)
    a, b = integers(generator, dtype, 300, 140), integers(generator, dtype, 140, 148)
    check(execution.bind(gemm_shared), (viewed(a, dtype), viewed(b, dtype)), (2, 2), multiplied(a, b, types.acc),
          **maps(256, 128, (8, 4), types))


def test_where_it_applies() -> None:
    """Both operands, of several subgroups each, by rows, of enough products to pay for a barrier a step."""
    for target, others in (("dg2", ("pvc", "cpu")), ("arl", ("bmg",))):
        assert is_shared(gemm_shared, *specs(), target=target, **maps(32, 32, (2, 2)))
        for other in others:
            assert not is_shared(gemm_shared, *specs(), target=other, **maps(32, 32, (2, 2)))
    for constants in (maps(16, 64, (1, 4)), maps(64, 16, (4, 1)), maps(32, 32, (1, 1)), maps(32, 16, (2, 2)),
                      maps(256, 256, (8, 4), bk=64)):  # one operand, none, few products, no room
        assert not is_shared(gemm_shared, *specs(), target="dg2", **constants)
    by_columns = [xt.Spec((4096, 4096), xt.bf16, (1, 4096)), *specs()[1:]]
    assert not is_shared(gemm_shared, *by_columns, target="dg2", **maps(32, 32, (2, 2)))
    assert not is_shared(gemm_shared, *specs(Types(xt.f32, xt.f32, xt.f32)), target="dg2", **maps(32, 32, (2, 2)))


@xt.kernel
def replacing(A: Any, B: Any, C: Any, *, BM: int = 32, BN: int = 32, BK: int = 32,
              sg: tuple[int, int] = (2, 2)) -> None:
    """A product whose steps each overwrite the rows of B that the next one multiplies."""
    map_a, map_b = xt.wg_map(sg, (BM // sg[0], BK)), xt.wg_map(sg, (BK, BN // sg[1]))
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    total = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for k in xt.range(0, A.shape[1], BK):
        a = xt.load_tile(xt.init_tile(A, (0, k), (BM, BK), wg_map=map_a))
        total = xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (k, 0), (BK, BN), wg_map=map_b)), total)
        xt.store_tile(xt.full((BK, BN), 2, B.dtype, wg_map=map_b), xt.init_tile(B, (k + BK, 0), (BK, BN), wg_map=map_b))
    xt.store_tile(total, xt.init_tile(C, (0, 0), (BM, BN), wg_map=map_c))


@pytest.mark.parametrize("execution", [NUMPY, XEGPU, DEVICE, MACHINE, Execution("opencl:cpu", "pvc")], ids=str)
def test_operands_that_a_step_stores(execution: Execution) -> None:
    """Subgroups store what they load in the next step: it is not loaded a step ahead."""
    generator = np.random.default_rng(3)
    a, b = unaligned(generator, xt.f16, 32, 96, 97, 1), unaligned(generator, xt.f16, 96, 32, 33, 1)
    c = np.full((32, 32), 7, np.float32)
    expected = a[:, :32].astype(float) @ b[:32] + 2 * a[:, 32:].sum(axis=1, dtype=float)[:, None]
    execution.bind(replacing)[1](a, b, c)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(b[32:], 2)


def test_equal_shares() -> None:
    """Shares take as few messages as possible; there are none if a subgroup would have no share of its own."""
    def share(shape: tuple[int, int], dtype: Any, side: str, subgroups: tuple[int, int]) -> tuple[int, int] | None:
        found = row_shares(shape, dtype, side, WgMap(subgroups, (8, 8)), DG2)
        assert found is None or found.subgroups == subgroups[0] * subgroups[1]
        return None if found is None else found.sg_data

    assert share((256, 32), xt.bf16, "a", (8, 4)) == (16, 16)
    assert share((32, 128), xt.bf16, "b", (8, 4)) == (4, 32)  # four rows, and four blocks of two registers
    assert share((64, 128), xt.i8, "b", (8, 4)) == (8, 32)
    assert share((128, 32), xt.bf16, "a", (8, 3)) is None
    assert share((16, 16), xt.bf16, "b", (8, 4)) is None
    assert share((32, 128), xt.f32, "b", (8, 4)) is None


@pytest.mark.parametrize("types", [BF16, I8], ids=str)
def test_the_loop_has_few_messages(types: Types) -> None:
    """By shares a step of the library's tile takes fewer messages than it has products, and spills nothing."""
    require_ocloc()
    constants = {"BM": 256, "BN": 128, "sg": (8, 4), "BK": 64 * 8 // types.a.bits, "acc": types.acc}
    low = work_group_gemm.lower(*specs(types), target="dg2", **constants)
    report = low.report(remedies=False)
    assert report.spill_size == report.private_size == 0
    assert report.loop["dpas"] == 32
    assert report.loop["load"] <= 24
    assert report.loop["vector"] <= 2 * report.loop["dpas"]
    assert report.density > 0.1


def test_operands_are_loaded_before_the_barrier() -> None:
    """The last operand is loaded, next to its products, before a subgroup says that its half may be overwritten."""
    text = gemm_shared.lower(*specs(), target="dg2", **maps(128, 128, (4, 4))).opencl
    body = text.split("  for (;")[1]
    wait, arrive = body.index("intel_work_group_barrier_wait"), body.index("intel_work_group_barrier_arrive")
    assert wait < body.index("store_slm") < body.index("load_slm") < body.index("matrix_mad") < body.rindex("load_slm")
    assert body.rindex("load_slm") < body.rindex("matrix_mad", 0, arrive) < arrive
