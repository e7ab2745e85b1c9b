"""``kernel.on("numpy:program")``: the author's Python function itself, one program instance at a time, on real values.

Nothing is recorded. Each call of the language makes its operation, checks it as a recording would, and runs its NumPy
meaning at once, so that ``breakpoint()``, ``print`` and an editor's steps work inside a kernel. The body of an
``xt.when`` runs only where the condition holds. Subgroups of a work-group take turns: each runs up to a barrier, then
the next one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from types import CodeType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.gpu import BarrierOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation, SSAValue

from xegpu.interpreter.interpreter import BATCH, Machine, now
from xegpu.support.errors import ArgumentError, ElementTypeError, ShapeError, TraceError, XeError
from xegpu.support.location import Location
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.frontend.tracer import Tracer, recording
from xetile.runtime.grid import Grid
from xetile.runtime.numpy_executor import MEANINGS

Place = tuple[int, int, int, int, int]
"""Where an instance stands: its work-group in the grid, its subgroup in the work-group."""


@dataclass
class OneInstance(Machine):
    """The machine of a single instance.

    Attributes:
        place: where it stands.
    """

    place: Place = (0, 0, 0, 0, 0)

    @property
    def instances(self) -> tuple[int, ...]:
        return (1,) * BATCH

    def along(self, axis: int, first: int, count: int) -> Any:
        return self.place[axis]

    @property
    def work_group(self) -> tuple[Any, ...]:
        return (0, 0, 0)


class Running(Tracer):
    """What the language's functions find in the place of a recording: it runs each operation when it is made.

    Args:
        name: the kernel's name.
        code: the code object of the author's function.
        subgroups: subgroups of a work-group.
        machine: the instance.
        shared: arrays in shared local memory that the work-group has so far, in the order in which they were made.
        barrier: what waits for the other subgroups.
    """

    runs = True

    def __init__(self, name: str, code: CodeType, subgroups: tuple[int, int], machine: OneInstance,
                 shared: list[Any], barrier: Callable[[Location], None]) -> None:
        super().__init__(name, code, subgroups)
        self.machine, self._shared, self._barrier, self._allocated = machine, shared, barrier, 0

    def check_visible(self, value: SSAValue, location: Location) -> None:
        """Nothing: what was never made has no name."""

    def emit(self, operation: Operation) -> Any:
        """Check an operation, and run it."""
        self.condition = None
        result = super().emit(operation)
        operation.detach()  # type: ignore[no-untyped-call]
        location = self.location()
        if isinstance(operation, BarrierOp):
            self._barrier(location)
        else:
            self._run(operation, location)
        return result

    def _at_entry(self, operation: Operation) -> None:
        self._run(operation, self.location())

    def _run(self, operation: Operation, location: Location) -> None:
        values = self.machine.values
        if isinstance(operation, AllocOp):
            values[operation.results[0]] = self._allocate(operation)
            return
        try:
            made = now(self.machine.evaluate(operation, [values[operand] for operand in operation.operands]))
        except XeError as error:
            raise error.at(location) from None
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise ElementTypeError("XT1045",
                                   "this writes an array that is read-only", "pass an array that can be written, such "
                                   "as its .copy()", location) from None
        results = [made] if len(operation.results) == 1 else made or []
        values.update(zip(operation.results, results, strict=False))
        _let_go(operation)

    def _allocate(self, operation: AllocOp) -> Any:
        """The work-group's next array in shared local memory: all of its subgroups ask in the same order."""
        if self._allocated == len(self._shared):
            self._shared.append(self.machine.evaluate(operation, []))
        self._allocated += 1
        return self._shared[self._allocated - 1]

    def held(self, value: SSAValue) -> Any:
        """What a value is: a Python number, or a NumPy array of a vector's shape."""
        found = now(self.machine.values[value])
        if not isinstance(found, np.ndarray):
            return found
        shape = found.shape[self.machine.batch:] if found.ndim > BATCH else ()
        return found.reshape(shape) if shape else found.reshape(-1)[0].item()


def _let_go(operation: Operation) -> None:
    """Keep what an operation was made of from living as long as its result, and chains of moved tiles from growing."""
    if all(isinstance(result.type, VectorType) for result in operation.results):
        operation.operands = ()
    elif operation.operands and isinstance(before := operation.operands[0].owner, type(operation)):
        operation.operands[0] = before.operands[0]


@dataclass(frozen=True)
class Program:
    """A kernel whose function shall run itself: what ``kernel.on("numpy:program")`` gives.

    Attributes:
        name: the kernel's name.
        function: the author's function.
        bind: gives the arguments of a call in one form.
        grid_of: gives the counts of a launch.
        makers: give the kernel's arguments.
        subgroups: subgroups of a work-group.
        only: the indices of the groups that run, None for all.
    """

    name: str
    function: Callable[..., None]
    bind: Callable[..., tuple[Argument, ...]]
    grid_of: Callable[..., Grid]
    makers: Callable[[Sequence[Argument]], list[Callable[[Tracer], Any]]]
    subgroups: tuple[int, int]
    only: tuple[int, ...] | None = None
    target = None
    device = "NumPy"

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._launch, grid)

    def __call__(self, *args: Any, **constants: Any) -> None:
        """Launch with the grid that the decorator's function gives."""
        self._launch(None, *args, **constants)

    def _launch(self, grid: Any, /, *args: Any, **constants: Any) -> None:
        with AtTheCall():
            arguments = self.bind(args, constants)
            counts = self.grid_of(grid, args, constants)
            for argument in arguments:
                argument.check_there()
            values = [argument.numpy() for argument in arguments]
            with np.errstate(all="ignore"):
                for group in self._groups(counts):
                    self._group(group, counts, arguments, values, constants)

    def _groups(self, counts: Grid) -> Iterator[tuple[int, int, int]]:
        wanted = self.only or ()
        if any(not 0 <= place < count for place, count in zip(wanted, counts, strict=False)):
            first, last = (0,) * len(wanted), tuple(count - 1 for count in counts[:len(wanted)])
            raise ShapeError("XT1603", f"only={wanted} names no group of a grid of {counts}",
                             f"give the indices of a group, from {_only(first)} to {_only(last)}"
                             if all(counts) else "this grid has no groups: launch one that has")
        for z, y, x in product(*(range(count) for count in reversed(counts))):
            if (x, y, z)[:len(wanted)] == wanted:
                yield x, y, z

    def _group(self, group: tuple[int, int, int], counts: Grid, arguments: Sequence[Argument], values: list[Any],
               constants: dict[str, Any]) -> None:
        shared: list[Any] = []

        def instance(row: int, column: int, barrier: Callable[[Location], None]) -> None:
            groups = tuple((place, 1) for place in group)
            machine = OneInstance(MEANINGS, groups, counts, self.subgroups, place=(*group, row, column))
            running = Running(self.name, self.function.__code__, self.subgroups, machine, shared, barrier)
            with recording(running):
                symbols = [make(running) for make in self.makers(arguments)]
                for symbol, value in zip(symbols, values, strict=True):
                    machine.values[symbol.ssa] = value
                self.function(*symbols, **constants)
                if running.broken is not None:
                    raise running.broken

        places = list(product(range(self.subgroups[0]), range(self.subgroups[1])))
        if len(places) == 1:
            instance(0, 0, lambda location: None)
        else:
            take_turns([partial(instance, *place) for place in places])


class _Turn:
    """One subgroup, in a thread of its own that runs only while it has the turn."""

    def __init__(self, body: Callable[[Callable[[Location], None]], None]) -> None:
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self.waits_at: Location | None = None
        self.error: BaseException | None = None
        self.over, self._given_up = False, False
        self._trace = None if threading.gettrace() else sys.gettrace()  # a debugger that knows of this thread alone
        self._thread = threading.Thread(target=self._work, args=(body,), daemon=True)
        self._thread.start()

    def _work(self, body: Callable[[Callable[[Location], None]], None]) -> None:
        self._go.acquire()
        if self._trace is not None:
            sys.settrace(self._trace)
        try:
            if not self._given_up:
                body(self._wait)
        except BaseException as error:  # the launch raises it
            self.error = error
        self.over = True
        self._back.release()

    def _wait(self, location: Location) -> None:
        self.waits_at = location
        self._back.release()
        self._go.acquire()
        if self._given_up:
            raise SystemExit

    def run(self) -> None:
        """Run up to the next barrier or the end."""
        self.waits_at = None
        self._go.release()
        self._back.acquire()
        if self.error is not None:
            raise self.error

    def give_up(self) -> None:
        """End the thread where it waits."""
        if not self.over:
            self._given_up = True
            self._go.release()
            self._thread.join()


def take_turns(bodies: Sequence[Callable[[Callable[[Location], None]], None]]) -> None:
    """Run the subgroups of a work-group, each up to a barrier, then the next.

    Raises:
        TraceError: some end, or meet no further barrier, where others wait at one.
    """
    turns = [_Turn(body) for body in bodies]
    try:
        while any(not turn.over for turn in turns):
            for turn in turns:
                if not turn.over:
                    turn.run()
            waiting = next((turn.waits_at for turn in turns if turn.waits_at is not None), None)
            if waiting is not None and any(turn.over for turn in turns):
                count = sum(turn.over for turn in turns)
                raise TraceError("XT1604", f"{count} of {len(turns)} subgroups end while others wait at a barrier",
                                 "let every subgroup meet every barrier of its work-group", waiting)
    finally:
        for turn in turns:
            turn.give_up()


def _only(indices: tuple[int, ...]) -> str:
    return str(indices[0] if len(indices) == 1 else indices)


def check_only(only: Any) -> tuple[int, ...] | None:
    """The indices that ``only`` gives, as a tuple.

    Raises:
        ArgumentError: it is neither an integer nor a tuple of up to three.
    """
    indices = only if isinstance(only, tuple) else (only,)
    if only is not None and not (1 <= len(indices) <= 3 and all(type(index) is int for index in indices)):
        raise ArgumentError("XT1602", f"only={only!r} names no group", "give one to three integers, as in only=(3, 0)")
    return None if only is None else indices
