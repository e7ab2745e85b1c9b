"""Gather, scatter and scattered prefetch of LLVM 23's XeGPU: base, offsets and mask instead of descriptors.

    %v = xegpu.load %A[%o], %m <{chunk_size = 2 : i64}>
        : memref<?xf32>, vector<16xindex>, vector<16xi1> -> vector<16x2xf32>
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, IntegerType, MemRefType, VectorType, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import EqAttrConstraint, IRDLOperation, base, operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Pure

from xegpu.dialect.hints import HintedOp, check_hints
from xegpu.interop.llvm.dialect.types import HINTS, LAYOUT
from xegpu.ir.op_definition import operation_definition
from xegpu.mlir.vector import VECTOR, shape_of_type, vector_type
from xegpu.support.errors import Invalid

BASE = base(MemRefType) | base(IntegerType)
OFFSETS = VECTOR | base(IndexType)
MASK = VECTOR | EqAttrConstraint(i1)
_ELEMENTS, _TYPES = "$source `` `[` $offsets `]`", "type($source) `,` type($offsets)"
"""Assembly format of a base with the offsets of the lanes' elements, ``%A[%o]``, and of their types."""


class ElementsOp(HintedOp):
    """Base of scattered load, store and prefetch: a base, and for each lane an offset from it, in elements.

    The subclasses' operands come first, in xDSL's order.
    """

    source = operand_def(BASE)
    offsets = operand_def(OFFSETS)
    chunk_size = opt_prop_def(IntegerAttr[I64])
    contiguity = opt_prop_def(IntegerAttr[I64])
    layout = opt_prop_def(LAYOUT)

    @property
    def chunk(self) -> int:
        """Adjacent elements of each offset."""
        return 1 if self.chunk_size is None else self.chunk_size.value.data

    def verify_(self) -> None:
        check_hints(self, self.MESSAGE, HINTS[self.MESSAGE])
        source = self.source.type
        if isinstance(source, MemRefType) and len(source.get_shape()) != 1:
            raise Invalid("XT3627", f"single elements are those of an array of one dimension, not of {source}\n"
                          "take its address: memref.extract_aligned_pointer_as_index, arith.index_cast to i64")
        moved = self._moved()
        if moved is None:
            return
        counts = shape_of_type(self.offsets.type)
        wanted = {(*counts, self.chunk)} if self.chunk > 1 else {counts, () if counts == (1,) else counts}
        if counts in ((), (1,)):
            wanted.add((self.chunk,))
        if shape_of_type(self.mask.type) != counts or shape_of_type(moved) not in wanted:  # type: ignore[attr-defined]
            raise Invalid("XT3628", f"{self.offsets.type} with {self.mask.type} "  # type: ignore[attr-defined]
                          f"and chunks of {self.chunk} are not {moved}\n"
                          "give offsets and mask one shape, and the vector that shape and the chunk")

    def _moved(self) -> Attribute | None:
        """Type that is loaded or stored."""
        return None


def _chunked(chunk: int) -> IntegerAttr[IntegerType] | None:
    return IntegerAttr(chunk, i64) if chunk > 1 else None


@operation_definition
class LoadOp(ElementsOp):
    """Gather load: elements, ``vector<16xf32>``, or a chunk per lane, ``vector<16x2xf32>``."""

    name = "xegpu.load"
    mask = operand_def(MASK)
    result = result_def(Attribute)
    assembly_format = (f"{_ELEMENTS} `,` $mask prop-dict attr-dict `:` {_TYPES} `,` type($mask) "
                       "`->` type($result)")

    def __init__(self, source: SSAValue, offsets: SSAValue, mask: SSAValue, result: VectorType, chunk: int) -> None:  # type: ignore[type-arg]
        super().__init__(operands=[mask, source, offsets], result_types=[result],
                         properties={"chunk_size": _chunked(chunk)})

    def _moved(self) -> Attribute:
        return self.result.type


@operation_definition
class StoreOp(ElementsOp):
    """Scatter store of a vector of a load's shape."""

    name = "xegpu.store"
    MESSAGE: ClassVar[str] = "store"
    mask = operand_def(MASK)
    value = operand_def(Attribute)
    assembly_format = (f"$value `,` {_ELEMENTS} `,` $mask prop-dict attr-dict "
                       f"`:` type($value) `,` {_TYPES} `,` type($mask)")

    def __init__(self, value: SSAValue, source: SSAValue, offsets: SSAValue, mask: SSAValue, chunk: int) -> None:
        super().__init__(operands=[mask, value, source, offsets], properties={"chunk_size": _chunked(chunk)})

    def _moved(self) -> Attribute:
        return self.value.type


@operation_definition
class PrefetchOp(ElementsOp):
    """Scattered prefetch."""

    name = "xegpu.prefetch"
    MESSAGE: ClassVar[str] = "prefetch"
    offset_align_byte = opt_prop_def(IntegerAttr[I64])
    assembly_format = f"{_ELEMENTS} prop-dict attr-dict `:` {_TYPES}"

    def __init__(self, source: SSAValue, offsets: SSAValue, bytes_: int) -> None:
        """``bytes_``: size of an element, which LLVM requires where the base is an address."""
        align = IntegerAttr(bytes_, i64) if isinstance(source.type, IntegerType) else None
        super().__init__(operands=[source, offsets], properties={"offset_align_byte": align})

    def verify_(self) -> None:
        super().verify_()
        if (self.offset_align_byte is None) != isinstance(self.source.type, MemRefType):
            raise Invalid("XT3627", f"a prefetch from {self.source.type} "
                          f"{'has' if self.offset_align_byte else 'lacks'} offset_align_byte\n"
                          "give it where the base is an address, and there alone")


@operation_definition
class StepOp(IRDLOperation):
    """``vector.step``, the iota 0, 1, 2 ..."""

    name = "vector.step"
    result = result_def(VECTOR)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, count: int) -> None:
        super().__init__(result_types=[vector_type((count,), IndexType())])


OPERATIONS = (LoadOp, StoreOp, PrefetchOp)
