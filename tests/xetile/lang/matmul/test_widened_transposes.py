"""Weights of 8 bits as ``nn.Linear`` stores them, a row for each column of C, that become operand B in 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import FEW, Execution
from tests.xetile.lang.matmul.test_widened_operands import RESULTS, SOURCES, codes, unit, without_faults

pytestmark = pytest.mark.unoptimised

MACHINES = [Execution(f"machine:{gpu}", gpu) for gpu in ("pvc", "bmg")]
ORDERS = ("converted first", "transposed first", "view")


@xt.kernel
def linear(A: Any, W: Any, C: Any, *, order: str, BM: int = 32, BN: int = 64, BK: int = 32) -> None:
    """A @ W of the transposed view, else A @ W.T."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], BK):
        a = xt.load_tile(xt.init_tile(A, (m, k), (BM, BK)))
        if order == "view":
            b = xt.load_tile(xt.init_tile(W, (k, n), (BK, BN))).to(A.dtype)
        else:
            w = xt.load_tile(xt.init_tile(W, (n, k), (BN, BK)))
            b = xt.tile_transpose(w.to(A.dtype)) if order == "converted first" else xt.tile_transpose(w).to(A.dtype)
        acc = xt.tile_mma(a, b, acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


def run(execution: Execution, a: Any, w: Any, order: str, **sizes: int) -> Any:
    c = np.full((a.shape[0], w.shape[0]), 99, np.float32)
    grid = -(-c.shape[0] // sizes.get("BM", 32)), -(-c.shape[1] // sizes.get("BN", 64))
    execution.bind(linear)[grid](a, w.T if order == "view" else w, c, order=order, **sizes)
    return c


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize("order", ["converted first", "view"])
@pytest.mark.parametrize("to", RESULTS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_finite_code_is_converted_exactly(source: str, to: str, order: str, execution: Execution) -> None:
    values = without_faults(codes(source, 0))
    expected = values.astype(np.float32).T
    np.testing.assert_array_equal(run(execution, unit(RESULTS[to]), values, order), expected)


@pytest.mark.parametrize("execution", [*FEW, *MACHINES], ids=str)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("m", "n", "k", "sizes"), [
    (37, 45, 77, {}), (33, 70, 96, {"BM": 16, "BK": 64}), (20, 50, 100, {"BN": 16}), (20, 50, 100, {"BK": 16}),
    (40, 130, 128, {"BM": 8, "BN": 128})])
def test_odd_sizes(m: int, n: int, k: int, sizes: dict[str, int], order: str, execution: Execution) -> None:
    """Among them tiles and rows of memory that no transposing message moves."""
    rng = np.random.default_rng(m)
    a, w = rng.integers(-4, 5, (m, k)).astype(np.float16), rng.integers(-128, 128, (n, k)).astype(np.int8)
    np.testing.assert_array_equal(run(execution, a, w, order, **sizes), a.astype(np.float32) @ w.T.astype(np.float32))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("to", "most"), [("f16", 130), ("bf16", 194)])
def test_vector_instructions(to: str, most: int, order: str, target: str) -> None:
    """Weights stored by columns take as many instructions as row-major ones: the messages transpose."""
    require_ocloc()
    stored = xt.Spec((None, None), xt.i8, (1, None) if order == "view" else (None, 1))
    report = linear.lower(xt.Spec((None, None), to), stored, xt.Spec((None, None), xt.f32), target=target,
                          order=order).report(remedies=False)
    assert (report.spill_size, report.private_size, report.loop["dpas"]) == (0, 0, 32)
    assert report.loop["vector"] <= most
