"""Line mapping: the stages of a kernel line by line, each with its source line."""

from __future__ import annotations

import difflib
import linecache
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from typing import Any, Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.printer import Printer

from codegen.perf.isa import hot_lines
from xegpu.support.location import Location, author_location
from xegpu.target.targets import Target


class Viewable(Protocol):
    """Lowered kernel, as the viewer uses it."""

    target: Target
    location: Location

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def modules(self) -> dict[str, ModuleOp]:
        """Every stage as IR, in order."""

    @property
    def emitted(self) -> Any:
        """Emitted text and the kernel's name in it."""

    @property
    def opencl(self) -> str:
        """Emitted OpenCL C text."""

    def report(self) -> Any:
        """Report of the machine code."""

    def isa(self) -> Any:
        """The disassembly."""


_LOCATION = re.compile(r"\s*// (?P<file>[^:]*):(?P<line>\d+)\s*$")
"""How the emitted text names the line of the source that the lines below it come from."""


@dataclass(frozen=True)
class Line:
    """Line of a text, with its source line.

    Attributes:
        text: the line.
        origin: the number of the source line that it came from, 0 where that is not known.
        mark: ``"+"`` for what the stage before has not, ``"hot"`` for the hot loop, else empty.
    """

    text: str
    origin: int = 0
    mark: str = ""


@dataclass(frozen=True)
class Text:
    """Named text: a stage, the emitted code, the disassembly.

    Attributes:
        name: what it is.
        lines: its lines.
        removed: how many lines of the stage before it has not.
    """

    name: str
    lines: tuple[Line, ...]
    removed: int = 0


@dataclass(frozen=True)
class Source:
    """Source text around a kernel.

    Attributes:
        file: its name.
        first: the number of its first line here.
        lines: the lines.
    """

    file: str
    first: int
    lines: tuple[str, ...]


class _Counting(StringIO):
    """Text stream that counts its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.line = 0

    def write(self, text: str) -> int:
        self.line += text.count("\n")
        return super().write(text)


class _Mapped(Printer):
    """Printer that records the line at which each operation starts."""

    def __init__(self, text: _Counting, file: str) -> None:
        super().__init__(stream=text)
        self._text, self._file = text, file
        self.origins: dict[int, int] = {}

    def print_op(self, op: Operation) -> None:
        location = author_location(op)
        line = 0 if location is None else origin_of(location, self._file)
        if line:
            self.origins[self._text.line] = line
        super().print_op(op)


def origin_of(location: Location, file: str) -> int:
    """Source line in ``file`` of a location, the innermost of a chain of calls; 0 if there is none."""
    return next((position.line for position in location.positions if position.file == file), 0)


def mapped(name: str, module: ModuleOp, file: str) -> Text:
    """Text of a stage."""
    text = _Counting()
    printer = _Mapped(text, file)
    printer.print_op(module)
    lines = text.getvalue().splitlines()
    return Text(name, tuple(Line(line, printer.origins.get(number, 0)) for number, line in enumerate(lines)))


def emitted(name: str, text: str, file: str) -> Text:
    """Text of emitted code, whose comments have the source lines."""
    found, origin = [], 0
    for line in text.splitlines():
        if location := _LOCATION.match(line):
            origin = int(location["line"]) if file.endswith(location["file"]) else 0
        found.append(Line(line, origin))
    return Text(name, tuple(found))


def marked(text: Text, before: Text) -> Text:
    """Diff marks: the lines of a text that the one before it does not have."""
    matcher = difflib.SequenceMatcher(None, [line.text for line in before.lines], [line.text for line in text.lines],
                                      autojunk=False)
    lines, removed = list(text.lines), 0
    for kind, low, high, first, last in matcher.get_opcodes():
        if kind == "equal":
            continue
        removed += high - low
        lines[first:last] = [Line(line.text, line.origin, "+") for line in lines[first:last]]
    return Text(text.name, tuple(lines), removed)


def machine_code(text: str, name: str) -> Text:
    """Disassembly with its hot loop marked."""
    hot = hot_lines(text)
    return Text(name, tuple(Line(line, 0, "hot" if number in hot else "") for number, line in
                            enumerate(text.splitlines())))


def stages_of(lowered: Viewable, file: str) -> list[Text]:
    """Text of every stage, with diff marks, and of the OpenCL C code."""
    texts = [mapped(name, module, file) for name, module in lowered.modules.items()]
    found = texts[:1] + [marked(text, before) for before, text in pairwise(texts)]
    return [*found, emitted("OpenCL C", lowered.opencl, file)]


def source_of(lowered: Viewable, origins: Iterable[int], location: Location) -> Source:
    """Source lines from the kernel's definition to the last line that a stage refers to."""
    position = location.positions[0]
    used = [line for line in origins if line]
    first, last = min([position.line, *used]), max([position.line, *used])
    lines = _lines(position.file, location.source)
    while first > 1 and lines[first - 2].lstrip().startswith("@"):
        first -= 1
    return Source(position.file, first, tuple(lines[first - 1:last]))


def _lines(file: str, source: str | None) -> Sequence[str]:
    return source.splitlines() if source is not None else [line.rstrip("\n") for line in linecache.getlines(file)]
