"""Layout conversions of fragments: ``convert_layout``, and ``widen``, which converts 8-bit operands of DPAS as well."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from xegpu.dialect.types import SgMapAttr, spelled, two_sizes
from xegpu.ir.dtypes import bf16, e4m3, e5m2, f16, i8, of_mlir, u8
from xegpu.ir.op_definition import operation_definition
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import VECTOR, IntegersAttr, shape_of, vector_type
from xegpu.support.errors import Invalid, ShapeError


@operation_definition
class ConvertLayoutOp(IRDLOperation):
    """Layout conversion of a fragment from one lane map to another; elements move between lanes.

    It goes beyond the seed, which has one map per memory operation and no values that need two.
    """

    name = "xegpu.convert_layout"
    source = operand_def(VECTOR)
    source_map = opt_prop_def(SgMapAttr)
    target_map = opt_prop_def(SgMapAttr)
    block = opt_prop_def(IntegersAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

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
        for what, value, lanes in (("operand", self.source, self.source_map.data),
                                   ("result", self.result, self.target_map.data)):
            try:
                expected = lanes.fragment(block)
            except ShapeError as error:
                raise Invalid.of(error) from None
            if value.type != vector_type(expected, self.source.type.element_type):  # type: ignore[attr-defined]
                raise Invalid("XT3524", f"the {what} is {value.type}, and a lane has {list(expected)} of a block of "
                              f"{block[0]}x{block[1]} by {spelled(lanes)}\n"
                              "give the block's rows and columns, block = [8, 16], where the maps do not say them")

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
class WidenOp(IRDLOperation):
    """Conversion of a slice of a block of 8-bit elements, in words as DPAS takes them, to a block of 16-bit floats.

    ``source_map`` and ``target_map`` are those of operand A or of operand B; elements of A move between lanes.
    ``block`` is the shape of the whole source, ``offsets`` are where the slice begins, one unit of ``target_map`` wide.
    8-bit floats and integers are converted exactly. It goes beyond the seed.
    """

    name = "xegpu.widen"
    source = operand_def(VECTOR)
    source_map = prop_def(SgMapAttr)
    target_map = prop_def(SgMapAttr)
    block = prop_def(IntegersAttr)
    offsets = prop_def(IntegersAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

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
        (rows, columns), (row, column) = self.whole(), self.start()
        height, width = self.target_map.data.block(two_sizes(shape_of(self.result)), self.target_map.data.unit[1])
        if shape_of(self.source) != self.source_map.data.fragment((rows, columns)) or \
                row < 0 or column < 0 or row + height > rows or column + width > columns:
            raise Invalid("XT3292", f"{self.source.type} is no fragment of a block of {rows}x{columns}, or has no "
                          f"slice of {height}x{width} at {[row, column]}\ngive the shape of the source's block",
                          alone=True)

    def whole(self) -> tuple[int, int]:
        """Shape of the source's block."""
        return two_sizes(tuple(size.value.data for size in self.block))

    def start(self) -> tuple[int, int]:
        """Row and column where the slice begins."""
        return two_sizes(tuple(size.value.data for size in self.offsets))


WIDENED = (e4m3, e5m2, i8, u8)
"""Element types that :class:`WidenOp` converts."""

OPERATIONS = (ConvertLayoutOp, WidenOp)
