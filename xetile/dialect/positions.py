"""``xetile.iota``: the position of every element; it goes beyond XeTile.md, which takes such vectors as given."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerAttr, VectorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.ir.op_definition import operation_definition
from xegpu.layout import iota
from xegpu.support.errors import Invalid, XeError
from xetile.dialect.attributes import WgMapAttr
from xetile.dialect.ops import check_map, shape_of
from xetile.distribution import WgMap


@operation_definition
class IotaOp(IRDLOperation):
    """The row (``axis = 0``) or the column (``axis = 1``) of every element, counted from ``start`` or from zero."""

    name = "xetile.iota"
    start = opt_operand_def(IndexType)
    axis = prop_def(IntegerAttr)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(base(VectorType))
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "($start^)? attr-dict `:` type($result)"

    def __init__(self, result: VectorType, axis: int, start: SSAValue | None = None,  # type: ignore[type-arg]
                 wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[[start] if start is not None else []], result_types=[result], properties={
            "axis": IntegerAttr(axis, i64), "wg_map": WgMapAttr(wg_map) if wg_map else None})

    def verify_(self) -> None:
        shape, axis = shape_of(self.result), self.axis.value.data
        if len(shape) not in (2, 4):
            raise Invalid("XT2150", f"iota gives a vector of two dimensions, or of four in blocks, not {len(shape)}\n"
                          "write vector<8x16xi32>", alone=True)
        if axis not in (0, 1):
            raise Invalid("XT1155", f"there is no axis {axis}\nuse axis 0 for rows, 1 for columns", alone=True)
        try:
            size = shape[axis] * (shape[axis + 2] if len(shape) == 4 else 1)
            iota.check_type(self.result.type.element_type, size)  # type: ignore[attr-defined]
        except XeError as error:
            raise Invalid.of(error) from None
        if self.wg_map is not None:
            check_map(self.wg_map.data, shape)
