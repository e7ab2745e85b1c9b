"""Executors: stages as text and back, arrays of dpnp, launches that repeat, SPIR-V, bounded memory."""

from __future__ import annotations

import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.runtime import launcher, program_cache, usm
from tests.conftest import require_device, require_dpnp, require_ocloc, require_sycl_compiler
from tests.device import DEVICE_FILTER, SOFTWARE_GPU, device_targets
from tests.kernels import (
    DEVICE,
    LANES,
    NUMPY,
    TYPES,
    Execution,
    Types,
    gemm,
    gemm_shared,
    integers,
    operands,
    product,
    run_gemm,
    viewed,
    wide,
)
from xegpu.target.targets import Target
from xetile.runtime import device_executor as devices
from xetile.runtime import launch_plan

BF16 = Types(xt.bf16, xt.bf16, xt.f32)
BY_NAME = {str(types): types for types in TYPES}
SHARED = {"sg": (2, 2), "data_a": (16, 32), "data_b": (32, 16), "data_c": (16, 16)}


# Stages


@pytest.mark.parametrize("target", ["pvc", "dg2", "cpu"])
@pytest.mark.parametrize("name", ["bf16-bf16-f32", "u8-i8-i32"])
def test_every_stage_prints_parses_and_runs_the_same(name: str, target: str) -> None:
    types, rng = BY_NAME[name], np.random.default_rng(1)
    m, n, k = 50, 70, 75
    a, b = operands(rng, types, m, n, k)
    expected = product(a, b, types.acc)
    constants = {"BM": 64, "BN": 32, "BK": 32, "acc": types.acc, **SHARED}
    lowered = gemm_shared.lower(a, b, expected, target=target, **constants)
    assert len(lowered.stages) > 5
    for stage, text in lowered.stages.items():
        kernel = xt.parse(text)["gemm_shared"]
        for where in ("numpy", "numpy:xegpu"):
            c = np.full((m, n), 9, types.acc.numpy)
            kernel.on(where, target=target)[1, 3](a, b, c)
            np.testing.assert_array_equal(c, expected, err_msg=f"{stage} on {where}")


@pytest.mark.launches
def test_a_parsed_stage_runs_on_the_device() -> None:
    a, b = operands(np.random.default_rng(2), BF16, 20, 30, 40)
    c = np.zeros((20, 30), np.float32)
    target = SOFTWARE_GPU or "pvc"
    text = gemm.lower(a, b, c, target=target).stages["to-xegpu"]
    Execution(DEVICE_FILTER, target).bind(xt.parse(text)["gemm"])[2, 2](a, b, c)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


# Launches


def test_numpy_arrays_run_on_numpy_without_a_word() -> None:
    a, b = operands(np.random.default_rng(3), BF16, 20, 30, 40)
    c = np.zeros((20, 30), np.float32)
    gemm[2, 2](a, b, c)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


@pytest.mark.launches
@pytest.mark.parametrize("execution", [NUMPY, *LANES[:1], DEVICE[0]], ids=str)
def test_three_dimensions_of_a_grid_are_told_apart(execution: Execution) -> None:
    @xt.kernel
    def where(C):
        x, y, z = xt.group_id(0), xt.group_id(1), xt.group_id(2)
        sizes = xt.num_groups(0) * 100 + xt.num_groups(1) * 10 + xt.num_groups(2)
        number = (((x * 10 + y) * 10 + z) * 1000 + sizes).to(xt.i32)
        row = (x * xt.num_groups(1) + y) * xt.num_groups(2) + z
        xt.store_tile(xt.full((1, 16), number, xt.i32), xt.init_tile(C, (row, 0), (1, 16)))

    c = np.zeros((24, 16), np.int32)
    execution.bind(where)[2, 3, 4](c)
    expected = [(x * 100 + y * 10 + z) * 1000 + 234 for x in range(2) for y in range(3) for z in range(4)]
    np.testing.assert_array_equal(c, np.repeat(expected, 16).reshape(24, 16))


@pytest.mark.launches
@pytest.mark.parametrize("execution", [NUMPY, *LANES[:1], *DEVICE[:1]], ids=str)
def test_loops_may_end_at_different_times(execution: Execution) -> None:
    """The bounds depend on the work-group: NumPy, which runs them all at once, masks those that have ended."""
    @xt.kernel
    def triangle(A, C):
        row = xt.group_id(0)
        tile, total = xt.init_tile(A, (row * 8, 0), (8, 16)), xt.zeros((8, 16), xt.f32)
        for _ in xt.range(row, 2 * row + 1, 1):
            total = total + xt.load_tile(tile)
            tile = xt.update_tile_offset(tile, 0, 16)
        xt.store_tile(total, xt.init_tile(C, (row * 8, 0), (8, 16)))

    a = integers(np.random.default_rng(4), xt.f32, 32, 64)
    c = np.zeros((32, 16), np.float32)
    execution.bind(triangle)[4,](a, c)
    for row in range(4):
        rows = slice(8 * row, 8 * row + 8)
        np.testing.assert_array_equal(c[rows], a[rows].reshape(8, 4, 16)[:, :row + 1].sum(1))


# Arrays of dpnp


def on_device(dpnp: Any, *arrays: np.ndarray[Any, Any]) -> list[Any]:
    first = dpnp.asarray(arrays[0], device=DEVICE_FILTER)
    return [first, *(dpnp.asarray(array, sycl_queue=first.sycl_queue) for array in arrays[1:])]


@pytest.mark.launches
def test_dpnp_arrays_run_where_they_are_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    dpnp = require_dpnp()
    types = BY_NAME["f16-f16-f32"]
    host = operands(np.random.default_rng(5), types, 37, 45, 52)
    a, b, c = on_device(dpnp, *host, np.full((37, 45), 9, np.float32))
    launched: list[Any] = []
    start = launch_plan.start

    def watched(queue: Any, kernel: Any, args: Any, *rest: Any) -> Any:
        launched.append((queue, args.pointers()))
        return start(queue, kernel, args, *rest)

    monkeypatch.setattr(launch_plan, "start", watched)
    monkeypatch.setattr(usm, "copy_out", lambda *_: pytest.fail("something was copied back"))
    gemm[3, 3](a, b, c)
    ((queue, pointers),) = launched
    assert queue == a.sycl_queue
    assert pointers == [array.__sycl_usm_array_interface__["data"][0] for array in (a, b, c)]
    np.testing.assert_array_equal(dpnp.asnumpy(c), product(*host, xt.f32))


@pytest.mark.launches
def test_bfloat16_travels_as_uint16() -> None:
    dpnp = require_dpnp()
    host = operands(np.random.default_rng(6), BF16, 20, 30, 40)
    a, b, c = on_device(dpnp, *(x.view(np.uint16) for x in host), np.zeros((20, 30), np.float32))
    gemm.on(a.sycl_queue, target=device_targets("dg2")[0])[2, 2](xt.view(a, xt.bf16), xt.view(b, xt.bf16), c)
    np.testing.assert_array_equal(dpnp.asnumpy(c), product(*host, xt.f32))


@pytest.mark.launches
def test_launches_take_their_turn_among_dpnps_own_work() -> None:
    dpnp = require_dpnp()
    types = BY_NAME["f32-f32-f32"]
    host = operands(np.random.default_rng(7), types, 33, 33, 33)
    a, b, c = on_device(dpnp, *host, np.zeros((33, 33), np.float32))
    expected = wide(host[0])
    for _ in range(5):
        gemm[3, 3](a, b, c)
        a = c % 7  # reads what the kernel writes, and is read by the next launch
        expected = (expected @ wide(host[1])) % 7
    np.testing.assert_array_equal(dpnp.asnumpy(a), expected)


def test_a_launch_returns_before_the_kernel_has_run() -> None:
    """A barrier behind the launch is still open when the launch has returned: the kernel takes far longer than that."""
    dpnp = require_dpnp()
    size = 512
    host = integers(np.random.default_rng(8), xt.f32, size, size, most=2)
    a, b, c = on_device(dpnp, host, host, np.zeros((size, size), np.float32))
    gemm[size // 8, size // 16](a, b, c, BM=8)  # the first launch builds
    a.sycl_queue.wait()
    gemm[size // 8, size // 16](a, b, c, BM=8)
    assert a.sycl_queue.submit_barrier().execution_status.name != "complete"
    a.sycl_queue.wait()
    np.testing.assert_array_equal(dpnp.asnumpy(c), wide(host) @ wide(host))


@pytest.mark.launches
def test_a_repeated_launch_traces_lowers_and_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dpnp = require_dpnp()
    a, b, c = on_device(dpnp, *operands(np.random.default_rng(9), BY_NAME["f32-f32-f32"], 32, 32, 32),
                        np.zeros((32, 32), np.float32))
    gemm[2, 2](a, b, c)

    def never(*_: Any, **__: Any) -> None:
        pytest.fail("the second launch did what the first had done")

    monkeypatch.setattr(sys.modules["xetile.jit.kernel"], "trace", never)
    monkeypatch.setattr("xetile.compiler.pipeline.stages", never)
    monkeypatch.setattr("codegen.opencl.emit", never)
    monkeypatch.setattr(program_cache, "build_program", never)
    monkeypatch.setattr(devices, "queue_program", never)
    gemm[2, 2](a, b, c)
    other_size = dpnp.zeros((48, 48), dtype="f4", sycl_queue=a.sycl_queue)
    gemm[2, 2](other_size, other_size, c)
    a.sycl_queue.wait()


@pytest.mark.launches
def test_arrays_on_different_queues_are_refused() -> None:
    dpnp = require_dpnp()
    import dpctl

    a = dpnp.zeros((16, 16), dtype="f4", sycl_queue=dpctl.SyclQueue(DEVICE_FILTER))
    b = dpnp.zeros((16, 16), dtype="f4", sycl_queue=dpctl.SyclQueue(DEVICE_FILTER))
    with pytest.raises(xt.DeviceError, match="XT1043"):
        gemm[1, 1](a, b, a)
    with pytest.raises(xt.DeviceError, match="XT1042"):
        gemm[1, 1](a, np.zeros((16, 16), np.float32), a)
    with pytest.raises(xt.DeviceError, match="XT1044"):
        gemm.on(DEVICE_FILTER)[1, 1](a, a, a)


@pytest.mark.launches
@pytest.mark.parametrize("where", [DEVICE_FILTER, "numpy"])
def test_a_read_only_result_is_refused_and_nothing_written(where: str) -> None:
    if where != "numpy":
        require_device(where)
    a, c = np.ones((16, 16), np.float32), np.zeros((16, 16), np.float32)
    c.flags.writeable = False
    with pytest.raises(xt.ElementTypeError, match="XT1045"):
        gemm.on(where)[1, 1](a, a, c)
    assert not c.any()


# SPIR-V


@pytest.mark.parametrize("compiler", ["sycl", "ocloc"])
@pytest.mark.parametrize(("name", "target"), [("f32-f32-f32", "cpu"), ("bf16-bf16-f32", "pvc"), ("i8-i8-i32", "dg2")])
def test_spirv_compilers_give_the_same(name: str, target: str, compiler: str,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """SPIR-V for a Level Zero queue. Here the CPU device takes it, so the builtins that a CPU lacks are in it too."""
    execution = Execution(DEVICE_FILTER, target)
    require_ocloc() if compiler == "ocloc" else require_sycl_compiler()
    built: list[bytes] = []
    build = launcher.build_program

    def watched(queue: Any, source: bytes, options: str) -> Any:
        built.append(source)
        return build(queue, source, options)

    monkeypatch.setenv("XETILE_SPIRV", compiler)
    monkeypatch.setattr(program_cache, "build_program", watched)
    types = BY_NAME[name]
    a, b = operands(np.random.default_rng(10), types, 37, 64, 64)
    c = np.full((37, 64), 9, types.acc.numpy)
    run_gemm(execution, types, a, b, c)
    np.testing.assert_array_equal(c, product(a, b, types.acc))
    assert [source[:4] for source in built] == [b"\x03\x02\x23\x07"]
    assert (b"__sycl_kernel_" in built[0]) == (compiler == "sycl")


# Memory


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize("name", ["bf16-bf16-f32", "i8-i8-i32"])
def test_numpy_runs_a_large_grid_in_pieces_of_bounded_memory(name: str, where: str) -> None:
    types = BY_NAME[name]
    a, b = operands(np.random.default_rng(11), types, 3001, 3001, 32)
    c = np.zeros((3001, 3001), types.acc.numpy)
    tracemalloc.start()
    try:
        gemm.on(where)[94, 47](viewed(a, types.a), viewed(b, types.b), c, BM=32, BN=64, BK=32, acc=types.acc)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 128 << 20
    np.testing.assert_array_equal(c, product(a, b, types.acc))


@pytest.mark.parametrize("target", list(xt.TARGETS.values()), ids=list(xt.TARGETS))
@pytest.mark.parametrize("own", list(xt.TARGETS.values()), ids=list(xt.TARGETS))
def test_a_gpu_gets_only_code_that_it_runs(target: Target, own: Target) -> None:
    """DPAS in the wrong subgroup size builds without a word and leaves registers unset."""
    fits = own.name == "cpu" or (target.name != "cpu" and target.subgroup_size == own.subgroup_size)
    if fits:
        devices.check_compatible(target, own, "the device")
        return
    with pytest.raises(xt.TargetError, match="XT4000") as caught:
        devices.check_compatible(target, own, "the device")
    assert own.name in caught.value.hint


@pytest.mark.launches
def test_threads_record_and_launch_independently() -> None:
    """Kernels of their own in four threads at once, on NumPy and on the CPU device.

    The CPU driver keeps a compiler of 30 MB for each program that it ever built at the same time as others.
    """
    require_device()

    def work(seed: int) -> bool:
        rng = np.random.default_rng(seed)

        @xt.kernel
        def own(A, C, *, factor):
            value = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))
            for _ in xt.range(seed):
                value = value * factor
            xt.store_tile(value, xt.init_tile(C, (0, 0), (8, 32)))

        a = rng.integers(-3, 4, (8, 32)).astype(np.float32)
        right = []
        for where in ("numpy", "numpy:xegpu", DEVICE_FILTER):
            for _ in range(5):
                c = np.zeros_like(a)
                own.on(where)[1](a, c, factor=2.0)
                right.append(np.array_equal(c, a * 2.0**seed))
        return all(right)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))
