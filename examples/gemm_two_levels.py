"""C = A @ B with prefetches into two levels of cache (XeTile.md, Appendix 2.5).

Every step of K is prefetched into the near cache three steps ahead; every fourth step brings the next 128 columns of A
and rows of B into the far one, behind a barrier that keeps the subgroups together. XeTile.md's 512 x 256 tile leaves no
register for operands beside its 64 x 64 accumulators; 256 x 256 does.

    python examples/gemm_two_levels.py
    python examples/gemm_two_levels.py --device opencl:cpu --target pvc --m 512 --n 512 --k 512
"""

import numpy as np
from running import command_line, judge, placed, show, timed, whole_numbers

import xetile as xt


@xt.kernel
def gemm_two_levels(A, B, C, *, BM=256, BN=256, BK=32, sg=(8, 4), near=3, far=4):
    m, n, subgroups = xt.group_id(0) * BM, xt.group_id(1) * BN, sg[0] * sg[1]
    map_a, map_b = xt.wg_map(sg, (BM // sg[0], BK)), xt.wg_map(sg, (BK, BN // sg[1]))
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    wide = far * BK  # what one prefetch into the far cache covers
    far_a_map = xt.wg_map((subgroups, 1), (BM // subgroups, wide))
    far_b_map = xt.wg_map((subgroups // 2, 2), (2 * wide // subgroups, BN // 2))
    near_a_map = xt.wg_map((subgroups, 1), (BM // subgroups, BK))
    near_b_map = xt.wg_map((4, subgroups // 4), (BK // 4, BN // (subgroups // 4)))
    far_a, far_b = (xt.init_tile(A, (m, 0), (BM, wide), wg_map=far_a_map),
                    xt.init_tile(B, (0, n), (wide, BN), wg_map=far_b_map))
    for _ in range(2):
        xt.prefetch_tile(far_a, locality=2)
        xt.prefetch_tile(far_b, locality=2)
        far_a, far_b = xt.update_tile_offset(far_a, 0, wide), xt.update_tile_offset(far_b, wide, 0)
    near_a, near_b = (xt.init_tile(A, (m, 0), (BM, BK), wg_map=near_a_map),
                      xt.init_tile(B, (0, n), (BK, BN), wg_map=near_b_map))
    for _ in range(near):
        xt.prefetch_tile(near_a, locality=3)
        xt.prefetch_tile(near_b, locality=3)
        near_a, near_b = xt.update_tile_offset(near_a, 0, BK), xt.update_tile_offset(near_b, BK, 0)
    a, b = (xt.init_tile(A, (m, 0), (BM, BK), wg_map=map_a), xt.init_tile(B, (0, n), (BK, BN), wg_map=map_b))
    c = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for k in xt.range(0, A.shape[1], BK):
        with xt.when(k % wide == 0):
            xt.barrier()
            xt.prefetch_tile(far_a, locality=2)
            xt.prefetch_tile(far_b, locality=2)
            far_a, far_b = xt.update_tile_offset(far_a, 0, wide), xt.update_tile_offset(far_b, wide, 0)
        xt.prefetch_tile(near_a, locality=3)
        xt.prefetch_tile(near_b, locality=3)
        near_a, near_b = xt.update_tile_offset(near_a, 0, BK), xt.update_tile_offset(near_b, BK, 0)
        c = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), c)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(c, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def constants(target: str) -> dict[str, object]:
    """Tile sizes that fit a target's registers."""
    return {"BM": 128, "BN": 128} if target in ("dg2", "arl", "cpu") else {}


def main() -> None:
    options = command_line(__doc__, m=1024, n=1024, k=1024)
    if options.show:
        spec = xt.Spec((None, None), xt.bf16)
        show(gemm_two_levels, options, spec, spec, xt.Spec((None, None), xt.f32), **constants(options.target or "pvc"))
        return
    a, b = whole_numbers(1, options.m, options.k), whole_numbers(2, options.k, options.n)
    c = np.zeros((options.m, options.n), np.float32)
    kernel = placed(gemm_two_levels, options)
    settings = constants(kernel.target.name)
    grid = -(-options.m // settings.get("BM", 256)), -(-options.n // settings.get("BN", 256))
    seconds = timed(lambda: kernel[grid](a, b, c, **settings))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    judge(kernel, f"{options.m} x {options.k} by {options.k} x {options.n}, two levels of prefetch", seconds, c,
          expected)


if __name__ == "__main__":
    main()
