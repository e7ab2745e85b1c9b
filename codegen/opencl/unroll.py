"""How many steps of a loop become one in the text of a kernel.

    for (int k = 0; k < n; k += 32) { S(k) }
becomes, twice unrolled,
    int k = 0;
    for (; k < n - 32; k += 64) { S(k) S(k + 32) }
    for (; k < n; k += 32) { S(k) }

The second loop has the steps that are left over, whatever the body does. An author says how many on the loop
(``xt.range(..., unroll=4)``); where these are known to divide the loop's steps, there is no second loop.

Otherwise only loops are unrolled that load, prefetch and multiply and do nothing else, and only for targets whose block
messages take a constant distance: there the addresses of further steps cost nothing. Without that each step sets its
addresses anew, and on ``pvc`` changing an address costs more than the jump that unrolling saves. A CPU, which emulates
such messages, gains nothing and would build for minutes: the first loop of these stands between ``#ifndef`` and
``#endif``, and the second then does all steps. A loop that would be passed once stays in two passes at least: where
nothing jumps back, Intel's compiler loads ahead across all steps, and runs out of registers.
"""

from __future__ import annotations

from math import lcm

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr

from xegpu.analysis.gemm_loops import is_plain, is_shared
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp
from xegpu.dialect.dpas import DpasOp
from xegpu.ir.matchers import BARRIER, UNROLL, number
from xegpu.target.targets import Target

ROLLED = "XETILE_ROLLED"
"""What a prelude defines to have loops of single steps, where their author did not ask for more."""
_STEPS = (8, 4, 2)
_PRODUCTS = 256
"""Products in a loop that was unrolled by itself: more of them gain nothing and cost room for code."""
_MESSAGES = 40
"""Messages in such a loop: a thread tells 32 apart that are under way, and beyond that waits in many places."""
_FAR = 512
"""Distances, in elements, that a block message takes are less than this."""


def steps_of(loop: scf.ForOp, target: Target) -> int:
    """How many steps of a loop become one; no more than it has."""
    said, trips = loop.attributes.get(UNROLL), trips_of(loop)
    steps = said.value.data if isinstance(said, IntegerAttr) else _steps(loop, target)
    if period := period_of(loop, target):
        steps = lcm(steps, period)
    return steps if trips is None else max(1, min(steps, trips))


def period_of(loop: scf.ForOp, target: Target) -> int:
    """Steps from one barrier of a loop to the next, 0 where there are none.

    Without 2D block IO a loop is written twice, and subgroups leave the first one at different times.
    """
    said = loop.attributes.get(BARRIER)
    return said.value.data if isinstance(said, IntegerAttr) and target.block_io else 0


def trips_of(loop: scf.ForOp) -> int | None:
    """How many steps a loop has, where that is known."""
    start, stop, step = (number(value) for value in (loop.lb, loop.ub, loop.step))
    return None if start is None or stop is None or not step else max(0, -(-(stop - start) // step))


def _steps(loop: scf.ForOp, target: Target) -> int:
    """How many steps of a loop become one where its author does not say."""
    step, trips = number(loop.step), trips_of(loop)
    products = sum(isinstance(operation, DpasOp) for operation in loop.body.block.ops)
    messages = sum(isinstance(operation, (LoadNdOp, PrefetchNdOp)) and not is_shared(operation)
                   for operation in loop.body.block.ops)
    if not step or not products or not target.immediate_offsets or not is_plain(loop, hands_over=True):
        return 1
    return next((steps for steps in _STEPS if products * steps <= _PRODUCTS and messages * steps <= _MESSAGES
                 and (steps - 1) * step < _FAR and (trips is None or (trips % steps == 0 and trips > steps))), 1)
