"""Verified execution of a schedule: checksums of messages, and checks of products, sums and epilogues on the host.

A CRC-32 follows each message. Products, sums and epilogues are checked by :mod:`xetile.distributed.verify.checks`.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from xegpu.ir.dtypes import DType, NDArray
from xegpu.support.errors import DeviceError
from xetile.distributed.communication.agreement import agree
from xetile.distributed.communication.exchange import on_host
from xetile.distributed.communication.transport import Pending, host_bytes
from xetile.distributed.executor import Epilogue, Executor, Slot
from xetile.distributed.regions import Region
from xetile.distributed.steps import Add, Broadcast, Finish, Multiply, Receive, Send, Step
from xetile.distributed.verify.checks import wrong_row, wrong_row_of_epilogue

CHECKSUM_BYTES = 4
"""Bytes that follow each message."""


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

    def _compare(self, step: Receive | Broadcast, peer: int, digest: NDArray, extra: Pending) -> None:
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

    def _checksum(self, slot: Slot, step: Send | Receive | Broadcast) -> NDArray:
        """CRC-32 of the part of a buffer that travels."""
        data = self.memory.on_host(slot.view(step.region), self._dtype_of(step.buffer))
        return np.array([zlib.crc32(host_bytes(data))], np.uint32).view(np.uint8)

    def _multiply(self, step: Multiply) -> None:
        if self._rehearsing:
            super()._multiply(step)
            return
        sums = None if step.first else self._sums(step.region)
        super()._multiply(step)
        a, b = self.operand_on_host(step.a, step.a_region), self.operand_on_host(step.b, step.b_region)
        row = wrong_row(self._sums(step.region), sums, a, b)
        if row is not None:
            self._found("XT7225", f"the product of A{step.a_region} and B{step.b_region} differs from its checksum in "
                        f"row {step.region.rows[0] + row} of C{step.region}", "this rank's device computes wrongly: "
                        "run its part alone, and take another device")

    def operand_on_host(self, buffer: str, region: Region) -> NDArray:
        """Part of A or B, as the product was to read it."""
        return self.memory.on_host(self.slots[buffer].view(region), self.schedule.grid.dtype)

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

    def _finish(self, step: Finish) -> None:
        if self._rehearsing or not step.region.size:
            super()._finish(step)
            return
        sums = self.memory.on_host(self.slots[step.source].view(step.region), self._dtype_of("sums"))
        old = self._result(step.region).copy() if self.epilogue.beta else None
        bias = None
        if self.bias is not None:
            whole = self._out_region()
            bias = np.broadcast_to(on_host("bias", self.bias), whole.shape)[step.region.within(whole)]
        super()._finish(step)
        row = wrong_row_of_epilogue(self._result(step.region), sums, old, bias, self.epilogue)
        if row is not None:
            self._found("XT7226", f"the epilogue of C{step.region} differs from the host's in row "
                        f"{step.region.rows[0] + row}", "this rank's device computes wrongly: run its part alone, and "
                        "take another device")

    def _result(self, region: Region) -> NDArray:
        """Part of this rank's block of C, when all that was launched has ended."""
        self.memory.wait(self.memory.now())
        return on_host("out", self._part_of_out(region))

    def _sums(self, region: Region) -> NDArray:
        return self.memory.on_host(self.slots["sums"].view(region), self._dtype_of("sums"))

    def _dtype_of(self, buffer: str) -> DType:
        grid = self.schedule.grid
        return grid.dtype if buffer[0] in "ab" else grid.sums

    def _found(self, code: str, message: str, hint: str) -> None:
        if self._fault is None:
            self._fault = DeviceError(code, message if self.transport.size > 1 else f"rank 0: {message}", hint)
