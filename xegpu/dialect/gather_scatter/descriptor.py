"""Scattered descriptors: an offset for each lane, made, moved, and cut out of a block's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, VectorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from xegpu.dialect.block_io import DESC, check_block, check_moved, check_source, desc_of
from xegpu.dialect.types import ScatterTdesc, TensorDesc, TensorDescType, check_line
from xegpu.ir.dtypes import DType
from xegpu.ir.memref import array_at, verify_address_width
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import GATHERED, Record
from xegpu.ir.traits import MovesView
from xegpu.layout.lane_map import LaneMap
from xegpu.mlir.atomic_kind import UPDATED
from xegpu.mlir.vector import VECTOR, IntegersAttr, integers, shape_of, values_of, vector_type
from xegpu.support.errors import Invalid

LANES = (1, 2, 4, 8, 16, 32)
CHUNKS = (1, 2, 3, 4, 8)
SCOPES = ("global", "slm")


def check_elements(dtype: DType) -> None:
    """Verify that elements of this type can be addressed individually."""
    if dtype not in GATHERED.elements and dtype.kind != "p":
        raise Invalid("XT3302", f"elements of {dtype} cannot be reached one by one\n"
                      "view the array as another type of the same size, such as u8")


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


def check_desc(desc: TensorDesc) -> None:
    """Verify lanes, chunk size, memory scope, shape and element type of a scattered descriptor."""
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
        check_desc(desc)
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
        check_desc(part)
        if part.shape != (sizes[0] * sizes[1],) or part.element_type != block.element_type:
            raise Invalid("XT3313", f"{sizes[0]}x{sizes[1]} elements of {self.desc.type} are no {self.result.type}\n"
                          f"the result describes {sizes[0] * sizes[1]} elements of {block.element_type}, one a lane")
        check_vector("mask", self.inside, lanes_shape(part), i1)
