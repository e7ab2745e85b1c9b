"""Bounds checks of blocks: whether what loads read lies inside its array, asked once for a loop.

    %inside, %rows, %columns = xegpu.in_bounds %a [0, 0, 32, 64] : tensor_desc<32x16xbf16>
    %more = arith.minsi %end, %columns
    scf.for %k = %0 to %more step %32 {
      %d = update_nd_offset %a, [%0, %k] ; %v = load_nd %d {in_bounds} }

``no_alias`` asks whether the memory that a loop stores to and the memory that it loads from are disjoint.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerAttr, i1, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xegpu.dialect.block_io import DESC, check_block, desc_of
from xegpu.dialect.types import TensorDesc
from xegpu.ir.op_definition import operation_definition
from xegpu.ir.record import MOVED, Record
from xegpu.layout.lane_map import unaligned_copy
from xegpu.mlir.vector import IntegersAttr, integers, values_of
from xegpu.support.errors import Invalid
from xegpu.target.block2d import SURFACE_ALIGNMENT

ALIGNMENT = 4
"""Subgroup block reads take rows that begin at a multiple of these bytes."""
STORE_ALIGNMENT = 16
"""Subgroup block writes go to a multiple of these bytes."""
_ALIGNMENTS = (ALIGNMENT, STORE_ALIGNMENT, SURFACE_ALIGNMENT)
_ROW_BITS = (8, 16, 32)
"""Rows of 64-bit elements are read by single elements, 16 in a message as well: block reads of them spill."""


def row_bits(desc: TensorDesc, lanes: int) -> int:
    """Bits that a lane gets of one row in a subgroup block read; 0 where blocks are not read by such messages.

    Args:
        desc: what describes the blocks.
        lanes: of a subgroup.
    """
    if desc.block.memory_scope != "global" or desc.block.access != "rows" or desc.sg_map is None:
        return 0
    bits = desc.sg_map.wi_data[1] * desc.dtype.bits
    return bits if desc.sg_map.wi_layout == (1, lanes) and bits in _ROW_BITS else 0


def is_row_of_words(desc: TensorDesc, lanes: int) -> bool:
    """Whether each lane of a subgroup reads 32-bit words of its own row, which are a vector in memory.

    So operand B of DPAS lies in an array that has its columns as rows: a word is two or four elements along K.
    """
    return desc.block.memory_scope == "global" and desc.block.access == "rows" and desc.sg_map is not None and \
        desc.block.array_length == 1 and desc.sg_map.wi_layout == (lanes, 1) and desc.sg_map.wi_data[0] == 1 and \
        desc.sg_map.wi_data[1] * desc.dtype.bits == 8 * ALIGNMENT


def fills_writes(desc: TensorDesc) -> bool:
    """Whether rows of a block fill 1D block writes, whose addresses are then multiples of :data:`STORE_ALIGNMENT`."""
    return desc.shape[-1] * desc.block.array_length * desc.dtype.bytes % STORE_ALIGNMENT == 0


def is_unaligned_copy(desc: TensorDesc) -> bool:
    """Whether blocks are read by vectors of words in each lane's own rows, which may begin in the middle of a word."""
    return desc.block.memory_scope == "global" and desc.block.access == "rows" and desc.dtype.bits < 32 and \
        desc.block.array_length == 1 and \
        desc.sg_map in (unaligned_copy("a", desc.dtype.bits), unaligned_copy("b", desc.dtype.bits))


@operation_definition
class InBoundsOp(IRDLOperation):
    """Bounds check of a box (top, left, bottom, right), relative to a descriptor's offsets.

    ``inside`` also says that its rows begin at a multiple of ``alignment`` bytes (4 where it is left out), where
    messages need that. ``rows`` and ``columns`` are how far the box could go on, down and to the right, and still lie
    inside; they are negative where it does not. With ``pitch``, ``inside`` also says that rows begin at least as many
    elements apart.
    """

    name = "xegpu.in_bounds"
    RECORD: ClassVar[Record] = MOVED
    desc = operand_def(DESC)
    box = prop_def(IntegersAttr)
    alignment = opt_prop_def(IntegerAttr)
    pitch = opt_prop_def(IntegerAttr)
    inside = result_def(i1)
    rows = result_def(IndexType)
    columns = result_def(IndexType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$desc $box attr-dict `:` type($desc)"

    def __init__(self, desc: SSAValue, box: tuple[int, int, int, int], alignment: int = ALIGNMENT,
                 pitch: int = 0) -> None:
        super().__init__(operands=[desc], result_types=[i1, IndexType(), IndexType()], properties={
            "box": integers(box), "alignment": None if alignment == ALIGNMENT else IntegerAttr(alignment, i64),
            "pitch": IntegerAttr(pitch, i64) if pitch else None})

    @property
    def bytes_of_alignment(self) -> int:
        """Alignment of rows that messages ask for, in bytes; 1 where they take any."""
        desc = desc_of(self.desc)
        multiple = ALIGNMENT if self.alignment is None else self.alignment.value.data
        return 1 if is_unaligned_copy(desc) or desc.dtype.bytes % multiple == 0 else multiple

    @property
    def sides(self) -> tuple[int, int, int, int]:
        """The box: top, left, bottom, right."""
        top, left, bottom, right = values_of(self.box)
        return top, left, bottom, right

    def verify_(self) -> None:
        check_block(desc_of(self.desc))
        sides = values_of(self.box)
        if len(sides) != 4 or sides[0] >= sides[2] or sides[1] >= sides[3]:
            raise Invalid("XT3123", f"{list(sides)} is not a box: it has top, left, bottom and right, the last two "
                          "greater than the first two\nwrite [0, 0, 8, 16] for a block of 8 x 16 where the "
                          "descriptor stands", alone=True)
        if self.alignment is not None and self.alignment.value.data not in _ALIGNMENTS:
            raise Invalid("XT3124", f"messages take rows at multiples of {ALIGNMENT}, {STORE_ALIGNMENT} or "
                          f"{SURFACE_ALIGNMENT} bytes, not of {self.alignment.value.data}\nleave alignment out, or "
                          f"write {STORE_ALIGNMENT} for stores, {SURFACE_ALIGNMENT} for 2D block messages", alone=True)


@operation_definition
class NoAliasOp(IRDLOperation):
    """Run-time alias check: whether the matrices below two descriptors have no memory in common, gaps included."""

    name = "xegpu.no_alias"
    RECORD: ClassVar[Record] = MOVED
    left = operand_def(DESC)
    right = operand_def(DESC)
    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = "$left `,` $right attr-dict `:` type($left) `,` type($right)"

    def __init__(self, left: SSAValue, right: SSAValue) -> None:
        super().__init__(operands=[left, right], result_types=[i1])

    def verify_(self) -> None:
        for desc in self.operands:
            check_block(desc_of(desc))


OPERATIONS = (InBoundsOp, NoAliasOp)
