"""The stand-in itself: what it reports, and when it runs commands. ``pytest --level-zero`` runs this file."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from typing import Any

import dpctl
import dpctl.memory
import dpctl.utils
import numpy as np
import pytest

from codegen.runtime import launcher, program_cache
from codegen.toolchain.ocloc import compile_spirv
from tests.conftest import FINDINGS, require_dpnp
from tests.device import DEVICE_FILTER, SOFTWARE_GPU
from tests.level_zero.gpu import NEW_DRIVER, PRODUCTS, load_library, take_findings
from xegpu.support.errors import ToolError
from xegpu.target.targets import find_target

pytestmark = pytest.mark.launches

ADD = "kernel void add(global int *a, int n) { a[get_global_id(0)] = a[get_global_id(0)] * 3 + n; }"
COUNT = 48
HIDES_SIZES = os.environ.get("SOFTWARE_GPU_DRIVER") == NEW_DRIVER and os.environ["SYCL_UR_USE_LEVEL_ZERO_V2"] == "1"
"""Adapter 2 launches by zeCommandListAppendLaunchKernelWithArguments there, which takes arguments without sizes."""
KINDS = (dpctl.memory.MemoryUSMDevice, dpctl.memory.MemoryUSMShared, dpctl.memory.MemoryUSMHost)


@pytest.fixture(params=["in order", "any order"])
def queue(request: pytest.FixtureRequest) -> Any:
    properties = {"property": "in_order"} if request.param == "in order" else {}
    return dpctl.SyclQueue(DEVICE_FILTER, **properties)


@pytest.fixture
def findings(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Reports so far, which the test expects."""
    yield lambda: take_findings(request.config.stash[FINDINGS])
    take_findings(request.config.stash[FINDINGS])


def built(queue: Any, source: str, name: str, options: str = "") -> Any:
    return launcher.find_kernel(launcher.build_program(queue, compile_spirv(source, SOFTWARE_GPU), options), name)


def filled(kind: Any, queue: Any) -> tuple[Any, np.ndarray[Any, Any]]:
    host = np.random.default_rng(3).integers(-99, 99, COUNT, dtype=np.int32)
    memory = kind(host.nbytes, queue=queue)
    queue.memcpy(memory, host, host.nbytes)
    return memory, host


def submit(queue: Any, kernel: Any, memory: Any, number: int, waits: list[Any]) -> Any:
    return queue.submit_async(kernel, [memory, ctypes.c_int32(number)], [COUNT], [16], waits)


def read(queue: Any, memory: Any) -> np.ndarray[Any, Any]:
    host = np.zeros(COUNT, np.int32)
    queue.memcpy(host, memory, host.nbytes)
    return host


def test_the_device_is_the_product(queue: Any) -> None:
    device = queue.sycl_device
    assert device.backend.name == "level_zero"
    assert device.name == PRODUCTS[SOFTWARE_GPU].name
    assert dpctl.utils.intel_device_info(device)["device_id"] == PRODUCTS[SOFTWARE_GPU].device_id


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_memory_of_every_kind(kind: Any, queue: Any) -> None:
    memory, host = filled(kind, queue)
    kernel = built(queue, ADD, "add")
    first = submit(queue, kernel, memory, 5, [])
    submit(queue, kernel, memory, 7, [first]).wait()
    assert (read(queue, memory) == (host * 3 + 5) * 3 + 7).all()


def test_commands_wait_for_somebody_who_waits(queue: Any) -> None:
    memory, _ = filled(KINDS[0], queue)
    before = load_library().software_gpu_pending()
    event = submit(queue, built(queue, ADD, "add"), memory, 1, [])
    assert load_library().software_gpu_pending() == before + 1
    event.wait()
    assert load_library().software_gpu_pending() == before


def test_without_an_order_the_last_comes_first() -> None:
    queue = dpctl.SyclQueue(DEVICE_FILTER)
    memory, host = filled(KINDS[0], queue)
    kernel = built(queue, ADD, "add")
    first, last = (submit(queue, kernel, memory, number, []) for number in (1, 2))
    last.wait()
    first.wait()  # not queue.wait(): after last.wait() adapter 1 takes the queue for empty, and returns at once
    assert (read(queue, memory) == (host * 3 + 2) * 3 + 1).all()


def test_a_barrier_orders_a_queue_without_an_order() -> None:
    queue = dpctl.SyclQueue(DEVICE_FILTER)
    memory, host = filled(KINDS[0], queue)
    kernel = built(queue, ADD, "add")
    submit(queue, kernel, memory, 1, [])
    queue.submit_barrier()
    submit(queue, kernel, memory, 2, []).wait()
    assert (read(queue, memory) == (host * 3 + 1) * 3 + 2).all()


def test_memory_freed_under_a_command_is_reported(queue: Any, findings: Any) -> None:
    memory, _ = filled(KINDS[0], queue)
    event = submit(queue, built(queue, ADD, "add"), memory, 1, [])
    del memory
    event.wait()
    freed, accessed = findings()
    assert freed.endswith("is freed before kernel add has run")
    assert accessed.startswith("add: [XT61")


@pytest.mark.parametrize("bytes_", [4, 8])
def test_arguments_of_the_wrong_size_are_reported(bytes_: int, queue: Any, findings: Any) -> None:
    memory, _ = filled(KINDS[0], queue)
    arguments = [memory, {4: ctypes.c_int32, 8: ctypes.c_int64}[bytes_](1)]
    kernel = built(queue, ADD, "add")
    if bytes_ == 4 or HIDES_SIZES:
        queue.submit(kernel, arguments, [COUNT], [16]).wait()
        assert not findings()
    else:
        with pytest.raises(dpctl.SyclKernelSubmitError):
            queue.submit(kernel, arguments, [COUNT], [16])
        assert findings() == ["argument 1 of add has 4 bytes, and is set to 8"]


def test_unknown_build_options_are_reported(queue: Any, findings: Any) -> None:
    built(queue, ADD, "add", "-ze-opt-large-register-file")
    assert not findings()
    built(queue, ADD, "add", "-cl-opt-disable -ze-no-such-option")
    assert findings() == ["unknown build options: -ze-no-such-option"]


def test_large_register_mode_halves_the_threads(queue: Any) -> None:
    lanes = find_target(SOFTWARE_GPU).subgroup_size
    source = f"__attribute__((intel_reqd_sub_group_size({lanes}))) {ADD}"
    small, large = (built(queue, source, "add", options).max_num_sub_groups
                    for options in ("", "-ze-opt-large-register-file"))
    assert small == 2 * large


def test_a_refused_module_comes_with_the_drivers_log(queue: Any) -> None:
    spirv = compile_spirv(ADD, SOFTWARE_GPU)
    with pytest.raises(ToolError) as caught:
        launcher.build_program(queue, spirv[:len(spirv) // 8 * 4])  # SPIR-V is a sequence of words
    assert caught.value.log.strip()


def test_functions_that_nothing_defines_are_named(queue: Any) -> None:
    source = "int nowhere(int);\nkernel void f(global int *a)\n{\n  // mine.py:7\n  a[0] = nowhere(a[1]);\n}\n"
    with pytest.raises(ToolError) as caught:
        program_cache.build_kernel(queue, compile_spirv(source, SOFTWARE_GPU), "", "f", source)
    assert caught.value.code == "XT5111"
    assert "no function nowhere, " in caught.value.message
    assert "mine.py:7" in caught.value.message


def test_dpnp_converts_to_half_precision(queue: Any) -> None:
    """dpnp's own kernel: a SYCL module, whose constants are in a section of their own."""
    dpnp = require_dpnp()
    host = np.random.default_rng(4).normal(size=(37, 50)).astype(np.float32)
    array = dpnp.asarray(host, sycl_queue=queue)
    for each, expected in ((array, host), (array[:, 1::2], host[:, 1::2])):
        converted = each.astype(dpnp.float16)
        np.testing.assert_array_equal(dpnp.asnumpy(converted), expected.astype(np.float16))
        np.testing.assert_array_equal(dpnp.asnumpy(converted.astype(dpnp.float32)),
                                      expected.astype(np.float16).astype(np.float32))


def test_profiling_times_a_kernel() -> None:
    queue = dpctl.SyclQueue(DEVICE_FILTER, property="enable_profiling")
    memory, _ = filled(KINDS[0], queue)
    event = submit(queue, built(queue, ADD, "add"), memory, 1, [])
    event.wait()
    assert event.profiling_info_start < event.profiling_info_end
