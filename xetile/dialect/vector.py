"""XeTile operations of vectors (XeTile.md): transpose, pack, unpack, layout conversion, bitcast and iota.

On a work-group's vectors ``wg_map`` is the distribution of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, VectorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.dialect.vector import check_split_rows, split_rows
from xegpu.ir.dtypes import i8, of_mlir, u8, u16
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import ADDRESSED, COUNTED, MOVED, Record
from xegpu.layout import iota
from xegpu.mlir.vector import VECTOR, UnaryVectorOp, shape_of, vector_type
from xegpu.support.errors import Invalid, XeError
from xetile.dialect.tile_ops import check_map, flat_shape, text
from xetile.dialect.types import WgMapAttr, check_axis, verify_same_subgroups
from xetile.dialect.wg_map import Pair, WgMap
from xetile.dialect.wg_map_inference import TransformsWgMap, map_of


def element_of(value: SSAValue) -> Attribute:
    """Element type of a vector."""
    type_ = value.type
    assert isinstance(type_, VectorType)
    element: Attribute = type_.element_type
    return element


def integers(numbers: Sequence[int]) -> ArrayAttr[IntegerAttr]:
    """Blocks, axes or a permutation as an array attribute."""
    return ArrayAttr([IntegerAttr(number, i64) for number in numbers])


def check_maps(operation: IRDLOperation, source: SSAValue, map_attribute: WgMapAttr | None,
               result: SSAValue) -> WgMap | None:
    """Verify the result's map; returns the source's map if it is known."""
    if map_attribute is not None:
        if len(shape_of(result)) != 2:
            raise Invalid("XT2162", f"{operation.name} of a blocked vector takes no wg_map\n"
                          "leave the map out: blocks are those of one subgroup, after the tile is distributed")
        check_map(map_attribute.data, shape_of(result))
    return map_of(source)


@operation_definition
class TileTransposeOp(UnaryVectorOp):
    """Transpose of a 2D vector; ``wg_map`` is that of the result."""

    name = "xetile.tile_transpose"
    RECORD: ClassVar[Record] = MOVED
    permutation = prop_def(ArrayAttr)
    wg_map = opt_prop_def(WgMapAttr)
    traits = traits_def(Pure(), TransformsWgMap(lambda op, source: source.transposed()))

    def __init__(self, source: SSAValue, wg_map: WgMap | None = None) -> None:
        result = VectorType(source.type.element_type, shape_of(source)[::-1])  # type: ignore[attr-defined]
        super().__init__(operands=[source], result_types=[result],
                         properties={"permutation": integers((1, 0)), "wg_map": WgMapAttr(wg_map) if wg_map else None})

    def verify_(self) -> None:
        if [axis.value.data for axis in self.permutation] != [1, 0]:
            permutation = [axis.value.data for axis in self.permutation]
            raise Invalid("XT2118", "tile_transpose exchanges the two dimensions: its permutation is [1, 0], not "
                          f"{permutation}\nwrite [1, 0], or leave the operation out", alone=True)
        if len(shape_of(self.source)) != 2:
            raise Invalid("XT1122", f"tile_transpose takes a vector of two dimensions, and {self.source.type} has "
                          f"{len(shape_of(self.source))}\nuse tile_unpack first, tile_pack afterwards")
        element = self.source.type.element_type  # type: ignore[attr-defined]
        transposed = VectorType(element, shape_of(self.source)[::-1])
        if self.result.type != transposed:
            raise Invalid("XT2119", f"transposing {self.source.type} does not give {self.result.type}\n"
                          f"it gives {transposed}")
        if self.wg_map is not None:
            check_map(self.wg_map.data, shape_of(self.result))
            verify_same_subgroups(map_of(self.source), self.wg_map.data)


@operation_definition
class TilePackOp(UnaryVectorOp):
    """Pack: a 2D vector to the 4D vector of its blocks, row-major in both levels."""

    name = "xetile.tile_pack"
    RECORD: ClassVar[Record] = MOVED
    inner_blocks = prop_def(ArrayAttr)

    def __init__(self, source: SSAValue, blocks: Pair) -> None:
        rows, columns = shape_of(source)
        result = VectorType(source.type.element_type, (rows // blocks[0], columns // blocks[1], *blocks))  # type: ignore
        super().__init__(operands=[source], result_types=[result], properties={"inner_blocks": integers(blocks)})

    def verify_(self) -> None:
        _verify_blocking(self.source, self.result, self.inner_blocks)


@operation_definition
class TileUnpackOp(UnaryVectorOp):
    """Unpack: the 4D vector of blocks to the 2D vector."""

    name = "xetile.tile_unpack"
    RECORD: ClassVar[Record] = MOVED
    inner_blocks = prop_def(ArrayAttr)

    def __init__(self, source: SSAValue) -> None:
        rows, columns, *blocks = shape_of(source)
        result = VectorType(source.type.element_type, (rows * blocks[0], columns * blocks[1]))  # type: ignore
        super().__init__(operands=[source], result_types=[result],
                         properties={"inner_blocks": integers((blocks[0], blocks[1]))})

    def verify_(self) -> None:
        _verify_blocking(self.result, self.source, self.inner_blocks)


def _blocked_form(flat: Sequence[int], blocks: Sequence[int]) -> str:
    """Blocked type of a vector in a message; for a shape that the blocks do not divide, an example."""
    divides = len(flat) == len(blocks) == 2 and min(blocks) > 0 and \
        not any(size % block for size, block in zip(flat, blocks, strict=True))
    (rows, columns), (high, wide) = (flat, blocks) if divides else ((64, 32), (16, 16))
    return f"{rows}x{columns} in blocks of [{high}, {wide}] is {rows // high}x{columns // wide}x{high}x{wide}"


def _verify_blocking(unpacked: SSAValue, packed: SSAValue, attribute: ArrayAttr[IntegerAttr]) -> None:
    """Verify that a packed type has the blocks of its attribute."""
    flat, blocked = shape_of(unpacked), shape_of(packed)
    blocks = tuple(size.value.data for size in attribute)
    if len(flat) != 2 or len(blocked) != 4 or blocked[2:] != blocks:
        raise Invalid("XT2121", f"inner_blocks {list(blocks)} relate a 2D vector to a 4D one that ends in them, not "
                      f"{text(flat)} to {text(blocked)}\n{_blocked_form(flat, blocks)}")
    if (blocked[0] * blocked[2], blocked[1] * blocked[3]) != flat:
        raise Invalid("XT2121", f"blocks of {text(blocks)} make {text(blocked)}, which is not {text(flat)}\n"
                      f"{text(blocked)} is {text(flat_shape(blocked))} in two dimensions")
    if unpacked.type.element_type != packed.type.element_type:  # type: ignore[attr-defined]
        raise Invalid("XT2122", f"{unpacked.type} and {packed.type} have different elements\n"
                      "blocks hold the elements as they are: convert them before or afterwards")


@operation_definition
class TileConvLayoutOp(UnaryVectorOp):
    """Layout conversion to another map, ``wg_map``; ``source_map`` repeats that of the source."""

    name = "xetile.tile_conv_layout"
    RECORD: ClassVar[Record] = MOVED
    wg_map = prop_def(WgMapAttr)
    source_map = opt_prop_def(WgMapAttr)

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
            raise Invalid("XT1152", f"a wg_map distributes two dimensions, not {len(shape_of(self.source))}\n"
                          "use tile_unpack first, tile_pack afterwards")
        source = check_maps(self, self.source, self.wg_map, self.result)
        if self.source_map is not None:
            check_map(self.source_map.data, shape_of(self.source))
            if source is not None and source != self.source_map.data:
                raise Invalid("XT2076", f"the vector is distributed as {source}, and the operation says "
                              f"{self.source_map.data}\nleave the second map out, or make it the vector's")
        verify_same_subgroups(source, self.wg_map.data)


@operation_definition
class TileBitcastOp(UnaryVectorOp):
    """Bitcast of a vector to narrower elements: row ``i`` becomes rows, the lowest bits first (beyond XeTile.md).

    ``%h = xetile.tile_bitcast %w : vector<16x64xui32> -> vector<32x64xf16>``. Rows of blocked vectors are those of
    their blocks. With ``axis = 1`` a column becomes columns. Back, pairs of bytes become words:
    ``%w = xetile.tile_bitcast %b {axis = 1 : i64} : vector<16x64xui8> -> vector<16x32xui16>``; and pairs of 4-bit
    integers are read as bytes, and bytes as pairs.
    """

    name = "xetile.tile_bitcast"
    RECORD: ClassVar[Record] = Record(ADDRESSED)
    axis = opt_prop_def(IntegerAttr)
    wg_map = opt_prop_def(WgMapAttr)
    traits = traits_def(Pure(), TransformsWgMap(lambda op, source: op.distributed(source)))

    def __init__(self, source: SSAValue, element: Attribute, wg_map: WgMap | None = None, axis: int = 0) -> None:
        super().__init__(operands=[source], result_types=[recast(source, element, axis)], properties={
            "wg_map": WgMapAttr(wg_map) if wg_map else None, "axis": IntegerAttr(axis, i64) if axis else None})

    @property
    def along(self) -> int:
        """The dimension whose size changes."""
        return 0 if self.axis is None else self.axis.value.data

    @property
    def merges(self) -> bool:
        """Whether elements become wider."""
        return of_mlir(element_of(self.source)).bits < of_mlir(element_of(self.result)).bits

    def distributed(self, source: WgMap) -> WgMap:
        """Map of the result."""
        before, after = (of_mlir(element_of(value)).bits for value in (self.source, self.result))
        data = list(source.sg_data)
        data[self.along] = data[self.along] * before // after
        return WgMap(source.sg_layout, (data[0], data[1]))

    def verify_(self) -> None:
        if len(shape_of(self.source)) not in (2, 4):
            raise Invalid("XT2291", f"{self.source.type} has no rows: tile_bitcast takes two dimensions, or the four "
                          "of blocks\narith.bitcast reads elements as others of the same size")
        if self.axis is None and not self.merges:
            check_split_rows(self.source, self.result)
        else:
            self._verify_axis()
        source = check_maps(self, self.source, self.wg_map, self.result)
        if source is not None and self.wg_map is not None and self.wg_map.data != (split := self.distributed(source)):
            raise Invalid("XT2292", f"a vector distributed as {source} has as {element_of(self.result)} the map "
                          f"{split}, not {self.wg_map.data}\nleave wg_map out, or give that one")

    def _verify_axis(self) -> None:
        """Verify bytes as words, or words as bytes, along a dimension."""
        check_axis(self.along)
        shape, types = shape_of(self.source), {of_mlir(element_of(value)) for value in (self.source, self.result)}
        if types not in ({u8, u16}, {i8, u16}) or len(shape) != 2 or (self.merges and shape[self.along] % 2) \
                or self.result.type != recast(self.source, element_of(self.result), self.along):
            raise Invalid("XT2293", f"{self.source.type} is no {self.result.type} along dimension {self.along}\n"
                          "along columns, and back, bytes become words: vector<16x64xui8> and vector<16x32xui16>")


def recast(source: SSAValue, element: Attribute, axis: int) -> VectorType[Attribute]:
    """Result type of a bitcast along a dimension of a vector, or of its blocks."""
    before, after = of_mlir(element_of(source)).bits, of_mlir(element).bits
    if axis == 0 and before >= after:
        return split_rows(source, element)
    sizes = list(shape_of(source))
    sizes[axis] = sizes[axis] * before // after
    return vector_type(sizes, element)


@operation_definition
class IotaOp(IRDLOperation):
    """Iota: the row (``axis = 0``) or column (``axis = 1``) index of every element, from ``start`` or zero (beyond
    XeTile.md)."""

    name = "xetile.iota"
    RECORD: ClassVar[Record] = COUNTED
    start = opt_operand_def(IndexType)
    axis = prop_def(IntegerAttr)
    wg_map = opt_prop_def(WgMapAttr)
    result = result_def(VECTOR)
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
        check_axis(axis)
        try:
            size = shape[axis] * (shape[axis + 2] if len(shape) == 4 else 1)
            iota.check_type(self.result.type.element_type, size)  # type: ignore[attr-defined]
        except XeError as error:
            raise Invalid.of(error) from None
        if self.wg_map is not None:
            check_map(self.wg_map.data, shape)
