"""Subgroup scheduler: cooperative threads of a work-group's subgroups (XeGPU.md, ``nbarrier_wait``).

The interpreter runs all instances of a kernel in lock step. With named barriers that is wrong: of two branches it runs
the first to its end before the second, and a producer would refill a buffer before the consumer has read it. So each
subgroup of a work-group is a cooperative thread: one runs at a time, until it waits, and resumes when all participants
have arrived. When all of them wait, there is a deadlock, and that is an error.

It runs kernels as IR (:func:`run`), and an author's Python function in the execution ``"numpy:program"``.
"""

from __future__ import annotations

import sys
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

from xegpu.analysis.barriers import in_step, init_of, producer_consumer
from xegpu.dialect.sync import InitNbarrierOp, NbarrierArriveOp, NbarrierOp, NbarrierWaitOp
from xegpu.interpreter import interpreter
from xegpu.interpreter.interpreter import Interpreter, Semantic, Semantics
from xegpu.support.errors import Note, ShapeError, TraceError
from xegpu.support.location import author_location
from xegpu.support.notes import notes_at

_WHOLE = "all"


def run(function: func.FuncOp, arguments: Sequence[Any], grid: tuple[int, int, int], subgroups: tuple[int, int],
        semantics: Semantics, lanes: int | None = None) -> None:
    """Run a kernel on NumPy arrays as :func:`xegpu.interpreter.interpreter.run`; with divergent named barriers the
    subgroups are cooperative threads.

    Raises:
        TraceError: deadlock, subgroups wait for an arrival that does not come.
        ShapeError: more subgroups arrive at a barrier than it has participants.
    """
    if in_step(function, prod(subgroups)):
        interpreter.run(function, arguments, grid, subgroups, semantics, lanes)
        return
    for group in product(*map(range, grid)):
        _WorkGroup(function, arguments, tuple((at, 1) for at in group), grid, subgroups, semantics, lanes).run()


def _definition_note(operation: Operation) -> list[Note]:
    """Note of the definition of an operation's named barrier."""
    if not isinstance(operation, NbarrierOp):
        return []
    return notes_at(author_location(operation), [("the barrier is made here", author_location(init_of(operation)))])


class _Cancelled(BaseException):
    """Unwinds a subgroup's thread after an error or deadlock."""


@dataclass
class _Barrier:
    """State of a barrier: arrivals in the current round, by role, and the number of completed rounds."""

    arrived: Counter[type[Operation]] = field(default_factory=Counter)
    rounds: int = 0


@dataclass
class Subgroup:
    """Cooperative thread of one subgroup.

    Attributes:
        position: its row and column in the work-group.
        tickets: the round of each barrier in which it arrived last.
        go: semaphore on which its thread blocks while another subgroup runs.
        may_go: whether the condition that it waits for holds.
        waits_at: the operation at which it waits, or waited last.
        is_over: whether it has finished.
    """

    position: tuple[int, int]
    tickets: dict[Any, int] = field(default_factory=dict)
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    may_go: Callable[[], bool] = lambda: True
    waits_at: Operation | None = None
    is_over: bool = False


class SubgroupScheduler:
    """Cooperative threads for the subgroups of one work-group, and its barriers.

    Args:
        layout: rows and columns of subgroups in the work-group.
    """

    def __init__(self, layout: tuple[int, int]) -> None:
        self.members = [Subgroup(position) for position in product(range(layout[0]), range(layout[1]))]
        self._barriers: dict[Any, _Barrier] = {}
        self._back = threading.Semaphore(0)
        self._error: BaseException | None = None
        # A debugger that traces this thread only (sys.settrace) is installed in the subgroups' threads as well.
        self._trace = None if threading.gettrace() else sys.gettrace()

    def run(self, body: Callable[[Subgroup], object]) -> None:
        """Run all subgroups to completion; a single one in the thread of the caller.

        Args:
            body: program of a subgroup, which calls :meth:`arrive`, :meth:`wait` and :meth:`meet`.

        Raises:
            TraceError: deadlock, subgroups wait for an arrival that does not come.
            BaseException: an exception of a body.
        """
        if len(self.members) == 1:
            with np.errstate(all="ignore"):
                body(self.members[0])
            return
        threads = [threading.Thread(target=self._live, args=(member, body), daemon=True) for member in self.members]
        for thread in threads:
            thread.start()
        try:
            while self._error is None and not all(member.is_over for member in self.members):
                self._resume(self._next())
        finally:
            self._end(threads)
        if self._error is not None:
            raise self._error

    def _next(self) -> Subgroup:
        """First runnable subgroup."""
        waiting = [member for member in self.members if not member.is_over]
        ready = next((member for member in waiting if member.may_go()), None)
        if ready is None:
            raise self._stuck(waiting)
        return ready

    def _stuck(self, waiting: Sequence[Subgroup]) -> TraceError:
        at = waiting[0].waits_at
        assert at is not None
        return TraceError("XT1483",
                          f"{len(waiting)} of {len(self.members)} subgroups wait at barriers for arrivals that do "
                          "not come; this is where the first of them waits",
                          "let as many subgroups arrive as the barrier has participants, in the same order "
                          "everywhere", author_location(at), notes_at(author_location(at), [
                              ("another one waits here", author_location(member.waits_at)) for member in waiting[1:]
                              if member.waits_at is not None]))

    def _resume(self, member: Subgroup) -> None:
        member.go.release()
        self._back.acquire()

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        self._error = self._error or (None if all(member.is_over for member in self.members) else _Cancelled())
        for member, thread in zip(self.members, threads, strict=True):
            member.go.release()
            thread.join()

    def _live(self, member: Subgroup, body: Callable[[Subgroup], object]) -> None:
        """Main function of a subgroup's thread."""
        member.go.acquire()
        if self._trace is not None:
            sys.settrace(self._trace)
        try:
            if self._error is None:
                with np.errstate(all="ignore"):
                    body(member)
        except _Cancelled:
            pass
        except BaseException as error:
            self._error = self._error or error
        member.is_over = True
        self._back.release()

    def arrive(self, member: Subgroup, operation: Operation, barrier: Any, kind: type[Operation],
               awaited: Counter[type[Operation]]) -> None:
        """Count an arrival.

        Args:
            member: the arriving subgroup.
            operation: its arrival or wait operation.
            barrier: identity of the barrier.
            kind: role of the arrival, a key of ``awaited``.
            awaited: number of arrivals of each role that complete a round.

        Raises:
            ShapeError: it arrives twice in one round, or more subgroups arrive than ``awaited``.
        """
        state = self._barriers.setdefault(barrier, _Barrier())
        if member.tickets.get(barrier, -1) == state.rounds:
            raise ShapeError("XT1484", f"a subgroup arrives twice in one round of barrier {barrier}, which has "
                             f"{awaited.total()} participants", "wait between two arrivals, at this barrier or, as a "
                             "producer, at one where its consumers say that they are ready", author_location(operation),
                             _definition_note(operation))
        if state.arrived[kind] == awaited[kind]:
            raise ShapeError("XT1485",
                             f"more subgroups than {awaited[kind]} "
                             f"{'wait' if isinstance(operation, NbarrierWaitOp) else 'arrive'} in one round of barrier "
                             f"{barrier}, which has {awaited.total()} participants", "give the number of those that "
                             "arrive and, with producers, of those that wait", author_location(operation),
                             _definition_note(operation))
        member.tickets[barrier] = state.rounds
        state.arrived[kind] += 1
        if state.arrived == awaited:
            state.arrived, state.rounds = Counter(), state.rounds + 1

    def wait(self, member: Subgroup, operation: Operation, barrier: Any) -> None:
        """Yield to other subgroups until the round in which a subgroup arrived last is complete."""
        state, ticket = self._barriers[barrier], member.tickets[barrier]
        member.may_go, member.waits_at = (lambda: state.rounds > ticket), operation
        if len(self.members) == 1:
            if not member.may_go():
                raise self._stuck(self.members)
            return
        self._back.release()
        member.go.acquire()
        if self._error is not None:
            raise _Cancelled
        member.may_go = lambda: True

    def meet(self, member: Subgroup, operation: Operation) -> None:
        """Wait at the work-group barrier."""
        self.arrive(member, operation, _WHOLE, gpu.BarrierOp, Counter({gpu.BarrierOp: len(self.members)}))
        self.wait(member, operation, _WHOLE)


@dataclass
class _WorkGroup:
    """Interpreters of the subgroups of one work-group."""

    function: func.FuncOp
    arguments: Sequence[Any]
    group: tuple[tuple[int, int], ...]
    grid: tuple[int, int, int]
    layout: tuple[int, int]
    semantics: Semantics
    lanes: int | None

    def __post_init__(self) -> None:
        self.scheduler = SubgroupScheduler(self.layout)
        self.producer_consumer = producer_consumer(self.function)
        self.shared: dict[Operation, Any] = {}

    def run(self) -> None:
        block = self.function.body.block
        self.scheduler.run(lambda member: self._machine(member).run(block))

    def _machine(self, member: Subgroup) -> Interpreter:
        semantics: dict[type[Operation], Semantic] = {
            **self.semantics,
            memref.AllocOp: self._allocate,
            InitNbarrierOp: lambda machine, operation, operands: int(operands[0]),
            NbarrierArriveOp: lambda machine, operation, operands: self._arrive(member, operation, operands[0]),
            NbarrierWaitOp: lambda machine, operation, operands: self._wait(member, operation, operands[0]),
            gpu.BarrierOp: lambda machine, operation, operands: self.scheduler.meet(member, operation),
        }
        machine = Interpreter(semantics, self.group, self.grid, (1, 1), self.lanes, origin=member.position,
                          layout=self.layout)
        machine.values.update(zip(self.function.body.block.args, self.arguments, strict=True))
        return machine

    def _allocate(self, machine: Interpreter, operation: Operation, operands: Sequence[Any]) -> Any:
        """Allocate shared local memory, once: in the first subgroup that runs the operation."""
        if operation not in self.shared:
            self.shared[operation] = self.semantics[memref.AllocOp](machine, operation, operands)
        return self.shared[operation]

    def _arrive(self, member: Subgroup, operation: NbarrierArriveOp, barrier: Any) -> None:
        self.scheduler.arrive(member, operation, barrier, NbarrierArriveOp, self._awaited(operation))

    def _wait(self, member: Subgroup, operation: NbarrierWaitOp, barrier: Any) -> None:
        """Wait; a consumer, which has no arrival, is counted here."""
        if operation.nbarrier in self.producer_consumer:
            self.scheduler.arrive(member, operation, barrier, NbarrierWaitOp, self._awaited(operation))
        self.scheduler.wait(member, operation, barrier)

    def _awaited(self, operation: NbarrierOp) -> Counter[type[Operation]]:
        """Number of arrivals of each role that complete a round of a barrier."""
        producers, consumers = self.producer_consumer.get(operation.nbarrier, (init_of(operation).participants, 0))
        return Counter({NbarrierArriveOp: producers, NbarrierWaitOp: consumers})
