"""Loops that count in integers, as loops that count in indices, which the passes know.

    %r = scf.for %i = %lower to %upper step %step iter_args(...) -> (...) : i32 { ... %i ... }
becomes
    %l, %u, %s = arith.index_cast ... : i32 to index
    %r = scf.for %k = %l to %u step %s iter_args(...) -> (...) {
      %i = arith.index_cast %k : index to i32
      ... %i ... }

``scf.for unsigned`` extends its bounds by zeros. Where they may be beyond the indices of devices, which have 31 bits
and a sign, such a loop counts its turns:

    %n = arith.select (%lower <u %upper), (%upper - %lower - 1) /u %step + 1, 0
    %r = scf.for %k = 0 to %n step 1 iter_args(...) -> (...) {
      %i = %lower + %k * %step
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp, i64
from xdsl.ir import Operation, SSAValue

from xegpu.ir.create import index_constant
from xegpu.ir.matchers import number
from xegpu.mlir.arith import CmpIOp, ExtUIOp, IndexCastOp, SelectOp
from xetile.text.other_dialects import UNSIGNED

_LIMIT = 1 << 31
"""Indices of devices are below."""


def count_in_indices(module: ModuleOp) -> None:
    """Let every well-formed loop of a module count in indices; the others are left to the checks."""
    for loop in list(module.walk()):
        if isinstance(loop, scf.ForOp):
            unsigned = loop.attributes.pop(UNSIGNED, None) is not None
            type_ = _counter_type(loop)
            if unsigned and type_ is not None and not _fits_indices(loop, type_):
                _count_turns(loop, type_)
            elif isinstance(type_, IntegerType):
                _convert(loop, unsigned)


def _counter_type(loop: scf.ForOp) -> IntegerType | IndexType | None:
    """The type of bounds, step and counter; None if they differ, or the body is empty."""
    blocks, types = loop.body.blocks, {bound.type for bound in loop.operands[:3]}
    if len(blocks) != 1 or not blocks[0].args or blocks[0].first_op is None:
        return None
    types.add(blocks[0].args[0].type)
    (type_, *others) = types
    return type_ if not others and isinstance(type_, IntegerType | IndexType) else None


def _fits_indices(loop: scf.ForOp, type_: IntegerType | IndexType) -> bool:
    """Whether an unsigned loop that ends counts below 2**31, its last sum included."""
    bits = type_.width.data if isinstance(type_, IntegerType) else 64
    lower, upper, step = (None if value is None else value % (1 << bits) for value in map(number, loop.operands[:3]))
    if bits < 32:
        return True
    if lower is None or step is None:
        return False
    if upper is None:  # of 64 bits, a bound beyond would take too many turns
        return bits == 64 and lower + step < _LIMIT
    return lower < _LIMIT and upper + step <= _LIMIT


def _count_turns(loop: scf.ForOp, type_: IntegerType | IndexType) -> None:
    """Let an unsigned loop count its turns from 0, and compute the counter of each."""
    lower, upper, step = loop.operands[:3]

    def constant(value: int) -> SSAValue:
        return _before(loop, arith.ConstantOp(IntegerAttr(value, type_)))

    distance = _before(loop, arith.SubiOp(_before(loop, arith.SubiOp(upper, lower)), one := constant(1)))
    turns = _before(loop, arith.AddiOp(_before(loop, arith.DivUIOp(distance, step)), one))
    runs = _before(loop, CmpIOp(lower, upper, "ult"))
    turns = _before(loop, SelectOp(runs, turns, constant(0)))
    for position, bound in enumerate((constant(0), turns, one)):
        loop.operands[position] = bound
    body = loop.body.block
    counter, first = body.args[0], body.first_op
    assert first is not None
    scaled = arith.MuliOp(counter, step)
    value = arith.AddiOp(scaled.result, lower)
    counter.replace_uses_with_if(value.result, lambda use: use.operation is not scaled)
    for each in (scaled, value):
        each.location = loop.location
        body.insert_op_before(each, first)
    if isinstance(type_, IntegerType):
        _convert(loop, unsigned=False)


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
