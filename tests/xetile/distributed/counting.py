"""A communicator that counts the bytes which it receives, and may hold messages up."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from mpi4py import MPI


class Counting(MPI.Intracomm):
    """The world, or a part of it, whose received bytes add up in :attr:`received`.

    Attributes:
        received: bytes that were received by point-to-point messages and broadcasts, in this process.
        delay: seconds that this rank waits before each message that it sends: a slow peer.
        corrupts: whether this rank sends its next message of more than four bytes with one bit changed.
    """

    received = 0
    delay = 0.0
    corrupts = False

    def Irecv(self, buf: Any, *args: Any, **options: Any) -> Any:
        """Receive, counted."""
        Counting.received += _size(buf)
        return super().Irecv(buf, *args, **options)

    def Isend(self, buf: Any, *args: Any, **options: Any) -> Any:
        """Send, held up."""
        time.sleep(Counting.delay)
        return super().Isend(_sent(buf), *args, **options)

    def Ibcast(self, buf: Any, root: int = 0) -> Any:
        """Broadcast, counted where it is received."""
        Counting.received += _size(buf) if self.rank != root else 0
        return super().Ibcast(_sent(buf) if self.rank == root else buf, root)


def _size(buf: Any) -> int:
    return int(memoryview(buf[0]).nbytes)


def _sent(buf: Any) -> Any:
    """Message to send: the buffer, or a copy with one bit changed."""
    if not Counting.corrupts or _size(buf) <= 4:
        return buf
    Counting.corrupts = False
    copy = np.array(np.frombuffer(buf[0], np.uint8))
    copy[copy.size // 2] ^= 16
    return [copy, buf[1]]
