"""Attention, forward and backward, as the library, examples, users and other languages' tutorials write it."""

from __future__ import annotations

from typing import Any

import xetile as xt
from benchmarks.code_snapshot.cases import example
from benchmarks.gpu_code.library_code import lowered_attention
from benchmarks.trial_kernels.attention_backward import backward_dkdv, backward_dq
from benchmarks.trial_kernels.attention_kernels import (
    backward_dkdv_in_parts,
    gathered_keys,
    packed_sequences,
    paged_cache,
    triton_tutorial,
)
from benchmarks.trial_kernels.attention_scores import SCORES, scored
from benchmarks.trial_kernels.trial import Lowering, Trial, lowering
from xetile.compiler.compiled import CompiledKernel


def _backward(kernel: Any) -> Lowering:
    heads, wide = xt.Spec((4, 1024, 64), xt.bf16), xt.Spec((4, 1024, 64), xt.f32)
    rows = xt.Spec((4, 1024, 1) if kernel is backward_dq else (4, 1, 1024), xt.f32)
    results = (wide,) if kernel is backward_dq else (wide, wide)
    return lowering(kernel, heads, heads, heads, heads, rows, rows, *results)


def _attention(size: int, share: int = 1) -> Lowering:
    return lambda target, **changed: lowered_attention(target, size, share, **changed)


def _packed() -> Lowering:
    heads = xt.Spec((None, None, 64), xt.bf16)
    return lowering(packed_sequences, heads, heads, heads, heads, xt.Spec((None,), xt.i32))


def _paged(page: int, queries: Any = xt.bf16, stored: Any = xt.bf16) -> Lowering:
    heads, cache = xt.Spec((None, None, None, 64), queries), xt.Spec((None, 64), stored)
    pages, lengths = xt.Spec((None, None), xt.i32), xt.Spec((None,), xt.i32)
    return lowering(paged_cache, heads, cache, cache, heads, pages, lengths, page=page)


def _gathered_keys(both: bool) -> Lowering:
    heads, cache, slots = xt.Spec((None, None, 64), xt.bf16), xt.Spec((None, 64), xt.bf16), xt.Spec((None, 1), xt.i32)
    return lowering(gathered_keys, heads, cache, cache if both else heads, heads, slots, both=both)


def _tutorial(rounded: bool) -> Lowering:
    heads, sums = xt.Spec((None, None, 64), xt.bf16), xt.Spec((None, None, 1), xt.f32)
    return lowering(triton_tutorial, heads, heads, heads, sums, heads, 0.5, rounded=rounded)


def _in_parts() -> Lowering:
    heads, wide = (xt.Spec((None, None, None), dtype) for dtype in (xt.bf16, xt.f32))
    row = xt.Spec((None, 1, None), xt.f32)
    return lowering(backward_dkdv_in_parts, heads, heads, heads, heads, row, row, wide, wide)


def _example(causal: bool) -> Lowering:
    """Attention as ``examples/flash_attention.py`` writes it."""
    heads = [xt.Spec((None, None, 64), dtype) for dtype in (xt.bf16, xt.bf16, xt.bf16, xt.f32)]

    def lower(target: str, **changed: int) -> CompiledKernel:
        return lowering(example("flash_attention").attention, *heads, causal=causal)(target, **changed)

    return lower


TRIALS = (
    Trial("attention of the library, D 64", _attention(64), 0.12),
    Trial("attention of the library, D 128", _attention(128), 0.12),
    Trial("attention of the library, D 80", _attention(80), 0.12),
    Trial("attention of the library, D 96", _attention(96), 0.12),
    Trial("attention of the library, D 64, 4 heads to a group of keys", _attention(64, 4), 0.12),
    Trial("attention of packed sequences, D 64", _packed(), 0.12),
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
    Trial("attention backward, dK and dV in parts, D 64", _in_parts(), 40, dense=False, per=12,
          unit="12 dpas of scores", targets=("dg2",)),
)
