"""A product on the CPU device through the user's call, beside NumPy, dpnp and torch where they are installed."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import ml_dtypes
import numpy as np

import xetile as xt
from benchmarks.rows import Progress, Row
from benchmarks.run_time.arrays import on_cpu
from benchmarks.run_time.peak import multiply_adds
from benchmarks.timing import PAUSE, TURN, import_torch, interleaved, ratios


def measure(quick: bool, progress: Progress) -> list[Row]:
    """Rows of f32 and bf16, at one size (quick) or several; none where dpnp, whose arrays are used, is missing."""
    if importlib.util.find_spec("dpnp") is None:
        progress("CPU device: dpnp is not installed")
        return []
    rows = []
    for size in (2048,) if quick else (512, 1024, 2048):
        for dtype in (np.float32, ml_dtypes.bfloat16, np.int8):
            progress(f"CPU device, {size}, {np.dtype(dtype).name}")
            rows += _of_size(size, np.dtype(dtype), 5 if quick else 7)
    return rows if quick else [*rows, *_in_depth(progress)]


def _in_depth(progress: Progress) -> list[Row]:
    """Other types, a fused epilogue, and sizes that fit no tile (``benchmarks/run_time/cpu.py``)."""
    from benchmarks.run_time.cpu import MEMORY, PLAIN, RATE, measure_cpu

    progress("CPU device: types, an epilogue, odd sizes, bytes")
    goals = {MEMORY: "cpu bytes", RATE: "cpu odd", PLAIN: "cpu epilogue"}
    return [Row("CPU device, in depth", figure.name, *((figure.bytes, "GB/s") if other == MEMORY else
                                                       (figure.rate, "GFLOP/s")), ratio, other, goals.get(other, ""))
            for figure in measure_cpu() for other, ratio in figure.ratios.items()]


def _of_size(size: int, dtype: np.dtype[Any], rounds: int) -> list[Row]:
    rng = np.random.default_rng(size)
    a, b = (rng.integers(-3, 4, (size, size)).astype(np.float32) for _ in range(2))
    runs: dict[str, Callable[[], object]] = {"NumPy": lambda: np.matmul(a, b), **other_libraries(a, b)}
    ours, result = _ours(a, b, dtype)
    times = interleaved({"ours": ours, **runs}, rounds, PAUSE, TURN)
    np.testing.assert_array_equal(result(), a @ b)
    rows, rate = [], 2 * size**3 / median(times["ours"]) / 1e9
    peak = None
    if dtype == np.float32 and size >= 1024:
        peak, row = _to_peak(size, ours, rounds)
        rows.append(row)
    for other in runs:
        ratio, spread = ratios(times, "ours", other)
        goal = {("float32", "NumPy"): "cpu f32", ("float32", "dpnp"): "cpu f32 dpnp",
                ("bfloat16", "NumPy"): "cpu bf16", ("int8", "NumPy"): "cpu i8"}
        most = None if peak is None else peak * median(times[other]) / (2e-9 * size**3)
        rows.append(Row("CPU device", f"{size}^3 {dtype.name}", rate, "GFLOP/s", ratio, f"{other}'s matmul in float32",
                        goal.get((dtype.name, other), "") if size >= 1024 else "", size, spread, most=most))
    return rows


def _to_peak(size: int, ours: Callable[[], object], rounds: int) -> tuple[float, Row]:
    """The cores' multiply-adds in GFLOP/s, and the product's share of them, in turn and by processor time.

    The best of the turns is each one's rate: in the others the caches were another program's.
    """
    peak_run, peak_work = multiply_adds()
    times = interleaved({"ours": ours, "peak": peak_run}, 3 * rounds, PAUSE, TURN, time.process_time)
    cores, work = os.cpu_count() or 1, 2e-9 * size**3
    rate, peak = work * cores / min(times["ours"]), peak_work * cores / min(times["peak"])
    return peak, Row("CPU device", f"{size}^3 float32, by processor time", rate, "GFLOP/s", rate / peak,
                     "its own multiply-adds", "cpu peak", size, facts={"peak": peak})


def _ours(a: Any, b: Any, dtype: np.dtype[Any]) -> tuple[Callable[[], object], Callable[[], Any]]:
    """``xt.matmul`` of arrays of the device into one, until it is done; and what it gave."""
    import dpnp

    bits, bytes_ = dtype.itemsize == 2, dtype == np.int8
    held = [on_cpu(x.astype(dtype).view(np.uint16) if bits else x.astype(dtype)) for x in (a, b)]
    operands = [xt.view(x, xt.bf16) if bits else x for x in held]
    c = on_cpu(np.zeros(a.shape, np.int32 if bytes_ else np.float32))

    def run() -> None:
        xt.matmul(*operands, out=c)
        c.sycl_queue.wait()

    return run, lambda: dpnp.asnumpy(c)


def other_libraries(a: Any, b: Any) -> dict[str, Callable[[], object]]:
    """The product of dpnp, and of torch where it is installed, on arrays copied beforehand."""
    import dpnp

    on_device = [on_cpu(x) for x in (a, b)]
    found: dict[str, Callable[[], object]] = {"dpnp": lambda: dpnp.matmul(*on_device).sycl_queue.wait()}
    torch = import_torch()
    if torch is not None:
        tensors = [torch.from_numpy(x) for x in (a, b)]
        found["torch"] = lambda: torch.matmul(*tensors)
    return found
