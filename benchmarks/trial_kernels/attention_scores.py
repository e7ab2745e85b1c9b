"""Attention whose scores are changed before the softmax, in the words of its formulas."""

from __future__ import annotations

import math
from typing import Any

import xetile as xt
from benchmarks.trial_kernels.trial import Lowering, lowering

SCORES = {"scaled": 0.12, "alibi": 0.11, "softcap": 0.085, "causal": 0.12, "window": 0.085, "bias": 0.1,
          "dropout": 0.06}
"""What is done to scores: nothing but a scale, a bias by distance, a cap by tanh, the keys up to a query's position, a
window of those, an array that is added, weights that are dropped. With the part of dpas that is asked for: a cap takes
four instructions an element, two of them the slow ones, the masks of a window four in the steps that have them, and a
hash of 32 bits nine."""
WINDOW, CAP, KEPT = 256, 30.0, 0.75


def kept(row: Any, column: Any) -> Any:
    """Bits by which a weight is kept or dropped, from its place (32 bits, lowbias32's two rounds)."""
    bits = (row * 0x9E3779B1) ^ column
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    return bits ^ (bits >> 15)


@xt.kernel(fast_math=True)
def scored_attention(Q: Any, K: Any, V: Any, O: Any, extra: Any, *, scores: str = "scaled", D: int = 64,  # noqa: E741
                     BM: int = 128, BN: int = 64, subgroups: int = 8, share: int = 1) -> None:
    """Attention of (heads, queries, D); ``share`` heads have the same keys. The last query is at the last key.

    ``extra``: slopes of heads, or a bias of (heads, queries, keys).
    """
    m, head = xt.group_id(0) * BM, xt.group_id(1)
    rows, layout = BM // subgroups, (subgroups, 1)
    map_o, map_s, map_l = (xt.wg_map(layout, (rows, columns)) for columns in (D, BN, 1))
    map_k, map_t = xt.wg_map(layout, (BN, D)), xt.wg_map(layout, (D, BN))
    q = xt.load_tile(xt.init_tile(Q, (head, m, 0), (BM, D), wg_map=map_o))
    out = xt.zeros((BM, D), xt.f32, wg_map=map_o)
    largest, total = xt.full((BM, 1), -1e30, xt.f32, wg_map=map_l), xt.zeros((BM, 1), xt.f32, wg_map=map_l)
    row, column = (xt.iota((BM, BN), axis, wg_map=map_s) for axis in (0, 1))
    keys, first = K.shape[1], K.shape[1] - Q.shape[1] + m
    begin, end = 0, keys
    if scores in ("causal", "window"):
        end = xt.minimum(keys, first + BM)
    if scores == "window":
        begin = xt.maximum(first - WINDOW + 1, 0) // BN * BN
    slope = xt.load_scalar(extra, head) if scores == "alibi" else None
    i = row + first.to(xt.i32)
    for n in xt.range(begin, end, BN):
        k, v = (xt.load_tile(xt.init_tile(A, (head // share, n, 0), (BN, D), wg_map=map_k)) for A in (K, V))
        s = xt.tile_mma(q, xt.tile_transpose(k, wg_map=map_t)) * (1 / math.sqrt(D))
        j = column + n.to(xt.i32)
        if scores == "alibi":
            s = s + slope * (j - i).to(xt.f32)
        elif scores == "softcap":
            s = xt.tanh(s / CAP) * CAP
        elif scores == "bias":
            s = s + xt.load_tile(xt.init_tile(extra, (head, m, n), (BM, BN), wg_map=map_s)).to(xt.f32)
        seen = j < keys.to(xt.i32)
        if scores in ("causal", "window"):
            seen = seen & (j <= i)
        if scores == "window":
            seen = seen & (j > i - WINDOW)
        s = xt.where(seen, s, -math.inf)
        above = xt.maximum(largest, xt.tile_reduce("max", s, 1))
        p, shrink = xt.exp(s - above), xt.exp(largest - above)
        weights = p.to(V.dtype)
        total = total * shrink + xt.tile_reduce("add", weights.to(xt.f32), 1)
        if scores == "dropout":
            bits = kept(i.to(xt.u32), j.to(xt.u32))
            weights = xt.where(bits < int(KEPT * 2**32), p * (1 / KEPT), 0.0).to(V.dtype)
        out = xt.tile_mma(weights, v, out * shrink)
        largest = above
    xt.store_tile((out / total).to(O.dtype), xt.init_tile(O, (head, m, 0), (BM, D), wg_map=map_o))


def scored(scores: str) -> Lowering:
    """The lowering of such an attention, heads of 64, for a target."""
    heads = xt.Spec((None, None, 64), xt.bf16)
    extra = xt.Spec((None, None, None), xt.bf16) if scores == "bias" else xt.Spec((None,), xt.f32)
    return lowering(scored_attention, heads, heads, heads, heads, extra, scores=scores)
