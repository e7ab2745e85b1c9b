"""Types and attributes of XeTile and XeGPU text, in the spellings of the specification, XeGPU.md and mlir-extensions.

tile<64x32xbf16, #xetile.tile_attr<wg = #wg_map_a, order = [0, 1], inner_blocks = array<i64: 32,16>>>
tile<256x32xf16  #mp_a>                  the map itself, with or without the comma
tile<1x256xbf16, #scatter>
!xetile.tile<32x64xf16, #xetile.tile_attr<scattered = true, memory_space = 3>>
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, MemRefType, NoneAttr, StridedLayoutAttr, i64
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from xegpu.dialect.gather_scatter.descriptor import SCOPES
from xegpu.dialect.types import (
    BlockTdesc,
    BlockTdescAttr,
    ScatterTdesc,
    ScatterTdescAttr,
    SgMapAttr,
    TensorDesc,
    parse_integers,
)
from xegpu.layout.lane_map import LaneMap
from xegpu.support.errors import XeError, misread
from xegpu.support.lookahead import next_token
from xegpu.support.notes import value_notes
from xegpu.target.cache_policy import POLICIES
from xetile.dialect.types import (
    TileAttr,
    TileEncoding,
    TileParameters,
    WgMapAttr,
    missing_field,
    not_a_map,
    not_of_tile,
    parse_tile_shape,
)
from xetile.dialect.wg_map import WgMap

ENCODINGS = {"wg": "wg_map", "scattered": "scatter"}
"""Other names of what a tile_attr holds."""
SPACES = {"slm": 3, "shared": 3, "global": 0}
"""Words for memory spaces, with the numbers that MLIR uses."""


def fail(parser: AttrParser, code: str, message: str, hint: str, at: Any = None, *operands: SSAValue) -> NoReturn:
    """Raise an error at a position of the text, by default the next token; ``operands`` become notes."""
    try:
        misread(parser, code, f"{message}\n{hint}", at)
    except ParseError as error:
        error.notes = value_notes(None, {f"%{value.name_hint}": value for value in operands})  # type: ignore[attr-defined]
        raise


def guess(word: str, known: Any) -> str:
    """Hint with the known name that is nearest to a word."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {near[0]}?" if near else f"it is one of {', '.join(known)}"


def _read_fields(parser: AttrParser, attribute: str, read: Mapping[str, Callable[[AttrParser], Any]]) -> dict[str, Any]:
    """Parse ``<name = value, ...>``, each field by its own function; ENCODINGS has alternative names."""
    fields: dict[str, Any] = {}

    parser.parse_comma_separated_list(parser.Delimiter.ANGLE,
                                      lambda: _read_field(parser, attribute, read, ENCODINGS, fields))
    return fields


def _read_field(parser: AttrParser, attribute: str, read: Mapping[str, Callable[[AttrParser], Any]],
                aliases: Mapping[str, str], fields: dict[str, Any]) -> None:
    """Parse ``name = value`` into ``fields``."""
    at = next_token(parser).span
    word = parser.parse_identifier()
    name = aliases.get(word, word)
    if name not in read:
        known = (*read, *(alias for alias, other in aliases.items() if other in read))
        fail(parser, "XT2032", f"a {attribute} has no field {word}", guess(word, known), at)
    if name in fields:
        fail(parser, "XT2030", f"{word} is given twice", "leave one out", at)
    parser.parse_punctuation("=")
    fields[name] = read[name](parser)


def read_integers(parser: AttrParser) -> tuple[int, ...]:
    """Parse ``[1, 16]`` or ``array<i64: 1, 16>``."""
    word = next_token(parser).text
    if word not in ("[", "array"):
        fail(parser, "XT2048", f"{word} is not a list of integers", "write it in brackets: [8, 16]")
    return parse_integers(parser)


def _with_errors_at(parser: AttrParser, at: Any, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except XeError as error:
        fail(parser, error.code, error.message, error.hint, at)


def _check_required(parser: AttrParser, at: Any, fields: dict[str, Any], attribute: str, *names: str) -> None:
    """Check that the fields of a layout attribute are there."""
    if missing := [name for name in names if name not in fields]:
        missing_field(parser, attribute, missing[0], at)


def read_wg_map(parser: AttrParser) -> WgMap:
    """Parse ``<sg_layout = [8, 4], sg_data = [32, 64]>``."""
    at = next_token(parser).span
    fields = _read_fields(parser, "wg_map", {"sg_layout": read_integers, "sg_data": read_integers})
    _check_required(parser, at, fields, "wg_map", "sg_layout", "sg_data")
    return _with_errors_at(parser, at, lambda: WgMap(fields["sg_layout"], fields["sg_data"]))  # type: ignore[no-any-return]


def read_sg_map(parser: AttrParser) -> LaneMap:
    """Parse ``<wi_layout = [1, 16], wi_data = [1, 1]>``."""
    at = next_token(parser).span
    fields = _read_fields(parser, "sg_map", {"wi_layout": read_integers, "wi_data": read_integers})
    _check_required(parser, at, fields, "sg_map", "wi_layout")
    layout, data = fields["wi_layout"], fields.get("wi_data", (1, 1))
    return _with_errors_at(parser, at, lambda: LaneMap(layout, data))  # type: ignore[no-any-return]


def read_hint(parser: AttrParser) -> str:
    """Parse ``<cached>``."""
    with parser.in_angle_brackets():
        at = next_token(parser).span
        policy = parser.parse_identifier()
        check_policy(policy, lambda code, message, hint: fail(parser, code, message, hint, at))
    return policy


def check_policy(policy: str, fail: Callable[[str, str, str], object]) -> None:
    """Check the name of a cache policy; ``fail`` raises, with a code, what is wrong, and what would work."""
    if policy not in POLICIES:
        fail("XT2050", f"there is no cache hint {policy}", guess(policy, POLICIES))


def _map_field(parser: AttrParser) -> WgMap:
    if next_token(parser).text == "<":
        return read_wg_map(parser)
    at, attribute = next_token(parser).span, parser.parse_attribute()
    if not isinstance(attribute, WgMapAttr):
        not_a_map(attribute, lambda code, message, hint: fail(parser, code, message, hint, at))
    return attribute.data


def _lanes_field(parser: AttrParser) -> LaneMap:
    if next_token(parser).text == "<":
        return read_sg_map(parser)
    at, attribute = next_token(parser).span, parser.parse_attribute()
    if not isinstance(attribute, SgMapAttr):
        fail(parser, "XT2055",
             f"{attribute} is not an sg_map", "write #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>", at)
    return attribute.data


def _number_field(parser: AttrParser) -> int:
    number = parser.parse_integer()
    if parser.parse_optional_punctuation(":"):  # MLIR prints 3 : i32
        parser.parse_type()
    return number


def _space_field(parser: AttrParser) -> int:
    word = parser.parse_optional_identifier()
    return _number_field(parser) if word is None else SPACES.get(word, -1)


_FIELDS: dict[str, Callable[[AttrParser], Any]] = {
    "order": read_integers, "wg_map": _map_field, "sg_map": _lanes_field, "inner_blocks": read_integers,
    "array_length": _number_field, "memory_space": _space_field, "scatter": lambda parser: parser.parse_boolean(),
}


def read_tile_attr(parser: AttrParser) -> TileEncoding:
    """Parse ``<order = [0, 1], wg_map = #map, sg_map = #lanes, memory_space = 3, scattered = true, array_length =
    2>``."""
    return TileEncoding(**_read_fields(parser, "tile_attr", _FIELDS))


def read_tile(parser: AttrParser) -> TileParameters:
    """Parse the parameters after ``tile``: ``<64x32xbf16, #tile_attr>``."""
    with parser.in_angle_brackets():
        shape, element_type = parse_tile_shape(parser)
        fields: dict[str, Any] = {}
        while parser.parse_optional_punctuation(",") or next_token(parser).text != ">":
            fields |= _read_part(parser)
        return TileParameters(shape, element_type, TileEncoding(**fields))


def _read_part(parser: AttrParser) -> dict[str, Any]:
    """Parse a parameter after a tile's element type: a tile_attr, a map, ``order = [0, 1]``."""
    at = next_token(parser).span
    if (word := parser.parse_optional_identifier()) is not None:
        name = ENCODINGS.get(word, word)
        if name not in _FIELDS:
            fail(parser, "XT2032", f"a tile has no {word}", guess(word, _FIELDS), at)
        parser.parse_punctuation("=")
        return {name: _FIELDS[name](parser)}
    attribute = parser.parse_attribute()
    if isinstance(attribute, TileAttr):
        return {name: value for name, value in vars(attribute.data).items() if value != getattr(TileEncoding, name)}
    if isinstance(attribute, WgMapAttr):
        return {"wg_map": attribute.data}
    if not isinstance(attribute, SgMapAttr):
        not_of_tile(parser, attribute, at)
    return {"sg_map": attribute.data}


def read_memref(parser: AttrParser) -> Attribute:
    """Parse the parameters after ``memref``, with the specification's layout ``affine_map=<...>`` and space ``slm``."""
    with parser.in_angle_brackets():
        if next_token(parser).text == "*":
            fail(parser, "XT2060", "an unranked memref does not describe its memory", "write memref<?x?xf16>")
        shape, element_type = parser.parse_ranked_shape()
        layout: Attribute = NoneAttr()
        space: Attribute = NoneAttr()
        while parser.parse_optional_punctuation(","):
            attribute = _memref_part(parser)
            if isinstance(attribute, (AffineMapAttr, StridedLayoutAttr)):
                layout = attribute
            else:
                space = attribute
        return MemRefType(element_type, shape, layout, space)  # type: ignore[arg-type]


def _memref_part(parser: AttrParser) -> Attribute:
    start = next_token(parser).span.start
    word = next_token(parser).text
    if word in SPACES:
        parser.parse_identifier()
        return IntegerAttr(SPACES[word], i64)
    if word == "affine_map":
        parser.parse_identifier()
        if parser.parse_optional_punctuation("="):
            with parser.in_angle_brackets():
                return AffineMapAttr(parser.parse_affine_map())
        parser._resume_from(start)  # private: xDSL has no public back-tracking
    return parser.parse_attribute()


_ADDRESS_SPACES = {"global": 1, "workgroup": 3}
"""Memory spaces by their names in the gpu dialect."""


def read_address_space(parser: AttrParser) -> Attribute:
    """Parse the parameter of ``#gpu.address_space<workgroup>``: a memory space, as its number."""
    with parser.in_angle_brackets():
        at = next_token(parser).span
        word = parser.parse_identifier()
        if word not in _ADDRESS_SPACES:
            fail(parser, "XT3280", f"no kernel has arrays in {word} memory",
                 "keep numbers in vectors; shared local memory is #gpu.address_space<workgroup>", at)
        return IntegerAttr(_ADDRESS_SPACES[word], i64)


# Tensor descriptors in XeGPU.md's spelling, XeGPU v1 included.
#
#     #tdesc_attr = !xegpu.tdesc_attr<memory_scope = slm, scattered = true, chunk_size_per_lane = 8>
#     tensor_desc<16x8xuint16, #tdesc_attr>
#     tensor_desc<8x16xbf16, #sg_map_a, memory_scope = global, array_length = 2>
#     tensor_desc<16xuint8, #scattered>


SCATTERED = ("scattered", "Scattered", "scatter")
"""Words that mark a descriptor of single elements, where the text does not define them itself."""
_NAMES = {"chunk_size_per_lane": "chunk_size", "memory_space": "memory_scope", "sg_map": "sg"}


@irdl_attr_definition
class TdescAttr(Data[tuple[tuple[str, Any], ...]]):
    """Descriptor attributes behind an alias: ``!xegpu.tdesc_attr<memory_scope = slm, boundary_check = false>``."""

    name = "xegpu.tdesc_attr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Any], ...]:
        return tuple(read_fields(parser).items())

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{', '.join(f'{name} = {value}' for name, value in self.data)}>")


def _scope(parser: Any) -> str:
    at, word = next_token(parser).span, parser.parse_identifier()
    if word not in SCOPES:
        fail(parser, "XT2063", f"there is no memory_scope {word}", guess(word, SCOPES), at)
    return str(word)


_DESCRIPTOR_FIELDS: dict[str, Callable[[Any], Any]] = {
    "memory_scope": _scope, "boundary_check": lambda parser: parser.parse_boolean(),
    "array_length": lambda parser: parser.parse_integer(), "chunk_size": lambda parser: parser.parse_integer(),
    "scattered": lambda parser: parser.parse_boolean(), "sg": _lanes_field,
    "access": lambda parser: parser.parse_identifier(),
}


def _read_descriptor_field(parser: Any, found: dict[str, Any]) -> None:
    _read_field(parser, "descriptor", _DESCRIPTOR_FIELDS, _NAMES, found)


def read_fields(parser: Any) -> dict[str, Any]:
    """Parse ``<memory_scope = slm, boundary_check = false, sg = #sg_map>``."""
    found: dict[str, Any] = {}
    parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: _read_descriptor_field(parser, found))
    return found


def _read_descriptor_part(parser: Any, found: dict[str, Any]) -> None:
    """Parse a parameter after a descriptor's element type: attributes, maps, ``array_length = 2``."""
    if next_token(parser).text[0] != "#":
        _read_descriptor_field(parser, found)
        return
    at = next_token(parser).span
    attribute = parser.parse_attribute()
    fields = _fields_of(attribute)
    if fields is None:
        fail(parser, "XT2058", f"{attribute} is not an attribute of a descriptor",
             "write #xegpu.sg_map<...>, or name = value: memory_scope = slm", at)
    if twice := sorted(found.keys() & fields.keys()):
        fail(parser, "XT2030", f"{twice[0]} is given twice", "leave one out", at)
    found.update(fields)


def _fields_of(attribute: Any) -> Mapping[str, Any] | None:
    if isinstance(attribute, TdescAttr):
        return dict(attribute.data)
    if isinstance(attribute, SgMapAttr):
        return {"sg": attribute.data}
    if isinstance(attribute, (BlockTdescAttr, ScatterTdescAttr)):
        default = type(attribute.data)()
        explicit = {name: value for name, value in vars(attribute.data).items() if value != getattr(default, name)}
        return {**explicit, "scattered": True} if isinstance(attribute, ScatterTdescAttr) else explicit
    return None


def read_tensor_desc(parser: Any) -> TensorDesc:
    """Parse the parameters after ``tensor_desc``: ``<8x16xbf16, #sg_map_a, array_length = 2>``."""
    found: dict[str, Any] = {}
    with parser.in_angle_brackets():
        at = next_token(parser).span
        shape, element_type = parser.parse_shape()
        if not shape or not all(size > 0 for size in shape):
            fail(parser, "XT2062", "a descriptor has static dimensions", "write tensor_desc<8x16xbf16>", at)
        parser.on_descriptor = True
        while parser.parse_optional_punctuation(","):
            _read_descriptor_part(parser, found)
        parser.on_descriptor = False
    lanes = found.pop("sg", None)
    if found.pop("scattered", False) or "chunk_size" in found:
        return TensorDesc(tuple(shape), element_type, sg_map=lanes, scatter=_scatter(parser, shape, found, at))
    if len(shape) == 1:  # of one dimension nothing else is legal, and the document leaves it out
        found.setdefault("boundary_check", False)
    return TensorDesc(tuple(shape), element_type, BlockTdesc(**found), lanes)


def _scatter(parser: Any, shape: list[int], found: dict[str, Any], at: Any) -> ScatterTdesc:
    """Scatter attributes; an omitted chunk size is that of the shape, as in the specification."""
    found.pop("boundary_check", None)  # single elements have a mask for that
    chunk = found.pop("chunk_size", shape[1] if len(shape) == 2 else 1)
    if found.keys() - {"memory_scope"}:
        fail(parser, "XT2064", f"a descriptor of single elements has no {min(found)}", "leave it out", at)
    return ScatterTdesc(found.get("memory_scope", "global"), chunk)
