"""Softmax of every row, numerically stable, for rows of any length: one pass for maxima and sums, one for the result.

    python examples/softmax.py
    python examples/softmax.py --device opencl:cpu --target pvc --m 100 --n 1000
"""

import math

import numpy as np
from running import command_line, judge, normal, placed, show, timed

import xetile as xt


@xt.kernel
def softmax(X, Y, *, BM=128, BN=128, subgroups=16):
    m = xt.group_id(0) * BM
    # Whole rows belong to one subgroup, so maxima and sums stay within it.
    map_x = xt.wg_map((subgroups, 1), (BM // subgroups, BN))
    x = xt.init_tile(X, (m, 0), (BM, BN), wg_map=map_x)
    column = xt.wg_map((subgroups, 1), (BM // subgroups, 1))
    largest = xt.full((BM, 1), -math.inf, xt.f32, wg_map=column)
    total = xt.zeros((BM, 1), xt.f32, wg_map=column)
    for _ in xt.range(0, X.shape[1], BN):
        v = xt.load_tile(x, padding=-math.inf).to(xt.f32)  # what lies outside the array counts as nothing
        above = xt.maximum(largest, xt.tile_reduce("max", v, 1))
        total = total * xt.exp(largest - above) + xt.tile_reduce("add", xt.exp(v - above), 1)
        largest, x = above, xt.update_tile_offset(x, 0, BN)
    x = xt.init_tile(X, (m, 0), (BM, BN), wg_map=map_x)
    y = xt.init_tile(Y, (m, 0), (BM, BN), wg_map=map_x)
    for _ in xt.range(0, X.shape[1], BN):
        v = xt.load_tile(x).to(xt.f32)
        xt.store_tile((xt.exp(v - largest) / total).to(Y.dtype), y)
        x, y = xt.update_tile_offset(x, 0, BN), xt.update_tile_offset(y, 0, BN)


def main() -> None:
    options = command_line(__doc__, m=4096, n=4096)
    if options.show:
        spec = xt.Spec((None, None), xt.f16)
        show(softmax, options, spec, spec)
        return
    x = 5 * normal(1, options.m, options.n)
    x, y = x.astype(np.float16), np.zeros((options.m, options.n), np.float16)
    kernel = placed(softmax, options)
    seconds = timed(lambda: kernel[-(-options.m // 128),](x, y))
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True))
    judge(kernel, f"softmax of {options.m} rows of {options.n}", seconds, y, powers / powers.sum(axis=1, keepdims=True),
          1e-3)


if __name__ == "__main__":
    main()
