"""Memory of results and of scratch arrays that is used again."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.runtime import launcher
from codegen.runtime.caching_allocator import CachingAllocator
from codegen.runtime.devices import import_dpctl
from codegen.runtime.usm import usm_interface
from tests.conftest import require_device
from tests.device import DEVICE_FILTER
from tests.memory_maps import may_have_huge_pages
from xegpu.support.errors import DeviceError


@pytest.fixture(scope="module")
def queue() -> Any:
    require_device()
    import dpctl

    return dpctl.SyclQueue(DEVICE_FILTER)


@pytest.mark.launches
def test_a_block_is_taken_again_where_it_fits(queue: Any) -> None:
    import dpctl

    pool, ended = CachingAllocator(most=8000), dpctl.SyclEvent()
    first = pool.take(queue, 1000)
    other = pool.take(queue, 1000)
    assert first.memory._pointer != other.memory._pointer
    assert first.memory.nbytes >= first.size >= 1000
    pool.give_back(first, ended)
    assert pool.take(queue, 400) is not first  # it would waste more than half
    assert pool.take(queue, first.size + 1) is not first
    assert pool.take(dpctl.SyclQueue(DEVICE_FILTER), 1000) is not first
    assert pool.take(queue, 900) is first
    assert pool.free_bytes == 0
    views = [first.views("a layout", lambda memory: [memory]) for _ in range(2)]
    assert views[0] is views[1]


@pytest.mark.launches
def test_what_was_given_back_first_is_freed_first(queue: Any) -> None:
    import dpctl

    pool, ended = CachingAllocator(most=6000), dpctl.SyclEvent()
    blocks = [pool.take(queue, 2048) for _ in range(3)]
    for block in blocks:
        pool.give_back(block, ended)
    assert pool.free_bytes == 2 * blocks[0].size <= 6000
    assert [pool.take(queue, 2048) for _ in range(2)] == blocks[:0:-1]
    huge = pool.take(queue, 10000)
    pool.give_back(huge, ended)
    assert pool.free_bytes == 0
    pool.give_back(blocks[0], ended)
    with pytest.raises(DeviceError, match="XT5024"):
        pool.take(queue, 1 << 60)
    assert pool.free_bytes == 0  # what was kept was freed before


def test_large_memory_may_have_huge_pages(queue: Any) -> None:
    """The mapping's flags say so, where the system is Linux with huge pages."""
    block = CachingAllocator().take(queue, 8 << 20)
    assert may_have_huge_pages(block.memory._pointer + (4 << 20))


def test_a_launch_waits_for_the_blocks_last_user(queue: Any) -> None:
    """The last user is in no order that the next launch knows, as that of another thread may be."""
    program = launcher.build_program(queue, """
kernel void slow(global volatile int *a) { for (int i = 0; i < 100000000; i++) a[1] = i; a[0] = 7; }
kernel void copy(global int *a, global int *b) { b[0] = a[0]; }""")
    pool = CachingAllocator()
    block, result = pool.take(queue, 64), pool.take(queue, 64)
    queue.memcpy(block.memory, np.zeros(16, np.int32), 64)
    launcher.launch(queue, launcher.find_kernel(program, "copy"), [block.memory, result.memory], (1,), 1).wait()
    event = queue.submit_async(launcher.find_kernel(program, "slow"), [block.memory], [1], [1])
    pool.give_back(block, event)
    assert pool.take(queue, 64) is block
    launcher.launch(queue, launcher.find_kernel(program, "copy"), [block.memory, result.memory], (1,), 1).wait()
    got = np.zeros(16, np.int32)
    queue.memcpy(got, result.memory, 64)
    assert got[0] == 7


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "view": lambda array: array[3:5, 1:],
    "reshape": lambda array: array.reshape(-1),
    "dpctl's array": lambda array: array.get_array(),
    "memory": lambda array: array.get_array().usm_data,
    "memory of memory": lambda array: type(array.get_array().usm_data)(array.get_array().usm_data),
    "interface": lambda array: import_dpctl("dpctl.memory").as_usm_memory(array),
    "DLPack's capsule": lambda array: array.__dlpack__(),
    "DLPack's array": lambda array: __import__("dpnp").from_dlpack(array),
    "kernel argument": lambda array: usm_interface(array).argument(),
}


@pytest.mark.launches
@pytest.mark.parametrize("kind", ["device", "shared", "host"])
@pytest.mark.parametrize("holder", HOLDERS)
def test_memory_comes_back_when_nothing_refers_to_it(queue: Any, holder: str, kind: str) -> None:
    import dpnp

    allocator = CachingAllocator()
    array = dpnp.ndarray((64, 64), np.int32, allocator.allocate(queue, 1 << 14, kind), sycl_queue=queue)
    assert array.usm_type == kind
    assert array.get_array().usm_data.nbytes == 1 << 14
    pointer = array.get_array()._pointer
    held = HOLDERS[holder](array)
    queue.wait()
    del array
    gc.collect()
    assert allocator.free_bytes == 0
    other = allocator.allocate(queue, 1 << 14, kind)
    assert other._pointer != pointer
    del held
    gc.collect()
    assert allocator.free_bytes == 1 << 14
    assert allocator.allocate(queue, 1 << 14, "host" if kind == "device" else "device")._pointer != pointer
    assert allocator.allocate(queue, 1 << 14, kind)._pointer == pointer


@pytest.mark.launches
def test_a_buffer_of_the_host_keeps_memory(queue: Any) -> None:
    allocator = CachingAllocator()
    memory = allocator.allocate(queue, 1 << 14, "shared")
    numbers = np.asarray(memoryview(memory))[5:]
    del memory
    gc.collect()
    assert allocator.free_bytes == 0
    del numbers
    gc.collect()
    assert allocator.free_bytes == 1 << 14


def test_a_finalizer_does_not_wait_for_the_lock(queue: Any) -> None:
    """The collector of garbage may run it while the same thread has the lock."""
    allocator = CachingAllocator()
    block = allocator.take(queue, 1 << 14)
    with allocator._lock:
        allocator.give_back(block)
    assert allocator.free_bytes == 0
    allocator.give_back(allocator.take(queue, 1 << 10))
    assert allocator.take(queue, 1 << 14) is block


def test_few_blocks_are_kept_and_none_after_the_end(queue: Any) -> None:
    allocator = CachingAllocator()
    held = [allocator.allocate(queue, 1 << 13, "device") for _ in range(200)]
    del held
    assert 0 < allocator.free_bytes <= 64 << 13
    held = [allocator.allocate(queue, 1 << 13, "device")]
    allocator.close()
    del held
    assert allocator.free_bytes == 0


def test_results_of_threads_and_what_they_keep_stay_apart(queue: Any) -> None:
    """Each thread keeps some results, as views, and drops others, on one queue; what it kept stays what it was."""
    import dpnp

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 10, (64, 64)).astype(np.float32) for _ in range(2))
    product = a @ b
    seen: list[set[int]] = []

    def run(seed: int) -> None:
        choice, kept, pointers = random.Random(seed), [], set()
        right = dpnp.asarray(b, sycl_queue=queue)
        for _ in range(40):
            factor = choice.randint(1, 99)
            left = dpnp.asarray(a * np.float32(factor), sycl_queue=queue)
            result = xt.matmul(left, right)
            pointers.add(result.get_array()._pointer)
            if choice.random() < 0.3:
                kept.append((factor, result[8:, ::2]))
            elif choice.random() < 0.5:
                np.testing.assert_array_equal(dpnp.asnumpy(result), product * factor)
            if kept and choice.random() < 0.3:
                factor, view = kept.pop(choice.randrange(len(kept)))
                np.testing.assert_array_equal(dpnp.asnumpy(view), product[8:, ::2] * factor)
        for factor, view in kept:
            np.testing.assert_array_equal(dpnp.asnumpy(view), product[8:, ::2] * factor)
        seen.append(pointers)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(run, seed) for seed in range(3)]:
            done.result()
    assert len(seen) == 3
    assert max(map(len, seen)) < 40  # memory was used again
