"""Takes out of a loop of products what is the same in each step, down to the moving part of a descriptor's place.

    scf.for %k = %0 to %n step %32 {
      %s = gpu.subgroup_id ; %r = muli %s, %c8 ; %m1 = addi %m, %r ; %k1 = addi %k, %c96
      %p = create_nd_tdesc %A, [%m1, %k1] ; prefetch_nd %p }
becomes
    %s = gpu.subgroup_id ; %r = muli %s, %c8 ; %m1 = addi %m, %r
    %A1 = create_nd_tdesc %A, [%m1, %c96]
    scf.for %k = %0 to %n step %32 {
      %p = update_nd_offset %A1, [%0, %k] ; prefetch_nd %p }

A kernel that makes its tiles anew in each step is then the same as one that moves them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from xdsl.dialects import arith, gpu, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from xegpu.dialect.block_io import CreateNdTdescOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.types import TensorDescType
from xegpu.ir.matchers import number

_POSITIONS = (gpu.BlockIdOp, gpu.GridDimOp, gpu.SubgroupIdOp)
_MAY_FAIL = (arith.FloorDivSIOp, arith.RemSIOp)


def lift(module: ModuleOp) -> None:
    """Change the loops of a module in place, inner ones first."""
    loops = [operation for operation in module.walk() if isinstance(operation, scf.ForOp)]
    for loop in reversed(loops):
        block = loop.body.block
        if any(isinstance(operation, DpasOp) for operation in block.ops):
            for operation in list(block.ops):
                if _is_the_same(operation, block):
                    _put_before(loop, operation)
                elif isinstance(operation, CreateNdTdescOp):
                    _split(operation, loop)


def terms(value: SSAValue) -> list[SSAValue]:
    """The values that an index is the sum of."""
    owner = value.owner
    return [*terms(owner.lhs), *terms(owner.rhs)] if isinstance(owner, arith.AddiOp) else [value]


def _is_the_same(operation: Operation, block: Block) -> bool:
    """Whether an operation computes indices or makes a descriptor from what stands outside, and cannot fail."""
    kinds = (IndexType, TensorDescType)
    if not (operation.has_trait(Pure) or isinstance(operation, _POSITIONS)) or operation.regions:
        return False
    if not operation.results or not all(isinstance(result.type, kinds) for result in operation.results):
        return False
    if isinstance(operation, _MAY_FAIL) and not number(operation.rhs):
        return False
    return not isinstance(operation, UpdateNdOffsetOp) and _stands_outside(operation.operands, block)


def _stands_outside(values: Iterable[SSAValue], block: Block) -> bool:
    """Whether no value is made in a block or changes from one of its steps to the next."""
    owners = [value.owner for value in values]
    return not any(owner is block or (isinstance(owner, Operation) and owner.parent is block) for owner in owners)


def _put_before(loop: scf.ForOp, operation: Operation) -> None:
    operation.detach()  # type: ignore[no-untyped-call]
    assert loop.parent is not None
    loop.parent.insert_op_before(operation, loop)


def _split(old: CreateNdTdescOp, loop: scf.ForOp) -> None:
    """Make a descriptor before the loop at the part of its place that stays, and move it by the rest in the loop."""
    block, desc = loop.body.block, desc_of(old.result)
    if not len(desc.shape) == len(old.offsets) == 2 or desc.block.memory_scope != "global" or \
            not _stands_outside([old.source, *old.shape, *old.strides], block):
        return
    parts = [terms(offset) for offset in old.offsets]
    stay = [_sum([term for term in part if _stands_outside([term], block)], loop) for part in parts]
    move = [_sum([term for term in part if not _stands_outside([term], block)], old) for part in parts]
    kind = old.result.type
    assert isinstance(kind, TensorDescType)
    new = CreateNdTdescOp(old.source, stay, list(old.shape), list(old.strides), kind)
    new.attributes.update(old.attributes)
    moved = UpdateNdOffsetOp(new.result, move)
    assert loop.parent is not None
    loop.parent.insert_op_before(new, loop)
    block.insert_op_before(moved, old)
    new.result.name_hint = moved.result.name_hint = old.result.name_hint
    old.result.replace_all_uses_with(moved.result)
    old.detach()  # type: ignore[no-untyped-call]
    old.erase()


def _sum(values: list[SSAValue], before: Operation) -> SSAValue:
    """The sum of indices, made in front of an operation; 0 of none."""
    assert before.parent is not None
    made: list[Operation] = []

    def add(a: SSAValue, b: SSAValue) -> SSAValue:
        made.append(arith.AddiOp(a, b))
        return made[-1].results[0]

    if not values:
        made.append(arith.ConstantOp(IntegerAttr(0, IndexType())))
        values = [made[0].results[0]]
    total = reduce(add, values)
    before.parent.insert_ops_before(made, before)
    return total
