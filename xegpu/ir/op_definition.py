"""Operation definitions: xDSL's ``irdl_op_definition`` with assembly formats that are parsed lazily."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xegpu.support.errors import error_parts, misread

Kind = TypeVar("Kind", bound=IRDLOperation)


def operation_definition(kind: type[Kind]) -> type[Kind]:
    """Class decorator: ``irdl_op_definition`` with an assembly format that is parsed at its first use.

    Most programs read and print no IR, and those that do use a part of all operations.
    """
    text = kind.__dict__.get("assembly_format")
    if text is None:
        return irdl_op_definition(kind)
    del kind.assembly_format
    definition = irdl_op_definition(kind)
    definition.get_irdl_definition().assembly_format = text
    definition.parse = classmethod(_parse)  # type: ignore[assignment]
    definition.print = _print  # type: ignore[method-assign, assignment]
    return definition


@cache
def format_of(kind: type[IRDLOperation]) -> FormatProgram:
    """Parsed assembly format of an operation.

    Raises:
        ParseError: the operation's format string is malformed.
    """
    definition = kind.get_irdl_definition()
    assert definition.assembly_format is not None
    from xegpu.ir.assembly_format import PropDictParser  # on first use, as xDSL imports its own

    return PropDictParser(definition.assembly_format, definition).parse_format()


def _parse(kind: type[Kind], parser: Parser) -> Kind:
    try:
        return format_of(kind).parse(parser, kind)
    except VerifyException as error:  # a type that is not of the operation's declaration
        code, message, hint = error_parts(error)
        misread(parser, code, f"{kind.name}: {message}\n{hint}")


def _print(operation: IRDLOperation, printer: Printer) -> None:
    format_of(type(operation)).print(printer, operation)
