"""Analysis of integer vectors as affine expressions: run-time terms, the same for all elements, and known numbers.

    %r = floordivsi (addi (iota {axis = 0}), (broadcast %k)), (broadcast %8) : vector<32x1xi32>      %k: of 8 a multiple
is ``%k * 1/8`` plus 0 eight times, 1 eight times, 2 and 3. A quotient is exact for the terms, as each is known to be a
multiple of the divisor; so remainders are, of which the terms vanish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, UnrealizedConversionCastOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.analysis.dataflow.integer_range import Range, Ranges
from xegpu.ir.dtypes import i32, of_mlir
from xegpu.ir.matchers import number
from xegpu.mlir.arith import ExtSIOp, ExtUIOp, IndexCastOp, TruncIOp
from xegpu.mlir.elementwise import RECORDS
from xegpu.mlir.vector import ExtractStridedSliceOp, ShapeCastOp, shape_of, values_of
from xegpu.rewrite.inserter import Inserter
from xetile.dialect.reduction import TileBroadcastOp
from xetile.dialect.vector import IotaOp, TileTransposeOp, element_of

Numbers = np.ndarray[Any, np.dtype[np.int64]]
_CASTS = (IndexCastOp, ExtSIOp, ExtUIOp, TruncIOp, UnrealizedConversionCastOp)
_UNSIGNED = (ExtUIOp, UnrealizedConversionCastOp)
_FAR = 1 << 24
"""Known numbers stay below it, and so do the rows of an array of block messages."""
_LARGEST_DIVISOR = 128
"""With it, the quotient of a 32-bit sum that wraps around is still beyond every row: 2^31 / 128 is 2^24."""


@dataclass(frozen=True)
class Affine:
    """Elements of a vector: the sum of ``terms``, each times a number, ``known`` ones, and columns of any numbers.

    Attributes:
        known: of each element, in the vector's shape or one that repeats to it.
        terms: scalars with how many times they are added.
        named: columns of integers, an element a row, that are added: the rows that an index vector names.
    """

    known: Numbers
    terms: dict[SSAValue, Fraction] = field(default_factory=dict)
    named: tuple[SSAValue, ...] = ()

    def plus(self, other: Affine, sign: int = 1) -> Affine:
        """The sum of two, or their difference."""
        terms = dict(self.terms)
        for term, times in other.terms.items():
            terms[term] = terms.get(term, Fraction(0)) + sign * times
        assert sign > 0 or not other.named
        return Affine(self.known + sign * other.known, {term: times for term, times in terms.items() if times},
                      self.named + other.named)

    def moved(self, move: Callable[[Numbers], Numbers]) -> Affine:
        """The same with elements elsewhere: those of a column in their rows."""
        return Affine(move(self.known), self.terms, self.named)

    def equals(self, other: Affine) -> bool:
        """Whether all elements are the same."""
        return self.terms == other.terms and Counter(self.named) == Counter(other.named) and \
            not np.any(self.known - other.known)

    @property
    def splat(self) -> int | None:
        """The known number that all elements are; None if they are not."""
        first = int(self.known.flat[0])
        return None if self.terms or self.named or np.any(self.known != first) else first


@dataclass
class AffineNumbers:
    """The analysis.

    Attributes:
        ranges: of the function's indices.
    """

    ranges: Ranges
    _found: dict[SSAValue, Affine | None] = field(default_factory=dict)

    def of(self, value: SSAValue) -> Affine | None:
        """A vector of integers as such expressions; None if it is something else."""
        if value not in self._found:
            found = self._of(value) if len(shape_of(value)) == 2 else None
            self._found[value] = found if found is not None and self._fits(found, value) else _named(value)
        return self._found[value]

    def of_scalar(self, value: SSAValue) -> Affine | None:
        """A number of run time; None for one in a type other than indices and integers of 32 bits."""
        unsigned = False
        while isinstance(owner := value.owner, _CASTS) and _bits(owner.operands[0]) <= _bits(owner.results[0]):
            (value,), unsigned = owner.operands, unsigned or isinstance(owner, _UNSIGNED)
        if unsigned and self.ranges.of(value).low < 0:
            return None
        known = number(value)
        if known is not None:
            return Affine(np.array([[known]]))
        is_small = isinstance(value.type, IndexType) or value.type == i32.mlir
        return Affine(np.zeros((1, 1), np.int64), {value: Fraction(1)}) if is_small else None

    def range_of(self, found: Affine) -> Range:
        """Range of all elements together."""
        if found.named:
            return Range()
        total = Range(int(found.known.min()), int(found.known.max()))
        for term, times in found.terms.items():
            one = self.ranges.of(term)
            total += one * Range(1, 1) if times == 1 else Range(0) if times > 0 and one.low >= 0 else Range()
        return total

    def _fits(self, found: Affine, value: SSAValue) -> bool:
        """Whether known numbers are small, and terms in no short type, in which they would wrap around."""
        dtype = of_mlir(element_of(value))
        if dtype.kind not in "iux" or ((found.terms or found.named) and dtype.kind != "x" and dtype.bits < i32.bits):
            return False
        low, high = -_FAR, _FAR
        if dtype.kind != "x" and dtype.bits < i32.bits:
            low, high = (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.kind == "i" else \
                (0, (1 << dtype.bits) - 1)
        elif dtype.kind == "u":
            low = 0 if not found.terms else low
        return bool(found.known.min() >= low and found.known.max() <= high)

    def _of(self, value: SSAValue) -> Affine | None:
        owner = value.owner
        if isinstance(owner, BroadcastOp):
            return self.of_scalar(owner.source)
        if isinstance(owner, IotaOp):
            first = Affine(np.zeros((1, 1), np.int64)) if owner.start is None else self.of_scalar(owner.start)
            return first and first.plus(Affine(np.indices(shape_of(value))[owner.axis.value.data]))
        if isinstance(owner, _CASTS):
            return self._cast(owner)
        if moved := _move(value):
            source, move = moved
            found = self.of(source)
            if found is None or (found.named and not isinstance(owner, TileBroadcastOp)):
                return None
            return found.moved(lambda known: move(np.broadcast_to(known, shape_of(source))))
        if type(owner) not in RECORDS or len(owner.operands) != 2:  # type: ignore[union-attr]
            return None
        left, right = (self.of(operand) for operand in owner.operands)  # type: ignore[union-attr]
        return None if left is None or right is None else self._computed(owner, left, right)  # type: ignore[arg-type]

    def _cast(self, owner: Operation) -> Affine | None:
        """The same numbers in another type; such as are read without a sign must have none."""
        source = owner.operands[0]
        if (found := self.of(source)) is None:
            return None
        unsigned = isinstance(owner, _UNSIGNED) or of_mlir(element_of(source)).kind == "u"
        return None if unsigned and self.range_of(found).low < 0 else found

    def _computed(self, owner: Operation, left: Affine, right: Affine) -> Affine | None:
        if isinstance(owner, arith.AddiOp):
            return left.plus(right)
        if right.named or (left.named and not isinstance(owner, arith.SubiOp)):
            return None
        if isinstance(owner, arith.SubiOp):
            return left.plus(right, -1)
        if isinstance(owner, arith.MuliOp):
            for side, factor in ((left, right.splat), (right, left.splat)):
                if factor is not None and abs(factor) < _FAR:
                    return Affine(side.known * factor, {term: times * factor for term, times in side.terms.items()
                                                        if factor})
            return None if left.terms or right.terms else Affine(left.known * right.known)
        if (known := right.splat) is None:
            return None
        if isinstance(owner, (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)):
            if not 0 <= known < _LARGEST_DIVISOR.bit_length():
                return None
            known = 1 << known
            if isinstance(owner, arith.ShLIOp):
                return Affine(left.known * known, {term: times * known for term, times in left.terms.items()})
        return self._quotient(owner, left, known)

    def _quotient(self, owner: Operation, left: Affine, divisor: int) -> Affine | None:
        """A quotient, remainder or mask of elements whose terms are known multiples."""
        if isinstance(owner, arith.AndIOp):
            divisor += 1
            if divisor & divisor - 1:
                return None
        if not 0 < divisor <= _LARGEST_DIVISOR or any(
                abs(times) > 1 or (times * multiple_of(term) / divisor).denominator != 1
                for term, times in left.terms.items()):
            return None
        if not isinstance(owner, (arith.FloorDivSIOp, arith.ShRSIOp, arith.AndIOp)) and self.range_of(left).low < 0:
            return None
        if isinstance(owner, (arith.RemSIOp, arith.RemUIOp, arith.AndIOp)):
            return Affine(left.known % divisor)
        if not isinstance(owner, (arith.FloorDivSIOp, arith.DivSIOp, arith.DivUIOp, arith.ShRSIOp, arith.ShRUIOp)):
            return None
        return Affine(left.known // divisor, {term: times / divisor for term, times in left.terms.items()})


def _move(value: SSAValue) -> tuple[SSAValue, Callable[[Numbers], Numbers]] | None:
    """Source of a vector whose elements are copies, and their selection; None for computed vectors."""
    owner, shape = value.owner, shape_of(value)
    if isinstance(owner, TileBroadcastOp):
        return owner.source, lambda known: np.broadcast_to(known, shape)
    if isinstance(owner, ShapeCastOp):
        return owner.source, lambda known: known.reshape(shape)
    if isinstance(owner, TileTransposeOp):
        return owner.source, lambda known: known.T
    if isinstance(owner, ExtractStridedSliceOp):
        row, column = values_of(owner.offsets)
        return owner.source, lambda known: known[row:row + shape[0], column:column + shape[1]]
    return None


def _named(value: SSAValue) -> Affine | None:
    """A column of integers that may be any; None for anything else."""
    shape = shape_of(value)
    is_index = of_mlir(element_of(value)) is i32 or isinstance(element_of(value), IndexType)
    is_column = len(shape) == 2 and shape[1] == 1
    return Affine(np.zeros((1, 1), np.int64), named=(value,)) if is_column and is_index else None


def _bits(number: SSAValue) -> int:
    """Bits of a number of run time: an index has 32 on devices."""
    dtype = of_mlir(number.type)
    return i32.bits if dtype.kind == "x" else dtype.bits


def total(inserter: Inserter, anchor: Operation, terms: dict[SSAValue, Fraction], known: int) -> SSAValue:
    """The sum of terms and a number, an index, in front of an operation."""
    added = inserter.constant(0)
    for term, times in terms.items():
        index = term if isinstance(term.type, IndexType) else inserter.before(anchor, IndexCastOp(
            term, IndexType()))
        added = inserter.add(anchor, added, inserter.scale(anchor, index, times))
    return inserter.add(anchor, added, known)
