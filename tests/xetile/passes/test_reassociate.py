"""Reassociation of fast kernels: every form of scores, of which maxima, minima and exponentials are taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import FEW, Execution, first_stages

pytestmark = pytest.mark.unoptimised
M, N = 32, 32
FORMS = {
    "scaled": lambda x, y, r, t, j, i: x * 3.0,
    "negative": lambda x, y, r, t, j, i: -(x * 3.0),
    "divided": lambda x, y, r, t, j, i: x / -4.0,
    "row added": lambda x, y, r, t, j, i: (x + 2.0) * 0.5 + r,
    "from row": lambda x, y, r, t, j, i: (r - x) * 2.0,
    "row of row": lambda x, y, r, t, j, i: x - r * r - t,
    "array": lambda x, y, r, t, j, i: x * 2.0 + (y + r),
    "fma of both": lambda x, y, r, t, j, i: xt.fma(x + r, xt.full((M, N), 2.0, xt.f32, wg_map=x.wg_map), y - r) if
        isinstance(x, xt.Vector) else (x + r) * 2.0 + (y - r),
    "both scaled": lambda x, y, r, t, j, i: (x + r) * 2.0 - (r - y) * 4.0,
    "of a number": lambda x, y, r, t, j, i: (x + r) * t,
    "product": lambda x, y, r, t, j, i: (x + r) * y,
    "distance": lambda x, y, r, t, j, i: x + t * (j - i).to(xt.f32),
    "behind": lambda x, y, r, t, j, i: x * 2.0 - (i - j + 3).to(xt.f32) * 0.5,
    "twice a row": lambda x, y, r, t, j, i: x + (j - i - i).to(xt.f32),
    "hidden": lambda x, y, r, t, j, i: xt.where(j <= i, x * -3.0 + r, -np.inf),
    "shown": lambda x, y, r, t, j, i: xt.where(j > i, np.inf, (x + r) * -0.5) * -2.0,
    "finite": lambda x, y, r, t, j, i: xt.where(j <= i, x * 4.0, -8.0),
    "finite and row": lambda x, y, r, t, j, i: xt.where(j <= i, x * 4.0 + r, -8.0) * 0.5,
    "capped": lambda x, y, r, t, j, i: xt.tanh((x + r) / 4.0) * -8.0 + 2.0,
    "of the mask": lambda x, y, r, t, j, i: xt.where(x * 2.0 > r, x * 2.0, -np.inf),
}


def scores(X, Y, R, E, T, t, *, form="scaled", kind="max", subgroups=2, kept=False):
    """Maxima of rows, and sums of powers of two of a quarter of what scores are less than them."""
    layout, rows, m = (subgroups, 1), M // subgroups, xt.group_id(0) * M
    wide, narrow = xt.wg_map(layout, (rows, N)), xt.wg_map(layout, (rows, 1))
    x, y = (xt.load_tile(xt.init_tile(A, (m, 0), (M, N), wg_map=wide)).to(xt.f32) for A in (X, Y))
    r = xt.load_tile(xt.init_tile(R, (m, 0), (M, 1), wg_map=narrow))
    i, j = (xt.iota((M, N), axis, wg_map=wide) for axis in (0, 1))
    s = FORMS[form](x, y, r, t, j, i + m.to(xt.i32))
    extreme = xt.tile_reduce(kind, s, 1)
    if kept:
        xt.store_tile(s.to(Y.dtype), xt.init_tile(Y, (m, 0), (M, N), wg_map=wide))
    xt.store_tile(extreme, xt.init_tile(E, (m, 0), (M, 1), wg_map=narrow))
    for sign in (1.0, -0.5):
        p = xt.exp((s - extreme) * sign) if sign > 0 else xt.exp2((extreme - s) * sign)
        xt.store_tile(xt.tile_reduce("add", p, 1), xt.init_tile(T, (m, int(sign < 0)), (M, 1), wg_map=narrow))


fast, exact = xt.kernel(fast_math=True)(scores), xt.kernel(scores)


def _expected(form: str, kind: str, x: Any, y: Any, r: Any, t: float) -> tuple[Any, Any]:
    class Numbers(np.ndarray):
        def to(self, _: Any) -> Any:
            return self

    i, j = (axis.view(Numbers) for axis in np.indices(x.shape))
    functions, xt_where, xt_tanh = FORMS[form], xt.where, xt.tanh
    try:  # the form's own words, in NumPy
        xt.where, xt.tanh = np.where, np.tanh
        s = np.asarray(functions(x.astype(np.float64), y.astype(np.float64), r.astype(np.float64), t, j, i))
    finally:
        xt.where, xt.tanh = xt_where, xt_tanh
    extreme = (s.max if kind == "max" else s.min)(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        parts = np.exp(s - extreme), np.exp2((extreme - s) * -0.5)
    return extreme, np.concatenate([part.sum(axis=1, keepdims=True) for part in parts], axis=1)


@pytest.mark.parametrize("execution", [*FEW, Execution("machine:pvc", "pvc")], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_all_forms(execution: Execution, form: str) -> None:
    """Integers, and sums that are exact in any order; 37 rows. Without a maximum a row's sums are NaN on both sides."""
    rng = np.random.default_rng(len(form))
    x, y = (rng.integers(-3, 4, (37, N)).astype(np.int16) for _ in range(2))
    r = rng.integers(-2, 3, (37, 1)).astype(np.float32)
    for kind in ("max", "min") if form not in ("hidden", "shown", "of the mask") else ("max",):
        extremes, totals = np.zeros((37, 1), np.float32), np.zeros((37, 2), np.float32)
        execution.bind(fast)[2](x, y.copy(), r, extremes, totals, -0.5, form=form, kind=kind)
        extreme, total = _expected(form, kind, x, y, r, -0.5)
        np.testing.assert_allclose(extremes, extreme, atol=1e-5 if form == "capped" else 0)
        np.testing.assert_allclose(totals, total, rtol=1e-4)


def _stage(kernel: Any, target: str = "pvc", **constants: Any) -> str:
    matrix = xt.Spec((None, None), "f32")
    integers = xt.Spec((None, None), "i16")
    lowered = kernel.lower(*[integers] * 2, *[matrix] * 3, 1.0, target=target, **constants)
    return first_stages(lowered).get("reassociate", "")


def _wide(text: str, operation: str) -> int:
    """How often an operation is on all elements."""
    return sum(f"= {operation} " in line and f"vector<16x{N}x" in line for line in text.splitlines())


def test_fewer_operations_on_all_elements() -> None:
    """A scale is taken of the maximum, and goes into the exponent; distances are converted for a row and a column."""
    for form, kind in (("scaled", "maximumf"), ("negative", "minimumf")):
        text = _stage(fast, form=form)
        assert f"tile_reduce <{kind}>" in text
        assert [_wide(text, f"arith.{name}") for name in ("mulf", "addf", "subf")] == [0, 0, 0]
        assert _wide(text, "math.fma") == 2
    text = _stage(fast, form="distance")
    assert (text.count("arith.sitofp"), _wide(text, "arith.sitofp"), _wide(text, "math.fma")) == (3, 2, 3)  # with x's
    text = _stage(fast, form="capped")
    assert (text.count("math.tanh"), _wide(text, "arith.divf")) == (0, 1)


def test_what_stays() -> None:
    """Exact kernels, processors, and scores that are stored."""
    assert not _stage(exact)
    assert not _stage(fast, "cpu")
    assert _wide(_stage(fast, kept=True), "arith.mulf") == 1


MASKS = {
    "selected": lambda x, seen, least, number, _: xt.where(seen, x, least),
    "added": lambda x, seen, least, number, array: x + array,
    "of a row": lambda x, seen, least, number, array: x + array[1],
    "number of run time": lambda x, seen, least, number, _: xt.where(seen, x, number) * 0.5,
    "times a number of run time": lambda x, seen, least, number, _: x + (1 - seen.to(xt.i32)).to(xt.f32) * number,
    "selected zeros and ones": lambda x, seen, least, number, _: x + xt.where(seen, 0.0, 1.0) * number,
    "integers": lambda x, seen, least, number, _: x + xt.where(seen, 0, -1999999999).to(xt.f32),
    "divided": lambda x, seen, least, number, _: xt.where(seen, x, -1e6) / 2.0 ** -20 / 2.0 ** -40,
    "power": lambda x, seen, least, number, _: xt.where(seen, x, -xt.exp(x * 0.0 + 60.0)),
}


@xt.kernel(fast_math=True)
def masked(X, L, B, R, Y, number, *, mask="selected", least=-1e30, scale=0.125, divisor=1.0):
    """Softmax of rows of which some see nothing, by masks of finite numbers."""
    x = xt.load_tile(xt.init_tile(X, (0, 0), (16, 64))).to(xt.f32) * scale
    seen = xt.iota((16, 64), 1) < xt.load_tile(xt.init_tile(L, (0, 0), (16, 1)))
    array = None
    if mask in ("added", "of a row"):
        array = xt.load_tile(xt.init_tile(B, (0, 0), (16, 64))) if mask == "added" else \
            (None, xt.load_tile(xt.init_tile(R, (0, 0), (16, 1))))
    s = MASKS[mask](x, seen, least, number, array) / divisor
    p = xt.exp(s - xt.tile_reduce("max", s, 1))
    p = p.to(xt.f16).to(xt.f32)
    xt.store_tile(p / xt.tile_reduce("add", p, 1), xt.init_tile(Y, (0, 0), (16, 64)))


@pytest.mark.parametrize("execution", [*FEW, Execution("machine:pvc", "pvc")], ids=str)
@pytest.mark.parametrize(("mask", "least", "constants"), [
    *(("selected", least, {}) for least in (-np.finfo(np.float32).max, -1e30, -1e6, -65504.0)),
    ("selected", -1e30, {"scale": -2.0 ** -10, "divisor": 0.5}),
    *((mask, -1e30, {}) for mask in MASKS if mask != "selected")], ids=str)
def test_finite_masks(execution: Execution, mask: str, least: float, constants: dict[str, Any]) -> None:
    """Rows that see nothing have equal weights: the least of their scores is also the largest."""
    rng = np.random.default_rng(4)
    x, length = rng.integers(-30, 30, (16, 64)).astype(np.int16), rng.integers(0, 64, (16, 1)).astype(np.int32)
    length[[1, 7]], y = 0, np.zeros((16, 64), np.float32)
    if mask == "of a row":
        x *= 100
        length = np.where(length == 0, length, 64)
    seen, scale, divisor = np.arange(64) < length, constants.get("scale", 0.125), constants.get("divisor", 1.0)
    added, row = (np.where(part, 0, least).astype(np.float32) for part in (seen, length > 0))
    execution.bind(masked)[1](x, length, added, row, y, -1e30, mask=mask, least=least, **constants)
    with np.errstate(over="ignore"):
        s = np.where(seen, x.astype(np.float64) * scale * (2.0 ** 60 if mask == "divided" else 1) *
                     (0.5 if mask == "number of run time" else 1), least) / divisor
        p = np.exp(s - s.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, p / p.sum(axis=1, keepdims=True), rtol=2e-3, atol=1e-6)
