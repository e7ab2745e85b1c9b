"""The pages docs/coverage-*.md name tests that are there; and what no other file shows of 4D vectors."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution, integers
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType

pytestmark = pytest.mark.unoptimised

ROOT = Path(__file__).resolve().parent.parent
PAGES = {path.stem.removeprefix("coverage-"): path.read_text()
         for path in sorted((ROOT / "docs").glob("coverage-*.md"))}
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_LEAST = {"xetile": 60, "xegpu": 60}
"""Rows that a page has at least; 20 where nothing else is said."""


def _rows(page: str) -> list[list[str]]:
    """The rows of a page's tables, without their heads: what stands above a line of dashes."""
    lines = page.splitlines()
    heads = {number for number, line in enumerate(lines[1:]) if line.startswith("|---")}
    rows = [line for number, line in enumerate(lines) if line.startswith("| ") and number not in heads]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows]


def _defined(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_a_test(page: str) -> None:
    rows = _rows(PAGES[page])
    assert len(rows) > _LEAST.get(page, 20)
    for row in rows:
        assert len(row) == 2, row
        assert _NAMED.search(row[1]), f"no test shows: {row[0]}"


@pytest.mark.parametrize("path", sorted({path for page in PAGES.values() for path, _ in _NAMED.findall(page)}))
def test_every_named_test_is_there(path: str) -> None:
    named = {test for page in PAGES.values() for execution, test in _NAMED.findall(page) if execution == path}
    assert not named - _defined(path)


@xt.kernel
def padded(A, C, *, padding=3, blocks=(8, 16)):
    v = xt.load_tile(xt.init_tile(A, (-5, 8), (32, 32), inner_blocks=blocks), padding=padding)
    xt.store_tile(v + v, xt.init_tile(C, (0, 0), (32, 32), inner_blocks=blocks))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.bf16, dtypes.i8, dtypes.u32], ids=str)
def test_padding_in_blocks(dtype: DType, execution: Execution) -> None:
    a, c = integers(np.random.default_rng(1), dtype, 20, 30), np.zeros((32, 32), dtype.numpy)
    expected = np.full((32, 32), 3, np.float64)
    expected[5:25, :22] = a[:, 8:]
    execution.bind(padded)[1,](a, c)
    np.testing.assert_array_equal(c.astype(np.float64), 2 * expected)


@xt.kernel
def updated(V, C, O, *, kind="addf", blocks=(8, 16)):  # noqa: E741
    v = xt.load_tile(xt.init_tile(V, (0, 0), (16, 32), inner_blocks=blocks))
    found = xt.atomic_rmw_tile(kind, v, xt.init_tile(C, (4, 8), (16, 32), inner_blocks=blocks))
    xt.store_tile(found, xt.init_tile(O, (0, 0), (16, 32), inner_blocks=blocks))


UPDATES: dict[str, tuple[DType, Any]] = {
    "addf": (dtypes.f32, np.add), "maxs": (dtypes.i32, np.maximum), "ori": (dtypes.u32, np.bitwise_or),
    "addi": (dtypes.i64, np.add), "mulf": (dtypes.f32, np.multiply),
}


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("kind", UPDATES)
def test_atomic_updates_in_blocks(kind: str, execution: Execution) -> None:
    dtype, function = UPDATES[kind]
    rng = np.random.default_rng(2)
    v, c = integers(rng, dtype, 16, 32), integers(rng, dtype, 18, 36)
    found, expected, before = np.full((16, 32), 7, dtype.numpy), c.copy(), np.zeros((16, 32), dtype.numpy)
    expected[4:, 8:], before[:14, :28] = function(c[4:, 8:], v[:14, :28]), c[4:, 8:]
    execution.bind(updated)[1,](v, c, found, kind=kind)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(found, before)
