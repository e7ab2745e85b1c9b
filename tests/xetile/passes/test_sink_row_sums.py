"""Sums of rows that lanes carry: exact in all executions, and left alone where sums are in the order of the text."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.attention_kernels import triton_tutorial
from tests.kernels import EXECUTIONS, Execution, first_stages

pytestmark = pytest.mark.unoptimised
BM, BN, D = 16, 32, 32


def _weighted(S, V, O, T, *, form="scaled", subgroups=2, BN=BN):  # noqa: E741
    """Half of S @ V, and the sums of the rows of S, halved in each step, before they are rounded."""
    layout, rows = (subgroups, 1), BM // subgroups
    map_l, m = xt.wg_map(layout, (rows, 1)), xt.group_id(0) * BM
    out, total = xt.zeros((BM, D), xt.f32, wg_map=xt.wg_map(layout, (rows, D))), xt.full((BM, 1), 3.0, xt.f32,
                                                                                       wg_map=map_l)
    shrink = xt.load_tile(xt.init_tile(T, (m, 0), (BM, 1), wg_map=map_l)) * 0.5
    for n in xt.range(0, S.shape[1], BN):
        p = xt.load_tile(xt.init_tile(S, (m, n), (BM, BN), wg_map=xt.wg_map(layout, (rows, BN)))) * 0.5
        v = xt.load_tile(xt.init_tile(V, (n, 0), (BN, D), wg_map=xt.wg_map(layout, (BN, D))))
        out = xt.tile_mma(p.to(xt.bf16), v, out)
        sums = xt.tile_reduce("add", p, 1)
        if form == "scaled":
            total = total * shrink + sums
        elif form == "plain":
            total = sums + total
        else:
            total = total * total + sums
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, D), wg_map=xt.wg_map(layout, (rows, D))))
    xt.store_tile(total, xt.init_tile(T, (m, 0), (BM, 1), wg_map=map_l))


weighted, in_order = xt.kernel(fast_math=True)(_weighted), xt.kernel(_weighted)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("form", ["scaled", "plain"])
@pytest.mark.parametrize(("rows", "steps", "columns"), [(16, 3, 64), (21, 2, 32), (16, 0, 16), (11, 2, 16)])
def test_all_executions(execution: Execution, form: str, rows: int, steps: int, columns: int) -> None:
    rng = np.random.default_rng(rows + columns)
    s = rng.integers(-9, 10, (rows, columns * steps)).astype(np.float32)
    v = rng.integers(-2, 3, (columns * steps, D)).astype(ml_dtypes.bfloat16)
    out, total = np.zeros((rows, D), np.float32), rng.integers(1, 5, (rows, 1)).astype(np.float32)
    expected, shrink = np.full((rows, 1), 3.0), total.astype(np.float64) / 2
    execution.bind(weighted)[-(-rows // BM)](s, v, out, total, form=form, BN=columns)
    np.testing.assert_array_equal(out, s / 2 @ v.astype(np.float32))
    for part in np.split(s.astype(np.float64), steps, axis=1) if steps else []:
        expected = expected * (1 if form == "plain" else shrink) + part.sum(axis=1, keepdims=True) / 2
    np.testing.assert_array_equal(total, expected)


def _specs() -> list[Any]:
    f32 = xt.Spec((None, None), "f32")
    return [f32, xt.Spec((None, None), "bf16"), f32, f32]


@pytest.mark.parametrize("form", ["scaled", "plain"])
def test_lanes_are_reduced_behind_the_loop(form: str) -> None:
    text = str(first_stages(weighted.lower(*_specs(), target="bmg", form=form))["sink-row-sums"])
    inside, behind = text[text.index("scf.for"):].split("scf.yield")
    assert "tile_reduce" not in inside
    assert behind.count("tile_reduce <add>") == 1


def test_sums_in_the_order_of_the_text_stay() -> None:
    assert "sink-row-sums" not in in_order.lower(*_specs(), target="bmg").stages
    assert "sink-row-sums" not in weighted.lower(*_specs(), target="bmg", form="squared").stages
    assert "sink-row-sums" not in weighted.lower(*_specs(), target="dg2").stages


def test_sums_stand_behind_their_terms_where_registers_are_short() -> None:
    """Blocks of weights are summed before the last products: else all of them would be live until then."""
    heads, sums = xt.Spec((None, None, 64), xt.bf16), xt.Spec((None, None, 1), xt.f32)
    lowered = triton_tutorial.lower(heads, heads, heads, sums, heads, 0.5, target="bmg")
    text = str(lowered.stages["schedule"]).partition("scf.for")[2].partition("scf.yield")[0]
    assert "arith.addf" in text[:text.rindex("xegpu.dpas")]
