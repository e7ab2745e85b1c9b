"""C = A @ B written for one subgroup: no wg_map, the author says which subgroup does what.

    python examples/gemm_subgroup.py
    python examples/gemm_subgroup.py --device opencl:cpu --target dg2 --m 300 --n 200 --k 100
"""

import argparse

import ml_dtypes
import numpy as np

import xetile as xt


@xt.kernel(subgroups=(4, 2))
def gemm(A, B, C, *, M=32, N=64, K=32):
    # A work-group of 4 x 2 subgroups covers 4 * M rows and 2 * N columns of C; each subgroup computes M x N of them.
    row = (xt.group_id(0) * 4 + xt.subgroup_id(0)) * M
    column = (xt.group_id(1) * 2 + xt.subgroup_id(1)) * N
    a = xt.init_tile(A, (row, 0), (M, K))
    b = xt.init_tile(B, (0, column), (K, N))
    ahead_a, ahead_b = xt.update_tile_offset(a, 0, 2 * K), xt.update_tile_offset(b, 2 * K, 0)
    acc = xt.zeros((M, N), xt.f32)
    for _ in xt.range(0, A.shape[1], K):
        xt.prefetch_tile(ahead_a)
        xt.prefetch_tile(ahead_b)
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, ahead_a = xt.update_tile_offset(a, 0, K), xt.update_tile_offset(ahead_a, 0, K)
        b, ahead_b = xt.update_tile_offset(b, K, 0), xt.update_tile_offset(ahead_b, K, 0)
    xt.store_tile(acc, xt.init_tile(C, (row, column), (M, N)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("m", "n", "k"):
        parser.add_argument(f"--{name}", type=int, default=512)
    parser.add_argument("--device", default=xt.best_device())
    parser.add_argument("--target", choices=xt.TARGETS)
    options = parser.parse_args()
    generator = np.random.default_rng(1)
    a = generator.integers(-8, 9, (options.m, options.k)).astype(ml_dtypes.bfloat16)
    b = generator.integers(-8, 9, (options.k, options.n)).astype(ml_dtypes.bfloat16)
    c = np.zeros((options.m, options.n), np.float32)
    kernel = gemm.on(options.device, target=options.target)
    # A smaller tile where registers are half as wide, or where there are no matrix registers at all.
    tile = {} if kernel.target.name not in ("dg2", "arl", "cpu") else {"M": 8, "N": 64}
    grid = -(-options.m // (4 * tile.get("M", 32))), -(-options.n // (2 * tile.get("N", 64)))
    kernel[grid](a, b, c, **tile)
    # Integers this small make every product and sum exact, so the results must be equal, not just close.
    if not np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32)):
        raise SystemExit("the result is wrong")
    print(f"{options.m} x {options.k} by {options.k} x {options.n} on {kernel.device}, code for {kernel.target.name}: "
          "equal to NumPy")


if __name__ == "__main__":
    main()
