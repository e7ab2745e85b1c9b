"""Product ordering: each block of an operand is multiplied completely before the next one is loaded.

    %v0 = load_nd %V : 32x32 ; %v1 = load_nd %V + 32 : 32x32         2 blocks of depth, 2 of columns each
    dpas %p0: %v0, %v0, %v1, %v1
    dpas %p1: %v0, %v0, %v1, %v1                                     all loads are alive up to here
becomes
    %v0 = load_nd %V ; dpas %p0: %v0, %v0 ; dpas %p1: %v0, %v0
    %v1 = load_nd %V + 32 ; dpas %p0: %v1, %v1 ; dpas %p1: %v1, %v1

:mod:`xegpu.passes.reorder_dpas` does so in loops that only multiply; here the loop does more, as attention does.
Products are ordered within groups of those that do not need each other's results but as sums, which keep their order.
Users of a result move behind the group.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation

from xegpu.dialect.dpas import DpasOp
from xegpu.ir.traits import has_no_memory_effect
from xegpu.passes.reorder_dpas import ordered


def order_products(block: Block) -> None:
    """Reorder the products of a block in place."""
    group = _Group()
    for operation in [*block.ops]:
        needs = group.is_needed_by(operation)
        if isinstance(operation, DpasOp):
            operands = operation.a, operation.b
            if any(value.owner in group.users for value in operation.operands) or \
                    any(value.owner in group.products for value in operands):
                group.close()
            group.add(operation)
        elif operation is block.last_op or (needs and not has_no_memory_effect(operation)):
            group.close()
        elif needs:
            group.users[operation] = None


class _Group:
    """Products that may stand in any order, but for their sums.

    Attributes:
        products: in their present order.
        users: transitive users of their results.
    """

    def __init__(self) -> None:
        self.products: dict[DpasOp, None] = {}
        self.users: dict[Operation, None] = {}
        self._between: list[Operation] = []

    def add(self, product: DpasOp) -> None:
        """Append a product to the group."""
        self.products[product] = None
        self._between = [*self.users]

    def is_needed_by(self, operation: Operation) -> bool:
        """Whether an operation, or one in its regions, uses a product's result, directly or indirectly."""
        made = self.products.keys() | self.users.keys()
        return any(operand.owner in made for inner in operation.walk() for operand in inner.operands)

    def close(self) -> None:
        """Put the products in order at the place of their last, with the users between them behind, and begin anew."""
        products = ordered([*self.products])
        if products != [*self.products]:
            last = next(reversed(self.products))
            block, following = last.parent, last.next_op
            assert block is not None
            assert following is not None
            moved = [*products, *self._between]
            for operation in moved:
                operation.detach()  # type: ignore[no-untyped-call]
            block.insert_ops_before(moved, following)
        self.products.clear()
        self.users.clear()
        self._between = []
