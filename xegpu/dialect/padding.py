"""What lies outside an array, where it is not zero: ``pad``, which the lowering adds."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.declaring import operation_definition
from xegpu.dialect.attributes import SgMapAttr
from xegpu.dialect.descriptors import DESC, desc_of
from xegpu.dialect.vectors import VECTOR, shape_of
from xegpu.errors import Invalid
from xegpu.layouts import LaneMap


@operation_definition
class PadOp(IRDLOperation):
    """A block as it was loaded, with ``padding`` in the place of what lies outside the base. It goes beyond the seed.

    Memory operations pad with zero; this is for every other value.
    """

    name = "xegpu.pad"
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    padding = prop_def(Attribute)
    sg_map = opt_prop_def(SgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$value `,` $desc attr-dict `:` type($value) `,` type($desc) `->` type($result)"

    def __init__(self, value: SSAValue, desc: SSAValue, padding: Attribute, sg_map: LaneMap | None = None) -> None:
        super().__init__(operands=[value, desc], result_types=[value.type],
                         properties={"padding": padding, "sg_map": SgMapAttr(sg_map) if sg_map else None})

    @property
    def number(self) -> float:
        """The padding as a number."""
        return number_of(self.padding)

    def verify_(self) -> None:
        number_of(self.padding)
        if self.value.type != self.result.type or len(shape_of(self.value)) != 2:
            raise Invalid("XT3112", f"padding makes {self.result.type} of {self.value.type}\n"
                          "it keeps the type, and takes a block of two dimensions")
        if self.value.type.element_type != desc_of(self.desc).element_type:  # type: ignore[attr-defined]
            raise Invalid("XT3113", f"a {self.value.type} was not loaded through a {self.desc.type}\n"
                          "name the descriptor that the load took: its bounds say what is padded")


def number_of(attribute: Attribute) -> float:
    """The number that a float or integer attribute holds."""
    if not isinstance(attribute, (FloatAttr, IntegerAttr)):
        raise Invalid("XT3114", f"{attribute} is no number\nwrite one with its type, as in 1.0 : f32", alone=True)
    return attribute.value.data
