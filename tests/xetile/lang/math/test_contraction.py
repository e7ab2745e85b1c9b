"""Contraction: products that are added are rounded once in kernels with ``fast_math``, in all executions alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution

FORMS: dict[str, Callable[..., Any]] = {
    "a * b - c": lambda a, b, c, r: a * b - c, "c - a * b": lambda a, b, c, r: c - a * b,
    "a * b + c": lambda a, b, c, r: a * b + c, "c + a * b": lambda a, b, c, r: c + a * b,
    "a * b - r": lambda a, b, c, r: a * b - r, "r - a * b": lambda a, b, c, r: r - a * b,
    "a * b + 1": lambda a, b, c, r: a * b + 1, "1.5 - a * b": lambda a, b, c, r: 1.5 - a * b,
    "a * b - c * c": lambda a, b, c, r: a * b - c * c,
}
"""Of matrices ``a``, ``b`` and ``c``, and ``r``, a column."""
OTHERS: dict[str, Callable[..., Any]] = {
    "-(a * b)": lambda a, b, c, r: -(a * b), "r * r - a": lambda a, b, c, r: r * r - a,
    "(a + b) * c": lambda a, b, c, r: (a + b) * c,
}


def _evaluated(A: Any, R: Any, O: Any, *, form: str) -> None:  # noqa: E741
    a, b, c = (xt.load_tile(xt.init_tile(A, (i, 0, 0), (8, 16))) for i in range(3))
    value = (FORMS | OTHERS)[form](a, b, c, xt.load_tile(xt.init_tile(R, (0, 0), (8, 1))))
    xt.store_tile(value, xt.init_tile(O, (0, 0), (8, 16)))


contracted, separate = xt.kernel(fast_math=True)(_evaluated), xt.kernel(_evaluated)


def _inputs(dtype: Any) -> tuple[Any, Any]:
    """Numbers of both signs whose products have more digits than the type, next to what they are subtracted from."""
    rng, digits = np.random.default_rng(3), ml_dtypes.finfo(dtype).nmant // 2 + 1
    small = rng.integers(1, 4, (2, 8, 16)) * 0.5**digits
    a, b = rng.choice([-1, 1], (2, 8, 16)) + small * rng.choice([-1, 1], (2, 8, 16))
    c = np.sign(a * b) * rng.choice([-1, 1], (8, 16))
    return np.stack([a, b, c]).astype(dtype), rng.choice([-1, 1], (8, 1)).astype(dtype)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", FORMS)
def test_one_rounding(form: str, dtype: Any, execution: Execution) -> None:
    a, r = _inputs(dtype)
    out = np.zeros((8, 16), dtype)
    execution.bind(contracted)[1](a, r, out, form=form)
    wide = [*a.astype(np.float64), r.astype(np.float64)]
    exact = FORMS[form](*wide)
    np.testing.assert_array_equal(out, exact.astype(np.float32).astype(dtype))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("form", ["a * b - c", "1.5 - a * b"])
def test_two_roundings_without(form: str, execution: Execution) -> None:
    a, r = _inputs(np.float32)
    out = np.zeros((8, 16), np.float32)
    execution.bind(separate)[1](a, r, out, form=form)
    expected = FORMS[form](*a, r)
    assert expected.dtype == np.float32
    np.testing.assert_array_equal(out, expected)
    assert (out != FORMS[form](*a.astype(np.float64), r)).any()


@pytest.mark.parametrize("form", OTHERS)
def test_other_forms_stay(form: str) -> None:
    specs = [xt.Spec((None, None, None), "f32"), *[xt.Spec((None, None), "f32")] * 2]
    assert "math.fma" not in contracted.lower(*specs, target="pvc", form=form).xetile


def test_integers_stay() -> None:
    specs = [xt.Spec((None, None, None), "i32"), *[xt.Spec((None, None), "i32")] * 2]
    assert "math.fma" not in contracted.lower(*specs, target="pvc", form="a * b - c").xetile
