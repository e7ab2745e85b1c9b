"""Memory descriptions of memrefs, tiles and descriptors: sizes, strides, memory space.

A tile or descriptor describes its memory in one of two ways: by operands, a size and a stride for each dimension, or,
on a memref of static shape, by that type alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    DenseArrayBase,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.irdl import AttrSizedOperandSegments, IRDLOperation, operand_def, traits_def, var_operand_def
from xdsl.traits import Pure

from xegpu.ir.create import initialize
from xegpu.ir.matchers import number
from xegpu.ir.use_def import array_of
from xegpu.support.errors import Invalid

_Number = TypeVar("_Number")
SHARED = 3
"""Memory space number of shared local memory (SLM), as in LLVM's address spaces."""
SHARED_SPACE = IntegerAttr(SHARED, i64)
"""Memory space of shared local memory as a memref has it."""

CASTS = ("arith.index_cast", "arith.index_castui")
"""Names of the operations that convert an address between ``i64`` and ``index``."""


def array_at(address: SSAValue) -> SSAValue | None:
    """Array whose aligned pointer an address was extracted from; None if unknown."""
    owner = address.owner
    while isinstance(owner, Operation) and owner.name in CASTS:
        owner = owner.operands[0].owner
    if isinstance(owner, Operation) and owner.name == "memref.extract_aligned_pointer_as_index":
        return owner.operands[0]
    return None


class DescribedOp(IRDLOperation):
    """Base of operations that make a tile or descriptor of memory: operands and syntax.

    Offsets, sizes and strides are in elements, one for each dimension; a memref may say sizes and strides itself.
    """

    source = operand_def(Attribute)
    offsets = var_operand_def(IndexType)
    shape = var_operand_def(IndexType)
    strides = var_operand_def(IndexType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `,` `[` $offsets `]` (`,` `[` $shape^ `]` `,` `[` $strides `]`)? attr-dict "
        "`:` type($source) `->` type($result)"
    )

    def __init__(self, source: SSAValue, offsets: Sequence[SSAValue], shape: Sequence[SSAValue],
                 strides: Sequence[SSAValue], result: Attribute) -> None:
        initialize(self, [source, *offsets, *shape, *strides], [result], {
            AttrSizedOperandSegments.attribute_name: _segments(1, len(offsets), len(shape), len(strides))})

    def is_single(self, axis: int) -> bool:
        """Whether a dimension is known to have one index, at which the tile or descriptor stands."""
        return bool(self.shape) and number(self.shape[axis]) == 1 and number(self.offsets[axis]) == 0


@cache
def _segments(*sizes: int) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i32, sizes)


ALIGNED = "aligned"
"""Attribute of an init operation with explicit sizes and strides: its memory satisfies the rules of 2D block IO."""


def shared_argument(type_: Attribute) -> Invalid:
    """Error for an argument in shared local memory."""
    return Invalid("XT3020", f"an argument cannot lie in shared local memory, as {type_} does\n"
                   "allocate it in the kernel: memref.alloc() : memref<...>")


def is_shared(type_: Attribute) -> bool:
    """Whether a type is a memref in shared local memory."""
    return isinstance(type_, MemRefType) and isinstance(type_.memory_space, IntegerAttr) \
        and type_.memory_space.value.data == SHARED


def is_address(type_: Attribute) -> bool:
    """Whether a type is a raw address, an integer of 64 bits."""
    return isinstance(type_, IntegerType) and type_.width.data == 64


def static_form(type_: Attribute) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes and strides of a memref of static shape and layout, None for any other type."""
    if not isinstance(type_, MemRefType) or DYNAMIC_INDEX in type_.get_shape():
        return None
    strides = _static_strides(type_)
    return None if strides is None else (type_.get_shape(), strides)


def _static_strides(type_: MemRefType) -> tuple[int, ...] | None:
    sizes, layout = type_.get_shape(), type_.layout
    if isinstance(layout, NoneAttr):
        return row_major(sizes)
    if isinstance(layout, StridedLayoutAttr):
        steps = tuple(stride.data for stride in layout.strides if isinstance(stride, IntAttr))
        return steps if len(steps) == len(sizes) and not _is_shifted(layout) else None
    if isinstance(layout, AffineMapAttr) and layout.data.num_symbols == 0:
        order = [getattr(result, "position", -1) for result in layout.data.results]
        if sorted(order) == list(range(len(sizes))):
            steps = row_major([sizes[axis] for axis in order])
            return tuple(steps[order.index(axis)] for axis in range(len(sizes)))
    return None


def _is_shifted(layout: StridedLayoutAttr) -> bool:
    return not isinstance(layout.offset, NoneAttr) and layout.offset != IntAttr(0)


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of a contiguous array."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def verify_described(operation: DescribedOp, what: str) -> None:
    """Verify that offsets, sizes and strides of an init operation fit its memref or address.

    Args:
        operation: the operation that defines a tile or a descriptor.
        what: its name in messages.
    """
    source, counts = operation.source.type, (len(operation.shape), len(operation.strides))
    if ALIGNED in operation.attributes and (counts == (0, 0) or is_shared(source)):
        raise Invalid("XT3031", f"{what} on {source} is said to be aligned\nsay it of memory that sizes and strides "
                      "describe, as at an address; of arrays the launch looks at what they are")
    if is_shared(source) and isinstance(array_of(operation.source), BlockArgument):
        raise shared_argument(source)
    if not isinstance(source, MemRefType):
        _verify_address(source, operation, what)
        return
    rank = len(source.get_shape())
    if rank == 1 and (len(operation.offsets), *counts) == (2, 2, 2):
        return  # a 1D memref, which the operands describe as a matrix
    if rank < 2:
        raise Invalid("XT3021", f"{what} covers the last two dimensions of an array, and {source} has {rank}\n"
                      "cast it to two dimensions first: memref<1x...>")
    if len(operation.offsets) != rank:
        raise Invalid("XT3022", f"{what} on an array of {rank} dimensions takes {rank} offsets, not "
                      f"{len(operation.offsets)}\ngive the row and column last, the indices of the matrix "
                      "first where there are more dimensions")
    static = static_form(source)
    if counts == (0, 0) and static is None:
        raise Invalid("XT3023", f"the sizes and strides of {source} are not known: an array of dynamic shape needs "
                      f"{rank} sizes and {rank} strides\nwrite [%offsets], [%shape], [%strides]")
    if counts not in ((0, 0), (rank, rank)):
        raise Invalid("XT3024", f"an array of {rank} dimensions needs {rank} sizes and {rank} strides, not "
                      f"{counts[0]} and {counts[1]}\nwrite [%offsets], [%shape], [%strides]")
    if counts != (0, 0) and static is not None:
        _verify_agreement(operation, *static)


def verify_line(operation: DescribedOp, what: str) -> None:
    """Verify that offset, size and stride of a 1D descriptor fit its memref or address.

    Args:
        operation: the operation that defines a descriptor of one dimension.
        what: its name in messages.
    """
    source = operation.source.type
    counts = [len(group) for group in (operation.offsets, operation.shape, operation.strides)]
    if isinstance(source, MemRefType) and len(source.get_shape()) != 1:
        raise Invalid("XT3026", f"{what} of one dimension on {source}, which has {len(source.get_shape())}\n"
                      f"describe a row of it: tensor_desc<1x16x{source.element_type}>")
    if not isinstance(source, MemRefType):
        _verify_pointer(source, what)
    if counts not in ([1, 0, 0], [1, 1, 1]):
        raise Invalid("XT3028", f"{what} of one dimension takes one offset, and one size and one stride or none, not "
                      f"{counts[0]}, {counts[1]} and {counts[2]}\nwrite %memory, [%offset]")
    if counts[2] and number(operation.strides[0]) != 1:
        raise Invalid("XT3029", f"{what} of one dimension covers adjacent elements: its stride is the constant 1\n"
                      "leave size and stride out, or use create_tdesc with an offset for each element")


def _verify_pointer(source: Attribute, what: str) -> None:
    if not is_address(source):
        raise Invalid("XT3027", f"{what} is made on a memref or on an address of type i64, not on {source}\n"
                      "an address is the number of 64 bits that a pointer is")


def verify_address_width(source: Attribute, code: str) -> None:
    """Verify that an integer that is an address has 64 bits; ``code`` is that of the error."""
    if isinstance(source, IntegerType) and source.width.data != 64:
        raise Invalid(code, f"an address has 64 bits, and {source} has {source.width.data}\nconvert it to i64")


def _verify_address(source: Attribute, operation: DescribedOp, what: str) -> None:
    _verify_pointer(source, what)
    counts = [len(group) for group in (operation.offsets, operation.shape, operation.strides)]
    if counts != [2, 2, 2]:
        raise Invalid("XT3030", f"{what} on an address takes two offsets, two sizes and two strides, not "
                      f"{counts[0]}, {counts[1]} and {counts[2]}\n"
                      "write %address, [%row, %column], [%height, %width], [%pitch, %one]")


def _verify_agreement(operation: DescribedOp, sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    for name, known, operands in (("size", sizes, operation.shape), ("stride", strides, operation.strides)):
        for axis, (type_says, operand) in enumerate(zip(known, operands, strict=True)):
            value = number(operand)
            if value not in (None, type_says):
                raise Invalid("XT3025", f"{name} {axis} is {value}, and {operation.source.type} has {type_says}\n"
                              "leave sizes and strides to a memref of static shape")


def exchanged(numbers: Sequence[_Number]) -> list[_Number]:
    """Offsets, sizes or strides with the last two dimensions transposed."""
    *lead, rows, columns = numbers
    return [*lead, columns, rows]
