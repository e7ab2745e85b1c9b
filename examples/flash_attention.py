"""softmax(Q K^T / sqrt(d)) V for each head, without ever holding Q K^T: maxima and sums follow along (FlashAttention).

    python examples/flash_attention.py
    python examples/flash_attention.py --causal
    python examples/flash_attention.py --device opencl:cpu --target pvc --heads 2 --m 100 --n 100 --causal

Tri Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", 2022.
"""

import math

import ml_dtypes
import numpy as np
from running import command_line, judge, normal, placed, show, timed

import xetile as xt


@xt.kernel
def attention(Q, K, V, O, *, D=64, BM=128, BN=64, subgroups=8, causal=False):  # noqa: E741 - O as in the paper
    m, head = xt.group_id(0) * BM, xt.group_id(1)
    rows, layout = BM // subgroups, (subgroups, 1)  # a subgroup owns whole rows of Q, and reads all of K and V
    map_s, map_o, map_l = xt.wg_map(layout, (rows, BN)), xt.wg_map(layout, (rows, D)), xt.wg_map(layout, (rows, 1))
    q = xt.load_tile(xt.init_tile(Q, (head, m, 0), (BM, D), wg_map=map_o))
    k = xt.init_tile(K, (head, 0, 0), (BN, D), wg_map=xt.wg_map(layout, (BN, D)))
    v = xt.init_tile(V, (head, 0, 0), (BN, D), wg_map=xt.wg_map(layout, (BN, D)))
    out = xt.zeros((BM, D), xt.f32, wg_map=map_o)
    largest, total = xt.full((BM, 1), -math.inf, xt.f32, wg_map=map_l), xt.zeros((BM, 1), xt.f32, wg_map=map_l)
    row, column = (xt.iota((BM, BN), axis, wg_map=map_s) for axis in (0, 1))
    keys, scale = K.shape[1], math.log2(math.e) / math.sqrt(D)
    end = xt.minimum(keys, m + BM) if causal else keys
    for n in xt.range(0, end, BN):
        kt = xt.tile_transpose(xt.load_tile(k), wg_map=xt.wg_map(layout, (D, BN)))
        s = xt.tile_mma(q, kt)
        seen = column < (keys - n).to(xt.i32)
        if causal:
            seen = seen & (column + n.to(xt.i32) <= row + m.to(xt.i32))
        s = xt.where(seen, s, -math.inf)
        above = xt.maximum(largest, xt.tile_reduce("max", s, 1) * scale)  # scaled once a row
        p, shrink = xt.exp2(xt.fma(s, scale, -above)).to(V.dtype), xt.exp2(largest - above)
        total = total * shrink + xt.tile_reduce("add", p.to(xt.f32), 1)  # of rounded weights, which are multiplied
        out = xt.tile_mma(p, xt.load_tile(v), out * shrink)
        largest = above
        k, v = xt.update_tile_offset(k, BN, 0), xt.update_tile_offset(v, BN, 0)
    xt.store_tile(out / total, xt.init_tile(O, (head, m, 0), (BM, D), wg_map=map_o))


def constants(target: str) -> dict[str, object]:
    """Tile sizes that fit a target's registers."""
    return {"BM": 64 if target == "cpu" else 32, "BN": 16} if target in ("dg2", "arl", "cpu") else {}


def main() -> None:
    options = command_line(__doc__, heads=4, m=1024, n=1024, d=64)
    more = {"D": options.d, "causal": options.causal}
    if options.show:
        spec = xt.Spec((None, None, options.d), xt.bf16)
        show(attention, options, spec, spec, spec, xt.Spec((None, None, options.d), xt.f32),
             **constants(options.target or "pvc"), **more)
        return
    q = normal(1, options.heads, options.m, options.d, dtype=ml_dtypes.bfloat16)
    k, v = (normal(seed, options.heads, options.n, options.d, dtype=ml_dtypes.bfloat16) for seed in (2, 3))
    out = np.zeros((options.heads, options.m, options.d), np.float32)
    kernel = placed(attention, options)
    settings = {**constants(kernel.target.name), **more}
    grid = -(-options.m // settings.get("BM", 128)), options.heads
    seconds = timed(lambda: kernel[grid](q, k, v, out, **settings))
    s = np.matmul(q.astype(np.float64), k.astype(np.float64).transpose(0, 2, 1)) / math.sqrt(options.d)
    if options.causal:
        s = np.where(np.arange(options.n) <= np.arange(options.m)[:, None], s, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    expected = np.matmul(p / p.sum(axis=-1, keepdims=True), v.astype(np.float64))
    judge(kernel, f"{'causal ' * options.causal}attention of {options.heads} heads, {options.m} x {options.n} x "
          f"{options.d}", seconds, out, expected, 1e-2)


if __name__ == "__main__":
    main()
