"""C = A @ B with cooperative loads through a ring of buffers in shared local memory (XeTile.md, Appendix 2.4).

For devices without a fast prefetch: while the work-group multiplies one step of K, each subgroup brings its share of a
step that lies ``stages - 1`` ahead, and puts it into the buffer that everyone has left.

    python examples/gemm_slm.py
    python examples/gemm_slm.py --device opencl:cpu --target dg2 --m 256 --n 256 --k 256
    python examples/gemm_slm.py --show report
"""

import numpy as np
from running import command_line, judge, placed, show, timed, whole_numbers

import xetile as xt


@xt.kernel
def gemm_slm(A, B, C, *, BM=256, BN=256, BK=32, sg=(8, 4), stages=4):
    m, n, subgroups = xt.group_id(0) * BM, xt.group_id(1) * BN, sg[0] * sg[1]
    map_a, map_b = xt.wg_map(sg, (BM // sg[0], BK)), xt.wg_map(sg, (BK, BN // sg[1]))
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    # To load, the subgroups share out what they need together: no element is fetched twice.
    share_a = xt.wg_map((subgroups, 1), (BM // subgroups, BK))
    share_b = xt.wg_map(sg, (BK // sg[0], BN // sg[1]))
    ring_a, ring_b = xt.alloc_slm((stages, BM, BK), A.dtype), xt.alloc_slm((stages, BK, BN), B.dtype)
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=share_a)
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=share_b)
    for stage in range(stages - 1):
        xt.store_tile(xt.load_tile(a), xt.init_tile(ring_a, (stage, 0, 0), (BM, BK), wg_map=share_a))
        xt.store_tile(xt.load_tile(b), xt.init_tile(ring_b, (stage, 0, 0), (BK, BN), wg_map=share_b))
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.barrier()
    c = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for k in xt.range(0, A.shape[1], BK):
        step = k // BK
        read, write = step % stages, (step + stages - 1) % stages
        next_a, next_b = xt.load_tile(a), xt.load_tile(b)
        c = xt.tile_mma(xt.load_tile(xt.init_tile(ring_a, (read, 0, 0), (BM, BK), wg_map=map_a)),
                        xt.load_tile(xt.init_tile(ring_b, (read, 0, 0), (BK, BN), wg_map=map_b)), c)
        xt.barrier()  # the buffer that is written now was read one step ago, and nobody is there any more
        xt.store_tile(next_a, xt.init_tile(ring_a, (write, 0, 0), (BM, BK), wg_map=share_a))
        xt.store_tile(next_b, xt.init_tile(ring_b, (write, 0, 0), (BK, BN), wg_map=share_b))
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(c, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def constants(target: str) -> dict[str, object]:
    """Tile sizes and a number of buffers that fit a target's registers and shared local memory."""
    if target == "pvc":
        return {}
    return {"BM": 128, "BN": 128, "sg": (8, 4), "stages": 3} if target != "cpu" else \
        {"BM": 64, "BN": 64, "sg": (4, 4), "stages": 3}


def main() -> None:
    options = command_line(__doc__, m=1024, n=1024, k=1024)
    if options.show:
        spec = xt.Spec((None, None), xt.bf16)
        show(gemm_slm, options, spec, spec, xt.Spec((None, None), xt.f32), **constants(options.target or "pvc"))
        return
    a, b = whole_numbers(1, options.m, options.k), whole_numbers(2, options.k, options.n)
    c = np.zeros((options.m, options.n), np.float32)
    kernel = placed(gemm_slm, options)
    settings = constants(kernel.target.name)
    grid = -(-options.m // settings.get("BM", 256)), -(-options.n // settings.get("BN", 256))
    seconds = timed(lambda: kernel[grid](a, b, c, **settings))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    judge(kernel, f"{options.m} x {options.k} by {options.k} x {options.n}, through shared local memory", seconds, c,
          expected)


if __name__ == "__main__":
    main()
