"""Base class of traced and parsed kernels: binding of arguments and grid, compilation, ``kernel.on(...)``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from xdsl.dialects.builtin import ModuleOp

from xegpu.ir.kernel_attributes import with_matrix_sizes
from xegpu.support.errors import ArgumentError, DeviceError, Note, ShapeError, TraceError, XeError
from xegpu.support.location import Location
from xegpu.target import block2d
from xegpu.target.surface_state import is_beyond_surface
from xegpu.target.targets import TARGETS, Target, find_target
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.frontend.constants import hashable, python_number
from xetile.frontend.tracer import is_recording
from xetile.runtime.executors import executor_at, is_machine, machine_executor
from xetile.runtime.grid import Grid, normalize_grid
from xetile.runtime.launch import BoundKernel, GridLauncher
from xetile.runtime.launch_cache import LaunchCache
from xetile.runtime.launch_plan import LaunchEvent, PreparedLaunch

if TYPE_CHECKING:
    from xetile.compiler.compiled import CompiledKernel
    from xetile.runtime.eager import EagerKernel


def _target_key(target: Target) -> str | Target:
    """A target as a key: the name of one of the table, whose hash takes less time than that of its block shapes."""
    return target.name if TARGETS.get(target.name) is target else target


class BaseKernel:
    """Base class of traced and parsed kernels.

    Attributes:
        name: the kernel's name.
        parameters: names of its run-time arguments.
        defaults: default values of the last of them.
        grid_function: computes the grid of a launch without one; None if there is none.
        fixed_target: the device that the kernel is written for, None for any.
        cache: the in-memory state that launches reuse.
    """

    name: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, Any] = {}
    grid_function: Callable[..., Any] | None = None
    fixed_target: Target | None = None

    def __init__(self) -> None:
        self.cache = LaunchCache()
        self._may_alias = False
        self._override: BaseKernel | None = None
        self._override_opencl: str | None = None

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """The kernel itself, as a copy of a function is the function: a model that has kernels can be copied."""
        return self

    @property
    def may_alias(self) -> bool:
        """Whether a launch may pass arrays that share elements with one that the kernel writes."""
        return self._may_alias

    @may_alias.setter
    def may_alias(self, allowed: bool) -> None:
        if allowed != self._may_alias:
            self._may_alias = allowed
            self.forget()  # what was compiled may have relied on it

    def forget(self) -> None:
        """Clear the launch cache, with all compiled code and stages; a launch compiles again."""
        self.cache.forget()
        if self._override is not None:
            self._override.forget()

    def refresh(self) -> None:
        """Clear the launch cache if a Python value that the recording depends on is another one now."""

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        """The XeTile module for arguments of these types and for these constants."""
        raise NotImplementedError

    def check_target(self, target: Target, arguments: Sequence[Argument], access: Sequence[str]) -> None:
        """Raise if the kernel is lowered for another device, or for arrays of another access kind."""

    def location(self) -> Location:
        """Location of the kernel's definition."""
        raise NotImplementedError

    def __getitem__(self, grid: Any) -> GridLauncher:
        return self._bound(None, None, None)[grid]

    def prepare(self, grid: Any, /, *args: Any, **constants: Any) -> PreparedLaunch:
        """The kernel with its grid and arguments, checked and compiled: ``ready = k.prepare(grid, A, B)``, ``ready()``.

        Args:
            grid: as in ``kernel[grid]``; None for the decorator's.
            args: the arguments of every launch.
            constants: the compile-time constants.

        Raises:
            XeError: what a launch would raise.
        """
        return self._bound(None, None, None).prepare(grid, *args, **constants)

    def __call__(self, *args: Any, **constants: Any) -> LaunchEvent:
        """Launch with the grid of the decorator's function."""
        return self._bound(None, None, None)(*args, **constants)

    def on(self, where: Any, *, target: str | Target | None = None, subgroups: tuple[int, int] | None = None,
           only: tuple[int, ...] | int | None = None, check: Any = False) -> BoundKernel | EagerKernel:
        """The kernel, to be launched at ``where``.

        Args:
            where: ``"numpy"``, ``"numpy:xegpu"``, ``"numpy:program"`` (the function itself, one instance at a time),
                ``"machine:pvc"`` and the like (the GPU's machine code in a simulator), a dpctl filter string, or a
                ``dpctl.SyclQueue``; None lets the arrays decide.
            target: the device that code is generated for, by default the one it runs on.
            subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
            only: with ``"numpy:program"``, the work-groups that run: the first one, two or three of their indices.
            check: with ``"numpy"``, True or the names of the checks that watch the launch: ``"bounds"``, ``"races"``,
                ``"shared"``, ``"numbers"``, ``"integers"``; a finding is a :class:`CheckError`. With
                machine code, True looks for races in shared local memory and reads of what nothing wrote as well.

        Raises:
            TargetError: there is no such target.
            ArgumentError: ``only`` without ``"numpy:program"``, ``check`` elsewhere, or no such check.
            DeviceError: there is no such device, or ``"numpy:program"`` of a kernel that was parsed from text.
        """
        with AtTheCall():
            if check and is_machine(where):
                return BoundKernel(self, machine_executor(where, self._target(target), check), None, subgroups)
            if check and where != "numpy":
                raise ArgumentError("XT1050", f"check={check!r} goes with \"numpy\" and machine code alone, and this "
                                    f"runs on {where!r}", 'write .on("numpy", check=True), or drop it')
            if check:
                from xetile.runtime.sanitizer import CheckedExecutor
                from xetile.runtime.sanitizer.findings import chosen

                checked = CheckedExecutor(self._target(target) or find_target(), chosen(check))
                return BoundKernel(self, checked, None, subgroups)
            if where == "numpy:program":
                return self.eager(only, subgroups)
            if only is not None:
                raise ArgumentError("XT1051",
                                    f"only={only!r} goes with \"numpy:program\" alone, and this runs on {where!r}",
                                    'write .on("numpy:program", only=...), or drop it')
            return self._bound(where, target, subgroups)

    def _bound(self, where: Any, target: str | Target | None, subgroups: tuple[int, int] | None) -> BoundKernel:
        """The kernel bound to an executor, cached."""
        if isinstance(target, Target):
            target = _target_key(target)
        shape = None if subgroups is None else check_subgroups(subgroups)
        key = where, target, shape
        try:
            bound = self.cache.bindings.get(key)
        except TypeError:  # unhashable: neither a string nor a queue, which executor_at refuses
            bound = None
        if bound is None:
            device = self._target(target)
            executor = None if where is None else executor_at(where, device)
            bound = self.cache.bindings.setdefault(key, BoundKernel(self, executor, device, shape))
        return bound  # type: ignore[no-any-return]

    def eager(self, only: tuple[int, ...] | int | None, subgroups: tuple[int, int] | None) -> EagerKernel:
        """The kernel bound to eager mode.

        Raises:
            DeviceError: it has no Python function.
        """
        raise DeviceError("XT1601", f"{self.name} was parsed from text, so there is no Python function to run",
                          'use .on("numpy"), which runs its operations')

    def override(self, stage: str | None, path: str | Path | None = None) -> None:
        """Compile from an edited stage, or emit edited OpenCL C, for every launch until ``override(None)``.

        The file is read now. An MLIR stage is parsed and verified, and the later passes run on it; constants and access
        kinds of arrays are those that the text was lowered for, and a launch for which they are wrong is an error.
        ``"opencl"`` replaces the emitted text; it must keep the kernel's name and arguments. NumPy still runs the
        traced kernel then.

        Args:
            stage: a name of ``lower(...).stages``, or ``"opencl"``; None ends the override.
            path: the file; XETILE_DEBUG=dump writes such files.

        Raises:
            ArgumentError: there is no such stage, or the file cannot be read.
            TextError: the text does not parse, is another stage, or contains another kernel.
        """
        raise NotImplementedError

    def compile_from(self, stage: BaseKernel | None, opencl: str | None) -> None:
        """Compile from the kernel of a stage, or emit this OpenCL C, from now on; None for neither.

        The launch cache is cleared.
        """
        self.forget()
        self._override, self._override_opencl = stage, opencl

    def _target(self, target: str | Target | None) -> Target | None:
        return self.fixed_target if target is None else find_target(target)

    def lower(self, *args: Any, target: str | Target | None = None, subgroups: tuple[int, int] | None = None,
              **constants: Any) -> CompiledKernel:
        """Compile only, for arrays or :class:`Spec` descriptions of them.

        Args:
            args: the arguments.
            target: the device that code is generated for, by default :data:`xegpu.target.targets.DEFAULT_TARGET`.
            subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
            constants: the compile-time constants.

        Raises:
            XeError: the kernel cannot be compiled for these types, constants and target.
        """
        with AtTheCall():
            args, constants = self.by_position(args, constants)
            if (flat := self.flattened(args)) is not None:
                return flat[0].lower(*flat[1], target=target, subgroups=subgroups, **constants)
            arguments = self.bind_arguments(args, constants)
            shape = None if subgroups is None else check_subgroups(subgroups)
            return self.compile(arguments, self._target(target) or find_target(), constants, shape)

    def by_position(self, args: tuple[Any, ...],
                    constants: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The run-time arguments of a call in order, with those passed by keyword and defaults; and the constants.

        What a call lacks is left out; :meth:`bind_arguments` raises for it.
        """
        missing = self.parameters[len(args):]
        known = {**self.defaults, **constants}
        if not missing or not all(name in known for name in missing):
            return args, constants
        rest = {name: value for name, value in constants.items() if name not in missing}
        return (*args, *(known[name] for name in missing)), rest

    def flattened(self, args: Sequence[Any]) -> tuple[BaseKernel, tuple[Any, ...]] | None:
        """The kernel for the leaves of structured arguments, and these; None where no argument is structured."""
        return None

    def bind_arguments(self, args: Sequence[Any], constants: Mapping[str, Any] | None = None) -> tuple[Argument, ...]:
        """The arguments of a call, checked against the parameters.

        Raises:
            ArgumentError: there are too few or too many, or one is passed twice.
            ElementTypeError: one is neither an array nor a number, or of a type that is no element type.
            TraceError: the call stands in another kernel.
        """
        if is_recording():
            raise TraceError("XT1023", f"{self.name} is a kernel, and is launched inside another one",
                             f"call it without a grid, {self.name}({', '.join(self.parameters)}), to have "
                             "its operations in this kernel; or launch one kernel after the other from outside",
                             notes=self.defined())
        by_name = [name for name in self.parameters if name in (constants or ())]
        if twice := [name for name in by_name if name in self.parameters[:len(args)]]:
            raise ArgumentError("XT1010", f"{twice[0]}, a run-time argument of {self.name}, is passed by position and "
                                "by keyword", self._usage(), notes=self.defined())
        if len(args) != (count := len(self.parameters)):
            raise ArgumentError("XT1011", f"{self.name} takes {count} argument{'' if count == 1 else 's'} "
                                f"({', '.join(self.parameters)}), and is called with {len(args) + len(by_name)}",
                                self._usage(), notes=self.defined())
        try:
            return tuple(Argument.of(name, value) for name, value in zip(self.parameters, args, strict=True))
        except XeError as error:
            error.notes += self.defined()
            raise

    def defined(self) -> list[Note]:
        """A note of where the kernel is defined, for errors of calls that do not fit it."""
        return [Note(f"{self.name} is defined here", self.location())]

    def _usage(self) -> str:
        """Call of the kernel as its author writes it, for messages."""
        return f"call it as {self.name}[grid]({', '.join(self.parameters)})"

    def evaluate_grid(self, grid: Any, args: Sequence[Any], constants: dict[str, Any]) -> Grid:
        """The grid of a launch as three counts, from the decorator's function if ``grid`` is None.

        Raises:
            ShapeError: there is none, or it is not one to three non-negative integers.
        """
        grid_notes: list[Note] = []
        if grid is None:
            if self.grid_function is None:
                raise ShapeError("XT1020", f"{self.name} is launched without a grid",
                                 f"write {self.name}[M // BM, N // BN]({', '.join(self.parameters)}), or declare "
                                 "the kernel's grid: @xt.kernel(grid=lambda ...)", notes=self.defined())
            grid = self._call_grid_function(self.grid_function, args, self.all_constants(constants))
            grid_notes = [Note("this function computed it", Location.of_definition(self.grid_function.__code__))] \
                if inspect.isfunction(self.grid_function) else []
        return normalize_grid(grid, self.name, grid_notes)

    def _call_grid_function(self, function: Callable[..., Any], args: Sequence[Any], constants: dict[str, Any]) -> Any:
        """The result of the decorator's grid function.

        Raises:
            ArgumentError: it does not take the kernel's arguments and constants.
        """
        try:
            return function(*args, **constants)
        except TypeError:
            try:
                inspect.signature(function).bind(*args, **constants)
            except TypeError as error:
                signature = ", ".join((*self.parameters, *(["*"] if constants else []), *constants))
                raise ArgumentError("XT1022",
                                    f"the grid function of {self.name} does not take the arguments of {self.name}: "
                                    f"{error}", "give it the kernel's parameters and constants, as in "
                                    f"lambda {signature}: ...", notes=self.defined()) from None
            raise

    def compile(self, arguments: Sequence[Argument], target: Target, constants: dict[str, Any],
                subgroups: tuple[int, int] | None) -> CompiledKernel:
        """The compiled kernel for these types, constants and access kinds, cached."""
        self.refresh()
        if self._override is not None:
            return self._override.compile(arguments, target, {}, None)
        access = tuple(block2d.access(target, a.pointer, a.shape, a.strides, a.dtype.bytes)
                       if a.rank is not None else "" for a in arguments)
        large_buffers = target.surface_states and any(
            is_beyond_surface(a.shape, a.strides, a.dtype.bytes) for a in arguments if a.rank is not None)
        sizes = block2d.matrix_sizes(target, [a.shape for a in arguments], [a.strides for a in arguments], access,
                                     [a.dtype.bytes for a in arguments]) if _has_batches(arguments) else ()
        key = (*(a.key for a in arguments), self.constants_key(constants), subgroups, _target_key(target), access,
               large_buffers, sizes)
        if key not in self.cache.compiled:
            self.check_target(target, arguments, access)
            types = [replace(argument, source=None) for argument in arguments]  # the cache keeps no array alive
            self.cache.compiled[key] = self._compile(types, target, access, constants, subgroups, large_buffers,
                                                           sizes)
        return self.cache.compiled[key]

    def _compile(self, arguments: Sequence[Argument], target: Target, access: tuple[str, ...],
                 constants: dict[str, Any], subgroups: tuple[int, int] | None, large_buffers: bool,
                 sizes: tuple[tuple[int, ...], ...]) -> CompiledKernel:
        from xetile.compiler.compiled import CompiledKernel
        from xetile.compiler.origin import Origin

        module = with_matrix_sizes(self.module_for(arguments, constants, subgroups), sizes)
        all_constants = self.all_constants(constants)
        origin = Origin(all_constants,
                        lambda changes: self._compile(arguments, target, access, {**all_constants, **changes},
                                                       subgroups, large_buffers, sizes))
        return CompiledKernel(module, target, access, self.location(), origin, self._override_opencl,
                              large_buffers)

    def constants_key(self, constants: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        """The constants as a key."""
        return tuple(sorted((name, hashable(value, name)) for name, value in constants.items()))

    def all_constants(self, constants: dict[str, Any]) -> dict[str, Any]:
        """The constants of a call, with the defaults of those that it does not give."""
        return constants


def _has_batches(arguments: Sequence[Argument]) -> bool:
    return any(argument.rank is not None and argument.rank > 2 for argument in arguments)


def check_subgroups(subgroups: Any) -> tuple[int, int]:
    """The rows and columns of subgroups in a work-group.

    Raises:
        ShapeError: they are not two positive integers.
    """
    if not isinstance(subgroups, (tuple, list)) or len(subgroups) != 2 or \
            not all(type(python_number(count)) is int and count > 0 for count in subgroups):
        raise ShapeError("XT1004", f"subgroups are two positive integers, not {subgroups!r}",
                         "give rows and columns of subgroups, for example subgroups="
                         + (f"(1, {subgroups})" if type(subgroups) is int and subgroups > 0 else "(8, 4)"))
    return int(subgroups[0]), int(subgroups[1])
