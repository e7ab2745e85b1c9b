"""``kernel.on("numpy:program")``: the author's Python function itself, one program instance at a time, on real values.

Nothing is recorded. Each call of the language makes its operation, checks it as a recording would, and runs its NumPy
meaning at once, so that ``breakpoint()``, ``print`` and an editor's steps work inside a kernel. The body of an
``xt.when`` runs only where the condition holds. Subgroups of a work-group run one at a time, each up to a barrier
(:mod:`xegpu.interpreter.subgroup_scheduler`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import CodeType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.gpu import BarrierOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.barriers import check_alike, init_of, no_arrival, no_wait, second_arrival
from xegpu.dialect.sync import InitNbarrierOp, NbarrierArriveOp, NbarrierOp, NbarrierWaitOp
from xegpu.interpreter.interpreter import BATCH, Interpreter, force
from xegpu.interpreter.subgroup_scheduler import Subgroup, SubgroupScheduler
from xegpu.support.errors import ArgumentError, ElementTypeError, ShapeError, XeError
from xegpu.support.location import Location
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.frontend.tracer import Tracer, recording
from xetile.interpreter.semantics import SEMANTICS
from xetile.runtime.grid import Grid

Place = tuple[int, int, int, int, int]
"""Where an instance stands: its work-group in the grid, its subgroup in the work-group."""


@dataclass
class OneInstance(Interpreter):
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


@dataclass
class WorkGroup:
    """What the subgroups of a work-group share.

    Attributes:
        scheduler: lets one of them run at a time.
        shared: arrays in shared local memory that there are so far, in the order in which they were made.
        barriers: the first barrier of each id.
    """

    scheduler: SubgroupScheduler
    shared: list[Any] = field(default_factory=list)
    barriers: dict[int, InitNbarrierOp] = field(default_factory=dict)


class Running(Tracer):
    """What the language's functions find in the place of a recording: it runs each operation when it is made.

    Args:
        name: the kernel's name.
        code: the code object of the author's function.
        subgroups: subgroups of a work-group.
        machine: the instance.
        group: its work-group.
        member: its subgroup.
    """

    runs = True

    def __init__(self, name: str, code: CodeType, subgroups: tuple[int, int], machine: OneInstance,
                 group: WorkGroup, member: Subgroup) -> None:
        super().__init__(name, code, subgroups)
        self.machine, self._group, self._member, self._allocated = machine, group, member, 0
        self._arrivals: dict[int, NbarrierOp] = {}  # at barriers without producers, with no wait behind them yet

    def check_visible(self, value: SSAValue, location: Location) -> None:
        """Nothing: what was never made has no name."""

    def emit(self, operation: Operation) -> Any:
        """Check an operation, and run it."""
        self.condition = None
        result = super().emit(operation)
        operation.detach()  # type: ignore[no-untyped-call]
        if isinstance(operation, BarrierOp):
            self._group.scheduler.meet(self._member, operation)
        elif isinstance(operation, NbarrierArriveOp):
            self._arrive(operation, self._barrier_of(operation))
        elif isinstance(operation, NbarrierWaitOp):
            self._wait(operation, self._barrier_of(operation))
        else:
            self._run(operation, self.location())
        if isinstance(operation, InitNbarrierOp):
            first = self._group.barriers.setdefault(self._barrier_of(operation), operation)
            check_alike(operation, first, len(self._group.scheduler.members))
        return result

    def _barrier_of(self, operation: InitNbarrierOp | NbarrierOp) -> int:
        """The id of a named barrier."""
        value = operation.result if isinstance(operation, InitNbarrierOp) else operation.nbarrier
        return int(self.evaluate(value))

    def _arrive(self, operation: NbarrierArriveOp, barrier: int) -> None:
        if init_of(operation).declared_producers is None:
            if barrier in self._arrivals and not _may_have_sides(operation):
                raise second_arrival(operation, self._arrivals[barrier])
            self._arrivals[barrier] = operation
        self._count(operation, barrier)

    def _wait(self, operation: NbarrierWaitOp, barrier: int) -> None:
        """A wait; a consumer, which does not arrive, is counted here."""
        if self._arrivals.pop(barrier, None) is None:
            if init_of(operation).declared_producers is None and not _may_have_sides(operation):
                raise no_arrival(operation)
            self._count(operation, barrier)
        self._group.scheduler.wait(self._member, operation, barrier)

    def _count(self, operation: NbarrierOp, barrier: int) -> None:
        """Count an arrival: as a producer's or a consumer's where they are told apart, else as that of any."""
        init = init_of(operation)
        kind, awaited = NbarrierOp, Counter[type[Operation]]({NbarrierOp: init.participants})
        if (producers := init.declared_producers) is not None:
            kind, awaited = type(operation), Counter({NbarrierArriveOp: producers,
                                                      NbarrierWaitOp: init.participants - producers})
        self._group.scheduler.arrive(self._member, operation, barrier, kind, awaited)

    def check_end(self) -> None:
        """Raise if the function ends where a recording would have been refused.

        Raises:
            XeError: what a call broke, or an arrival at a named barrier that no wait follows.
        """
        if self.broken is not None:
            raise self.broken
        for arrival in self._arrivals.values():
            if not _may_have_sides(arrival):
                raise no_wait(arrival)

    def _at_entry(self, operation: Operation) -> None:
        self._run(operation, self.location())

    def _run(self, operation: Operation, location: Location) -> None:
        values = self.machine.values
        if isinstance(operation, AllocOp):
            values[operation.results[0]] = self._allocate(operation)
            return
        try:
            made = force(self.machine.evaluate(operation, [values[operand] for operand in operation.operands]))
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
        shared = self._group.shared
        if self._allocated == len(shared):
            shared.append(self.machine.evaluate(operation, []))
        self._allocated += 1
        return shared[self._allocated - 1]

    def evaluate(self, value: SSAValue) -> Any:
        """What a value is: a Python number, or a NumPy array of a vector's shape."""
        found = force(self.machine.values[value])
        if not isinstance(found, np.ndarray):
            return found
        shape = found.shape[self.machine.batch:] if found.ndim > BATCH else ()
        return found.reshape(shape) if shape else found.reshape(-1)[0].item()


def _may_have_sides(operation: NbarrierOp) -> bool:
    """Whether one may only arrive and the other only wait, though no number of producers is said."""
    return init_of(operation).participants == 2


def _let_go(operation: Operation) -> None:
    """Keep what an operation was made of from living as long as its result, and chains of moved tiles from growing."""
    if all(isinstance(result.type, VectorType) for result in operation.results):
        operation.operands = ()
    elif operation.operands and isinstance(before := operation.operands[0].owner, type(operation)):
        operation.operands[0] = before.operands[0]


@dataclass(frozen=True)
class EagerKernel:
    """A kernel whose Python function runs itself: what ``kernel.on("numpy:program")`` gives.

    Attributes:
        name: the kernel's name.
        function: the author's function.
        bind_arguments: gives the arguments of a call, checked.
        grid_of: gives the counts of a launch.
        makers: give the kernel's arguments.
        subgroups: subgroups of a work-group.
        only: the indices of the groups that run, None for all.
    """

    name: str
    function: Callable[..., None]
    bind_arguments: Callable[..., tuple[Argument, ...]]
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
            arguments = self.bind_arguments(args, constants)
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
        shared = WorkGroup(SubgroupScheduler(self.subgroups))

        def instance(member: Subgroup) -> None:
            groups = tuple((place, 1) for place in group)
            machine = OneInstance(SEMANTICS, groups, counts, self.subgroups, place=(*group, *member.position))
            running = Running(self.name, self.function.__code__, self.subgroups, machine, shared, member)
            with recording(running):
                symbols = [make(running) for make in self.makers(arguments)]
                for symbol, value in zip(symbols, values, strict=True):
                    machine.values[symbol.ssa] = value
                self.function(*symbols, **constants)
                running.check_end()

        shared.scheduler.run(instance)


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
