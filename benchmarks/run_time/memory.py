"""Memory of a process that builds many kernels on the CPU device: ``python -m benchmarks.run_time.memory [COUNT]``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import xetile as xt
from benchmarks.rows import Progress, Row
from codegen.runtime.devices import find_queue
from xegpu.support.errors import DeviceError

_LIMIT = 1024.0
"""MB above the start."""
_COUNT, _QUICK = 1000, 100
_SHAPES = ((8, 16), (16, 16), (8, 32), (16, 32), (8, 64), (16, 64))
_PRODUCTS = 8
"""Of so many kernels one is a product, whose program is twice as large."""


@xt.kernel
def scaled(A, C, *, factor, rows, columns):
    """One tile, times a constant."""
    x = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    xt.store_tile(x * float(factor), xt.init_tile(C, (0, 0), (rows, columns)))


@xt.kernel
def centred(A, C, *, factor, rows, columns):
    """Distances from the rows' maxima, times a constant."""
    x = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    xt.store_tile((x - xt.tile_reduce("max", x, 1)) * float(factor), xt.init_tile(C, (0, 0), (rows, columns)))


@xt.kernel
def product(A, B, C, *, factor, rows, columns):
    """One tile of a product, times a constant."""
    a, b = xt.init_tile(A, (0, 0), (rows, 16)), xt.init_tile(B, (0, 0), (16, columns))
    sums = xt.zeros((rows, columns), xt.f32)
    for _ in xt.range(0, A.shape[1], 16):
        sums = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), sums)
        a, b = xt.update_tile_offset(a, 0, 16), xt.update_tile_offset(b, 16, 0)
    xt.store_tile(sums * float(factor), xt.init_tile(C, (0, 0), (rows, columns)))


def resident() -> float:
    """Resident memory of this process, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def growth(count: int) -> Iterator[tuple[int, float]]:
    """Build and run different kernels; after each, how many there were and the MB above the start."""
    a, c = (np.arange(64 * 64, dtype=np.float32) % 7).reshape(64, 64), np.zeros((64, 64), np.float32)
    start = resident()
    for number in range(count):
        rows, columns = _SHAPES[number % len(_SHAPES)]
        constants = {"factor": number + 1, "rows": rows, "columns": columns}
        part = a[:rows, :columns]
        if number % _PRODUCTS == 0:
            product.on("opencl:cpu")[1](a, a, c, **constants)
            wanted = (a @ a)[:rows, :columns]
        elif number % 2:
            scaled.on("opencl:cpu")[1](a, c, **constants)
            wanted = part
        else:
            centred.on("opencl:cpu")[1](a, c, **constants)
            wanted = part - part.max(1, keepdims=True)
        np.testing.assert_array_equal(c[:rows, :columns], wanted * (number + 1))
        yield number + 1, resident() - start


def measure(quick: bool, progress: Progress) -> list[Row]:
    """One row, from a process of its own; none without the CPU device or Linux's figures of a process."""
    try:
        find_queue("opencl:cpu")
    except DeviceError:
        progress("memory: the CPU device is not installed")
        return []
    if sys.platform != "linux":
        return []
    count = _QUICK if quick else _COUNT
    progress(f"memory of {count} kernels")
    done = subprocess.run([sys.executable, "-m", __name__, str(count)], capture_output=True, text=True,
                          check=True, env={**os.environ, "XETILE_CACHE": "0"})
    above = float(done.stdout.split()[-1])
    return [Row("Memory", f"{count} kernels built on the CPU device, above the start", above, "MB", _LIMIT / above,
                f"{_LIMIT:g} MB", "memory")]


def main() -> None:
    """Print the figures of one process."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else _COUNT
    for built, above in growth(count):
        if built in (1, 2, 4, 8, 16, 32, count) or built % 64 == 0:
            print(f"{built:5} kernels {above:6.0f}", flush=True)


if __name__ == "__main__":
    main()
