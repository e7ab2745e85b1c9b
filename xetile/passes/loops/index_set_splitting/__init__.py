"""Index-set splitting: the steps of a loop in which a mask is true for all elements run without the mask.

    scf.for %n = %0 to %end step %32 {
      %seen = cmpi slt, %column, broadcast (subi %keys, %n)            %column: iota, 0 to 31
      %s2 = select %seen, %s, %infinity ; ... }
becomes
    %whole = subi %keys, 31 ; %steps = ceildiv of (%whole - %0, within the loop) by %32
    scf.for %n = %0 to (%0 + %steps * %32) step %32 { ... uses %s }
    scf.for %n = (%0 + %steps * %32) to %end step %32 { ... as before }

A mask is made of comparisons of integers (``cmpi``, ``andi``, ``ori``) whose sides are sums of counters of elements
(``iota``), the induction variable, and values from before the loop; the smaller side may be the absolute value of one.
Where the sum grows with the induction variable, a comparison that holds for all elements at one step has held at all
steps before, so that the first loop ends where the first comparison fails for an element. Comparisons without the
induction variable are decided before the loop, for all steps. Sums of 32 bits may wrap: unless all their terms are
under 2^28 in magnitude, there are no steps without a mask.

Where a sum falls with the induction variable, as that of a window does, steps with masks come before the others, too:

    scf.for %n = %0 to %end step %32 { %s2 = select (cmpi slt, %row - (%column + %n), %window), %s, %infinity ; ... }
becomes
    %first = (%row's last - %window) + 1                             %row's last: of the tile's
    scf.for %n = %0 to %end step %32 { %s2 = scf.if (cmpi sge, %n, %first) { %s } else { select ... } ; ... }

Three loops would keep what their masks have in common in registers throughout, which spills; a branch around the mask
leaves one loop. Masks of which some element fails at every step, such as those of a window narrower than a tile, stay.

It applies to loops of matrix products in which subgroups do not wait for each other, and may go on at different steps.
Where they do, at barriers of all (:mod:`xetile.passes.cooperative_loads.cooperative_operands`), the first loop ends
for all subgroups where it does for the first of them: positions of subgroups count as their bounds. Where there are two
loops, the code is in the kernel twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerType, ModuleOp, UnitAttr, UnrealizedConversionCastOp, VectorType
from xdsl.dialects.gpu import BarrierOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import Pure
from xdsl.utils.type import get_element_type_or_self

from xegpu.analysis.dataflow.integer_range import Range, Ranges
from xegpu.analysis.uniformity import per_subgroup
from xegpu.dialect.bounds import ALIGNMENT
from xegpu.dialect.scalar import LoadScalarOp
from xegpu.ir.kernel_attributes import function_of
from xegpu.ir.matchers import BARRIER, number
from xegpu.ir.memref import is_shared
from xegpu.ir.region_branch import for_loops
from xegpu.ir.traversal import is_a, operations
from xegpu.ir.use_def import array_of
from xegpu.mlir.arith import CmpIOp, IndexCastOp, SelectOp
from xegpu.rewrite.inserter import Inserter, copy_operation, rewrite_in_place
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import AtomicRMWTileOp, LoadColumnsOp, LoadGatherOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.tile_ops import InitTileOp
from xetile.dialect.types import TileParameters
from xetile.passes.loops.index_set_splitting.mask_comparisons import SMALL, Comparison, comparisons_of, may_hold, within

_STRAIGHT = (tile_ops.LoadTileOp, tile_ops.PrefetchTileOp, tile_ops.UpdateTileOffsetOp, InitTileOp,
             LoadColumnsOp, LoadScalarOp, UnrealizedConversionCastOp, scf.YieldOp, scf.ForOp)
"""Operations of a loop that is split, beside those without effects."""


class IndexSetSplitting:
    """Pass ``index-set-splitting``."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such loops split; the module itself if there are none."""
        return rewrite_in_place(module, _candidates, _splits, _split)


def _candidates(around: Operation) -> Iterator[scf.ForOp]:
    for loop in straight_product_loops(around, waits=True):
        kinds = {type(inner) for inner in operations(loop)}
        if LoadGatherOp in kinds and kinds.isdisjoint((BarrierOp, LoadColumnsOp)):
            continue  # coalesce-gathers splits off its steps without masks
        if 0 < (number(loop.step) or 0) < SMALL and abs(number(loop.lb) or 0) < SMALL and not _continues(loop):
            yield loop


def straight_product_loops(around: Operation, *, waits: bool = False) -> Iterator[scf.ForOp]:
    """Loops of matrix products that store nothing, and in which subgroups do not wait for each other.

    With ``waits`` also those that gather, store to shared local memory, and whose subgroups all wait for each other.
    """
    for loop in for_loops(around):
        body = operations(loop)[1:]
        if any(type(inner) is TileMmaOp for inner in loop.body.block.ops) \
                and not any(BARRIER in inner.attributes for inner in (loop, *body)) \
                and all(is_a(inner, _STRAIGHT) or inner.has_trait(Pure) or (waits and _exchanges(inner))
                        for inner in body):
            yield loop


def _exchanges(operation: Operation) -> bool:
    """Whether an operation gathers, is a barrier of all subgroups, or stores to their shared local memory."""
    return isinstance(operation, (BarrierOp, LoadGatherOp)) or (
        isinstance(operation, tile_ops.StoreTileOp) and is_shared(array_of(operation.tile).type))


def _continues(loop: scf.ForOp) -> bool:
    """Whether a loop goes on where another one ends: its author has split off the steps without masks."""
    return any(isinstance(use.operation, scf.ForOp) and use.operation.ub is loop.lb for use in loop.lb.uses)


@dataclass(frozen=True)
class _Split:
    """A selection that is decided in the steps without masks.

    Attributes:
        selection: the operation.
        holds: whether its condition is true there.
        comparisons: those that decide it.
    """

    selection: SelectOp
    holds: bool
    comparisons: list[Comparison]

    @property
    def unmasked(self) -> SSAValue:
        """The operand that is selected in the steps without masks."""
        return self.selection.lhs if self.holds else self.selection.rhs


def _splits(loop: scf.ForOp) -> list[_Split]:
    """The selections of a loop that are decided in the steps without masks, at most those of one direction."""
    found: list[_Split] = []
    bounds = _positions(loop) if any(isinstance(inner, BarrierOp) for inner in loop.walk()) else {}
    if bounds is None:
        return []
    for operation in loop.body.block.ops:
        if isinstance(operation, SelectOp) and isinstance(operation.condition.type, VectorType):
            decided = [_Split(operation, holds, comparisons) for holds in (True, False)
                       if (comparisons := comparisons_of(operation.condition, holds, loop, bounds))
                       and any(each.total.counter for each in comparisons)]
            for split in sorted(decided, key=_rank):
                if may_hold([*split.comparisons, *(each for other in found for each in other.comparisons)]):
                    found.append(split)
                    break
    return found


def _positions(loop: scf.ForOp) -> Mapping[SSAValue, Range] | None:
    """Ranges of the values that differ among the subgroups of a work-group; None where others may differ, too."""
    function = function_of(loop)
    if any(isinstance(each, AtomicRMWTileOp) for each in function.walk()):  # numbers of their own
        return None
    ranges = Ranges.of_function(function)
    return {value: ranges.of(value) for value in per_subgroup(function)
            if isinstance(get_element_type_or_self(value.type), (IndexType, IntegerType))}


def _rank(split: _Split) -> tuple[bool, bool]:
    """Last the direction that takes the same number for all elements, which hides them; then the one with a branch."""
    return isinstance(split.unmasked.owner, BroadcastOp), any(each.total.counter < 0 for each in split.comparisons)


def _split(inserter: Inserter, loop: scf.ForOp, splits: list[_Split]) -> None:
    """Do the steps without masks in a loop in front of the others', or around a branch where others come before."""
    comparisons = [each for split in splits for each in split.comparisons]
    inside = [] if any(each.total.counter < 0 for each in comparisons) else [*_inside(loop, comparisons)]
    first, bound = _bounds(inserter, loop, [*comparisons, *(each for _, asked in inside for each in asked)])
    if first is not None:
        for position in reversed(range(len(splits))):
            if splits[position].selection.parent is loop.body.block:  # it is not in the branch of a later one
                _branch(inserter, loop, splits[:position + 1], first, bound)
        return
    end = _whole(inserter, loop, bound)
    values: dict[SSAValue, SSAValue] = {}
    copied = copy_operation(loop, values)
    assert isinstance(copied, scf.ForOp)
    assert loop.parent is not None
    loop.parent.insert_op_before(copied, loop)
    copied.operands = [loop.lb, end, loop.step, *loop.iter_args]
    for split in splits:
        selection = values[split.selection.result].owner
        assert isinstance(selection, SelectOp)
        selection.result.replace_all_uses_with(selection.lhs if split.holds else selection.rhs)
    for init, _ in inside:
        tile = values[init.result].owner
        assert isinstance(tile, InitTileOp)
        tile.attributes[tile_ops.IN_BOUNDS] = UnitAttr()
    for old, new in zip(loop.results, copied.results, strict=True):
        new.name_hint = old.name_hint
    loop.operands = [end, loop.ub, loop.step, *copied.results]


def _inside(loop: scf.ForOp, comparisons: list[Comparison]) -> Iterator[tuple[InitTileOp, list[Comparison]]]:
    """Vectors that a loop loads, such as indices, that are in bounds if comparisons hold; with the conditions to check
    before the loop.

    Blocks of matrices are left out: their messages check bounds. So are rows of elements of less than 32 bits, which
    would need another check: block reads take rows that begin on 4-byte boundaries.
    """
    for init in loop.body.block.ops:
        if not isinstance(init, InitTileOp) or len(init.shape) != 2 or \
                not _is_vector(tile_ops.tile_of(init.result)) or \
                tile_ops.tile_of(init.result).encoding.order != (1, 0) or not init.result.uses or \
                not all(isinstance(use.operation, tile_ops.LoadTileOp) for use in init.result.uses):
            continue
        found = [within(offset, extent, size, loop) for offset, extent, size in
                 zip(init.offsets, tile_ops.tile_of(init.result).shape, init.shape, strict=True)]
        needed = [each for each in found if each is not None]
        if len(needed) == 2 and all(not each.total.counter or any(map(each.follows_from, comparisons))
                                    for each in needed):
            yield init, [each for each in needed if not each.total.counter]


def _is_vector(tile: TileParameters) -> bool:
    """Whether a tile is a column, or a row of elements of which each begins on a 4-byte boundary."""
    rows, columns = tile.shape
    return columns == 1 or (rows == 1 and tile.dtype.bytes >= ALIGNMENT)


def _branch(inserter: Inserter, loop: scf.ForOp, splits: list[_Split], first: SSAValue, bound: SSAValue) -> None:
    """Select in a branch that the steps from ``first`` to before ``bound`` do not take, with what only that needs.

    The selection is the last of the given ones; those before it that it selects from are left out of these steps, too.
    """
    selection, counter, value = splits[-1].selection, loop.body.block.args[0], splits[-1].unmasked
    for split in splits[-2::-1]:
        value = split.unmasked if value is split.selection.result else value
    whole = inserter.before(selection, arith.AndIOp(
        inserter.before(selection, CmpIOp(counter, first, "sge")),
        inserter.before(selection, CmpIOp(counter, bound, "slt"))))
    kept, masked = scf.YieldOp(value), scf.YieldOp(selection.result)
    kept.location = masked.location = selection.location
    branch = scf.IfOp(whole, [selection.result.type], Region(Block([kept])), Region(Block([masked])))
    result = inserter.before(selection, branch, selection.result.name_hint)
    for use in list(selection.result.uses):
        if use.operation is not masked:
            use.operation.operands[use.index] = result
    _sink(selection, branch.false_region.block, loop)


def _sink(operation: Operation, block: Block, loop: scf.ForOp) -> None:
    """Move an operation to the head of a block inside a loop, with operations whose results only that block uses."""
    operation.detach()  # type: ignore[no-untyped-call]
    head = block.first_op
    assert head is not None
    block.insert_op_before(operation, head)
    for operand in operation.operands:
        owner = operand.owner
        if isinstance(owner, Operation) and owner.parent is loop.body.block and owner.has_trait(Pure) \
                and isinstance(operand.type, VectorType) \
                and all(use.operation.parent is block for result in owner.results for use in result.uses):
            _sink(owner, block, loop)


def _bounds(inserter: Inserter, loop: scf.ForOp,
            comparisons: list[Comparison]) -> tuple[SSAValue | None, SSAValue]:
    """The first counter at which no mask is needed, None where that is the loop's first, and the one behind the last;
    not before the loop's start."""
    low = loop.lb
    first, bound = None, inserter.before(loop, arith.MinSIOp(loop.ub, inserter.constant(SMALL)))
    allowed = []
    terms = {term: None for each in comparisons for term in each.terms} | {low: None}
    for term in terms:
        if number(term) is None:
            allowed += [_compared(inserter, loop, term, -SMALL, "sge"), _compared(inserter, loop, term, SMALL, "slt")]
    for each in comparisons:
        total = inserter.constant(each.total.constant + each.total.most)
        for term, times in each.total.terms.items():
            total = inserter.add(loop, total, inserter.multiply(loop, _as_index(inserter, loop, term), times))
        if each.total.counter > 0:  # total + counter < 0
            bound = inserter.before(loop, arith.MinSIOp(bound, inserter.subtract(loop, inserter.constant(0), total)))
        elif each.total.counter < 0:  # total - counter < 0
            after = inserter.add(loop, total, 1)
            first = after if first is None else inserter.before(loop, arith.MaxSIOp(first, after))
        else:
            allowed.append(_compared(inserter, loop, total, 0, "slt"))
    bound = inserter.before(loop, arith.MaxSIOp(bound, low))
    if allowed:
        holds = reduce(lambda a, b: inserter.before(loop, arith.AndIOp(a, b)), allowed)
        bound = inserter.before(loop, SelectOp(holds, bound, low))
    return first, bound


def _whole(inserter: Inserter, loop: scf.ForOp, bound: SSAValue) -> SSAValue:
    """The first step of a loop that is not before a bound: whole steps from its start on."""
    step, low = number(loop.step), loop.lb
    assert step is not None
    rounded = inserter.add(loop, inserter.subtract(loop, bound, low), step - 1)
    steps = inserter.before(loop, arith.FloorDivSIOp(rounded, inserter.constant(step)))
    return inserter.add(loop, low, inserter.multiply(loop, steps, step))


def _as_index(inserter: Inserter, loop: scf.ForOp, term: SSAValue) -> SSAValue:
    if isinstance(term.type, IndexType):
        return term
    return inserter.before(loop, IndexCastOp(term, IndexType()))


def _compared(inserter: Inserter, loop: scf.ForOp, term: SSAValue, limit: int, predicate: str) -> SSAValue:
    return inserter.before(loop, CmpIOp(_as_index(inserter, loop, term), inserter.constant(limit), predicate))
