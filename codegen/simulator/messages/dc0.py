"""The older data port: scratch in blocks of 32 bytes, and block reads of the arguments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.findings import Finding
from codegen.simulator.memory import Memory
from codegen.simulator.messages.descriptor import Message
from codegen.simulator.messages.lanes import read_block, write_block
from codegen.simulator.threads import Threads

_DWORD_MASKS = 1 << 16
"""Descriptor bit of scratch writes: each lane of the message masks one double word of the data."""
_ARGUMENTS = 253
"""Index in the binding table of the data that arguments are read from: memory by 64-bit base and offset ("A64")."""


def scratch(message: Message, threads: Threads, active: NDArray[np.bool_], memory: Memory) -> None:
    """Read or write blocks of the thread's scratch memory."""
    rows = np.flatnonzero(active.any(1))
    size = 4 * len(message.components)
    is_load = message.operation == "scratch_load"
    left = memory.scratch_bytes - message.offset
    if size > left and not (is_load and left > 0):
        raise Finding("XT6102", f"reaches byte {message.offset + size} of scratch memory, which has "
                      f"{memory.scratch_bytes}", "this is a fault of the compiler", int(rows[0]))
    at = rows * memory.scratch_bytes + message.offset
    memory.traffic[message.kind] += size * len(rows)
    if is_load:
        assert message.result is not None
        offsets = np.full(len(rows), message.offset, np.int64)
        write_block(threads, message.result, memory.read_scratch(rows, offsets, size), rows)
        return
    assert message.data is not None
    data = read_block(threads, message.data, size, rows)
    if message.descriptor & _DWORD_MASKS and not active[rows].all():
        words = np.ascontiguousarray(data).view(np.uint32)
        old = memory.scratch.rows(at, size).view(np.uint32)
        lanes = active[rows]
        written = np.zeros(words.shape, np.bool_)
        written[:, :lanes.shape[1]] = lanes[:, :words.shape[1]]
        data = np.where(written, words, old).view(np.uint8)
    memory.scratch.write_rows(at, data)


def oword_load(message: Message, threads: Threads, active: NDArray[np.bool_], memory: Memory) -> None:
    """Read consecutive bytes of the arguments; the header's third word is their offset."""
    if message.binding != _ARGUMENTS:
        raise Finding("XT6109", f"reads entry {message.binding} of the binding table by a block message, which is not "
                      "simulated", "kernels of this package address arrays by pointers and surface states", None)
    assert message.result is not None
    rows = np.flatnonzero(active.any(1))
    size = 4 * len(message.components)
    at = threads.read(message.address, 1, np.uint32)[rows, 2].astype(np.int64)
    if (at + size > memory.indirect.data.size).any():
        raise Finding("XT6102", f"reads {size} bytes at byte {int(at.max())} of arguments, which have "
                      f"{memory.indirect.data.size}", "this is a fault of the compiler", int(rows[0]))
    memory.traffic[message.kind] += size * len(rows)
    write_block(threads, message.result, memory.indirect.rows(at, size), rows)
