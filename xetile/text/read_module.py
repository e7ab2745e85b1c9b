"""Text to module: errors of xDSL and of the rules become TextErrors."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError

from xegpu.support.errors import UNREADABLE, ElementTypeError, Note, TextError, XeError, error_parts
from xegpu.support.location import Location, SourceLocation
from xegpu.support.notes import value_notes
from xetile.text.llvm import LLVMReader, is_llvm
from xetile.text.parse_hints import hint_of, reworded
from xetile.text.reader import Reader, V1Reader, is_v1

_DEEPEST = 60
"""Nested brackets that are read: each takes the recursive parser a few frames of Python's thousand."""
_PASSED_OVER = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|->|=>|<=|>=')
"""Comments, strings and arrows, whose brackets do not nest."""
_BRACKETS = re.compile(r"[][(){}<>]")


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
    reader: Reader | None = None
    try:
        reader = (LLVMReader if is_llvm(text) else V1Reader if is_v1(text) else Reader)(text, name)
        module = reader.parse_module()
    except TextError:
        raise
    except ParseError as error:
        code, message, hint = error_parts(error, UNREADABLE)
        start, end = _span(text, error, reader)
        if code == UNREADABLE:
            code, message, hint = reworded(message, text[error.span.start:error.span.end].strip())
        location = _range(text, name, *((start, end) if text[start:end].strip() else _last_word(text)))
        notes = _notes(error, text[start:end], reader)
        raise TextError(code, message, hint or hint_of(message), location, notes) from None
    except Exception as error:  # errors of attributes' and types' own parsers have no common base class
        location = reader.here() if reader else _range(text, name, 0, 1)
        message, _, hint = str(getattr(error, "message", error)).partition("\n")
        code = error.code if isinstance(error, XeError) else UNREADABLE
        message = f"this does not make sense here: {message}"
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
