"""Analysis of gathers whose transposes are operand B: whole columns, and where each ends."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, SSAValue

from xegpu.analysis.block_position import is_inside
from xegpu.analysis.dataflow.lane_offsets import LaneOffsets
from xegpu.analysis.uniformity import by_subgroup
from xegpu.dialect.hints import hints_of
from xegpu.ir.matchers import number
from xegpu.mlir.arith import CmpIOp, SelectOp
from xegpu.mlir.vector import shape_of
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.reduction import TileBroadcastOp, axes_of
from xetile.dialect.vector import IotaOp
from xetile.passes.loops.transpose_gathers.transposer import is_published, is_transposed


@dataclass(frozen=True)
class _Sum:
    """Sum of a column for each row, a row for each column, and numbers."""

    rows: tuple[SSAValue, ...] = ()
    columns: tuple[SSAValue, ...] = ()
    numbers: tuple[SSAValue, ...] = ()

    @classmethod
    def of(cls, value: SSAValue, along: int) -> _Sum | None:
        """The terms of a matrix, whose rows run along an axis; None if one is something else."""
        owner = value.owner
        if isinstance(owner, arith.AddiOp):
            left, right = cls.of(owner.lhs, along), cls.of(owner.rhs, along)
            return None if left is None or right is None else cls(
                left.rows + right.rows, left.columns + right.columns, left.numbers + right.numbers)
        if isinstance(owner, BroadcastOp):
            return cls() if number(owner.source) == 0 else cls(numbers=(owner.source,))
        if isinstance(owner, TileBroadcastOp):
            return cls(rows=(owner.source,)) if axes_of(owner) == (along,) else cls(columns=(owner.source,))
        return None


@dataclass(frozen=True)
class _Count:
    """Sum of the numbers of columns, ``times`` them, and numbers; of which the sums in ``floors`` are not negative."""

    times: int = 0
    numbers: tuple[SSAValue, ...] = ()
    floors: tuple[tuple[SSAValue, ...], ...] = ()

    def plus(self, other: _Count) -> _Count:
        """The sum of two."""
        return _Count(self.times + other.times, self.numbers + other.numbers, self.floors + other.floors)

    @classmethod
    def of(cls, value: SSAValue, analysis: LaneOffsets, along: int) -> _Count | None:
        """Consecutive numbers along an axis; None if it is something else."""
        owner = value.owner
        if isinstance(owner, arith.AddiOp):
            left, right = cls.of(owner.lhs, analysis, along), cls.of(owner.rhs, analysis, along)
            return None if left is None or right is None else left.plus(right)
        if isinstance(owner, BroadcastOp):
            return cls() if number(owner.source) == 0 else cls(numbers=(owner.source,))
        if isinstance(owner, IotaOp):
            return cls(1, () if owner.start is None or number(owner.start) == 0 else (owner.start,)) \
                if owner.axis.value.data == along else None
        if isinstance(owner, arith.MuliOp):
            sides = (owner.lhs, owner.rhs), (owner.rhs, owner.lhs)
            return next((cls.of(side, analysis, along) for side, other in sides if analysis.is_one(other)), None)
        if not isinstance(owner, SelectOp) or not isinstance(test := owner.condition.owner, CmpIOp) or \
                test.name_of_predicate != "sge" or test.lhs is not owner.lhs or \
                not isinstance(zero := test.rhs.owner, BroadcastOp) or number(zero.source) != 0:
            return None
        found = cls.of(owner.lhs, analysis, along)  # x >= 0 ? x : y
        return found and _Count(found.times, found.numbers, (*found.floors, found.numbers))


@dataclass(frozen=True)
class Columns:
    """A gather whose transpose is operand B, of whole columns, or one that is published, of whole rows or columns.

    Attributes:
        load: the gather.
        along: the axis along which its rows run in memory.
        rows: columns of vectors of which the sum is each row's offset in the array.
        start: numbers that are added to it.
        ends: a column: where each row ends, in the numbers of columns.
        first: numbers whose sum is the first column.
        last: the values that are in ``ends``.
        floors: sums that must not be negative.
        fixed: whether all these numbers are the same in each step.
        ends_in_words: whether rows are known to end at multiples of 4 bytes.
    """

    load: LoadGatherOp
    along: int
    rows: tuple[SSAValue, ...]
    start: tuple[SSAValue, ...]
    ends: SSAValue
    first: tuple[SSAValue, ...]
    last: tuple[SSAValue, ...]
    floors: tuple[tuple[SSAValue, ...], ...]
    fixed: bool
    ends_in_words: bool

    @property
    def is_transposed(self) -> bool:
        """Whether its only use is its transpose."""
        return is_transposed(self.load)

    @property
    def in_columns(self) -> bool:
        """Whether it becomes whole columns."""
        return self.is_transposed or self.along == 0

    @property
    def is_natural(self) -> bool:
        """Whether they are known not to begin in front of the first column."""
        return all(_is_natural(term) for floor in self.floors for term in floor)

    @property
    def in_words(self) -> bool:
        """Whether the elements in bounds are known to be whole words, and none is before the first column."""
        return self.ends_in_words and self.is_natural

    @property
    def numbers(self) -> tuple[SSAValue, ...]:
        """The numbers on which it depends whether whole columns are in bounds."""
        return *self.first, *self.last, *sum(self.floors, ())

    @property
    def depth(self) -> int:
        """Elements of a column of operand B."""
        return shape_of(self.load.result)[self.along]


def columns_of(load: LoadGatherOp, loop: scf.ForOp | None, analysis: LaneOffsets, *,
               unaligned: bool = False) -> Columns | None:
    """Columns of a gather that becomes one of whole columns or rows, in a loop or outside; None if it cannot.

    Args:
        load: the gather.
        loop: the loop.
        analysis: of the function's offsets.
        unaligned: whether columns may begin in the middle of a word.
    """
    transposed = is_transposed(load)
    if load.padding is not None or hints_of(load) or not (_is_operand_b(load) if transposed else is_published(load)):
        return None
    return next((found for along in ((1,) if transposed else (1, 0))
                 if (found := _columns_along(load, along, loop, analysis, unaligned)) is not None), None)


def _columns_along(load: LoadGatherOp, along: int, loop: scf.ForOp | None, analysis: LaneOffsets,
                   unaligned: bool) -> Columns | None:
    """The same of a gather whose rows run along an axis."""
    init, test = load.tile.owner, load.mask.owner
    assert isinstance(init, InitScatteredTileOp)
    dtype, shape = tile_ops.tile_of(load.tile).dtype, shape_of(load.result)
    columns, depth = shape[1 - along], shape[along]
    if init.source not in analysis.arrays or dtype.bits not in (8, 16, 32) or dtype.kind == "p" or \
            depth * dtype.bits % 32 or ((is_transposed(load) or along == 0) and columns % analysis.lanes) or \
            not isinstance(test, CmpIOp) or test.name_of_predicate != "slt":
        return None
    offsets, low, high = (_Sum.of(value, along) for value in (init.indices, test.lhs, test.rhs))
    if offsets is None or low is None or high is None or low.rows or high.columns or high.numbers or \
            len(high.rows) != 1:
        return None
    start, first, last = _total(offsets, analysis, along), _total(low, analysis, along), _selected(high.rows[0])
    if start is None or first is None or last is None or not offsets.rows:
        return None
    floors = start.floors + first.floors
    words = max(1, 4 // dtype.bytes)
    if not unaligned and any(
            analysis.multiple_of(term, dtype.bytes) % words for term in (*offsets.rows, *start.numbers)):
        return None
    ends_in_words = not any(analysis.multiple_of(term, dtype.bytes) % words for term in first.numbers) and all(
        _ends_in_words(end, analysis.arrays, words) for end in last)
    fixed = loop is not None and not any(is_inside(value, loop) for value in (*first.numbers, *last, *sum(floors, ())))
    return Columns(load, along, offsets.rows, start.numbers, high.rows[0], first.numbers, last, floors, fixed,
                    ends_in_words)


def _is_operand_b(load: LoadGatherOp) -> bool:
    """Whether transposes of a gather are operand B of products, and nothing else."""
    uses = [use for transpose in load.result.uses for use in transpose.operation.results[0].uses]
    return bool(uses) and all(isinstance(use.operation, TileMmaOp) and use.index == 1 for use in uses)


def _total(terms: _Sum, analysis: LaneOffsets, along: int) -> _Count | None:
    """The columns and numbers of a sum together, where they count columns once."""
    total = _Count(0, terms.numbers)
    for value in terms.columns:
        if (found := _Count.of(value, analysis, along)) is None:
            return None
        total = total.plus(found)
    return total if total.times == 1 else None


def _selected(value: SSAValue) -> tuple[SSAValue, ...] | None:
    """The numbers of which each element of a vector is one."""
    owner = value.owner
    if isinstance(owner, BroadcastOp):
        return (owner.source,)
    if not isinstance(owner, SelectOp):
        return None
    left, right = _selected(owner.lhs), _selected(owner.rhs)
    return None if left is None or right is None else left + right


def _ends_in_words(end: SSAValue, arrays: frozenset[SSAValue], words: int) -> bool:
    """Whether a row's end is a multiple: as that of arrays that block messages reach is one of 4 bytes."""
    owner = end.owner
    if isinstance(owner, SelectOp):
        return all(_ends_in_words(side, arrays, words) for side in (owner.lhs, owner.rhs))
    if isinstance(owner, ExtractStridedMetaDataOp):
        return owner.source in arrays and end is owner.sizes[-1]
    return number(end) is not None and (number(end) or 0) % words == 0


def _is_natural(value: SSAValue) -> bool:
    """Whether an index is known not to be negative: a constant, the counter of a loop from one on, or a subgroup's."""
    owner = value.owner
    if (known := by_subgroup(value)) is not None:
        return min(known) >= 0
    if isinstance(owner, Block):
        loop = owner.parent_op()
        return isinstance(loop, scf.ForOp) and value is owner.args[0] and _is_natural(loop.lb)
    if isinstance(owner, (arith.AddiOp, arith.MuliOp)):
        return all(map(_is_natural, owner.operands))
    return (number(value) or 0) >= 0 and number(value) is not None
