"""Loops that count in integers, as loops that count in indices, which the passes know.

    %r = scf.for %i = %lower to %upper step %step iter_args(...) -> (...) : i32 { ... %i ... }
becomes
    %l, %u, %s = arith.index_cast ... : i32 to index
    %r = scf.for %k = %l to %u step %s iter_args(...) -> (...) {
      %i = arith.index_cast %k : index to i32
      ... %i ... }

``scf.for unsigned`` extends its bounds by zeros.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, IntegerType, ModuleOp, i64
from xdsl.ir import Operation, SSAValue

from xegpu.ir.create import index_constant
from xegpu.ir.matchers import number
from xegpu.mlir.arith import ExtUIOp, IndexCastOp
from xetile.text.other_dialects import UNSIGNED


def count_in_indices(module: ModuleOp) -> None:
    """Let every well-formed loop of a module count in indices; the others are left to the checks."""
    for loop in list(module.walk()):
        if isinstance(loop, scf.ForOp):
            unsigned = loop.attributes.pop(UNSIGNED, None) is not None
            if _counts_in_integers(loop):
                _convert(loop, unsigned)


def _counts_in_integers(loop: scf.ForOp) -> bool:
    """Whether bounds, step and counter are of one type of integers, in a body that is not empty."""
    blocks, types = loop.body.blocks, {bound.type for bound in loop.operands[:3]}
    if len(blocks) != 1 or not blocks[0].args or blocks[0].first_op is None:
        return False
    types.add(blocks[0].args[0].type)
    return len(types) == 1 and all(isinstance(each, IntegerType) for each in types)


def _convert(loop: scf.ForOp, unsigned: bool) -> None:
    for position in range(3):
        loop.operands[position] = _as_index(loop, loop.operands[position], unsigned)
    body = loop.body.block
    counter = body.args[0]
    index = body.insert_arg(IndexType(), 0)
    index.name_hint = counter.name_hint
    converted = IndexCastOp(index, counter.type)
    converted.location = loop.location
    assert body.first_op is not None
    body.insert_op_before(converted, body.first_op)
    counter.replace_all_uses_with(converted.result)
    body.erase_arg(counter)


def _as_index(loop: scf.ForOp, bound: SSAValue, unsigned: bool) -> SSAValue:
    """A bound of a loop as an index, in front of the loop."""
    value, type_ = number(bound), bound.type
    assert isinstance(type_, IntegerType)
    bits = type_.width.data
    if value is None and unsigned and bits < 64:
        bound = _before(loop, ExtUIOp(bound, i64))
    least = 0 if unsigned and bits < 64 else -(1 << bits - 1)  # 255 of i8 is -1
    return _before(loop, IndexCastOp(bound, IndexType()) if value is None else
                   index_constant((value - least) % (1 << bits) + least))


def _before(loop: scf.ForOp, new: Operation) -> SSAValue:
    """Result of an operation in front of a loop."""
    new.location = loop.location
    assert loop.parent is not None
    loop.parent.insert_op_before(new, loop)
    return new.results[0]
