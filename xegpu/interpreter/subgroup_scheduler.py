"""Runs kernels in NumPy whose subgroups wait for each other at named barriers (XeGPU.md, ``nbarrier_wait``).

Lock step would be wrong there: of two branches the interpreter runs the first to its end before the second, and a
producer would fill a buffer again before the consumer has read it. So each subgroup of a work-group runs by itself, in
a thread of its own, one at a time: until it waits, and on when all participants have arrived. When all of them wait,
none will ever go on, and that is an error.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import func, gpu, memref
from xdsl.ir import Operation

from xegpu.analysis.barriers import handed, in_step, init_of
from xegpu.dialect.sync import InitNbarrierOp, NbarrierArriveOp, NbarrierOp, NbarrierWaitOp
from xegpu.interpreter import interpreter
from xegpu.interpreter.interpreter import Machine, Meaning, Meanings
from xegpu.support.errors import Note, ShapeError, TraceError
from xegpu.support.location import author_location
from xegpu.support.notes import elsewhere

_WHOLE = "all"


def run(function: func.FuncOp, arguments: Sequence[Any], grid: tuple[int, int, int], subgroups: tuple[int, int],
        meanings: Meanings, lanes: int | None = None) -> None:
    """Run a kernel on NumPy arrays as :func:`xegpu.interpreter.interpreter.run` does, its subgroups apart where they
    must be.

    Raises:
        TraceError: subgroups wait for an arrival that does not come.
        ShapeError: more subgroups arrive at a barrier than it has participants.
    """
    if in_step(function, prod(subgroups)):
        interpreter.run(function, arguments, grid, subgroups, meanings, lanes)
        return
    for group in product(*map(range, grid)):
        _Crew(function, arguments, tuple((at, 1) for at in group), grid, subgroups, meanings, lanes).run()


def _made(operation: Operation) -> list[Note]:
    """Where the named barrier of an operation was made."""
    if not isinstance(operation, NbarrierOp):
        return []
    return elsewhere(author_location(operation), [("the barrier is made here", author_location(init_of(operation)))])


class _Cancelled(BaseException):
    """Ends a subgroup that would wait for ever."""


@dataclass
class _Barrier:
    """Who has come in the round that is open: all alike, or producers and consumers; and how many rounds are over."""

    arrived: Counter[type[Operation]] = field(default_factory=Counter)
    rounds: int = 0


@dataclass
class _Subgroup:
    """One subgroup: its thread, the rounds that it has arrived in, and what it waits for."""

    position: tuple[int, int]
    tickets: dict[Any, int] = field(default_factory=dict)
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    may_go: Callable[[], bool] = lambda: True
    waits_at: Operation | None = None
    is_over: bool = False


@dataclass
class _Crew:
    """The subgroups of one work-group."""

    function: func.FuncOp
    arguments: Sequence[Any]
    group: tuple[tuple[int, int], ...]
    grid: tuple[int, int, int]
    layout: tuple[int, int]
    meanings: Meanings
    lanes: int | None

    def __post_init__(self) -> None:
        self.barriers: dict[Any, _Barrier] = {}
        self.handed = handed(self.function)
        self.shared: dict[Operation, Any] = {}
        self.back = threading.Semaphore(0)
        self.error: BaseException | None = None
        self.members = [_Subgroup(position) for position in product(range(self.layout[0]), range(self.layout[1]))]

    def run(self) -> None:
        threads = [threading.Thread(target=self._live, args=(member,), daemon=True) for member in self.members]
        for thread in threads:
            thread.start()
        try:
            while self.error is None and not all(member.is_over for member in self.members):
                self._resume(self._next())
        finally:
            self._end(threads)
        if self.error is not None:
            raise self.error

    def _next(self) -> _Subgroup:
        """The first subgroup that can go on."""
        waiting = [member for member in self.members if not member.is_over]
        ready = next((member for member in waiting if member.may_go()), None)
        if ready is None:
            at = waiting[0].waits_at
            assert at is not None
            raise TraceError("XT1483",
                             f"{len(waiting)} of {len(self.members)} subgroups wait at barriers for arrivals that do "
                             "not come; this is where the first of them waits",
                             "let as many subgroups arrive as the barrier has participants, in the same order "
                             "everywhere", author_location(at), elsewhere(author_location(at), [
                                 ("another one waits here", author_location(member.waits_at)) for member in waiting[1:]
                                 if member.waits_at is not None]))
        return ready

    def _resume(self, member: _Subgroup) -> None:
        member.go.release()
        self.back.acquire()

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        self.error = self.error or (None if all(member.is_over for member in self.members) else _Cancelled())
        for member, thread in zip(self.members, threads, strict=True):
            member.go.release()
            thread.join()

    def _live(self, member: _Subgroup) -> None:
        """A subgroup's thread."""
        member.go.acquire()
        try:
            if self.error is None:
                with np.errstate(all="ignore"):
                    self._machine(member).run(self.function.body.block)
        except _Cancelled:
            pass
        except BaseException as error:
            self.error = error
        member.is_over = True
        self.back.release()

    def _machine(self, member: _Subgroup) -> Machine:
        meanings: dict[type[Operation], Meaning] = {
            **self.meanings,
            memref.AllocOp: self._allocate,
            InitNbarrierOp: lambda machine, operation, operands: int(operands[0]),
            NbarrierArriveOp: lambda machine, operation, operands: self._arrive(member, operation, operands[0]),
            NbarrierWaitOp: lambda machine, operation, operands: self._wait_named(member, operation, operands[0]),
            gpu.BarrierOp: lambda machine, operation, operands: self._meet(member, operation),
        }
        machine = Machine(meanings, self.group, self.grid, (1, 1), self.lanes, origin=member.position,
                          layout=self.layout)
        machine.values.update(zip(self.function.body.block.args, self.arguments, strict=True))
        return machine

    def _allocate(self, machine: Machine, operation: Operation, operands: Sequence[Any]) -> Any:
        """Shared local memory: the first subgroup that comes by makes it."""
        if operation not in self.shared:
            self.shared[operation] = self.meanings[memref.AllocOp](machine, operation, operands)
        return self.shared[operation]

    def _arrive(self, member: _Subgroup, operation: NbarrierArriveOp, barrier: Any) -> None:
        self._count(member, operation, barrier, self._awaited(operation))

    def _wait_named(self, member: _Subgroup, operation: NbarrierWaitOp, barrier: Any) -> None:
        """A wait; a consumer, which does not arrive, is counted here."""
        if operation.nbarrier in self.handed:
            self._count(member, operation, barrier, self._awaited(operation))
        self._wait(member, operation, barrier)

    def _awaited(self, operation: NbarrierOp) -> Counter[type[Operation]]:
        """Who must come for a round to be over."""
        producers, consumers = self.handed.get(operation.nbarrier, (init_of(operation).participants, 0))
        return Counter({NbarrierArriveOp: producers, NbarrierWaitOp: consumers})

    def _count(self, member: _Subgroup, operation: Operation, barrier: Any, awaited: Counter[type[Operation]]) -> None:
        state = self.barriers.setdefault(barrier, _Barrier())
        if member.tickets.get(barrier, -1) == state.rounds:
            raise ShapeError("XT1484", f"a subgroup arrives twice in one round of barrier {barrier}, which has "
                             f"{awaited.total()} participants", "wait between two arrivals, at this barrier or, as a "
                             "producer, at one where its consumers say that they are ready", author_location(operation),
                             _made(operation))
        if state.arrived[type(operation)] == awaited[type(operation)]:
            raise ShapeError("XT1485",
                             f"more subgroups than {awaited[type(operation)]} "
                             f"{'wait' if isinstance(operation, NbarrierWaitOp) else 'arrive'} in one round of barrier "
                             f"{barrier}, which has {awaited.total()} participants", "give the number of those that "
                             "arrive and, with producers, of those that wait", author_location(operation),
                             _made(operation))
        member.tickets[barrier] = state.rounds
        state.arrived[type(operation)] += 1
        if state.arrived == awaited:
            state.arrived, state.rounds = Counter(), state.rounds + 1

    def _wait(self, member: _Subgroup, operation: Operation, barrier: Any) -> None:
        state, ticket = self.barriers[barrier], member.tickets[barrier]
        member.may_go, member.waits_at = (lambda: state.rounds > ticket), operation
        self.back.release()
        member.go.acquire()
        if self.error is not None:
            raise _Cancelled
        member.may_go = lambda: True

    def _meet(self, member: _Subgroup, operation: Operation) -> None:
        self._count(member, operation, _WHOLE, Counter({type(operation): len(self.members)}))
        self._wait(member, operation, _WHOLE)
