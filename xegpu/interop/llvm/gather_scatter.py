"""Gather, scatter and scattered prefetch of LLVM 23's XeGPU: base, offsets and mask instead of descriptors.

    %v = xegpu.load %A[%o], %m <{chunk_size = 2 : i64}>
        : memref<?xf32>, vector<16xindex>, vector<16xi1> -> vector<16x2xf32>
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, IntegerType, MemRefType, VectorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, base, operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Pure

from xegpu.dialect.hints import HintedOp
from xegpu.ir.op_definition import operation_definition
from xegpu.mlir.vector import vector_type

VECTOR = base(VectorType)
BASE = base(MemRefType) | base(IntegerType)
_ELEMENTS, _TYPES = "$source `` `[` $offsets `]`", "type($source) `,` type($offsets)"
"""Assembly format of a base with the offsets of the lanes' elements, ``%A[%o]``, and of their types."""


class ElementsOp(HintedOp):
    """Base of scattered load, store and prefetch: a base, and for each lane an offset from it, in elements.

    The subclasses' operands come first, in xDSL's order.
    """

    source = operand_def(BASE)
    offsets = operand_def(VECTOR)


def _chunked(chunk: int) -> IntegerAttr[IntegerType] | None:
    return IntegerAttr(chunk, i64) if chunk > 1 else None


@operation_definition
class LoadOp(ElementsOp):
    """Gather load: elements, ``vector<16xf32>``, or a chunk per lane, ``vector<16x2xf32>``."""

    name = "xegpu.load"
    mask = operand_def(VECTOR)
    chunk_size = opt_prop_def(IntegerAttr[I64])
    result = result_def(VECTOR)
    assembly_format = (f"{_ELEMENTS} `,` $mask prop-dict attr-dict `:` {_TYPES} `,` type($mask) "
                       "`->` type($result)")

    def __init__(self, source: SSAValue, offsets: SSAValue, mask: SSAValue, result: VectorType, chunk: int) -> None:  # type: ignore[type-arg]
        super().__init__(operands=[mask, source, offsets], result_types=[result],
                         properties={"chunk_size": _chunked(chunk)})


@operation_definition
class StoreOp(ElementsOp):
    """Scatter store of a vector of a load's shape."""

    name = "xegpu.store"
    MESSAGE: ClassVar[str] = "store"
    mask = operand_def(VECTOR)
    value = operand_def(VECTOR)
    chunk_size = opt_prop_def(IntegerAttr[I64])
    assembly_format = (f"$value `,` {_ELEMENTS} `,` $mask prop-dict attr-dict "
                       f"`:` type($value) `,` {_TYPES} `,` type($mask)")

    def __init__(self, value: SSAValue, source: SSAValue, offsets: SSAValue, mask: SSAValue, chunk: int) -> None:
        super().__init__(operands=[mask, value, source, offsets], properties={"chunk_size": _chunked(chunk)})


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
