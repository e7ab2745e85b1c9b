"""Attention on CPUs: scores of whole rows in a scratch buffer between two products of micro-kernels.

A work-group goes through tiles of queries. Q K^T of a tile is stored in its part of a scratch buffer, where softmax
turns it into weights, row by row; then it is operand A of the product with V. K is transposed before, once: by the
work-group that takes all queries of it, or by a launch of its own where there are too few groups of keys for all cores.
The buffer has a tile's scores for each of a few work-groups, not for every query.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xegpu.ir import dtypes
from xegpu.target.targets import Target
from xetile.frontend.control_flow.for_loop import range as device_range
from xetile.jit.kernel import kernel
from xetile.lang.creation import full, iota, zeros
from xetile.lang.grid import group_id
from xetile.lang.layout import tile_transpose
from xetile.lang.layout.shapes import reshape
from xetile.lang.math import exp2, fma, maximum, maxnum, minimum, where
from xetile.lang.matmul import tile_mma
from xetile.lang.reduction import tile_reduce
from xetile.lang.sync import barrier
from xetile.lang.tiles import init_tile, load_tile, store_tile, update_tile_offset
from xetile.library.array_operands import Operand, Scratch

FEWEST_QUERIES = 16
"""Fewer queries leave a micro-kernel idle."""
_MOST_QUERIES, _COLUMNS, _DEPTH = 64, 64, 32
_ROWS, _WIDE, _NARROW = 1, 128, 16
"""Tile of softmax: rows, columns, and columns at the end of a row, where wider tiles would be masked."""
_SHORT, _SHORT_STEP, _SHORT_ROWS = 128, 32, 2
"""Keys, at most, whose scores stay in registers; tiles have a multiple of these columns, and rows."""
_GROUPS_A_CORE = 4
"""Work-groups for each core, which even out what tiles of a causal mask differ in."""
_MOST_IDLE = 1.05
"""Work of the busiest core, to that of all in the mean, up to which a work-group takes all queries of its keys."""
_KEYS_OF_TRANSPOSE = 16


@kernel
def transposed_keys(K: Any, T: Any) -> None:
    """Kernel: T = K^T of every head, 16 keys a work-group."""
    n, group, batch = group_id(0) * _KEYS_OF_TRANSPOSE, group_id(1), group_id(2)
    _transpose_keys(K, T, (batch, group), (batch, group), n)


def _transpose_keys(K: Any, T: Any, of: tuple[Any, Any], to: tuple[Any, Any], n: Any) -> None:
    """T[to] = K[of]^T of 16 keys from ``n`` on."""
    for d in device_range(0, K.shape[3], 16):
        part = load_tile(init_tile(K, (*of, n, d), (_KEYS_OF_TRANSPOSE, 16)))
        store_tile(tile_transpose(part), init_tile(T, (*to, d, n), (16, _KEYS_OF_TRANSPOSE)))


@kernel(fast_division=True)
def attention_of_rows(Q: Any, K: Any, T: Any, V: Any, O: Any, S: Any, P: Any, R: Any, scale: Any,  # noqa: E741
                      groups: Any, *, BM: int, share: int, causal: bool, positive: bool, wide: bool,
                      turns: bool, short: int = 0) -> None:
    """Kernel: tiles of BM queries, every ``groups``-th one; ``share`` heads of Q use the same keys and values.

    S has a tile's scores, P its weights and R its results, where O's elements are not f32; else ``wide``, S and O are
    used, and P and R are numbers, which take less time to pass than arrays. ``positive``: so is the scale. ``turns``: a
    work-group takes all queries of every ``groups``-th group of keys, which it transposes first, to its part of T; else
    T has all keys. ``short``: columns of a tile that has all keys, and stays in registers; 0 if there is none.
    """
    worker, queries, keys = group_id(0), Q.shape[2], V.shape[2]
    tiles = (queries + BM - 1) // BM

    def attend(m: Any, head: Any, batch: Any, transposed: tuple[Any, Any]) -> None:
        # Causal mask: query i attends to key j if j <= i + (keys - queries), the last query to every key.
        end = minimum(keys, maximum(m + BM + keys - queries, 0)) if causal else keys
        for n in device_range(0, end, _COLUMNS):
            _stored_product((Q, (batch, head, m)), (T, transposed, n), (S, (worker, 0, n)), BM, T.shape[2])
        barrier()
        weights, factor = S if wide else P, scale * math.log2(math.e)
        for row in device_range(0, BM, _SHORT_ROWS if short else _ROWS):
            ahead = m + row + keys - queries if causal else None
            if short:
                weigh_short_rows(S, weights, (worker, row), (_SHORT_ROWS, short), factor, ahead, positive)
            else:
                weigh_rows(S, weights, (worker, row), end, factor, ahead, positive)
        barrier()
        for column in device_range(0, V.shape[3], _COLUMNS):
            to = (O, (batch, head, m, column)) if wide else (R, (worker, 0, column))
            _stored_product((S if wide else P, (worker, 0)), (V, (batch, head // share), column), to, BM, end)
        barrier()
        if not wide:
            for row in device_range(0, BM, _ROWS):
                for column in device_range(0, V.shape[3], _COLUMNS):
                    part = load_tile(init_tile(R, (worker, row, column), (_ROWS, _COLUMNS)))
                    store_tile(part.to(O.dtype), init_tile(O, (batch, head, m + row, column), (_ROWS, _COLUMNS)))
            barrier()

    if turns:
        for group in device_range(worker, K.shape[1] * K.shape[0], groups):
            of = group // K.shape[1], group % K.shape[1]
            for n in device_range(0, keys, _KEYS_OF_TRANSPOSE):
                _transpose_keys(K, T, of, (0, worker), n)
            barrier()
            for tile in device_range(0, tiles * share, 1):
                attend(tile % tiles * BM, of[1] * share + tile // tiles, of[0], (0, worker))
    else:
        for tile in device_range(worker, tiles * Q.shape[1] * Q.shape[0], groups):
            heads = tile // tiles
            head, batch = heads % Q.shape[1], heads // Q.shape[1]
            attend(tile % tiles * BM, head, batch, (batch, head // share))


def _stored_product(a: tuple[Any, tuple[Any, ...]], b: tuple[Any, tuple[Any, ...], Any], c: tuple[Any, tuple[Any, ...]],
                    rows: int, depth: Any) -> None:
    """A tile of a product, stored: a loop that the micro-kernel runs.

    Args:
        a: an array, and where the rows begin.
        b: an array, its batch, and the first column.
        c: an array, and where the tile begins.
        rows: of the tile.
        depth: the inner size.
    """
    left = init_tile(a[0], (*a[1], 0), (rows, _DEPTH))
    right = init_tile(b[0], (*b[1], 0, b[2]), (_DEPTH, _COLUMNS))
    total = zeros((rows, _COLUMNS), dtypes.f32)
    for _ in device_range(0, depth, _DEPTH):
        total = tile_mma(load_tile(left), load_tile(right), total)
        left, right = update_tile_offset(left, 0, _DEPTH), update_tile_offset(right, _DEPTH, 0)
    store_tile(total, init_tile(c[0], c[1], (rows, _COLUMNS)))


def weigh_short_rows(S: Any, P: Any, at: tuple[Any, Any], shape: tuple[int, int], factor: Any, ahead: Any,
                     positive: bool) -> None:
    """Softmax of rows of scores, times a factor, base two, in a tile that has all of their keys.

    Args:
        S, P, at, factor, ahead, positive: as for :func:`weigh_rows`.
        shape: of the tile.
    """
    lowest = -float(np.finfo(np.float32).max)
    row, column = (iota(shape, axis) for axis in (0, 1))
    scores = load_tile(init_tile(S, (*at, 0), shape), padding=-math.inf)
    if not positive:  # the largest are others then
        scores = where(column < S.shape[2].to(dtypes.i32), scores * factor, -math.inf)
        factor = 1.0
    if ahead is not None:
        scores = where(column <= row + ahead.to(dtypes.i32), scores, -math.inf)
    top = maxnum(tile_reduce("maxnumf", scores, 1) * factor, lowest)  # finite, also of rows that see no key
    power = exp2(fma(scores, factor, -top))
    sums = tile_reduce("add", power, 1)
    store_tile((power * (1.0 / where(sums != 0.0, sums, 1.0))).to(P.dtype), init_tile(P, (*at, 0), shape))


def weigh_rows(S: Any, P: Any, at: tuple[Any, Any], end: Any, factor: Any, ahead: Any, positive: bool) -> None:
    """Softmax of some rows of scores, times a factor, base two.

    Args:
        S: scores, and the weights before they are divided by their sums.
        P: the weights; may be S.
        at: work-group and first row.
        end: keys.
        factor: of the scores.
        ahead: keys that the first row sees before its last one, or None if rows see all.
        positive: whether the factor is.
    """
    def place(array: Any, n: Any, width: int) -> Any:
        return init_tile(array, (*at, n), (_ROWS, width))

    def scores(n: Any, width: int) -> Any:  # columns outside count as masked
        return load_tile(place(S, n, width), padding=-math.inf)

    def power(n: Any, width: int) -> Any:
        p = exp2(fma(scores(n, width), factor, -top))
        store_tile(p, place(S, n, width))
        return p

    def divided(n: Any, width: int) -> None:
        store_tile((load_tile(place(S, n, width)) * inverse).to(P.dtype), place(P, n, width))

    if ahead is not None:  # the product takes whole steps of keys, and those behind the last one count as masked
        end = (end + _DEPTH - 1) // _DEPTH * _DEPTH
    whole = end // _WIDE * _WIDE
    if not positive:  # the largest are others then
        for n in device_range(0, end, _WIDE):
            store_tile(load_tile(place(S, n, _WIDE)) * factor, place(S, n, _WIDE))
        factor = 1.0
    if ahead is not None:
        _mask_unseen(lambda n: place(S, n, _WIDE), end, ahead)
    lowest = -float(np.finfo(np.float32).max)
    highest = full((_ROWS, _WIDE), lowest, dtypes.f32)
    for n in device_range(0, whole, _WIDE):
        highest = maxnum(highest, scores(n, _WIDE))
    highest = _folded("maxnumf", highest)
    for n in device_range(whole, end, _NARROW):
        highest = maxnum(highest, scores(n, _NARROW))
    top = maxnum(tile_reduce("maxnumf", highest, 1) * factor, lowest)  # finite, also of rows that see no key
    total = zeros((_ROWS, _WIDE), dtypes.f32)
    for n in device_range(0, whole, _WIDE):
        total = total + power(n, _WIDE)
    total = _folded("add", total)
    for n in device_range(whole, end, _NARROW):
        total = total + power(n, _NARROW)
    sums = tile_reduce("add", total, 1)
    inverse = 1.0 / where(sums != 0.0, sums, 1.0)
    for n in device_range(0, whole, _WIDE):
        divided(n, _WIDE)
    for n in device_range(whole, end, _NARROW):
        divided(n, _NARROW)


def _mask_unseen(place: Callable[[Any], Any], end: Any, ahead: Any) -> None:
    """Set scores of keys that a row does not see to -inf, in the tiles that ``place`` gives for a column."""
    row, column = (iota((_ROWS, _WIDE), axis) for axis in (0, 1))
    for n in device_range(minimum(maximum(ahead + 1, 0), end) // _WIDE * _WIDE, end, _WIDE):
        seen = column + n.to(dtypes.i32) <= row + ahead.to(dtypes.i32)
        store_tile(where(seen, load_tile(place(n)), -math.inf), place(n))


def _folded(kind: str, v: Any) -> Any:
    """Reduction of (1, _WIDE) to (1, _NARROW)."""
    return tile_reduce(kind, reshape(v, (_WIDE // _NARROW, _NARROW)), 0)


def launch_rows(operands: tuple[Operand, ...], result: Operand, queue: Any, target: str | Target | None, cores: int,
                causal: bool, factor: float) -> None:
    """Launch attention of four-dimensional operands on a CPU.

    Args:
        operands: Q, K and V.
        result: O.
        queue: of the device, None for NumPy.
        target: as the author gave it.
        cores: of the device.
        causal: whether queries see only keys up to their own.
        factor: of the scores.
    """
    q, k, v = operands
    batch, heads, queries, size = q.shape
    keys = k.shape[2]
    rows = min(-(-queries // 16) * 16, _MOST_QUERIES)
    all_keys, tiles = k.shape[1] * batch, -(-queries // rows) * heads * batch
    turns = -(-all_keys // cores) * cores <= _MOST_IDLE * all_keys
    groups = min(all_keys if turns else tiles, cores * _GROUPS_A_CORE)
    wide = result.dtype is dtypes.f32
    transposes = (1, groups) if turns else k.shape[:2]
    layouts = [((*transposes, size, keys), k.dtype), ((groups, rows, keys), dtypes.f32)]
    if not wide:
        layouts += [((groups, rows, keys), v.dtype), ((groups, rows, v.shape[3]), dtypes.f32)]
    scratch = Scratch(q, *layouts)
    transposed, scores, *rest = [x.argument for x in scratch.operands]
    if not turns:
        turn = transposed_keys.on(queue, target=target)[-(-keys // _KEYS_OF_TRANSPOSE), k.shape[1], batch]
        turn(k.argument, transposed)
    scratch.used_until(attention_of_rows.on(queue, target=target)[groups](
        q.argument, k.argument, transposed, v.argument, result.argument, scores, *(rest or (0, 0)), factor, groups,
        BM=rows, share=heads // k.shape[1], causal=causal, positive=factor > 0, wide=wide, turns=turns,
        short=-(-keys // _SHORT_STEP) * _SHORT_STEP if keys <= _SHORT else 0))
