"""Block descriptors of LLVM's XeGPU dialect.

They describe complete arrays. Up to LLVM 22 they had offsets and were updated by ``update_nd_offset``; that form is
read too.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IndexType, MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure

from xegpu.dialect.block_io import check_source
from xegpu.interop.llvm.dialect.types import (
    DescType,
    Mixed,
    check_offsets,
    desc_of,
    joined,
    parse_mixed,
    print_mixed,
    resolved,
    split,
)
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.traits import MovesView
from xegpu.support.errors import Invalid
from xegpu.support.lookahead import next_token

DESC = base(DescType)
_GROUPS = ("offsets", "shape", "strides")


@operation_definition
class CreateNdTdescOp(IRDLOperation):
    """Block descriptor of an array, which is a memref or an address with sizes and strides."""

    name = "xegpu.create_nd_tdesc"
    source = operand_def(Attribute)
    offsets = var_operand_def(IndexType)
    shape = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    const_offsets = opt_prop_def(DenseArrayBase)
    const_shape = opt_prop_def(DenseArrayBase)
    const_strides = opt_prop_def(DenseArrayBase)
    result = result_def(DESC)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, shape: Mixed, strides: Mixed, result: DescType) -> None:
        (sizes, const_shape), (steps, const_strides) = split(shape), split(strides)
        super().__init__(operands=[source, [], sizes, steps], result_types=[result],
                         properties={"const_shape": const_shape, "const_strides": const_strides} if shape else {})

    @property
    def starts(self) -> list[SSAValue | int]:
        """Offsets of the descriptor, empty since LLVM 23."""
        return joined(self.offsets, self.const_offsets)

    @property
    def sizes(self) -> list[SSAValue | int]:
        """Sizes of the array, empty if its type has them."""
        return joined(self.shape, self.const_shape)

    @property
    def steps(self) -> list[SSAValue | int]:
        """Strides of the array, empty if its type has them."""
        return joined(self.strides, self.const_strides)

    @classmethod
    def parse(cls, parser: Parser) -> CreateNdTdescOp:
        source = parser.parse_unresolved_operand()
        groups: dict[str, tuple[Sequence[UnresolvedOperand], DenseArrayBase]] = {}
        if next_token(parser).text == "[":
            groups["offsets"] = parse_mixed(parser)
        while parser.parse_optional_punctuation(","):
            word = parser.parse_optional_keyword("shape") or parser.parse_optional_keyword("strides")
            if word is not None:  # up to LLVM 20 both groups had no keyword
                parser.parse_punctuation(":")
            groups[word or ("strides" if "shape" in groups else "shape")] = parse_mixed(parser)
        parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_punctuation("->")
        result = parser.parse_type()
        values = {name: resolved(parser, names) for name, (names, _) in groups.items()}
        return cls.build(
            operands=[parser.resolve_operand(source, source_type), *(values.get(name, []) for name in _GROUPS)],
            result_types=[result],
            properties={f"const_{name}": literals for name, (_, literals) in groups.items()})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        if self.starts:
            print_mixed(printer, self.offsets, self.const_offsets)
        for name, values, literals in (("shape", self.shape, self.const_shape),
                                       ("strides", self.strides, self.const_strides)):
            if values or literals is not None:
                printer.print_string(f", {name} : ")
                print_mixed(printer, values, literals)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        desc, source = desc_of(self.result), self.source.type
        if len(self.sizes) != len(self.steps):
            raise Invalid("XT3601", f"{len(self.sizes)} sizes and {len(self.steps)} strides\n"
                          "give one of each a dimension")
        if not isinstance(source, MemRefType):
            if not self.sizes:
                raise Invalid("XT3602", "an address says nothing of its array\ngive shape : [...], strides : [...]")
            if len(desc.shape) > len(self.sizes):
                raise Invalid("XT3603", f"a tensor_desc of {len(desc.shape)} dimensions on an array of "
                              f"{len(self.sizes)}\ngive shape and strides a number for each dimension")
            return
        check_source(source, desc.block.memory_space, desc.element_type)
        if len(desc.shape) > len(source.get_shape()):
            raise Invalid("XT3603", f"a tensor_desc of {len(desc.shape)} dimensions on a {source}\n"
                          "it has at most as many dimensions as the array")
        if self.sizes and len(self.sizes) != len(source.get_shape()):
            raise Invalid("XT3601", f"{len(self.sizes)} sizes for a {source}\ngive one a dimension")


@operation_definition
class UpdateNdOffsetOp(IRDLOperation):
    """Block descriptor with updated offsets; up to LLVM 22."""

    name = "xegpu.update_nd_offset"
    desc = operand_def(DESC)
    offsets = var_operand_def(IndexType)
    const_offsets = opt_prop_def(DenseArrayBase)
    result = result_def(DESC)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure(), MovesView())

    @property
    def starts(self) -> list[SSAValue | int]:
        """Offsets that are added."""
        return joined(self.offsets, self.const_offsets)

    @classmethod
    def parse(cls, parser: Parser) -> UpdateNdOffsetOp:
        desc = parser.parse_unresolved_operand()
        parser.parse_optional_punctuation(",")
        values, literals = parse_mixed(parser)
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        if parser.parse_optional_punctuation("->"):
            parser.parse_type()
        return cls.build(operands=[parser.resolve_operand(desc, type_), resolved(parser, values)],
                         result_types=[type_], properties={"const_offsets": literals})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.desc)
        printer.print_string(", ")
        print_mixed(printer, self.offsets, self.const_offsets)
        printer.print_string(" : ")
        printer.print_attribute(self.desc.type)

    def verify_(self) -> None:
        check_offsets(self.starts, self.desc, desc_of(self.desc).shape)
