"""Payload groups: scores of keys at addresses that follow from each other, in all executions and in the stages."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution
from xegpu.ir.region_branch import for_loops
from xegpu.passes.loops.payload_groups import groups_of

pytestmark = pytest.mark.unoptimised
BM, BN = 16, 64


@xt.kernel
def scores(Q, K, C, *, D=32, form="carried", cache=None):
    """Scores of all tiles of keys, each halved before the next is added: c = c / 2 + q @ k.T."""
    m, head = xt.group_id(0) * BM, xt.group_id(1)
    map_q, map_k, map_s = (xt.wg_map((2, 1), size) for size in ((BM // 2, D), (BN, D), (BM // 2, BN)))
    q = xt.load_tile(xt.init_tile(Q, (head, m, 0), (BM, D), wg_map=map_q))
    k, c = xt.init_tile(K, (head, 0, 0), (BN, D), wg_map=map_k), xt.zeros((BM, BN), xt.f32, wg_map=map_s)
    for n in xt.range(0, K.shape[1], BN):
        if form == "inside":
            k = xt.init_tile(K, (head, n, 0), (BN, D), wg_map=map_k)
        elif form == "backward":  # rows are no sum of the counter and constants
            k = xt.init_tile(K, (head, (K.shape[1] - 1) // BN * BN - n, 0), (BN, D), wg_map=map_k)
        c = xt.tile_mma(q, xt.tile_transpose(xt.load_tile(k, l1=cache), wg_map=xt.wg_map((2, 1), (D, BN))), c * 0.5)
        if form == "carried":
            k = xt.update_tile_offset(k, BN, 0)
    xt.store_tile(c, xt.init_tile(C, (head, m, 0), (BM, BN), wg_map=map_s))


@xt.kernel
def of_two(Q, K, L, C, first, *, D=64, E=64, times=1):
    """Scores of keys in two arrays, whose groups are made in a loop around the steps."""
    q, p = (xt.load_tile(xt.init_tile(Q, (0, 0), (BM, size))) for size in (D, E))
    c = xt.zeros((BM, BN), xt.f32)
    for i in xt.range(times):
        for n in xt.range(first, K.shape[0], BN):
            k = xt.load_tile(xt.init_tile(K, (n + i, 0), (BN, D)))
            c = xt.tile_mma(q, xt.tile_transpose(k), c - c * 0.5)
            other = xt.load_tile(xt.init_tile(L, (n - 3, i * 16), (BN, E)))
            c = xt.tile_mma(p, xt.tile_transpose(other), c)
    xt.store_tile(c, xt.init_tile(C, (0, 0), (BM, BN)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, Execution("machine:pvc", "pvc")], ids=str)
@pytest.mark.parametrize(("first", "times", "E"), [(0, 1, 64), (-10, 2, 128)])
def test_two_groups_in_nested_loops(execution: Execution, first: int, times: int, E: int) -> None:
    """Their payloads have words of their own, whatever the compiler makes of what sets these."""
    rng = np.random.default_rng(8)
    q, k, other = (rng.integers(-2, 3, (rows, columns)) for rows, columns in ((BM, 128), (150, 64), (150, 160)))
    padded, shifted = np.zeros((2, 320, 160), int)
    padded[64:214, :64], shifted[67:217] = k, other
    expected = np.zeros((BM, BN))
    for i in range(times):
        for n in range(64 + first, 214, BN):
            expected = expected / 2 + q[:, :64] @ padded[n + i:n + i + BN, :64].T
            expected += q[:, :E] @ shifted[n:n + BN, i * 16:i * 16 + E].T
    c = np.full((BM, BN), 7, np.float32)
    q, k, other = (array.astype(ml_dtypes.bfloat16) for array in (q, k, other))
    execution.bind(of_two)[1](q, k, other, c, first, E=E, times=times)
    np.testing.assert_array_equal(c, expected)


def _specs(dtype: Any = xt.bf16) -> tuple[xt.Spec, ...]:
    return xt.Spec((None, None, None), dtype), xt.Spec((None, None, None), dtype), xt.Spec((None, None, None), xt.f32)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("form", "rows", "keys", "D"), [("carried", 21, 150, 32), ("inside", 16, 70, 64),
                                                         ("backward", 19, 128, 40), ("inside", 16, 0, 32)])
def test_all_executions(execution: Execution, form: str, rows: int, keys: int, D: int) -> None:
    """Columns of 40 of 64: blocks that lie in part outside; a head more in the result that must stay."""
    rng = np.random.default_rng(rows + keys)
    q, k = (rng.integers(-3, 4, (2, size, D)).astype(ml_dtypes.bfloat16) for size in (rows, keys))
    c = np.full((3, rows, BN + 3), 7, np.float32)
    expected = np.zeros((2, rows, BN))
    starts = range(0, keys, BN)
    for n in reversed(starts) if form == "backward" else starts:
        tile = np.zeros((2, BN, D))
        tile[:, :len(k[0, n:n + BN])] = k[:, n:n + BN].astype(np.float64)
        expected = expected / 2 + q.astype(np.float64) @ tile.swapaxes(1, 2)
    execution.bind(scores)[-(-rows // BM), 2](q, k, c, D=-(-D // 32) * 32, form=form)
    np.testing.assert_array_equal(c[:2, :, :BN], expected)
    assert (c[2] == 7).all()
    assert (c[:, :, BN:] == 7).all()


@pytest.mark.parametrize(("form", "D"), [("carried", 32), ("inside", 64), ("backward", 32), ("inside", 128)])
def test_rows_of_a_group(form: str, D: int) -> None:
    """Rows of four blocks, each a block's columns from the row before; those of a step move alike."""
    module = scores.lower(*_specs(), target="pvc", form=form, D=D).modules["hoist-payloads"]
    (loop,) = for_loops(module)
    (group,) = groups_of(loop)
    assert len(group.loads) == D // 4
    assert len(group.bases) == 4
    assert group.distances == ((0, 16),) * (D // 16 - 1)


@pytest.mark.parametrize("form", ["carried", "backward"])
def test_the_stage_reads_back_and_runs(form: str) -> None:
    text = scores.lower(*_specs(), target="pvc", form=form).stages["hoist-payloads"]
    rng = np.random.default_rng(5)
    q, k = (rng.integers(-3, 4, (1, size, 32)).astype(ml_dtypes.bfloat16) for size in (16, 96))
    read, plain = (np.full((1, 16, BN), 7, np.float32) for _ in range(2))
    module = xt.parse(text)
    assert str(module) == text
    module["scores"].on("numpy")[1, 1](q, k, read)
    scores.on("numpy")[1, 1](q, k, plain, form=form)
    np.testing.assert_array_equal(read, plain)


def test_where_there_are_none() -> None:
    """Where messages take distances or have a cache policy; in loops that only multiply; of a few blocks."""
    assert "payload_group" not in str(scores.lower(*_specs(), target="bmg").final)
    assert "payload_group" not in str(scores.lower(*_specs(), target="pvc", cache="streaming").final)
    assert "payload_group" not in str(scores.lower(*_specs(xt.tf32), target="pvc", D=8).final)
    assert "move_payloads" in scores.lower(*_specs(), target="pvc").opencl


def test_machine_code() -> None:
    """Of 32 messages none waits for a register of another one's address, and no address is set by itself."""
    require_ocloc()
    report = scores.lower(*_specs(), target="pvc", D=128).report()
    asm = report.mix
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.loop["load_block2d"] >= 32
    assert report.loop["scalar"] < 8, asm
