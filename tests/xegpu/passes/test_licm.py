"""Loops that make their tiles anew in each step are the same as those that move them."""

from __future__ import annotations

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
