"""Rematerialization of loop-invariant loads: a loop repeats, in each step, loads that stood before it.

    %q = load_nd %Q
    scf.for ... { %s = dpas %q, %k ; %p = exp2 %s ; %o = dpas %p, %v }
becomes
    scf.for ... { %q = load_nd %Q ; %s = dpas %q, %k ; %p = exp2 %s ; %o = dpas %p, %v }

The registers of ``%q`` are free for what a step computes behind its last use; the load comes from the cache. Only loads
by 2D block messages are taken, which all loops of products use, and only if no global memory is written between the
load and the end of the loop. Where subgroups wait for each other in the loop, as they do for what they exchange in
shared local memory, they do so behind the products: one that has left the loop may write.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import func, scf
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import Block, Operation, SSAValue

from xegpu.analysis.register_pressure import VIEWS
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, StoreNdOp, desc_of
from xegpu.dialect.dpas import ProductOp
from xegpu.dialect.gather_scatter import LoadColumnsOp, LoadGatherOp
from xegpu.dialect.scalar import LoadScalarOp
from xegpu.ir.matchers import VERSIONED
from xegpu.ir.traits import has_no_memory_effect
from xegpu.rewrite.dce import erase_dead
from xegpu.rewrite.inserter import copy_operation

_READS = (LoadNdOp, LoadColumnsOp, LoadGatherOp, LoadScalarOp, PrefetchNdOp, scf.YieldOp, scf.ForOp, scf.IfOp)
"""Operations with effects that write no memory."""


def reload_invariants(function: func.FuncOp) -> bool:
    """Copy loads into the loops that use them, in place; whether there are such loads."""
    changed = False
    for loop in [*_loops(function.body.block)]:
        if any(isinstance(operation, ProductOp) for operation in loop.body.block.ops):
            changed |= _reload(loop)
    if changed:
        erase_dead(function.body.block)
        for operation in [*function.body.block.ops]:
            if isinstance(operation, LoadNdOp) and not operation.result.uses:
                operation.detach()  # type: ignore[no-untyped-call]
                operation.erase()
    return changed


def _loops(block: Block) -> Iterator[scf.ForOp]:
    """Loops of a block that are in no other one, versions of loops among them."""
    for operation in block.ops:
        if isinstance(operation, scf.ForOp):
            yield operation
        elif VERSIONED in operation.attributes:
            for region in operation.regions:
                yield from _loops(region.block)


def _reload(loop: scf.ForOp) -> bool:
    """Copy loads in front of a loop that it uses to the head of its body; whether there are any."""
    values: dict[SSAValue, SSAValue] = {}
    spared: dict[LoadNdOp, bool] = {}
    first = loop.body.block.first_op
    assert first is not None
    for operation in [*loop.body.block.ops]:
        for index, operand in enumerate(operation.operands):
            chain = _chain(operand, loop, spared)
            for made in chain:
                if made.results[0] not in values:
                    loop.body.block.insert_op_before(copy_operation(made, values), first)
            if chain:
                operation.operands[index] = values[operand]
    return bool(values)


def _chain(value: SSAValue, loop: scf.ForOp, spared: dict[LoadNdOp, bool]) -> list[Operation]:
    """A load in front of a loop, and the views of it that lead to a value; none if the value is made otherwise.

    Args:
        value: an operand of the loop's step.
        loop: the loop, into which nothing but loads is copied meanwhile.
        spared: of loads seen before, whether nothing writes memory behind them: the products of a step read few.
    """
    chain = list[Operation]()
    owner = value.owner
    while isinstance(owner, VIEWS):
        chain.insert(0, owner)
        owner = owner.operands[0].owner
    if not isinstance(owner, LoadNdOp) or desc_of(owner.desc).block.access != "block":
        return []
    if owner not in spared:
        spared[owner] = _writes_nothing(owner, loop)
    return [owner, *chain] if spared[owner] else []


def _writes_nothing(load: LoadNdOp, loop: scf.ForOp) -> bool:
    """Whether nothing from a load to the end of a loop writes global memory, of this subgroup or of one ahead of it."""
    around: Operation | None = loop  # the loop's ancestor in the load's block; None for loads in a loop
    while around is not None and around.parent is not load.parent:
        around = around.parent_op()
    if around is None or not _waits_behind_products(loop):
        return False
    operation: Operation | None = load
    while operation is not None:
        if not all(map(_spares_arrays, operation.walk())):
            return False
        if operation is around:
            return not isinstance(operation, scf.ForOp) or operation is loop
        operation = operation.next_op
    return False


def _spares_arrays(operation: Operation) -> bool:
    """Whether an operation writes nothing but shared local memory."""
    if isinstance(operation, StoreNdOp):
        return desc_of(operation.desc).block.memory_scope == "slm"
    return isinstance(operation, (*_READS, BarrierOp)) or has_no_memory_effect(operation)


def _waits_behind_products(loop: scf.ForOp) -> bool:
    """Whether the barriers of a loop's step, if it has any, stand behind all its products."""
    behind = False
    for operation in reversed([*loop.body.block.ops]):
        if isinstance(operation, BarrierOp):
            behind = True
        elif isinstance(operation, ProductOp):
            break
    return behind or not any(isinstance(inner, BarrierOp) for inner in loop.walk())
