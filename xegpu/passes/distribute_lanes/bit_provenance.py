"""Bit provenance: for each bit of each element of an integer fragment, the element and the bit that it is a copy of.

``(w >> 4) & 15`` has in its bits 0 to 3 the bits 4 to 7 of ``w``, and so has, in every other row, a bitcast to bytes of
``(w | w << 4) & 0x0f0f``. Shifts and masks by numbers that are known for each element, ``or``, extensions, truncations
and bitcasts are followed, and so are elements that move between rows and lanes. Bits may be inverted, and may be copies
of a sign: ``(w << 28) >> 28`` and ``((w & 15) ^ 8) - 8`` are the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from xegpu.dialect.convert_layout import word_of
from xegpu.dialect.vector import BitcastOp
from xegpu.ir.dtypes import PAIRS
from xegpu.mlir.arith import ExtSIOp, ExtUIOp, TruncIOp
from xegpu.mlir.vector import ShapeCastOp, shape_of
from xegpu.passes.distribute_lanes.element_moves import LANES, Elements, has_elements, moved_elements
from xegpu.passes.distribute_lanes.element_numbers import ElementNumbers, element_of

_FIELDS = 4
"""Planes of a piece."""
_MASKS = 3
"""Planes before the pieces: masks of bits."""


@dataclass(frozen=True)
class Bits:
    """Bits of the elements of a fragment.

    Attributes:
        unknown: masks of bits of which nothing is known, ``[units, lanes]``.
        copies: masks of bits that are as the next lower one, before any is inverted.
        inverted: masks of bits that are inverted; of those that are of nothing else, ones.
        pieces: ``[pieces, 4, units, lanes]``: each is of a source, and of an element of it, units times lanes and lanes
            counted; by how much its bits are shifted to the right, and the mask of those that are here. Bits of several
            are or-ed, and all others are zero.
    """

    unknown: Elements
    copies: Elements
    inverted: Elements
    pieces: Elements

    def masked(self, mask: Elements | int) -> Bits:
        """The bits of a mask."""
        pieces = self.pieces.copy()
        pieces[:, 3] &= mask
        copies = self.copies & mask
        based = copies & mask << 1  # a copy of a bit that is masked off is unknown
        return Bits(self.unknown & mask | copies ^ based, based, self.inverted & mask, pieces[pieces[:, 3].any((1, 2))])

    def shifted(self, by: Elements | int, mask: int) -> Bits:
        """The bits, shifted to the right, or for a negative number to the left; of these those of a mask."""
        pieces = self.pieces.copy()
        pieces[:, 2] += by
        pieces[:, 3] = _shifted(pieces[:, 3], by)
        return Bits(_shifted(self.unknown, by), _shifted(self.copies, by), _shifted(self.inverted, by),
                    pieces).masked(mask)

    def __or__(self, other: Bits) -> Bits:
        one, two = self.possible_ones, other.possible_ones
        both, copies = one & two, self.copies | other.copies
        # what is or-ed with an inverted bit, and a copy of a bit that is or-ed with another one
        lost = both & (self.inverted | other.inverted | copies) | self.copies & two << 1 | other.copies & one << 1
        return Bits(self.unknown | other.unknown | lost, copies & ~lost, (self.inverted | other.inverted) & ~lost,
                    np.concatenate([self.pieces, other.pieces]))

    def __xor__(self, mask: Elements) -> Bits:
        """The bits, those of a mask inverted."""
        return Bits(self.unknown, self.copies, self.inverted ^ mask, self.pieces)

    def plus(self, number: Elements, every: int) -> Bits | None:
        """The bits with a number added to them, if none of these can be added to a carry; None otherwise.

        A run of ones that is added to a bit, and to zeros above it, makes copies of the bit: inverted ones up to the
        run's end, whose carry is the bit itself. (If the bit is inverted the carry is too: an inverted run of ones.)
        """
        carried = number << 1 & every
        if (self.possible_ones & carried).any() or (self.copies & carried << 1).any():
            return None
        carry = self.inverted & number & ~carried
        return Bits(self.unknown, self.copies | carried, (carry + number & every) | self.inverted ^ carry, self.pieces)

    @property
    def possible_ones(self) -> Elements:
        """Masks of the bits that are not known to be zero."""
        found: Elements = self.unknown | self.copies | self.inverted | np.bitwise_or.reduce(self.pieces[:, 3], 0)
        return found

    def planes(self) -> Elements:
        """All of it in one array."""
        return np.concatenate([np.stack([self.unknown, self.copies, self.inverted]),
                               self.pieces.reshape(-1, *self.unknown.shape)])

    @staticmethod
    def of_planes(planes: Elements) -> Bits:
        """The inverse of :meth:`planes`."""
        unknown, copies, inverted = planes[:_MASKS]
        pieces = planes[_MASKS:].reshape(-1, _FIELDS, *planes.shape[1:])
        return Bits(unknown, copies, inverted, pieces).masked(-1)


def _shifted(bits: Elements, by: Elements | int) -> Elements:
    return bits >> np.maximum(by, 0) << np.maximum(np.negative(by), 0)


@dataclass
class BitProvenance:
    """Bits of the elements of values, as far as they were asked for.

    Attributes:
        found: what is known of values.
        sources: values that pieces are of; a piece has the index.
        numbers: elements that are known numbers.
    """

    found: dict[SSAValue, Bits] = field(default_factory=dict)
    sources: list[SSAValue] = field(default_factory=list)
    numbers: ElementNumbers = field(default_factory=ElementNumbers)

    def bits(self, value: SSAValue) -> Bits:
        """Bits of a fragment of integers; of several columns nothing is known unless they are words in VNNI form."""
        if value not in self.found:
            units, every = shape_of(value)[0], (1 << min(element_of(value).bits, 62)) - 1
            if is_vnni(value):
                self.found[value] = self._source(value, (1 << word_of(value).bits) - 1)
            elif not has_elements(value) or element_of(value).bits > 32:
                none = np.zeros((units, LANES), np.int64)
                self.found[value] = Bits(none | every, none, none, np.zeros((0, _FIELDS, units, LANES), np.int64))
            elif (moved := moved_elements(value, lambda source: self.bits(source).planes())) is not None:
                self.found[value] = Bits.of_planes(moved)
            else:
                self.found[value] = self._computed(value)
        return self.found[value]

    def _computed(self, value: SSAValue) -> Bits:
        owner, bits = value.owner, element_of(value).bits
        every = (1 << bits) - 1
        if isinstance(owner, arith.AndIOp):
            for operand, other in ((owner.lhs, owner.rhs), (owner.rhs, owner.lhs)):
                if (mask := self.numbers.of(other)) is not None:
                    return self.bits(operand).masked(mask & every)
        elif isinstance(owner, (arith.XOrIOp, arith.AddiOp, arith.SubiOp)):
            if (found := self._with_number(owner, every)) is not None:
                return found
        elif isinstance(owner, arith.OrIOp):
            return self.bits(owner.lhs) | self.bits(owner.rhs)
        elif isinstance(owner, (arith.ShRUIOp, arith.ShRSIOp, arith.ShLIOp)):
            if (by := self.numbers.of(owner.rhs)) is not None and (by >= 0).all() and (by < bits).all():
                signs = every & ~(every >> by) if isinstance(owner, arith.ShRSIOp) else 0
                shifted = self.bits(owner.lhs).shifted(-by if isinstance(owner, arith.ShLIOp) else by, every)
                return self._signed(owner.lhs, shifted, signs)
        elif isinstance(owner, (ExtUIOp, ExtSIOp)):
            narrow = (1 << element_of(owner.input).bits) - 1
            return self._signed(owner.input, self.bits(owner.input),
                                every & ~narrow if isinstance(owner, ExtSIOp) else 0)
        elif isinstance(owner, TruncIOp):
            return self.bits(owner.input).masked(every)
        elif isinstance(owner, ShapeCastOp) and is_vnni(owner.source):
            words = self.bits(owner.source)
            return _interleaved([words.shifted(at, every) for at in range(0, word_of(owner.source).bits, bits)])
        elif isinstance(owner, arith.BitcastOp) and element_of(owner.input).kind in "iu":
            return self.bits(owner.input)
        elif isinstance(owner, BitcastOp) and element_of(owner.source) in PAIRS.values():
            return self.bits(owner.source)
        elif isinstance(owner, BitcastOp) and (source := element_of(owner.source)).kind in "iu" and source.bits > bits:
            parts = [self.bits(owner.source).shifted(at, every) for at in range(0, source.bits, bits)]
            return _interleaved(parts)
        return self._source(value, every)

    def _source(self, value: SSAValue, every: int) -> Bits:
        """Bits of a value of which nothing else is known."""
        units = shape_of(value)[0]
        self.sources.append(value)
        index = np.arange(units * LANES).reshape(units, LANES)
        planes = np.broadcast_arrays(len(self.sources) - 1, index, 0, every)
        none = np.zeros((units, LANES), np.int64)
        return Bits(none, none, none, np.stack(planes)[None])

    def _with_number(self, operation: arith.XOrIOp | arith.AddiOp | arith.SubiOp, every: int) -> Bits | None:
        """Bits of a value combined with known numbers; None if there are none, or a carry is not known."""
        pairs = [(operation.lhs, operation.rhs), (operation.rhs, operation.lhs)]
        for operand, other in pairs[:1] if isinstance(operation, arith.SubiOp) else pairs:
            if (number := self.numbers.of(other)) is not None:
                if isinstance(operation, arith.XOrIOp):
                    return self.bits(operand) ^ (number & every)
                number = -number if isinstance(operation, arith.SubiOp) else number
                return self.bits(operand).plus(number & every, every)
        return None

    def _signed(self, source: SSAValue, bits: Bits, signs: Elements | int) -> Bits:
        """Bits with copies of the source's highest one."""
        top, of = 1 << element_of(source).bits - 1, self.bits(source)
        return Bits(bits.unknown, bits.copies | np.where(of.possible_ones & top, signs, 0),
                    bits.inverted | np.where(of.inverted & top, signs, 0), bits.pieces)


def is_vnni(fragment: SSAValue) -> bool:
    """Whether the elements of each lane's row are the bits of a word, the lowest first."""
    return len(shape_of(fragment)) == 2 and word_of(fragment) is not element_of(fragment)


def _interleaved(parts: list[Bits]) -> Bits:
    """Bits of fragments whose units are interleaved."""
    planes = [part.planes() for part in parts]
    most = max(len(part) for part in planes)
    stacked = np.stack([np.pad(part, ((0, most - len(part)), (0, 0), (0, 0))) for part in planes], 2)
    return Bits.of_planes(stacked.reshape(most, -1, LANES))
