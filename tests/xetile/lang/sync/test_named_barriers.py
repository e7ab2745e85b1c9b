"""Named barriers: producers and consumers, some subgroups, all of them; what they become, and what is refused."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.code_snapshot.kernels import named_barriers
from codegen.toolchain.ocloc import compile_device, disassemble
from tests.conftest import require_mlir_opt, require_ocloc, require_simulator
from tests.kernels import EXECUTIONS, Execution, integers

MATRIX = xt.Spec((None, None), "f32")


@xt.kernel(subgroups=(2, 1))
def handed_on(A, C, n):
    """The same in one slot, with barriers that all subgroups come by."""
    mine, top = xt.subgroup_id(), xt.group_id(0) * n * 8
    memory = xt.alloc_slm((8, 16), xt.f32)
    full, empty, slot = xt.nbarrier(0, 2), xt.nbarrier(1, 2), xt.init_tile(memory, (0, 0), (8, 16))
    for k in xt.range(n):
        with xt.when(mine == 0):
            xt.store_tile(xt.load_tile(xt.init_tile(A, (top + k * 8, 0), (8, 16))), slot)
        full.arrive()
        full.wait()
        with xt.when(mine == 1):
            xt.store_tile(xt.load_tile(slot) * 2 + 1, xt.init_tile(C, (top + k * 8, 0), (8, 16)))
        empty.arrive()
        empty.wait()


@xt.kernel(subgroups=(4, 1))
def pairs(A, C):
    """Subgroups 0 and 1 exchange their tiles, and so do 2 and 3: each pair has a barrier of its own."""
    mine, top = xt.subgroup_id(), xt.group_id(0) * 32
    memory, barrier = xt.alloc_slm((32, 16), xt.f32), xt.nbarrier(mine // 2, 2)
    tile = xt.load_tile(xt.init_tile(A, (top + mine * 8, 0), (8, 16)))
    xt.store_tile(tile, xt.init_tile(memory, (mine * 8, 0), (8, 16)))
    barrier.arrive()
    tile = tile * 3
    barrier.wait()
    other = mine + 1 - mine % 2 * 2
    tile = tile + xt.load_tile(xt.init_tile(memory, (other * 8, 0), (8, 16)))
    xt.store_tile(tile, xt.init_tile(C, (top + mine * 8, 0), (8, 16)))


@xt.kernel(subgroups=(2, 1))
def one_way(A, C, n):
    """The ring, where who has filled a slot only arrives and who needs it only waits; the other way it is emptied."""
    mine, top = xt.subgroup_id(), xt.group_id(0) * n * 8
    memory = xt.alloc_slm((8, 16), xt.f32)
    full, empty, slot = xt.nbarrier(0, 2), xt.nbarrier(1, 2), xt.init_tile(memory, (0, 0), (8, 16))
    with xt.when(mine == 0):
        for k in xt.range(n):
            xt.store_tile(xt.load_tile(xt.init_tile(A, (top + k * 8, 0), (8, 16))), slot)
            full.arrive()
            empty.wait()
    with xt.otherwise():
        for k in xt.range(n):
            full.wait()
            tile = xt.load_tile(slot)
            empty.arrive()
            xt.store_tile(tile * 2 + 1, xt.init_tile(C, (top + k * 8, 0), (8, 16)))


@xt.kernel(subgroups=(4, 1))
def collected(A, C, *, producers=3, rounds=1, takes=3):
    """Subgroups 0 to 2 hand a tile each to subgroup 3."""
    mine = xt.subgroup_id()
    memory, done = xt.alloc_slm((24, 16), xt.f32), xt.nbarrier(5, 4, producers=producers)
    with xt.when(mine < takes):
        tile = xt.load_tile(xt.init_tile(A, (mine * 8, 0), (8, 16)))
        xt.store_tile(tile, xt.init_tile(memory, (mine * 8, 0), (8, 16)))
        for _ in range(rounds):
            done.arrive()
    with xt.otherwise():
        done.wait()
        parts = [xt.load_tile(xt.init_tile(memory, (8 * i, 0), (8, 16))) for i in range(3)]
        xt.store_tile(parts[0] - parts[1] * 2 + parts[2] * 3, xt.init_tile(C, (0, 0), (8, 16)))


def check(kernel: Any, *numbers: int) -> None:
    a = integers(np.random.default_rng(3), xt.f32, 96, 16)
    c = np.full((98, 16), 7, np.float32)
    kernel(a, c[1:-1], *numbers)
    swapped = a.reshape(6, 2, 8, 16)[:, ::-1].reshape(96, 16)
    np.testing.assert_array_equal(c[1:-1], a * 2 + 1 if numbers else a * 3 + swapped)
    np.testing.assert_array_equal(c[[0, -1]], np.full((2, 16), 7, np.float32))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_barriers_that_all_subgroups_come_by(execution: Execution) -> None:
    check(execution.bind(handed_on)[3], 4)
    check(execution.bind(pairs)[3])


@pytest.mark.parametrize("execution", [execution for execution in EXECUTIONS if execution.where.startswith("numpy")],
                         ids=str)
def test_a_ring_between_two_subgroups(execution: Execution) -> None:
    if execution.target in ("dg2", "cpu"):
        with pytest.raises(xt.XeError, match="XT1481"):
            check(execution.bind(named_barriers)[2], 3)
    else:
        check(execution.bind(named_barriers)[2], 3)


@pytest.mark.parametrize("gpu", ["pvc", "bmg"])
def test_rings_and_one_way_barriers_as_machine_code(gpu: str) -> None:
    """With all checks: a race in shared memory would be a finding."""
    require_simulator()
    where = f"machine:{gpu}"
    check(named_barriers.on(where, check=True)[2], 3)
    check(one_way.on(where, check=True)[3], 4)
    a, c = integers(np.random.default_rng(3), xt.f32, 24, 16), np.full((10, 16), 7, np.float32)
    collected.on(where, check=True)[1](a, c[1:-1])
    np.testing.assert_array_equal(c[1:-1], a[:8] - a[8:16] * 2 + a[16:] * 3)
    with pytest.raises(xt.CheckError, match=r"XT610[67]"):
        collected.on(where)[1](a, c[1:-1], takes=2)


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_producers_that_only_arrive_and_consumers_that_only_wait(where: str) -> None:
    check(one_way.on(where, target="pvc")[3], 4)
    a, c = integers(np.random.default_rng(3), xt.f32, 24, 16), np.full((10, 16), 7, np.float32)
    collected.on(where, target="pvc")[1](a, c[1:-1])
    np.testing.assert_array_equal(c[1:-1], a[:8] - a[8:16] * 2 + a[16:] * 3)
    np.testing.assert_array_equal(c[[0, -1]], np.full((2, 16), 7, np.float32))
    for wrong, message in (({"rounds": 2}, "XT1484"),
                           ({"takes": 2}, "XT1485"),
                           ({"producers": 2}, "XT1485")):
        with pytest.raises(xt.XeError, match=message):
            collected.on(where, target="pvc")[1](a, c[1:-1], **wrong)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_sides_in_machine_code(target: str) -> None:
    """A signal's payload: consumers and producers (8 bits each), side, id. Consumers signal, too, and then wait."""
    require_ocloc()
    low = collected.lower(MATRIX, MATRIX, target=target)
    for name, text in low.stages.items():
        assert str(xt.parse(text)) == text, name
    asm = str(low.isa())
    written = re.findall(r"mov \(1\|M0\)\s+r\d+\.2<1>:(?:f|ud)\s+([^\s:r]+):", asm)  # as a float, or its bits
    payloads = [int(text, 16) if "x" in text else int(np.float32(text).view(np.uint32)) for text in written]
    assert sorted(payloads) == [1 << 24 | 3 << 16 | side << 14 | 6 for side in (1, 2)]
    assert (asm.count("signal barrier"), re.findall(r"sync\.bar\s+(\w+)", asm)) == (2, ["0x6"])
    with pytest.raises(xt.XeError, match="dg2 has no named barriers"):
        str(collected.lower(MATRIX, MATRIX, target="dg2").xegpu)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_named_barriers_in_machine_code(target: str) -> None:
    require_ocloc()
    asm = str(named_barriers.lower(MATRIX, MATRIX, 4, target=target).isa())
    assert re.findall(r"sync\.bar\s+(\w+)", asm) == ["0x1", "0x2", "0x3", "0x4"] * 2
    assert (asm.count("signal barrier"), asm.count("fence.slm"), asm.count("fence.ugm")) == (8, 16, 0)
    asm = str(pairs.lower(MATRIX, MATRIX, target=target).isa())  # the id is known at run time
    assert re.findall(r"sync\.bar\s+(\w+)", asm) in (["f0"], ["f1"])


def test_named_barriers_by_way_of_sycl() -> None:
    require_ocloc()
    low = named_barriers.lower(MATRIX, MATRIX, 4, target="pvc")
    asm = str(disassemble(compile_device(low.spirv("sycl"), "pvc", spirv=True)))
    assert sorted(re.findall(r"sync\.bar\s+(\w+)", asm)) == sorted(["0x1", "0x2", "0x3", "0x4"] * 2)


@xt.kernel
def together(A, B, C, *, K=32):
    """A product whose subgroups wait for each other at every step; the step hides the time."""
    map_c, meeting = xt.wg_map((4, 2), (16, 32)), xt.nbarrier(0, 8)
    a = xt.init_tile(A, (xt.group_id(0) * 64, 0), (64, K), wg_map=xt.wg_map((4, 2), (16, K)))
    b = xt.init_tile(B, (0, 0), (K, 64), wg_map=xt.wg_map((4, 2), (K, 32)))
    acc = xt.zeros((64, 64), xt.f32, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], K):
        meeting.arrive()
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, K), xt.update_tile_offset(b, K, 0)
        meeting.wait()
    xt.store_tile(acc, xt.init_tile(C, (xt.group_id(0) * 64, 0), (64, 64), wg_map=map_c))


def test_a_split_barrier_in_a_product() -> None:
    require_ocloc()
    bf16 = xt.Spec((None, None), "bf16")
    low = together.lower(bf16, bf16, MATRIX, target="pvc")
    asm = str(low.isa())
    assert (asm.count("signal barrier"), asm.count("sync.bar"), asm.count("fence.")) == (1, 1, 0)
    assert low.report().loop["dpas"] == 8
    rng = np.random.default_rng(8)
    a, b = integers(rng, xt.bf16, 70, 72), integers(rng, xt.bf16, 72, 64)
    for where, target in (("numpy", "pvc"), ("numpy:xegpu", "bmg"), ("opencl:cpu", "pvc")):
        c = np.full((70, 64), 7, np.float32)
        Execution(where, target).bind(together)[2](a, b, c)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("kernel", "target", "count"), [(handed_on, "pvc", 2), (handed_on, "bmg", 2),
                                                         (pairs, "dg2", 1)], ids=lambda x: getattr(x, "name", x))
def test_what_all_come_by_is_a_split_barrier(kernel: Any, target: str, count: int) -> None:
    require_ocloc()
    low = kernel.lower(MATRIX, MATRIX, *[4] * (kernel is handed_on), target=target)
    assert low.opencl.count("intel_work_group_barrier_arrive(CLK_LOCAL_MEM_FENCE);") == count
    asm = str(low.isa())
    assert (asm.count("signal barrier"), len(re.findall(r"sync\.bar\s+(?:0x0|null)", asm))) == (count, count)


@xt.kernel(subgroups=(2, 1))
def crossing(A):
    """Two barriers that are open at once: the hardware has one barrier of the whole work-group."""
    one, two = xt.nbarrier(0, 2), xt.nbarrier(30, 2)
    one.arrive()
    two.arrive()
    one.wait()
    two.wait()
    xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(A, (xt.subgroup_id() * 8, 0), (8, 16)))


def test_two_open_barriers_are_named() -> None:
    require_ocloc()
    asm = str(crossing.lower(MATRIX, target="pvc").isa())
    assert re.findall(r"sync\.bar\s+(\w+)", asm) == ["0x1", "0x1F"]
    with pytest.raises(xt.XeError, match="dg2 has one barrier"):
        str(crossing.lower(MATRIX, target="dg2").xegpu)


@xt.kernel(subgroups=(3, 1))
def stuck(A):
    """Three subgroups, two and one of which have a barrier of two."""
    barrier = xt.nbarrier(xt.subgroup_id() // 2, 2)
    barrier.arrive()
    barrier.wait()
    xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(A, (0, 0), (8, 16)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_numpy_sees_that_no_one_goes_on(where: str) -> None:
    with pytest.raises(xt.XeError, match="XT1483"):
        stuck.on(where)[1](np.zeros((8, 16), np.float32))


def _wrong(name: str) -> Any:
    @xt.kernel(subgroups=(2, 1))
    def kernel(A):
        producers = {"all produce": 2, "half": 0.5, "not apart": 1, "one side": 1}.get(name)
        barrier = xt.nbarrier(31 if name == "id" else 0, {"many": 3, "few": 1, "none": 0, "float": 1.5}.get(name, 2),
                              producers=producers)
        if name == "one side":
            with xt.when(xt.subgroup_id() == 0):
                barrier.arrive()
            return
        if name == "other":
            xt.nbarrier(0, 1).arrive()
        if name != "unarrived":
            barrier.arrive()
        if name == "twice":
            barrier.arrive()
        if name == "branch":
            with xt.when(xt.subgroup_id() == 0):
                barrier.wait()
        if name == "loop":
            for _ in xt.range(3):
                barrier.wait()
        if name != "left":
            barrier.wait()
        xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(A, (0, 0), (8, 16)))

    return kernel


@pytest.mark.parametrize(("name", "code"), [
    ("id", "XT3356"),
    ("many", "XT1470"),
    ("none", "XT3358"),
    ("float", "XT1460"),
    ("other", "XT1471"),
    ("unarrived", "XT1479"),
    ("twice", "XT1478"),
    ("branch", "XT1480"),
    ("loop", "XT1480"),
    ("few", "XT1476"),
    ("all produce", "XT3359"),
    ("half", "XT1460"),
    ("not apart", "XT1474"),
    ("one side", "XT1475"),
    ("left", "XT1477"),
])
def test_wrong_uses(name: str, code: str) -> None:
    with pytest.raises(xt.XeError) as caught:
        _wrong(name).lower(MATRIX)
    assert caught.value.code == code


SEED = """
func.func @k(%A: memref<16x16xf32>, %C: memref<16x16xf32>) attributes {xegpu.subgroups = [2, 1]} {
  %two = arith.constant 2 : i8
  %one = arith.constant 1 : i8
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  xegpu.alloc_nbarrier %two : i8
  %barrier = xegpu.init_nbarrier %one, %two : i8, i8 into nbarrier
  %mine = "gpu.subgroup_id"() : () -> index
  %top = arith.muli %mine, %c8 : index
  %from = xegpu.create_nd_tdesc %A, [%top, %c0] : memref<16x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  %to = xegpu.create_nd_tdesc %C, [%top, %c0] : memref<16x16xf32> -> !xegpu.tensor_desc<8x16xf32>
  %x = xegpu.load_nd %from : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  xegpu.nbarrier_arrive %barrier
  xegpu.nbarrier_wait %barrier
  xegpu.store_nd %x, %to : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}
"""


def test_the_seeds_text() -> None:
    module = xt.parse(SEED)
    assert str(xt.parse(str(module))) == str(module)
    assert "xegpu.alloc_nbarrier 2\n" in str(module)
    assert "xegpu.init_nbarrier %one, %two : i8, i8 -> !xegpu.nbarrier" in str(module)
    a, c = integers(np.random.default_rng(4), xt.f32, 16, 16), np.zeros((16, 16), np.float32)
    for where in ("numpy", "opencl:cpu"):
        module["k"].on(where)[1](a, c)
        np.testing.assert_array_equal(c, a)
        c[:] = 0


@pytest.mark.parametrize(("old", "new", "message"), [
    ("alloc_nbarrier %two", "alloc_nbarrier %one", "XT1473"),
    ("%one, %two : i8", "%one, %top : i8", "XT2002"),
    ("%one, %two :", "%one, %two {producers = 1} :", "XT1474"),
    ("%one, %two :", "%one, %two {producers = 3} :", "XT3359"),
    ("%one, %two :", "%one, %two {producers = 1.0} :", "XT3355"),
    ("i8 into nbarrier", "i8 -> index", "XT3360"),
    ("%one = arith.constant 1", "%one = arith.constant 40", "XT3356"),
    ("arrive %barrier", "wait %barrier", "XT1479"),
    ("[2, 1]", "[1, 1]", "XT1470"),
])
def test_wrong_text(old: str, new: str, message: str) -> None:
    with pytest.raises(xt.XeError, match=message):
        xt.parse(SEED.replace(old, new))


def test_every_stage_reads_back_and_llvm_reads_its_form() -> None:
    low = named_barriers.lower(MATRIX, MATRIX, 4)
    for name, text in low.stages.items():
        assert str(xt.parse(text)) == text, name
    text = crossing.lower(MATRIX).xegpu_upstream
    assert text.count("xegpu.nbarrier_wait") == 2
    done = subprocess.run([require_mlir_opt()], input=text.encode(), capture_output=True, timeout=300)
    assert not done.returncode, done.stderr.decode()
    assert xt.parse(text)["crossing"].lower(MATRIX).xegpu.count("xegpu.nbarrier_wait") == 2
