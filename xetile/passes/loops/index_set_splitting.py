"""Index-set splitting: the steps of a loop in which no element of a tile is masked get a loop without the mask.

    scf.for %n = %0 to %end step %32 {
      %seen = cmpi slt, %column, broadcast (subi %keys, %n)            %column: iota, 0 to 31
      %s2 = select %seen, %s, %infinity ; ... }
becomes
    %whole = subi %keys, 31 ; %steps = ceildiv of (%whole - %0, within the loop) by %32
    scf.for %n = %0 to (%0 + %steps * %32) step %32 { ... uses %s }
    scf.for %n = (%0 + %steps * %32) to %end step %32 { ... as before }

A mask is made of comparisons of integers (``cmpi``, ``andi``, ``ori``) whose sides are sums of counters of elements
(``iota``), the induction variable, and values from before the loop. Where the sum grows with the induction variable, a
comparison that holds for all elements at one step has held at all steps before, so that the first loop ends where the
first comparison fails for an element. Comparisons without the induction variable are decided before the loop, for all
steps. Sums of 32 bits may wrap: unless all their terms are under 2^28 in magnitude, there are no steps without a mask.

It applies to loops of matrix products in which subgroups do not wait for each other, since these may go on at different
steps. The code of the loop is in the kernel twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, ModuleOp, VectorType, i32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import Pure
from xdsl.utils.type import get_element_type_or_self

from xegpu.dialect.scalar import LoadScalarOp
from xegpu.ir.matchers import BARRIER, number
from xegpu.mlir.arith import CmpIOp, IndexCastOp, SelectOp
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.inserter import Inserter, copy_operation, rewrite_in_place
from xetile.dialect import tile_ops
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.vector import IotaOp

_SMALL = 1 << 28
"""Bound of the magnitude of a term."""
_MOST_TERMS = 7
"""Terms of both sides of a comparison: seven of them, each under 2^28, stay under 2^31."""
_NEGATED = {"slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt"}
_STRAIGHT = (tile_ops.LoadTileOp, tile_ops.PrefetchTileOp, tile_ops.UpdateTileOffsetOp, tile_ops.InitTileOp,
             LoadScalarOp, scf.YieldOp)
"""Operations of a loop that is split, beside those without effects."""


class IndexSetSplitting:
    """The pass."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such loops split; the module itself if there are none."""
        return rewrite_in_place(module, _candidates, _splits, _split)


def _candidates(around: Operation) -> Iterator[scf.ForOp]:
    for loop in straight_product_loops(around):
        if 0 < (number(loop.step) or 0) < _SMALL and abs(number(loop.lb) or 0) < _SMALL and not _continues(loop):
            yield loop


def straight_product_loops(around: Operation) -> Iterator[scf.ForOp]:
    """Loops of matrix products that store nothing, and in which subgroups do not wait for each other."""
    for operation in around.walk():
        if isinstance(operation, scf.ForOp) and \
                any(isinstance(inner, TileMmaOp) for inner in operation.body.block.ops) \
                and not any(BARRIER in inner.attributes for inner in operation.walk()) \
                and all(isinstance(inner, (*_STRAIGHT, scf.ForOp)) or inner.has_trait(Pure)
                        for inner in operation.walk() if inner is not operation):
            yield operation


def _continues(loop: scf.ForOp) -> bool:
    """Whether a loop goes on where another one ends: its author has split off the steps without masks."""
    return any(isinstance(use.operation, scf.ForOp) and use.operation.ub is loop.lb for use in loop.lb.uses)


@dataclass
class _Sum:
    """Sum of an integer comparison's terms.

    Attributes:
        terms: scalars from before the loop, with how often each is added.
        constant: what else is added.
        counter: how often the induction variable is added.
        least, most: of what the elements' counters add.
    """

    terms: dict[SSAValue, int] = field(default_factory=dict)
    constant: int = 0
    counter: int = 0
    least: int = 0
    most: int = 0
    count: int = 1

    def plus(self, other: _Sum, sign: int = 1) -> _Sum:
        """The sum of two, or their difference."""
        terms = dict(self.terms)
        for term, times in other.terms.items():
            terms[term] = terms.get(term, 0) + sign * times
        ends = (sign * other.least, sign * other.most)
        return _Sum({term: times for term, times in terms.items() if times}, self.constant + sign * other.constant,
                    self.counter + sign * other.counter, self.least + min(ends), self.most + max(ends),
                    self.count + other.count)


@dataclass(frozen=True)
class _Comparison:
    """Comparison as a linear sum that is negative where it holds.

    Attributes:
        total: the sum that must be negative.
        terms: all that is added up on either side, which must be small.
    """

    total: _Sum
    terms: frozenset[SSAValue]


@dataclass(frozen=True)
class _Split:
    """A selection that is decided in the steps of the first loop.

    Attributes:
        selection: the operation.
        holds: whether its condition is true there.
        comparisons: those that decide it.
    """

    selection: SelectOp
    holds: bool
    comparisons: list[_Comparison]


def _splits(loop: scf.ForOp) -> list[_Split]:
    """The selections of a loop that are decided in its first steps, at most those of one direction."""
    found = []
    for operation in loop.body.block.ops:
        if isinstance(operation, SelectOp) and isinstance(operation.condition.type, VectorType):
            for holds in (True, False):
                comparisons = _comparisons(operation.condition, holds, loop)
                if comparisons and any(each.total.counter for each in comparisons):
                    found.append(_Split(operation, holds, comparisons))
                    break
    return found


def _comparisons(condition: SSAValue, holds: bool, loop: scf.ForOp) -> list[_Comparison] | None:
    """Comparisons that decide a condition for all elements; None if there are none."""
    owner = condition.owner
    while isinstance(owner, (BroadcastOp, TileBroadcastOp)):
        owner = owner.operands[0].owner
    if isinstance(owner, (arith.AndIOp, arith.OrIOp)) and isinstance(owner, arith.AndIOp) == holds:
        sides = [_comparisons(side, holds, loop) for side in (owner.lhs, owner.rhs)]
        return None if None in sides else [each for side in sides if side for each in side]
    if not isinstance(owner, CmpIOp) or owner.name_of_predicate not in _NEGATED:
        return None
    predicate = owner.name_of_predicate if holds else _NEGATED[owner.name_of_predicate]
    left, right = (_sum_of(side, loop) for side in (owner.lhs, owner.rhs))
    if left is None or right is None or left.count + right.count > _MOST_TERMS:
        return None
    if predicate in ("sgt", "sge"):
        left, right = right, left
    total = left.plus(right, -1)
    if predicate in ("sle", "sge"):
        total.constant -= 1
    if total.counter not in (0, 1):  # it must not fail before it holds
        return None
    return [_Comparison(total, frozenset((*left.terms, *right.terms)))]


def _sum_of(value: SSAValue, loop: scf.ForOp) -> _Sum | None:
    """An integer of 32 bits or an index as a sum; None if it is something else."""
    owner = value.owner
    if get_element_type_or_self(value.type) not in (i32, IndexType()):
        return None
    if value is loop.body.block.args[0]:
        return _Sum(counter=1)
    if (known := number(value)) is not None:
        return _Sum(constant=known) if abs(known) < _SMALL else None
    if not isinstance(value.type, VectorType) and not is_inside(value, loop):
        return _Sum({value: 1})
    if isinstance(owner, (arith.AddiOp, arith.SubiOp)):
        left, right = _sum_of(owner.lhs, loop), _sum_of(owner.rhs, loop)
        return None if left is None or right is None else left.plus(right, 1 if isinstance(owner, arith.AddiOp) else -1)
    if isinstance(owner, (BroadcastOp, TileBroadcastOp, IndexCastOp)):
        return _sum_of(owner.operands[0], loop)
    if isinstance(owner, IotaOp):
        counters = _Sum(most=shape_of(owner.result)[owner.axis.value.data] - 1)
        start = _sum_of(owner.start, loop) if owner.start is not None else _Sum()
        return None if start is None else counters.plus(start)
    return None


def is_inside(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a value is defined in a loop, or in a loop or branch inside it."""
    block = value.block if isinstance(value, BlockArgument) else value.owner.parent
    operation: Operation | None = block.parent_op() if block is not None else None
    while operation is not None:
        if operation is loop:
            return True
        operation = operation.parent_op()
    return False


def _split(inserter: Inserter, loop: scf.ForOp, splits: list[_Split]) -> None:
    """Write the loop of the steps without masks in front of a loop, which does the others."""
    comparisons = [each for split in splits for each in split.comparisons]
    end = _end(inserter, loop, comparisons)
    values: dict[SSAValue, SSAValue] = {}
    first = copy_operation(loop, values)
    assert isinstance(first, scf.ForOp)
    assert loop.parent is not None
    loop.parent.insert_op_before(first, loop)
    first.operands = [loop.lb, end, loop.step, *loop.iter_args]
    for split in splits:
        copied = values[split.selection.result].owner
        assert isinstance(copied, SelectOp)
        copied.result.replace_all_uses_with(copied.lhs if split.holds else copied.rhs)
    for old, new in zip(loop.results, first.results, strict=True):
        new.name_hint = old.name_hint
    loop.operands = [end, loop.ub, loop.step, *first.results]


def _end(inserter: Inserter, loop: scf.ForOp, comparisons: list[_Comparison]) -> SSAValue:
    """The first step of a loop that needs its masks: whole steps from its start on."""
    step, low = number(loop.step), loop.lb
    assert step is not None
    bound, allowed = inserter.before(loop, arith.MinSIOp(loop.ub, inserter.constant(_SMALL))), []
    terms = {term: None for each in comparisons for term in each.terms} | {low: None}
    for term in terms:
        if number(term) is None:
            allowed += [_compared(inserter, loop, term, -_SMALL, "sge"), _compared(inserter, loop, term, _SMALL, "slt")]
    for each in comparisons:
        total = inserter.constant(each.total.constant + each.total.most)
        for term, times in each.total.terms.items():
            total = inserter.add(loop, total, inserter.multiply(loop, _as_index(inserter, loop, term), times))
        if each.total.counter:  # total + counter < 0
            bound = inserter.before(loop, arith.MinSIOp(bound, inserter.subtract(loop, inserter.constant(0), total)))
        else:
            allowed.append(_compared(inserter, loop, total, 0, "slt"))
    bound = inserter.before(loop, arith.MaxSIOp(bound, low))
    if allowed:
        holds = reduce(lambda a, b: inserter.before(loop, arith.AndIOp(a, b)), allowed)
        bound = inserter.before(loop, SelectOp(holds, bound, low))
    rounded = inserter.add(loop, inserter.subtract(loop, bound, low), step - 1)
    steps = inserter.before(loop, arith.FloorDivSIOp(rounded, inserter.constant(step)))
    return inserter.add(loop, low, inserter.multiply(loop, steps, step))


def _as_index(inserter: Inserter, loop: scf.ForOp, term: SSAValue) -> SSAValue:
    if isinstance(term.type, IndexType):
        return term
    return inserter.before(loop, IndexCastOp(term, IndexType()))


def _compared(inserter: Inserter, loop: scf.ForOp, term: SSAValue, limit: int, predicate: str) -> SSAValue:
    return inserter.before(loop, CmpIOp(_as_index(inserter, loop, term), inserter.constant(limit), predicate))
