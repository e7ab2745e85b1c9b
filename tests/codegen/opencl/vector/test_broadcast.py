"""Broadcasts from a lane: products that add to a broadcast column, in loops that follow each other."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution

pytestmark = pytest.mark.unoptimised
FIRST = {
    "splat": lambda x, T: xt.full((8, 1), x, xt.f32),
    "computed": lambda x, T: xt.full((8, 1), x, xt.f32) * x,
    "one element": lambda x, T: xt.tile_broadcast(xt.load_tile(xt.init_tile(T, (0, 0), (1, 1))), (8, 1)),
}
"""A column with one number in all rows, the same in all lanes as far as a compiler sees."""


@xt.kernel
def product(P, V, O, T, x, *, first=FIRST["splat"]):  # noqa: E741
    """P @ V, and the sums of the rows of P; rows of an odd number of elements, whose bounds are peeled off the loop."""
    total = first(x, T)
    out = xt.tile_broadcast(total, (8, 16))
    for n in xt.range(0, V.shape[0], 16):
        p = xt.load_tile(xt.init_tile(P, (0, n), (8, 16)))
        total = total + xt.tile_reduce("add", p.to(xt.f32), 1)
        out = xt.tile_mma(p, xt.load_tile(xt.init_tile(V, (n, 0), (16, 16))), out)
    xt.store_tile(out, xt.init_tile(O, (0, 0), (8, 16)))
    xt.store_tile(total, xt.init_tile(T, (0, 0), (8, 1)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("first", FIRST)
def test_all_executions(execution: Execution, first: str) -> None:
    rng = np.random.default_rng(1)
    p, v = (rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((8, 37), (37, 17)))
    out, total = np.zeros((8, 16), np.float32), np.full((8, 1), 9.0, np.float32)
    start = {"splat": 3, "computed": 9, "one element": 9}[first]
    execution.bind(product)[1](p, v, out, total, 3.0, first=FIRST[first])
    np.testing.assert_array_equal(out, start + p.astype(np.float32) @ v[:, :16].astype(np.float32))
    np.testing.assert_array_equal(total, start + p.astype(np.float32).sum(1, keepdims=True))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("first", FIRST)
def test_intels_compiler_builds_it(target: str, first: str) -> None:
    require_ocloc()
    odd, result = xt.Spec((33, 17), "bf16"), xt.Spec((None, None), "f32")
    lowered = product.lower(odd, odd, result, result, 1.0, target=target, first=FIRST[first])
    assert "peel-bounds" in lowered.stages
    assert lowered.report().spill_size == 0
