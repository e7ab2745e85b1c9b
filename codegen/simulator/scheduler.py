"""Scheduler of hardware threads in lock step: the lanes with the smallest program counter run next.

All threads of a batch of work-groups are rows of arrays. A block runs for all rows that are at it at once; lanes of a
row that wait elsewhere, rows that wait at a barrier and rows that have ended are masked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.alu.execution import Execution, rounding_mode
from codegen.simulator.control_flow import Block
from codegen.simulator.threads import LANES, Threads

END = np.iinfo(np.int32).max
"""Program counter of lanes that have ended or never ran."""
_PATIENCE = 4096
"""Blocks after which threads that wait for others in a loop give way to those others."""


class Barriers(Protocol):
    """Barriers of the resident work-groups, which messages to the gateway update."""

    def may_pass(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of threads that may pass the barrier of their id."""

    def stuck(self, rows: NDArray[np.int64], ids: NDArray[np.int64]) -> Exception:
        """The finding for threads of which none can ever go on."""


@dataclass(frozen=True)
class BoundBlock:
    """Block bound to the registers of threads.

    Attributes:
        steps: its instructions with an effect, without branch and wait.
        taken: lanes that follow its branch.
        barrier: ids of the barriers that its wait is for, (T,).
    """

    block: Block
    steps: tuple[Callable[[], None], ...]
    taken: Callable[[], NDArray[np.bool_] | None] | None = None
    target: int = 0
    barrier: Callable[[], NDArray[np.int64]] | None = None


@dataclass
class Scheduler:
    """Threads of one batch of work-groups.

    Attributes:
        bind: gives the block that starts at an instruction, bound.
        observe: called with each block and the rows that run it, before it runs.
        changes_rounding: whether the program changes the rounding mode, so that it is read before each block.
        executed: how often each block (by its start) ran, in threads.
    """

    threads: Threads
    execution: Execution
    barriers: Barriers
    bind: Callable[[int], BoundBlock]
    observe: Callable[[Block, NDArray[np.bool_]], None]
    changes_rounding: bool
    executed: Counter[int] = field(default_factory=Counter)

    def run(self, entry: int, dispatched: NDArray[np.bool_]) -> None:
        """Run all threads to their ends; ``dispatched`` (T, 32) are the lanes that exist."""
        self._counters = np.where(dispatched, np.int32(entry), np.int32(END))
        self._ended = ~dispatched.any(axis=1)
        self._waiting = np.zeros(len(self.threads), np.bool_)
        self._barrier = np.zeros(len(self.threads), np.int64)
        self._last_run = np.zeros(len(self.threads), np.int64)
        self._clock = 0
        self._uniform: int | None = None  # program counter of all lanes, if none is masked
        while (start := self._choose()) is not None:
            self._clock += 1
            self._run_block(self.bind(start))

    def _choose(self) -> int | None:
        """Choose the block that runs next, and its rows and lanes; None if all threads have ended."""
        if self._uniform is not None:
            return self._uniform
        while True:
            blocked = self._waiting | self._ended
            rows = np.where(blocked, END, self._counters.min(axis=1))
            start = int(rows.min())
            if start != END:
                break
            if self._ended.all():
                return None
            self._release()
        oldest = np.where(blocked, self._clock, self._last_run)
        if self._clock - oldest.min() > _PATIENCE:
            start = int(rows[oldest.argmin()])
            self._release(stuck=False)
        execution = self.execution
        execution.rows = rows == start
        execution.lanes = (self._counters == start) & execution.rows[:, None]
        execution.all_rows = bool(execution.rows.all())
        execution.full = execution.all_rows and bool(execution.lanes[:, :execution.width].all())
        self._last_run[execution.rows] = self._clock
        return start

    def position(self, row: int) -> int:
        """Index of the instruction that a thread runs next."""
        return int(self._counters[row].min())

    def _release(self, stuck: bool = True) -> None:
        """Let threads go on whose barriers are complete."""
        rows = np.flatnonzero(self._waiting)
        if not len(rows):
            return
        passed = self.barriers.may_pass(rows, self._barrier[rows])
        self._waiting[rows[passed]] = False
        if stuck and not passed.any():
            raise self.barriers.stuck(rows, self._barrier[rows])

    def _run_block(self, bound: BoundBlock) -> None:
        block, execution = bound.block, self.execution
        self.executed[block.start] += int(execution.rows.sum())
        self.observe(block, execution.rows)
        if self.changes_rounding:
            execution.rounding = rounding_mode(self.threads.control, execution.rows)
        for step in bound.steps:
            step()
        if bound.taken is not None:
            self._go(bound.taken(), bound.target, block.end)
        elif block.ends_thread:
            self._ended |= execution.rows
            self._counters[execution.rows] = END
            self._uniform = None
        else:
            self._go(None, block.end, block.end)
        if bound.barrier is not None:
            self._wait(bound.barrier())

    def _go(self, follows: NDArray[np.bool_] | None, target: int, otherwise: int) -> None:
        """Move the lanes that ran: those that follow to the target, the rest on."""
        execution = self.execution
        if follows is not None and execution.full:
            chosen = follows[:, :execution.width]
            if chosen.all():
                follows = None
            elif not chosen.any():
                follows, target = None, otherwise
        if follows is None and execution.full:
            self._counters[:, :execution.width] = target
            self._uniform = target
            return
        self._uniform = None
        lanes = execution.lanes
        if follows is None:
            self._counters[lanes] = target
        else:
            self._counters[lanes] = np.where(np.broadcast_to(follows, lanes.shape)[lanes], target, otherwise)

    def _wait(self, ids: NDArray[np.int64]) -> None:
        """Let those threads wait whose barrier is not complete."""
        rows = np.flatnonzero(self.execution.rows)
        passed = self.barriers.may_pass(rows, ids[rows])
        if not passed.all():
            self._waiting[rows[~passed]] = True
            self._barrier[rows] = ids[rows]
            self._uniform = None


def new_execution(threads: Threads, width: int) -> Execution:
    """State of execution for threads of ``width`` lanes."""
    count = len(threads)
    return Execution(np.zeros(count, np.bool_), np.zeros((count, LANES), np.bool_), width)
