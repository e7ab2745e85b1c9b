"""The target cpu beside NumPy and dpnp: square products, an epilogue, sizes that fit no tile, and bytes.

    python -m benchmarks.run_time.cpu [rounds]

Everything that is compared runs in turn, and what is compared are medians: other work disturbs all alike. Before each
turn there is a pause, in which the threads of the one before fall asleep. Where a product reads each byte of a matrix
once, it is also compared with how fast all cores read memory: sums of as many bytes by NumPy, in a thread each. Where
arithmetic bounds an odd product, it is compared with the rate of our own square one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

import dpctl
import dpnp
import ml_dtypes
import numpy as np

import xetile as xt
from benchmarks.run_time.arrays import on_cpu
from benchmarks.timing import PAUSE, TURN, interleaved

SQUARE = 2048
ODD = ((1000, 1000, 1000), (1, 4096, 4096), (4096, 17, 4096), (4096, 4096, 17))
"""M, N and K of products that fit no tile."""
MEMORY = "as many bytes read by all cores"
RATE = "the rate of the square product"
PLAIN = "the same without"


@xt.kernel
def product(A: Any, B: Any, bias: Any, C: Any, *, BM: int = 256, BN: int = 256, BK: int = 32,
            sg: tuple[int, int] = (8, 4), gelu: bool = False, acc: Any = xt.f32) -> None:
    """C = A @ B by the tiles of work-groups; with ``gelu`` that of the sum with a bias."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    rows, columns = BM // sg[0], BN // sg[1]
    map_c = xt.wg_map(sg_layout=sg, sg_data=(rows, columns))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg_layout=sg, sg_data=(rows, BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg_layout=sg, sg_data=(BK, columns)))
    total = xt.zeros((BM, BN), acc, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    if gelu:
        row = xt.load_tile(xt.init_tile(bias, (0, n), (1, BN), wg_map=xt.wg_map(sg, (1, columns))))
        total = total + xt.tile_broadcast(row, (BM, BN), wg_map=map_c)
        total = total * 0.5 * (1.0 + xt.erf(total * 0.7071067811865476))
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@dataclass(frozen=True)
class Measured:
    """A figure.

    Attributes:
        name: what ran.
        rate: GFLOP/s, the median.
        bytes: GB/s of all three arrays, each counted once.
        ratios: rate over that of what it is compared with, by name.
    """

    name: str
    rate: float
    bytes: float
    ratios: Mapping[str, float]


def measure_cpu(rounds: int = 7, size: int = SQUARE) -> list[Measured]:
    """All figures of the target cpu; results are compared with NumPy's before anything is timed.

    Args:
        rounds: how often each runs.
        size: rows and columns of the square products.
    """
    queue = dpctl.SyclQueue("opencl:cpu")
    square = (size, size, size)
    figures = [_products(queue, square, np.dtype(kind), rounds)
               for kind in (np.float32, ml_dtypes.bfloat16, np.float16, np.int8)]
    return [*figures, _epilogue(queue, size, rounds),
            *(_products(queue, shape, np.dtype(np.float32), rounds) for shape in ODD),
            _products(queue, ODD[1], np.dtype(ml_dtypes.bfloat16), rounds)]


def _tile(m: int, n: int, kind: np.dtype[Any]) -> dict[str, Any]:
    """The constants that a user gives: 64 rows a subgroup, not much more than C has; for one row, pages of B's rows."""
    if m == 1:
        return {"BM": 1, "BN": 4096 // kind.itemsize, "sg": (1, 1)}
    return {"BM": 256, "BN": 32, "sg": (4, 1)} if n < 64 else {"BM": 256, "BN": 128, "sg": (4, 2)}


def _products(queue: Any, shape: tuple[int, int, int], kind: np.dtype[Any], rounds: int) -> Measured:
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, size).astype(np.float32) for size in ((m, k), (k, n)))
    ours, found = _ours(queue, a, b, kind, **_tile(m, n, kind))
    on_device = [on_cpu(x, queue) for x in (a, b)]
    moved = (m * k + k * n) * kind.itemsize + m * n * 4
    bound = {MEMORY: _reading(moved)} if min(shape) == 1 else {RATE: _square(queue, kind)} if shape in ODD else {}
    times = interleaved({"ours": ours, "NumPy float32": lambda: np.matmul(a, b),
                      "dpnp float32": lambda: dpnp.matmul(*on_device).sycl_queue.wait(), **bound}, rounds, PAUSE, TURN)
    np.testing.assert_array_equal(found(), a @ b)
    seconds = median(times["ours"])
    work = {RATE: m * n * k / SQUARE**3}
    ratios = {name: median(t) / seconds * work.get(name, 1.0) for name, t in times.items() if name != "ours"}
    return Measured(f"{m} x {n} x {k} {kind.name}", 2e-9 * m * n * k / seconds, 1e-9 * moved / seconds, ratios)


def _square(queue: Any, kind: np.dtype[Any]) -> Callable[[], object]:
    """Our product of square matrices."""
    rng = np.random.default_rng(SQUARE)
    a, b = (rng.integers(-4, 5, (SQUARE, SQUARE)).astype(np.float32) for _ in range(2))
    return _ours(queue, a, b, kind, **_tile(SQUARE, SQUARE, kind))[0]


def _reading(moved: int) -> Callable[[], object]:
    """Sums of so many bytes by all cores."""
    cores = os.cpu_count() or 1
    parts = np.array_split(np.ones(moved // 4, np.float32), cores)
    pool = ThreadPoolExecutor(cores)
    return lambda: list(pool.map(np.sum, parts))


def _epilogue(queue: Any, size: int, rounds: int) -> Measured:
    """A product with bias and GELU, beside the same without."""
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    kind = np.dtype(np.float32)
    plain, fused = (_ours(queue, a, b, kind, **_tile(size, size, kind), gelu=gelu)[0] for gelu in (False, True))
    times = interleaved({"fused": fused, "plain": plain}, rounds, PAUSE, TURN)
    seconds, alone = median(times["fused"]), median(times["plain"])
    return Measured(f"{size}^3 float32, bias and GELU", 2e-9 * size**3 / seconds, 12e-9 * size**2 / seconds,
                    {PLAIN: alone / seconds})


def _ours(queue: Any, a: Any, b: Any, kind: np.dtype[Any],
          **constants: Any) -> tuple[Callable[[], None], Callable[[], Any]]:
    """A launch on arrays of the device, until it is done; and what it gave. dpnp has no bf16: the bits travel."""
    bits = kind == ml_dtypes.bfloat16
    held = [on_cpu(x.astype(kind).view(np.uint16) if bits else x.astype(kind), queue) for x in (a, b)]
    operands = [xt.view(x, xt.bf16) if bits else x for x in held]
    acc = xt.i32 if kind == np.int8 else xt.f32
    c = on_cpu(np.zeros((a.shape[0], b.shape[1]), np.int32 if kind == np.int8 else np.float32), queue)
    bias = dpnp.zeros((1, b.shape[1]), dtype=np.float32, sycl_queue=queue)
    launch = product.on(queue)[-(-a.shape[0] // constants["BM"]), -(-b.shape[1] // constants["BN"])]

    def run() -> None:
        launch(*operands, bias, c, acc=acc, **constants)
        queue.wait()

    return run, lambda: dpnp.asnumpy(c)


def main() -> None:
    """Measure and print."""
    for figure in measure_cpu(int(sys.argv[1]) if len(sys.argv) > 1 else 7):
        ratios = ", ".join(f"{ratio:.2f} x {name}" for name, ratio in figure.ratios.items())
        print(f"{figure.name:<34} {figure.rate:7.1f} GFLOP/s {figure.bytes:6.1f} GB/s   {ratios}", flush=True)


if __name__ == "__main__":
    main()
