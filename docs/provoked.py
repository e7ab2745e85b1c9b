"""Errors of the catalogue that take a fault of a device, a tool or a file, by their codes.

Each function makes the fault, often by putting something broken in the place of a part of the package, and calls what
an author calls. Only pages marked ``provoked`` are made so; where a few lines of an author's own make an error, the
page has them.
"""

from __future__ import annotations

from collections.abc import Callable

BY_CODE: dict[str, Callable[[], object]] = {}


def provokes(code: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Put a function down as the one that makes the error of a code."""
    def put(act: Callable[[], object]) -> Callable[[], object]:
        BY_CODE[code] = act
        return act
    return put
