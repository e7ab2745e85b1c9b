"""Instruction scheduling for register pressure: operations move close to the first use of their results.

    %x0 = addf %c0, %b ; %x1 = addf %c1, %b          all of one step, then all of the next
    %y0 = mulf %x0, %x0 ; %y1 = mulf %x1, %x1
    store_nd %y0, ... ; store_nd %y1, ...
becomes
    %x0 = addf %c0, %b ; %y0 = mulf %x0, %x0 ; store_nd %y0, ...
    %x1 = addf %c1, %b ; %y1 = mulf %x1, %x1 ; store_nd %y1, ...

Two operations that are the only users of the same two values (a comparator of a sorting network) stay together, since
these values are dead behind them.

An operation on a loaded value that lowers the register pressure stands right behind the load instead:
    %c0 = load_nd ; %c1 = load_nd ; %s0 = addf %acc0, %c0 ; %s1 = addf %acc1, %c1
becomes
    %c0 = load_nd ; %s0 = addf %acc0, %c0 ; %c1 = load_nd ; %s1 = addf %acc1, %c1
so that the blocks of a sum and of its addend are not all alive at once.

Only element-wise operations move, and only within their block. Products keep their order, in which dependent ones are
far apart (but see :mod:`xegpu.passes.reorder_dpas`); so do operations that access memory or synchronize. Without block
IO, loads move as well, down to the next operation that may write the memory they read: the operands of one step of a
product then reuse the registers of the previous step's. If the loads in front of a run of stores, which may write their
memory, take as many registers as the stored values, the whole run waits until these are computed:
    %g0 = load_nd ; %g1 = load_nd ; %y0 = mulf %x0, %g0 ; store_nd %y0 ; %y1 = mulf %x1, %g1 ; store_nd %y1
becomes
    %g0 = load_nd ; %y0 = mulf %x0, %g0 ; %g1 = load_nd ; %y1 = mulf %x1, %g1 ; store_nd %y0 ; store_nd %y1
Reductions of many blocks that do not fit together combine them as they are computed
(:mod:`xegpu.passes.schedule.partial_reductions`).
With block IO, loads move if a loop has products and other work, and the function fits the register file only with its
loads at their first uses:
    %b = load_nd ; %s = dpas %q, %k ; %p = exp2 %s ; %o = dpas %p, %b
becomes
    %s = dpas %q, %k ; %p = exp2 %s ; %b = load_nd ; %o = dpas %p, %b
An operation that is the last use of two values, such as the sum of two blocks of %p, then stands right behind them.
If the function barely fits, the products of a loaded block come one after the other
(:mod:`xegpu.passes.schedule.product_order`), or values loaded before the loop are loaded again in each step
(:mod:`xegpu.passes.schedule.invariant_loads`). If it does not fit, the products of a step are sliced
(:mod:`xegpu.passes.schedule.product_slices`), or else invariant values are loaded again; if nothing fits, the order
with the lowest register pressure is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from xegpu.analysis.gemm_loops import is_gemm_loop
from xegpu.analysis.register_pressure import live_bytes
from xegpu.dialect.block_io import StoreNdOp, desc_of
from xegpu.dialect.dpas import ProductOp
from xegpu.dialect.gather_scatter import LoadGatherOp
from xegpu.ir.region_branch import for_loops
from xegpu.mlir.vector import InsertStridedSliceOp, ShapeCastOp
from xegpu.passes.schedule.invariant_loads import reload_invariants
from xegpu.passes.schedule.list_scheduler import list_scheduled
from xegpu.passes.schedule.partial_reductions import combine_blocks, has_long_reductions
from xegpu.passes.schedule.product_order import order_products
from xegpu.passes.schedule.product_slices import slice_products
from xegpu.rewrite.rewriter import copied, rewrite
from xegpu.target.grf_mode import modes
from xegpu.target.targets import Target

_MARGIN = 1.15
"""Estimated bytes of fragments, as a part of the largest register file, to which nothing is spilled: fitted,
between those of six loops of attention for pvc (1.01, 1.04 and 1.10 spilled nothing, 1.31 and more did)."""
_REDUCED = 0.6
"""The same above which reductions combine blocks as they are computed, and loads move past stores."""
_WORTH = 0.9
"""Loads move past stores only if live bytes fall to this part: a gain of two percent spilled more, by addresses."""
_COMFORTABLE = 0.97
"""The same where loads from before a loop stay before it, if it can load them again: of loops of attention for pvc and
bmg those of 0.95 and 0.96 spilled nothing, those of 0.98 to 1.04 mostly did."""


@dataclass(frozen=True)
class Schedule:
    """Pass ``schedule``.

    Attributes:
        target: loads move, too, if it has no block IO, or too few registers.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with element-wise operations close before their first uses."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        has_registers, sinks = max(self.target.registers) > 0, not self.target.block_io
        new = list_scheduled(function, loads=sinks, stores=has_registers)
        if has_registers:
            function, new = self._relieved(function, new)
        if sinks or not any(map(_may_sink_loads, for_loops(new))):
            return new
        room = self._room(new, _MARGIN)
        return new if live_bytes(new) <= room else self._fitted(function, new, room)

    def _relieved(self, function: func.FuncOp, new: func.FuncOp) -> tuple[func.FuncOp, func.FuncOp]:
        """A function and its schedule ``new``, with long reductions combined early, and loads moved past stores.

        Either is done only if the schedule needs more registers than :data:`_REDUCED` allows.
        """
        sinks, is_reduced = not self.target.block_io, has_long_reductions(function)
        if not (sinks or is_reduced):
            return function, new
        taken = live_bytes(new, grouped=False)
        if taken <= self._room(new, _REDUCED):
            return function, new
        if is_reduced:
            combine_blocks(function := copied(function))
            new = list_scheduled(function, loads=sinks)
            if live_bytes(new, grouped=False) <= self._room(new, _REDUCED):
                return function, new
        far = list_scheduled(function, loads=sinks, far=sinks)
        return function, far if is_reduced or live_bytes(far, grouped=False) <= taken * _WORTH else new

    def _fitted(self, function: func.FuncOp, new: func.FuncOp, room: float) -> func.FuncOp:
        """The first schedule with loads at their uses that fits into ``room`` bytes; else that of lowest pressure."""
        comfortable = room * _COMFORTABLE / _MARGIN
        sunk = list_scheduled(function, loads=True, stores=False)
        taken = live_bytes(sunk, grouped=False)
        if taken <= comfortable:
            return sunk
        ordered = list_scheduled(_ordered(function), loads=True, stores=False)
        if live_bytes(ordered, grouped=False) <= comfortable:
            return ordered
        choices = self._alternatives(function, sunk, is_short=taken > room)
        pressures = [live_bytes(each, grouped=False) for each in choices]
        fitting = (each for each, pressure in zip(choices, pressures, strict=True) if pressure <= room)
        gathers = any(isinstance(operation, LoadGatherOp) and not _is_published(operation)
                      for operation in new.walk())  # coalesced later, by addresses made before the loop
        return next(fitting, new if gathers else choices[pressures.index(min(pressures))])

    def _alternatives(self, function: func.FuncOp, sunk: func.FuncOp, *, is_short: bool) -> list[func.FuncOp]:
        """Schedules by preference if ``sunk`` barely fits, or ``is_short`` of registers: sliced, reloaded, ordered."""
        again = copied(function)
        is_reloaded = reload_invariants(again)
        reloaded = list_scheduled(again, loads=True, stores=False) if is_reloaded else sunk
        if not is_short:
            return [reloaded, sunk]
        sliced = copied(function)
        for loop in [each for each in for_loops(sliced) if _may_sink_loads(each)]:
            slice_products(loop, self.target)
        ordered = [list_scheduled(_ordered(again), loads=True, stores=False)] if is_reloaded else []
        return [sliced, reloaded, *ordered]

    def _room(self, function: func.FuncOp, part: float) -> float:
        """Bytes of a part of the largest register file that a function may have, for each lane."""
        registers = max(modes(function, self.target), default=0)
        return registers * self.target.register_bytes / self.target.subgroup_size * part


def _is_published(load: LoadGatherOp) -> bool:
    """Whether the only use of a gather is a store to shared local memory, in a block with other rows."""
    value: SSAValue = load.result
    while value.has_one_use():
        (user,) = [use.operation for use in value.uses]
        if isinstance(user, StoreNdOp):
            return desc_of(user.desc).block.memory_scope == "slm"
        if not isinstance(user, (InsertStridedSliceOp, ShapeCastOp)):
            return False
        value = user.result
    return False


def _ordered(function: func.FuncOp) -> func.FuncOp:
    """A copy of a function in which each block of an operand is multiplied completely before the next."""
    new = copied(function)
    for loop in filter(_may_sink_loads, for_loops(new)):
        order_products(loop.body.block)
    return new


def _may_sink_loads(loop: scf.ForOp) -> bool:
    """Whether a loop has products and other work, so that its loads may move if registers do not suffice."""
    return not is_gemm_loop(loop) and any(isinstance(inner, ProductOp) for inner in loop.body.block.ops)
