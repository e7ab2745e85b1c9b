"""Eager mode, ``kernel.on("numpy:program")``: the Python function on concrete values, one program instance at a time.

Nothing is traced. Each function of the language builds its operation, verifies it as the tracer does, and evaluates it
in NumPy at once, so that ``breakpoint()``, ``print`` and a debugger's steps work inside a kernel. The body of an
``xt.when`` runs only where the condition holds. Subgroups of a work-group run one at a time, each up to a barrier
(:mod:`xegpu.interpreter.subgroup_scheduler`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import CodeType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.gpu import BarrierOp
from xdsl.dialects.memref import AllocOp, ExtractStridedMetaDataOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.barriers import check_alike, init_of, no_arrival, no_wait, second_arrival
from xegpu.dialect.sync import InitNbarrierOp, NbarrierArriveOp, NbarrierOp, NbarrierWaitOp
from xegpu.interpreter.interpreter import BATCH, Interpreter, force
from xegpu.interpreter.subgroup_scheduler import Subgroup, SubgroupScheduler
from xegpu.ir.traits import written_operand
from xegpu.ir.use_def import array_of
from xegpu.support.errors import ArgumentError, ElementTypeError, ShapeError, XeError
from xegpu.support.location import Location
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.frontend.constants import python_number
from xetile.frontend.control_flow.if_else import KernelExit
from xetile.frontend.tracer import Tracer, recording
from xetile.interpreter.semantics import SEMANTICS
from xetile.runtime.aliasing import Aliasing
from xetile.runtime.grid import Grid
from xetile.runtime.launch_plan import ENDED, LaunchEvent

InstanceId = tuple[int, int, int, int, int]
"""Indices of a program instance: of its work-group in the grid, of its subgroup in the work-group."""


@dataclass
class InstanceInterpreter(Interpreter):
    """The interpreter of a single program instance.

    Attributes:
        instance: its indices.
    """

    instance: InstanceId = (0, 0, 0, 0, 0)

    @property
    def instances(self) -> tuple[int, ...]:
        return (1,) * BATCH

    def along(self, axis: int, first: int, count: int) -> Any:
        return self.instance[axis]

    @property
    def work_group(self) -> tuple[Any, ...]:
        return (0, 0, 0)


@dataclass
class WorkGroup:
    """State that the subgroups of a work-group share.

    Attributes:
        scheduler: runs one of them at a time.
        shared: arrays in shared local memory, in the order of their allocation.
        barriers: the first barrier of each id.
    """

    scheduler: SubgroupScheduler
    shared: list[Any] = field(default_factory=list)
    barriers: dict[int, InitNbarrierOp] = field(default_factory=dict)


class EagerTracer(Tracer):
    """A tracer that evaluates each operation as soon as it is built.

    Args:
        name: the kernel's name.
        code: the code object of the author's function.
        subgroups: subgroups of a work-group.
        machine: the interpreter of the instance.
        group: its work-group.
        member: its subgroup.

    Attributes:
        arrays: positions of the arguments, by their values.
        aliasing: which of them the launch has used and written; None where they may be aliased.
    """

    runs = True

    def __init__(self, name: str, code: CodeType, subgroups: tuple[int, int], machine: InstanceInterpreter,
                 group: WorkGroup, member: Subgroup) -> None:
        super().__init__(name, code, subgroups)
        self.machine, self._group, self._member, self._allocated = machine, group, member, 0
        self.arrays: dict[SSAValue, int] = {}
        self.aliasing: Aliasing | None = None
        self._arrivals: dict[int, NbarrierOp] = {}  # at barriers without producers, not yet followed by a wait

    def check_visible(self, value: SSAValue, location: Location) -> None:
        """Skip the check: values of branches that did not run have no name."""

    def emit(self, operation: Operation) -> Any:
        """Verify an operation, and evaluate it."""
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
            if barrier in self._arrivals and not _may_have_implicit_roles(operation):
                raise second_arrival(operation, self._arrivals[barrier])
            self._arrivals[barrier] = operation
        self._count(operation, barrier)

    def _wait(self, operation: NbarrierWaitOp, barrier: int) -> None:
        """A wait; a consumer, which does not arrive, is counted here."""
        if self._arrivals.pop(barrier, None) is None:
            if init_of(operation).declared_producers is None and not _may_have_implicit_roles(operation):
                raise no_arrival(operation)
            self._count(operation, barrier)
        self._group.scheduler.wait(self._member, operation, barrier)

    def _count(self, operation: NbarrierOp, barrier: int) -> None:
        """Count an arrival: separately for producers and consumers if the barrier declares producers."""
        init = init_of(operation)
        kind, awaited = NbarrierOp, Counter[type[Operation]]({NbarrierOp: init.participants})
        if (producers := init.declared_producers) is not None:
            kind, awaited = type(operation), Counter({NbarrierArriveOp: producers,
                                                      NbarrierWaitOp: init.participants - producers})
        self._group.scheduler.arrive(self._member, operation, barrier, kind, awaited)

    def check_end(self) -> None:
        """Raise if the function ends in a state that the tracer would refuse.

        Raises:
            XeError: the error of an earlier call, or an arrival at a named barrier that no wait follows.
        """
        if self.broken is not None:
            raise self.broken
        for arrival in self._arrivals.values():
            if not _may_have_implicit_roles(arrival):
                raise no_wait(arrival)

    def _at_entry(self, operation: Operation) -> None:
        self._run(operation, self.location())

    def _run(self, operation: Operation, location: Location) -> None:
        values = self.machine.values
        if isinstance(operation, AllocOp):
            values[operation.results[0]] = self._allocate(operation)
            return
        try:
            self._check_aliasing(operation)
            result = force(self.machine.evaluate(operation, [values[operand] for operand in operation.operands]))
        except XeError as error:
            raise error.at(location) from None
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise ElementTypeError("XT1045",
                                   "this writes an array that is read-only", "pass an array that can be written, such "
                                   "as its .copy()", location) from None
        results = [result] if len(operation.results) == 1 else result or []
        values.update(zip(operation.results, results, strict=False))
        _release_operands(operation)

    def _check_aliasing(self, operation: Operation) -> None:
        if self.aliasing is None or isinstance(operation, ExtractStridedMetaDataOp):
            return
        for operand in operation.operands:
            if operand in self.arrays:
                self.aliasing.use(self.arrays[operand])
        written = written_operand(type(operation))
        if written is not None and (array := array_of(operation.operands[written])) in self.arrays:
            self.aliasing.write(self.arrays[array])

    def _allocate(self, operation: AllocOp) -> Any:
        """The work-group's next array in shared local memory: all its subgroups allocate in the same order."""
        shared = self._group.shared
        if self._allocated == len(shared):
            shared.append(self.machine.evaluate(operation, []))
        self._allocated += 1
        return shared[self._allocated - 1]

    def evaluate(self, value: SSAValue) -> Any:
        """A value as a Python number, or as a NumPy array of a vector's shape."""
        array = force(self.machine.values[value])
        if not isinstance(array, np.ndarray):
            return array
        shape = array.shape[self.machine.batch:] if array.ndim > BATCH else ()
        return array.reshape(shape) if shape else array.reshape(-1)[0].item()


def _may_have_implicit_roles(operation: NbarrierOp) -> bool:
    """Whether one subgroup may only arrive and the other only wait, although the barrier declares no producers."""
    return init_of(operation).participants == 2


def _release_operands(operation: Operation) -> None:
    """Drop references to operands, which would live as long as the result; a moved tile keeps its chain's first."""
    if all(isinstance(result.type, VectorType) for result in operation.results):
        operation.operands = ()
    elif operation.operands and isinstance(before := operation.operands[0].owner, type(operation)):
        operation.operands[0] = before.operands[0]


@dataclass(frozen=True)
class EagerKernel:
    """A kernel bound to eager mode: the result of ``kernel.on("numpy:program")``.

    Attributes:
        name: the kernel's name.
        function: the author's function.
        by_position: the run-time arguments of a call in their order, and the constants.
        bind_arguments: checks the arguments of a call.
        evaluate_grid: checks the grid of a launch.
        symbol_builders: functions that build the traced value of each argument.
        assemble: makes the function's arguments of these values.
        flattened: the kernel for the leaves of structured arguments, and these; None where none is structured.
        subgroups: subgroups of a work-group.
        only: the indices of the groups that run, None for all.
        may_alias: whether arrays may share elements with one that the kernel writes.
    """

    name: str
    function: Callable[..., None]
    by_position: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]
    bind_arguments: Callable[..., tuple[Argument, ...]]
    evaluate_grid: Callable[..., Grid]
    symbol_builders: Callable[[Sequence[Argument]], list[Callable[[Tracer], Any]]]
    assemble: Callable[[Sequence[Any]], Sequence[Any]]
    flattened: Callable[[Sequence[Any]], tuple[Any, tuple[Any, ...]] | None]
    subgroups: tuple[int, int]
    only: tuple[int, ...] | None = None
    may_alias: bool = False
    target = None
    device = "NumPy"

    def __getitem__(self, grid: Any) -> Callable[..., LaunchEvent]:
        return partial(self._launch, grid)

    def __call__(self, *args: Any, **constants: Any) -> LaunchEvent:
        """Launch with the grid of the decorator's function."""
        return self._launch(None, *args, **constants)

    def _launch(self, grid: Any, /, *args: Any, **constants: Any) -> LaunchEvent:
        with AtTheCall():
            args, constants = self.by_position(args, constants)
            if (flat := self.flattened(args)) is not None:
                eager: EagerKernel = flat[0].eager(self.only, self.subgroups)
                return eager._launch(grid, *flat[1], **constants)
            arguments = self.bind_arguments(args, constants)
            counts = self.evaluate_grid(grid, args, constants)
            for argument in arguments:
                argument.check_exists()
            values = [argument.numpy() for argument in arguments]
            aliasing = None if self.may_alias else Aliasing(arguments, self.name)
            with np.errstate(all="ignore"):
                for group in self._groups(counts):
                    self._group(group, counts, arguments, values, constants, aliasing)
            return ENDED

    def _groups(self, counts: Grid) -> Iterator[tuple[int, int, int]]:
        only = self.only or ()
        if any(not 0 <= index < count for index, count in zip(only, counts, strict=False)):
            first, last = (0,) * len(only), tuple(count - 1 for count in counts[:len(only)])
            raise ShapeError("XT1603", f"only={only} names no group of a grid of {counts}",
                             f"give the indices of a group, from {_only(first)} to {_only(last)}"
                             if all(counts) else "this grid has no groups: launch one that has")
        for z, y, x in product(*(range(count) for count in reversed(counts))):
            if (x, y, z)[:len(only)] == only:
                yield x, y, z

    def _group(self, group: tuple[int, int, int], counts: Grid, arguments: Sequence[Argument], values: list[Any],
               constants: dict[str, Any], aliasing: Aliasing | None) -> None:
        shared = WorkGroup(SubgroupScheduler(self.subgroups))

        def instance(member: Subgroup) -> None:
            groups = tuple((index, 1) for index in group)
            machine = InstanceInterpreter(SEMANTICS, groups, counts, self.subgroups,
                                          instance=(*group, *member.position))
            tracer = EagerTracer(self.name, self.function.__code__, self.subgroups, machine, shared, member)
            with recording(tracer):
                symbols = [build(tracer) for build in self.symbol_builders(arguments)]
                for symbol, value in zip(symbols, values, strict=True):
                    machine.values[symbol.ssa] = value
                tracer.arrays = {symbol.ssa: position for position, symbol in enumerate(symbols)}
                tracer.aliasing = aliasing
                with suppress(KernelExit):
                    self.function(*self.assemble(symbols), **constants)
                tracer.check_end()

        shared.scheduler.run(instance)


def _only(indices: tuple[int, ...]) -> str:
    return str(indices[0] if len(indices) == 1 else indices)


def check_only(only: Any) -> tuple[int, ...] | None:
    """The argument ``only`` as a tuple of indices.

    Raises:
        ArgumentError: it is neither an integer nor a tuple of up to three.
    """
    indices = tuple(python_number(index) for index in (only if isinstance(only, tuple) else (only,)))
    if only is not None and not (1 <= len(indices) <= 3 and all(type(index) is int for index in indices)):
        raise ArgumentError("XT1602", f"only={only!r} names no group", "give one to three integers, as in only=(3, 0)")
    return None if only is None else indices
