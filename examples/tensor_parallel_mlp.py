"""A two-layer perceptron split over MPI ranks: the first layer by columns, the second by rows, as Megatron does.

    python examples/tensor_parallel_mlp.py
    mpiexec -n 4 python -m mpi4py examples/tensor_parallel_mlp.py

Each rank has some tokens of x, some columns of w1 and the same rows of w2. The first layer gathers tokens while it
multiplies; the second one sends sums while it multiplies, and leaves each rank its tokens.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from running import blocks_on, hidden

import xetile.distributed as xd


def main() -> None:
    """Run both layers, check them against NumPy, and say what was moved and how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in (("tokens", 128), ("width", 96), ("hidden", 256)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--device", choices=["numpy", "best"], default="best")
    args = parser.parse_args()
    ranks = xd.Grid.choose(args.tokens, args.width, args.hidden).ranks
    first = xd.Grid(1, ranks, 1, m=args.tokens, n=args.hidden, k=args.width, rows_of_a=True)
    second = xd.Grid(1, 1, ranks, m=args.tokens, n=args.width, k=args.hidden)
    rng = np.random.default_rng(1)
    x, w1, w2 = (rng.standard_normal(shape).astype(np.float32) / 8 for shape in (
        (args.tokens, args.width), (args.width, args.hidden), (args.hidden, args.width)))
    own, finish = blocks_on(args.device, x[first.block("a")], w1[first.block("b")], w2[second.block("b")])
    seconds = {"none": math.inf, "chunked": math.inf}
    for overlap in ("none", "chunked") * 4:  # the first one of each compiles
        start = time.perf_counter()
        y = xd.all_gather_matmul(own[0], own[1], activation="silu", overlap=overlap)
        z = xd.matmul_reduce_scatter(y, own[2], overlap=overlap)
        finish()
        seconds[overlap] = min(seconds[overlap], time.perf_counter() - start)
    result = second.gather(z)
    if second.rank:
        return
    middle = x.astype(np.float64) @ w1
    expected = (middle / (1 + np.exp(-middle))) @ w2
    error = np.abs(result - expected).max() / np.abs(expected).max()
    if not error < 1e-5 * math.sqrt(args.hidden):
        raise SystemExit(f"the result is wrong: an error of {error:.1e}")
    print(f"layers   {args.tokens} tokens, {args.width} to {args.hidden} to {args.width}, f32, on {ranks} rank"
          f"{'s' * (ranks > 1)}")
    print(f"volume   {first.volume + second.volume} bytes received by all ranks")
    print(hidden(seconds["chunked"], seconds["none"], ranks))
    print(f"result   within {error:.1e} of NumPy")


if __name__ == "__main__":
    main()
