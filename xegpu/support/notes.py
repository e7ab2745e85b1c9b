"""The other parties to what a verifier or a pass finds: where the operands that do not fit were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from xdsl.dialects import scf
from xdsl.dialects.builtin import ShapedType
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.support.errors import Invalid, Note
from xegpu.support.location import Location, Position, SourceLocation

Starts = Mapping[SSAValue, SSAValue]
"""Of what loops carry that are still being recorded: the value before the loop."""


def parties(operation: Operation, error: Exception, arguments: Location | None = None,
            starts: Starts | None = None) -> list[Note]:
    """A note for each operand that was made on another line than the operation stands on.

    Args:
        operation: what does not verify.
        error: what its verifier found; an :class:`~xegpu.support.errors.Invalid` that is ``alone`` has no other party.
        arguments: where the kernel's arguments are named, while its function has no place yet.
        starts: what loops carry that are still being recorded.
    """
    if isinstance(error, Invalid) and error.alone:
        return []
    shaped = [value for value in operation.operands
              if isinstance(value.type, ShapedType) or hasattr(getattr(value.type, "data", value.type), "shape")]
    described = [(f"{_called(operation, value)} is {value.type}, {verb(value, starts)} here",
                  made_at(value, arguments, starts)) for value in shaped]
    return elsewhere(_place(operation), described)


def valued(at: Location | None, values: Mapping[str, SSAValue]) -> list[Note]:
    """A note for each value that was made on another line than ``at``.

    Args:
        at: where the error is.
        values: what takes part in it, by the names that the message gives them.
    """
    return elsewhere(at, [(f"{name} is {value.type}, {verb(value)} here", made_at(value))
                          for name, value in values.items()])


def elsewhere(at: Location | None, described: Iterable[tuple[str, Location | None]]) -> list[Note]:
    """Notes of what stands on other lines than ``at``, one for each place."""
    seen: set[Position] = set()
    notes = []
    for text, place in described:
        if place is not None and place.positions and _line(place) != _line(at) and place.positions[0] not in seen:
            seen.add(place.positions[0])
            notes.append(Note(text, place))
    return notes


def origin(value: SSAValue, starts: Starts | None = None) -> SSAValue:
    """A value, or for what a loop carries the one before the loop."""
    if isinstance(value, BlockArgument):
        above = value.owner.parent_op()
        if starts is not None and value in starts:
            return origin(starts[value], starts)
        if isinstance(above, scf.ForOp) and value.index > 0:
            return origin(above.iter_args[value.index - 1], starts)
    return value


def made_at(value: SSAValue, arguments: Location | None = None, starts: Starts | None = None) -> Location | None:
    """Where a value, or what it was before its loop, was made; None if that is not known."""
    owner = origin(value, starts).owner
    if isinstance(owner, Operation):
        return _place(owner)
    above = owner.parent_op()
    return None if above is None else _place(above) or arguments


def verb(value: SSAValue, starts: Starts | None = None) -> str:
    """How a value comes to be where :func:`made_at` says."""
    return "made" if isinstance(origin(value, starts).owner, Operation) else "given"


def _called(operation: Operation, value: SSAValue) -> str:
    """The name that the operation gives its operand."""
    return next((f"its operand {name}" for name in _names(operation, value)), "an operand")


def _names(operation: Operation, value: SSAValue) -> Iterator[str]:
    for name, _ in type(operation).get_irdl_definition().operands:  # type: ignore[attr-defined]
        held = getattr(operation, name, None)
        if held is value:
            yield name


def _place(operation: Operation) -> Location | None:
    return operation.location.data if isinstance(operation.location, SourceLocation) else None  # type: ignore


def _line(place: Location | None) -> tuple[str, int] | None:
    positions = place.positions if place is not None else []
    return (positions[0].file, positions[0].line) if positions else None
