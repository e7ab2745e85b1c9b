"""Signalled products: bands of C, counters of their tiles, and the machine code of the kernel."""

from __future__ import annotations

import ctypes
import math
import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp, require_ocloc
from tests.kernels import EXECUTIONS, Execution, integers
from xetile.distributed.communication.transport import Alone
from xetile.distributed.executor import Executor, _warn_of_no_signals
from xetile.distributed.grid import Grid
from xetile.distributed.memory import HostMemory
from xetile.distributed.regions import Region, split
from xetile.distributed.schedule import schedule
from xetile.distributed.signals import Signals, can_signal, signalled_product

# NumPy takes all work-groups at once, and has one description of an array for all of them; here each band has its own.
_ON_DEVICES = [execution for execution in EXECUTIONS if not execution.where.startswith("numpy")]


@pytest.mark.parametrize("execution", _ON_DEVICES, ids=str)
@pytest.mark.parametrize(("bands", "first", "added"), [(3, 1, False), (4, 3, True)])
def test_each_band_is_stored_and_counted(execution: Execution, bands: int, first: int, added: bool) -> None:
    """Bands of 12 or 13 rows and of 9 or 10, in tiles of 8; each of two subgroups counts the tiles of each band."""
    m, n, k = 37, 41, 50
    rng = np.random.default_rng(1)
    a, b, old = integers(rng, xt.f32, m, k), integers(rng, xt.f32, k, n), integers(rng, xt.f32, m, n)
    c = old.copy()
    counters = np.zeros((bands, 2), np.int32)
    tiles = math.ceil(math.ceil(m / bands) / 8)
    execution.bind(signalled_product)[tiles * bands, -(-n // 32)](
        a, b, c, counters, bands, first, tiles, BM=8, BN=32, BK=16, sg=(1, 2), as_type=xt.f32, added=added)
    assert np.array_equal(c, a @ b + (old if added else 0))
    assert (counters == tiles * 2).all()


def test_blocks_that_cannot_signal_are_said_once() -> None:
    steps = schedule(Grid(1, 1, 2, m=8, n=6, k=4), 0, overlap="signalled")
    _warn_of_no_signals.cache_clear()
    with pytest.warns(UserWarning, match="needs blocks on a device with atomics on host memory") as found:
        [Executor(steps, HostMemory(), Alone(), None) for _ in range(2)]
    assert len(found) == 1


def test_the_host_sees_bands_of_the_cpu_device() -> None:
    """Every band is there when its signal is: it is copied at once and compared, while the launch may go on."""
    dpnp = require_dpnp()
    m, n, k, bands = 300, 256, 256, 3
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-8, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    there = dpnp.asarray(a), dpnp.asarray(b)
    sums = dpnp.full((m, n), -1, dtype=np.float32)
    queue = sums.sycl_queue
    assert can_signal(queue)
    regions = tuple(Region(split((0, m), bands, (1 - position) % bands), (0, n)) for position in range(bands))
    from codegen.runtime.launcher import completion
    from codegen.runtime.usm import usm_interface

    signals = Signals(queue)
    for _ in range(2):  # the counters start anew
        signals.launch(*there, sums, xt.f32, Region((0, m), (0, n)), regions, False, None)
        event = completion(queue)
        for region in regions:
            signals.wait(region, event)
            assert signals.is_done(region)
            seen = _host_view(usm_interface(sums).pointer, (m, n))[region.slices].copy()
            assert np.array_equal(seen, (a @ b)[region.slices])
        event.wait()


def _host_view(pointer: int, shape: tuple[int, int]) -> Any:
    """Memory of the CPU device, read without its queue."""
    values = (ctypes.c_float * math.prod(shape)).from_address(pointer)
    return np.frombuffer(values, np.float32).reshape(shape)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_the_machine_code(target: str) -> None:
    """32 products in a step of the loop, no spills, one fence and one atomic message behind the store."""
    require_ocloc()
    matrix, sums, counters = (xt.Spec((None, None), kind) for kind in ("bf16", "f32", "i32"))
    low = signalled_product.lower(matrix, matrix, sums, counters, 4, 3, 8, BM=256, BN=256, BK=32, sg=(8, 4),
                                  as_type=xt.bf16, ahead=3, aligned=True, target=target)
    report = low.report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["dpas"] == 32 * report.unrolled
    assert report.mix.whole.categories["store_block2d"] == 16
    assert report.mix.whole.categories["atomic"] == 1
    asm = str(low.isa())
    assert re.findall(r"fence\.\w+\.\w+\.\w+", asm) == ["fence.ugm.invalidate.gpu"]
    assert asm.index("fence.ugm") < asm.index("atomic_iadd.ugm")
