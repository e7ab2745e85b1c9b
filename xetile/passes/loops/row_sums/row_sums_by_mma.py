"""Row sums by matrix products: a loop-carried row sum becomes a loop-carried product with ones.

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

from dataclasses import dataclass, replace

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, ModuleOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue

from xegpu.ir.dtypes import of_mlir, tf32
from xegpu.ir.region_branch import for_loops
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.targets import Target
from xetile.dialect.mma import TileMmaOp
from xetile.passes.loops.row_sums.carried_sums import CarriedSum, carried_sum, carry_wide


@dataclass(frozen=True)
class RowSumsByMma:
    """Pass ``row-sums-by-mma``.

    Attributes:
        target: whose matrix engine multiplies.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such sums as products; the module itself if there are none."""
        return rewrite_in_place(module, for_loops, self._sums, self._multiply)

    def _sums(self, loop: scf.ForOp) -> list[CarriedSum]:
        if not any(isinstance(operation, TileMmaOp) for operation in loop.body.block.ops):
            return []
        sums = (carried_sum(argument, loop) for argument in loop.body.block.args[1:])
        return [replace(found, rows=rows) for found in sums if found and (rows := _multiplied(found.rows, self.target))]

    def _multiply(self, inserter: Inserter, loop: scf.ForOp, sums: list[CarriedSum]) -> None:
        for found in sums:
            loop = _by_mma(inserter, loop, found, self.target.subgroup_size)


def _multiplied(rows: SSAValue, target: Target) -> SSAValue | None:
    """The summands before they were widened, if a product multiplies these; else None."""
    widened = rows.owner
    if not isinstance(widened, arith.ExtFOp):
        return None
    narrow = widened.input
    assert isinstance(narrow.type, VectorType)
    dtype = of_mlir(narrow.type.element_type)
    exact = dtype is not tf32 or isinstance(narrow.owner, arith.TruncFOp)  # a view's other bits are not multiplied
    return narrow if exact and target.multiplies(dtype, dtype) else None


def _by_mma(inserter: Inserter, loop: scf.ForOp, found: CarriedSum, columns: int) -> scf.ForOp:
    """Write a loop that carries a product with ones instead of a sum of rows."""
    inner = shape_of(found.rows)[1]
    assert isinstance(found.rows.type, VectorType)
    element = found.rows.type.element_type
    one = inserter.before(loop, arith.ConstantOp(FloatAttr(1.0, element)))
    ones = inserter.before(loop, BroadcastOp(one, VectorType(element, [inner, columns])))

    def add(carried: SSAValue, factor: SSAValue | None) -> SSAValue:
        scaled = carried if factor is None else inserter.before(found.result, arith.MulfOp(carried, factor))
        return inserter.before(found.result, TileMmaOp(found.rows, ones, scaled, carried.type))

    return carry_wide(inserter, loop, found, columns, "maxnumf", add)
