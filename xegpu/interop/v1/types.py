"""Types and attributes of XeGPU version 1 (XeGPU-older.md)."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute, BuiltinAttribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xegpu.dialect.types import BlockTdesc, DescriptorType, SgMapAttr, TensorDesc
from xegpu.layout.lane_map import LaneMap, operand_a


@irdl_attr_definition
class WordAttr(Data[str], BuiltinAttribute):
    """Keyword attribute: the ``vc`` of ``mode = vc``."""

    name = "xegpu.word"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)

    def print_builtin(self, printer: Printer) -> None:
        """Print the keyword."""
        self.print_parameter(printer)


VC = WordAttr("vc")
"""Vector Compute mode: an operation works on vectors of the subgroup. Without it each lane works on its fragment."""


@irdl_attr_definition
class OlderDescType(DescriptorType):
    """Descriptor type of version 1: ``!xegpu.tensor_desc<8x16xbf16, #xegpu.tdesc_attr<memory_scope = slm, ...>>``."""

    name = "xegpu.tensor_desc"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TensorDesc:
        raise NotImplementedError("text of the earlier generation is brought into one form before it is read")

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{size}x" for size in self.data.shape))
            printer.print_attribute(self.data.element_type)
            if fields := _fields(self.data):
                printer.print_string(", #xegpu.tdesc_attr<")
                printer.print_list(fields.items(), lambda field: _print_field(printer, *field))
                printer.print_string(">")


def _fields(desc: TensorDesc) -> dict[str, Any]:
    """Fields that differ from their defaults."""
    default, found = BlockTdesc(), dict[str, Any]()
    if desc.scatter is not None:
        if desc.scatter.memory_scope != default.memory_scope:
            found["memory_scope"] = desc.scatter.memory_scope
        found["scattered"] = True
    else:
        found |= {name: value for name, value in vars(desc.block).items() if value != getattr(default, name)}
    return found if desc.sg_map is None else {**found, "sg": SgMapAttr(desc.sg_map)}


def _print_field(printer: Printer, name: str, value: Any) -> None:
    printer.print_string(f"{name} = ")
    if isinstance(value, Attribute):
        printer.print_attribute(value)
    else:
        printer.print_string(str(value).lower() if isinstance(value, bool) else str(value))


def present_map(lanes: LaneMap, bits: int) -> LaneMap:
    """Convert a lane map of version 1 to the present version.

    Only operand A of 8 and 16 bits over 16 lanes differs: two rows of words in version 1, a row of half-words or bytes
    in the present one.
    """
    return operand_a(16, bits) if bits < 32 and lanes == LaneMap((2, 8), (1, 32 // bits)) else lanes


def earlier_map(lanes: LaneMap, bits: int) -> LaneMap:
    """Convert a lane map of operand A to version 1, the inverse of :func:`present_map`."""
    return LaneMap((2, 8), (1, 32 // bits)) if lanes.lanes == 16 and bits < 32 else lanes
