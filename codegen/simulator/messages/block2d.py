"""2D block messages: rectangles of an array to and from registers, with zeros outside of the array.

Header (one register): q0 base, d2 width - 1 in bytes, d3 height - 1, d4 pitch - 1 in bytes, d5 column in elements, d6
row, d7 block: width - 1 in bits 7:0, height - 1 in 15:8, blocks side by side - 1 in 19:16.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.findings import Finding
from codegen.simulator.memory import Memory
from codegen.simulator.messages.descriptor import Message
from codegen.simulator.messages.lanes import read_block, write_block
from codegen.simulator.threads import Threads
from xegpu.target.block2d import block_io_fault

Integers = NDArray[np.int64]
_VNNI_BYTES = 4


@dataclass(frozen=True)
class _Blocks:
    """Blocks of one shape, one for each thread.

    Attributes:
        rows: the threads.
        base, width, height, pitch: the array: address, bytes of a row, rows, bytes from row to row; (n,).
        column, row: where the block starts, elements; (n,).
        shape: rows and columns of a block.
        count: blocks side by side.
        size: bytes of an element.
    """

    rows: Integers
    base: Integers
    width: Integers
    height: Integers
    pitch: Integers
    column: Integers
    row: Integers
    shape: tuple[int, int]
    count: int
    size: int

    def check(self, verb: str) -> None:
        """Raise if a surface or a column breaks the rules of 2D block messages."""
        surfaces = np.stack([self.base, self.height, self.width, self.pitch], axis=1)
        for surface in surfaces[:1] if (surfaces == surfaces[0]).all() else np.unique(surfaces, axis=0):
            if fault := _fault(*surface.tolist()):
                row = int(self.rows[np.flatnonzero((surfaces == surface).all(1))[0]])
                raise Finding("XT6110", f"{verb} a 2D block of an array that 2D block messages may not access: {fault}",
                              "call the kernel with arrays that its access was compiled for", row)
        odd = self.column * self.size % 4 != 0
        if odd.any():
            first = int(np.flatnonzero(odd)[0])
            raise Finding("XT6111", f"{verb} a 2D block at column {int(self.column[first])}, byte "
                          f"{int(self.column[first]) * self.size} of a row, which is not a multiple of 4",
                          "let columns of blocks be multiples of 4 bytes", int(self.rows[first]))

    def inside(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """In-bounds masks of the blocks' rows (n, h) and columns (n, count * w)."""
        y = self.row[:, None] + np.arange(self.shape[0])
        x = (self.column[:, None] + np.arange(self.count * self.shape[1])) * self.size
        return (y >= 0) & (y < self.height[:, None]), (x >= 0) & (x + self.size <= self.width[:, None])

    def row_addresses(self) -> Integers:
        """Address of the first byte of each row of the blocks: (n, h)."""
        y = self.row[:, None] + np.arange(self.shape[0])
        return (self.base + self.column * self.size)[:, None] + y * self.pitch[:, None]


@lru_cache(1024)
def _fault(base: int, height: int, width: int, pitch: int) -> str:
    return block_io_fault(base, (height, width), (pitch, 1), 1)


def load(message: Message, threads: Threads, active: NDArray[np.bool_], memory: Memory) -> None:
    """Load blocks, with rows interleaved (VNNI) or transposed if asked; without a destination it is a prefetch."""
    for blocks in _blocks(message, threads, active):
        blocks.check("prefetches" if message.result is None else "reads")
        elements = blocks.rows.size * blocks.count * blocks.shape[0] * blocks.shape[1]
        memory.traffic[message.kind] += elements * blocks.size
        if message.result is not None:
            data = _arranged(message, blocks, _gathered(blocks, memory), threads.register_bytes)
            write_block(threads, message.result, data, blocks.rows)


def store(message: Message, threads: Threads, active: NDArray[np.bool_], memory: Memory) -> None:
    """Store blocks; elements outside the arrays are dropped."""
    assert message.data is not None
    for blocks in _blocks(message, threads, active):
        blocks.check("writes")
        (height, width), size = blocks.shape, blocks.size
        memory.traffic[message.kind] += blocks.rows.size * height * width * size
        pitch = _power_of_two(width)
        data = read_block(threads, message.data, height * pitch * size, blocks.rows)
        values = data.reshape(-1, height, pitch * size)[:, :, :width * size]
        in_rows, in_columns = blocks.inside()
        starts = blocks.row_addresses()
        if in_rows.all() and in_columns.all():
            memory.globals.store.write_rows(_located(blocks, starts, width * size, memory, "writes"), values)
        else:
            inside = in_rows[:, :, None] & in_columns[:, None, :]
            at = _located_elements(blocks, starts, inside, memory, "writes")
            memory.globals.store.scatter(at, np.ascontiguousarray(values).view(f"u{size}")[inside])


def _blocks(message: Message, threads: Threads, active: NDArray[np.bool_]) -> list[_Blocks]:
    """The blocks of a message, by their shapes: mostly all threads have one."""
    rows = np.flatnonzero(active[:, 0])
    header = np.ascontiguousarray(threads.read(message.address, 1, np.int32)[rows, :8])
    base, words = header.view(np.int64)[:, 0], header.astype(np.int64)
    found = []
    for shape in np.unique(words[:, 7]):
        mine = words[:, 7] == shape
        own = words[mine]
        size = (int(shape >> 8 & 0xFF) + 1, int(shape & 0xFF) + 1)
        width, height, pitch = ((own[:, i] & 0xFFFFFFFF) + 1 for i in (2, 3, 4))
        column, row = own[:, 5] + message.block_offset[0], own[:, 6] + message.block_offset[1]
        found.append(_Blocks(rows[mine], base[mine], width, height, pitch, column, row, size,
                             int(shape >> 16 & 0xF) + 1, message.data_bytes))
    return found


def _gathered(blocks: _Blocks, memory: Memory) -> NDArray[Any]:
    """Elements of the blocks, zero outside of the arrays: (n, h, count * w)."""
    in_rows, in_columns = blocks.inside()
    starts = blocks.row_addresses()
    width = blocks.count * blocks.shape[1]
    if in_rows.all() and in_columns.all():
        at = _located(blocks, starts, width * blocks.size, memory, "reads")
        return memory.globals.store.rows(at, width * blocks.size).view(f"u{blocks.size}")
    inside = in_rows[:, :, None] & in_columns[:, None, :]
    found = np.zeros(inside.shape, f"u{blocks.size}")
    at = _located_elements(blocks, starts, inside, memory, "reads")
    found[inside] = memory.globals.store.gather(at, blocks.size)
    return found


def _located_elements(blocks: _Blocks, starts: Integers, inside: NDArray[np.bool_], memory: Memory,
                      verb: str) -> Integers:
    addresses = starts[:, :, None] + np.arange(inside.shape[2]) * blocks.size
    thread = np.broadcast_to(blocks.rows[:, None, None], inside.shape)[inside]
    return _block_offsets(addresses[inside], thread, blocks.size, memory, verb)


def _located(blocks: _Blocks, starts: Integers, size: int, memory: Memory, verb: str) -> Integers:
    thread = np.repeat(blocks.rows, starts.shape[1])
    return _block_offsets(starts.reshape(-1), thread, size, memory, verb).reshape(starts.shape)


def _block_offsets(addresses: Integers, thread: Integers, size: int, memory: Memory, verb: str) -> Integers:
    at, outside = memory.globals.locate(addresses, size)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise Finding("XT6101", f"{verb} by a 2D block message {memory.globals.describe(int(addresses[first]), size)}",
                      "the message's array is larger than the one that was passed: correct its sizes and strides",
                      int(thread[first]))
    return at


def _arranged(message: Message, blocks: _Blocks, elements: NDArray[Any], register_bytes: int) -> NDArray[np.uint8]:
    """Bytes of registers for loaded elements (n, h, count * w): block behind block, each from a register on."""
    (height, width), count = blocks.shape, len(elements)
    split = elements.reshape(count, height, blocks.count, width).transpose(0, 2, 1, 3)
    if message.transposed:
        split = _padded(split.transpose(0, 1, 3, 2), 3, _power_of_two(height))
    else:
        split = _padded(split, 3, _power_of_two(width))
    if message.vnni:
        together = _VNNI_BYTES // blocks.size
        split = _padded(split, 2, -(-height // together) * together)
        split = split.reshape(count, blocks.count, -1, together, split.shape[3]).transpose(0, 1, 2, 4, 3)
    data = np.ascontiguousarray(split).view(np.uint8).reshape(count, blocks.count, -1)
    return _padded(data, 2, -(-data.shape[2] // register_bytes) * register_bytes).reshape(count, -1)


def _padded(array: NDArray[Any], axis: int, size: int) -> NDArray[Any]:
    """The array with zeros behind it along an axis, up to a size."""
    if array.shape[axis] == size:
        return array
    return np.pad(array, [(0, size - array.shape[axis]) if i == axis else (0, 0) for i in range(array.ndim)])


def _power_of_two(value: int) -> int:
    return 1 << (value - 1).bit_length()
