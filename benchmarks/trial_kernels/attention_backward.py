"""Gradients of attention, in the form of FlashAttention 2: one kernel for dQ, one for dK and dV."""

from __future__ import annotations

import math
from typing import Any

import xetile as xt


@xt.kernel
def backward_dq(Q: Any, K: Any, V: Any, dO: Any, L: Any, Delta: Any, dQ: Any, *, D: int = 64, BM: int = 128,
                BN: int = 32, subgroups: int = 8) -> None:
    """Gradient of attention to its queries; L: logarithms of rows' sums, base 2, Delta: rows' sums of O * dO."""
    m, head = xt.group_id(0) * BM, xt.group_id(1)
    rows, layout = BM // subgroups, (subgroups, 1)
    map_o, map_l = xt.wg_map(layout, (rows, D)), xt.wg_map(layout, (rows, 1))
    map_t = xt.wg_map(layout, (D, BN))
    q = xt.load_tile(xt.init_tile(Q, (head, m, 0), (BM, D), wg_map=map_o))
    do = xt.load_tile(xt.init_tile(dO, (head, m, 0), (BM, D), wg_map=map_o))
    sums = xt.load_tile(xt.init_tile(L, (head, m, 0), (BM, 1), wg_map=map_l))
    delta = xt.load_tile(xt.init_tile(Delta, (head, m, 0), (BM, 1), wg_map=map_l))
    k = xt.init_tile(K, (head, 0, 0), (BN, D), wg_map=xt.wg_map(layout, (BN, D)))
    v = xt.init_tile(V, (head, 0, 0), (BN, D), wg_map=xt.wg_map(layout, (BN, D)))
    dq = xt.zeros((BM, D), xt.f32, wg_map=map_o)
    scale = 1 / math.sqrt(D)
    for _ in xt.range(0, K.shape[1], BN):
        keys = xt.load_tile(k)
        s = xt.tile_mma(q, xt.tile_transpose(keys, wg_map=map_t))
        p = xt.exp2(xt.fma(s, math.log2(math.e) * scale, -sums))
        dp = xt.tile_mma(do, xt.tile_transpose(xt.load_tile(v), wg_map=map_t))
        ds = p * (dp - delta)
        dq = xt.tile_mma(ds.to(K.dtype), keys, dq)
        k, v = xt.update_tile_offset(k, BN, 0), xt.update_tile_offset(v, BN, 0)
    xt.store_tile(dq * scale, xt.init_tile(dQ, (head, m, 0), (BM, D), wg_map=map_o))


@xt.kernel
def backward_dkdv(Q: Any, K: Any, V: Any, dO: Any, L: Any, Delta: Any, dK: Any, dV: Any, *, D: int = 64, BM: int = 32,
                  BN: int = 128, subgroups: int = 8) -> None:
    """Gradients of attention to its keys and values, with L and Delta as rows."""
    n, head = xt.group_id(0) * BN, xt.group_id(1)
    rows, layout = BN // subgroups, (subgroups, 1)
    map_o = xt.wg_map(layout, (rows, D))
    map_q, map_t, map_l = xt.wg_map(layout, (BM, D)), xt.wg_map(layout, (D, BM)), xt.wg_map(layout, (1, BM))
    k = xt.load_tile(xt.init_tile(K, (head, n, 0), (BN, D), wg_map=map_o))
    v = xt.load_tile(xt.init_tile(V, (head, n, 0), (BN, D), wg_map=map_o))
    dk, dv = xt.zeros((BN, D), xt.f32, wg_map=map_o), xt.zeros((BN, D), xt.f32, wg_map=map_o)
    scale = 1 / math.sqrt(D)
    for m in xt.range(0, Q.shape[1], BM):
        q = xt.load_tile(xt.init_tile(Q, (head, m, 0), (BM, D), wg_map=map_q))
        do = xt.load_tile(xt.init_tile(dO, (head, m, 0), (BM, D), wg_map=map_q))
        sums = xt.load_tile(xt.init_tile(L, (head, 0, m), (1, BM), wg_map=map_l))
        delta = xt.load_tile(xt.init_tile(Delta, (head, 0, m), (1, BM), wg_map=map_l))
        s = xt.tile_mma(k, xt.tile_transpose(q, wg_map=map_t))
        p = xt.exp2(xt.fma(s, math.log2(math.e) * scale, -sums))
        dp = xt.tile_mma(v, xt.tile_transpose(do, wg_map=map_t))
        dv = xt.tile_mma(p.to(Q.dtype), do, dv)
        ds = p * (dp - delta)
        dk = xt.tile_mma(ds.to(Q.dtype), q, dk)
    xt.store_tile(dk * scale, xt.init_tile(dK, (head, n, 0), (BN, D), wg_map=map_o))
    xt.store_tile(dv, xt.init_tile(dV, (head, n, 0), (BN, D), wg_map=map_o))
