"""Bound kernels: a kernel with its executor, whose calls are launches on a device or in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self

from xegpu.ir.use_def import written_at
from xegpu.support.errors import DeviceError, ElementTypeError, Note, XeError
from xegpu.target.targets import Target
from xetile.compiler.arguments import Argument, AtTheCall, at_the_call
from xetile.frontend.tracer import is_recording
from xetile.runtime.aliasing import check_aliasing
from xetile.runtime.executors import Executor, executor_of_arrays
from xetile.runtime.grid import Grid
from xetile.runtime.launch_cache import INTEGERS, LaunchCache, LaunchTable, constants_key, signature_of
from xetile.runtime.launch_plan import ENDED, RECORD, LaunchEvent, LaunchPlan, PreparedLaunch

if TYPE_CHECKING:
    from xetile.compiler.compiled import CompiledKernel
    from xetile.compiler.report import Report


class Launchable(Protocol):
    """The interface of a kernel that launches use; :class:`xetile.jit.base.BaseKernel` documents each member."""

    name: str
    parameters: tuple[str, ...]
    grid_function: Callable[..., Any] | None
    may_alias: bool
    cache: LaunchCache

    def refresh(self) -> None:
        """Clear the launch cache if a Python value that the recording depends on is another one now."""

    def by_position(self, args: tuple[Any, ...],
                    constants: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The run-time arguments of a call in their order, and the constants."""

    def flattened(self, args: Sequence[Any]) -> tuple[Any, tuple[Any, ...]] | None:
        """The kernel for the leaves of structured arguments, and these; None where no argument is structured."""

    def bind_arguments(self, args: Sequence[Any], constants: Mapping[str, Any] | None = None) -> tuple[Argument, ...]:
        """The arguments of a call, checked against the parameters."""

    def evaluate_grid(self, grid: Any, args: Sequence[Any], constants: dict[str, Any]) -> Grid:
        """The grid as three counts, from the kernel's grid function if it is None."""

    def compile(self, arguments: Sequence[Argument], target: Target, constants: dict[str, Any],
                subgroups: tuple[int, int] | None) -> CompiledKernel:
        """The compiled kernel for these arguments."""


class BoundKernel:
    """A kernel bound to an executor: ``kernel.on("opencl:cpu", target="pvc")``.

    Args:
        kernel: the kernel.
        executor: where it runs; None lets the arrays of each call decide.
        target: the device that code is generated for where the arrays decide.
        subgroups: subgroups of a work-group, for a kernel without ``wg_map``.

    Attributes:
        launches: its launch table.
    """

    def __init__(self, kernel: Launchable, executor: Executor | None, target: Target | None,
                 subgroups: tuple[int, int] | None) -> None:
        self._kernel, self._executor, self._target, self._subgroups = kernel, executor, target, subgroups
        self.launches = LaunchTable()
        self._last: CompiledKernel | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The bound kernel itself: a queue has no copy."""
        return self

    def forget(self) -> None:
        """Empty the launch table, and drop the compiled kernel of the last launch."""
        self.launches.clear()
        self._last = None

    @property
    def target(self) -> Target | None:
        """The device that code is generated for; None if it depends on the arrays of a call."""
        return self._target if self._executor is None else self._executor.target

    @property
    def device(self) -> str:
        """The name of the device that the kernel runs on, empty if it depends on the arrays of a call."""
        return "" if self._executor is None else self._executor.device

    def report(self) -> Report:
        """The report of what the last launch on a simulated GPU ran, with instructions executed and bytes moved.

        Raises:
            DeviceError: there was no launch, or not on ``"machine:pvc"`` and the like.
        """
        if self._last is None or self._last.execution is None:
            raise DeviceError("XT1057", f"no launch of {self._kernel.name} on a simulated GPU is there to report",
                              f'launch it there first: run = {self._kernel.name}.on("machine:pvc"); run[grid](...)')
        return self._last.report()

    def __getitem__(self, grid: Any) -> GridLauncher:
        return GridLauncher(self._launch, (grid,) if type(grid) is int and grid > 0 else grid)

    def __call__(self, *args: Any, **constants: Any) -> LaunchEvent:
        """Launch with the grid of the decorator's function."""
        return self._launch(None, *args, **constants)

    def _launch(self, grid: Any, /, *args: Any, **constants: Any) -> LaunchEvent:
        kernel = self._kernel
        kernel.refresh()
        if len(args) != len(kernel.parameters):
            args, constants = kernel.by_position(args, constants)
        try:
            if grid is None and kernel.grid_function is not None and len(args) == len(kernel.parameters) and \
                    self.launches.may_relaunch(args):
                grid = kernel.evaluate_grid(None, args, constants)
            event = None if is_recording() or RECORD.events is not None else \
                self.launches.relaunch(grid, args, constants)
            return self._launch_by_signature(grid, args, constants) if event is None else event
        except XeError as error:
            at_the_call(error)
            raise

    def _launch_by_signature(self, grid: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> LaunchEvent:
        """Launch the plan for arguments of this signature; where there is none, check and compile."""
        grid_of_call = grid
        grid, key = self._signature(grid, args, constants)
        plan = self.launches.find(key)
        if key is None and (flat := self._flat(args)) is not None:
            event = flat[0]._launch(grid_of_call, *flat[1], **constants)
            self._last = flat[0]._last
            return event
        if plan is None:
            call = self._compile(grid, args, constants)
            plan = None if key is None else call.plan()
            if plan is None:
                _record(self._kernel, None, args)
                return call.run()
            self.launches.add(key, plan)
        elif not self._kernel.may_alias and plan.may_alias(args):
            self._compile(grid, args, constants)  # looks at the single elements
        event = plan.launch(args)
        _record(self._kernel, plan, args)
        self.launches.add_arrays(grid, args, constants, plan)
        return event

    def _flat(self, args: tuple[Any, ...]) -> tuple[BoundKernel, tuple[Any, ...]] | None:
        """The bound kernel for the leaves of structured arguments, and these; None where no argument is structured."""
        flat = self._kernel.flattened(args)
        if flat is None:
            return None
        kernel, leaves = flat
        bound = kernel.cache.bindings.get(self)
        if bound is None:
            bound = kernel.cache.bindings[self] = BoundKernel(kernel, self._executor, self._target, self._subgroups)
        return bound, leaves

    def _signature(self, grid: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> tuple[Any, Any]:
        """The grid, evaluated if it is None, and the key of the launch; None for one that must be checked each time."""
        if is_recording() or len(args) != len(self._kernel.parameters) or (seen := signature_of(args)) is None:
            return grid, None
        if grid is None and self._kernel.grid_function is not None:
            grid = self._kernel.evaluate_grid(None, args, constants)
        if type(grid) is not tuple or {*map(type, grid)} != INTEGERS:
            return grid, None
        return grid, (grid, seen, *constants_key(constants))

    def _compile(self, grid: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> _CheckedCall:
        """The checked call: its arguments in the executor's memory, and its compiled kernel."""
        kernel = self._kernel
        arguments = kernel.bind_arguments(args, constants)
        for argument in arguments:
            argument.check_exists()
        counts = kernel.evaluate_grid(grid, args, constants)
        executor = self._executor or executor_of_arrays(arguments, self._target)
        copied_in = executor.copy_in(arguments)
        compiled = kernel.compile(copied_in, executor.target, constants, self._subgroups)
        self._last = compiled
        _check_outputs(compiled, arguments, kernel.name)
        if not kernel.may_alias:
            check_aliasing(compiled, arguments, kernel.name)
        return _CheckedCall(executor, compiled, counts, arguments, copied_in)

    def prepare(self, grid: Any, /, *args: Any, **constants: Any) -> PreparedLaunch:
        """The checked and compiled launch; see :meth:`xetile.jit.base.BaseKernel.prepare`."""
        with AtTheCall():
            args, constants = self._kernel.by_position(args, constants)
            if (flat := self._flat(args)) is not None:
                return flat[0].prepare(grid, *flat[1], **constants)
            call = self._compile(grid, args, constants)
            plan = call.plan()
            bound = call.run_again if plan is None or signature_of(args) is None else plan.bind(args)
            return PreparedLaunch(call.compiled.name, call.grid, bound)


class GridLauncher(partial[LaunchEvent]):
    """A bound kernel with its grid: calling it launches, ``prepare`` binds the arguments too."""

    def prepare(self, *args: Any, **constants: Any) -> PreparedLaunch:
        """The checked and compiled launch; see :meth:`xetile.jit.base.BaseKernel.prepare`."""
        bound: BoundKernel = self.func.__self__  # type: ignore[attr-defined]
        return bound.prepare(*self.args, *args, **constants)


@dataclass(frozen=True)
class _CheckedCall:
    """A checked and compiled call.

    Attributes:
        executor: where it runs.
        compiled: the code.
        grid: work-groups.
        arguments: of the author's call.
        copied_in: the same in the executor's memory: host arrays are copied to a device.
    """

    executor: Executor
    compiled: CompiledKernel
    grid: Grid
    arguments: Sequence[Argument]
    copied_in: Sequence[Argument]

    def plan(self) -> LaunchPlan | None:
        """The launch plan for later launches; None where each launch needs all of :meth:`run`."""
        return self.executor.plan(self.compiled, self.copied_in, self.grid)

    def run(self) -> LaunchEvent:
        """Run the kernel; its outputs are in the author's arrays, on a device asynchronously in the queue's order."""
        event = self.executor.run(self.compiled, self.copied_in, self.grid)
        self.executor.copy_out(self.compiled.written, self.copied_in, self.arguments)
        return event or ENDED

    def run_again(self) -> LaunchEvent:
        """Run the kernel on the current contents of host arrays."""
        with AtTheCall():
            return replace(self, copied_in=self.executor.copy_in(self.arguments)).run()


def _record(kernel: Launchable, plan: LaunchPlan | None, args: tuple[Any, ...]) -> None:
    """Add a launch to what this thread records."""
    if RECORD.events is not None:
        RECORD.events.append((kernel, plan, args))


def _check_outputs(compiled: CompiledKernel, arguments: Sequence[Argument], name: str) -> None:
    """Raise if the kernel writes an array that is read-only."""
    for position in compiled.written:
        if arguments[position].read_only:
            output = arguments[position].name
            store = written_at(compiled.function, position)
            raise ElementTypeError("XT1045", f"{name} writes {output}, and {output} is read-only",
                                   f"pass an array that can be written, such as {output}.copy()",
                                   notes=[Note(f"{output} is written here", store)] if store else [])
