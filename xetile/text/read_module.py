"""Text to module: errors of xDSL and of the rules become TextErrors. XeGPU v1 (XeGPU-older.md) has a reader here.

A text is of that generation if it says so, by the attribute ``xegpu.generation = "older"`` of its module, or if it
has what only that one has: a ``mode``, a ``vnni_axis``, an ``mfence``, or a map that is named ``sg`` in a
``tdesc_attr``.
"""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.utils.exceptions import ParseError

from xegpu.interop.v1.exporter import exported
from xegpu.interop.v1.importer import converted
from xegpu.interop.v1.types import OlderDescType
from xegpu.rewrite.verifier import verify
from xegpu.support.errors import UNREADABLE, ElementTypeError, Note, TextError, XeError, error_parts
from xegpu.support.location import Location, SourceLocation
from xegpu.support.lookahead import next_token
from xegpu.support.notes import value_notes
from xetile.dialect import context
from xetile.dialect.stage import STAGE, TARGET
from xetile.text import xegpu_ops
from xetile.text.gpu_module import printed
from xetile.text.llvm import LLVMReader, is_llvm
from xetile.text.parse_hints import hint_of, is_miscounted, reworded, vector_expected
from xetile.text.reader import FOREIGN_READERS, Reader
from xetile.text.reader.dense_literals import MOST_ELEMENTS, too_many_elements
from xetile.text.types import read_tensor_desc

_DEEPEST = 60
"""Nested brackets that are read: each takes the recursive parser a few frames of Python's thousand."""
_PASSED_OVER = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|->|=>|<=|>=')
"""Comments, strings and arrows, whose brackets do not nest."""
_MOST_LINES = 30_000
"""Lines that are read, those with comments alone aside: each takes a few tenths of a millisecond."""
_LINE = re.compile(r"^[ \t]*(?!//)(\S)", re.MULTILINE)
_DENSE = re.compile(r"\bdense<[^>]*")
_BRACKETS = re.compile(r"[][(){}<>]")
GENERATION, OLDER = "xegpu.generation", "older"
"""Module attribute with the dialect's generation, and its value."""
_V1_READERS = {**FOREIGN_READERS, **dict.fromkeys(xegpu_ops.OLDER_RULES, xegpu_ops.read_v1_operation)}
_COMMENT = re.compile(r"//[^\n]*")
_SIGNS = re.compile(rf'{re.escape(GENERATION)}\s*=\s*"{OLDER}"|[{{,]\s*mode\s*=\s*\w+|\bvnni_axis\s*='
                    r"|\b(?:XeGPU|XeGpu|xegpu)\.mfence\b|[<,]\s*sg\s*=\s*#")


def descriptor_of_tile(parser: Reader) -> Any:
    """Descriptor type of ``tile<...>`` in XeGPU texts; None before anything else."""
    if next_token(parser).text != "tile" or parser.descriptor is None:
        return None
    parser._consume_token()  # private: the word is no keyword that a public function takes
    return parser.descriptor(read_tensor_desc(parser))


def is_v1(text: str) -> bool:
    """Whether a text is XeGPU v1 (XeGPU-older.md)."""
    return isinstance(text, str) and _SIGNS.search(_COMMENT.sub("", text)) is not None


class V1Reader(Reader):
    """Reader of XeGPU v1, which also calls descriptors tiles."""

    readers = _V1_READERS
    descriptor: type[Any] | None = OlderDescType

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        self.ctx = context()

    def parse_optional_type(self) -> Any:
        """Parse an optional type; ``tile<8x16xf32>`` is the document's spelling of some descriptors."""
        return descriptor_of_tile(self) or super().parse_optional_type()


def from_v1(functions: list[func.FuncOp]) -> list[func.FuncOp]:
    """Kernels of XeGPU v1 converted to the present dialect.

    Raises:
        XeError: something in them cannot be; it points at the text's line.
    """
    kernels = [converted(function) for function in functions]
    for function in kernels:
        verify(function)
    return kernels


def v1_text(module: ModuleOp) -> str:
    """Text in XeGPU v1 of kernels of the present dialect.

    Raises:
        XeError: something in them has no form there; it points at the author's line.
    """
    attributes = {name: value for name, value in module.attributes.items() if name not in (STAGE, TARGET)}
    functions = [exported(function) for function in module.body.block.ops if isinstance(function, func.FuncOp)]
    for function in functions:
        verify(function)
    return printed(ModuleOp(functions, {**attributes, GENERATION: StringAttr(OLDER)}))


def read_module(text: str, name: str) -> tuple[ModuleOp, Reader]:
    """Parse a text: its module, and the reader.

    Raises:
        TextError: the text does not parse.
        ElementTypeError: it is no text.
    """
    if not isinstance(text, str):
        raise ElementTypeError("XT2013", f"xt.parse reads a str, not a {type(text).__name__}", "pass the text itself",
                               Location.of_caller(("xetile",)))
    _check_nesting(text, name)
    _check_lengths(text, name)
    reader: Reader | None = None
    try:
        reader = (V1Reader if is_v1(text) else LLVMReader if is_llvm(text) else Reader)(text, name)
        module = reader.parse_module()
    except TextError:
        raise
    except ParseError as error:
        code, message, hint = error_parts(error, UNREADABLE)
        start, end = _span(text, error, reader)
        if code == UNREADABLE:
            code, message, hint = reworded(message, text[error.span.start:error.span.end].strip())
        if reader is not None and is_miscounted(error.msg):
            start, end = reader.operation_name()
        location = _range(text, name, *((start, end) if text[start:end].strip() else _last_word(text)))
        notes = _notes(error, text[start:end], reader)
        raise TextError(code, message, hint or hint_of(message), location, notes) from None
    except Exception as error:  # errors of attributes' and types' own parsers have no common base class
        location = reader.here() if reader else _range(text, name, 0, 1)
        before, _, hint = str(getattr(error, "message", error)).partition("\n")
        code = error.code if isinstance(error, XeError) else UNREADABLE
        message, hint = vector_expected(before, hint)
        message = message if message != before else f"this does not make sense here: {message}"
        raise TextError(code, message, hint or hint_of(message), location) from error
    if not isinstance(module.location, SourceLocation):  # the module that the parser puts around functions
        module.location = SourceLocation(_range(text, name, 0, 1))  # type: ignore[assignment]
    return module, reader


def _check_nesting(text: str, name: str) -> None:
    """Raise if brackets are nested deeper than the parser, which is recursive, can follow."""
    depth = 0
    for found in _BRACKETS.finditer(_PASSED_OVER.sub(lambda passed: " " * len(passed[0]), text)):
        depth = max(depth + (1 if found[0] in "([{<" else -1), 0)
        if depth > _DEEPEST:
            raise TextError(UNREADABLE, f"brackets are nested more than {_DEEPEST} deep", "close brackets before this",
                            _range(text, name, found.start(), found.end()))


def _check_lengths(text: str, name: str) -> None:
    """Raise if a text has more lines, or a constant in it more elements, than are read in seconds."""
    if text.count("\n") > _MOST_LINES:
        lines = [found.start(1) for found in _LINE.finditer(text)]
        if len(lines) > _MOST_LINES:
            start = lines[_MOST_LINES]
            raise TextError("XT2079", f"the text has {len(lines)} lines, and {_MOST_LINES} are read",
                            "repeat with scf.for, or parse each function by itself",
                            _range(text, name, start, start + 1))
    for found in _DENSE.finditer(text):
        if (count := found[0].count(",") + 1) > MOST_ELEMENTS:
            raise TextError(*too_many_elements(count), _range(text, name, found.start(), found.start() + len("dense")))


def _notes(error: ParseError, word: str, reader: Reader | None) -> list[Note]:
    """Notes of an error: those of the rule; the definition of the value whose name is at the error."""
    values = reader.ssa_values.get(word.removeprefix("%"), ()) if reader and word.startswith("%") else ()
    notes: list[Note] = getattr(error, "notes", [])
    return notes or value_notes(None, dict.fromkeys([word], values[0]) if len(values) == 1 else {})


def _last_word(text: str) -> tuple[int, int]:
    """Span of the last word of a text, for errors about a missing part."""
    end = len(text.rstrip())
    return max(text.rstrip().rfind(" "), text.rstrip().rfind("\n")) + 1, end


def _span(text: str, error: ParseError, reader: Reader | None) -> tuple[int, int]:
    """Span of an error: xDSL reports undefined values at the end of the text only."""
    unknown = re.match(r"values used but not defined: \[(%[^\],]+)", error.msg)
    found = re.search(rf"{re.escape(unknown[1])}\b", text) if unknown else None
    if found or reader is None:
        return found.span() if found else (error.span.start, error.span.end)
    return reader.within(error.span.start, error.span.end)


def _range(text: str, name: str, start: int, end: int) -> Location:
    """Location of a span of the text."""
    line, column = text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1)
    return Location.at(name, line, column, column + max(end - start, 1), text)
