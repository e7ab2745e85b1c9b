"""``xt.attention``: fused attention, softmax(Q K^T * scale) V for every head, without storing Q K^T.

Tri Dao et al., "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", 2022: running maxima and
sums of the rows are kept, and the accumulator is rescaled where a maximum grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xegpu.ir import dtypes
from xegpu.support.errors import ElementTypeError, ShapeError
from xegpu.target.targets import Target, find_target
from xetile.compiler.arguments import AtTheCall
from xetile.dialect.wg_map import WgMap
from xetile.frontend.control_flow.for_loop import range as device_range
from xetile.jit.kernel import kernel
from xetile.lang.creation import full, iota, zeros
from xetile.lang.grid import group_id
from xetile.lang.layout import tile_transpose
from xetile.lang.math import exp2, fma, maximum, maxnum, minimum, where
from xetile.lang.matmul import tile_mma
from xetile.lang.reduction import tile_reduce
from xetile.lang.tiles import init_tile, load_tile, store_tile
from xetile.library.array_operands import (
    Operand,
    check_same_device,
    copied_where_shared,
    one_number,
    result_for,
)
from xetile.library.attention.rows import FEWEST_QUERIES, launch_rows
from xetile.library.call_plans import planned

_SUBGROUPS = 8
"""Subgroups of a work-group, where there are queries enough."""
_ANY, _MORE_ROWS = 1 << 31, 96
_TILES = ((64, 16, 64, 32), (_MORE_ROWS, 16, 32, 64), (128, 8, 64, 64), (192, 8, 64, 32), (256, 8, 32, 32),
          (_ANY, 8, 16, 64))
"""With 2D block IO: columns of a head at most, queries of a subgroup, keys of a step and columns of a chunk that were
counted to have most dpas among the instructions of a loop and to spill nothing (docs/performance.md)."""
_F32_TILES = ((64, 16, 32, 32), (128, 8, 32, 64), (_ANY, 8, 16, 32))
"""The same in f32, whose products are multiply-adds."""
_UNROLLED = 2
"""Chunks of a head that are multiplied without a loop."""


@kernel(fast_division=True)
def attention_of_heads(Q: Any, K: Any, V: Any, O: Any, scale: Any, *, D: int, DV: int, BM: int, BN: int, rows: int,  # noqa: E741
                       chunk: int, resident: bool, parts: int, ones: bool, share: int, causal: bool,
                       positive: bool = True) -> None:
    """Kernel: a tile of BM queries of one head; ``share`` heads of Q use the same keys and values.

    A subgroup has ``rows`` queries and one of ``parts`` parts of V's columns. Heads are multiplied ``chunk`` columns at
    a time; with ``resident`` Q stays in registers, else it is read for each block of keys. ``positive``: so is the
    scale, and scaling keeps the largest scores. ``ones``: a product with ones sums rows, and unmasked keys have a
    loop of their own.
    """
    m, head, batch = group_id(0) * BM, group_id(1), group_id(2)
    layout = (BM // rows, parts)  # each subgroup needs all of K
    keys, queries = K.shape[2], Q.shape[2]
    map_s, map_l = WgMap(layout, (rows, BN)), WgMap(layout, (rows, 1))
    widths = chunks(D, chunk)
    q = [query_chunk(Q, (batch, head, m, at), (BM, width), layout) for at, width in widths] if resident else []
    outs = chunks(DV, chunk, parts)
    out = [zeros((BM, width), dtypes.f32, wg_map=WgMap(layout, (rows, width // parts))) for _, width in outs]
    # NaN, which maxima drop, reaches the sums by its weight.
    total = zeros((BM, 16 if ones else 1), dtypes.f32, wg_map=WgMap(layout, (rows, 16 if ones else 1)))
    base = full((BM, 1), -float(np.finfo(np.float32).max), dtypes.f32, wg_map=map_l)
    unit = full((BN, 16), 1.0, V.dtype, wg_map=WgMap(layout, (BN, 16))) if ones else None
    row, column = (iota((BM, BN), axis, wg_map=map_s) for axis in (0, 1))
    factor = scale * math.log2(math.e)
    remaining = factor if positive else 1.0

    def scores(n: Any) -> Any:
        s = score_block((Q, K), q, ((batch, head, m), (batch, head // share, n)), (BM, BN), layout, D, chunk)
        return s if positive else s * factor

    def accumulated(s: Any, n: Any, out: Any, total: Any, base: Any) -> Any:
        p, shrink, total, above = row_weights(s, remaining, total, base, ones)
        p = p.to(V.dtype)
        out = add_values(V, (batch, head // share, n), p, out, shrink, outs)
        return out, total if unit is None else tile_mma(p, unit, total), above

    # Causal mask: query i attends to key j if j <= i + (keys - queries), the last query to every key.
    end = minimum(keys, maximum(m + BM + keys - queries, 0)) if causal else keys
    full_end = minimum(maximum(m + 1 + keys - queries, 0), keys) // BN * BN if causal else keys // BN * BN
    if ones:
        for n in device_range(0, full_end, BN):  # every query sees these keys
            s = scores(n)
            out, total, base = accumulated(s, n, out, total, base)
    for n in device_range(full_end if ones else 0, end, BN):
        s = scores(n)
        seen = seen_keys(row, column, n, keys, m + keys - queries if causal else None)
        out, total, base = accumulated(where(seen, s, -math.inf), n, out, total, base)
    sums = tile_reduce("maxnumf", total, 1) if ones else total
    divisor = where(sums != 0.0, sums, 1.0)
    for part, (at, width) in zip(out, outs, strict=True):
        store_tile((part / divisor).to(O.dtype), init_tile(O, (batch, head, m, at), (BM, width), wg_map=part.wg_map))


def seen_keys(row: Any, column: Any, n: Any, keys: Any, ahead: Any) -> Any:
    """Mask of the keys of a tile that queries attend to.

    Args:
        row, column: numbers of the query and the key in their tiles, (queries, keys).
        n: first key.
        keys: how many keys there are.
        ahead: keys that the tile's first query sees before the last one, or None if queries see all.
    """
    seen = column < (keys - n).to(dtypes.i32)
    return seen if ahead is None else seen & (column + n.to(dtypes.i32) <= row + ahead.to(dtypes.i32))


def score_block(arrays: tuple[Any, Any], q: list[Any], at: tuple[tuple[Any, ...], tuple[Any, ...]],
                shape: tuple[int, int], layout: tuple[int, int], D: int, chunk: int) -> Any:
    """Products of a tile of queries and a tile of keys, a chunk of the heads' columns at a time.

    Args:
        arrays: Q and K.
        q: the chunks of Q, or none to load them.
        at: batch, head and first row of the tile of Q, and of that of K.
        shape: queries and keys of the tiles.
        layout: of the subgroups, which share the queries.
        D: columns of a head.
        chunk: columns of a chunk.
    """
    (Q, K), (queries, keys), (BM, BN) = arrays, at, shape
    s = zeros(shape, dtypes.f32, wg_map=WgMap(layout, (BM // layout[0], BN)))
    widths = chunks(D, chunk)
    if q or len(widths) <= _UNROLLED:
        for number, (first, width) in enumerate(widths):
            part = q[number] if q else query_chunk(Q, (*queries, first), (BM, width), layout)
            s = tile_mma(part, key_chunk(K, (*keys, first), (BN, width), layout), s)
        return s
    for first in device_range(0, D, chunk):
        part = query_chunk(Q, (*queries, first), (BM, chunk), layout)
        s = tile_mma(part, key_chunk(K, (*keys, first), (BN, chunk), layout), s)
    return s


def row_weights(s: Any, factor: Any, total: Any, base: Any, ones: bool) -> tuple[Any, Any, Any, Any]:
    """One step of the online softmax of rows: 2 ** (s * factor - the rows' new maxima).

    Args:
        s: scores, (queries, keys).
        factor: that scores have still to be multiplied by.
        total, base: the rows' sums and maxima before.
        ones: whether the caller adds the weights to the sums.

    Returns:
        The weights, what the rows are to be rescaled by, and the new sums and maxima.
    """
    above = maxnum(base, tile_reduce("maxnumf", s, 1) * factor)
    shrink, power = exp2(base - above), fma(s, factor, -above)
    p = exp2(power)
    return p, shrink, total * shrink if ones else total * shrink + tile_reduce("add", p, 1), above


def add_values(V: Any, at: tuple[Any, ...], p: Any, out: list[Any], shrink: Any,
               outs: list[tuple[int, int]]) -> list[Any]:
    """Rescaled sums of values, with those of a tile weighted.

    Args:
        V: the values.
        at: batch, head and first row of the tile.
        p: the weights, (queries, keys), of V's element type.
        out: the sums of each chunk of columns, (queries, columns).
        shrink: what the rows of the sums are multiplied by.
        outs: offset and columns of each chunk.
    """
    sums = []
    for part, (first, width) in zip(out, outs, strict=True):
        layout, data = part.wg_map.sg_layout, part.wg_map.sg_data
        v = load_tile(init_tile(V, (*at, first), (p.shape[1], width), wg_map=WgMap(layout, (p.shape[1], data[1]))))
        sums.append(tile_mma(p, v, part * shrink))
    return sums


def chunks(size: int, chunk: int, parts: int = 1) -> list[tuple[int, int]]:
    """Offset and columns of each chunk of a head.

    A chunk has ``chunk`` columns for each of the ``parts`` that subgroups take, or what is left, each part rounded up
    to 16.
    """
    step, unit = chunk * parts, 16 * parts
    return [(at, min(step, -(-(size - at) // unit) * unit)) for at in range(0, size, step)]


def key_chunk(K: Any, offsets: tuple[Any, ...], shape: tuple[int, int], layout: tuple[int, int]) -> Any:
    """Load columns of a tile of keys, transposed, as operand B of Q K^T."""
    tile = init_tile(K, offsets, shape, wg_map=WgMap(layout, shape))
    return tile_transpose(load_tile(tile), wg_map=WgMap(layout, shape[::-1]))


def query_chunk(Q: Any, offsets: tuple[Any, ...], shape: tuple[int, int], layout: tuple[int, int]) -> Any:
    """Load columns of a tile of queries."""
    return load_tile(init_tile(Q, offsets, shape, wg_map=WgMap(layout, (shape[0] // layout[0], shape[1]))))


@planned
def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None, out: Any = None,
              target: str | Target | None = None) -> Any:
    """Attention, forward: softmax(scale * q @ k^T) @ v for every head.

    Args:
        q: (..., heads, queries, size), f16, bf16 or f32, of NumPy or dpnp.
        k, v: (..., groups, keys, size); each group of keys and values serves heads / groups consecutive heads. v may
            have heads of another size than k.
        causal: query i sees keys up to i + (keys - queries), so that the last query sees all. A query that sees none
            gives zeros.
        scale: factor of the scores, by default 1 / sqrt(size).
        out: where the result goes.
        target: the device that code is generated for, by default that of the arrays.

    Returns:
        (..., heads, queries, size of v), of q's element type: ``out``, or a new array. Scores and sums are f32; the
        weights are rounded to v's type before they multiply it.

    Raises:
        ShapeError: the shapes do not go together.
        ElementTypeError: q, k and v are not of one floating-point type.
        DeviceError: arrays on different devices.
    """
    with AtTheCall():
        operands = tuple(Operand.of(name, value) for name, value in (("q", q), ("k", k), ("v", v)))
        check_same_device(*operands)
        _check_operands(*operands)
        shape = (*operands[0].shape[:-1], operands[2].shape[-1])
        result = result_for(out, operands[0], shape, operands[0].dtype)
        if 0 not in shape:
            _launch(operands, result, causal, scale, target)
        return result.array if out is None else out


def _check_operands(q: Operand, k: Operand, v: Operand) -> None:
    if len({x.dtype for x in (q, k, v)}) > 1 or q.dtype not in (dtypes.f16, dtypes.bf16, dtypes.f32):
        raise ElementTypeError("XT7020", f"q is {q.dtype}, k {k.dtype} and v {v.dtype}",
                               "pass all three of f16, of bf16 or of f32: q.astype(k.dtype)")
    if min(len(x.shape) for x in (q, k, v)) < 2 or len({len(x.shape) for x in (q, k, v)}) > 1:
        raise ShapeError("XT7021", f"q is {q.shape}, k {k.shape} and v {v.shape}",
                         "pass (..., heads, queries, size), (..., groups, keys, size) and the same for v")
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError("XT7022", f"a head of q has {q.shape[-1]} elements and one of k {k.shape[-1]}",
                         f"a score is the product of both: make both {q.shape[-1]} or both {k.shape[-1]}")
    if k.shape[:-1] != v.shape[:-1] or q.shape[:-3] != k.shape[:-3]:
        raise ShapeError("XT7021", f"q is {q.shape}, k {k.shape} and v {v.shape}",
                         "k and v must be equal but for the size of a head, and all three have the same batch")
    if len(q.shape) > 2 and (not k.shape[-3] or q.shape[-3] % k.shape[-3]):
        raise ShapeError("XT7023", f"{q.shape[-3]} heads of q share {k.shape[-3]} groups of keys and values",
                         "the number of heads must be a multiple of the number of groups")


@dataclass(frozen=True)
class Blocks:
    """Tile sizes of attention for a target.

    Attributes:
        queries, keys: of a work-group's tile.
        rows: queries of a subgroup.
        chunk: columns of a head that a subgroup multiplies at a time: what K and V take of the registers.
        resident: whether all chunks of Q stay in registers.
        parts: subgroups that share their queries, each with its part of the columns of V.
        ones: whether rows are summed by a product with ones, which takes registers.
    """

    queries: int
    keys: int
    rows: int
    chunk: int = 64
    resident: bool = True
    parts: int = 1
    ones: bool = False

    @property
    def constants(self) -> dict[str, int]:
        """Constants of the kernel ``attention_of_heads``."""
        return {"BM": self.queries, "BN": self.keys, "rows": self.rows, "chunk": self.chunk,
                "resident": self.resident, "parts": self.parts, "ones": self.ones}


def blocks_for(size: int, queries: int, target: Target, dtype: dtypes.DType = dtypes.bf16) -> Blocks:
    """Tile sizes that fit a target's registers.

    With registers of 32 bytes, 64 columns of the result are what a subgroup has room for: more are distributed to
    subgroups that each work out the scores. With those of 64, a step has as many keys as fit when Q does not stay:
    what is done once for a row, such as rescaling its sums, is then done for more products.
    """
    if target.block_io:
        tiles = _F32_TILES if dtype.bits == 32 else _TILES
        rows, keys, chunk = next(tile for most, *tile in tiles if size <= most and (queries > 8 or most != _MORE_ROWS))
        parts, resident = 1, False
    else:
        tight = target.registers[0] > 0
        parts = min(1 << (-(-size // 64) - 1).bit_length(), _SUBGROUPS) if tight else 1
        rows, keys, chunk, resident = 8, 16, 16 if tight else 64, not tight and size <= 128
    down = max(min(_SUBGROUPS // parts, -(-queries // rows)), 1)
    return Blocks(rows << (down - 1).bit_length(), keys, rows, chunk, resident, parts, target.block_io)


def _launch(operands: tuple[Operand, ...], result: Operand, causal: bool, scale: float | None,
            target: str | Target | None) -> None:
    q, k, v = (four_dimensions(copied_where_shared(x, result)) for x in operands)
    o = four_dimensions(result)
    queue = None if o.library is np else o.array.sycl_queue
    bound = attention_of_heads.on(queue, target=target)
    device = bound.target or find_target(target)
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else one_number(
        "scale", scale, "all scores", "scale the queries before, as in q * scales[:, None]")
    if device.is_cpu and q.shape[2] >= FEWEST_QUERIES:
        launch_rows((q, k, v), o, queue, target, device.cores, causal, factor)
        return
    blocks = blocks_for(max(q.shape[-1], v.shape[-1]), q.shape[2], device, q.dtype)
    grid = -(-q.shape[2] // blocks.queries), q.shape[1], q.shape[0]
    bound[grid](q.argument, k.argument, v.argument, o.argument, factor, **blocks.constants, D=q.shape[-1],
                DV=v.shape[-1], share=q.shape[1] // k.shape[1], causal=causal, positive=factor > 0)


def four_dimensions(operand: Operand) -> Operand:
    """4D view (batch, heads, rows, size): further batches are folded into the first, missing dimensions have size
    one."""
    array = operand.array
    while array.ndim < 4:
        array = array[None, ...]
    if array.ndim > 4:
        array = array.reshape((math.prod(array.shape[:-3]), *array.shape[-3:]))
    return replace(operand, array=array)
