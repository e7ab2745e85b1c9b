"""Computes values right before they are needed, so that few of them are alive at once.

    %x0 = addf %c0, %b ; %x1 = addf %c1, %b          all of one step, then all of the next
    %y0 = mulf %x0, %x0 ; %y1 = mulf %x1, %x1
    store_nd %y0, ... ; store_nd %y1, ...
becomes
    %x0 = addf %c0, %b ; %y0 = mulf %x0, %x0 ; store_nd %y0, ...
    %x1 = addf %c1, %b ; %y1 = mulf %x1, %x1 ; store_nd %y1, ...

Only what is computed element by element moves, and only within its block. Products keep their order, in which those
that depend on each other are far apart, and so does all that touches memory or waits. Where there is no block IO, loads
move as well, down to the next operation that may write: the operands of one step of a product then take the registers
of those of the step before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.vector import BroadcastOp, ExtractOp
from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp
from xegpu.dialect.compile_hints import CompileHintOp
from xegpu.dialect.descriptors import CreateNdTdescOp, UpdateNdOffsetOp
from xegpu.dialect.lane_layouts import ConvertLayoutOp
from xegpu.dialect.products import ProductOp
from xegpu.dialect.vectors import ExtractStridedSliceOp
from xegpu.passes.fit import fit
from xegpu.rewriting import Rebuilder, rewrite
from xegpu.targets import Target

_HARMLESS = (ProductOp, ConvertLayoutOp, CreateNdTdescOp, UpdateNdOffsetOp, PrefetchNdOp)
"""What stays where it is, and writes no memory."""
_DIALECTS = ("arith", "math")
_MOVES = (BroadcastOp, ExtractStridedSliceOp)
_LOADED = (LoadNdOp, ExtractOp)


@dataclass(frozen=True)
class Schedule:
    """The pass.

    Attributes:
        target: where it has no block IO, loads move too.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with element-wise operations close before their first uses."""
        new = rewrite(module, lambda function: Rebuilder({}).function(function))
        for operation in new.walk():
            for region in operation.regions:
                for block in region.blocks:
                    _sink(block, not self.target.block_io)
        for function in new.body.block.ops:
            if isinstance(function, FuncOp):
                fit(function, self.target)
        return new


def _sink(block: Block, loads: bool) -> None:
    """Put a block's operations in the new order: what may move waits until something that stays needs it."""
    waiting: dict[Operation, None] = {}
    order: list[Operation] = []
    for operation in block.ops:
        if _may_move(operation) or (loads and isinstance(operation, _LOADED)):
            waiting[operation] = None
            continue
        if not isinstance(operation, _HARMLESS):  # it may write what was to be read
            for load in [other for other in waiting if isinstance(other, LoadNdOp)]:
                del waiting[load]
                order += [*_needed(load, waiting), load]
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
