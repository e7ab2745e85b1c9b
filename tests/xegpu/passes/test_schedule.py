"""Loads at their first use in loops that exceed the register file."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels import backward_dq
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution

pytestmark = pytest.mark.unoptimised
SPECS = [xt.Spec((1024, 64), xt.bf16)] * 4 + [xt.Spec((1024, 64), xt.f32)]


@xt.kernel
def gradient(Q, G, K, V, O, *, D=64, BM=16, BN=32, layout=(1, 1)):  # noqa: E741
    """((Q @ K.T) * (G @ V.T)) @ K, 16 rows a subgroup."""
    m = xt.group_id(0) * BM
    map_q, map_k, map_t = xt.wg_map(layout, (BM, D)), xt.wg_map(layout, (BN, D)), xt.wg_map(layout, (D, BN))
    q, g = (xt.load_tile(xt.init_tile(array, (m, 0), (BM, D), wg_map=map_q)) for array in (Q, G))
    out = xt.zeros((BM, D), xt.f32, wg_map=map_q)
    for n in xt.range(0, K.shape[0], BN):
        keys, values = (xt.load_tile(xt.init_tile(array, (n, 0), (BN, D), wg_map=map_k)) for array in (K, V))
        s = xt.tile_mma(q, xt.tile_transpose(keys, wg_map=map_t))
        t = xt.tile_mma(g, xt.tile_transpose(values, wg_map=map_t))
        out = xt.tile_mma((s * t).to(K.dtype), keys, out)
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, D), wg_map=map_q))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_all_executions(execution: Execution) -> None:
    """Odd numbers of rows; each number of the sparse operands is exact in bf16."""
    rng = np.random.default_rng(7)
    q, g, k, v = (_sparse(rng, rows) for rows in (19, 19, 71, 71))
    wide = [array.astype(np.int64) for array in (q, g, k, v)]
    both = (wide[0] @ wide[2].T) * (wide[1] @ wide[3].T)
    assert abs(both).max() <= 256
    out = np.full((19, 64), 7, np.float32)
    execution.bind(gradient)[2](q, g, k, v, out)
    np.testing.assert_array_equal(out, (both @ wide[2]).astype(np.float32))


def _sparse(rng: np.random.Generator, rows: int) -> Any:
    numbers = rng.integers(-1, 2, (rows, 64)) * (rng.random((rows, 64)) < 0.3)
    return numbers.astype(ml_dtypes.bfloat16)


def _positions(target: str) -> list[str]:
    text = gradient.lower(*SPECS, target=target).stages["schedule"]
    loop = text.split("scf.for")[1].split("scf.yield")[0]
    return [word for line in loop.splitlines() for word in ("load_nd", "dpas") if f"xegpu.{word} " in line]


def test_loads_stand_between_the_products() -> None:
    """What the last product reads is not loaded in front of the first."""
    order = _positions("pvc")
    assert order.index("dpas") < len(order) - 1 - order[::-1].index("load_nd")


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_nothing_is_spilled(target: str) -> None:
    """A gradient of attention, of which 960 (pvc) and 1472 bytes (bmg) are spilled where its loads stand together."""
    require_ocloc()
    heads, wide, rows = (xt.Spec((4, 1024, size), dtype) for size, dtype in ((64, xt.bf16), (64, xt.f32), (1, xt.f32)))
    report = backward_dq.lower(heads, heads, heads, heads, rows, rows, wide, target=target).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
