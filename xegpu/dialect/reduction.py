"""Reductions and broadcasts of blocks in registers, beyond the specification, which leaves them to XeTile.

After ``distribute-lanes`` they work on fragments, with the lane maps of both sides and the shape of the larger block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.dialect.types import SgMapAttr
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.combining_kind import REDUCED, kind_of
from xegpu.mlir.vector import VECTOR, IntegersAttr, integers, values_of
from xegpu.support.errors import ElementTypeError, Invalid, ShapeError

Shape = tuple[int, int]


def _shape_and_element(value: SSAValue) -> tuple[tuple[int, ...], Attribute]:
    type_ = value.type
    assert isinstance(type_, VectorType)
    element: Attribute = type_.element_type
    return type_.get_shape(), element


class AxesOp(IRDLOperation):
    """Base of reduction and broadcast: a larger block and one of size 1 along ``axes``."""

    axes = prop_def(IntegersAttr)
    block = opt_prop_def(IntegersAttr)
    source_map = opt_prop_def(SgMapAttr)
    target_map = opt_prop_def(SgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The axes as integers."""
        return values_of(self.axes)

    @property
    def maps(self) -> tuple[LaneMap, LaneMap] | None:
        """Lane maps of source and result, None before distribution."""
        if self.source_map is None or self.target_map is None:
            return None
        return self.source_map.data, self.target_map.data

    def larger(self, value: SSAValue) -> Shape:
        """Shape of the larger block, given as ``value`` or by the ``block`` property of its fragment."""
        sizes = _shape_and_element(value)[0] if self.block is None else values_of(self.block)
        if len(sizes) != 2:
            raise Invalid("XT3250", f"a block has two dimensions, and {list(sizes)} has {len(sizes)}\n"
                          "cast the vector to two dimensions first: 16 elements are 1x16 or 16x1")
        return sizes[0], sizes[1]

    def smaller(self, value: SSAValue) -> Shape:
        """Shape of the smaller block: the larger one's, with 1 along the axes."""
        rows, columns = (1 if axis in self.dimensions else size for axis, size in enumerate(self.larger(value)))
        return rows, columns

    def check(self, sources: Sequence[SSAValue], source: Shape, result: Shape) -> None:
        """Verify that sources and result are blocks of these shapes, or their fragments."""
        if not self.dimensions or not set(self.dimensions) <= {0, 1}:
            raise Invalid("XT3251", f"{list(self.dimensions)} are not dimensions of a block\n"
                          "write axes = [0] for rows, [1] for columns, or [0, 1]", alone=True)
        if (self.maps is None) != (self.block is None):
            raise Invalid("XT3252", "block, source_map and target_map go together, and some are missing\n"
                          "fragments of a lane have all three, whole blocks none", alone=True)
        try:
            of_source, of_result = (source, result) if self.maps is None else (
                self.maps[0].fragment(source), self.maps[1].fragment(result))
        except ShapeError as error:
            raise Invalid.of(error) from None
        element = _shape_and_element(self.result)[1]
        for value, shape in (*((value, of_source) for value in sources), (self.result, of_result)):
            if _shape_and_element(value) != (shape, element):
                raise Invalid("XT3253", f"{value.type} stands where {list(shape)} of {element} are needed\n"
                              "the two sides differ along the axes alone, where the smaller has size 1")


def _properties(axes: Sequence[int], maps: tuple[LaneMap, LaneMap] | None, block: Shape | None) -> dict[str, Attribute]:
    properties: dict[str, Attribute] = {"axes": integers(axes)}
    if maps is not None and block is not None:
        properties |= {"block": integers(block), "source_map": SgMapAttr(maps[0]), "target_map": SgMapAttr(maps[1])}
    return properties


@operation_definition
class ReduceOp(AxesOp):
    """Reduction of blocks of one shape to one block of size 1 along ``axes``.

    ``%r = xegpu.reduce %a, %b {kind = "add", axes = [1]}``: two 8x16 blocks beside each other to one of 8x1.
    """

    name = "xegpu.reduce"
    RECORD: ClassVar[Record] = REDUCED
    sources = var_operand_def(VECTOR)
    kind = prop_def(StringAttr)
    assembly_format = "$sources attr-dict `:` type($sources) `->` type($result)"

    def __init__(self, kind: str, sources: Sequence[SSAValue], axes: Sequence[int], result: Attribute,
                 maps: tuple[LaneMap, LaneMap] | None = None, block: Shape | None = None) -> None:
        super().__init__(operands=[sources], result_types=[result],
                         properties={"kind": StringAttr(kind), **_properties(axes, maps, block)})

    def verify_(self) -> None:
        if not self.sources:
            raise Invalid("XT3254",
                          "a reduction takes at least one block, and this has none\nwrite xegpu.reduce %a {...}")
        first = self.sources[0]
        self.check(self.sources, self.larger(first), self.smaller(first))
        try:
            full = kind_of(self.kind.data, of_mlir(_shape_and_element(first)[1]))
        except ElementTypeError as error:
            raise Invalid.of(error) from None
        if full != self.kind.data:
            raise Invalid("XT3255", f"text says the kind of a reduction in full, and {self.kind.data} is short\n"
                          f'write kind = "{full}"', alone=True)


@operation_definition
class BroadcastOp(AxesOp):
    """Broadcast of a block of size 1 along ``axes``."""

    name = "xegpu.broadcast"
    RECORD: ClassVar[Record] = MOVED
    source = operand_def(VECTOR)
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, axes: Sequence[int], result: Attribute,
                 maps: tuple[LaneMap, LaneMap] | None = None, block: Shape | None = None) -> None:
        super().__init__(operands=[source], result_types=[result], properties=_properties(axes, maps, block))

    def verify_(self) -> None:
        self.check([self.source], self.smaller(self.result), self.larger(self.result))
