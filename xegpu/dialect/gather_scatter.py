"""Scattered descriptors, gather, scatter, prefetch and atomics (XeGPU.md, "scattered load").

A descriptor has one element per lane of the subgroup, or ``chunk_size`` of them. Vectors cover the subgroup before
``distribute``, ``vector<16xf32>``, and are the elements of one lane after it, ``vector<1xf32>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure

from xegpu.dialect.block_io import DESC, check_block, check_moved, check_source, desc_of
from xegpu.dialect.hints import HintedOp, check_hints
from xegpu.dialect.types import ScatterTdesc, TensorDesc, TensorDescType, check_line
from xegpu.dialect.vector import number_of
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.ir.memref import array_at, is_shared, verify_address_width
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import GATHERED, WORDS, Record
from xegpu.ir.traits import InfersResultType, MovesView, ReadsMemory, WritesMemory
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.atomic_kind import KINDS, UPDATED, fault
from xegpu.mlir.vector import VECTOR, IntegersAttr, integers, shape_of, values_of, vector_type
from xegpu.support.errors import Invalid, misread

LANES = (1, 2, 4, 8, 16, 32)
CHUNKS = (1, 2, 3, 4, 8)
SCOPES = ("global", "slm")


@irdl_attr_definition
class AtomicKindAttr(Data[str]):
    """Atomic read-modify-write kind, one of ``arith.AtomicRMWKind``: ``<addf>``."""

    name = "xegpu.atomic_kind"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
        if kind not in KINDS:
            misread(parser, "XT3301", f"{kind} is no kind of atomic update\nuse one of {', '.join(KINDS)}")
        return kind

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


def check_elements(dtype: DType) -> None:
    """Verify that elements of this type can be addressed individually."""
    if dtype not in GATHERED.elements and dtype.kind != "p":
        raise Invalid("XT3302", f"elements of {dtype} cannot be reached one by one\n"
                      "view the array as another type of the same size, such as u8")


def check_kind(kind: str, dtype: DType) -> None:
    """Verify that an element type has an atomic kind."""
    code, message, hint = fault(kind, dtype)
    if code:
        raise Invalid(code, f"{message}\n{hint}")


def check_vector(name: str, value: SSAValue, shape: tuple[int, ...], element: Attribute) -> None:
    """Verify the shape and element type of a vector."""
    assert isinstance(value.type, VectorType)
    if shape_of(value) != shape or value.type.element_type != element:
        expected = vector_type(shape, element)
        raise Invalid("XT3304", f"the {name} must be {expected}, and is {value.type}\n"
                      f"give one {name} for each of the elements")


def scatter_of(desc: TensorDesc) -> ScatterTdesc:
    """Scatter attributes of a descriptor; a verification error for a block descriptor."""
    if desc.scatter is None:
        raise Invalid("XT3305", "this takes a descriptor of single elements, and that one describes a block\n"
                      "make one with xegpu.create_tdesc, or use load_nd, store_nd and prefetch_nd")
    return desc.scatter


def lanes_shape(desc: TensorDesc) -> tuple[int, ...]:
    """Shape of offsets and masks: one element per lane."""
    return (1,) if desc.sg_map is not None else desc.shape[:1]


def values_shape(desc: TensorDesc) -> tuple[int, ...]:
    """Shape of the loaded vector: ``[chunk_size,] lanes``."""
    chunk = scatter_of(desc).chunk_size
    return lanes_shape(desc) if chunk == 1 else (chunk, *lanes_shape(desc))


CHUNK_BYTES = 8
"""Bytes that a lane addresses in a gather of rows."""


def rows_shape(desc: TensorDesc, count: int) -> tuple[int, int]:
    """Shape of a lane's fragment of the rows that ``count`` such descriptors have: one element of each row."""
    return count * scatter_of(desc).chunk_size, 1


def _check_desc(desc: TensorDesc) -> None:
    scatter = scatter_of(desc)
    lanes = desc.shape[0] if desc.shape else 0
    if lanes not in LANES:
        raise Invalid("XT3306", f"a scattered descriptor has 1, 2, 4, 8, 16 or 32 lanes, not {lanes}\n"
                      "make one descriptor for each register of elements", alone=True)
    if scatter.chunk_size not in CHUNKS:
        raise Invalid("XT3307",
                      f"chunk_size is 1, 2, 3, 4 or 8, not {scatter.chunk_size}\nuse several descriptors", alone=True)
    if scatter.memory_scope not in SCOPES:
        raise Invalid("XT3308",
                      f"memory_scope is global or slm, not {scatter.memory_scope}\ndrop it for global memory",
                      alone=True)
    if desc.shape[1:] != ((scatter.chunk_size,) if scatter.chunk_size > 1 else ()):
        raise Invalid("XT3309",
                      f"a descriptor of {desc.shape[0]} lanes with chunks of {scatter.chunk_size} has another "
                      f"shape than {list(desc.shape)}\nits shape is the lanes, then chunk_size if that is "
                      "more than 1", alone=True)
    if desc.sg_map is not None:
        check_line(desc.sg_map, lanes, scatter.chunk_size)
    check_elements(desc.dtype)


@operation_definition
class CreateTdescOp(IRDLOperation):
    """Scattered descriptor: for each lane an offset from the base, in elements.

    The base is a memref, whose first element counts as 0, or an address.
    """

    name = "xegpu.create_tdesc"
    RECORD: ClassVar[Record] = GATHERED
    source = operand_def(MemRefType | IntegerType)
    offsets = operand_def(VECTOR)
    result = result_def(DESC)
    traits = traits_def(Pure())
    assembly_format = "$source `,` $offsets attr-dict `:` type($source) `,` type($offsets) `->` type($result)"

    def __init__(self, source: SSAValue, offsets: SSAValue, result: TensorDescType) -> None:
        super().__init__(operands=[source, offsets], result_types=[result])

    def verify_(self) -> None:
        array = array_at(self.source) or self.source
        desc, source = desc_of(self.result), array.type
        _check_desc(desc)
        check_source(source, scatter_of(desc).memory_scope, desc.element_type)
        check_vector("offset", self.offsets, lanes_shape(desc), IndexType())
        verify_address_width(source, "XT3027")


@operation_definition
class UpdateOffsetOp(IRDLOperation):
    """Scattered descriptor with per-lane updated offsets, in elements."""

    name = "xegpu.update_offset"
    RECORD: ClassVar[Record] = GATHERED
    desc = operand_def(DESC)
    offsets = operand_def(VECTOR)
    result = result_def(DESC)
    traits = traits_def(Pure(), MovesView())
    assembly_format = "$desc `,` $offsets attr-dict `:` type($desc) `,` type($offsets) `->` type($result)"

    def __init__(self, desc: SSAValue, offsets: SSAValue) -> None:
        super().__init__(operands=[desc, offsets], result_types=[desc.type])

    def verify_(self) -> None:
        desc = desc_of(self.desc)
        scatter_of(desc)
        check_vector("offset", self.offsets, lanes_shape(desc), IndexType())
        check_moved(self.desc.type, self.result.type)


@operation_definition
class LoadGatherOp(HintedOp):
    """Gather load; masked-off elements are ``padding`` and access no memory.

    The chunk is the first dimension: 4 elements of each of 16 lanes are a ``vector<4x16xf32>``, with
    ``transpose = [1, 0]``. The padding goes beyond the specification, which leaves masked-off elements undefined.
    """

    name = "xegpu.load_gather"
    RECORD: ClassVar[Record] = GATHERED
    desc = operand_def(DESC)
    mask = operand_def(VECTOR)
    padding = opt_prop_def(Attribute)
    transpose = opt_prop_def(IntegersAttr)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc `,` $mask attr-dict `:` type($desc) `,` type($mask) `->` type($result)"

    def __init__(self, desc: SSAValue, mask: SSAValue, padding: Attribute | None = None) -> None:
        parameters = desc_of(desc)
        transpose = ArrayAttr([IntegerAttr(axis, i64) for axis in (1, 0)])
        super().__init__(
            operands=[desc, mask], result_types=[vector_type(values_shape(parameters), parameters.element_type)],
            properties={"padding": padding, "transpose": transpose if scatter_of(parameters).chunk_size > 1 else None})

    @property
    def number(self) -> float:
        """Padding value."""
        return 0 if self.padding is None else number_of(self.padding)

    def verify_(self) -> None:
        check_hints(self, "load")
        if self.padding is not None:
            number_of(self.padding)
        desc = desc_of(self.desc)
        chunk = scatter_of(desc).chunk_size
        axes = None if self.transpose is None else [axis.value.data for axis in self.transpose]
        if axes != ([1, 0] if chunk > 1 else None):
            raise Invalid("XT3310", "transpose = [1, 0] goes with chunk_size above 1, and with no other\n"
                          + ("write transpose = [1, 0]" if chunk > 1 else "leave transpose out"), alone=True)
        check_vector("mask", self.mask, lanes_shape(desc), i1)
        check_vector("result", self.result, values_shape(desc), desc.element_type)


@operation_definition
class LoadRowsOp(IRDLOperation):
    """Rows of a block, each contiguous in memory, by gathers of 8 bytes a lane (``coalesce-gathers``).

    The chunks of all lanes of ``descs``, in order, are the block in row-major order, ``offset`` elements further on:
    with chunks of 4 elements over 16 lanes a descriptor has 4 rows of 16 elements, of which lane 5 addresses the second
    quarter of the second row. The result has one element of each row a lane. All elements must be in bounds.
    """

    name = "xegpu.load_rows"
    RECORD: ClassVar[Record] = GATHERED
    descs = var_operand_def(DESC)
    offset = operand_def(IndexType)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)))
    assembly_format = "`[` $offset `]` $descs attr-dict `:` type($descs) `->` type($result)"

    def __init__(self, descs: Sequence[SSAValue], offset: SSAValue) -> None:
        desc = desc_of(descs[0])
        super().__init__(operands=[descs, offset],
                         result_types=[vector_type(rows_shape(desc, len(descs)), desc.element_type)])

    def verify_(self) -> None:
        desc = desc_of(self.descs[0]) if self.descs else None
        if desc is None or desc.sg_map is None or scatter_of(desc).chunk_size * desc.dtype.bytes != CHUNK_BYTES \
                or any(other.type != self.descs[0].type for other in self.descs):
            raise Invalid("XT3315", "rows are loaded by descriptors of one type, with an sg_map and chunks of "
                          f"{CHUNK_BYTES} bytes\nchunk_size is 4 for elements of 16 bits, and 2 for those of 32",
                          alone=True)
        check_vector("result", self.result, rows_shape(desc, len(self.descs)), desc.element_type)


WORD_BITS = 32
"""Bits of a word of VNNI form."""


@operation_definition
class LoadColumnsOp(IRDLOperation):
    """Gather of a column for each lane, contiguous in memory from its offset on, as words of 32 bits.

    Of each column the first ``lengths`` elements, which are whole words, are loaded, none if that is negative; the
    others are zero, and touch no memory. With ``whole`` these are all or none of them. A column begins at a multiple of
    4 bytes. ``packed`` it is in VNNI form: ``vector<8x16x2xbf16>`` of 16 rows.
    """

    name = "xegpu.load_columns"
    RECORD: ClassVar[Record] = WORDS
    source = operand_def(MemRefType)
    offsets = operand_def(VECTOR)
    lengths = operand_def(VECTOR)
    whole = opt_prop_def(UnitAttr)
    packed = opt_prop_def(UnitAttr)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = ("$source `,` $offsets `,` $lengths attr-dict `:` type($source) `,` type($offsets) `,` "
                       "type($lengths) `->` type($result)")

    def __init__(self, source: SSAValue, offsets: SSAValue, lengths: SSAValue, rows: int, *, whole: bool = False,
                 packed: bool = False) -> None:
        dtype = of_mlir(source.type.element_type)  # type: ignore[attr-defined]
        super().__init__(operands=[source, offsets, lengths],
                         result_types=[vector_type(columns_shape(shape_of(offsets), rows, dtype, packed), dtype.mlir)],
                         properties={"whole": UnitAttr() if whole else None, "packed": UnitAttr() if packed else None})

    @property
    def rows(self) -> int:
        """Elements of a column."""
        shape = shape_of(self.result)
        return shape[0] if self.packed is None else shape[0] * shape[-1]

    def verify_(self) -> None:
        assert isinstance(self.source.type, MemRefType)
        dtype, lines = of_mlir(self.source.type.element_type), shape_of(self.offsets)
        check_elements(dtype)
        for name, value in (("offset", self.offsets), ("length", self.lengths)):
            check_vector(name, value, lines[:1], IndexType())
        if dtype.bits > WORD_BITS or self.rows * dtype.bits % WORD_BITS or is_shared(self.source.type) or (
                self.packed is not None and dtype.bits == WORD_BITS):
            raise Invalid("XT3316", f"columns of {self.rows} elements of {dtype} are not loaded as words\n"
                          "load whole words of 32 bits from global memory; packed are elements of 8 and 16 bits",
                          alone=True)
        check_vector("result", self.result, columns_shape(lines, self.rows, dtype, self.packed is not None), dtype.mlir)


def columns_shape(lines: Sequence[int], rows: int, dtype: DType, packed: bool) -> tuple[int, ...]:
    """Shape of columns for the shape of their offsets: of a subgroup, or of a lane."""
    if not packed:
        return rows, lines[0]
    together = WORD_BITS // dtype.bits
    return (rows // together, together) if lines[0] == 1 else (rows // together, lines[0], together)


@operation_definition
class StoreScatterOp(HintedOp):
    """Scatter store; masked-off elements access no memory."""

    name = "xegpu.store_scatter"
    RECORD: ClassVar[Record] = GATHERED
    MESSAGE: ClassVar[str] = "store"
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    mask = operand_def(VECTOR)
    traits = traits_def(WritesMemory(1))
    assembly_format = "$value `,` $desc `,` $mask attr-dict `:` type($value) `,` type($desc) `,` type($mask)"

    def __init__(self, value: SSAValue, desc: SSAValue, mask: SSAValue) -> None:
        super().__init__(operands=[value, desc, mask])

    def verify_(self) -> None:
        check_hints(self, "store")
        desc = desc_of(self.desc)
        check_vector("value", self.value, values_shape(desc), desc.element_type)
        check_vector("mask", self.mask, lanes_shape(desc), i1)


@operation_definition
class PrefetchOp(HintedOp):
    """Scattered prefetch into the caches."""

    name = "xegpu.prefetch"
    RECORD: ClassVar[Record] = GATHERED
    MESSAGE: ClassVar[str] = "prefetch"
    desc = operand_def(DESC)
    assembly_format = "$desc attr-dict `:` type($desc)"

    def __init__(self, desc: SSAValue) -> None:
        super().__init__(operands=[desc])

    def verify_(self) -> None:
        check_hints(self, "prefetch")
        scatter_of(desc_of(self.desc))


@operation_definition
class AtomicRMWOp(IRDLOperation):
    """Atomic read-modify-write of each element; the results are the old values, 0 where masked off.

    Updates of one address are serialized in any order, with relaxed memory order and device scope.
    """

    name = "xegpu.atomic_rmw"
    RECORD: ClassVar[Record] = UPDATED
    kind = prop_def(AtomicKindAttr)
    value = operand_def(VECTOR)
    desc = operand_def(DESC)
    mask = operand_def(VECTOR)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((1,)), WritesMemory(1), InfersResultType(lambda op, operands: operands[0].type))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = ("$kind $value `,` $desc `,` $mask attr-dict `:` type($value) `,` type($desc) `,` type($mask) "
                       "`->` type($result)")

    def __init__(self, kind: str, value: SSAValue, desc: SSAValue, mask: SSAValue) -> None:
        super().__init__(operands=[value, desc, mask], result_types=[value.type],
                         properties={"kind": AtomicKindAttr(kind)})

    def verify_(self) -> None:
        desc = desc_of(self.desc)
        if scatter_of(desc).chunk_size > 1:
            raise Invalid("XT3311", "atomic updates take one element a lane\nuse chunk_size = 1")
        check_kind(self.kind.data, desc.dtype)
        check_vector("value", self.value, values_shape(desc), desc.element_type)
        check_vector("mask", self.mask, lanes_shape(desc), i1)
        check_vector("result", self.result, values_shape(desc), desc.element_type)


@operation_definition
class BlockElementsOp(IRDLOperation):
    """Conversion of a part of a block descriptor to a scattered one, one element a lane, with an in-bounds mask.

    It goes beyond XeGPU.md, where scattered descriptors have offsets from a base only: those of a large array do not
    fit a device's 32-bit index, while a block descriptor has the 64-bit address.
    """

    name = "xegpu.block_elements"
    RECORD: ClassVar[Record] = Record(UPDATED.elements)
    desc = operand_def(DESC)
    offsets = prop_def(IntegersAttr)
    sizes = prop_def(IntegersAttr)
    result = result_def(DESC)
    inside = result_def(VECTOR)
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$desc attr-dict `:` type($desc) `->` type($result) `,` type($inside)"

    def __init__(self, desc: SSAValue, offsets: Sequence[int], sizes: Sequence[int],
                 sg_map: LaneMap | None = None) -> None:
        parameters, lanes = desc_of(desc), sizes[0] * sizes[1]
        result = TensorDesc((lanes,), parameters.element_type, sg_map=sg_map,
                            scatter=ScatterTdesc(parameters.block.memory_scope))
        super().__init__(operands=[desc], result_types=[TensorDescType(result), vector_type(lanes_shape(result), i1)],
                         properties={"offsets": integers(offsets), "sizes": integers(sizes)})

    def part(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Offsets and sizes of the part, each as (row, column)."""
        (row, column), (rows, columns) = values_of(self.offsets), values_of(self.sizes)
        return (row, column), (rows, columns)

    def verify_(self) -> None:
        block, part = desc_of(self.desc), desc_of(self.result)
        check_block(block)
        offsets, sizes = values_of(self.offsets), values_of(self.sizes)
        if not len(offsets) == len(sizes) == len(block.shape) == 2 or \
                any(o < 0 or o + s > n for o, s, n in zip(offsets, sizes, block.shape, strict=True)):
            raise Invalid("XT3312", f"offsets {list(offsets)} with sizes {list(sizes)} leave the block "
                          f"{list(block.shape)}\noffset and size together are at most the block's size, in each "
                          f"dimension",
                          alone=True)
        _check_desc(part)
        if part.shape != (sizes[0] * sizes[1],) or part.element_type != block.element_type:
            raise Invalid("XT3313", f"{sizes[0]}x{sizes[1]} elements of {self.desc.type} are no {self.result.type}\n"
                          f"the result describes {sizes[0] * sizes[1]} elements of {block.element_type}, one a lane")
        check_vector("mask", self.inside, lanes_shape(part), i1)


OPERATIONS = (CreateTdescOp, UpdateOffsetOp, LoadGatherOp, LoadRowsOp, LoadColumnsOp, StoreScatterOp, PrefetchOp,
              AtomicRMWOp, BlockElementsOp)
