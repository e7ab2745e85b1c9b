"""``@xt.kernel``: kernels of Python functions, traced for the types and constants of a call."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import Attribute

from xegpu.ir.dtypes import DType
from xegpu.ir.kernel_attributes import MAY_ALIAS, SUBGROUPS
from xegpu.mlir.arith import FAST_DIVISION, REASSOCIATE
from xegpu.support.errors import ArgumentError, Note, ShapeError, TraceError
from xegpu.support.gc_pause import gc_paused
from xegpu.support.location import Location
from xegpu.target.grf_mode import REGISTERS
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.frontend.ssa_value import Value
from xetile.frontend.tiles import Array, SubByteArray
from xetile.frontend.tracer import Tracer, current, is_recording, trace
from xetile.frontend.values import Scalar
from xetile.jit.base import BaseKernel, check_subgroups
from xetile.jit.captures import Captures
from xetile.jit.structures import Structure, flatten, is_structured
from xetile.jit.value_keys import NUMBERS

if TYPE_CHECKING:
    from xetile.runtime.eager import EagerKernel

_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of functions whose call gives an object, and runs nothing."""


class Kernel(BaseKernel):
    """A decorated function. ``kernel[grid](*arrays, **constants)`` launches it.

    Args:
        function: the author's function. Positional parameters are run-time arguments, numbers among them with
            defaults, keyword-only parameters compile-time constants.
        grid: ``grid(*arguments, **constants)`` computes the grid of a launch without one.
        subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
        registers: registers of a thread, 128 or 256; None to choose automatically.
        fast_division: whether f32 divisions and square roots may be less than correctly rounded.
        fast_math: whether functions, too, may be a GPU's own approximations.
        may_alias: whether arrays may share elements with one that the kernel writes.
    """

    def __init__(self, function: Callable[..., Any], grid: Callable[..., Any] | None = None,
                 subgroups: tuple[int, int] = (1, 1), registers: int | None = None, *, fast_division: bool = False,
                 fast_math: bool = False, may_alias: bool = False) -> None:
        super().__init__()
        self._captures: Captures | None = None
        self._recorded: dict[tuple[str, int], Any] = {}  # constants of recordings, by name and identity
        self._flat: dict[Hashable, BaseKernel] = {}  # for structured arguments, by their structures
        if not inspect.isfunction(function):
            option = f"subgroups={function!r}" if isinstance(function, tuple) else "grid=..."
            raise ArgumentError("XT1001", f"@xt.kernel decorates a function, not {function!r}",
                                "it is one already: write @xt.kernel once" if isinstance(function, BaseKernel) else
                                "write @xt.kernel above a def statement, and its options by name: "
                                f"@xt.kernel({option})")
        self.function, self.grid_function = function, grid
        self.name = function.__name__
        if function.__code__.co_flags & _SUSPENDS:
            raise ArgumentError("XT1006",
                                f"{self.name} is a generator or a coroutine, whose call does not run its body",
                                "write a plain def, without yield and await; store results to array arguments",
                                self.location())
        self.subgroups, self.registers = check_subgroups(subgroups), _check_registers(registers)
        self.fast_division, self.fast_math = fast_division or fast_math, fast_math
        self.__doc__, self.__name__, self.__wrapped__ = function.__doc__, function.__name__, function
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__
        self.defaults: dict[str, Any] = {}
        self.parameters = self._parameters()
        self.may_alias = may_alias

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)})>"

    def __reduce__(self) -> str:
        """The name by which ``pickle`` finds the kernel in its module, as it finds a function."""
        return self.__qualname__

    def all_constants(self, constants: dict[str, Any]) -> dict[str, Any]:
        self.constants_key(constants)  # raises for an unknown or missing one, before the author's grid function does
        return {**self._constants, **constants}

    def location(self) -> Location:
        """Location of the function's definition."""
        return Location.of_definition(self.function.__code__)

    @cached_property
    def _constants(self) -> dict[str, Any]:
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def _parameters(self) -> tuple[str, ...]:
        parameters = inspect.signature(self.function).parameters.values()
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ArgumentError("XT1002",
                                    f"the parameter {parameter} of {self.name} takes any number of arguments",
                                    "name every parameter; those behind a bare * are compile-time constants",
                                    self.location())
            if parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is not parameter.empty:
                self.defaults[parameter.name] = self._checked_default(parameter)
        return tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)

    def _checked_default(self, parameter: inspect.Parameter) -> Any:
        if isinstance(parameter.default, bool) or not isinstance(parameter.default, (int, float, np.number)):
            raise ArgumentError("XT1003", f"the run-time argument {parameter.name} of {self.name} has the default "
                                f"value {parameter.default!r:.40}, which is not a number",
                                "make it a compile-time constant by putting it behind a bare *, or drop the default",
                                self.location())
        return parameter.default

    def __call__(self, *args: Any, **constants: Any) -> Any:
        """Launch with the grid of the decorator's function; inside a kernel, call the function as a helper of it.

        A helper's operations are those of the kernel that calls it, whose options count; it may return values.

        Raises:
            TraceError: a helper for other ``subgroups`` than the kernel that calls it.
        """
        if not is_recording():
            return super().__call__(*args, **constants)
        tracer = current()
        if self.subgroups not in ((1, 1), tracer.subgroups):
            raise TraceError("XT1024", f"{self.name} is for {self.subgroups[0]} x {self.subgroups[1]} subgroups, and "
                             f"the kernel that calls it has {tracer.subgroups[0]} x {tracer.subgroups[1]}",
                             f"give the calling kernel subgroups={self.subgroups}", tracer.location(), self.defined())
        return self.function(*args, **constants)

    def constants_key(self, constants: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        unknown = set(constants) - set(self._constants)
        missing = {name for name, default in self._constants.items() if default is inspect.Parameter.empty}
        if unknown:
            raise unknown_constant(self.name, min(unknown), self._constants, self.defined())
        if missing - set(constants):
            name = sorted(missing - set(constants))[0]
            raise ArgumentError("XT1013", f"{self.name} needs a value for its constant {name}",
                                f"pass {name}=... in the call, or give the parameter a default", notes=self.defined())
        return super().constants_key({**self._constants, **constants})

    def refresh(self) -> None:
        if self._captures is not None and self._captures.changed() is not None:
            self.forget()

    def forget(self) -> None:
        super().forget()
        self._captures = None
        self._recorded.clear()
        self._flat.clear()

    def captured_constants(self, constants: dict[str, Any]) -> Iterable[tuple[str, Any]]:
        """The constants of a recording: the code and attributes of one can change while the cache's key stays."""
        return constants.items()

    def assemble(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The arguments of the author's function: those of the kernel."""
        return leaves

    def flattened(self, args: Sequence[Any]) -> tuple[BaseKernel, tuple[Any, ...]] | None:
        if len(args) != len(self.parameters) or not any(is_structured(value) for value in args):
            return None
        found = [flatten(name, value) for name, value in zip(self.parameters, args, strict=True)]
        structures = tuple(structure for structure, _ in found)
        leaves = [leaf for _, part in found for leaf in part]
        kernel = self._flat.get(structures)
        if kernel is None:
            kernel = self._flat[structures] = FlatKernel(self, structures, tuple(name for name, _ in leaves))
            kernel.compile_from(self._override, self._override_opencl)
        kernel.may_alias = self.may_alias
        return kernel, tuple(value for _, value in leaves)

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        shape = self.subgroups if subgroups is None else subgroups
        key = (*(a.key for a in arguments), self.constants_key(constants), shape)
        if key not in self.cache.modules:
            attributes: dict[str, Attribute] = {SUBGROUPS: ArrayAttr([IntegerAttr(n, i64) for n in shape])}
            if self.registers is not None:
                attributes[REGISTERS] = IntegerAttr(self.registers, i64)
            if self.fast_division:
                attributes[FAST_DIVISION] = UnitAttr()
            if self.may_alias:
                attributes[MAY_ALIAS] = UnitAttr()
            if self.fast_math:
                attributes[REASSOCIATE] = UnitAttr()
            with gc_paused():
                self.cache.modules[key] = trace(self.function, self.name, _symbol_builders(arguments), constants,
                                                attributes, shape, fast_math=self.fast_math, assemble=self.assemble)
            self._recorded |= {(name, id(value)): value for name, value in self.captured_constants(constants)
                               if not isinstance(value, (*NUMBERS, DType, type(None)))}
            # Behind the recording, which may itself fill an author's list.
            self._captures = Captures(self.function, [(name, value) for (name, _), value in self._recorded.items()])
        return self.cache.modules[key]

    def override(self, stage: str | None, path: str | Path | None = None) -> None:
        from xetile.jit.parsed import override

        override(self, stage, path)

    def eager(self, only: tuple[int, ...] | int | None, subgroups: tuple[int, int] | None) -> EagerKernel:
        from xetile.runtime.eager import EagerKernel, check_only

        shape = self.subgroups if subgroups is None else check_subgroups(subgroups)
        return EagerKernel(self.name, self.function, self.by_position, self.bind_arguments, self.evaluate_grid,
                           _symbol_builders, self.assemble, self.flattened, shape, check_only(only),
                           self.may_alias)


class FlatKernel(Kernel):
    """A kernel for arguments of given structures: its run-time arguments are their leaves.

    Args:
        kernel: the author's kernel.
        structures: of its arguments.
        names: of the leaves.
    """

    def __init__(self, kernel: Kernel, structures: tuple[Structure, ...], names: tuple[str, ...]) -> None:
        super().__init__(kernel.function, kernel.grid_function, kernel.subgroups, kernel.registers,
                         fast_division=kernel.fast_division, fast_math=kernel.fast_math, may_alias=kernel.may_alias)
        self.structures, self.parameters, self.defaults = structures, names, {}

    def assemble(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The arguments of the author's function."""
        rest = iter(leaves)
        return [structure.build(rest) for structure in self.structures]

    def captured_constants(self, constants: dict[str, Any]) -> Iterable[tuple[str, Any]]:
        return [*constants.items(), *(pair for structure in self.structures for pair in structure.constants())]

    def flattened(self, args: Sequence[Any]) -> None:
        """None: its arguments are flat."""

    def _call_grid_function(self, function: Callable[..., Any], args: Sequence[Any], constants: dict[str, Any]) -> Any:
        return super()._call_grid_function(function, self.assemble(args), constants)


def unknown_constant(kernel: str, name: str, constants: Collection[str], notes: Sequence[Note] = ()) -> ArgumentError:
    """Error for a name that is none of a kernel's constants."""
    near = difflib.get_close_matches(name, constants, 1)
    guess = f"did you mean {near[0]}? " if near else ""
    return ArgumentError("XT1012", f"{kernel} has no constant {name}", f"{guess}its constants, the keyword-only "
                         f"parameters, are {', '.join(constants) or 'none'}", notes=notes)


def _symbol_builders(arguments: Sequence[Argument]) -> list[Callable[[Tracer], Any]]:
    return [partial(_symbol, argument.name, argument.dtype, argument.rank, argument.packed) for argument in arguments]


def _check_registers(registers: Any) -> int | None:
    if registers not in (None, 128, 256):
        raise ShapeError("XT1005", f"registers={registers!r} is not a register mode",
                         "a thread has 128 registers, or 256: registers=256; leave it out to choose automatically")
    return registers  # type: ignore[no-any-return]


def _symbol(name: str, dtype: DType, rank: int | None, packed: int | None, tracer: Tracer) -> Value:
    if rank is None:
        return Scalar(tracer.scalar_argument(name, dtype))
    if packed is not None:
        return SubByteArray(Array(tracer.array_argument(name, dtype, rank), name, rank, dtype), packed)
    return Array(tracer.array_argument(name, dtype, rank), name, rank, dtype)


class _Options(TypedDict, total=False):
    """The options of :func:`kernel`, for type checkers."""

    grid: Callable[..., Any] | None
    subgroups: tuple[int, int]
    registers: int | None
    fast_division: bool
    fast_math: bool
    may_alias: bool


@overload
def kernel(function: Callable[..., Any], **options: Unpack[_Options]) -> Kernel:
    """A kernel of a function: ``@xt.kernel``, or ``xt.kernel(function, **options)``."""


@overload
def kernel(**options: Unpack[_Options]) -> Callable[[Callable[..., Any]], Kernel]:
    """A decorator with options: ``@xt.kernel(subgroups=(8, 4))``."""


def kernel(function: Callable[..., Any] | None = None, *, grid: Callable[..., Any] | None = None,
           subgroups: tuple[int, int] = (1, 1), registers: int | None = None, fast_division: bool = False,
           fast_math: bool = False, may_alias: bool = False) -> Any:
    """Make a kernel of a function: ``@xt.kernel``, ``@xt.kernel(grid=f)``, ``@xt.kernel(subgroups=(8, 4))``.

    Args:
        function: the function; its positional parameters become run-time arguments, its keyword-only parameters
            compile-time constants.
        grid: ``grid(*arguments, **constants)`` computes the grid of a launch without one.
        subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
        registers: registers of a thread on a GPU, 128 or 256: with 256 half as many threads run at a time. By default
            128 where the kernel fits, by an estimate; the report says whether anything spills.
        fast_division: let a GPU divide f32 within 2.5 ulp and take square roots within 3 ulp, as its instructions do.
            By default both are correctly rounded, as in NumPy, which takes about 17 instructions for 16 elements
            instead of 2.
        fast_math: the same, and functions by a GPU's own instructions: ``fast=True`` for each :func:`xetile.exp`,
            ``exp2``, ``log``, ``log2``, ``log10``, ``rsqrt``, ``tanh`` and ``erf`` that does not say otherwise. And
            products of vectors that are added or subtracted, ``a * b + c``, are :func:`xetile.fma`, rounded once.
        may_alias: allow a launch whose arrays share elements with one that the kernel writes, such as a tensor that is
            changed in place through two arguments. Each work-group must read only elements that no other one writes.
    """
    def decorate(function: Callable[..., Any]) -> Kernel:
        with AtTheCall():
            return Kernel(function, grid, subgroups, registers, fast_division=fast_division, fast_math=fast_math,
                          may_alias=may_alias)

    return decorate if function is None else decorate(function)
