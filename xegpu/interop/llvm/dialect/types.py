"""Attributes and types of LLVM's XeGPU dialect: layouts, cache hints, block attributes, tensor descriptors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IndexType, i64
from xdsl.dialects.utils.dynamic_index_list import (
    get_dynamic_index_list,
    parse_dynamic_index_list_without_types,
    print_dynamic_index_list,
)
from xdsl.ir import Attribute, Data, SSAValue, TypeAttribute
from xdsl.irdl import base, irdl_attr_definition
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer

from xegpu.dialect.types import (
    SgMapAttr,
    no_value_of_field,
    not_of_descriptor,
    parse_field_name,
    parse_fields,
    print_fields,
)
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.support.errors import Invalid, misread
from xegpu.target.cache_policy import READS

Sizes = tuple[int, ...]
HINTS = {"load": READS, "prefetch": READS, "store": ("cached", "uncached", "write_back", "write_through")}
"""Cache policies by kind of message; ``cached`` on a store is LLVM's spelling of write-back."""


@dataclass(frozen=True)
class Layout:
    """Distribution of a tile, from the work-group down to the lane; None for unspecified levels.

    Attributes:
        sg_layout: subgroups along each dimension.
        sg_data: shape of one subgroup's part.
        inst_data: shape of one instruction's part.
        lane_layout: lanes along each dimension.
        lane_data: adjacent elements of one lane.
        order: the order of the dimensions in which ids run, the fastest first; ``(1, 0)`` by default.
    """

    sg_layout: Sizes | None = None
    sg_data: Sizes | None = None
    inst_data: Sizes | None = None
    lane_layout: Sizes | None = None
    lane_data: Sizes | None = None
    order: Sizes | None = None

    def __str__(self) -> str:
        return str(LayoutAttr(self))

    @property
    def specified(self) -> dict[str, Sizes]:
        """Specified fields."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def is_row_major(self) -> bool:
        """Whether ids are row-major."""
        return self.order is None or self.order == tuple(reversed(range(len(self.order))))

    def check(self, shape: Sizes) -> None:
        """Verify that the layout distributes ``shape``: ranks agree and every level divides the one above.

        Raises:
            VerifyException: it does not.
        """
        if name := next((name for name, value in self.specified.items() if len(value) != len(shape)), None):
            raise Invalid("XT3610", f"{name} has {len(self.specified[name])} dimensions, and the tile {len(shape)}\n"
                          "give each field of the layout one number a dimension")
        if not (self.sg_layout or self.inst_data or self.lane_layout):
            raise Invalid("XT3611", "the layout distributes nothing\ngive it sg_layout, inst_data or lane_layout")
        level = shape
        for layout, data in ((self.sg_layout, self.sg_data), (None, self.inst_data),
                             (self.lane_layout, self.lane_data)):
            level = _owned_shape(level, layout, data)


def _owned_shape(shape: Sizes, layout: Sizes | None, data: Sizes | None) -> Sizes:
    """Shape of one owner's part of ``shape``, distributed round-robin in pieces, or replicated."""
    owners = layout or (1,) * len(shape)
    part = data or tuple(max(size // n, 1) for size, n in zip(shape, owners, strict=True))
    for size, piece, count in zip(shape, part, owners, strict=True):
        if size % (piece * count) and piece != size:
            raise Invalid("XT3612", f"{count} owners of pieces of {piece} do not share {size} elements\n"
                          f"make {size} a multiple of {piece * count}, or each piece {size}")
    return part


@irdl_attr_definition
class LayoutAttr(Data[Layout]):
    """Layout attribute: ``#xegpu.layout<sg_layout = [8, 4], sg_data = [32, 64], inst_data = [8, 16]>``."""

    name = "xegpu.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Layout:
        specified = parse_fields(parser, [field.name for field in fields(Layout)], "a layout")
        for name, value in specified.items():
            if not isinstance(value, tuple) or (name != "order" and min(value, default=1) < 1):
                shown = list(value) if isinstance(value, tuple) else value
                misread(parser, "XT3614", f"{name} of a layout is a list of positive numbers, not {shown}\n"
                        f"write {name} = [8, 4]")
        layout = Layout(**specified)  # type: ignore[arg-type]
        if bool(layout.sg_data) != bool(layout.sg_layout):
            misread(parser, "XT3615", "sg_layout and sg_data go together\ngive both")
        if bool(layout.lane_data) != bool(layout.lane_layout):
            misread(parser, "XT3616", "lane_layout and lane_data go together\ngive both")
        if len(ranks := {len(value) for value in layout.specified.values()}) > 1:
            shown = ", ".join(f"{name} = {list(value)}" for name, value in layout.specified.items())
            misread(parser, "XT3610", f"{shown} have {' and '.join(map(str, sorted(ranks)))} dimensions\n"
                    "give each field of the layout one number a dimension")
        if layout.order and not (layout.sg_layout or layout.lane_layout):
            misread(parser, "XT3611", "an order alone distributes nothing\ngive sg_layout or lane_layout with it")
        if layout.order and sorted(layout.order) != list(range(len(layout.order))):
            misread(parser, "XT3617", f"order = {list(layout.order)} does not name each dimension once\n"
                    "write order = [1, 0], the dimension in which ids run first in front")
        return layout

    def print_parameter(self, printer: Printer) -> None:
        print_fields(printer, dict(self.data.specified))


@dataclass(frozen=True)
class Slice:
    """Slice of a layout, without some dimensions: the layout of a reduced vector.

    Attributes:
        parent: the layout with all dimensions.
        dims: the dropped dimensions.
    """

    parent: LayoutAttr | SliceAttr
    dims: Sizes

    @property
    def rank(self) -> int:
        """Dimensions that the slice drops from: those of the layout, or those that remain after an inner slice."""
        if isinstance(self.parent, SliceAttr):
            return self.parent.data.rank - len(self.parent.data.dims)
        return len(next(iter(self.parent.data.specified.values()), ()))


@irdl_attr_definition
class SliceAttr(Data[Slice]):
    """Slice attribute: ``#xegpu.slice<#xegpu.layout<...>, dims = [0]>``."""

    name = "xegpu.slice"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Slice:
        with parser.in_angle_brackets():
            parent = parser.parse_attribute()
            if not isinstance(parent, (LayoutAttr, SliceAttr)):
                misread(parser, "XT3618", f"a slice is one of a #xegpu.layout, not of {parent}\n"
                        "write #xegpu.slice<#xegpu.layout<sg_layout = [8, 4]>, dims = [0]>")
            parser.parse_punctuation(",")
            parser.parse_keyword("dims")
            parser.parse_punctuation("=")
            dims = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        rank = Slice(parent, tuple(dims)).rank
        if (rank and not set(dims) <= set(range(rank))) or len(set(dims)) < len(dims):
            misread(parser, "XT3608", f"dims = {dims} of a layout of {rank} dimensions\n"
                    f"name those that a reduction dropped once, of {', '.join(map(str, range(rank)))}")
        return Slice(parent, tuple(dims))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.data.parent)
            printer.print_string(f", dims = {list(self.data.dims)}")


LAYOUT = base(LayoutAttr) | base(SliceAttr)
"""Constraint of layout attributes."""


def _typed_integer(parser: AttrParser) -> int:
    """Integer, with its type as mlir-opt prints it, or without."""
    value = parser.parse_integer()
    if parser.parse_optional_punctuation(":"):
        parser.parse_type()
    return value


@irdl_attr_definition
class RangeAttr(Data[Sizes]):
    """Range attribute ``#xegpu.range<[3, 8]>``: the subgroups that run a region, from the first to below the last."""

    name = "xegpu.range"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Sizes:
        with parser.in_angle_brackets():
            ends = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _typed_integer(parser))
        if len(ends) != 2:
            misread(parser, "XT3626", f"a range has two ends, not {ends}\nwrite #xegpu.range<[0, 4]>")
        return tuple(ends)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(list(self.data)))


@dataclass(frozen=True)
class Block:
    """Block attributes of a tensor descriptor.

    Attributes:
        memory_space: ``"global"`` or ``"slm"``.
        array_length: blocks side by side.
        boundary_check: whether elements outside the array read as zero and are not written.
    """

    memory_space: str = "global"
    array_length: int = 1
    boundary_check: bool = True


_BLOCK_FIELDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "memory_space": (lambda value: value in ("global", "slm"), "use global or slm"),
    "array_length": (lambda value: isinstance(value, int) and value > 0, "use 1, 2 or 4 blocks side by side"),
    "boundary_check": (lambda value: isinstance(value, bool), "use true or false"),
}
"""Predicate of each block attribute field's values, and a hint."""
_OLD_SPACE = "memory_scope"
"""The name of ``memory_space`` until LLVM 19."""


@irdl_attr_definition
class BlockAttr(Data[Block]):
    """Block attribute: ``#xegpu.block_tdesc_attr<array_length = 2 : i64>``; defaults are not printed."""

    name = "xegpu.block_tdesc_attr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Block:
        specified: dict[str, object] = {}

        def field() -> None:
            name = parse_field_name(parser, (*_BLOCK_FIELDS, _OLD_SPACE), "a block_tdesc_attr")
            parser.parse_punctuation("=")
            specified["memory_space" if name == _OLD_SPACE else name] = _field_value(parser)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, field)
        for name, (fits, hint) in _BLOCK_FIELDS.items():
            if name in specified and not fits(specified[name]):
                no_value_of_field(parser, name, specified[name], hint)
        return Block(**specified)  # type: ignore[arg-type]

    def print_parameter(self, printer: Printer) -> None:
        default = Block()
        print_fields(printer, {k: v for k, v in vars(self.data).items() if v != getattr(default, k)})


def _field_value(parser: AttrParser) -> object:
    """Parse a boolean, an integer with or without a type, or a keyword, bare or as in ``#xegpu.memory_space<slm>``."""
    if (boolean := parser.parse_optional_boolean()) is not None:
        return boolean
    if (integer := parser.parse_optional_integer()) is not None:
        if parser.parse_optional_punctuation(":"):
            parser.parse_type()
        return integer
    return parser.parse_identifier()


@dataclass(frozen=True)
class Desc:
    """Parameters of a :class:`DescType`: shape of a block, element type, block attributes, layout.

    The layout is a ``sg_map`` in text of LLVM 20, until that is lowered (:mod:`xetile.text.llvm.sg_maps`).
    """

    shape: Sizes
    element_type: Attribute
    block: Block = Block()
    layout: LayoutAttr | SliceAttr | SgMapAttr | None = None

    @property
    def dtype(self) -> DType:
        """Element type."""
        return of_mlir(self.element_type)

    def loaded(self, packed: bool = False) -> Sizes:
        """Shape of the vector that a subgroup loads: ``[array_length,] rows, columns``, or in VNNI form."""
        length = self.block.array_length
        array = (length,) if length > 1 else ()
        if not packed:
            return (*array, *self.shape)
        factor = 32 // self.dtype.bits
        return (*array, self.shape[0] // factor, self.shape[1], factor)


@irdl_attr_definition
class DescType(Data[Desc], TypeAttribute):
    """Descriptor type: ``!xegpu.tensor_desc<16x16xbf16, #xegpu.block_tdesc_attr<...>, #xegpu.layout<...>>``."""

    name = "xegpu.tensor_desc"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Desc:
        block, layout = Block(), None
        with parser.in_angle_brackets():
            shape, element_type = parser.parse_shape()
            while parser.parse_optional_punctuation(","):
                attribute = parser.parse_attribute()
                if isinstance(attribute, BlockAttr):
                    block = attribute.data
                elif isinstance(attribute, (LayoutAttr, SliceAttr, SgMapAttr)):
                    layout = attribute
                else:
                    not_of_descriptor(parser, attribute, "a #xegpu.block_tdesc_attr and a #xegpu.layout")
        if not shape or prod(shape) <= 0:
            misread(parser, "XT3620", "a tensor_desc has static dimensions\nwrite the sizes of a block: "
                    "!xegpu.tensor_desc<8x16xf16>")
        if isinstance(layout, LayoutAttr):
            try:
                layout.data.check(tuple(shape))
            except Invalid as error:
                misread(parser, error.code, str(error))
        return Desc(tuple(shape), element_type, block, layout)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{size}x" for size in self.data.shape))
            printer.print_attribute(self.data.element_type)
            if self.data.block != Block():
                printer.print_string(", ")
                printer.print_attribute(BlockAttr(self.data.block))
            if self.data.layout is not None:
                printer.print_string(", ")
                printer.print_attribute(self.data.layout)



Mixed = Sequence[SSAValue | int]
"""Mixed list of SSA index values and literal integers."""


def desc_of(value: SSAValue) -> Desc:
    """Type parameters of a descriptor value."""
    assert isinstance(value.type, DescType)
    return value.type.data


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Shape of a vector value."""
    return value.type.get_shape()  # type: ignore[attr-defined,no-any-return]


def split(values: Mixed) -> tuple[list[SSAValue], DenseArrayBase]:
    """Split a mixed list into its SSA values, and its literals with a dynamic marker for each value."""
    literal = [value if isinstance(value, int) else DYNAMIC_INDEX for value in values]
    return [value for value in values if not isinstance(value, int)], DenseArrayBase.from_list(i64, literal)


def check_offsets(offsets: Sequence[object], desc: SSAValue, shape: Sequence[int]) -> None:
    """Verify that an operation has an offset for each dimension of its descriptor or matrix."""
    if len(offsets) != len(shape):
        raise Invalid("XT3605", f"{len(offsets)} offsets for {desc.type}\ngive one a dimension")


def joined(values: Sequence[SSAValue], literals: Any) -> list[SSAValue | int]:
    """Join values and literals, the inverse of :func:`split`; without literals the values alone."""
    if literals is None:
        return list(values)
    numbers = literals.get_values()
    if (needed := list(numbers).count(DYNAMIC_INDEX)) != len(values):
        raise Invalid("XT2001", f"its literals leave {needed} positions to values, and there are {len(values)}\n"
                      "write the list in square brackets: [%i, 8]")
    return get_dynamic_index_list(numbers, values, DYNAMIC_INDEX)


def parse_mixed(parser: Parser) -> tuple[Sequence[UnresolvedOperand], DenseArrayBase]:
    """Parse a mixed list, ``[%i, 8]``: unresolved operands, and the literals."""
    values, literals = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
    return values, DenseArrayBase.from_list(i64, literals)


def print_mixed(printer: Printer, values: Sequence[SSAValue], literals: Any) -> None:
    """Print a mixed list as :func:`parse_mixed` reads it."""
    integers = [DYNAMIC_INDEX] * len(values) if literals is None else literals.get_values()
    print_dynamic_index_list(printer, DYNAMIC_INDEX, values, integers)


def resolved(parser: Parser, values: Sequence[UnresolvedOperand]) -> list[SSAValue]:
    """Resolve operands as values of type index."""
    return [parser.resolve_operand(value, IndexType()) for value in values]
