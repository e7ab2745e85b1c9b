"""Store fusion: a GEMM loop and the stores of its accumulators become one call that runs along all of K.

    %c = scf.for %k = %0 to %n step %512 iter_args(%c0 = %zero) {
      %a1 = update_nd_offset %a, [%0, %k] ; %b1 = update_nd_offset %b, [%k, %0]
      %c1 = load_mad %a1, %b1, %c0 ; scf.yield %c1 }
    store_nd %c, %out
becomes
    %legal, %rows, %columns, %depth = fused_store_check %a, %b, %out, [%0, %n]
    load_mad_store %a, %b, %out, [%0] if %legal, [%rows, %columns, %depth] { %c = scf.for ... ; store_nd %c, %out }

The sums start from zero in registers, and leave them for C. By the loop they would go through memory three times more:
to the function and back, and from there into C, one lane's numbers at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from xegpu.dialect.block_io import CreateNdTdescOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import LoadMadOp
from xegpu.dialect.fused_store import FusedStoreCheckOp, LoadMadStoreOp
from xegpu.ir.kernel_attributes import subgroup_size
from xegpu.ir.matchers import number
from xegpu.ir.region_branch import for_loops
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.gemm_microkernel import LANES, MicrokernelShape


@dataclass(frozen=True)
class FuseStore:
    """Pass ``fuse-store``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with fused stores; itself where there are none."""
        return rewrite_in_place(module, for_loops, _fusible_product, _fuse)


@dataclass(frozen=True)
class _Product:
    """A loop with one product, and where its sums go.

    Attributes:
        loop, mad: the two.
        a, b: the descriptors of its operands, as they are before the loop.
        stores: what stores the results of the loop, in their order.
    """

    loop: scf.ForOp
    mad: LoadMadOp
    a: SSAValue
    b: SSAValue
    stores: tuple[StoreNdOp, ...]


def _fusible_product(loop: scf.ForOp) -> _Product | None:
    """The product of a loop that does nothing else, from zero, and whose sums are stored, once, all in one place."""
    if isinstance(loop.parent_op(), LoadMadStoreOp):
        return None
    body = list(loop.body.block.ops)
    mads = [operation for operation in body if isinstance(operation, LoadMadOp)]
    if len(mads) != 1 or subgroup_size(loop) != LANES or not _sums_from_zero(loop, mads[0], body):
        return None
    stores = tuple(use.operation for result in loop.results for use in result.uses
                   if isinstance(use.operation, StoreNdOp))
    if len(stores) != len(loop.results) or any(result.uses.get_length() != 1 for result in loop.results):
        return None
    (mad,) = mads
    m, n, _ = mad.sizes
    shape = MicrokernelShape(m, n, desc_of(mad.a).dtype, desc_of(mad.b).dtype)
    if not shape.fits or shape.is_skinny or not _follow(loop, stores) or not _is_one_tile(mad, stores, shape):
        return None
    a, b = (moved.owner.desc for moved in (mad.a, mad.b))  # type: ignore[union-attr]
    return _Product(loop, mad, a, b, stores)


def _sums_from_zero(loop: scf.ForOp, mad: LoadMadOp, body: list[Operation]) -> bool:
    """Whether a loop adds a product to sums that were zero, in steps as long as the product, along contiguous rows."""
    if any(not isinstance(operation, (LoadMadOp, UpdateNdOffsetOp, scf.YieldOp)) for operation in body):
        return False
    arguments, counter = loop.body.block.args[1:], loop.body.block.args[0]
    if list(mad.acc) != list(arguments) or list(body[-1].operands) != list(mad.results):
        return False
    if number(loop.step) != mad.sizes[2] or not all(_is_zero(value) for value in loop.iter_args):
        return False
    return _is_moved_by(mad.a, (0, counter)) and _is_moved_by(mad.b, (counter, 0))


def _is_zero(value: SSAValue) -> bool:
    broadcast = value.owner
    if not isinstance(broadcast, BroadcastOp) or not isinstance(broadcast.source.owner, arith.ConstantOp):
        return False
    constant = broadcast.source.owner.value
    return isinstance(constant, FloatAttr | IntegerAttr) and constant.value.data == 0


def _is_moved_by(desc: SSAValue, along: tuple[SSAValue | int, SSAValue | int]) -> bool:
    """Whether a descriptor of contiguous rows is one from outside the loop, moved by its counter."""
    if desc_of(desc).block.access != "rows" or not isinstance(desc.owner, UpdateNdOffsetOp):
        return False
    return isinstance(desc.owner.desc.owner, CreateNdTdescOp) and all(
        offset is step if isinstance(step, SSAValue) else number(offset) == step
        for offset, step in zip(desc.owner.offsets, along, strict=True))


def _follow(loop: scf.ForOp, stores: tuple[StoreNdOp, ...]) -> bool:
    """Whether stores follow the loop without other memory accesses between them."""
    left, following = set(stores), loop.next_op
    while left and following is not None and (following in left or following.has_trait(Pure)):
        left.discard(following)  # type: ignore[arg-type]
        following = following.next_op
    return not left


def _is_one_tile(mad: LoadMadOp, stores: tuple[StoreNdOp, ...], shape: MicrokernelShape) -> bool:
    """Whether the blocks of sums lie in C as they do in the product, from one descriptor on, in the sums' type."""
    first, (rows, columns) = stores[0].desc, mad.block
    across = mad.sizes[1] // columns
    return desc_of(first).dtype is shape.accumulator and desc_of(first).block.access == "rows" and all(
        _moved(store.desc, first) == (position // across * rows, position % across * columns)
        for position, store in enumerate(stores))


def _moved(desc: SSAValue, first: SSAValue) -> tuple[int | None, ...] | None:
    """Offsets of a descriptor from the first one."""
    if desc is first:
        return 0, 0
    moved = desc.owner
    return tuple(number(offset) for offset in moved.offsets) \
        if isinstance(moved, UpdateNdOffsetOp) and moved.desc is first else None


def _ends_kernel(product: _Product) -> bool:
    """Whether the stores are the kernel's last memory accesses: nothing in it can wait for them."""
    block, after = product.loop.parent, product.loop.next_op
    while after is not None and (after in product.stores or after.has_trait(Pure)):
        after = after.next_op
    return isinstance(after, func.ReturnOp) and isinstance(block.parent_op(), func.FuncOp)  # type: ignore[union-attr]


def _fuse(inserter: Inserter, loop: scf.ForOp, product: _Product) -> None:
    ends = _ends_kernel(product)
    for operation in _needed(product):
        operation.detach()  # type: ignore[no-untyped-call]
        loop.parent.insert_op_before(operation, loop)  # type: ignore[union-attr]
    body = Block()
    check = FusedStoreCheckOp(product.a, product.b, product.stores[0].desc, (loop.lb, loop.ub))
    inserter.before(loop, check)
    for result, hint in zip(check.results, ("legal", "rows", "columns", "depth"), strict=True):
        result.name_hint = hint
    inserter.before(loop, LoadMadStoreOp(check, Region(body), ends_kernel=ends))
    for operation in (loop, *product.stores):
        operation.detach()  # type: ignore[no-untyped-call]
        body.add_op(operation)


def _needed(product: _Product) -> list[Operation]:
    """Operations behind the loop that compute where the sums are stored, in their order."""
    needed: set[Operation] = set()
    wanted = [store.desc for store in product.stores]
    while wanted:
        owner = wanted.pop().owner
        if isinstance(owner, Operation) and owner.parent is product.loop.parent and owner not in needed \
                and product.loop.is_before_in_block(owner):
            needed.add(owner)
            wanted += owner.operands
    return [operation for operation in product.loop.parent.ops if operation in needed]  # type: ignore[union-attr]
