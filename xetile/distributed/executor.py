"""Executor of a schedule on this rank: products on its device or in NumPy, messages by MPI."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from codegen.runtime.progress import progress_bar
from xetile.compiler.arguments import Argument, TypedView
from xetile.distributed.communication.transport import Pending, Transport
from xetile.distributed.memory import DeviceMemory, Memory
from xetile.distributed.regions import Region
from xetile.distributed.signals import Signals, can_signal
from xetile.distributed.steps import (
    Add,
    Broadcast,
    Finish,
    Multiply,
    Pack,
    Receive,
    Schedule,
    Send,
    Step,
    Wait,
    buffer_bytes,
)
from xetile.library.matmul import finish_sums, matmul


@dataclass
class Slot:
    """Buffer of a schedule, with its pending messages and launches.

    Attributes:
        memory: the flat array behind it; None for A and B themselves.
        array, region: what it holds now.
        arriving: the message that fills it, and what must be done when it has come.
        leaving: messages that read it.
        ready: event of the copy or sum that wrote it.
        event: of the last product or copy that reads or writes it.
    """

    memory: Any = None
    array: Any = None
    region: Region | None = None
    arriving: tuple[Pending, Callable[[], None]] | None = None
    leaving: list[Pending] = field(default_factory=list)
    ready: Any = None
    event: Any = None

    @property
    def pending(self) -> list[Pending]:
        """Messages that read or fill it."""
        return [*self.leaving, *([self.arriving[0]] if self.arriving is not None else [])]

    def view(self, region: Region) -> Any:
        """Part of the array."""
        assert self.region is not None
        return self.array if region == self.region else self.array[region.within(self.region)]


@dataclass(frozen=True)
class Epilogue:
    """Epilogue of a plan, as keywords of :func:`xetile.matmul`."""

    activation: Any
    alpha: float
    beta: float
    target: Any

    @property
    def is_empty(self) -> bool:
        """Whether the sums are the result."""
        return self.activation is None and (self.alpha, self.beta) == (1, 0)

    def keywords(self, bias: Any) -> dict[str, Any]:
        """Arguments of :func:`xetile.matmul` and of its epilogue."""
        return {"bias": bias, "activation": self.activation, "alpha": self.alpha, "beta": self.beta,
                "target": self.target}


class Executor:
    """Runs a schedule again and again in the same buffers.

    No buffer is used again before what reads or fills it has ended: each slot remembers its messages and the event of
    its last product. Nothing is sent before the product that made it has ended.

    Args:
        schedule: the steps of this rank.
        memory: where the blocks are.
        transport: to the other ranks.
        timeout: seconds that a message may take; None for any time.
        advance: called with the operations of each product when it is started.
    """

    def __init__(self, schedule: Schedule, memory: Memory, transport: Transport, timeout: float | None,
                 advance: Callable[[int], None] = lambda flops: None) -> None:
        self.schedule, self.memory, self.transport = schedule, memory, transport
        self.timeout, self.advance = timeout, advance
        grid = schedule.grid
        self.slots = {name: Slot(self.memory.empty((count,), grid.dtype if name[0] in "ab" else grid.sums))
                      for name, count in schedule.buffers.items()}
        self._written: list[tuple[tuple[int, int], Any]] = []
        self._signals: Signals | None = None
        self._signalled = False
        if "sums" in self.slots:
            self._fill_sums()
        if schedule.rank == 0 and any(isinstance(step, Multiply) and step.signals for step in schedule.steps) and \
                not self._may_signal():
            _warn_of_no_signals()

    def run(self, a: Any, b: Any, out: Any, bias: Any, epilogue: Epilogue) -> None:
        """Multiply blocks into ``out``, this rank's block of C.

        Raises:
            DeviceError: a message took longer than the timeout, or MPI failed.
            XeError: another rank has given up: its error.
        """
        self.out, self.bias, self.epilogue = out, bias, epilogue
        start = self.memory.now()
        for name, array in (("a", a), ("b", b)):
            self.slots[name] = Slot(None, array, self.schedule.grid.region(name, self.schedule.rank), ready=start,
                                    event=start)
        self._written = []
        self._signalled = False
        try:
            for step in self.schedule.steps:
                self._execute(step)
            self._finish_messages()
            self.transport.ended += 1
        except BaseException as error:
            self.transport.abandon(error, [pending for slot in self.slots.values() for pending in slot.pending])
            raise
        finally:
            del self.slots["a"], self.slots["b"], self.out, self.bias

    def rehearse(self, a: Any, b: Any, out: Any, bias: Any, epilogue: Epilogue) -> None:
        """Run one product and epilogue of each shape on whatever the buffers hold, so that all kernels are compiled.

        Nothing is sent. ``out`` is written.
        """
        self.out, self.bias, self.epilogue = out, bias, epilogue
        seen: set[object] = set()
        for name, array in (("a", a), ("b", b)):
            self.slots[name] = Slot(None, array, self.schedule.grid.region(name, self.schedule.rank))
        try:
            for step in self.schedule.steps:
                self._rehearse(step, seen)
            self.memory.wait(self.memory.now())
        finally:
            del self.slots["a"], self.slots["b"], self.out, self.bias
            self._written.clear()

    def _rehearse(self, step: Step, seen: set[object]) -> None:
        match step:
            case Pack(target=name, region=region) | Receive(buffer=name, region=region) | \
                    Broadcast(buffer=name, region=region):
                self._fill(self.slots[name], region)
            case Multiply(region=region) if step.is_empty or (region.shape, step.depth[1] - step.depth[0]) in seen:
                pass
            case Multiply(region=region):
                seen.add((region.shape, step.depth[1] - step.depth[0]))
                self._multiply(step)
            case Add() if "add" not in seen:
                seen.add("add")
                self._add(step)
            case Finish():
                self._finish(step)

    def _execute(self, step: Step) -> None:
        match step:
            case Pack():
                self._pack(step)
            case Broadcast():
                self._broadcast(step)
            case Send():
                self._send(step)
            case Receive():
                slot = self._reused(step.buffer, step.region)
                view, arrived = self.memory.incoming(slot.array)
                slot.arriving = self.transport.receive(view, step.peer, _message_text(step, "from")), arrived
            case Multiply() if step.is_empty:
                if step.first and not step.fused and step.region.size:
                    self.slots["sums"].view(step.region)[...] = 0
                    self._written.append((step.region.rows, self.memory.now()))
            case Multiply():
                self._multiply(step)
                self.advance(step.flops)
            case Add():
                self._add(step)
            case Finish():
                self._finish(step)
            case Wait():
                self._finish_messages()
                self.memory.wait(self.memory.now())

    def _fill_sums(self) -> None:
        rows, columns, _ = self.schedule.grid.product_of(self.schedule.rank)
        self._fill(self.slots["sums"], Region(rows, columns))

    def _fill(self, slot: Slot, region: Region) -> None:
        slot.array, slot.region = slot.memory[:region.size].reshape(region.shape), region

    def _reused(self, name: str, region: Region) -> Slot:
        """A slot, emptied."""
        slot = self.slots[name]
        self._arrive(slot)
        self._leave(slot)
        self.memory.wait(slot.event)
        slot.ready = slot.event = None
        self._fill(slot, region)
        return slot

    def _arrive(self, slot: Slot) -> None:
        if slot.arriving is not None:
            pending, arrived = slot.arriving
            slot.arriving = None
            self.transport.wait(pending, self.timeout)
            arrived()

    def _leave(self, slot: Slot) -> None:
        while slot.leaving:
            self.transport.wait(slot.leaving.pop(), self.timeout)

    def _finish_messages(self) -> None:
        for slot in self.slots.values():
            self._arrive(slot)
            self._leave(slot)

    def _pack(self, step: Pack) -> None:
        source = self.slots[step.source]
        slot, view = self.slots[step.target], source.view(step.region)
        if view.flags.c_contiguous:  # it is sent as it is
            self._arrive(slot)
            self._leave(slot)
            slot.array, slot.region, slot.ready, slot.event = view, step.region, source.ready, source.event
            return
        slot = self._reused(step.target, step.region)
        self.memory.copy(slot.array, view)
        slot.ready = slot.event = self.memory.now()

    def _broadcast(self, step: Broadcast) -> None:
        if step.root == self.schedule.rank:
            slot = self.slots[step.buffer]
            self.memory.wait(slot.ready)
            view = self.memory.outgoing(slot.array)
            message = _message_text(step, "to others from")
            slot.leaving.append(self.transport.broadcast(view, step.root, step.ranks, message))
            return
        slot = self._reused(step.buffer, step.region)
        view, arrived = self.memory.incoming(slot.array)
        slot.arriving = self.transport.broadcast(view, step.root, step.ranks, _message_text(step, "from")), arrived

    def _send(self, step: Send) -> None:
        slot = self.slots[step.buffer]
        self._arrive(slot)
        if step.buffer == "sums":
            self._await_sums(step.region)
        else:
            self.memory.wait(slot.ready)  # not for products that read it, which go on while it travels
        view = self.memory.outgoing(slot.view(step.region))
        slot.leaving.append(self.transport.send(view, step.peer, _message_text(step, "to")))

    def _await_sums(self, region: Region) -> None:
        """Wait for the products and sums that write some rows of the sums, or for their signal."""
        for rows, event in reversed(self._written):
            if rows[0] < region.rows[1] and region.rows[0] < rows[1]:
                # The last one: products and sums run in order. A signal comes before its end.
                if not (self._signalled and self._signals is not None and self._signals.wait(region, event)):
                    self.memory.wait(event)
                return

    def _multiply(self, step: Multiply) -> None:
        a, b = self.slots[step.a], self.slots[step.b]
        self._arrive(a)
        self._arrive(b)
        dtype = self.schedule.grid.dtype
        left = self.memory.typed(a.view(step.a_region), dtype)
        right = self.memory.typed(b.view(step.b_region), dtype)
        if step.fused:
            keywords = self.epilogue.keywords(self._bias_of(step.region))
            matmul(left, right, out=self._part_of_out(step.region), copies=False, **keywords)
        elif step.signals and (signals := self._signals_of()) is not None:
            signals.launch(left, right, self.slots["sums"].view(step.region), dtype, step.region, step.signals,
                           not step.first, self.epilogue.target)
            self._signalled = True
        else:
            sums = self.slots["sums"].view(step.region)
            matmul(left, right, out=sums, beta=0 if step.first else 1, copies=False,
                   target=self.epilogue.target)
        a.event = b.event = event = self.memory.now()
        self._written.append((step.region.rows, event))

    def _signals_of(self) -> Signals | None:
        """Counters of finished tiles, on a device that can count in host memory."""
        if self._signals is None and isinstance(self.memory, DeviceMemory) and self._may_signal():
            self._signals = Signals(self.memory.queue)
        return self._signals

    def _may_signal(self) -> bool:
        return isinstance(self.memory, DeviceMemory) and can_signal(self.memory.queue)

    def _add(self, step: Add) -> None:
        source, target = self.slots[step.source], self.slots[step.target]
        self._arrive(source)
        self._arrive(target)
        self.memory.add(target.view(step.region), source.view(step.region))
        source.event = event = self.memory.now()
        if step.target == "sums":
            self._written.append((step.region.rows, event))
        else:
            target.ready = target.event = event

    def _finish(self, step: Finish) -> None:
        if step.region.size:
            self.finish_into(step, self._part_of_out(step.region), self._bias_of(step.region))

    def finish_into(self, step: Finish, out: Any, bias: Any) -> None:
        """Epilogue of some sums into an array."""
        finish_sums(self.slots[step.source].view(step.region), out=out, **self.epilogue.keywords(bias))

    def _part_of_out(self, region: Region) -> Any:
        """This rank's block of C, or rows of it."""
        return part(self.out, region, self._out_region())

    def _out_region(self) -> Region:
        grid, rank = self.schedule.grid, self.schedule.rank
        return grid.region("c", rank)

    def _bias_of(self, region: Region) -> Any:
        """The part of the bias for some rows of this rank's block of C."""
        bias = self.bias
        shape = () if bias is None else Argument.of("bias", bias).shape
        if len(shape) == 2 and shape[0] != 1:
            bias = part(bias, region, Region(self._out_region().rows, region.columns))
        return bias

    @property
    def bytes(self) -> int:
        """Bytes of the buffers."""
        return sum(count * buffer_bytes(self.schedule.grid, name) for name, count in self.schedule.buffers.items())


def product_bar(schedule: Schedule, is_wanted: bool) -> Any:
    """Progress bar over the operations of a product, if one is wanted and rich is there."""
    flops = schedule.flops
    return progress_bar("product", flops, lambda done: f"{done / 1e12:.1f} of {flops / 1e12:.1f} TFLOP",
                        is_wanted=is_wanted)


@cache
def _warn_of_no_signals() -> None:
    """Warn, once in a process, that bands leave when their launch has ended."""
    warnings.warn('overlap="signalled" needs blocks on a device with atomics on host memory (usm_atomic_host_'
                  'allocations): bands of C are sent when the launch has ended. overlap="chunked" overlaps everywhere',
                  stacklevel=2)


def part(value: Any, region: Region, outer: Region) -> Any:
    """Part of an array, or of one that is viewed as another type."""
    index = region.within(outer)
    return TypedView(value.array[index], value.dtype) if isinstance(value, TypedView) else value[index]


def _message_text(step: Send | Receive | Broadcast, preposition: str) -> str:
    """Message in the words of an error."""
    peer = step.root if isinstance(step, Broadcast) else step.peer
    kind = "broadcast" if isinstance(step, Broadcast) else "message"
    return f"a {kind} of {step.bytes} bytes, {step.buffer}{step.region}, {preposition} rank {peer}"


