"""``@xt.kernel``: what a kernel takes, what is kept of it once it is compiled, and ``kernel.on(...)``."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute

from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, DeviceError, Note, ShapeError, TraceError, XeError
from xegpu.support.gc_pause import gc_paused
from xegpu.support.location import Location
from xegpu.target import block2d
from xegpu.target.grf_mode import REGISTERS
from xegpu.target.targets import Target, find_target
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.frontend.constants import hashable
from xetile.frontend.tiles import Array
from xetile.frontend.tracer import Tracer, is_recording, trace
from xetile.frontend.values import Scalar, Value
from xetile.runtime.grid import Grid, three_counts
from xetile.runtime.launch import OnGrid, Placed
from xetile.runtime.launch_cache import Prepared

if TYPE_CHECKING:
    from xetile.compiler.compiled import Lowered
    from xetile.runtime.eager import Program


class BaseKernel:
    """What kernels that were recorded and kernels that were parsed have in common.

    Attributes:
        name: the kernel's name.
        parameters: names of its run-time arguments.
        own_target: the device that the kernel is made for, None if it is made for none in particular.
    """

    name: str
    parameters: tuple[str, ...]
    grid_function: Callable[..., Any] | None = None
    own_target: Target | None = None

    def __init__(self) -> None:
        self._lowered: dict[Any, Lowered] = {}
        self._overriding: BaseKernel | None = None
        self._opencl: str | None = None
        self._places: dict[Any, Placed] = {}

    def forget(self) -> None:
        """Let go of all that was compiled and looked up for this kernel, with every stage; a launch makes it anew."""
        self._lowered.clear()
        self._places.clear()

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        """The XeTile module for arguments of these types and for these constants."""
        raise NotImplementedError

    def admit(self, target: Target, arguments: Sequence[Argument], access: Sequence[str]) -> None:
        """Raise if the kernel is made for another device, or for arrays that are reached in another way."""

    def location(self) -> Location:
        """Where the kernel is defined."""
        raise NotImplementedError

    def __getitem__(self, grid: Any) -> OnGrid:
        return self._place(None, None, None)[grid]

    def prepare(self, grid: Any, /, *args: Any, **constants: Any) -> Prepared:
        """The kernel with its grid and arguments, checked and compiled: ``ready = k.prepare(grid, A, B)``, ``ready()``.

        Args:
            grid: as in ``kernel[grid]``; None for the decorator's.
            args: the arguments of every launch.
            constants: the compile-time constants.

        Raises:
            XeError: what a launch would raise.
        """
        return self._place(None, None, None).prepare(grid, *args, **constants)

    def __call__(self, *args: Any, **constants: Any) -> None:
        """Launch with the grid that the decorator's function gives."""
        self._place(None, None, None)(*args, **constants)

    def on(self, where: Any, *, target: str | Target | None = None, subgroups: tuple[int, int] | None = None,
           only: tuple[int, ...] | int | None = None, check: Any = False) -> Placed | Program:
        """The kernel, to be launched at ``where``.

        Args:
            where: ``"numpy"``, ``"numpy:xegpu"``, ``"numpy:program"`` (the function itself, one instance at a time), a
                dpctl filter string, or a ``dpctl.SyclQueue``; None lets the arrays decide.
            target: the device that code is generated for, by default the one it runs on.
            subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
            only: with ``"numpy:program"``, the work-groups that run: the first one, two or three of their indices.
            check: with ``"numpy"``, True or the names of the checks that watch the launch: ``"bounds"``, ``"races"``,
                ``"shared"``, ``"numbers"``, ``"integers"``, ``"overlap"``; a finding is a :class:`CheckError`.

        Raises:
            TargetError: there is no such target.
            ArgumentError: ``only`` without ``"numpy:program"``, ``check`` without ``"numpy"``, or no such check.
            DeviceError: ``"numpy:program"`` of a kernel that was parsed from text.
        """
        with AtTheCall():
            if check and where != "numpy":
                raise ArgumentError("XT1050", f"check={check!r} goes with \"numpy\" alone, and this runs on {where!r}",
                                    'write .on("numpy", check=True), or drop it')
            if check:
                from xetile.runtime.sanitizer import CheckedExecutor
                from xetile.runtime.sanitizer.findings import chosen

                checked = CheckedExecutor(self._target(target) or find_target("pvc"), chosen(check))
                return Placed(self, None, self._target(target), subgroups, checked)
            if where == "numpy:program":
                return self.program(only, subgroups)
            if only is not None:
                raise ArgumentError("XT1051",
                                    f"only={only!r} goes with \"numpy:program\" alone, and this runs on {where!r}",
                                    'write .on("numpy:program", only=...), or drop it')
            return self._place(where, target, subgroups)

    def _place(self, where: Any, target: str | Target | None, subgroups: tuple[int, int] | None) -> Placed:
        """The place, made once for each that can be told from others."""
        if isinstance(target, Target) or type(subgroups) not in (tuple, type(None)):
            return Placed(self, where, self._target(target), subgroups)
        key = where, target, subgroups
        try:
            return self._places[key]
        except KeyError:
            return self._places.setdefault(key, Placed(self, where, self._target(target), subgroups))
        except TypeError:  # no key, and no place either: the error says so
            return Placed(self, where, self._target(target), subgroups)

    def program(self, only: tuple[int, ...] | int | None, subgroups: tuple[int, int] | None) -> Program:
        """The kernel, to run its own Python function.

        Raises:
            DeviceError: it has none.
        """
        raise DeviceError("XT1601", f"{self.name} was parsed from text, so there is no Python function to run",
                          'use .on("numpy"), which runs its operations')

    def _target(self, given: str | Target | None) -> Target | None:
        return self.own_target if given is None else find_target(given)

    def lower(self, *args: Any, target: str | Target | None = None, subgroups: tuple[int, int] | None = None,
              **constants: Any) -> Lowered:
        """Compile only, for arrays or :class:`Spec` descriptions of them.

        Args:
            args: the arguments.
            target: the device that code is generated for, by default pvc.
            subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
            constants: the compile-time constants.

        Raises:
            XeError: the kernel cannot be compiled for these types, constants and target.
        """
        with AtTheCall():
            arguments = self.bind(args, constants)
            return self.lowered(arguments, self._target(target) or find_target("pvc"), constants, subgroups)

    def bind(self, args: Sequence[Any], constants: Mapping[str, Any] | None = None) -> tuple[Argument, ...]:
        """The arguments of a call, in one form.

        Raises:
            ArgumentError: there are too few or too many, or some are passed by keyword.
            ElementTypeError: one is neither an array nor a number, or of a type that is no element type.
            TraceError: the call stands in another kernel.
        """
        if is_recording():
            raise TraceError("XT1023", f"{self.name} is a kernel, and is called inside another one",
                             f"what two kernels share is a plain function: drop @xt.kernel above {self.name}, and call "
                             "it with vectors or tiles; or launch one kernel after the other from outside",
                             notes=self.defined())
        if named := [name for name in self.parameters if name in (constants or ())]:
            raise ArgumentError("XT1010", f"{named[0]} is a run-time argument of {self.name}, and is passed by keyword",
                                self._calling(), notes=self.defined())
        if len(args) != (count := len(self.parameters)):
            raise ArgumentError("XT1011", f"{self.name} takes {count} argument{'' if count == 1 else 's'} "
                                f"({', '.join(self.parameters)}), and is called with {len(args)}", self._calling(),
                                notes=self.defined())
        try:
            return tuple(Argument.of(name, value) for name, value in zip(self.parameters, args, strict=True))
        except XeError as error:
            error.notes += self.defined()
            raise

    def defined(self) -> list[Note]:
        """Where the kernel is defined, as the other party to a call that does not fit it."""
        return [Note(f"{self.name} is defined here", self.location())]

    def _calling(self) -> str:
        """How the kernel is called."""
        return f"call it as {self.name}[grid]({', '.join(self.parameters)})"

    def lowered(self, arguments: Sequence[Argument], target: Target, constants: dict[str, Any],
                subgroups: tuple[int, int] | None) -> Lowered:
        """The compiled form for these arguments; made once for each set of types, constants and ways of access."""
        if self._overriding is not None:
            return self._overriding.lowered(arguments, target, {}, None)
        access = tuple(block2d.access(target, a.pointer, a.shape, a.strides, a.dtype.bytes)
                       if a.rank is not None else "" for a in arguments)
        key = (*(a.key for a in arguments), self.constants_key(constants), subgroups, target.name, access)
        if key not in self._lowered:
            self.admit(target, arguments, access)
            types = [replace(argument, source=None) for argument in arguments]  # no array is kept alive
            self._lowered[key] = self._with(types, target, access, constants, subgroups)
        return self._lowered[key]

    def override(self, stage: str | None, path: str | Path | None = None) -> None:
        """Take the text in a file in the place of a stage, for every launch until ``override(None)``.

        The file is read now. An MLIR stage is parsed and verified, and the passes behind it run as ever; constants and
        ways to reach arrays are those that the text was lowered for, and a launch for which they are wrong is an error.
        ``"opencl"`` replaces the emitted text; it must keep the kernel's name and arguments. NumPy runs the recorded
        kernel then as before.

        Args:
            stage: a name of ``lower(...).stages``, or ``"opencl"``; None takes back what was overridden.
            path: the file; XETILE_DEBUG=dump writes such files.

        Raises:
            ArgumentError: there is no such stage, or the file cannot be read.
            TextError: the text does not parse, is another stage, or holds another kernel.
        """
        from xetile.jit.overrides import OPENCL, check_stage, kernel_of_stage, text_of

        with AtTheCall():
            overriding, opencl = None, None
            if stage is not None:
                check_stage(stage)
                if path is None:
                    raise ArgumentError("XT1615", f"override({stage!r}) names no file", "name the file that holds the "
                                        f"stage: override({stage!r}, \"edited.mlir\"); override(None) takes all back")
                text = text_of(path)
                if stage == OPENCL:
                    opencl = text
                else:
                    overriding = kernel_of_stage(text, stage, str(path), self)
            self._overriding, self._opencl = overriding, opencl
            self._lowered.clear()
            self._places.clear()

    def _with(self, arguments: Sequence[Argument], target: Target, access: tuple[str, ...],
              constants: dict[str, Any], subgroups: tuple[int, int] | None) -> Lowered:
        from xetile.compiler.compiled import Lowered
        from xetile.compiler.report.suggest_tile_sizes import Origin

        module = self.module_for(arguments, constants, subgroups)
        all_of_them = self.all_constants(constants)
        origin = Origin(all_of_them, lambda changes: self._with(arguments, target, access, {**all_of_them, **changes},
                                                                subgroups))
        return Lowered(module, target, access, self.location(), origin, self._opencl)

    def constants_key(self, constants: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        """The constants as a key."""
        return tuple(sorted((name, hashable(value, name)) for name, value in constants.items()))

    def all_constants(self, constants: dict[str, Any]) -> dict[str, Any]:
        """The constants of a call, with the defaults of those that it does not give."""
        return constants

    def grid(self, grid: Any, args: Sequence[Any], constants: dict[str, Any]) -> Grid:
        """The grid of a launch as three counts.

        Raises:
            ShapeError: there is none, or it is not one to three non-negative integers.
        """
        made_by: list[Note] = []
        if grid is None:
            if self.grid_function is None:
                raise ShapeError("XT1020", f"{self.name} is launched without a grid",
                                 f"write {self.name}[M // BM, N // BN]({', '.join(self.parameters)}), or give the "
                                 "kernel a grid of its own: @xt.kernel(grid=lambda ...)", notes=self.defined())
            grid = self._worked_out(self.grid_function, args, self.all_constants(constants))
            made_by = [Note("this function gave it", Location.of_definition(self.grid_function.__code__))] \
                if inspect.isfunction(self.grid_function) else []
        return three_counts(grid, self.name, made_by)

    def _worked_out(self, function: Callable[..., Any], args: Sequence[Any], constants: dict[str, Any]) -> Any:
        """What the kernel's grid function gives.

        Raises:
            ArgumentError: it does not take the kernel's arguments and constants.
        """
        try:
            return function(*args, **constants)
        except TypeError:
            try:
                inspect.signature(function).bind(*args, **constants)
            except TypeError as error:
                taken = ", ".join((*self.parameters, *(["*"] if constants else []), *constants))
                raise ArgumentError("XT1022", f"the grid function of {self.name} does not take what {self.name} is "
                                    f"called with: {error}", "give it the kernel's parameters and constants, as in "
                                    f"lambda {taken}: ...", notes=self.defined()) from None
            raise

class Kernel(BaseKernel):
    """A decorated function. ``kernel[grid](*arrays, **constants)`` launches it.

    Args:
        function: the author's function. Positional parameters are run-time arguments, keyword-only parameters
            compile-time constants.
        grid: ``grid(*arguments, **constants)`` gives the grid where the caller does not.
        subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
        registers: registers of a thread, 128 or 256; None to have it chosen.
    """

    def __init__(self, function: Callable[..., None], grid: Callable[..., Any] | None = None,
                 subgroups: tuple[int, int] = (1, 1), registers: int | None = None) -> None:
        super().__init__()
        if not inspect.isfunction(function):
            option = f"subgroups={function!r}" if isinstance(function, tuple) else "grid=..."
            raise ArgumentError("XT1001", f"@xt.kernel makes a kernel of a function, not of {function!r}",
                                "it is one already: write @xt.kernel once" if isinstance(function, BaseKernel) else
                                "write @xt.kernel above a def statement, and its options by name: "
                                f"@xt.kernel({option})")
        self.function, self.grid_function = function, grid
        self.name = function.__name__
        self.subgroups, self.registers = _check_subgroups(subgroups), _check_registers(registers)
        self.__doc__, self.__name__, self.__wrapped__ = function.__doc__, function.__name__, function
        self.parameters = self._positional()
        self._modules: dict[Any, ModuleOp] = {}

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)})>"

    def forget(self) -> None:
        super().forget()
        self._modules.clear()

    def all_constants(self, constants: dict[str, Any]) -> dict[str, Any]:
        self.constants_key(constants)  # an unknown or missing one is an error here, not in the author's grid function
        return {**self._constants, **constants}

    def location(self) -> Location:
        """Where the function is defined."""
        return Location.of_definition(self.function.__code__)

    @cached_property
    def _constants(self) -> dict[str, Any]:
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def _positional(self) -> tuple[str, ...]:
        parameters = inspect.signature(self.function).parameters.values()
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ArgumentError("XT1002",
                                    f"the parameter {parameter} of {self.name} stands for any number of arguments",
                                    "name every parameter; those behind a bare * are compile-time constants",
                                    self.location())
            if parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is not parameter.empty:
                raise ArgumentError("XT1003",
                                    f"the run-time argument {parameter.name} of {self.name} has a default value",
                                    "make it a compile-time constant by putting it behind a bare *, or drop the "
                                    "default",
                                    self.location())
        return tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)

    def constants_key(self, constants: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        unknown = set(constants) - set(self._constants)
        missing = {name for name, default in self._constants.items() if default is inspect.Parameter.empty}
        if unknown:
            name = sorted(unknown)[0]
            near = difflib.get_close_matches(name, self._constants, 1)
            guess = f"did you mean {near[0]}? " if near else ""
            raise ArgumentError("XT1012",
                                f"{self.name} has no constant {name}", f"{guess}its constants, the keyword-only "
                                f"parameters, are {', '.join(self._constants) or 'none'}", notes=self.defined())
        if missing - set(constants):
            name = sorted(missing - set(constants))[0]
            raise ArgumentError("XT1013", f"{self.name} needs a value for its constant {name}",
                                f"pass {name}=... in the call, or give the parameter a default", notes=self.defined())
        return super().constants_key({**self._constants, **constants})

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        shape = self.subgroups if subgroups is None else _check_subgroups(subgroups)
        key = (*(a.key for a in arguments), self.constants_key(constants), shape)
        if key not in self._modules:
            attributes: dict[str, Attribute] = {"xegpu.subgroups": ArrayAttr([IntegerAttr(n, i64) for n in shape])}
            if self.registers is not None:
                attributes[REGISTERS] = IntegerAttr(self.registers, i64)
            with gc_paused():
                self._modules[key] = trace(self.function, self.name, _makers(arguments), constants, attributes, shape)
        return self._modules[key]

    def program(self, only: tuple[int, ...] | int | None, subgroups: tuple[int, int] | None) -> Program:
        from xetile.runtime.eager import Program, check_only

        shape = self.subgroups if subgroups is None else _check_subgroups(subgroups)
        return Program(self.name, self.function, self.bind, self.grid, _makers, shape, check_only(only))


def _makers(arguments: Sequence[Argument]) -> list[Callable[[Tracer], Any]]:
    return [partial(_symbol, argument.name, argument.dtype, argument.rank) for argument in arguments]


def _check_subgroups(subgroups: Any) -> tuple[int, int]:
    if not isinstance(subgroups, (tuple, list)) or len(subgroups) != 2 or \
            not all(type(count) is int and count > 0 for count in subgroups):
        raise ShapeError("XT1004", f"subgroups are two positive integers, not {subgroups!r}",
                         "give rows and columns of subgroups, for example subgroups="
                         + (f"(1, {subgroups})" if type(subgroups) is int and subgroups > 0 else "(8, 4)"))
    return subgroups[0], subgroups[1]


def _check_registers(registers: Any) -> int | None:
    if registers not in (None, 128, 256):
        raise ShapeError("XT1005", f"registers={registers!r} is no register mode",
                         "a thread has 128 registers, or 256: registers=256; leave it out to have it chosen")
    return registers  # type: ignore[no-any-return]


def _symbol(name: str, dtype: DType, rank: int | None, tracer: Tracer) -> Value:
    if rank is None:
        return Scalar(tracer.scalar_argument(name, dtype))
    return Array(tracer.array_argument(name, dtype, rank), name, rank, dtype)


def kernel(function: Callable[..., None] | None = None, *, grid: Callable[..., Any] | None = None,
           subgroups: tuple[int, int] = (1, 1), registers: int | None = None) -> Any:
    """Make a kernel of a function: ``@xt.kernel``, ``@xt.kernel(grid=f)``, ``@xt.kernel(subgroups=(8, 4))``.

    Args:
        function: the function; its positional parameters become run-time arguments, its keyword-only parameters
            compile-time constants.
        grid: ``grid(*arguments, **constants)`` gives the grid of a launch that names none.
        subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
        registers: registers of a thread on a GPU, 128 or 256: with 256 half as many threads run at a time. By default
            128 where the kernel fits, by an estimate; the report says whether anything spills.
    """
    def make(function: Callable[..., None]) -> Kernel:
        with AtTheCall():
            return Kernel(function, grid, subgroups, registers)

    return make if function is None else make(function)
