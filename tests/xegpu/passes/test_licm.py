"""Loops that make their tiles anew in each step are the same as those that move them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, LANES, NUMPY, Execution

pytestmark = pytest.mark.unoptimised
SG = (2, 2)


@xt.kernel
def product(A, B, C, *, BM=32, BN=64, BK=32, start=0, counted=False, ahead=2):
    """The product from column ``start`` of A on; K step by step, or by the number of the step."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    rows, columns = BM // SG[0], BN // SG[1]
    map_c = xt.wg_map(SG, (rows, columns))
    acc = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    steps = xt.range((A.shape[1] - start + BK - 1) // BK) if counted else xt.range(start, A.shape[1], BK)
    for step in steps:
        k = step * BK + start if counted else step
        xt.prefetch_tile(xt.init_tile(A, (m, k + ahead * BK), (BM, BK), wg_map=xt.wg_map((4, 1), (BM // 4, BK))))
        a = xt.init_tile(A, (m, k), (BM, BK), wg_map=xt.wg_map(SG, (rows, BK)))
        b = xt.init_tile(B, (k, n), (BK, BN), wg_map=xt.wg_map(SG, (BK, columns)))
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@pytest.mark.parametrize("execution", [NUMPY, LANES[0], *DEVICE], ids=str)
@pytest.mark.parametrize("constants", [{}, {"counted": True}, {"start": 16}, {"counted": True, "start": 96}], ids=str)
def test_the_result_is_right(execution: Execution, constants: dict[str, int]) -> None:
    """Also where the loop has no step at all."""
    generator = np.random.default_rng(3)
    a, b = (generator.integers(-8, 9, shape).astype(ml_dtypes.bfloat16) for shape in ((40, 80), (80, 72)))
    c = np.full((40, 72), 7, np.float32)
    execution.bind(product)[2, 2](a, b, c, **constants)
    start = constants.get("start", 0)
    np.testing.assert_array_equal(c, a[:, start:].astype(np.float32) @ b[start:].astype(np.float32))


@pytest.mark.parametrize("counted", [False, True])
def test_the_loop_is_as_if_tiles_were_moved(counted: bool) -> None:
    require_ocloc()
    matrices = [xt.Spec((None, None), dtype) for dtype in ("bf16", "bf16", "f32")]
    low = product.lower(*matrices, target="bmg", BM=64, BN=128, counted=counted)
    loop = low.stages["induction-variables"].split("scf.for")[1].split("scf.yield")[0]
    assert "create_nd_tdesc" not in loop
    assert "gpu.subgroup_id" not in loop
    report = low.report()
    assert (report.spill_size, report.unrolled, report.density > 0.75) == (0, 8, True)


@xt.kernel
def of_batch(A, B, C, *, BM=16, BN=16, BK=32):
    """Products of a batch's matrices, on tiles that the loop makes: of A transposed, a batch of one, and of B."""
    m, i = xt.group_id(0) * BM, xt.group_id(1)
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, B.shape[1], BK):
        a = xt.tile_transpose(xt.load_tile(xt.init_tile(A, (0, k, m), (BK, BM))))
        acc = xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (i, k, 0), (BK, BN))), acc)
    xt.store_tile(acc, xt.init_tile(C, (i, m, 0), (BM, BN)))


@pytest.mark.parametrize("execution", [NUMPY, LANES[0], *DEVICE, Execution("machine:dg2", "dg2"),
                                       Execution("machine:bmg", "bmg")], ids=str)
@pytest.mark.parametrize("depth", [75, 64])
def test_matrices_of_a_batch(execution: Execution, depth: int) -> None:
    """Also work-groups for which there is no such matrix: they read zeros of B, and store nothing."""
    rng = np.random.default_rng(depth)
    a, b = (rng.integers(-8, 9, shape).astype(ml_dtypes.bfloat16) for shape in ((1, depth, 24), (3, depth, 16)))
    c = np.full((4, 24, 16), 7, np.float32)
    execution.bind(of_batch)[2, 5](a, b, c)
    np.testing.assert_array_equal(c[:3], a[0].T.astype(np.float32) @ b.astype(np.float32))
    assert not c[3].any()


@pytest.mark.parametrize(("target", "divided"), [("dg2", True), ("bmg", True), ("pvc", False), ("cpu", False)])
def test_where_places_in_a_batch_are_divided(target: str, divided: bool) -> None:
    low = of_batch.lower(*[xt.Spec((None, None, None), dtype) for dtype in ("bf16", "bf16", "f32")], target=target)
    loop = low.stages["induction-variables" if not divided else "licm"].split("scf.for")[1].split("scf.yield")[0]
    assert ("create_nd_tdesc" not in loop) == divided
    assert ("peel-bounds" in low.stages) == (target == "dg2")


@xt.kernel
def sums(A, R, C, *, BM=16, BN=32, BK=32, one=1.0, to=xt.f32):
    """Sums of the rows and of the columns of A, by products with a number: R = A @ one, C = one @ A."""
    m = xt.group_id(0) * BM
    right, left = xt.full((BK, 16), one, A.dtype), xt.full((8, BM), one, A.dtype)
    rows, columns = xt.zeros((BM, 16), to), xt.zeros((8, BN), to)
    for k in xt.range(0, A.shape[1], BK):
        rows = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (BM, BK))), right, rows)
        columns = xt.tile_mma(left, xt.load_tile(xt.init_tile(A, (k, m), (BM, BN))), columns)
    xt.store_tile(rows, xt.init_tile(R, (m, 0), (BM, 16)))
    xt.store_tile(columns, xt.init_tile(C, (8 * xt.group_id(0), 0), (8, BN)))


@pytest.mark.parametrize("execution", [NUMPY, LANES[0], *DEVICE], ids=str)
@pytest.mark.parametrize(("dtype", "one", "depth"), [
    (xt.bf16, 1.0, 16), (xt.f16, 0.75, 16), (xt.i8, -3, 32)], ids=["bf16", "f16", "i8"])
def test_operands_of_one_number(execution: Execution, dtype: Any, one: Any, depth: int) -> None:
    to = xt.i32 if dtype is xt.i8 else xt.f32
    a = np.random.default_rng(4).integers(-8, 9, (30, 75)).astype(dtype.numpy)
    r, c = np.full((32, 16), 7, to.numpy), np.full((16, 32), 7, to.numpy)
    execution.bind(sums)[2](a, r, c, one=one, to=to, BM=depth, BN=32)
    whole = np.zeros((128, 128), np.float64)
    whole[:30, :75] = a
    steps = range(0, 75, 32)
    for m in range(0, 32, depth):
        np.testing.assert_array_equal(r[m:m + depth], np.repeat(whole[m:m + depth].sum(1)[:, None] * one, 16, 1))
    for group in range(32 // depth):
        expected = sum(whole[k:k + depth, group * depth:group * depth + 32].sum(0) for k in steps) * one
        np.testing.assert_array_equal(c[8 * group:8 * group + 8], np.repeat(expected[None], 8, 0))


@pytest.mark.parametrize(("target", "dtype"), [("pvc", xt.bf16), ("bmg", xt.f16)], ids=str)
def test_operands_of_one_number_are_in_registers_before_the_loop(target: str, dtype: Any) -> None:
    require_ocloc()
    low = sums.lower(xt.Spec((None, None), dtype), *[xt.Spec((None, None), xt.f32)] * 2, target=target)
    loop = low.stages["licm"].split("scf.for")[1].split("scf.yield")[0]
    assert "vector.broadcast" not in loop
    report = low.report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] == report.unrolled * (2 * 2 + 2)
    assert report.loop.get("vector", 0) <= 4 * report.unrolled  # eight for each operand where it is made anew
