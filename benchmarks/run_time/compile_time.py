"""From a decorated function to OpenCL C, the first time: how long, and whether the cost is linear in the operations."""

from __future__ import annotations

import time
from statistics import median

import xetile as xt
from benchmarks.kernels import unrolled, work_group_gemm
from benchmarks.rows import Progress, Row

_LIMITS = {"trace": 10.0, "compile": 45.0}
_GROUP = "Compile time"


def measure(quick: bool, progress: Progress) -> list[Row]:
    """Rows of a work-group product, of larger tiles, and of straight lines of operations."""
    rounds = 5 if quick else 15
    progress("compile time of a product")
    trace, whole = zip(*(_product(256) for _ in range(rounds + 1)), strict=True)
    rows = []
    for name, goal, times in (("tracing", "trace", trace[1:]), ("all, to OpenCL C", "compile", whole[1:])):
        took = median(times) * 1e3
        rows.append(Row(_GROUP, f"work-group product, {name}", took, "ms", _LIMITS[goal] / took,
                        f"{_LIMITS[goal]:g} ms", goal))
    return rows + _tiles(rounds, progress) + _lines(quick, progress)


def _product(tile: int) -> tuple[float, float]:
    """Seconds of tracing, and of all, for a square tile of a work-group of 8 x 4 subgroups."""
    kernel, matrix = xt.kernel(work_group_gemm.__wrapped__), xt.Spec((None, None), xt.bf16)
    started = time.thread_time()
    lowered = kernel.lower(matrix, matrix, xt.Spec((None, None), xt.f32), target="pvc", BM=tile, BN=tile, sg=(8, 4))
    traced = time.thread_time()
    assert lowered.opencl
    return traced - started, time.thread_time() - started


def _tiles(rounds: int, progress: Progress) -> list[Row]:
    progress("compile time of larger tiles")
    each = {tile: median(_product(tile)[1] for _ in range(rounds)) for tile in (64, 128, 256)}
    return [Row(_GROUP, f"work-group product of {tile} x {tile}", took * 1e3, "ms") for tile, took in each.items()]


def _lines(quick: bool, progress: Progress) -> list[Row]:
    counts = (64, 128) if quick else (64, 128, 256, 512)
    each = {}
    for steps in counts:
        progress(f"compile time of {steps} unrolled steps")
        each[steps] = median(_line(steps) for _ in range(3))
    few, many = min(counts), max(counts)
    linear = (each[few] / few) / (each[many] / many)
    rows = [Row(_GROUP, f"{steps} unrolled steps", took * 1e3, "ms", x=3 * steps) for steps, took in each.items()]
    one = each[many] / many * 1e3
    return [*rows, Row(_GROUP, f"a step of {many}", one, "ms", linear, f"a step of {few}", "linear")]


def _line(steps: int) -> float:
    kernel, matrix = xt.kernel(unrolled), xt.Spec((None, None), xt.f32)
    started = time.thread_time()
    assert kernel.lower(matrix, matrix, target="pvc", steps=steps).opencl
    return time.thread_time() - started
