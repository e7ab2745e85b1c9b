"""Grammar of the custom form of XeTile operations, independent of the order of its parts.

    name parts ":" types ("->" | "into" | "to") types

The parts are operands (``%a``, ``%a#1``, ``%pair:2``), groups of operands and integers in brackets, a kind
(``<add>``), ``locality<3>``, ``{attributes}`` and attributes by themselves (``#mp_a``), with or without commas between
them. Each operation's rule (:mod:`xetile.text.xetile_ops`) interprets them with :mod:`xetile.text.operand_parser`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerType, MemRefType, StringAttr, UnitAttr, VectorType
from xdsl.ir import Attribute, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import Parser
from xdsl.utils.mlir_lexer import MLIRTokenKind

from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import is_shared
from xegpu.support.lookahead import next_token
from xetile.text.types import fail, guess

_TUPLE = re.compile(r"\s*:\s*(\d+)")
_DEFINES = re.compile(r"(\s*:\s*\d+)?(\s*,\s*%[\w$.-]+(\s*:\s*\d+)?)*\s*=")
_ARROWS = ("into", "to")
_TYPE_WORDS = ("tile", "vector", "memref", "tensor_desc", "index", "int64", "uint64", "i64")
"""Words that begin a type where the specifications leave out the colon."""
_ATTRIBUTE_WORDS = ("true", "false", "array", "dense", "unit", "affine_map", "affine_set", "strided", "loc")
"""Words that begin an attribute of MLIR; any other word is itself the value."""


@irdl_attr_definition
class Bits16Type(ParametrizedAttribute, TypeAttribute):
    """``b16``, the specification's spelling of a 16-bit element type that the tile determines."""

    name = "xetile.b16"


Entry = SSAValue | int


@dataclass
class Sketch:
    """Parse tree of one operation.

    Attributes:
        name: its name in the text.
        parser: what reads it; rules raise errors and make constants with it.
        span: of the name.
        operands: values outside brackets, in order.
        groups: contents of brackets, in order: values, integers, or both.
        kind: the word in ``<...>``, or before the operands.
        locality: the number of ``locality<3>``.
        attributes: those of ``{...}`` with a name.
        bare: attributes without a name, in order.
        types, results: types before and behind the arrow.
        spans: of each value.
        regions: bodies, in the generic form.
    """

    name: str
    parser: Any
    span: Any
    operands: list[SSAValue] = field(default_factory=list)
    groups: list[list[Entry]] = field(default_factory=list)
    kind: str | None = None
    locality: int | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict)
    bare: list[Attribute] = field(default_factory=list)
    types: list[Attribute] = field(default_factory=list)
    results: list[Attribute] = field(default_factory=list)
    spans: dict[SSAValue, Any] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)

    def fail(self, code: str, message: str, hint: str, *operands: SSAValue) -> NoReturn:
        """Raise an error at the operation's name; ``operands`` become notes."""
        fail(self.parser, code, f"{self.name}: {message}", hint, self.span, *operands)

    def take(self, *names: str) -> Attribute | None:
        """Take the attribute that has one of these names out of the tree."""
        found = [name for name in names if name in self.attributes]
        if len(found) > 1:
            self.fail("XT2030", f"{found[0]} and {found[1]} say the same", "leave one of them out")
        return self.attributes.pop(found[0]) if found else None

    def no_result(self) -> None:
        """Check that the types after the arrow are those of operands: ``vector<...> into tile<...>``."""
        _check_types(self, [*self.types, *self.results])
        self.parser.forget_results()

    def finish(self, *known: str) -> None:
        """Check that every part was consumed; ``known`` are the names that the rule accepts."""
        if self.attributes:
            name = min(self.attributes)
            self.fail("XT2031", f"there is no attribute {name}", guess(name, known) if known else "leave it out")
        if self.bare:
            self.fail("XT2033",
                      f"{self.bare[0]} is not expected here", "leave it out, or give it a name: {name = ...}")
        if self.groups:
            self.fail("XT2033", "there are more brackets than it takes", "leave the last ones out")
        if self.kind is not None:
            self.fail("XT2033", f"<{self.kind}> is not expected here", "leave it out")
        if self.locality is not None:
            self.fail("XT2033", "a locality is for prefetch_tile", "leave it out")


def read(parser: Any, name: str, span: Any, *, typed: bool = True,
         result_behind_comma: bool = False) -> Sketch:
    """Parse an operation after its name.

    Args:
        parser: what reads the text.
        name, span: the operation's name in the text, and its span.
        typed: whether operands and types follow; else there are attributes alone.
        result_behind_comma: whether the last type, where no arrow is, is the result's.
    """
    sketch = Sketch(name, parser, span)
    if not typed:
        if next_token(parser).text == "{":
            _dictionary(parser, sketch)
        return sketch
    parser.parse_optional_punctuation(",")
    while _parse_part(parser, sketch):
        parser.parse_optional_punctuation(",")
    if parser.parse_optional_punctuation(":") or _starts_type(parser):
        parser.b16 = True
        sketch.types = _types(parser)
        if _arrow(parser):
            sketch.results = _types(parser)
        elif result_behind_comma:
            sketch.results = [sketch.types.pop()]
        parser.b16 = False
    else:
        sketch.fail("XT2035", "its types are missing", "write them behind a colon")
    _check_types(sketch, sketch.types)
    return sketch


def _parse_part(parser: Any, sketch: Sketch) -> bool:
    """Parse one part; False if there is none."""
    token = next_token(parser)
    if token.kind is MLIRTokenKind.PERCENT_IDENT and not _DEFINES.match(parser.text, token.span.end):
        sketch.operands += _operand(parser, sketch)
    elif token.text == "[":
        sketch.groups.append([entry for part in parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: _entry(parser, sketch)) for entry in part])
    elif token.text == "{":
        _dictionary(parser, sketch)
    elif token.kind is MLIRTokenKind.HASH_IDENT:
        sketch.bare.append(parser.parse_attribute())
    elif token.text == "<":
        with parser.in_angle_brackets():
            sketch.kind = parser.parse_identifier()
    elif token.kind is MLIRTokenKind.STRING_LIT and sketch.kind is None:
        sketch.kind = parser.parse_str_literal()
    elif token.kind is MLIRTokenKind.BARE_IDENT and not _starts_type(parser) and \
            token.text not in _ARROWS and "." not in token.text:  # the next operation's name has a dot
        _parse_word(parser, sketch)
    else:
        return False
    return True


def _parse_word(parser: Any, sketch: Sketch) -> None:
    """Parse a part that begins with a bare identifier."""
    at, word = next_token(parser).span, parser.parse_identifier()
    if word == "locality":
        with parser.in_angle_brackets():
            sketch.locality = parser.parse_integer()
    elif sketch.kind is None and not sketch.operands:
        sketch.kind = word
    else:
        known = [name for name in parser.ssa_values if name == word]
        fail(parser, "XT2036", f"{word} is not an operand or type",
             f"did you mean %{known[0]}?" if known else "operands start with %", at)


def _operand(parser: Any, sketch: Sketch) -> list[SSAValue]:
    """Parse ``%a``, ``%a#1``, or all values of ``%pair:2``."""
    # Private API of xDSL from here on: its public functions read a whole operand, and have no back-tracking.
    token = parser._parse_token(MLIRTokenKind.PERCENT_IDENT, "operand expected")
    name, position = token.text[1:], None
    if next_token(parser).kind is MLIRTokenKind.HASH_IDENT and next_token(parser).text[1:].isdigit():
        position = int(parser._consume_token().text[1:])
    values = parser.ssa_values.get(name)
    if values is None:
        near = [f"%{known}" for known in parser.ssa_values]
        fail(parser, "XT2005", f"%{name} is not defined above", guess(f"%{name}", near) if near else "define it first",
             token.span)
    counted = _TUPLE.match(parser.text, token.span.end) if position is None else None
    if counted is not None:
        parser._resume_from(counted.end())
        if len(values) != int(counted[1]):
            fail(parser, "XT2037", f"%{name} is {len(values)} values, not {counted[1]}", f"write %{name}:{len(values)}",
                 token.span, values[0])
        return list(values)
    if (len(values) > 1 and position is None) or (position or 0) >= len(values):
        fail(parser, "XT2037", f"%{name} is {len(values)} values",
             f"write %{name}:{len(values)} for all, %{name}#0 for the first", token.span, values[0])
    value = values[position or 0]
    sketch.spans[value] = token.span
    return [value]


def _entry(parser: Any, sketch: Sketch) -> Sequence[Entry]:
    """Parse an entry of a group in brackets."""
    number = parser.parse_optional_integer()
    return _operand(parser, sketch) if number is None else [number]


def _dictionary(parser: Any, sketch: Sketch) -> None:
    """Parse ``{padding = 1.0, #map}``: attributes with and without names."""
    parser.parse_punctuation("{")
    while not parser.parse_optional_punctuation("}"):
        if next_token(parser).kind is MLIRTokenKind.HASH_IDENT:
            sketch.bare.append(parser.parse_attribute())
        else:
            name, value = _permutation_map(parser) or _attribute_entry(parser)
            sketch.attributes[name] = value
        parser.parse_optional_punctuation(",")


def _permutation_map(parser: Any) -> tuple[str, Attribute] | None:
    """Parse ``permutation_map: (d0, d1) -> (d1)``, SuperVector.md's spelling; None before anything else."""
    if not parser.parse_optional_keyword("permutation_map"):
        return None
    if not parser.parse_optional_punctuation(":"):
        parser.parse_punctuation("=")
    bare = next_token(parser).text == "("
    return "permutation_map", AffineMapAttr(parser.parse_affine_map()) if bare else parser.parse_attribute()


def _attribute_entry(parser: Any) -> tuple[str, Attribute]:
    """Parse ``packed``, ``padding = 1.0``, or ``L1_hint = cached`` with an identifier as value."""
    at, name = next_token(parser).span, parser.parse_optional_identifier_or_str_literal()
    if name is None:
        fail(parser, "XT2038", f"{at.text} is not an attribute", "write {name = value}", at)
    if not parser.parse_optional_punctuation("="):
        return name, UnitAttr()
    if next_token(parser).kind is MLIRTokenKind.BARE_IDENT and next_token(parser).text not in _ATTRIBUTE_WORDS:
        return name, StringAttr(parser.parse_identifier())
    return name, parser.parse_attribute()


def _starts_type(parser: Any) -> bool:
    """Whether a type is next: the specification's table omits a colon."""
    token = next_token(parser)
    return token.kind is MLIRTokenKind.EXCLAMATION_IDENT or token.text in _TYPE_WORDS


def _arrow(parser: Any) -> bool:
    """Parse an optional arrow."""
    if parser.parse_optional_punctuation("->"):
        return True
    return any(parser.parse_optional_keyword(word) for word in _ARROWS)


def _types(parser: Any) -> list[Attribute]:
    """Parse a list of types."""
    if next_token(parser).text == "(":
        return list(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type))
    found = [parser.parse_type()]
    while parser.parse_optional_punctuation(",") and next_token(parser).text not in ("->", *_ARROWS):
        found.append(parser.parse_type())
    return found


def agrees(stated: Attribute, actual: Attribute) -> bool:
    """Whether a type in the text is that of a value; ``b16`` matches any 16-bit element type."""
    if isinstance(stated, VectorType) and isinstance(actual, VectorType) and stated.element_type == Bits16Type():
        return stated.get_shape() == actual.get_shape() and of_mlir(actual.element_type).bits == 16
    if isinstance(stated, MemRefType) and is_shared(actual) and isinstance(actual,
                                                                           MemRefType):  # ``alloc()`` in XeTile.md
        return stated == actual or stated == MemRefType(actual.element_type, actual.shape, actual.layout)
    return stated == actual


def _check_types(sketch: Sketch, types: list[Attribute]) -> None:
    """Check that each type is that of an operand, in any order."""
    values = [*sketch.operands, *(entry for group in sketch.groups for entry in group if isinstance(entry, SSAValue))]
    open_ = list(values)
    for stated in types:
        value = next((value for value in open_ if agrees(stated, value.type)), None)
        if value is not None:
            open_.remove(value)
        elif not isinstance(stated, (IndexType, IntegerType)):
            _disagree(sketch, stated, open_)


def _disagree(sketch: Sketch, stated: Attribute, values: list[SSAValue]) -> NoReturn:
    """Raise for a type that no operand has."""
    alike = [value for value in values if type(value.type) is type(stated)]
    if not alike:
        sketch.fail("XT2039", f"no operand has the type {stated}", "the types are those of the operands, each once: "
                    f"{', '.join(str(value.type) for value in values) or 'they are all named already'}", *values)
    other_type(sketch.parser, alike[0], stated, sketch.spans.get(alike[0], sketch.span))


def other_type(parser: Any, value: SSAValue, stated: Attribute, span: Any) -> NoReturn:
    """Raise for a type in the text that is not that of its value, which ``span`` names."""
    fail(parser, "XT2039", f"{span.text} is {value.type}, and the text has {stated}", f"write {value.type}", span,
         value)


class Custom:
    """Stand-in for an operation's class in the parser's lookup, which parses the operation by its rule."""

    def __init__(self, name: str, span: Any, rule: Any) -> None:
        self.name, self.span, self.rule = name, span, rule

    @staticmethod
    def dialect_name() -> str:
        """Dialect whose prefix may be omitted in regions."""
        return "xetile"

    def parse(self, parser: Parser) -> Any:
        """Parse the operation."""
        return self.rule(parser, self.name, self.span)
