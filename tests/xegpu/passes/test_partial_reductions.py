"""Reductions whose blocks are combined as they are computed: results, and where registers ask for it."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, integers
from xetile.passes.loops.strip_mine.columns import StripMineColumns

pytestmark = pytest.mark.unoptimised
F32 = xt.Spec((None, None), "f32")


@xt.kernel
def squares(X, W, Y, *, BN=2048):
    """A row times weights, plus the sum of its squares and its largest element."""
    m = xt.group_id(0)
    x = xt.load_tile(xt.init_tile(X, (m, 0), (1, BN)))
    total, top = xt.tile_reduce("add", x * x, 1), xt.tile_reduce("max", x * x, 1)
    w = xt.load_tile(xt.init_tile(W, (0, 0), (1, BN)))
    xt.store_tile(x * w + total + top, xt.init_tile(Y, (m, 0), (1, BN)))


@pytest.fixture(autouse=True)
def rows_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loops over strips of columns, as where a kernel's arguments may alias."""
    monkeypatch.setattr(StripMineColumns, "apply", lambda _self, module: module)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_sums_and_maxima_of_long_rows(execution: Execution) -> None:
    rng = np.random.default_rng(8)
    x, w = integers(rng, np.float32, 3, 2043), integers(rng, np.float32, 1, 2043)
    x[1, 7], y = np.nan, np.full_like(x, 7)
    execution.bind(squares)[3](x, w, y)
    square = x.astype(np.float64) ** 2
    np.testing.assert_array_equal(y, x * w + square.sum(1, keepdims=True) + square.max(1, keepdims=True))


@pytest.mark.parametrize("target", ["dg2", "arl"])
def test_where_it_applies(target: str) -> None:
    """Where a row and its squares exceed the registers of a subgroup; no other text changes."""
    large, small = (squares.lower(F32, F32, F32, target=target, BN=size).opencl for size in (1024, 256))
    assert "reduce_add_f32_4x1x8" in large
    assert "reduce_add_f32_32x1x8" in small


@pytest.mark.everything
def test_machine_code_spills_nothing() -> None:
    require_ocloc()
    report = squares.lower(F32, F32, F32, target="dg2", BN=1024).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
