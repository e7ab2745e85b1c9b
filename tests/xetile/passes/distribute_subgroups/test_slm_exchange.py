"""Work-group values redistributed: other layouts, transposes and reductions across subgroups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import NUMPY, Execution, integers, wide

pytestmark = pytest.mark.unoptimised

LANES = [Execution("numpy:xegpu", target) for target in ("pvc", "dg2")]
DEVICE = [Execution("opencl:cpu", target) for target in ("pvc", "dg2", "cpu")]
EXECUTIONS = [NUMPY, *LANES, *DEVICE]
Pair = tuple[int, int]
Map = tuple[Pair, Pair]


@xt.kernel
def relaid(A, C, *, shape, source, layout, more=0):
    """C = A + more, loaded by one map and stored by another."""
    m = xt.group_id(0) * shape[0]
    v = xt.load_tile(xt.init_tile(A, (m, 0), shape, wg_map=xt.wg_map(*source))) + more
    map_ = xt.wg_map(*layout)
    xt.store_tile(xt.tile_conv_layout(v, map_), xt.init_tile(C, (m, 0), shape, wg_map=map_))


@xt.kernel
def transposed(A, C, *, shape, source, layout, more=0):
    """C = (A + more)^T; without ``more`` the transposed vector is one that was loaded."""
    n = xt.group_id(0) * shape[1]
    v = xt.load_tile(xt.init_tile(A, (0, n), shape, wg_map=xt.wg_map(*source)))
    if more:
        v = v + more
    map_ = xt.wg_map(*layout)
    xt.store_tile(xt.tile_transpose(v, wg_map=map_), xt.init_tile(C, (n, 0), shape[::-1], wg_map=map_))


@xt.kernel
def reduced(A, C, *, shape, source, axis, kind="add", layout=None):
    m = xt.group_id(0) * shape[0]
    v = xt.load_tile(xt.init_tile(A, (m, 0), shape, wg_map=xt.wg_map(*source)))
    if layout is not None:
        v = xt.tile_conv_layout(v, xt.wg_map(*layout))
    r = xt.tile_reduce(kind, v, axis)
    at = (xt.group_id(0), 0) if axis != 1 else (m, 0)
    xt.store_tile(r, xt.init_tile(C, at, r.shape, wg_map=r.wg_map))


@xt.kernel
def centred(A, C, *, shape, source):
    """C = A less the largest element of each row, twice, in a loop: buffers are used again."""
    m = xt.group_id(0) * shape[0]
    map_ = xt.wg_map(*source)
    v = xt.load_tile(xt.init_tile(A, (m, 0), shape, wg_map=map_))
    for _ in xt.range(2):
        v = v * 2 - xt.tile_broadcast(xt.tile_reduce("max", v, 1), shape, wg_map=map_)
    xt.store_tile(v, xt.init_tile(C, (m, 0), shape, wg_map=map_))


LAYOUTS: dict[str, tuple[Pair, Map, Map]] = {
    "rows to columns": ((32, 64), ((4, 1), (8, 64)), ((1, 4), (32, 16))),
    "blocks to rows": ((32, 64), ((2, 2), (16, 32)), ((4, 1), (8, 64))),
    "several rounds": ((64, 64), ((2, 2), (16, 16)), ((4, 1), (8, 64))),
    "shared": ((16, 64), ((4, 1), (16, 64)), ((2, 2), (8, 32))),
    "to shared": ((32, 32), ((2, 2), (16, 16)), ((4, 1), (32, 32))),
    "not a power of two": ((48, 96), ((3, 2), (16, 48)), ((2, 3), (24, 32))),
}


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_another_layout(execution: Execution, name: str) -> None:
    shape, source, target = LAYOUTS[name]
    dtype = ["f32", "bf16", "i8"][list(LAYOUTS).index(name) % 3]
    a = integers(np.random.default_rng(1), dtype, 2 * shape[0], shape[1])
    c = np.zeros_like(a)
    execution.bind(relaid)[2](a, c, shape=shape, source=source, layout=target, more=3)
    np.testing.assert_array_equal(wide(c), wide(a) + 3)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_what_is_larger_than_shared_memory_goes_in_slabs(execution: Execution) -> None:
    """XeTile.md's tile of Appendix 2.2: 256x256 f32 are 256 KB, and a work-group can count on 64 (32 on a CPU)."""
    shape, source, target = (256, 256), ((8, 4), (32, 64)), ((32, 1), (8, 256))
    a = integers(np.random.default_rng(2), "f32", 256, 256, most=1000)
    c = np.zeros_like(a)
    execution.bind(relaid)[1](a, c, shape=shape, source=source, layout=target, more=1)
    np.testing.assert_array_equal(c, a + 1)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("more", [0, 3])
@pytest.mark.parametrize(("dtype", "shape", "source", "target"), [
    ("f16", (64, 32), ((2, 2), (32, 16)), ((2, 2), (16, 32))),
    ("i32", (64, 32), ((4, 1), (16, 32)), ((2, 2), (16, 32))),
    ("u8", (32, 32), ((4, 1), (8, 32)), ((4, 1), (32, 32))),
])
def test_transposes_across_subgroups(execution: Execution, more: int, dtype: str, shape: Pair, source: Map,
                                     target: Map) -> None:
    a = integers(np.random.default_rng(3), dtype, shape[0], 2 * shape[1])
    c = np.zeros((a.shape[1], a.shape[0]), a.dtype)
    execution.bind(transposed)[2](a, c, shape=shape, source=source, layout=target, more=more)
    np.testing.assert_array_equal(wide(c), wide(a).T + more)


REDUCTIONS: dict[str, tuple[Pair, Map, Map | None]] = {
    "own": ((32, 64), ((4, 1), (8, 64)), None),
    "across columns": ((32, 64), ((2, 2), (16, 32)), None),
    "across both": ((64, 64), ((4, 4), (16, 16)), None),
    "rounds": ((64, 64), ((2, 2), (16, 16)), None),
    "through another layout": ((64, 64), ((2, 2), (32, 32)), ((4, 1), (16, 64))),
}
EXPECTED: dict[str, Any] = {"add": np.sum, "max": np.max, "min": np.min}


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(("kind", "dtype", "axis"), [("add", "f32", 0), ("max", "bf16", 1), ("min", "i32", (0, 1)),
                                                     ("add", "f16", 1), ("add", "f32", (0, 1))])
def test_reductions_across_subgroups(execution: Execution, name: str, axis: Any, kind: str, dtype: str) -> None:
    shape, source, target = REDUCTIONS[name]
    a = integers(np.random.default_rng(4), dtype, 2 * shape[0], shape[1], most=9)
    whole = wide(a).reshape(2, *shape)
    along = tuple(i + 1 for i in (axis if isinstance(axis, tuple) else (axis,)))
    expected = EXPECTED[kind](whole, axis=along, keepdims=True)
    expected = expected.reshape(-1, expected.shape[-1])
    c = np.zeros(expected.shape, a.dtype)
    execution.bind(reduced)[2](a, c, shape=shape, source=source, axis=axis, kind=kind, layout=target)
    np.testing.assert_array_equal(wide(c), expected)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("name", ["own", "across columns", "rounds"])
def test_a_loop_uses_the_buffers_again(execution: Execution, name: str) -> None:
    shape, source, _ = REDUCTIONS[name]
    a = integers(np.random.default_rng(5), "i32", 2 * shape[0], shape[1], most=50)
    c, expected = np.zeros_like(a), a
    execution.bind(centred)[2](a, c, shape=shape, source=source)
    for _ in range(2):
        expected = expected * 2 - expected.max(axis=1, keepdims=True)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize(("name", "axis", "bytes_"), [("own", 1, 0), ("across columns", 1, 32 * 2 * 4),
                                                      ("through another layout", 1, 64 * 2 * 4)])
@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_shared_memory_holds_partial_results_only(name: str, axis: int, bytes_: int, target: str) -> None:
    require_ocloc()
    shape, source, layout = REDUCTIONS[name]
    a, c = xt.Spec((1024, shape[1]), xt.f32), xt.Spec((1024, 1), xt.f32)
    report = reduced.lower(a, c, target=target, shape=shape, source=source, axis=axis, layout=layout).report()
    assert report.slm_size == bytes_
    assert report.spill_size == 0


def test_the_optimised_transpose_of_the_seed_needs_no_exchange() -> None:
    """XeTile.md, Appendix 2.3: every subgroup loads what it needs, so nothing goes through shared local memory."""
    require_ocloc()
    for source in (((32, 1), (64, 32)), ((4, 8), (64, 32))):
        a, c = xt.Spec((4096, 4096), xt.f16), xt.Spec((4096, 4096), xt.f16)
        report = transposed.lower(a, c, shape=(256, 32), source=source, layout=((8, 4), (32, 64))).report()
        assert report.slm_size == 0
        assert "slm" not in report.mix.whole.categories
        assert report.spill_size <= 832  # storing a whole transposed tile; as an operand of a product nothing spills


def test_blocks_too_large_for_shared_memory_are_refused() -> None:
    shape, source, target = (256, 256), ((8, 1), (256, 32)), ((1, 8), (32, 256))
    lowered = relaid.lower(*[xt.Spec(shape, xt.f32)] * 2, shape=shape, source=source, layout=target, more=1)
    with pytest.raises(xt.XeError, match="XT2521"):
        str(lowered.xegpu)


@xt.kernel
def transposed_comparison(A, C, *, shape, source, layout):
    v = xt.load_tile(xt.init_tile(A, (0, 0), shape, wg_map=xt.wg_map(*source))) < 0
    xt.store_tile(xt.tile_transpose(v), xt.init_tile(C, (0, 0), shape[::-1], wg_map=xt.wg_map(*layout)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_truth_values(execution: Execution) -> None:
    """Bytes of 0 and 1 in shared local memory, and not the shorts that registers hold."""
    a = integers(np.random.default_rng(3), "f32", 8, 64)
    c = np.ones((64, 8), np.bool_)
    execution.bind(transposed_comparison)[1](a, c, shape=(8, 64), source=((2, 4), (2, 16)), layout=((4, 2), (16, 2)))
    assert np.array_equal(c, (a < 0).T)


@xt.kernel
def transposed_and_reduced(A, T, C):
    """T = A^T and C its rows' sums: two exchanges, of which the first could take all shared memory of the CPU."""
    v = xt.load_tile(xt.init_tile(A, (0, 0), (64, 64), wg_map=xt.wg_map((2, 4), (16, 16))))
    t = xt.tile_transpose(v)
    xt.store_tile(t, xt.init_tile(T, (0, 0), (64, 64), wg_map=xt.wg_map((4, 2), (16, 16))))
    r = xt.tile_reduce("minui", t, 1)
    xt.store_tile(r, xt.init_tile(C, (0, 0), (64, 1), wg_map=r.wg_map))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_an_exchange_leaves_memory_for_the_next(execution: Execution) -> None:
    a = np.random.default_rng(4).integers(0, 2**64, (64, 64), np.uint64)
    t, c = np.zeros((64, 64), np.uint64), np.zeros((64, 1), np.uint64)
    execution.bind(transposed_and_reduced)[1](a, t, c)
    assert np.array_equal(t, a.T)
    assert np.array_equal(c[:, 0], a.min(0))
