"""Kernels as machine code in the simulator: launches, and each check on a kernel that is broken for it."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_simulator
from tests.kernels import gemm, integers, product
from xetile.jit.kernel import Kernel

GPUS = ["pvc", "bmg"]
ROWS = np.arange(16 * 16, dtype=np.float32).reshape(16, 16)


@pytest.fixture(autouse=True)
def _simulator() -> None:
    require_simulator()


def finding(kernel: Kernel, code: str, line: str, *args: Any, where: str = "machine:pvc", grid: Any = 1,
            check: bool = False, **constants: Any) -> str:
    """The message of a kernel's finding, which is at its only line that has a text; through SPIR-V at its first."""
    lines, first = inspect.getsourcelines(kernel.function)
    (number,) = [number for number, text in enumerate(lines, first) if line in text]
    with pytest.raises(xt.CheckError, match=code) as caught:
        kernel.on(where, check=check)[grid](*args, **constants)
    assert caught.value.code == code
    assert caught.value.location is not None
    through_spirv = bool(os.environ.get("XETILE_SPIRV"))  # which has no line table
    assert caught.value.location.line == (first + 1 if through_spirv else number)
    return caught.value.message


def overridden(kernel: Kernel, folder: Path, edits: dict[str, str], *args: Any, **constants: Any) -> Kernel:
    """A copy of a kernel with edited OpenCL C."""
    copy = Kernel(kernel.function, subgroups=kernel.subgroups)
    text = copy.lower(*args, target="pvc", **constants).opencl
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "edited.cl").write_text(text)
    copy.override("opencl", folder / "edited.cl")
    return copy


@xt.kernel
def gathered(A, AT, C):
    here = (xt.group_id(0) * 8, 0)
    at = xt.load_tile(xt.init_tile(AT, here, (8, 16))).to(xt.index)
    values = xt.load_gather(xt.init_tile(A, offsets=at))
    xt.store_tile(values, xt.init_tile(C, here, (8, 16)))


@xt.kernel(may_alias=True)
def scattered(A, AT, C):
    here = (xt.group_id(0) * 8, 0)
    at = xt.load_tile(xt.init_tile(AT, here, (8, 16))).to(xt.index)
    xt.store_scatter(xt.load_tile(xt.init_tile(A, here, (8, 16))), xt.init_tile(C, offsets=at))


@pytest.mark.parametrize("gpu", GPUS)
def test_a_gather_outside_of_an_array(gpu: str) -> None:
    at = np.arange(256, dtype=np.int32).reshape(16, 16)
    c = np.zeros_like(ROWS)
    gathered.on(f"machine:{gpu}")[2](ROWS, at[::-1].copy(), c)
    np.testing.assert_array_equal(c, ROWS[::-1])
    at[9, 3] = 256
    message = finding(gathered, "XT6101", "load_gather", ROWS, at, c, where=f"machine:{gpu}", grid=2)
    assert "subgroup 0 of work-group (1, 0, 0) reads 4 bytes 0 bytes behind the end of A (1024 bytes)" in message
    at[9, 3] = -2
    assert "8 bytes before A" in finding(gathered, "XT6101", "load_gather", ROWS, at, c, where=f"machine:{gpu}", grid=2)
    at[9, 3] = 255
    gathered.on(f"machine:{gpu}")[2](ROWS, at, c)  # the kernel stays usable
    np.testing.assert_array_equal(c, ROWS.reshape(-1)[at])


def test_a_scatter_between_the_elements_of_a_view() -> None:
    whole = np.zeros((16, 40), np.float32)
    at = (np.arange(16, dtype=np.int32)[:, None] * 40 + np.arange(16, dtype=np.int32))
    scattered.on("machine:pvc")[2](ROWS, at, whole[:, 4:20])
    np.testing.assert_array_equal(whole[:, 4:20], ROWS)
    assert not whole[:, 20:].any()
    at[5, 15] += 1
    message = finding(scattered, "XT6101", "store_scatter", ROWS, at, whole[:, 4:20], grid=2)
    assert "writes 4 bytes at byte 864 of C, between the elements" in message


def test_overlapping_views_stay_views_of_the_same_memory() -> None:
    whole = np.arange(16 * 24, dtype=np.float32).reshape(16, 24)
    expected = whole.copy()
    at = (np.arange(16, dtype=np.int32)[:, None] * 24 + np.arange(16, dtype=np.int32))
    expected[:, 4:20] = expected[:, 3:19]
    scattered.on("machine:pvc")[2](whole[:, 3:19], at, whole[:, 4:20])
    np.testing.assert_array_equal(whole, expected)


@xt.kernel(may_alias=True)
def halves_to_words(HALVES, WORDS):
    values = xt.load_tile(xt.init_tile(HALVES, (0, 0), (8, 16)))
    xt.atomic_rmw_tile("exchange", values.to(xt.i32), xt.init_tile(WORDS, (0, 0), (8, 16)))


@pytest.mark.parametrize("where", ["machine:pvc", "opencl:cpu"])
def test_overlapping_views_of_other_elements_are_aligned_to_their_own(where: str) -> None:
    whole = np.arange(512, dtype=np.int16)
    halves, words = whole[1:257].reshape(16, 16), whole[256:].view(np.int32).reshape(8, 16)  # they share an element
    halves_to_words.on(where)[1](halves, words)
    np.testing.assert_array_equal(words, np.arange(1, 129, dtype=np.int32).reshape(8, 16))


@xt.kernel
def unwritten(A, C):
    shared = xt.alloc_slm((16, 16), xt.f32)
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), xt.init_tile(shared, (0, 0), (8, 16)))
    values = xt.load_tile(xt.init_tile(shared, (8, 0), (8, 16)))
    xt.store_tile(values, xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("gpu", GPUS)
def test_shared_memory_that_nothing_wrote(gpu: str) -> None:
    c = np.ones((8, 16), np.float32)
    unwritten.on(f"machine:{gpu}")[1](ROWS, c)  # no GPU minds
    finding(unwritten, "XT6104", "values = ", ROWS, c, where=f"machine:{gpu}", check=True)


@xt.kernel(subgroups=(2, 1))
def exchanged(A, C, *, first=True, second=True):
    """Rows change places through shared memory, twice."""
    shared = xt.alloc_slm((16, 16), xt.f32)
    row = xt.subgroup_id() * 8
    mine, other = xt.init_tile(shared, (row, 0), (8, 16)), xt.init_tile(shared, (8 - row, 0), (8, 16))
    xt.store_tile(xt.load_tile(xt.init_tile(A, (row, 0), (8, 16))), mine)
    if first:
        xt.barrier()
    values = xt.load_tile(other)
    if second:
        xt.barrier()
    xt.store_tile(values + values, mine)
    xt.barrier()
    again = xt.load_tile(other)
    xt.store_tile(again, xt.init_tile(C, (row, 0), (8, 16)))


@pytest.mark.parametrize("gpu", GPUS)
def test_races_in_shared_memory(gpu: str) -> None:
    """In lock step both orders give the right result: only the missing barrier tells."""
    where = f"machine:{gpu}"
    c = np.zeros_like(ROWS)
    exchanged.on(where, check=True)[1](ROWS, c)
    np.testing.assert_array_equal(c, 2 * ROWS)
    message = finding(exchanged, "XT6105", "values = ", ROWS, c, where=where, check=True, first=False)
    assert "subgroup 1 writes" in message
    finding(exchanged, "XT6105", "values + values", ROWS, c, where=where, check=True, second=False)


@xt.kernel(subgroups=(2, 1))
def together(A, C, *, apart=0):
    """Both subgroups write all of what they exchange, and rows that are ``apart`` differ."""
    shared = xt.init_tile(xt.alloc_slm((8, 16), xt.f32), (0, 0), (8, 16))
    xt.store_tile(xt.load_tile(xt.init_tile(A, (xt.subgroup_id() * apart, 0), (8, 16))), shared)
    xt.barrier()
    xt.store_tile(xt.load_tile(shared), xt.init_tile(C, (xt.subgroup_id() * 8, 0), (8, 16)))


@xt.kernel
def replicated(A, C):
    """Two subgroups own each block, which they exchange for blocks of a row's maxima."""
    a = xt.load_tile(xt.init_tile(A, (0, 0), (16, 16), wg_map=xt.wg_map((2, 2), (16, 8))))
    largest = xt.cummax(a, 1)
    xt.store_tile(largest, xt.init_tile(C, (0, 0), (16, 16), wg_map=largest.wg_map))


@pytest.mark.parametrize("gpu", GPUS)
def test_subgroups_that_write_the_same_do_not_race(gpu: str) -> None:
    where = f"machine:{gpu}"
    c = np.zeros_like(ROWS)
    together.on(where, check=True)[1](ROWS, c)
    np.testing.assert_array_equal(c, np.vstack([ROWS[:8], ROWS[:8]]))
    replicated.on(where, check=True)[1](ROWS, c)
    np.testing.assert_array_equal(c, np.maximum.accumulate(ROWS, 1))
    message = finding(together, "XT6105", "xt.store_tile(xt.load_tile(xt.init_tile(A", ROWS, c, where=where, check=True,
                      apart=8)
    assert "writes" in message


@xt.kernel(subgroups=(4, 1))
def signalled(A, C):
    """Pairs of subgroups exchange rows, each at a barrier of its own."""
    mine = xt.subgroup_id()
    shared, barrier = xt.alloc_slm((32, 16), xt.f32), xt.nbarrier(mine // 2, 2)
    xt.store_tile(xt.load_tile(xt.init_tile(A, (mine * 8, 0), (8, 16))), xt.init_tile(shared, (mine * 8, 0), (8, 16)))
    barrier.arrive()
    barrier.wait()
    other = xt.load_tile(xt.init_tile(shared, ((mine + 1 - 2 * (mine % 2)) * 8, 0), (8, 16)))
    xt.store_tile(other, xt.init_tile(C, (mine * 8, 0), (8, 16)))


@pytest.mark.parametrize("gpu", GPUS)
def test_barriers_that_never_meet(gpu: str, tmp_path: Path) -> None:
    a = np.random.default_rng(5).integers(-9, 10, (32, 16)).astype(np.float32)
    c = np.zeros_like(a)
    signalled.on(f"machine:{gpu}", check=True)[1](a, c)
    np.testing.assert_array_equal(c, a.reshape(4, 8, 16)[[1, 0, 3, 2]].reshape(32, 16))
    text = signalled.lower(MATRIX, MATRIX, target=gpu).opencl
    signal = next(line for line in text.splitlines() if "SIGNAL_AT(" in line and "define" not in line)
    broken = overridden(signalled, tmp_path, {signal: signal.replace(", 2)", ", 3)")}, MATRIX, MATRIX)
    message = finding(broken, "XT6106", "barrier.wait", a, c, where=f"machine:{gpu}")
    assert "barrier 1, where 2 of 3 arrived" in message


@xt.kernel
def copied(A, C):
    here = (xt.group_id(0) * 8, 0)
    values = xt.load_tile(xt.init_tile(A, here, (8, 16)))
    xt.store_tile(values, xt.init_tile(C, here, (8, 16)))


MATRIX = xt.Spec((None, None), "f32")


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(("edits", "code", "part"), [
    ({"A_stride0 * 4": "A_stride0 * 4 + 4"}, "XT6110", "a pitch of 68 bytes"),
    ({"A_size1 * 4": "A_size1 * 2"}, "XT6110", "a row of 32 bytes"),
    ({"2r(A,": "2r(A + 1,"}, "XT6110", "its base is 4 bytes off"),
    ({"A_size0": "A_size0 + 8"}, "XT6101", "bytes behind the end of A"),
], ids=["pitch", "width", "base", "height"])
def test_rules_of_block_messages(gpu: str, edits: dict[str, str], code: str, part: str, tmp_path: Path) -> None:
    text = copied.lower(MATRIX, MATRIX, target="pvc").opencl
    body = text.split("kernel void", 1)[1]
    call = next(line for line in body.splitlines() if "block_read" in line)
    name = call[:call.index("(")]
    changed = call
    for old, new in edits.items():
        old = old.replace("2r(A", f"{name.strip()}(A")
        new = new.replace("2r(A", f"{name.strip()}(A")
        assert old in changed
        changed = changed.replace(old, new, 1)
    broken = overridden(copied, tmp_path, {call: changed}, MATRIX, MATRIX)
    message = finding(broken, code, "values = ", ROWS, np.zeros((24, 16), np.float32), where=f"machine:{gpu}", grid=3)
    assert part in message


@pytest.mark.parametrize("gpu", GPUS)
def test_columns_of_block_messages(gpu: str, tmp_path: Path) -> None:
    spec = xt.Spec((None, None), "f16")
    text = copied.lower(spec, spec, target="pvc").opencl
    column = next(line for line in text.splitlines() if "block_read" in line).split("(int2)(")[1].split(",")[0]
    broken = overridden(copied, tmp_path, {f"(int2)({column}, ": f"(int2)({column} + 1, "}, spec, spec)
    a = np.ones((16, 32), np.float16)
    message = finding(broken, "XT6111", "values = ", a, a.copy(), where=f"machine:{gpu}")
    assert "column 1, byte 2 of a row" in message


def test_blocks_that_are_not_aligned(tmp_path: Path) -> None:
    """Rows of 20 elements: read by blocks of words, since a pitch of 80 bytes is off no rule but the width is."""
    a = np.random.default_rng(7).random((8, 21)).astype(np.float32)[:, :20]
    spec = xt.Spec((None, 20), "f32", (21, 1))
    begin = overridden(copied, tmp_path, {"{\n  // test_machine": "{\n  A = (global float *)((global char *)A + 2);\n"
                                          "  // test_machine"}, spec, spec)
    assert "not a multiple of 4" in finding(begin, "XT6103", "values = ", a, np.zeros_like(a))


@pytest.mark.parametrize("gpu", ["pvc", "bmg", "lnl", "dg2", "arl"])
def test_products(gpu: str) -> None:
    rng = np.random.default_rng(11)
    a, b = integers(rng, xt.bf16, 37, 50), integers(rng, xt.bf16, 50, 41)
    c = np.zeros((37, 41), np.float32)
    gemm.on(f"machine:{gpu}")[3, 3](a, b, c)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


def test_f64_of_arl_waits_by_tokens() -> None:
    """arl has no in-order pipe for f64: results, and conversions of them, are awaited by scoreboard tokens."""
    @xt.kernel
    def kernel(A, B, C):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))
        v = v * v - xt.tile_reduce("add", v, 1)
        xt.store_tile(v, xt.init_tile(B, (0, 0), (8, 32)))
        xt.store_tile(v.to(xt.f32), xt.init_tile(C, (0, 0), (8, 32)))

    a = np.random.default_rng(5).integers(-9, 10, (8, 32)).astype(np.float64)
    b, c = np.zeros_like(a), np.zeros(a.shape, np.float32)
    kernel.on("machine:arl")[1](a, b, c)
    np.testing.assert_array_equal(b, a * a - a.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(c, b)


@pytest.mark.parametrize("compiler", ["ocloc", "sycl"])
def test_by_spirv(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler == "sycl":
        from tests.conftest import require_sycl_compiler

        require_sycl_compiler()
    monkeypatch.setenv("XETILE_SPIRV", compiler)
    rng = np.random.default_rng(12)
    a, b = integers(rng, xt.bf16, 16, 48), integers(rng, xt.bf16, 48, 33)
    c = np.zeros((16, 33), np.float32)
    gemm.on("machine:pvc")[1, 3](a, b, c)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


def test_code_for_another_gpu() -> None:
    c = np.zeros_like(ROWS)
    copied.on("machine:bmg", target="pvc")[2](ROWS, c)
    np.testing.assert_array_equal(c, ROWS)
    with pytest.raises(xt.TargetError, match="XT4000"):
        copied.on("machine:pvc", target="dg2")


def test_counts_of_a_launch() -> None:
    """A product of 4 x 4 work-groups, each of one subgroup: every figure follows from the kernel and its tiles."""
    rng = np.random.default_rng(13)
    a, b = integers(rng, xt.bf16, 64, 96), integers(rng, xt.bf16, 96, 64)
    c = np.zeros((64, 64), np.float32)
    run = gemm.on("machine:pvc")
    run[4, 4](a, b, c)
    report = run.report()
    assert report.execution is not None
    executed, moved = report.execution.instructions, report.execution.traffic
    steps = 96 // 16
    assert report.execution.groups == 16
    assert executed["dpas"] == 16 * steps * 2  # 16 rows in two halves
    assert executed["load_block2d"] == 16 * steps * 2  # A and B
    assert executed["store_block2d"] == 16 * 2
    assert moved["load_block2d"] == 16 * steps * 2 * 16 * 16 * 2
    assert moved["store_block2d"] == c.nbytes
    text = str(report)
    assert "instructions executed a work-group" in text
    assert f"{steps * 2 * 16 * 16 * 2:,d} bytes" in text
    with pytest.raises(xt.DeviceError, match="XT1057"):
        gemm.on("numpy").report()


def test_wrong_names_and_missing_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    for where in ("machine:foo", "machine:cpu", "machine", "machine:"):
        with pytest.raises(xt.DeviceError, match='use one of "machine:pvc"'):
            copied.on(where)
    with pytest.raises(xt.ArgumentError, match="XT1056"):
        copied.on("machine:pvc", check="races")
    c = np.zeros_like(ROWS)
    with pytest.raises(xt.TargetError, match="cannot be decoded"):
        copied.on("machine:ptl")[2](ROWS, c)
    for variable in ("XETILE_OCLOC", "XETILE_IGA64"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "/nowhere/tool")
            with pytest.raises(xt.ToolError, match=variable):
                copied.on("machine:pvc")[2](ROWS, c)
    copied.on("machine:pvc")[2](ROWS, c)
    np.testing.assert_array_equal(c, ROWS)


@xt.kernel
def block_by_block(A, C):
    xt.store_tile(xt.load_tile(xt.init_tile(A, (xt.group_id(0) * 16, 0), (16, 32))),
                  xt.init_tile(C, (xt.group_id(0) * 16, 0), (16, 32)))


@pytest.mark.parametrize("gpu", ["pvc", "bmg", "dg2", "arl"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64], ids=lambda dtype: dtype.__name__)
def test_reversed_arrays(gpu: str, dtype: type) -> None:
    """Elements before the first one: surface states begin there, and their offsets have no sign."""
    whole = np.random.default_rng(4).integers(0, 100, (40, 29)).astype(dtype)
    for a, view in ((whole[::-1], np.s_[:, :]), (whole[:, ::-1], np.s_[::-1, :]), (whole[::-2, 1:], np.s_[:, ::-1])):
        c = np.zeros(a.shape, dtype)
        block_by_block.on(f"machine:{gpu}")[3](a, c[view])
        np.testing.assert_array_equal(c[view], a)
