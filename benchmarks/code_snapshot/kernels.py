"""Kernels of the code snapshot: one for each feature that reaches the emitter by a code path of its own."""

from __future__ import annotations

import math
from typing import Any

import xetile as xt


@xt.kernel
def gemm(A: Any, B: Any, C: Any, *, BM: int = 256, BN: int = 256, BK: int = 32, sg: tuple[int, int] = (8, 4),
         ahead: int = 3, unroll: int | None = None, barrier: int | None = None, acc: Any = xt.f32) -> None:
    """Work-group GEMM with cooperative prefetch ``ahead`` K steps in advance; 0 for no prefetch."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    if ahead:
        pa = xt.init_tile(A, (m, ahead * BK), (BM, BK), wg_map=xt.wg_map((32, 1), (BM // 32, BK)))
        pb = xt.init_tile(B, (ahead * BK, n), (BK, BN), wg_map=xt.wg_map((4, 8), (BK // 4, BN // 8)))
    total = xt.zeros((BM, BN), acc, wg_map=map_c)
    hints: dict[str, Any] = {name: value for name, value in (("unroll", unroll), ("barrier", barrier)) if value}
    for _ in xt.range(0, A.shape[1], BK, **hints):
        if ahead:
            xt.prefetch_tile(pa)
            xt.prefetch_tile(pb)
            pa, pb = xt.update_tile_offset(pa, 0, BK), xt.update_tile_offset(pb, BK, 0)
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@xt.kernel
def subgroup_gemm(A: Any, B: Any, C: Any, *, BM: int = 32, BN: int = 64, BK: int = 32, acc: Any = xt.f32,
                  unroll: int | None = None, start: str = "zero", bias: float = 0.0) -> None:
    """GEMM of one subgroup a work-group; with ``start`` "C" it accumulates onto C, with ``bias`` it has an epilogue."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    c = xt.init_tile(C, (m, n), (BM, BN))
    total = xt.load_tile(c) if start == "C" else xt.zeros((BM, BN), acc)
    for _ in xt.range(0, A.shape[1], BK, **({} if unroll is None else {"unroll": unroll})):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total + bias if bias else total, c)


@xt.kernel
def converted_gemm(A: Any, B: Any, C: Any, *, dtype: Any, BM: int = 16, BN: int = 32, BK: int = 32) -> None:
    """GEMM whose operands are converted and scaled in registers: their loads cannot be fused with the product."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    total = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a).to(dtype) * 2, xt.load_tile(b).to(dtype), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def indexed_gemm(A: Any, B: Any, C: Any, *, BM: int = 128, BN: int = 128, BK: int = 32,
                 sg: tuple[int, int] = (4, 4)) -> None:
    """GEMM whose tiles are made in each step at the loop counter, not carried by the loop."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    total = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for k in xt.range(0, A.shape[1], BK):
        xt.prefetch_tile(xt.init_tile(A, (m, k + BK), (BM, BK), wg_map=xt.wg_map((16, 1), (BM // 16, BK))))
        a = xt.load_tile(xt.init_tile(A, (m, k), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK))))
        b = xt.load_tile(xt.init_tile(B, (k, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1]))))
        total = xt.tile_mma(a, b, total)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@xt.kernel
def transposed_gemm(AT: Any, BT: Any, C: Any, *, BM: int = 128, BN: int = 128, BK: int = 32,
                    sg: tuple[int, int] = (4, 4)) -> None:
    """GEMM of row-major A^T and B^T: both operands go through tile_transpose."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_a, map_b = xt.wg_map(sg, (BM // sg[0], BK)), xt.wg_map(sg, (BK, BN // sg[1]))
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(AT, (0, m), (BK, BM), wg_map=map_a.transposed())
    b = xt.init_tile(BT, (n, 0), (BN, BK), wg_map=map_b.transposed())
    total = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, AT.shape[0], BK):
        x = xt.tile_transpose(xt.load_tile(a), wg_map=map_a)
        total = xt.tile_mma(x, xt.tile_transpose(xt.load_tile(b), wg_map=map_b), total)
        a, b = xt.update_tile_offset(a, BK, 0), xt.update_tile_offset(b, 0, BK)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@xt.kernel
def conditional_gemm(A: Any, B: Any, C: Any, *, BM: int = 64, BN: int = 64, BK: int = 32,
                     sg: tuple[int, int] = (2, 2)) -> None:
    """GEMM with conditions inside and behind the K loop, and a scalar that the loop carries."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    total, steps = xt.zeros((BM, BN), xt.f32, wg_map=map_c), xt.scalar(0)
    for k in xt.range(0, A.shape[1], BK):
        with xt.when(k % (3 * BK) != 0):
            total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
            steps = steps + 1
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    with xt.when(xt.group_id(0) == xt.group_id(1)):
        total = total * 2
    with xt.when(steps > 0):
        xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@xt.kernel
def scaled_gemm(A: Any, B: Any, SA: Any, SB: Any, C: Any, *, BM: int = 16, BN: int = 32, BK: int = 64) -> None:
    """Product of 8-bit floats with a scale for each 32 elements along K (MX formats)."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    total = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma_scaled(
            xt.load_tile(xt.init_tile(A, (m, k), (BM, BK))), xt.load_tile(xt.init_tile(B, (k, n), (BK, BN))), total,
            xt.load_tile(xt.init_tile(SA, (m, k // 32), (BM, BK // 32))),
            xt.load_tile(xt.init_tile(SB, (k // 32, n), (BK // 32, BN))))
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def table_gemm(table: Any, *, BM: int = 16, BN: int = 16, BK: int = 16, aligned: bool = False) -> None:
    """Products whose addresses, sizes and pitches are loaded from a table as scalars."""
    problem, tile = xt.group_id(1), xt.group_id(0)
    a_at, b_at, c_at = (xt.load_scalar(table, (problem, field)) for field in range(3))
    m, n, k, *pitches = (xt.load_scalar(table, (problem, field)).to(xt.index) for field in range(3, 9))
    across = (n + (BN - 1)) // BN
    row, column = tile // across * BM, tile % across * BN
    with xt.when(row < m):
        a, b, c = (xt.init_tile(at, offsets, shape, base_shape=size, dtype=dtype, aligned=aligned,
                                base_strides=(pitch, 1))
                   for at, offsets, shape, size, pitch, dtype in (
                       (a_at, (row, 0), (BM, BK), (m, k), pitches[0], xt.bf16),
                       (b_at, (0, column), (BK, BN), (k, n), pitches[1], xt.bf16),
                       (c_at, (row, column), (BM, BN), (m, n), pitches[2], xt.f32)))
        total = xt.zeros((BM, BN), xt.f32)
        for _ in xt.range(0, k, BK):
            total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
            a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
        xt.store_tile(total, c)


@xt.kernel
def carried_rotation(X: Any, Y: Any, n: Any, *, steps: int | None = None) -> None:
    """A loop whose carried vectors change places in each step, with a condition in it; ``steps`` unrolls it."""
    rows = xt.init_tile(X, (0, 0), (8, 16))
    a, b, c = xt.zeros((8, 16), xt.f32), xt.full((8, 16), 1, xt.f32), xt.full((8, 16), 2, xt.f32)
    for k in xt.range(1, n, 2, unroll=steps):
        with xt.when(k > 4):
            a = a + xt.load_tile(rows)
        a, b, c = b, c, a * 2 + k.to(xt.f32)
        rows = xt.update_tile_offset(rows, 8, 0)
    xt.store_tile(a + b * 3 + c * 5, xt.init_tile(Y, (0, 0), (8, 16)))


@xt.kernel
def column_sum(A: Any, C: Any, start: Any, *, step: int = 2, scaled: int = 2) -> None:
    """Loads at columns that are aligned for block messages only if ``step`` and ``scaled`` are even."""
    a, total = xt.init_tile(A, (0, start * scaled), (8, 16)), xt.zeros((8, 16), xt.f32)
    for _ in xt.range(3):
        total = total + xt.load_tile(a).to(xt.f32)
        a = xt.update_tile_offset(a, 0, step)
    xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 16)))


@xt.kernel
def elementwise(A: Any, B: Any, C: Any) -> None:
    """Math functions, comparisons, selection and conversions of vectors."""
    top = xt.group_id(0) * 16
    a = xt.load_tile(xt.init_tile(A, (top, 0), (16, 32))).to(xt.f32)
    b = xt.load_tile(xt.init_tile(B, (top, 0), (16, 32))).to(xt.f32)
    x = xt.exp(a) + xt.log(xt.abs(b) + 1) + xt.sqrt(xt.abs(a)) * xt.tanh(b) - xt.erf(a) + xt.rsqrt(xt.abs(b) + 1)
    x = xt.where((a > b) | (a < -b), xt.maximum(x, a), xt.minimum(x, b)) + xt.fma(a, b, x)
    x = xt.floor(x) + xt.round(a) + xt.sin(b) * xt.cos(a) + a ** 3
    xt.store_tile(x.to(C.dtype), xt.init_tile(C, (top, 0), (16, 32)))


@xt.kernel
def integer_elementwise(A: Any, B: Any, C: Any) -> None:
    """Integer arithmetic, shifts, masks and comparisons of vectors."""
    top = xt.group_id(0) * 16
    a, b = (xt.load_tile(xt.init_tile(array, (top, 0), (16, 32))) for array in (A, B))
    x = (a + b) * 3 - (a & 7) + (b >> 2) + (a // 5) % 3
    x = xt.where(a >= b, x ^ b, x | a)
    xt.store_tile(x, xt.init_tile(C, (top, 0), (16, 32)))


@xt.kernel
def reductions(A: Any, ROWS: Any, COLUMNS: Any, ALL: Any, *, kinds: tuple[str, ...], rows: int = 16,
               columns: int = 32) -> None:
    """Reductions of every kind along rows, columns and both."""
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    for i, kind in enumerate(kinds):
        xt.store_tile(xt.tile_reduce(kind, v, 1), xt.init_tile(ROWS, (i * rows, 0), (rows, 1)))
        xt.store_tile(xt.tile_reduce(kind, v, 0), xt.init_tile(COLUMNS, (i, 0), (1, columns)))
        xt.store_tile(xt.tile_reduce(kind, v, (0, 1)), xt.init_tile(ALL, (i, 0), (1, 1)))


@xt.kernel
def layout_conversion(A: Any, B: Any) -> None:
    """Conversion between two maps, a reduction, a broadcast and a transposition across subgroups."""
    first, second = xt.wg_map((2, 2), (8, 16)), xt.wg_map((4, 1), (4, 32))
    v = xt.load_tile(xt.init_tile(A, (0, 0), (16, 32), wg_map=first))
    w = xt.tile_conv_layout(v + 1, second)
    s = xt.tile_transpose(xt.tile_broadcast(xt.tile_reduce("add", w, 1), (16, 32), wg_map=second))
    xt.store_tile(s, xt.init_tile(B, (0, 0), (32, 16), wg_map=second.transposed()))


@xt.kernel
def broadcasts(A: Any, R: Any, C: Any, S: Any, B: Any, *, rows: int = 16, columns: int = 32) -> None:
    """Rows, columns and single elements between operators, and a transposition."""
    v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, columns)))
    r = xt.load_tile(xt.init_tile(R, (0, 0), (1, columns)))
    c = xt.load_tile(xt.init_tile(C, (0, 0), (rows, 1)))
    s = xt.load_tile(xt.init_tile(S, (0, 0), (1, 1)))
    e = v * r + c - s * (r + c)
    e = e - xt.tile_reduce("max", v, 1) + xt.tile_reduce("min", v, 0)
    xt.store_tile(xt.tile_transpose(e) + xt.tile_transpose(c) * 2, xt.init_tile(B, (0, 0), (columns, rows)))


@xt.kernel
def gather_scatter(A: Any, AT: Any, C: Any, *, shape: tuple[int, int] = (16, 32), wg_map: Any = None) -> None:
    """Masked gathers that a loop moves, and a masked scatter."""
    at = xt.load_tile(xt.init_tile(AT, (xt.group_id(0) * shape[0], 0), shape, wg_map=wg_map)).to(xt.index)
    mask = (at % 3) != 0
    tile, total = xt.init_tile(A, offsets=at), xt.zeros(shape, xt.f32, wg_map=wg_map)
    for _ in xt.range(4):
        total = total + xt.load_gather(tile, mask, padding=5).to(xt.f32)
        tile = xt.update_tile_offset(tile, at)
    xt.store_scatter(total.to(C.dtype), xt.init_tile(C, offsets=at * 2), mask)


@xt.kernel
def cached_gather_scatter(A: Any, C: Any) -> None:
    """Gathers, scatters and prefetches with cache hints."""
    top, at = xt.group_id(0) * 64, xt.iota((1, 64), 1, xt.index)
    tile = xt.init_tile(A, offsets=at * 3 + top)
    xt.prefetch_tile(tile, l1="cached", l3="uncached")
    loaded = xt.load_gather(tile, (at % 3) != 0, padding=5, l1="streaming", l3="cached")
    xt.store_scatter(loaded, xt.init_tile(C, offsets=63 - at + top), at != 7, l1="write_through", l3="uncached")


@xt.kernel
def cached_product(A: Any, B: Any, C: Any) -> None:
    """Block loads, stores and prefetches with cache hints."""
    top = xt.group_id(0) * 8
    xt.prefetch_tile(xt.init_tile(A, (top + 8, 0), (8, 16)), l1="uncached", l3="cached")
    a = xt.load_tile(xt.init_tile(A, (top, 0), (8, 16)), l1="streaming", l3="cached")
    b = xt.load_tile(xt.init_tile(B, (0, 0), (16, 16)), l1="uncached", l3="uncached")
    xt.store_tile(xt.tile_mma(a, b), xt.init_tile(C, (top, 0), (8, 16)), l1="streaming", l3="write_back")


@xt.kernel
def atomics(A: Any, V: Any, AT: Any, OLD: Any, *, kinds: tuple[str, ...]) -> None:
    """Read-modify-write of tiles, a kind each, and of scattered elements."""
    for i, kind in enumerate(kinds):
        row = xt.group_id(0) * 8 + 16 * i
        value = xt.load_tile(xt.init_tile(V, (row, 0), (8, 16)))
        old = xt.atomic_rmw_tile(kind, value, xt.init_tile(A, (row, 0), (8, 16)))
        xt.store_tile(old, xt.init_tile(OLD, (row, 0), (8, 16)))
    at = xt.load_tile(xt.init_tile(AT, (0, 0), (8, 16)))
    value = xt.load_tile(xt.init_tile(V, (0, 0), (8, 16)))
    xt.atomic_rmw_tile(kinds[0], value, xt.init_tile(A, offsets=at.to(xt.index)), at > 0)


@xt.kernel
def padded_loads(A: Any, C: Any, *, rows: int = 8, columns: int = 16, padding: float = 3) -> None:
    """Loads over all four edges of an array, with a padding that is not zero."""
    y, x = xt.group_id(0) * rows, xt.group_id(1) * columns
    value = xt.load_tile(xt.init_tile(A, (y - 3, x - 5), (rows, columns)), padding=padding)
    xt.store_tile(value, xt.init_tile(C, (y, x), (rows, columns)))


@xt.kernel
def inner_blocks(A: Any, C: Any, *, blocks: tuple[int, int] = (8, 16)) -> None:
    """4D vectors of inner blocks."""
    v = xt.load_tile(xt.init_tile(A, (0, 8), (32, 32), inner_blocks=blocks))
    xt.store_tile(v + v, xt.init_tile(C, (0, 0), (32, 32), inner_blocks=blocks))


@xt.kernel
def bitcasts(W: Any, A: Any, C: Any) -> None:
    """Words whose bits become an operand of a product."""
    b = xt.bitcast((xt.load_tile(xt.init_tile(W, (0, 0), (16, 16))) & 0x03C003C0) | 0x4C004C00, xt.f16)
    xt.store_tile(xt.tile_mma(xt.load_tile(xt.init_tile(A, (0, 0), (8, 32))), b), xt.init_tile(C, (0, 0), (8, 16)))


@xt.kernel(subgroups=(2, 2))
def barriers(A: Any, C: Any, n: Any) -> None:
    """Global memory between barriers in a condition, and fences of each scope."""
    mine, top = xt.subgroup_id(), xt.group_id(0) * 64
    xt.store_tile(xt.load_tile(xt.init_tile(A, (top + mine * 8, 0), (8, 16))),
                  xt.init_tile(C, (top + mine * 8, 0), (8, 16)))
    with xt.when(n > 0):
        xt.barrier()
        total = xt.zeros((8, 16), xt.f32)
        for k in xt.range(4):
            total = total + xt.load_tile(xt.init_tile(C, (top + k * 8, 0), (8, 16))) * (k + mine).to(xt.f32)
        xt.barrier()
        xt.store_tile(total, xt.init_tile(C, (top + 32 + mine * 8, 0), (8, 16)))
    xt.fence("gpu", "global")
    xt.fence()


@xt.kernel(subgroups=(2, 1))
def named_barriers(A: Any, C: Any, n: Any, *, slots: int = 2) -> None:
    """Producer and consumer: subgroup 0 fills a ring of slots in shared local memory, subgroup 1 empties it."""
    mine, top = xt.subgroup_id(), xt.group_id(0) * n * 8 * slots
    memory = xt.alloc_slm((slots * 8, 16), xt.f32)
    full, empty = ([xt.nbarrier(2 * s + kind, 2) for s in range(slots)] for kind in (0, 1))
    with xt.when(mine == 0):
        for k in xt.range(n):
            for s in range(slots):
                tile = xt.load_tile(xt.init_tile(A, (top + (k * slots + s) * 8, 0), (8, 16)))
                xt.store_tile(tile, xt.init_tile(memory, (s * 8, 0), (8, 16)))
                full[s].arrive()
                full[s].wait()
                empty[s].arrive()
                empty[s].wait()
    with xt.otherwise():
        for k in xt.range(n):
            for s in range(slots):
                full[s].arrive()
                full[s].wait()
                tile = xt.load_tile(xt.init_tile(memory, (s * 8, 0), (8, 16)))
                empty[s].arrive()
                xt.store_tile(tile * 2 + 1, xt.init_tile(C, (top + (k * slots + s) * 8, 0), (8, 16)))
                empty[s].wait()


@xt.kernel
def debug_output(A: Any, C: Any, n: Any) -> None:
    """device_print of scalars and vectors, and device_assert."""
    g = xt.group_id(0)
    x = xt.load_tile(xt.init_tile(A, (g * 8, 0), (8, 16)))
    xt.device_print("{:3d} {:.2f} {:x}", g, 1.5, n + 10)
    with xt.when(g == 1):
        xt.device_print("{} {:5.1f} {}", x, x * 0.5, x > 2.0)
    xt.device_assert((x >= 0.0) | (x < -50.0), "x is negative")
    xt.store_tile(x + 1.0, xt.init_tile(C, (g * 8, 0), (8, 16)))


@xt.kernel
def vector_transfers(M: Any, B: Any, L: Any, O: Any, p: Any) -> None:  # noqa: E741 - the output
    """SuperVector transfers of one to three dimensions: transposed, broadcast, padded, over edges."""
    transposed = xt.vector.transfer_read(M, (-3, 30), (8, 16), permutation=(1, 0), padding=4)
    row = xt.vector.transfer_read(M, (7, 60), (4, 16), permutation=(None, 1), padding=p)
    across = xt.vector.transfer_read(B, (1, 2, 30), (8, 16), permutation=(0, 2), padding=p)
    cube = xt.vector.transfer_read(B, (4, -1, 30), (2, 8, 16), padding=9)
    line = xt.vector.transfer_read(L, (70,), 48, padding=3)
    xt.vector.transfer_write(transposed, O, (0, 0, 0), permutation=(1, 2))
    xt.vector.transfer_write(row, O, (1, 0, 0), permutation=(1, 2))
    xt.vector.transfer_write(across, O, (2, 0, 0), permutation=(1, 2))
    xt.vector.transfer_write(cube * 2.0, O, (3, 0, 0))
    xt.vector.transfer_write(line, O, (5, 3, 0), permutation=(2,))
    xt.vector.transfer_write(transposed, O, (7, 4, 3), permutation=(2, 1))


@xt.kernel
def vector_slice(A: Any, C: Any, *, indices: tuple[int, ...], shape: tuple[int, ...],
                 permutation: tuple[int, ...] | None = None) -> None:
    """One SuperVector transfer each way."""
    v = xt.vector.transfer_read(A, indices, shape, permutation=permutation, padding=0)
    xt.vector.transfer_write(v + v, C, (0,) * C.rank)


@xt.kernel
def layernorm(X: Any, W: Any, Y: Any, *, BM: int = 32, N: int = 256, subgroups: int = 4) -> None:
    """Mean and variance of whole rows in registers."""
    map_x = xt.wg_map((subgroups, 1), (BM // subgroups, N))
    m = xt.group_id(0) * BM
    x = xt.load_tile(xt.init_tile(X, (m, 0), (BM, N), wg_map=map_x)).to(xt.f32)
    mean = xt.tile_reduce("add", x, 1) / N
    centred = x - mean
    scale = xt.rsqrt(xt.tile_reduce("add", centred * centred, 1) / N + 1e-5)
    w = xt.load_tile(xt.init_tile(W, (0, 0), (1, N), wg_map=xt.wg_map((subgroups, 1), (1, N))))
    xt.store_tile((centred * scale * w).to(Y.dtype), xt.init_tile(Y, (m, 0), (BM, N), wg_map=map_x))


@xt.kernel
def running_max(X: Any, Y: Any, *, BM: int = 16, BN: int = 32) -> None:
    """A loop along rows with a carried reduction and infinities."""
    m = xt.group_id(0) * BM
    x, largest = xt.init_tile(X, (m, 0), (BM, BN)), xt.full((BM, 1), -math.inf, xt.f32)
    for _ in xt.range(0, X.shape[1], BN):
        largest = xt.maximum(largest, xt.tile_reduce("max", xt.load_tile(x).to(xt.f32), 1))
        x = xt.update_tile_offset(x, 0, BN)
    xt.store_tile(largest, xt.init_tile(Y, (m, 0), (BM, 1)))
