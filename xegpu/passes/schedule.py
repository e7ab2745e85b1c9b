"""Computes values right before they are needed, so that few of them are alive at once.

    %x0 = addf %c0, %b ; %x1 = addf %c1, %b          all of one step, then all of the next
    %y0 = mulf %x0, %x0 ; %y1 = mulf %x1, %x1
    store_nd %y0, ... ; store_nd %y1, ...
becomes
    %x0 = addf %c0, %b ; %y0 = mulf %x0, %x0 ; store_nd %y0, ...
    %x1 = addf %c1, %b ; %y1 = mulf %x1, %x1 ; store_nd %y1, ...

Only what is computed element by element moves, and only within its block. Products keep their order, in which those
that depend on each other are far apart, and so does all that touches memory or waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from xegpu.dialect.compile_hints import CompileHintOp
from xegpu.dialect.vectors import ExtractStridedSliceOp
from xegpu.rewriting import Rebuilder, rewrite

_DIALECTS = ("arith", "math")
_MOVES = (BroadcastOp, ExtractStridedSliceOp)


@dataclass(frozen=True)
class Schedule:
    """The pass; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with element-wise operations close before their first uses."""
        new = rewrite(module, lambda function: Rebuilder({}).function(function))
        for operation in new.walk():
            for region in operation.regions:
                for block in region.blocks:
                    _sink(block)
        return new


def _sink(block: Block) -> None:
    """Put a block's operations in the new order: what may move waits until something that stays needs it."""
    waiting: dict[Operation, None] = {}
    order: list[Operation] = []
    for operation in block.ops:
        if _may_move(operation):
            waiting[operation] = None
            continue
        order += _needed(operation, waiting)
        if isinstance(operation, CompileHintOp):  # nothing goes past it
            order += waiting
            waiting.clear()
        order.append(operation)
    order[-1:-1] = waiting  # what nothing needs stays in front of the terminator
    for operation in order:
        operation.detach()  # type: ignore[no-untyped-call]
    block.add_ops(order)


def _needed(operation: Operation, waiting: dict[Operation, None]) -> list[Operation]:
    """What waits and is needed for an operation, operands before their users; it waits no more."""
    order: list[Operation] = []
    pending = [(operation, iter(_operands(operation)))]
    while pending:
        user, operands = pending[-1]
        owner = next((owner for owner in operands if owner in waiting), None)
        if owner is not None:
            del waiting[owner]
            pending.append((owner, iter(_operands(owner))))
            continue
        pending.pop()
        if user is not operation:
            order.append(user)
    return order


def _operands(operation: Operation) -> Iterator[Operation]:
    """What makes the operands of an operation, and those of the operations in its body."""
    for inner in operation.walk():
        for operand in inner.operands:
            if isinstance(operand.owner, Operation):
                yield operand.owner


def _may_move(operation: Operation) -> bool:
    kind = operation.name.partition(".")[0] in _DIALECTS or isinstance(operation, _MOVES)
    return kind and operation.has_trait(Pure) and len(operation.results) == 1 \
        and isinstance(operation.results[0].type, VectorType)
