"""Row sums by matrix products: a sum of rows that a loop carries becomes a product with ones, which it carries.

    scf.for ... iter_args(%t = %zero : vector<16x1xf32>) {
      %r = tile_reduce <add> (extf %p : vector<16x64xbf16>) [1]
      %o = tile_mma %p, %v, ...
      yield (addf (mulf %t, %shrink), %r) }
becomes
    %t = scf.for ... iter_args(%u = %zeros : vector<16x16xf32>) {
      %o = tile_mma %p, %v, ...
      yield (tile_mma %p, %ones, (mulf %u, tile_broadcast %shrink [1])) }
    tile_reduce <maxnumf> %t [1]                                      all columns are equal

Products with one are exact, and both are sums in float32 in any order. The matrix engine adds up the rows of a block of
``%p`` in one instruction, where the vector unit takes an addition a register, and moves to bring the lanes together. So
attention sums the weights that it multiplies, or would if it dropped none; weights that are not rounded to a type of
operands have a sum of the vector unit. It applies to loops of matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import Float32Type, FloatAttr, ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.ir.dtypes import of_mlir, tf32
from xegpu.ir.region_branch import for_loops
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.targets import Target
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of


@dataclass(frozen=True)
class RowSumsByMma:
    """The pass.

    Attributes:
        target: whose matrix engine multiplies.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such sums as products; the module itself if there are none."""
        return rewrite_in_place(module, for_loops, self._sums, self._multiply)

    def _sums(self, loop: scf.ForOp) -> list[_Sum]:
        return [found for argument in loop.body.block.args[1:] if (found := _sum_of(argument, loop, self.target))]

    def _multiply(self, inserter: Inserter, loop: scf.ForOp, sums: list[_Sum]) -> None:
        for found in sums:
            loop = _multiplied(inserter, loop, found, self.target.subgroup_size)


@dataclass(frozen=True)
class _Sum:
    """A sum of rows.

    Attributes:
        argument: the sum so far.
        factor: what it is multiplied by, one for each row, or None.
        rows: what is summed, in the type that it is multiplied in.
        result: the operation that adds the rows to it.
    """

    argument: BlockArgument
    factor: SSAValue | None
    rows: SSAValue
    result: Operation


def _sum_of(argument: BlockArgument, loop: scf.ForOp, target: Target) -> _Sum | None:
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
    rows = _rows_of(added, target)
    if rows is None or argument not in factors:
        return None
    factor = next((each for each in factors if each is not argument), None)
    return _Sum(argument, factor, rows, result)


def _reduced_last(operation: arith.AddfOp) -> tuple[SSAValue, SSAValue]:
    """Operands of an addition, the sum of rows behind the other one."""
    swapped = isinstance(operation.lhs.owner, TileReduceOp)
    return (operation.rhs, operation.lhs) if swapped else (operation.lhs, operation.rhs)


def _rows_of(value: SSAValue, target: Target) -> SSAValue | None:
    """Reduced operand of a row sum in a loop of matrix products, if it is of a type that is multiplied; else None."""
    reduction = value.owner
    if not isinstance(reduction, TileReduceOp) or reduction.kind.data != "add" or axes_of(reduction) != (1,) \
            or not value.has_one_use():
        return None
    widened = reduction.source.owner
    if not isinstance(widened, arith.ExtFOp) or not isinstance(value.type, VectorType) \
            or not isinstance(value.type.element_type, Float32Type):
        return None
    rows = widened.input
    assert reduction.parent is not None
    multiplies = any(isinstance(operation, TileMmaOp) for operation in reduction.parent.ops)
    assert isinstance(rows.type, VectorType)
    dtype = of_mlir(rows.type.element_type)
    exact = dtype is not tf32 or isinstance(rows.owner, arith.TruncFOp)  # a view's other bits are added, not multiplied
    return rows if multiplies and exact and target.multiplies(dtype, dtype) else None


def _multiplied(inserter: Inserter, loop: scf.ForOp, found: _Sum, columns: int) -> scf.ForOp:
    """Write a loop that carries a product with ones instead of a sum of rows."""
    index, block = found.argument.index, loop.body.block
    rows, inner = shape_of(found.rows)
    wide = VectorType(Float32Type(), [rows, columns])
    assert isinstance(found.rows.type, VectorType)
    one = inserter.before(loop, arith.ConstantOp(FloatAttr(1.0, found.rows.type.element_type)))
    ones = inserter.before(loop, BroadcastOp(one, VectorType(found.rows.type.element_type, [inner, columns])))
    first = inserter.before(loop, TileBroadcastOp(loop.iter_args[index - 1], (rows, columns), (1,)))
    carried = block.insert_arg(wide, index)
    scaled: SSAValue = carried
    if found.factor is not None:
        factor = inserter.before(found.result, TileBroadcastOp(found.factor, (rows, columns), (1,)))
        scaled = inserter.before(found.result, arith.MulfOp(carried, factor))
    total = inserter.before(found.result, TileMmaOp(found.rows, ones, scaled, wide))
    assert block.last_op is not None
    block.last_op.operands[index - 1] = total
    _erase_sum(found)
    block.erase_arg(found.argument)
    values = list(loop.iter_args)
    values[index - 1] = first
    new = scf.ForOp(loop.lb, loop.ub, loop.step, values, loop.detach_region(loop.body))
    new.attributes.update(loop.attributes)
    inserter.before(loop, new)
    column = TileReduceOp("maxnumf", new.results[index - 1], (1,))
    inserter.before(loop, column)
    for old, result in zip(loop.results, new.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(column.result if result is new.results[index - 1] else result)
    loop.detach()  # type: ignore[no-untyped-call]
    loop.erase()
    return new


def _erase_sum(found: _Sum) -> None:
    """Erase the operations of a sum that have no other users."""
    pending = [found.result]
    while pending:
        operation = pending.pop()
        makers = [value.owner for value in operation.operands if isinstance(value.owner, Operation)]
        if operation.parent is not None and not any(result.uses for result in operation.results):
            operation.detach()  # type: ignore[no-untyped-call]
            operation.erase()
            pending += makers
