"""Distribution of tiles to subgroups by ``wg_map``, in tables and in products."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as pairs

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xetile as xt
from tests.kernels import DEVICE, LANES, NUMPY, Bordered, Execution, gemm_shared, integers, product, tiles

pytestmark = pytest.mark.unoptimised

EXECUTIONS = [NUMPY, *LANES, *DEVICE]


def owners(layout: tuple[int, int], data: tuple[int, int], shape: tuple[int, int]) -> dict[tuple[int, int], list[int]]:
    """XeTile.md's rule, element by element: block (i, j) goes to the subgroup at (i, j) modulo the layout; where a tile
    has fewer blocks than the layout has subgroups, the subgroups go round it again."""
    table: dict[tuple[int, int], list[int]] = {}
    blocks = tuple(shape[axis] // data[axis] for axis in (0, 1))
    for row, column in pairs(range(max(blocks[0], layout[0])), range(max(blocks[1], layout[1]))):
        linear = row % layout[0] * layout[1] + column % layout[1]
        origin = row % blocks[0] * data[0], column % blocks[1] * data[1]
        if linear not in table.setdefault(origin, []):
            table[origin].append(linear)
    return dict(sorted((origin, sorted(ids)) for origin, ids in table.items()))


def test_the_table_of_the_seed() -> None:
    """XeTile.md: a 128x128 tile by sg_layout [2, 2] and sg_data [32, 128]: two rounds down, shared across."""
    map_ = xt.WgMap(sg_layout=(2, 2), sg_data=(32, 128))
    assert map_.owners((128, 128)) == {(0, 0): [0, 1], (32, 0): [2, 3], (64, 0): [0, 1], (96, 0): [2, 3]}
    assert map_.rounds((128, 128)) == (2, 1)


powers = st.sampled_from([1, 2, 3, 4, 8])


@given(st.tuples(powers, powers), st.tuples(powers, powers), st.tuples(powers, powers), st.tuples(*[st.booleans()] * 2))
def test_every_block_has_the_owners_of_the_rule(layout: tuple[int, int], data: tuple[int, int],
                                                times: tuple[int, int], wraps: tuple[bool, bool]) -> None:
    shape = tuple(d if wrap else d * n * t for d, n, t, wrap in zip(data, layout, times, wraps, strict=True))
    table = xt.WgMap(layout, data).owners(shape)
    assert {origin: sorted(ids) for origin, ids in table.items()} == owners(layout, data, shape)


@pytest.mark.parametrize(("layout", "data", "shape"), [((2, 2), (16, 16), (48, 64)), ((4, 1), (16, 16), (96, 16)),
                                                       ((2, 2), (24, 16), (64, 64)), ((4, 4), (16, 16), (16, 96))])
def test_uneven_deals_are_refused(layout: tuple[int, int], data: tuple[int, int], shape: tuple[int, int]) -> None:
    with pytest.raises(xt.ShapeError, match="XT1153"):
        xt.WgMap(layout, data).owners(shape)


Deal = dict[str, tuple[int, int]]
DEALS: dict[str, Deal] = {
    "one round": {"tile": (32, 64), "sg": (2, 2), "data_a": (16, 32), "data_b": (32, 32), "data_c": (16, 32)},
    "rounds down": {"tile": (64, 32), "sg": (2, 2), "data_a": (8, 32), "data_b": (32, 16), "data_c": (8, 16)},
    "rounds across": {"tile": (16, 128), "sg": (2, 2), "data_a": (8, 32), "data_b": (32, 16), "data_c": (8, 16)},
    "rounds both ways": {"tile": (64, 64), "sg": (2, 2), "data_a": (16, 32), "data_b": (32, 16), "data_c": (16, 16)},
    "shared down": {"tile": (16, 64), "sg": (2, 2), "data_a": (16, 32), "data_b": (32, 32), "data_c": (16, 32)},
    "shared across": {"tile": (32, 32), "sg": (2, 2), "data_a": (16, 32), "data_b": (32, 32), "data_c": (16, 32)},
    "shared by all": {"tile": (16, 16), "sg": (2, 2), "data_a": (16, 32), "data_b": (32, 16), "data_c": (16, 16)},
    "rounds down, shared across": {"tile": (64, 16), "sg": (2, 4), "data_a": (16, 32), "data_b": (32, 16),
                                   "data_c": (16, 16)},
    "three by three": {"tile": (48, 48), "sg": (3, 3), "data_a": (16, 32), "data_b": (32, 16), "data_c": (16, 16)},
    "a row of subgroups": {"tile": (16, 96), "sg": (1, 3), "data_a": (16, 32), "data_b": (32, 16), "data_c": (16, 16)},
    "a column of subgroups": {"tile": (96, 16), "sg": (3, 1), "data_a": (16, 32), "data_b": (32, 16),
                              "data_c": (16, 16)},
    "rounds in K": {"tile": (32, 32), "sg": (1, 1), "data_a": (16, 16), "data_b": (16, 16), "data_c": (16, 16)},
}
ON_DEVICE = ("rounds both ways", "rounds down, shared across", "shared by all", "three by three", "rounds in K")


def cases() -> Iterator[object]:
    for name, execution in pairs(DEALS, EXECUTIONS):
        if name in ON_DEVICE or execution not in DEVICE:
            yield pytest.param(DEALS[name], execution, id=f"{name}-{execution}")


@pytest.mark.parametrize(("deal", "execution"), list(cases()))
def test_a_product_is_the_same_however_it_is_dealt_out(deal: Deal, execution: Execution) -> None:
    rng = np.random.default_rng(0)
    bm, bn = deal["tile"]
    maps = {name: value for name, value in deal.items() if name != "tile"}
    for m, n, k in ((bm, bn, 64), (bm + 13, 2 * bn - 7, 75)):
        a, b = integers(rng, xt.bf16, m, k), integers(rng, xt.bf16, k, n)
        c = Bordered(xt.f32, (m, n))
        execution.bind(gemm_shared)[tiles(m, bm), tiles(n, bn)](a, b, c.array, BM=bm, BN=bn, BK=32, **maps)
        c.check(product(a, b, xt.f32))


@pytest.mark.parametrize(("sg", "data_a", "data_b", "data_c"), [((1, 2), (32, 32), (16, 16), (32, 16)),
                                                                ((2, 1), (16, 16), (32, 32), (16, 32))])
def test_operands_that_are_cut_differently_along_k_are_refused(
    sg: tuple[int, int], data_a: tuple[int, int], data_b: tuple[int, int], data_c: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    a, b, c = integers(rng, xt.bf16, 64, 64), integers(rng, xt.bf16, 64, 64), np.full((64, 64), 7, np.float32)
    with pytest.raises(xt.ShapeError, match="XT1413"):
        gemm_shared.on("numpy")[2, 2](a, b, c, BM=32, BN=32, BK=32, sg=sg, data_a=data_a, data_b=data_b, data_c=data_c)
    assert (c == 7).all()


@xt.kernel
def arithmetic(A, C, *, tile, sg, data):
    map_ = xt.wg_map(sg, data)
    offsets = xt.group_id(0) * tile[0], xt.group_id(1) * tile[1]
    value = xt.load_tile(xt.init_tile(A, offsets, tile, wg_map=map_))
    more = xt.full(tile, 3, xt.f32, wg_map=map_)
    xt.store_tile(value * 2 + more, xt.init_tile(C, offsets, tile, wg_map=map_))


@pytest.mark.parametrize("execution", [NUMPY, *LANES, DEVICE[0]], ids=str)
@pytest.mark.parametrize(("sg", "data"), [((2, 2), (8, 16)), ((4, 2), (16, 32)), ((1, 2), (32, 32))])
def test_arithmetic_on_what_is_dealt_out(sg: tuple[int, int], data: tuple[int, int], execution: Execution) -> None:
    a = integers(np.random.default_rng(1), xt.f32, 50, 70)
    c = Bordered(xt.f32, (50, 70))
    execution.bind(arithmetic)[2, 2](a, c.array, tile=(32, 64), sg=sg, data=data)
    c.check(a * 2 + 3)


@pytest.mark.parametrize("execution", [NUMPY, *LANES, *DEVICE], ids=str)
def test_a_prefetch_changes_no_result(execution: Execution) -> None:
    @xt.kernel
    def prefetching(A, C):
        whole = xt.wg_map((2, 1), (16, 32))
        tile = xt.init_tile(A, (xt.group_id(0) * 32, 0), (32, 32), wg_map=whole)
        ahead = xt.init_tile(A, (xt.group_id(0) * 32, 32), (32, 32), wg_map=xt.wg_map((2, 1), (8, 32)))
        total = xt.zeros((32, 32), xt.f32, wg_map=whole)
        for _ in xt.range(0, A.shape[1], 32):
            xt.prefetch_tile(ahead)
            total = total + xt.load_tile(tile)
            tile, ahead = xt.update_tile_offset(tile, 0, 32), xt.update_tile_offset(ahead, 0, 32)
        xt.store_tile(total, xt.init_tile(C, (xt.group_id(0) * 32, 0), (32, 32), wg_map=whole))

    a = integers(np.random.default_rng(2), xt.f32, 50, 100)
    c = np.zeros((50, 32), np.float32)
    execution.bind(prefetching)[2,](a, c)
    padded = np.pad(a, ((0, 0), (0, 28)))
    np.testing.assert_array_equal(c, padded.reshape(50, 4, 32).sum(1))


@xt.kernel
def summed_in_place(A, C, *, sg, scattered, times):
    """C += A, some times; each block is copied to several subgroups."""
    map_ = xt.wg_map(sg, (8, 16))
    a = xt.load_tile(xt.init_tile(A, (0, 0), (16, 16), wg_map=map_))
    rows, columns = (xt.iota((16, 16), axis, xt.index, wg_map=map_) for axis in (0, 1))
    for _ in xt.range(times):
        tile = xt.init_tile(C, rows * 16 + columns) if scattered else xt.init_tile(C, (0, 0), (16, 16), wg_map=map_)
        if scattered:
            xt.store_scatter(a + xt.load_gather(tile), tile)
        else:
            xt.store_tile(a + xt.load_tile(tile), tile)


@pytest.mark.parametrize("execution", [NUMPY, LANES[0], *DEVICE, Execution("machine:bmg", "bmg")], ids=str)
@pytest.mark.parametrize(("sg", "scattered"), [((4, 2), False), ((2, 3), True), ((2, 1), False)])
def test_replicas_are_stored_after_all_have_been_read(sg: tuple[int, int], scattered: bool,
                                                      execution: Execution) -> None:
    a, c = (integers(np.random.default_rng(seed), xt.f32, 16, 16) for seed in (3, 4))
    wanted = 3 * a + c
    execution.bind(summed_in_place)[1](a, c, sg=sg, scattered=scattered, times=3)
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize(("sg", "barriers"), [((4, 2), 1), ((2, 1), 0)])
@pytest.mark.parametrize("scattered", [False, True])
def test_only_replicas_wait(sg: tuple[int, int], barriers: int, scattered: bool) -> None:
    arrays, options = [xt.Spec((16, 16), xt.f32)] * 2, {"sg": sg, "scattered": scattered, "times": 3}
    text = summed_in_place.lower(*arrays, **options, target="pvc").opencl
    assert text.count("barrier(CLK_GLOBAL_MEM_FENCE)") == barriers
    a, c = (integers(np.random.default_rng(seed), xt.f32, 16, 16) for seed in (5, 6))
    summed_in_place.on("numpy", check=True)[1](a, c, **options)


def test_another_map_does_not_wait_for_replicas() -> None:
    @xt.kernel
    def exchanged(A, C):
        copies, rows = xt.wg_map((4, 1), (8, 16)), xt.wg_map((4, 1), (4, 16))
        a = xt.load_tile(xt.init_tile(A, (0, 0), (16, 16), wg_map=copies))
        xt.store_tile(a, xt.init_tile(C, (0, 0), (16, 16), wg_map=copies))
        c = xt.load_tile(xt.init_tile(C, (0, 0), (16, 16), wg_map=rows))
        xt.store_tile(c * 2, xt.init_tile(A, (0, 0), (16, 16), wg_map=rows))

    with pytest.raises(xt.CheckError, match="XT6003"):
        exchanged.on("numpy", check=True)[1](*np.ones((2, 16, 16), np.float32))
