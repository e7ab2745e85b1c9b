"""Analysis of loop-carried row sums, ``t = t * factor + tile_reduce <add> x [1]``; loops that carry more values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import Float32Type, FloatAttr, VectorType, f32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.mlir.vector import shape_of
from xegpu.rewrite.inserter import Inserter
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of


@dataclass(frozen=True)
class CarriedSum:
    """A sum of rows in f32.

    Attributes:
        argument: the sum so far.
        factor: its factor, one for each row, or None.
        rows: the vector whose rows are summed.
        result: the operation that adds the rows to it.
    """

    argument: BlockArgument
    factor: SSAValue | None
    rows: SSAValue
    result: Operation


def carried_sum(argument: BlockArgument, loop: scf.ForOp) -> CarriedSum | None:
    """A carried value as a sum of rows; None if it is anything else."""
    block = loop.body.block
    assert block.last_op is not None
    result = block.last_op.operands[argument.index - 1].owner
    if not argument.has_one_use() or not isinstance(result, Operation) or result.parent is not block \
            or not result.results[0].has_one_use():
        return None
    if isinstance(result, math.FmaOp):
        factors: tuple[SSAValue, ...] = (result.a, result.b)
        added: SSAValue = result.c
    elif isinstance(result, arith.AddfOp):
        before, added = _reduced_last(result)
        factors = (before.owner.lhs, before.owner.rhs) if isinstance(before.owner, arith.MulfOp) \
            and before.has_one_use() else (before,)
    else:
        return None
    reduction = added.owner
    if argument not in factors or not isinstance(reduction, TileReduceOp) or reduction.kind.data != "add" \
            or axes_of(reduction) != (1,) or not added.has_one_use() or not isinstance(added.type, VectorType) \
            or not isinstance(added.type.element_type, Float32Type):
        return None
    factor = next((each for each in factors if each is not argument), None)
    return CarriedSum(argument, factor, reduction.source, result)


def _reduced_last(operation: arith.AddfOp) -> tuple[SSAValue, SSAValue]:
    """Operands of an addition, the sum of rows behind the other one."""
    swapped = isinstance(operation.lhs.owner, TileReduceOp)
    return (operation.rhs, operation.lhs) if swapped else (operation.lhs, operation.rhs)


def carry_wide(inserter: Inserter, loop: scf.ForOp, found: CarriedSum, columns: int, kind: str,
               add: Callable[[SSAValue, SSAValue | None], SSAValue]) -> scf.ForOp:
    """Write a loop that carries several columns for a sum of rows, which are reduced behind it.

    Args:
        inserter: the builder.
        loop: that carries the sum.
        found: the sum.
        columns: that are carried.
        kind: of the reduction behind the loop: of equal columns, or of parts of the sum, each of which begins with
            its share of the first value.
        add: makes the columns of the next step of those so far and their factor, before the sum's last operation.
    """
    index, block = found.argument.index, loop.body.block
    wide = VectorType(f32, [shape_of(found.rows)[0], columns])
    start: SSAValue = loop.iter_args[index - 1]
    if kind == "add":
        share = inserter.before(loop, arith.ConstantOp(FloatAttr(1.0 / columns, f32)))
        assert isinstance(start.type, VectorType)
        start = inserter.before(loop, arith.MulfOp(start, inserter.before(loop, BroadcastOp(share, start.type))))
    first = inserter.before(loop, TileBroadcastOp(start, wide.get_shape(), (1,)))
    carried = block.insert_arg(wide, index)
    factor = None if found.factor is None else \
        inserter.before(found.result, TileBroadcastOp(found.factor, wide.get_shape(), (1,)))
    total = add(carried, factor)
    assert block.last_op is not None
    block.last_op.operands[index - 1] = total
    _erase_sum(found)
    block.erase_arg(found.argument)
    values = list(loop.iter_args)
    values[index - 1] = first
    new = scf.ForOp(loop.lb, loop.ub, loop.step, values, loop.detach_region(loop.body))
    new.attributes.update(loop.attributes)
    inserter.before(loop, new)
    column = TileReduceOp(kind, new.results[index - 1], (1,))
    inserter.before(loop, column)
    for old, result in zip(loop.results, new.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(column.result if result is new.results[index - 1] else result)
    loop.detach()  # type: ignore[no-untyped-call]
    loop.erase()
    return new


def _erase_sum(found: CarriedSum) -> None:
    """Erase the operations of a sum that have no other users."""
    pending = [found.result]
    while pending:
        operation = pending.pop()
        makers = [value.owner for value in operation.operands if isinstance(value.owner, Operation)]
        if operation.parent is not None and not any(result.uses for result in operation.results):
            operation.detach()  # type: ignore[no-untyped-call]
            operation.erase()
            pending += makers
