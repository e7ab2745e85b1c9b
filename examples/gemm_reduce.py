"""Row sums of A @ BT^T + bias: transpose, broadcast and reduction around a product (XeTile.md, Appendix 2.2).

    python examples/gemm_reduce.py
    python examples/gemm_reduce.py --device opencl:cpu --target pvc --m 512 --n 512 --k 256
    python examples/gemm_reduce.py --show report
"""

import numpy as np
from running import command_line, judge, placed, show, timed, whole_numbers

import xetile as xt


@xt.kernel
def gemm_reduce(A, BT, bias, sums, *, BM=256, BN=256, BK=32, sg=(8, 4), ahead=6):
    m, subgroups = xt.group_id(0) * BM, sg[0] * sg[1]
    rows, columns = BM // sg[0], BN // sg[1]
    map_a, map_b = xt.wg_map(sg, (rows, BK)), xt.wg_map(sg, (BK, columns))
    map_bt = xt.wg_map((sg[1], sg[0]), (columns, BK))
    map_c, map_bias = xt.wg_map(sg, (rows, columns)), xt.wg_map(sg, (1, columns))
    map_rows = xt.wg_map((subgroups, 1), (BM // subgroups, BN))
    map_sums = xt.wg_map((subgroups, 1), (BM // subgroups, 1))
    shares_a, shares_bt = (xt.wg_map((subgroups, 1), (size // subgroups, BK)) for size in (BM, BN))
    total = xt.zeros((BM, 1), xt.f32, wg_map=map_sums)
    for n in xt.range(0, BT.shape[0], BN):
        a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=map_a)
        bt = xt.init_tile(BT, (n, 0), (BN, BK), wg_map=map_bt)
        pa = xt.init_tile(A, (m, ahead * BK), (BM, BK), wg_map=shares_a)
        pb = xt.init_tile(BT, (n, ahead * BK), (BN, BK), wg_map=shares_bt)
        c = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
        for _ in xt.range(0, A.shape[1], BK):
            b = xt.tile_transpose(xt.load_tile(bt), wg_map=map_b)
            xt.prefetch_tile(pa)
            xt.prefetch_tile(pb)
            c = xt.tile_mma(xt.load_tile(a), b, c)
            a, pa = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(pa, 0, BK)
            bt, pb = xt.update_tile_offset(bt, 0, BK), xt.update_tile_offset(pb, 0, BK)
        row = xt.load_tile(xt.init_tile(bias, (0, n), (1, BN), wg_map=map_bias))
        c = c + xt.tile_broadcast(row, (BM, BN), wg_map=map_c)
        # Only sums are wanted of the new layout: partial sums change hands, 256 x 4 numbers, and not the tile.
        total = total + xt.tile_reduce("add", xt.tile_conv_layout(c, map_rows), 1)
    xt.store_tile(total, xt.init_tile(sums, (m, 0), (BM, 1), wg_map=map_sums))


def constants(target: str) -> dict[str, object]:
    """Tile sizes that fit a target's registers."""
    return {"BM": 128, "BN": 128, "sg": (8, 4)} if target in ("dg2", "arl", "cpu") else {}


def main() -> None:
    options = command_line(__doc__, m=1024, n=1024, k=1024)
    if options.show:
        spec = xt.Spec((None, None), xt.bf16)
        show(gemm_reduce, options, spec, spec, xt.Spec((1, None), xt.f32), xt.Spec((None, 1), xt.f32),
             **constants(options.target or "pvc"))
        return
    a, bt = whole_numbers(1, options.m, options.k), whole_numbers(2, options.n, options.k)
    bias, sums = whole_numbers(3, 1, options.n, dtype=np.float32), np.zeros((options.m, 1), np.float32)
    kernel = placed(gemm_reduce, options)
    settings = constants(kernel.target.name)
    seconds = timed(lambda: kernel[-(-options.m // settings.get("BM", 256)),](a, bt, bias, sums, **settings))
    # Columns beyond the last are zero in BT and in the bias alike, so they add nothing.
    expected = (a.astype(np.float64) @ bt.T.astype(np.float64) + bias).sum(axis=1, keepdims=True)
    judge(kernel, f"row sums of {options.m} x {options.k} by {options.k} x {options.n}", seconds, sums, expected, 1e-6)


if __name__ == "__main__":
    main()
