"""Attention as users write it: packed sequences, pages of a cache and gradients, beside softmax in float64."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels import TRIALS
from benchmarks.trial_kernels.attention_kernels import (
    backward_dkdv_in_parts,
    gathered_keys,
    packed_sequences,
    paged_cache,
    triton_tutorial,
)
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution

pytestmark = pytest.mark.unoptimised
SMALL = {"D": 32, "BM": 32, "BN": 16, "subgroups": 4}


def _normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(ml_dtypes.bfloat16)


def _attention(q: Any, k: Any, v: Any) -> Any:
    """Causal attention in float64, the last query to every key; 0 for queries that see none."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    seen = np.arange(k.shape[-2]) <= np.arange(q.shape[-2])[:, None] + k.shape[-2] - q.shape[-2]
    p = np.where(seen, np.exp(s - s.max(axis=-1, keepdims=True, initial=-1e30)), 0)
    total = p.sum(axis=-1, keepdims=True)
    return p @ v / np.where(total, total, 1)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_packed_sequences(execution: Execution) -> None:
    """Sequences of no, one, and a few tiles; no row of another sequence is read or written."""
    starts = np.array([0, 37, 37, 38, 102], np.int32)
    q, k, v = (_normal(seed, 2, 110, 32) for seed in (1, 2, 3))
    out = np.full(q.shape, 7, np.float32)
    execution.bind(packed_sequences)[2, 2, 4](q, k, v, out, starts, **SMALL)
    for first, end in pairwise(starts):
        expected = _attention(*(array[:, first:end] for array in (q, k, v)))
        np.testing.assert_allclose(out[:, first:end], expected, atol=0.03)
    assert (out[:, 102:] == 7).all()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("step", [16, 32])
@pytest.mark.parametrize("stored", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_pages_of_a_cache(execution: Execution, step: int, stored: Any) -> None:
    """Sequences of 33 and of 70 keys in pages of 16 that are in disorder, one or two a step, for two heads a group; of
    8-bit floats, too."""
    cache = [_normal(seed, 11, 2, 16, 32).astype(stored) for seed in (4, 5)]
    pages, lengths = np.array([[9, 2, 5, 0, 0, 0], [1, 10, 7, 3, 8, 0]], np.int32), np.array([33, 70], np.int32)
    q, out = _normal(6, 2, 4, 20, 32), np.full((2, 4, 20, 32), 7, np.float32)
    rows = [array.reshape(-1, 32) for array in cache]
    execution.bind(paged_cache)[1, 4, 2](q, *rows, out, pages, lengths, share=2, page=16,
                                         **{**SMALL, "BN": step})
    for sequence, length in enumerate(lengths):
        k, v = (array[pages[sequence]].swapaxes(0, 1).reshape(2, -1, 32)[:, :length].repeat(2, axis=0)
                for array in cache)
        np.testing.assert_allclose(out[sequence], _attention(q[sequence], k, v), atol=0.03)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("keys", [40, 130, 330])
@pytest.mark.parametrize("both", [False, True])
def test_keys_of_an_index_vector(execution: Execution, keys: int, both: bool) -> None:
    """A part of a step, and several; rows that are named twice, and rows that there are not, which are zeros."""
    generator = np.random.default_rng(keys)
    slots = generator.integers(0, 90, (keys, 1)).astype(np.int32)
    slots[[0, 3, 17, keys - 1], 0] = -1, 90, slots[5, 0], 2
    q, (cached_k, cached_v), plain = _normal(1, 2, 37, 32), _normal(2, 2, 90, 32), _normal(3, 2, keys, 32)
    there = (slots >= 0) & (slots < 90)
    k, v = (np.where(there, cache[slots[:, 0] * there[:, 0]], 0) for cache in (cached_k, cached_v))
    out = np.full(q.shape, 7, np.float32)
    execution.bind(gathered_keys)[2, 2](q, cached_k, cached_v if both else plain, out, slots, both=both,
                                        **{**SMALL, "BN": 64})
    np.testing.assert_allclose(out, _attention(q, k[None], v[None] if both else plain), atol=0.03)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_addresses_of_gathered_values(target: str) -> None:
    """Blocks of the same rows are constant distances from addresses that they share, where messages take them."""
    heads, cache = xt.Spec((None, None, 64), xt.bf16), xt.Spec((None, 64), xt.bf16)
    slots = xt.Spec((None, 1), xt.i32)
    text = gathered_keys.lower(heads, cache, cache, heads, slots, target=target, both=True, BM=64).opencl
    assert [f"ROWS1:d64 flat[%2+{at:#x}]:a64" in text for at in (32, 64, 96)] == [target == "bmg"] * 3


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("rounded", [False, True])
def test_triton_tutorial(execution: Execution, rounded: bool) -> None:
    """Results and logarithms of the sums, whose first is 1 for the maximum of no keys, and vanishes."""
    q, k, v = (_normal(seed, 2, rows, 32) for seed, rows in ((11, 20), (12, 48), (13, 48)))
    out, sums = np.full(q.shape, 7, np.float32), np.full((2, 20, 1), 7, np.float32)
    execution.bind(triton_tutorial)[1, 2](q, k, v, sums, out, 0.25, rounded=rounded, **SMALL)
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) * 0.25
    p = np.exp(s)
    total = p.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(sums, np.log2(total), atol=0.02)
    np.testing.assert_allclose(out, p @ v.astype(np.float64) / total, atol=0.03)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("queries", "keys"), [(32, 40), (21, 33)])
def test_gradients_in_parts(execution: Execution, queries: int, keys: int) -> None:
    q, do = (_normal(seed, 2, queries, 64) for seed in (7, 8))
    k, v = (_normal(seed, 2, keys, 64) for seed in (9, 10))
    wide_q, wide_k, wide_v, wide_do = (array.astype(np.float64) for array in (q, k, v, do))
    s = wide_q @ wide_k.swapaxes(1, 2) / 8
    total = np.log2(np.exp(s).sum(axis=-1, keepdims=True))
    p = np.exp(s) / np.exp2(total)
    dp = wide_do @ wide_v.swapaxes(1, 2)
    delta = (p * dp).sum(axis=-1, keepdims=True)
    ds = p * (dp - delta)
    dk, dv = np.zeros(k.shape, np.float32), np.zeros(v.shape, np.float32)
    rows = [np.ascontiguousarray(array.swapaxes(1, 2)).astype(np.float32) for array in (total, delta)]
    execution.bind(backward_dkdv_in_parts)[-(-keys // 32), 2](q, k, v, do, *rows, dk, dv)
    np.testing.assert_allclose(dk, ds.swapaxes(1, 2) @ wide_q / 8, atol=0.05)
    np.testing.assert_allclose(dv, p.swapaxes(1, 2) @ wide_do, atol=0.05)


_COUNTED = "packed", "pages of a cache", "pages of 16", "in parts", "examples", "tutorial, D"
COUNTED = [trial for trial in TRIALS if any(part in trial.name for part in _COUNTED)]
GATHERED = next(trial for trial in TRIALS if "keys and values by an index vector" in trial.name)
assert len(COUNTED) == 7


@pytest.mark.parametrize(("trial", "target"), [(trial, target) for trial in COUNTED for target in trial.targets],
                         ids=lambda value: str(getattr(value, "name", value)))
def test_goals_are_met(trial: Any, target: str) -> None:
    """Nothing is spilled, which would make the ratio 0."""
    require_ocloc()
    assert trial.ratio(trial.report(target)) >= 1


@pytest.mark.parametrize("target", GATHERED.targets)
def test_rows_of_an_index_vector_are_not_spilled(target: str) -> None:
    require_ocloc()
    report = GATHERED.report(target)
    assert (report.spill_size, report.private_size) == (0, 0)
