"""Block-scaled product and conversion to small floats of LLVM 23's XeGPU, for Xe3P: ``dpas_mx``, ``truncf``.

    %h = xegpu.truncf %v : vector<8x32xf16> -> vector<8x32xf8E5M2>
    %c = xegpu.dpas_mx %a, %b, %acc scale_a = %s scale_b = %t
        : (vector<8x32xf8E5M2>, vector<32x16xf8E5M2>, vector<8x16xf32>, vector<8x1xf8E8M0FNU>, vector<1x16xf8E8M0FNU>)
        -> vector<8x16xf32>
"""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from xegpu.interop.llvm.dialect.types import LAYOUT, shape_of
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.mlir.vector import VECTOR, UnaryVectorOp
from xegpu.support.errors import Invalid, misread


@operation_definition
class DpasMxOp(IRDLOperation):
    """Block-scaled product: a scale for each 32 elements along K; without scales, a product."""

    name = "xegpu.dpas_mx"
    a = operand_def(VECTOR)
    b = operand_def(VECTOR)
    acc = opt_operand_def(VECTOR)
    scale_a = opt_operand_def(VECTOR)
    scale_b = opt_operand_def(VECTOR)
    layout_a = opt_prop_def(LAYOUT)
    layout_b = opt_prop_def(LAYOUT)
    layout_cd = opt_prop_def(LAYOUT)
    layout_a_scale = opt_prop_def(LAYOUT)
    layout_b_scale = opt_prop_def(LAYOUT)
    result = result_def(VECTOR)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> DpasMxOp:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        if len(names) not in (2, 3):
            misread(parser, "XT3624", f"dpas_mx takes A, B and an accumulator, not {len(names)} vectors\n"
                    "write %a, %b, %acc scale_a = %s scale_b = %t")
        counts = [1, 1, len(names) - 2]
        for word in ("scale_a", "scale_b"):
            counts.append(int(parser.parse_optional_keyword(word) is not None))
            if counts[-1]:
                parser.parse_punctuation("=")
                names.append(parser.parse_unresolved_operand())
        attributes = dict(parser.parse_optional_attr_dict())
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        if not isinstance(type_, FunctionType) or len(type_.inputs) != len(names) or len(type_.outputs) != 1:
            misread(parser, "XT3624", f"dpas_mx has {len(names)} operands and a result\n"
                    "write a type for each: (vector<8x32xf8E5M2>, ...) -> vector<8x16xf32>")
        operands = iter(parser.resolve_operand(name, each) for name, each in zip(names, type_.inputs, strict=True))
        properties = {name: attributes.pop(name) for name in list(attributes) if name.startswith("layout_")}
        return cls.build(operands=[[next(operands) for _ in range(count)] for count in counts],
                         result_types=list(type_.outputs), properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list([value for value in (self.a, self.b, self.acc) if value is not None],
                           printer.print_operand)
        for word, value in (("scale_a", self.scale_a), ("scale_b", self.scale_b)):
            if value is not None:
                printer.print_string(f" {word} = ")
                printer.print_operand(value)
        layouts = {name: value for name, value in self.properties.items() if name.startswith("layout_")}
        printer.print_op_attributes({**layouts, **self.attributes})
        printer.print_string(" : ")
        printer.print_attribute(FunctionType.from_lists([value.type for value in self.operands], [self.result.type]))

    def verify_(self) -> None:
        if self.acc is not None and self.acc.type != self.result.type:
            raise Invalid("XT3624", f"the accumulator is {self.acc.type}, and the result {self.result.type}\n"
                          "give both one type")
        a, b, c = (shape_of(value) for value in (self.a, self.b, self.result))
        if len(c) == 2 and (len(a) != 2 or len(b) != 2 or (a[0], b[1]) != c or a[1] != b[0]):
            raise Invalid("XT3624", f"{self.a.type} by {self.b.type} is no {self.result.type}\n"
                          "A has as many columns as B has rows; the result A's rows and B's columns")


@operation_definition
class TruncfOp(UnaryVectorOp):
    """Conversion to a smaller float type, rounded to nearest even."""

    name = "xegpu.truncf"

    def verify_(self) -> None:
        source, result = (of_mlir(value.type.element_type) for value in (self.source, self.result))  # type: ignore
        if shape_of(self.source) != shape_of(self.result) or result.bits >= source.bits or \
                not {source.kind, result.kind} <= {"f", "s"}:
            raise Invalid("XT3625", f"{self.source.type} is not truncated to {self.result.type}\n"
                          "convert to a smaller float type, in the same shape")


OPERATIONS: list[type[Operation]] = [DpasMxOp, TruncfOp]
