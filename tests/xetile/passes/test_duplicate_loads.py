"""Tiles that are used plain and transposed: what is computed of them, and that each use has loads of its own."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, first_stages

pytestmark = pytest.mark.unoptimised
BM, BN = 32, 32
MATRICES = [xt.Spec((None, None), dtype) for dtype in ("bf16", "bf16", "f32")]


@xt.kernel
def product_of_both(Q, K, O, *, D=32, carried=True, layout=(2, 1)):  # noqa: E741
    """(Q @ K.T) @ K, and K itself added to its rows, with steps of K that a loop carries or initializes."""
    m = xt.group_id(0) * BM
    rows = BM // layout[0]
    map_q, map_k, map_t = xt.wg_map(layout, (rows, D)), xt.wg_map(layout, (BN, D)), xt.wg_map(layout, (D, BN))
    q = xt.load_tile(xt.init_tile(Q, (m, 0), (BM, D), wg_map=map_q))
    k = xt.init_tile(K, (0, 0), (BN, D), wg_map=map_k)
    out = xt.zeros((BM, D), xt.f32, wg_map=map_q)
    for n in xt.range(0, K.shape[0], BN):
        tile = k if carried else xt.init_tile(K, (n, 0), (BN, D), wg_map=map_k)
        xt.prefetch_tile(tile)
        keys = xt.load_tile(tile)
        s = xt.tile_mma(q, xt.tile_transpose(keys, wg_map=map_t))
        out = xt.tile_mma(s.to(K.dtype), keys, out)
        k = xt.update_tile_offset(k, BN, 0)
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, D), wg_map=map_q))


@xt.kernel
def written_between(Q, K, O):  # noqa: E741
    """Q @ K.T and K, which is written before each of two loads: no tile may be loaded at another time."""
    tile = xt.init_tile(K, (0, 0), (32, 32), wg_map=xt.wg_map((1, 1), (32, 32)))
    q = xt.load_tile(xt.init_tile(Q, (0, 0), (32, 32), wg_map=xt.wg_map((1, 1), (32, 32))))
    keys = xt.load_tile(tile)
    xt.store_tile(keys + keys, tile)
    s = xt.tile_mma(q, xt.tile_transpose(keys))
    xt.store_tile(xt.tile_mma(s.to(K.dtype), keys), xt.init_tile(O, (0, 0), (32, 32),
                                                               wg_map=xt.wg_map((1, 1), (32, 32))))


def _both(rng: np.random.Generator, rows: int, keys: int, columns: bool) -> tuple[Any, Any, Any]:
    """Operands, and the exact result; ``columns``: K is column-major."""
    q, k = (rng.integers(-2, 3, (size, 32)).astype(ml_dtypes.bfloat16) for size in (rows, keys))
    exact = (q.astype(np.int64) @ k.astype(np.int64).T) @ k.astype(np.int64)
    return q, np.asfortranarray(k) if columns else k, exact.astype(np.float32)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("carried", "columns"), [(True, False), (False, False), (True, True)])
def test_all_executions(execution: Execution, carried: bool, columns: bool) -> None:
    """Rows of Q and of K that are no multiples of the tile; the result has a border that stays."""
    q, k, expected = _both(np.random.default_rng(5), 40, 72, columns)
    border = np.full((42, 35), 7, np.float32)
    execution.bind(product_of_both)[2](q, k, border[1:-1, 1:-2], carried=carried)
    np.testing.assert_array_equal(border[1:-1, 1:-2], expected)
    border[1:-1, 1:-2] = 7
    assert (border == 7).all()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_tile_that_is_written_is_loaded_once(execution: Execution) -> None:
    q, k, expected = _both(np.random.default_rng(6), 32, 32, columns=False)
    out, doubled = np.zeros((32, 32), np.float32), k + k
    execution.bind(written_between)[1](q, k, out)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(k, doubled)
    assert "duplicate-loads" not in first_stages(written_between.lower(*MATRICES, target="pvc"))


@pytest.mark.parametrize("carried", [True, False])
def test_each_use_has_loads(carried: bool) -> None:
    """Two loads and one prefetch a step, and none of the transpositions remains; without block messages, too, where
    rows or columns are contiguous."""
    for target in ("pvc", "dg2"):
        lowered = product_of_both.lower(*(xt.Spec((None, 32), spec.dtype) for spec in MATRICES), target=target,
                                        carried=carried)
        loop = lowered.stages["duplicate-loads"].split("scf.for")[1].split("scf.yield")[0]
        assert (loop.count("xetile.load_tile"), loop.count("xetile.prefetch_tile")) == (2, 1)
        assert "tile_transpose" not in lowered.stages["row-major"]
    strided = [xt.Spec((None, 32), spec.dtype, (None, 2)) for spec in MATRICES]
    assert "duplicate-loads" not in first_stages(product_of_both.lower(*strided, target="dg2"))


@pytest.mark.parametrize(("target", "most"), [("pvc", 100), ("bmg", 100), ("dg2", 300)])
def test_no_transposition_in_registers(target: str, most: int) -> None:
    """A loop of 16 dpas had some 800 instructions of the vector unit, and 1,500 on dg2."""
    require_ocloc()
    specs = [xt.Spec((4096, 32), spec.dtype) for spec in MATRICES]
    report = product_of_both.lower(*specs, target=target, layout=(2, 1) if most == 100 else (4, 1)).report()
    assert (report.loop["dpas"], report.spill_size, report.private_size) == (16, 0, 0)
    assert report.loop["vector"] < most
