"""Barriers and fences: what they become, what they wait for, and what passes over them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xetile as xt
from codegen.opencl.sync import communicated_memory
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, integers, tiles


@xt.kernel
def two_levels(A, B, C, *, BM=256, BN=256, BK=32, sg=(8, 4), every=4, parts=((32, 1), (16, 2), (4, 8))):
    """The product with two cache levels (XeTile.md, Appendix 2.5): every fourth step fetches far ahead, together."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    far, near = every * BK, 3 * BK
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a2 = xt.init_tile(A, (m, far), (BM, far), wg_map=xt.wg_map(parts[0], (BM // parts[0][0], far)))
    b2 = xt.init_tile(B, (far, n), (far, BN), wg_map=xt.wg_map(parts[1], (far // parts[1][0], BN // parts[1][1])))
    a1 = xt.init_tile(A, (m, near), (BM, BK), wg_map=xt.wg_map(parts[0], (BM // parts[0][0], BK)))
    b1 = xt.init_tile(B, (near, n), (BK, BN), wg_map=xt.wg_map(parts[2], (BK // parts[2][0], BN // parts[2][1])))
    acc = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for k in xt.range(0, A.shape[1], BK):
        rows, columns = xt.load_tile(a), xt.load_tile(b)
        with xt.when(k % far == 0):
            xt.barrier()
            xt.prefetch_tile(a2, locality=2)
            xt.prefetch_tile(b2, locality=2)
            a2, b2 = xt.update_tile_offset(a2, 0, far), xt.update_tile_offset(b2, far, 0)
        xt.prefetch_tile(a1)
        xt.prefetch_tile(b1)
        a1, a = xt.update_tile_offset(a1, 0, BK), xt.update_tile_offset(a, 0, BK)
        b1, b = xt.update_tile_offset(b1, BK, 0), xt.update_tile_offset(b, BK, 0)
        acc = xt.tile_mma(rows, columns, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


SMALL = {"BM": 32, "BN": 64, "sg": (2, 2), "parts": ((4, 1), (2, 2), (2, 2))}


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_two_cache_levels(execution: Execution) -> None:
    rng = np.random.default_rng(5)
    a, b = integers(rng, xt.bf16, 72, 320), integers(rng, xt.bf16, 320, 136)
    c = np.full((72, 136), 77, np.float32)
    execution.bind(two_levels)[tiles(72, 32), tiles(136, 64)](a, b, c, **SMALL)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_two_cache_levels_in_machine_code(target: str) -> None:
    require_ocloc()
    specs = [xt.Spec((4096, 4096), "bf16")] * 2 + [xt.Spec((4096, 4096), "f32")]
    low = two_levels.lower(*specs, target=target)
    report, asm = low.report(), str(low.isa())
    assert (report.spill_size, report.private_size) == (0, 0)
    assert (report.loop["dpas"], report.loop["load_block2d"], report.loop["prefetch"]) == (32, 3, 10)
    assert asm.count("sync.bar") == 1
    assert "fence" not in asm  # nothing is handed over in memory
    assert "goto" not in asm


def test_where_nothing_is_prefetched_the_condition_stays_for_its_barrier() -> None:
    specs = [xt.Spec((4096, 4096), "bf16")] * 2 + [xt.Spec((4096, 4096), "f32")]
    text = two_levels.lower(*specs, target="dg2", **SMALL).opencl
    assert len(re.findall(r"\bif \(v\d+\) \{\n[^\n]*\n\s+barrier\(0\);", text)) == 1


@xt.kernel
def fetching(A, C, n):
    """Prefetches every other tile; that is all that its condition does."""
    ahead, total = xt.init_tile(A, (0, 0), (8, 16)), xt.zeros((8, 16), xt.f32)
    for k in xt.range(n):
        with xt.when(k % 2 == 0):
            xt.prefetch_tile(ahead)
        total = total + xt.load_tile(xt.init_tile(A, (k * 8, 0), (8, 16)))
    xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))


def test_a_condition_without_effect_goes() -> None:
    specs = [xt.Spec((None, None), "f32")] * 2
    assert "if (v" in fetching.lower(*specs, 4, target="pvc").opencl
    assert "if (v" not in fetching.lower(*specs, 4, target="dg2").opencl


@xt.kernel(subgroups=(2, 2))
def passed_on(A, C, n):
    """Each subgroup writes a tile to C, and then adds to another one what its neighbours wrote, twice over."""
    mine, top = xt.subgroup_id(), xt.group_id(0) * 64
    xt.store_tile(xt.load_tile(xt.init_tile(A, (top + mine * 8, 0), (8, 16))),
                  xt.init_tile(C, (top + mine * 8, 0), (8, 16)))
    with xt.when(n > 0):
        xt.barrier()
        total = xt.zeros((8, 16), xt.f32)
        for k in xt.range(4):
            total = total + xt.load_tile(xt.init_tile(C, (top + k * 8, 0), (8, 16))) * (k + mine).to(xt.f32)
        xt.barrier()
        xt.store_tile(total, xt.init_tile(C, (top + 32 + mine * 8, 0), (8, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_what_is_written_is_seen_behind_a_barrier(execution: Execution) -> None:
    rng = np.random.default_rng(6)
    a = integers(rng, xt.f32, 192, 16)
    for n in (0, 1):
        c = np.zeros((192, 16), np.float32)
        execution.bind(passed_on)[3](a, c, n)
        wanted = np.zeros((3, 8, 8, 16), np.float32)
        wanted[:, :4] = a.reshape(3, 8, 8, 16)[:, :4]
        for mine in range(4 * n):
            wanted[:, 4 + mine] = sum(wanted[:, k] * (k + mine) for k in range(4))
        np.testing.assert_array_equal(c, wanted.reshape(192, 16))


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_a_barrier_waits_for_memory_that_is_handed_over(target: str) -> None:
    require_ocloc()
    low = passed_on.lower(xt.Spec((192, 16), "f32"), xt.Spec((192, 16), "f32"), 1, target=target)
    asm = str(low.isa())
    assert low.opencl.count("barrier(CLK_GLOBAL_MEM_FENCE);") == 2
    assert (asm.count("fence.ugm"), asm.count("fence.slm"), asm.count("sync.bar")) == (2, 0, 2)


def test_shared_local_memory_is_waited_for() -> None:
    text = """
    func.func @k(%A: memref<?x?xf32, strided<[?, ?]>>) {
      %s = "memref.alloc"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<8x16xf32, 3 : i64>
      "gpu.barrier"() : () -> ()
      func.return
    }
    """
    kernel = xt.parse(text)["k"]
    low = kernel.lower(xt.Spec((None, None), "f32"))
    assert communicated_memory(low.function) == ["shared"]


@xt.kernel
def fenced(A, C):
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), xt.init_tile(C, (0, 0), (8, 16)))
    xt.fence("system", "global")
    xt.fence("gpu", "global")
    xt.fence("workgroup", "global")
    xt.fence()
    xt.barrier()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_fences(execution: Execution) -> None:
    a, c = integers(np.random.default_rng(7), xt.f32, 8, 16), np.zeros((8, 16), np.float32)
    execution.bind(fenced)[1](a, c)
    np.testing.assert_array_equal(c, a)


@pytest.mark.parametrize(("target", "whole"), [("pvc", "fence.ugm.invalidate.gpu"), ("bmg", "fence.ugm.invalidate.gpu"),
                                               ("dg2", "fence.ugm.evict.tile")])
def test_fences_in_machine_code(target: str, whole: str) -> None:
    require_ocloc()
    low = fenced.lower(xt.Spec((8, 16), "f32"), xt.Spec((8, 16), "f32"), target=target)
    asm = str(low.isa())
    assert re.findall(r"fence\.\w+\.\w+\.\w+", asm) == [
        whole, whole, "fence.ugm.none.group", "fence.slm.none.group"]  # the compiler has one for the system and the GPU
    assert low.opencl.count("barrier(0);") == 1


@pytest.mark.parametrize("target", ["pvc", "dg2"])
@pytest.mark.parametrize("kernel", [fenced, passed_on], ids=lambda kernel: kernel.name)
def test_every_stage_reads_back(kernel, target: str) -> None:
    arguments = (xt.Spec((None, None), "f32"),) * 2 + ((1,) if kernel is passed_on else ())
    low = kernel.lower(*arguments, target=target)
    for name, text in low.stages.items():
        assert str(xt.parse(text)) == text, name
    if kernel is fenced:
        assert 'xegpu.fence {scope = "gpu", memory_kind = "global"}' in low.xegpu
        assert 'xegpu.fence {scope = "system", memory_kind = "global"}' in low.xegpu
        assert 'xegpu.fence {scope = "workgroup", memory_kind = "shared"}' in low.xetile


def test_a_number_that_is_read_behind_a_barrier_is_waited_for() -> None:
    """``load_scalar`` reads memory, as a tile's load does."""
    @xt.kernel
    def publish(T, C):
        xt.store_tile(xt.zeros((8, 16), xt.i32), xt.init_tile(T, (0, 0), (8, 16)))
        xt.barrier()
        row = xt.load_scalar(T, (0, 0)).to(xt.index)
        xt.store_tile(xt.zeros((8, 16), xt.i32), xt.init_tile(C, (row, 0), (8, 16)))

    low = publish.lower(xt.Spec((8, 16), xt.i32), xt.Spec((64, 16), xt.i32), target="pvc", subgroups=(2, 1))
    assert low.opencl.count("barrier(CLK_GLOBAL_MEM_FENCE);") == 1
