"""Devices, programs, launches and copies. What needs a device runs on the OpenCL CPU device that pip installs."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from codegen.runtime import devices, launcher, usm
from codegen.toolchain.ocloc import compile_spirv, find_ocloc
from tests.device import DEVICE_FILTER, SOFTWARE_GPU
from xegpu.support.errors import DeviceError, ToolError

COPY = """
kernel void copy(global int *out, long out_y, long out_x, global const int *in, long in_y, long in_x) {
  long y = get_global_id(1), x = get_global_id(0);
  out[y * out_y + x * out_x] = in[y * in_y + x * in_x] + 1;
}"""
WHERE = """
kernel void where(global int *out) {
  size_t at = get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2));
  out[at * get_local_size(0) + get_local_id(0)] = at * 1000 + get_local_id(0) + 1;
}"""


@pytest.fixture(scope="module")
def queue() -> Any:
    pytest.importorskip("dpctl", reason='dpctl is not installed: pip install "xetile[device]"')
    try:
        return devices.find_queue(DEVICE_FILTER)
    except DeviceError as error:
        pytest.skip(f"no OpenCL CPU device: {error}")


def ocloc_spirv(source: str, target: str) -> bytes:
    try:
        find_ocloc()
    except ToolError as error:
        pytest.skip(f"needs ocloc: {error}")  # the error names XETILE_OCLOC
    return compile_spirv(source, target)


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1000, 1000, shape, dtype=np.int32)


def kernel_of(queue: Any, source: str | bytes, name: str, options: str = "") -> Any:
    if devices.needs_spirv(queue) and isinstance(source, str):
        source = ocloc_spirv(source, SOFTWARE_GPU)
    return launcher.find_kernel(launcher.build_program(queue, source, options), name)


def arguments_of(array: usm.UsmArray) -> list[Any]:
    return [array, *(ctypes.c_int64(stride) for stride in array.strides)]


def copy_on_device(queue: Any, source: np.ndarray, result: np.ndarray) -> None:
    """result = source + 1 through the strided kernel, both copied to the device and the result copied back."""
    out, into = usm.copy_in([result, source], queue)
    args = [a for array in (out, into) for a in arguments_of(array)]
    launcher.launch(queue, kernel_of(queue, COPY, "copy"), args, (result.shape[1], result.shape[0]), 1)
    usm.copy_out(out, result)


# Finding devices


def test_a_filter_string_always_gives_the_same_in_order_queue(queue: Any) -> None:
    assert devices.find_queue("opencl:cpu") is queue
    assert queue.is_in_order
    assert devices.find_queue(queue) is queue
    assert not devices.needs_spirv(queue)
    assert devices.device_target(queue) == "cpu"


def test_the_best_device_can_be_found(queue: Any) -> None:
    best = devices.best_sycl_device()
    assert best is not None
    assert devices.device_target(devices.find_queue(best))


@pytest.mark.parametrize("where", ["level_zero:gpu:17", "nonsense", "opencl:cpu:9"])
def test_a_missing_device_names_those_that_are_there(queue: Any, where: str) -> None:
    with pytest.raises(DeviceError, match="XT5002"):
        devices.find_queue(where)


def test_something_else_is_no_device(queue: Any) -> None:
    with pytest.raises(DeviceError, match="XT5001"):
        devices.find_queue(3)


def test_without_dpctl_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dpctl", None)
    monkeypatch.setattr(devices, "best_sycl_device", devices.best_sycl_device.__wrapped__)
    assert devices.best_sycl_device() is None
    with pytest.raises(DeviceError, match="XT5000"):
        devices.find_queue("no such queue yet")


@pytest.mark.parametrize("first", ["", "import dpctl"], ids=["alone", "dpctl imported first"])
def test_a_fresh_process_needs_no_variable(queue: Any, first: str) -> None:
    script = f"""{first}
import sys, codegen.runtime.launcher
assert "dpctl" in sys.modules or not {first!r}
assert {first!r} or "dpctl" not in sys.modules
print(codegen.runtime.devices.find_queue("opencl:cpu").sycl_device.is_cpu)"""
    environment = {name: value for name, value in os.environ.items() if name != "OCL_ICD_FILENAMES"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


def test_the_users_own_drivers_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_FILENAMES", "mine.so")
    devices.register_cpu_driver.__wrapped__()
    assert os.environ["OCL_ICD_FILENAMES"] == "mine.so"


@pytest.mark.parametrize(
    ("device_id", "name", "target"),
    [
        (0x0BDA, "Intel(R) Data Center GPU Max 1100", "pvc"),
        (0xE20B, "Intel(R) Arc(TM) B580 Graphics", "bmg"),
        (None, "Intel(R) Arc(TM) B570 Graphics", "bmg"),
        (None, "Intel(R) Arc(TM) Pro B60 Graphics", "bmg"),
        (None, "Intel(R) Arc(TM) B390 GPU", "ptl"),
        (0xB080, "Intel(R) Graphics", "ptl"),
        (0x64A0, "Intel(R) Arc(TM) 140V GPU (16GB)", "lnl"),
        (None, "Intel(R) Arc(TM) 130V GPU", "lnl"),
        (0x7D51, "Intel(R) Arc(TM) Graphics", "arl"),
        (None, "Intel(R) Arc(TM) 140T GPU", "arl"),
        (0x56A0, "Intel(R) Arc(TM) A770 Graphics", "dg2"),
        (None, "Intel(R) Arc(TM) A380 Graphics", "dg2"),
        (None, "Intel(R) Data Center GPU Flex 170", "dg2"),
        (0x674C, "Intel(R) Graphics", "cri"),
    ],
)
def test_gpus_are_known_by_id_then_by_name(device_id: int | None, name: str, target: str) -> None:
    assert devices.gpu_target(device_id, name) == target


@pytest.mark.parametrize(
    ("device_id", "name", "says"),
    [
        (0x4680, "Intel(R) UHD Graphics 770", "XT5004"),
        (0x7D55, "Intel(R) Arc(TM) Graphics", "XT5003"),
        (None, "NVIDIA GeForce RTX 4090", "XT5004"),
    ],
)
def test_other_gpus_are_refused(device_id: int | None, name: str, says: str) -> None:
    with pytest.raises(DeviceError, match=says):
        devices.gpu_target(device_id, name)


# Building


def test_a_compile_error_shows_the_drivers_log(queue: Any) -> None:
    with pytest.raises(ToolError, match="XT5110") as caught:
        launcher.build_program(queue, "kernel void f(global int *a) {\n  a[0] = missing;\n}", "-cl-std=CL3.0")
    assert "a[0] = missing;" in caught.value.log


def test_options_reach_the_compiler(queue: Any) -> None:
    source = "#ifndef NEEDED\n#error set it\n#endif\nkernel void f(global int *a) { a[0] = NEEDED; }"
    with pytest.raises(ToolError, match="XT5110"):
        launcher.build_program(queue, source)
    assert launcher.build_program(queue, source, "-DNEEDED=3").has_sycl_kernel("f")


def test_bytes_that_are_no_spirv_are_refused(queue: Any) -> None:
    with pytest.raises(ToolError, match="XT5100"):
        launcher.build_program(queue, b"\x7fELF" + b"\x00" * 60)


def test_the_driver_says_why_it_refuses_spirv(queue: Any) -> None:
    """A call to a function that exists nowhere: the SPIR-V is sound, but it does not link."""
    source = "int nowhere(int); kernel void f(global int *a) { a[0] = nowhere(a[0]); }"
    with pytest.raises(ToolError, match="refused the program") as caught:
        launcher.build_program(queue, ocloc_spirv(source, "pvc"))
    assert "nowhere" in caught.value.log


def test_source_on_a_level_zero_queue_is_refused() -> None:
    level_zero = SimpleNamespace(backend=SimpleNamespace(name="level_zero"))
    assert devices.needs_spirv(level_zero)
    with pytest.raises(DeviceError, match="XT5005"):
        launcher.build_program(level_zero, "kernel void f() {}")


def test_a_missing_kernel_is_named(queue: Any) -> None:
    with pytest.raises(DeviceError, match="XT9403"):
        launcher.find_kernel(launcher.build_program(queue, COPY), "other")


@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_spirv_from_ocloc_runs(queue: Any, target: str) -> None:
    source = integers(5, 7)
    result = np.zeros_like(source)
    out, into = usm.copy_in([result, source], queue)
    args = [a for array in (out, into) for a in arguments_of(array)]
    launcher.launch(queue, kernel_of(queue, ocloc_spirv(COPY, target), "copy"), args, (7, 5), 1)
    usm.copy_out(out, result)
    assert np.array_equal(result, source + 1)


# Launching


@pytest.mark.launches
@pytest.mark.parametrize("groups", [(5,), (3, 4), (2, 3, 4)])
def test_groups_come_in_opencls_order(queue: Any, groups: tuple[int, ...]) -> None:
    count = int(np.prod(groups))
    result = np.zeros(count * 8, np.int32)
    (out,) = usm.copy_in([result], queue)
    launcher.launch(queue, kernel_of(queue, WHERE, "where"), [out], groups, 8)
    usm.copy_out(out, result)
    assert np.array_equal(result.reshape(count, 8), np.arange(count)[:, None] * 1000 + np.arange(8) + 1)


@pytest.mark.launches
def test_launches_follow_each_other(queue: Any) -> None:
    source = "kernel void step(global int *a, int n) { a[0] = a[0] * 3 + n; }"
    result, expected = np.array([1], np.int32), 1
    (out,) = usm.copy_in([result], queue)
    kernel = kernel_of(queue, source, "step")
    for n in range(12):
        launcher.launch(queue, kernel, [out, ctypes.c_int32(n)], (1,), 1)
        expected = expected * 3 + n
    usm.copy_out(out, result)
    assert result[0] == expected


@pytest.mark.launches
def test_an_out_of_order_queue_keeps_the_order_of_launches(queue: Any) -> None:
    import dpctl

    loose = dpctl.SyclQueue(DEVICE_FILTER)
    assert not loose.is_in_order
    slow = "kernel void step(global int *a, int n) { for (int i = 0; i < 20000; i++) a[0] = a[0] * 3 + n; }"
    result, expected = np.array([1], np.int32), 1
    (out,) = usm.copy_in([result], loose)
    kernel = kernel_of(loose, slow, "step")
    for n in range(5):
        launcher.launch(loose, kernel, [out, ctypes.c_int32(n)], (1,), 1)
        for _ in range(20000):
            expected = (expected * 3 + n) & 0xFFFFFFFF
    usm.copy_out(out, result)
    assert int(result[0]) & 0xFFFFFFFF == expected


@pytest.mark.launches
def test_launches_far_ahead_of_the_device_wait_for_the_first_ones(queue: Any) -> None:
    """Each has a bounded number of events to be ordered behind, and they still follow each other."""
    import dpctl
    from dpctl.utils import SequentialOrderManager

    loose, turns, limit = dpctl.SyclQueue(DEVICE_FILTER), 200000, launcher._MOST_AHEAD + 1
    slow = f"kernel void step(global int *a, int n) {{ for (int i = 0; i < {turns}; i++) a[0] = a[0] * 3 + n; }}"
    result, expected = np.array([1], np.int32), 1
    (out,) = usm.copy_in([result], loose)
    kernel, power = kernel_of(loose, slow, "step"), pow(3, turns, 1 << 33)
    ahead = []
    for n in range(80):
        launcher.launch(loose, kernel, [out, ctypes.c_int32(n)], (1,), 1)
        ahead.append(SequentialOrderManager[loose].num_submitted_events)
        expected = expected * power + n * (power - 1) // 2  # the turns' sum of powers of 3, modulo 2^32
    usm.copy_out(out, result)
    assert int(result[0]) & 0xFFFFFFFF == expected & 0xFFFFFFFF
    assert max(ahead) <= limit


@pytest.mark.launches
def test_no_groups_start_nothing(queue: Any) -> None:
    result = integers(4)
    before = result.copy()
    (out,) = usm.copy_in([result], queue)
    launcher.launch(queue, kernel_of(queue, WHERE, "where"), [out], (0, 3), 8).wait()
    usm.copy_out(out, result)
    assert np.array_equal(result, before)


@pytest.mark.launches
@pytest.mark.parametrize("groups", [(-1,), (), (1, 1, 1, 1)])
def test_impossible_grids_are_refused(queue: Any, groups: tuple[int, ...]) -> None:
    with pytest.raises(DeviceError, match="XT5010"):
        launcher.launch(queue, None, [], groups, 8)


def test_a_wrong_number_of_arguments_is_named(queue: Any) -> None:
    with pytest.raises(DeviceError, match="XT5011"):
        launcher.launch(queue, kernel_of(queue, WHERE, "where"), [ctypes.c_int32(1)] * 2, (1,), 8)


@pytest.mark.launches
def test_an_oversized_group_is_named(queue: Any) -> None:
    (out,) = usm.copy_in([integers(4)], queue)
    with pytest.raises(DeviceError, match="XT5012"):
        launcher.launch(queue, kernel_of(queue, WHERE, "where"), [out], (1,), 1 << 20)


@pytest.mark.launches
@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (ctypes.c_int8, "char", -7),
        (ctypes.c_uint8, "uchar", 200),
        (ctypes.c_int16, "short", -300),
        (ctypes.c_uint16, "ushort", 60000),
        (ctypes.c_int32, "int", -70000),
        (ctypes.c_uint32, "uint", 4000000000),
        (ctypes.c_int64, "long", -(1 << 40)),
        (ctypes.c_uint64, "ulong", 1 << 63),
        (ctypes.c_float, "float", -2.5),
        (ctypes.c_double, "double", 0.1),
        (ctypes.c_bool, "uchar", True),
    ],
)
def test_scalars_arrive_whole(queue: Any, kind: Any, name: str, value: Any) -> None:
    result = np.zeros(1, np.dtype(kind))
    (out,) = usm.copy_in([result], queue)
    kernel = kernel_of(queue, f"kernel void f(global {name} *a, {name} v) {{ a[0] = v; }}", "f")
    launcher.launch(queue, kernel, [out, kind(value)], (1,), 1)
    usm.copy_out(out, result)
    assert result[0] == value


@pytest.mark.launches
def test_a_half_travels_as_its_bits(queue: Any) -> None:
    result = np.zeros(1, np.float16)
    (out,) = usm.copy_in([result], queue)
    source = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\nkernel void f(global half *a, half v) { a[0] = v * 2; }"
    bits = ctypes.c_uint16(int(np.float16(1.25).view(np.uint16)))
    launcher.launch(queue, kernel_of(queue, source, "f"), [out, bits], (1,), 1)
    usm.copy_out(out, result)
    assert result[0] == 2.5


@pytest.mark.launches
def test_arguments_are_kept_only_until_their_kernel_has_run(queue: Any) -> None:
    (out,) = usm.copy_in([np.zeros(8, np.int32)], queue)
    launcher.launch(queue, kernel_of(queue, WHERE, "where"), [out], (1,), 8).wait()
    launcher.release_finished()
    assert not launcher._in_flight


# Copies

VIEWS = {
    "whole": lambda a: a,
    "rows": lambda a: a[3:9],
    "columns": lambda a: a[:, 5:12],
    "steps": lambda a: a[1::3, 2::5],
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-1, ::-2],
    "one backwards": lambda a: a[2:9, ::-1],
    "misaligned": lambda a: a.reshape(-1)[1:170].reshape(13, 13),
    "broadcast": lambda a: np.broadcast_to(a[4], (6, a.shape[1])),
    "single": lambda a: a[4:5, 6:7],
}


@pytest.mark.launches
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_is_read_with_its_own_strides(queue: Any, view: Any) -> None:
    source = view(integers(16, 24))
    result = np.zeros(source.shape, np.int32)
    copy_on_device(queue, source, result)
    assert np.array_equal(result, source + 1)


@pytest.mark.launches
@pytest.mark.parametrize("view", [v for k, v in VIEWS.items() if k != "broadcast"])
def test_only_the_views_own_elements_are_written(queue: Any, view: Any) -> None:
    base = integers(16, 24, seed=1)
    source = integers(*view(base).shape, seed=2)
    expected = base.copy()
    view(expected)[...] = source + 1
    device = usm.copy_in([view(base), source], queue)
    args = [a for array in device for a in arguments_of(array)]
    launcher.launch(queue, kernel_of(queue, COPY, "copy"), args, source.shape[::-1], 1).wait()
    gaps = np.ones(base.shape, bool)
    view(gaps)[...] = False
    base[gaps] = 7  # what the author writes between the elements meanwhile is not lost
    expected[gaps] = 7
    usm.copy_out(device[0], view(base))
    assert np.array_equal(base, expected)


@pytest.mark.launches
@pytest.mark.parametrize("offset", [0, 1, 3, 15, 16, 17])
def test_a_copy_starts_on_a_line(queue: Any, offset: int) -> None:
    host = integers(64)[offset:]
    source = "kernel void f(global int *a, global ulong *at) { at[0] = (ulong)a; }"
    address = np.zeros(1, np.uint64)
    device, at = usm.copy_in([host, address], queue)
    launcher.launch(queue, kernel_of(queue, source, "f"), [device, at], (1,), 1)
    usm.copy_out(at, address)
    assert int(address[0]) == device.pointer
    assert device.pointer % usm.LINE == 0


@pytest.mark.launches
@pytest.mark.parametrize("view", [v for k, v in VIEWS.items() if k in ("backwards", "one backwards", "columns")])
def test_the_first_element_of_a_view_starts_on_a_line(queue: Any, view: Any) -> None:
    (device,) = usm.copy_in([view(integers(16, 24))], queue)
    assert device.pointer % usm.LINE == 0


@pytest.mark.launches
def test_overlapping_arrays_overlap_on_the_device(queue: Any) -> None:
    base = integers(64)
    whole, half, other = usm.copy_in([base, base[16:32], integers(64)], queue)
    assert half.pointer - whole.pointer == 64
    assert other.owner is not whole.owner
    expected = base.copy()
    expected[16:32] = np.arange(16) + 1
    launcher.launch(queue, kernel_of(queue, WHERE, "where"), [half], (1,), 16)
    usm.copy_out(whole, base)
    assert np.array_equal(base, expected)


@pytest.mark.launches
def test_empty_arrays_pass(queue: Any) -> None:
    empty = np.zeros((0, 5), np.float32)
    (device,) = usm.copy_in([empty], queue)
    usm.copy_out(device, empty)
    assert device.shape == (0, 5)


@pytest.mark.launches
def test_results_never_go_to_an_array_that_does_not_fit(queue: Any) -> None:
    (device,) = usm.copy_in([integers(4, 6)], queue)
    with pytest.raises(DeviceError, match="XT5021"):
        usm.copy_out(device, integers(6, 4))
    frozen = integers(4, 6)
    frozen.flags.writeable = False
    with pytest.raises(DeviceError, match="XT5022"):
        usm.copy_out(device, frozen)


@pytest.mark.launches
def test_strides_that_split_elements_are_refused(queue: Any) -> None:
    records = np.zeros(4, np.dtype([("a", "i4"), ("b", "i2")]))
    with pytest.raises(DeviceError, match="XT5023"):
        usm.copy_in([records["a"]], queue)


# USM arrays


@pytest.mark.launches
def test_dpctl_memory_is_described_and_passed(queue: Any) -> None:
    import dpctl.memory

    memory = dpctl.memory.MemoryUSMShared(64, queue=queue)
    array = usm.usm_interface(memory)
    assert (array.shape, array.strides, array.read_only) == ((64,), (1,), False)
    kernel = kernel_of(queue, WHERE, "where")
    launcher.launch(queue, kernel, [memory], (1,), 16).wait()
    assert np.array_equal(np.frombuffer(memory, np.int32), np.arange(1, 17))


def test_a_numpy_array_is_not_in_usm() -> None:
    with pytest.raises(DeviceError, match="XT5020"):
        usm.usm_interface(np.zeros(3))


@pytest.mark.launches
def test_dpnp_views_arrive_at_their_first_element(queue: Any) -> None:
    dpnp = pytest.importorskip("dpnp", reason='dpnp is not installed: pip install "xetile[dpnp]"')
    host = integers(16, 24)
    base = dpnp.asarray(host, device=DEVICE_FILTER)
    result = dpnp.zeros((15, 12), dtype="i4", sycl_queue=base.sycl_queue)
    view = base[:0:-1, 1::2]
    arrays = [usm.usm_interface(result), usm.usm_interface(view)]
    assert arrays[1].strides == (-24, 2)
    kernel = kernel_of(base.sycl_queue, COPY, "copy")
    args = [a for array in arrays for a in arguments_of(array)]
    for _ in range(3):
        base += 1  # dpnp's own work and ours take turns on one out-of-order queue
        launcher.launch(base.sycl_queue, kernel, args, (12, 15), 1)
    assert np.array_equal(dpnp.asnumpy(result), (host + 3)[:0:-1, 1::2] + 1)


@pytest.mark.launches
def test_a_read_only_dpnp_array_says_so(queue: Any) -> None:
    dpnp = pytest.importorskip("dpnp", reason='dpnp is not installed: pip install "xetile[dpnp]"')
    array = dpnp.zeros(4, dtype="f4", device=DEVICE_FILTER)
    assert not usm.usm_interface(array).read_only
    array.flags.writable = False
    assert usm.usm_interface(array).read_only
