"""C = A @ B of 4-bit integers, two in a byte, summed in 32 bits.

Both operands are contiguous along K, A by rows and B by columns: loads bring the pairs as the matrix engine holds them,
which takes 64 of K at a time. A row-major B is unpacked and packed again in the kernel, which takes longer.

    python examples/int4_gemm.py
    python examples/int4_gemm.py --show report
"""

import numpy as np
from running import command_line, judge, placed, show, timed

import xetile as xt


@xt.kernel
def int4_gemm(A, B, C, *, BM=128, BN=128, BK=64, sg=(4, 4)):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    c = xt.zeros((BM, BN), xt.i32, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        c = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), c)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(c, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def main() -> None:
    options = command_line(__doc__, m=1024, n=1024, k=1024)
    if options.show:
        by_columns = xt.Spec((None, None), xt.u4, (1, None))
        show(int4_gemm, options, xt.Spec((None, None), xt.i4), by_columns, xt.Spec((None, None), xt.i32))
        return
    rng = np.random.default_rng(1)
    a, b = rng.integers(-8, 8, (options.m, options.k)), rng.integers(0, 16, (options.k, options.n))
    c = np.zeros((options.m, options.n), np.int32)
    kernel = placed(int4_gemm, options)
    packed_a, packed_b = xt.pack(a, xt.i4), xt.pack(b, xt.u4, axis=0)
    grid = -(-options.m // 128), -(-options.n // 128)
    seconds = timed(lambda: kernel[grid](packed_a, packed_b, c))
    judge(kernel, f"{options.m} x {options.k} by {options.k} x {options.n} of 4 bits", seconds, c, a @ b)


if __name__ == "__main__":
    main()
