"""Operations of the XeGPU dialect (XeGPU.md), with the two that it leaves to the lowering.

Vectors are whole blocks before ``distribute`` and fragments of one lane after it; an operation is in the second form
when its descriptor, or it itself, carries an ``sg_map``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IndexType, IntegerAttr, MemRefType, UnitAttr, VectorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.dialect.attributes import ACCESS, DescriptorType, SgMapAttr, TensorDesc, TensorDescType
from xegpu.dialect.hints import HintedOp, check_hints
from xegpu.dialect.lane_rules import MAP_NAMES, check_division, check_dpas, check_load, spelled
from xegpu.dialect.vectors import IntegersAttr
from xegpu.dialect.vectors import vector as vector
from xegpu.dtypes import i1, of_mlir
from xegpu.errors import Invalid, ShapeError
from xegpu.layouts import LaneMap
from xegpu.memrefs import array_at, is_address, is_shared, verify_described, verify_line

DESC = base(TensorDescType)
VECTOR = base(VectorType)


@lru_cache(maxsize=256)
def _lane_map(lanes: LaneMap) -> SgMapAttr:
    return SgMapAttr(lanes)


def desc_of(value: SSAValue) -> TensorDesc:
    """The parameters of the descriptor that ``value`` is."""
    assert isinstance(value.type, DescriptorType)
    return value.type.data


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of the vector that ``value`` is."""
    assert isinstance(value.type, VectorType)
    return value.type.get_shape()


def check_block(desc: TensorDesc) -> None:
    """Raise a verifier's error for a descriptor of single elements, which no operation on blocks takes."""
    if desc.scatter is not None:
        raise Invalid("XT3001", "this takes a descriptor of a block, and that one describes single elements\n"
                      "make one with create_nd_tdesc, or use load_gather, store_scatter and prefetch")
    if len(desc.shape) not in (1, 2):
        raise Invalid("XT3002", f"a descriptor of a block has one or two dimensions, not {len(desc.shape)}\n"
                      "give the indices in front of them as offsets of the memref")


def loaded_shape(desc: TensorDesc, packed: bool, transpose_bits: int = 0) -> tuple[int, ...]:
    """The shape that ``load_nd`` gives for a descriptor.

    A line is what it is, or a lane's share of it. A whole block is ``[array_length,] rows, columns``, packed
    ``[array_length,] rows / v, columns, v`` with ``v`` elements a 32-bit word, transposed ``columns / w, rows * w``
    with ``w`` elements in ``transpose_bits``; a lane's fragment is ``[array_length,] units, elements a unit``.
    """
    check_block(desc)
    if len(desc.shape) == 1:
        return _loaded_line(desc, packed or bool(transpose_bits))
    rows, columns = desc.shape
    if transpose_bits and desc.sg_map is None:
        together = transpose_bits // desc.dtype.bits
        return (columns // together, rows * together)
    array = (desc.block.array_length,) if desc.block.array_length > 1 else ()
    if desc.sg_map is not None:
        return (*array, *desc.sg_map.fragment((rows, columns)))
    factor = 32 // desc.dtype.bits
    return (*array, rows // factor, columns, factor) if packed else (*array, rows, columns)


def _loaded_line(desc: TensorDesc, changed: bool) -> tuple[int, ...]:
    if changed:
        raise Invalid("XT3101",
                      f"a descriptor of {desc.shape[0]} elements in a line is not loaded transposed or packed\n"
                      f"describe a block of two dimensions: tensor_desc<16x16x{desc.element_type}>")
    if desc.sg_map is None:
        return desc.shape
    units, each = desc.sg_map.fragment((1, desc.shape[0]))
    return (units * each,)


ARRAYS = (1, 2, 4, 8)
"""How many blocks may lie side by side in one descriptor; a message takes four at most."""


@irdl_op_definition
class CreateNdTdescOp(IRDLOperation):
    """A descriptor of a block of an array's last two dimensions: offsets, shape and strides of all, in elements.

    One of one dimension is a line of adjacent elements, from an offset on; that all of it is there the author promises.
    """

    name = "xegpu.create_nd_tdesc"
    source = operand_def(Attribute)
    offsets = var_operand_def(IndexType)
    shape = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    result = result_def(DESC)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `,` `[` $offsets `]` (`,` `[` $shape^ `]` `,` `[` $strides `]`)? attr-dict "
        "`:` type($source) `->` type($result)"
    )

    def __init__(self, source: SSAValue, offsets: Sequence[SSAValue], shape: Sequence[SSAValue],
                 strides: Sequence[SSAValue], result: TensorDescType) -> None:
        super().__init__(operands=[source, offsets, shape, strides], result_types=[result])

    def verify_(self) -> None:
        desc = desc_of(self.result)
        check_block(desc)
        if len(desc.shape) == 1:
            verify_line(self, "a descriptor")
            self._verify_promise(desc)
        else:
            verify_described(self, "a descriptor")
        check_division(desc)
        if desc.block.array_length not in ARRAYS:
            raise Invalid("XT3003", f"array_length is 1, 2, 4 or 8, not {desc.block.array_length}\n"
                          "use several descriptors", alone=True)
        if desc.block.access not in ACCESS:
            raise Invalid("XT3004", f"access is {', '.join(ACCESS[:-1])} or {ACCESS[-1]}, not {desc.block.access}\n"
                          "leave it out: block is what 2D block IO needs", alone=True)
        array = array_at(self.source) or self.source
        scope = "slm" if is_shared(array.type) else "global"
        if desc.block.memory_scope != scope:
            hint = f"use memory_scope = {scope}" if not is_address(array.type) else \
                "an address in shared local memory is that of an array there: take it with " \
                "memref.extract_aligned_pointer_as_index, and arith.index_cast to i64"
            raise Invalid("XT3005", f"a descriptor of {desc.block.memory_scope} memory on {array.type}\n{hint}",
                          alone=is_address(array.type))
        self._verify_element(array.type)

    @staticmethod
    def _verify_promise(desc: TensorDesc) -> None:
        if desc.block.boundary_check:
            raise Invalid("XT3006", "a descriptor of one dimension does not know where its memory ends\n"
                          "write boundary_check = false, and keep it inside", alone=True)
        if desc.block.array_length > 1:
            raise Invalid("XT3007", "a descriptor of one dimension has no blocks side by side\n"
                          f"leave array_length out, and make it {desc.block.array_length * desc.shape[0]} elements "
                          f"long",
                          alone=True)
        if desc.sg_map is not None and (desc.sg_map.wi_layout[0], desc.sg_map.wi_data[0]) != (1, 1):
            raise Invalid("XT3008",
                          "the outer dimension of wi_layout and wi_data is 1 for a descriptor of one dimension, not "
                          f"{desc.sg_map.wi_layout[0]} and {desc.sg_map.wi_data[0]}\n"
                          "write wi_layout = [1, 16], wi_data = [1, 1]", alone=True)

    def _verify_element(self, source: Attribute) -> None:
        desc = desc_of(self.result)
        if isinstance(source, MemRefType) and source.element_type != desc.element_type:
            raise Invalid("XT3009", f"a descriptor of {desc.element_type} cannot describe a {source}\n"
                          f"describe {source.element_type}, or view the array as {desc.element_type}")


@irdl_op_definition
class UpdateNdOffsetOp(IRDLOperation):
    """The descriptor moved by two offsets, in elements."""

    name = "xegpu.update_nd_offset"
    desc = operand_def(DESC)
    offsets = var_operand_def(IndexType)
    result = result_def(DESC)
    traits = traits_def(Pure())
    assembly_format = "$desc `,` `[` $offsets `]` attr-dict `:` type($desc) `->` type($result)"

    def __init__(self, desc: SSAValue, offsets: Sequence[SSAValue]) -> None:
        super().__init__(operands=[desc, offsets], result_types=[desc.type])

    def verify_(self) -> None:
        check_block(desc_of(self.desc))
        if len(self.offsets) != len(desc_of(self.desc).shape):
            raise Invalid("XT3010", f"a descriptor of {len(desc_of(self.desc).shape)} dimensions moves by as many "
                          f"offsets, not by {len(self.offsets)}\ngive 0 for a dimension that it keeps")
        if self.desc.type != self.result.type:
            raise Invalid("XT3011", f"moving a descriptor does not make a {self.result.type} of {self.desc.type}\n"
                          "write the type of the operand again behind the arrow")


@irdl_op_definition
class LoadNdOp(HintedOp):
    """A block from memory; ``packed`` gives it in VNNI form."""

    name = "xegpu.load_nd"
    desc = operand_def(DESC)
    packed = opt_prop_def(UnitAttr)
    transpose = opt_prop_def(IntegersAttr)
    transpose_bit_width = opt_prop_def(IntegerAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc attr-dict `:` type($desc) `->` type($result)"

    def __init__(self, desc: SSAValue, *, packed: bool = False, transpose: bool = False,
                 transpose_bit_width: int | None = None) -> None:
        parameters = desc_of(desc)
        bits = (transpose_bit_width or parameters.dtype.bits) if transpose else 0
        result = vector(loaded_shape(parameters, packed, bits), parameters.element_type)
        super().__init__(operands=[desc], result_types=[result], properties={
            "packed": UnitAttr() if packed else None,
            "transpose": ArrayAttr([IntegerAttr(axis, i64) for axis in (1, 0)]) if transpose else None,
            "transpose_bit_width": IntegerAttr(transpose_bit_width, i64) if transpose_bit_width else None})

    @property
    def transposes(self) -> int:
        """Bits of what the load transposes: an element, or several together; 0 if it does not transpose."""
        if self.transpose is None:
            return 0
        width = self.transpose_bit_width
        return desc_of(self.desc).dtype.bits if width is None else width.value.data

    def verify_(self) -> None:
        check_hints(self, "load")
        desc = desc_of(self.desc)
        packed = self.packed is not None
        if self.transpose is not None and [axis.value.data for axis in self.transpose] != [1, 0]:
            raise Invalid("XT3102",
                          f"transpose = {[axis.value.data for axis in self.transpose]} does not exchange the two "
                          "dimensions\nwrite transpose = [1, 0], or leave it out", alone=True)
        if self.transposes and packed:
            raise Invalid("XT3103", "a load cannot be packed and transposed\n"
                          "a transposed load with transpose_bit_width = 32 gives VNNI form by itself", alone=True)
        self._check_width(desc.dtype.bits)
        if self.transposes and desc.block.array_length > 1:
            raise Invalid("XT3105",
                          f"a transposed load takes one block, and this descriptor has {desc.block.array_length}\n"
                          "leave array_length out, and load each block by itself")
        if packed and desc.dtype.bits >= 32:
            raise Invalid("XT3106", f"{desc.element_type} fills a 32-bit word, so it cannot be packed\n"
                          "leave packed out")
        check_load(desc, packed, bool(self.transposes))
        if packed:
            check_words("rows", desc.shape[0], 32 // desc.dtype.bits, desc.element_type)
        check_words("columns", desc.shape[-1], self.transposes // desc.dtype.bits, desc.element_type)
        expected = loaded_shape(desc, packed, self.transposes)
        if self.result.type != vector(expected, desc.element_type):
            raise Invalid("XT3107", f"this load gives {list(expected)} of {desc.element_type}, not {self.result.type}\n"
                          f"write {vector(expected, desc.element_type)}")

    def _check_width(self, bits: int) -> None:
        """What is transposed is an element of ``bits``, or several that make a word of at most 32."""
        if self.transpose_bit_width is None:
            return
        width = self.transpose_bit_width.value.data
        if self.transpose is None:
            raise Invalid("XT3104", f"transpose_bit_width = {width} says nothing without transpose\n"
                          "add transpose = [1, 0]", alone=True)
        if width < bits or width % bits or (width > 32 and width != bits):
            raise Invalid("XT3104", f"transpose_bit_width = {width} is neither the {bits} bits of an element nor "
                          "several of them in at most 32\n" + ("use 32" if bits <= 16 else "leave it out"))


def check_words(along: str, size: int, together: int, element: Attribute) -> None:
    """Raise a verifier's error unless elements that a load puts together into words are whole words.

    Args:
        along: ``"rows"`` or ``"columns"``, what is put together.
        size: how many of them a block has.
        together: how many make a word.
        element: their type.
    """
    if together > 1 and size % together:
        raise Invalid("XT3109", f"{together} {along} of {element} make a word, and a block has {size}\n"
                      f"make it {size + -size % together} {along}: what lies outside the array reads as zero")


@irdl_op_definition
class StoreNdOp(HintedOp):
    """A block to memory; elements outside the base are dropped."""

    name = "xegpu.store_nd"
    MESSAGE: ClassVar[str] = "store"
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    assembly_format = "$value `,` $desc attr-dict `:` type($value) `,` type($desc)"

    def __init__(self, value: SSAValue, desc: SSAValue) -> None:
        super().__init__(operands=[value, desc])

    def verify_(self) -> None:
        check_hints(self, "store")
        desc = desc_of(self.desc)
        expected = loaded_shape(desc, False)
        if shape_of(self.value) != expected or self.value.type.element_type != desc.element_type:  # type: ignore
            raise Invalid("XT3108", f"this descriptor stores {list(expected)} of {desc.element_type}, not "
                          f"{self.value.type}\nstore a {vector(expected, desc.element_type)}, or change the descriptor")


@irdl_op_definition
class PrefetchNdOp(HintedOp):
    """A block to the caches; the hints say to which."""

    name = "xegpu.prefetch_nd"
    MESSAGE: ClassVar[str] = "prefetch"
    desc = operand_def(DESC)
    assembly_format = "$desc attr-dict `:` type($desc)"

    def __init__(self, desc: SSAValue, hints: Mapping[str, Attribute] | None = None) -> None:
        super().__init__(operands=[desc], properties=dict(hints or {}))

    def verify_(self) -> None:
        check_hints(self, "prefetch")
        check_block(desc_of(self.desc))


class ProductOp(IRDLOperation):
    """D = C + A x B over one block."""

    a = operand_def(VECTOR)
    b = operand_def(VECTOR)
    acc = opt_operand_def(VECTOR)
    sg_map_a = opt_prop_def(SgMapAttr)
    sg_map_b = opt_prop_def(SgMapAttr)
    sg_map_c = opt_prop_def(SgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$a `,` $b (`,` $acc^)? attr-dict `:` type($a) `,` type($b) (`,` type($acc)^)? `->` type($result)"
    )
    traits = traits_def(Pure())

    def __init__(self, a: SSAValue, b: SSAValue, acc: SSAValue | None, result: Attribute | None = None,
                 maps: tuple[LaneMap, LaneMap, LaneMap] | None = None) -> None:
        assert result is not None or acc is not None
        attributes = [None, None, None] if maps is None else [_lane_map(lanes) for lanes in maps]
        super().__init__(
            operands=[a, b, [acc] if acc is not None else []],
            result_types=[result if result is not None else acc.type],  # type: ignore[union-attr]
            properties=dict(zip(("sg_map_a", "sg_map_b", "sg_map_c"), attributes, strict=True)),
        )

    @property
    def maps(self) -> tuple[LaneMap, LaneMap, LaneMap] | None:
        """Lane maps of A, B and C, None on whole blocks."""
        if self.sg_map_a is None or self.sg_map_b is None or self.sg_map_c is None:
            return None
        return self.sg_map_a.data, self.sg_map_b.data, self.sg_map_c.data

    def sizes(self) -> tuple[int, int, int]:
        """M, N and K of the product."""
        maps = self.maps
        if maps is None:
            a, b = shape_of(self.a), shape_of(self.b)
            depth = a[1] * (a[2] if len(a) == 3 else 1)
            return a[0], b[1], depth
        # A lane map says nothing of the columns of a block; one unit across is what the engines read.
        a_map, _, c_map = maps
        rows, columns = c_map.block(_pair(shape_of(self.result)), c_map.unit[1])
        return rows, columns, a_map.block(_pair(shape_of(self.a)), a_map.unit[1])[1]

    def verify_(self) -> None:
        if self.acc is not None and self.acc.type != self.result.type:
            raise Invalid("XT3201", f"the accumulator is {self.acc.type} and the result {self.result.type}\n"
                          "make them equal: the result is the accumulator with the product added")
        missing = [name for name in MAP_NAMES if name not in self.properties]
        if 0 < len(missing) < len(MAP_NAMES):
            raise Invalid("XT3516", f"{missing[0]} is missing: fragments of a lane have three maps\n"
                          f"give {', '.join(MAP_NAMES)}, or none of them with whole blocks", alone=True)
        if self.maps is None:
            self._verify_words()
        m, n, k = self.sizes()
        maps = self.maps
        if maps is None:
            b = shape_of(self.b)
            rows = b[0] * (b[2] if len(b) == 3 else 1)
            if rows != k or shape_of(self.result) != (m, n):
                raise Invalid("XT3202", f"{self.a.type} x {self.b.type} does not give {self.result.type}" + (
                              f": A has {k} columns and B {rows} rows" if rows != k else "") + "\n"
                              f"multiply MxK by KxN, as {m}x{k} by {k}x{n} into {m}x{n}; fragments of a lane need "
                              f"{', '.join(MAP_NAMES)}")
            return
        try:
            fits = maps[0].fragment((m, k)) == shape_of(self.a) and maps[1].fragment((k, n)) == shape_of(self.b)
        except ShapeError as error:
            raise Invalid.of(error) from None
        if not fits:
            raise Invalid("XT3517",
                          f"fragments {self.a.type} and {self.b.type} are not those of a product of {m}x{k} by "
                          f"{k}x{n}\n"
                          f"a lane has {_fragment(maps[0], (m, k))} of A and {_fragment(maps[1], (k, n))} of B")

    def _verify_words(self) -> None:
        """A third dimension is that of the elements in a word of 32 bits; A has one only where B has."""
        together = 32 // of_mlir(self.a.type.element_type).bits  # type: ignore[attr-defined]
        ranks = [len(shape_of(value)) for value in (self.a, self.b)]
        for name, value, rank in zip("AB", (self.a, self.b), ranks, strict=True):
            if rank not in (2, 3) or (rank == 3 and (together == 1 or shape_of(value)[2] != together)):
                raise Invalid("XT3203", f"{name} is {value.type}\nwrite two dimensions" + (
                    f", or three of which the last is the {together} elements of a word" if together > 1 else ""))
        if ranks == [3, 2]:
            raise Invalid("XT3204", f"A is in words, {self.a.type}, and B is not, {self.b.type}\n"
                          "load B with packed, or leave A in two dimensions")


def _fragment(lanes: LaneMap, shape: tuple[int, int]) -> str:
    return "x".join(map(str, lanes.fragment(shape)))


def _pair(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2:
        raise Invalid("XT3518", f"a fragment has two dimensions, and {list(shape)} has {len(shape)}\n"
                      "the first counts units of the map, the second the elements of a lane in each")
    return shape[0], shape[1]


@irdl_op_definition
class DpasOp(ProductOp):
    """The matrix engine's product; B in VNNI form (3D) once packed."""

    name = "xegpu.dpas"

    def verify_(self) -> None:
        if (maps := self.maps) is not None:
            check_dpas(maps, of_mlir(self.a.type.element_type).bits)  # type: ignore[attr-defined]
        super().verify_()


@irdl_op_definition
class MadOp(ProductOp):
    """The same product in plain multiply-adds, where no matrix engine takes the types. It goes beyond the seed."""

    name = "xegpu.mad"


@irdl_op_definition
class PackOp(IRDLOperation):
    """A whole block ``[k, n]`` in registers to VNNI form ``[k / v, n, v]``. It goes beyond the seed.

    After ``distribute`` both are fragments: ``[k, 1]`` to ``[k / v, v]``, the same elements of the same lane.
    """

    name = "xegpu.pack"
    source = operand_def(VECTOR)
    sg_map = opt_prop_def(SgMapAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, sg_map: LaneMap | None = None) -> None:
        shape, element = shape_of(source), source.type.element_type  # type: ignore[attr-defined]
        factor = 32 // of_mlir(element).bits
        result = (shape[0] // factor, factor) if sg_map else (shape[0] // factor, shape[1], factor)
        super().__init__(operands=[source], result_types=[vector(result, element)],
                         properties={"sg_map": SgMapAttr(sg_map) if sg_map else None})

    def verify_(self) -> None:
        shape = shape_of(self.source)
        factor = 32 // of_mlir(self.source.type.element_type).bits  # type: ignore[attr-defined]
        if factor < 2 or len(shape) != 2 or shape[0] % factor:
            raise Invalid("XT3207", f"{self.source.type} does not pack into 32-bit words along its rows\n" + (
                "its elements fill such words by themselves" if factor < 2 else
                f"make it two dimensions, and its {shape[0]} rows a multiple of {factor}"))
        expected = (shape[0] // factor, factor) if self.sg_map else (shape[0] // factor, shape[1], factor)
        if self.result.type != (made := vector(expected, self.source.type.element_type)):  # type: ignore[attr-defined]
            raise Invalid("XT3206", f"{self.source.type} packs into {made}, not {self.result.type}\nwrite {made}")


@irdl_op_definition
class BitcastOp(IRDLOperation):
    """A block of words to a block of narrower elements: row ``i`` becomes rows, the lowest bits first.

    ``%h = xegpu.bitcast %w : vector<8x16xui32> -> vector<16x16xf16>``: the order in which VNNI form holds the rows of
    B, so that packing the result moves nothing. Fragments keep their lanes. It goes beyond the seed.
    """

    name = "xegpu.bitcast"
    source = operand_def(VECTOR)
    result = result_def(VECTOR)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, element: Attribute) -> None:
        super().__init__(operands=[source], result_types=[split_rows(source, element)])

    def verify_(self) -> None:
        check_split_rows(self.source, self.result)


def split_rows(source: SSAValue, element: Attribute) -> VectorType[Attribute]:
    """The type of words as rows of narrower elements: rows are the last dimension but one."""
    factor = of_mlir(source.type.element_type).bits // of_mlir(element).bits  # type: ignore[attr-defined]
    *outer, rows, columns = shape_of(source)
    return vector((*outer, rows * factor, columns), element)


def check_split_rows(source: SSAValue, result: SSAValue) -> None:
    """Raise a verifier's error unless one type holds the bits of the other, its words cut up along the rows."""
    if len(shape_of(source)) < 2:
        raise Invalid("XT3213", f"{source.type} has no rows, which its words would become more of\n"
                      "cast it to two dimensions first: 16 elements are 16x1 or 1x16")
    wide, narrow = (of_mlir(value.type.element_type) for value in (source, result))  # type: ignore[attr-defined]
    if i1 in (wide, narrow) or wide.bits <= narrow.bits or wide.bits % narrow.bits:
        raise Invalid("XT3211", f"words of {wide} do not hold a number of {narrow}\n"
                      f"narrower elements come of wider ones; of equal ones arith.bitcast makes others")
    if result.type != (wanted := split_rows(source, result.type.element_type)):  # type: ignore[attr-defined]
        raise Invalid("XT3212", f"{source.type} as {narrow} is a {wanted}, not a {result.type}\n"
                      f"each row gives {wide.bits // narrow.bits}")


@irdl_op_definition
class PadOp(IRDLOperation):
    """A block as it was loaded, with ``padding`` in the place of what lies outside the base. It goes beyond the seed.

    Memory operations pad with zero; this is for every other value.
    """

    name = "xegpu.pad"
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
        """The padding as a number."""
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
    """The number that a float or integer attribute holds."""
    if not isinstance(attribute, (FloatAttr, IntegerAttr)):
        raise Invalid("XT3114", f"{attribute} is no number\nwrite one with its type, as in 1.0 : f32", alone=True)
    return attribute.value.data


@irdl_op_definition
class ConvertLayoutOp(IRDLOperation):
    """A lane's fragment under one map to its fragment under another; elements move between lanes.

    It goes beyond the seed, which gives one map to each memory operation and says nothing of values that need two.
    """

    name = "xegpu.convert_layout"
    source = operand_def(VECTOR)
    source_map = opt_prop_def(SgMapAttr)
    target_map = opt_prop_def(SgMapAttr)
    block = opt_prop_def(IntegersAttr)
    result = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, source_map: LaneMap, target_map: LaneMap, shape: tuple[int, int]) -> None:
        element = source.type.element_type  # type: ignore[attr-defined]
        super().__init__(
            operands=[source], result_types=[vector(target_map.fragment(shape), element)],
            properties={"source_map": SgMapAttr(source_map), "target_map": SgMapAttr(target_map)},
        )
        if self.block_shape() != shape:
            self.properties["block"] = ArrayAttr([IntegerAttr(size, i64) for size in shape])

    def verify_(self) -> None:
        if self.source_map is None or self.target_map is None:
            raise Invalid("XT3519", "a fragment changes its layout, and the map of before or after is missing\n"
                          "give source_map and target_map", alone=True)
        block = self.block_shape()
        for what, value, lanes in (("operand", self.source, self.source_map.data),
                                   ("result", self.result, self.target_map.data)):
            try:
                expected = lanes.fragment(block)
            except ShapeError as error:
                raise Invalid.of(error) from None
            if value.type != vector(expected, self.source.type.element_type):  # type: ignore[attr-defined]
                raise Invalid("XT3524", f"the {what} is {value.type}, and a lane has {list(expected)} of a block of "
                              f"{block[0]}x{block[1]} by {spelled(lanes)}\n"
                              "give the block's rows and columns, block = [8, 16], where the maps do not say them")

    def block_shape(self) -> tuple[int, int]:
        """Rows and columns of the block; without ``block`` it is one unit wide in the wider of the two maps."""
        if self.block is not None:
            return _pair(tuple(size.value.data for size in self.block))
        source, target = self.source_map, self.target_map
        assert source is not None
        assert target is not None
        columns = max(source.data.unit[1], target.data.unit[1])
        return target.data.block(_pair(shape_of(self.result)), columns)
