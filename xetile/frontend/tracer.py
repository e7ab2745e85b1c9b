"""Tracer: records an author's function as XeTile operations while Python runs it once."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from types import CodeType
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
from xegpu.ir.region_branch import is_loop
from xegpu.support.errors import (
    Invalid,
    Note,
    ShapeError,
    TraceError,
    XeError,
    error_class,
    error_parts,
)
from xegpu.support.location import Location, SourceLocation
from xegpu.support.notes import defined_at, notes_at, operand_notes
from xetile.dialect.stage import STAGE
from xetile.dialect.types import verify_same_subgroups
from xetile.dialect.wg_map import WgMap
from xetile.frontend.author_frame import author_frame, is_authors, signature_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PACKAGE = __name__.partition(".")[0]


class _Recordings(threading.local):
    """Stack of active tracers of one thread, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Tracer] = []


_recordings = _Recordings()


class Tracer:
    """Tracer of one kernel: the function under construction, the open blocks, the author's location.

    Args:
        name: the kernel's name.
        code: the code object of the author's function, the last frame of every call chain.
        subgroups: subgroups of a work-group, for ``subgroup_id(d)``.
    """

    runs = False
    """Whether operations execute at once and values are known (eager execution); False while recording."""

    def __init__(self, name: str, code: CodeType, subgroups: tuple[int, int] = (1, 1)) -> None:
        self.code, self.subgroups = code, subgroups
        self.stage = "xetile"  # functions of SuperVector set theirs
        self.fast_math = False
        self.entry = Block()
        self.blocks = [self.entry]
        self.starts: dict[SSAValue, SSAValue] = {}
        self.function = func.FuncOp(name, ([], []), Region(self.entry))
        self.exits: list[tuple[SSAValue, SourceLocation]] = []  # of xt.return_if: what stays, in the block behind it
        self.broken: XeError | None = None
        self.condition: object = None  # the xt.when that was recorded last: xt.otherwise goes on from it
        self.at_end: list[Callable[[], None]] = []  # checks that take all of the recording
        self._first_map: WgMap | None = None
        self._split = False
        self._mapped_at: Location | None = None
        self._split_at: Location | None = None
        self._constants: dict[tuple[object, Attribute], SSAValue] = {}

    def array_argument(self, name: str, dtype: DType, rank: int) -> SSAValue:
        """Add an array parameter to the kernel."""
        layout = StridedLayoutAttr([None] * rank)
        return self._argument(name, MemRefType(dtype.mlir, [DYNAMIC_INDEX] * rank, layout))

    def scalar_argument(self, name: str, dtype: DType) -> SSAValue:
        """Add a scalar parameter to the kernel."""
        return self._argument(name, dtype.mlir)

    def _argument(self, name: str, type_: Attribute) -> SSAValue:
        """Add a block argument to the entry block."""
        argument = self.entry.insert_arg(type_, len(self.entry.args))
        name_value(argument, name)
        return argument

    def evaluate(self, value: SSAValue) -> Any:
        """Value of an SSA value in eager execution."""
        raise NotImplementedError

    def location(self) -> Location:
        """Current location in the author's code."""
        return Location.of_frame(author_frame(), self.code, is_authors)

    def emit(self, operation: Operation) -> Any:
        """Append and verify an operation with the author's location; returns its only result, if there is one."""
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
            raise error_class(error)(*error_parts(error), location, others) from None
        self.blocks[-1].add_op(operation)
        return operation.results[0] if len(operation.results) == 1 else None

    def use_map(self, wg_map: WgMap) -> None:
        """Set the number of subgroups of the work-group, from the map of a tile.

        Raises:
            ShapeError: another map, or the kernel's ``subgroups``, has a different number.
        """
        try:
            verify_same_subgroups(self._first_map, wg_map)
        except Invalid as error:
            raise ShapeError(*error_parts(error), self.location(),
                             self._first_map_note("the first map is used here")) from None
        if self._first_map is None:
            self._first_map, self._mapped_at = wg_map, self.location()
        count, (rows, columns) = wg_map.subgroups, self.subgroups
        if self.subgroups != (1, 1) and rows * columns != count:
            raise ShapeError("XT1071",
                             f"this wg_map has {count} subgroups, and the kernel has {rows} x {columns}",
                             f"drop subgroups=({rows}, {columns}) of the kernel, or make the product of sg_layout "
                             f"{rows * columns}", self.location(), notes_at(self.location(), [
                                 ("the kernel is defined here", Location.of_definition(self.code))]))
        self._check_level()

    def use_subgroup_axes(self) -> None:
        """Note that the kernel uses 2D subgroup ids.

        Raises:
            ShapeError: it has no ``subgroups``, and a ``wg_map`` distributes its tiles.
        """
        if not self._split:
            self._split_at = self.location()
        self._split = True
        self._check_level()

    def _check_level(self) -> None:
        """Check that the kernel is written for a work-group or for a subgroup, not both."""
        if self._first_map and self._split and self.subgroups == (1, 1):
            raise ShapeError("XT1072", "this kernel uses both wg_map and xt.subgroup_id(d)",
                             "with a wg_map every line applies to the complete work-group: drop xt.subgroup_id(d), "
                             "or "
                             "write a kernel without wg_map and give it subgroups, as in @xt.kernel(subgroups=(8, 4))",
                             self.location(), [*self._first_map_note("the map is used here"),
                                               *notes_at(self.location(), [
                                 ("xt.subgroup_id(d) is called here", self._split_at)])])

    def _first_map_note(self, text: str) -> list[Note]:
        """Note with the line of the kernel's first map."""
        return notes_at(self.location(), [(text, self._mapped_at)])

    def dominates(self, value: SSAValue) -> bool:
        """Whether ``value`` dominates the current insertion point."""
        block = value.owner if isinstance(value, BlockArgument) else value.owner.parent  # type: ignore[union-attr]
        return block in self.blocks

    def check_visible(self, value: SSAValue, location: Location) -> None:
        """Check that ``value`` is defined in an open block, not in a loop or branch that has ended."""
        if self.dominates(value):
            return
        name, others = self._variable(value), notes_at(location, [("it is defined here", defined_at(value))])
        if _is_of_another_function(value, self.function):
            raise TraceError("XT1085", f"{name} was recorded in another kernel, or in an earlier recording of this one",
                             "keep values of the language in local variables of the kernel: none outlives a recording "
                             "in a global, an attribute or a cache such as functools.lru_cache", location, others)
        if isinstance(value.owner, Operation) and not is_loop(value.owner.parent_op()):
            raise TraceError("XT1082", f"{name} is defined under a condition and is used outside it",
                             "give the variable a value of the same type before xt.when, or in xt.otherwise too: what "
                             "a body rebinds is then carried out of it", location, others)
        hint = "give the variable its first value before the loop: what the body rebinds is then carried out of it"
        if isinstance(value, BlockArgument):
            hint = "to keep its last value, write last = xt.scalar(0) before the loop and last = k in its body"
        raise TraceError("XT1081",
                         f"{name} is defined in a loop and is used after it, but the loop does not carry it",
                         hint, location, others)

    def _variable(self, value: SSAValue) -> str:
        """Name of a value in the author's code, for messages."""
        author = author_frame()
        variables = {} if author is None else author.f_locals
        named = (name for name, variable in variables.items() if getattr(variable, "ssa", None) is value)
        name = next(named, value.name_hint)
        return f"`{name}`" if name else "this value"

    def constant(self, value: float | int | bool, dtype: DType) -> SSAValue:
        """Scalar constant, uniqued in the entry block, which dominates every other."""
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
        """Sizes and strides of an array, read once in the entry block."""
        operation = memref.ExtractStridedMetaDataOp(array)
        self._at_entry(operation)
        rank = len(operation.sizes)
        for axis, value in enumerate(operation.results[2:]):
            kind, position = ("size", axis) if axis < rank else ("stride", axis - rank)
            name_value(value, f"{name}_{kind}{position}")
        return list(operation.sizes), list(operation.strides)

    def emit_at_head(self, operation: Operation) -> SSAValue:
        """Append an operation to the kernel's prologue, with the author's location; returns its only result."""
        if self.broken is not None:
            raise self.broken
        operation.location = SourceLocation(self.location())  # type: ignore[assignment]
        self._at_entry(operation)
        return operation.results[0]

    def _at_entry(self, operation: Operation) -> None:
        """Insert an operation after the last one of the prologue."""
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
        """Close and verify the function; returns its module."""
        if self.broken is not None:
            raise self.broken
        for stays, location in reversed(self.exits):
            block = self.blocks.pop()
            block.add_op(scf.YieldOp())
            operation = scf.IfOp(stays, [], Region(block))
            operation.location = location  # type: ignore[assignment]
            self.blocks[-1].add_op(operation)
        self.entry.add_op(func.ReturnOp())
        self.function.update_function_type()  # type: ignore[no-untyped-call]
        self.function.attributes.update(attributes)
        for check in self.at_end:
            check()
        uniformity.check(self.function, self._first_map is not None)
        barriers.check(self.function, self._first_map.subgroups if self._first_map else prod(self.subgroups))
        return ModuleOp([self.function], {STAGE: StringAttr(self.stage)})


def _is_of_another_function(value: SSAValue, function: func.FuncOp) -> bool:
    """Whether a value is defined in another function; a body that is still being recorded has none yet."""
    block = value.owner if isinstance(value, BlockArgument) else value.owner.parent  # type: ignore[union-attr]
    parent = block.parent_op() if block is not None else None
    while parent is not None and not isinstance(parent, func.FuncOp):
        parent = parent.parent_op()
    return parent is not None and parent is not function


def signless(mlir: Attribute) -> IntegerType | IndexType:
    """Signless integer type, for MLIR's arithmetic constants; index is unchanged."""
    return IntegerType(mlir.width.data) if isinstance(mlir, IntegerType) else IndexType()


@contextmanager
def recording(tracer: Tracer) -> Iterator[Tracer]:
    """Context in which the language functions record to ``tracer``."""
    _recordings.stack.append(tracer)
    try:
        yield tracer
    finally:
        _recordings.stack.pop()


def is_recording() -> bool:
    """Whether a kernel is being recorded."""
    return bool(_recordings.stack)


def current(what: str = "this") -> Tracer:
    """Active tracer.

    Raises:
        TraceError: there is none: the call is outside a kernel.
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
    subgroups: tuple[int, int] = (1, 1), *, fast_math: bool = False,
    assemble: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
) -> ModuleOp:
    """Trace ``function`` on symbolic arguments; returns the recorded module.

    Args:
        function: the author's function.
        name: the kernel's name.
        arguments: for each positional parameter, a factory of its symbolic value.
        constants: keyword-only parameters.
        attributes: attributes of the recorded function.
        subgroups: subgroups of a work-group, for ``subgroup_id(d)``.
        fast_math: whether functions are approximate unless their calls say otherwise.
        assemble: makes the function's arguments of the symbolic values; None where they are these.
    """
    tracer = Tracer(name, function.__code__, subgroups)
    tracer.fast_math = fast_math
    with recording(tracer):
        values = [make(tracer) for make in arguments]
        try:
            returned = function(*(values if assemble is None else assemble(values)), **constants)
        except TypeError as error:
            if (found := signature_error(error)) is not None:
                raise found from None
            raise
        if returned is not None:
            raise TraceError("XT1316", f"{name} returns {_describe(returned)}, and a launch returns nothing",
                             "store what it computes to an array argument, and return nothing",
                             Location.of_definition(function.__code__))
        return tracer.finish(attributes)


def _describe(value: object) -> str:
    """Description of a returned value in an error message."""
    describe = getattr(value, "describe", None)
    return f"a {describe()}" if describe is not None else repr(value)


def name_value(value: SSAValue, name: str | None) -> None:
    """Set the name hint of a value to the author's variable, with the ASCII letters that MLIR's names allow."""
    value.name_hint = name and re.sub(r"\W", "_", f"v{name}" if not name[0].isascii() else name, flags=re.ASCII)
