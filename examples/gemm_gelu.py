"""C = gelu(A @ B + bias) in one kernel: what follows the product works on the accumulators in registers.

    python examples/gemm_gelu.py
    python examples/gemm_gelu.py --device opencl:cpu --target pvc --m 300 --n 200 --k 100
"""

import math

import numpy as np
from running import command_line, judge, normal, placed, show, timed

import xetile as xt


@xt.kernel
def gemm_gelu(A, B, bias, C, *, BM=256, BN=256, BK=32, sg=(8, 4)):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    c = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        c = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), c)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    row = xt.load_tile(xt.init_tile(bias, (0, n), (1, BN), wg_map=xt.wg_map(sg, (1, BN // sg[1]))))
    x = c + row  # a row is spread over the rows of c, as NumPy does
    x = 0.5 * x * (1 + xt.erf(x * math.sqrt(0.5)))
    xt.store_tile(x.to(C.dtype), xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def constants(target: str) -> dict[str, object]:
    """Tile sizes that fit a target's registers."""
    return {"BM": 128, "BN": 128} if target in ("dg2", "arl", "cpu") else {}


def main() -> None:
    options = command_line(__doc__, m=1024, n=1024, k=1024)
    if options.show:
        spec = xt.Spec((None, None), xt.f16)
        show(gemm_gelu, options, spec, spec, xt.Spec((1, None), xt.f32), spec, **constants(options.target or "pvc"))
        return
    a = normal(1, options.m, options.k, dtype=np.float16)
    b = normal(2, options.k, options.n, dtype=np.float16)
    bias, c = normal(3, 1, options.n), np.zeros((options.m, options.n), np.float16)
    kernel = placed(gemm_gelu, options)
    settings = constants(kernel.target.name)
    grid = -(-options.m // settings.get("BM", 256)), -(-options.n // settings.get("BN", 256))
    seconds = timed(lambda: kernel[grid](a, b, bias, c, **settings))
    x = a.astype(np.float32) @ b.astype(np.float32) + bias
    error = np.frompyfunc(math.erf, 1, 1)(x * math.sqrt(0.5)).astype(np.float32)
    judge(kernel, f"gelu of {options.m} x {options.k} by {options.k} x {options.n} and a bias", seconds, c,
          0.5 * x * (1 + error), 2e-3)


if __name__ == "__main__":
    main()
