"""Arena: copies of the host arrays of a launch, each between redzones, as a device would have them in its memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.runtime.usm import LINE, anchor, merged_spans
from codegen.simulator.memory.global_memory import USER_SPACE_END, Allocation
from xegpu.support.errors import DeviceError

REDZONE = 4096
"""Bytes around each array that belong to none."""


@dataclass(frozen=True)
class ArenaArray:
    """Copy of a host array in an arena, with the same strides.

    Attributes:
        pointer: address of element (0, 0, ...).
        shape, strides: in elements.
        view: the copy as a NumPy array.
        read_only: whether the host array may not be written.
        arena: where it lies.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    view: NDArray[Any] = field(repr=False)
    read_only: bool
    arena: Arena = field(repr=False)

    def copy(self) -> ArenaArray:
        """A copy in an arena of its own."""
        return Arena(["a copy"], [self.view]).arrays[0]


class Arena:
    """Memory for the arrays of one launch.

    Of a view everything from its first byte to its last is copied, so that the strides are the same; the gaps between
    its elements belong to no array. Arrays that overlap on the host overlap here in the same way. The first element
    of an array, or of one of those that overlap, is aligned to a cache line, as in a device's memory.

    Args:
        names: names of the arrays, for messages.
        arrays: the arrays.

    Attributes:
        allocations: what a kernel may access.
        arrays: the copies, in the order of ``arrays``.
    """

    def __init__(self, names: Sequence[str], arrays: Sequence[NDArray[Any]]) -> None:
        spans = list(merged_spans(arrays))
        self.memory = np.zeros(sum(high - low + 2 * REDZONE for low, high, _ in spans) + REDZONE, np.uint8)
        self.allocations: list[Allocation] = []
        found: dict[int, ArenaArray] = {}
        at = REDZONE
        for low, high, members in spans:
            at += -(self.memory.ctypes.data + at + anchor(arrays, members) - low) % LINE
            data = self.memory[at:at + high - low]
            for index, view in self._views(data, low, arrays, members):
                view[...] = arrays[index]
                strides = tuple(stride // max(view.itemsize, 1) for stride in view.strides)
                found[index] = ArenaArray(view.ctypes.data, view.shape, strides, view,
                                          not arrays[index].flags.writeable, self)
            name = " and ".join(dict.fromkeys(names[index] for index in members))
            self.allocations.append(Allocation(name, data.ctypes.data, data, _holes(data, arrays, low, members)))
            at += high - low + REDZONE
        self.arrays = [found[index] for index in range(len(arrays))]

    @staticmethod
    def _views(data: NDArray[np.uint8], low: int, arrays: Sequence[NDArray[Any]],
               members: Sequence[int]) -> Iterator[tuple[int, NDArray[Any]]]:
        for index in members:
            array = arrays[index]
            yield index, np.ndarray(array.shape, array.dtype, _buffer(data), array.ctypes.data - low, array.strides)


def _buffer(data: NDArray[Any]) -> Any:
    """Writable memory for views; of an empty array a little, which is never touched."""
    return data.data if data.size else bytearray(1)


def _holes(data: NDArray[np.uint8], arrays: Sequence[NDArray[Any]], low: int,
           members: Sequence[int]) -> NDArray[np.int64] | None:
    """Running count of the bytes that belong to no element; None if there are none."""
    owned = np.zeros(data.size, np.bool_)
    for index in members:
        array = arrays[index]
        owned_bytes = np.ndarray((*array.shape, array.itemsize), np.bool_, _buffer(owned),
                                 array.ctypes.data - low, (*array.strides, 1))
        owned_bytes[...] = True
    if owned.all():
        return None
    return np.concatenate([[0], np.cumsum(~owned)])


def process_memory(arena: Sequence[Allocation]) -> list[Allocation]:
    """All writable memory of this process but for arenas, for kernels that get addresses as numbers.

    Args:
        arena: allocations of arenas, whose redzones stay out of reach.

    Raises:
        DeviceError: the system does not list the process's memory.
    """
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError as error:
        raise DeviceError("XT1055", f"the kernel gets addresses, and this system does not list its memory: {error}",
                          "run it on Linux, or pass arrays") from error
    spans = []
    for line in lines:
        span, rights, *_ = line.split()
        low, high = (int(each, 16) for each in span.split("-"))
        if rights.startswith("rw") and high < USER_SPACE_END:
            spans.append((low, high))
    holes = sorted((each.address - REDZONE, each.address + each.data.size + REDZONE) for each in arena)
    return [Allocation("memory of this process", low, _bytes_at(low, high - low)) for low, high in
            _without(spans, holes)]


def _bytes_at(address: int, size: int) -> NDArray[np.uint8]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _without(spans: Sequence[tuple[int, int]], holes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Difference of two lists of address ranges; both sorted, adjacent ranges joined."""
    joined: list[tuple[int, int]] = []
    for low, high in spans:
        if joined and joined[-1][1] == low:
            joined[-1] = joined[-1][0], high
        else:
            joined.append((low, high))
    for low, high in joined:
        for start, end in holes:
            if low < end and start < high:
                if low < start:
                    yield low, start
                low = end
        if low < high:
            yield low, high
