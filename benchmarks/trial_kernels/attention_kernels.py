"""Attention as users write it: packed sequences, pages of a cache, Triton's tutorial, gradients in parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import xetile as xt


def attend(q: Any, keys_and_values: Callable[[Any], tuple[Any, Any]], keys: Any, ahead: Any,
           shape: tuple[int, int, int], layout: tuple[int, int]) -> Any:
    """Attention of a tile of queries to the keys of a sequence, causal: out / sums.

    Args:
        q: queries of the work-group.
        keys_and_values: tiles of keys and values from a key on, or lists of tiles that follow each other; where they
            have another element type, they are converted to that of queries.
        keys: how many keys there are.
        ahead: the last key that the first query sees.
        shape: queries, keys of a step, columns of a head.
        layout: of the subgroups.
    """
    BM, BN, D = shape
    rows, scale = BM // layout[0], math.log2(math.e) / math.sqrt(D)
    map_s, map_o, map_l = (xt.wg_map(layout, (rows, columns)) for columns in (BN, D, 1))
    out = xt.zeros((BM, D), xt.f32, wg_map=map_o)
    largest, total = xt.full((BM, 1), -1e30, xt.f32, wg_map=map_l), xt.zeros((BM, 1), xt.f32, wg_map=map_l)
    row, column = (xt.iota((BM, BN), axis, wg_map=map_s) for axis in (0, 1))
    for n in xt.range(0, xt.minimum(keys, ahead + BM), BN):
        k, v = keys_and_values(n)
        s = xt.tile_mma(q, xt.tile_transpose(_load(k).to(q.dtype), wg_map=xt.wg_map(layout, (D, BN))))
        seen = (column < (keys - n).to(xt.i32)) & (column + n.to(xt.i32) <= row + ahead.to(xt.i32))
        s = xt.where(seen, s, -math.inf)
        above = xt.maximum(largest, xt.tile_reduce("max", s, 1) * scale)
        p, shrink = xt.exp2(xt.fma(s, scale, -above)).to(q.dtype), xt.exp2(largest - above)
        total = total * shrink + xt.tile_reduce("add", p.to(xt.f32), 1)
        out = xt.tile_mma(p, _load(v).to(q.dtype), out * shrink)
        largest = above
    return out / xt.where(total != 0.0, total, 1.0)


def _load(tiles: Any) -> Any:
    return xt.concatenate([xt.load_tile(tile) for tile in tiles], 0) if isinstance(tiles, list) else xt.load_tile(tiles)


@xt.kernel
def packed_sequences(Q: Any, K: Any, V: Any, O: Any, starts: Any, *, D: int = 64, BM: int = 128,  # noqa: E741
                     BN: int = 64, subgroups: int = 8) -> None:
    """Causal attention of sequences behind each other, (heads, rows, D); sequence i begins at row starts[i]."""
    m, head, sequence = xt.group_id(0) * BM, xt.group_id(1), xt.group_id(2)
    first, end = (xt.load_scalar(starts, sequence + i).to(xt.index) for i in (0, 1))
    layout = (subgroups, 1)
    map_q, map_k = xt.wg_map(layout, (BM // subgroups, D)), xt.wg_map(layout, (BN, D))
    q = xt.load_tile(xt.init_tile(Q, (head, first + m, 0), (BM, D), rows=end, wg_map=map_q))

    def keys_and_values(n: Any) -> tuple[Any, Any]:
        k, v = (xt.init_tile(A, (head, first + n, 0), (BN, D), rows=end, wg_map=map_k) for A in (K, V))
        return k, v

    out = attend(q, keys_and_values, end - first, m, (BM, BN, D), layout)
    xt.store_tile(out.to(O.dtype), xt.init_tile(O, (head, first + m, 0), (BM, D), rows=end, wg_map=map_q))


@xt.kernel
def paged_cache(Q: Any, K: Any, V: Any, O: Any, pages: Any, lengths: Any, *, D: int = 64, BM: int = 128,  # noqa: E741
                BN: int = 64, page: int = 64, subgroups: int = 8, share: int = 4) -> None:
    """Causal attention of (sequences, heads, queries, D) to the pages of a cache, ``share`` heads to one group of it.

    The cache (pages, groups, page, D) comes as rows, (pages * groups * page, D): then a step moves the tile, and its
    array stays, whose address block messages would else be given anew. ``pages`` has those of each sequence, in order.
    """
    m, head, sequence = xt.group_id(0) * BM, xt.group_id(1), xt.group_id(2)
    keys = xt.load_scalar(lengths, sequence).to(xt.index)
    layout, groups = (subgroups, 1), Q.shape[1] // share
    map_q, map_k = xt.wg_map(layout, (BM // subgroups, D)), xt.wg_map(layout, (page, D))
    q = xt.load_tile(xt.init_tile(Q, (sequence, head, m, 0), (BM, D), wg_map=map_q))

    def keys_and_values(n: Any) -> tuple[Any, Any]:
        rows = [(xt.load_scalar(pages, (sequence, n // page + i)).to(xt.index) * groups + head // share) * page
                for i in range(BN // page)]
        k, v = ([xt.init_tile(A, (row, 0), (page, D), wg_map=map_k) for row in rows] for A in (K, V))
        return (k, v) if page < BN else (k[0], v[0])

    out = attend(q, keys_and_values, keys, keys - Q.shape[2] + m, (BM, BN, D), layout)
    xt.store_tile(out.to(O.dtype), xt.init_tile(O, (sequence, head, m, 0), (BM, D), wg_map=map_q))


@xt.kernel
def gathered_keys(Q: Any, K: Any, V: Any, O: Any, slots: Any, *, D: int = 64, BM: int = 128, BN: int = 64,  # noqa: E741
                  subgroups: int = 8, both: bool = False) -> None:
    """Causal attention of (heads, queries, D) to keys, or with ``both`` to keys and values, at the rows of a cache that
    an index vector (keys, 1) names."""
    m, head, keys = xt.group_id(0) * BM, xt.group_id(1), slots.shape[0]
    layout = (subgroups, 1)
    map_q, map_k, map_i = (xt.wg_map(layout, size) for size in ((BM // subgroups, D), (BN, D), (BN, 1)))
    q = xt.load_tile(xt.init_tile(Q, (head, m, 0), (BM, D), wg_map=map_q))

    def keys_and_values(n: Any) -> tuple[Any, Any]:
        index = xt.load_tile(xt.init_tile(slots, (n, 0), (BN, 1), wg_map=map_i))
        return (xt.init_tile(K, (index, 0), (BN, D), wg_map=map_k),
                xt.init_tile(V, (index, 0) if both else (head, n, 0), (BN, D), wg_map=map_k))

    out = attend(q, keys_and_values, keys, keys - Q.shape[1] + m, (BM, BN, D), layout)
    xt.store_tile(out.to(O.dtype), xt.init_tile(O, (head, m, 0), (BM, D), wg_map=map_q))


@xt.kernel(fast_math=True)
def triton_tutorial(Q: Any, K: Any, V: Any, M: Any, O: Any, sm_scale: Any, *, D: int = 64, BM: int = 128,  # noqa: E741
                    BN: int = 64, subgroups: int = 8, rounded: bool = False) -> None:
    """Attention of (heads, queries, D) in the words of Triton's tutorial 06, all keys; M: logarithms of rows' sums.

    ``rounded``: the weights that are summed are those that are multiplied.
    """
    m, head = xt.group_id(0) * BM, xt.group_id(1)
    rows, layout = BM // subgroups, (subgroups, 1)
    map_o, map_l = xt.wg_map(layout, (rows, D)), xt.wg_map(layout, (rows, 1))
    map_k, map_t = xt.wg_map(layout, (BN, D)), xt.wg_map(layout, (D, BN))
    q = xt.load_tile(xt.init_tile(Q, (head, m, 0), (BM, D), wg_map=map_o))
    m_i, l_i = xt.full((BM, 1), -math.inf, xt.f32, wg_map=map_l), xt.full((BM, 1), 1.0, xt.f32, wg_map=map_l)
    acc = xt.zeros((BM, D), xt.f32, wg_map=map_o)
    qk_scale = sm_scale * math.log2(math.e)
    k, v = (xt.init_tile(A, (head, 0, 0), (BN, D), wg_map=map_k) for A in (K, V))
    for _ in xt.range(0, K.shape[1], BN):
        qk = xt.tile_mma(q, xt.tile_transpose(xt.load_tile(k), wg_map=map_t))
        m_ij = xt.maximum(m_i, xt.tile_reduce("max", qk, 1) * qk_scale)
        p = xt.exp2(qk * qk_scale - m_ij)
        alpha = xt.exp2(m_i - m_ij)
        weights = p.to(V.dtype)
        l_i = l_i * alpha + xt.tile_reduce("add", weights.to(xt.f32) if rounded else p, 1)
        acc = xt.tile_mma(weights, xt.load_tile(v), acc * alpha)
        m_i = m_ij
        k, v = xt.update_tile_offset(k, BN, 0), xt.update_tile_offset(v, BN, 0)
    xt.store_tile(m_i + xt.log2(l_i), xt.init_tile(M, (head, m, 0), (BM, 1), wg_map=map_l))
    xt.store_tile((acc / l_i).to(O.dtype), xt.init_tile(O, (head, m, 0), (BM, D), wg_map=map_o))


@xt.kernel
def backward_dkdv_in_parts(Q: Any, K: Any, V: Any, dO: Any, L: Any, Delta: Any, dK: Any, dV: Any, *, D: int = 64,
                           BM: int = 16, rows: int = 8, groups: int = 4, parts: int = 2, chunk: int = 16) -> None:
    """Gradients of attention to its keys and values where registers are 32 bytes long.

    ``parts`` subgroups have the same ``rows`` keys, each with its columns of both gradients. Scores add up over
    ``chunk`` columns of the heads at a time, in a loop that the compiler does not unroll, as its end is an argument.
    """
    layout, BN = (groups, parts), rows * groups
    n, head = xt.group_id(0) * BN, xt.group_id(1)
    map_s, map_l = xt.wg_map(layout, (rows, BM)), xt.wg_map(layout, (1, BM))
    map_o, map_b = xt.wg_map(layout, (rows, D // parts)), xt.wg_map(layout, (BM, D // parts))
    dk, dv = xt.zeros((BN, D), xt.f32, wg_map=map_o), xt.zeros((BN, D), xt.f32, wg_map=map_o)
    scale = 1 / math.sqrt(D)

    def scores(A: Any, B: Any, m: Any) -> Any:
        s = xt.zeros((BN, BM), xt.f32, wg_map=map_s)
        for d in xt.range(0, A.shape[2], chunk):
            a = xt.load_tile(xt.init_tile(A, (head, n, d), (BN, chunk), wg_map=xt.wg_map(layout, (rows, chunk))))
            b = xt.load_tile(xt.init_tile(B, (head, m, d), (BM, chunk), wg_map=xt.wg_map(layout, (BM, chunk))))
            s = xt.tile_mma(a, xt.tile_transpose(b, wg_map=xt.wg_map(layout, (chunk, BM))), s)
        return s

    for m in xt.range(0, Q.shape[1], BM):
        sums, delta = (xt.load_tile(xt.init_tile(A, (head, 0, m), (1, BM), wg_map=map_l)) for A in (L, Delta))
        p = xt.exp2(xt.fma(scores(K, Q, m), math.log2(math.e) * scale, -sums))
        dv = xt.tile_mma(p.to(Q.dtype), xt.load_tile(xt.init_tile(dO, (head, m, 0), (BM, D), wg_map=map_b)), dv)
        ds = p * (scores(V, dO, m) - delta)
        dk = xt.tile_mma(ds.to(Q.dtype), xt.load_tile(xt.init_tile(Q, (head, m, 0), (BM, D), wg_map=map_b)), dk)
    xt.store_tile(dk * scale, xt.init_tile(dK, (head, n, 0), (BN, D), wg_map=map_o))
    xt.store_tile(dv, xt.init_tile(dV, (head, n, 0), (BN, D), wg_map=map_o))
