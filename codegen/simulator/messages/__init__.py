"""Messages: semantics of ``send`` in the GPU's shared functions, a file for each family."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.memory import Memory
from codegen.simulator.messages import block2d, dc0, gateway, lsc
from codegen.simulator.messages.atomics import OPERATIONS, atomic
from codegen.simulator.messages.descriptor import Message
from codegen.simulator.threads import Threads

Executor = Callable[[Message, Threads, NDArray[np.bool_], Memory], None]


def _nothing(message: Message, threads: Threads, active: NDArray[np.bool_], memory: Memory) -> None:
    """Fences, and the end of a thread: memory is in order, and the one who steps through the code ends threads."""


EXECUTORS: Mapping[str, Executor] = {
    "load": lsc.load, "load_cmask": lsc.load, "store": lsc.store, "store_cmask": lsc.store,
    "load_block2d": block2d.load, "store_block2d": block2d.store, **dict.fromkeys(OPERATIONS, atomic),
    "scratch_load": dc0.scratch, "scratch_store": dc0.scratch, "oword_load": dc0.oword_load,
    "barrier": gateway.barrier, "fence": _nothing, "eot": _nothing,
}
"""What executes each operation."""


def execute(message: Message, threads: Threads, active: NDArray[np.bool_], memory: Memory) -> None:
    """Execute a message for all threads at once.

    Args:
        message: the message.
        threads: register files, which are read and written.
        active: (T, lanes): lanes that take part; with ``(W)`` all lanes of the threads that are here.
        memory: the memory that it reads and writes.

    Raises:
        Finding: an access that is a fault of the kernel.
    """
    if active.any():
        EXECUTORS[message.operation](message, threads, active, memory)
