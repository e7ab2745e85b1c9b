"""Notes of diagnostics: "defined here" locations of the operands of an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from xegpu.support import notes as definitions
from xegpu.support.errors import Invalid, Note, XeError, error_parts
from xegpu.support.location import Location
from xetile.frontend.tracer import current

T = TypeVar("T")


def notes(at: Location, **values: Any) -> list[Note]:
    """Note with the definition of each traced value that is not on the line ``at``.

    Args:
        at: where the error is.
        values: operands of the error, by their names in the message; untraced ones get no note.
    """
    return definition_notes(at, [(f"{name} is a {value.describe()}", value) for name, value in values.items()
                     if hasattr(value, "ssa")])


_LABELS = {"a": "A", "b": "B", "acc": "the accumulator"}
"""Operands of products, as messages call them."""


def at_author_line(check: Callable[[], T], **values: Any) -> T:
    """Result of a check that the verifiers of the dialects share; what it raises gets the author's line.

    Args:
        check: raises an XeError, or an Invalid as in a verifier.
        values: operands for the notes of the error: by their names in the operation's declaration, or, of an error
            that is about all of them, as notes are to call them.
    """
    try:
        return check()
    except XeError as error:
        raise error.at(current().location()) from None
    except Invalid as error:
        location = current().location()
        names = values if error.about is None else [name for name in error.about if name in values]
        others = notes(location, **{_LABELS.get(name, name): values[name] for name in names})
        raise error.kind(*error_parts(error), location, others) from None


def definition_notes(at: Location, values: Iterable[tuple[str, Any]]) -> list[Note]:
    """Note with the definition of each traced value that is not on the line ``at``, with a text for each.

    Args:
        at: where the error is.
        values: text and value.
    """
    tracer = current()
    arguments, starts = Location.of_definition(tracer.code), tracer.starts
    return definitions.notes_at(at, [
        (f"{text}, {definitions.definition_verb(value.ssa, starts)} here",
         definitions.defined_at(value.ssa, arguments, starts)) for text, value in values])
