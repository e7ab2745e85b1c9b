"""Dead code elimination (own: in one backward walk, which xDSL's pass repeats to a fixpoint)."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from xegpu.ir.traversal import operations


def erase_dead(block: Block) -> None:
    """Erase pure operations without uses, nested blocks included."""
    for operation in reversed(list(block.ops)):
        for region in operation.regions:
            for inner in region.blocks:
                erase_dead(inner)
        for result in operation.results:
            if result.first_use is not None:
                break
        else:
            if _is_idle(operation) or (operation.results and operation.has_trait(Pure)):
                erase(operation)


def erase(operation: Operation) -> None:
    """Take an operation out of its block, and drop it."""
    operation.detach()  # type: ignore[no-untyped-call]
    operation.erase()


def _is_idle(operation: Operation) -> bool:
    """Whether a branch has no operation with a side effect; its prefetches may have been dropped."""
    return type(operation) is scf.IfOp and all(
        inner.has_trait(Pure) or _is_idle(inner) for inner in operations(operation)[1:])
