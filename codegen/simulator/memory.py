"""Memory of a simulated device: allocations at 64-bit addresses, shared local memory, scratch, and bytes moved.

Addresses are those of this process, or stand for memory elsewhere in it. Each access is checked against the
allocations, so that nothing outside them is ever touched.
"""

from __future__ import annotations

import bisect
import ctypes
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.barriers import Barriers
from codegen.simulator.shared_shadow import SharedShadow
from codegen.simulator.threads import Threads

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
_REGISTER = 64
"""Bytes of the largest register: the last load of arguments reads a whole one."""
_ORIGIN = 4096
_USER_SPACE = 2**47 - 2 * _ORIGIN
"""Bytes of user addresses on x86-64 and AArch64, but for the first page and a page at the end."""
_WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SLM_ADDRESS = 0x0FFFFFFF
"""Bits of an address in shared local memory; pointers carry a non-zero high nibble, so that none of them is null."""


class ByteStore:
    """Bytes that are read and written as words or rows at many offsets at once.

    Args:
        data: contiguous, its first byte at an address that is a multiple of 8, its size too.
    """

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self._aligned = {size: data.view(word) for size, word in _WORDS.items()}
        self._any: dict[int, Any] = {}

    def gather(self, at: Integers, size: int) -> NDArray[Any]:
        """Words of ``size`` bytes at offsets, in the shape of the offsets."""
        if size == 1 or not (at & (size - 1)).any():
            found: NDArray[Any] = self._aligned[size][at // size]
        else:
            found = self.rows(at, size).view(_WORDS[size])[..., 0]
        return found

    def scatter(self, at: Integers, values: NDArray[Any]) -> None:
        """Write words at offsets; of several at one offset the last one stays."""
        size = values.dtype.itemsize
        if size == 1 or not (at & (size - 1)).any():
            self._aligned[size][at // size] = values
        else:
            self.write_rows(at, np.ascontiguousarray(values).view(np.uint8).reshape(*at.shape, size))

    def rows(self, at: Integers, length: int) -> Bytes:
        """``length`` bytes from each offset on: uint8 of shape (*at.shape, length)."""
        found: Bytes = self._windows(length)[at].view(np.uint8).reshape(*at.shape, length)
        return found

    def write_rows(self, at: Integers, values: Bytes) -> None:
        """Write the last axis of ``values`` from each offset on."""
        length = values.shape[-1]
        self._windows(length)[at] = np.ascontiguousarray(values).view(f"V{length}")[..., 0]

    def _windows(self, length: int) -> Any:
        """Every run of ``length`` bytes as one opaque element: overlapping, which NumPy copies as a whole."""
        if length not in self._any:
            self._any[length] = np.ndarray((self.data.size - length + 1,), f"V{length}", self.data, strides=(1,))
        return self._any[length]


def _process() -> ByteStore:
    """All user addresses of this process as one array; only checked addresses are ever touched."""
    array = (ctypes.c_uint8 * _USER_SPACE).from_address(_ORIGIN)
    return ByteStore(np.ctypeslib.as_array(array))


@dataclass(frozen=True)
class Allocation:
    """Memory that a kernel may access.

    Attributes:
        name: what messages call it.
        address: address of its first byte on the device.
        data: its bytes.
        holes: running count of the bytes before each that belong to no element; None where all bytes do.
    """

    name: str
    address: int
    data: Bytes
    holes: NDArray[np.int64] | None = None


class GlobalMemory:
    """Allocations at 64-bit addresses."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self._store = _process()
        self._index()

    def register(self, allocation: Allocation) -> None:
        """Add an allocation, which overlaps no other one; an empty one is dropped."""
        if allocation.data.size:
            position = bisect.bisect([other.address for other in self.allocations], allocation.address)
            self.allocations.insert(position, allocation)
            self._index()

    def _index(self) -> None:
        self._starts = np.array([each.address for each in self.allocations], np.int64)
        self._ends = np.array([each.address + each.data.size for each in self.allocations], np.int64)
        self._shift = np.array([each.data.ctypes.data - each.address - _ORIGIN for each in self.allocations], np.int64)
        self._with_holes = [number for number, each in enumerate(self.allocations) if each.holes is not None]

    def locate(self, addresses: Integers, size: int, slack: int = 1) -> tuple[Integers, Mask]:
        """Offsets of accesses in :meth:`store`, and which of them reach outside of every allocation.

        Args:
            addresses: first byte of each access.
            size: bytes of each.
            slack: granularity of the check, ``size`` or 1: with 4, an aligned access of 4 bytes is inside if it has a
                byte of an allocation.
        """
        if not self.allocations:
            return addresses, np.ones(addresses.shape, np.bool_)
        if len(self.allocations) == 1:
            number: Any = 0
            outside = (addresses < self._starts[0]) | (addresses + size > _up(self._ends[0], slack))
        else:
            number = np.maximum(np.searchsorted(self._starts, addresses, "right") - 1, 0)
            outside = (addresses < self._starts[number]) | (addresses + size > _up(self._ends[number], slack))
        for holed in self._with_holes:
            outside |= self._in_holes(self.allocations[holed], addresses, size, (number == holed) & ~outside, slack)
        return addresses + self._shift[number], outside

    @staticmethod
    def _in_holes(allocation: Allocation, addresses: Integers, size: int, mine: Mask, slack: int) -> Mask:
        """Which accesses reach bytes that belong to no element: any, or with a granularity all of them."""
        assert allocation.holes is not None
        first = np.where(mine, addresses - allocation.address, 0)
        last = np.minimum(first + size, allocation.data.size)
        holes = allocation.holes[last] - allocation.holes[first]
        reached: Mask = mine & (holes >= last - first if slack > 1 else holes > 0)
        return reached

    @property
    def store(self) -> ByteStore:
        """The bytes, by the offsets that :meth:`locate` gives."""
        return self._store

    def describe(self, address: int, size: int) -> str:
        """Where an address lies, in words: how far before or behind which allocation."""
        span = f"{size} bytes" if size > 1 else "1 byte"
        if not self.allocations:
            return f"{span} at {address:#x}, and the kernel has no array"
        for each in self.allocations:
            if each.address <= address < each.address + each.data.size:
                past = address + size - each.address - each.data.size
                between = "between the elements of" if past <= 0 else f"{past} of them behind the end of"
                return f"{span} at byte {address - each.address} of {each.name}, {between} its {each.data.size} bytes"
        nearest = min(self.allocations, key=lambda each: max(each.address - address - size,
                                                             address - each.address - each.data.size))
        before = nearest.address - address
        far = f"{before} bytes before" if before > 0 else f"{-before - nearest.data.size} bytes behind the end of"
        return f"{span} {far} {nearest.name} ({nearest.data.size} bytes)"


def _up(value: Any, step: int) -> Any:
    return -(-value // step) * step if step > 1 else value


class Memory:
    """All memory that messages reach, for the threads that run side by side.

    Args:
        check_shared: whether reads of shared local memory that nothing wrote, and races there, are findings.

    Attributes:
        globals: the arrays.
        indirect: the cross-thread data of the launch, which the arguments are loaded from.
        surfaces: for kernels that address buffers by surface states: address of the buffer behind each offset.
        slm: shared local memory of all work-groups, one behind the other; ``slm_bytes`` each.
        scratch: scratch memory of all threads, one behind the other; ``scratch_bytes`` each.
        barriers: who arrived where.
        shadow: who accessed shared local memory when; None without ``check_shared``.
        traffic: bytes moved by kind of message.
        word_slack: whether accesses may touch the rest of the aligned word around an array's end: 8 and 16-bit atomic
            operations are made of 32-bit ones.
    """

    def __init__(self, check_shared: bool = False) -> None:
        self.globals = GlobalMemory()
        self.surfaces: dict[int, int] = {}
        self.traffic: Counter[str] = Counter()
        self.word_slack = False
        self.check_shared = check_shared

    def begin(self, threads: Threads, slm_bytes: int, scratch_bytes: int, indirect: Bytes) -> None:
        """Fresh shared local memory, scratch and barriers for the threads that run next.

        Args:
            threads: the threads that run side by side.
            slm_bytes: shared local memory of a work-group.
            scratch_bytes: scratch memory of a thread.
            indirect: what the threads load their arguments from.
        """
        groups = int(threads.group.max(initial=-1)) + 1
        self.slm_bytes, self.scratch_bytes = _up(slm_bytes, 8), _up(scratch_bytes, 8)
        self.slm = ByteStore(np.zeros(groups * self.slm_bytes, np.uint8))
        self.scratch = ByteStore(np.zeros(len(threads) * self.scratch_bytes, np.uint8))
        arguments = np.zeros(_up(len(indirect), 8) + _REGISTER, np.uint8)
        arguments[:len(indirect)] = indirect
        self.indirect = ByteStore(arguments)
        self.barriers = Barriers(groups, threads.group, threads.subgroup, self.check_shared)
        self.shadow = SharedShadow(self.slm.data.size) if self.check_shared and slm_bytes else None
