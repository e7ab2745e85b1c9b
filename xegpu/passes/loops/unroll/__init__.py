"""Loop unrolling: several steps in one pass of the body, and a remainder loop of single steps.

    scf.for %k = %0 to %n step %32 iter_args(%c = %zero) { S(%k, %c) }
becomes, unrolled twice,
    %end = subi %n, %32
    %c1, %rest = scf.for %k = %0 to %end step %64 iter_args(%c = %zero, %at = %0) {
      S(%k, %c) S(%k + 32, ...) ; scf.yield ..., %k + 64
    } {xegpu.main_loop}
    %c2 = scf.for %k = %rest to %n step %32 iter_args(%c = %c1) { S(%k, %c) }

The second loop has the steps that are left over, whatever the body does. An author says how many on the loop
(``xt.range(..., unroll=4)``); where these are known to divide the loop's steps, there is no second loop.

Otherwise only loops are unrolled that load, prefetch and multiply and do nothing else, and only for targets whose block
messages take a constant distance: there the addresses of further steps cost nothing. Without that each step sets its
addresses anew, and on Xe-HPC changing an address costs more than the jump that unrolling saves. A loop that exchanges
copies of rows of any alignment is unrolled twice, wherever it has the registers: its buffer in shared local memory has
two halves, and each step then has one of its own. So is one of a subgroup's own copies where messages take distances.
A CPU, which emulates
such messages, gains nothing and would build for minutes: such a main loop is marked ``xegpu.skip_if_rolled``, and
the text of a kernel has it between ``#ifndef`` and ``#endif``. A loop that would be passed once stays in two passes at
least: where nothing jumps back, Intel's compiler loads ahead across all steps, and runs out of registers.

Steps in which a subgroup transposes an operand in shared local memory are written by twos, where registers hold two
(:mod:`xegpu.passes.loops.unroll.step_pairs`).

A loop whose author asks for barriers every so many steps (``xegpu.barrier``) gets them here, around the first step of
that many: the subgroups of a work-group then stay together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import lcm

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, UnitAttr
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.gemm_loops import has_barrier, is_copy, is_gemm_loop, is_shared, may_peel
from xegpu.analysis.register_pressure import loop_bytes
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.payload import DISTANCE
from xegpu.dialect.sync import ControlBarrierArriveOp, ControlBarrierWaitOp
from xegpu.ir.kernel_attributes import function_of, subgroup_size
from xegpu.ir.matchers import BARRIER, MAIN_LOOP, OPTIONS, SKIP_IF_ROLLED, UNROLL, number
from xegpu.ir.region_branch import for_loops
from xegpu.passes.loops.interleave_columns import reads_on
from xegpu.passes.loops.unroll.step_pairs import pair_steps, pays_in_pairs
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, copy_operation, rewrite_in_place
from xegpu.target.grf_mode import requested_registers
from xegpu.target.targets import Target

_FACTORS = (8, 4, 2)
_PRODUCTS = 256
"""Products in a loop that was unrolled by itself: more of them gain nothing and cost room for code."""
LIMIT = 1 << 31
"""One past the largest counter."""
MOST_MESSAGES = 40
"""Messages in such a loop: a thread tracks 32 in flight, and beyond that waits in many places."""
_ROOM, _ROOM_OF_ONE = 0.92, 0.94
"""Part of the registers that a loop with copies, or with that of one block, carries and loads, up to which it is
unrolled where messages take no distances, and each address has a register: fitted on pvc (0.91 and 0.94 spilled
nothing; 0.94 with two blocks did)."""
_ROOM_OF_VECTORS = 0.9
"""The same where a copy in 16 bits reads a row's words by one vector: 0.906 spilled."""
_ROOM_WITH_PREFETCHES = 0.9
"""The same, on all targets, where rows that are copied are prefetched, by pointers in registers: 0.906 spilled."""


@dataclass(frozen=True)
class Unroll:
    """Pass ``unroll``.

    Attributes:
        target: whether its block messages take distances, and whether it has them.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with unrolled loops; itself where there is nothing to unroll."""
        return rewrite_in_place(module, lambda around: reversed(for_loops(around)),  # inner ones first
                                self._factor, self._unroll)

    def _factor(self, loop: scf.ForOp) -> int:
        """The unroll factor of a loop; 0 where there is nothing to do, its options included."""
        factor = factor_of(loop, self.target)
        return factor if factor > 1 or not OPTIONS.isdisjoint(loop.attributes) else 0

    def _unroll(self, inserter: Inserter, loop: scf.ForOp, factor: int) -> None:
        period, trips = _period(loop, self.target), trips_of(loop)
        asked = not OPTIONS.isdisjoint(loop.attributes)
        for name in OPTIONS:
            loop.attributes.pop(name, None)
        step, body = loop.step, list(loop.body.block.ops)[:-1]
        if factor == 1:
            if period:
                _between_barriers(inserter, body)
            return
        in_pairs = not asked and not has_copies(loop) and pays_in_pairs(loop, self.target)
        if asked and trips is not None and trips % factor == 0 and not may_peel(loop):
            loop.operands = [loop.lb, loop.ub, inserter.multiply(loop, step, factor), *loop.iter_args]
            main = loop
        else:
            main, rest = split_loop(inserter, loop, factor)
            if not asked and not has_copies(main):
                main.attributes[SKIP_IF_ROLLED] = UnitAttr()
            if period == 1:
                _between_barriers(inserter, list(rest.body.block.ops)[:-1])
        steps = repeat(inserter, main, body, step, factor)
        if in_pairs:
            pair_steps(inserter, steps)
        if period and factor % period == 0:
            for position in range(0, factor, period):
                _between_barriers(inserter, steps[position])


def factor_of(loop: scf.ForOp, target: Target) -> int:
    """Unroll factor of a loop; at most its trip count."""
    asked, trips = loop.attributes.get(UNROLL), trips_of(loop)
    if number(loop.step) is None:  # several of them may overflow
        return 1
    factor = asked.value.data if isinstance(asked, IntegerAttr) else _own_factor(loop, target)
    if period := _period(loop, target):
        factor = lcm(factor, period)
    return factor if trips is None else max(1, min(factor, trips))


def _period(loop: scf.ForOp, target: Target) -> int:
    """Steps from one barrier of a loop to the next, 0 where there are none.

    Without 2D block IO a loop may be peeled, and subgroups leave its main part at different times.
    """
    asked = loop.attributes.get(BARRIER)
    return asked.value.data if isinstance(asked, IntegerAttr) and target.block_io else 0


def trips_of(loop: scf.ForOp) -> int | None:
    """Trip count of a loop, where it is known."""
    start, stop, step = (number(value) for value in (loop.lb, loop.ub, loop.step))
    return None if start is None or stop is None or not step else max(0, -(-(stop - start) // step))


def _own_factor(loop: scf.ForOp, target: Target) -> int:
    """Unroll factor of a loop whose author does not give one."""
    if not (step := number(loop.step)):
        return 1
    trips = trips_of(loop)
    if has_copies(loop):
        return 2 if _pays_for_copies(loop, target) and (trips is None or (trips % 2 == 0 and trips > 2)) else 1
    if not target.immediate_offsets:
        return 1
    products = sum(isinstance(operation, DpasOp) for operation in loop.body.block.ops)
    messages = sum(isinstance(operation, (LoadNdOp, PrefetchNdOp)) and not is_shared(operation)
                   for operation in loop.body.block.ops)
    if not products or not is_gemm_loop(loop, cooperative=True):
        return 1
    return next((factor for factor in _FACTORS if products * factor <= _PRODUCTS and messages * factor <= MOST_MESSAGES
                 and (factor - 1) * step < DISTANCE
                 and (trips is None or (trips % factor == 0 and trips > factor))), 1)


def has_copies(loop: scf.ForOp) -> bool:
    """Whether a loop copies rows of any alignment to shared local memory."""
    return any(isinstance(operation, LoadNdOp) and is_copy(operation) for operation in loop.body.block.ops)


def _pays_for_copies(loop: scf.ForOp, target: Target) -> bool:
    """Whether two steps with copies have registers enough: then each half of a buffer in shared local memory has
    addresses that do not change, if subgroups exchange copies. Elsewhere it takes messages with distances to gain."""
    function = function_of(loop)
    registers = requested_registers(function) or min(target.registers)
    taken = loop_bytes(loop) * subgroup_size(loop) / target.register_bytes
    copies = [operation for operation in loop.body.block.ops if isinstance(operation, LoadNdOp) and is_copy(operation)]
    room = 1 if target.immediate_offsets else _ROOM_OF_ONE if len(copies) == 1 else _ROOM
    if not target.immediate_offsets and any(reads_on(load) and desc_of(load.desc).dtype.bits == 16 for load in copies):
        room = _ROOM_OF_VECTORS
    if any(isinstance(operation, PrefetchNdOp) and desc_of(operation.desc).block.access == "rows"
           for operation in loop.body.block.ops):
        room = _ROOM_WITH_PREFETCHES
    return (has_barrier(loop) or target.immediate_offsets) and is_gemm_loop(loop, cooperative=True) and \
        0 < taken <= room * registers


def repeat(inserter: Inserter, loop: scf.ForOp, body: list[Operation], step: SSAValue, factor: int,
           others: Mapping[Operation, Callable[[int, Operation], SSAValue]] | None = None) -> list[list[Operation]]:
    """Write more steps behind the first one of a loop; the operations of each step.

    Args:
        inserter: for the function.
        loop: the loop; values that its steps do not carry are the last that it yields.
        body: the operations of the first step.
        step: increment of the counter.
        factor: how many steps there are to be.
        others: for operations that are not copied what makes their result for another step, of its number and in front
            of an operation.
    """
    others = others or {}
    counter, *arguments = loop.body.block.args
    terminator = loop.body.block.last_op
    assert isinstance(terminator, scf.YieldOp)
    behind = (body[-1].next_op if body else None) or terminator
    first, steps = list(terminator.operands), [body]
    carried = first[:len(first) - (MAIN_LOOP in loop.attributes)]
    for position in range(1, factor):
        counter_value = inserter.add(behind, counter, inserter.multiply(loop, step, position))
        values: dict[SSAValue, SSAValue] = {counter: counter_value, **dict(zip(arguments, carried, strict=False))}
        values |= {operation.results[0]: make(position, behind) for operation, make in others.items()}
        steps.append([copy_operation(operation, values) for operation in body if operation not in others])
        loop.body.block.insert_ops_before(steps[-1], behind)
        carried = [values.get(value, value) for value in first[:len(carried)]]
    terminator.operands = [*carried, *first[len(carried):]]
    return steps


def _between_barriers(inserter: Inserter, step: list[Operation]) -> None:
    """A barrier at which the subgroups of a work-group arrive before a step, and which they wait for behind it."""
    if not step:
        return
    inserter.before(step[0], ControlBarrierArriveOp())
    inserter.behind(step[-1], ControlBarrierWaitOp())


def _within(inserter: Inserter, loop: scf.ForOp, factor: int) -> SSAValue:
    """Bound of a loop, as far as its main loop may go and its index arithmetic stays within 32 bits."""
    step, stop = number(loop.step), loop.ub
    if number(stop) is None and step is not None:
        stop = inserter.before(loop, arith.MinSIOp(stop, inserter.constant(LIMIT - 1 - factor * step)))
        if factor > 1:
            stop = inserter.before(loop, arith.MaxSIOp(stop, inserter.constant((factor - 1) * step - LIMIT)))
    return stop


def split_loop(inserter: Inserter, loop: scf.ForOp, factor: int) -> tuple[scf.ForOp, scf.ForOp]:
    """Split a loop into a main loop, with ``factor`` times its step, and the remainder loop behind it.

    The main loop carries, last of all, the index of the step that is next: there the other one goes on.
    """
    rest = copy_operation(loop, {})
    assert isinstance(rest, scf.ForOp)
    assert loop.parent is not None
    far = inserter.multiply(loop, loop.step, factor)
    end = inserter.subtract(loop, _within(inserter, loop, factor), inserter.multiply(loop, loop.step, factor - 1))
    region = loop.detach_region(loop.body)
    block = region.block
    block.insert_arg(IndexType(), len(block.args))
    terminator = block.last_op
    assert isinstance(terminator, scf.YieldOp)
    following = inserter.add(terminator, block.args[0], far)
    terminator.operands = [*terminator.operands, following]
    main = scf.ForOp(loop.lb, end, far, [*loop.iter_args, loop.lb], region)
    main.attributes.update({**loop.attributes, MAIN_LOOP: UnitAttr()})
    for old, new in zip(loop.results, main.results, strict=False):
        new.name_hint = old.name_hint
    inserter.before(loop, main, main.results[0].name_hint)
    main.results[-1].name_hint = block.args[-1].name_hint = "next"
    loop.parent.insert_op_before(rest, loop)
    rest.operands = [main.results[-1], rest.ub, rest.step, *main.results[:-1]]
    for old, new in zip(loop.results, rest.results, strict=True):
        old.replace_all_uses_with(new)
    erase(loop)
    return main, rest
