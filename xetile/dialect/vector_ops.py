"""Operations of the XeTile dialect on vectors alone: reductions, broadcasts, other layouts (XeTile.md).

All keep two dimensions, or the four of blocked vectors, whose axes then come in pairs: ``[1, 3]`` or ``[0, 2]``. On a
work-group's vectors ``wg_map`` says how the result is dealt out.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IndexType, IntegerAttr, StringAttr, VectorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from xegpu.dialect.vector import check_split_rows, split_rows
from xegpu.ir.combining_kind import kind_of
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.layout import iota
from xegpu.support.errors import ElementTypeError, Invalid, XeError
from xetile.dialect.tile_ops import check_map, shape_of, text
from xetile.dialect.types import WgMapAttr
from xetile.dialect.wg_map import WgMap
from xetile.dialect.wg_map_inference import TransformsWgMap, map_of

VECTOR = base(VectorType)


def _element(value: SSAValue) -> Attribute:
    type_ = value.type
    assert isinstance(type_, VectorType)
    element: Attribute = type_.element_type
    return element


def _axes(axes: Sequence[int]) -> ArrayAttr[IntegerAttr]:
    return ArrayAttr([IntegerAttr(axis, i64) for axis in axes])


def axes_of(operation: TileReduceOp | TileBroadcastOp) -> tuple[int, ...]:
    """The dimensions that a reduction or a broadcast is along."""
    return tuple(axis.value.data for axis in operation.axes)


def _check_axes(operation: TileReduceOp | TileBroadcastOp, what: str) -> None:
    axes, rank = axes_of(operation), len(shape_of(operation.source))
    if rank not in (2, 4) or len(shape_of(operation.result)) != rank:
        raise Invalid("XT2160", f"{operation.name} takes a vector of two dimensions, or of four if it is blocked, and "
                      "keeps them\nmake it two-dimensional first, such as 1x32")
    options = [[0], [1], [0, 1]] if rank == 2 else [[0, 2], [1, 3], [0, 1, 2, 3]]
    if sorted(axes) not in options:
        names = " or ".join(map(str, options))
        raise Invalid("XT1224", f"{list(axes)} are no dimensions to {what} of a vector of rank {rank}\nuse {names}")


def _check_maps(operation: IRDLOperation, source: SSAValue, given: WgMapAttr | None, result: SSAValue) -> WgMap | None:
    """The source's map if it is known; the result's is checked by itself."""
    if given is not None:
        if len(shape_of(result)) != 2:
            raise Invalid("XT2162", f"{operation.name} of a blocked vector takes no wg_map\n"
                          "leave the map out: blocks are those of one subgroup, after the tile is dealt out")
        check_map(given.data, shape_of(result))
    return map_of(source)


class _AxesOp(IRDLOperation):
    """What reductions and broadcasts share: ``%v [1] {attributes} : type -> type``."""

    def _print_rest(self, printer: Printer) -> None:
        source, result = self.operands[0], self.results[0]
        printer.print_operand(source)
        printer.print_string(f" [{', '.join(str(axis) for axis in axes_of(self))}]")  # type: ignore[arg-type]
        shown = {**self.attributes, **({"wg_map": self.properties["wg_map"]} if "wg_map" in self.properties else {})}
        if shown:
            printer.print_string(" ")
            printer.print_attribute(DictionaryAttr(shown))
        printer.print_string(" : ")
        printer.print_attribute(source.type)
        printer.print_string(" -> ")
        printer.print_attribute(result.type)

    @classmethod
    def _parse_rest(cls, parser: Parser, properties: dict[str, Attribute]) -> _AxesOp:
        source = parser.parse_unresolved_operand()
        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        attributes = dict(parser.parse_optional_attr_dict())
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(source, parser.parse_type())
        parser.parse_punctuation("->")
        given = {"wg_map": attributes.pop("wg_map")} if "wg_map" in attributes else {}
        return cls.create(operands=[operand], result_types=[parser.parse_type()], attributes=attributes,
                          properties={**properties, "axes": _axes(axes), **given})


@operation_definition
class TileReduceOp(_AxesOp):
    """``xetile.tile_reduce <add> %v [1] : vector<64x32xf32> -> vector<64x1xf32>``."""

    name = "xetile.tile_reduce"
    source = operand_def(VECTOR)
    kind = prop_def(StringAttr)
    axes = prop_def(ArrayAttr)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure(), TransformsWgMap(
        lambda op, source: source.collapsed([axis.value.data for axis in op.axes])))

    def __init__(self, kind: str, source: SSAValue, axes: Sequence[int], wg_map: WgMap | None = None) -> None:
        shape = [1 if axis in axes else size for axis, size in enumerate(shape_of(source))]
        super().__init__(operands=[source], result_types=[VectorType(_element(source), shape)],
                         properties={"kind": StringAttr(kind), "axes": _axes(axes),
                                     "wg_map": WgMapAttr(wg_map) if wg_map else None})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" <{self.kind.data}> ")
        self._print_rest(printer)

    @classmethod
    def parse(cls, parser: Parser) -> TileReduceOp:
        parser.parse_punctuation("<")
        kind = parser.parse_identifier()
        parser.parse_punctuation(">")
        return cls._parse_rest(parser, {"kind": StringAttr(kind)})  # type: ignore[return-value]

    def verify_(self) -> None:
        _check_axes(self, "reduce")
        shape, axes = shape_of(self.source), axes_of(self)
        reduced = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        if shape_of(self.result) != reduced or _element(self.result) != _element(self.source):
            raise Invalid("XT2163", f"reducing {self.source.type} along {list(axes)} gives a "
                          f"vector<{text(reduced)}x{_element(self.source)}>, not {self.result.type}\n"
                          "what is reduced stays as dimensions of size 1, and the element type stays")
        try:
            dtype = of_mlir(_element(self.source))
            if kind_of(self.kind.data, dtype) != self.kind.data:
                raise Invalid("XT3256", f"{self.kind.data} is no kind of reduction\n"
                              f"of {dtype} it is {kind_of(self.kind.data, dtype)}")
        except ElementTypeError as error:
            raise Invalid.of(error) from None
        source = _check_maps(self, self.source, self.wg_map, self.result)
        if source is not None and self.wg_map is not None:
            check_reduced(source, axes, self.wg_map.data)


def check_reduced(source: WgMap, axes: Sequence[int], result: WgMap) -> None:
    """Raise a verifier's error unless ``result`` is what a reduction of a vector that ``source`` deals out has."""
    if source.collapsed(axes) != result:
        raise Invalid("XT1414", f"a vector dealt out as {source} and reduced along {list(axes)} is not dealt out as "
                      f"{result}\nits map is {source.collapsed(axes)}; xt.tile_conv_layout(v, wg_map) gives "
                      "it another")


@operation_definition
class TileBroadcastOp(_AxesOp):
    """``xetile.tile_broadcast %v [0] : vector<1x32xf32> -> vector<64x32xf32>``."""

    name = "xetile.tile_broadcast"
    source = operand_def(VECTOR)
    axes = prop_def(ArrayAttr)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, shape: Sequence[int], axes: Sequence[int],
                 wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[source], result_types=[VectorType(_element(source), shape)],
                         properties={"axes": _axes(axes), "wg_map": WgMapAttr(wg_map) if wg_map else None})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self._print_rest(printer)

    @classmethod
    def parse(cls, parser: Parser) -> TileBroadcastOp:
        return cls._parse_rest(parser, {})  # type: ignore[return-value]

    def verify_(self) -> None:
        _check_axes(self, "broadcast")
        shape, result, axes = shape_of(self.source), shape_of(self.result), axes_of(self)
        if wide := [axis for axis in axes if shape[axis] != 1]:
            raise Invalid("XT1220", f"dimension {wide[0]} of {text(shape)} has {shape[wide[0]]} elements: only one of "
                          f"size 1 is broadcast\nreduce it first, or leave {wide[0]} out of the dimensions")
        kept = tuple(result[axis] if axis in axes else size for axis, size in enumerate(shape))
        if kept != result or _element(self.result) != _element(self.source):
            raise Invalid("XT2165", f"broadcasting {self.source.type} along {list(axes)} does not give "
                          f"{self.result.type}\nthe other dimensions and the element type stay")
        source = _check_maps(self, self.source, self.wg_map, self.result)
        if source is not None:
            check_broadcast(source, axes, self.wg_map.data if self.wg_map else None)


def check_broadcast(source: WgMap, axes: Sequence[int], result: WgMap | None) -> None:
    """Raise a verifier's error unless a vector that ``source`` deals out is broadcast to one that ``result`` does."""
    if result is None:
        raise Invalid("XT1415", f"the vector is dealt out as {source}, and how its broadcast is cannot be derived from "
                      "that\ngive the result a wg_map")
    if result.collapsed(axes) != source:
        raise Invalid("XT1417",
                      f"a vector dealt out as {source} is not broadcast along {list(axes)} to one dealt out as "
                      f"{result}\nthe source's map must be {result.collapsed(axes)}: the same sg_layout, and "
                      "sg_data of 1 along the broadcast; xt.tile_conv_layout(v, wg_map) gives it that")


@operation_definition
class TileConvLayoutOp(IRDLOperation):
    """The same vector dealt to the subgroups by another map, ``wg_map``; ``source_map`` repeats that of the source."""

    name = "xetile.tile_conv_layout"
    source = operand_def(VECTOR)
    wg_map = prop_def(WgMapAttr)
    source_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, wg_map: WgMap, source_map: WgMap | None = None) -> None:
        super().__init__(operands=[source], result_types=[source.type],
                         properties={"wg_map": WgMapAttr(wg_map),
                                     "source_map": WgMapAttr(source_map) if source_map else None})

    def verify_(self) -> None:
        if self.source.type != self.result.type:
            raise Invalid("XT2166",
                          f"another layout makes of {self.source.type} the same type, not {self.result.type}\n"
                          "convert or reshape before or afterwards")
        if len(shape_of(self.source)) != 2:
            raise Invalid("XT1152", f"a wg_map deals out two dimensions, not {len(shape_of(self.source))}\n"
                          "use tile_unpack first, tile_pack afterwards")
        source = _check_maps(self, self.source, self.wg_map, self.result)
        if self.source_map is not None:
            check_map(self.source_map.data, shape_of(self.source))
            if source is not None and source != self.source_map.data:
                raise Invalid("XT2076", f"the vector is dealt out as {source}, and the operation says "
                              f"{self.source_map.data}\nleave the second map out, or make it the vector's")
        if source is not None and source.subgroups != self.wg_map.data.subgroups:
            raise Invalid("XT1070", f"{source} has {source.subgroups} subgroups, and {self.wg_map.data} has "
                          f"{self.wg_map.data.subgroups}\nboth deal to the subgroups of one work-group")


@operation_definition
class TileBitcastOp(IRDLOperation):
    """A vector of words as narrower elements: row ``i`` becomes rows, the lowest bits first. It goes beyond the seed.

    ``%h = xetile.tile_bitcast %w : vector<16x64xui32> -> vector<32x64xf16>``. Rows of blocked vectors are those of
    their blocks.
    """

    name = "xetile.tile_bitcast"
    source = operand_def(VECTOR)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure(), TransformsWgMap(lambda op, source: source.split(op.factor)))
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, element: Attribute, wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[source], result_types=[split_rows(source, element)],
                         properties={"wg_map": WgMapAttr(wg_map) if wg_map else None})

    @property
    def factor(self) -> int:
        """Rows that one row becomes."""
        return of_mlir(_element(self.source)).bits // of_mlir(_element(self.result)).bits

    def verify_(self) -> None:
        if len(shape_of(self.source)) not in (2, 4):
            raise Invalid("XT2291", f"{self.source.type} has no rows: tile_bitcast takes two dimensions, or the four "
                          "of blocks\narith.bitcast reads elements as others of the same size")
        check_split_rows(self.source, self.result)
        source = _check_maps(self, self.source, self.wg_map, self.result)
        if source is not None and self.wg_map is not None and self.wg_map.data != (made := source.split(self.factor)):
            raise Invalid("XT2292", f"a vector dealt out as {source} has as {_element(self.result)} the map {made}, "
                          f"not {self.wg_map.data}\nleave wg_map out, or give that one")


# ``xetile.iota``: the position of every element; it goes beyond XeTile.md, which takes such vectors as given.


@operation_definition
class IotaOp(IRDLOperation):
    """The row (``axis = 0``) or the column (``axis = 1``) of every element, counted from ``start`` or from zero."""

    name = "xetile.iota"
    start = opt_operand_def(IndexType)
    axis = prop_def(IntegerAttr)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(base(VectorType))
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "($start^)? attr-dict `:` type($result)"

    def __init__(self, result: VectorType, axis: int, start: SSAValue | None = None,  # type: ignore[type-arg]
                 wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[[start] if start is not None else []], result_types=[result], properties={
            "axis": IntegerAttr(axis, i64), "wg_map": WgMapAttr(wg_map) if wg_map else None})

    def verify_(self) -> None:
        shape, axis = shape_of(self.result), self.axis.value.data
        if len(shape) not in (2, 4):
            raise Invalid("XT2150", f"iota gives a vector of two dimensions, or of four in blocks, not {len(shape)}\n"
                          "write vector<8x16xi32>", alone=True)
        if axis not in (0, 1):
            raise Invalid("XT1155", f"there is no axis {axis}\nuse axis 0 for rows, 1 for columns", alone=True)
        try:
            size = shape[axis] * (shape[axis + 2] if len(shape) == 4 else 1)
            iota.check_type(self.result.type.element_type, size)  # type: ignore[attr-defined]
        except XeError as error:
            raise Invalid.of(error) from None
        if self.wg_map is not None:
            check_map(self.wg_map.data, shape)
