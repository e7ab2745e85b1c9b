"""Sums of rows by products with ones: exact in all executions, and left alone where they are something else."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution, first_stages

pytestmark = pytest.mark.unoptimised
BM, BN, D = 16, 32, 32


@xt.kernel
def weighted(S, V, O, T, *, form="scaled", subgroups=2):  # noqa: E741
    """S @ V, rescaled by 2 in each step, and the sums of the rows of S alike."""
    layout, rows = (subgroups, 1), BM // subgroups
    map_l, m = xt.wg_map(layout, (rows, 1)), xt.group_id(0) * BM
    out, total = xt.zeros((BM, D), xt.f32, wg_map=xt.wg_map(layout, (rows, D))), xt.full((BM, 1), 3.0, xt.f32,
                                                                                       wg_map=map_l)
    shrink = xt.full((BM, 1), 2.0, xt.f32, wg_map=map_l)
    for n in xt.range(0, S.shape[1], BN):
        p = xt.load_tile(xt.init_tile(S, (m, n), (BM, BN), wg_map=xt.wg_map(layout, (rows, BN))))
        v = xt.load_tile(xt.init_tile(V, (n, 0), (BN, D), wg_map=xt.wg_map(layout, (BN, D))))
        out = xt.tile_mma(p, v, out)
        sums = xt.tile_reduce("add", p.to(xt.f32), 1)
        if form == "scaled":
            total = total * shrink + sums
        elif form == "fma":
            total = xt.fma(shrink, total, sums)
        elif form == "plain":
            total = sums + total
        else:
            total = total * total + sums
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, D), wg_map=xt.wg_map(layout, (rows, D))))
    xt.store_tile(total, xt.init_tile(T, (m, 0), (BM, 1), wg_map=map_l))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("form", ["scaled", "fma", "plain", "squared"])
@pytest.mark.parametrize(("rows", "steps"), [(16, 3), (21, 2), (16, 0)])
def test_all_executions(execution: Execution, form: str, rows: int, steps: int) -> None:
    rng = np.random.default_rng(rows)
    s = rng.integers(-2, 3, (rows, BN * steps)).astype(ml_dtypes.bfloat16)
    v = rng.integers(-2, 3, (BN * steps, D)).astype(ml_dtypes.bfloat16)
    out, total = np.zeros((rows, D), np.float32), np.zeros((rows, 1), np.float32)
    execution.bind(weighted)[-(-rows // BM)](s, v, out, total, form=form)
    np.testing.assert_array_equal(out, s.astype(np.float32) @ v.astype(np.float32))
    expected = np.full((rows, 1), 3.0)
    for part in np.split(s.astype(np.float64), steps, axis=1) if steps else []:
        scaled = expected * {"plain": 1, "squared": expected}.get(form, 2)
        expected = scaled + part.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(total, expected)


def _stage(form: str, target: str) -> Any:
    matrix, result = xt.Spec((None, None), "bf16"), xt.Spec((None, None), "f32")
    lowered = weighted.lower(matrix, matrix, result, result, target=target, form=form)
    return first_stages(lowered).get("row-sums-by-mma")


@pytest.mark.parametrize("form", ["scaled", "fma", "plain"])
def test_a_product_takes_the_place_of_the_sum(form: str) -> None:
    loop = _stage(form, "pvc").split("scf.for")[1].split("scf.yield")[0]
    assert loop.count("xetile.tile_mma") == 2
    assert "tile_reduce" not in loop


def test_other_sums_stay() -> None:
    assert _stage("squared", "pvc") is None
    assert _stage("scaled", "dg2") is None


@xt.kernel
def of_tf32(S, V, O, T, *, rounded=False):  # noqa: E741
    """S @ V in tf32, and the sums of the rows of S."""
    out, total = xt.zeros((BM, D), xt.f32), xt.zeros((BM, 1), xt.f32)
    A, B = (S, V) if rounded else (xt.view(S, xt.tf32), xt.view(V, xt.tf32))
    for n in xt.range(0, S.shape[1], BN):
        p, v = (xt.load_tile(xt.init_tile(X, at, (BN, D) if X is B else (BM, BN))).to(xt.tf32)
                for X, at in ((A, (0, n)), (B, (n, 0))))
        out = xt.tile_mma(p, v, out)
        total = total + xt.tile_reduce("add", p.to(xt.f32), 1)
    xt.store_tile(out, xt.init_tile(O, (0, 0), (BM, D)))
    xt.store_tile(total, xt.init_tile(T, (0, 0), (BM, 1)))


@pytest.mark.parametrize("execution", [execution for execution in EXECUTIONS if execution.target != "dg2"], ids=str)
@pytest.mark.parametrize("rounded", [False, True])
def test_bits_that_the_matrix_engine_ignores(execution: Execution, rounded: bool) -> None:
    """A view of float32 as tf32 has them, so that its sum is none of products; what was rounded to tf32 has not."""
    s, v = np.full((BM, 2 * BN), 1 + 2**-13, np.float32), np.ones((2 * BN, D), np.float32)
    out, total = np.zeros((BM, D), np.float32), np.zeros((BM, 1), np.float32)
    execution.bind(of_tf32)[1](s, v, out, total, rounded=rounded)
    np.testing.assert_array_equal(out, 2 * BN)
    np.testing.assert_array_equal(total, 2 * BN * (1 if rounded else 1 + 2**-13))
    matrix = xt.Spec((None, None), "f32")
    stages = first_stages(of_tf32.lower(*[matrix] * 4, target="pvc", rounded=rounded))
    assert ("row-sums-by-mma" in stages) == rounded
