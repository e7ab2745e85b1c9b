"""Lets the operands of a product follow each other through the registers, where they do not fit side by side.

    %a = load_nd %A : 16x32          acc 64 registers, %a 16
    %b0 = load_nd %B : 32x32         32 registers: 2 blocks of depth, 2 of columns
    %b1 = load_nd %B + 32 : 32x32    32 more: 144 in all
    dpas depth 0: %b0, %b0, %b1, %b1
    dpas depth 1: %b0, %b0, %b1, %b1
becomes
    %a = load_nd %A ; %b0 = load_nd %B
    dpas depth 0: %b0, %b0 ; dpas depth 1: %b0, %b0
    %b1 = load_nd %B + 32            takes the registers of %b0: 112 in all
    dpas depth 0: %b1, %b1 ; dpas depth 1: %b1, %b1

Only loops change that load blocks, prefetch and multiply, and do nothing else. The sums of an accumulator keep their
order. A loop stays as it is where all its operands fit, or where no order makes them fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from xdsl.dialects import func, scf
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import Block, Operation, SSAValue

from xegpu import register_mode
from xegpu.dialect.block_io import LoadNdOp
from xegpu.dialect.products import DpasOp
from xegpu.dtypes import of_mlir, tf32
from xegpu.plain_loops import is_plain
from xegpu.pressure import VIEWS, bytes_of, loop_bytes, root
from xegpu.targets import Target


_Pair = frozenset[SSAValue]
"""What was loaded for a product: for A and for B."""


def fit(function: func.FuncOp, target: Target) -> None:
    """Put the products of such loops in another order, in place.

    Args:
        function: the kernel.
        target: its registers are what operands shall fit in.
    """
    if not target.block_io:
        return
    for loop in function.walk():
        if isinstance(loop, scf.ForOp) and is_plain(loop):
            _fit(loop, register_mode.modes(function, target), target)


def _fit(loop: scf.ForOp, modes: Iterable[int], target: Target) -> None:
    """Reorder a loop for the least number of registers that it can be made to fit in, unless it fits as it is."""
    block = loop.body.block
    products = [operation for operation in block.ops if isinstance(operation, DpasOp)]
    if not products or not all(_is_for_products(operation) for operation in block.ops):
        return
    order, carried = _one_after_the_other(products), sum(map(bytes_of, loop.iter_args))
    for mode in modes:
        room = register_mode.room(mode, target)
        # With many registers the compiler itself moves loads down, which takes fewer waits than if they stand there.
        if (loop_bytes(loop) if mode == min(target.registers) else carried + _most(products)) <= room:
            return
        if carried + _most(order) + (0 if mode == max(target.registers) else _early(products)) <= room:
            _put(block, order)
            return


def _is_for_products(operation: Operation) -> bool:
    """Whether what an operation loads or looks at goes into products alone; true of all others, but for shuffles."""
    if isinstance(operation, (LoadNdOp, *VIEWS)):
        return all(isinstance(use.operation, (DpasOp, *VIEWS)) for use in operation.results[0].uses)
    return not isinstance(operation, ShuffleOp)


def _one_after_the_other(products: list[DpasOp]) -> list[DpasOp]:
    """Products in an order in which few operands are alive at once.

    Next are always those of the two operands of which least is still to be loaded; of several such pairs, that whose
    operands are closest to their last use.
    """
    left, alive, order = _uses(products), set[SSAValue](), list[DpasOp]()
    waiting: dict[_Pair, list[DpasOp]] = {}
    for product in products:
        waiting.setdefault(_operands(product), []).append(product)
    pairs: dict[SSAValue, dict[_Pair, None]] = {}
    for pair in waiting:
        for value in pair:
            pairs.setdefault(value, {})[pair] = None
    done: set[Operation] = set()

    def is_ready(product: DpasOp) -> bool:
        maker = None if product.acc is None else product.acc.owner
        return not isinstance(maker, DpasOp) or maker.parent is not product.parent or maker in done

    def cost(pair: _Pair) -> tuple[int, int]:
        return sum(map(bytes_of, pair - alive)), sum(left[value] for value in pair & alive)

    while waiting:
        near = (pair for value in sorted(alive, key=left.__getitem__) for pair in pairs[value] if is_ready(waiting[pair][0]))
        best = min(near, key=cost, default=None) or next(pair for pair in waiting if is_ready(waiting[pair][0]))
        while waiting[best] and is_ready(waiting[best][0]):
            order.append(waiting[best].pop(0))
            done.add(order[-1])
            _use(order[-1], alive, left)
        if not waiting[best]:
            del waiting[best]
            for value in best:
                del pairs[value][best]
    return order


def _most(products: list[DpasOp]) -> int:
    """The most bytes of operands that are alive at once, if each is loaded right before its first use."""
    left, alive, most, total = _uses(products), set[SSAValue](), 0, 0
    for product in products:
        total += sum(map(bytes_of, _operands(product) - alive))
        most = max(most, total)
        _use(product, alive, left)
        total -= sum(map(bytes_of, _operands(product) - alive))
    return most


def _early(products: list[DpasOp]) -> int:
    """Bytes of operands that the compiler loads before it needs them: of tf32 it puts two loads together (seen)."""
    if of_mlir(products[0].a.type.element_type) is not tf32:  # type: ignore[attr-defined]
        return 0
    return max(bytes_of(value) for product in products for value in _operands(product))


def _uses(products: list[DpasOp]) -> Counter[SSAValue]:
    return Counter(value for product in products for value in _operands(product))


def _operands(product: DpasOp) -> _Pair:
    """What was loaded for a product."""
    return frozenset((root(product.a), root(product.b)))


def _use(product: DpasOp, alive: set[SSAValue], left: Counter[SSAValue]) -> None:
    """Take note that a product is next: what it uses is alive afterwards if something else will use it."""
    for value in _operands(product):
        left[value] -= 1
        (alive.add if left[value] else alive.discard)(value)


def _put(block: Block, products: list[DpasOp]) -> None:
    """Put a block's products in an order, and each load in front of the first that needs it."""
    moved = (DpasOp, LoadNdOp, *VIEWS)
    order: dict[Operation, None] = dict.fromkeys(op for op in block.ops if not isinstance(op, moved))
    end = block.last_op
    assert end is not None
    del order[end]
    for product in products:
        order |= dict.fromkeys([*_makers(product.a), *_makers(product.b), product])
    order |= dict.fromkeys(op for op in block.ops if op is not end)  # parts of what is loaded that nothing uses
    for operation in [*order, end]:
        operation.detach()  # type: ignore[no-untyped-call]
    block.add_ops([*order, end])


def _makers(value: SSAValue) -> list[Operation]:
    """A load and the views of it that lead to a value, in order."""
    found: list[Operation] = []
    while isinstance(value.owner, (LoadNdOp, *VIEWS)):
        found.insert(0, value.owner)
        value = value.owner.operands[0]
        if isinstance(found[0], LoadNdOp):
            break
    return found
