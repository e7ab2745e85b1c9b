"""Gather loads: of single elements and chunks, of rows, and of columns of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, MemRefType, UnitAttr, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
)

from xegpu.dialect.block_io import DESC, desc_of
from xegpu.dialect.gather_scatter.descriptor import check_elements, check_vector, lanes_shape, scatter_of, values_shape
from xegpu.dialect.hints import HintedOp, check_hints
from xegpu.dialect.types import TensorDesc
from xegpu.dialect.vector import number_of
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.ir.memref import is_shared
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import GATHERED, WORDS, Record
from xegpu.ir.traits import ReadsMemory
from xegpu.mlir.vector import VECTOR, IntegersAttr, shape_of, vector_type
from xegpu.support.errors import Invalid

CHUNK_BYTES = 8
"""Bytes that a lane addresses in a gather of rows."""


def rows_shape(desc: TensorDesc, count: int) -> tuple[int, int]:
    """Shape of a lane's fragment of the rows that ``count`` such descriptors have: one element of each row."""
    return count * scatter_of(desc).chunk_size, 1


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
    quarter of the second row. The result has one element of each row a lane.

    All elements must be in bounds, or ``lengths`` has an element a descriptor, for each lane: how many elements there
    are from its chunk on, without the offset. What is not there is zero, and touches no memory; what is there ends with
    a word of 32 bits. With ``whole`` a chunk is there if that number is positive, whatever the offset.
    """

    name = "xegpu.load_rows"
    RECORD: ClassVar[Record] = GATHERED
    descs = var_operand_def(DESC)
    offset = operand_def(IndexType)
    lengths = opt_operand_def(VECTOR)
    whole = opt_prop_def(UnitAttr)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)))
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = ("`[` $offset `]` $descs (`lengths` $lengths^ `:` type($lengths))? attr-dict `:` type($descs) "
                       "`->` type($result)")

    def __init__(self, descs: Sequence[SSAValue], offset: SSAValue, lengths: SSAValue | None = None, *,
                 whole: bool = False) -> None:
        desc = desc_of(descs[0])
        super().__init__(operands=[descs, offset, lengths], properties={"whole": UnitAttr() if whole else None},
                         result_types=[vector_type(rows_shape(desc, len(descs)), desc.element_type)])

    def verify_(self) -> None:
        desc = desc_of(self.descs[0]) if self.descs else None
        if desc is None or desc.sg_map is None or scatter_of(desc).chunk_size * desc.dtype.bytes != CHUNK_BYTES \
                or any(other.type != self.descs[0].type for other in self.descs):
            raise Invalid("XT3315", "rows are loaded by descriptors of one type, with an sg_map and chunks of "
                          f"{CHUNK_BYTES} bytes\nchunk_size is 4 for elements of 16 bits, and 2 for those of 32",
                          alone=True)
        if self.lengths is not None:
            check_vector("length", self.lengths, (len(self.descs), 1), IndexType())
        check_vector("result", self.result, rows_shape(desc, len(self.descs)), desc.element_type)


WORD_BITS = 32
"""Bits of a word of VNNI form."""


@operation_definition
class LoadColumnsOp(IRDLOperation):
    """Gather of a column for each lane, contiguous in memory from its offset on, as words of 32 bits.

    Of each column the first ``lengths`` elements, which are whole words, are loaded, none if that is negative; the
    others are zero, and touch no memory. With ``whole`` these are all or none of them. A column begins at a multiple of
    4 bytes; ``unaligned`` it may begin anywhere, and lengths be any. ``packed`` it is in VNNI form:
    ``vector<8x16x2xbf16>`` of 16 rows.
    """

    name = "xegpu.load_columns"
    RECORD: ClassVar[Record] = WORDS
    source = operand_def(MemRefType)
    offsets = operand_def(VECTOR)
    lengths = operand_def(VECTOR)
    whole = opt_prop_def(UnitAttr)
    unaligned = opt_prop_def(UnitAttr)
    packed = opt_prop_def(UnitAttr)
    result = result_def(VECTOR)
    traits = traits_def(ReadsMemory((0,)))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = ("$source `,` $offsets `,` $lengths attr-dict `:` type($source) `,` type($offsets) `,` "
                       "type($lengths) `->` type($result)")

    def __init__(self, source: SSAValue, offsets: SSAValue, lengths: SSAValue, rows: int, *, whole: bool = False,
                 unaligned: bool = False, packed: bool = False) -> None:
        dtype = of_mlir(source.type.element_type)  # type: ignore[attr-defined]
        super().__init__(operands=[source, offsets, lengths],
                         result_types=[vector_type(columns_shape(shape_of(offsets), rows, dtype, packed), dtype.mlir)],
                         properties={name: UnitAttr() if holds else None for name, holds in (
                             ("whole", whole), ("unaligned", unaligned), ("packed", packed))})

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
