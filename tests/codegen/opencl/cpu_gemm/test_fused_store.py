"""Products whose sums are only stored, on the CPU device: one call makes them, and stores them into C itself."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from codegen.opencl.cpu_gemm.macrokernel import FENCE
from codegen.opencl.prelude.macros import MICROKERNELS
from tests.conftest import require_device, require_dpnp

KINDS = (np.float32, np.float16, ml_dtypes.bfloat16)
ROWS, COLUMNS = 32, 80
"""A subgroup's tile: vectors of columns go in two parts, of three and two."""
SHAPES = ((64, 160, 96), (37, 77, 45), (5, 3, 1), (70, 96, 600), (33, 17, 300), (1, 1, 33), (32, 84, 2))
"""M, N and K: whole tiles; parts of them, and an odd depth; single columns, alone and behind vectors."""


@xt.kernel
def product(A, B, C, *, start=0, bias=0):
    m, n = xt.group_id(0) * ROWS, xt.group_id(1) * COLUMNS
    a, b = xt.init_tile(A, (m, start), (ROWS, 32)), xt.init_tile(B, (start, n), (32, COLUMNS))
    total = xt.zeros((ROWS, COLUMNS), xt.f32)
    for _ in xt.range(start, A.shape[1], 32):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
    xt.store_tile(total + bias if bias else total, xt.init_tile(C, (m, n), (ROWS, COLUMNS)))


def _operands(shape: tuple[int, int, int], kind: Any) -> tuple[Any, Any]:
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    return rng.integers(-4, 5, (m, k)).astype(kind), rng.integers(-4, 5, (k, n)).astype(kind)


def _run(a: Any, b: Any, c: Any, **constants: Any) -> None:
    product.on("opencl:cpu")[-(-c.shape[0] // ROWS), -(-c.shape[1] // COLUMNS)](a, b, c, **constants)


def _check(shape: tuple[int, int, int], kind: Any) -> None:
    """C in a border that must stay, of integers; a row and a column that are no numbers spoil themselves alone."""
    a, b = _operands(shape, kind)
    expected = np.full((shape[0] + 2, shape[1] + 2), 7, np.float32)
    c = expected.copy()
    expected[1:-1, 1:-1] = a.astype(np.float32) @ b.astype(np.float32)
    _run(a, b, c[1:-1, 1:-1])
    np.testing.assert_array_equal(c, expected, f"{shape}")
    a[-1, 0], b[0, -1] = np.inf, np.nan
    _run(a, b, c[1:-1, 1:-1])
    np.testing.assert_array_equal(c[:-2, :-2], expected[:-2, :-2])
    assert not np.isfinite(c[-2, -2])
    np.testing.assert_array_equal(c[:, -1], 7)


EDGES = [(m, n, 37) for m, n in zip(range(1, 34), range(81, 0, -1), strict=False)]


@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.everything) for turn in (1, 2))])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_all_edges(kind: Any, turn: int) -> None:
    """In each turn every edge occurs, with one of the types."""
    require_device()
    for shape in (*SHAPES, *EDGES[(KINDS.index(kind) + turn) % 3::3]):
        _check(shape, kind)


def test_one_call_makes_and_stores_them() -> None:
    """Beside the call stand the loop and its stores; where a sum is changed on its way, there is no such call."""
    array = xt.Spec((None, None), "f32")
    kernel = {bias: product.lower(array, array, array, target="cpu", bias=bias).opencl.partition("kernel void")[2]
              for bias in (0, 1)}
    calls = {bias: re.findall(r"xetile_product_f32_32x80_call\((\(?\w+)", text) for bias, text in kernel.items()}
    assert [name.startswith("c_first") for name in calls[0]] == [True, False]
    assert [name.startswith("c_first") for name in calls[1]] == [False]
    assert kernel[0].index(MICROKERNELS) < kernel[0].index("for (") < kernel[0].replace(FENCE, "").index("store_")
    # The last subgroup waits for the others' stores even where its own part lies outside, and it calls nothing.
    assert re.search(rf"if \(!legal && .*get_num_sub_groups\(\)\)\) {FENCE}\(\);", kernel[0])
    assert FENCE not in kernel[1]


@pytest.mark.parametrize("start", [0, 7])
def test_sums_without_operands(start: int) -> None:
    """C larger or smaller than A and B, and a depth of none: outside of them sums are zero."""
    require_device()
    a, b = _operands((37, 77, 45), np.float32)
    for size in ((40, 90), (37, 90), (40, 77), (20, 50)):
        expected, c = np.zeros(size, np.float32), np.full(size, 7, np.float32)
        inside = tuple(slice(min(pair)) for pair in zip(size, (37, 77), strict=True))
        expected[inside] = (a[:, start:] @ b[start:])[inside]
        _run(a, b, c, start=start)
        np.testing.assert_array_equal(c, expected)
    c = np.full((37, 77), 7, np.float32)
    _run(a[:, :start], b[:start], c, start=start)
    np.testing.assert_array_equal(c, 0)


@xt.kernel
def with_short_names(A, B, C):
    """Names of variables that the text of a product has itself."""
    i, v = xt.group_id(0) * ROWS, xt.group_id(1) * COLUMNS
    k = xt.minimum(v, 0)
    a, b = xt.init_tile(A, (i, k), (ROWS, 32)), xt.init_tile(B, (k, v), (32, COLUMNS))
    check = xt.zeros((ROWS, COLUMNS), xt.f32)
    for _ in xt.range(0, A.shape[1], 32):
        check = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), check)
        a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
    xt.store_tile(check, xt.init_tile(C, (i, v), (ROWS, COLUMNS)))


@pytest.mark.parametrize("kernel", [product, with_short_names], ids=lambda kernel: kernel.name)
def test_zero_padding(kernel: Any) -> None:
    """Of a C larger than A and B: zeros times what is no finite number, in rows and columns beyond them."""
    require_device()
    a, b = _operands((37, 77, 45), np.float32)
    a[5, 40], b[3, 70] = np.inf, np.nan
    c, expected = np.full((40, 90), 7, np.float32), np.zeros((40, 90), np.float32)
    kernel.on("opencl:cpu")[2, 2](a, b, c)
    with np.errstate(invalid="ignore"):
        expected[:37, :77] = a @ b
    expected[5, 77:] = expected[37:, 70] = np.nan
    np.testing.assert_array_equal(c, expected)


def test_more_rows_of_b_than_columns_of_a_and_fewer() -> None:
    require_device()
    a, b = _operands((37, 77, 45), np.float32)
    for depth in (40, 45):
        c = np.full((37, 77), 7, np.float32)
        _run(a[:, :depth - 4], b[:depth], c)
        np.testing.assert_array_equal(c, a[:, :depth - 4] @ b[:depth - 4])
        _run(a[:, :depth], b[:depth - 4], c)
        np.testing.assert_array_equal(c, a[:, :depth - 4] @ b[:depth - 4])


@pytest.mark.parametrize(("which", "first"), [("A", 0), ("B", 48)])
def test_c_over_an_operand(which: str, first: int) -> None:
    """A subgroup has read all that it needs before it stores; so it must be where C lies over A or B."""
    require_device()
    dpnp = require_dpnp()
    a, b = _operands((ROWS, 160, 80), np.float32)
    held = {name: dpnp.asarray(x, device="opencl:cpu") for name, x in (("A", a), ("B", b))}
    in_place = xt.kernel(product.function, may_alias=True)
    in_place[1, 1](held["A"], held["B"], held[which][:ROWS, first:first + COLUMNS])
    expected = {"A": a, "B": b}[which].copy()
    expected[:ROWS, first:first + COLUMNS] = a @ b[:, :COLUMNS]
    np.testing.assert_array_equal(dpnp.asnumpy(held[which]), expected)


@pytest.mark.parametrize("first", [0, 1])
def test_past_the_caches(first: int) -> None:
    """A C of more than 16 MB, on lines of the cache or beside them, between columns that must stay."""
    require_device()
    dpnp = require_dpnp()
    a, b = _operands((2065, 2080, 3), np.float32)
    c = dpnp.full((2065, 2096), 7, dtype="f4", device="opencl:cpu")
    run = product[-(-2065 // ROWS), 2080 // COLUMNS]
    run(*(dpnp.asarray(x, device="opencl:cpu") for x in (a, b)), c[:, first:first + 2080])
    result = dpnp.asnumpy(c)
    np.testing.assert_array_equal(result[:, first:first + 2080], a @ b)
    assert (np.delete(result, np.s_[first:first + 2080], 1) == 7).all()
