"""A kernel with its place: what a launch checks, where it goes, and what of it is kept for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xegpu.ir.use_def import written_at
from xegpu.support.errors import ElementTypeError, Note, XeError
from xegpu.target.targets import Target
from xetile.compiler.arguments import Argument, AtTheCall, at_the_call
from xetile.frontend.tracer import is_recording
from xetile.runtime.executors import Executor, executor_for, executor_of_arrays
from xetile.runtime.grid import Grid
from xetile.runtime.launch_cache import INTEGERS, Launches, Prepared, Repeats, constants_key, key_of

if TYPE_CHECKING:
    from xetile.compiler.compiled import Lowered
    from xetile.jit.kernel import BaseKernel


class Placed:
    """A kernel with the place where it shall run: ``kernel.on("opencl:cpu", target="pvc")``."""

    def __init__(self, kernel: BaseKernel, where: Any, target: Target | None,
                 subgroups: tuple[int, int] | None, executor: Executor | None = None) -> None:
        self._kernel, self._target, self._subgroups = kernel, target, subgroups
        self._executor = executor if where is None else executor_for(where, target)
        self._launches, self._repeats = Launches(), Repeats()

    @property
    def target(self) -> Target | None:
        """The device that code is made for; None while only the arrays will tell."""
        return self._target if self._executor is None else self._executor.target

    @property
    def device(self) -> str:
        """The name of what the kernel runs on, empty while only the arrays will tell."""
        return "" if self._executor is None else self._executor.device

    def __getitem__(self, grid: Any) -> OnGrid:
        return OnGrid(self._launch, grid)

    def __call__(self, *args: Any, **constants: Any) -> None:
        """Launch with the grid that the decorator's function gives."""
        self._launch(None, *args, **constants)

    def _launch(self, grid: Any, /, *args: Any, **constants: Any) -> None:
        kernel = self._kernel
        try:
            if grid is None and kernel.grid_function is not None and len(args) == len(kernel.parameters) and \
                    self._repeats.fit(args):
                grid = kernel.grid(None, args, constants)
            if is_recording() or not self._repeats.start(grid, args, constants):
                self._look_up(grid, args, constants)
        except XeError as error:
            at_the_call(error)
            raise

    def _look_up(self, grid: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> None:
        """Launch what was launched on arrays like these before; check and compile it if nothing was."""
        grid, key = self._key(grid, args, constants)
        ready = self._launches.find(key)
        if ready is None:
            arguments, executor, placed, lowered, counts = self._checked(grid, args, constants)
            ready = None if key is None else executor.ready(lowered, placed, counts)
            if ready is None:
                executor.run(lowered, placed, counts)
                executor.collect(lowered.written, placed, arguments)
                return
            self._launches.keep(key, ready)
        ready.start(args)
        self._repeats.keep(grid, args, constants, ready)

    def _key(self, grid: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> tuple[Any, Any]:
        """The grid, from the kernel's own function if it is None, and the launch's key; None if it must be checked."""
        if is_recording() or len(args) != len(self._kernel.parameters) or (seen := key_of(args)) is None:
            return grid, None
        if grid is None and self._kernel.grid_function is not None:
            grid = self._kernel.grid(None, args, constants)
        if type(grid) is not tuple or {*map(type, grid)} != INTEGERS:
            return grid, None
        return grid, (grid, seen, *constants_key(constants))

    def _checked(self, grid: Any, args: tuple[Any, ...], constants: dict[str, Any]) -> tuple[
            Sequence[Argument], Executor, Sequence[Argument], Lowered, Grid]:
        """Arguments, where they run, what they are there, the code for them, and the grid."""
        kernel = self._kernel
        arguments = kernel.bind(args, constants)
        for argument in arguments:
            argument.check_there()
        counts = kernel.grid(grid, args, constants)
        executor = self._executor or executor_of_arrays(arguments, self._target)
        placed = executor.place(arguments)
        lowered = kernel.lowered(placed, executor.target, constants, self._subgroups)
        _check_outputs(lowered, arguments, kernel)
        return arguments, executor, placed, lowered, counts

    def prepare(self, grid: Any, /, *args: Any, **constants: Any) -> Prepared:
        """The kernel with its grid and arguments, checked and compiled; see :meth:`BaseKernel.prepare`."""
        with AtTheCall():
            arguments, executor, placed, lowered, counts = self._checked(grid, args, constants)
            ready = executor.ready(lowered, placed, counts)
            if ready is not None and key_of(args) is not None:
                return Prepared(lowered.name, counts, ready.bound(args))

            def start() -> None:
                with AtTheCall():
                    now = executor.place(arguments)
                    executor.run(lowered, now, counts)
                    executor.collect(lowered.written, now, arguments)

            return Prepared(lowered.name, counts, start)


class OnGrid(partial[None]):
    """A kernel with its place and its grid: calling it launches, ``prepare`` binds the arguments too."""

    def prepare(self, *args: Any, **constants: Any) -> Prepared:
        """The launch, checked and compiled; see :meth:`BaseKernel.prepare`."""
        placed: Placed = self.func.__self__  # type: ignore[attr-defined]
        return placed.prepare(*self.args, *args, **constants)


def _check_outputs(lowered: Lowered, arguments: Sequence[Argument], kernel: BaseKernel) -> None:
    for position in lowered.written:
        if arguments[position].read_only:
            name = arguments[position].name
            stored = written_at(lowered.function, position)
            raise ElementTypeError("XT1045", f"{kernel.name} writes {name}, and {name} is read-only",
                                   f"pass an array that can be written, such as {name}.copy()",
                                   notes=[Note(f"{name} is written here", stored)] if stored else [])
