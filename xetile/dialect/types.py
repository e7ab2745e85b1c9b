"""XeTile attributes and types (XeTile.md), and the verifiers of element types, memory order and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType, VectorType
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xegpu.dialect.gather_scatter import LANES
from xegpu.dialect.hints import Hint
from xegpu.dialect.types import SgMapAttr, parse_fields, print_fields
from xegpu.ir.dtypes import DType, i1, integers_of, of_mlir, round_to
from xegpu.layout.lane_map import LaneMap
from xegpu.support.errors import ElementTypeError, Invalid, RankError, ShapeError, misread
from xegpu.support.lookahead import next_token
from xegpu.target.targets import TARGETS
from xetile.dialect.wg_map import Pair, WgMap, describe_map


@irdl_attr_definition
class WgMapAttr(Data[WgMap]):
    """Work-group map attribute: ``#xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]>``."""

    name = "xetile.wg_map"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> WgMap:
        fields = parse_fields(parser)
        try:
            return WgMap(fields["sg_layout"], fields["sg_data"])  # type: ignore[arg-type]
        except KeyError as missing:
            missing_field(parser, "wg_map", missing.args[0])
        except ShapeError as error:
            misread(parser, error.code, f"{error.message}\n{error.hint}")

    def print_parameter(self, printer: Printer) -> None:
        print_fields(printer, {"sg_layout": self.data.sg_layout, "sg_data": self.data.sg_data})


_FORMS = {"wg_map": "#xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]>",
          "sg_map": "#xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>"}
"""How the attributes of layouts are written, for messages."""


def missing_field(parser: AttrParser, attribute: str, name: str, at: Any = None) -> NoReturn:
    """Refuse a layout attribute without one of its fields."""
    misread(parser, "XT2056", f"a {attribute} needs {name}\nwrite {_FORMS[attribute]}", at)


def not_a_map(attribute: object, fail: Callable[[str, str, str], NoReturn]) -> NoReturn:
    """Refuse an attribute in the place of a ``wg_map``; ``fail`` takes a code, what is wrong and what would work."""
    fail("XT2054", f"{attribute} is not a wg_map", f"write {_FORMS['wg_map']}")


@dataclass(frozen=True)
class TileEncoding:
    """Encoding of a tile: order, work-group map, blocks, memory space.

    Attributes:
        order: order of the dimensions in memory; ``(1, 0)`` is row-major.
        wg_map: how the work-group's tile is distributed to subgroups; None on a subgroup's tile.
        inner_blocks: rows and columns of the blocks that memory operations move; None before blocking.
        array_length: blocks side by side that one memory operation moves.
        scatter: whether each element has an address of its own.
        memory_space: 3 for a tile of shared local memory, where the type says it.
        sg_map: which lane holds which element, where the type says it; the lowering chooses by itself.
    """

    order: Pair = (1, 0)
    wg_map: WgMap | None = None
    inner_blocks: Pair | None = None
    array_length: int = 1
    scatter: bool = False
    memory_space: int = 0
    sg_map: LaneMap | None = None


@irdl_attr_definition
class TileAttr(Data[TileEncoding]):
    """Tile attribute: ``#xetile.tile_attr<order = [0, 1], wg_map = <...>, inner_blocks = [16, 16]>``."""

    name = "xetile.tile_attr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TileEncoding:
        fields = parse_fields(parser)
        wg_map = fields.pop("wg_map", fields.pop("wg", None))
        if wg_map is not None and not isinstance(wg_map, WgMapAttr):
            not_a_map(wg_map, lambda code, message, hint: misread(parser, code, f"{message}\n{hint}"))
        lanes = fields.pop("sg_map", None)
        return TileEncoding(wg_map=wg_map.data if wg_map else None,
                            sg_map=lanes.data if isinstance(lanes, SgMapAttr) else None,
                            **fields)  # type: ignore[arg-type]

    def print_parameter(self, printer: Printer) -> None:
        fields: dict[str, object] = {}
        for name, value in vars(self.data).items():
            if value != getattr(TileEncoding, name):
                fields[name] = WgMapAttr(value) if isinstance(value, WgMap) else \
                    SgMapAttr(value) if isinstance(value, LaneMap) else value
        print_fields(printer, fields)


@dataclass(frozen=True)
class TileParameters:
    """Parameters of a :class:`TileType`: shape, element type, encoding."""

    shape: Pair
    element_type: Attribute
    encoding: TileEncoding = TileEncoding()

    @property
    def dtype(self) -> DType:
        """The element type."""
        return of_mlir(self.element_type)

    def blocked_shape(self) -> tuple[int, ...]:
        """Shape of a loaded vector: 2D, or 4D with ``inner_blocks``."""
        blocks = self.encoding.inner_blocks
        if blocks is None:
            return self.shape
        return (self.shape[0] // blocks[0], self.shape[1] // blocks[1], *blocks)


@irdl_attr_definition
class TileType(Data[TileParameters], TypeAttribute):
    """Tile type: ``!xetile.tile<256x32xbf16, #xetile.tile_attr<wg_map = #xetile.wg_map<...>>>``."""

    name = "xetile.tile"

    def with_(self, **changes: object) -> TileType:
        """This type with some parameters of :class:`TileParameters` or of its encoding replaced."""
        encoding = {name: value for name, value in changes.items() if name not in ("shape", "element_type")}
        rest = {name: value for name, value in changes.items() if name not in encoding}
        parameters = replace(self.data, encoding=replace(self.data.encoding, **encoding), **rest)  # type: ignore
        return TileType(parameters)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TileParameters:
        encoding = TileEncoding()
        with parser.in_angle_brackets():
            shape, element_type = parse_tile_shape(parser)
            if parser.parse_optional_punctuation(","):
                attribute = parser.parse_attribute()
                if not isinstance(attribute, TileAttr):
                    not_of_tile(parser, attribute)
                encoding = attribute.data
        return TileParameters(shape, element_type, encoding)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{size}x" for size in self.data.shape))
            printer.print_attribute(self.data.element_type)
            if self.data.encoding != TileEncoding():
                printer.print_string(", ")
                printer.print_attribute(TileAttr(self.data.encoding))


def parse_tile_shape(parser: AttrParser) -> tuple[Pair, Attribute]:
    """Parse the two static dimensions of a tile and its element type: ``64x32xbf16``."""
    at = next_token(parser).span
    shape, element_type = parser.parse_shape()
    if shape is None or len(shape) != 2 or not all(size > 0 for size in shape):
        misread(parser, "XT2057", "a tile has two static dimensions\nwrite !xetile.tile<64x32xbf16>", at)
    return (shape[0], shape[1]), element_type


def not_of_tile(parser: AttrParser, attribute: Attribute, at: Any = None) -> NoReturn:
    """Refuse an attribute in a tile's type that says nothing about a tile."""
    misread(parser, "XT2058", f"{attribute} is not an attribute of a tile\n"
            "write #xetile.tile_attr<order = [0, 1], wg_map = #map>", at)


def _dtype(element: Attribute) -> DType:
    """Element type of an MLIR type, verified."""
    try:
        return of_mlir(element)
    except ElementTypeError as error:
        raise Invalid.of(error) from None


def verify_element(tile: TileParameters) -> None:
    """Verify the element type of a tile."""
    _dtype(tile.element_type)


def check_order(order: object) -> None:
    """Verify that ``order`` permutes two dimensions."""
    if not isinstance(order, (tuple, list)) or tuple(order) not in ((1, 0), (0, 1)):
        raise Invalid("XT1107", f"order must be [1, 0] or [0, 1], not "
                      f"{list(order) if isinstance(order, (tuple, list)) else order!r:.40}\n"
                      "use [1, 0] for rows that are contiguous, [0, 1] for columns", alone=True)


def check_locality(locality: object) -> None:
    """Verify the locality of a prefetch."""
    if type(locality) is not int or not 0 <= locality <= 3:
        raise Invalid("XT1128", f"locality is 0, 1, 2 or 3, not {locality!r:.40}\n"
                      "use 3 to keep the tile close, 2 for what is needed later", alone=True)


def check_axis(axis: object) -> None:
    """Verify the axis of an iota."""
    if type(axis) is not int or axis not in (0, 1):
        raise Invalid("XT1155", f"a vector has axes 0 and 1, not {axis!r:.40}\nuse axis 0 for rows, 1 for columns",
                      alone=True, kind=RankError)


def verify_order(tile: TileParameters, what: str, sizes: Sequence[int | None], strides: Sequence[int | None],
                 *, described: bool) -> None:
    """Verify ``order`` against the static strides of the matrix (XeTile.md, Appendix 1).

    Args:
        tile: the tile.
        what: how messages call what it stands on.
        sizes, strides: rows and columns of the matrix, and elements from one to the next; None where they are known
            at run time only, when launches check them.
        described: whether operands say them; then rows need not be contiguous, as those of a run-time array need not.
    """
    (rows, columns), (down, across) = sizes, strides
    blocked = tile.encoding.inner_blocks is not None  # ``order`` then says how a block is read, not how it lies
    if tile.encoding.order == (1, 0) and not described and not blocked and down == 1 and across not in (None, 1) \
            and columns != 1:
        raise Invalid("XT2130",
                      f"the tile has order [1, 0], and its {what} is stored column by column: its strides are "
                      f"[{down}, {across}]\ngive the tile order = [0, 1], or the {what} a row-major layout")
    if tile.encoding.order == (0, 1) and down not in (None, 1) and rows != 1:
        raise Invalid("XT2131",
                      f"the tile has order [0, 1], and its {what} is not stored column by column: its strides "
                      f"are [{down}, {'?' if across is None else across}]\ndrop the order, or give a memref "
                      "the layout affine_map<(d0, d1) -> (d1, d0)>, an address the strides [1, pitch]")


def verify_padding(padding: Attribute, tile: TileParameters) -> None:
    """Verify that a padding is a number of the tile's element type."""
    number = number_of_padding(padding, tile.dtype)
    if padding.type != tile.dtype.mlir or isinstance(padding, FloatAttr) is not tile.dtype.is_float:  # type: ignore
        raise not_a_padding(padding, tile.dtype)
    check_padding(number, tile.dtype)


def number_of_padding(padding: Attribute, dtype: DType) -> float:
    """Number of a padding attribute, verified to be one."""
    if not isinstance(padding, (FloatAttr, IntegerAttr)):
        raise not_a_padding(padding, dtype)
    number = padding.value.data
    return abs(number) if dtype is i1 else number  # MLIR's true is -1


def not_a_padding(padding: Attribute, dtype: DType) -> Invalid:
    """Error for a padding that is no number of an element type."""
    return Invalid("XT2132", f"padding is {padding}, and the tile has elements of {dtype}\n"
                   f"give a number that {dtype} holds")


def check_padding(number: float, dtype: DType) -> None:
    """Verify that an element type holds a padding; floats are rounded."""
    if dtype.is_float:
        return
    held = integers_of(dtype)
    if (isinstance(number, float) and not number.is_integer()) or int(number) not in held:
        raise Invalid("XT1125", f"padding {number} does not fit {dtype}\ngive an integer from {held[0]} to {held[-1]}",
                      alone=True, kind=ElementTypeError)


def padding_attribute(number: float, dtype: DType) -> Attribute | None:
    """Padding attribute of a number that an element type holds; None for 0 without a sign, which is the default."""
    if not dtype.is_float:
        return IntegerAttr(int(number), dtype.mlir) if number else None  # type: ignore[call-overload,no-any-return]
    rounded = float(round_to(np.asarray(number), dtype).item())
    return FloatAttr(rounded, dtype.mlir) if rounded or np.signbit(rounded) else None  # type: ignore


def accumulators_of(a: DType, b: DType) -> list[DType]:
    """Element types in which some target accumulates products of ``a`` by ``b``, the usual one first."""
    forms = [form for target in TARGETS.values() for form in target.mma_shapes]
    found = [kind for form in forms if (form.a, form.b) == (a, b) for kind in form.accumulators]
    if not found:
        pairs = ", ".join(sorted({f"{form.a} x {form.b}" for form in forms}))
        raise Invalid("XT1251", f"no matrix engine multiplies {a} by {b}\ntile_mma takes {pairs}; convert with "
                      ".to(...) or view the array with xt.view(array, dtype)", kind=ElementTypeError)
    return list(dict.fromkeys(found))


def verify_product_types(a: Attribute, b: Attribute, result: Attribute) -> None:
    """Verify that some target has a matrix instruction for these operand and accumulator types."""
    kinds = [_dtype(type_.element_type) for type_ in (a, b, result) if isinstance(type_, VectorType)]
    sums = accumulators_of(kinds[0], kinds[1])
    if kinds[2] not in sums:
        names = " or ".join(sorted(map(str, sums)))
        raise Invalid("XT1252", f"{kinds[0]} by {kinds[1]} does not accumulate in {kinds[2]}\n"
                      f"make the accumulator of {names}, as in xt.zeros(shape, xt.{min(map(str, sums))})",
                      kind=ElementTypeError, about=("acc", "a", "b"))


def verify_memory_space(tile: TileParameters, source: Attribute) -> None:
    """Verify that a tile's memory space is that of its array."""
    tile_space = tile.encoding.memory_space
    if tile_space not in (0, 3):
        raise Invalid("XT2134",
                      f"there is no memory space {tile_space}\nuse 3 for shared local memory, 0 for global memory",
                      alone=True)
    if not tile_space or not isinstance(source, MemRefType):
        return
    space = source.memory_space.value.data if isinstance(source.memory_space, IntegerAttr) else 0
    if space != tile_space:
        raise Invalid("XT2135", f"the tile is in memory space {tile_space}, and {source} is in {space}\n"
                      "drop memory_space from the tile, or give the memref the space 3")


def verify_lanes(tile: TileParameters) -> None:
    """Verify that ``sg_map`` divides a subgroup's part of a tile evenly over lanes."""
    lanes, map_ = tile.encoding.sg_map, tile.encoding.wg_map
    if lanes is None:
        return
    if lanes.lanes not in LANES:
        raise Invalid("XT2136", f"wi_layout = {list(lanes.wi_layout)} has {lanes.lanes} lanes\n"
                      "a subgroup has 8, 16 or 32: make their product a power of two, up to 32", alone=True)
    shape = map_.sg_data if map_ else tile.shape
    if any(size % unit for size, unit in zip(shape, lanes.unit, strict=True)):
        raise Invalid("XT2137", f"a subgroup's part of {shape[0]}x{shape[1]} does not divide into units of "
                      f"{lanes.unit[0]}x{lanes.unit[1]}, which is wi_layout x wi_data\n"
                      "make wi_layout x wi_data divide it", alone=True)


def verify_same_map(value: WgMap | None, tile: WgMap | None, name: str = "vector") -> None:
    """Verify that a stored vector, or a mask, has the map of its tile.

    Args:
        value: map of the operand.
        tile: map of the tile.
        name: what messages call the operand.
    """
    if value != tile:
        hint = "give both a wg_map, or neither" if value is None or tile is None else \
            f"give both the same wg_map, or bring the {name} over: xt.tile_conv_layout(v, {tile})"
        raise Invalid("XT1401", f"the {name} is {describe_map(value)}, the tile {describe_map(tile)}\n{hint}")


def verify_same_subgroups(source: WgMap | None, result: WgMap) -> None:
    """Verify that two maps of one kernel, or of a vector before and after, distribute to as many subgroups."""
    if source is not None and source.subgroups != result.subgroups:
        raise Invalid("XT1070", f"{result} has {result.subgroups} subgroups, and {source} has {source.subgroups}\n"
                      "all maps of a kernel distribute over one work-group: make the product of every sg_layout "
                      f"{source.subgroups}")


def verify_product_maps(a: WgMap | None, b: WgMap | None, acc: WgMap | None, result: WgMap | None, depth: int,
                        known: Sequence[str] = ()) -> None:
    """Verify that each subgroup owns the operands of its part of a product (XeTile.md, ``tile_mma`` with ``wg_map``).

    Args:
        a, b, acc: maps of the operands.
        result: the result's map.
        depth: columns of A, rows of B.
        known: operands (``"a"``, ``"b"``, ``"acc"``) that have no map if theirs is None; that of others is
            unknown then.
    """
    maps = {"a": a, "b": b}
    if result is None:
        if mapped := next((name for name, map_ in maps.items() if map_ is not None), None):
            bare = next((name.upper() for name in maps if maps[name] is None and name in known),
                        "the accumulator" if "acc" in known else "the result")
            raise Invalid("XT1410", f"{mapped.upper()} of tile_mma is {describe_map(maps[mapped])}, and {bare} has no "
                          "wg_map\ngive the tiles of A, B and the accumulator each a wg_map, or none of them",
                          about=("a", "b"))
        return
    if (acc is not None or "acc" in known) and acc != result:
        raise Invalid("XT1411", f"the accumulator is {describe_map(acc)}, the result {describe_map(result)}\n"
                      f"make the accumulator with wg_map={result}", about=("acc",))
    for axis, (name, map_) in enumerate(maps.items()):
        if map_ is None and name not in known:
            continue
        data = (result.sg_data[0], depth) if axis == 0 else (depth, result.sg_data[1])
        if map_ is None or not (map_.sg_layout == result.sg_layout and map_.sg_data[axis] == result.sg_data[axis]
                                and map_.is_undivided(1 - axis, depth)):
            needed = WgMap(result.sg_layout, data)
            raise Invalid("XT1412", f"{name.upper()} is {describe_map(map_)}, but a result of {result} needs {needed}"
                          f"\ngive {name.upper()}'s tile {needed}", about=(name,))
    if a is not None and b is not None and a.sg_data[1] != b.sg_data[0]:
        raise Invalid("XT1413", f"A is cut into blocks of {a.sg_data[1]} along K and B into blocks of {b.sg_data[0]}: "
                      f"{a} and {b}\nmake both {depth}, or both the same divisor of it", about=("a", "b"))


@irdl_attr_definition
class CacheHintAttr(Hint):
    """Cache hint of loads, stores and prefetches: ``#xetile.cache_hint<cached>``, as in mlir-extensions."""

    name = "xetile.cache_hint"
