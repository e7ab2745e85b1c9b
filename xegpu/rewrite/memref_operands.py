"""Source, sizes and strides of a tile or descriptor as SSA operands."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, StridedLayoutAttr
from xdsl.dialects.memref import CastOp
from xdsl.ir import SSAValue

from xegpu.ir.memref import DescribedOp, static_form
from xegpu.rewrite.rewriter import Rewriter


def spelled_out(rewriter: Rewriter, operation: DescribedOp) -> tuple[SSAValue, list[SSAValue], list[SSAValue]]:
    """Source, sizes and strides as SSA values of the new function; a static memref is cast to a dynamic one."""
    source = rewriter.single(operation.source)
    static = static_form(source.type)
    sizes, strides = ([rewriter.single(value) for value in group] for group in (operation.shape, operation.strides))
    if static is None:
        return source, sizes, strides
    type_ = source.type
    assert isinstance(type_, MemRefType)
    rank = len(type_.get_shape())
    dynamic = MemRefType(type_.element_type, [DYNAMIC_INDEX] * rank, StridedLayoutAttr([None] * rank),
                         type_.memory_space)
    cast = rewriter.shared(("cast", source), lambda: rewriter.emit(CastOp.get(source, dynamic)))
    if not sizes:
        sizes, strides = ([rewriter.constant(value) for value in numbers] for numbers in static)
    return cast, sizes, strides
