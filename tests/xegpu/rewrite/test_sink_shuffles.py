"""Sinking of shuffles: columns of fields that are put together move words, and each tree is looked at once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, FEW, Execution
from xegpu.rewrite.sink_shuffles import _Sinking


@xt.kernel
def columns_of_fields(W: Any, C: Any) -> None:
    """The lowest field is not shifted, and the highest is not masked."""
    words, bits = xt.load_tile(xt.init_tile(W, (0, 0), (8, 8))), W.dtype.bits
    fields = [words & 15, *((words >> shift) & 15 for shift in range(4, bits - 4, 4)), words >> bits - 4]
    columns = xt.concatenate([field[:, i:i + 1] for i in range(8) for field in fields], 1)
    xt.store_tile(columns, xt.init_tile(C, (0, 0), columns.shape))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("name", ["uint8", "int16", "uint16", "int32", "uint32"])
def test_columns_of_fields(name: str, execution: Execution) -> None:
    """Each field is as it was, its sign, too."""
    dtype, limits = np.dtype(name).type, np.iinfo(name)
    words = np.random.default_rng(1).integers(limits.min, limits.max, (8, 8), dtype, endpoint=True)
    words[0], words[1] = limits.min, limits.max
    fields = [words & dtype(15), *((words >> dtype(shift)) & dtype(15) for shift in range(4, limits.bits - 4, 4)),
              words >> dtype(limits.bits - 4)]
    expected = np.stack(fields, -1).reshape(8, -1)
    c = np.full_like(expected, 99)
    execution.bind(columns_of_fields)[1](words, c)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["dg2", "cpu", "pvc"])
def test_words_are_moved(target: str) -> None:
    """One shuffle for a register of columns, and no lane selects among several."""
    lowered = columns_of_fields.lower(xt.Spec((8, 8), xt.u32), xt.Spec((8, 64), xt.u32), target=target)
    kernel = lowered.opencl[lowered.opencl.index("kernel void"):]
    assert "select(" not in kernel
    lanes = 8 if target == "dg2" else 16
    assert kernel.count("shuffle(") + kernel.count("broadcast(") <= 8 * 64 // lanes


@xt.kernel
def network(X: Any, S: Any, P: Any) -> None:
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
