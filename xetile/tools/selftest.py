"""Self-test: small kernels, one for each area of the language, on everything that this machine can run kernels on.

Each result is compared with plain NumPy: integers and sums of small integers exactly, functions within a few ulp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import ml_dtypes
import numpy as np

import xetile as xt
from codegen.runtime import devices
from codegen.simulator.decoder import decoded_targets
from xegpu.ir.dtypes import NDArray
from xegpu.support.errors import XeError
from xetile.runtime.executors import check_simulator

Launch = Callable[..., None]
"""A kernel bound to an execution, with its grid: called with the arguments and constants."""


@xt.kernel
def product(A: xt.Array, B: xt.Array, C: xt.Array, *, acc: Any) -> None:
    """C = A @ B in tiles of 16x32, by the matrix engine where there is one."""
    m, n = xt.group_id(0) * 16, xt.group_id(1) * 32
    total = xt.zeros((16, 32), acc)
    for k in xt.range(0, A.shape[1], 32):
        total = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (16, 32))),
                            xt.load_tile(xt.init_tile(B, (k, n), (32, 32))), total)
    xt.store_tile(total, xt.init_tile(C, (m, n), (16, 32)))


@xt.kernel
def functions(X: xt.Array, Y: xt.Array) -> None:
    """Y = exp(X) * tanh(X)."""
    here = (xt.group_id(0) * 8, xt.group_id(1) * 16)
    x = xt.load_tile(xt.init_tile(X, here, (8, 16)))
    xt.store_tile(xt.exp(x) * xt.tanh(x), xt.init_tile(Y, here, (8, 16)))


@xt.kernel
def centered(X: xt.Array, Y: xt.Array) -> None:
    """Y = X minus each row's greatest number, times its sum: reductions and broadcasts."""
    here = (xt.group_id(0) * 8, 0)
    x = xt.load_tile(xt.init_tile(X, here, (8, 32)))
    xt.store_tile((x - xt.tile_reduce("max", x, 1)) * xt.tile_reduce("add", x, 1), xt.init_tile(Y, here, (8, 32)))


@xt.kernel
def transposed(X: xt.Array, Y: xt.Array) -> None:
    """Y = X.T."""
    m, n = xt.group_id(0) * 16, xt.group_id(1) * 16
    xt.store_tile(xt.tile_transpose(xt.load_tile(xt.init_tile(X, (m, n), (16, 16)))),
                  xt.init_tile(Y, (n, m), (16, 16)))


@xt.kernel
def counted(VALUES: xt.Array, COUNTS: xt.Array) -> None:
    """COUNTS[v] += 1 for each v of VALUES: gathered addresses and atomic updates."""
    at = xt.load_tile(xt.init_tile(VALUES, (xt.group_id(0) * 8, 0), (8, 16))).to(xt.index)
    xt.atomic_rmw_tile("add", xt.full((8, 16), 1, xt.i32), xt.init_tile(COUNTS, offsets=at))


@xt.kernel(subgroups=(2, 2))
def exchanged(X: xt.Array, Y: xt.Array) -> None:
    """Four subgroups exchange their quarters of a tile of 16x32 crosswise through shared local memory."""
    row, column = xt.subgroup_id(0), xt.subgroup_id(1)
    m = xt.group_id(0) * 16
    shared = xt.alloc_slm((16, 32), xt.f32)
    quarter = xt.load_tile(xt.init_tile(X, (m + row * 8, column * 16), (8, 16)))
    xt.store_tile(quarter, xt.init_tile(shared, (row * 8, column * 16), (8, 16)))
    xt.barrier()
    across = xt.load_tile(xt.init_tile(shared, ((1 - row) * 8, (1 - column) * 16), (8, 16)))
    xt.store_tile(across, xt.init_tile(Y, (m + row * 8, column * 16), (8, 16)))


@xt.kernel
def halved(X: xt.Array, N: xt.Array) -> None:
    """N = how often X can be halved: run-time loops and conditions."""
    group = xt.group_id(0)
    value, count = xt.load_scalar(X, (group, 0)), xt.scalar(0, xt.i32)
    for _ in xt.while_(lambda: value > 1):  # noqa: B023  # called at once in each iteration
        value, count = value // 2, count + 1
    xt.store_tile(xt.full((1, 1), count, xt.i32), xt.init_tile(N, (group, 0), (1, 1)))


@dataclass(frozen=True)
class Probe:
    """Test of one area of the language.

    Attributes:
        name: the area.
        kernel: the kernel.
        grid: its work-groups.
        run: launches it, and returns the result and the expected one.
        ulps: how far a result may be from the expected one, in units of its last place; 0 for equality.
    """

    name: str
    kernel: Any
    grid: tuple[int, ...]
    run: Callable[[Launch], tuple[NDArray, NDArray]]
    ulps: int = 0


def _integers(shape: tuple[int, ...], dtype: Any, low: int = -5, high: int = 5) -> NDArray:
    return np.random.default_rng(7).integers(low, high, shape, endpoint=True).astype(dtype)


def _product_case(dtype: Any, acc: Any) -> Callable[[Launch], tuple[NDArray, NDArray]]:
    def run(launch: Launch) -> tuple[NDArray, NDArray]:
        a, b = _integers((27, 72), dtype, -3, 3), _integers((72, 49), dtype, -2, 4)
        c = np.full((27, 49), 77, acc)
        launch(a, b, c, acc=xt.i32 if acc is np.int32 else xt.f32)
        return c, a.astype(np.int64) @ b.astype(np.int64)
    return run


def _functions(launch: Launch) -> tuple[NDArray, NDArray]:
    x = np.random.default_rng(3).normal(0, 2, (19, 37)).astype(np.float32)
    y = np.full_like(x, 77)
    launch(x, y)
    exact = x.astype(np.float64)
    return y, np.exp(exact) * np.tanh(exact)


def _centered(launch: Launch) -> tuple[NDArray, NDArray]:
    x = _integers((11, 32), np.float32)
    y = np.full_like(x, 77)
    launch(x, y)
    return y, (x - x.max(1, keepdims=True)) * x.sum(1, keepdims=True)


def _transposed(launch: Launch) -> tuple[NDArray, NDArray]:
    x = _integers((29, 18), np.float32, -99, 99)
    y = np.full((18, 29), 77, np.float32)
    launch(x, y)
    return y, x.T


def _counted(launch: Launch) -> tuple[NDArray, NDArray]:
    values, counts = _integers((24, 16), np.int32, 0, 20), np.zeros((3, 7), np.int32)
    launch(values, counts)
    return counts, np.bincount(values.ravel(), minlength=21).reshape(3, 7)


def _exchanged(launch: Launch) -> tuple[NDArray, NDArray]:
    x = _integers((32, 32), np.float32, -99, 99)
    y = np.full_like(x, 77)
    launch(x, y)
    return y, np.roll(x.reshape(2, 2, 8, 2, 16), (1, 1), (1, 3)).reshape(32, 32)


def _halved(launch: Launch) -> tuple[NDArray, NDArray]:
    x = np.array([[1], [2], [37], [1024], [65535]], np.int32)
    counts = np.full((5, 1), 77, np.int32)
    launch(x, counts)
    return counts, np.array([[int(value).bit_length() - 1] for value in x.ravel()])


PROBES = (Probe("bf16 product", product, (2, 2), _product_case(ml_dtypes.bfloat16, np.float32)),
          Probe("i8 product", product, (2, 2), _product_case(np.int8, np.int32)),
          Probe("functions", functions, (3, 3), _functions, ulps=8),
          Probe("reductions", centered, (2,), _centered),
          Probe("transposes", transposed, (2, 2), _transposed),
          Probe("atomics", counted, (3,), _counted),
          Probe("shared memory", exchanged, (2,), _exchanged),
          Probe("control flow", halved, (5,), _halved))


@dataclass(frozen=True)
class Execution:
    """A way to run kernels on this machine.

    Attributes:
        where, target: of ``kernel.on(where, target=target)``.
    """

    where: str
    target: str | None = None

    def __str__(self) -> str:
        return self.where if self.target is None else f"{self.where}, code for {self.target}"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a probe.

    Attributes:
        fault: what is wrong; empty if the result is right.
        seconds: of the launch, compilation included.
    """

    fault: str
    seconds: float


def executions() -> Iterator[Execution]:
    """The executions of this machine: NumPy's, every device's, and the simulator's where its tools are there."""
    yield from (Execution("numpy"), Execution("numpy:program"), Execution("numpy:xegpu"))
    with suppress(XeError):  # without devices
        for where, device in devices.all_devices():
            yield Execution(where)
            if device.is_cpu:
                yield Execution(where, "pvc")
    with suppress(XeError):  # without the tools
        check_simulator()
        yield from (Execution(f"machine:{name}") for name in decoded_targets())


def outcome(probe: Probe, execution: Execution) -> Outcome:
    """Run a probe in an execution."""
    begin = perf_counter()
    try:
        bound = probe.kernel.on(execution.where, target=execution.target)
        result, expected = probe.run(bound[probe.grid])
    except XeError as error:
        return Outcome(f"[{error.code}] {error.message}", perf_counter() - begin)
    except Exception as error:  # the report is of whatever goes wrong, in a driver as well
        return Outcome(f"{type(error).__name__}: {error}", perf_counter() - begin)
    return Outcome(_difference(result, expected, probe.ulps), perf_counter() - begin)


def _difference(result: NDArray, expected: NDArray, ulps: int) -> str:
    """Position and values of the first difference from the expected result; empty if there is none."""
    bound = ulps * np.spacing(np.abs(expected).astype(np.float32)) if ulps else 0
    wrong = ~(np.abs(result.astype(np.float64) - expected) <= bound)
    if not wrong.any():
        return ""
    at = tuple(int(index) for index in np.argwhere(wrong)[0])
    return f"{np.count_nonzero(wrong)} of {result.size} numbers are wrong; at {at} is {result[at]}, not {expected[at]}"
