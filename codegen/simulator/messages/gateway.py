"""Messages to the gateway: arrivals at barriers, end of thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.memory import Memory
from codegen.simulator.messages.descriptor import Message
from codegen.simulator.threads import Threads


def barrier(message: Message, threads: Threads, active: NDArray[np.bool_], memory: Memory) -> None:
    """Arrive at a barrier.

    The header's third word: id in bits 4:0, kind in 15:14, producers in 23:16, consumers in 31:24.
    """
    rows = np.flatnonzero(active.any(1))
    word = threads.read(message.address, 1, np.uint32)[rows, 2].astype(np.int64)
    memory.barriers.arrive(rows, word & 0x1F, word >> 14 & 3, word >> 16 & 0xFF, word >> 24 & 0xFF)
