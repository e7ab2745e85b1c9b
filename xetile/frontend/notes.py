"""Notes of diagnostics: "defined here" locations of the operands of an error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xegpu.support import notes as parties
from xegpu.support.errors import Note
from xegpu.support.location import Location
from xetile.dialect.wg_map import WgMap
from xetile.frontend.tracer import current


def notes(at: Location, **values: Any) -> list[Note]:
    """Note with the definition of each traced value that is not on the line ``at``.

    Args:
        at: where the error is.
        values: operands of the error, by their names in the message; untraced ones get no note.
    """
    return definition_notes(at, [(f"{name} is a {value.describe()}", value) for name, value in values.items()
                     if hasattr(value, "ssa")])


def describe_map(wg_map: WgMap | None) -> str:
    """Description of a distribution: ``distributed as wg_map(...)``."""
    return "not distributed" if wg_map is None else f"distributed as {wg_map}"


def definition_notes(at: Location, values: Iterable[tuple[str, Any]]) -> list[Note]:
    """Note with the definition of each traced value that is not on the line ``at``, with a text for each.

    Args:
        at: where the error is.
        values: text and value.
    """
    tracer = current()
    arguments, starts = Location.of_definition(tracer.code), tracer.starts
    return parties.notes_at(at, [
        (f"{text}, {parties.definition_verb(value.ssa, starts)} here", parties.defined_at(value.ssa, arguments, starts))
        for text, value in values])
