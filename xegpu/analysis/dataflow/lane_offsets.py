"""Elements of integer fragments as affine expressions of the lane, and the bounds that a mask asks of them.

    %c = iota %0 : 1x16 ; %k1 = vector.broadcast %k ; %d = addi %c, %k1
    %f = broadcast %first [1] : 16x1 -> 16x16 ; %g = broadcast %d [0] : 1x16 -> 16x16 ; %o = addi %f, %g
Row 3 of %o is ``%first[3] + %k + lane``: the rows of such an offset are contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, prod

from xdsl.dialects import arith
from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.ir import SSAValue

from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.dialect.reduction import BroadcastOp
from xegpu.dialect.vector import IotaOp
from xegpu.ir.matchers import number
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.arith import CmpIOp, SelectOp
from xegpu.mlir.vector import ExtractStridedSliceOp, ShapeCastOp, shape_of, values_of
from xegpu.target.block2d import PITCH_ALIGNMENT


@dataclass(frozen=True)
class Column:
    """A column of a number for each row, over the lanes.

    Attributes:
        value: its fragment, of one element.
        lanes: its lane map.
        size: its rows.
    """

    value: SSAValue
    lanes: LaneMap
    size: int


Row = tuple[Column, int]
"""An element of a column, which is the same in all lanes."""


@dataclass(frozen=True)
class Affine:
    """``constant + lane * (the lane's number) + terms + rows``, of which the last two are the same in all lanes."""

    constant: int = 0
    lane: int = 0
    terms: tuple[SSAValue, ...] = ()
    rows: tuple[Row, ...] = ()

    def plus(self, other: Affine) -> Affine:
        """The sum of two."""
        return Affine(self.constant + other.constant, self.lane + other.lane, self.terms + other.terms,
                      self.rows + other.rows)


@dataclass
class LaneOffsets:
    """The analysis.

    Attributes:
        lanes: of a subgroup.
        arrays: the arrays that 2D block messages may reach, whose rows are contiguous, at multiples of 16 bytes.
        floors: what must not be negative for the answers to hold, in any lane.
    """

    lanes: int
    arrays: frozenset[SSAValue]
    floors: list[Affine] = field(default_factory=list)

    def element(self, value: SSAValue, unit: int) -> Affine | None:
        """An element of a fragment of one element a unit; None if it is no such expression."""
        value, unit = source_of(value, unit)
        owner = value.owner
        if isinstance(owner, arith.AddiOp):
            left, right = self.element(owner.lhs, unit), self.element(owner.rhs, unit)
            return None if left is None or right is None else left.plus(right)
        if isinstance(owner, xvector.BroadcastOp):
            return _total(owner.source)
        if isinstance(owner, IotaOp):
            return self._iota(owner)
        if isinstance(owner, BroadcastOp):
            return self._broadcast(owner, unit)
        if isinstance(owner, arith.MuliOp):
            return next((self.element(side, unit) for side, other in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs))
                         if self.is_one(other)), None)
        return self._select(owner, unit) if isinstance(owner, SelectOp) else None

    def _iota(self, iota: IotaOp) -> Affine | None:
        along_lanes = iota.sg_map is not None and iota.sg_map.data.wi_layout == (1, self.lanes)
        if iota.axis.value.data != 1 or not along_lanes or iota.block_shape()[1] != self.lanes:
            return None
        return _total(iota.start).plus(Affine(lane=1))

    def _broadcast(self, broadcast: BroadcastOp, unit: int) -> Affine | None:
        if self._spreads(broadcast) == 0:
            return self.element(broadcast.source, 0)
        if self._spreads(broadcast) is None or broadcast.maps is None:
            return None
        size, _ = broadcast.larger(broadcast.result)
        return Affine(rows=((Column(broadcast.source, broadcast.maps[0], size), unit),))

    def _spreads(self, broadcast: BroadcastOp) -> int | None:
        """0 for a row that is repeated, 1 for a column that is, in registers of one row each; else None."""
        line = (1, self.lanes)
        if broadcast.maps is None or broadcast.maps[1].wi_layout != line or \
                broadcast.larger(broadcast.result)[1] != self.lanes or len(broadcast.dimensions) != 1:
            return None
        (axis,), (source, _) = broadcast.dimensions, broadcast.maps
        fits = source.wi_layout == line if axis == 0 else source.wi_layout[1] == 1 and \
            prod(shape_of(broadcast.source)) == 1
        return axis if fits else None

    def _select(self, select: SelectOp, unit: int) -> Affine | None:
        """``x >= 0 ? x : y`` where x is not negative."""
        test = select.condition.owner
        if not isinstance(test, CmpIOp) or test.name_of_predicate != "sge" or test.lhs is not select.lhs or \
                self.element(test.rhs, unit) != Affine():
            return None
        found = self.element(select.lhs, unit)
        if found is not None:
            self.floors.append(found)
        return found

    def is_one(self, value: SSAValue) -> bool:
        """Whether all elements are 1: a constant, or the distance of elements in a row of such an array."""
        owner = value.owner
        return isinstance(owner, xvector.BroadcastOp) and (
            number(owner.source) == 1 or self._stride(owner.source) == -1)

    def _stride(self, value: SSAValue) -> int | None:
        """Axis from behind, -1 for the last, whose stride in such an array an index is; None if it is none."""
        metadata = value.owner
        if not isinstance(metadata, ExtractStridedMetaDataOp) or metadata.source not in self.arrays:
            return None
        behind = range(-len(metadata.strides), 0)
        return next((axis for axis in behind if metadata.strides[axis] is value), None)

    def multiple_of(self, value: SSAValue, size: int) -> int:
        """Known divisor of an index, or of all elements of a fragment of them; 0 for zeros.

        Args:
            value: an index or a fragment.
            size: bytes of an element of the arrays.
        """
        owner = value.owner
        if isinstance(owner, (arith.AddiOp, arith.MuliOp)):
            sides = [self.multiple_of(side, size) for side in owner.operands]
            return gcd(*sides) if isinstance(owner, arith.AddiOp) else prod(sides)
        if isinstance(owner, (xvector.BroadcastOp, ShapeCastOp, ExtractStridedSliceOp)):
            return self.multiple_of(owner.source, size)
        if self._stride(value) in (None, -1):
            return multiple_of(value) if isinstance(value.type, IndexType) else 1
        return max(1, PITCH_ALIGNMENT // size)

    def bounds(self, mask: SSAValue, unit: int) -> list[tuple[Affine, Affine]] | None:
        """Pairs of which the first must be less than the second where an element of a mask is true."""
        mask, unit = source_of(mask, unit)
        owner = mask.owner
        if isinstance(owner, xvector.BroadcastOp):
            return [] if number(owner.source) else None
        if isinstance(owner, BroadcastOp) and self._spreads(owner) == 0:
            return self.bounds(owner.source, 0)
        if isinstance(owner, arith.AndIOp):
            left, right = self.bounds(owner.lhs, unit), self.bounds(owner.rhs, unit)
            return None if left is None or right is None else left + right
        if not isinstance(owner, CmpIOp) or owner.name_of_predicate not in ("slt", "sgt"):
            return None
        sides = (owner.lhs, owner.rhs) if owner.name_of_predicate == "slt" else (owner.rhs, owner.lhs)
        low, high = (self.element(side, unit) for side in sides)
        return None if low is None or high is None else [(low, high)]


def _total(index: SSAValue) -> Affine:
    """Terms of an index that is a sum."""
    known, owner = number(index), index.owner
    if known is not None:
        return Affine(known)
    return _total(owner.lhs).plus(_total(owner.rhs)) if isinstance(owner, arith.AddiOp) else Affine(terms=(index,))


def source_of(value: SSAValue, unit: int) -> tuple[SSAValue, int]:
    """The fragment that a slice or a cast takes an element from, and which one."""
    while isinstance(owner := value.owner, (ShapeCastOp, ExtractStridedSliceOp)):
        if isinstance(owner, ExtractStridedSliceOp):
            unit += values_of(owner.offsets)[0]
        value = owner.source
    return value, unit
