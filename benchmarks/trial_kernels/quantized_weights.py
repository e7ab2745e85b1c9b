"""Products with weights of 4 and 8 bits, scales and zero points of groups of rows."""

from __future__ import annotations

from typing import Any

import xetile as xt
from benchmarks.trial_kernels.trial import Lowering, Trial, lowering, matrix


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


def _four_bits(dtype: Any) -> Lowering:
    rows = xt.Spec((32, 4096), dtype)
    return lowering(four_bits, matrix(dtype), xt.Spec((512, 4096), xt.u32), rows, rows, matrix(xt.f32))


def _signed_four_bits(dtype: Any) -> Lowering:
    return lowering(signed_four_bits, matrix(dtype), xt.Spec((512, 4096), xt.i32), xt.Spec((32, 4096), dtype),
                    matrix(xt.f32))


def _words_of_rows(*, elements: bool) -> Lowering:
    rows = xt.Spec((32, 4096), xt.f16)
    return lowering(words_of_rows, matrix(xt.f16), xt.Spec((512, 4096), xt.i32), rows, rows, matrix(xt.f32),
                    elements=elements)


def _in_columns(dtype: Any) -> Lowering:
    return lowering(in_columns, matrix(dtype), xt.Spec((4096, 512), xt.i32), xt.Spec((32, 4096), dtype),
                    xt.Spec((32, 512), xt.i32), matrix(xt.f32))


def _of_rows(dtype: Any, word: Any) -> Lowering:
    rows = xt.Spec((32, 4096), dtype)
    return lowering(four_bits_of_rows, matrix(dtype), xt.Spec((4096, 4096 * 4 // word.bits), word), rows, rows,
                    matrix(xt.f32))


def _of_pairs(dtype: Any, *, along_k: bool) -> Lowering:
    weights, rows = xt.Spec((4096, 4096), xt.u4, (1, 4096) if along_k else None), xt.Spec((32, 4096), dtype)
    return lowering(pairs_of_four_bits, matrix(dtype), weights, rows, rows, matrix(xt.f32),
                    step=128 if along_k else 32)


def _whole_bytes(dtype: Any) -> Lowering:
    rows = xt.Spec((32, 4096), dtype)
    return lowering(whole_bytes, matrix(dtype), matrix(xt.i8), rows, rows, matrix(xt.f32), less=False)


TRIALS = (
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
)
