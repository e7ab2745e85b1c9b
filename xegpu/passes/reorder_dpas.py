"""Reordering of DPAS: blocks of B are loaded just in time where A, B and accumulators exceed the register file.

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

Only loops change that load blocks, prefetch and multiply, and do nothing else but convert operands, or copy them to
memory of the subgroup's own: what is converted or copied stays in front of the products, and of the loads of the other
operand each is put in front of its first use. The sums of an accumulator keep their order. A loop stays as it is where
all its operands fit, or where no order makes them fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.vector import ShuffleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from xegpu.analysis.gemm_loops import has_barrier, is_gemm_loop, is_shared
from xegpu.analysis.register_pressure import VIEWS, bytes_of, loop_bytes, root
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, StoreNdOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.sync import NbarrierArriveOp
from xegpu.ir.dtypes import of_mlir, tf32
from xegpu.ir.traversal import operations
from xegpu.ir.use_def import arrays_of
from xegpu.layout.lane_map import unaligned_copy
from xegpu.rewrite.rewriter import rewrite
from xegpu.target import grf_mode
from xegpu.target.targets import Target

_COPIED = tuple(unaligned_copy(side, bits) for side in "ab" for bits in (8, 16, 32))
_Pair = tuple[SSAValue, SSAValue]
"""Loads of a product's operands: of A and of B."""


@dataclass(frozen=True)
class ReorderDpas:
    """Pass ``reorder-dpas``.

    Attributes:
        target: its registers are what operands shall fit in.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with the products of such loops in another order; itself if there is no such loop."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        orders = self._orders(function)
        if not any(order for _, order in orders):
            return function
        new = function.clone()
        copies = dict(zip(operations(function), operations(new), strict=True))
        for loop, order in orders:
            if order:
                copy = copies[loop]
                assert isinstance(copy, scf.ForOp)
                _put(copy.body.block, [copies[product] for product in order])  # type: ignore[misc]
        return new

    def _orders(self, function: func.FuncOp) -> list[tuple[scf.ForOp, list[DpasOp]]]:
        """Loops of products, each with their new order; empty for an unchanged loop."""
        if not self.target.block_io:
            return []
        modes = grf_mode.modes(function, self.target)
        return [(loop, _order(loop, modes, self.target)) for loop in operations(function)
                if type(loop) is scf.ForOp and (_only_multiplies(loop) or _only_converts(loop))]


def _only_multiplies(loop: scf.ForOp) -> bool:
    """Whether a loop multiplies blocks that it loads, or copies to memory of the subgroup's own, and does no more."""
    return is_gemm_loop(loop) or (_copies(loop) and is_gemm_loop(loop, cooperative=True) and not _stores_again(loop))


def _copies(loop: scf.ForOp) -> bool:
    """Whether a loop copies operands of any alignment to shared local memory."""
    return any(isinstance(operation, LoadNdOp) and desc_of(operation.desc).sg_map in _COPIED and _is_stored(operation)
               for operation in loop.body.block.ops)


def _taken(loop: scf.ForOp) -> int:
    """Bytes of what a loop with copies carries and loads; where subgroups exchange them, of what is loaded from shared
    memory alone: with another order they pass their barrier later."""
    if not has_barrier(loop):
        return loop_bytes(loop)
    return sum(map(bytes_of, loop.iter_args)) + sum(
        bytes_of(load.result) for load in loop.body.block.ops if isinstance(load, LoadNdOp) and is_shared(load))


def _stores_again(loop: scf.ForOp) -> bool:
    """Whether a step stores to an array of shared local memory behind loads from it, which may not move there then."""
    loaded = set[SSAValue]()
    for operation in loop.body.block.ops:
        if isinstance(operation, LoadNdOp) and is_shared(operation):
            loaded |= arrays_of(operation.desc)
        elif isinstance(operation, StoreNdOp) and not loaded.isdisjoint(arrays_of(operation.desc)):
            return True
    return False


def _only_converts(loop: scf.ForOp) -> bool:
    """Whether a loop only multiplies loaded blocks by operands that it converts from other types."""
    body = list(loop.body.block.ops)
    products = [operation for operation in body if isinstance(operation, DpasOp)]
    loaded = [{isinstance(root(operand).owner, LoadNdOp) for operand in operands}
              for operands in zip(*((product.a, product.b) for product in products), strict=True)]
    return loaded in ([{True}, {False}], [{False}, {True}]) and all(
        isinstance(use.operation, (DpasOp, scf.YieldOp)) for product in products for use in product.result.uses) and \
        all(isinstance(operation, (DpasOp, PrefetchNdOp, scf.YieldOp)) or _is_block_load(operation)
            or (operation.has_trait(Pure) and not operation.regions) for operation in body)


def _is_block_load(operation: Operation) -> bool:
    return isinstance(operation, LoadNdOp) and desc_of(operation.desc).block.access == "block"


def _order(loop: scf.ForOp, modes: Iterable[int], target: Target) -> list[DpasOp]:
    """An order for the least number of registers that a loop can be made to fit in; empty if it fits as it is."""
    block = loop.body.block
    products = [operation for operation in block.ops if type(operation) is DpasOp]
    plain = _only_multiplies(loop)
    if not products or not all(_is_for_products(operation, plain) for operation in block.ops):
        return []
    carried, order = sum(map(bytes_of, loop.iter_args)), list[DpasOp]()
    roots = dict.fromkeys(value for product in products for value in _roots_of_operands(product))
    converted = [] if plain else [value for value in roots if not isinstance(value.owner, LoadNdOp)]
    if _copies(loop) and _taken(loop) <= grf_mode.fragment_bytes(max(target.registers), target):
        return []
    for mode in modes:
        room, is_large = grf_mode.fragment_bytes(mode, target), mode == max(target.registers)
        # With many registers the compiler itself moves loads down, which takes fewer waits than if they stand there.
        # Where a step copies, it does so in the main loop alone, and spills in the other one.
        if loop_bytes(loop) <= room or (is_large and plain and not _copies(loop) and carried + _most(products) <= room):
            return []
        if carried >= room:
            continue
        order = order or ordered(products)
        if carried + _most(order, converted) + (0 if is_large else _early(products)) <= room:
            return order
    return []


_LOADED = frozenset((LoadNdOp, *VIEWS))


def _is_for_products(operation: Operation, plain: bool) -> bool:
    """Whether the result of a load is used by products only, or, in a loop that converts, by none.

    True of all others, but for shuffles that products need.
    """
    if type(operation) in _LOADED:
        multiplied = {isinstance(user, DpasOp) for user in _users(operation)}
        return multiplied <= {True} or (len(multiplied) == 1 and (not plain or _is_stored(operation)))
    return type(operation) is not ShuffleOp or _is_stored(operation)


def _is_stored(operation: Operation) -> bool:
    """Whether all that an operation gives is stored, shuffled or as it is: words of a copy."""
    return all(isinstance(user, StoreNdOp) or (isinstance(user, ShuffleOp) and _is_stored(user))
               for user in _users(operation))


def _users(operation: Operation) -> Iterator[Operation]:
    """Users of a load's result, or of parts of it."""
    for use in operation.results[0].uses:
        if type(use.operation) in VIEWS:
            yield from _users(use.operation)
        else:
            yield use.operation


def ordered(products: list[DpasOp]) -> list[DpasOp]:
    """Products in an order in which few of their operands are alive at once; each sum keeps its order."""
    return _Ordering(products).order


class _Ordering:
    """Puts products in an order in which few operands are alive at once.

    Next are always those of the two operands of which least is still to be loaded; of several such pairs, that whose
    operands are closest to their last use.
    """

    def __init__(self, products: list[DpasOp]) -> None:
        self.order: list[DpasOp] = []
        self._waiting: dict[_Pair, list[DpasOp]] = {}
        self._pairs: dict[SSAValue, dict[_Pair, None]] = {}
        self._alive = _Alive(products)
        self._undone: set[Operation] = set(products)
        for product in products:
            self._waiting.setdefault(_roots_of_operands(product), []).append(product)
        for pair in self._waiting:
            for value in pair:
                self._pairs.setdefault(value, {})[pair] = None
        while self._waiting:
            self._take(self._next())

    def _next(self) -> _Pair:
        """Next pair: the cheapest with a live operand, else the first that is ready."""
        near = (pair for value in self._alive.values for pair in self._pairs[value] if self._is_ready(pair))
        return min(near, key=self._alive.cost, default=None) or next(filter(self._is_ready, self._waiting))

    def _is_ready(self, pair: _Pair) -> bool:
        """Whether the sum that the first product of a pair adds to is made."""
        acc = self._waiting[pair][0].acc
        return acc is None or acc.owner not in self._undone

    def _take(self, pair: _Pair) -> None:
        """Put the products of a pair in order, as far as their sums are made."""
        while pair in self._waiting and self._is_ready(pair):
            product = self._waiting[pair].pop(0)
            self.order.append(product)
            self._undone.remove(product)
            self._alive.use(product)
            if not self._waiting[pair]:
                del self._waiting[pair]
                for value in pair:
                    self._pairs[value].pop(pair, None)


class _Alive:
    """Live loaded operands after each product.

    Attributes:
        values: live operands, in the order of their first use.
        most: the most bytes that were alive at once, if operands that are not held are loaded at their first use.
    """

    def __init__(self, products: list[DpasOp]) -> None:
        self.values: dict[SSAValue, None] = {}
        self.most = self._bytes = 0
        self._left = Counter(value for product in products for value in _roots_of_operands(product))

    def hold(self, values: Iterable[SSAValue]) -> None:
        """Take note of operands that are alive before the first product."""
        self.values |= dict.fromkeys(values)
        self.most = self._bytes = sum(map(bytes_of, self.values))

    def use(self, product: DpasOp) -> None:
        """Take note that a product is next."""
        pair = _roots_of_operands(product)
        self._bytes += self.cost(pair)[0]
        self.most = max(self.most, self._bytes)
        for value in pair:
            self._left[value] -= 1
            self.values[value] = None
            if not self._left[value]:
                del self.values[value]
                self._bytes -= bytes_of(value)

    def cost(self, pair: _Pair) -> tuple[int, int]:
        """Bytes of a pair that are not loaded yet, and the remaining uses of its loaded operands."""
        alive = [value for value in pair if value in self.values]
        return sum(bytes_of(value) for value in pair if value not in self.values), sum(self._left[v] for v in alive)


def _most(products: list[DpasOp], converted: Iterable[SSAValue] = ()) -> int:
    """The most bytes of operands that are alive at once, converted ones from the start, others from first use on."""
    alive = _Alive(products)
    alive.hold(converted)
    for product in products:
        alive.use(product)
    return alive.most


def _early(products: list[DpasOp]) -> int:
    """Bytes of operands that the compiler loads before it needs them: of tf32 it puts two loads together (seen)."""
    if of_mlir(products[0].a.type.element_type) is not tf32:  # type: ignore[attr-defined]
        return 0
    return max(bytes_of(value) for product in products for value in _roots_of_operands(product))


def _roots_of_operands(product: DpasOp) -> _Pair:
    return root(product.a), root(product.b)


def _put(block: Block, products: list[DpasOp]) -> None:
    """Put a block's products in an order, and each load in front of the first that needs it."""
    operands = [value for product in products for value in (product.a, product.b)]
    moved = {*products, *(maker for value in operands for maker in _makers(value))}
    unused = {op for op in block.ops if isinstance(op, (LoadNdOp, *VIEWS)) and not any(_users(op))}
    order: dict[Operation, None] = dict.fromkeys(op for op in block.ops if op not in moved | unused)
    end = block.last_op
    assert end is not None
    del order[end]
    for product in products:
        order |= dict.fromkeys([*_makers(product.a), *_makers(product.b), product])
    order |= dict.fromkeys(op for op in block.ops if op is not end)  # unused parts of loaded blocks
    _arrive_behind_loads(order)
    for operation in [*order, end]:
        operation.detach()  # type: ignore[no-untyped-call]
    block.add_ops([*order, end])


def _arrive_behind_loads(order: dict[Operation, None]) -> None:
    """Move the arrival at a barrier behind the last load from shared local memory: others may write there then."""
    arrivals = [operation for operation in order if isinstance(operation, NbarrierArriveOp)]
    loads = [operation for operation in order if isinstance(operation, LoadNdOp) and is_shared(operation)]
    if not arrivals or not loads:
        return
    operations = [operation for operation in order if operation not in arrivals]
    at = operations.index(loads[-1]) + 1
    order.clear()
    order |= dict.fromkeys([*operations[:at], *arrivals, *operations[at:]])


def _makers(value: SSAValue) -> list[Operation]:
    """A load and the views of it that lead to a value, in order."""
    found: list[Operation] = []
    while isinstance(value.owner, (LoadNdOp, *VIEWS)):
        found.insert(0, value.owner)
        value = value.owner.operands[0]
        if isinstance(found[0], LoadNdOp):
            break
    return found
