"""Scattered tiles: ``load_gather``, ``store_scatter`` and atomic updates of them, in every execution."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from codegen.toolchain.ocloc import compile_device, disassemble
from tests.conftest import require_ocloc, require_sycl_compiler
from tests.kernels import EXECUTIONS, NUMPY, Array, Execution, integers
from xegpu.ir import dtypes

pytestmark = pytest.mark.unoptimised

SOME = [NUMPY, Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "dg2"), Execution("opencl:cpu", "pvc"),
        Execution("opencl:cpu", "dg2"), Execution("opencl:cpu", "cpu")]
TYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32,
         np.uint32, np.int64, np.uint64]
WILD = np.array([-2**31, 2**31 - 1, -1, 10**9, -77], np.int32)


def loaded(array, at, shape, wg_map=None):
    return xt.load_tile(xt.init_tile(array, at, shape, wg_map=wg_map))


@xt.kernel
def copy(A, AT, M, J, C, *, shape, padding=0, wg_map=None):
    """C[J] = A[AT], where M is true."""
    here = (xt.group_id(0) * shape[0], 0)
    mask = loaded(M, here, shape, wg_map)
    source = xt.init_tile(A, offsets=loaded(AT, here, shape, wg_map).to(xt.index))
    target = xt.init_tile(C, offsets=loaded(J, here, shape, wg_map).to(xt.index))
    xt.store_scatter(xt.load_gather(source, mask, padding=padding), target)


@xt.kernel
def count(C, AT, M, V, OLD, *, shape, kind="add", wg_map=None):
    """C[AT] += V where M is true."""
    here = (xt.group_id(0) * shape[0], 0)
    mask = loaded(M, here, shape, wg_map)
    tile = xt.init_tile(C, offsets=loaded(AT, here, shape, wg_map).to(xt.index))
    old = xt.atomic_rmw_tile(kind, loaded(V, here, shape, wg_map), tile, mask)
    xt.store_tile(old, xt.init_tile(OLD, here, shape, wg_map=wg_map))


def places_in(rng: np.random.Generator, size: int, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Offsets into ``size`` elements, and a mask; offsets that are masked off are wild."""
    mask = rng.integers(0, 3, shape) > 0
    at = rng.integers(0, size, shape).astype(np.int32)
    at[~mask] = rng.choice(WILD, int((~mask).sum()))
    return at, mask


def distinct(rng: np.random.Generator, size: int, shape: tuple[int, int]) -> Array:
    """Offsets into ``size`` elements, all different."""
    return rng.permutation(size)[:shape[0] * shape[1]].reshape(shape).astype(np.int32)


def picked(a: Array, at: Array, mask: Array, padding: Any = 0) -> Array:
    return np.where(mask, a.reshape(-1)[np.where(mask, at, 0)], np.asarray(padding, a.dtype))


@pytest.mark.parametrize(("dtype", "execution"), [(dtype, execution) for dtype in TYPES for execution in SOME
                                                  if not (dtype is np.float64 and execution.target == "dg2")], ids=str)
def test_every_type(dtype, execution):
    rng = np.random.default_rng(1)
    a, c = integers(rng, dtype, 31, 37, most=100), np.full((64, 40), 99, dtype)
    at, mask = places_in(rng, a.size, (16, 32))
    to = distinct(rng, c.size, (16, 32))
    execution.bind(copy)[2](a, at, mask, to, c, shape=(8, 32), padding=3)
    expected = np.full(c.size, 99, dtype)
    expected[to] = picked(a, at, mask, 3)
    assert (c.reshape(-1) == expected).all()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("shape", [(1, 256), (8, 32), (8, 8), (24, 48), (2, 16)], ids=str)
def test_every_shape(shape, execution):
    rng = np.random.default_rng(2)
    rows = 3 * shape[0]
    a, c = integers(rng, "f32", 5000), np.zeros(rows * shape[1], np.float32)
    at, mask = places_in(rng, a.size, (rows, shape[1]))
    to = distinct(rng, c.size, (rows, shape[1]))
    execution.bind(copy)[3](a, at, mask, to, c, shape=shape)
    assert (c[to] == picked(a, at, mask)).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
@pytest.mark.parametrize("map_", [xt.wg_map((2, 2), (8, 16)), xt.wg_map((4, 1), (8, 64)), xt.wg_map((1, 4), (16, 16))],
                         ids=str)
def test_a_work_groups_tile(map_, execution):
    rng = np.random.default_rng(3)
    a, c = integers(rng, "f16", 40, 50), np.zeros(64 * 64, np.float16)
    at, mask = places_in(rng, a.size, (64, 64))
    to = distinct(rng, c.size, (64, 64))
    execution.bind(copy)[2](a, at, mask, to, c, shape=(32, 64), padding=-1.5, wg_map=map_)
    assert (c[to] == picked(a, at, mask, -1.5)).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_every_element_by_its_own_way(execution):
    """Offsets move in a loop, each by its own step; the tile is carried."""
    @xt.kernel
    def walk(A, AT, STEP, C):
        tile = xt.init_tile(A, offsets=loaded(AT, (0, 0), (8, 32)).to(xt.index))
        step = loaded(STEP, (0, 0), (8, 32)).to(xt.index)
        total = xt.zeros((8, 32), xt.f32)
        for _ in xt.range(0, 5):
            total = total * 2.0 + xt.load_gather(tile)
            tile = xt.update_tile_offset(tile, step)
        xt.store_tile(total, xt.init_tile(C, (0, 0), (8, 32)))

    rng = np.random.default_rng(4)
    a, c = integers(rng, "f32", 2000), np.zeros((8, 32), np.float32)
    start, step = (rng.integers(800, 1200, (8, 32)).astype(np.int32), rng.integers(-200, 200, (8, 32)).astype(np.int32))
    expected = np.zeros((8, 32))
    for i in range(5):
        expected = expected * 2 + a[start + i * step]
    execution.bind(walk)[1](a, start, step, c)
    assert (c == expected).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_indices_are_computed_with(execution):
    """Offsets from rows and columns, by the array's strides."""
    @xt.kernel
    def take(A, ROW, COLUMN, C):
        row, column = (loaded(x, (0, 0), (8, 32)).to(xt.index) for x in (ROW, COLUMN))
        tile = xt.init_tile(A, offsets=row * A.strides[0] + column * A.strides[1])
        xt.prefetch_tile(tile)
        xt.store_tile(xt.load_gather(tile), xt.init_tile(C, (0, 0), (8, 32)))

    rng = np.random.default_rng(5)
    row, column = rng.integers(0, 20, (8, 32)).astype(np.int32), rng.integers(0, 30, (8, 32)).astype(np.int32)
    whole = integers(rng, "i32", 60, 60, most=1000)
    for a in (whole[:20, :30], whole.T[3:23, 5:35], whole[40::-2, ::2]):
        c = np.zeros((8, 32), np.int32)
        execution.bind(take)[1](a, row, column, c)
        assert (c == a[row, column]).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_what_is_masked_off_is_not_stored(execution):
    @xt.kernel
    def put(C, AT, M, V):
        tile = xt.init_tile(C, offsets=loaded(AT, (0, 0), (8, 32)).to(xt.index))
        xt.store_scatter(loaded(V, (0, 0), (8, 32)), tile, loaded(M, (0, 0), (8, 32)))

    rng = np.random.default_rng(6)
    whole = integers(rng, "i16", 900)
    expected, v = whole.copy(), integers(rng, "i16", 8, 32, most=1000)
    to = distinct(rng, 700, (8, 32))
    mask = rng.integers(0, 2, (8, 32)) > 0
    expected[100:800][to[mask]] = v[mask]
    to[~mask] = rng.choice(WILD, int((~mask).sum()))
    execution.bind(put)[1](whole[100:800], to, mask, v)
    assert (whole == expected).all()


@pytest.mark.parametrize(("dtype", "execution"),
                         [(dtype, execution) for dtype in ("i32", "f32", "f64", "u64", "u8", "bf16")
                          for execution in SOME if (dtype, execution.target) != ("f64",
                                                                                 "dg2")], ids=str)
def test_updates_of_one_element(dtype, execution):
    """Twenty elements for thousands of updates: the sum is whole, and the old values are its way there."""
    rng = np.random.default_rng(7)
    shape = (64, 32)
    c, element = integers(rng, dtype, 20, most=3), dtypes.of(dtype).numpy
    before = c.copy()
    at, mask = places_in(rng, c.size, shape)
    v = np.ones(shape, element)
    old = np.full(shape, 55).astype(element)
    execution.bind(count)[8](c, at, mask, v, old, shape=(8, 32))
    times = np.bincount(at[mask], minlength=20)
    assert (c.astype(int) == before.astype(int) + times).all()
    assert (old[~mask] == 0).all()
    for i in range(20):
        assert (np.sort(old[mask & (at == i)].astype(int)) == int(before[i]) + np.arange(times[i])).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_updates_of_a_work_groups_tile(execution):
    rng = np.random.default_rng(8)
    c, old = integers(rng, "i32", 50), np.zeros((32, 32), np.int32)
    at, mask = places_in(rng, c.size, (32, 32))
    v, expected = integers(rng, "i32", 32, 32, most=2**20), c.copy()
    np.maximum.at(expected, at[mask], v[mask])
    execution.bind(count)[1](c, at, mask, v, old, shape=(32, 32), kind="max", wg_map=xt.wg_map((2, 2), (8, 16)))
    assert (c == expected).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_updates_without_a_mask(execution):
    @xt.kernel
    def add(C, AT):
        tile = xt.init_tile(C, offsets=loaded(AT, (0, 0), (8, 32)).to(xt.index))
        xt.atomic_rmw_tile("addi", xt.full((8, 32), 2, xt.i32), tile)

    at = np.random.default_rng(9).integers(0, 10, (8, 32)).astype(np.int32)
    c = np.zeros(10, np.int32)
    execution.bind(add)[3](c, at)
    assert (c == 6 * np.bincount(at.reshape(-1), minlength=10)).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_groups_that_take_different_numbers_of_turns(execution):
    @xt.kernel
    def add(C, AT):
        tile = xt.init_tile(C, offsets=loaded(AT, (0, 0), (8, 32)).to(xt.index))
        steps = loaded(AT, (8, 0), (8, 32)).to(xt.index)
        for turn in xt.range(0, xt.group_id(0)):
            xt.atomic_rmw_tile("add", xt.full((8, 32), 1, xt.i32) + turn.to(xt.i32), tile)
            tile = xt.update_tile_offset(tile, steps)

    rng, groups = np.random.default_rng(12), 4
    at, steps = rng.integers(0, 50, (8, 32)), rng.integers(0, 5, (8, 32))
    expected, c = np.zeros(60, np.int32), np.zeros(60, np.int32)
    for group in range(groups):
        for turn in range(group):
            np.add.at(expected, at + turn * steps, turn + 1)
    execution.bind(add)[groups](c, np.concatenate([at, steps]).astype(np.int32))
    assert (c == expected).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_a_condition_chooses_array_and_indices(execution):
    @xt.kernel
    def chosen(A, B, AT, C):
        indices = loaded(AT, (0, 0), (8, 32)).to(xt.index)
        tile, total = xt.init_tile(A, offsets=indices), xt.zeros((8, 32), xt.f32)
        for turn in xt.range(0, 4):
            with xt.when(xt.group_id(0) + turn > 3):
                tile = xt.update_tile_offset(tile, indices)
            total = total + xt.load_gather(tile)
        with xt.when(xt.num_groups(0) > 2):
            tile = xt.init_tile(B, offsets=indices)
        xt.store_tile(total + xt.load_gather(tile), xt.init_tile(C, (8 * xt.group_id(0), 0), (8, 32)))

    rng = np.random.default_rng(14)
    a, b, at = integers(rng, "f32", 500), integers(rng, "f32", 500), rng.integers(0, 100, (8, 32)).astype(np.int32)
    for groups in (2, 4):
        c = np.zeros((8 * groups, 32), np.float32)
        execution.bind(chosen)[groups](a, b, at, c)
        for group in range(groups):
            moves = np.cumsum([group + turn > 3 for turn in range(4)])
            expected = sum(a[at * (1 + times)] for times in moves)
            expected = expected + (b[at] if groups > 2 else a[at * (1 + moves[-1])])
            assert (c[8 * group:8 * group + 8] == expected).all()


CHUNKS = """
func.func @chunks(%A: memref<?xf32>, %I: memref<?x?xi32>, %M: memref<?x?xi1>, %C: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %i = xegpu.create_nd_tdesc %I, [%c0, %c0], [%c1, %c16], [%c16, %c1] : memref<?x?xi32> -> !xegpu.tensor_desc<1x16xi32>
  %m = xegpu.create_nd_tdesc %M, [%c0, %c0], [%c1, %c16], [%c16, %c1] : memref<?x?xi1> -> !xegpu.tensor_desc<1x16xi1>
  %c = xegpu.create_nd_tdesc %C, [%c0, %c0], [%cN, %c16], [%c16, %c1] : memref<?x?xf32> -> !xegpu.tensor_desc<Nx16xf32>
  %i0 = xegpu.load_nd %i : !xegpu.tensor_desc<1x16xi32> -> vector<1x16xi32>
  %i1 = arith.index_cast %i0 : vector<1x16xi32> to vector<1x16xindex>
  %i2 = vector.shape_cast %i1 : vector<1x16xindex> to vector<16xindex>
  %m0 = xegpu.load_nd %m : !xegpu.tensor_desc<1x16xi1> -> vector<1x16xi1>
  %m1 = vector.shape_cast %m0 : vector<1x16xi1> to vector<16xi1>
  %d = xegpu.create_tdesc %A, %i2 : memref<?xf32>, vector<16xindex>
    -> !xegpu.tensor_desc<16xNxf32, #xegpu.scatter_tdesc_attr<chunk_size = N>>
  %v = xegpu.load_gather %d, %m1 {transpose = [1, 0], padding = 2.5 : f32} :
    !xegpu.tensor_desc<16xNxf32, #xegpu.scatter_tdesc_attr<chunk_size = N>>, vector<16xi1> -> vector<Nx16xf32>
  xegpu.store_nd %v, %c : vector<Nx16xf32>, !xegpu.tensor_desc<Nx16xf32>
  %w = arith.addf %v, %v : vector<Nx16xf32>
  xegpu.store_scatter %w, %d, %m1 :
    vector<Nx16xf32>, !xegpu.tensor_desc<16xNxf32, #xegpu.scatter_tdesc_attr<chunk_size = N>>, vector<16xi1>
  func.return
}
"""


@pytest.mark.parametrize("execution", [execution for execution in EXECUTIONS if execution.target in ("pvc", "bmg")],
                         ids=str)
@pytest.mark.parametrize("chunk", [2, 3, 4, 8])
def test_chunks_of_adjacent_elements(chunk, execution):
    """XeGPU's text: each lane loads a chunk, the chunk's elements along the rows, and stores it doubled."""
    text = CHUNKS.replace("%cN", f"%c{chunk}").replace("N", str(chunk))
    text = text.replace("%c64 = arith.constant 64", "%c16 = arith.constant 16").replace(
        "  %i =", f"  %c{chunk} = arith.constant {chunk} : index\n  %i =", 1)
    rng = np.random.default_rng(13)
    a, c = integers(rng, "f32", 300), np.zeros((chunk, 16), np.float32)
    at, mask = distinct(rng, 30, (1, 16)) * 10, rng.integers(0, 2, (1, 16)) > 0
    indices = at + np.arange(chunk)[:, None]
    expected, doubled = np.where(mask, a[indices], np.float32(2.5)), a.copy()
    doubled[indices[:, mask[0]]] *= 2
    at[~mask] = rng.choice(WILD, int((~mask).sum()))
    execution.bind(xt.parse(text)["chunks"])[1](a, at, mask, c)
    assert (c == expected).all()
    assert (a == doubled).all()


@pytest.mark.parametrize("execution", SOME, ids=str)
def test_masks_and_indices_that_are_computed(execution):
    """Every third element of a row, backwards; masks from comparisons, chosen values from selections."""
    @xt.kernel
    def thirds(A, C):
        shape = (8, 32)
        row, column = xt.iota(shape, 0, dtype=xt.index), xt.iota(shape, 1, dtype=xt.index)
        here = 100 - 3 * column + row * A.shape[1]
        mask = (here >= 0) & (column.to(xt.i32) != 5)
        value = xt.load_gather(xt.init_tile(A, offsets=here), mask, padding=-1)
        xt.store_tile(xt.where(value > 2.0, value, 0.0), xt.init_tile(C, (0, 0), shape))

    rng = np.random.default_rng(15)
    a, c = integers(rng, "f32", 8, 101), np.zeros((8, 32), np.float32)
    row, column = np.ogrid[:8, :32]
    execution.bind(thirds)[1](a, c)
    here = 100 - 3 * column + row * 101
    expected = picked(a, here, (here >= 0) & (column != 5), -1)
    assert (c == np.where(expected > 2, expected, 0)).all()


@xt.kernel
def from_address(BASE, AT, V, OLD):
    """Gathers, then adds, at an address."""
    tile = xt.init_tile(BASE, offsets=loaded(AT, (0, 0), (8, 32)).to(xt.index), dtype=xt.f32)
    value = xt.load_gather(tile) + loaded(V, (0, 0), (8, 32))
    xt.store_scatter(value, tile)
    xt.store_tile(xt.atomic_rmw_tile("add", value, tile), xt.init_tile(OLD, (0, 0), (8, 32)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "opencl:cpu"])
def test_an_address(where):
    rng = np.random.default_rng(16)
    a, v, old = integers(rng, "f32", 600), integers(rng, "f32", 8, 32), np.zeros((8, 32), np.float32)
    at, before = distinct(rng, 600, (8, 32)) - 300, a.copy()
    kernel = Execution(where, "pvc").bind(from_address)
    kernel[1](np.uint64(a.ctypes.data + 300 * 4), at, v, old)  # which the CPU device reaches as well
    assert (a[at + 300] == 2 * (before[at + 300] + v)).all()
    assert (old == before[at + 300] + v).all()
    untouched = np.ones(600, bool)
    untouched[at + 300] = False
    assert (a[untouched] == before[untouched]).all()


def specs(*names: str) -> list[xt.Spec]:
    """Matrices of these element types."""
    return [xt.Spec((None, None), name) for name in names]


@pytest.mark.everything
def test_text_goes_round():
    rng = np.random.default_rng(10)
    a, at_mask, to = integers(rng, "f32", 20, 30), places_in(rng, 600, (8, 32)), distinct(rng, 600, (8, 32))
    stages = copy.lower(*specs("f32", "i32", "i1", "i32", "f32"), shape=(8, 32), padding=2).stages
    for stage, text in stages.items():
        read = xt.parse(text)
        assert str(read) == text
        c = np.zeros((20, 30), np.float32)
        read["copy"].on("numpy")[1](a, *at_mask, to, c)
        assert (c.reshape(-1)[to] == picked(a, *at_mask, 2)).all(), stage
    stages = count.lower(*specs("i32", "i32", "i1", "i32", "i32"), shape=(8, 32)).stages
    for stage, text in stages.items():
        read = xt.parse(text)
        assert str(read) == text
        c, old = np.zeros((20, 30), np.int32), np.zeros((8, 32), np.int32)
        read["count"].on("numpy")[1](c, *at_mask, np.ones((8, 32), np.int32), old)
        assert c.sum() == at_mask[1].sum(), stage
    assert "scatter = true" in stages["xetile"]
    assert "xegpu.atomic_rmw <addi>" in [*stages.values()][-1]


def test_what_is_written_is_known():
    assert copy.lower(*specs("f32", "i32", "i1", "i32", "f32"), shape=(8, 32)).written == (4,)
    assert count.lower(*specs("i32", "i32", "i1", "i32", "i32"), shape=(8, 32)).written == (0, 4)


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
@pytest.mark.parametrize("wild", [-1, 600, 10**6])
def test_numpy_finds_what_lies_outside(where, wild):
    rng = np.random.default_rng(11)
    a, c, mask = integers(rng, "f32", 20, 30), np.zeros((20, 30), np.float32), np.ones((8, 32), bool)
    at, to = rng.integers(0, 600, (8, 32)).astype(np.int32), distinct(rng, 600, (8, 32))
    at[3, 7] = wild
    with pytest.raises(xt.ShapeError, match="XT3314") as caught:
        copy.on(where)[1](a, at, mask, to, c, shape=(8, 32))
    assert "mask off" in str(caught.value)
    assert "load_gather(" in str(caught.value)  # the author's line, and not that of the launch


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_a_gather_is_one_message_a_register_without_branches(target):
    require_ocloc()

    @xt.kernel
    def gather(A, AT, K, C):
        shape = (8, 32)
        tile = xt.init_tile(A, offsets=loaded(AT, (0, 0), shape).to(xt.index))
        xt.prefetch_tile(tile)
        xt.store_scatter(xt.load_gather(tile), xt.init_tile(C, offsets=loaded(K, (0, 0), shape).to(xt.index)))

    lowered = gather.lower(xt.Spec((None,), "f32"), *specs("i32", "i32"), xt.Spec((None,), "f32"), target=target)
    text, registers = str(lowered.isa()), 256 // lowered.target.subgroup_size
    assert text.count("store.ugm.d32.a64") == registers
    if target != "dg2":  # which loads its indices in the same way
        assert text.count("load.ugm.d32.a64") == 2 * registers
        assert text.count("load.ugm.d32.a64.ca.ca") == registers, "prefetches"
        assert "goto" not in text
    assert (lowered.report().spill_size, lowered.report().private_size) == (0, 0)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_masks_are_predicates(target):
    require_ocloc()
    lowered = copy.lower(*specs("f32", "i32", "i1", "i32", "f32"), shape=(8, 32), target=target)
    loads = [line for line in str(lowered.isa()).splitlines() if "load.ugm.d32.a64" in line]
    assert len(loads) == 16
    assert all(line.startswith("(") for line in loads)
    assert (lowered.report().spill_size, lowered.report().private_size) == (0, 0)


@pytest.mark.everything
def test_the_other_road_to_spirv(monkeypatch):
    """The SYCL runtime's compiler knows no predicated loads: branches take their place there."""
    require_sycl_compiler()
    monkeypatch.setenv("XETILE_SPIRV", "sycl")
    for dtype, execution in ((np.float32, SOME[3]), (np.float16, SOME[4]), (np.int64, SOME[5])):
        test_every_type(dtype, execution)
    for dtype in ("f32", "u8", "bf16"):
        test_updates_of_one_element(dtype, SOME[3])


def test_floats_have_instructions_by_either_road():
    require_ocloc()
    require_sycl_compiler()
    lowered = count.lower(*specs("f32", "i32", "i1", "f32", "f32"), shape=(8, 32), target="pvc")
    spirv = lowered.spirv("sycl")
    text = str(disassemble(compile_device(spirv, "pvc", spirv=True)))
    assert text.count("atomic_fadd.ugm.d32") == str(lowered.isa()).count("atomic_fadd.ugm.d32") == 16


def raised(body: Any, *arrays: xt.Spec) -> xt.XeError:
    with pytest.raises(xt.XeError) as caught:
        xt.kernel(body).lower(*(arrays or specs("f32", "i32", "i1", "f32"))).opencl  # noqa: B018
    assert "test_gather_scatter.py" in str(caught.value)
    return caught.value


def tile_of(A, AT):
    return xt.init_tile(A, offsets=loaded(AT, (0, 0), (8, 32)).to(xt.index))


def load_it(A, AT, M, C):
    xt.load_tile(tile_of(A, AT))


def store_it(A, AT, M, C):
    xt.store_tile(xt.zeros((8, 32), xt.f32), tile_of(A, AT))


def move_it(A, AT, M, C):
    xt.update_tile_offset(tile_of(A, AT), 0, 8)


def gather_a_window(A, AT, M, C):
    xt.load_gather(xt.init_tile(A, (0, 0), (8, 32)))


def scatter_to_a_window(A, AT, M, C):
    xt.store_scatter(xt.zeros((8, 32), xt.f32), xt.init_tile(A, (0, 0), (8, 32)))


def move_a_window_by_indices(A, AT, M, C):
    xt.update_tile_offset(xt.init_tile(A, (0, 0), (8, 32)), loaded(AT, (0, 0), (8, 32)).to(xt.index))


def small_mask(A, AT, M, C):
    xt.load_gather(tile_of(A, AT), loaded(M, (0, 0), (8, 16)))


def mask_of_numbers(A, AT, M, C):
    xt.load_gather(tile_of(A, AT), loaded(AT, (0, 0), (8, 32)))


def no_mask(A, AT, M, C):
    xt.load_gather(tile_of(A, AT), True)


def small_value(A, AT, M, C):
    xt.store_scatter(xt.zeros((8, 16), xt.f32), tile_of(A, AT))


def other_value(A, AT, M, C):
    xt.store_scatter(xt.zeros((8, 32), xt.f16), tile_of(A, AT))


def other_steps(A, AT, M, C):
    xt.update_tile_offset(tile_of(A, AT), loaded(AT, (0, 0), (8, 16)).to(xt.index))


def no_indices(A, AT, M, C):
    xt.init_tile(A, offsets=loaded(AT, (0, 0), (8, 32)))


def no_steps(A, AT, M, C):
    xt.update_tile_offset(tile_of(A, AT), loaded(AT, (0, 0), (8, 32)))


def other_shape(A, AT, M, C):
    xt.init_tile(A, loaded(AT, (0, 0), (8, 32)).to(xt.index), (8, 16))


def an_order(A, AT, M, C):
    xt.init_tile(A, loaded(AT, (0, 0), (8, 32)).to(xt.index), order=(0, 1))


def other_map(A, AT, M, C):
    xt.init_tile(A, loaded(AT, (0, 0), (8, 32)).to(xt.index), wg_map=xt.wg_map((1, 2), (8, 16)))


def other_maps(A, AT, M, C):
    indices = loaded(AT, (0, 0), (8, 32), xt.wg_map((1, 2), (8, 16))).to(xt.index)
    xt.load_gather(xt.init_tile(A, indices), loaded(M, (0, 0), (8, 32), xt.wg_map((2, 1), (4, 32))))


def truths(A, AT, M, C):
    xt.init_tile(M, offsets=loaded(AT, (0, 0), (8, 32)).to(xt.index))


def short_address(A, AT, M, C):
    xt.init_tile(xt.group_id(0), loaded(AT, (0, 0), (8, 32)).to(xt.index), dtype=xt.f32)


def untyped_address(A, AT, M, C):
    xt.init_tile(xt.group_id(0).to(xt.i64), loaded(AT, (0, 0), (8, 32)).to(xt.index))


def a_described_base(A, AT, M, C):
    xt.init_tile(A, loaded(AT, (0, 0), (8, 32)).to(xt.index), base_shape=(8, 8), base_strides=(8, 1))


def other_type(A, AT, M, C):
    xt.init_tile(A, loaded(AT, (0, 0), (8, 32)).to(xt.index), dtype=xt.f16)


@pytest.mark.parametrize(("body", "code"), [
    (load_it, "XT2114"),
    (store_it, "XT2114"),
    (move_it, "XT2114"),
    (gather_a_window, "XT2115"),
    (scatter_to_a_window, "XT2115"),
    (move_a_window_by_indices, "XT2115"),
    (small_mask, "XT2153"),
    (mask_of_numbers, "XT1449"),
    (no_mask, "XT1449"),
    (small_value, "XT2153"),
    (other_value, "XT1131"),
    (other_steps, "XT2153"),
    (no_indices, "XT1446"),
    (no_steps, "XT1446"),
    (other_shape, "XT1440"),
    (an_order, "XT1441"),
    (other_map, "XT1442"),
    (other_maps, "XT1401"),
    (truths, "XT3302"),
    (short_address, "XT1111"),
    (untyped_address, "XT1112"),
    (a_described_base, "XT1108"),
    (other_type, "XT1110"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_mistakes(body, code):
    assert raised(body).code == code
