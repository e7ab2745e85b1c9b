"""Fusion of the dequantization of weights of 4 or 8 bits with their packing as operand B.

    %n = arith.andi (arith.shrui %words, 4), 15 : vector<16x1xui32>
    %w = arith.mulf (arith.subf (arith.uitofp %n), (broadcast %zero)), (broadcast %scale) : vector<16x1xf16>
    %b = xegpu.pack %w : vector<16x1xf16> -> vector<8x2xf16>
becomes
    %b = xegpu.dequantize %words, %zero, %scale {shift = 4} : vector<16x1xui32>, ... -> vector<8x2xf16>

Element by element, each 16-bit number takes a register of its own, and pairs are assembled at the end. If two rows of
words are paired first, 32 elements are dequantized at a time. Elements may be sliced, concatenated or shuffled between
any two of these operations: the pass finds for each element of the operand which bits of which word it is. Rows are
the same bits of consecutive words, or all weights of one word and then of the next (``{fields = 8}``, of bytes 2), or
weights of words that lie along the row (``{bits, offsets}``). A row or a number of integers that is subtracted before
the conversion becomes a zero point where no difference is rounded. Bits of weights may be inverted (``{flip = 8}``),
and the last one a sign (``{signed}``). Weights of 8 bits are bytes of consecutive rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FloatAttr, VectorType
from xdsl.dialects.vector import BroadcastOp as SplatOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xegpu.analysis.dataflow.integer_range import Range
from xegpu.analysis.dataflow.integral_floats import signed_limits, signed_range
from xegpu.dialect.convert_layout import MASK, SIGN_BIT, WORDS, DequantizeOp, nibbles, word_of
from xegpu.dialect.reduction import BroadcastOp
from xegpu.dialect.vector import BitcastOp, PackOp
from xegpu.ir.dtypes import PAIRS, bf16, f16, i8, i32, of_mlir, u8, u32
from xegpu.ir.matchers import splat_of
from xegpu.ir.traversal import operations
from xegpu.layout.word_columns import WordColumns
from xegpu.mlir.arith import SIToFPOp, UIToFPOp
from xegpu.mlir.vector import ExtractStridedSliceOp, shape_of, vector_type
from xegpu.passes.distribute_lanes.bit_provenance import BitProvenance
from xegpu.passes.distribute_lanes.element_moves import LANES, Elements, has_elements, moved_elements
from xegpu.passes.distribute_lanes.element_numbers import element_of
from xegpu.passes.distribute_lanes.unpack_row import PERIOD, unpack_row
from xegpu.rewrite.dce import erase_dead

REGISTER_ROWS = 16
"""Rows of operand B in 16 bits, which are packed together."""

_EXACT = 240
"""Integers whose differences from weights are exact in f16 and in bf16, which has 8 bits."""


_KNOWN, _WHOLE, _WORDS, _INDEX, _SHIFT, _ZERO, _SCALE, _LANE, _FLIP, _SIGNED = _PLANES = range(10)
"""Planes of the analysis: whether an element is known to be a weight; whether it is a byte; the fragment of its word
(a source of :class:`BitProvenance`), and the element of that fragment; its lowest bit in the word; zero point and
scale (of :class:`_Matcher`); one more than the lane of these if they are rows, else 0; which of its bits are inverted;
and whether it has a sign."""

_Leaf = Callable[[SSAValue], Elements]
"""Analysis of a value that is not assembled from others."""

_Number = SSAValue | int
"""A row, or a number for all; a zero point may be a row of signed integers."""


@dataclass(frozen=True)
class _Weights:
    """Weights of an operand.

    Attributes:
        words, first, units: the fragment that they are taken from, and the units of it that they are of.
        shift: lowest bit of the first weight in its word.
        fields: how many consecutive rows are of one word: one, or all that it has.
        columns: where weights lie in words along a row; None where each lane has its own words.
        zero, scale: of them all.
        whole: whether weights are bytes.
        flip: which bits of weights are inverted.
        signed: whether weights are from -8 to 7.
    """

    words: SSAValue
    first: int
    units: int
    shift: int
    fields: int
    columns: WordColumns | None
    zero: _Number
    scale: _Number
    whole: bool = False
    flip: int = 0
    signed: bool = False


def fuse_dequantize(function: func.FuncOp) -> None:
    """Fuse dequantization and packing in a distributed kernel, in place."""
    matcher, fused = _Matcher(), False
    for operation in operations(function):
        if type(operation) is PackOp and (found := _packed_weights(operation, matcher)) is not None:
            _replace(operation, found, matcher)
            fused = True
    if fused:
        erase_dead(function.body.block)


def _replace(pack: PackOp, weights: _Weights, matcher: _Matcher) -> None:
    """Replace a packing of weights by their dequantization."""
    element = pack.source.type.element_type  # type: ignore[attr-defined]
    added = list[Operation]()

    def add(operation: Operation) -> SSAValue:
        operation.location = pack.location
        added.append(operation)
        return operation.results[0]

    def row(value: _Number) -> SSAValue:
        assert pack.parent is not None
        if (key := (pack.parent, value, element)) not in matcher.rows:
            matcher.rows[key] = new_row(value)
        return matcher.rows[key]

    def new_row(value: _Number) -> SSAValue:
        if isinstance(value, int):
            value = add(arith.ConstantOp(FloatAttr(value, element)))
        if (fields := matcher.row_of_fields(value)) is not None:
            value = unpack_row(*fields, add)
        if not isinstance(value.type, VectorType):
            value = add(SplatOp(value, vector_type((1, 1), value.type)))
        return value if value.type == vector_type((1, 1), element) else \
            add(SIToFPOp(value, vector_type((1, 1), element)))

    def taken() -> SSAValue:
        words = weights.words
        if shape_of(words)[0] != weights.units:
            words = add(ExtractStridedSliceOp(words, (weights.first, 0), (weights.units, shape_of(words)[1])))
        return add(BitcastOp(words, u8.mlir)) if element_of(words) in PAIRS.values() else words

    assert pack.sg_map is not None
    assert pack.parent is not None
    key = pack.parent, weights.words, weights.first, weights.units
    if key not in matcher.taken:
        matcher.taken[key] = taken()
    result = add(DequantizeOp(matcher.taken[key], row(weights.zero), row(weights.scale), weights.shift,
                              pack.sg_map.data, pack.result.type, weights.fields, weights.columns,
                              whole=weights.whole, flip=weights.flip, signed=weights.signed))
    for operation in added:
        pack.parent.insert_op_before(operation, pack)
    result.name_hint = pack.result.name_hint
    pack.result.replace_all_uses_with(result)


def _packed_weights(pack: PackOp, matcher: _Matcher) -> _Weights | None:
    """The weights that an operand is; None for other operands."""
    shape, dtype = shape_of(pack.source), of_mlir(pack.source.type.element_type)  # type: ignore[attr-defined]
    if pack.sg_map is None or dtype not in (f16, bf16) or len(shape) != 2 or shape[0] % REGISTER_ROWS or shape[1] != 1:
        return None
    found, lanes = matcher.products(pack.source), np.arange(LANES)
    same = found[[_WORDS, _ZERO, _SCALE, _WHOLE, _FLIP, _SIGNED]]
    if not found[_KNOWN].all() or (same != same[:, :1, :1]).any() or \
            ((found[_LANE] != 0) & (found[_LANE] != lanes + 1)).any():
        return None
    words, zero, scale = matcher.bits.sources[same[0, 0, 0]], *(matcher.values[at] for at in same[1:3, 0, 0])
    unit, lane = np.divmod(found[_INDEX], LANES)
    first, shift, flip, signed = int(unit[0, 0]), *map(int, found[[_SHIFT, _FLIP, _SIGNED], 0, 0])
    weights = partial(_Weights, words, first, zero=zero, scale=scale, flip=flip, signed=bool(signed))
    rows, shifts = np.arange(shape[0])[:, None], nibbles(word_of(words))
    if found[_WHOLE, 0, 0]:
        lies = (lane == lanes).all() and (unit == first + rows).all()
        return weights(units=shape[0], shift=0, fields=1, columns=None, whole=True) if lies else None
    for fields in (1, len(shifts)) if (lane == lanes).all() else ():
        if (fields == 1 or shift == 0) and (unit == first + rows // fields).all() and \
                (found[_SHIFT] == shift + shifts.step * (rows % fields)).all():
            return weights(units=shape[0] // fields, shift=shift, fields=fields, columns=None)
    columns = WordColumns.of(found[_INDEX] - first * LANES, found[_SHIFT])
    return None if columns is None else weights(units=columns.units(shape[0]), shift=0, fields=1, columns=columns)


class _Matcher:
    """Analysis of fragments: the weight that each element is.

    Attributes:
        found: what is known, for a value and what was looked for.
        bits: of which bits integers are put together.
        values: zero points and scales.
        rows: zero points and scales as rows of an element type, which a block's operands share.
        taken: words that operands of a block share, which the emitter then unpacks once: for a fragment, the first unit
            and how many.
    """

    def __init__(self) -> None:
        self.taken: dict[tuple[Block, SSAValue, int, int], SSAValue] = {}
        self.rows: dict[tuple[Block, _Number, Attribute], SSAValue] = {}
        self.found: dict[tuple[SSAValue, _Leaf], Elements] = {}
        self.bits = BitProvenance()
        self.values: list[_Number] = [0, 1]

    def products(self, value: SSAValue) -> Elements:
        """Weights in floating point."""
        return self._elements(value, self._product)

    def row_of_fields(self, value: SSAValue) -> tuple[SSAValue, int, list[int], list[int]] | None:
        """For a row of 4-bit integers in words along a row: a fragment, a unit of it, and for each lane a lane and the
        lowest bit of its word; None for any other value."""
        if not isinstance(value.type, VectorType) or shape_of(value) != (1, 1):
            return None
        found = self._elements(value, self._field if element_of(value).kind in "iu" else self._conversion)
        if not found[_KNOWN].all() or found[[_WHOLE, _ZERO, _FLIP, _SIGNED]].any() or (found[_SCALE] != 1).any():
            return None
        (unit, *units), lanes = (each.ravel().tolist() for each in np.divmod(found[_INDEX], LANES))
        words, bits = self.bits.sources[found[_WORDS, 0, 0]], found[_SHIFT, 0].tolist()
        is_one = (found[_WORDS] == found[_WORDS, 0, 0]).all() and {*units} == {unit} and bits == bits[:PERIOD] * 2
        fits = is_one and element_of(words) in (i32, u32) and shape_of(words)[1:] == (1,) and len({*bits}) > 1
        return (words, unit, lanes, bits) if fits else None

    def _product(self, value: SSAValue) -> Elements:
        """Elements that are weights times a scale, or without one."""
        product = value.owner
        if not isinstance(product, arith.MulfOp):
            return self._difference(value)
        for factor, other in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            if (scale := _row(other)) is not None and \
                    (found := self._elements(factor, self._difference))[_KNOWN].any():
                return self._with(found, _SCALE, scale)
        return _unknown(value)

    def _difference(self, value: SSAValue) -> Elements:
        """Elements that are weights less a zero point, or without one."""
        if not isinstance(value.owner, arith.SubfOp):
            return self._conversion(value)
        zero = _row(value.owner.rhs)
        return _unknown(value) if zero is None else \
            self._with(self._elements(value.owner.lhs, self._conversion), _ZERO, zero)

    def _conversion(self, value: SSAValue) -> Elements:
        if not isinstance(value.owner, (UIToFPOp, SIToFPOp)):
            return _unknown(value)
        source, is_signed = value.owner.input, isinstance(value.owner, SIToFPOp)
        if element_of(source) is (i8 if is_signed else u8) and \
                (whole := self._elements(source, self._byte))[_KNOWN].any():
            return whole
        return self._elements(source, self._signed if is_signed else self._unsigned)

    def _byte(self, value: SSAValue) -> Elements:
        """Elements that are bytes of the type that they are converted from."""
        found, bits = self._field(value), self.bits.bits(value)
        if len(bits.pieces) != 1:
            return _unknown(value)
        words, _, shift, mask = bits.pieces[0]
        alike = np.array([word_of(source) is element_of(value) for source in self.bits.sources])
        found[_KNOWN] = ((bits.unknown | bits.copies | bits.inverted) == 0) & (mask == 0xFF) & (shift == 0) & \
            alike[words]
        found[_WHOLE], found[_FLIP], found[_SIGNED] = 1, 0, 0
        return found

    def _signed(self, value: SSAValue) -> Elements:
        """Elements that are fields, or fields less small integers: such differences are exact in floats as well."""
        owner = value.owner
        field = self._field(value)
        if not isinstance(owner, (arith.SubiOp, arith.AddiOp)) or field[_KNOWN].any():
            return field
        zero: _Number | None = splat_of(owner.rhs)
        if isinstance(zero, int):
            zero = zero if isinstance(owner, arith.SubiOp) else -zero
            range_ = Range(zero, zero)
        elif isinstance(owner, arith.SubiOp) and (zero := _row(owner.rhs)) is not None:
            range_ = signed_range(zero)
        found = self._elements(owner.lhs, self._field)
        if zero is None or not range_.within(-_EXACT, _EXACT) or not (Range(-8 if found[_SIGNED].any() else 0, MASK) -
                                                                      range_).within(*signed_limits(element_of(value).bits)):
            return _unknown(value)
        return self._with(found, _ZERO, zero)

    def _unsigned(self, value: SSAValue) -> Elements:
        """Elements that are fields without a sign."""
        found = self._field(value)
        found[_KNOWN] &= found[_SIGNED] == 0
        return found

    def _field(self, value: SSAValue) -> Elements:
        """Elements that are 4 bits of a word, with all other bits zero or copies of the last one."""
        found, bits = _unknown(value), self.bits.bits(value)
        here = bits.pieces[:, 3] != 0
        if not len(here):
            return found
        words, index, shift, mask = np.take_along_axis(bits.pieces, here.argmax(0)[None, None], 0)[0]
        widths = np.array([word.bits if (word := word_of(source)) in (*WORDS, *PAIRS.values()) else 0
                           for source in self.bits.sources])
        signs = (1 << element_of(value).bits) - 1 & ~MASK
        is_signed, signs_flipped = bits.copies == signs, np.where(bits.inverted & SIGN_BIT, signs, 0)
        found[_KNOWN] = (here.sum(0) == 1) & (bits.unknown == 0) & (mask == MASK) & (shift >= 0) & \
            (shift % nibbles(u32).step == 0) & (shift < widths[words]) & (is_signed | (bits.copies == 0)) & \
            (bits.inverted & ~MASK == is_signed * signs_flipped)
        found[_FLIP], found[_SIGNED] = bits.inverted & MASK, is_signed
        found[_WORDS], found[_INDEX], found[_SHIFT], found[_SCALE] = words, index, shift, 1
        return found

    def _with(self, weights: Elements, plane: int, value: _Number) -> Elements:
        """Weights with a zero point or a scale added; they have none yet."""
        weights = weights.copy()
        if plane == _ZERO:
            weights[_KNOWN] &= weights[_ZERO] == 0
        if value not in self.values:
            self.values.append(value)
        weights[plane] = self.values.index(value)
        if isinstance(value, SSAValue) and isinstance(value.type, VectorType):
            own = np.arange(LANES) + 1
            weights[_KNOWN] &= (weights[_LANE] == 0) | (weights[_LANE] == own)
            weights[_LANE] = own
        return weights

    def _elements(self, value: SSAValue, leaf: _Leaf) -> Elements:
        """Elements of a value that may be a slice or put together of others."""
        if (key := (value, leaf)) not in self.found:
            moved = moved_elements(value, partial(self._elements, leaf=leaf)) if has_elements(value) else \
                _unknown(value)
            self.found[key] = leaf(value) if moved is None else moved
        return self.found[key]


def _unknown(value: SSAValue) -> Elements:
    return np.zeros((len(_PLANES), shape_of(value)[0], LANES), np.int64)


def _row(value: SSAValue) -> SSAValue | None:
    """The row, or the number, that is repeated along rows; each lane's element is in the lane itself."""
    owner = value.owner
    if isinstance(owner, SplatOp):
        return owner.source
    if isinstance(owner, BroadcastOp) and shape_of(owner.source) == (1, 1) and shape_of(value)[-1] == 1 and \
            owner.maps is not None and owner.dimensions == (0,) and \
            owner.maps[0].wi_layout[1] == owner.maps[1].wi_layout[1]:
        return owner.source
    return value if shape_of(value) == (1, 1) else None
