"""Dead code elimination (own: in one backward walk, which xDSL's pass repeats to a fixpoint)."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Block, Operation
from xdsl.traits import Pure


def erase_dead(block: Block) -> None:
    """Erase pure operations without uses, nested blocks included."""
    for operation in reversed(list(block.ops)):
        for region in operation.regions:
            for inner in region.blocks:
                erase_dead(inner)
        unused = all(not result.has_one_use() and not result.has_more_than_one_use() for result in operation.results)
        if unused and (_is_idle(operation) or (operation.has_trait(Pure) and operation.results)):
            erase(operation)


def erase(operation: Operation) -> None:
    """Take an operation out of its block, and drop it."""
    operation.detach()  # type: ignore[no-untyped-call]
    operation.erase()


def _is_idle(operation: Operation) -> bool:
    """Whether a branch has no operation with a side effect; its prefetches may have been dropped."""
    inside = (inner for region in operation.regions for inner in region.walk())
    return isinstance(operation, scf.IfOp) and all(inner.has_trait(Pure) or _is_idle(inner) for inner in inside)
