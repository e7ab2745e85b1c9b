"""Memory of a simulated device: global memory, shared local memory, scratch, barriers, and bytes moved.

Each access is checked against the allocations, so that nothing outside them is ever touched.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.memory.barriers import Barriers
from codegen.simulator.memory.byte_store import Bytes, ByteStore
from codegen.simulator.memory.global_memory import GlobalMemory, round_up
from codegen.simulator.memory.shared_shadow import SharedShadow
from codegen.simulator.threads import Threads

_REGISTER = 64
"""Bytes of the largest register: the last load of arguments reads a whole one."""
_FOREIGN = 0xA5
"""Byte of scratch memory that is another thread's."""
SLM_ADDRESS = 0x0FFFFFFF
"""Bits of an address in shared local memory; pointers carry a non-zero high nibble, so that none of them is null."""


class Memory:
    """Memories that messages reach, for the threads that run side by side.

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
        self.slm_bytes, self.scratch_bytes = round_up(slm_bytes, 8), round_up(scratch_bytes, 8)
        self.slm = ByteStore(np.zeros(groups * self.slm_bytes, np.uint8))
        self.scratch = ByteStore(np.zeros(len(threads) * self.scratch_bytes, np.uint8))
        arguments = np.zeros(round_up(len(indirect), 8) + _REGISTER, np.uint8)
        arguments[:len(indirect)] = indirect
        self.indirect = ByteStore(arguments)
        self.barriers = Barriers(groups, threads.group, threads.subgroup, self.check_shared)
        self.shadow = SharedShadow(self.slm.data.size) if self.check_shared and slm_bytes else None

    def read_scratch(self, rows: NDArray[np.int64], offsets: NDArray[np.int64], size: int) -> Bytes:
        """Blocks of threads' scratch memory, ``[rows, size]``, each from an offset in that thread's.

        A block may end behind it: the compiler reads back three registers by a block of four, and uses three. The
        fourth gets :data:`_FOREIGN` bytes, so that a use of it shows.
        """
        data = np.full((len(rows), size), _FOREIGN, np.uint8)
        own = np.minimum(self.scratch_bytes - offsets, size)
        for length in np.unique(own):
            chosen = own == length
            data[chosen, :length] = self.scratch.rows((rows * self.scratch_bytes + offsets)[chosen], int(length))
        return data
