"""A lane's fragment under one map and under another: ``convert_layout``, which the lowering adds."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.declaring import operation_definition
from xegpu.dialect.attributes import SgMapAttr
from xegpu.dialect.lane_rules import spelled, two_sizes
from xegpu.dialect.vectors import VECTOR, IntegersAttr, shape_of, vector
from xegpu.errors import Invalid, ShapeError
from xegpu.layouts import LaneMap


@operation_definition
class ConvertLayoutOp(IRDLOperation):
    """A lane's fragment under one map to its fragment under another; elements move between lanes.

    It goes beyond the seed, which gives one map to each memory operation and says nothing of values that need two.
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
            operands=[source], result_types=[vector(target_map.fragment(shape), element)],
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
            if value.type != vector(expected, self.source.type.element_type):  # type: ignore[attr-defined]
                raise Invalid("XT3524", f"the {what} is {value.type}, and a lane has {list(expected)} of a block of "
                              f"{block[0]}x{block[1]} by {spelled(lanes)}\n"
                              "give the block's rows and columns, block = [8, 16], where the maps do not say them")

    def block_shape(self) -> tuple[int, int]:
        """Rows and columns of the block; without ``block`` it is one unit wide in the wider of the two maps."""
        if self.block is not None:
            return two_sizes(tuple(size.value.data for size in self.block))
        source, target = self.source_map, self.target_map
        assert source is not None
        assert target is not None
        columns = max(source.data.unit[1], target.data.unit[1])
        return target.data.block(two_sizes(shape_of(self.result)), columns)
