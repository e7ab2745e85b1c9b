"""Loads and stores of the load-store cache: gathers, scatters, component masks, and transposed ("block") accesses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.findings import Finding
from codegen.simulator.memory import SLM_ADDRESS, Memory
from codegen.simulator.memory.byte_store import ByteStore
from codegen.simulator.messages.descriptor import ARGUMENTS, Message
from codegen.simulator.messages.lanes import read_block, read_lanes, write_block, write_lanes
from codegen.simulator.threads import Threads

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_WORD = 4
"""Bytes of an aligned word."""


@dataclass(frozen=True)
class Access:
    """Memory that the active lanes of a message access.

    Attributes:
        store: the bytes.
        at: offset of each active lane in them, threads one behind the other.
        rows: thread of each active lane.
    """

    store: ByteStore
    at: Integers
    rows: Integers


def resolve(message: Message, threads: Threads, active: Mask, memory: Memory, size: int, verb: str) -> Access:
    """The memory of a message's active lanes, ``size`` bytes each.

    Raises:
        Finding: an access that is not aligned to its elements, or outside of its memory.
    """
    rows = np.nonzero(active)[0]
    word = f"u{message.address_bytes}"
    addresses = read_lanes(threads, message.address, 1, active, word)[0].astype(np.int64) + message.offset
    if message.unit == "slm":
        local = addresses & SLM_ADDRESS
        _check_aligned(message, local, rows, "byte {} of shared local memory".format, verb)
        _check_private(local, size, memory.slm_bytes, rows, "shared local memory", verb)
        return Access(memory.slm, local + threads.group[rows] * memory.slm_bytes, rows)
    if message.surface == "ss":
        is_read_block = message.transposed and verb == "reads"  # which may end behind it
        _check_private(addresses, 1 if is_read_block else size, memory.scratch_bytes, rows, "scratch memory", verb)
        return Access(memory.scratch, addresses + rows * memory.scratch_bytes, rows)
    if message.surface == "bti" and message.binding == ARGUMENTS:
        _check_private(addresses, size, memory.indirect.data.size, rows, "arguments", verb)
        return Access(memory.indirect, addresses, rows)
    if message.surface == "bti":
        raise Finding("XT6109", f"{verb} through entry {message.binding} of the binding table, which is not simulated",
                      "kernels of this package address arrays by pointers", int(rows[0]))
    if message.surface == "bss":
        assert message.surface_register is not None
        addresses += _surface_bases(threads.address_words()[rows, message.surface_register], rows, memory)
    _check_aligned(message, addresses, rows, memory.globals.position, verb)
    return Access(memory.globals.store, _global_offsets(message, addresses, size, rows, memory, verb), rows)


def _check_aligned(message: Message, addresses: Integers, rows: Integers, position: Callable[[int], str],
                   verb: str) -> None:
    """Raise for blocks and atomic operations that are not aligned; the compiler lets single lanes read anywhere."""
    if not (message.transposed or message.is_atomic):
        return
    bad = addresses & (message.data_bytes - 1)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise Finding("XT6103", f"{verb} elements of {message.data_bytes} bytes at {position(int(addresses[first]))}, "
                      f"an address that is not a multiple of {message.data_bytes}",
                      "make addresses and offsets multiples of the element's size", int(rows[first]))


def _check_private(addresses: Integers, size: int, limit: int, rows: Integers, what: str, verb: str) -> None:
    outside = (addresses < 0) | (addresses + size > limit)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise Finding("XT6102", f"{verb} {size} bytes at byte {int(addresses[first])} of {what}, which has {limit}",
                      "correct the offset, or allocate more", int(rows[first]))


def _surface_bases(offsets: NDArray[np.uint32], rows: Integers, memory: Memory) -> Integers:
    """Base addresses of the buffers behind surface-state offsets."""
    found, inverse = np.unique(offsets, return_inverse=True)
    for offset in found:
        if int(offset) not in memory.surfaces:
            row = int(rows[np.flatnonzero(offsets == offset)[0]])
            raise Finding("XT6101", f"addresses a buffer by the surface state {int(offset):#x}, which no argument has",
                          "this is a fault of the compiler or of inline assembly", row)
    return np.array([memory.surfaces[int(offset)] for offset in found], np.int64)[inverse]


def _global_offsets(message: Message, addresses: Integers, size: int, rows: Integers, memory: Memory,
                    verb: str) -> Integers:
    """Offsets in global memory."""
    slack = 4 if memory.word_slack and size == 4 else 1
    at, outside = memory.globals.locate(addresses, size, slack)
    if verb == "reads" and message.data_bytes == _WORD and outside.any() and not (addresses % _WORD).any():
        # A word that has an element may be read whole: memory is never mapped by less. A vector that has one may go on
        # to where an array has others: what lies between is mapped as well.
        starts = [addresses + first for first in range(0, size, _WORD)]
        without = [memory.globals.locate(start, _WORD, _WORD)[1] for start in starts]
        beyond = [memory.globals.locate(start, _WORD, _WORD, holes=False)[1] for start in starts]
        outside = np.logical_and.reduce(without) | np.logical_or.reduce(beyond)
    if outside.any():
        first = int(np.flatnonzero(outside)[0])
        raise Finding("XT6101", f"{verb} {memory.globals.describe(int(addresses[first]), size)}",
                      "correct the index, the offset or the grid; the array's sizes are arguments of the kernel",
                      int(rows[first]))
    return at


def load(message: Message, threads: Threads, active: Mask, memory: Memory) -> None:
    """Gathers, loads of component masks, and transposed loads; prefetches do nothing."""
    if message.result is None:
        return
    access, span = _counted_access(message, threads, active, memory, "read")
    size = message.data_bytes
    if message.transposed:
        data = memory.read_scratch(access.rows, access.at - access.rows * memory.scratch_bytes, span) \
            if message.surface == "ss" else access.store.rows(access.at, span)
        write_block(threads, message.result, data, access.rows)
        return
    words = np.stack([access.store.gather(access.at + part * size, size) for part in message.components])
    slot = f"u{message.slot_bytes}"
    write_lanes(threads, message.result, words.astype(slot) << np.array(message.slot_shift, slot), active)


def store(message: Message, threads: Threads, active: Mask, memory: Memory) -> None:
    """Scatters, stores of component masks, and transposed stores."""
    assert message.data is not None
    access, span = _counted_access(message, threads, active, memory, "write")
    is_noted = message.unit == "slm" and memory.shadow is not None
    before = access.store.rows(access.at, span).copy() if is_noted else None
    data = _store(message, threads, active, access, span)
    if before is not None:
        after = access.store.rows(access.at, span)
        note_shared(memory, threads, access, span, "write", same=((before == data).ravel(), (after == data).ravel()))


def _store(message: Message, threads: Threads, active: Mask, access: Access, span: int) -> NDArray[np.uint8]:
    """Write memory, and return the bytes of each lane; those between components that are not written are 0."""
    assert message.data is not None
    count, size = len(message.components), message.data_bytes
    if message.transposed:
        block = read_block(threads, message.data, span, access.rows)
        access.store.write_rows(access.at, block)
        return block
    slots = read_lanes(threads, message.data, count, active, f"u{message.slot_bytes}")
    words = (slots >> np.array(message.slot_shift, slots.dtype)).astype(f"u{size}")
    data = np.zeros((len(access.at), span), np.uint8)
    for part, values in zip(message.components, words, strict=True):
        access.store.scatter(access.at + part * size, values)
        data[:, part * size:(part + 1) * size] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, size)
    return data


def _counted_access(message: Message, threads: Threads, active: Mask, memory: Memory, what: str) -> tuple[Access, int]:
    """Memory of a load or store, counted and checked against earlier accesses, and the bytes that each lane spans."""
    span = (message.components[-1] + 1) * message.data_bytes
    access = resolve(message, threads, active, memory, span, f"{what}s")
    memory.traffic[message.kind] += len(message.components) * message.data_bytes * len(access.rows)
    if message.unit == "slm" and memory.shadow is not None and what == "read":
        note_shared(memory, threads, access, span, what)
    return access, span


def note_shared(memory: Memory, threads: Threads, access: Access, size: int, what: str, atomic: bool = False,
                same: tuple[Mask, Mask] | None = None) -> None:
    """Check accesses to shared local memory against earlier ones.

    Args:
        memory, threads: of the simulated device.
        access: where each lane accesses it.
        size: bytes of a lane.
        what: ``"read"`` or ``"write"``.
        atomic: whether they are atomic operations.
        same: of a write, for each byte, whether it is what was there before, and what is there behind the message.
    """
    assert memory.shadow is not None
    assert memory.barriers.clocks is not None
    at = (access.at[:, None] + np.arange(size)).reshape(-1)
    common = at, np.repeat(access.rows, size), threads.subgroup, memory.barriers.clocks, atomic
    if what == "read":
        memory.shadow.read(*common)
    else:
        memory.shadow.write(*common, same)
