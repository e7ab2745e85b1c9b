"""XeTile operations along axes of a vector: ``tile_reduce`` and ``tile_broadcast`` (XeTile.md).

Operands are 2D, or 4D when blocked, whose axes then are pairs: ``[1, 3]`` or ``[0, 2]``. On a work-group's vectors
``wg_map`` is the distribution of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from xegpu.ir.dtypes import of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.mlir.combining_kind import REDUCED, kind_of
from xegpu.mlir.vector import VECTOR, shape_of
from xegpu.support.errors import ElementTypeError, Invalid
from xetile.dialect.tile_ops import text
from xetile.dialect.types import WgMapAttr
from xetile.dialect.vector import check_maps, element_of, integers
from xetile.dialect.wg_map import WgMap, describe_map
from xetile.dialect.wg_map_inference import TransformsWgMap


def axes_of(operation: TileReduceOp | TileBroadcastOp) -> tuple[int, ...]:
    """Axes of a reduction or a broadcast."""
    return tuple(axis.value.data for axis in operation.axes)


def _check_axes(operation: TileReduceOp | TileBroadcastOp, what: str) -> None:
    """Verify the axes of a reduction or a broadcast."""
    axes, rank = axes_of(operation), len(shape_of(operation.source))
    if rank not in (2, 4) or len(shape_of(operation.result)) != rank:
        raise Invalid("XT2160", f"{operation.name} takes a vector of two dimensions, or of four if it is blocked, and "
                      "keeps them\nmake it two-dimensional first, such as 1x32")
    options = [[0], [1], [0, 1]] if rank == 2 else [[0, 2], [1, 3], [0, 1, 2, 3]]
    if sorted(axes) not in options:
        names = " or ".join(map(str, options))
        raise Invalid("XT1224", f"{list(axes)} are not dimensions to {what} of a vector of rank {rank}\nuse {names}")


class _AxesOp(IRDLOperation):
    """Base of reductions and broadcasts, with their syntax: ``%v [1] {attributes} : type -> type``."""

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
        map_property = {"wg_map": attributes.pop("wg_map")} if "wg_map" in attributes else {}
        return cls.create(operands=[operand], result_types=[parser.parse_type()], attributes=attributes,
                          properties={**properties, "axes": integers(axes), **map_property})


@operation_definition
class TileReduceOp(_AxesOp):
    """Reduction: ``xetile.tile_reduce <add> %v [1] : vector<64x32xf32> -> vector<64x1xf32>``."""

    name = "xetile.tile_reduce"
    RECORD: ClassVar[Record] = REDUCED
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
        super().__init__(operands=[source], result_types=[VectorType(element_of(source), shape)],
                         properties={"kind": StringAttr(kind), "axes": integers(axes),
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
        if shape_of(self.result) != reduced or element_of(self.result) != element_of(self.source):
            raise Invalid("XT2163", f"reducing {self.source.type} along {list(axes)} gives a "
                          f"vector<{text(reduced)}x{element_of(self.source)}>, not {self.result.type}\n"
                          "what is reduced stays as dimensions of size 1, and the element type stays")
        try:
            dtype = of_mlir(element_of(self.source))
            if kind_of(self.kind.data, dtype) != self.kind.data:
                raise Invalid("XT3256", f"{self.kind.data} is not a kind of reduction\n"
                              f"of {dtype} it is {kind_of(self.kind.data, dtype)}")
        except ElementTypeError as error:
            raise Invalid.of(error) from None
        source = check_maps(self, self.source, self.wg_map, self.result)
        if source is not None and self.wg_map is not None:
            check_reduced(source, axes, self.wg_map.data)


def check_reduced(source: WgMap, axes: Sequence[int], result: WgMap) -> None:
    """Verify that ``result`` is the map ``source`` collapsed along ``axes``."""
    if source.collapsed(axes) != result:
        raise Invalid("XT1414", f"a vector distributed as {source} and reduced along {list(axes)} is not distributed "
                      f"as {result}\nits map is {source.collapsed(axes)}; xt.tile_conv_layout(v, wg_map) gives it "
                      "another")


@operation_definition
class TileBroadcastOp(_AxesOp):
    """Broadcast: ``xetile.tile_broadcast %v [0] : vector<1x32xf32> -> vector<64x32xf32>``."""

    name = "xetile.tile_broadcast"
    RECORD: ClassVar[Record] = MOVED
    source = operand_def(VECTOR)
    axes = prop_def(ArrayAttr)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, shape: Sequence[int], axes: Sequence[int],
                 wg_map: WgMap | None = None) -> None:
        super().__init__(operands=[source], result_types=[VectorType(element_of(source), shape)],
                         properties={"axes": integers(axes), "wg_map": WgMapAttr(wg_map) if wg_map else None})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self._print_rest(printer)

    @classmethod
    def parse(cls, parser: Parser) -> TileBroadcastOp:
        return cls._parse_rest(parser, {})  # type: ignore[return-value]

    def verify_(self) -> None:
        _check_axes(self, "broadcast")
        shape, result, axes = shape_of(self.source), shape_of(self.result), axes_of(self)
        check_repeated(shape, axes, result)
        kept = tuple(result[axis] if axis in axes else size for axis, size in enumerate(shape))
        if kept != result or element_of(self.result) != element_of(self.source):
            raise Invalid("XT2165", f"broadcasting {self.source.type} along {list(axes)} does not give "
                          f"{self.result.type}\nthe other dimensions and the element type stay")
        source = check_maps(self, self.source, self.wg_map, self.result)
        if source is not None:
            check_broadcast(source, axes, self.wg_map.data if self.wg_map else None)


def check_repeated(shape: Sequence[int], axes: Sequence[int], result: Sequence[int]) -> None:
    """Verify that the dimensions along which a vector of ``shape`` is repeated have size 1."""
    if wide := [axis for axis in axes if shape[axis] != 1]:
        kept = [new if old == 1 else old for old, new in zip(shape, result, strict=True)]
        raise Invalid("XT1220", f"a vector of {text(shape)} is not broadcast to {text(result)}: dimension {wide[0]} "
                      f"has {shape[wide[0]]} elements\nonly dimensions of size 1 are repeated: broadcast to "
                      f"{text(kept)}, or reduce it first with xt.tile_reduce(kind, v, axis={wide[0] % 2})")


def check_broadcast(source: WgMap | None, axes: Sequence[int], result: WgMap | None) -> None:
    """Verify that ``source`` is the map ``result`` collapsed along ``axes``, or that neither side has one."""
    if (source is None) != (result is None):
        raise Invalid("XT1415", f"the vector is {describe_map(source)}, its broadcast {describe_map(result)}\n"
                      "give both a wg_map, or neither: how a broadcast is distributed is not derived")
    if source is not None and result is not None and result.collapsed(axes) != source:
        raise Invalid("XT1417", f"a vector distributed as {source} is not broadcast to one distributed as {result}\n"
                      f"its map must be {result.collapsed(axes)}: xt.tile_conv_layout(v, wg_map) gives it that")
