"""Launch of kernels that print or assert: assertion buffer, and flush of standard output."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.runtime.devices import Queue, import_dpctl
from codegen.runtime.synchronize import wait_for
from xegpu.dialect.debug import Assertion, check

FLAGS = 8
"""32-bit words of the buffer: assertion number from 1, three of the work-group, subgroup, row, column, one unused."""


def watched(queue: Queue, found: Sequence[Assertion], start: Callable[[Sequence[Any]], Any]) -> None:
    """Start a kernel that prints or asserts, and wait for it.

    Args:
        queue: the queue.
        found: its assertions.
        start: launches it with these additional last arguments; returns the event.

    Raises:
        CheckError: an assertion failed.
    """
    buffer = import_dpctl("dpctl.memory").MemoryUSMShared(4 * FLAGS, queue=queue)
    flags = np.frombuffer(buffer, np.int32)
    flags[:] = 0
    sys.stdout.flush()
    wait_for(queue, start([buffer] if found else []))
    ctypes.CDLL(None).fflush(None)  # the device's printf writes to C's buffered stdout
    check(found, flags.tolist())
