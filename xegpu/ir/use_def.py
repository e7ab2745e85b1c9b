"""Use-def chains of tiles and descriptors: from a use back to the defining operations and the memory."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from xegpu.ir.region_branch import REGION_BRANCHES, incoming
from xegpu.ir.traits import moves_view, written_operand
from xegpu.ir.traversal import operations
from xegpu.support.location import Location, author_location


def root_definitions(value: SSAValue) -> set[SSAValue]:
    """Roots of a value's use-def chain: results of init operations, or function arguments.

    Updates, casts, loop-carried values and results of branches are followed; a loop or a branch has several roots where
    its body defines a new tile instead of updating the incoming one.
    """
    found: set[SSAValue] = set()
    seen: set[SSAValue] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        before = list(_predecessors(value))
        waiting += before
        if not before:
            found.add(value)
    return found


def _predecessors(value: SSAValue) -> Iterator[SSAValue]:
    """The values that ``value`` is forwarded, updated or cast from; none for a root."""
    yield from incoming(value)
    if type(value) is OpResult and moves_view(type(value.op)):
        yield value.op.operands[0]


def arrays_of(value: SSAValue) -> set[SSAValue]:
    """Memories that a tile or descriptor may refer to: function arguments, SLM allocations, and raw addresses."""
    if isinstance(value.type, (IntegerType, IndexType)):
        return {value}  # a raw address, which belongs to no array
    found: set[SSAValue] = set()
    for root in root_definitions(value):
        owner = root.owner
        found |= arrays_of(owner.operands[0]) if not isinstance(owner, Block) and owner.operands else {root}
    return found


def array_of(value: SSAValue) -> SSAValue:
    """Memory that a memref, tile or descriptor refers to; of a loop-carried one, the first of :func:`arrays_of`.

    It is a function argument, the result of an allocation in shared local memory, or a raw address.
    """
    while True:
        if type(value) is OpResult and type(value.op) not in REGION_BRANCHES:
            if not value.op.operands:
                return value
            value = value.op.operands[0]
            if isinstance(value.type, (IntegerType, IndexType)):
                return value  # a raw address
        else:
            before = next(_predecessors(value), None)
            if before is None:
                return value
            value = before


def written_arguments(function: func.FuncOp) -> tuple[int, ...]:
    """Indices of the array arguments that a kernel writes to."""
    return tuple(sorted({position for _, written in _writes(function) for position in arguments_of(function, written)}))


def used_arguments(function: func.FuncOp) -> frozenset[int]:
    """Indices of the arguments that an operation refers to for more than the sizes of an array."""
    return frozenset(position for position, argument in enumerate(function.body.block.args)
                     if any(not isinstance(use.operation, memref.ExtractStridedMetaDataOp) for use in argument.uses))


def arguments_of(function: func.FuncOp, value: SSAValue) -> tuple[int, ...]:
    """Indices of the array arguments that a tile or descriptor may refer to."""
    found = arrays_of(value)
    return tuple(position for position, argument in enumerate(function.body.block.args)
                 if argument in found and isinstance(argument.type, MemRefType))


def written_at(function: func.FuncOp, position: int) -> Location | None:
    """Author's location of the first write to an argument; None if unknown."""
    argument = function.body.block.args[position]
    first = next((op for op, written in _writes(function) if argument in arrays_of(written)), None)
    return author_location(first) if first is not None else None


def _writes(function: func.FuncOp) -> Iterator[tuple[Operation, SSAValue]]:
    """The operations that write memory, each with the tile, descriptor or array that it writes."""
    return ((op, op.operands[operand]) for op in operations(function)
            if (operand := written_operand(type(op))) is not None)
