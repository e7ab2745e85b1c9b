"""Attributes and types of the XeGPU dialect, and verification of ``sg_map`` (XeGPU.md)."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from xdsl.ir import Attribute, Data, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xegpu.ir.dtypes import DType, of_mlir
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import IntegersAttr, values_of, vector_type
from xegpu.support.errors import Invalid, ShapeError, misread
from xegpu.support.lookahead import next_token
from xegpu.target.targets import listed

ACCESS = ("block", "rows", "strided")
"""Access kinds: 2D block IO, element access with unit stride along a row, or with any stride."""


def parse_integers(parser: AttrParser) -> tuple[int, ...]:
    """Parse a list of integers: ``[1, 16]`` or ``array<i64: 1, 16>``."""
    if parser.parse_optional_keyword("array"):
        with parser.in_angle_brackets():
            parser.parse_type()
            parser.parse_punctuation(":")
            return tuple(parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_integer))
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))


def parse_fields(parser: AttrParser, known: Sequence[str] = (), what: str = "") -> dict[str, object]:
    """Parse ``<name = value, ...>`` with integers, integer lists, booleans, keywords and attributes as values.

    Args:
        parser: the parser.
        known: the names of the legal fields; by default any.
        what: the attribute or type that has the fields, for messages.
    """
    fields: dict[str, object] = {}

    def field() -> None:
        name = parse_field_name(parser, known, what)
        parser.parse_punctuation("=")
        fields[name] = _parse_value(parser)

    parser.parse_comma_separated_list(parser.Delimiter.ANGLE, field)
    return fields


def parse_field_name(parser: AttrParser, known: Sequence[str], what: str) -> str:
    """Parse the name of a field, one of ``known`` unless that is empty."""
    at = next_token(parser).span
    name = parser.parse_identifier()
    if known and name not in known:
        near = difflib.get_close_matches(name, known, 1)
        misread(parser, "XT3013", f"{what} has no field {name}\n" + (
            f"did you mean {near[0]}?" if near else f"its fields are {', '.join(known)}"), at)
    return name


def _parse_value(parser: AttrParser) -> object:
    boolean = parser.parse_optional_boolean()
    if boolean is not None:
        return boolean
    integer = parser.parse_optional_integer()
    if integer is not None:
        return integer
    attribute = parser.parse_optional_attribute() if next_token(parser).text[0] == "#" else None
    if attribute is not None:
        return attribute
    if next_token(parser).text in ("[", "array"):
        return parse_integers(parser)
    return parser.parse_identifier()


def print_fields(printer: Printer, fields: dict[str, object]) -> None:
    """Print fields as :func:`parse_fields` reads them."""
    with printer.in_angle_brackets():
        for position, (name, value) in enumerate(fields.items()):
            printer.print_string(f"{', ' if position else ''}{name} = ")
            if isinstance(value, Attribute):
                printer.print_attribute(value)
            elif isinstance(value, bool):
                printer.print_string(str(value).lower())
            else:
                printer.print_string(str(list(value)) if isinstance(value, tuple) else str(value))


_Fields = TypeVar("_Fields")
_SORTS = {bool: "true or false", int: "a number", str: "a word"}


def _of_fields(parser: AttrParser, default: _Fields, what: str) -> _Fields:
    """Parse a dataclass from fields, whose sorts are those of its default's values."""
    fields = parse_fields(parser, [*vars(default)], what)
    for name, value in fields.items():
        sort = type(getattr(default, name))
        if type(value) is not sort:
            no_value_of_field(parser, name, value, f"use {_SORTS[sort]}")
    return type(default)(**fields)


def not_of_descriptor(parser: AttrParser, attribute: Attribute, takes: str) -> NoReturn:
    """Refuse an attribute in a descriptor's type that says nothing about one."""
    misread(parser, "XT3012", f"{attribute} is not an attribute of a tensor_desc\nit takes {takes}")


def no_value_of_field(parser: AttrParser, name: str, value: object, hint: str) -> NoReturn:
    """Refuse a value of another sort than that of its field."""
    misread(parser, "XT3619", f"{name} cannot be {value}\n{hint}")


@irdl_attr_definition
class SgMapAttr(Data[LaneMap]):
    """Lane map attribute: ``#xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>``."""

    name = "xegpu.sg_map"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> LaneMap:
        fields = parse_fields(parser, ("wi_layout", "wi_data"), "an sg_map")
        try:
            return LaneMap(fields.get("wi_layout", ()), fields.get("wi_data", (1, 1)))  # type: ignore[arg-type]
        except ShapeError as error:
            misread(parser, error.code, f"{error.message}\n{error.hint}")

    def print_parameter(self, printer: Printer) -> None:
        print_fields(printer, {"wi_layout": self.data.wi_layout, "wi_data": self.data.wi_data})


@dataclass(frozen=True)
class BlockTdesc:
    """Parameters of a block descriptor beside its shape.

    Attributes:
        memory_scope: ``"global"`` or ``"slm"``.
        array_length: blocks side by side.
        boundary_check: whether elements outside the base read as zero and are not written.
        access: access kind, one of :data:`ACCESS`. It goes beyond XeGPU.md, which leaves memory where 2D block IO is
            illegal to the lowering.
    """

    memory_scope: str = "global"
    array_length: int = 1
    boundary_check: bool = True
    access: str = "block"


@irdl_attr_definition
class BlockTdescAttr(Data[BlockTdesc]):
    """Block descriptor attribute: ``#xegpu.block_tdesc_attr<array_length = 2>``; defaults are not printed."""

    name = "xegpu.block_tdesc_attr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> BlockTdesc:
        return _of_fields(parser, BlockTdesc(), "a block_tdesc_attr")

    def print_parameter(self, printer: Printer) -> None:
        default = BlockTdesc()
        print_fields(printer, {k: v for k, v in vars(self.data).items() if v != getattr(default, k)})


@dataclass(frozen=True)
class ScatterTdesc:
    """Parameters of a scattered descriptor beside its shape.

    Attributes:
        memory_scope: ``"global"`` or ``"slm"``.
        chunk_size: adjacent elements that each lane accesses (the specification's ``chunk_size_per_lane``).
    """

    memory_scope: str = "global"
    chunk_size: int = 1


@irdl_attr_definition
class ScatterTdescAttr(Data[ScatterTdesc]):
    """Scattered descriptor attribute: ``#xegpu.scatter_tdesc_attr<chunk_size = 4>``; defaults are not printed."""

    name = "xegpu.scatter_tdesc_attr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ScatterTdesc:
        return _of_fields(parser, ScatterTdesc(), "a scatter_tdesc_attr")

    def print_parameter(self, printer: Printer) -> None:
        default = ScatterTdesc()
        print_fields(printer, {k: v for k, v in vars(self.data).items() if v != getattr(default, k)})


@dataclass(frozen=True)
class TensorDesc:
    """Parameters of a :class:`TensorDescType`: shape of one block, element type, block attributes, lane map.

    A scattered descriptor has ``scatter`` attributes instead of block attributes.
    """

    shape: tuple[int, ...]
    element_type: Attribute
    block: BlockTdesc = BlockTdesc()
    sg_map: LaneMap | None = None
    scatter: ScatterTdesc | None = None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return of_mlir(self.element_type)


class DescriptorType(Data[TensorDesc], TypeAttribute):
    """Base of descriptor types in all versions of the dialect."""


@irdl_attr_definition
class TensorDescType(DescriptorType):
    """Descriptor type: ``!xegpu.tensor_desc<32x16xbf16, #xegpu.block_tdesc_attr<array_length = 2>, ...>``."""

    name = "xegpu.tensor_desc"

    def with_(self, **changes: object) -> TensorDescType:
        """Copy of this type with some parameters of :class:`TensorDesc` or of its block attributes replaced."""
        block = {name: value for name, value in changes.items() if hasattr(self.data.block, name)}
        rest = {name: value for name, value in changes.items() if name not in block}
        return TensorDescType(replace(self.data, block=replace(self.data.block, **block), **rest))  # type: ignore

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TensorDesc:
        block, sg_map, scatter = BlockTdesc(), None, None
        with parser.in_angle_brackets():
            shape, element_type = parser.parse_shape()
            while parser.parse_optional_punctuation(","):
                attribute = parser.parse_attribute()
                if isinstance(attribute, BlockTdescAttr):
                    block = attribute.data
                elif isinstance(attribute, SgMapAttr):
                    sg_map = attribute.data
                elif isinstance(attribute, ScatterTdescAttr):
                    scatter = attribute.data
                else:
                    not_of_descriptor(parser, attribute, "a #xegpu.block_tdesc_attr or #xegpu.scatter_tdesc_attr and "
                                      "a #xegpu.sg_map")
        return TensorDesc(tuple(shape or ()), element_type, block, sg_map, scatter)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{size}x" for size in self.data.shape))
            printer.print_attribute(self.data.element_type)
            if self.data.block != BlockTdesc():
                printer.print_string(", ")
                printer.print_attribute(BlockTdescAttr(self.data.block))
            if self.data.scatter is not None:
                printer.print_string(", ")
                printer.print_attribute(ScatterTdescAttr(self.data.scatter))
            if self.data.sg_map is not None:
                printer.print_string(", ")
                printer.print_attribute(SgMapAttr(self.data.sg_map))


MAP_NAMES = ("sg_map_a", "sg_map_b", "sg_map_c")
ENGINES = (8, 16)
"""Subgroup sizes of targets with a matrix engine."""


def spelled(lanes: LaneMap) -> str:
    """Spelling of a lane map in MLIR text."""
    return f"sg_map<wi_layout = {list(lanes.wi_layout)}, wi_data = {list(lanes.wi_data)}>"


def check_division(desc: TensorDesc) -> None:
    """Verify that a block is a whole number of units of its lane map ("Work Item Level semantics")."""
    if desc.sg_map is None:
        return
    try:
        rows, columns = (1, *desc.shape)[-2:]  # a line is one row
        desc.sg_map.fragment((rows, columns))
    except ShapeError as error:
        raise Invalid.of(error) from None


def check_load(desc: TensorDesc, packed: bool, transposes: bool) -> None:
    """Verify the lane map of a packed load (rows of a word in ``wi_data[0]``) or transposed one (lanes along rows)."""
    lanes = desc.sg_map
    if lanes is None:
        return
    if packed and lanes != (needed := lane_map.operand_b(lanes.lanes, desc.dtype.bits)):
        raise Invalid("XT3505",
                      f"a packed load needs wi_data = {list(needed.wi_data)}, the rows that 32 bits hold, and "
                      f"lanes along the columns\nuse {spelled(needed)}")
    if transposes and lanes.wi_layout[1] > 1:
        of_columns = LaneMap((lanes.lanes, 1), lanes.wi_data)
        raise Invalid("XT3506", "a transposed load needs its lanes along the rows, which become columns\n"
                      f"use {spelled(of_columns)}")


def needed_by_dpas(subgroup: int, bits: int, rows: int) -> tuple[LaneMap, LaneMap, LaneMap]:
    """Lane maps of A, B and C that DPAS requires ("Rules of sg_map setting").

    Args:
        subgroup: lanes of a subgroup.
        bits: of an element of A and of B.
        rows: of A and of C.
    """
    a, b = lane_map.operand_a(subgroup, bits, rows), lane_map.operand_b(subgroup, bits)
    return a, b, lane_map.default(subgroup, subgroup)


def check_fragment(value: SSAValue, element: Attribute, block: tuple[int, int], lanes: LaneMap) -> None:
    """Verify that a vector of ``element`` is a lane's fragment of a block by a lane map."""
    try:
        expected = lanes.fragment(block)
    except ShapeError as error:
        raise Invalid.of(error) from None
    if value.type != vector_type(expected, element):
        raise Invalid("XT3524", f"{value.type} is not a fragment of a block of {block[0]}x{block[1]} by "
                      f"{spelled(lanes)}\nwrite {vector_type(expected, element)}, or give the block where it is "
                      "another: block = [8, 16]")


def check_dpas(maps: tuple[LaneMap, LaneMap, LaneMap], bits: int, rows: int) -> None:
    """Verify that the lane maps of a DPAS are those of :func:`needed_by_dpas`."""
    subgroup = maps[2].lanes
    if subgroup not in ENGINES:
        raise Invalid("XT3507",
                      f"sg_map_c spreads C over {subgroup} lanes, and the matrix engine's subgroups have 8 or "
                      f"16\nuse {spelled(lane_map.default(16, 16))}, or [1, 8] on "
                      f"{listed(lambda target: target.subgroup_size == 8)}",
                      alone=True)
    for name, actual, needed in zip(MAP_NAMES, maps, needed_by_dpas(subgroup, bits, rows), strict=True):
        if actual != needed:
            raise Invalid("XT3508", f"{name} is {spelled(actual)}, in which the matrix engine does not take elements "
                          f"of {bits if name != 'sg_map_c' else 32} bits over {subgroup} lanes\n"
                          f"use {spelled(needed)}")


def check_line(lanes: LaneMap, elements: int, chunk: int) -> None:
    """Verify the lane map of a 1D or scattered descriptor: one element, or one chunk, a lane."""
    needed = LaneMap((elements, 1) if chunk > 1 else (1, elements))
    if lanes != needed:
        what = f"chunks of {chunk}" if chunk > 1 else "single elements"
        raise Invalid("XT3509", f"a descriptor of {what} spreads them one a lane, and this has {spelled(lanes)}\n"
                      f"use {spelled(needed)}")


def two_sizes(shape: tuple[int, ...]) -> tuple[int, int]:
    """Verify that a fragment is 2D (units of its map, elements a unit) and return its shape."""
    if len(shape) != 2:
        raise Invalid("XT3518", f"a fragment has two dimensions, and {list(shape)} has {len(shape)}\n"
                      "the first counts units of the map, the second the elements of a lane in each")
    return shape[0], shape[1]


# The part of a block that lies in its matrix, where that is known: ``valid = [rows, columns]`` of loads and stores.
#
#     %v = load_nd %a {in_bounds, valid = [17, 17]} : tensor_desc<24x32xbf16, access = rows>
#
# Behind these rows and columns are the next matrix's, not padding: zeros are loaded, and nothing is stored. Rows begin
# at any element, and the matrices from which they are counted, on 4-byte boundaries.


def repeats_row(desc: TensorDesc) -> bool:
    """Whether a block is a row of 8 words, which both halves of 16 lanes have: a message gives it to the lower ones."""
    lanes = desc.sg_map
    return desc.shape == (1, 8) and desc.dtype.bits == 32 and lanes is not None and lanes.wi_layout == (1, 8)


def valid_of(message: Any) -> tuple[int, int] | None:
    """Rows and columns of a load's or store's block that are in its matrix, if that is said; else None."""
    if message.valid is None:
        return None
    rows, columns = values_of(message.valid)
    return rows, columns


def check_valid(valid: IntegersAttr | None, desc: TensorDesc, *, may_be: bool) -> None:
    """Verify that the part of a block that is in its matrix is one.

    Args:
        valid: of a message, None if it has none.
        desc: of its blocks.
        may_be: whether the message is one of those that may have it.
    """
    if valid is None:
        return
    found, (rows, columns) = values_of(valid), (desc.shape[0], desc.shape[1] * desc.block.array_length)
    if len(found) != 2 or not (0 <= found[0] <= rows and 0 <= found[1] <= columns):
        raise Invalid("XT3125", f"valid = {list(found)} is not a part of a block of {rows} x {columns}\n"
                      f"write the rows and columns that are in its matrix, at most [{rows}, {columns}]", alone=True)
    if not may_be:
        raise Invalid("XT3125", "valid says which part of a block in bounds is in its matrix, and goes with in_bounds, "
                      "and without transpose\nwrite in_bounds, or leave valid out", alone=True)
