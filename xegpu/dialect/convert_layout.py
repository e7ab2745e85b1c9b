"""Layout conversions of fragments: ``convert_layout``; ``widen`` and ``dequantize``, which convert operands of DPAS."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, UnitAttr, i64
from xdsl.dialects.builtin import i32 as i32_type
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from xegpu.dialect.types import SgMapAttr, check_fragment, two_sizes
from xegpu.ir.dtypes import DType, bf16, e4m3, e5m2, f16, i8, i32, of_mlir, u8, u32
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.layout.lane_map import LaneMap
from xegpu.layout.word_columns import WordColumns
from xegpu.mlir.vector import VECTOR, IntegersAttr, UnaryVectorOp, shape_of, vector_type
from xegpu.support.errors import Invalid

WIDENED = (e4m3, e5m2, i8, u8)
"""Element types that :class:`WidenOp` converts."""


@operation_definition
class ConvertLayoutOp(UnaryVectorOp):
    """Layout conversion of a fragment from one lane map to another; elements move between lanes.

    It goes beyond the specification, which has one map per memory operation and no values that need two.
    """

    name = "xegpu.convert_layout"
    RECORD: ClassVar[Record] = MOVED
    source_map = opt_prop_def(SgMapAttr)
    target_map = opt_prop_def(SgMapAttr)
    block = opt_prop_def(IntegersAttr)

    def __init__(self, source: SSAValue, source_map: LaneMap, target_map: LaneMap, shape: tuple[int, int]) -> None:
        element = source.type.element_type  # type: ignore[attr-defined]
        super().__init__(
            operands=[source], result_types=[vector_type(target_map.fragment(shape), element)],
            properties={"source_map": SgMapAttr(source_map), "target_map": SgMapAttr(target_map)},
        )
        if self.block_shape() != shape:
            self.properties["block"] = ArrayAttr([IntegerAttr(size, i64) for size in shape])

    def verify_(self) -> None:
        if self.source_map is None or self.target_map is None:
            raise Invalid("XT3519", "a fragment changes its layout, and the map of before or after is missing\n"
                          "give source_map and target_map", alone=True)
        block = self.block_shape()
        element = self.source.type.element_type  # type: ignore[attr-defined]
        check_fragment(self.source, element, block, self.source_map.data)
        check_fragment(self.result, element, block, self.target_map.data)

    def block_shape(self) -> tuple[int, int]:
        """Shape of the block; without ``block`` it is one unit wide in the wider of the two maps."""
        if self.block is not None:
            return two_sizes(tuple(size.value.data for size in self.block))
        source, target = self.source_map, self.target_map
        assert source is not None
        assert target is not None
        columns = max(source.data.unit[1], target.data.unit[1])
        return target.data.block(two_sizes(shape_of(self.result)), columns)


@operation_definition
class WidenOp(UnaryVectorOp):
    """Conversion of a slice of a block of 8-bit elements, in words as DPAS takes them, to a block of 16-bit floats.

    ``source_map`` and ``target_map`` are those of operand A or of operand B; elements of A move between lanes.
    ``block`` is the shape of the whole source, ``offsets`` are where the slice begins, one unit of ``target_map`` wide.
    8-bit floats and integers are converted exactly. It goes beyond the specification.
    """

    name = "xegpu.widen"
    RECORD: ClassVar[Record] = Record((*WIDENED, f16, bf16))
    source_map = prop_def(SgMapAttr)
    target_map = prop_def(SgMapAttr)
    block = prop_def(IntegersAttr)
    offsets = prop_def(IntegersAttr)

    def __init__(self, source: SSAValue, maps: tuple[LaneMap, LaneMap], block: tuple[int, int],
                 offsets: tuple[int, int], result: Attribute) -> None:
        numbers = {name: ArrayAttr([IntegerAttr(number, i64) for number in pair])
                   for name, pair in (("block", block), ("offsets", offsets))}
        super().__init__(operands=[source], result_types=[result],
                         properties={"source_map": SgMapAttr(maps[0]), "target_map": SgMapAttr(maps[1]), **numbers})

    def verify_(self) -> None:
        source, result = (of_mlir(value.type.element_type) for value in (self.source, self.result))  # type: ignore[attr-defined]
        if source not in WIDENED or result not in (f16, bf16):
            raise Invalid("XT3291", f"{self.source.type} does not widen to {self.result.type}\n"
                          f"widen one of {', '.join(map(str, WIDENED))} to f16 or bf16", alone=True)
        (rows, columns), (row, column) = self.block_shape(), self.start()
        height, width = self.target_map.data.block(two_sizes(shape_of(self.result)), self.target_map.data.unit[1])
        if shape_of(self.source) != self.source_map.data.fragment((rows, columns)) or \
                row < 0 or column < 0 or row + height > rows or column + width > columns:
            raise Invalid("XT3292", f"{self.source.type} is not a fragment of a block of {rows}x{columns}, or has no "
                          f"slice of {height}x{width} at {[row, column]}\ngive the shape of the source's block",
                          alone=True)

    def block_shape(self) -> tuple[int, int]:
        """Shape of the source's block."""
        return two_sizes(tuple(size.value.data for size in self.block))

    def start(self) -> tuple[int, int]:
        """Row and column where the slice begins."""
        return two_sizes(tuple(size.value.data for size in self.offsets))


MASK = 15
"""Mask of one weight in a shifted word."""
SIGN_BIT = 8
"""The bit of a weight that is its sign, if it has one."""


@operation_definition
class DequantizeOp(IRDLOperation):
    """Dequantization of 4-bit weights in words, packed as operand B: ``((words >> shift) & 15 - zero) * scale``.

    ``%b = xegpu.dequantize %words, %zero, %scale {shift = 4, sg_map} : vector<16x1xui32>, vector<1x1xf16> ->
    vector<8x2xf16>``, fragments all: a lane has columns of weights, and their zero points and scales. A row is of a
    word of 8 or 32 bits, such as one in VNNI form (``vector<8x4xui8>``); with ``{shift = 0, fields = 8}`` eight
    consecutive rows are of one word, from its lowest bits on, with ``fields = 2`` two of a byte. With ``start``,
    ``pitch``, ``offsets`` and ``bits`` the weights of a row are in words along a row
    (:class:`~xegpu.layout.word_columns.WordColumns`). With ``whole`` weights have 8 bits, bytes of i8 or u8 with the
    sign of the type. Of weights of 4 bits those of ``flip`` are inverted, and with ``signed`` they are then numbers
    from -8 to 7. The difference and the product are each rounded to the result's
    element type. It goes beyond the specification.
    """

    name = "xegpu.dequantize"
    RECORD: ClassVar[Record] = Record((i32, u32, i8, u8, f16, bf16), rounding="once")
    words = operand_def(VECTOR)
    zero = operand_def(VECTOR)
    scale = operand_def(VECTOR)
    shift = prop_def(IntegerAttr)
    fields = opt_prop_def(IntegerAttr)
    start = opt_prop_def(IntegerAttr)
    pitch = opt_prop_def(IntegerAttr)
    offsets = opt_prop_def(DenseArrayBase)
    bits = opt_prop_def(DenseArrayBase)
    whole = opt_prop_def(UnitAttr)
    flip = opt_prop_def(IntegerAttr)
    signed = opt_prop_def(UnitAttr)
    sg_map = prop_def(SgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$words `,` $zero `,` $scale attr-dict `:` type($words) `,` type($zero) `,` type($scale) `->` " \
                      "type($result)"

    def __init__(self, words: SSAValue, zero: SSAValue, scale: SSAValue, shift: int, sg_map: LaneMap,
                 result: Attribute, fields: int = 1, columns: WordColumns | None = None, *,
                 whole: bool = False, flip: int = 0, signed: bool = False) -> None:
        super().__init__(operands=[words, zero, scale], result_types=[result], properties={
            "shift": IntegerAttr(shift, i64), "fields": IntegerAttr(fields, i64) if fields > 1 else None,
            "whole": UnitAttr() if whole else None, "flip": IntegerAttr(flip, i64) if flip else None,
            "signed": UnitAttr() if signed else None, "sg_map": SgMapAttr(sg_map), **({} if columns is None else {
                "start": IntegerAttr(columns.start, i64), "pitch": IntegerAttr(columns.pitch, i64),
                "offsets": DenseArrayBase.from_list(i32_type, list(columns.offsets)),
                "bits": DenseArrayBase.from_list(i32_type, list(columns.bits))})})

    def verify_(self) -> None:
        rows, *others = shape_of(self.words)
        element = self.result.type.element_type  # type: ignore[attr-defined]
        word = word_of(self.words)
        if self.columns is None:
            expected = vector_type((rows * self.rows_of_word // 2, 2), element)
        else:
            self._check_columns(word)
            expected, rows = vector_type((shape_of(self.result)[0], 2), element), 2
        of_word = word.bits // element_bits(self.words)
        if word not in WORDS or others != [of_word] or rows % 2 or of_mlir(element) not in (f16, bf16) or \
                self.result.type != expected or self.first_bit not in nibbles(word) or \
                (self.whole is not None and (word.bits != 8 or self.first_bit or self.fields or self.columns or
                                             self.flipped or self.signed)) or not 0 <= self.flipped <= MASK or \
                (self.rows_of_word, self.first_bit) not in ((1, self.first_bit), (len(nibbles(word)), 0)):
            raise Invalid("XT3293", f"{self.words.type} from bit {self.first_bit} on does not dequantize to "
                          f"{self.result.type}\n"
                          "take words of 32 or 8 bits in one column, whose number is even, a shift that is a multiple "
                          "of 4 below these, and half as many pairs of f16 or bf16; or shift = 0, fields = 8 and 4 "
                          "pairs of each word (of each byte, fields = 2 and one pair; or whole bytes)", alone=True)
        if any(value.type != vector_type((1, 1), element) for value in (self.zero, self.scale)):
            raise Invalid("XT3294", f"the zero point is {self.zero.type}, the scale {self.scale.type}, and the weights "
                          f"become {self.result.type}\ngive a row of each in the element type of the result: "
                          f"{vector_type((1, 1), element)}", alone=True)

    def _check_columns(self, word: DType) -> None:
        """Verify where weights lie along rows."""
        columns = self.columns
        assert columns is not None
        if not len(columns.offsets) == len(columns.bits) == self.sg_map.data.lanes or not columns.is_regular or \
                not {*columns.bits} <= {*nibbles(word)} or \
                columns.units(2 * shape_of(self.result)[0]) > shape_of(self.words)[0] or \
                (self.rows_of_word, self.first_bit) != (1, 0):
            raise Invalid("XT3293", f"{self.words.type} does not dequantize to {self.result.type} from bits "
                          f"{list(columns.bits)} of words {list(columns.offsets)}\n"
                          "give as many offsets and bits as lanes, offsets that are a register region, bits that are "
                          "multiples of 4, and start and pitch with which all rows are in the words", alone=True)

    @property
    def columns(self) -> WordColumns | None:
        """Positions of weights in words along a row; None where each lane has its own words."""
        if self.start is None or self.pitch is None or self.offsets is None or self.bits is None:
            return None
        return WordColumns(int(self.start.value.data), int(self.pitch.value.data),
                           tuple(map(int, self.offsets.get_values())), tuple(map(int, self.bits.get_values())))

    @property
    def first_bit(self) -> int:
        """Lowest bit of the weight in its word."""
        return int(self.shift.value.data)

    @property
    def flipped(self) -> int:
        """Bits of each weight that are inverted."""
        return 0 if self.flip is None else int(self.flip.value.data)

    @property
    def rows_of_word(self) -> int:
        """Consecutive rows of weights of one word."""
        return 1 if self.fields is None else int(self.fields.value.data)


WORDS = (i32, u32, i8, u8)
"""Element types of words that hold weights of 4 bits."""


def element_bits(vector: SSAValue) -> int:
    """Bits of an element."""
    return of_mlir(vector.type.element_type).bits  # type: ignore[attr-defined]


def word_of(fragment: SSAValue) -> DType:
    """Words of a fragment: its elements, or in VNNI form several of them, 32 bits in all."""
    columns = shape_of(fragment)[-1]
    return u32 if columns > 1 and columns * element_bits(fragment) == u32.bits else \
        of_mlir(fragment.type.element_type)  # type: ignore[attr-defined]


def nibbles(word: DType) -> range:
    """Lowest bits of the weights in a word."""
    return range(0, word.bits, 4)


OPERATIONS = (ConvertLayoutOp, WidenOp, DequantizeOp)
