"""Vector operations that the lowering adds: ``pack``, ``bitcast``, ``convert_layout``, ``pad``, ``iota``, ``shuffle``.

``extract_scalar`` makes a number of a vector of one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.dialect.block_io import DESC, desc_of
from xegpu.dialect.scalar import TYPES as SCALARS
from xegpu.dialect.types import SgMapAttr, check_fragment, two_sizes
from xegpu.ir.dtypes import NUMBERS, PAIRS, bf16, e4m3, e5m2, f16, i1, i8, of_mlir, u8
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import ADDRESSED, COUNTED, MOVED, Record
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.vector import VECTOR, IntegersAttr, UnaryVectorOp, shape_of, vector_type
from xegpu.support.errors import ElementTypeError, Invalid, ShapeError, XeError

PACKED = Record((f16, bf16, e4m3, e5m2, i8, u8))
"""Record of VNNI form, of operands of DPAS that several make a word of."""
PADDED = Record((*NUMBERS, i1))
"""Record of padding that is not zero, which 8-bit floats do not have."""


@operation_definition
class PackOp(UnaryVectorOp):
    """VNNI packing of a block ``[k, n]`` in registers to ``[k / v, n, v]``. It goes beyond the specification.

    After ``distribute-lanes`` both are fragments: ``[k, 1]`` to ``[k / v, v]``, the same elements of the same lane.
    """

    name = "xegpu.pack"
    RECORD: ClassVar[Record] = PACKED
    sg_map = opt_prop_def(SgMapAttr)

    def __init__(self, source: SSAValue, sg_map: LaneMap | None = None) -> None:
        shape, element = shape_of(source), source.type.element_type  # type: ignore[attr-defined]
        factor = 32 // of_mlir(element).bits
        result = (shape[0] // factor, factor) if sg_map else (shape[0] // factor, shape[1], factor)
        super().__init__(operands=[source], result_types=[vector_type(result, element)],
                         properties={"sg_map": SgMapAttr(sg_map) if sg_map else None})

    def verify_(self) -> None:
        shape = shape_of(self.source)
        factor = 32 // of_mlir(self.source.type.element_type).bits  # type: ignore[attr-defined]
        takes = of_mlir(self.source.type.element_type) in (*PACKED.elements, *PAIRS.values())  # type: ignore[attr-defined]
        if not takes or len(shape) != 2 or shape[0] % factor:
            raise Invalid("XT3207", f"{self.source.type} does not pack into 32-bit words along its rows\n" + (
                f"words are packed of {', '.join(map(str, PACKED.elements))}" if not takes else
                f"make it two dimensions, and its {shape[0]} rows a multiple of {factor}"))
        expected = (shape[0] // factor, factor) if self.sg_map else (shape[0] // factor, shape[1], factor)
        if self.result.type != (packed := vector_type(expected, self.source.type.element_type)):  # type: ignore[attr-defined]
            raise Invalid("XT3206", f"{self.source.type} packs into {packed}, not {self.result.type}\nwrite {packed}")


@operation_definition
class BitcastOp(UnaryVectorOp):
    """Bitcast of a block to narrower elements along the rows: row ``i`` becomes several rows, the lowest bits first.

    ``%h = xegpu.bitcast %w : vector<8x16xui32> -> vector<16x16xf16>``: the order in which VNNI form holds the rows of
    B, so that packing the result moves nothing. Fragments keep their lanes. Pairs of 4-bit integers are read as bytes,
    and bytes as pairs, element by element. It goes beyond the specification.
    """

    name = "xegpu.bitcast"
    RECORD: ClassVar[Record] = Record(ADDRESSED)

    def __init__(self, source: SSAValue, element: Attribute) -> None:
        super().__init__(operands=[source], result_types=[split_rows(source, element)])

    def verify_(self) -> None:
        check_split_rows(self.source, self.result)


def split_rows(source: SSAValue, element: Attribute) -> VectorType[Attribute]:
    """Result type of a bitcast along the rows, the second-to-last dimension."""
    factor = of_mlir(source.type.element_type).bits // of_mlir(element).bits  # type: ignore[attr-defined]
    *outer, rows, columns = shape_of(source)
    return vector_type((*outer, rows * factor, columns), element)


def check_split_rows(source: SSAValue, result: SSAValue) -> None:
    """Verify source and result type of a bitcast along the rows."""
    if len(shape_of(source)) < 2:
        raise Invalid("XT3213", f"{source.type} has no rows, which its words would become more of\n"
                      "cast it to two dimensions first: 16 elements are 16x1 or 1x16")
    wide, narrow = (of_mlir(value.type.element_type) for value in (source, result))  # type: ignore[attr-defined]
    is_pair = wide.bits == narrow.bits and (wide.kind == "p") != (narrow.kind == "p")
    if i1 in (wide, narrow) or (wide.bits <= narrow.bits and not is_pair) or wide.bits % narrow.bits:
        raise Invalid("XT3211", f"words of {wide} do not hold a number of {narrow}\n"
                      f"narrower elements come of wider ones; of equal ones arith.bitcast makes others")
    if result.type != (wanted := split_rows(source, result.type.element_type)):  # type: ignore[attr-defined]
        raise Invalid("XT3212", f"{source.type} as {narrow} is a {wanted}, not a {result.type}\n"
                      f"each row gives {wide.bits // narrow.bits}")


@operation_definition
class ExtractScalarOp(IRDLOperation):
    """Extract of the element of a vector of one, as a number that is uniform in the subgroup.

    ``%n = xegpu.extract_scalar %v : vector<1x1xi32> -> i32``. Of fragments, the first lane's counts.
    """

    name = "xegpu.extract_scalar"
    RECORD: ClassVar[Record] = Record(SCALARS)
    vector = operand_def(VectorType)
    result = result_def(Attribute)
    traits = traits_def(Pure())
    assembly_format = "$vector attr-dict `:` type($vector) `->` type($result)"

    def __init__(self, vector: SSAValue) -> None:
        assert isinstance(vector.type, VectorType)
        super().__init__(operands=[vector], result_types=[vector.type.element_type])

    def verify_(self) -> None:
        type_ = self.vector.type
        assert isinstance(type_, VectorType)
        if prod(type_.get_shape()) != 1:
            raise Invalid("XT1244", f"the vector has {' x '.join(map(str, type_.get_shape()))} elements, and a number "
                          "is made of one\nreduce it first, as in xt.tile_reduce(\"max\", v, (0, 1)).item()",
                          kind=ShapeError, about=("vector",))
        if self.result.type != type_.element_type or type_.element_type not in [dtype.mlir for dtype in SCALARS]:
            raise Invalid("XT1245", f"run-time numbers are {', '.join(map(str, SCALARS))}, and the vector holds "
                          f"{of_mlir(type_.element_type)}\nconvert it first, as in v.to(xt.f32).item()",
                          kind=ElementTypeError, about=("vector",))


@operation_definition
class ShuffleOp(IRDLOperation):
    """Shuffle of the elements of blocks into a block: ``mask`` says for each element of the result, row by row, which
    one of the sources' it is, counted through the sources one after the other, each row by row.

    ``%r = xegpu.shuffle %a, %b {mask = array<i32: 3, 1, ...>} : vector<8x16xf32>, vector<8x16xf32> -> vector<8x8xf32>``
    is what slices, casts and concatenations that do not keep to whole registers become. On fragments, ``blocks`` and
    ``maps`` are the shape of the block and the lane map of each source, and behind these of the result. It goes beyond
    the specification.
    """

    name = "xegpu.shuffle"
    RECORD: ClassVar[Record] = MOVED
    sources = var_operand_def(VECTOR)
    mask = prop_def(DenseArrayBase)
    blocks = opt_prop_def(ArrayAttr)
    maps = opt_prop_def(ArrayAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$sources attr-dict `:` type($sources) `->` type($result)"

    def __init__(self, sources: Sequence[SSAValue], mask: Sequence[int], result: Attribute,
                 blocks: Sequence[tuple[int, int]] = (), maps: Sequence[LaneMap] = ()) -> None:
        super().__init__(operands=[sources], result_types=[result], properties={
            # packed as it is: DenseArrayBase.from_list checks each number's range, which the verifier does, too
            "mask": DenseArrayBase(i32, BytesAttr(i32.pack(mask))),
            "blocks": ArrayAttr([ArrayAttr([IntegerAttr(size, i64) for size in block]) for block in blocks])
            if blocks else None,
            "maps": ArrayAttr([SgMapAttr(map_) for map_ in maps]) if maps else None})

    def block_shapes(self) -> list[tuple[int, int]]:
        """Shapes of the sources' blocks, and of the result's."""
        if self.blocks is None:
            return [two_sizes(shape_of(value)) for value in (*self.sources, self.result)]
        return [two_sizes(tuple(size.value.data for size in block)) for block in self.blocks]

    def lane_maps(self) -> list[LaneMap] | None:
        """Lane maps of the sources, and of the result; None of blocks."""
        return None if self.maps is None else [map_.data for map_ in self.maps]

    def verify_(self) -> None:
        values = (*self.sources, self.result)
        if not self.sources or (self.blocks is None) != (self.maps is None) or any(
                len(each) != len(values) for each in (self.blocks, self.maps) if each is not None):
            raise Invalid("XT3214", f"a shuffle of {len(self.sources)} vectors has {len(self.blocks or ())} blocks and "
                          f"{len(self.maps or ())} maps\ngive one of each for every source and for the result, or, of "
                          "whole blocks, none", alone=True)
        if any(len(shape_of(value)) != 2 for value in values) or \
                any(value.type.element_type != self.result.type.element_type for value in values):  # type: ignore[attr-defined]
            raise Invalid("XT3215", "a shuffle takes and gives blocks of two dimensions, of one element type\n"
                          "cast or convert them first")
        *sources, (rows, columns) = self.block_shapes()
        count, mask = sum(prod(shape) for shape in sources), self.mask.get_values()
        if len(mask) != rows * columns or not all(0 <= element < count for element in mask):
            raise Invalid("XT3216", f"the mask of a shuffle has {len(mask)} numbers, and its result {rows}x{columns} "
                          f"elements; the sources hold {count}\ngive for each element of the result the number of one "
                          "of the sources', from zero", alone=True)
        for value, block, lanes in zip(values, self.block_shapes(), self.lane_maps() or (), strict=False):
            check_fragment(value, self.result.type.element_type, block, lanes)  # type: ignore[attr-defined]


OPERATIONS = (ExtractScalarOp, PackOp, BitcastOp, ShuffleOp)


@operation_definition
class PadOp(IRDLOperation):
    """Padding of a loaded block: out-of-bounds elements are replaced by ``padding``. It goes beyond the specification.

    Loads pad with zero; this is for every other value.
    """

    name = "xegpu.pad"
    RECORD: ClassVar[Record] = PADDED
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    padding = prop_def(Attribute)
    sg_map = opt_prop_def(SgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$value `,` $desc attr-dict `:` type($value) `,` type($desc) `->` type($result)"

    def __init__(self, value: SSAValue, desc: SSAValue, padding: Attribute, sg_map: LaneMap | None = None) -> None:
        super().__init__(operands=[value, desc], result_types=[value.type],
                         properties={"padding": padding, "sg_map": SgMapAttr(sg_map) if sg_map else None})

    @property
    def number(self) -> float:
        """Padding value."""
        return number_of(self.padding)

    def verify_(self) -> None:
        number_of(self.padding)
        if self.value.type != self.result.type or len(shape_of(self.value)) != 2:
            raise Invalid("XT3112", f"padding makes {self.result.type} of {self.value.type}\n"
                          "it keeps the type, and takes a block of two dimensions")
        if self.value.type.element_type != desc_of(self.desc).element_type:  # type: ignore[attr-defined]
            raise Invalid("XT3113", f"a {self.value.type} was not loaded through a {self.desc.type}\n"
                          "name the descriptor that the load took: its bounds say what is padded")


def number_of(attribute: Attribute) -> float:
    """Value of a float or integer attribute."""
    if not isinstance(attribute, (FloatAttr, IntegerAttr)):
        raise Invalid("XT3114", f"{attribute} is not a number\nwrite one with its type, as in 1.0 : f32", alone=True)
    return attribute.value.data


@operation_definition
class IotaOp(IRDLOperation):
    """Iota of a block: the row (``axis = 0``) or column (``axis = 1``) of every element, plus ``start``.

    On a fragment, ``sg_map`` and ``shape`` are the lane map and the shape of the block.
    """

    name = "xegpu.iota"
    RECORD: ClassVar[Record] = COUNTED
    start = operand_def(IndexType)
    axis = prop_def(IntegerAttr)
    shape = opt_prop_def(IntegersAttr)
    sg_map = opt_prop_def(SgMapAttr)
    result = result_def(base(VectorType))
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$start attr-dict `:` type($result)"

    def __init__(self, start: SSAValue, axis: int, result: VectorType, shape: tuple[int, int] | None = None,  # type: ignore[type-arg]
                 sg_map: LaneMap | None = None) -> None:
        super().__init__(operands=[start], result_types=[result], properties={
            "axis": IntegerAttr(axis, i64),
            "shape": None if shape is None else ArrayAttr([IntegerAttr(size, i64) for size in shape]),
            "sg_map": SgMapAttr(sg_map) if sg_map else None})

    def block_shape(self) -> tuple[int, int]:
        """Shape of the block: rows and columns."""
        if self.shape is None:
            rows, columns = self.result.type.get_shape()  # type: ignore[attr-defined]
        else:
            rows, columns = (size.value.data for size in self.shape)
        return rows, columns

    def verify_(self) -> None:
        if self.axis.value.data not in (0, 1):
            raise Invalid("XT3260",
                          f"there is no axis {self.axis.value.data}\nuse axis 0 for rows, 1 for columns", alone=True)
        actual = self.result.type.get_shape()  # type: ignore[attr-defined]
        if (self.shape is None) != (self.sg_map is None):
            raise Invalid("XT3261", "shape and sg_map go together, and only one of them is here\n"
                          "a lane's fragment has both, a whole block neither", alone=True)
        if len(actual) != 2 or (self.shape is not None and len(self.shape) != 2):
            raise Invalid("XT3262",
                          f"iota gives a block of two dimensions or a lane's fragment of one, not {self.result.type}\n"
                          "count in 1x16 or 16x1, and vector.shape_cast that to 16", alone=True)
        if self.sg_map is None:
            return
        try:
            fragment = self.sg_map.data.fragment(self.block_shape())
        except XeError as error:
            raise Invalid.of(error) from None
        if fragment != actual:
            raise Invalid("XT3263", f"a lane has {list(fragment)} of this block, not {list(actual)}\n"
                          "the first counts units of the map, the second the elements of a lane in each", alone=True)
