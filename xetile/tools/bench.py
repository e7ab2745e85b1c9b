"""Benchmark of a function: warm-up, cold caches, quantiles, as Triton's ``do_bench``."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.runtime.devices import Queue, find_queue, import_dpctl
from codegen.runtime.synchronize import finish, wait_for
from xegpu.support.errors import ArgumentError
from xetile.compiler.arguments import AtTheCall

_FLUSHED_BYTES = 256 << 20
"""Least number of bytes that are written to empty caches: more than the last cache of most CPUs holds; of a
device, twice its cache."""
_ESTIMATES = 5
Clock = Callable[[Callable[[], Any]], float]
"""Milliseconds of one call."""


def bench(fn: Callable[[], Any], *, warmup: float = 25, rep: float = 100, quantiles: Sequence[float] | None = None,
          queue: Queue | str | None = None, flush: bool = True) -> Any:
    """Measure the time of a function in milliseconds.

    It is called a first time, which compiles, five times for an estimate, then for ``warmup`` and for ``rep``
    milliseconds, and before each call the caches are filled with other data. On a queue that has profiling enabled the
    time is the device's, between events before and behind the work that ``fn`` submits; else it is the host's clock
    from the call to the end of that work, launches included.

    Args:
        fn: what is measured, without arguments, such as ``lambda: kernel[grid](A, B, C)`` or a prepared launch.
        warmup, rep: milliseconds, by the estimate; at least one call each.
        quantiles: such as ``(0.5, 0.2, 0.8)``; None for the median.
        queue: the queue or filter string that ``fn`` submits to; None for work that has ended when ``fn`` returns,
            as in NumPy.
        flush: whether caches are filled with other data before each call.

    Returns:
        the median, or a list with the quantiles.

    Raises:
        ArgumentError: ``fn`` cannot be called, or a number is out of its range.
        DeviceError: there is no such queue.
    """
    with AtTheCall():
        _check_arguments(fn, warmup, rep, quantiles)
        there = None if queue is None else find_queue(queue)
    clear = _flusher(there) if flush else _nothing
    clock = _clock(there)
    clock(fn)
    clear()
    estimate = max(statistics.median([clock(fn) for _ in range(_ESTIMATES)]), 1e-6)
    for _ in range(max(math.floor(warmup / estimate), 1)):
        clock(fn)
    times = []
    for _ in range(max(math.floor(rep / estimate), 1)):
        clear()
        times.append(clock(fn))
    return statistics.median(times) if quantiles is None else [float(each) for each in np.quantile(times, quantiles)]


def _check_arguments(fn: Any, warmup: float, rep: float, quantiles: Sequence[float] | None) -> None:
    if not callable(fn):
        raise ArgumentError("XT1058", f"xt.bench measures a function, not {fn!r}",
                            "pass what shall be called, without calling it: xt.bench(lambda: kernel[grid](A, B, C))")
    if not (warmup >= 0 and rep >= 0) or any(not 0 <= each <= 1 for each in quantiles or ()):
        raise ArgumentError("XT1059", f"xt.bench cannot measure with warmup={warmup}, rep={rep}, quantiles={quantiles}",
                            "warmup and rep are milliseconds, quantiles are from 0 to 1: quantiles=(0.5, 0.2, 0.8)")


def _clock(queue: Queue | None) -> Clock:
    if queue is None:
        return _host_clock(_nothing)
    if not queue.has_enable_profiling:
        return _host_clock(lambda: finish(queue))

    def device_clock(fn: Callable[[], Any]) -> float:
        before = queue.submit_barrier(_submitted(queue))
        fn()
        after = queue.submit_barrier(_submitted(queue))
        wait_for(queue, after)
        return float(after.profiling_info_start - before.profiling_info_end) * 1e-6

    return device_clock


def _submitted(queue: Queue) -> list[Any]:
    """Events of what was submitted to an out-of-order queue, as dpnp's are."""
    if queue.is_in_order:
        return []
    return list(import_dpctl("dpctl.utils").SequentialOrderManager[queue].submitted_events)


def _host_clock(wait: Callable[[], None]) -> Clock:
    def host_clock(fn: Callable[[], Any]) -> float:
        wait()
        start = time.perf_counter()
        fn()
        wait()
        return (time.perf_counter() - start) * 1e3

    return host_clock


def _flusher(queue: Queue | None) -> Callable[[], None]:
    """Writes more than the caches hold, on the device of a queue or in NumPy."""
    if queue is None:
        data = np.empty(_FLUSHED_BYTES, np.uint8)
        return lambda: data.fill(0)
    size = max(_FLUSHED_BYTES, 2 * int(queue.sycl_device.global_mem_cache_size))
    memory = import_dpctl("dpctl.memory").MemoryUSMDevice(size, queue=queue)
    return lambda: memory.memset(0)


def _nothing() -> None:
    """Synchronization and cache flush that do nothing."""
