"""Errors that point at the author's source line.

Every failure that an author can cause is an :class:`XeError`. It carries a :class:`Location` (where, in the
author's own file), one line that says what is wrong, and one that says what would work.
"""

from __future__ import annotations

import linecache
import re
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

_DECORATORS = 100  # lines that decorators may take above a function
_STATEMENT = re.compile(r"(?:if|elif|while|for\b.+?\bin)\s+(.+?)\s*:\s*(?:#.*)?$")


@dataclass(frozen=True)
class Position:
    """A range of columns on one line of a file. Lines count from 1, columns from 0; ``end`` is exclusive."""

    file: str
    line: int
    column: int = 0
    end: int | None = None
    function: str = ""


@dataclass(frozen=True)
class Location:
    """Where the author wrote something: a chain of (code, instruction), the innermost first.

    Columns are worked out only when the location is printed, so that keeping one for each operation is cheap.
    """

    chain: tuple[tuple[CodeType, int], ...] = ()
    fixed: Position | None = None
    source: str | None = None

    @classmethod
    def of_frame(cls, frame: FrameType | None, stop: CodeType | None = None) -> Location:
        """The location of ``frame``, with its callers up to and including the frame that runs ``stop``."""
        chain: list[tuple[CodeType, int]] = []
        while frame is not None:
            chain.append((frame.f_code, frame.f_lasti))
            if stop is None or frame.f_code is stop:
                break
            frame = frame.f_back
        return cls(tuple(chain))

    @classmethod
    def at(cls, file: str, line: int, column: int = 0, end: int | None = None, source: str | None = None) -> Location:
        """A location in a text; ``source`` is the whole text if it is in no file."""
        return cls((), Position(file, line, column, end), source)

    @classmethod
    def of_caller(cls, inside: tuple[str, ...]) -> Location:
        """Where the code outside the packages ``inside`` called into them."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in inside:
            frame = frame.f_back
        return cls.of_frame(frame) if frame is None else cls(((frame.f_code, frame.f_lasti),))

    @classmethod
    def of_definition(cls, code: CodeType) -> Location:
        """The name of a function where it is defined, below its decorators."""
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

    def render(self) -> str:
        """The source line with a caret under the column range, then the lines that called it."""
        positions = self.positions
        if not positions:
            return ""
        lines = [*_excerpt(positions[0], self.source)]
        for caller in positions[1:]:
            lines.append(f"  called from {caller.file}:{caller.line}, in {caller.function}")
        return "\n".join(lines)


def _position(code: CodeType, instruction: int) -> Position:
    name = code.co_name
    positions = code.co_positions()
    found = next((p for i, p in enumerate(positions) if i == max(instruction, 0) // 2), None)
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


class XeError(Exception):
    """Something that the author can mend.

    Args:
        message: what is wrong, in one line, with the shapes and types involved.
        hint: what would work.
        location: where the author wrote it; filled in later by :meth:`at` if it is not known here.
    """

    def __init__(self, message: str, hint: str = "", location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.location = location
        self._launched = False

    def at(self, location: Location | None) -> XeError:
        """This error, placed at ``location`` unless it has a place already."""
        if self.location is None:
            self.location = location
        return self

    def called_from(self, caller: Location) -> XeError:
        """This error, with the line that launched the kernel as the last of its callers, or as its place."""
        if self.location is None:
            self.location = caller
        elif self.location.chain and not self._launched:
            self.location = Location(self.location.chain + caller.chain)
        self._launched = True
        return self

    def __str__(self) -> str:
        parts = [self.message]
        if self.location is not None and (excerpt := self.location.render()):
            parts.append(excerpt)
        if self.hint:
            parts.append(f"  help: {self.hint}")
        return "\n".join(parts)


class ShapeError(XeError, ValueError):
    """Shapes, sizes or maps that do not fit each other."""


class ElementTypeError(XeError, TypeError):
    """An element type, or a kind of argument, that an operation does not take."""


class RankError(XeError, IndexError):
    """The wrong number of dimensions, indices or offsets."""


class ArgumentError(XeError, TypeError):
    """A call that does not fit the kernel: the number of arguments, an unknown or a missing constant."""


class TraceError(XeError, ValueError):
    """Python that cannot be recorded: a traced value in ``if``, a value used outside its loop."""


class TargetError(XeError, ValueError):
    """What the chosen target cannot do."""


class DeviceError(XeError, RuntimeError):
    """No such device, a queue that does not fit, or a launch that the driver refused."""


class ToolError(XeError, RuntimeError):
    """A compiler that is missing, or that failed; ``log`` is what it printed."""

    def __init__(self, message: str, hint: str = "", location: Location | None = None, log: str = "") -> None:
        super().__init__(message, hint, location)
        self.log = log


class CheckError(XeError, AssertionError):
    """What a kernel did while it ran: an assertion of its author that does not hold, or a finding of a check."""


class TextError(XeError, ValueError):
    """MLIR text that does not parse or does not verify."""
