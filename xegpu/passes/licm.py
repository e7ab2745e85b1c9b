"""Loop-invariant code motion in loops of products, down to the invariant part of a descriptor's offsets.

    scf.for %k = %0 to %n step %32 {
      %s = gpu.subgroup_id ; %r = muli %s, %c8 ; %m1 = addi %m, %r ; %k1 = addi %k, %c96
      %p = create_nd_tdesc %A, [%m1, %k1] ; prefetch_nd %p }
becomes
    %s = gpu.subgroup_id ; %r = muli %s, %c8 ; %m1 = addi %m, %r
    %A1 = create_nd_tdesc %A, [%m1, %c96]
    scf.for %k = %0 to %n step %32 {
      %p = update_nd_offset %A1, [%0, %k] ; prefetch_nd %p }

A kernel that makes its tiles anew in each step is then the same as one that moves them.

An operand of a product that is one number throughout, such as the ones that sum rows, is made before the loop too:
    scf.for ... { %b = broadcast %one ; %u = pack %b ; %d = dpas %a, %u, %c }
becomes
    %b = broadcast %one ; %u = pack %b
    scf.for ... { %d = dpas %a, %u, %c }
Intel's compiler, which takes it for a number, would write its registers again for each product.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects import arith, func, gpu, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from xegpu.dialect.block_io import CreateNdTdescOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.types import TensorDescType
from xegpu.dialect.vector import PackOp
from xegpu.ir.matchers import number
from xegpu.ir.region_branch import for_loops
from xegpu.ir.traversal import is_a
from xegpu.mlir.elementwise import RECORDS
from xegpu.rewrite.dce import erase
from xegpu.rewrite.rewriter import copied, rewrite
from xegpu.target.targets import Target

_POSITIONS = (gpu.BlockIdOp, gpu.GridDimOp, gpu.SubgroupIdOp)
MAY_FAIL = tuple(kind for kind, record in RECORDS.items() if record.defined == "divisor")
"""Operations that a divisor of 0 makes fail."""


@dataclass(frozen=True)
class Licm:
    """Pass ``licm``.

    Attributes:
        target: which decides whether places on a batch's matrices are divided, too.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with loop invariants of loops of products in front of them; itself if there are none."""
        return rewrite(module, lambda function: _hoisted(function, _divides_batches(self.target)))


def _divides_batches(target: Target) -> bool:
    """Whether the places of matrices of a batch are divided: where a message takes a distance from its address, and
    where blocks are read by rows, whose bounds can then be checked before the loop. Where block messages take complete
    addresses, those of a step are all made from one that is made in it, with fewer instructions."""
    return target.immediate_offsets or not (target.block_io or target.fuses_loads)


def _hoisted(function: func.FuncOp, batches: bool) -> func.FuncOp:
    blocks = [loop.body.block for loop in _product_loops(function)]
    if not any(is_invariant(operation, block) or _is_splittable(operation, block, batches) or _splats(operation, block)
               for block in blocks for operation in block.ops):
        return function
    new = copied(function)
    for loop in reversed(_product_loops(new)):  # inner ones first
        block = loop.body.block
        for operation in list(block.ops):
            if is_invariant(operation, block):
                put_before(loop, operation)
            elif isinstance(operation, CreateNdTdescOp) and _is_splittable(operation, block, batches):
                _split(operation, loop)
            for splat in _splats(operation, block):
                put_before(loop, splat)
    return new


def _product_loops(function: func.FuncOp) -> list[scf.ForOp]:
    """The loops whose own bodies have products, outer ones first."""
    return [loop for loop in for_loops(function)
            if any(type(operation) is DpasOp for operation in loop.body.block.ops)]


def terms(value: SSAValue) -> list[SSAValue]:
    """The values that an index is the sum of."""
    owner = value.owner
    return [*terms(owner.lhs), *terms(owner.rhs)] if isinstance(owner, arith.AddiOp) else [value]


def is_invariant(operation: Operation, block: Block) -> bool:
    """Whether an operation is loop-invariant: index arithmetic or a descriptor of outer values, which cannot fail."""
    kinds = (IndexType, TensorDescType)
    if operation.regions or not (is_a(operation, _POSITIONS) or operation.has_trait(Pure)):
        return False
    if not operation.results or not all(isinstance(result.type, kinds) for result in operation.results):
        return False
    if isinstance(operation, MAY_FAIL) and number(operation.operands[1]) in (None, 0):
        return False
    return not isinstance(operation, UpdateNdOffsetOp) and _stands_outside(operation.operands, block)


def _splats(operation: Operation, block: Block) -> list[Operation]:
    """Loop-invariant splats: operations of a block that broadcast an outer number to an operand of a product."""
    found: dict[Operation, None] = {}
    for operand in (operation.a, operation.b) if type(operation) is DpasOp else ():
        packed = operand.owner
        made = packed.operands[0].owner if isinstance(packed, PackOp) else packed
        if isinstance(made, BroadcastOp) and made.parent is block and _stands_outside(made.operands, block):
            found |= dict.fromkeys((made, packed))  # type: ignore[arg-type]
    return list(found)


def _stands_outside(values: Iterable[SSAValue], block: Block) -> bool:
    """Whether no value is made in a block or changes from one of its steps to the next."""
    owners = [value.owner for value in values]
    return not any(owner is block or (isinstance(owner, Operation) and owner.parent is block) for owner in owners)


def put_before(loop: scf.ForOp, operation: Operation) -> None:
    """Move an operation out of a loop."""
    operation.detach()  # type: ignore[no-untyped-call]
    assert loop.parent is not None
    loop.parent.insert_op_before(operation, loop)


def _is_splittable(operation: Operation, block: Block, batches: bool) -> bool:
    """Whether only the place of a descriptor that a loop's body makes changes from step to step.

    Args:
        operation: an operation of the body.
        block: the body.
        batches: whether the descriptor may be of a matrix of a batch, the same one in each step.
    """
    if type(operation) is not CreateNdTdescOp:
        return False
    desc, batch = desc_of(operation.result), operation.offsets[:-2]
    return len(desc.shape) == 2 <= len(operation.offsets) and (batches or not batch) and \
        desc.block.memory_scope == "global" and \
        _stands_outside([operation.source, *batch, *operation.shape, *operation.strides], block)


def _split(old: CreateNdTdescOp, loop: scf.ForOp) -> None:
    """Make a descriptor before the loop at the part of its place that stays, and move it by the rest in the loop."""
    block = loop.body.block
    *batch, row, column = old.offsets
    parts = [terms(offset) for offset in (row, column)]
    stay = [_sum_before([term for term in part if _stands_outside([term], block)], loop) for part in parts]
    move = [_sum_before([term for term in part if not _stands_outside([term], block)], old) for part in parts]
    kind = old.result.type
    assert isinstance(kind, TensorDescType)
    new = CreateNdTdescOp(old.source, [*batch, *stay], list(old.shape), list(old.strides), kind)
    new.attributes.update(old.attributes)
    moved = UpdateNdOffsetOp(new.result, move)
    assert loop.parent is not None
    loop.parent.insert_op_before(new, loop)
    block.insert_op_before(moved, old)
    new.result.name_hint = moved.result.name_hint = old.result.name_hint
    old.result.replace_all_uses_with(moved.result)
    erase(old)


def _sum_before(values: list[SSAValue], before: Operation) -> SSAValue:
    """The sum of indices, made in front of an operation; 0 of none."""
    assert before.parent is not None
    new_ops: list[Operation] = []

    def add(a: SSAValue, b: SSAValue) -> SSAValue:
        new_ops.append(arith.AddiOp(a, b))
        return new_ops[-1].results[0]

    if not values:
        new_ops.append(arith.ConstantOp(IntegerAttr(0, IndexType())))
        values = [new_ops[0].results[0]]
    total = reduce(add, values)
    before.parent.insert_ops_before(new_ops, before)
    return total
