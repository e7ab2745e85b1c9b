"""Induction-variable simplification: indices that advance by multiples of a loop's step are computed from its counter.

    scf.for %k = %start to %n step %32 iter_args(%column = %first) {
      %columns = broadcast %column ; ... ; scf.yield (addi %column, %64) }
becomes
    scf.for %k = %start to %n step %32 {
      %columns = broadcast (addi (muli (subi %k, %start), %2), %first) ; ... }

A tile on rows that an index vector names, which an author moves along by ``update_tile_offset``, carries its column so.
Of a column that is the counter, later passes find the steps in which nothing is masked
(:mod:`xegpu.passes.loops.coalesce_gathers`), and vary one number a step. An index that is used behind the loop stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IndexType, ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.ir.matchers import number
from xegpu.rewrite.inserter import Inserter, copy_module
from xegpu.rewrite.verifier import verify_inserted


class SimplifyIndvars:
    """Pass ``simplify-indvars``; it has no options."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such indices replaced; the module itself if there are none."""
        if not any(_counted(loop) for loop in _loops(module)):
            return module
        new = copy_module(module)
        for function in new.body.block.ops:
            assert isinstance(function, func.FuncOp)
            inserter = Inserter(function)
            for loop in list(_loops(function)):
                if counted := _counted(loop):
                    _replace(inserter, loop, counted)
            verify_inserted(function, inserter.inserted)
        return new


def _loops(around: Operation) -> Iterator[scf.ForOp]:
    return (operation for operation in around.walk() if isinstance(operation, scf.ForOp))


def _counted(loop: scf.ForOp) -> dict[int, Fraction]:
    """Positions of the indices that advance with a loop's counter, each with how many times as far in a step."""
    step, found = number(loop.step), dict[int, Fraction]()
    assert loop.body.block.last_op is not None
    if not step:
        return found
    for position, (argument, yielded) in enumerate(zip(loop.body.block.args[1:], loop.body.block.last_op.operands,
                                                       strict=True)):
        is_vector = isinstance(argument.type, VectorType)
        if isinstance(get_element_type_or_self(argument.type), IndexType) and not loop.results[position].uses:
            distance = 0 if yielded is argument else _distance(argument, yielded.owner)
            if distance is not None and (is_vector or distance % step == 0):
                found[position] = Fraction(distance, step)
    return found


def _distance(index: SSAValue, advanced: object) -> int | None:
    """The number that an operation adds to an index; None if it does anything else."""
    if isinstance(advanced, arith.SubiOp) and advanced.lhs is index:
        known = _number(advanced.rhs)
        return None if known is None else -known
    if isinstance(advanced, arith.AddiOp) and index in advanced.operands:
        return _number(advanced.rhs if advanced.lhs is index else advanced.lhs)
    return None


def _number(value: SSAValue) -> int | None:
    """The constant that an index is, or all elements of a vector."""
    return number(value.owner.source if isinstance(value.owner, BroadcastOp) else value)


def _replace(inserter: Inserter, loop: scf.ForOp, counted: dict[int, Fraction]) -> None:
    """Write a loop that does not carry some indices."""
    block = loop.body.block
    first, last = block.first_op, block.last_op
    assert first is not None
    assert last is not None
    since = inserter.subtract(first, block.args[0], loop.lb)
    for position, times in counted.items():
        index = block.args[position + 1]
        advanced = inserter.scale(first, since, times)
        if isinstance(index.type, VectorType):
            value = loop.iter_args[position]
            if times:
                value = inserter.before(first, arith.AddiOp(value, inserter.before(first, BroadcastOp(
                    advanced, index.type))))
        else:
            value = inserter.add(first, advanced, loop.iter_args[position])
        if loop.iter_args[position] is loop.lb and times == 1:
            value = block.args[0]
        index.replace_all_uses_with(value)
    kept = [position for position in range(len(loop.iter_args)) if position not in counted]
    makers = [last.operands[position].owner for position in counted]
    last.operands = [last.operands[position] for position in kept]
    for position in reversed(counted):
        block.erase_arg(block.args[position + 1])
    _erase_unused(makers)
    values: list[SSAValue] = [loop.iter_args[position] for position in kept]
    new = scf.ForOp(loop.lb, loop.ub, loop.step, values, loop.detach_region(loop.body))
    new.attributes.update(loop.attributes)
    inserter.before(loop, new)
    for position, result in zip(kept, new.results, strict=True):
        result.name_hint = loop.results[position].name_hint
        loop.results[position].replace_all_uses_with(result)
    loop.detach()  # type: ignore[no-untyped-call]
    loop.erase()


def _erase_unused(makers: Sequence[object]) -> None:
    for maker in makers:
        if isinstance(maker, Operation) and not maker.results[0].uses:
            maker.detach()  # type: ignore[no-untyped-call]
            maker.erase()
