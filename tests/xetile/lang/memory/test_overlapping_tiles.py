"""Tiles that overlap: a subgroup's accesses take effect one after another, for all lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution, integers

pytestmark = pytest.mark.unoptimised
IN_ORDER = [execution for execution in EXECUTIONS if execution.where != "opencl:cpu" or execution.target == "cpu"]
"""Without the optimiser a processor's lanes run one after another. That those of GPUs are in lockstep is in their
hardware, not in their text."""


def tile(array: Any, column: Any = 0) -> Any:
    return xt.init_tile(array, (0, column), (8, 16))


@xt.kernel
def moved(A, B):
    """A's tile one column to the right, and back from there to B."""
    xt.store_tile(xt.load_tile(tile(A)), tile(A, 1))
    xt.store_tile(xt.load_tile(tile(A)), tile(B))


@xt.kernel
def overwritten(A, B):
    """Two overlapping stores, then a load of both."""
    xt.store_tile(xt.load_tile(tile(B)), tile(A, 2))
    xt.store_tile(xt.load_tile(tile(B, 1)) + 1, tile(A, 3))
    xt.store_tile(xt.load_tile(tile(A, 1)), tile(B))


@xt.kernel
def walked(A, B):
    """A tile that a loop moves to the right, over what it stored before."""
    value = xt.load_tile(tile(A))
    for column in xt.range(0, 5, 1):
        value = value + xt.load_tile(tile(A, column + 1))
        xt.store_tile(value, tile(A, column))
    with xt.when(A.shape[1] > 4):
        xt.store_tile(value, tile(B, 1))
    xt.store_tile(xt.load_tile(tile(B, 3)), tile(B))


@xt.kernel
def gathered(A, B):
    """Elements in reverse, in place, and one of them by itself."""
    row, column = (xt.iota((8, 16), axis).to(xt.index) for axis in (0, 1))
    forwards = xt.init_tile(A, row * 20 + column, (8, 16))
    backwards = xt.init_tile(A, row * 20 + 17 - column, (8, 16))
    xt.store_scatter(xt.load_gather(forwards), backwards)
    xt.store_scatter(xt.load_gather(forwards) + 1, backwards)
    xt.store_tile(xt.load_tile(tile(A)) + xt.load_scalar(A, (3, 11)), tile(B))


def of_moved(a: Any, b: Any) -> None:
    a[:, 1:17] = a[:, :16].copy()
    b[:, :16] = a[:, :16]


def of_overwritten(a: Any, b: Any) -> None:
    a[:, 2:18] = b[:, :16]
    a[:, 3:19] = b[:, 1:17] + 1
    b[:, :16] = a[:, 1:17]


def of_walked(a: Any, b: Any) -> None:
    value = a[:, :16].copy()
    for column in range(5):
        padded = np.pad(a, ((0, 0), (0, 16)))
        value = value + padded[:, column + 1:column + 17]
        a[:, column:column + 16] = value[:, :20 - column]
    b[:, 1:17] = value
    b[:, :16] = b[:, 3:19].copy()


def of_gathered(a: Any, b: Any) -> None:
    for added in (0, 1):
        a[:, 17:1:-1] = a[:, :16].copy() + added
    b[:, :16] = a[:, :16] + a[3, 11]


CASES = {"moved": (moved, of_moved), "overwritten": (overwritten, of_overwritten), "walked": (walked, of_walked),
         "gathered": (gathered, of_gathered)}


@pytest.mark.parametrize("execution", IN_ORDER, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_accesses_take_effect_in_order(execution: Execution, name: str) -> None:
    rng, (kernel, wanted) = np.random.default_rng(5), CASES[name]
    got = [integers(rng, xt.i32, 8, 20) for _ in range(2)]
    expected = [x.copy() for x in got]
    execution.bind(kernel)[1](*got)
    wanted(*expected)
    for here, there in zip(got, expected, strict=True):
        np.testing.assert_array_equal(here, there)
