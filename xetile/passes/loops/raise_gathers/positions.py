"""Analysis of gathers whose positions are affine: the rows and columns that they read, and what their masks ask.

    %o = addi (muli (floordivsi %r, %8), %stride0), %c ; %m = cmpi slt, %c, (select %is_a_row, %width, %0)
reads rows ``%r / 8`` and columns ``%c``, and nothing beyond a row: what a block load of these gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.dialects.memref import ExtractStridedMetaDataOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import SSAValue

from xegpu.ir.matchers import number
from xegpu.mlir.arith import CmpIOp, IndexCastOp, SelectOp
from xegpu.mlir.vector import shape_of
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp
from xetile.dialect.reduction import TileBroadcastOp
from xetile.passes.loops.raise_gathers.affine_numbers import Affine, AffineNumbers, Numbers

_BEYOND = 1 << 24
"""Columns from here on are behind every array of block messages."""
_ZERO = Affine(np.zeros((1, 1), np.int64))


@dataclass(frozen=True)
class Positions:
    """Rows and columns of a gather's elements.

    Attributes:
        rows: of each element; along a row of the tile all are the same.
        columns: consecutive ones from the first on.
        metadata: of the array.
    """

    rows: Affine
    columns: Affine
    metadata: ExtractStridedMetaDataOp

    @property
    def row_numbers(self) -> Numbers:
        """The known number of each row of the tile."""
        return self.rows.known[:, 0]

    @property
    def first(self) -> tuple[int, int]:
        """The known numbers of the first row and column in the array."""
        return int(self.row_numbers.min()), int(self.columns.known[0, 0])

    def along(self, axis: int) -> Affine:
        """Rows or columns."""
        return self.columns if axis else self.rows


@dataclass
class PositionAnalysis:
    """The analysis.

    Attributes:
        numbers: of vectors of integers.
    """

    numbers: AffineNumbers

    def of(self, load: LoadGatherOp) -> Positions | None:
        """The positions of a gather that a block load of the same ones replaces; None if there is none."""
        init, shape = load.tile.owner, shape_of(load.result)
        if not isinstance(init, InitScatteredTileOp) or len(shape) != 2:
            return None
        reader = _Reader(self.numbers, init.source)
        found = reader.split(init.indices)
        if found is None or reader.metadata is None:
            return None
        rows, columns = (each.moved(lambda known: np.broadcast_to(known, shape)) for each in found)
        counted = columns.known[0, 0] + np.arange(shape[1])
        if np.any(rows.known != rows.known[:, :1]) or np.any(columns.known != counted) or columns.named:
            return None
        at = Positions(rows, columns, reader.metadata)
        asked = reader.asked(load.mask, at)
        if asked is None or "width" not in asked or not all(kept.equals(at.along(axis)) for axis, kept in reader.kept):
            return None
        return at if "left" in asked or self.numbers.range_of(columns).low >= 0 else None


@dataclass
class _Reader:
    """Reader of the offsets and the mask of one gather.

    Attributes:
        numbers: of vectors of integers.
        source: the array.
        metadata: its sizes and strides, once one is found.
        kept: positions that are kept where they are in bounds, each with its axis: nothing may be added to them.
    """

    numbers: AffineNumbers
    source: SSAValue
    metadata: ExtractStridedMetaDataOp | None = None
    kept: list[tuple[int, Affine]] = field(default_factory=list)

    def split(self, value: SSAValue) -> tuple[Affine, Affine] | None:
        """Offsets as rows and columns."""
        owner = value.owner
        if isinstance(owner, arith.AddiOp):
            left, right = self.split(owner.lhs), self.split(owner.rhs)
            return None if left is None or right is None else (left[0].plus(right[0]), left[1].plus(right[1]))
        if isinstance(owner, TileBroadcastOp):
            if (found := self.split(owner.source)) is None:
                return None
            return _repeated(found[0], owner), _repeated(found[1], owner)
        if isinstance(owner, IndexCastOp):
            return self.split(owner.input)
        if isinstance(owner, arith.MuliOp):
            for side, factor in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
                if (axis := self._stride(factor)) is not None:
                    return self._along(axis, side)
        return self._along(1, value)

    def _along(self, axis: int, value: SSAValue) -> tuple[Affine, Affine] | None:
        """Rows or columns alone."""
        if (found := self.position(value, axis)) is None:
            return None
        return (_ZERO, found) if axis else (found, _ZERO)

    def _stride(self, value: SSAValue) -> int | None:
        """Axis of the array whose stride all elements of a vector are."""
        value = _splat(value)
        metadata = value.owner
        if not isinstance(metadata, ExtractStridedMetaDataOp) or metadata.source is not self.source or \
                len(metadata.strides) != 2 or value not in metadata.strides:
            return None
        self.metadata = metadata
        return next(axis for axis, stride in enumerate(metadata.strides) if stride is value)

    def position(self, value: SSAValue, axis: int) -> Affine | None:
        """Rows or columns; those that are not in bounds may be others that are not."""
        owner = value.owner
        if isinstance(owner, IndexCastOp) and isinstance(owner.input.owner, SelectOp):
            owner = owner.input.owner
        if not isinstance(owner, SelectOp) or not self._is_beyond(owner.rhs):
            return self.numbers.of(value)
        kept, axis = self.numbers.of(owner.lhs), 0 if self._size(_splat(owner.rhs)) == 0 else axis
        if kept is None or not self._tests(owner.condition, kept, axis):
            return None
        self.kept.append((axis, kept))
        return kept

    def _is_beyond(self, value: SSAValue) -> bool:
        """Whether elements of a vector are a number behind the last one, or the size of the array's rows."""
        size = _splat(value)
        return (number(size) or 0) >= _BEYOND or self._size(size) == 0

    def _size(self, value: SSAValue) -> int | None:
        """Axis of the array whose size a number is."""
        metadata = value.owner
        if not isinstance(metadata, ExtractStridedMetaDataOp) or metadata.source is not self.source or \
                len(metadata.sizes) != 2 or value not in metadata.sizes:
            return None
        return next(axis for axis, size in enumerate(metadata.sizes) if size is value)

    def _tests(self, condition: SSAValue, kept: Affine, axis: int) -> bool:
        """Whether a condition only asks whether positions are in bounds."""
        return all(test is not None and test[0].equals(kept) and test[1] in (None, axis)
                   for test in self._conjuncts(condition))

    def _conjuncts(self, mask: SSAValue) -> list[tuple[Affine, int | None] | None]:
        """Conjuncts of a mask: positions that must not be negative (None), or be less than the size of an axis.

        An entry is None for anything else.
        """
        owner = mask.owner
        if isinstance(owner, arith.AndIOp):
            return self._conjuncts(owner.lhs) + self._conjuncts(owner.rhs)
        if isinstance(owner, BroadcastOp) and number(owner.source):
            return []
        if isinstance(owner, TileBroadcastOp):
            return [None if test is None else (_repeated(test[0], owner), test[1])
                    for test in self._conjuncts(owner.source)]
        if not isinstance(owner, CmpIOp):
            return [None]
        name, left, right = owner.name_of_predicate, owner.lhs, owner.rhs
        if name in ("sgt", "sle"):
            name, left, right = {"sgt": "slt", "sle": "sge"}[name], right, left
        high = _splat(right)
        axis = None if number(high) == 0 else self._size(high)
        if name not in (("sge",) if number(high) == 0 else () if axis is None else ("slt", "ult")):
            return [None]
        low = self.position(left, 1 if axis is None else axis)
        return [None if low is None else (low, axis)]

    def asked(self, mask: SSAValue, at: Positions) -> set[str] | None:
        """Bounds that a mask checks, of ``width`` and ``left``; None if it checks anything else."""
        owner, found = mask.owner, set[str]()
        if isinstance(owner, arith.AndIOp):
            sides = [self.asked(side, at) for side in owner.operands]
            return None if sides[0] is None or sides[1] is None else sides[0] | sides[1]
        if isinstance(owner, CmpIOp) and owner.name_of_predicate == "slt" and (ends := self._ends(owner.rhs)):
            low, condition = self.split(owner.lhs), ends[0]
            if low is None or not low[0].equals(_ZERO) or not low[1].equals(at.columns) or (
                    condition is not None and not self._tests(condition, at.rows, 0)):
                return None
            found = {"width"}
            return found | {"left"} if isinstance(self._repeated(owner.lhs).owner, SelectOp) else found
        for test in self._conjuncts(mask):
            axis = None if test is None else next((axis for axis in (0, 1) if test[0].equals(at.along(axis))), None)
            if test is None or axis is None or test[1] not in (None, axis):
                return None
            is_column = axis == 1
            if is_column:
                found.add("left" if test[1] is None else "width")
        return found

    def _ends(self, value: SSAValue) -> tuple[SSAValue | None] | None:
        """The condition of ``is_a_row ? width : 0`` in a tuple, or None in one for ``width`` alone; None for others."""
        value = self._repeated(value)
        owner = value.owner
        if isinstance(owner, SelectOp) and self._size(_splat(owner.lhs)) == 1 and number(_splat(owner.rhs)) == 0:
            return (owner.condition,)
        return (None,) if self._size(_splat(value)) == 1 else None

    def _repeated(self, value: SSAValue) -> SSAValue:
        """The row or column that is repeated in a vector, without zeros that are added."""
        while isinstance(owner := value.owner, (TileBroadcastOp, arith.AddiOp)):
            if isinstance(owner, TileBroadcastOp):
                value = owner.source
            elif (known := self.numbers.of(owner.rhs)) is not None and known.splat == 0:
                value = owner.lhs
            else:
                break
        return value


def _repeated(found: Affine, broadcast: TileBroadcastOp) -> Affine:
    """A row or a column that is repeated."""
    small, large = shape_of(broadcast.source), shape_of(broadcast.result)
    return found.moved(lambda known: np.broadcast_to(np.broadcast_to(known, small), large))


def _splat(value: SSAValue) -> SSAValue:
    """The number that is repeated in a vector; the value itself for any other."""
    while isinstance(owner := value.owner, (BroadcastOp, IndexCastOp, arith.IndexCastOp, UnrealizedConversionCastOp)):
        (value,) = owner.operands
    return value
