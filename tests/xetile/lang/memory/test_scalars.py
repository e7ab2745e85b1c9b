"""Work that a table describes: numbers loaded of arrays, and tiles on memory of run-time address, sizes and pitch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, EXECUTIONS, LANES, NUMPY, Array, Execution, integers, product
from tests.xetile.lang.memory.test_addresses import Memory
from tests.xetile.text.llvm.test_reader import verified_by_llvm
from xegpu.interpreter.memory import memory_at, read

pytestmark = pytest.mark.unoptimised


@xt.kernel
def listed(table, scale, *, BM=16, BN=16, BK=16, aligned=False, turned=False):
    """C = A @ B * scale for each row of the table: three addresses, M, N and K, and the pitches of A, B and C."""
    problem, tile = xt.group_id(1), xt.group_id(0)
    a_at, b_at, c_at = (xt.load_scalar(table, (problem, field)) for field in range(3))
    m, n, k, *pitches = (xt.load_scalar(table, (problem, field)).to(xt.index) for field in range(3, 9))
    across = (n + (BN - 1)) // BN
    row, column = tile // across * BM, tile % across * BN
    with xt.when(row < m):
        a, b, c = (xt.init_tile(at, offsets, shape, base_shape=size, dtype=kind, aligned=aligned,
                                base_strides=(1, pitch) if columns else (pitch, 1), order=(0, 1) if columns else (1, 0))
                   for at, offsets, shape, size, pitch, kind, columns in (
                       (a_at, (row, 0), (BM, BK), (m, k), pitches[0], xt.bf16, False),
                       (b_at, (0, column), (BK, BN), (k, n), pitches[1], xt.bf16, turned),
                       (c_at, (row, column), (BM, BN), (m, n), pitches[2], xt.f32, False)))
        total = xt.zeros((BM, BN), xt.f32)
        for _ in xt.range(0, k, BK):
            total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
            a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
        xt.store_tile(total * xt.load_scalar(scale, problem), c)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("sizes", [[(32, 64, 48)], [(17, 33, 65), (1, 5, 9), (40, 16, 16)]], ids=len)
def test_problems_of_different_sizes(sizes: list[tuple[int, int, int]], execution: Execution) -> None:
    rng, memory = np.random.default_rng(1), Memory(execution)
    rows, results, kept = [], [], []
    for m, n, k in sizes:
        a, b = integers(rng, xt.bf16, m, k + 3), integers(rng, xt.bf16, k, n + 5)
        (left, a_at), (right, b_at) = memory.put(a), memory.put(b)
        c, c_at = memory.put(np.full((m, n + 2), 7, np.float32))
        kept += [left, right]
        rows.append([int(a_at), int(b_at), int(c_at), m, n, k, k + 3, n + 5, n + 2])
        results.append((c, product(a[:, :k], b[:, :n], xt.f32)))
    most = max(-(-m // 16) * -(-n // 16) for m, n, _ in sizes)
    scale = np.arange(2, 2 + len(sizes)).astype(np.float32)
    execution.bind(listed)[most, len(sizes)](np.array(rows, np.int64), scale)
    memory.wait()
    for factor, (c, expected) in zip(scale, results, strict=True):
        np.testing.assert_array_equal(c[:, :-2], expected * factor)
        assert (c[:, -2:] == 7).all()


@pytest.mark.parametrize("execution", [NUMPY, LANES[0], DEVICE[0], Execution("numpy:program", "pvc")], ids=str)
def test_updates_of_matrices_of_different_sizes(execution: Execution) -> None:
    @xt.kernel
    def counted(table):
        at, rows = xt.load_scalar(table, (xt.group_id(0), 0)), xt.load_scalar(table, (xt.group_id(0), 1)).to(xt.index)
        tile = xt.init_tile(at, (0, 0), (8, 16), base_shape=(rows, 16), base_strides=(16, 1), dtype=xt.i32)
        xt.atomic_rmw_tile("add", xt.full((8, 16), 3, xt.i32), tile)

    memory = Memory(execution)
    held = [memory.put(np.full((9, 16), number, np.int32)) for number in range(3)]
    sizes = [9, 2, 0]
    run = counted.on(execution.where) if execution.where == "numpy:program" else execution.bind(counted)
    run[3](np.array([[int(at), rows] for (_, at), rows in zip(held, sizes, strict=True)], np.int64))
    memory.wait()
    for number, ((array, _), rows) in enumerate(zip(held, sizes, strict=True)):
        reached = min(rows, 8)
        assert (array[:reached] == number + 3).all()
        assert (array[reached:] == number).all()


def test_equal_matrices_may_lie_far_apart() -> None:
    """NumPy has no array from the first to the last: it would be too large."""
    a = integers(np.random.default_rng(3), xt.f32, 40, 50)
    places = a.ctypes.data + np.array([0, 16, 1 << 46]).reshape(3, 1, 1, 1, 1)
    memory, where = memory_at(places, (1 << 12, 1 << 12), (50, 1), xt.f32)
    rows = np.array([3, 4, 1 << 12]).reshape(places.shape)  # none of the far one, where there is nothing
    found = read(memory, rows, 20, (8, 16), 5, lead=where)
    np.testing.assert_array_equal(found[0, 0, 0, 0, 0], a[3:11, 20:36])
    np.testing.assert_array_equal(found[1, 0, 0, 0, 0], a[4:12, 24:40])
    assert not found[2].any()


TABLE = xt.Spec((None, None), xt.i64)
SCALE = xt.Spec((None,), xt.f32)


@pytest.mark.parametrize("execution", [NUMPY, LANES[0], *DEVICE], ids=str)
def test_numbers_of_every_type(execution: Execution) -> None:
    kinds = (xt.i32, xt.u32, xt.i64, xt.u64, xt.f32)

    @xt.kernel
    def spread(a, b, c, d, e, C):
        for number, array in enumerate((a, b, c, d, e)):
            value = xt.load_scalar(array, (xt.group_id(0), 1)).to(xt.f32)
            xt.store_tile(xt.full((1, 16), value, xt.f32), xt.init_tile(C, (xt.group_id(0), number * 16), (1, 16)))

    arrays = [np.arange(6, dtype=kind.numpy).reshape(3, 2) + number for number, kind in enumerate(kinds)]
    arrays[1] = np.asfortranarray(arrays[1])
    c = np.full((3, 80), 99, np.float32)
    execution.bind(spread)[3](*arrays, c)
    np.testing.assert_array_equal(c, np.repeat([array[:, 1] for array in arrays], 16, 0).T.astype(np.float32))


def test_its_text_goes_round() -> None:
    for aligned in (False, True):
        lowered = listed.lower(TABLE, SCALE, aligned=aligned)
        assert ("xegpu.load_scalar %table" in lowered.xetile, "aligned" in lowered.xetile) == (True, aligned)
        for stage, text in lowered.stages.items():
            assert str(xt.parse(text)) == text, stage


def test_llvm_takes_the_numbers_as_loads_of_memrefs() -> None:
    text = listed.lower(TABLE, SCALE, aligned=True, BM=32, BN=32, BK=32).xegpu_upstream
    assert text.count("memref.load %table") == 9
    verified_by_llvm(text)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_what_is_promised_moves_in_blocks(target: str) -> None:
    require_ocloc()
    constants: Any = {"target": target, "BM": 32, "BN": 32, "BK": 32}
    plain, promised = (listed.lower(TABLE, SCALE, aligned=aligned, **constants) for aligned in (False, True))
    assert "2d_block" not in plain.opencl
    report = promised.report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert (report.loop["dpas"], report.loop["load_block2d"]) == (16 * report.unrolled, 2 * report.unrolled)
    assert "2d_block" not in listed.lower(TABLE, SCALE, aligned=True, target="dg2").opencl
    assert "read_transpose" in listed.lower(TABLE, SCALE, aligned=True, turned=True, **constants).opencl


def by_columns(at, C, rows, columns):
    turned = xt.init_tile(at, (0, 0), (16, 16), order=(0, 1), base_shape=(rows, columns), base_strides=(1, rows),
                          dtype=xt.f32, aligned=True)
    xt.store_tile(xt.load_tile(turned), xt.init_tile(C, (0, 0), (16, 16)))


def aligned_array(rng: np.random.Generator, *shape: int) -> Array:
    """Integers from an address on that is a multiple of 64."""
    room = np.zeros(np.prod(shape) + 16, np.float32)
    start = -room.ctypes.data // 4 % 16
    array = room[start:start + np.prod(shape)].reshape(shape)
    array[...] = integers(rng, xt.f32, *shape)
    return array


@pytest.mark.parametrize("execution", [NUMPY, *LANES[:3]], ids=str)
def test_promises_are_kept_or_not(execution: Execution) -> None:
    a, c = aligned_array(np.random.default_rng(2), 16, 16), np.zeros((16, 16), np.float32)
    execution.bind(xt.kernel(by_columns))[1](np.uint64(a.ctypes.data), c, 16, 16)
    np.testing.assert_array_equal(c, a.T)
    with pytest.raises(xt.ShapeError, match="XT3034"):
        execution.bind(xt.kernel(by_columns))[1](np.uint64(a.ctypes.data + 4), c, 16, 15)
    with pytest.raises(xt.ShapeError, match="XT3034"):
        execution.bind(xt.kernel(by_columns))[1](np.uint64(a.ctypes.data), c, 8, 16)


def outside(A, T):
    xt.store_tile(xt.full((1, 16), xt.load_scalar(T, xt.group_id(0) + 2), xt.i32), xt.init_tile(A, (0, 0), (1, 16)))


WRONG = {
    "outside": (outside, xt.ShapeError, "XT1243"),
    "a vector": (lambda A, T: xt.load_scalar(xt.load_tile(xt.init_tile(A, (0, 0), (1, 16))), 0), xt.ElementTypeError,
                 "XT1240"),
    "shared memory": (lambda A, T: xt.load_scalar(xt.alloc_slm((8, 16), xt.i32), (0, 0)), xt.ElementTypeError,
                      "XT1240"),
    "a number": (lambda A, T: xt.load_scalar(7, 0), xt.ElementTypeError, "XT1240"),
    "two indices": (lambda A, T: xt.load_scalar(T, (0, 0)), xt.RankError, "XT1242"),
    "no index": (lambda A, T: xt.load_scalar(A, 0), xt.RankError, "XT1242"),
    "half of an index": (lambda A, T: xt.load_scalar(T, 0.5), xt.ElementTypeError, "XT1205"),
    "three indices": (lambda A, T: xt.load_scalar(A, (0, 0, 0)), xt.RankError, "XT1242"),
    "an aligned array": (lambda A, T: xt.init_tile(A, (0, 0), (1, 16), aligned=True), xt.ShapeError,
                         "XT1115"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes(name: str) -> None:
    function, kind, message = WRONG[name]
    made = xt.kernel(lambda A, T: function(A, T))
    with pytest.raises(kind, match=message) as caught:
        made[2](np.zeros((4, 16), np.int32), np.zeros(3, np.int32))
    assert caught.value.hint
    assert "test_scalars.py" in str(caught.value)


def test_only_numbers_are_loaded() -> None:
    @xt.kernel
    def halves(A):
        xt.load_scalar(A, 0)

    with pytest.raises(xt.ElementTypeError, match="XT1241"):
        halves[1](np.zeros(3, np.float16))


@xt.kernel
def ragged(A, lengths, C):
    """Copies of the beginning of A, as rows and columns of its own for each group, and one more in A itself."""
    group = xt.group_id(0)
    rows = xt.load_scalar(lengths, group).to(xt.index)
    tile = xt.init_tile(A, (0, 0), (8, 16), base_shape=(rows, 12 + rows), base_strides=(20 - rows, 1))
    value = xt.load_tile(tile, padding=3)
    xt.store_tile(value, xt.init_tile(C, (group * 8, 0), (8, 16)))
    xt.store_tile(value + 1, tile)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [xt.f32, xt.bf16], ids=str)
def test_an_array_that_each_group_describes_in_its_way(execution: Execution, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    for one in ([0], [5], [2, 0], [0, 8]):  # one group at a time may write
        a = integers(rng, dtype, 20, 20)
        before, c = a.copy(), np.zeros((8 * len(one), 16), a.dtype)
        execution.bind(ragged)[len(one)](a, np.array(one, np.int32), c)
        for group, rows in enumerate(one):
            pitch, columns = 20 - rows, min(12 + rows, 16)
            seen = np.lib.stride_tricks.as_strided(before, (rows, columns), (pitch * a.itemsize, a.itemsize))
            wanted = np.full((8, 16), 3, a.dtype)
            wanted[:rows, :columns] = seen
            np.testing.assert_array_equal(c[group * 8:group * 8 + 8], wanted)
            if rows:
                written = np.lib.stride_tricks.as_strided(a, (rows, columns), (pitch * a.itemsize, a.itemsize))
                np.testing.assert_array_equal(written, seen + a.dtype.type(1))


@xt.kernel
def unsigned_sums(numbers, B, C, *, top):
    first = xt.load_scalar(numbers, 0)
    total = (first * 3 + 1) // 2 + (first % 7) * (top - first // 5)
    xt.store_tile(xt.load_tile(xt.init_tile(B, (0, 0), (8, 16))) + total, xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_unsigned_numbers_with_pythons(execution: Execution, dtype: Any) -> None:
    bits = np.iinfo(dtype).bits
    top, first = (1 << bits) - 3, (1 << bits - 1) + 12345
    b, c = np.arange(128, dtype=dtype).reshape(8, 16), np.zeros((8, 16), dtype)
    execution.bind(unsigned_sums)[1](np.array([first], dtype), b, c, top=top)
    mask = (1 << bits) - 1
    total = (((first * 3 + 1) & mask) // 2 + (first % 7) * (top - first // 5)) & mask
    np.testing.assert_array_equal(c, b + dtype(total))


def test_a_number_that_an_unsigned_type_does_not_hold() -> None:
    with pytest.raises(xt.XeError, match="XT1206"):
        unsigned_sums.lower(xt.Spec((1,), "u32"), *[xt.Spec((8, 16), "u32")] * 2, top=-1)


@xt.kernel
def experts(X, W, table, Y, *, BK=16):
    """X times the matrix of a batch that a table of i32 names."""
    expert, total = xt.load_scalar(table, xt.group_id(0)), xt.zeros((8, 16), xt.f32)
    for k in xt.range(0, X.shape[1], BK):
        x, w = xt.init_tile(X, (0, k), (8, BK)), xt.init_tile(W, (expert, k, 0), (BK, 16))
        total = xt.tile_mma(xt.load_tile(x), xt.load_tile(w), total)
    xt.store_tile(total, xt.init_tile(Y, (xt.group_id(0), 0, 0), (8, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_matrix_of_a_batch_by_a_number_of_a_table(execution: Execution) -> None:
    """The number is an index of 64 bits in NumPy, where products with strides and addresses need them."""
    rng = np.random.default_rng(5)
    x, w = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((7, 40), (5, 40, 13)))
    y, table = np.full((4, 7, 13), np.nan, np.float32), np.array([4, 0, 2], np.int32)
    execution.bind(experts)[3](x, w, table, y)
    np.testing.assert_array_equal(y[:3], x.astype(np.float32) @ w[table].astype(np.float32))
    assert np.isnan(y[3]).all()
