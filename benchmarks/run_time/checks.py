"""Cost of ``.on("numpy", check=True)`` where there is nothing to find, beside the same launch without it."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import ml_dtypes
import numpy as np

import xetile as xt
from benchmarks.kernels import subgroup_gemm, work_group_gemm
from benchmarks.rows import Progress, Row
from benchmarks.timing import interleaved, ratios

_AT = (8, 16)


@xt.kernel
def softmax(A: Any, C: Any) -> None:
    """Of rows of 256."""
    row = xt.group_id(0) * 8
    x = xt.load_tile(xt.init_tile(A, (row, 0), (8, 256)))
    e = xt.exp(x - xt.tile_reduce("max", x, 1))
    xt.store_tile(e / xt.tile_reduce("add", e, 1), xt.init_tile(C, (row, 0), (8, 256)))


@xt.kernel
def permuted(A: Any, places: Any) -> None:
    """Single elements of one array, read and written where a permutation says."""
    at = xt.group_id(0) * 128 + xt.iota(_AT, 0, xt.index) * 16 + xt.iota(_AT, 1, xt.index)
    everywhere = xt.full(_AT, True, xt.i1)
    place = xt.load_gather(xt.init_tile(places, at), everywhere).to(xt.index)
    x = xt.load_gather(xt.init_tile(A, place), everywhere)
    xt.store_scatter(x + 1.0, xt.init_tile(A, place), everywhere)


@xt.kernel
def histogram(A: Any, counts: Any) -> None:
    """By atomic updates."""
    place = xt.load_tile(xt.init_tile(A, (xt.group_id(0) * 8, 0), _AT)).to(xt.index)
    xt.atomic_rmw_tile("addi", xt.full(_AT, 1, xt.i32), xt.init_tile(counts, place), xt.full(_AT, True, xt.i1))


@xt.kernel(subgroups=(4, 1))
def exchanged(A: Any, C: Any) -> None:
    """Through shared local memory: rows are written, columns are read."""
    slm, me, top = xt.alloc_slm((64, 64), xt.f32), xt.subgroup_id() * 16, xt.group_id(0) * 64
    for k in xt.range(0, A.shape[1], 64):
        x = xt.load_tile(xt.init_tile(A, (top + me, k), (16, 64)))
        xt.store_tile(x, xt.init_tile(slm, (me, 0), (16, 64)))
        xt.barrier()
        y = xt.load_tile(xt.init_tile(slm, (0, me), (64, 16)))
        xt.store_tile(y, xt.init_tile(C, (top, k + me), (64, 16)))
        xt.barrier()


@xt.kernel
def integers(A: Any, B: Any, C: Any) -> None:
    """Arithmetic that stays in range, and a conversion that loses nothing."""
    at = (xt.group_id(0) * 32, xt.group_id(1) * 64)
    x, y = (xt.load_tile(xt.init_tile(array, at, (32, 64))) for array in (A, B))
    xt.store_tile(((x * y + x - y) * 3 + (x << 2)).to(xt.i16), xt.init_tile(C, at, (32, 64)))


def measure(quick: bool, progress: Progress) -> list[Row]:
    """A row for each kind of kernel, at one size."""
    return [_row(name, *case, 9 if quick else 25, progress) for name, case in _cases().items()]


def _cases() -> dict[str, tuple[Any, tuple[int, ...], tuple[Any, ...]]]:
    """Kernels, each with its grid and arguments."""
    rng, count = np.random.default_rng(1), 2**18
    whole = rng.integers(-4, 5, (1024, 1024)).astype(np.float32)
    small, out = whole[:512, :512].astype(ml_dtypes.bfloat16), np.zeros((1024, 1024), np.float32)
    numbers = rng.integers(-4, 5, (1024, 1024)).astype(np.int32)
    return {
        "product of work-groups": (work_group_gemm, (4, 4), (small, small, out[:512, :512])),
        "product of subgroups": (subgroup_gemm, (16, 8), (small, small, out[:512, :512])),
        "softmax": (softmax, (512,), (whole.reshape(4096, 256), out.reshape(4096, 256))),
        "single elements": (permuted, (count // 128,), (np.zeros(count, np.float32),
                                                        rng.permutation(count).astype(np.int32))),
        "histogram": (histogram, (count // 128,), (rng.integers(0, 999, (count // 16, 16)).astype(np.int32),
                                                   np.zeros(1000, np.int32))),
        "shared local memory": (exchanged, (16,), (whole, out)),
        "integers": (integers, (32, 16), (numbers, numbers.T.copy(), np.zeros((1024, 1024), np.int16))),
    }


def _row(name: str, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], rounds: int,
         progress: Progress) -> Row:
    progress(f"checks, {name}")
    plain, checked = kernel.on("numpy")[grid], kernel.on("numpy", check=True)[grid]
    runs: dict[str, Callable[[], object]] = {
        "plain": lambda: plain(*arguments), "checked": lambda: checked(*arguments)}
    times = interleaved(runs, rounds)
    ratio, spread = ratios(times, "checked", "plain")
    return Row("Checks", name, median(times["checked"]) * 1e3, "ms", ratio, "the launch without checks", "check",
               spread=spread)
