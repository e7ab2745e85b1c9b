"""Messages of the simulator against plain NumPy: gathers and scatters of all sizes, atomics, 2D blocks, scratch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codegen.simulator.findings import Finding
from codegen.simulator.memory import Memory
from codegen.simulator.memory.global_memory import Allocation
from codegen.simulator.messages import execute
from codegen.simulator.messages.descriptor import Message, decode
from codegen.simulator.threads import Threads

LANES, THREADS = 16, 4
DATA_SIZES = {"d32": (2, 4, 4, 0), "d64": (3, 8, 8, 0), "d8u32": (4, 1, 4, 0), "d16u32": (5, 2, 4, 0),
              "d16u32h": (6, 2, 4, 16)}
Array = np.ndarray[Any, Any]


def threads(count: int = THREADS) -> Threads:
    """Two work-groups of threads, whose registers hold 0xA5."""
    group, subgroup = np.repeat(np.arange(2), count // 2), np.tile(np.arange(count // 2), 2)
    made = Threads.allocate(128, 64, group, subgroup, np.zeros((count, 3), np.int64))
    made.grf.fill(0xA5)
    return made


def message(unit: str, bits: int, *, lanes: int = LANES, result: int | None = None, data: int | None = None,
            extended: int = 0) -> Message:
    """A message whose addresses are in r10."""
    def register(number: int | None) -> dict[str, Any]:
        return {"rn": "null"} if number is None else {"rn": "r", "r": number}

    return decode({"subop": unit, "es": lanes, "dst": {"reg": register(result), "len": 1}, "srcs": [
        {"areg": {"rn": "r", "r": 10}, "alen": 2}, {"reg": register(data), "len": 1},
        {"kind": "IM", "value": hex(extended)}, {"kind": "IM", "value": hex(bits)}]}, 64)


def memory_with(array: Array, at: Threads, slm_bytes: int = 0, check: bool = False) -> Memory:
    memory = Memory(check_shared=check)
    memory.globals.register(Allocation("array", array.ctypes.data, array.reshape(-1).view(np.uint8)))
    memory.begin(at, slm_bytes, 256, np.zeros(0, np.uint8))
    return memory


def put(at: Threads, register: int, values: Array) -> None:
    """Write lanes from a register on: (T, lanes)."""
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(at), -1)
    whole = np.zeros((len(at), -(-raw.shape[1] // 64) * 64), np.uint8)
    whole[:, :raw.shape[1]] = raw
    at.payload(register, whole.shape[1] // 64)[...] = whole.reshape(len(at), -1, 64)


@pytest.mark.parametrize("size", DATA_SIZES)
@pytest.mark.parametrize("components", [1, 2, 3, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_gathers_and_scatters(size: str, components: int, masked: bool) -> None:
    number, width, slot, shift = DATA_SIZES[size]
    rng = np.random.default_rng(number * 10 + components)
    array = rng.integers(0, 256, (1024, width), np.uint8)
    words = array.view(f"u{width}")[:, 0]
    at, other = threads(), threads()
    active = rng.random((THREADS, LANES)) < 0.5 if masked else np.ones((THREADS, LANES), bool)
    first = rng.permutation(1024 // 4)[:THREADS * LANES].reshape(THREADS, LANES) * 4
    wild = np.where(active, array.ctypes.data + first * width, -5)
    put(at, 10, wild.astype(np.int64))
    bits = (components - 1) << 12 | number << 9 | 3 << 7
    execute(message("ugm", bits, result=20), at, active, memory_with(array, at))
    registers = -(-LANES * slot // 64)
    for part in range(components):
        read = at.read(20 + part * registers, registers, f"u{slot}")[:, :LANES]
        expected = words[np.minimum(first + part, 1023)].astype(f"u{slot}") << np.array(shift, f"u{slot}")
        np.testing.assert_array_equal(read[active], expected[active])
        assert (read[~active].view(np.uint8) == 0xA5).all()
    stored = np.zeros_like(array)
    put(at, 10, np.where(active, stored.ctypes.data + first * width, -5).astype(np.int64))
    other.grf[...] = at.grf
    execute(message("ugm", bits | 4, data=20), other, active, memory_with(stored, other))
    copied = np.zeros(1024, bool)
    for part in range(components):
        copied[first[active] + part] = True
    np.testing.assert_array_equal(stored, np.where(copied[:, None], array, 0))


def test_an_access_outside_names_the_first_thread() -> None:
    array, at = np.zeros(64, np.uint32), threads()
    addresses = np.full((THREADS, LANES), array.ctypes.data, np.int64)
    addresses[2, 5] += 256
    put(at, 10, addresses)
    with pytest.raises(Finding, match="0 bytes behind the end of array") as caught:
        execute(message("ugm", 2 << 9 | 3 << 7, result=20), at, np.ones((THREADS, LANES), bool),
                memory_with(array, at))
    assert (caught.value.code, caught.value.thread) == ("XT6101", 2)


@pytest.mark.parametrize(("number", "function"), [
    (12, lambda old, new: old + new), (13, lambda old, new: old - new), (14, min), (15, max), (24, lambda o, n: o & n),
    (25, lambda o, n: o | n), (26, lambda o, n: o ^ n)])
@pytest.mark.parametrize("unit", ["ugm", "slm"])
def test_atomics_take_turns(number: int, function: Any, unit: str) -> None:
    """Few places, many lanes: each gets the value that the lanes before it left."""
    rng = np.random.default_rng(number)
    at = threads()
    array = rng.integers(-100, 100, 4).astype(np.int32)
    memory = memory_with(array, at, slm_bytes=16)
    place = rng.integers(0, 4, (THREADS, LANES))
    values = rng.integers(-100, 100, (THREADS, LANES)).astype(np.int32)
    put(at, 20, values)
    if unit == "ugm":
        put(at, 10, array.ctypes.data + place.astype(np.int64) * 4)
        cells = [array.copy()] * THREADS
    else:
        memory.slm.data.view(np.int32)[...] = np.tile(array, 2)
        put(at, 10, (0x10000000 + place * 4).astype(np.uint32))
        groups = [array.copy(), array.copy()]
        cells = [groups[number] for number in at.group]
    bits = 2 << 9 | (3 if unit == "ugm" else 2) << 7 | number
    execute(message(unit, bits, data=20, result=30), at, np.ones((THREADS, LANES), bool), memory)
    for row in range(THREADS):
        for lane in range(LANES):
            cell = cells[row]
            assert at.read(30, 1, np.int32)[row, lane] == cell[place[row, lane]]
            cell[place[row, lane]] = function(cell[place[row, lane]], values[row, lane])
    after = array if unit == "ugm" else memory.slm.data.view(np.int32)
    np.testing.assert_array_equal(after, cells[0] if unit == "ugm" else np.concatenate(groups))


def _header(array: Array, columns: Array, rows: Array, shape: tuple[int, int], count: int) -> Array:
    """Headers of 2D block messages: (T, 16) words."""
    header = np.zeros((len(rows), 16), np.uint32)
    header[:, :2] = np.array([array.ctypes.data], np.uint64).view(np.uint32)
    header[:, 2:5] = array.shape[1] * array.itemsize - 1, array.shape[0] - 1, array.strides[0] - 1
    header[:, 5], header[:, 6] = columns.astype(np.int32).view(np.uint32), rows.astype(np.int32).view(np.uint32)
    header[:, 7] = shape[1] - 1 | shape[0] - 1 << 8 | count - 1 << 16
    return header


def _whole(dtype: Any, rows: int, columns: int, pitch: int) -> Array:
    """A matrix whose first element is at a multiple of 64 bytes."""
    memory = np.zeros(rows * pitch * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    matrix = np.ndarray((rows, pitch), dtype, memory.data, start)
    matrix[...] = np.random.default_rng(rows).integers(0, 200, matrix.shape)
    return matrix[:, :columns]


@pytest.mark.parametrize(("dtype", "number", "shape", "count", "kind"), [
    (np.uint16, 1, (16, 16), 2, "plain"), (np.uint16, 1, (32, 16), 1, "vnni"), (np.uint8, 0, (32, 16), 2, "vnni"),
    (np.uint32, 2, (8, 16), 1, "plain"), (np.uint32, 2, (16, 8), 1, "transposed"), (np.uint16, 1, (5, 12), 1, "plain")])
def test_2d_blocks(dtype: Any, number: int, shape: tuple[int, int], count: int, kind: str) -> None:
    """In the middle and over every edge, where zeros are read."""
    array = _whole(dtype, 50, 64, 96)
    at = threads()
    columns, rows = np.array([0, 8, 56, -4]), np.array([3, -5, 45, 20])
    put(at, 10, _header(array, columns, rows, shape, count))
    memory = Memory()
    whole = array.base if array.base is not None else array
    memory.globals.register(Allocation("array", array.ctypes.data, np.ndarray(
        (49 * array.strides[0] + 64 * array.itemsize,), np.uint8, whole.data, array.ctypes.data - whole.ctypes.data)))
    memory.begin(at, 0, 0, np.zeros(0, np.uint8))
    bits = number << 9 | 3 | (0x80 if kind == "vnni" else 0) | (0x8000 if kind == "transposed" else 0)
    execute(message("ugm", bits, lanes=1, result=20), at, np.ones((THREADS, 1), bool), memory)
    padded = np.zeros((150, 264), dtype)
    padded[50:100, 100:164] = array
    height, width = shape
    for thread in range(THREADS):
        register = 20
        for block in range(count):
            top, left = 50 + rows[thread], 100 + columns[thread] + block * width
            part = padded[top:top + height, left:left + width]
            if kind == "vnni":
                step = 4 // array.itemsize
                part = part.reshape(height // step, step, width).transpose(0, 2, 1)
            elif kind == "transposed":
                part = part.T
            else:
                part = np.pad(part, ((0, 0), (0, (1 << (width - 1).bit_length()) - width)))
            raw = np.ascontiguousarray(part).view(np.uint8).reshape(-1)
            length = -(-raw.size // 64)
            read = at.payload(register, length)[thread].reshape(-1)[:raw.size]
            np.testing.assert_array_equal(read, raw)
            register += length


def test_2d_stores_drop_what_is_outside() -> None:
    array = _whole(np.uint16, 20, 32, 32)
    array[...] = 7
    at = threads()
    columns, rows = np.array([0, 24, 20, -6]), np.array([-3, 3, 17, 12])
    put(at, 10, _header(array, columns, rows, (4, 16), 1))
    values = np.random.default_rng(3).integers(100, 999, (THREADS, 64)).astype(np.uint16)
    put(at, 20, values)
    execute(message("ugm", 1 << 9 | 7, lanes=1, data=20), at, np.ones((THREADS, 1), bool), memory_with(array, at))
    expected = np.full((20, 32), 7, np.uint16)
    for thread in range(THREADS):
        for row in range(4):
            for column in range(16):
                y, x = rows[thread] + row, columns[thread] + column
                if 0 <= y < 20 and 0 <= x < 32:
                    expected[y, x] = values[thread, row * 16 + column]
    np.testing.assert_array_equal(array, expected)


def test_scratch_writes_mask_words() -> None:
    """A block of 64 bytes, of which the lanes that are on are written."""
    at = threads()
    memory = memory_with(np.zeros(8, np.uint32), at)
    values = np.arange(THREADS * 16, dtype=np.uint32).reshape(THREADS, 16)
    put(at, 20, values)
    active = np.random.default_rng(4).random((THREADS, 16)) < 0.5
    scratch = 1 << 19 | 1 << 18 | 1 << 12 | 2
    execute(message("dc0", scratch | 1 << 17 | 1 << 16, data=20), at, active, memory)
    execute(message("dc0", scratch, result=30), at, np.ones((THREADS, 16), bool), memory)
    np.testing.assert_array_equal(at.read(30, 1, np.uint32), np.where(active, values, 0))


@pytest.mark.parametrize(("block", "own"), [(6, 64), (7, 32)])
def test_scratch_reads_begin_in_the_threads_own(block: int, own: int) -> None:
    """Of 256 bytes a thread; a block of 64 bytes begins at a multiple of 32, and what is another thread's is 0xA5."""
    at = threads()
    memory = memory_with(np.zeros(8, np.uint32), at)
    memory.scratch.data[:] = 1
    execute(message("dc0", 1 << 19 | 1 << 18 | 1 << 12 | block, result=30), at, np.ones((THREADS, 16), bool), memory)
    expected = np.where(np.arange(64) < own, 1, 0xA5)
    np.testing.assert_array_equal(at.read(30, 1, np.uint32).view(np.uint8).reshape(THREADS, 64),
                                  np.tile(expected, (THREADS, 1)))


@pytest.mark.parametrize(("start", "own"), [(192, 64), (224, 32), (252, 4)])
def test_blocks_of_scratch_begin_in_the_threads_own(start: int, own: int) -> None:
    """The same by the load-store cache, whose block of 16 words begins at a multiple of 4; a store must fit."""
    at = threads()
    memory = memory_with(np.zeros(8, np.uint32), at)
    memory.scratch.data[:] = 1
    put(at, 10, np.full((THREADS, LANES), start, np.int32))
    one = np.zeros((THREADS, LANES), bool)
    one[:, 0] = True
    block = 2 << 29 | 1 << 15 | 5 << 12 | 2 << 9 | 2 << 7
    execute(message("ugm", block, result=30), at, one, memory)
    expected = np.where(np.arange(64) < own, 1, 0xA5)
    np.testing.assert_array_equal(at.read(30, 1, np.uint32).view(np.uint8).reshape(THREADS, 64),
                                  np.tile(expected, (THREADS, 1)))
    if own < 64:
        with pytest.raises(Finding, match=f"writes 64 bytes at byte {start} of scratch memory, which has 256"):
            execute(message("ugm", block | 4, data=20), at, one, memory)


@pytest.mark.parametrize(("block", "write", "end"), [(8, 0, 320), (7, 1, 288)])
def test_scratch_outside_of_the_threads_own(block: int, write: int, end: int) -> None:
    at = threads()
    memory = memory_with(np.zeros(8, np.uint32), at)
    block_message = message("dc0", 1 << 19 | 1 << 18 | write << 17 | 1 << 12 | block, result=30, data=20)
    with pytest.raises(Finding, match=f"reaches byte {end} of scratch memory, which has 256") as caught:
        execute(block_message, at, np.ones((THREADS, 16), bool), memory)
    assert caught.value.code == "XT6102"


@pytest.mark.parametrize(("last", "fits"), [(124, True), (125, False), (4096, False)])
def test_shared_memory_ends_in_the_groups_own(last: int, fits: bool) -> None:
    """The second work-group's memory does not follow the first's 128 bytes."""
    at = threads()
    memory = memory_with(np.zeros(8, np.uint32), at, slm_bytes=128)
    addresses = np.zeros((THREADS, LANES), np.int32)
    addresses[1, 3] = last
    put(at, 10, addresses)
    load, everything = message("slm", 2 << 9 | 2 << 7, result=30), np.ones((THREADS, LANES), bool)
    if fits:
        execute(load, at, everything, memory)
        return
    with pytest.raises(Finding, match=f"reads 4 bytes at byte {last} of shared local memory, which has 128") as caught:
        execute(load, at, everything, memory)
    assert (caught.value.code, caught.value.thread) == ("XT6102", 1)
