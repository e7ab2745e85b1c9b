"""Arguments of the ready kernels that are refused, and attention to heads of no size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt

MATRIX, HEADS = np.ones((8, 8), np.float32), np.ones((1, 8, 8), np.float32)
FOLDED = np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), (8, 8), (4, 4))


@pytest.mark.parametrize("call", [
    lambda out: xt.matmul(MATRIX, MATRIX, out=out),
    lambda out: xt.grouped_matmul([MATRIX], [MATRIX], out=[out]),
    lambda out: xt.attention(HEADS, HEADS, HEADS, out=out[None]),
])
def test_a_result_whose_elements_share_their_place(call: Callable[[Any], Any]) -> None:
    with pytest.raises(xt.ArgumentError, match=r"XT1039.*goes into out.* strides of") as caught:
        call(FOLDED)
    assert "may_alias" not in str(caught.value)
    assert not FOLDED.any()


def test_matrices_between_each_other_are_results() -> None:
    columns = np.zeros((8, 16), np.float32)
    xt.matmul(MATRIX, MATRIX, out=columns[:, ::-2])
    assert (columns[:, 1::2] == 8).all()
    assert not columns[:, ::2].any()


@pytest.mark.parametrize("scale", ["0.5", np.ones(8), [1.0]], ids=str)
def test_a_scale_that_is_no_number(scale: Any) -> None:
    with pytest.raises(xt.ArgumentError, match=r"XT7013.*scale is .*one number for all scores"):
        xt.attention(HEADS, HEADS, HEADS, scale=scale)
    assert np.array_equal(xt.attention(HEADS, HEADS, HEADS, scale=np.float64(0.5)), HEADS)


@pytest.mark.parametrize("formats", ["e4m3fn", "e", ("e4m3",), ("e4m3", "e4m3", "e4m3"), ("e4m3", 5), 5], ids=str)
def test_formats_that_are_none(formats: Any) -> None:
    matrix = np.ones((8, 8), np.uint8)
    with pytest.raises(xt.ElementTypeError, match=r"(?s)XT7050.*one of e4m3, e5m2"):
        xt.scaled_matmul(matrix, matrix, formats=formats)


@pytest.mark.parametrize("target", ["cpu", "pvc"])
def test_heads_of_no_size_give_the_mean_of_the_values(target: str) -> None:
    v = np.arange(64, dtype=np.float32).reshape(1, 8, 8)
    none = np.zeros((1, 8, 0), np.float32)
    assert np.array_equal(xt.attention(none, none, v, target=target), np.broadcast_to(v.mean(1), (1, 8, 8)))
