"""``python -m benchmarks.trial_kernels``: kernels as users write them, counted in the disassembly.

Each row has what the hot loop costs for a target: the part of dpas, instructions of the vector unit, bytes spilled;
and what is asked for.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import xetile as xt
from benchmarks.attention_kernels import (
    backward_dkdv_in_parts,
    gathered_keys,
    packed_sequences,
    paged_cache,
    triton_tutorial,
)
from benchmarks.attention_scores import SCORES, scored
from benchmarks.code_snapshot.cases import example
from benchmarks.kernels import work_group_gemm
from benchmarks.library_code import library_attention
from benchmarks.rows import Progress, Row
from codegen.toolchain.ocloc import has_ocloc
from xetile.compiler.report import Report
from xetile.library.stacked_products import stacked_product

GROUP = "Users' kernels, machine code"
_TARGETS = ("pvc", "bmg")
_HEADS = ("kernel", "target", "dpas", "density", "vector instructions", "a unit", "spilled", "goal")


@dataclass(frozen=True)
class Trial:
    """A kernel of the trial.

    Attributes:
        name: what it computes.
        report: its report for a target.
        goal: what is asked for: a density, or instructions of the vector unit a unit of work.
        dense: whether the goal is a density.
        per: how many dpas are a unit of work, for instructions of the vector unit.
        unit: what the unit of work is.
        targets: where it is counted.
    """

    name: str
    report: Callable[[str], Report]
    goal: float
    dense: bool = True
    per: int = 32
    unit: str = "32 dpas"
    targets: tuple[str, ...] = _TARGETS

    def value(self, report: Report) -> float:
        """The figure that the goal is for."""
        return report.density if self.dense else self.vector(report)

    def vector(self, report: Report) -> float:
        """Instructions of the vector unit a unit of work."""
        return report.loop.get("vector", 0) * self.per / max(report.loop.get("dpas", 0), 1)

    def ratio(self, report: Report) -> float:
        """Ratio to the goal; over one is better. No spill is ever within a goal."""
        if report.spill_size + report.private_size:
            return 0.0
        return report.density / self.goal if self.dense else self.goal / max(self.vector(report), 1)


@xt.kernel
def converted(A: Any, B: Any, C: Any, *, BM: int = 32, BN: int = 64, BK: int = 32, to: Any = xt.f16) -> None:
    """Product of operands that are converted to one element type by ``.to`` where they have another."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    acc = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a).to(to), xt.load_tile(b).to(to), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def four_bits(A: Any, W: Any, S: Any, Z: Any, C: Any, *, BM: int = 32, BN: int = 64, group: int = 128) -> None:
    """Weights of 4 bits, eight rows of B in the words of a row, row 4 * i + j of a step in bits 4 * j of its word i:
    A @ ((W - Z) * S), with a scale and a zero point for each group of rows."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], 128):
        words = xt.load_tile(xt.init_tile(W, (k // 8, n), (16, BN)))
        scale = xt.load_tile(xt.init_tile(S, (k // group, n), (1, BN)))
        zero = xt.load_tile(xt.init_tile(Z, (k // group, n), (1, BN)))
        for number in range(8):
            a = xt.load_tile(xt.init_tile(A, (m, k + 16 * number), (BM, 16)))
            weights = (((words >> (4 * number)) & 15).to(A.dtype) - zero) * scale
            acc = xt.tile_mma(a, weights, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def signed_four_bits(A: Any, W: Any, S: Any, C: Any, *, BM: int = 32, BN: int = 64, group: int = 128) -> None:
    """The same with weights from -8 to 7, and without zero points: A @ (W * S)."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], 128):
        words = xt.load_tile(xt.init_tile(W, (k // 8, n), (16, BN)))
        scale = xt.load_tile(xt.init_tile(S, (k // group, n), (1, BN)))
        for number in range(8):
            a = xt.load_tile(xt.init_tile(A, (m, k + 16 * number), (BM, 16)))
            acc = xt.tile_mma(a, ((words << (28 - 4 * number)) >> 28).to(A.dtype) * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def words_of_rows(A: Any, W: Any, S: Any, Z: Any, C: Any, *, BM: int = 32, BN: int = 64, BK: int = 32, group: int = 128,
                  elements: bool = False) -> None:
    """Weights of 4 bits, eight rows of B in a word, of which each names its row of words, as Triton's kernels have it;
    with ``elements`` each element names its word."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc, i = xt.zeros((BM, BN), xt.f32), xt.iota((BK, 1))
    for k in xt.range(0, A.shape[1], BK):
        rows, columns = ((i + k.to(xt.i32)) // 8).to(xt.index), xt.iota((1, BN), 1, xt.index) + n
        if elements:
            words = xt.load_gather(xt.init_tile(W, rows * W.strides[0] + columns * W.strides[1]),
                                   (rows < W.shape[0]) & (columns < W.shape[1]))
        else:
            words = xt.load_tile(xt.init_tile(W, (rows, n), (BK, BN)))
        scale = xt.load_tile(xt.init_tile(S, (k // group, n), (1, BN)))
        zero = xt.load_tile(xt.init_tile(Z, (k // group, n), (1, BN)))
        weights = ((words >> (i % 8 * 4).to(W.dtype)) & 15).to(A.dtype)
        acc = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (BM, BK))), (weights - zero) * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


AWQ = (0, 16, 4, 20, 8, 24, 12, 28)
"""Lowest bits of eight neighbouring columns in a word, as AWQ stores weights."""


def columns_of_words(words: Any, order: tuple[int, ...]) -> Any:
    """Eight columns of each word of a row, whose lowest bits are ``order``."""
    fields = [(words >> shift) & 15 for shift in order]
    return xt.concatenate([field[:, i:i + 1] for i in range(words.shape[1]) for field in fields], 1)


@xt.kernel
def in_columns(A: Any, W: Any, S: Any, Z: Any, C: Any, *, BM: int = 32, BN: int = 64, group: int = 128,
               order: Any = AWQ, unpack: Any = columns_of_words, less: bool = True, late: bool = False) -> None:
    """Weights of 4 bits, eight columns of B in a word: A @ ((W - Z) * S), with zero points in words, too. With ``late``
    columns are put together as floats."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], group):
        scale = xt.load_tile(xt.init_tile(S, (k // group, n), (1, BN)))
        zero = unpack(xt.load_tile(xt.init_tile(Z, (k // group, n // 8), (1, BN // 8))), order).to(A.dtype)
        for part in range(0, group, 32):
            words = xt.load_tile(xt.init_tile(W, (k + part, n // 8), (32, BN // 8)))
            a = xt.load_tile(xt.init_tile(A, (m, k + part), (BM, 32)))
            if late:
                fields = [((words >> shift) & 15).to(A.dtype) for shift in order]
                weights = xt.concatenate([field[:, i:i + 1] for i in range(BN // 8) for field in fields], 1)
            else:
                weights = unpack(words, order).to(A.dtype)
            acc = xt.tile_mma(a, (weights - zero if less else weights) * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def four_bits_of_rows(A: Any, W: Any, S: Any, Z: Any, C: Any, *, BM: int = 32, BN: int = 64, group: int = 128) -> None:
    """Weights of 4 bits as nn.Linear stores them, a row of words for each column of C, eight of K in a word of 32 bits
    and two in a byte: A @ ((W - Z) * S)."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc, each = xt.zeros((BM, BN), xt.f32), W.dtype.bits // 4
    for k in xt.range(0, A.shape[1], group):
        words = xt.tile_transpose(xt.load_tile(xt.init_tile(W, (n, k // each), (BN, group // each))))
        fields = [(words >> 4 * number) & 15 for number in range(each)]
        weights = xt.concatenate([field[i:i + 1] for i in range(group // each) for field in fields], 0).to(A.dtype)
        scale = xt.load_tile(xt.init_tile(S, (k // group, n), (1, BN)))
        zero = xt.load_tile(xt.init_tile(Z, (k // group, n), (1, BN)))
        a = xt.load_tile(xt.init_tile(A, (m, k), (BM, group)))
        acc = xt.tile_mma(a, (weights - zero) * scale, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def pairs_of_four_bits(A: Any, W: Any, S: Any, Z: Any, C: Any, *, BM: int = 32, BN: int = 64, step: int = 128,
                       times: bool = True) -> None:
    """Weights of 4 bits in an array of u4 or i4, with scales and zero points for groups of 128 rows."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], step):
        weights = xt.load_tile(xt.init_tile(W, (k, n), (step, BN))).to(A.dtype)
        scale = xt.load_tile(xt.init_tile(S, (k // 128, n), (1, BN)))
        zero = xt.load_tile(xt.init_tile(Z, (k // 128, n), (1, BN)))
        a = xt.load_tile(xt.init_tile(A, (m, k), (BM, step)))
        weights = weights - zero
        acc = xt.tile_mma(a, weights * scale if times else weights, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def whole_bytes(A: Any, W: Any, S: Any, Z: Any, C: Any, *, BM: int = 32, BN: int = 64, group: int = 128,
                less: bool = True, times: bool = True) -> None:
    """Weights of 8 bits: A @ ((W - Z) * S), with a scale and a zero point for each group of rows."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], group):
        scale = xt.load_tile(xt.init_tile(S, (k // group, n), (1, BN)))
        zero = xt.load_tile(xt.init_tile(Z, (k // group, n), (1, BN))).to(A.dtype)
        for part in range(0, group, 32):
            a = xt.load_tile(xt.init_tile(A, (m, k + part), (BM, 32)))
            weights = xt.load_tile(xt.init_tile(W, (k + part, n), (32, BN))).to(A.dtype)
            weights = weights - zero if less else weights
            acc = xt.tile_mma(a, weights * scale if times else weights, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


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


@xt.kernel
def rows_of(A: Any, indices: Any, B: Any, C: Any, *, BM: int = 32, BN: int = 64, BK: int = 32) -> None:
    """Product of the rows of A that ``indices`` names, as an expert of a mixture has them."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    rows = xt.load_tile(xt.init_tile(indices, (m, 0), (BM, 1)))
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], BK):
        a = xt.load_tile(xt.init_tile(A, (rows, k), (BM, BK)))
        acc = xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (k, n), (BK, BN))), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def moved_rows(A: Any, indices: Any, B: Any, C: Any, *, BM: int = 16, BN: int = 64, BK: int = 32) -> None:
    """The same with a tile that is made before the loop, and moves."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (xt.load_tile(xt.init_tile(indices, (m, 0), (BM, 1))), 0), (BM, BK))
    b, acc = xt.init_tile(B, (0, n), (BK, BN)), xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def small_products(A: Any, B: Any, C: Any, *, each: int = 8, size: int = 32) -> None:
    """Products of small matrices of a batch, several a subgroup, one after another."""
    first = xt.group_id(0) * each
    for i in xt.range(first, first + each):
        a = xt.load_tile(xt.init_tile(A, (i, 0, 0), (size, size)))
        b = xt.load_tile(xt.init_tile(B, (i, 0, 0), (size, size)))
        c = xt.tile_mma(a, b, xt.zeros((size, size), xt.f32))
        xt.store_tile(c.to(C.dtype), xt.init_tile(C, (i, 0, 0), (size, size)))


def _matrix(dtype: Any) -> xt.Spec:
    return xt.Spec((4096, 4096), dtype)


def _converted(left: Any, right: Any, to: Any = xt.f16, tile: tuple[int, int] = (32, 64)) -> Callable[[str], Report]:
    def report(target: str) -> Report:
        return converted.lower(_matrix(left), _matrix(right), _matrix(xt.f32), target=target, to=to, BM=tile[0],
                               BN=tile[1]).report()

    return report


def _four_bits(dtype: Any) -> Callable[[str], Report]:
    def report(target: str) -> Report:
        return four_bits.lower(_matrix(dtype), xt.Spec((512, 4096), xt.u32), xt.Spec((32, 4096), dtype),
                               xt.Spec((32, 4096), dtype), _matrix(xt.f32), target=target).report()

    return report


def _signed_four_bits(dtype: Any) -> Callable[[str], Report]:
    def report(target: str) -> Report:
        return signed_four_bits.lower(_matrix(dtype), xt.Spec((512, 4096), xt.i32), xt.Spec((32, 4096), dtype),
                                      _matrix(xt.f32), target=target).report()

    return report


def _words_of_rows(*, elements: bool) -> Callable[[str], Report]:
    def report(target: str) -> Report:
        rows = xt.Spec((32, 4096), xt.f16)
        return words_of_rows.lower(_matrix(xt.f16), xt.Spec((512, 4096), xt.i32), rows, rows, _matrix(xt.f32),
                                   target=target, elements=elements).report(remedies=False)

    return report


def _in_columns(dtype: Any) -> Callable[[str], Report]:
    def report(target: str) -> Report:
        rows = xt.Spec((32, 4096), dtype)
        return in_columns.lower(_matrix(dtype), xt.Spec((4096, 512), xt.i32), rows, xt.Spec((32, 512), xt.i32),
                                _matrix(xt.f32), target=target).report()

    return report


def _of_rows(dtype: Any, word: Any) -> Callable[[str], Report]:
    def report(target: str) -> Report:
        rows = xt.Spec((32, 4096), dtype)
        return four_bits_of_rows.lower(_matrix(dtype), xt.Spec((4096, 4096 * 4 // word.bits), word), rows, rows,
                                       _matrix(xt.f32), target=target).report(remedies=False)

    return report


def _of_pairs(dtype: Any, *, along_k: bool) -> Callable[[str], Report]:
    weights = xt.Spec((4096, 4096), xt.u4, (1, 4096) if along_k else None)

    def report(target: str) -> Report:
        rows = xt.Spec((32, 4096), dtype)
        return pairs_of_four_bits.lower(_matrix(dtype), weights, rows, rows, _matrix(xt.f32), target=target,
                                        step=128 if along_k else 32).report(remedies=False)

    return report


def _whole_bytes(dtype: Any) -> Callable[[str], Report]:
    def report(target: str) -> Report:
        rows = xt.Spec((32, 4096), dtype)
        return whole_bytes.lower(_matrix(dtype), _matrix(xt.i8), rows, rows, _matrix(xt.f32), target=target,
                                 less=False).report()

    return report


def _backward(kernel: Any) -> Callable[[str], Report]:
    heads, wide = xt.Spec((4, 1024, 64), xt.bf16), xt.Spec((4, 1024, 64), xt.f32)
    rows = xt.Spec((4, 1024, 1) if kernel is backward_dq else (4, 1, 1024), xt.f32)
    results = (wide,) if kernel is backward_dq else (wide, wide)

    def report(target: str) -> Report:
        return kernel.lower(heads, heads, heads, heads, rows, rows, *results, target=target).report(remedies=False)

    return report


def _attention(size: int, share: int = 1) -> Callable[[str], Report]:
    return lambda target: library_attention(target, size, share)


def _packed(target: str) -> Report:
    heads = xt.Spec((None, None, 64), xt.bf16)
    return packed_sequences.lower(heads, heads, heads, heads, xt.Spec((None,), xt.i32), target=target).report()


def _paged(page: int, queries: Any = xt.bf16, stored: Any = xt.bf16) -> Callable[[str], Report]:
    heads, cache = xt.Spec((None, None, None, 64), queries), xt.Spec((None, 64), stored)
    pages, lengths = xt.Spec((None, None), xt.i32), xt.Spec((None,), xt.i32)

    def report(target: str) -> Report:
        return paged_cache.lower(heads, cache, cache, heads, pages, lengths, target=target, page=page).report()

    return report


def _gathered_keys(both: bool) -> Callable[[str], Report]:
    heads, cache, slots = xt.Spec((None, None, 64), xt.bf16), xt.Spec((None, 64), xt.bf16), xt.Spec((None, 1), xt.i32)

    def report(target: str) -> Report:
        return gathered_keys.lower(heads, cache, cache if both else heads, heads, slots, target=target,
                                   both=both).report(remedies=False)

    return report


def _tutorial(rounded: bool) -> Callable[[str], Report]:
    heads, sums = xt.Spec((None, None, 64), xt.bf16), xt.Spec((None, None, 1), xt.f32)

    def report(target: str) -> Report:
        return triton_tutorial.lower(heads, heads, heads, sums, heads, 0.5, target=target, rounded=rounded).report()

    return report


def _in_parts(target: str) -> Report:
    heads, wide = (xt.Spec((None, None, None), dtype) for dtype in (xt.bf16, xt.f32))
    row = xt.Spec((None, 1, None), xt.f32)
    return backward_dkdv_in_parts.lower(heads, heads, heads, heads, row, row, wide, wide, target=target).report()


def _example(causal: bool) -> Callable[[str], Report]:
    """Attention as ``examples/flash_attention.py`` writes it."""
    heads = [xt.Spec((None, None, 64), dtype) for dtype in (xt.bf16, xt.bf16, xt.bf16, xt.f32)]

    def report(target: str) -> Report:
        kernel: Any = example("flash_attention").attention
        return kernel.lower(*heads, target=target, causal=causal).report(remedies=False)

    return report


def _gathered(kernel: Any) -> Callable[[str], Report]:
    def report(target: str) -> Report:
        return kernel.lower(_matrix(xt.bf16), xt.Spec((4096, 1), xt.i32), _matrix(xt.bf16), _matrix(xt.f32),
                            target=target).report(remedies=False)

    return report


_SHARED: dict[str, Any] = {"BM": 256, "BN": 256, "sg": (8, 4)}
"""A work-group's tile, and its subgroups."""


def _distributed(columns: int, inner: int, dtype: Any, **constants: Any) -> Callable[[str], Report]:
    """A product of 4096 rows whose B has ``columns`` columns and whose A has ``inner``."""
    sums = xt.f32 if dtype.is_float else xt.i32

    def report(target: str) -> Report:
        return work_group_gemm.lower(xt.Spec((4096, inner), dtype), xt.Spec((inner, columns), dtype),
                                     xt.Spec((4096, columns), sums), target=target,
                                     **{**_SHARED, "acc": sums, **constants}).report(remedies=False)

    return report


def _small(size: int, to: Any = xt.f32) -> Callable[[str], Report]:
    inputs, result = xt.Spec((10000, size, size), xt.bf16), xt.Spec((10000, size, size), to)

    def report(target: str) -> Report:
        return small_products.lower(inputs, inputs, result, target=target, size=size).report(remedies=False)

    return report


def _stacked(size: int, dtype: Any = xt.bf16, to: Any = xt.f32) -> Callable[[str], Report]:
    depth = 32 // dtype.bytes
    rows, columns, inner = (-(-size // multiple) * multiple for multiple in (8, 16, depth))
    is_one = size * dtype.bytes >= 64 and size == rows == inner  # as xt.matmul passes them
    shape = (10000 * size, size) if is_one else (10000, size, size)
    inputs, result = xt.Spec(shape, dtype), xt.Spec(shape, to)

    def report(target: str) -> Report:
        return stacked_product.lower(inputs, inputs, result, 1.0, 0.0, 10000, 4, M=rows, N=columns, K=inner,
                                     target=target).report(remedies=False)

    return report


LOW_PRECISION = (
    Trial("e4m3 x e4m3 by .to(f16)", _converted(xt.e4m3, xt.e4m3), 450, dense=False),
    Trial("e5m2 x e5m2 by .to(f16)", _converted(xt.e5m2, xt.e5m2), 450, dense=False),
    Trial("e4m3 x e4m3 by .to(bf16)", _converted(xt.e4m3, xt.e4m3, xt.bf16), 450, dense=False),
    Trial("4-bit weights, f16", _four_bits(xt.f16), 260, dense=False, unit="32 x 64 weights"),
    Trial("4-bit weights, bf16", _four_bits(xt.bf16), 260, dense=False, unit="32 x 64 weights"),
    Trial("signed 4-bit weights, f16", _signed_four_bits(xt.f16), 260, dense=False, unit="32 x 64 weights"),
    Trial("signed 4-bit weights, bf16", _signed_four_bits(xt.bf16), 290, dense=False, unit="32 x 64 weights"),
    Trial("4-bit weights, rows of words by an index vector, f16", _words_of_rows(elements=False), 260, dense=False,
          unit="32 x 64 weights"),
    Trial("4-bit weights, words by an index each, f16", _words_of_rows(elements=True), 260, dense=False,
          unit="32 x 64 weights"),
    Trial("4-bit weights, eight columns in a word (AWQ), f16", _in_columns(xt.f16), 260, dense=False,
          unit="32 x 64 weights"),
    Trial("4-bit weights, eight columns in a word (AWQ), bf16", _in_columns(xt.bf16), 390, dense=False,
          unit="32 x 64 weights"),
    *(Trial(f"4-bit weights, rows of {word} for columns of C, {dtype}", _of_rows(dtype, word), goal, dense=False,
            unit="32 x 64 weights") for word in (xt.i32, xt.u8) for dtype, goal in ((xt.f16, 260), (xt.bf16, 390))),
    *(Trial(f"4-bit weights, u4 along {along}, {dtype}", _of_pairs(dtype, along_k=along == "K"), goal, dense=False,
            unit="32 x 64 weights") for along in "KN" for dtype, goal in ((xt.f16, 260), (xt.bf16, 390))),
    Trial("8-bit weights, a scale a group, f16", _whole_bytes(xt.f16), 260, dense=False, unit="32 x 64 weights"),
    Trial("8-bit weights, a scale a group, bf16", _whole_bytes(xt.bf16), 260, dense=False, unit="32 x 64 weights"),
    Trial("f16 x i8 by .to(f16)", _converted(xt.f16, xt.i8), 0.30),
    Trial("f16 x i8 by .to(f16), 128 x 16 a subgroup", _converted(xt.f16, xt.i8, xt.f16, (128, 16)), 0.30),
    Trial("i8 x f16 by .to(f16)", _converted(xt.i8, xt.f16), 0.25),
    Trial("bf16 x i8 by .to(bf16)", _converted(xt.bf16, xt.i8, xt.bf16), 0.30),
    Trial("bf16 x i8 by .to(bf16), 128 x 16 a subgroup", _converted(xt.bf16, xt.i8, xt.bf16, (128, 16)), 0.30),
    Trial("i8 x bf16 by .to(bf16)", _converted(xt.i8, xt.bf16, xt.bf16), 0.25),
    Trial("i8 x bf16 by .to(bf16), 16 x 128 a subgroup", _converted(xt.i8, xt.bf16, xt.bf16, (16, 128)), 0.25),
)
"""Products of operands of few bits, which are converted in registers."""
ATTENTION = (
    Trial("attention of the library, D 64", _attention(64), 0.12),
    Trial("attention of the library, D 128", _attention(128), 0.12),
    Trial("attention of the library, D 80", _attention(80), 0.12),
    Trial("attention of the library, D 96", _attention(96), 0.12),
    Trial("attention of the library, D 64, 4 heads to a group of keys", _attention(64, 4), 0.12),
    Trial("attention of packed sequences, D 64", _packed, 0.12),
    Trial("attention to pages of a cache, D 64", _paged(64), 0.12),
    Trial("attention to pages of 16 keys, D 64", _paged(16), 0.12),
    Trial("attention to pages in e4m3 by .to(f16), D 64", _paged(64, xt.f16, xt.e4m3), 0.08),
    Trial("attention to pages in e4m3 by .to(bf16), D 64", _paged(64, stored=xt.e4m3), 0.08),
    Trial("attention to pages in e5m2 by .to(f16), D 64", _paged(64, xt.f16, xt.e5m2), 0.08),
    Trial("attention to pages in i8 by .to(f16), D 64", _paged(64, xt.f16, xt.i8), 0.08),
    Trial("attention to keys by an index vector, D 64", _gathered_keys(False), 0.12),
    Trial("attention to keys and values by an index vector, D 64", _gathered_keys(True), 0.12),
    Trial("attention of Triton's tutorial, D 64", _tutorial(False), 0.12),
    Trial("attention of Triton's tutorial, sums of rounded weights, D 64", _tutorial(True), 0.12),
    Trial("attention of examples/flash_attention.py, D 64", _example(False), 0.12),
    Trial("attention of examples/flash_attention.py, D 64, causal", _example(True), 0.12),
    *(Trial(f"attention, {scores} scores, D 64", scored(scores), goal) for scores, goal in SCORES.items()),
    Trial("attention backward, dQ, D 64", _backward(backward_dq), 0.15),
    Trial("attention backward, dK and dV, D 64", _backward(backward_dkdv), 0.15),
    Trial("attention backward, dK and dV in parts, D 64", _in_parts, 40, dense=False, per=12, unit="12 dpas of scores",
          targets=("dg2",)),
)
MEMORY = (
    Trial("rows of an index vector, bf16", _gathered(rows_of), 0.30),
    Trial("rows of an index vector, a tile that moves, bf16", _gathered(moved_rows), 0.30),
    Trial("B of 50257 columns, bf16", _distributed(50257, 4096, xt.bf16), 0.30),
    Trial("B of 50257 columns, bf16, tiles of 128 x 128",
          _distributed(50257, 4096, xt.bf16, BM=128, BN=128, sg=(4, 2)), 0.30),
    Trial("A of 4097 columns, f16", _distributed(4096, 4097, xt.f16), 0.30),
    Trial("A of 4097 columns, B of 50257, bf16", _distributed(50257, 4097, xt.bf16), 0.30),
    Trial("B of 50257 columns, tf32", _distributed(50257, 4096, xt.tf32), 0.30),
    Trial("A of 4097 columns, tf32", _distributed(4096, 4097, xt.tf32), 0.30),
    Trial("B of 50257 columns, i8", _distributed(50257, 4096, xt.i8, BK=64), 0.25),
    Trial("A of 4097 columns, i8", _distributed(4096, 4097, xt.i8, BK=64), 0.25),
    Trial("A of 4097 columns, B of 50257, i8", _distributed(50257, 4097, xt.i8, BK=64), 0.25),
    Trial("10,000 products of 16 x 16, bf16 into f32", _small(16), 0.25),
    Trial("10,000 products of 32 x 32, bf16 into f32", _small(32), 0.25),
    Trial("10,000 products of 48 x 48, bf16 into f32", _small(48), 0.25),
    Trial("10,000 products of 16 x 16 by xt.matmul, bf16 into f32", _stacked(16), 0.25),
    Trial("10,000 products of 17 x 17 by xt.matmul, bf16 into f32", _stacked(17), 0.25),
    Trial("10,000 products of 24 x 24 by xt.matmul, bf16 into f32", _stacked(24), 0.25),
    Trial("10,000 products of 32 x 32 by xt.matmul, bf16 into f32", _stacked(32), 0.25),
    Trial("10,000 products of 33 x 33 by xt.matmul, bf16 into f32", _stacked(33), 0.25),
    Trial("10,000 products of 48 x 48 by xt.matmul, bf16 into f32", _stacked(48), 0.25),
    Trial("10,000 products of 40 x 40 by xt.matmul, i8 into i32", _stacked(40, xt.i8, xt.i32), 0.25),
    Trial("10,000 products of 48 x 48 by xt.matmul, i8 into i32", _stacked(48, xt.i8, xt.i32), 0.25),
)
"""Products whose operands are small, lie where indices say, or have rows that no block message takes."""
TRIALS: tuple[Trial, ...] = LOW_PRECISION + ATTENTION + MEMORY
"""All kernels of the trial."""


def measure(quick: bool, progress: Progress) -> list[Row]:
    """A row for each kernel and target, the first alone if quick; none where Intel's offline compiler is missing.

    Where registers are spilled, the ratio is 0.
    """
    if not has_ocloc():
        progress("users' kernels: ocloc is not installed")
        return []
    rows = []
    for trial in TRIALS[:1] if quick else TRIALS:
        for target in trial.targets:
            progress(f"machine code of {trial.name} for {target}")
            report = trial.report(target)
            facts = {"loop": dict(report.loop), "spill": report.spill_size, "private": report.private_size}
            unit = "dpas / instructions" if trial.dense else f"vector instructions for {trial.unit}"
            rows.append(Row(GROUP, f"{trial.name}, {target}", trial.value(report), unit, trial.ratio(report),
                            f"{trial.goal:g}", facts=facts))
    return rows


def _lines(names: list[str]) -> Iterator[str]:
    for trial in TRIALS:
        if names and not any(name in trial.name for name in names):
            continue
        for target in trial.targets:
            report = trial.report(target)
            goal = f"density {trial.goal:.2f}" if trial.dense else f"{trial.goal:g} for {trial.unit}"
            cells = (trial.name, target, report.loop.get("dpas", 0), f"{report.density:.3f}",
                     report.loop.get("vector", 0), f"{trial.vector(report):.0f}",
                     f"{report.spill_size}, {report.private_size}", goal)
            yield "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Print the table, as Markdown; arguments are parts of the names of kernels."""
    print("| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS), sep="\n")
    for line in _lines(sys.argv[1:]):
        print(line, flush=True)


if __name__ == "__main__":
    main()
