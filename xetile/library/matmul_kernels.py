"""Kernels of :func:`xetile.matmul`: a product with its epilogue, and the reduction of split-K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xetile.dialect.wg_map import WgMap
from xetile.frontend.control_flow.for_loop import range as device_range
from xetile.jit.kernel import kernel
from xetile.lang.creation import zeros
from xetile.lang.grid import group_id
from xetile.lang.math import minimum
from xetile.lang.matmul import tile_mma as multiply
from xetile.lang.tiles import init_tile, load_tile, prefetch_tile, store_tile, update_tile_offset
from xetile.library.activations import Activation, applied


def matrix_of(array: Any, linear: Any) -> tuple[Any, ...]:
    """Batch index of the ``linear``-th matrix: one index a leading dimension, the last one fastest."""
    indices: list[Any] = []
    for size in reversed(array.shape[1:-2]):
        indices.insert(0, linear % size)
        linear = linear // size
    return (linear, *indices) if len(array.shape) > 2 else ()


def finished(x: Any, C: Any, c: Any, bias: Any, alpha: Any, beta: Any, at: tuple[Any, ...], *, scaled: bool,
             added: bool, bias_tile: Any, activation: Activation | None) -> Any:
    """Epilogue: activation(alpha * x + beta * C + bias), each part if requested, in C's element type."""
    if scaled:
        x = x.to(dtypes.f32) * alpha
    if added:
        if not x.dtype.is_float and beta.dtype.is_float:
            x = x.to(dtypes.f32)
        x = x + load_tile(c).to(x.dtype) * beta.to(x.dtype)
    if bias_tile is not None:
        rows, columns, map_ = bias_tile
        offsets = (*at[:-2], at[-2] if rows > 1 else 0, at[-1] if columns > 1 else 0)
        addend = load_tile(init_tile(bias, offsets, (rows, columns), wg_map=map_))
        if addend.dtype.is_float and not x.dtype.is_float:
            x = x.to(dtypes.f32)
        x = x + addend.to(x.dtype)
    if activation is not None:
        x = applied(activation, x)
    return x.to(C.dtype)


Tiles = Callable[..., Any]
"""Makes tiles on a matrix: of a row, a column, a shape and a map."""


def tiles_of(array: Any, matrix: Any) -> Tiles:
    """Factory of tiles on one matrix of a batch, the ``matrix``-th."""
    which = matrix_of(array, matrix)
    return lambda row, column, shape, wg_map: init_tile(array, (*which, row, column), shape, wg_map=wg_map)


def sum_along_k(A: Tiles, B: Tiles, m: Any, n: Any, start: Any, stop: Any, *, BM: int, BN: int, BK: int,
                sg: tuple[int, int], as_type: DType, ahead: int) -> Any:
    """Main loop: the tile of A @ B at row m and column n, summed over K from ``start`` to ``stop``.

    Prefetches run ``ahead`` steps ahead, each subgroup its share of both tiles.
    """
    a = A(m, start, (BM, BK), WgMap(sg, (BM // sg[0], BK)))
    b = B(start, n, (BK, BN), WgMap(sg, (BK, BN // sg[1])))
    x = zeros((BM, BN), dtypes.f32 if as_type.is_float else dtypes.i32, wg_map=WgMap(sg, (BM // sg[0], BN // sg[1])))
    if ahead:
        share_a, share_b = shares((BM, BK), sg[0] * sg[1], BK), shares((BK, BN), sg[0] * sg[1], BK)
        pa, pb = A(m, start + ahead * BK, (BM, BK), share_a), B(start + ahead * BK, n, (BK, BN), share_b)
    for _ in device_range(start, stop, BK):
        if ahead:
            prefetch_tile(pa)
            prefetch_tile(pb)
        x = multiply(converted(load_tile(a), as_type), converted(load_tile(b), as_type), x)
        a, b = update_tile_offset(a, 0, BK), update_tile_offset(b, BK, 0)
        if ahead:
            pa, pb = update_tile_offset(pa, 0, BK), update_tile_offset(pb, BK, 0)
    return x


@kernel(fast_division=True)
def product(A: Any, B: Any, C: Any, bias: Any, alpha: Any, beta: Any, *, BM: int, BN: int, BK: int, sg: tuple[int, int],
            as_type: DType, ahead: int = 0, parts: int = 1, inside: tuple[bool, bool] = (False, False),
            scaled: bool = False, added: bool = False, spread: tuple[bool, bool] | None = None,
            activation: Activation | None = None) -> None:
    """Kernel: C = activation(alpha * A @ B + beta * C + bias), for each matrix of a batch along the grid's last axis.

    With ``parts`` above one, C is a work array (parts, ..., M, N): each part of K leaves its sum there. Where tiles are
    to be ``inside`` along the rows or columns of C, the last ones overlap those before them, and store the same: for
    operands that no block message reaches, which are read with a check for each element where a tile leaves them.
    """
    m, n = group_id(0) * BM, group_id(1) * BN
    if inside[0]:
        m = minimum(m, A.shape[-2] - BM)
    if inside[1]:
        n = minimum(n, B.shape[-1] - BN)
    steps = (A.shape[-1] + (BK - 1)) // BK
    if parts > 1:
        part, batch = group_id(2) % parts, group_id(2) // parts
        steps = (steps + (parts - 1)) // parts
        first = part * steps * BK
    else:
        batch, first = group_id(2), 0
    map_c = WgMap(sg, (BM // sg[0], BN // sg[1]))
    x = sum_along_k(tiles_of(A, batch), tiles_of(B, batch), m, n, first, first + steps * BK, BM=BM, BN=BN, BK=BK, sg=sg,
                    as_type=as_type, ahead=ahead)
    if parts > 1:
        at: tuple[Any, ...] = (part, *matrix_of_part(C, batch), m, n)
        store_tile(x, init_tile(C, at, (BM, BN), wg_map=map_c))
        return
    at = (*matrix_of(C, batch), m, n)
    c = init_tile(C, at, (BM, BN), wg_map=map_c)
    tile = bias_tile((BM, BN), sg, spread)
    store_tile(finished(x, C, c, bias, alpha, beta, at, scaled=scaled, added=added, bias_tile=tile,
                        activation=activation), c)


@kernel(fast_division=True)
def sum_of_parts(W: Any, C: Any, bias: Any, alpha: Any, beta: Any, *, BM: int, BN: int, sg: tuple[int, int],
                 parts: int, scaled: bool = False, added: bool = False, spread: tuple[bool, bool] | None = None,
                 activation: Activation | None = None) -> None:
    """Kernel: split-K reduction C = activation(alpha * (W[0] + W[1] + ...) + beta * C + bias)."""
    m, n, batch = group_id(0) * BM, group_id(1) * BN, group_id(2)
    map_c = WgMap(sg, (BM // sg[0], BN // sg[1]))
    x = zeros((BM, BN), W.dtype, wg_map=map_c)
    for part in device_range(parts):
        x = x + load_tile(init_tile(W, (part, *matrix_of_part(W, batch), m, n), (BM, BN), wg_map=map_c))
    at = (*matrix_of(C, batch), m, n)
    c = init_tile(C, at, (BM, BN), wg_map=map_c)
    store_tile(finished(x, C, c, bias, alpha, beta, at, scaled=scaled, added=added,
                        bias_tile=bias_tile((BM, BN), sg, spread), activation=activation), c)


def matrix_of_part(array: Any, linear: Any) -> tuple[Any, ...]:
    """Batch index as by :func:`matrix_of` for a work array, whose first dimension is the part of K."""
    indices: list[Any] = []
    for size in reversed(array.shape[2:-2]):
        indices.insert(0, linear % size)
        linear = linear // size
    return (linear, *indices) if len(array.shape) > 3 else ()


def converted(v: Any, dtype: DType) -> Any:
    """``v`` in the type of the matrix engine; 8-bit integers are unchanged."""
    return v if v.dtype is dtype or not dtype.is_float else v.to(dtype)


def bias_tile(shape: tuple[int, int], sg: tuple[int, int], spread: tuple[bool, bool] | None) -> Any:
    """Shape and map of a bias's tile: along each dimension the result's, or one element that is broadcast."""
    if spread is None:
        return None
    rows, columns = (1 if one else size for one, size in zip(spread, shape, strict=True))
    return rows, columns, WgMap(sg, (max(rows // sg[0], 1), max(columns // sg[1], 1)))


def shares(shape: tuple[int, int], subgroups: int, width: int) -> WgMap:
    """Prefetch map: each subgroup's part of a tile, ``width`` columns, a line of 64 bytes, and the rows that remain.

    Sizes are powers of two, as the tilings of :mod:`xetile.library.tile_heuristics` are.
    """
    columns = min(width, shape[1])
    rows = max(shape[0] * shape[1] // (subgroups * columns), 1)
    across = min(shape[1] // columns, subgroups)
    return WgMap((subgroups // across, across), (rows, columns))
