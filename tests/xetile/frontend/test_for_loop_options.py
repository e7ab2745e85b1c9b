"""Options for speed alone: barriers in a loop's steps, and the register mode."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution

SPECS = xt.Spec((None, None), xt.bf16), xt.Spec((None, None), xt.bf16), xt.Spec((None, None), xt.f32)


def gemm(A, B, C, *, period=None, unroll=None, BM=64, BN=128, BK=32, sg=(4, 4)):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    c = xt.zeros((BM, BN), xt.f32, wg_map=xt.wg_map(sg, (BM // sg[0], BN // sg[1])))
    for _ in xt.range(0, A.shape[1], BK, barrier=period, unroll=unroll):
        c = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), c)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(c, xt.init_tile(C, (m, n), (BM, BN), wg_map=xt.wg_map(sg, (BM // sg[0], BN // sg[1]))))


product = xt.kernel(gemm)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("options", [{"period": 1}, {"period": 2, "unroll": 3}], ids=str)
def test_no_result_depends_on_a_barrier(execution: Execution, options: dict[str, int]) -> None:
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, shape).astype(xt.bf16.numpy) for shape in ((70, 230), (230, 140)))
    c = np.zeros((70, 140), np.float32)
    execution.bind(product)[2, 2](a, b, c, **options)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("options", "steps", "barriers"), [
    ({"period": 1, "unroll": 1}, 1, 1), ({"period": 2, "unroll": 4}, 4, 2), ({"period": 4, "unroll": 1}, 4, 1),
], ids=str)
def test_barriers_are_in_the_machine_code(options: dict[str, int], steps: int, barriers: int) -> None:
    require_ocloc()
    low = product.lower(*SPECS, target="pvc", **options)
    report = low.report()
    assert report.loop["dpas"] == 8 * steps
    assert (report.spill_size, report.private_size) == (0, 0)
    assert low.opencl.count("intel_work_group_barrier_arrive(0)") >= barriers
    assert report.hot.opcodes["sync.bar"] == barriers


def test_the_register_mode_is_the_authors() -> None:
    require_ocloc()
    for asked, target in ((128, "pvc"), (256, "pvc"), (256, "bmg")):
        report = xt.kernel(gemm, registers=asked).lower(*SPECS, target=target).report()
        assert report.registers == asked
        assert report.spill_size == 0
    assert xt.kernel(gemm).lower(*SPECS, target="pvc").report().registers == 128
    text = xt.kernel(gemm, registers=256).lower(*SPECS, target="pvc").stages["blocking"]
    assert xt.parse(text)["gemm"].lower(*SPECS, target="pvc").report().registers == 256


def test_mistakes() -> None:
    big = xt.Spec((None, None), xt.bf16)
    for registers in (64, "many", True):
        with pytest.raises(xt.ShapeError, match="XT1005"):
            xt.kernel(gemm, registers=registers)  # type: ignore[arg-type]
    with pytest.raises(xt.TargetError, match="XT4050"):
        assert xt.kernel(gemm, registers=256).lower(*SPECS, target="pvc", BM=256, sg=(16, 4)).opencl
    with pytest.raises(xt.TargetError, match="XT4010"):
        xt.kernel(gemm, registers=128).lower(*SPECS, target="pvc", BM=128, BN=256).binary()
    for value, text in ((0, "XT1333"), (1.5, "XT1332")):
        with pytest.raises(xt.XeError, match=text):
            product.lower(*SPECS, period=value)

    @xt.kernel(subgroups=(4, 1))
    def separate(A):
        for _ in xt.range(0, xt.subgroup_id(0), 1, barrier=1):
            xt.prefetch_tile(xt.init_tile(A, (0, 0), (8, 16)))

    with pytest.raises(xt.TraceError, match="XT1486"):
        separate.lower(big)

