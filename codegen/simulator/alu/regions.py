"""Regions of operands as strided NumPy views of the registers of all threads.

The lanes of an operand are ``(register, byte)`` pairs. For powers of two they are linear in the bits of the lane's
number, also where a region runs on across registers; bits whose strides follow from each other in every operand of an
instruction are merged into one axis. Regions that are not linear are gathered by their indices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.instruction import Region

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Lanes:
    """Positions of the lanes of an operand in a register file.

    Attributes:
        register, byte: of each lane, int64 (lanes,).
        size: bytes of an element.
    """

    register: NDArray[np.int64]
    byte: NDArray[np.int64]
    size: int

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, start: int, region: Region, count: int, size: int, register_bytes: int) -> Lanes:
        """Lanes of a region that starts ``start`` bytes into the register file."""
        lane = np.arange(count)
        vertical = region.horizontal * region.width if region.vertical is None else region.vertical
        at = start + size * (lane // region.width * vertical + lane % region.width * region.horizontal)
        return cls(at // register_bytes, at % register_bytes, size)

    @cached_property
    def bit_strides(self) -> tuple[tuple[int, int], ...] | None:
        """Registers and bytes from a lane to the one whose number differs in bit k; None if they are not linear."""
        count = len(self.register)
        strides = tuple((int(self.register[1 << bit] - self.register[0]), int(self.byte[1 << bit] - self.byte[0]))
                        for bit in range(count.bit_length() - 1))
        lane = np.arange(count)
        register = self.register[0] + sum((stride[0] * (lane >> bit & 1) for bit, stride in enumerate(strides)), 0)
        byte = self.byte[0] + sum((stride[1] * (lane >> bit & 1) for bit, stride in enumerate(strides)), 0)
        return strides if (register == self.register).all() and (byte == self.byte).all() else None


@lru_cache(maxsize=4096)
def lane_axes(operands: tuple[Lanes, ...], count: int) -> tuple[int, ...]:
    """Sizes of the axes, outermost first, into which ``count`` lanes split so that every linear operand is strided."""
    strides = [found for found in (each.bit_strides for each in operands) if found is not None]
    axes: list[int] = []  # innermost first
    for bit in range(count.bit_length() - 1):
        merged = bit > 0 and all(each[bit][0] == 2 * each[bit - 1][0] and each[bit][1] == 2 * each[bit - 1][1]
                                 for each in strides)
        if merged:
            axes[-1] *= 2
        else:
            axes.append(2)
    return tuple(reversed(axes)) or (1,)


def strided_view(file: Array, lanes: Lanes, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
    """View of an operand's lanes in a register file: (T, *axes); None if they are not linear.

    Raises:
        IndexError: the region leaves the register file.
    """
    layout = _layout(lanes, axes, *file.shape)
    return None if layout is None else np.ndarray((file.shape[1], *axes), dtype, file.data, *layout)


@lru_cache(maxsize=8192)
def _layout(lanes: Lanes, axes: tuple[int, ...], registers: int, threads: int,
            width: int) -> tuple[int, tuple[int, ...]] | None:
    """Offset and strides, in bytes, of the lanes of all threads; None if they are not linear."""
    check_inside(registers, lanes)
    if lanes.bit_strides is None:
        return None
    strides: list[int] = []
    bit = 0
    for axis in reversed(axes):
        register, byte = lanes.bit_strides[bit] if axis > 1 else (0, 0)
        strides.append(register * threads * width + byte)
        bit += axis.bit_length() - 1
    offset = int(lanes.register[0]) * threads * width + int(lanes.byte[0])
    return offset, (width, *reversed(strides))


def check_inside(registers: int, lanes: Lanes) -> None:
    """Check that lanes lie in a register file.

    Raises:
        IndexError: some lie outside.
    """
    if lanes.register.min() < 0 or lanes.register.max() >= registers:
        raise IndexError(f"registers {lanes.register.min()} to {lanes.register.max()} of {registers}")


def gather_index(file: Array, lanes: Lanes) -> NDArray[np.int64]:
    """Index of each thread's lanes in the flat register file, in elements: (T, lanes)."""
    threads, width = file.shape[1:]
    check_inside(file.shape[0], lanes)
    flat = (lanes.register * threads)[None, :] * width + np.arange(threads)[:, None] * width + lanes.byte
    return np.asarray(flat // lanes.size)


def indirect_index(file: Array, address: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Index of lanes at byte addresses (T, lanes) of the register file, in elements of the flat file.

    Raises:
        IndexError: an address lies outside the file.
    """
    threads, width = file.shape[1:]
    register, byte = address // width, address % width
    if (register < 0).any() or (register >= file.shape[0]).any():
        raise IndexError(f"indirect address {int(address.max()):#x} lies outside {file.shape[0]} registers")
    flat = (register * threads + np.arange(threads)[:, None]) * width + byte
    return np.asarray(flat // size)
