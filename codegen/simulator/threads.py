"""State of the hardware threads that run in lock step: register files, work-group and subgroup ids.

Register files are register-major, ``(registers, threads, bytes of a register)``: one register of all threads is
contiguous, so that an instruction is one pass over contiguous memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ADDRESS_BYTES = 32
CONTROL_BYTES = 16
ACCUMULATORS = 8
LANES = 32
THREAD_IDS = 1 << 14
"""Numbers of hardware threads in sr0.0, which has 14 bits for them."""
_ABSENT_BITS = (3, 6)
"""Bits of them that are 0 on dg2 and arl, from the lowest on: an engine has 8 threads, and a half of 16 engines 8. Code
leaves them out to find a thread's private memory."""


@dataclass(frozen=True)
class Threads:
    """Register files of T hardware threads.

    Attributes:
        grf: general registers.
        acc: accumulators as floats and 32-bit integers.
        wide: accumulators as 64-bit integers, one of each 32-bit channel.
        flag: flag registers f0..f3, a byte of each bit (0 or 1).
        address: a0, 16 words.
        control: cr0.
        state: sr0 and other state registers; sr0.0 is the thread's number, the others are zero.
        group: slot of the thread's work-group among those that are resident.
        subgroup: number of the thread in its work-group.
        group_id: coordinates of the work-group in the grid: x, y, z.
    """

    grf: NDArray[np.uint8]  # (registers, T, register_bytes)
    acc: NDArray[np.uint8]  # (ACCUMULATORS, T, register_bytes)
    wide: NDArray[np.int64]  # (ACCUMULATORS, T, register_bytes / 4)
    flag: NDArray[np.bool_]  # (4, T, 32)
    address: NDArray[np.uint8]  # (1, T, ADDRESS_BYTES)
    control: NDArray[np.uint8]  # (1, T, CONTROL_BYTES)
    state: NDArray[np.uint8]  # (1, T, CONTROL_BYTES)
    group: NDArray[np.int64]  # (T,)
    subgroup: NDArray[np.int64]  # (T,)
    group_id: NDArray[np.int64]  # (T, 3)

    @classmethod
    def allocate(cls, registers: int, register_bytes: int, group: NDArray[np.int64], subgroup: NDArray[np.int64],
                 group_id: NDArray[np.int64]) -> Threads:
        """Allocate register files, filled with zeros, for threads of these groups."""
        count = len(group)
        return cls(np.zeros((registers, count, register_bytes), np.uint8),
                   np.zeros((ACCUMULATORS, count, register_bytes), np.uint8),
                   np.zeros((ACCUMULATORS, count, register_bytes // 4), np.int64),
                   np.zeros((4, count, LANES), np.bool_), np.zeros((1, count, ADDRESS_BYTES), np.uint8),
                   np.zeros((1, count, CONTROL_BYTES), np.uint8), np.zeros((1, count, CONTROL_BYTES), np.uint8),
                   group, subgroup, group_id)

    def number(self) -> None:
        """Give each thread a number in sr0.0."""
        numbers = np.arange(len(self), dtype=np.uint32)
        for bit in _ABSENT_BITS:
            low = np.uint32((1 << bit) - 1)
            numbers = numbers & low | (numbers & ~low) << np.uint32(1)
        self.state[0].view(np.uint32)[:, 0] = numbers

    def __len__(self) -> int:
        return len(self.group)

    @property
    def register_bytes(self) -> int:
        """Bytes of a general register."""
        return int(self.grf.shape[2])

    def payload(self, first: int, count: int) -> NDArray[np.uint8]:
        """View of ``count`` registers from ``first``: (T, count, register_bytes); writes reach the registers."""
        return self.grf[first:first + count].transpose(1, 0, 2)

    def read(self, first: int, count: int, dtype: Any) -> NDArray[Any]:
        """Copy of ``count`` registers as elements of ``dtype``: (T, elements)."""
        return np.ascontiguousarray(self.payload(first, count)).reshape(len(self), -1).view(dtype)

    def address_words(self) -> NDArray[np.uint32]:
        """View of a0 as 32-bit words: (T, 8)."""
        words: NDArray[np.uint32] = self.address[0].view(np.uint32)
        return words
