"""Lists of indices, some of them literal, and properties in braces, as LLVM's XeGPU operations write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IndexType, UnitAttr, i64
from xdsl.dialects.utils.dynamic_index_list import (
    get_dynamic_index_list,
    parse_dynamic_index_list_without_types,
    print_dynamic_index_list,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from xegpu.upstream.attributes import Desc, DescType

Mixed = Sequence[SSAValue | int]
"""Indices, some of them literal."""


def desc_of(value: SSAValue) -> Desc:
    """The parameters of the descriptor that ``value`` is."""
    assert isinstance(value.type, DescType)
    return value.type.data


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of the vector that ``value`` is."""
    return value.type.get_shape()  # type: ignore[attr-defined,no-any-return]


def split(values: Mixed) -> tuple[list[SSAValue], DenseArrayBase]:
    """The values among ``values``, and all of them as literals with a mark where a value stands."""
    literal = [value if isinstance(value, int) else DYNAMIC_INDEX for value in values]
    return [value for value in values if not isinstance(value, int)], DenseArrayBase.from_list(i64, literal)


def joined(values: Sequence[SSAValue], literals: Any) -> list[SSAValue | int]:
    """The inverse of :func:`split`; without literals the values alone."""
    if literals is None:
        return list(values)
    return get_dynamic_index_list(literals.get_values(), values, DYNAMIC_INDEX)


def parse_mixed(parser: Parser) -> tuple[Sequence[UnresolvedOperand], DenseArrayBase]:
    """``[%i, 8]``: values that are not resolved yet, and the literals."""
    values, literals = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
    return values, DenseArrayBase.from_list(i64, literals)


def print_mixed(printer: Printer, values: Sequence[SSAValue], literals: Any) -> None:
    """The inverse of :func:`parse_mixed`."""
    integers = [DYNAMIC_INDEX] * len(values) if literals is None else literals.get_values()
    print_dynamic_index_list(printer, DYNAMIC_INDEX, values, integers)


def resolved(parser: Parser, values: Sequence[UnresolvedOperand]) -> list[SSAValue]:
    """Values of the type index."""
    return [parser.resolve_operand(value, IndexType()) for value in values]


def parse_properties(parser: Parser) -> dict[str, Attribute]:
    """``<{packed}>``, or the same without angle brackets as older versions print it."""
    if parser.parse_optional_punctuation("<"):
        given = parser.parse_optional_attr_dict()
        parser.parse_punctuation(">")
        return dict(given)
    return dict(parser.parse_optional_attr_dict())


def print_properties(printer: Printer, given: dict[str, Attribute]) -> None:
    """The inverse of :func:`parse_properties`; nothing if there are none."""
    if given:
        printer.print_string(" <{")
        printer.print_list(given.items(), lambda pair: _print_property(printer, *pair))
        printer.print_string("}>")


def _print_property(printer: Printer, name: str, value: Attribute) -> None:
    printer.print_string(name)
    if not isinstance(value, UnitAttr):
        printer.print_string(" = ")
        printer.print_attribute(value)
