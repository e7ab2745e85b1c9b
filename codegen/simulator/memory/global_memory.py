"""Global memory: allocations at 64-bit addresses of this process, or that stand for memory elsewhere in it."""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.memory.byte_store import Bytes, ByteStore, Integers

Mask = NDArray[np.bool_]
_ORIGIN = 4096
USER_SPACE_END = 2**47 - _ORIGIN
"""End of user addresses on x86-64, but for a page; they start behind the first one."""


@cache
def _process() -> ByteStore:
    """View of this process's user address space as one array; only checked addresses are touched."""
    array = (ctypes.c_uint8 * (USER_SPACE_END - _ORIGIN)).from_address(_ORIGIN)
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

    def locate(self, addresses: Integers, size: int, slack: int = 1, *, holes: bool = True) -> tuple[Integers, Mask]:
        """Offsets of accesses in :meth:`store`, and which of them reach outside of every allocation.

        Args:
            addresses: first byte of each access.
            size: bytes of each.
            slack: granularity of the check, ``size`` or 1: with 4, an aligned access of 4 bytes is inside if it has a
                byte of an allocation.
            holes: whether bytes of no element are outside, too.
        """
        if not self.allocations:
            return addresses, np.ones(addresses.shape, np.bool_)
        if len(self.allocations) == 1:
            number: Any = 0
            outside = (addresses < self._starts[0]) | (addresses + size > round_up(self._ends[0], slack))
        else:
            number = np.maximum(np.searchsorted(self._starts, addresses, "right") - 1, 0)
            outside = (addresses < self._starts[number]) | (addresses + size > round_up(self._ends[number], slack))
        for holed in self._with_holes if holes else ():
            outside |= self._in_holes(self.allocations[holed], addresses, size, (number == holed) & ~outside, slack)
        return addresses + self._shift[number], outside

    @staticmethod
    def _in_holes(allocation: Allocation, addresses: Integers, size: int, mine: Mask, slack: int) -> Mask:
        """Mask of the accesses that reach bytes of no element: any, or with a granularity all of them."""
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

    def position(self, address: int) -> str:
        """An address as a byte of an allocation, in words."""
        found = next((f"byte {address - each.address} of {each.name}" for each in self.allocations
                      if each.address <= address < each.address + each.data.size), "")
        return found or f"{address:#x}"

    def describe(self, address: int, size: int) -> str:
        """Description of an address relative to the nearest allocation, for messages."""
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


def round_up(value: Any, step: int) -> Any:
    """The multiple of ``step`` at or above a value."""
    return -(-value // step) * step if step > 1 else value
