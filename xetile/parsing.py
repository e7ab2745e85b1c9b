"""``xt.parse``: MLIR text to kernels that run like any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from xegpu.dtypes import of_mlir
from xegpu.errors import ElementTypeError, Location, RankError, ShapeError, TextError
from xetile.arguments import Argument
from xetile.dialect import context
from xetile.kernel import BaseKernel


class Module(Mapping[str, "ParsedKernel"]):
    """The kernels of a parsed text, by name."""

    def __init__(self, kernels: dict[str, ParsedKernel]) -> None:
        self._kernels = kernels

    def __getitem__(self, name: str) -> ParsedKernel:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)


class ParsedKernel(BaseKernel):
    """A kernel that was read from text, at any stage between XeTile and fully lowered XeGPU."""

    def __init__(self, function: func.FuncOp, location: Location) -> None:
        super().__init__()
        self.name = function.sym_name.data
        self._function, self._location = function, location
        self._module = ModuleOp([function])
        arguments = function.body.block.args
        self.parameters = tuple(argument.name_hint or f"arg{i}" for i, argument in enumerate(arguments))

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)}), parsed>"

    def location(self) -> Location:
        return self._location

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        if constants:
            raise ElementTypeError(f"{self.name} was parsed, so it has no constant {', '.join(sorted(constants))}",
                                   "change the text instead", self._location)
        if subgroups is not None:
            raise ShapeError(f"{self.name} was parsed with its subgroups", "change the attribute xegpu.subgroups",
                             self._location)
        for argument, parameter in zip(arguments, self._function.body.block.args, strict=True):
            _check(argument, parameter.type, self._location)
        return self._module


def _check(argument: Argument, type_: Any, location: Location) -> None:
    if isinstance(type_, MemRefType):
        if argument.rank != len(type_.get_shape()):
            raise RankError(f"{argument.name} has {argument.rank} dimensions, the kernel takes {type_}",
                            f"pass an array of {len(type_.get_shape())} dimensions", location)
        if argument.dtype is not of_mlir(type_.element_type):
            raise ElementTypeError(f"{argument.name} holds {argument.dtype}, the kernel takes {type_}",
                                   f"pass an array of {type_.element_type}", location)
    elif argument.rank is not None or argument.dtype is not of_mlir(type_):
        raise ElementTypeError(f"{argument.name} is {argument.dtype}, the kernel takes {type_}",
                               f"pass a number of type {type_}", location)


def parse(text: str, name: str = "<text>") -> Module:
    """Read MLIR text and give its kernels by name.

    Args:
        text: functions in the XeTile or XeGPU dialect, as ``lower(...).stages`` prints them.
        name: what the text is called in messages.

    Raises:
        TextError: the text does not parse or does not verify; the message names line and column.
    """
    try:
        module = Parser(context(), text, name).parse_module()
    except ParseError as error:
        span = error.span
        line = text.count("\n", 0, span.start) + 1
        column = span.start - (text.rfind("\n", 0, span.start) + 1)
        end = column + max(min(span.end, len(text)) - span.start, 1)
        raise TextError(error.msg, "", Location.at(name, line, column, end, text)) from None
    try:
        module.verify()
    except VerifyException as error:
        raise TextError(str(error).partition("\n")[0], "", Location.at(name, 1, source=text)) from None
    functions = [op for op in module.body.block.ops if isinstance(op, func.FuncOp)]
    if not functions:
        raise TextError("the text holds no func.func", "put the kernel's operations in a function",
                        Location.at(name, 1, source=text))
    kernels = {}
    for function in functions:
        function.detach()
        kernels[function.sym_name.data] = ParsedKernel(function, Location.at(name, 1, source=text))
    return Module(kernels)
