"""Tiles at raw addresses, and arrays that a kernel describes anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc
from tests.kernels import EXECUTIONS, LANES, NUMPY, Array, Execution, integers, product
from xegpu.ir import dtypes

pytestmark = pytest.mark.unoptimised


@xt.kernel
def gemm_at(a_at, b_at, c_at, m_size, n_size, k_size, *, BM=16, BN=32, BK=32, by_columns=False):
    """C = A @ B of bf16; where ``by_columns``, B is stored as its transpose."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(a_at, (m, 0), (BM, BK), base_shape=(m_size, k_size), base_strides=(k_size, 1), dtype=xt.bf16)
    strides = (1, k_size) if by_columns else (n_size, 1)
    b = xt.init_tile(b_at, (0, n), (BK, BN), base_shape=(k_size, n_size), base_strides=strides, dtype=xt.bf16,
                     order=(0, 1) if by_columns else (1, 0))
    total = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, k_size, BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(c_at, (m, n), (BM, BN), base_shape=(m_size, n_size), base_strides=(n_size, 1),
                                      dtype=xt.f32))


class Memory:
    """Host arrays where a kernel reaches them by address: as they are, or in shared USM."""

    def __init__(self, execution: Execution) -> None:
        self._queue: Any = None if execution.where.startswith("numpy") else require_device(execution.where)
        self._kept: list[Any] = []

    def put(self, array: Array) -> tuple[Array, np.uint64]:
        """The array there, and its address."""
        flat = np.ascontiguousarray(array)
        if self._queue is not None:
            from dpctl.memory import MemoryUSMShared

            memory = MemoryUSMShared(max(flat.nbytes, 1), queue=self._queue)
            self._kept.append(memory)
            there = np.frombuffer(memory, np.uint8, flat.nbytes).view(flat.dtype).reshape(flat.shape)
            there[...] = flat
            flat = there
        return flat, np.uint64(flat.ctypes.data)

    def wait(self) -> None:
        """Until kernels have run."""
        if self._queue is not None:
            self._queue.wait()


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("size", [(32, 64, 64), (17, 33, 65)], ids=str)
def test_a_product_of_what_lies_at_addresses(size: tuple[int, int, int], by_columns: bool,
                                             execution: Execution) -> None:
    rng, memory, (m, n, k) = np.random.default_rng(1), Memory(execution), size
    a, b = integers(rng, xt.bf16, m, k), integers(rng, xt.bf16, k, n)
    (_, a_at), (_, b_at) = memory.put(a), memory.put(b.T if by_columns else b)
    c, c_at = memory.put(np.full((m, n), 7, np.float32))
    execution.bind(gemm_at)[-(-m // 16), -(-n // 32)](a_at, b_at, c_at, m, n, k, by_columns=by_columns)
    memory.wait()
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


@xt.kernel
def planes(at, out, *, rows=8, columns=16, dtype=xt.f32):
    """A plane for each group, at an address of its own."""
    step = rows * columns * dtypes.of(dtype).bytes
    plane = xt.group_id(0).to(xt.i64) * step
    description = {"base_shape": (rows, columns), "base_strides": (columns, 1), "dtype": dtype}
    value = xt.load_tile(xt.init_tile(at + plane, (0, 0), (rows, columns), **description))
    xt.store_tile(value + value, xt.init_tile(out + plane, (0, 0), (rows, columns), **description))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_each_group_may_have_its_address(execution: Execution) -> None:
    memory = Memory(execution)
    a, at = memory.put(integers(np.random.default_rng(2), xt.f32, 5, 8, 16))
    c, out = memory.put(np.zeros((5, 8, 16), np.float32))
    execution.bind(planes)[5](np.int64(at), np.int64(out))
    memory.wait()
    np.testing.assert_array_equal(c, 2 * a)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_strides_may_be_any(execution: Execution) -> None:
    @xt.kernel
    def every_other(at, C, pitch, step):
        tile = xt.init_tile(at, (xt.group_id(0) * 8, 0), (8, 16), base_shape=(19, 13), base_strides=(pitch, step),
                            dtype=xt.i16)
        xt.store_tile(xt.load_tile(tile, padding=-1), xt.init_tile(C, (xt.group_id(0) * 8, 0), (8, 16)))

    memory = Memory(execution)
    a, at = memory.put(integers(np.random.default_rng(3), xt.i16, 40, 30))
    expected = np.full((24, 16), -1, np.int16)
    expected[:19, :13] = a[:38:2, :26:2]
    if execution.where.startswith("numpy"):
        c: Any = np.zeros((24, 16), np.int16)
        execution.bind(every_other)[3](at, c, 60, 2)
        np.testing.assert_array_equal(c, expected)
        return
    c = np.zeros((24, 16), np.int16)
    execution.bind(every_other)[3](at, c, 60, 2)
    np.testing.assert_array_equal(c, expected)


@xt.kernel
def matrices(table, C):
    """A matrix for each group, at an address, of sizes and of strides of its own."""
    at, *numbers = (xt.load_scalar(table, (xt.group_id(0), field)) for field in range(5))
    rows, columns, down, across = (number.to(xt.index) for number in numbers)
    tile = xt.init_tile(at, (-1, 0), (8, 16), base_shape=(rows, columns), base_strides=(down, across), dtype=xt.i16)
    value = xt.load_tile(tile, padding=-1)
    xt.store_tile(value, xt.init_tile(C, (xt.group_id(0), 0, 0), (8, 16)))
    xt.store_tile(value + value, tile)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_matrices_at_addresses_may_be_reversed(execution: Execution) -> None:
    rng, memory = np.random.default_rng(6), Memory(execution)
    there = [memory.put(integers(rng, xt.i16, 9, 20))[0] for _ in range(4)]
    parts = [there[0][2:5, 3:8][::-1], there[1][1:8, :19][:, ::-1], there[2][::-2, 5:], there[3].T[::-1, ::-1][2:]]
    table = np.array([[part.ctypes.data, *part.shape, *(stride // 2 for stride in part.strides)] for part in parts])
    expected = [part.copy() for part in parts]
    c = np.zeros((4, 8, 16), np.int16)
    execution.bind(matrices)[4](table, c)
    memory.wait()
    for part, old, found in zip(parts, expected, c, strict=True):
        padded = np.full((8, 16), -1, np.int16)
        height, width = min(7, old.shape[0]), min(16, old.shape[1])
        padded[1:1 + height, :width] = old[:height, :width]
        np.testing.assert_array_equal(found, padded)
        old[:7, :16] *= 2
        np.testing.assert_array_equal(part, old)


@xt.kernel
def described_anew(A, C, *, rows=24, columns=16, by_columns=False):
    """A read as a matrix of other sizes, from its first element on."""
    strides, order = ((1, rows), (0, 1)) if by_columns else ((columns, 1), (1, 0))
    tile = xt.init_tile(A, (0, 0), (32, 16), base_shape=(rows, columns), base_strides=strides, order=order)
    xt.store_tile(xt.load_tile(tile), xt.init_tile(C, (0, 0), (32, 16)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("by_columns", [False, True])
def test_an_array_may_be_described_anew(by_columns: bool, execution: Execution) -> None:
    a = integers(np.random.default_rng(4), xt.f32, 16, 32)
    c = np.full((32, 16), 7, np.float32)
    execution.bind(described_anew)[1](a, c, by_columns=by_columns)
    expected = np.zeros((32, 16), np.float32)
    flat = a.reshape(-1)[:24 * 16]
    expected[:24] = flat.reshape(16, 24).T if by_columns else flat.reshape(24, 16)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_shared_memory_may_be_described_anew(execution: Execution) -> None:
    @xt.kernel
    def transposed(A, C):
        memory = xt.alloc_slm((32, 16), xt.f32)
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (32, 16))), xt.init_tile(memory, (0, 0), (32, 16)))
        tile = xt.init_tile(memory, (0, 0), (16, 32), base_shape=(16, 32), base_strides=(1, 16), order=(0, 1))
        xt.store_tile(xt.load_tile(tile), xt.init_tile(C, (0, 0), (16, 32)))
        halves = xt.init_tile(memory, (0, 0), (8, 16), base_shape=(16, 32), base_strides=(32, 1))
        xt.store_tile(xt.load_tile(xt.update_tile_offset(halves, 8, 16)), xt.init_tile(C, (16, 0), (8, 16)))

    a = integers(np.random.default_rng(5), xt.f32, 32, 16)
    c = np.zeros((24, 32), np.float32)
    execution.bind(transposed)[1](a, c)
    np.testing.assert_array_equal(c[:16], a.T)
    np.testing.assert_array_equal(c[16:, :16], a.reshape(16, 32)[8:, 16:])


ADDRESSES = [np.uint64(4096)] * 3


def test_text_goes_round_and_prints_as_the_seed_does() -> None:
    lowered = gemm_at.lower(*ADDRESSES, 32, 64, 64)
    assert re_lines(lowered.xetile, "init_tile %a_at") == [
        "%5 = xetile.init_tile %a_at, [%m, %3], [%m_size, %k_size], [%k_size, %2] : ui64 -> !xetile.tile<16x32xbf16>"]
    for stage, text in lowered.stages.items():
        assert str(xt.parse(text)) == text, stage
    a, b = (integers(np.random.default_rng(6), xt.bf16, *shape) for shape in ((32, 64), (64, 64)))
    for stage, text in lowered.stages.items():
        c = np.zeros((32, 64), np.float32)
        xt.parse(text)["gemm_at"].on("numpy")[2, 2](*(np.uint64(x.ctypes.data) for x in (a, b, c)), 32, 64, 64)
        np.testing.assert_array_equal(c, product(a, b, xt.f32), err_msg=stage)


def re_lines(text: str, part: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if part in line]


def test_rows_are_read_by_rows_and_nothing_by_blocks() -> None:
    lowered = gemm_at.lower(*ADDRESSES, 32, 64, 64)
    assert lowered.xegpu.count("access = rows") >= 3
    assert "access = strided" not in lowered.xegpu
    assert "2d_block" not in lowered.opencl
    assert lowered.written == ()


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_the_machine_code_keeps_everything_in_registers(target: str) -> None:
    require_ocloc()
    report = gemm_at.lower(*ADDRESSES, 32, 64, 64, target=target, BM=16, BN=16, BK=16).report()
    assert (report.spill_size, report.private_size) == (0, 0)


@pytest.mark.parametrize("execution", [NUMPY, LANES[0]], ids=str)
def test_numbers_of_64_bits(execution: Execution) -> None:
    @xt.kernel
    def named(A, number, *, kind):
        assert str(number.dtype) == kind
        xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(A, (0, 0), (8, 16)))

    a = np.zeros((8, 16), np.float32)
    for number, kind in ((np.int64(3), "i64"), (np.uint64(3), "u64"), (2**31, "i64"), (-(2**40), "i64"),
                         (2**63, "u64"), (3, "index"), (np.int32(3), "index"), (np.uint32(3), "index")):
        execution.bind(named)[1](a, number, kind=kind)
    with pytest.raises(xt.ElementTypeError, match="XT1031"):
        execution.bind(named)[1](a, 2**64, kind="")


CALLS = {
    "no shape": (lambda at, A: xt.init_tile(at, (0, 0), (8, 16), base_strides=(16, 1), dtype=xt.f32),
                 "XT1112"),
    "no strides": (lambda at, A: xt.init_tile(at, (0, 0), (8, 16), base_shape=(8, 16), dtype=xt.f32),
                   "XT1112"),
    "no type": (lambda at, A: xt.init_tile(at, (0, 0), (8, 16), base_shape=(8, 16), base_strides=(16, 1)),
                "XT1112"),
    "nothing": (lambda at, A: xt.init_tile(at, (0, 0), (8, 16)), "XT1112"),
    "no such type": (lambda at, A: xt.init_tile(at, (0, 0), (8, 16), base_shape=(8, 16), base_strides=(16, 1),
                                                dtype="f23"), "XT3270"),
    "three sizes": (lambda at, A: xt.init_tile(at, (0, 0), (8, 16), base_shape=(1, 8, 16), base_strides=(16, 1),
                                               dtype=xt.f32), "XT1114"),
    "three offsets": (lambda at, A: xt.init_tile(at, (0, 0, 0), (8, 16), base_shape=(8, 16), base_strides=(16, 1),
                                                 dtype=xt.f32), "XT1103"),
    "an index": (lambda at, A: xt.init_tile(xt.group_id(0), (0, 0), (8, 16)), "XT1111"),
    "a number": (lambda at, A: xt.init_tile(4096, (0, 0), (8, 16)), "XT1101"),
    "an array's type": (lambda at, A: xt.init_tile(A, (0, 0), (8, 16), dtype=xt.f32), "XT1110"),
    "only a shape": (lambda at, A: xt.init_tile(A, (0, 0), (8, 16), base_shape=(8, 16)), "XT1113"),
    "only strides": (lambda at, A: xt.init_tile(A, (0, 0), (8, 16), base_strides=(8, 1)), "XT1113"),
    "one size": (lambda at, A: xt.init_tile(A, (0, 0), (8, 16), base_shape=(8,), base_strides=(8, 1)),
                 "XT1114"),
    "a shape of floats": (lambda at, A: xt.init_tile(A, (0, 0), (8, 16), base_shape=(8, 1.5), base_strides=(8, 1)),
                          "XT1205"),
}


@pytest.mark.parametrize("name", CALLS)
def test_mistakes(name: str) -> None:
    make, message = CALLS[name]

    @xt.kernel
    def wrong(at, A):
        make(at, A)

    with pytest.raises(xt.XeError, match=message) as caught:
        wrong[1](np.uint64(4096), np.zeros((8, 16), np.float32))
    assert caught.value.hint


def test_an_order_that_nothing_says() -> None:
    @xt.kernel
    def wrong(at, pitch):
        xt.load_tile(xt.init_tile(at, (0, 0), (8, 16), order=(0, 1), base_shape=(8, 16),
                                  base_strides=(pitch, pitch), dtype=xt.f32))

    with pytest.raises(xt.ShapeError, match="XT2131"):
        _ = wrong.lower(np.uint64(0), 8).xegpu


SEED = """func.func @copy(%A : i64, %C : memref<16x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %t = xetile.init_tile %A, [%c8, %c0], [%c16, %c16], [%c16, %c1] : i64 -> !xetile.tile<8x16xf32>
  %v = xetile.load_tile %t : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %c = xetile.init_tile %C, [%c0, %c0] : memref<16x16xf32> -> !xetile.tile<8x16xf32>
  xetile.store_tile %v, %c : vector<8x16xf32>, !xetile.tile<8x16xf32>
  func.return
}"""


def test_an_address_in_text() -> None:
    a, c = integers(np.random.default_rng(7), xt.f32, 16, 16), np.zeros((16, 16), np.float32)
    xt.parse(SEED)["copy"][1](np.int64(a.ctypes.data), c)
    np.testing.assert_array_equal(c[:8], a[8:])
    with pytest.raises(xt.ElementTypeError) as caught:
        xt.parse(SEED)["copy"][1](5, c)
    assert "numpy.int64" in caught.value.hint


@pytest.mark.parametrize(("old", "new", "message"), [
    (", [%c16, %c16], [%c16, %c1] : i64", " : i64", "XT3030"),
    ("[%c8, %c0]", "[%c8]", "XT3030"),
    ("%A : i64", "%A : i32", "XT3027"),
])
def test_mistakes_in_text(old: str, new: str, message: str) -> None:
    text = SEED.replace(old, new).replace(": i64 ->", ": i32 ->") if "i32" in new else SEED.replace(old, new)
    with pytest.raises(xt.TextError, match=message):
        xt.parse(text)
