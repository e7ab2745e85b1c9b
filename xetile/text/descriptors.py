"""Descriptor types of XeGPU as XeGPU.md spells them, both generations.

    #tdesc_attr = !xegpu.tdesc_attr<memory_scope = slm, scattered = true, chunk_size_per_lane = 8>
    tensor_desc<16x8xuint16, #tdesc_attr>
    tensor_desc<8x16xbf16, #sg_map_a, memory_scope = global, array_length = 2>
    tensor_desc<16xuint8, #scattered>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xegpu.dialect.types import BlockTdesc, BlockTdescAttr, ScatterTdesc, ScatterTdescAttr, SgMapAttr, TensorDesc
from xetile.text.attributes import fail, guess, read_sg_map

SCATTERED = ("scattered", "Scattered", "scatter")
"""Words that mark a descriptor of single elements, where the text does not define them itself."""
_NAMES = {"chunk_size_per_lane": "chunk_size", "memory_space": "memory_scope", "sg_map": "sg"}
_SCOPES = ("global", "slm")


@irdl_attr_definition
class TdescAttr(Data[tuple[tuple[str, Any], ...]]):
    """``!xegpu.tdesc_attr<memory_scope = slm, boundary_check = false>``: what an alias keeps for a descriptor."""

    name = "xegpu.tdesc_attr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Any], ...]:
        return tuple(read_fields(parser).items())

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{', '.join(f'{name} = {value}' for name, value in self.data)}>")


def _scope(parser: Any) -> str:
    at, word = parser._current_token.span, parser.parse_identifier()
    if word not in _SCOPES:
        fail(parser, "XT2063", f"there is no memory_scope {word}", guess(word, _SCOPES), at)
    return str(word)


def _lanes(parser: Any) -> Any:
    if parser._current_token.text == "<":
        return read_sg_map(parser)
    at, given = parser._current_token.span, parser.parse_attribute()
    if not isinstance(given, SgMapAttr):
        fail(parser, "XT2055",
             f"{given} is not an sg_map", "write #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>", at)
    return given.data


_DESCRIPTOR_FIELDS: dict[str, Callable[[Any], Any]] = {
    "memory_scope": _scope, "boundary_check": lambda parser: parser.parse_boolean(),
    "array_length": lambda parser: parser.parse_integer(), "chunk_size": lambda parser: parser.parse_integer(),
    "scattered": lambda parser: parser.parse_boolean(), "sg": _lanes,
    "access": lambda parser: parser.parse_identifier(),
}


def _field(parser: Any, found: dict[str, Any]) -> None:
    at = parser._current_token.span
    word = parser.parse_identifier()
    name = _NAMES.get(word, word)
    if name not in _DESCRIPTOR_FIELDS:
        fail(parser, "XT2032", f"a descriptor has no {word}", guess(word, (*_DESCRIPTOR_FIELDS, *_NAMES)), at)
    if name in found:
        fail(parser, "XT2030", f"{word} is given twice", "leave one out", at)
    parser.parse_punctuation("=")
    found[name] = _DESCRIPTOR_FIELDS[name](parser)


def read_fields(parser: Any) -> dict[str, Any]:
    """``<memory_scope = slm, boundary_check = false, sg = #sg_map>``."""
    found: dict[str, Any] = {}
    parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: _field(parser, found))
    return found


def _part(parser: Any, found: dict[str, Any]) -> None:
    """One of the parts behind a descriptor's element type: attributes, maps, ``array_length = 2``."""
    if parser._current_token.text[0] != "#":
        _field(parser, found)
        return
    at = parser._current_token.span
    given = parser.parse_attribute()
    fields = _fields_of(given)
    if fields is None:
        fail(parser, "XT2058", f"{given} is not an attribute of a descriptor",
             "write #xegpu.sg_map<...>, or name = value: memory_scope = slm", at)
    if twice := sorted(found.keys() & fields.keys()):
        fail(parser, "XT2030", f"{twice[0]} is given twice", "leave one out", at)
    found.update(fields)


def _fields_of(given: Any) -> Mapping[str, Any] | None:
    if isinstance(given, TdescAttr):
        return dict(given.data)
    if isinstance(given, SgMapAttr):
        return {"sg": given.data}
    if isinstance(given, (BlockTdescAttr, ScatterTdescAttr)):
        default = type(given.data)()
        said = {name: value for name, value in vars(given.data).items() if value != getattr(default, name)}
        return {**said, "scattered": True} if isinstance(given, ScatterTdescAttr) else said
    return None


def read_tensor_desc(parser: Any) -> TensorDesc:
    """What stands behind ``tensor_desc``: ``<8x16xbf16, #sg_map_a, array_length = 2>``."""
    found: dict[str, Any] = {}
    with parser.in_angle_brackets():
        at = parser._current_token.span
        shape, element_type = parser.parse_shape()
        if not shape or not all(size > 0 for size in shape):
            fail(parser, "XT2062", "a descriptor has static dimensions", "write tensor_desc<8x16xbf16>", at)
        parser.on_descriptor = True
        while parser.parse_optional_punctuation(","):
            _part(parser, found)
        parser.on_descriptor = False
    lanes = found.pop("sg", None)
    if found.pop("scattered", False) or "chunk_size" in found:
        return TensorDesc(tuple(shape), element_type, sg_map=lanes, scatter=_scatter(parser, shape, found, at))
    if len(shape) == 1:  # of one dimension nothing else is legal, and the document leaves it out
        found.setdefault("boundary_check", False)
    return TensorDesc(tuple(shape), element_type, BlockTdesc(**found), lanes)


def _scatter(parser: Any, shape: list[int], found: dict[str, Any], at: Any) -> ScatterTdesc:
    """Scatter attributes; the chunk may be left to the shape, as the seed does."""
    found.pop("boundary_check", None)  # single elements have a mask for that
    chunk = found.pop("chunk_size", shape[1] if len(shape) == 2 else 1)
    if found.keys() - {"memory_scope"}:
        fail(parser, "XT2064", f"a descriptor of single elements has no {min(found)}", "leave it out", at)
    return ScatterTdesc(found.get("memory_scope", "global"), chunk)
