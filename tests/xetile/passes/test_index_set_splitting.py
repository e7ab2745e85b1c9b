"""Loops split where their masks begin: each element is as exact as with the mask in every step."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution, first_stages
from xetile.library.attention import attention_of_heads, blocks_for

pytestmark = pytest.mark.unoptimised
BM, BN, D = 16, 32, 16


@xt.kernel
def masked(Q, K, O, ahead, *, mask="causal", subgroups=2, barrier=None):  # noqa: E741
    """Row sums of the products of Q and K that a mask leaves, and 1 for each that it does not."""
    layout, rows = (subgroups, 1), BM // subgroups
    map_s, m = xt.wg_map(layout, (rows, BN)), xt.group_id(0) * BM
    q = xt.load_tile(xt.init_tile(Q, (m, 0), (BM, D), wg_map=xt.wg_map(layout, (rows, D))))
    out = xt.zeros((BM, 16), xt.f32, wg_map=xt.wg_map(layout, (rows, 16)))
    ones = xt.full((BN, 16), 1.0, xt.bf16, wg_map=xt.wg_map(layout, (BN, 16)))
    row, column = (xt.iota((BM, BN), axis, wg_map=map_s) for axis in (0, 1))
    keys, ahead = K.shape[0], ahead.to(xt.i32)
    for n in xt.range(0, keys, BN, barrier=barrier):
        k = xt.load_tile(xt.init_tile(K, (n, 0), (BN, D), wg_map=xt.wg_map(layout, (BN, D))))
        s = xt.tile_mma(q, xt.tile_transpose(k, wg_map=xt.wg_map(layout, (D, BN))))
        at, first = column + n.to(xt.i32), row + m.to(xt.i32)
        inside = column < (keys - n).to(xt.i32)
        if mask == "causal":
            s = xt.where(inside & (at <= first + ahead), s, 1.0)
        elif mask == "hidden":
            s = xt.where(inside, xt.where(at > first + ahead, 1.0, s), 1.0)
        elif mask == "one row":
            inside = xt.iota((1, BN), 1, wg_map=xt.wg_map(layout, (1, BN))) < (keys - n).to(xt.i32)
            s = xt.where(inside & (at <= first + ahead), xt.where(inside, s, 1.0), 1.0)
        elif mask == "window":
            s = xt.where(inside & (at <= first + ahead) & (at + 40 > first), s, 1.0)
        else:
            s = xt.where(inside & (first < 20), s, 1.0)
        out = xt.tile_mma(s.to(xt.bf16), ones, out)
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, 16), wg_map=xt.wg_map(layout, (rows, 16))))


def _expected(q: Any, k: Any, ahead: int, mask: str) -> Any:
    s = q.astype(np.int64) @ k.astype(np.int64).T
    row, column = np.arange(len(q))[:, None], np.arange(len(k))
    with np.errstate(over="ignore"):
        limit = (row.astype(np.int32) + np.int32(ahead)).astype(np.int64)  # wraps
    seen = {"causal": column <= limit, "one row": column <= limit, "hidden": ~(column > limit),
            "window": (column <= limit) & (column + 40 > row),
            "rows": np.broadcast_to(row < 20, s.shape)}[mask]
    padding = -len(k) % BN
    return (np.where(seen, s, 1).sum(axis=1, keepdims=True) + padding) * np.ones((1, 16))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("mask", ["causal", "one row", "hidden", "window", "rows"])
@pytest.mark.parametrize(("keys", "ahead"), [(96, 64), (100, 61), (100, -7), (31, 0)])
def test_all_masks(execution: Execution, mask: str, keys: int, ahead: int) -> None:
    """Tiles that are seen as a whole, in part and not at all."""
    rng = np.random.default_rng(keys + ahead % 7)
    q, k = (rng.integers(-2, 3, (size, D)).astype(ml_dtypes.bfloat16) for size in (40, keys))
    out = np.zeros((40, 16), np.float32)
    execution.bind(masked)[3](q, k, out, ahead, mask=mask)
    np.testing.assert_array_equal(out, _expected(q, k, ahead, mask))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_limits_that_wrap(target: str) -> None:
    """From the ninth row on the last key that is seen is less than none, in 32 bits."""
    ahead = 2**31 - 9
    q, k = (np.ones((size, D), ml_dtypes.bfloat16) for size in (40, 100))
    out = np.zeros((40, 16), np.float32)
    masked.on("numpy:xegpu", target=target)[3](q, k, out, ahead)
    np.testing.assert_array_equal(out, _expected(q, k, ahead, "causal"))


@xt.kernel
def replaced(Q, K, P, O):  # noqa: E741
    """Row sums of the products of Q and K, of P, from before the loop, up to the diagonal, and of 2 from key 70 on."""
    q, other, out = (xt.load_tile(xt.init_tile(Q, (0, 0), (BM, D))), xt.load_tile(xt.init_tile(P, (0, 0), (BM, BN))),
                     xt.zeros((BM, 16), xt.f32))
    row, column = (xt.iota((BM, BN), axis) for axis in (0, 1))
    for n in xt.range(0, K.shape[0], BN):
        s = xt.tile_mma(q, xt.tile_transpose(xt.load_tile(xt.init_tile(K, (n, 0), (BN, D)))))
        at = column + n.to(xt.i32)
        s = xt.where(at >= 70, 2.0, xt.where(at <= row + 40, other, s))
        out = xt.tile_mma(s.to(xt.bf16), xt.full((BN, 16), 1.0, xt.bf16), out)
    xt.store_tile(out, xt.init_tile(O, (0, 0), (BM, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_selections_of_a_value_from_before_the_loop(execution: Execution) -> None:
    """Of two selections, one of the other's result: the first loop has neither."""
    rng = np.random.default_rng(5)
    q, k = (rng.integers(-2, 3, (size, D)).astype(ml_dtypes.bfloat16) for size in (BM, 96))
    p, out = rng.integers(-3, 4, (BM, BN)).astype(np.float32), np.zeros((BM, 16), np.float32)
    execution.bind(replaced)[1](q, k, p, out)
    s, at = q.astype(np.int64) @ k.astype(np.int64).T, np.arange(96)
    s = np.where(at >= 70, 2, np.where(at <= np.arange(BM)[:, None] + 40, np.tile(p, 3), s))
    np.testing.assert_array_equal(out, s.sum(axis=1, keepdims=True) * np.ones((1, 16)))
    if execution.target == "pvc":
        matrix, result = xt.Spec((None, D), "bf16"), xt.Spec((None, None), "f32")
        text = replaced.lower(matrix, matrix, result, result, target="pvc").stages["index-set-splitting"]
        (product,) = [line for line in text.split("scf.for")[1].splitlines() if "truncf" in line]
        assert "arith.truncf %other :" in product


@xt.kernel
def biased(Q, K, B, O, *, limit="B", ahead=0):  # noqa: E741
    """Row sums of the products of Q and K and a number for each key, up to the last of K or of these numbers."""
    q, out = xt.load_tile(xt.init_tile(Q, (0, 0), (BM, D))), xt.zeros((BM, 16), xt.f32)
    column, ends = xt.iota((BM, BN), 1), (B if limit == "B" else K).shape[0]
    for n in xt.range(0, ends, BN):
        s = xt.tile_mma(q, xt.tile_transpose(xt.load_tile(xt.init_tile(K, (n, 0), (BN, D)))))
        bias = xt.tile_transpose(xt.load_tile(xt.init_tile(B, (n + ahead, 0), (BN, 1))))
        s = xt.where(column < (ends - n).to(xt.i32), s + xt.tile_broadcast(bias.to(xt.f32), (BM, BN)), 0.0)
        out = xt.tile_mma(s.to(xt.bf16), xt.full((BN, 16), 1.0, xt.bf16), out)
    xt.store_tile(out, xt.init_tile(O, (0, 0), (BM, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("limit", "ahead"), [("B", 0), ("K", 0), ("B", 1)])
@pytest.mark.parametrize("numbers", [70, 64, 31])
def test_numbers_of_keys(execution: Execution, limit: str, ahead: int, numbers: int) -> None:
    """There are fewer of them than keys, so that those of K reach behind them; what follows them in memory is not 0."""
    rng = np.random.default_rng(numbers)
    q, k = (rng.integers(-1, 2, (size, D)).astype(ml_dtypes.bfloat16) for size in (BM, 90))
    held = rng.integers(1, 4, (128, 1)).astype(np.int32)
    out = np.zeros((BM, 16), np.float32)
    execution.bind(biased)[1](q, k, held[:numbers], out, limit=limit, ahead=ahead)
    ends, bias = numbers if limit == "B" else 90, np.zeros(128, np.int64)
    bias[:numbers - ahead] = held[ahead:numbers, 0]
    s = q.astype(np.int64) @ k[:ends].astype(np.int64).T + bias[:ends]
    np.testing.assert_array_equal(out, s.sum(axis=1, keepdims=True) * np.ones((1, 16)))


@xt.kernel
def biased_by_row(Q, K, B, O):  # noqa: E741
    """Products of Q and K and a number for each key, which are a row, times K."""
    q, out = xt.load_tile(xt.init_tile(Q, (0, 0), (BM, D))), xt.zeros((BM, D), xt.f32)
    column, ends = xt.iota((BM, BN), 1), B.shape[1]
    for n in xt.range(0, ends, BN):
        k = xt.load_tile(xt.init_tile(K, (n, 0), (BN, D)))
        bias = xt.load_tile(xt.init_tile(B, (0, n), (1, BN))).to(xt.f32)
        s = xt.tile_mma(q, xt.tile_transpose(k)) + xt.tile_broadcast(bias, (BM, BN))
        out = xt.tile_mma(xt.where(column < (ends - n).to(xt.i32), s, 0.0).to(xt.bf16), k, out)
    xt.store_tile(out, xt.init_tile(O, (0, 0), (BM, D)))


@pytest.mark.parametrize(("dtype", "inside"), [("f32", True), ("bf16", False)])
def test_rows_whose_alignment_is_asked(dtype: str, inside: bool) -> None:
    """Rows of 16 bits may begin in the middle of a word, which a check of their bounds finds out, too."""
    matrix = xt.Spec((None, D), "bf16")
    text = biased_by_row.lower(matrix, matrix, xt.Spec((1, None), dtype), xt.Spec((None, D), "f32"),
                               target="pvc").stages["index-set-splitting"]
    assert ("{in_bounds}" in text) == inside


@pytest.mark.parametrize(("limit", "ahead", "inside"), [("B", 0, True), ("K", 0, False), ("B", 1, False)])
def test_numbers_that_are_in_bounds_where_their_keys_are(limit: str, ahead: int, inside: bool) -> None:
    matrix, numbers = xt.Spec((None, D), "bf16"), xt.Spec((None, 1), "i32")
    text = biased.lower(matrix, matrix, numbers, xt.Spec((None, 16), "f32"), target="pvc", limit=limit,
                        ahead=ahead).stages["index-set-splitting"]
    first, rest = text.split("scf.for")[1:]
    assert ("{in_bounds}" in first) == inside
    assert "in_bounds" not in rest


def _loops(mask: str, target: str, barrier: int | None = None) -> str:
    matrix = xt.Spec((None, D), "bf16")
    lowered = masked.lower(matrix, matrix, xt.Spec((None, 16), "f32"), 5, target=target, mask=mask,
                           barrier=barrier)
    return first_stages(lowered).get("index-set-splitting", "")


@pytest.mark.parametrize("mask", ["causal", "one row", "hidden", "rows"])
def test_the_first_loop_has_no_mask(mask: str) -> None:
    """The selection stays in the text of the first loop, and nothing uses it there."""
    first, rest = _loops(mask, "pvc").split("scf.for")[1:]
    for text, used in ((first, False), (rest, True)):
        selected = [line.split(" = ")[0].strip() for line in text.splitlines() if "arith.select" in line]
        assert any(f"{selected[-1]} :" in line for line in text.splitlines() if "truncf" in line) == used


@xt.kernel
def windowed(Q, K, O, bounds, width, *, mask="after", subgroups=2, fixed=None):  # noqa: E741
    """Row sums of the products of Q and K that a window leaves, and 1 for each that it does not, of some keys."""
    layout, rows = (subgroups, 1), BM // subgroups
    map_s, m = xt.wg_map(layout, (rows, BN)), xt.group_id(0) * BM
    q = xt.load_tile(xt.init_tile(Q, (m, 0), (BM, D), wg_map=xt.wg_map(layout, (rows, D))))
    out = xt.zeros((BM, 16), xt.f32, wg_map=xt.wg_map(layout, (rows, 16)))
    ones = xt.full((BN, 16), 1.0, xt.bf16, wg_map=xt.wg_map(layout, (BN, 16)))
    row, column = (xt.iota((BM, BN), axis, wg_map=map_s) for axis in (0, 1))
    first, behind = (xt.load_scalar(bounds, (at,)).to(xt.index) for at in (0, 1))
    w = width.to(xt.i32) if fixed is None else fixed
    for n in xt.range(first, behind, BN):
        k = xt.load_tile(xt.init_tile(K, (n, 0), (BN, D), wg_map=xt.wg_map(layout, (BN, D))))
        s = xt.tile_mma(q, xt.tile_transpose(k, wg_map=xt.wg_map(layout, (D, BN))))
        at, from_row = column + n.to(xt.i32), row + m.to(xt.i32)
        if mask == "after":
            s = xt.where(at > from_row - w, s, 1.0)
        elif mask == "before":
            s = xt.where((from_row - w < at) & (at <= from_row), s, 1.0)
        elif mask == "difference":
            s = xt.where((from_row - at < w) & (from_row >= at), s, 1.0)
        elif mask == "hidden":
            s = xt.where((from_row - at >= w) | (from_row < at), 1.0, s)
        elif mask == "two":
            s = xt.where(at <= from_row, xt.where(from_row - at <= w - 1, s, 1.0), 1.0)
        elif mask == "distance":
            s = xt.where(xt.abs(from_row - at) < w, s, 1.0)
        elif mask == "far":
            s = xt.where(xt.abs(at - from_row) >= w, 1.0, s)
        else:
            s = xt.where((from_row - at).to(xt.u32) < (w.to(xt.u32) if fixed is None else w), s, 1.0)
        out = xt.tile_mma(s.to(xt.bf16), ones, out)
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, 16), wg_map=xt.wg_map(layout, (rows, 16))))


WINDOWS = ("after", "before", "difference", "hidden", "two", "distance", "far", "unsigned")


def _expected_windows(q: Any, k: Any, bounds: Any, width: int, mask: str) -> Any:
    first, behind = bounds
    at = np.arange(first, first + -(-max(behind - first, 0) // BN) * BN)
    inside = (at >= 0) & (at < len(k))
    s = q.astype(np.int64) @ np.where(inside[:, None], k[np.where(inside, at, 0)], 0).astype(np.int64).T
    ahead = np.arange(len(q))[:, None] - at
    seen = {"after": ahead < width, "distance": abs(ahead) < width, "far": abs(ahead) < width}.get(
        mask, (ahead < width) & (ahead >= 0))
    return np.where(seen, s, 1).sum(axis=1, keepdims=True) * np.ones((1, 16))


@pytest.mark.parametrize("execution", [*EXECUTIONS, Execution("machine:pvc", "pvc"), Execution("machine:bmg", "bmg")],
                         ids=str)
@pytest.mark.parametrize("mask", WINDOWS)
def test_windows(execution: Execution, mask: str) -> None:
    """Bounds that memory says, and a width that the launch says."""
    rng, kernel = np.random.default_rng(3), execution.bind(windowed)
    q, k = (rng.integers(-2, 3, (size, D)).astype(ml_dtypes.bfloat16) for size in (150, 140))
    for bounds, width in (
            ((0, 160), 64),  # steps before, inside and behind
            ((0, 160), 39), ((1, 150), 39),  # one step at most that is seen as a whole, by a subgroup of 8 rows
            ((37, 150), 20),  # none
            ((64, 64), 64), ((96, 32), 64),  # no step
            ((-64, 70), 1000)):  # a window of all
        out = np.zeros((150, 16), np.float32)
        kernel[10](q, k, out, np.array(bounds, np.int32), width, mask=mask)
        np.testing.assert_array_equal(out, _expected_windows(q, k, bounds, width, mask), f"{bounds}, {width}")


def _windows(mask: str, fixed: int | None) -> str:
    matrix = xt.Spec((None, D), "bf16")
    kernel = windowed.lower(matrix, matrix, xt.Spec((None, 16), "f32"), xt.Spec((2,), "i32"), 0, target="pvc",
                            mask=mask, fixed=fixed)
    return first_stages(kernel).get("index-set-splitting", "")


@pytest.mark.parametrize("fixed", [None, 64])
@pytest.mark.parametrize("mask", WINDOWS)
def test_the_mask_of_a_window_is_in_a_branch(mask: str, fixed: int | None) -> None:
    """Neither the selection nor the comparisons of elements are outside of it."""
    loop = _windows(mask, fixed).split("scf.for")[1]
    before, *branches = loop.split("scf.if")
    (branch,) = branches
    for text in (before, branch.split("\n      }\n")[-1]):
        assert not re.search(r"(select|cmpi|addi|subi|absi).*vector<", text)
    assert branch.count("arith.select") == (2 if mask == "two" else 1)


def test_what_is_not_split() -> None:
    """Some element of a mask is hidden at every step; targets without 2D block IO have larger costs than masks."""
    assert not _windows("before", 38)  # of 8 rows and 32 columns
    assert not _loops("causal", "dg2")
    assert not _loops("causal", "pvc", barrier=1)  # subgroups that leave a loop at different steps would wait for ever
    spec = xt.Spec((None, None, None, 64), "bf16")  # of the library, whose kernel has a loop of its own for whole tiles
    lowered = attention_of_heads.lower(spec, spec, spec, spec, 1.0, target="pvc", D=64, DV=64, share=1, causal=True,
                                       **blocks_for(64, 1000, xt.TARGETS["pvc"]).constants)
    assert "index-set-splitting" not in first_stages(lowered)
