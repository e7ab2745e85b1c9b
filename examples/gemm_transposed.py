"""C = A @ BT^T with a map under which each subgroup loads what it needs (XeTile.md, Appendix 2.3).

The loads transpose, 32-bit words at a time, which is the form that the matrix engine wants. Nothing goes through shared
local memory.

    python examples/gemm_transposed.py
    python examples/gemm_transposed.py --show report
"""

import numpy as np
from running import command_line, judge, placed, show, timed, whole_numbers

import xetile as xt


@xt.kernel
def gemm_transposed(A, BT, C, *, BM=256, BN=256, BK=32, sg=(8, 4), ahead=3):
    m, n, subgroups = xt.group_id(0) * BM, xt.group_id(1) * BN, sg[0] * sg[1]
    map_a, map_c = xt.wg_map(sg, (BM // sg[0], BK)), xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    map_b = xt.wg_map(sg, (BK, BN // sg[1]))
    # Subgroup s owns columns s % sg[1] of B. Blocks of BT go round the subgroups in the same way: it loads its own.
    map_bt = xt.wg_map((subgroups, 1), (BN // sg[1], BK))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=map_a)
    bt = xt.init_tile(BT, (n, 0), (BN, BK), wg_map=map_bt)
    pa = xt.init_tile(A, (m, ahead * BK), (BM, BK), wg_map=xt.wg_map((subgroups, 1), (BM // subgroups, BK)))
    pb = xt.init_tile(BT, (n, ahead * BK), (BN, BK), wg_map=xt.wg_map((subgroups, 1), (BN // subgroups, BK)))
    c = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        xt.prefetch_tile(pa)
        xt.prefetch_tile(pb)
        c = xt.tile_mma(xt.load_tile(a), xt.tile_transpose(xt.load_tile(bt), wg_map=map_b), c)
        a, pa = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(pa, 0, BK)
        bt, pb = xt.update_tile_offset(bt, 0, BK), xt.update_tile_offset(pb, 0, BK)
    xt.store_tile(c, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def constants(target: str) -> dict[str, object]:
    """Tile sizes that fit a target's registers."""
    return {"BM": 128, "BN": 128} if target in ("dg2", "arl", "cpu") else {}


def main() -> None:
    options = command_line(__doc__, m=1024, n=1024, k=1024)
    if options.show:
        spec = xt.Spec((None, None), xt.bf16)
        show(gemm_transposed, options, spec, spec, xt.Spec((None, None), xt.f32), **constants(options.target or "pvc"))
        return
    a, bt = whole_numbers(1, options.m, options.k), whole_numbers(2, options.n, options.k)
    c = np.zeros((options.m, options.n), np.float32)
    kernel = placed(gemm_transposed, options)
    settings = constants(kernel.target.name)
    grid = -(-options.m // settings.get("BM", 256)), -(-options.n // settings.get("BN", 256))
    seconds = timed(lambda: kernel[grid](a, bt, c, **settings))
    expected = a.astype(np.float32) @ bt.T.astype(np.float32)
    judge(kernel, f"{options.m} x {options.k} by {options.k} x {options.n}, transposed", seconds, c, expected)


if __name__ == "__main__":
    main()
