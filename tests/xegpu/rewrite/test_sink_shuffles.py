"""Sinking of shuffles: what it looks at, and that it does so once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import xetile as xt
from tests.kernels import FEW, Execution
from xegpu.rewrite.sink_shuffles import _Sinking


@xt.kernel
def network(X, S, P):
    """Rows of 10 in order with their positions, whose words come from the same ones on many ways."""
    values, positions = xt.sort(xt.load_tile(xt.init_tile(X, (0, 0), (5, 10))), 1, indices=True)
    xt.store_tile(values, xt.init_tile(S, (0, 0), (5, 10)))
    xt.store_tile(positions, xt.init_tile(P, (0, 0), (5, 10)))


def test_trees_that_cannot_pay_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tree is made once, and none behind an operand that costs what the shuffle does: 450 instead of 100,000."""
    looked: Counter[tuple[object, ...]] = Counter()
    cheapest = _Sinking._cheapest

    def counted(self: _Sinking, parts: tuple[object, ...], depth: int) -> object:
        looked[self.shuffle, parts, depth] += 1
        return cheapest(self, parts, depth)  # type: ignore[arg-type]

    monkeypatch.setattr(_Sinking, "_cheapest", counted)
    assert network.lower(*[xt.Spec((5, 10), xt.i32)] * 3, target="pvc").xegpu
    assert set(looked.values()) == {1}
    assert len(looked) < 1000


@pytest.mark.parametrize("execution", FEW, ids=str)
def test_a_network_sorts(execution: Execution) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (5, 10)).astype(np.int32)
    s, p = np.zeros((5, 13), np.int32), np.zeros((5, 10), np.int32)
    s[:, 10:] = 7
    execution.bind(network)[1](x, s[:, :10], p)
    order = np.argsort(x, 1, kind="stable")
    np.testing.assert_array_equal(s[:, :10], np.take_along_axis(x, order, 1))
    np.testing.assert_array_equal(p, order)
    assert (s[:, 10:] == 7).all()
