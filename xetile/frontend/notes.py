"""The other parties to an author's mistake: where the values that do not fit each other were made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xegpu.support import notes as parties
from xegpu.support.errors import Note
from xegpu.support.location import Location
from xetile.dialect.wg_map import WgMap
from xetile.frontend.tracer import current


def notes(at: Location, **values: Any) -> list[Note]:
    """A note for each traced value that was made on another line than ``at``; what is no traced value has none.

    Args:
        at: where the error is.
        values: what takes part in it, by the names that the message gives them.
    """
    return told(at, [(f"{name} is a {value.describe()}", value) for name, value in values.items()
                     if hasattr(value, "ssa")])


def dealt(wg_map: WgMap | None) -> str:
    """How a vector or a tile is dealt out to the subgroups, in words."""
    return "not dealt out" if wg_map is None else f"dealt out as {wg_map}"


def told(at: Location, values: Iterable[tuple[str, Any]]) -> list[Note]:
    """A note for each traced value that was made on another line than ``at``.

    Args:
        at: where the error is.
        values: what is said of each value, and the value.
    """
    tracer = current()
    arguments, starts = Location.of_definition(tracer.code), tracer.starts
    return parties.notes_at(at, [
        (f"{text}, {parties.definition_verb(value.ssa, starts)} here", parties.defined_at(value.ssa, arguments, starts))
        for text, value in values])
