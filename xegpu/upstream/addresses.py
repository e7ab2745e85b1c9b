"""Addresses that a kernel computes of its arrays: one of the array itself, or of one of its matrices.

    %p = memref.extract_aligned_pointer_as_index %A : memref<?x?x?xbf16, ...> -> index
    %q = arith.addi %p, (%b * %stride) * 2
    %a = arith.index_cast %q : index to i64
is matrix %b of %A. That is how kernels for LLVM's lowering reach batches, since its descriptors have two dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from xegpu.constants import number
from xegpu.dtypes import of_mlir

_CAST = "arith.index_cast"


@dataclass(frozen=True)
class Place:
    """A matrix of an array.

    Attributes:
        array: the memref.
        lead: for each dimension before the last two, its index; None for the first.
    """

    array: SSAValue
    lead: tuple[SSAValue | None, ...]


def place_of(address: SSAValue) -> Place | None:
    """The matrix that an address is that of, None for any other address."""
    steps: list[SSAValue] = []
    while isinstance(owner := address.owner, Operation) and owner.name in (_CAST, arith.AddiOp.name):
        steps += owner.operands[1:]
        address = owner.operands[0]
    if not isinstance(owner, memref.ExtractAlignedPointerAsIndexOp):
        return None
    array, type_ = owner.source, owner.source.type
    assert isinstance(type_, MemRefType)
    lead: list[SSAValue | None] = [None] * (len(type_.get_shape()) - 2)
    for step in steps:
        found = _index(step, array, of_mlir(type_.element_type).bytes)
        if found is None or found[0] >= len(lead):
            return None
        lead[found[0]] = found[1]
    return Place(array, tuple(lead))


def _index(step: SSAValue, array: SSAValue, element_bytes: int) -> tuple[int, SSAValue] | None:
    """The dimension and the index whose distance in bytes ``step`` is."""
    elements = step
    if isinstance(step.owner, arith.MuliOp) and number(step.owner.rhs) == element_bytes:
        elements = step.owner.lhs
    elif element_bytes != 1:
        return None
    if not isinstance(elements.owner, arith.MuliOp):
        return None
    stride = elements.owner.rhs
    metadata = stride.owner
    if not isinstance(metadata, memref.ExtractStridedMetaDataOp) or metadata.source is not array:
        return None
    return next(axis for axis, own in enumerate(metadata.strides) if own is stride), elements.owner.lhs
