"""Columns of a row in the orders that a register region reads, which take a move, and in others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution

MACHINES = [Execution(f"machine:{gpu}", gpu) for gpu in ("pvc", "bmg")]
ORDERS: dict[str, tuple[list[int], bool]] = {  # columns of a row of 16, and whether they are a region
    "pairs": ([lane // 2 for lane in range(16)], True), "later pairs": ([8 + lane // 2 for lane in range(16)], True),
    "eights": ([lane // 8 for lane in range(16)], True), "fours apart": ([lane // 4 * 4 for lane in range(16)], True),
    "even, twice": ([lane % 8 * 2 for lane in range(16)], True),
    "fours": ([lane % 4 * 4 + 2 for lane in range(16)], True),
    "mirrored": ([15 - lane for lane in range(16)], False), "mixed": ([lane * 5 % 16 for lane in range(16)], False)}


@xt.kernel
def reordered(X: Any, Y: Any, *, order: Any) -> None:
    row = xt.load_tile(xt.init_tile(X, (xt.group_id(0), 0), (1, 16)))
    taken = xt.concatenate([row[:, column:column + 1] for column in order], 1)
    xt.store_tile(taken + taken, xt.init_tile(Y, (xt.group_id(0), 0), (1, 16)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", [np.float32, np.int16, np.float16], ids=lambda kind: np.dtype(kind).name)
def test_columns_in_an_order(kind: Any, order: str, execution: Execution) -> None:
    x = np.random.default_rng(4).integers(-100, 100, (3, 16)).astype(kind)
    y, columns = np.zeros_like(x), tuple(ORDERS[order][0])
    execution.bind(reordered)[3](x, y, order=columns)
    np.testing.assert_array_equal(y, 2 * x[:, columns])


@pytest.mark.parametrize("order", ORDERS)
def test_which_orders_are_regions(order: str) -> None:
    spec = xt.Spec((64, 16), xt.f32)
    columns, is_region = ORDERS[order]
    text = str(reordered.lower(spec, spec, target="pvc", order=tuple(columns)).opencl)
    assert ("region_" in text) == is_region
    assert "region_" not in str(reordered.lower(spec, spec, target="dg2", order=tuple(columns)).opencl)
