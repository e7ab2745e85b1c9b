"""Source locations: lines and columns of the author's files and MLIR texts."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FrameType

from xdsl.ir import Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

_DECORATORS = 100  # upper bound on the lines that decorators take above a ``def``
_STATEMENT = re.compile(r"(?:if|elif|while|for\b.+?\bin)\s+(.+?)\s*:\s*(?:#.*)?$")


@dataclass(frozen=True)
class Position:
    """Column range on one line of a file. Lines count from 1, columns from 0; ``end`` is exclusive."""

    file: str
    line: int
    column: int = 0
    end: int | None = None
    function: str = ""


@dataclass(frozen=True)
class Location:
    """Source location: a call chain of (code object, instruction), the innermost first.

    Columns are worked out only when the location is printed, so that keeping one for each operation is cheap.
    """

    chain: tuple[tuple[CodeType, int], ...] = ()
    fixed: Position | None = None
    source: str | None = None

    @classmethod
    def of_frame(cls, frame: FrameType | None, stop: CodeType | None = None,
                 keeps: Callable[[FrameType], bool] = lambda frame: True) -> Location:
        """The location of ``frame``, with its callers up to and including the frame that runs ``stop``.

        Args:
            frame: the innermost frame.
            stop: code of the outermost one; by default there are no callers.
            keeps: whether a caller is listed.
        """
        chain: list[tuple[CodeType, int]] = []
        while frame is not None:
            if keeps(frame):
                chain.append((frame.f_code, frame.f_lasti))
            if stop is None or frame.f_code is stop:
                break
            frame = frame.f_back
        return cls(tuple(chain))

    @classmethod
    def at(cls, file: str, line: int, column: int = 0, end: int | None = None, source: str | None = None) -> Location:
        """A location in a text; ``source`` is the complete text if it is in no file."""
        return cls((), Position(file, line, column, end), source)

    @classmethod
    def of_caller(cls, inside: tuple[str, ...]) -> Location:
        """Call site of the innermost frame outside the packages ``inside``."""
        frame: FrameType | None = sys._getframe(1)  # CPython: the caller's frame
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in inside:
            frame = frame.f_back
        return cls.of_frame(frame) if frame is None else cls(((frame.f_code, frame.f_lasti),))

    @classmethod
    def of_definition(cls, code: CodeType) -> Location:
        """Location of a function's name in its ``def`` line, below its decorators."""
        for line in range(code.co_firstlineno, code.co_firstlineno + _DECORATORS):
            text = linecache.getline(code.co_filename, line)
            if found := re.match(rf"\s*(?:async\s+)?def\s+({re.escape(code.co_name)})\b", text):
                start, end = (len(text[:found.start(1)].encode()), len(text[:found.end(1)].encode()))
                return cls.at(code.co_filename, line, start, end)
        return cls.at(code.co_filename, code.co_firstlineno)

    @property
    def positions(self) -> list[Position]:
        """Every position of the chain, the innermost first."""
        if self.fixed is not None:
            return [self.fixed]
        return [_position(code, instruction) for code, instruction in self.chain]

    @property
    def line(self) -> int:
        """The line number of the innermost position, 0 if nothing is known."""
        positions = self.positions
        return positions[0].line if positions else 0

    def render(self, callers: bool = True) -> str:
        """The source line with a caret under the column range, then the lines that called it, if they are wanted."""
        positions = self.positions
        if not positions:
            return ""
        lines = [*_excerpt(positions[0], self.source)]
        for caller in positions[1:] if callers else []:
            lines.append(f"  called from {caller.file}:{caller.line}, in {caller.function}")
        return "\n".join(lines)


def _position(code: CodeType, instruction: int) -> Position:
    name = code.co_name
    position = max(instruction, 0) // 2  # islice skips in C: a loop here costs seconds for a kernel of 400 transfers
    found = next(islice(code.co_positions(), position, None), None)
    if found is None or found[0] is None:
        return Position(code.co_filename, code.co_firstlineno, function=name)
    line, last, column, end = found
    return Position(code.co_filename, line or 0, column or 0, end if last == line else None, name)


def _excerpt(position: Position, source: str | None) -> list[str]:
    head = f"  {position.file}:{position.line}" + (f", in {position.function}" if position.function else "")
    if source is None:
        text = linecache.getline(position.file, position.line).rstrip("\n")
    else:
        lines = source.splitlines()
        text = lines[position.line - 1] if 0 < position.line <= len(lines) else ""
    if not text.strip():
        return [head]
    column = len(text.encode()[: position.column].decode(errors="ignore"))
    end = len(text) if position.end is None else len(text.encode()[: position.end].decode(errors="ignore"))
    indent = len(text) - len(text.lstrip())
    if position.end is None and (head_of := _STATEMENT.match(text, column)):
        column, end = head_of.span(1)  # before Python 3.12 a branch or a loop counts as its whole statement
    column = max(column, indent)
    caret = " " * (column - indent) + "^" * max(end - column, 1)
    return [head, f"    {text.strip()}", f"    {caret}"]


@irdl_attr_definition
class SourceLocation(Data[Location]):
    """Location attribute of an operation: the author's source line."""

    name = "xegpu.source"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Location:
        with parser.in_angle_brackets():
            file = parser.parse_str_literal()
            parser.parse_punctuation(":")
            return Location.at(file, parser.parse_integer())

    def print_parameter(self, printer: Printer) -> None:
        positions = self.data.positions
        with printer.in_angle_brackets():
            printer.print_string_literal(positions[0].file if positions else "")
            printer.print_string(f" : {self.data.line}")


def author_location(operation: Operation) -> Location | None:
    """Author's location of an operation; None where it has none."""
    location = operation.location
    return location.data if isinstance(location, SourceLocation) else None
