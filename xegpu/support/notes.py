"""Notes of diagnostics ("defined here"): where the operands that do not fit were defined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from xdsl.dialects import scf
from xdsl.dialects.builtin import ShapedType
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.support.errors import Invalid, Note
from xegpu.support.location import Location, Position, author_location

InitialValues = Mapping[SSAValue, SSAValue]
"""Initial values, by block argument, of loops that are still being traced."""


def operand_notes(operation: Operation, error: Exception, arguments: Location | None = None,
            starts: InitialValues | None = None) -> list[Note]:
    """Notes for the shaped operands that are defined on other lines than the operation.

    Args:
        operation: the operation that does not verify.
        error: its verification error; an :class:`~xegpu.support.errors.Invalid` says which operands get notes.
        arguments: location of the kernel's signature, while its function has no location yet.
        starts: initial values of loops that are still being traced.
    """
    about = error.about if isinstance(error, Invalid) else None
    shaped = [value for value in operation.operands
              if isinstance(value.type, ShapedType) or hasattr(getattr(value.type, "data", value.type), "shape")]
    if about is not None:
        shaped = [value for name in about for value in shaped if name in _names(operation, value)]
    described = [(f"{_operand_name(operation, value)} is {value.type}, {definition_verb(value, starts)} here",
                  defined_at(value, arguments, starts)) for value in shaped]
    return notes_at(author_location(operation), described)


def value_notes(at: Location | None, values: Mapping[str, SSAValue]) -> list[Note]:
    """Notes for the values that are defined on other lines than ``at``.

    Args:
        at: location of the error.
        values: the values involved, by the names that the message gives them.
    """
    return notes_at(at, [(f"{name} is {value.type}, {definition_verb(value)} here", defined_at(value))
                          for name, value in values.items()])


def notes_at(at: Location | None, described: Iterable[tuple[str, Location | None]]) -> list[Note]:
    """Notes at other lines than ``at``, one for each source position."""
    seen: set[Position] = set()
    notes = []
    for text, location in described:
        if (location is not None and location.positions and _line(location) != _line(at)
                and location.positions[0] not in seen):
            seen.add(location.positions[0])
            notes.append(Note(text, location))
    return notes


def initial_value(value: SSAValue, starts: InitialValues | None = None) -> SSAValue:
    """The value itself, or the initial value of a loop-carried one."""
    if isinstance(value, BlockArgument):
        above = value.owner.parent_op()
        if starts is not None and value in starts:
            return initial_value(starts[value], starts)
        if isinstance(above, scf.ForOp) and value.index > 0:
            return initial_value(above.iter_args[value.index - 1], starts)
        if isinstance(above, scf.WhileOp):
            return initial_value(_forwarded_first(above, value), starts)
    return value


def _forwarded_first(loop: scf.WhileOp, argument: BlockArgument) -> SSAValue:
    """The value that a loop forwards to a block argument first."""
    if argument.owner is loop.before_region.block:
        return loop.arguments[argument.index]
    end = loop.before_region.block.last_op
    assert isinstance(end, scf.ConditionOp)
    return end.args[argument.index]


def defined_at(value: SSAValue, arguments: Location | None = None,
               starts: InitialValues | None = None) -> Location | None:
    """Location of a value's definition (of a loop-carried value: of its initial value); None if unknown."""
    owner = initial_value(value, starts).owner
    if isinstance(owner, Operation):
        return author_location(owner)
    above = owner.parent_op()
    return None if above is None else author_location(above) or arguments


def definition_verb(value: SSAValue, starts: InitialValues | None = None) -> str:
    """The verb for a value at :func:`defined_at`: results are made, arguments are given."""
    return "made" if isinstance(initial_value(value, starts).owner, Operation) else "given"


def _operand_name(operation: Operation, value: SSAValue) -> str:
    """Name of an operand in the operation's declaration, for messages."""
    return next((f"its operand {name}" for name in _names(operation, value)), "an operand")


def _names(operation: Operation, value: SSAValue) -> Iterator[str]:
    for name, _ in type(operation).get_irdl_definition().operands:  # type: ignore[attr-defined]
        if getattr(operation, name, None) is value:
            yield name


def _line(location: Location | None) -> tuple[str, int] | None:
    positions = location.positions if location is not None else []
    return (positions[0].file, positions[0].line) if positions else None
