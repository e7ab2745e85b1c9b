"""Attention with scores as formulas have them, beside softmax in float64."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks.trial_kernels import TRIALS
from benchmarks.trial_kernels.attention_scores import CAP, KEPT, SCORES, WINDOW, scored_attention
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution

pytestmark = pytest.mark.unoptimised
MACHINES = [Execution("machine:pvc", "pvc"), Execution("machine:bmg", "bmg")]


def _expected(q: Any, k: Any, v: Any, extra: Any, scores: str) -> Any:
    """Attention of heads to the same number of heads' keys, in float64."""
    q, k, v = (array.astype(np.float64) for array in (q, k, v))
    s = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
    ahead = np.arange(s.shape[2]) - (np.arange(s.shape[1])[:, None] + s.shape[2] - s.shape[1])
    if scores == "alibi":
        s = s + extra[:, None, None] * ahead
    elif scores == "softcap":
        s = CAP * np.tanh(s / CAP)
    elif scores == "bias":
        s = s + extra.astype(np.float64)
    seen = (ahead <= 0) | (scores not in ("causal", "window"))
    seen &= (ahead > -WINDOW) | (scores != "window")
    p = np.where(seen, np.exp(s - np.where(seen, s, -np.inf).max(axis=-1, keepdims=True)), 0)
    total = p.sum(axis=-1, keepdims=True)
    if scores == "dropout":
        row = np.arange(s.shape[1], dtype=np.uint64)[:, None] + s.shape[2] - s.shape[1]
        bits = row * 0x9E3779B1 % 2**32 ^ np.arange(s.shape[2], dtype=np.uint64)
        bits = (bits ^ bits >> 16) * 0x7FEB352D % 2**32
        p = np.where((bits ^ bits >> 15) < int(KEPT * 2**32), p / KEPT, 0)
    return p @ v / total


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize(("queries", "keys"), [(37, 331), (64, 64)])
def test_attention(execution: Execution, scores: str, queries: int, keys: int) -> None:
    """Two heads a head of keys, sizes of no whole tiles, and keys beyond the window."""
    rng = np.random.default_rng(keys)
    q, k, v = (rng.normal(size=(heads, rows, 32)).astype(ml_dtypes.bfloat16)
               for heads, rows in ((2, queries), (1, keys), (1, keys)))
    extra = rng.normal(size=(2, queries, keys)).astype(ml_dtypes.bfloat16) if scores == "bias" else \
        np.array([0.25, -0.03125], np.float32)
    out = np.full(q.shape, 7, np.float32)
    execution.bind(scored_attention)[-(-queries // 32), 2](q, k, v, out, extra, scores=scores, D=32, BM=32, BN=32,
                                                         subgroups=2, share=2)
    expected = _expected(q, *(array.repeat(2, axis=0) for array in (k, v)), extra, scores)
    np.testing.assert_allclose(out, expected, atol=0.03)


COUNTED = [trial for trial in TRIALS if trial.name.startswith("attention, ")]
assert len(COUNTED) == len(SCORES)


@pytest.mark.parametrize(("trial", "target"), [(trial, target) for trial in COUNTED for target in trial.targets],
                         ids=lambda value: str(getattr(value, "name", value)))
def test_nothing_is_spilled(trial: Any, target: str) -> None:
    """Nor are there many more instructions than dpas."""
    require_ocloc()
    assert trial.ratio(trial.report(target)) >= 1
