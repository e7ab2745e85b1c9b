"""Prefetches of rows whose pitch or base block messages do not take, in loops of products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.simulator import messages
from codegen.simulator.messages.lanes import read_lanes
from tests.conftest import require_ocloc
from tests.kernels import Execution, integers, tiles
from tests.kernels import product as multiplied
from tests.xetile.passes.test_cooperative_copies import BF16, specs, unaligned
from tests.xetile.passes.test_cooperative_loads import check
from xetile.library.matmul_kernels import product, shares
from xetile.library.tile_heuristics import BLOCK_IO

BM, BN, BK, SG, AHEAD = 64, 32, 32, (2, 2), 2
LINE = 64


@xt.kernel
def prefetching(A: Any, B: Any, C: Any, *, BM: int = BM, BN: int = BN) -> None:
    """A work-group's product, whose operands are prefetched in shares."""
    m, n, count = xt.group_id(0) * BM, xt.group_id(1) * BN, SG[0] * SG[1]
    map_c = xt.wg_map(SG, (BM // SG[0], BN // SG[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(SG, (BM // SG[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(SG, (BK, BN // SG[1])))
    pa = xt.init_tile(A, (m, AHEAD * BK), (BM, BK), wg_map=shares((BM, BK), count, BK))
    pb = xt.init_tile(B, (AHEAD * BK, n), (BK, BN), wg_map=shares((BK, BN), count, BK))
    total = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        xt.prefetch_tile(pa)
        xt.prefetch_tile(pb)
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
        pa, pb = xt.update_tile_offset(pa, 0, BK), xt.update_tile_offset(pb, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


SHAPES = {"no whole tiles": (130, 141, 165), "less than a step": (37, 53, 7), "no step ahead": (65, 33, 40)}


@pytest.mark.unoptimised
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("odd", ["a", "b", "both"])
@pytest.mark.parametrize("execution", [Execution("numpy", "pvc"), Execution("numpy:xegpu", "bmg"),
                                       Execution("opencl:cpu", "pvc"), Execution("opencl:cpu", "bmg")], ids=str)
def test_the_result_is_right(shape: str, odd: str, execution: Execution) -> None:
    m, n, k = SHAPES[shape]
    generator = np.random.default_rng(1)
    a = unaligned(generator, xt.bf16, m, k, k | 1, 1) if odd != "b" else integers(generator, xt.bf16, m, 168)[:, :k]
    b = unaligned(generator, xt.bf16, k, n, n | 1, 1) if odd != "a" else integers(generator, xt.bf16, k, 144)[:, :n]
    check(execution.bind(prefetching), (a, b), (tiles(m, BM), tiles(n, BN)), multiplied(a, b, xt.f32))


@pytest.mark.parametrize(("gpu", "tile"), [("pvc", (64, 32)), ("bmg", (64, 64)), ("pvc", (128, 64))])
def test_lines_of_later_steps_are_prefetched(monkeypatch: pytest.MonkeyPatch, gpu: str, tile: tuple[int, int]) -> None:
    """Machine code prefetches each line from the second next step on, except the last, and none outside the arrays."""
    generator, (m, n, k), (bm, bn) = np.random.default_rng(3), (tile[0] + 66, tile[1] + 21, 421), tile
    a, b = unaligned(generator, xt.bf16, m, k, k, 1), unaligned(generator, xt.bf16, k, n, n, 1)
    lines: set[int] = set()
    addresses: dict[str, int] = {}
    load = messages.EXECUTORS["load"]

    def noted(message: Any, threads: Any, active: Any, memory: Any) -> None:
        if message.result is None and message.unit == "ugm":
            at = read_lanes(threads, message.address, 1, active, "u8")[0].astype(np.int64) + message.offset
            assert not memory.globals.locate(at, message.data_bytes)[1].any()
            lines.update((at // LINE).tolist())
            addresses.update((each.name, each.address) for each in memory.globals.allocations)
        load(message, threads, active, memory)

    monkeypatch.setattr(messages, "EXECUTORS", {**messages.EXECUTORS, "load": noted})
    check(Execution(f"machine:{gpu}", gpu).bind(prefetching), (a, b), (tiles(m, bm), tiles(n, bn)),
          multiplied(a, b, xt.f32), BM=bm, BN=bn)
    later = range(AHEAD * BK, k - 4 * BK)
    for name, rows, columns, pitch in (("A", range(m), later, k), ("B", later, range(n), n)):
        elements = np.add.outer(np.array(rows) * pitch, np.array(columns))
        assert lines >= set(((addresses[name] + 2 * elements) // LINE).ravel().tolist())


def test_where_it_applies() -> None:
    """Loops of products, on targets with block messages, for arrays that these do not reach."""
    odd = specs(BF16, 130, 141, 165)
    for target, expected in (("pvc", 2), ("bmg", 2), ("dg2", 0), ("cpu", 0)):
        stage = str(prefetching.lower(*odd, target=target).stages["legalize"])
        assert stage.count("prefetch_nd") == expected, target


@pytest.mark.everything
@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("shape", [(4096, 50257, 4096), (4096, 4096, 4097), (4096, 50257, 4097)],
                         ids=["b", "a", "both"])
def test_library_tiles(target: str, shape: tuple[int, int, int]) -> None:
    """The library's prefetches of its largest tiles spill nothing."""
    require_ocloc()
    for tiling in BLOCK_IO[:4]:
        constants = {**tiling.constants, "BK": 32, "as_type": xt.bf16, "ahead": 3}
        a, b, c = specs(BF16, *shape)
        report = product.lower(a, b, c, c, 1.0, 0.0, target=target, **constants).report(remedies=False)
        assert (report.spill_size, report.private_size) == (0, 0)
        assert report.loop["prefetch"] >= 2
