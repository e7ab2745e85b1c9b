"""Scratch memory that is kept between launches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codegen.runtime import launcher
from codegen.runtime.scratch import ScratchPool
from tests.conftest import require_device
from tests.device import DEVICE_FILTER
from xegpu.support.errors import DeviceError

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")


@pytest.fixture(scope="module")
def queue() -> Any:
    require_device()
    import dpctl

    return dpctl.SyclQueue(DEVICE_FILTER)


@pytest.mark.launches
def test_a_block_is_taken_again_where_it_fits(queue: Any) -> None:
    import dpctl

    pool, ended = ScratchPool(most=8000), dpctl.SyclEvent()
    first = pool.take(queue, 1000)
    other = pool.take(queue, 1000)
    assert first.memory._pointer != other.memory._pointer
    assert first.memory.nbytes >= first.size >= 1000
    pool.give_back(first, ended)
    assert pool.take(queue, 400) is not first  # it would waste more than half
    assert pool.take(queue, first.size + 1) is not first
    assert pool.take(dpctl.SyclQueue(DEVICE_FILTER), 1000) is not first
    assert pool.take(queue, 900) is first
    assert pool.kept == 0
    views = [first.views("a layout", lambda memory: [memory]) for _ in range(2)]
    assert views[0] is views[1]


@pytest.mark.launches
def test_what_was_given_back_first_is_freed_first(queue: Any) -> None:
    import dpctl

    pool, ended = ScratchPool(most=6000), dpctl.SyclEvent()
    blocks = [pool.take(queue, 2048) for _ in range(3)]
    for block in blocks:
        pool.give_back(block, ended)
    assert pool.kept == 2 * blocks[0].size <= 6000
    assert [pool.take(queue, 2048) for _ in range(2)] == blocks[:0:-1]
    huge = pool.take(queue, 10000)
    pool.give_back(huge, ended)
    assert pool.kept == 0
    pool.give_back(blocks[0], ended)
    with pytest.raises(DeviceError, match="XT5024"):
        pool.take(queue, 1 << 60)
    assert pool.kept == 0  # what was kept was freed before


def test_large_memory_may_have_huge_pages(queue: Any) -> None:
    """The mapping's flags say so, where the system is Linux with huge pages."""
    block, flags, inside = ScratchPool().take(queue, 8 << 20), "", False
    middle = block.memory._pointer + (4 << 20)
    for line in Path("/proc/self/smaps").read_text().splitlines() if HUGE_PAGES.exists() else []:
        if span := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(span[1], 16) <= middle < int(span[2], 16)
        elif inside and line.startswith("VmFlags:"):
            flags = line
    assert " hg" in flags or not HUGE_PAGES.exists()


def test_a_launch_waits_for_the_blocks_last_user(queue: Any) -> None:
    """The last user is in no order that the next launch knows, as that of another thread may be."""
    program = launcher.build_program(queue, """
kernel void slow(global volatile int *a) { for (int i = 0; i < 100000000; i++) a[1] = i; a[0] = 7; }
kernel void copy(global int *a, global int *b) { b[0] = a[0]; }""")
    pool = ScratchPool()
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
