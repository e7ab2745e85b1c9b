"""Fusion of the dequantization of 4-bit weights with their packing as operand B.

    %n = arith.andi (arith.shrui %words, 4), 15 : vector<16x1xui32>
    %w = arith.mulf (arith.subf (arith.uitofp %n), (broadcast %zero)), (broadcast %scale) : vector<16x1xf16>
    %b = xegpu.pack %w : vector<16x1xf16> -> vector<8x2xf16>
becomes
    %b = xegpu.dequantize %words, %zero, %scale {shift = 4} : vector<16x1xui32>, ... -> vector<8x2xf16>

Element by element each 16-bit number takes a register of its own, and the pairs are put together at the end; two rows
of words that are paired first are dequantized 32 elements at a time. Rows may be sliced, put together or shuffled
between any two of these operations: of each row of the operand is found which bits of which word it is. They are
the same bits of consecutive words, or all weights of one word and then of the next (``{fields = 8}``, of bytes 2). A
row or a number of integers that is subtracted before the conversion becomes a zero point where no difference is
rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FloatAttr, VectorType
from xdsl.dialects.vector import BroadcastOp as SplatOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.integer_range import Range
from xegpu.analysis.integral_floats import signed_limits, signed_range
from xegpu.dialect.convert_layout import MASK, WORDS, DequantizeOp, nibbles
from xegpu.dialect.reduction import BroadcastOp
from xegpu.dialect.vector import PackOp
from xegpu.ir.dtypes import bf16, f16, of_mlir
from xegpu.mlir.arith import SIToFPOp, UIToFPOp
from xegpu.mlir.vector import ExtractStridedSliceOp, shape_of, vector_type
from xegpu.passes.distribute_lanes.bit_provenance import BitProvenance, Bits, element_of, moved_rows, splat_of
from xegpu.rewrite.dce import erase_dead

REGISTER_ROWS = 16
"""Rows of operand B in 16 bits, which are packed together."""

_EXACT = 240
"""Integers whose differences from weights are exact in f16 and in bf16, which has 8 bits."""


@dataclass(frozen=True)
class _Weight:
    """A row of weights.

    Attributes:
        words, row: the fragment that they are taken from, and its row.
        shift: lowest bit of a weight in its word.
        zero, scale: a row, or a number for all; the zero point may be a row of signed integers.
    """

    words: SSAValue
    row: int
    shift: int = 0
    zero: SSAValue | int = 0
    scale: SSAValue | int = 1


_Rows = list[_Weight | None]
"""Rows of a fragment; None for those that are not what is looked for."""

_Leaf = Callable[[SSAValue], _Rows]
"""Says the rows of a value that is not put together of others."""


def fuse_dequantize(function: func.FuncOp) -> None:
    """Fuse dequantization and packing in a distributed kernel, in place."""
    matcher, fused = _Matcher(), False
    for operation in list(function.walk()):
        if isinstance(operation, PackOp) and (found := _packed_weights(operation, matcher)) is not None:
            _replace(operation, *found)
            fused = True
    if fused:
        erase_dead(function.body.block)


def _replace(pack: PackOp, first: _Weight, fields: int) -> None:
    """Replace a packing of weights, of which the first row is given, by their dequantization."""
    element = pack.source.type.element_type  # type: ignore[attr-defined]
    words, rows, added = first.words, shape_of(pack.source)[0] // fields, list[Operation]()

    def add(operation: Operation) -> SSAValue:
        operation.location = pack.location
        added.append(operation)
        return operation.results[0]

    def row(value: SSAValue | int) -> SSAValue:
        if isinstance(value, int):
            value = add(arith.ConstantOp(FloatAttr(value, element)))
        if not isinstance(value.type, VectorType):
            value = add(SplatOp(value, vector_type((1, 1), value.type)))
        return value if value.type == vector_type((1, 1), element) else \
            add(SIToFPOp(value, vector_type((1, 1), element)))

    if shape_of(words)[0] != rows:
        words = add(ExtractStridedSliceOp(words, (first.row, 0), (rows, 1)))
    assert pack.sg_map is not None
    assert pack.parent is not None
    result = add(DequantizeOp(words, row(first.zero), row(first.scale), first.shift, pack.sg_map.data, pack.result.type,
                              fields))
    for operation in added:
        pack.parent.insert_op_before(operation, pack)
    result.name_hint = pack.result.name_hint
    pack.result.replace_all_uses_with(result)


def _packed_weights(pack: PackOp, matcher: _Matcher) -> tuple[_Weight, int] | None:
    """First row of packed weights, and how many consecutive rows are of one word: one or all that it has."""
    shape, dtype = shape_of(pack.source), of_mlir(pack.source.type.element_type)  # type: ignore[attr-defined]
    if pack.sg_map is None or dtype not in (f16, bf16) or len(shape) != 2 or shape[0] % REGISTER_ROWS or shape[1] != 1:
        return None
    weights = matcher.products(pack.source)
    first = weights[0]
    if first is None:
        return None
    shifts = nibbles(element_of(first.words))
    for fields in (1, len(shifts)):
        if (fields == 1 or first.shift == 0) and weights == [
                replace(first, row=first.row + row // fields, shift=first.shift + shifts[row % fields])
                for row in range(shape[0])]:
            return first, fields
    return None


@dataclass
class _Matcher:
    """Finds of each row of a fragment which weights it is.

    Attributes:
        found: what is known, for a value and what was looked for.
        bits: of which bits integers are put together.
    """

    found: dict[tuple[SSAValue, _Leaf], _Rows] = field(default_factory=dict)
    bits: BitProvenance = field(default_factory=BitProvenance)

    def products(self, value: SSAValue) -> _Rows:
        """Rows of weights in floating point."""
        return self._rows(value, self._product)

    def _product(self, value: SSAValue) -> _Rows:
        """Of weights times a scale, or without one."""
        product = value.owner
        if not isinstance(product, arith.MulfOp):
            return self._difference(value)
        for factor, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            if (scale := _row(other)) is not None and any(rows := self._rows(factor, self._difference)):
                return [weight and replace(weight, scale=scale) for weight in rows]
        return _unknown(value)

    def _difference(self, value: SSAValue) -> _Rows:
        """Of weights less a zero point, or without one."""
        if not isinstance(value.owner, arith.SubfOp):
            return self._conversion(value)
        zero = _row(value.owner.rhs)
        return _unknown(value) if zero is None else \
            [replace(weight, zero=zero) if weight is not None and weight.zero == 0 else None
             for weight in self._rows(value.owner.lhs, self._conversion)]

    def _conversion(self, value: SSAValue) -> _Rows:
        if not isinstance(value.owner, (UIToFPOp, SIToFPOp)):
            return _unknown(value)
        return self._rows(value.owner.input, self._signed if isinstance(value.owner, SIToFPOp) else self._field)

    def _signed(self, value: SSAValue) -> _Rows:
        """Of fields, or of signed integers that are fields less others: such small ones are exact in floats as well."""
        owner = value.owner
        if not isinstance(owner, (arith.SubiOp, arith.AddiOp)):
            return self._field(value)
        zero: SSAValue | int | None = splat_of(owner.rhs)
        if isinstance(zero, int):
            zero = zero if isinstance(owner, arith.SubiOp) else -zero
            range_ = Range(zero, zero)
        elif isinstance(owner, arith.SubiOp) and (zero := _row(owner.rhs)) is not None:
            range_ = signed_range(zero)
        if zero is None or not range_.within(-_EXACT, _EXACT) or \
                not (Range(0, MASK) - range_).within(*signed_limits(element_of(value).bits)):
            return _unknown(value)
        return [weight and replace(weight, zero=zero) for weight in self._rows(owner.lhs, self._field)]

    def _field(self, value: SSAValue) -> _Rows:
        """Of 4 bits of a word, all others of which are zero."""
        return [_field(bits) for bits in self.bits.rows(value)]

    def _rows(self, value: SSAValue, leaf: _Leaf) -> _Rows:
        """Rows of a value that may be a slice or put together of others."""
        if (key := (value, leaf)) not in self.found:
            self.found[key] = self._moved(value, leaf)
        return self.found[key]

    def _moved(self, value: SSAValue, leaf: _Leaf) -> _Rows:
        if shape_of(value)[1:] != (1,):
            return _unknown(value)
        found = moved_rows(value, partial(self._rows, leaf=leaf))
        return leaf(value) if found is None else found


def _field(bits: Bits) -> _Weight | None:
    """The weight that a row is; None for any other row."""
    if len(bits.pieces) != 1 or bits.unknown:
        return None
    ((value, row, shift, mask),) = bits.pieces
    return _Weight(value, row, shift) if mask == MASK and (word := element_of(value)) in WORDS and \
        shift in nibbles(word) else None


def _unknown(value: SSAValue) -> _Rows:
    return [None] * shape_of(value)[0]


def _row(value: SSAValue) -> SSAValue | None:
    """The row, or the number, that is repeated along rows."""
    owner = value.owner
    if isinstance(owner, SplatOp):
        return owner.source
    if isinstance(owner, BroadcastOp) and shape_of(owner.source) == (1, 1) and shape_of(value)[-1] == 1:
        return owner.source
    return value if shape_of(value) == (1, 1) else None
