"""``xt.parse``: MLIR text to kernels that run like any other."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from xegpu import control_flow
from xegpu.block_io import SERVED_BY
from xegpu.dialect.attributes import SourceLocation
from xegpu.dtypes import of_mlir
from xegpu.errors import ArgumentError, ElementTypeError, Location, RankError, ShapeError, TargetError, TextError
from xegpu.memrefs import static_form
from xegpu.slm import verify_memory
from xegpu.targets import TARGETS, Target, find_target
from xetile.arguments import Argument
from xetile.dialect import context
from xetile.kernel import BaseKernel
from xetile.passes.workgroup_to_subgroup import is_dealt
from xetile.pipeline import PASSES, STAGE, TARGET

_COMPARE = "kernel.lower(...).stages shows every stage of a kernel as text that reads back"
_REACHED = {"block": "by 2D block IO", "block-columns": "by 2D block IO of its transpose", "rows": "row by row",
            "columns": "column by column", "strided": "element by element"}


class Module(Mapping[str, "ParsedKernel"]):
    """The kernels of a parsed text, by name."""

    def __init__(self, kernels: dict[str, ParsedKernel], text: str) -> None:
        self._kernels, self._text = kernels, text

    def __str__(self) -> str:
        return self._text

    def __getitem__(self, name: str) -> ParsedKernel:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)


class ParsedKernel(BaseKernel):
    """A kernel that was read from text, at any stage between XeTile and fully lowered XeGPU."""

    def __init__(self, function: func.FuncOp, attributes: Mapping[str, Attribute]) -> None:
        super().__init__()
        self.name = function.sym_name.data
        self._function = function
        self._module = ModuleOp([function], dict(attributes))
        arguments = function.body.block.args
        self.parameters = tuple(argument.name_hint or f"arg{i}" for i, argument in enumerate(arguments))
        named = function.attributes.get("xegpu.target") or attributes.get(TARGET)
        self.own_target = find_target(named.data) if isinstance(named, StringAttr) else None

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)}), parsed>"

    def __str__(self) -> str:
        return str(self._module)

    def location(self) -> Location:
        """Where the function stands in the text."""
        return _place(self._function)

    def admit(self, target: Target, arguments: Sequence[Argument], access: Sequence[str]) -> None:
        """Raise if the text was lowered for another target, or for arrays that are easier to reach."""
        if self.own_target is not None and self.own_target.name != target.name:
            made = self.own_target.name
            raise TargetError(f"{self.name} is text that was lowered for {made}, not for {target.name}",
                              f"choose target={made!r}, or lower the kernel again, starting from its "
                              "first stage")
        needed = self._function.attributes.get("xegpu.access")
        ways = [way.data for way in needed] if isinstance(needed, ArrayAttr) else []
        for argument, way, need in zip(arguments, access, ways, strict=False):
            if argument.kind == "usm" and need and way not in SERVED_BY[need]:  # NumPy reaches any memory
                raise ShapeError(f"{self.name} reaches {argument.name} {_REACHED[need]}, as its text was lowered, "
                                 f"and this array can only be reached {_REACHED[way]}",
                                 f"pass a contiguous copy of {argument.name} on a 64-byte boundary, or lower the "
                                 "kernel for this array")

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        """The parsed module.

        Raises:
            ArgumentError: constants or subgroups are given, which the text has in it already.
            RankError, ElementTypeError: an argument is not what the function takes.
        """
        if constants:
            raise ArgumentError(f"{self.name} was parsed from text, and takes no constant {min(constants)}",
                                "constants are fixed in the text: change it there")
        if subgroups is not None:
            raise ArgumentError(f"{self.name} was parsed from text, which says how many subgroups it has",
                                "change the function's attribute xegpu.subgroups, or drop subgroups=")
        for argument, parameter in zip(arguments, self._function.body.block.args, strict=True):
            _check(argument, parameter.type)
        return self._module


def _check(argument: Argument, type_: Any) -> None:
    if isinstance(type_, MemRefType):
        rank = len(type_.get_shape())
        if argument.rank != rank:
            what = "a number" if argument.rank is None else f"an array of {argument.rank} dimensions"
            raise RankError(f"{argument.name} is {what}, the kernel takes {type_}",
                            f"pass an array of {rank} dimensions")
        element = of_mlir(type_.element_type)
        if argument.dtype is not element:
            raise ElementTypeError(f"{argument.name} holds {argument.dtype}, the kernel takes {type_}",
                                   f"pass an array of {element}, or view it: xt.view({argument.name}, xt.{element})")
        _check_layout(argument, type_)
    elif argument.rank is not None or argument.dtype is not of_mlir(type_):
        what = "an array" if argument.rank is not None else f"a number of type {argument.dtype}"
        raise ElementTypeError(f"{argument.name} is {what}, the kernel takes a number of type {type_}",
                               "pass a float" if of_mlir(type_).is_float else "pass an integer")


def _check_layout(argument: Argument, type_: MemRefType) -> None:
    """Raise unless an array has the sizes and strides that a static memref has; what is not known yet passes."""
    static = static_form(type_)
    shape, strides = static or (type_.get_shape(), (None,) * len(type_.get_shape()))
    for what, has, wanted in zip(("size", "stride"), (argument.shape, argument.strides), (shape, strides), strict=True):
        for axis, (mine, its) in enumerate(zip(has, wanted, strict=True)):
            free = its in (None, DYNAMIC_INDEX) or mine is None or (what == "stride" and shape[axis] == 1)
            if not free and mine != its:
                raise ShapeError(f"{what} {axis} of {argument.name} is {mine}, and the kernel takes {type_}",
                                 f"pass an array of shape {shape} with strides {strides}, in elements" if static else
                                 f"pass an array with {its} elements along dimension {axis}")


class _Reader(Parser):
    """A parser that notes for each operation where it stands in the text."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(context(), text, name)
        self._text, self._name = text, name
        self._starts = [0, *(i + 1 for i, letter in enumerate(text) if letter == "\n")]

    def parse_operation(self) -> Operation:
        """The next operation, with its location."""
        self._start = start = self._current_token.span.start
        operation = super().parse_operation()
        line_end = self._text.find("\n", start)
        place = self.place(start, len(self._text) if line_end < 0 else line_end)
        operation.location = SourceLocation(place)  # type: ignore[assignment]
        return operation

    def _get_op_by_name(self, name: str) -> type[Operation]:
        """The operation of that name; an unknown one is an error at the name, not behind it."""
        try:
            return super()._get_op_by_name(name)
        except ParseError:
            known = [operation.name for operation in self.ctx.loaded_ops]
            near = difflib.get_close_matches(name, known, 1)
            start = self._text.find(name, self._start)
            raise TextError(f"there is no operation {name}", f"did you mean {near[0]}?" if near else _COMPARE,
                            self.place(start, start + len(name))) from None

    def place(self, start: int, end: int) -> Location:
        """The location of a range of the text that lies on one line."""
        line = bisect_right(self._starts, start)
        column = start - self._starts[line - 1]
        return Location.at(self._name, line, column, column + max(end - start, 1), self._text)

    def here(self) -> Location:
        """The location of the word that is read next."""
        span = self._current_token.span
        return self.place(span.start, span.end)


def _place(operation: Operation) -> Location:
    place = operation.location
    assert isinstance(place, SourceLocation)
    return place.data


def parse(text: str, name: str = "<text>") -> Module:
    """Read MLIR text and give its kernels by name.

    Args:
        text: functions in the XeTile or XeGPU dialect, as ``lower(...).stages`` prints them.
        name: what the text is called in messages.

    Raises:
        TextError: the text does not parse or does not verify; the message names line and column.
    """
    module = _read(text, name)
    for operation in module.walk():
        _verify(operation)
    _check_stage(module)
    functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp) and op.body.blocks]
    if not functions:
        raise TextError("the text holds no function with a body", "put the kernel's operations in a func.func",
                        _place(module))
    printed = str(module)
    for function in functions:
        function.detach()  # type: ignore[no-untyped-call]
    for function in functions:
        control_flow.check(function, is_dealt(function), TextError)
    kernels = {function.sym_name.data: ParsedKernel(function, module.attributes) for function in functions}
    return Module(kernels, printed)


def _read(text: str, name: str) -> ModuleOp:
    if not isinstance(text, str):
        raise ElementTypeError(f"xt.parse reads a str, not a {type(text).__name__}", "pass the text itself",
                               Location.of_caller(("xetile",)))
    reader: _Reader | None = None
    try:
        reader = _Reader(text, name)
        module = reader.parse_module()
    except TextError:
        raise
    except ParseError as error:
        message = error.msg.strip() or "this does not parse"
        message = f"something is missing {message}" if message.startswith("in ") else message
        raise TextError(message, _COMPARE, _range(text, name, *_span(text, error))) from None
    except Exception as error:  # attributes and types check their own text, each in its own way
        place = reader.here() if reader else _range(text, name, 0, 1)
        message, _, hint = str(getattr(error, "message", error)).partition("\n")
        raise TextError(f"this does not make sense here: {message}", hint or _COMPARE, place) from error
    if not isinstance(module.location, SourceLocation):  # the module that the parser puts around functions
        module.location = SourceLocation(_range(text, name, 0, 1))  # type: ignore[assignment]
    return module


def _span(text: str, error: ParseError) -> tuple[int, int]:
    """Where the mistake is: the parser finds values without a definition at the end of the text only."""
    unknown = re.match(r"values used but not defined: \[(%[^\],]+)", error.msg)
    found = re.search(rf"{re.escape(unknown[1])}\b", text) if unknown else None
    return found.span() if found else (error.span.start, error.span.end)


def _range(text: str, name: str, start: int, end: int) -> Location:
    line, column = text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1)
    return Location.at(name, line, column, column + max(end - start, 1), text)


def _verify(operation: Operation) -> None:
    try:
        operation.verify(verify_nested_ops=False)
        verify_memory(operation)
    except VerifyException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        message, hint = lines[0] if lines else "it does not verify", lines[1] if len(lines) == 2 else ""
        raise TextError(f"{operation.name}: {message}", hint or _COMPARE, _place(operation)) from None


def _check_stage(module: ModuleOp) -> None:
    stage, target = module.attributes.get(STAGE), module.attributes.get(TARGET)
    known = ("xetile", *(name for name, _ in PASSES))
    if stage is not None and not (isinstance(stage, StringAttr) and stage.data in known):
        raise TextError(f"there is no stage {stage}", f"{STAGE} is one of {', '.join(known)}", _place(module))
    if target is not None and not (isinstance(target, StringAttr) and target.data in TARGETS):
        raise TextError(f"there is no target {target}", f"{TARGET} is one of {', '.join(TARGETS)}", _place(module))
