"""``xegpu.iota``: the position of every element of a block, or of a lane's fragment. It goes beyond the seed."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, VectorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.declaring import operation_definition
from xegpu.dialect.attributes import SgMapAttr
from xegpu.dialect.vectors import IntegersAttr
from xegpu.errors import Invalid, XeError
from xegpu.layouts import LaneMap


@operation_definition
class IotaOp(IRDLOperation):
    """The row (``axis = 0``) or the column (``axis = 1``) of every element of a block, counted from ``start``.

    A fragment has the lane map and the ``shape`` of its block beside it.
    """

    name = "xegpu.iota"
    start = operand_def(IndexType)
    axis = prop_def(IntegerAttr)
    shape = opt_prop_def(IntegersAttr)
    sg_map = opt_prop_def(SgMapAttr)
    result = result_def(base(VectorType))
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$start attr-dict `:` type($result)"

    def __init__(self, start: SSAValue, axis: int, result: VectorType, shape: tuple[int, int] | None = None,  # type: ignore[type-arg]
                 sg_map: LaneMap | None = None) -> None:
        super().__init__(operands=[start], result_types=[result], properties={
            "axis": IntegerAttr(axis, i64),
            "shape": None if shape is None else ArrayAttr([IntegerAttr(size, i64) for size in shape]),
            "sg_map": SgMapAttr(sg_map) if sg_map else None})

    def block_shape(self) -> tuple[int, int]:
        """Rows and columns of the block."""
        if self.shape is None:
            rows, columns = self.result.type.get_shape()  # type: ignore[attr-defined]
        else:
            rows, columns = (size.value.data for size in self.shape)
        return rows, columns

    def verify_(self) -> None:
        if self.axis.value.data not in (0, 1):
            raise Invalid("XT3260",
                          f"there is no axis {self.axis.value.data}\nuse axis 0 for rows, 1 for columns", alone=True)
        given = self.result.type.get_shape()  # type: ignore[attr-defined]
        if (self.shape is None) != (self.sg_map is None):
            raise Invalid("XT3261", "shape and sg_map go together, and only one of them is here\n"
                          "a lane's fragment has both, a whole block neither", alone=True)
        if len(given) != 2 or (self.shape is not None and len(self.shape) != 2):
            raise Invalid("XT3262",
                          f"iota gives a block of two dimensions or a lane's fragment of one, not {self.result.type}\n"
                          "count in 1x16 or 16x1, and vector.shape_cast that to 16", alone=True)
        if self.sg_map is None:
            return
        try:
            fragment = self.sg_map.data.fragment(self.block_shape())
        except XeError as error:
            raise Invalid.of(error) from None
        if fragment != given:
            raise Invalid("XT3263", f"a lane has {list(fragment)} of this block, not {list(given)}\n"
                          "the first counts units of the map, the second the elements of a lane in each", alone=True)
