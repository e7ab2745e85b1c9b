"""C[i] = A[i] @ B[i] for a batch of matrices: an array of three dimensions, the batch along the grid's last axis.

    python examples/batched_gemm.py
    python examples/batched_gemm.py --device opencl:cpu --target bmg --batch 3 --m 100 --n 70 --k 50
"""

import numpy as np
from running import command_line, judge, placed, show, timed, whole_numbers

import xetile as xt


@xt.kernel
def batched_gemm(A, B, C, *, BM=128, BN=128, BK=32, sg=(4, 4)):
    m, n, i = xt.group_id(0) * BM, xt.group_id(1) * BN, xt.group_id(2)
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (i, m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (i, 0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    c = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, A.shape[2], BK):
        c = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), c)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    # A tile covers the last two dimensions: rows beyond the last of one matrix are never rows of the next.
    xt.store_tile(c, xt.init_tile(C, (i, m, n), (BM, BN), wg_map=map_c))


def constants(target: str) -> dict[str, object]:
    """Tile sizes that fit a target's registers."""
    return {"BM": 64, "BN": 64} if target in ("dg2", "arl", "cpu") else {}


def main() -> None:
    options = command_line(__doc__, batch=8, m=512, n=512, k=512)
    if options.show:
        spec = xt.Spec((None, None, None), xt.bf16)
        c = xt.Spec((None, None, None), xt.f32)
        show(batched_gemm, options, spec, spec, c, **constants(options.target or "pvc"))
        return
    a = whole_numbers(1, options.batch, options.m, options.k)
    b = whole_numbers(2, options.batch, options.k, options.n)
    c = np.zeros((options.batch, options.m, options.n), np.float32)
    kernel = placed(batched_gemm, options)
    settings = constants(kernel.target.name)
    grid = -(-options.m // settings.get("BM", 128)), -(-options.n // settings.get("BN", 128)), options.batch
    seconds = timed(lambda: kernel[grid](a, b, c, **settings))
    expected = np.matmul(a.astype(np.float32), b.astype(np.float32))
    judge(kernel, f"{options.batch} products of {options.m} x {options.k} by {options.k} x {options.n}", seconds, c,
          expected)


if __name__ == "__main__":
    main()
