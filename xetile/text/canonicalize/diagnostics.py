"""Errors in parsed text at the operation they are about."""

from __future__ import annotations

from typing import NoReturn

from xdsl.ir import Operation

from xegpu.support.errors import TextError
from xegpu.support.location import author_location
from xegpu.support.notes import notes_at


def fail_at(operation: Operation, code: str, message: str, hint: str, *related: tuple[str, Operation]) -> NoReturn:
    """Raise an error at an operation.

    Args:
        operation: what is wrong; the message begins with its name.
        code: the code of the mistake.
        message: what is wrong.
        hint: what would work.
        related: other operations, each with its note.

    Raises:
        TextError: always.
    """
    location = author_location(operation)
    notes = notes_at(location, [(text, author_location(other)) for text, other in related])
    raise TextError(code, f"{operation.name}: {message}", hint, location, notes)


def no_view(operation: Operation, takers: str) -> NoReturn:
    """Refuse an operation on a view of a part of an array; ``takers`` are the operations that views are for."""
    fail_at(operation, "XT2080", "it cannot take a view of a part of an array",
            f"pass the array itself, with the view's offsets added; such views are for {takers}")


def no_dimension(operation: Operation) -> NoReturn:
    """Refuse a ``memref.dim`` of an unknown dimension."""
    fail_at(operation, "XT2073",
            "which dimension is meant is not known", "give a constant index below the array's rank")
