"""Descriptors of blocks and lines of an array: ``create_nd_tdesc``, ``update_nd_offset`` (XeGPU.md)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xegpu.declaring import operation_definition
from xegpu.dialect.attributes import ACCESS, DescriptorType, TensorDesc, TensorDescType
from xegpu.dialect.lane_rules import check_division
from xegpu.errors import Invalid
from xegpu.memrefs import array_at, is_address, is_shared, verify_described, verify_line

DESC = base(TensorDescType)


def desc_of(value: SSAValue) -> TensorDesc:
    """The parameters of the descriptor that ``value`` is."""
    assert isinstance(value.type, DescriptorType)
    return value.type.data


def check_block(desc: TensorDesc) -> None:
    """Raise a verifier's error for a descriptor of single elements, which no operation on blocks takes."""
    if desc.scatter is not None:
        raise Invalid("XT3001", "this takes a descriptor of a block, and that one describes single elements\n"
                      "make one with create_nd_tdesc, or use load_gather, store_scatter and prefetch")
    if len(desc.shape) not in (1, 2):
        raise Invalid("XT3002", f"a descriptor of a block has one or two dimensions, not {len(desc.shape)}\n"
                      "give the indices in front of them as offsets of the memref")


ARRAYS = (1, 2, 4, 8)
"""How many blocks may lie side by side in one descriptor; a message takes four at most."""


@operation_definition
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


@operation_definition
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


OPERATIONS = (CreateNdTdescOp, UpdateNdOffsetOp)
