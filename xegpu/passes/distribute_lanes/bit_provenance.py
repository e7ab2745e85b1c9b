"""Bit provenance: of each row of a fragment of integers, the bits of which other rows its bits are.

``(w >> 4) & 15`` has in its bits 0 to 3 the bits 4 to 7 of ``w``, and so has, in every other row, a bitcast to bytes of
``(w | w << 4) & 0x0f0f``. Shifts by constants, masks, ``or``, extensions, truncations and bitcasts are followed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.dialects.vector import BroadcastOp as SplatOp
from xdsl.ir import SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.dialect.vector import BitcastOp, ShuffleOp
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.ir.matchers import number
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.arith import ExtSIOp, ExtUIOp, TruncIOp
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, values_of

T = TypeVar("T")


@dataclass(frozen=True)
class Bits:
    """Bits of a row.

    Attributes:
        pieces: each a value, its row, by how much its bits are shifted to the right, and the mask of those that are
            here; bits of several are or-ed, and all others are zero.
        unknown: mask of bits of which nothing is known.
    """

    pieces: tuple[tuple[SSAValue, int, int, int], ...]
    unknown: int = 0

    def masked(self, mask: int) -> Bits:
        """The bits of a mask."""
        return Bits(tuple((value, row, by, bits & mask) for value, row, by, bits in self.pieces if bits & mask),
                    self.unknown & mask)

    def shifted(self, by: int, mask: int) -> Bits:
        """The bits, shifted to the right, or for a negative number to the left; of these those of a mask."""
        return Bits(tuple((value, row, before + by, _shifted(bits, by)) for value, row, before, bits in self.pieces),
                    _shifted(self.unknown, by)).masked(mask)

    def __or__(self, other: Bits) -> Bits:
        return Bits(self.pieces + other.pieces, self.unknown | other.unknown)

    @property
    def possible_ones(self) -> int:
        """Mask of the bits that are not known to be zero."""
        found = self.unknown
        for piece in self.pieces:
            found |= piece[-1]
        return found


def _shifted(bits: int, by: int) -> int:
    return bits >> by if by >= 0 else bits << -by


@dataclass
class BitProvenance:
    """Bits of the rows of values, as far as they were asked for."""

    found: dict[SSAValue, list[Bits]] = field(default_factory=dict)

    def rows(self, value: SSAValue) -> list[Bits]:
        """Bits of each row of a fragment of integers, in the column of a lane; of several columns nothing is known."""
        if shape_of(value)[1:] != (1,):
            return [Bits((), (1 << element_of(value).bits) - 1)] * shape_of(value)[0]
        if value not in self.found:
            moved = moved_rows(value, self.rows)
            self.found[value] = self._computed(value) if moved is None else moved
        return self.found[value]

    def _computed(self, value: SSAValue) -> list[Bits]:
        owner, bits = value.owner, element_of(value).bits
        every = (1 << bits) - 1
        if isinstance(owner, arith.AndIOp):
            for operand, other in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
                if (mask := splat_of(other)) is not None:
                    return [row.masked(mask & every) for row in self.rows(operand)]
        elif isinstance(owner, arith.OrIOp):
            return [a | b for a, b in zip(self.rows(owner.lhs), self.rows(owner.rhs), strict=True)]
        elif isinstance(owner, (arith.ShRUIOp, arith.ShRSIOp, arith.ShLIOp)):
            if (by := splat_of(owner.rhs)) is not None and 0 <= by < bits:
                signs = every & ~(every >> by) if isinstance(owner, arith.ShRSIOp) else 0
                shifted = [row.shifted(-by if isinstance(owner, arith.ShLIOp) else by, every)
                           for row in self.rows(owner.lhs)]
                return self._signed(owner.lhs, shifted, signs)
        elif isinstance(owner, (ExtUIOp, ExtSIOp)):
            narrow = (1 << element_of(owner.input).bits) - 1
            return self._signed(owner.input, self.rows(owner.input),
                                every & ~narrow if isinstance(owner, ExtSIOp) else 0)
        elif isinstance(owner, TruncIOp):
            return [row.masked(every) for row in self.rows(owner.input)]
        elif isinstance(owner, arith.BitcastOp) and element_of(owner.input).kind in "iu":
            return self.rows(owner.input)
        elif isinstance(owner, BitcastOp) and (source := element_of(owner.source)).kind in "iu" and source.bits > bits:
            return [row.shifted(at, every) for row in self.rows(owner.source) for at in range(0, source.bits, bits)]
        return [Bits(((value, row, 0, every),)) for row in range(shape_of(value)[0])]

    def _signed(self, source: SSAValue, rows: list[Bits], signs: int) -> list[Bits]:
        """Rows with copies of the source's highest bit."""
        top = 1 << element_of(source).bits - 1
        return [row | Bits((), signs) if signs and before.possible_ones & top else row
                for row, before in zip(rows, self.rows(source), strict=True)]


def moved_rows(value: SSAValue, rows_of: Callable[[SSAValue], list[T]]) -> list[T] | None:
    """What is known of the rows of a slice, or of what is put together, by those of others; None for other values."""
    owner = value.owner
    if isinstance(owner, ExtractStridedSliceOp):
        first = values_of(owner.offsets)[0]
        return rows_of(owner.source)[first:first + shape_of(value)[0]]
    if isinstance(owner, InsertStridedSliceOp):
        first, part = values_of(owner.offsets)[0], rows_of(owner.source)
        rows = rows_of(owner.dest)
        return rows[:first] + part + rows[first + len(part):]
    if isinstance(owner, ShuffleOp) and (order := _row_order(owner)) is not None:
        sources = [row for source in owner.sources for row in rows_of(source)]
        return [sources[row] for row in order]
    return None


def _row_order(shuffle: ShuffleOp) -> list[int] | None:
    """The rows that a shuffle takes, counted through its sources, if it takes rows of an element a lane as they are."""
    maps, shapes, mask = shuffle.lane_maps(), shuffle.block_shapes(), list(shuffle.mask.get_values())
    columns = shapes[-1][1]
    if maps is None or {shape[1] for shape in shapes} != {columns} or set(maps) != {LaneMap((1, columns))}:
        return None
    order = [first // columns for first in mask[::columns]]
    return order if mask == [row * columns + lane for row in order for lane in range(columns)] else None


def element_of(value: SSAValue) -> DType:
    """Element type of a vector, or the type of a number."""
    return of_mlir(get_element_type_or_self(value.type))


def splat_of(value: SSAValue) -> int | None:
    """The constant that all elements of a vector are."""
    if not isinstance(value.owner, SplatOp):
        return None
    source = value.owner.source
    if isinstance(source.owner, UnrealizedConversionCastOp):
        source = source.owner.inputs[0]
    return number(source)
