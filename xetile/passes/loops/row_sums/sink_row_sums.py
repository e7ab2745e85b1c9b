"""Sinking of row sums: a loop carries a partial sum for each lane, and lanes are reduced once, after the loop.

    scf.for ... iter_args(%t = %one : vector<16x1xf32>) {
      yield (math.fma %t, %shrink, (tile_reduce <add> %p [1])) }                     %p : vector<16x32xf32>
becomes
    %t = scf.for ... iter_args(%u = %sixteenths : vector<16x16xf32>) {
      yield (addf (math.fma %u, (tile_broadcast %shrink [1]), %p[:, 0:16]), %p[:, 16:32]) }
    tile_reduce <add> %t [1]

Each lane has its own sum, so that a step adds registers; lanes are brought together once. Sums are added up in another
order: it applies to kernels whose operations may be reassociated, and to sums that are not products with ones already.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func, math, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from xegpu.ir.region_branch import for_loops
from xegpu.mlir.arith import REASSOCIATE
from xegpu.mlir.vector import ExtractStridedSliceOp, shape_of
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.targets import Target
from xetile.passes.loops.row_sums.carried_sums import CarriedSum, carried_sum, carry_wide

_SHARE = 8
"""Part of the registers that sums may have: a loop has operands, too."""


@dataclass(frozen=True)
class SinkRowSums:
    """Pass ``sink-row-sums``.

    Attributes:
        target: whose lanes have the sums.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such sums; the module itself if there are none."""
        return rewrite_in_place(module, for_loops, self._sums, self._sink)

    def _sums(self, loop: scf.ForOp) -> list[CarriedSum]:
        if not _reassociates(loop):
            return []
        sums = (carried_sum(argument, loop) for argument in loop.body.block.args[1:])
        return [found for found in sums if found and self._pays(*shape_of(found.rows))]

    def _pays(self, rows: int, columns: int) -> bool:
        lanes = self.target.subgroup_size
        room = max(self.target.registers) * self.target.register_bytes // _SHARE
        return columns % lanes == 0 and rows * lanes * 4 <= room

    def _sink(self, inserter: Inserter, loop: scf.ForOp, sums: list[CarriedSum]) -> None:
        for found in sums:
            loop = _sunk(inserter, loop, found, self.target.subgroup_size)


def _reassociates(operation: Operation) -> bool:
    """Whether an operation's kernel has sums in any order."""
    parent = operation.parent_op()
    while parent is not None and not isinstance(parent, func.FuncOp):
        parent = parent.parent_op()
    return parent is not None and REASSOCIATE in parent.attributes


def _sunk(inserter: Inserter, loop: scf.ForOp, found: CarriedSum, lanes: int) -> scf.ForOp:
    """Write a loop that carries a sum of each lane."""
    rows, columns = shape_of(found.rows)

    def add(carried: SSAValue, factor: SSAValue | None) -> SSAValue:
        added: SSAValue | None = None
        for at in range(0, columns, lanes):
            part = inserter.before(found.result, ExtractStridedSliceOp(found.rows, [0, at], [rows, lanes]))
            added = part if added is None else inserter.before(found.result, arith.AddfOp(added, part))
        assert added is not None
        if factor is None:
            return inserter.before(found.result, arith.AddfOp(carried, added))
        return inserter.before(found.result, math.FmaOp(carried, factor, added))

    return carry_wide(inserter, loop, found, lanes, "add", add)
