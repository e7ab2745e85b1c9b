"""Machine code of the product kernels: the dpas, the block messages, and nothing kept in memory."""

from __future__ import annotations

import pytest

import xetile as xt
from codegen.opencl.kernel import LARGE_GRF
from tests.conftest import require_ocloc
from xetile.compiler.compiled import CompiledKernel
from xetile.compiler.report import Report

BLOCK_IO = tuple(target.name for target in xt.TARGETS.values() if target.block_io)
WORK_GROUP = {"BM": 256, "BN": 256, "sg": (8, 4)}  # 32x64 a subgroup
SMALL_WORK_GROUP = {"BM": 128, "BN": 128, "sg": (8, 4)}  # 16x32 a subgroup
# A, B, accumulator and C, K step: one subgroup's step is 32 dpas on 32x64
TYPES = [
    ("bf16", "bf16", "f32", 32),
    ("f16", "f16", "f32", 32),
    ("f16", "f16", "f16", 32),
    ("bf16", "bf16", "bf16", 32),
    ("tf32", "tf32", "f32", 16),
    ("i8", "i8", "i32", 64),
    ("u8", "i8", "i32", 64),
    ("i8", "u8", "i32", 64),
    ("u8", "u8", "i32", 64),
]


@xt.kernel
def gemm(A, B, C, *, BM=256, BN=256, BK=32, sg=(8, 4), ahead=3, acc_type=xt.f32):
    """The product at work-group level, prefetched by all subgroups together."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_a = xt.wg_map(sg_layout=sg, sg_data=(BM // sg[0], BK))
    map_b = xt.wg_map(sg_layout=sg, sg_data=(BK, BN // sg[1]))
    map_c = xt.wg_map(sg_layout=sg, sg_data=(BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=map_a)
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=map_b)
    pa = xt.init_tile(A, (m, ahead * BK), (BM, BK), wg_map=xt.wg_map((32, 1), (BM // 32, BK)))
    pb = xt.init_tile(B, (ahead * BK, n), (BK, BN), wg_map=xt.wg_map((4, 8), (BK // 4, BN // 8)))
    acc = xt.zeros((BM, BN), acc_type, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        xt.prefetch_tile(pa); xt.prefetch_tile(pb)
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, pa = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(pa, 0, BK)
        b, pb = xt.update_tile_offset(b, BK, 0), xt.update_tile_offset(pb, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@xt.kernel
def subgroup_gemm(A, B, C, *, BM=32, BN=64, BK=32, acc_type=xt.f32):
    """The product at subgroup level: one subgroup a work-group."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (m, 0), (BM, BK))
    b = xt.init_tile(B, (0, n), (BK, BN))
    acc = xt.zeros((BM, BN), acc_type)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


def lowered(kernel, target: str, types=("bf16", "bf16", "f32"), strides=None, **constants) -> CompiledKernel:
    """A kernel on 4096x4096 arrays, or on arrays of unknown size with ``strides``."""
    require_ocloc()
    shape = (4096, 4096) if strides is None else (None, None)
    arrays = [xt.Spec(shape, dtype, strides) for dtype in types]
    return kernel.lower(*arrays, target=target, acc_type=getattr(xt, types[2]), **constants)


def least(target: str, a: str, c: str) -> float:
    """The density that the best kernels written by hand have (on the two devices that they were counted for)."""
    if target == "pvc":
        return {"tf32": 0.52, "i8": 0.58, "u8": 0.58}.get(a, 0.60)
    return {"tf32": 0.70, "i8": 0.72, "u8": 0.72}.get(a, 0.79 if c == "f32" else 0.76)


def clean(report: Report) -> Report:
    """The report, once it is sure that nothing lives in memory for lack of registers."""
    assert (report.spill_size, report.private_size, report.mix.whole.categories["scratch"]) == (0, 0, 0)
    return report


def counts(report: Report, *kinds: str) -> list[int]:
    """Instructions of these kinds in the hot loop, for one of the steps that stand in it."""
    steps = report.unrolled or 1
    assert all(report.loop.get(kind, 0) % steps == 0 for kind in kinds)
    return [report.loop.get(kind, 0) // steps for kind in kinds]


@pytest.mark.parametrize("target", BLOCK_IO)
@pytest.mark.parametrize(("a", "b", "c", "step"), TYPES, ids=lambda value: str(value))
def test_the_work_group_product(target: str, a: str, b: str, c: str, step: int) -> None:
    report = clean(lowered(gemm, target, (a, b, c), BK=step, **WORK_GROUP).report())
    # tf32 takes a message of 8 columns for A, and has none of more than one block for B
    loads, prefetches = (5, 3) if a == "tf32" else (3, 2)
    assert counts(report, "dpas", "load_block2d", "prefetch", "load") == [32, loads, prefetches, 0]
    assert report.mix.whole.categories["store_block2d"] == 16
    assert report.registers == 256
    assert report.unrolled == (1 if target == "pvc" else 4 if a == "tf32" else 8)
    assert report.density >= least(target, a, c)


@pytest.mark.parametrize("target", BLOCK_IO)
@pytest.mark.parametrize(("a", "b", "c", "step"), [TYPES[0], TYPES[4], TYPES[5]], ids=lambda value: str(value))
def test_the_subgroup_product(target: str, a: str, b: str, c: str, step: int) -> None:
    report = clean(lowered(subgroup_gemm, target, (a, b, c), BK=step).report())
    assert counts(report, "dpas", "load_block2d", "prefetch", "load") == [32, 5 if a == "tf32" else 3, 0, 0]
    assert report.mix.whole.categories["store_block2d"] == 16


@pytest.mark.parametrize("target", ["dg2", "arl"])
@pytest.mark.parametrize(("a", "c", "step"), [("bf16", "f32", 32), ("f16", "f32", 32), ("i8", "i32", 64)])
@pytest.mark.parametrize("kernel", [gemm, subgroup_gemm], ids=["work-group", "subgroup"])
def test_without_block_io_the_dpas_are_there(kernel, target: str, a: str, c: str, step: int) -> None:
    tile = SMALL_WORK_GROUP if kernel is gemm else {"BM": 16, "BN": 32}
    report = clean(lowered(kernel, target, (a, a, c), BK=step, **tile).report())
    assert counts(report, "dpas", "load_block2d") == [16, 0]


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_f32_is_multiplied_and_added(target: str) -> None:
    report = clean(lowered(gemm, target, ("f32", "f32", "f32"), BK=16, **SMALL_WORK_GROUP).report())
    lanes = 8 if target == "dg2" else 16
    assert report.loop.get("dpas", 0) == 0
    assert sum(n for opcode, n in report.mix.loop.opcodes.items() if opcode.startswith("mad")) >= 16 * 32 * 16 // lanes


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_the_register_mode_follows_the_tile(target: str) -> None:
    small, large = lowered(gemm, target, **SMALL_WORK_GROUP), lowered(gemm, target, **WORK_GROUP)
    assert (small.emitted.options, large.emitted.options) == ("", LARGE_GRF)
    assert clean(small.report()).registers == 128
    assert clean(large.report()).registers == 256


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("a", "b", "c", "step"), [TYPES[0], TYPES[2], TYPES[4], TYPES[6]], ids=lambda v: str(v))
@pytest.mark.parametrize("strides", [(4099, 1), (8198, 2)], ids=["rows", "strided"])
def test_arrays_that_block_io_may_not_read(target: str, a: str, b: str, c: str, step: int, strides) -> None:
    report = clean(lowered(gemm, target, (a, b, c), strides, BK=step, **SMALL_WORK_GROUP).report())
    assert counts(report, "dpas", "load_block2d") == [8, 0]
    assert report.mix.whole.categories["store_block2d"] == 0


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_narrow_arrays(target: str) -> None:
    require_ocloc()
    narrow = xt.Spec((64, 26), "bf16", (26, 1))  # 52 bytes a row
    low = gemm.lower(narrow, xt.Spec((26, 64), "bf16"), xt.Spec((64, 64), "f32"), target=target, **SMALL_WORK_GROUP)
    report = clean(low.report())
    assert low.access == ("rows", "block", "block")
    assert counts(report, "dpas", "load_block2d") == [8, 1]


def test_rows_on_four_byte_boundaries_are_read_whole() -> None:
    """One message for a row of a block, where single elements would take one for each word."""
    low = lowered(gemm, "dg2", **SMALL_WORK_GROUP)
    # One of the 32 subgroups loads a share of each operand, 1 / 32 of 128 x 32 and of 32 x 128 elements of 16 bits.
    assert low.opencl.count("intel_sub_group_block_read(") == 8  # A: a function that reads 8 rows of 32 bytes
    assert low.opencl.count("intel_sub_group_block_read_us4(") == 4  # B: 4 rows of 64 bytes
    report = low.report()
    assert counts(report, "dpas", "load") == [16, 12]
    assert (report.spill_size, report.hot.total < 200) == (0, True)


def test_the_report_prints_what_it_knows() -> None:
    text = str(lowered(gemm, "bmg", **WORK_GROUP).report())
    assert "registers" in text
    assert "spill" in text
    assert "dpas" in text
