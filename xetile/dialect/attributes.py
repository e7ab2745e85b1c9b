"""Attributes and types of the XeTile dialect (XeTile.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xegpu.dialect.types import SgMapAttr, parse_fields, print_fields
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.layout.lane_map import LaneMap
from xegpu.support.errors import ShapeError, misread
from xetile.distribution import Pair, WgMap


@irdl_attr_definition
class WgMapAttr(Data[WgMap]):
    """``#xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]>``."""

    name = "xetile.wg_map"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> WgMap:
        fields = parse_fields(parser)
        try:
            return WgMap(fields["sg_layout"], fields["sg_data"])  # type: ignore[arg-type]
        except KeyError as missing:
            misread(parser, "XT2056", f"a wg_map needs {missing.args[0]}\n"
                    "write <sg_layout = [8, 4], sg_data = [32, 64]>")
        except ShapeError as error:
            misread(parser, error.code, f"{error.message}\n{error.hint}")

    def print_parameter(self, printer: Printer) -> None:
        print_fields(printer, {"sg_layout": self.data.sg_layout, "sg_data": self.data.sg_data})


@dataclass(frozen=True)
class TileEncoding:
    """What a tile says beyond its shape.

    Attributes:
        order: order of the dimensions in memory; ``(1, 0)`` is row-major.
        wg_map: how the work-group's tile is dealt to subgroups; None on a subgroup's tile.
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
    """``#xetile.tile_attr<order = [0, 1], wg_map = <...>, inner_blocks = [16, 16]>``."""

    name = "xetile.tile_attr"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TileEncoding:
        fields = parse_fields(parser)
        wg_map = fields.pop("wg_map", fields.pop("wg", None))
        if wg_map is not None and not isinstance(wg_map, WgMapAttr):
            misread(parser, "XT2054", f"{wg_map} is not a wg_map\n"
                    "write #xetile.wg_map<sg_layout = [8, 4], sg_data = [32, 64]>")
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
    """The parameters of a :class:`TileType`."""

    shape: Pair
    element_type: Attribute
    encoding: TileEncoding = TileEncoding()

    @property
    def dtype(self) -> DType:
        """The element type."""
        return of_mlir(self.element_type)

    def blocked_shape(self) -> tuple[int, ...]:
        """The shape of the vector that a load gives: two dimensions, four with ``inner_blocks``."""
        blocks = self.encoding.inner_blocks
        if blocks is None:
            return self.shape
        return (self.shape[0] // blocks[0], self.shape[1] // blocks[1], *blocks)


@irdl_attr_definition
class TileType(Data[TileParameters], TypeAttribute):
    """``!xetile.tile<256x32xbf16, #xetile.tile_attr<wg_map = #xetile.wg_map<...>>>``."""

    name = "xetile.tile"

    def with_(self, **changes: object) -> TileType:
        """This type with some parameters changed: those of :class:`TileParameters` or of its encoding."""
        encoding = {name: value for name, value in changes.items() if name not in ("shape", "element_type")}
        rest = {name: value for name, value in changes.items() if name not in encoding}
        parameters = replace(self.data, encoding=replace(self.data.encoding, **encoding), **rest)  # type: ignore
        return TileType(parameters)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TileParameters:
        encoding = TileEncoding()
        with parser.in_angle_brackets():
            shape, element_type = parser.parse_shape()
            if shape is None or len(shape) != 2 or not all(size > 0 for size in shape):
                misread(parser, "XT2057", "a tile has two static dimensions\nwrite !xetile.tile<64x32xbf16>")
            if parser.parse_optional_punctuation(","):
                attribute = parser.parse_attribute()
                if not isinstance(attribute, TileAttr):
                    misread(parser, "XT2058", f"{attribute} is not an attribute of a tile\n"
                            "write #xetile.tile_attr<order = [0, 1]>")
                encoding = attribute.data
        return TileParameters((shape[0], shape[1]), element_type, encoding)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("".join(f"{size}x" for size in self.data.shape))
            printer.print_attribute(self.data.element_type)
            if self.data.encoding != TileEncoding():
                printer.print_string(", ")
                printer.print_attribute(TileAttr(self.data.encoding))
