"""A matrix product over MPI ranks, each with its own blocks, checked against NumPy.

    python examples/gemm_distributed.py
    mpiexec -n 4 python -m mpi4py examples/gemm_distributed.py --m 512 --grid 2,2,1

Rank 0 makes A and B and scatters them; the product is gathered for the check alone. With a device the blocks are dpnp
arrays on it, and panels travel while others are multiplied; NumPy hides nothing.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from running import blocks_on, hidden

import xetile.distributed as xd


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in (("m", 512), ("n", 384), ("k", 640)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--grid", help="pr,pc,pk, whose product is the number of ranks (default: of least volume)")
    parser.add_argument("--device", choices=["numpy", "best"], default="best")
    parser.add_argument("--overlap", choices=["chunked", "signalled", "none"], default="chunked")
    parser.add_argument("--progress", action="store_true", help="show a progress bar on rank 0")
    return parser.parse_args()


def timed(plan: xd.Plan, a: Any, b: Any, finish: Any) -> tuple[Any, float]:
    """The result and the seconds of a plan's fastest call; the first one compiles."""
    c, seconds = None, []
    for _ in range(4):
        start = time.perf_counter()
        c = plan(a, b)
        finish()
        seconds.append(time.perf_counter() - start)
    return c, min(seconds)


def main() -> None:
    """Multiply, check, and say what was moved and how long it took."""
    args = options()
    sizes = {"m": args.m, "n": args.n, "k": args.k}
    grid = xd.Grid(*map(int, args.grid.split(",")), **sizes) if args.grid else xd.Grid.choose(**sizes)
    rng = np.random.default_rng(1)
    whole = [rng.integers(-8, 9, shape).astype(np.float32) for shape in ((args.m, args.k), (args.k, args.n))] \
        if grid.rank == 0 else [None, None]
    a, b = grid.scatter(whole[0], "a"), grid.scatter(whole[1], "b")
    (a, b), finish = blocks_on(args.device, a, b)
    seconds = {}
    for overlap in dict.fromkeys(("none", args.overlap)):
        with xd.plan(grid, overlap=overlap, progress=args.progress) as plan:
            c, seconds[overlap] = timed(plan, a, b, finish)
    result = grid.gather(c)
    if grid.rank:
        return
    if not np.array_equal(result, whole[0] @ whole[1]):
        raise SystemExit("the result is wrong")
    print(f"product  {args.m} x {args.k} by {args.k} x {args.n}, f32, on a grid of {' x '.join(map(str, grid.shape))}")
    print(f"volume   {grid.volume} bytes received by all ranks")
    print(hidden(seconds[args.overlap], seconds["none"], grid.ranks))
    print("result   equal to NumPy")


if __name__ == "__main__":
    main()
