"""C = A @ B for a long K: several work-groups share one tile of C, each with its part of K, and add up atomically.

    python examples/split_k.py
    python examples/split_k.py --device opencl:cpu --target pvc --m 64 --n 64 --k 1000 --parts 5
"""

import numpy as np
from running import command_line, judge, placed, show, timed, whole_numbers

import xetile as xt


@xt.kernel
def split_k(A, B, C, *, BM=128, BN=128, BK=32, sg=(4, 4)):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    steps = (A.shape[1] + (BK - 1)) // BK
    share = (steps + xt.num_groups(2) - 1) // xt.num_groups(2)  # steps of one part, rounded up
    first = xt.group_id(2) * share * BK
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, first), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (first, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    c = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, share * BK, BK):  # steps beyond K load zeros
        c = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), c)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.atomic_rmw_tile("add", c, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def constants(target: str) -> dict[str, object]:
    """Tile sizes that fit a target's registers."""
    return {"BM": 64, "BN": 64} if target in ("dg2", "arl", "cpu") else {}


def main() -> None:
    options = command_line(__doc__, m=256, n=256, k=16384, parts=16)
    if options.show:
        spec = xt.Spec((None, None), xt.bf16)
        show(split_k, options, spec, spec, xt.Spec((None, None), xt.f32), **constants(options.target or "pvc"))
        return
    a, b = whole_numbers(1, options.m, options.k), whole_numbers(2, options.k, options.n)
    c = np.zeros((options.m, options.n), np.float32)
    kernel = placed(split_k, options)
    settings = constants(kernel.target.name)
    grid = -(-options.m // settings.get("BM", 128)), -(-options.n // settings.get("BN", 128)), options.parts

    def launch() -> None:
        c[...] = 0  # every part adds to what is there
        kernel[grid](a, b, c, **settings)

    seconds = timed(launch)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    judge(kernel, f"{options.m} x {options.k} by {options.k} x {options.n} in {options.parts} parts of K", seconds, c,
          expected)


if __name__ == "__main__":
    main()
