"""Launching kernels that print or assert: the buffer of assertions, and the flush of standard output."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.runtime.devices import Queue, import_dpctl
from xegpu.dialect.debug import Assertion, check

FLAGS = 8
"""32-bit words of the buffer: the assertion's number from 1, its group, its subgroup, row and column, one to spare."""


def watched(queue: Queue, found: Sequence[Assertion], start: Callable[[Sequence[Any]], Any]) -> None:
    """Start a kernel that prints or asserts, and wait for it.

    Args:
        queue: where it runs.
        found: its assertions.
        start: starts it with these arguments behind its own; gives the event.

    Raises:
        CheckError: an assertion does not hold.
    """
    buffer = import_dpctl("dpctl.memory").MemoryUSMShared(4 * FLAGS, queue=queue)
    flags = np.frombuffer(buffer, np.int32)
    flags[:] = 0
    sys.stdout.flush()
    start([buffer] if found else []).wait()
    ctypes.CDLL(None).fflush(None)  # what printf keeps back
    check(found, flags.tolist())
