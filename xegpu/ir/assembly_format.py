"""Directives of assembly formats that xDSL lacks: ``prop-dict``, mixed lists of indices, bare keywords and integers.

An operation names those that it uses in ``custom_directives``; ``prop-dict`` is part of every format's grammar, as in
MLIR's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, DenseArrayBase, IntegerAttr, UnitAttr, i64
from xdsl.dialects.utils.dynamic_index_list import parse_dynamic_index_list_without_types, print_dynamic_index_list
from xdsl.ir import Attribute, Data
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import (
    AttrDictDirective,
    AttributeVariable,
    CustomDirective,
    FormatDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.irdl.declarative_assembly_format_parser import FormatParser
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from xegpu.support.lookahead import next_token


@dataclass(frozen=True)
class PropDictDirective(FormatDirective):
    """MLIR's ``prop-dict``: properties that no other directive has, ``<{packed, chunk_size = 2 : i64}>``.

    Text without the angle brackets, as older versions of MLIR print it, is read by ``attr-dict`` behind.
    """

    names: frozenset[str] = frozenset()

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the dictionary, if there is one."""
        if parser.parse_optional_punctuation("<"):
            state.properties |= parser.parse_optional_attr_dict()
            parser.parse_punctuation(">")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the dictionary; nothing if it is empty."""
        named = [(name, value) for name, value in op.properties.items() if name in self.names]
        if named:
            printer.print_string(" <{")
            printer.print_list(named, lambda pair: _print_property(printer, *pair))
            printer.print_string("}>")

    def is_optional_like(self) -> bool:
        """Whether it may be absent."""
        return True


def _print_property(printer: Printer, name: str, value: Attribute) -> None:
    printer.print_string(name)
    if not isinstance(value, UnitAttr):
        printer.print_string(" = ")
        printer.print_attribute(value)


@dataclass(frozen=True)
class _ReadOnlyPropertiesDirective(AttrDictDirective):
    """``attr-dict`` behind ``prop-dict``: reads properties, too, and prints attributes alone."""

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        AttrDictDirective(self.with_keyword, self.reserved_attr_names, set()).print(printer, state, op)


class PropDictParser(FormatParser):
    """Parser of assembly formats that have ``prop-dict``."""

    def parse_format_directive(self, inside_ref: bool) -> FormatDirective:
        """Parse a directive."""
        return PropDictDirective() if self.parse_optional_keyword("prop-dict") else \
            super().parse_format_directive(inside_ref)

    def verify_properties(self, elements: list[FormatDirective], attr_dict_idx: int) -> None:
        """Give the properties that no other directive has to ``prop-dict``."""
        super().verify_properties(elements, attr_dict_idx)
        attr_dict = elements[attr_dict_idx]
        assert isinstance(attr_dict, AttrDictDirective)
        for index, element in enumerate(elements):
            if isinstance(element, PropDictDirective):
                elements[index] = PropDictDirective(frozenset(attr_dict.expected_properties))
                elements[attr_dict_idx] = _ReadOnlyPropertiesDirective(
                    attr_dict.with_keyword, attr_dict.reserved_attr_names, attr_dict.expected_properties)


@irdl_custom_directive
class OptionalDynamicIndexList(CustomDirective):
    """Mixed list of SSA indices and integers directly behind an operand, ``[%i, 8]``; nothing where there is none."""

    dynamic: VariadicOperandVariable
    static: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the list, if the next token opens one."""
        values: Sequence[object] = ()
        if next_token(parser).text == "[":
            values, integers = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
            self.static.set(state, DenseArrayBase.from_list(i64, integers))
        self.dynamic.set(state, values)  # type: ignore[arg-type]

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the list; nothing if it is empty."""
        values, static = self.dynamic.get(op), self.static.get(op)
        integers = static.get_values() if isinstance(static, DenseArrayBase) else [DYNAMIC_INDEX] * len(values)
        if integers:
            print_dynamic_index_list(printer, DYNAMIC_INDEX, values, integers)


@irdl_attr_definition
class WordAttr(Data[str]):
    """Keyword attribute, printed bare: ``global``, ``workgroup``, ``add``."""

    name = "xegpu.word"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


@irdl_custom_directive
class Keyword(CustomDirective):
    """Bare keyword, a :class:`WordAttr`: ``global``."""

    word: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the keyword."""
        self.word.set(state, WordAttr(parser.parse_identifier()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the keyword."""
        state.print_whitespace(printer)
        printer.print_string(self.word.get(op).data)  # type: ignore[union-attr]


@irdl_custom_directive
class Integers(CustomDirective):
    """List of integers without their type, ``[0, 1]``."""

    numbers: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the list."""
        found = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        self.numbers.set(state, ArrayAttr([IntegerAttr(number, i64) for number in found]))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the list."""
        state.print_whitespace(printer)
        printer.print_string(str([number.value.data for number in self.numbers.get(op)]))  # type: ignore[union-attr]
