"""Comparisons that make masks: sums of counters of elements, a loop's induction variable and values from before it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import IndexType, IntegerType, Signedness, UnrealizedConversionCastOp, VectorType, i32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.analysis.block_position import is_inside
from xegpu.analysis.dataflow.integer_range import Range
from xegpu.ir.matchers import number
from xegpu.mlir.arith import CmpIOp, IndexCastOp
from xegpu.mlir.vector import shape_of
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.vector import IotaOp

SMALL = 1 << 28
"""Bound of the magnitude of a term."""
_MOST_TERMS = 7
"""Terms of both sides of a comparison, all constants together as one: seven, each under 2^28, stay under 2^31."""
_UNSIGNED = IntegerType(32, Signedness.UNSIGNED)
_NEGATED = {sign + a: sign + b for sign in "su" for a, b in (("lt", "ge"), ("ge", "lt"), ("gt", "le"), ("le", "gt"))}


@dataclass
class Sum:
    """Sum of an integer comparison's terms.

    Attributes:
        terms: scalars from before the loop, with how often each is added.
        constant: what else is added.
        counter: how often the induction variable is added.
        least, most: bounds of the terms that the elements' counters add.
        count: how often a term or the induction variable was added, also where they cancel out.
        known: the magnitudes of all constants and elements' counters, added up.
    """

    terms: dict[SSAValue, int] = field(default_factory=dict)
    constant: int = 0
    counter: int = 0
    least: int = 0
    most: int = 0
    count: int = 0
    known: int = 0

    def plus(self, other: Sum, sign: int = 1) -> Sum:
        """The sum of two, or their difference."""
        terms = dict(self.terms)
        for term, times in other.terms.items():
            terms[term] = terms.get(term, 0) + sign * times
        ends = (sign * other.least, sign * other.most)
        return Sum({term: times for term, times in terms.items() if times}, self.constant + sign * other.constant,
                    self.counter + sign * other.counter, self.least + min(ends), self.most + max(ends),
                    self.count + other.count, self.known + other.known)


@dataclass(frozen=True)
class Comparison:
    """Comparison as a linear sum that is negative where it holds.

    Attributes:
        total: the sum that must be negative.
        terms: all that is added up on either side, which must be small.
    """

    total: Sum
    terms: frozenset[SSAValue]

    def follows_from(self, other: Comparison) -> bool:
        """Whether it holds wherever another one does."""
        mine, its = self.total, other.total
        return mine.terms == its.terms and mine.counter == its.counter and \
            mine.constant + mine.most <= its.constant + its.most


def may_hold(comparisons: list[Comparison]) -> bool:
    """Whether comparisons may hold at one step: ``a - counter < 0`` and ``b + counter < 0`` need ``a + b < -1``."""
    sums = [a.total.plus(b.total) for a in comparisons if a.total.counter < 0
            for b in comparisons if b.total.counter > 0]
    return not any(not total.terms and total.constant + total.most > -2 for total in sums)


def comparisons_of(condition: SSAValue, holds: bool, loop: scf.ForOp,
                   bounds: Mapping[SSAValue, Range]) -> list[Comparison] | None:
    """Comparisons that decide a condition for all elements; None if there are none.

    Args:
        condition: the mask.
        holds: whether it shall be true.
        loop: the loop of whose steps it is decided.
        bounds: for each value whose bounds are to be taken in its place, those.
    """
    owner = _broadcast_from(condition).owner
    if isinstance(owner, (arith.AndIOp, arith.OrIOp)) and isinstance(owner, arith.AndIOp) == holds:
        sides = [comparisons_of(side, holds, loop, bounds) for side in (owner.lhs, owner.rhs)]
        return None if None in sides else [each for side in sides if side for each in side]
    if not isinstance(owner, CmpIOp) or owner.name_of_predicate not in _NEGATED:
        return None
    predicate = owner.name_of_predicate if holds else _NEGATED[owner.name_of_predicate]
    smaller, larger = (owner.lhs, owner.rhs) if predicate[1] == "l" else (owner.rhs, owner.lhs)
    left, right = _magnitudes(smaller, loop), _sum_of(larger, loop)
    if left is None or right is None:
        return None
    pairs = [(each, right, predicate[2] == "e") for each in left]
    if predicate[0] == "u" and len(left) == 1:  # of small numbers: 0 <= smaller, and both are compared as signed ones
        pairs.append((Sum(), left[0], True))
    found = [less if less is None else _bounded(less, bounds) for less in itertools.starmap(_less, pairs)]
    return None if None in found else [each for each in found if each]


def within(offset: SSAValue, extent: int, size: SSAValue, loop: scf.ForOp) -> Comparison | None:
    """Comparison that holds where elements from an offset on, which is not negative, lie within an axis; else None."""
    start, end = _sum_of(offset, loop), _sum_of(size, loop)
    if start is None or end is None or start.terms or start.counter not in (0, 1) or start.constant < 0 or \
            (start.counter and (number(loop.lb) is None or (number(loop.lb) or 0) < 0)):
        return None
    return _less(start.plus(Sum(constant=extent - 1, known=extent - 1)), end, or_equal=False)


def _bounded(comparison: Comparison, bounds: Mapping[SSAValue, Range]) -> Comparison | None:
    """A comparison that implies the given one for all of these values; None if there are too many."""
    total, most = comparison.total, 0
    for term in bounds.keys() & total.terms.keys():
        if not bounds[term].within(1 - SMALL, SMALL - 1):
            return None
        most += max(total.terms[term] * end for end in (bounds[term].low, bounds[term].high))
    left = {term: times for term, times in total.terms.items() if term not in bounds}
    return Comparison(replace(total, terms=left, constant=total.constant + most), comparison.terms - bounds.keys())


def _broadcast_from(value: SSAValue) -> SSAValue:
    """Source of a broadcast, or the value itself."""
    while isinstance(value.owner, (BroadcastOp, TileBroadcastOp)):
        value = value.owner.operands[0]
    return value


def _magnitudes(value: SSAValue, loop: scf.ForOp) -> list[Sum] | None:
    """Sums of which an integer is the largest: two for an absolute value."""
    owner = _broadcast_from(value).owner
    total = _sum_of(owner.operand if isinstance(owner, math.AbsIOp) else value, loop)
    if total is None:
        return None
    return [total, Sum().plus(total, -1)] if isinstance(owner, math.AbsIOp) else [total]


def _less(left: Sum, right: Sum, or_equal: bool) -> Comparison | None:
    """``left < right`` or ``left <= right``; None where the sums may wrap, or the counter takes larger steps."""
    total = left.plus(right, -1)
    total.constant -= or_equal
    known = left.known + right.known
    if left.count + right.count + (known > 0) > _MOST_TERMS or known >= SMALL or total.counter not in (-1, 0, 1):
        return None
    return Comparison(total, frozenset((*left.terms, *right.terms)))


def _sum_of(value: SSAValue, loop: scf.ForOp) -> Sum | None:
    """An integer of 32 bits or an index as a sum, of unsigned ones modulo 2^32; None if it is something else."""
    owner = value.owner
    if get_element_type_or_self(value.type) not in (i32, _UNSIGNED, IndexType()):
        return None
    if value is loop.body.block.args[0]:
        return Sum(counter=1, count=1)
    if (known := number(value)) is not None:
        return Sum(constant=known, known=abs(known)) if abs(known) < SMALL else None
    if not isinstance(value.type, VectorType) and not is_inside(value, loop):
        return Sum({value: 1}, count=1)
    if isinstance(owner, (arith.AddiOp, arith.SubiOp)):
        left, right = _sum_of(owner.lhs, loop), _sum_of(owner.rhs, loop)
        return None if left is None or right is None else left.plus(right, 1 if isinstance(owner, arith.AddiOp) else -1)
    if isinstance(owner, IndexCastOp) and get_element_type_or_self(owner.input.type) == _UNSIGNED:
        return None  # an index of more bits is no such sum modulo 2^32
    if isinstance(owner, (BroadcastOp, TileBroadcastOp, IndexCastOp, arith.BitcastOp, UnrealizedConversionCastOp)):
        return _sum_of(owner.operands[0], loop)
    if isinstance(owner, IotaOp):
        most = shape_of(owner.result)[owner.axis.value.data] - 1
        counters = Sum(most=most, known=most)
        start = _sum_of(owner.start, loop) if owner.start is not None else Sum()
        return None if start is None else counters.plus(start)
    return None
