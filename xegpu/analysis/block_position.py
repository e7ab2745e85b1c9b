"""Positions of blocks on their arrays as sums of index values: initial offsets of a descriptor and its updates.

    %d = create_nd_tdesc %A, [%m, %0] ; %e = update_nd_offset %d, [%0, %k] ; %f = update_nd_offset %e, [%8, %32]
%f stands on the array of %d at row %m + 8, column %k + 32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, func, gpu, scf
from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from xegpu.analysis.dataflow.integer_range import Ranges
from xegpu.dialect.block_io import CreateNdTdescOp, SetNdOffsetsOp, UpdateNdOffsetOp
from xegpu.ir.matchers import number
from xegpu.ir.use_def import root_definitions


@dataclass(frozen=True)
class OffsetOf:
    """The row (``axis`` 0) or the column (1) at which a descriptor stands, where no index value is known to be it."""

    desc: SSAValue
    axis: int


Term = SSAValue | OffsetOf
_MOST = 1 << 16
"""A subgroup's share of a work-group's tile begins within as many elements."""


@dataclass(frozen=True)
class Sum:
    """Index values and a constant that are added up."""

    terms: tuple[Term, ...] = ()
    constant: int = 0

    def plus(self, other: Sum) -> Sum:
        """The sum of two sums."""
        return Sum(self.terms + other.terms, self.constant + other.constant)

    def divided(self, is_first: Callable[[Term], bool]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """The terms of which something holds, and the others."""
        return tuple(t for t in self.terms if is_first(t)), tuple(t for t in self.terms if not is_first(t))


@dataclass(frozen=True)
class Position:
    """Position of a block.

    Attributes:
        root: the descriptor that it was moved from, at whatever place: one on the same array.
        row, column: of its first element.
    """

    root: SSAValue
    row: Sum
    column: Sum


def sum_of(value: SSAValue) -> Sum:
    """An index value as a sum; only constants that were added to it are taken out of it."""
    known = number(value)
    if known is not None:
        return Sum((), known)
    owner = value.owner
    if isinstance(owner, arith.AddiOp) and any(number(side) is not None for side in owner.operands):
        return sum_of(owner.lhs).plus(sum_of(owner.rhs))
    return Sum((value,))


def uniform_part(sum_: Sum, ranges: Ranges) -> tuple[Sum, int, int] | None:
    """A sum without what depends on the subgroup, and the least and the most that this adds to it.

    Args:
        sum_: index values that are added up.
        ranges: of values of the same kernel.

    Returns:
        None if it may add anything.
    """
    terms: list[Term] = []
    low = high = 0
    waiting = [*sum_.terms]
    while waiting:
        term = waiting.pop(0)
        if isinstance(term, OffsetOf):
            return None
        if not depends_on_subgroup(term):
            terms.append(term)
        elif isinstance(add := term.owner, arith.AddiOp):
            waiting = [add.lhs, add.rhs, *waiting]
        else:
            range_ = ranges.of(term)
            if not range_.within(-_MOST, _MOST):
                return None
            low, high = low + range_.low, high + range_.high
    return Sum(tuple(terms), sum_.constant), low, high


def depends_on_subgroup(value: SSAValue) -> bool:
    """Whether subgroups may have different values; values of loops and branches may."""
    owner = value.owner
    if isinstance(owner, Block):
        above = owner.parent_op()
        return not isinstance(above, func.FuncOp) and not (isinstance(above, scf.ForOp) and owner.args[0] is value)
    if isinstance(owner, (gpu.SubgroupIdOp, gpu.ThreadIdOp, gpu.LaneIdOp)) or owner.regions:
        return True
    if isinstance(owner, (gpu.BlockIdOp, gpu.GridDimOp, ExtractStridedMetaDataOp)):
        return False
    return not owner.has_trait(Pure) or any(map(depends_on_subgroup, owner.operands))


def position_of(desc: SSAValue, known: dict[SSAValue, Position] | None = None) -> Position:
    """Position of a descriptor's block, traced back through updates of its offsets.

    Args:
        desc: the descriptor.
        known: positions of other descriptors, which are looked up and added to, so that a chain of moves is followed
            once.
    """
    known = {} if known is None else known
    moves: list[UpdateNdOffsetOp] = []
    while desc not in known and isinstance(owner := desc.owner, UpdateNdOffsetOp):
        moves.append(owner)
        desc = owner.desc
    if desc not in known:
        known[desc] = Position(desc, *_initial_offsets(desc))
    at = known[desc]
    for move in reversed(moves):
        row, column = (sum_of(offset) for offset in move.offsets)
        at = known[move.result] = Position(at.root, at.row.plus(row), at.column.plus(column))
    return at


def _initial_offsets(desc: SSAValue) -> tuple[Sum, Sum]:
    owner = desc.owner
    if isinstance(owner, SetNdOffsetsOp):
        return sum_of(owner.row), sum_of(owner.column)
    if not isinstance(owner, CreateNdTdescOp):
        return Sum((OffsetOf(desc, 0),)), Sum((OffsetOf(desc, 1),))
    *batch, row, column = owner.offsets
    # One of a batch stands below all rows where there is no such matrix.
    stays = all(owner.is_single(axis) for axis in range(len(batch)))
    return sum_of(row) if stays else Sum((OffsetOf(desc, 0),)), sum_of(column)


def surface_of(root: SSAValue) -> tuple[Any, ...] | None:
    """Key of a descriptor's array and matrix, equal for the same memory; None where a loop may change it."""
    definitions = root_definitions(root)
    if len(definitions) != 1:
        return None
    (making,) = definitions
    owner = making.owner
    if not isinstance(owner, CreateNdTdescOp) or len(owner.offsets) > 2:
        return (making,)
    return owner.source, tuple(owner.shape), tuple(owner.strides)


def is_inside(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a value is made in a loop's body, however deep, or changes from step to step."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None:
        above = block.parent_op()
        if above is loop:
            return True
        block = above.parent if isinstance(above, Operation) else None
    return False


def moving_axis(desc: SSAValue, loop: scf.ForOp) -> int | None:
    """The axis, 0 for rows or 1 for columns, along which a loop's counter moves a descriptor.

    Returns:
        None unless it moves by the counter along one axis, and by nothing else.
    """
    at, counter = position_of(desc), loop.body.block.args[0]
    terms = [*at.row.terms, *at.column.terms]
    if terms.count(counter) != 1 or is_inside(at.root, loop) or any(
            term is not counter and is_inside(term.desc if isinstance(term, OffsetOf) else term, loop)
            for term in terms):
        return None
    return 0 if counter in at.row.terms else 1
