"""Divisibility analysis (as Triton's AxisInfo): known divisors of indices and of descriptor offsets.

2D block IO takes columns at multiples of four bytes only, and silently gives garbage elsewhere. An offset that is not
known to be such a multiple needs another access kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from weakref import WeakKeyDictionary

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, SSAValue

from xegpu.dialect.block_io import CreateNdTdescOp, UpdateNdOffsetOp
from xegpu.ir.matchers import number
from xegpu.ir.region_branch import carried_argument, incoming
from xegpu.mlir.arith import SelectOp

Known = dict[SSAValue, int]
_proved: WeakKeyDictionary[SSAValue, dict[int, int]] = WeakKeyDictionary()
"""Divisors of updated descriptors that hold without assumptions, by axis; else each chain of updates is rewalked."""


def multiple_of(value: SSAValue, assumed: Known | None = None, axis: int = -1) -> int:
    """Largest known divisor of ``value``; 0 for the constant zero, 1 if nothing is known.

    Args:
        value: an index, or a descriptor (then its offset along ``axis`` counts, by default its column).
        assumed: divisors assumed for loop-carried values during the proof by induction.
    """
    known = assumed or {}
    if value in known:
        return known[value]
    owner = value.owner
    if before := incoming(value):
        return _of_forwarded(value, before, known, axis)
    if type(value) is BlockArgument:
        loop = value.block.parent_op()
        return gcd(multiple_of(loop.lb, known), multiple_of(loop.step, known)) if type(loop) is scf.ForOp else 1
    if type(owner) is arith.ConstantOp:
        return abs(owner.value.value.data) if isinstance(owner.value, IntegerAttr) else 1
    if type(owner) is arith.AddiOp or type(owner) is arith.SubiOp:
        return gcd(multiple_of(owner.lhs, known), multiple_of(owner.rhs, known))
    if type(owner) is SelectOp:
        return gcd(multiple_of(owner.lhs, known), multiple_of(owner.rhs, known))
    if type(owner) is arith.MuliOp:
        return multiple_of(owner.lhs, known) * multiple_of(owner.rhs, known)
    if type(owner) is arith.ShRSIOp and (distance := number(owner.rhs)) is not None:
        multiple = multiple_of(owner.lhs, known)
        return multiple >> distance if multiple % (1 << distance) == 0 else 1
    if type(owner) is CreateNdTdescOp:
        return multiple_of(owner.offsets[axis], known)
    if type(owner) is UpdateNdOffsetOp:
        return _of_moved(owner, known, axis)
    return 1


def _of_moved(move: UpdateNdOffsetOp, known: Known, axis: int) -> int:
    proved = _proved.setdefault(move.result, {}) if not known else {}
    if axis not in proved:
        proved[axis] = gcd(multiple_of(move.desc, known, axis), multiple_of(move.offsets[axis], known))
    return proved[axis]


def _of_forwarded(value: SSAValue, before: Sequence[SSAValue], known: Known, axis: int) -> int:
    """Known divisor of what a loop or branch forwards: the greatest that holds initially and by induction."""
    multiple = multiple_of(before[0], known, axis)
    argument = carried_argument(value)
    while True:
        assumed = known if argument is None else {**known, argument: multiple}
        after = gcd(multiple, *(multiple_of(each, assumed, axis) for each in before[1:]))
        if after == multiple:
            return multiple
        multiple = after
