"""Region branches (MLIR's RegionBranchOpInterface): what loops and branches forward to block arguments and results."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from xegpu.ir.traversal import operations

REGION_BRANCHES = (scf.ForOp, scf.IfOp, scf.WhileOp)
"""Operations with regions that forward values."""
LOOPS = (scf.ForOp, scf.WhileOp)
TERMINATORS = (scf.YieldOp, scf.ConditionOp)
"""Terminators of the regions of :data:`REGION_BRANCHES`."""


def is_loop(operation: Operation | None) -> bool:
    """Whether an operation is a loop."""
    return isinstance(operation, LOOPS)


def for_loops(around: Operation) -> list[scf.ForOp]:
    """The ``scf.for`` loops of an operation, itself included, outer ones first."""
    return [operation for operation in operations(around) if type(operation) is scf.ForOp]


def forwarded(block: Block) -> Sequence[SSAValue]:
    """Values that the terminator of a block forwards; the condition of ``scf.condition`` is none of them."""
    end = block.last_op
    if type(end) is scf.YieldOp:
        return end._operands
    return tuple(end.args) if type(end) is scf.ConditionOp else ()


def incoming(value: SSAValue) -> tuple[SSAValue, ...]:
    """Values that a loop or branch forwards to one of its results or block arguments, the initial one first.

    Empty for other values, and for the counter of ``scf.for``.
    """
    if type(value) is BlockArgument:
        above = value.block.parent_op()
        if type(above) is scf.ForOp and value.index > 0:
            return above.operands[value.index + 2], forwarded(value.block)[value.index - 1]
        if type(above) is scf.WhileOp:
            before, after = above.before_region.block, above.after_region.block
            if value.block is after:
                return (forwarded(before)[value.index],)
            return above.arguments[value.index], forwarded(after)[value.index]
        return ()
    owner = value.owner
    if type(owner) not in REGION_BRANCHES or type(value) is not OpResult:
        return ()
    assert isinstance(owner, REGION_BRANCHES)
    position = value.index
    if isinstance(owner, scf.ForOp):
        return owner.operands[position + 3], forwarded(owner.body.block)[position]
    if isinstance(owner, scf.WhileOp):
        return (forwarded(owner.before_region.block)[position],)
    # the else branch first: it forwards the value from before the scf.if
    return tuple(forwarded(region.block)[position] for region in reversed(owner.regions) if region.blocks)


def carried_argument(value: SSAValue) -> BlockArgument | None:
    """Block argument whose value an iteration of a loop changes, of a loop's result or argument; None for others."""
    if isinstance(value, BlockArgument):
        return value
    if isinstance(value.owner, scf.ForOp):
        return value.owner.body.block.args[value.owner.results.index(value) + 1]  # type: ignore[arg-type]
    return None


def outgoing(user: Operation, index: int) -> list[SSAValue] | None:
    """Results and block arguments to which a loop, branch or terminator forwards an operand; None for others."""
    if isinstance(user, scf.ForOp):
        return [user.results[index - 3], user.body.block.args[index - 2]] if index > 2 else None
    if isinstance(user, scf.WhileOp):
        return [user.before_region.block.args[index]]
    above = user.parent_op()
    if isinstance(user, scf.ConditionOp) and isinstance(above, scf.WhileOp):
        return [above.results[index - 1], above.after_region.block.args[index - 1]] if index else None
    if not isinstance(user, scf.YieldOp) or above is None:
        return None
    if isinstance(above, scf.ForOp):
        return [above.results[index], above.body.block.args[index + 1]]
    return [above.before_region.block.args[index]] if isinstance(above, scf.WhileOp) else [above.results[index]]
