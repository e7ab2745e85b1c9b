"""Records an author's function as XeTile operations while Python runs it once."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StridedLayoutAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from xegpu.analysis import barriers, uniformity
from xegpu.ir.dtypes import DType
from xegpu.support.errors import Note, ShapeError, TraceError, XeError, error_parts
from xegpu.support.location import Location, SourceLocation
from xegpu.support.notes import defined_at, notes_at, operand_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PACKAGE = __name__.partition(".")[0]
_OURS = f"{_PACKAGE}."
_LIBRARY = f"{_PACKAGE}.library"
"""Kernels in there are authors' code like any other."""


class _Recordings(threading.local):
    """The recordings of one thread, the innermost last: threads record kernels independently."""

    def __init__(self) -> None:
        self.stack: list[Tracer] = []


_recordings = _Recordings()
STAGE = "xetile.stage"
"""The module's attribute that says how far a kernel is lowered; the pipeline goes on from there."""


class Tracer:
    """One recording: the function being built, the blocks that are open, and where the author stands.

    Args:
        name: the kernel's name.
        code: the code object of the author's function, the last frame of every call chain.
        subgroups: subgroups of a work-group, for ``subgroup_id(d)``.
    """

    runs = False
    """Whether operations run when they are made, and values are known: not in a recording."""

    def __init__(self, name: str, code: CodeType, subgroups: tuple[int, int] = (1, 1)) -> None:
        self.code, self.subgroups = code, subgroups
        self.stage = "xetile"  # what records operations above XeTile says so
        self.entry = Block()
        self.blocks = [self.entry]
        self.starts: dict[SSAValue, SSAValue] = {}
        self.function = func.FuncOp(name, ([], []), Region(self.entry))
        self.broken: XeError | None = None
        self.condition: object = None  # the xt.when that was recorded last: xt.otherwise goes on from it
        self._mapped, self._split = 0, False
        self._mapped_at: Location | None = None
        self._split_at: Location | None = None
        self._constants: dict[tuple[object, Attribute], SSAValue] = {}

    def array_argument(self, name: str, dtype: DType, rank: int) -> SSAValue:
        """A new array parameter of the kernel."""
        layout = StridedLayoutAttr([None] * rank)
        return self._argument(name, MemRefType(dtype.mlir, [DYNAMIC_INDEX] * rank, layout))

    def scalar_argument(self, name: str, dtype: DType) -> SSAValue:
        """A new scalar parameter of the kernel."""
        return self._argument(name, dtype.mlir)

    def _argument(self, name: str, type_: Attribute) -> SSAValue:
        argument = self.entry.insert_arg(type_, len(self.entry.args))
        name_value(argument, name)
        return argument

    def held(self, value: SSAValue) -> Any:
        """What a value is, where :attr:`runs` says that it is known."""
        raise NotImplementedError

    def location(self) -> Location:
        """Where the author's code stands now."""
        return Location.of_frame(_author(), self.code)

    def emit(self, operation: Operation) -> Any:
        """Append an operation at the author's line and verify it; its only result, if it has one."""
        if self.broken is not None:
            raise self.broken
        location = self.location()
        operation.location = SourceLocation(location)  # type: ignore[assignment]
        for operand in operation.operands:
            self.check_visible(operand, location)
        try:
            operation.verify_()
        except VerifyException as error:
            others = operand_notes(operation, error, Location.of_definition(self.code), self.starts)
            raise ShapeError(*error_parts(error), location, others) from None
        self.blocks[-1].add_op(operation)
        return operation.results[0] if len(operation.results) == 1 else None

    def use_map(self, count: int) -> None:
        """Note that a work-group of ``count`` subgroups is dealt a tile.

        Raises:
            ShapeError: another map, or the kernel's own option, says another number of subgroups.
        """
        if self._mapped not in (0, count):
            raise ShapeError("XT1070", f"this wg_map has {count} subgroups, and one above has {self._mapped}",
                             "all maps of a kernel share out one work-group: make the product of every sg_layout "
                             f"{self._mapped}", self.location(), self._earlier("the first map is used here"))
        if not self._mapped:
            self._mapped_at = self.location()
        self._mapped = count
        rows, columns = self.subgroups
        if self.subgroups != (1, 1) and rows * columns != count:
            raise ShapeError("XT1071",
                             f"this wg_map has {count} subgroups, and the kernel was given {rows} x {columns}",
                             f"drop subgroups=({rows}, {columns}) of the kernel, or make the product of sg_layout "
                             f"{rows * columns}", self.location(), notes_at(self.location(), [
                                 ("the kernel is defined here", Location.of_definition(self.code))]))
        self._check_level()

    def use_subgroup_axes(self) -> None:
        """Note that the kernel tells its subgroups apart by rows and columns.

        Raises:
            ShapeError: it was not given any, and a ``wg_map`` deals out its tiles.
        """
        if not self._split:
            self._split_at = self.location()
        self._split = True
        self._check_level()

    def _check_level(self) -> None:
        if self._mapped and self._split and self.subgroups == (1, 1):
            raise ShapeError("XT1072", "this kernel uses both wg_map and xt.subgroup_id(d)",
                             "with a wg_map every line stands for the whole work-group: drop xt.subgroup_id(d), or "
                             "write a kernel without wg_map and give it subgroups, as in @xt.kernel(subgroups=(8, 4))",
                             self.location(), [*self._earlier("the map is used here"), *notes_at(self.location(), [
                                 ("xt.subgroup_id(d) stands here", self._split_at)])])

    def _earlier(self, text: str) -> list[Note]:
        """The line that used the kernel's first map, unless the recording stands there."""
        return notes_at(self.location(), [(text, self._mapped_at)])

    def sees(self, value: SSAValue) -> bool:
        """Whether ``value`` may be used where the recording stands."""
        block = value.owner if isinstance(value, BlockArgument) else value.owner.parent  # type: ignore[union-attr]
        return block in self.blocks

    def check_visible(self, value: SSAValue, location: Location) -> None:
        """Raise if ``value`` was made inside a loop, or under a condition, that has ended."""
        if self.sees(value):
            return
        name, others = self._variable(value), notes_at(location, [("it is made here", defined_at(value))])
        if isinstance(value.owner, Operation) and not isinstance(value.owner.parent_op(), scf.ForOp):
            raise TraceError("XT1082", f"{name} was made under a condition and is used where that need not hold",
                             "give the variable a value of the same type before xt.when, or in xt.otherwise too: what "
                             "a body rebinds is then carried out of it", location, others)
        hint = "give the variable its first value before the loop: what the body rebinds is then carried out of it"
        if isinstance(value, BlockArgument):
            hint = "to keep its last value, write last = xt.scalar(0) before the loop and last = k in its body"
        raise TraceError("XT1081",
                         f"{name} was made inside a loop and is used after it, but the loop does not carry it",
                         hint, location, others)

    def _variable(self, value: SSAValue) -> str:
        """The author's name for a value, for messages."""
        author = _author()
        variables = {} if author is None else author.f_locals
        named = (name for name, held in variables.items() if getattr(held, "ssa", None) is value)
        name = next(named, value.name_hint)
        return f"`{name}`" if name else "this value"

    def constant(self, value: float | int | bool, dtype: DType) -> SSAValue:
        """A scalar constant, kept in the entry block so that every block sees it."""
        attribute: Attribute
        if dtype.is_float:
            attribute = FloatAttr(float(value), dtype.mlir)  # type: ignore[call-overload]
        else:
            attribute = IntegerAttr(int(value), signless(dtype.mlir))
        key = (str(attribute), dtype.mlir)
        if key not in self._constants:
            operation = arith.ConstantOp(attribute)  # type: ignore[arg-type]
            self._at_entry(operation)
            self._constants[key] = operation.result
        return self._constants[key]

    def metadata(self, array: SSAValue, name: str) -> tuple[list[SSAValue], list[SSAValue]]:
        """Sizes and strides of an array, read once at the head of the kernel."""
        operation = memref.ExtractStridedMetaDataOp(array)
        self._at_entry(operation)
        rank = len(operation.sizes)
        for axis, value in enumerate(operation.results[2:]):
            kind, position = ("size", axis) if axis < rank else ("stride", axis - rank)
            name_value(value, f"{name}_{kind}{position}")
        return list(operation.sizes), list(operation.strides)

    def emit_at_head(self, operation: Operation) -> SSAValue:
        """Put an operation at the head of the kernel, with the author's line; its only result."""
        if self.broken is not None:
            raise self.broken
        operation.location = SourceLocation(self.location())  # type: ignore[assignment]
        self._at_entry(operation)
        return operation.results[0]

    def _at_entry(self, operation: Operation) -> None:
        first = self.entry.first_op
        last = getattr(self, "_last_entry", None)
        if last is not None:
            self.entry.insert_op_after(operation, last)
        elif first is not None:
            self.entry.insert_op_before(operation, first)
        else:
            self.entry.add_op(operation)
        self._last_entry = operation

    def finish(self, attributes: dict[str, Attribute]) -> ModuleOp:
        """Close the function and give the module that holds it."""
        if self.broken is not None:
            raise self.broken
        self.entry.add_op(func.ReturnOp())
        self.function.update_function_type()  # type: ignore[no-untyped-call]
        self.function.attributes.update(attributes)
        uniformity.check(self.function, bool(self._mapped))
        barriers.check(self.function, self._mapped or prod(self.subgroups))
        return ModuleOp([self.function], {STAGE: StringAttr(self.stage)})


def _author() -> FrameType | None:
    """The innermost frame that is not a part of the recording."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame


def _is_ours(module: str) -> bool:
    return module.startswith(_OURS) and not module.startswith(_LIBRARY)


def signless(mlir: Attribute) -> IntegerType | IndexType:
    """An integer type without its sign, as MLIR's arithmetic constants want it; index stays."""
    return IntegerType(mlir.width.data) if isinstance(mlir, IntegerType) else IndexType()


@contextmanager
def recording(tracer: Tracer) -> Iterator[Tracer]:
    """Make ``tracer`` the one that the language functions record to."""
    _recordings.stack.append(tracer)
    try:
        yield tracer
    finally:
        _recordings.stack.pop()


def is_recording() -> bool:
    """Whether a kernel is being recorded."""
    return bool(_recordings.stack)


def current(what: str = "this") -> Tracer:
    """The recording that is going on.

    Raises:
        TraceError: there is none: the call was made outside a kernel.
    """
    if not _recordings.stack:
        raise TraceError("XT1080",
            f"{what} works only inside a kernel",
            "call it in a function decorated with @xt.kernel, and launch that",
            Location.of_caller((_PACKAGE,)),
        )
    return _recordings.stack[-1]


def trace(
    function: Callable[..., object], name: str, arguments: Sequence[Callable[[Tracer], object]],
    constants: dict[str, Any], attributes: dict[str, Attribute],
    subgroups: tuple[int, int] = (1, 1),
) -> ModuleOp:
    """Run ``function`` once on symbolic arguments and give the module that it recorded.

    Args:
        function: the author's function.
        name: the kernel's name.
        arguments: for each positional parameter, what makes its symbolic value.
        constants: keyword-only parameters, as they are.
        attributes: attributes of the recorded function.
        subgroups: subgroups of a work-group, for ``subgroup_id(d)``.
    """
    tracer = Tracer(name, function.__code__, subgroups)
    with recording(tracer):
        values = [make(tracer) for make in arguments]
        returned = function(*values, **constants)
        if returned is not None:
            raise TraceError("XT1316", f"{name} returns {_said(returned)}, and a launch gives nothing back",
                             "store what it computes to an array argument, and return nothing",
                             Location.of_definition(function.__code__))
        return tracer.finish(attributes)


def _said(value: object) -> str:
    """A value as an author knows it."""
    describe = getattr(value, "describe", None)
    return f"a {describe()}" if describe is not None else repr(value)


def name_value(value: SSAValue, name: str | None) -> None:
    """Name a value in printed IR after the author's variable: MLIR's names have letters of ASCII only, Python's any."""
    value.name_hint = name and re.sub(r"\W", "_", f"v{name}" if not name[0].isascii() else name, flags=re.ASCII)
