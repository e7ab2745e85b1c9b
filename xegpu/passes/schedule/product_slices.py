"""Product slicing: independent slices of a step's products, one after another, each with the loads that it needs.

    %s0 = dpas %k, %q0 ; %s1 = dpas %k, %q1              Q transposed: a block of its rows each
    %p0 = exp2 %s0 ; %p1 = exp2 %s1
    %g = load_nd %G : 32x16                              both blocks of rows
    %o0 = dpas %p0, %g rows 0 to 15, %o ; %o1 = dpas %p1, %g rows 16 to 31, %o0
becomes
    %s0 = dpas %k, %q0 ; %p0 = exp2 %s0 ; %g0 = load_nd %G : 16x16 ; %o0 = dpas %p0, %g0, %o
    %s1 = dpas %k, %q1 ; %p1 = exp2 %s1 ; %g1 = load_nd %G + 16 : 16x16 ; %o1 = dpas %p1, %g1, %o0

The backward pass of attention keeps two accumulators and two operands in registers all through its loop, which leaves
no room for the scores of all rows of a step. A slice is what depends on each other, or on the same loads, but for sums
that the loop carries; loads of several blocks of rows are split first where products take a block each. Each sum adds
up in the same order as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import ProductOp
from xegpu.dialect.sync import CompileHintOp
from xegpu.dialect.types import TensorDescType
from xegpu.ir.traits import has_no_memory_effect
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, values_of
from xegpu.rewrite.dce import erase, erase_dead
from xegpu.target.targets import Target


def slice_products(loop: scf.ForOp, target: Target) -> None:
    """Reorder the body of a loop in place; a loop that writes memory, waits, or has a single slice stays as it is."""
    block = loop.body.block
    if not all(has_no_memory_effect(operation) or isinstance(operation, (LoadNdOp, PrefetchNdOp, scf.YieldOp))
               for operation in block.ops) or any(operation.regions for operation in block.ops):
        return
    for load in [operation for operation in block.ops if isinstance(operation, LoadNdOp)]:
        if rows := _rows_taken(load, target):
            _split(load, rows)
    erase_dead(block)
    slices = _slices(block)
    if len(slices) > 1:
        _reorder(block, slices)


def _rows_taken(load: LoadNdOp, target: Target) -> int:
    """Rows of a packed block that each user takes, if fewer than all and if such a message exists; else 0."""
    desc = desc_of(load.desc)
    if load.packed is None or len(desc.shape) != 2 or desc.block.access != "block" or not _makers(load):
        return 0
    parts = _slices_of(load)
    taken = {(*values_of(part.sizes), values_of(part.offsets)[0] % values_of(part.sizes)[0]) if part is not None else ()
             for part in parts}
    words = next(iter(taken))[0] if len(taken) == 1 and () not in taken else 0
    if not words or taken != {(words, 32 // desc.dtype.bits, 0)}:
        return 0
    rows = words * 32 // desc.dtype.bits
    kept = rows < desc.shape[0] and desc.shape[0] % rows == 0 and \
        target.has_block("read_transform", desc.dtype.bits, rows, desc.shape[1], desc.block.array_length)
    return rows if kept else 0


def _slices_of(load: LoadNdOp) -> list[ExtractStridedSliceOp | None]:
    """Slices that are taken of a load, or of its blocks side by side; None for any other use."""
    found: list[ExtractStridedSliceOp | None] = []
    for use in load.result.uses:
        users = [inner.operation for inner in use.operation.results[0].uses] \
            if isinstance(use.operation, ExtractOp) else [use.operation]
        found += [user if isinstance(user, ExtractStridedSliceOp) else None for user in users]
    return found


def _makers(load: LoadNdOp) -> list[CreateNdTdescOp | UpdateNdOffsetOp]:
    """Operations that make the descriptor of a load, from ``create_nd_tdesc`` on; none if a loop carries it."""
    found: list[CreateNdTdescOp | UpdateNdOffsetOp] = []
    owner = load.desc.owner
    while isinstance(owner, UpdateNdOffsetOp):
        found.insert(0, owner)
        owner = owner.desc.owner
    return [owner, *found] if isinstance(owner, CreateNdTdescOp) else []


def _split(load: LoadNdOp, rows: int) -> None:
    """Replace a load by several of some rows each."""
    desc, block, words = desc_of(load.desc), load.parent, rows * desc_of(load.desc).dtype.bits // 32
    assert block is not None
    assert isinstance(load.desc.type, TensorDescType)
    base, narrow = load.desc, load.desc.type.with_(shape=(rows, desc.shape[1]))
    for maker in _makers(load):
        base = _inserted(load, type(maker).create(
            operands=[base, *maker.offsets] if isinstance(maker, UpdateNdOffsetOp) else maker.operands,
            result_types=[narrow], properties=maker.properties, attributes=maker.attributes, location=maker.location))
    type_ = load.result.type
    assert isinstance(type_, VectorType)
    shape = list(type_.get_shape())
    shape[-2] = words
    loaded = []
    for first in range(0, desc.shape[0], rows):
        at = base
        if first:
            zero, down = (_inserted(load, arith.ConstantOp(IntegerAttr(value, IndexType()))) for value in (0, first))
            at = _inserted(load, UpdateNdOffsetOp(base, [down, zero]))
        loaded.append(_inserted(load, LoadNdOp.create(
            operands=[at], result_types=[VectorType(type_.element_type, shape)], properties=load.properties,
            attributes=load.attributes, location=load.location)))
    for part in _slices_of(load):
        assert part is not None
        of, number = part.source, values_of(part.offsets)[0] // words
        whole = loaded[number]
        if isinstance(of.owner, ExtractOp):
            whole = _inserted(part, ExtractOp(whole, of.owner.static_position.get_values(), part.result.type))
        part.result.replace_all_uses_with(whole)
    for use in [use.operation for use in load.result.uses]:
        for part in [inner.operation for inner in use.results[0].uses]:  # of a block of several side by side
            erase(part)
        erase(use)
    erase(load)


def _inserted(before: Operation, operation: Operation) -> SSAValue:
    """The result of an operation that is put in front of another one."""
    assert before.parent is not None
    before.parent.insert_op_before(operation, before)
    if operation.location is None:
        operation.location = before.location
    return operation.results[0]


def _slices(block: Block) -> list[list[ProductOp]]:
    """The products of each slice, in the order of their first products."""
    of: dict[Operation, Operation] = {}

    def group(operation: Operation) -> Operation:
        while of[operation] is not operation:
            of[operation] = of[of[operation]]
            operation = of[operation]
        return operation

    for operation in block.ops:
        makers = [owner for value in operation.operands if isinstance(owner := value.owner, Operation) and owner in of]
        if not makers and not isinstance(operation, (LoadNdOp, ProductOp)):
            continue  # the same for all slices
        of[operation] = operation
        if operation is block.last_op:
            break
        for maker in makers:
            if not (isinstance(operation, ProductOp) and operation.acc is not None and maker is operation.acc.owner
                    and isinstance(_first_of_sum(operation.acc), BlockArgument)):
                of[group(maker)] = group(operation)
    found: dict[Operation, list[ProductOp]] = {}
    for operation in block.ops:
        if isinstance(operation, ProductOp):
            found.setdefault(group(operation), []).append(operation)
    return list(found.values())


def _first_of_sum(value: SSAValue) -> SSAValue | None:
    """Initial value of a chain of products."""
    while isinstance(owner := value.owner, ProductOp):
        if owner.acc is None:
            return None
        value = owner.acc
    return value


def _reorder(block: Block, slices: Iterable[list[ProductOp]]) -> None:
    """Order slice by slice, prefetches first; all other operations go right in front of their first users.

    Within a slice, products of loaded operands come first, then the values computed from them: so their sums are dead
    before the operands of the next products are loaded.
    """
    order: dict[Operation, None] = {}
    end = block.last_op
    assert end is not None
    for operation in block.ops:
        if isinstance(operation, PrefetchNdOp):
            _put(operation, block, order)
    for products in slices:
        for level in _levels(products):
            computed = _computed_operands(level)
            for operation in computed:
                _put(operation, block, order)
            if computed:  # else the compiler loads operands ahead while these are computed, which takes registers
                order[CompileHintOp()] = None
            for product in level:
                _put(product, block, order)
    for operation in block.ops:
        _put(operation, block, order)
    for operation in order:
        if operation.parent is not None:
            operation.detach()  # type: ignore[no-untyped-call]
    block.add_ops(order)


def _put(operation: Operation, block: Block, order: dict[Operation, None]) -> None:
    """Append an operation to an order, behind the operations of the block that it depends on."""
    pending = [(operation, iter(operation.operands))] if operation not in order else []
    while pending:
        user, operands = pending[-1]
        owner = next((owner for value in operands if isinstance(owner := value.owner, Operation)
                      and owner.parent is block and owner not in order), None)
        if owner is not None:
            pending.append((owner, iter(owner.operands)))
        else:
            order[user] = None
            pending.pop()


def _levels(products: list[ProductOp]) -> Iterator[list[ProductOp]]:
    """Products by depth: the number of products in the longest chain behind their operands; a sum counts as one."""
    levels: dict[Operation, int] = {}
    for product in products:
        before = [levels.get(each, 0) + 1 for operand in (product.a, product.b) for each in _products_behind(operand)]
        if product.acc is not None and isinstance(product.acc.owner, Operation):
            before.append(levels.get(product.acc.owner, 0))
        levels[product] = max(before, default=0)
    for level in sorted({*levels.values()}):
        yield [product for product in products if levels[product] == level]


def _computed_operands(products: list[ProductOp]) -> list[Operation]:
    """Operations that compute operands of products from other products, those from the same product together."""
    positions = {operation: position for position, operation in enumerate(products[0].parent.ops)}  # type: ignore
    behind = {operand.owner: [positions[each] for each in _products_behind(operand)]
              for product in products for operand in (product.a, product.b) if not isinstance(operand.owner, ProductOp)}
    computed = {owner: min(found) for owner, found in behind.items() if found and isinstance(owner, Operation)}
    return sorted(computed, key=computed.__getitem__)


def _products_behind(value: SSAValue) -> list[Operation]:
    """Products of the same block that a value is computed from, without those that these depend on."""
    found, seen, pending = list[Operation](), set[Operation](), [value]
    block = value.owner.parent if isinstance(value.owner, Operation) else None
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner.parent is block and owner not in seen:
            seen.add(owner)
            if isinstance(owner, ProductOp):
                found.append(owner)
            else:
                pending += owner.operands
    return found
