"""Command line of the examples, the device that they run on, and the judgement of a result."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import xetile as xt

Array = np.ndarray[Any, Any]


def command_line(text: str, **sizes: int) -> argparse.Namespace:
    """The options of an example: its sizes, ``--device``, ``--target`` and ``--show``."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--device", help="numpy, numpy:xegpu, opencl:cpu, opencl:gpu, level_zero:gpu (default: best)")
    parser.add_argument("--target", choices=xt.TARGETS, help="whose code to run or show")
    parser.add_argument("--causal", action="store_true", help="for attention only")
    parser.add_argument("--show", choices=["xetile", "xegpu", "opencl", "isa", "report"], help="print, do not run")
    return parser.parse_args()


def placed(kernel: Any, options: argparse.Namespace) -> Any:
    """The kernel where the options say, by default on the best device there is."""
    return kernel.on(options.device or xt.best_device(), target=options.target)


def show(kernel: Any, options: argparse.Namespace, *arguments: Any, **constants: Any) -> None:
    """Print what the options ask for: a stage, the machine code, or a report on it."""
    lowered = kernel.lower(*arguments, target=options.target or "pvc", **constants)
    print({"isa": lowered.isa, "report": lowered.report}[options.show]() if options.show in ("isa", "report")
          else getattr(lowered, options.show))


def timed(launch: Callable[[], None], times: int = 2) -> float:
    """The seconds of the fastest of some launches; the first one compiles."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        launch()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def whole_numbers(seed: int, *shape: int, most: int = 3, dtype: Any = ml_dtypes.bfloat16) -> Array:
    """Random whole numbers, so small that sums of products are exact."""
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(dtype)


def normal(seed: int, *shape: int, dtype: Any = np.float32) -> Array:
    """Random numbers with mean 0 and variance 1."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)


def judge(kernel: Any, what: str, seconds: float, result: Array, expected: Array, limit: float = 0) -> None:
    """Say how long it took and how far the result is from NumPy's; leave with an error if it is too far.

    Args:
        kernel: the kernel where it ran.
        what: what was computed.
        seconds: how long it took, copies included.
        result, expected: in any types.
        limit: the largest error that is right, as a part of the largest element; 0 where results must be equal.
    """
    wide = [array.astype(np.float64) for array in (result, expected)]
    error = np.abs(wide[0] - wide[1]).max(initial=0) / max(np.abs(wide[1]).max(initial=0), 1e-30)
    if not error <= limit:
        raise SystemExit(f"the result is wrong: an error of {error:.2e} is more than {limit}")
    close = "equal to NumPy" if limit == 0 else f"within {error:.1e} of NumPy"
    print(f"{what} on {kernel.device}, code for {kernel.target.name}: {close}, {seconds * 1e3:.1f} ms with copies")


def blocks_on(device: str, *blocks: Array) -> tuple[list[Any], Callable[[], object]]:
    """A rank's blocks where ``--device`` says, NumPy or this rank's best device, and what waits for their products."""
    if device == "numpy" or xt.best_device() == "numpy":
        return list(blocks), list
    import dpnp

    import xetile.distributed as xd

    queue = xd.queue()
    return [dpnp.asarray(block, sycl_queue=queue) for block in blocks], queue.wait


def hidden(seconds: float, plain: float, ranks: int) -> str:
    """What a product over ranks took, and how much of it overlap saved; one rank has no messages to hide."""
    if ranks == 1:
        return f"time     {seconds * 1e3:.1f} ms; one rank has no messages to hide"
    return f"time     {seconds * 1e3:.1f} ms, without overlap {plain * 1e3:.1f} ms: " \
        f"{max(plain - seconds, 0) * 1e3:.1f} ms hidden"
