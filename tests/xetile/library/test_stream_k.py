"""Stream-K: where it is chosen, that shared tiles are summed up right, and its machine code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.perf.isa import _loops, read_instructions
from tests.conftest import require_dpnp, require_ocloc
from tests.kernels import DEVICE, LANES, NUMPY, Array, Execution
from xetile.library.matmul_kernels import product
from xetile.library.streamk import first_step, owner, streamed_product, sum_of_shares
from xetile.library.tile_heuristics import choose, plans

pytestmark = pytest.mark.unoptimised
RANDOM = np.random.default_rng(11)


@pytest.mark.parametrize(("target", "size", "shared"), [
    ("pvc", (2560, 1792, 4096), 6), ("bmg", (1536, 3584, 4096), 4), ("dg2", (1280, 1000, 4096), 16),
    ("pvc", (4096, 4096, 4096), 0), ("pvc", (2560, 1792, 512), 0), ("cpu", (2560, 1792, 4096), 0),
])
def test_it_is_chosen_for_the_rest_of_a_wave(target: str, size: tuple[int, int, int], shared: int) -> None:
    tiling = choose(*size, 1, xt.bf16, xt.TARGETS[target], sharing=True)
    assert tiling.shared == shared
    if shared:
        assert math.prod(tiling.groups(*size[:2])) % xt.TARGETS[target].cores == shared
        assert tiling.sharers > shared
        found = plans(*size, 1, xt.bf16, xt.TARGETS[target])
        best = {sharing: min(plan.clocks for plan in found if plan.tiling.is_shared is sharing)
                for sharing in (True, False)}
        assert best[True] < best[False]


@pytest.mark.parametrize(("groups", "total"), [(6, 21), (4, 12), (5, 5), (7, 8), (64, 768)])
def test_every_step_has_one_owner(groups: int, total: int) -> None:
    @xt.kernel
    def places(C):
        tile = xt.init_tile(C, (xt.group_id(0), 0), (1, 16))
        step = xt.group_id(0)
        group = owner(step, groups, C.shape[0])
        here = (first_step(group, groups, C.shape[0]) <= step) & (step < first_step(group + 1, groups, C.shape[0]))
        xt.store_tile(xt.full((1, 16), xt.where(here, group, -1).to(xt.i32), xt.i32), tile)

    c = np.full((total, 16), 99, np.int32)
    places.on("numpy")[total](c)
    assert (np.diff(c[:, 0]) >= 0).all()
    assert sorted({*c[:, 0]}) == list(range(groups))
    assert set(np.bincount(c[:, 0])) <= {total // groups, -(-total // groups)}


def streamed(execution: Execution, a: Array, b: Array, c: Array, bias: Array, sharers: int, *, at_once: int) -> None:
    """C = relu(A @ B / 2 - C + bias) with tiles of 16 x 64, of which those left over from whole waves are shared."""
    rows, columns, depth = 16, 64, 32
    tiles = math.prod(c.shape[:-2]) * -(-c.shape[-2] // rows) * -(-c.shape[-1] // columns)
    shared = tiles % at_once
    work = np.full((2 * sharers, rows, columns), np.nan, np.float32)
    ending = {"scaled": True, "added": True, "spread": (True, False), "activation": lambda x: xt.maximum(x, 0)}
    execution.bind(streamed_product)[sharers + tiles - shared](
        a, b, c, work, bias, 0.5, -1.0, shared, sharers, BM=rows, BN=columns, BK=depth, sg=(2, 2), as_type=xt.f16,
        **ending)
    execution.bind(sum_of_shares)[2, shared](work, c, bias, 0.5, -1.0, shared, sharers, -(-a.shape[-1] // depth),
                                             BM=rows, BN=columns, rows=16, columns=32, sg=(2, 1), **ending)


CASES = [((2, 2), (20, 70, 201), 7, 6), ((), (33, 130, 130), 14, 64), ((), (16, 64, 300), 10, 2),
         ((3,), (9, 40, 64), 4, 8)]
"""Batch, M, N and K, work-groups that share tiles, and those that run at once."""


@pytest.mark.launches
@pytest.mark.parametrize(("case", "execution"),
                         [*((case, execution) for case in CASES for execution in (NUMPY, *LANES)),
                          *((CASES[0], execution) for execution in DEVICE)], ids=str)
def test_shared_tiles_are_summed_up(case: Any, execution: Execution) -> None:
    batch, (m, n, k), sharers, at_once = case
    a, b, c, bias = (RANDOM.integers(-4, 5, shape).astype(kind) for shape, kind in (
        ((*batch, m, k), np.float16), ((*batch, k, n), np.float16), ((*batch, m, n), np.float32),
        ((*batch, 1, n), np.float32)))
    frame = np.full((*batch, m + 2, n + 3), 77, np.float32)
    frame[..., 1:-1, 2:-1] = c
    expected = frame.copy()
    expected[..., 1:-1, 2:-1] = np.maximum(np.matmul(a.astype(np.float32), b.astype(np.float32)) / 2 - c + bias, 0)
    streamed(execution, a, b, frame[..., 1:-1, 2:-1], bias, sharers, at_once=at_once)
    np.testing.assert_array_equal(frame, expected)


def test_matmul_takes_it() -> None:
    target, (m, n, k) = "arl", (60, 130, 1000)
    assert choose(m, n, k, 1, xt.f32, xt.TARGETS[target], sharing=True).shared == 3
    a, b, bias = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), n))
    exact = a.astype(np.float64) @ b + bias
    bound = (k + 3) * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b) + np.abs(bias))
    dpnp = require_dpnp()
    device = xt.matmul(dpnp.asarray(a), dpnp.asarray(b), bias=dpnp.asarray(bias), activation="relu", target=target)
    for result in (xt.matmul(a, b, bias=bias, activation="relu", target=target), dpnp.asnumpy(device)):
        assert (np.abs(result - np.maximum(exact, 0)) <= bound).all()
    whole = RANDOM.integers(-128, 128, (2, m, k)).astype(np.int8), RANDOM.integers(-128, 128, (2, k, n)).astype(np.int8)
    for tiles in (target, None):
        got = xt.matmul(*whole, out_dtype=np.int32, target=tiles)
        np.testing.assert_array_equal(got, np.matmul(*(x.astype(np.int32) for x in whole)))


def hot_loops(low: Any) -> list[tuple[int, int]]:
    """Instructions and dpas of the loops of products, without those that do what unrolled ones leave over."""
    (facts,) = low.isa().kernels.values()
    instructions, positions = read_instructions(facts.asm)
    counted = [(stop - start, sum(i.category == "dpas" for i in instructions[start:stop]))
               for start, stop in _loops(instructions, positions)]
    most = max(dpas for _, dpas in counted)
    return [(total, dpas) for total, dpas in counted if dpas >= most / 2 and total < 2 * dpas]


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_its_loops_are_as_dense_as_the_plain_kernels(target: str) -> None:
    require_ocloc()
    spec, work = xt.Spec((None, None), xt.bf16), xt.Spec((None, None, None), xt.f32)
    constants = {"BM": 256, "BN": 256, "BK": 32, "sg": (8, 4), "as_type": xt.bf16, "ahead": 3, "spread": (True, False)}
    plain = product.lower(spec, spec, spec, spec, 1.0, 0.0, target=target, **constants).report()
    low = streamed_product.lower(spec, spec, spec, work, spec, 1.0, 0.0, 3, 64, target=target, **constants)
    report, loops = low.report(), hot_loops(low)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert [dpas for _, dpas in loops] == [32 * report.unrolled] * 2  # of shared tiles, and of whole ones
    assert min(dpas / total for total, dpas in loops) >= plain.density - 0.02
    ends = sum_of_shares.lower(work, spec, spec, 1.0, 0.0, 3, 64, 128, BM=256, BN=256, rows=32, columns=64, sg=(4, 2),
                               target=target, spread=(True, False)).report()
    assert (ends.spill_size, ends.private_size) == (0, 0)
