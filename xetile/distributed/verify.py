"""Verified execution of a schedule: checksums of messages, and algorithm-based checks of products and sums.

A CRC-32 follows each message. Of a product S' = S + A B the check compares S' w with S w + A (B w) for a vector w of
weights (Huang and Abraham, algorithm-based fault tolerance): O(mn + mk + kn) operations on the host, in 64 bits.
Integers are compared modulo 2^32, with odd weights, so that one wrong element is always found. Floats may differ by
``(k + 3) 2^-24 (|S| w + |A| (|B| w))`` in a row, which bounds the roundings of sums in f32 in any order; a row in which
``|S| w + |A| (|B| w)`` is beyond f32, or no number, is not judged.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from xegpu.ir.dtypes import DType
from xegpu.support.errors import DeviceError
from xetile.distributed.agreement import agree
from xetile.distributed.executor import Epilogue, Executor, Slot
from xetile.distributed.grid import Region
from xetile.distributed.steps import Add, Broadcast, Multiply, Receive, Send, Step
from xetile.distributed.transport import Pending, host_bytes

Array = np.ndarray[Any, Any]

CHECKSUM_BYTES = 4
"""Bytes that follow each message."""
_MANTISSA = 2.0**-24
_LEAST = 2.0**-125
"""Of products and sums this small, devices keep nothing."""
_LARGEST = float(np.finfo(np.float32).max)


class VerifyingExecutor(Executor):
    """Executor that checks what it receives, multiplies and adds.

    A fault does not end the schedule, so that no rank waits in vain: at the end all ranks raise the first rank's.
    """

    _fault: DeviceError | None = None
    _rehearsing = False

    def run(self, a: Any, b: Any, out: Any, bias: Any, epilogue: Epilogue) -> None:
        """Multiply as :meth:`Executor.run`, and agree on what was found; a collective call.

        Raises:
            DeviceError: also where a message, product or sum of any rank is wrong, on all ranks.
        """
        self._fault = None
        super().run(a, b, out, bias, epilogue)
        agree(self.transport, {}, self._fault, self.timeout)

    def rehearse(self, a: Any, b: Any, out: Any, bias: Any, epilogue: Epilogue) -> None:
        self._rehearsing = True  # buffers hold anything
        try:
            super().rehearse(a, b, out, bias, epilogue)
        finally:
            self._rehearsing = False

    def _execute(self, step: Step) -> None:
        super()._execute(step)
        if isinstance(step, Receive):
            digest = np.empty(CHECKSUM_BYTES, np.uint8)
            self._compare(step, step.peer, digest, self.transport.receive(digest, step.peer, "a checksum"))

    def _send(self, step: Send) -> None:
        super()._send(step)
        slot = self.slots[step.buffer]
        slot.leaving.append(self.transport.send(self._checksum(slot, step), step.peer, "a checksum"))

    def _broadcast(self, step: Broadcast) -> None:
        super()._broadcast(step)
        slot, is_root = self.slots[step.buffer], step.root == self.schedule.rank
        digest = self._checksum(slot, step) if is_root else np.empty(CHECKSUM_BYTES, np.uint8)
        pending = self.transport.broadcast(digest, step.root, step.ranks, "a checksum")
        if is_root:
            slot.leaving.append(pending)
        else:
            self._compare(step, step.root, digest, pending)

    def _compare(self, step: Receive | Broadcast, peer: int, digest: Array, extra: Pending) -> None:
        """Have a message checked when it and its checksum have come."""
        slot = self.slots[step.buffer]
        assert slot.arriving is not None
        pending, arrived = slot.arriving

        def checked() -> None:
            arrived()
            if self._checksum(slot, step).tobytes() != digest.tobytes():
                self._found("XT7224", f"{step.buffer}{step.region} from rank {peer} differs from its checksum",
                            "the network, MPI or a device has changed it: try transport=\"host\", and other nodes")

        slot.arriving = Pending([*pending.requests, *extra.requests], pending.description,
                                (pending.keep_alive, digest)), checked

    def _checksum(self, slot: Slot, step: Send | Receive | Broadcast) -> Array:
        """CRC-32 of the part of a buffer that travels."""
        data = self.memory.on_host(slot.view(step.region), self._dtype_of(step.buffer))
        return np.array([zlib.crc32(host_bytes(data))], np.uint32).view(np.uint8)

    def _multiply(self, step: Multiply) -> None:
        if self._rehearsing:
            super()._multiply(step)
            return
        sums = None if step.first else self._sums(step.region)
        super()._multiply(step)
        dtype = self.schedule.grid.dtype
        a = self.memory.on_host(self.slots[step.a].view(step.a_region), dtype)
        b = self.memory.on_host(self.slots[step.b].view(step.b_region), dtype)
        row = wrong_row(self._sums(step.region), sums, a, b)
        if row is not None:
            self._found("XT7225", f"the product of A{step.a_region} and B{step.b_region} differs from its checksum in "
                        f"row {step.region.rows[0] + row} of C{step.region}", "this rank's device computes wrongly: "
                        "run its part alone, and take another device")

    def _add(self, step: Add) -> None:
        if self._rehearsing:
            super()._add(step)
            return
        source, target = self.slots[step.source], self.slots[step.target]
        self._arrive(source)
        self._arrive(target)
        kind = self._dtype_of("sums")
        before = self.memory.on_host(target.view(step.region), kind)
        added = self.memory.on_host(source.view(step.region), kind)
        super()._add(step)
        # A sum is a product with the unit matrix, in the check as well.
        after = self.memory.on_host(target.view(step.region), kind)
        row = wrong_row(after, before, added, None)
        if row is not None:
            self._found("XT7225", f"the sum of C{step.region} differs from its checksum in row "
                        f"{step.region.rows[0] + row}", "this rank's device computes wrongly: run its part alone, and "
                        "take another device")

    def _sums(self, region: Region) -> Array:
        return self.memory.on_host(self.slots["sums"].view(region), self._dtype_of("sums"))

    def _dtype_of(self, buffer: str) -> DType:
        grid = self.schedule.grid
        return grid.dtype if buffer[0] in "ab" else grid.sums

    def _found(self, code: str, message: str, hint: str) -> None:
        if self._fault is None:
            self._fault = DeviceError(code, message if self.transport.size > 1 else f"rank 0: {message}", hint)


def wrong_row(after: Array, before: Array | None, a: Array, b: Array | None) -> int | None:
    """First row in which ``after`` is not ``before + a @ b``, by weighted sums of rows; None if all are right.

    Args:
        after, before: sums of f32 or i32; ``before`` None for zeros.
        a, b: the operands; ``b`` None for the unit matrix.
    """
    rng = np.random.default_rng(after.shape[1])
    if after.dtype.kind in "iu":
        odd = rng.integers(0, 2**30, after.shape[1], np.int64) * 2 + 1
        difference = _row_sums(after, None, None, odd) - _row_sums(before, a, b, odd)
        wrong = difference & 0xFFFFFFFF != 0
    else:
        weights = 1 + rng.random(after.shape[1])
        depth = 1 if b is None else a.shape[1]
        with np.errstate(all="ignore"):
            size = _row_sums(_magnitude(before), _magnitude(a), _magnitude(b), weights)
            bound = (depth + 3) * (_MANTISSA * size + _LEAST * weights.sum())
            difference = np.abs(_row_sums(after, None, None, weights) - _row_sums(before, a, b, weights))
            wrong = (size < _LARGEST) & ~(difference <= bound)
    found = np.flatnonzero(wrong)
    return int(found[0]) if found.size else None


def _row_sums(sums: Array | None, a: Array | None, b: Array | None, weights: Array) -> Array:
    """``sums @ weights + a @ (b @ weights)`` in the type of the weights; what is None counts for nothing."""
    wide = weights.dtype
    total = np.zeros((), wide) if sums is None else sums.astype(wide) @ weights
    if a is not None:
        total = total + a.astype(wide) @ (weights if b is None else b.astype(wide) @ weights)
    return np.asarray(total)


def _magnitude(part: Array | None) -> Array | None:
    return None if part is None else np.abs(part)
