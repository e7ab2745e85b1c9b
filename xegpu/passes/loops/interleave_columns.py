"""Column interleaving of B: columns in the order of copies of unaligned rows, with accumulators reordered once.

    %share = load_nd %from                           -> vector<8x2xbf16>: words of two rows, eight columns of them
    store_nd %share, %to                             shared local memory
    for ... (%c0 = %zero)
      %b = load_nd %part                             -> vector<16x2xbf16>: a lane has a column
      yield dpas %a, %b, %c0
    store %c0
becomes
    %share = load_nd %from
    %columns = vector.shuffle %share, %share [0, 2, 4, 6, 1, 3, 5, 7]
    store_nd %columns, %to
    for ... (%c0 = %zero)
      %b = load_nd %part                             the columns 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, ...
      yield dpas %a, %b, %c0
    %c = shuffle %c0                                 in order
    store %c

A word of such a copy (:func:`xegpu.layout.lane_map.unaligned_copy`) is put together from halves of words of two rows,
and a word in memory has an even and an odd column. So two registers of even columns come from two registers that lie
side by side, by one 32-lane select, where columns in order take one for each register. A column of a product depends on
one column of B and of the accumulator only, so that columns may lie in any order as long as they lie alike. The
accumulators are put in order once, behind the loop; one with another use inside the loop stays as it is, and so do the
arrays that its products read. Words of 8-bit elements have four columns of a row in memory, and four rows of a column
in the copy: there every fourth column comes first, and a 32-lane move takes a byte of each of two registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, ModuleOp, VectorType, i64
from xdsl.dialects.memref import AllocOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.dialects.vector import ShuffleOp as ShuffleRowsOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.types import TensorDesc
from xegpu.dialect.vector import ShuffleOp
from xegpu.layout.lane_map import LaneMap, operand_b, unaligned_copy
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, shape_of
from xegpu.rewrite.rewriter import copied, rewrite

_LANES = 16
"""Columns of a block of B and of an accumulator, one for each lane."""
_WIDTHS = (8, 16)
"""Columns of a copy of which two registers are put together at once, and which fill whole blocks."""
_VECTORS = (1, 2, 3, 4, 8)
"""Words of a vector that a message reads."""
_Order = tuple[int, ...]


def by_place(width: int, elements: int) -> _Order:
    """Columns in the order of copies: the first ones of all words of ``elements``, then the second ones ..."""
    return tuple(column for place in range(elements) for column in range(place, width, elements))


def is_by_place(load: LoadNdOp) -> bool:
    """Whether a load is a copy of which nothing is used but its columns in the order of copies.

    One that is in bounds takes bytes of each row from one vector (``row_behind``).
    """
    uses = [use.operation for use in load.result.uses]
    desc = desc_of(load.desc)
    order = _order_of(desc) if load.in_bounds is None or load.row_behind is not None or desc.dtype.bits == 16 else ()
    return bool(order) and bool(uses) and all(
        isinstance(user, ShuffleRowsOp) and user.v1 is user.v2 is load.result
        and user.mask.get_values() == order for user in uses)


def words_of_row(width: int, bits: int) -> int:
    """Words of one vector that has the columns of a row wherever in a word they begin; 0 where none is so long."""
    return next((count for count in _VECTORS if count > width * bits // 32), 0)


def reads_on(load: LoadNdOp) -> int:
    """Elements behind its columns that a copy reads, where the array has them (``row_behind``): one vector of words
    then has a row's columns wherever they begin."""
    desc = desc_of(load.desc)
    width, bits = desc.shape[1], desc.dtype.bits
    return max(0, words_of_row(width, bits) * 32 // bits - width) if is_by_place(load) else 0


def _order_of(desc: TensorDesc) -> _Order:
    """Columns of a copy of B in the order of copies; none for any other block."""
    width, bits = desc.shape[1], desc.dtype.bits
    fits = bits < 32 and desc.sg_map == unaligned_copy("b", bits) and desc.block.array_length == 1
    return by_place(width, 32 // bits) if fits and width in _WIDTHS else ()


@dataclass(frozen=True)
class InterleaveColumns:
    """Pass ``interleave-columns``."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such operands, and their accumulators, in the order of copies; itself if there are none."""
        return rewrite(module, _interleaved)


def _interleaved(function: func.FuncOp) -> func.FuncOp:
    if not _arrays(function):
        return function
    new = copied(function)
    loops: dict[scf.ForOp, _Order] = {}
    for array in _arrays(new):
        for store in array.stores:
            _split_columns(store)
        loops |= {product.parent_op(): array.order for product in array.products}  # type: ignore[misc]
    for loop, order in loops.items():
        for position in _carried(loop):
            _put_in_order(loop, position, order)
    return new


@dataclass
class _Array:
    """An array of shared local memory that has an operand B.

    Attributes:
        stores: of copies, to it.
        products: that read it.
        order: columns of each copy, in the order of copies; none where there is anything else.
    """

    stores: list[StoreNdOp] = field(default_factory=list)
    products: list[DpasOp] = field(default_factory=list)
    order: _Order = ()


def _arrays(function: func.FuncOp) -> list[_Array]:
    """The arrays whose columns may lie in another order: those of loops all of whose products read such arrays."""
    makers = [operation for operation in function.walk() if isinstance(operation, AllocOp)]
    found = [array for maker in makers if (array := _array(maker)) is not None]
    while True:
        orders = {product: array.order for array in found for product in array.products}
        kept = [array for array in found if all(map(_is_regular, array.products, [orders] * len(array.products)))]
        if len(kept) == len(found):
            return kept
        found = kept


def _array(maker: AllocOp) -> _Array | None:
    """Reads and writes of an array; None if it has other uses than copies and products."""
    array, orders = _Array(), set[_Order]()
    for user in _accesses(maker.memref):
        if isinstance(user, StoreNdOp) and (order := _order_of_copy(user)):
            array.stores.append(user)
            orders.add(order)
        elif isinstance(user, LoadNdOp) and _has_whole_blocks(user):
            products = list(_products(user.result))
            if None in products:
                return None
            array.products += [product for product in products if product is not None]
        else:
            return None
    array.order = orders.pop() if len(orders) == 1 else ()
    return array if array.order and array.products else None


def _accesses(memory: SSAValue) -> Iterator[Operation]:
    """Users of an array, through descriptors and the updates of these."""
    for use in memory.uses:
        if isinstance(use.operation, (CreateNdTdescOp, UpdateNdOffsetOp)) and use.index == 0:
            yield from _accesses(use.operation.result)
        else:
            yield use.operation


def _order_of_copy(store: StoreNdOp) -> _Order:
    """Columns of a copy of B that a store takes, at a multiple of as many; none for any other store."""
    load, desc = store.value.owner, desc_of(store.desc)
    if not isinstance(load, LoadNdOp) or not store.value.has_one_use() or load.transposes:
        return ()
    source, order = desc_of(load.desc), _order_of(desc)
    fits = source.block.memory_scope == "global" and order and _order_of(source) == order and \
        source.shape == desc.shape
    return order if fits and multiple_of(store.desc) % len(order) == 0 else ()


def _has_whole_blocks(load: LoadNdOp) -> bool:
    """Whether a load gives blocks of B, a column a lane, that begin at a multiple of as many columns."""
    desc = desc_of(load.desc)
    return desc.dtype.bits <= 32 and desc.sg_map == operand_b(_LANES, desc.dtype.bits) and \
        desc.shape[1] == _LANES and multiple_of(load.desc) % _LANES == 0


def _products(value: SSAValue) -> Iterator[DpasOp | None]:
    """The products of a loop's body that take blocks of a value as their second operand; None for any other use."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, (ExtractOp, ExtractStridedSliceOp)):
            yield from _products(user.result)
        else:
            is_product = isinstance(user, DpasOp) and use.index == 1 and isinstance(user.parent_op(), scf.ForOp)
            yield user if is_product else None  # type: ignore[misc]


def _is_regular(product: DpasOp, orders: dict[DpasOp, _Order]) -> bool:
    """Whether all products of a product's loop have columns alike, and accumulators that nothing else uses."""
    loop = product.parent_op()
    assert isinstance(loop, scf.ForOp)
    body, carried, yielded = loop.body.block, _carried(loop), loop.body.block.last_op
    products = [operation for operation in body.ops if isinstance(operation, DpasOp)]
    sums = {*(each.result for each in products), *(body.args[1 + position] for position in carried)}
    return {orders.get(each, ()) for each in products} == {orders[product]} and all(
        each.acc is None or each.acc in sums for each in products) and all(
        (use.operation is yielded and use.index in carried)
        or (isinstance(use.operation, DpasOp) and use.index == 2 and use.operation.parent is body)
        for value in sums for use in value.uses)


def _carried(loop: scf.ForOp) -> list[int]:
    """Positions at which a loop carries sums of products."""
    yielded = loop.body.block.last_op
    assert yielded is not None
    return [position for position, value in enumerate(yielded.operands) if isinstance(value.owner, DpasOp)
            and value.owner.parent is loop.body.block]


def _split_columns(store: StoreNdOp) -> None:
    value, type_ = store.value, store.value.type
    assert isinstance(type_, VectorType)
    mask = _order_of(desc_of(store.desc))
    shuffle = ShuffleRowsOp(value, value, DenseArrayBase.from_list(i64, list(mask)), result_type=type_)
    shuffle.location, shuffle.result.name_hint = store.location, value.name_hint
    assert store.parent is not None
    store.parent.insert_op_before(shuffle, store)
    store.operands[0] = shuffle.result


def _put_in_order(loop: scf.ForOp, position: int, order: _Order) -> None:
    """Put the columns of an accumulator in order behind a loop; before it, in the order of copies."""
    before, after = loop.iter_args[position], loop.results[position]
    assert loop.parent is not None
    if not _is_splat(before):
        shuffle = _shuffled(before, order, loop)
        loop.parent.insert_op_before(shuffle, loop)
        loop.operands[3 + position] = shuffle.result
    uses = list(after.uses)
    shuffle = _shuffled(after, tuple(map(order.index, range(len(order)))), loop)
    loop.parent.insert_op_after(shuffle, loop)
    for use in uses:
        use.operation.operands[use.index] = shuffle.result


def _shuffled(value: SSAValue, columns: tuple[int, ...], near: Operation) -> ShuffleOp:
    """The columns of an accumulator in another order, within groups of as many."""
    rows, width = shape_of(value)[0], len(columns)
    mask = [row * _LANES + column // width * width + columns[column % width]
            for row in range(rows) for column in range(_LANES)]
    shuffle = ShuffleOp([value], mask, value.type, [(rows, _LANES)] * 2, [LaneMap((1, _LANES))] * 2)
    shuffle.location, shuffle.result.name_hint = near.location, value.name_hint
    return shuffle


def _is_splat(value: SSAValue) -> bool:
    """Whether all columns of a block are known to be alike: one number everywhere."""
    owner = value.owner
    if isinstance(owner, BroadcastOp):
        return not isinstance(owner.source.type, VectorType)
    return not isinstance(value, BlockArgument) and isinstance(owner, arith.ConstantOp) and \
        isinstance(owner.value, DenseIntOrFPElementsAttr) and owner.value.is_splat()
