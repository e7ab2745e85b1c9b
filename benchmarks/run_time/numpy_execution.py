"""The ``"numpy"`` execution of a product, beside NumPy's own matmul in float32."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.kernels import subgroup_gemm, work_group_gemm
from benchmarks.rows import Progress, Row
from benchmarks.timing import interleaved, ratios

_TILES: dict[str, tuple[Any, int, int]] = {
    "work-group": (work_group_gemm, 128, 128), "subgroup": (subgroup_gemm, 32, 64)}


def measure(quick: bool, progress: Progress) -> list[Row]:
    """Rows of two kinds of tiles, of two element types, at one size (quick) or several."""
    rows = []
    for size in (1024,) if quick else (512, 1024, 2048):
        for dtype in (np.float32, ml_dtypes.bfloat16):
            progress(f"NumPy execution, {size}, {np.dtype(dtype).name}")
            rows += _of_size(size, np.dtype(dtype), 5)
    return rows


def _of_size(size: int, dtype: np.dtype[Any], rounds: int) -> list[Row]:
    rng = np.random.default_rng(size)
    a, b = (rng.integers(-3, 4, (size, size)).astype(dtype) for _ in range(2))
    wide_a, wide_b, c = a.astype(np.float32), b.astype(np.float32), np.zeros((size, size), np.float32)
    runs: dict[str, Callable[[], object]] = {"matmul": lambda: np.matmul(wide_a, wide_b)}
    for name, (kernel, rows, columns) in _TILES.items():
        launch = kernel.on("numpy")[size // rows, size // columns]
        runs[name] = lambda launch=launch: launch(a, b, c)  # type: ignore[misc]
    times, found = interleaved(runs, rounds), []
    np.testing.assert_array_equal(c, wide_a @ wide_b)
    for name, (_, rows, columns) in _TILES.items():
        ratio, spread = ratios(times, name, "matmul")
        # Small products are over before NumPy has taken a breath: the goals are for the sizes that one waits for.
        goal = f"numpy {name}" if size >= 1024 else ""
        rate = 2 * size**3 / median(times[name]) / 1e9
        found.append(Row("NumPy execution", f"{size}^3 {dtype.name}, tiles of {rows} x {columns}", rate, "GFLOP/s",
                         ratio, "NumPy's matmul", goal, size, spread))
    return found
