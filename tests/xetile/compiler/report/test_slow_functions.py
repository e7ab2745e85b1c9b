"""Functions in loops of products that may not be approximate, and the option that lets them be."""

from __future__ import annotations

from typing import Any

import pytest

import xetile as xt
from benchmarks.trial_kernels.attention_scores import scored_attention
from xegpu.target.targets import find_target
from xetile.compiler.report.slow_functions import slow_functions
from xetile.dialect.stage import only_function


def _sentences(target: str = "pvc", scores: str = "softcap", **options: Any) -> tuple[str, ...]:
    heads, kernel = xt.Spec((None, None, 64), xt.bf16), xt.kernel(scored_attention.function, **options)
    lowered = kernel.lower(heads, heads, heads, heads, xt.Spec((None,), xt.f32), target=target, scores=scores, BM=64)
    return slow_functions(only_function(lowered.legal), find_target(target))


@pytest.mark.parametrize("target", ["pvc", "dg2"])
def test_what_is_named(target: str) -> None:
    """A quotient a row behind the loop, and functions of one element a row, are few."""
    (sentence,) = _sentences(target)
    assert sentence.startswith("xt.exp, xt.tanh and / are right to the last bits")
    assert "fast_math=True" in sentence
    (sentence,) = _sentences(target, "scaled", fast_division=True)
    assert sentence.startswith("xt.exp is right")
    (sentence,) = _sentences(target, fast_division=True)
    assert sentence.startswith("xt.exp and xt.tanh are right")


def test_kernels_that_may_approximate() -> None:
    assert _sentences(fast_math=True) == _sentences("cpu") == ()
