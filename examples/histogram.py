"""Histogram of 8-bit numbers: each work-group counts in shared local memory, and adds its counts to those of all.

    python examples/histogram.py
    python examples/histogram.py --device opencl:cpu --target pvc --n 100000
"""

import numpy as np
from running import command_line, judge, placed, show, timed

import xetile as xt


@xt.kernel(subgroups=(8, 1))
def histogram(X, H, *, BM=8, BN=64, bins=256, steps=4):
    counts, share = xt.alloc_slm((bins,), xt.i32), bins // 8
    own = xt.init_tile(counts, (xt.subgroup_id() * share,), (share,))
    xt.store_tile(xt.zeros((share,), xt.i32), own)
    xt.barrier()
    one = xt.full((BM, BN), 1, xt.i32)
    column = xt.iota((BM, BN), 1, xt.index)
    row = (xt.group_id(0) * 8 + xt.subgroup_id()) * BM * steps
    x = xt.init_tile(X, (row, 0), (BM, BN))
    for i in xt.range(steps):
        # An element's value is its counter; what lies outside the array, the last row's end, counts nowhere.
        inside = xt.iota((BM, BN), 0, xt.index) + row + i * BM < X.shape[0]
        counter = xt.init_tile(counts, xt.load_tile(x).to(xt.index))
        xt.atomic_rmw_tile("add", one, counter, inside & (column < X.shape[1]))
        x = xt.update_tile_offset(x, BM, 0)
    xt.barrier()
    xt.atomic_rmw_tile("add", xt.load_tile(own), xt.init_tile(H, (xt.subgroup_id() * share,), (share,)))


def main() -> None:
    options = command_line(__doc__, n=1 << 20)
    if options.show:
        show(histogram, options, xt.Spec((None, 64), xt.u8), xt.Spec((None,), xt.i32))
        return
    rows = options.n // 64
    x = np.random.default_rng(1).binomial(255, 0.4, (rows, 64)).astype(np.uint8)
    h, kernel = np.zeros(256, np.int32), placed(histogram, options)

    def launch() -> None:
        h[:] = 0
        kernel[-(-rows // 256),](x, h)

    judge(kernel, f"histogram of {x.size} numbers", timed(launch), h, np.bincount(x.ravel(), minlength=256))


if __name__ == "__main__":
    main()
