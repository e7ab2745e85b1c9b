"""Errors with a stable code that point at the author's source line.

Every failure that an author can cause is an :class:`XeError`. It carries a code (``XT1250``), whose page in
``xetile/errors`` explains it, one line that says what is wrong, a :class:`~xegpu.support.location.Location` (where,
in the author's own file), notes on other operands (where the one that does not fit was made), and one line that
says what would work. What an operation's own verifier finds is an :class:`Invalid`, what a parser finds is a
:func:`misread`; whoever knows the source location turns them into an XeError.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from xegpu.support.location import Location, author_location

UNDECLARED = "XT2001"
"""Code of xDSL's own verification errors: an operation that violates its declaration."""
UNREADABLE = "XT2002"
"""Code of xDSL's own parse errors: a text that is not MLIR."""
BUG = "this is a mistake of xetile, and not yours: please report it with the kernel"
"""Hint of an internal error, one that no author is known to be able to cause."""
_CODE = re.compile(r"XT\d{4}")


@dataclass(frozen=True)
class Note:
    """Diagnostic note: text about another value that takes part in an error, and its location."""

    text: str
    location: Location

    def render(self) -> str:
        """The text, then the line as :meth:`Location.render` shows it."""
        lines = self.location.render(callers=False).splitlines()
        return "\n".join([f"  note: {self.text}", *(f"  {line}" for line in lines)])


class XeError(Exception):
    """Diagnostic for the author: code, message, hint, source location and notes.

    Args:
        code: the code of the mistake, as in ``"XT1250"``; the catalogue, ``xetile/errors``, explains it.
        message: what is wrong, in one line, with the shapes and types involved.
        hint: what would work.
        location: where the author wrote it; filled in later by :meth:`at` if it is not known here.
        notes: notes on the other values that take part in it.

    Raises:
        TypeError: ``code`` is no code.
    """

    def __init__(self, code: str, message: str, hint: str = "", location: Location | None = None,
                 notes: Iterable[Note] = ()) -> None:
        super().__init__(message)
        self.code = valid_code(code)
        self.message = message
        self.hint = hint
        self.location = location
        self.notes = list(notes)
        self._launched = False

    def at(self, location: Location | None) -> XeError:
        """This error, with ``location`` unless it has a location already."""
        if self.location is None:
            self.location = location
        return self

    def called_from(self, caller: Location) -> XeError:
        """This error, with the line that launched the kernel as the outermost caller, or as its location."""
        if self.location is None:
            self.location = caller
        elif self.location.chain and not self._launched:
            self.location = Location(self.location.chain + caller.chain)
        self._launched = True
        return self

    def __str__(self) -> str:
        parts = [f"[{self.code}] {self.message}"]
        if self.location is not None and (excerpt := self.location.render()):
            parts.append(excerpt)
        parts += [note.render() for note in self.notes]
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


class MemberError(XeError, AttributeError):
    """A method or an attribute that a value in a kernel does not have."""


class TargetError(XeError, ValueError):
    """A feature that the chosen target does not have."""


class DeviceError(XeError, RuntimeError):
    """Error of a device: missing, of another kind than the queue, or refusing a launch."""


class ToolError(XeError, RuntimeError):
    """A compiler that is missing, or that failed; ``log`` is what it printed."""

    def __init__(self, code: str, message: str, hint: str = "", location: Location | None = None,
                 log: str = "") -> None:
        super().__init__(code, message, hint, location)
        self.log = log


class CheckError(XeError, AssertionError):
    """A run-time failure of a kernel: a failed assertion, or a sanitizer's finding."""


class TextError(XeError, ValueError):
    """MLIR text that does not parse or does not verify."""


class Invalid(VerifyException):
    """Verification error with a code, raised by the verifier of an operation or attribute.

    It has no source location; :func:`error_parts` splits it into code, message and hint.

    Args:
        code: the code of the mistake.
        text: what is wrong; behind a line break, what would work.
        alone: whether only the operation's attributes are at fault; else notes tell where the operands are defined.
        kind: class of the error that an author gets.
        about: the operands that get notes, by their names in the declaration of the operation; None for all.
    """

    def __init__(self, code: str, text: str, alone: bool = False, kind: type[XeError] = ShapeError,
                 about: tuple[str, ...] | None = None) -> None:
        super().__init__(text)
        self.code = valid_code(code)
        self.kind = kind
        self.about = () if alone else about

    @classmethod
    def of(cls, error: XeError, alone: bool = False) -> Invalid:
        """An :class:`XeError` of another check, as a verification error."""
        return cls(error.code, f"{error.message}\n{error.hint}" if error.hint else error.message, alone, type(error))


def plural(count: int, noun: str) -> str:
    """Count of a noun in a message: ``1 rank``, ``2 ranks``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def valid_code(code: str) -> str:
    """Validate the form of an error code (``XT`` and four digits) and return it.

    Raises:
        TypeError: it is not a code, which is a bug of this package and not an author's.
    """
    if not _CODE.fullmatch(code):
        raise TypeError(f"{code!r} is not an error code")
    return code


def misread(parser: Any, code: str, text: str, at: Any = None) -> NoReturn:
    """Raise a parse error with a code.

    Args:
        parser: xDSL's parser, whose current token is the mistake.
        code: the code of the mistake.
        text: what is wrong; behind a line break, what would work.
        at: a span or a position of the parser's; by default its current token.

    Raises:
        ParseError: always.
    """
    try:
        parser.raise_error(text, at)
    except ParseError as error:
        error.code = valid_code(code)  # type: ignore[attr-defined]
        raise
    raise AssertionError("a parser's raise_error raises")


def error_parts(error: Exception, otherwise: str = UNDECLARED) -> tuple[str, str, str]:
    """Code, message and hint of a verification or parse error.

    Args:
        error: a VerifyException or a ParseError.
        otherwise: the code of an error that has none, as those of xDSL itself.
    """
    message, _, hint = str(getattr(error, "msg", error)).strip().partition("\n")
    return getattr(error, "code", otherwise), message, hint


def error_class(error: Exception) -> type[XeError]:
    """Class of the error that an author gets for a verification error."""
    return error.kind if isinstance(error, Invalid) else ShapeError


def located(error: XeError, operation: Operation) -> XeError:
    """``error`` with the author's location of ``operation``."""
    return error.at(author_location(operation))
