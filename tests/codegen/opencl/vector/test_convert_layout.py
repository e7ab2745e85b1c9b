"""Layout conversions: lane tables, and registers that are reinterpreted."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xetile as xt
from codegen.opencl.vector.lane_exchange import index_table
from tests.conftest import require_ocloc
from tests.kernels import Execution, integers

RNG = np.random.default_rng(2)
TABLES = [[3] * 16, list(range(16)),
          [2 * lane % 16 for lane in range(16)], list(range(15, -1, -1)), [7, 6, 5, 4, 3, 2, 1, 0],
          *RNG.integers(0, 16, (5, 16)).tolist()]


@pytest.mark.parametrize("values", TABLES)
def test_a_table_gives_its_values(values: list[int]) -> None:
    expression = re.sub(r"\b(0x[0-9a-f]+|\d+)ul?\b", r"\1", index_table(values, "lane")).replace("(uint)", "")
    assert [eval(expression, {"lane": lane}) for lane in range(len(values))] == values


@xt.kernel
def chained(Q, K, V, O, *, D=32, BM=16, BN=16):  # noqa: E741 - O as in the papers
    """(Q @ K^T).to(V.dtype) @ V: results of the first product are operand A of the second."""
    m = xt.group_id(0) * BM
    q, out = xt.load_tile(xt.init_tile(Q, (m, 0), (BM, D))), xt.zeros((BM, D), xt.f32)
    k, v = xt.init_tile(K, (0, 0), (BN, D)), xt.init_tile(V, (0, 0), (BN, D))
    for _ in xt.range(0, K.shape[0], BN):
        s = xt.tile_mma(q, xt.tile_transpose(xt.load_tile(k)))
        out = xt.tile_mma(s.to(V.dtype), xt.load_tile(v), out)
        k, v = xt.update_tile_offset(k, BN, 0), xt.update_tile_offset(v, BN, 0)
    xt.store_tile(out, xt.init_tile(O, (m, 0), (BM, D)))


@pytest.mark.optimised
@pytest.mark.parametrize("execution", [Execution("numpy:xegpu", "dg2"), Execution("opencl:cpu", "dg2"),
                                       Execution("opencl:cpu", "pvc"), Execution("machine:dg2", "dg2")], ids=str)
@pytest.mark.parametrize("columns", [32, 30, 31])
@pytest.mark.parametrize("dtype", [xt.f16, xt.bf16], ids=str)
def test_results_become_operands(dtype: xt.DType, columns: int, execution: Execution) -> None:
    """Rows of whole words, rows that end inside a block, and rows that begin in the middle of a word."""
    rng = np.random.default_rng(columns)
    q, k, v = (integers(rng, dtype, rows, columns, most=2) for rows in (13, 37, 37))
    out = np.full((13, columns), 7, np.float32)
    execution.bind(chained)[1](q, k, v, out)
    scores = q.astype(np.float32) @ k.astype(np.float32).T
    np.testing.assert_array_equal(out, scores.astype(dtype.numpy).astype(np.float32) @ v.astype(np.float32))


@pytest.mark.parametrize("target", ["dg2", "arl"])
def test_subgroups_of_8_read_columns_by_words_and_move_nothing_between_lanes(target: str) -> None:
    require_ocloc()
    heads = xt.Spec((None, None), xt.bf16)
    report = chained.lower(heads, heads, heads, xt.Spec((None, None), xt.f32), target=target).report()
    assert (report.spill_size, report.loop["dpas"]) == (0, 16)
    assert report.loop["load"] == 4 + 16  # vectors of 8 words a lane for K^T, rows of V
    assert report.loop["vector"] <= 200
