"""The other parties to an author's mistake: where the values that do not fit each other were made."""

from __future__ import annotations

from typing import Any

from xegpu import parties
from xegpu.errors import Note
from xegpu.places import Location
from xetile.tracer import current


def notes(at: Location, **values: Any) -> list[Note]:
    """A note for each traced value that was made on another line than ``at``; what is no traced value has none.

    Args:
        at: where the error is.
        values: what takes part in it, by the names that the message gives them.
    """
    arguments = Location.of_definition(current().code)
    return parties.elsewhere(at, [
        (f"{name} is a {value.describe()}, {parties.verb(value.ssa)} here", parties.made_at(value.ssa, arguments))
        for name, value in values.items() if hasattr(value, "ssa")])
