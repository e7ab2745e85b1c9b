"""``@xt.kernel``: arguments, constants, grid, the caches, and where a launch goes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute

from xegpu import block_io
from xegpu.dtypes import DType
from xegpu.errors import DeviceError, ElementTypeError, Location, RankError, ShapeError, XeError
from xegpu.targets import Target, find_target
from xetile.arguments import Argument
from xetile.executors import Executor, executor_for
from xetile.lowered import Lowered
from xetile.tracer import Tracer, trace
from xetile.values import Array, Scalar, Value

Grid = tuple[int, int, int]


class BaseKernel:
    """What kernels that were recorded and kernels that were parsed have in common.

    Attributes:
        name: the kernel's name.
        parameters: names of its run-time arguments.
    """

    name: str
    parameters: tuple[str, ...]
    grid_function: Callable[..., Any] | None = None

    def __init__(self) -> None:
        self._lowered: dict[Any, Lowered] = {}

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        """The XeTile module for arguments of these types and for these constants."""
        raise NotImplementedError

    def location(self) -> Location:
        """Where the kernel is defined."""
        raise NotImplementedError

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return self.on(None)[grid]

    def __call__(self, *args: Any, **constants: Any) -> None:
        """Launch with the grid that the decorator's function gives."""
        self.on(None)(*args, **constants)

    def on(self, where: Any, *, target: str | Target | None = None,
           subgroups: tuple[int, int] | None = None) -> Placed:
        """The kernel, to be launched at ``where``.

        Args:
            where: ``"numpy"``, ``"numpy:xegpu"``, a dpctl filter string, or a ``dpctl.SyclQueue``; None lets the
                arrays decide.
            target: the device that code is generated for, by default the one it runs on.
            subgroups: subgroups of a work-group, for a kernel without ``wg_map``.

        Raises:
            TargetError: there is no such target.
        """
        return Placed(self, where, None if target is None else find_target(target), subgroups)

    def lower(self, *args: Any, target: str | Target = "pvc", subgroups: tuple[int, int] | None = None,
              **constants: Any) -> Lowered:
        """Compile only, for arrays or :class:`Spec` descriptions of them.

        Raises:
            XeError: the kernel cannot be compiled for these types, constants and target.
        """
        return self.lowered(self.bind(args), find_target(target), constants, subgroups)

    def bind(self, args: Sequence[Any]) -> tuple[Argument, ...]:
        """The arguments of a call, in one form."""
        if len(args) != len(self.parameters):
            raise RankError(f"{self.name} takes {len(self.parameters)} arguments ({', '.join(self.parameters)}), "
                            f"not {len(args)}", "keyword-only parameters are constants, the others are arguments",
                            self.location())
        try:
            return tuple(Argument.of(name, value) for name, value in zip(self.parameters, args, strict=True))
        except XeError as error:
            raise error.at(self.location()) from None

    def lowered(self, arguments: Sequence[Argument], target: Target, constants: dict[str, Any],
                subgroups: tuple[int, int] | None) -> Lowered:
        """The compiled form for these arguments; made once for each set of types, constants and ways of access."""
        access = tuple(block_io.access(target, a.pointer, a.shape, a.strides, a.dtype.bytes)
                       if a.rank is not None else "" for a in arguments)
        key = (*(a.key for a in arguments), self.constants_key(constants), subgroups, target.name, access)
        if key not in self._lowered:
            module = self.module_for(arguments, constants, subgroups)
            self._lowered[key] = Lowered(module, target, access, self.location())
        return self._lowered[key]

    def constants_key(self, constants: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        """The constants as a key; a constant that is not hashable counts as its text."""
        return tuple(sorted((name, _hashable(value)) for name, value in constants.items()))

    def grid(self, grid: Any, args: Sequence[Any], constants: dict[str, Any]) -> Grid:
        """The grid of a launch as three counts.

        Raises:
            ShapeError: there is none, or it is not one to three non-negative integers.
        """
        if grid is None:
            if self.grid_function is None:
                raise ShapeError(f"{self.name} is launched without a grid",
                                 f"write {self.name}[grid](...), or decorate with @xt.kernel(grid=...)", self.location())
            grid = self.grid_function(*args, **constants)
        counts = grid if isinstance(grid, (tuple, list)) else (grid,)
        if not 1 <= len(counts) <= 3 or not all(_is_count(count) for count in counts):
            raise ShapeError(f"a grid is one to three non-negative integers, not {grid!r}",
                             f"for example {self.name}[M // BM, N // BN]", self.location())
        x, y, z = (*(int(count) for count in counts), 1, 1)[:3]
        return x, y, z


def _is_count(count: Any) -> bool:
    return not isinstance(count, bool) and hasattr(count, "__index__") and not isinstance(count, Value) and count >= 0


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return (type(value).__name__, value)


class Placed:
    """A kernel with the place where it shall run: ``kernel.on("opencl:cpu", target="pvc")``."""

    def __init__(self, kernel: BaseKernel, where: Any, target: Target | None, subgroups: tuple[int, int] | None) -> None:
        self._kernel, self._where, self._target, self._subgroups = kernel, where, target, subgroups
        self._grid: Any = None
        self._executor: Executor | None = None if where is None else executor_for(where, target)

    @property
    def target(self) -> Target | None:
        """The device that code is made for; None while only the arrays will tell."""
        return self._target if self._executor is None else self._executor.target

    @property
    def device(self) -> str:
        """The name of what the kernel runs on, empty while only the arrays will tell."""
        return "" if self._executor is None else self._executor.device

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._launch, grid)

    def __call__(self, *args: Any, **constants: Any) -> None:
        """Launch with the grid that the decorator's function gives."""
        self._launch(None, *args, **constants)

    def _launch(self, grid: Any, /, *args: Any, **constants: Any) -> None:
        kernel = self._kernel
        arguments = kernel.bind(args)
        counts = kernel.grid(grid, args, constants)
        executor = self._executor or _executor_of_arrays(arguments, self._target, kernel.location())
        try:
            placed = executor.place(arguments)
            lowered = kernel.lowered(placed, executor.target, constants, self._subgroups)
            _check_outputs(lowered, arguments, kernel)
            executor.run(lowered, placed, counts)
            executor.collect(lowered.written, placed, arguments)
        except XeError as error:
            raise error.at(kernel.location()) from None


def _executor_of_arrays(arguments: Sequence[Argument], target: Target | None, location: Location) -> Executor:
    arrays = [argument for argument in arguments if argument.rank is not None]
    kinds = {argument.kind for argument in arrays}
    if kinds == {"usm", "numpy"}:
        names = {kind: next(a.name for a in arrays if a.kind == kind) for kind in kinds}
        raise DeviceError(f"{names['usm']} is on a device and {names['numpy']} in host memory",
                          f"copy {names['numpy']} to the device, or choose with .on(...)", location)
    if kinds != {"usm"}:
        return executor_for("numpy", target)
    queues = [argument.source.queue for argument in arrays]
    other = next((a for a, queue in zip(arrays, queues, strict=True) if queue != queues[0]), None)
    if other is not None:
        raise DeviceError(f"{arrays[0].name} and {other.name} are on different queues",
                          "make all arrays on one queue", location)
    return executor_for(queues[0], target)


def _check_outputs(lowered: Lowered, arguments: Sequence[Argument], kernel: BaseKernel) -> None:
    for position in lowered.written:
        if arguments[position].read_only:
            name = arguments[position].name
            raise ElementTypeError(f"{kernel.name} writes {name}, and {name} is read-only",
                                   f"pass a writable copy: {name}.copy()", kernel.location())


class Kernel(BaseKernel):
    """A decorated function. ``kernel[grid](*arrays, **constants)`` launches it.

    Args:
        function: the author's function. Positional parameters are run-time arguments, keyword-only parameters
            compile-time constants.
        grid: ``grid(*arguments, **constants)`` gives the grid where the caller does not.
        subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
    """

    def __init__(self, function: Callable[..., None], grid: Callable[..., Any] | None = None,
                 subgroups: tuple[int, int] = (1, 1)) -> None:
        super().__init__()
        self.function, self.grid_function, self.subgroups = function, grid, subgroups
        self.name = function.__name__
        self.__doc__, self.__name__, self.__wrapped__ = function.__doc__, function.__name__, function
        self.parameters = self._positional()
        self._modules: dict[Any, ModuleOp] = {}

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)})>"

    def location(self) -> Location:
        """Where the function is defined."""
        code = self.function.__code__
        return Location.at(code.co_filename, self._line)

    @cached_property
    def _line(self) -> int:
        return next((line for _, _, line in self.function.__code__.co_lines() if line), 0)

    @cached_property
    def _constants(self) -> dict[str, Any]:
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def _positional(self) -> tuple[str, ...]:
        parameters = inspect.signature(self.function).parameters.values()
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise ElementTypeError(f"{self.name} has a parameter *{parameter.name}, which a kernel cannot have",
                                       "name every parameter", self.location())
        return tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)

    def constants_key(self, constants: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        unknown = set(constants) - set(self._constants)
        missing = {name for name, default in self._constants.items() if default is inspect.Parameter.empty}
        if unknown:
            raise ElementTypeError(f"{self.name} has no constant {', '.join(sorted(unknown))}",
                                   f"it has {', '.join(self._constants) or 'none'}", self.location())
        if missing - set(constants):
            name = sorted(missing - set(constants))[0]
            raise ElementTypeError(f"{self.name} needs a value for its constant {name}", f"pass {name}=...",
                                   self.location())
        return super().constants_key({**self._constants, **constants})

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        shape = _check_subgroups(subgroups or self.subgroups, self.location())
        key = (*(a.key for a in arguments), self.constants_key(constants), shape)
        if key not in self._modules:
            attributes: dict[str, Attribute] = {"xegpu.subgroups": ArrayAttr([IntegerAttr(n, i64) for n in shape])}
            makers = [partial(_symbol, argument.name, argument.dtype, argument.rank) for argument in arguments]
            self._modules[key] = trace(self.function, self.name, makers, constants, attributes, shape)
        return self._modules[key]


def _check_subgroups(subgroups: Any, location: Location) -> tuple[int, int]:
    if not isinstance(subgroups, (tuple, list)) or len(subgroups) != 2 or \
            not all(type(count) is int and count > 0 for count in subgroups):
        raise ShapeError(f"subgroups are two positive integers, not {subgroups!r}", "for example (8, 4)", location)
    return subgroups[0], subgroups[1]


def _symbol(name: str, dtype: DType, rank: int | None, tracer: Tracer) -> Value:
    if rank is None:
        return Scalar(tracer.scalar_argument(name, dtype))
    return Array(tracer.array_argument(name, dtype, rank), name, rank, dtype)


def kernel(function: Callable[..., None] | None = None, *, grid: Callable[..., Any] | None = None,
           subgroups: tuple[int, int] = (1, 1)) -> Any:
    """Make a kernel of a function: ``@xt.kernel``, ``@xt.kernel(grid=f)``, ``@xt.kernel(subgroups=(8, 4))``.

    Args:
        function: the function; its positional parameters become run-time arguments, its keyword-only parameters
            compile-time constants.
        grid: ``grid(*arguments, **constants)`` gives the grid of a launch that names none.
        subgroups: subgroups of a work-group, for a kernel without ``wg_map``.
    """
    if function is None:
        return partial(Kernel, grid=grid, subgroups=subgroups)
    return Kernel(function, grid, subgroups)
