"""Rows on a processor: their ends are loaded, padded and stored by masks, without calls."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xetile as xt
from codegen.opencl.prelude.macros import FETCH_L1
from tests.conftest import require_device
from tests.kernels import Bordered, integers

pytestmark = pytest.mark.unoptimised


@xt.kernel
def doubled(A, C, *, at=(1, 64)):
    """C = 2 A; rows of blocks begin 3 columns before those of A, and end behind them."""
    m, n = xt.group_id(0) - 1, xt.group_id(1) * at[1] - 3
    values = xt.load_tile(xt.init_tile(A, (m, n), at), padding=7)
    xt.store_tile(values + xt.load_tile(xt.init_tile(A, (m, n), at)), xt.init_tile(C, (m, n), at))


@pytest.mark.execution("opencl:cpu")
@pytest.mark.parametrize("columns", [1, 61, 125, 130])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8", "f64"])
@pytest.mark.parametrize("rows", [1, 2, 8])
def test_nothing_outside_is_read_as_it_is_or_written(rows: int, dtype: str, columns: int) -> None:
    require_device()
    kind = getattr(xt, dtype)
    a, c = integers(np.random.default_rng(columns), kind, 5, columns), Bordered(kind, (5, columns))
    surrounded = Bordered(kind, (5, columns))
    surrounded.array[...] = a
    doubled.on("opencl:cpu", target="cpu")[7, 3](surrounded.array, c.array, at=(rows, 64))
    c.check(a + a)


@pytest.mark.execution("opencl:cpu")
@pytest.mark.parametrize("padding", [0, 3])
def test_the_padding_is_what_lies_outside(padding: int) -> None:
    require_device()

    @xt.kernel
    def row_sums(A, C):
        row = xt.group_id(0)
        values = xt.load_tile(xt.init_tile(A, (row, 0), (1, 64)), padding=padding)
        xt.store_tile(xt.tile_reduce("add", values, 1), xt.init_tile(C, (row, 0), (1, 1)))

    a, c = Bordered(xt.f32, (9, 50)), np.zeros((9, 1), np.float32)
    a.array[...] = numbers = integers(np.random.default_rng(0), xt.f32, 9, 50)
    row_sums.on("opencl:cpu", target="cpu")[9](a.array, c)
    np.testing.assert_array_equal(c, numbers.sum(1, keepdims=True) + padding * 14)


@pytest.mark.parametrize(("at", "calls"), [((1, 64), 0), ((4, 64), 0), ((32, 256), 3)])
def test_blocks_of_more_rows_than_are_inlined_are_called(at: tuple[int, int], calls: int) -> None:
    text = doubled.lower(*[xt.Spec((None, None), xt.f32)] * 2, at=at, target="cpu").opencl
    assert len(re.findall(r"^XETILE_CALL static", text, re.MULTILINE)) == calls
    if not calls:
        assert len(re.findall(r"^static \w+ \w+_masked\(", text, re.MULTILINE)) == 3


@pytest.mark.parametrize(("at", "variables"), [((1, 64), 4), ((2, 32), 4), ((1, 16), 0)])
def test_what_is_in_bounds_of_a_block_at_an_edge_is_loaded_without_a_mask(at: tuple[int, int], variables: int) -> None:
    text = doubled.lower(*[xt.Spec((None, None), xt.f32)] * 2, at=at, target="cpu").opencl
    assert len(re.findall(r"if \(.*\) \w+ = read_\w+\(.*; else \w+ = load_\w+_masked\(", text)) == 2 * variables


def test_rows_on_a_processor_have_a_variable_a_word() -> None:
    @xt.kernel
    def softmax(X, Y):
        x = xt.load_tile(xt.init_tile(X, (0, 0), (8, 32)), padding=-np.inf)
        powers = xt.exp(x - xt.tile_reduce("maxnumf", x, 1))
        total = xt.zeros((8, 32), xt.f32)
        for _ in xt.range(0, X.shape[0]):
            total = xt.where(total > powers, total, total + powers)
        xt.store_tile(total / xt.tile_reduce("add", powers, 1), xt.init_tile(Y, (0, 0), (8, 32)))

    text = softmax.lower(*[xt.Spec((None, None), xt.f32)] * 2, target="cpu").opencl
    vectors = {line.strip() for line in text.splitlines() if re.search(r"\b(float|int|short)8\b", line)}
    assert all(line.endswith("= (float8)(0.0f);") for line in vectors), vectors  # zeros, which the loop begins with


@xt.kernel
def less_their_maximum(X, Y, *, BM=1, BN=64):
    """Y = X less the maximum of 64 elements of a row, BM rows a step of a loop."""
    for row in xt.range(1, X.shape[0], BM):
        x = xt.load_tile(xt.init_tile(X, (row, 3), (BM, BN)))
        xt.store_tile(x - xt.tile_reduce("max", x, 1), xt.init_tile(Y, (row, 3), (BM, BN)))


@pytest.mark.execution("opencl:cpu")
@pytest.mark.parametrize(("rows", "ahead"), [(1, (8,)), (2, (8, 9))])
def test_rows_that_a_loop_comes_to_are_prefetched(rows: int, ahead: tuple[int, ...]) -> None:
    require_device()
    rng = np.random.default_rng(1)
    x, y = integers(rng, "f32", 12, 72), integers(rng, "f32", 12, 72)
    expected = y.copy()
    less_their_maximum.on("numpy")[1](x, expected, BM=rows)
    text = less_their_maximum.lower(x, y, target="cpu", BM=rows).opencl
    fetched = re.findall(FETCH_L1 + r"\(X \+ \(int\)\(\(uint\)row\w* \+ (\d+)\) \* \(long\)\w+ \+ 3 \+ (\d+)\);", text)
    assert sorted((int(row), int(column)) for row, column in fetched) == [
        (row, column) for row in ahead for column in (0, 16, 32, 48)]
    less_their_maximum.on("opencl:cpu", target="cpu")[1](x, y, BM=rows)
    np.testing.assert_array_equal(y, expected)
