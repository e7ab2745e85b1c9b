"""Follows a tile or descriptor back to the operations that made it."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.ir.traits import moves_view, written_operand
from xegpu.support.location import Location, SourceLocation


def makings(value: SSAValue) -> set[SSAValue]:
    """The values that ``value`` may be moved, carried and cast from: results of a making, or function arguments.

    A loop or a branch carries more than one where its body makes a new tile in the place of the one that it was given.
    """
    found: set[SSAValue] = set()
    seen: set[SSAValue] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        before = list(_before(value))
        waiting += before
        if not before:
            found.add(value)
    return found


def _before(value: SSAValue) -> Iterator[SSAValue]:
    if isinstance(value, BlockArgument):
        loop = value.block.parent_op()
        if isinstance(loop, scf.ForOp) and value.index > 0:
            yield from _carried(loop, value.index - 1)
        return
    owner = value.owner
    assert isinstance(owner, Operation)
    if isinstance(owner, scf.ForOp):
        yield from _carried(owner, owner.results.index(value))  # type: ignore[arg-type]
    elif isinstance(owner, scf.IfOp):  # the branch that keeps what was there before comes first
        ends = [region.block.last_op for region in reversed(owner.regions)]
        yield from (end.operands[owner.results.index(value)] for end in ends if end is not None)  # type: ignore
    elif moves_view(type(owner)):
        yield owner.operands[0]


def _carried(loop: scf.ForOp, position: int) -> Iterator[SSAValue]:
    terminator = loop.body.block.last_op
    assert terminator is not None
    yield loop.iter_args[position]
    yield terminator.operands[position]


def arrays_of(value: SSAValue) -> set[SSAValue]:
    """What a tile or descriptor may stand on: function arguments, arrays in shared local memory, and addresses."""
    if isinstance(value.type, (IntegerType, IndexType)):
        return {value}  # an address, which stands on no array
    found: set[SSAValue] = set()
    for made in makings(value):
        owner = made.owner
        found |= arrays_of(owner.operands[0]) if isinstance(owner, Operation) and owner.operands else {made}
    return found


def array_of(value: SSAValue) -> SSAValue:
    """What a memref, or what is made on it, stands on; for a tile that is carried, the first it stands on.

    It is a function argument, or the result of an allocation in shared local memory.
    """
    while True:
        if isinstance(value.owner, Operation) and not isinstance(value.owner, (scf.ForOp, scf.IfOp)):
            if not value.owner.operands:
                return value
            value = value.owner.operands[0]
            if isinstance(value.type, (IntegerType, IndexType)):
                return value  # an address
        else:
            before = next(_before(value), None)
            if before is None:
                return value
            value = before


def written_arguments(function: func.FuncOp) -> tuple[int, ...]:
    """Positions of the array arguments that a kernel writes to."""
    found: set[SSAValue] = set().union(*(arrays_of(written) for _, written in _writes(function)))
    return tuple(position for position, argument in enumerate(function.body.block.args)
                 if argument in found and isinstance(argument.type, MemRefType))


def written_at(function: func.FuncOp, position: int) -> Location | None:
    """The author's line that writes an argument, the first one; None if that is not known."""
    argument = function.body.block.args[position]
    first = next((op for op, written in _writes(function) if argument in arrays_of(written)), None)
    return first.location.data if first and isinstance(first.location, SourceLocation) else None  # type: ignore


def _writes(function: func.FuncOp) -> Iterator[tuple[Operation, SSAValue]]:
    """The operations that write memory, each with the tile, descriptor or array that it writes."""
    return ((op, op.operands[operand]) for op in function.walk()
            if (operand := written_operand(type(op))) is not None)
