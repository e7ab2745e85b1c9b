"""Cost of a launch above dpctl's own ``submit_async``: an empty kernel of six arguments. And ``import xetile``."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import xetile as xt
from benchmarks.kernels import empty
from benchmarks.rows import Progress, Row

_LIMITS = {"launch": 10.0, "prepared": 3.0}
_USUAL = 5.0
"""Microseconds of dpctl's ``submit_async`` on the machine for which the limits were set: 4 to 6."""
_IMPORT = "import time; t = time.process_time(); import xetile, sys; took = time.process_time() - t; " \
    "assert 'dpctl' not in sys.modules; print(took)"


def measure(quick: bool, progress: Progress) -> list[Row]:
    """Rows of launches, where dpnp is installed for their arrays, and of the import."""
    rows = _launches(7 if quick else 21, progress) + _import(3 if quick else 9, progress)
    own = [row.value for row in rows if row.name.endswith("dpctl's submit_async")]
    slower = max(own, default=_USUAL) / _USUAL
    return [replace(row, slower=max(slower, 1.0)) for row in rows]


def _import(rounds: int, progress: Progress) -> list[Row]:
    progress("import xetile")
    with tempfile.TemporaryDirectory() as folder:
        # As for a user, whose second import finds bytecode: here it may be forbidden to write any.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        times = [float(subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True,
                                      env=environment).stdout) for _ in range(rounds + 1)]
    took = median(times[1:])
    return [Row("Import", "import xetile", took, "s", 0.4 / took, "0.4 s", "import")]


def _launches(rounds: int, progress: Progress) -> list[Row]:
    if importlib.util.find_spec("dpnp") is None:
        progress("launches: dpnp is not installed")
        return []
    from dpctl import SyclQueue

    from codegen.runtime.devices import find_queue

    rows = []
    for kind, queue in (("in order", find_queue("opencl:cpu")), ("by events", SyclQueue("opencl:cpu"))):
        progress(f"launches, a queue {kind}")
        rows += _on(queue, kind, rounds)
    return rows


def _on(queue: Any, kind: str, rounds: int) -> list[Row]:
    """Rows of a queue that keeps the order by itself, or of one, like dpnp's own, where a launch waits for events."""
    runs = _runs(queue)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            took = _each(run, queue, 300)
            if turn:  # the first is warming up
                times[name].append(took)
    rows = [Row("Launch", f"{kind}: dpctl's submit_async", median(times["dpctl"]), "us")]
    for name, limit in _LIMITS.items():
        above = median(own - other for own, other in zip(times[name], times["dpctl"], strict=True))
        rows.append(Row("Launch", f"{kind}: {name}, above submit_async", above, "us", limit / max(above, 0.01),
                        f"{limit:g} us", name if kind == "in order" else ""))
    return rows


def _each(run: Callable[[], object], queue: Any, count: int) -> float:
    """Microseconds of the host for one of ``count`` launches."""
    queue.wait()
    started = time.thread_time()
    for _ in range(count):
        run()
    took = time.thread_time() - started
    queue.wait()
    return took / count * 1e6


def _runs(queue: Any) -> dict[str, Callable[[], object]]:
    import dpnp

    arrays = [dpnp.zeros((64, 64), dtype="float32", sycl_queue=queue) for _ in range(3)]
    kernel = xt.kernel(empty)
    on_grid = kernel[1, 1]
    return {"dpctl": _own(queue, arrays), "launch": lambda: on_grid(*arrays, 1, 2, 0.5),
            "prepared": on_grid.prepare(*arrays, 1, 2, 0.5)}


def _own(queue: Any, arrays: list[Any]) -> Callable[[], object]:
    """The same launch without xetile: arrays with their sizes and strides, and three numbers."""
    from codegen.runtime.launcher import build_program, find_kernel

    sizes = ", ".join(f"global float *p{i}, int a{i}, int b{i}, int c{i}, int d{i}" for i in range(len(arrays)))
    source = f"kernel void empty({sizes}, int i, int j, float x) {{}}"
    kernel = find_kernel(build_program(queue, source), "empty")
    numbers = [ctypes.c_int(n) for n in (64, 64, 64, 1)]
    arguments = [value for array in arrays for value in (array.get_array().usm_data, *numbers)]
    arguments += [ctypes.c_int(1), ctypes.c_int(2), ctypes.c_float(0.5)]
    return lambda: queue.submit_async(kernel, arguments, [1, 1, 16], [1, 1, 16], [])
