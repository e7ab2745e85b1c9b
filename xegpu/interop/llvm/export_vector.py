"""Export of 2D reductions and broadcasts to MLIR's vector dialect, whose reductions drop the dimension.

    %r = reduce %v {kind = "add", axes = [1]} : vector<8x16xf32> -> vector<8x1xf32>
becomes
    %z = arith.constant 0.0 : f32
    %0 = vector.broadcast %z : f32 to vector<8xf32>
    %1 = vector.multi_reduction <add>, %v, %0 [1] : vector<8x16xf32> to vector<8xf32>
    %r = vector.shape_cast %1 : vector<8xf32> to vector<8x1xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, VectorType, bf16, f16, f32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, SSAValue

from xegpu.interop.llvm.types import LayoutAttr, SliceAttr
from xegpu.interop.llvm.types import Slice as SliceOf
from xegpu.interop.llvm.vector import MultiReductionOp
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.mlir.vector import ShapeCastOp
from xegpu.rewrite.rewriter import Rewriter

RESULT = "layout_result_0"
"""Attribute of an operation with its result's layout, in LLVM's dialect."""


def neutral(kind: str, dtype: DType) -> float | int:
    """Identity element of a reduction."""
    if dtype.is_float:
        return {"add": 0.0, "mul": 1.0, "minimumf": np.inf, "maximumf": -np.inf}.get(kind, np.nan)
    signed, every = np.iinfo(f"i{dtype.bytes}"), -1
    return {"mul": 1, "and": every, "minui": every, "minsi": int(signed.max), "maxsi": int(signed.min)}.get(kind, 0)


def reduced(rewriter: Rewriter, kind: str, values: Sequence[SSAValue], axes: Sequence[int], result: VectorType,
            layout: LayoutAttr | None = None) -> SSAValue:
    """Reduce vectors of one shape, together, to ``result``, which keeps both dimensions.

    Args:
        rewriter: the rewriter.
        kind: combining kind.
        values: the vectors.
        axes: the dimensions that get size 1.
        result: the type of the result.
        layout: distribution of the vectors.
    """
    source = values[0].type
    assert isinstance(source, VectorType)
    if kind in ("add", "mul") and source.element_type in (f16, bf16):  # rounded once, where MLIR rounds each step
        wide = [_converted(rewriter, arith.ExtFOp, value, f32, layout) for value in values]
        total = reduced(rewriter, kind, wide, axes, VectorType(f32, result.shape), layout)
        return _converted(rewriter, arith.TruncFOp, total, source.element_type, layout)
    left = [size for axis, size in enumerate(source.get_shape()) if axis not in axes] or [1]
    sliced: Attribute | None = layout and SliceAttr(SliceOf(layout, tuple(axes)))
    single = len(axes) == len(source.get_shape())  # LLVM reduces all dimensions to a scalar
    total = _spread(rewriter, neutral(kind, of_mlir(source.element_type)), source.element_type,
                              None if single else left, sliced)
    for value in values:
        operation = MultiReductionOp(kind, value, total, axes)
        if sliced is not None and not single:
            operation.attributes[RESULT] = sliced
        total = rewriter.emit(operation)
    if single:
        return rewriter.emit(BroadcastOp(total, result))
    cast = ShapeCastOp(total, result.get_shape())
    if layout is not None:
        cast.attributes[RESULT] = layout
    return rewriter.emit(cast)


def _converted(rewriter: Rewriter, kind: type[arith.ExtFOp | arith.TruncFOp], value: SSAValue, element: Attribute,
               layout: LayoutAttr | None) -> SSAValue:
    """Conversion of a vector to another float type."""
    assert isinstance(value.type, VectorType)
    operation = kind(value, VectorType(element, value.type.shape))
    if layout is not None:
        operation.attributes[RESULT] = layout
    return rewriter.emit(operation)


def _spread(rewriter: Rewriter, value: float | int, element: Attribute, shape: Sequence[int] | None,
            layout: Attribute | None) -> SSAValue:
    """Constant: a scalar, or its splat."""
    attribute = FloatAttr(value, element) if of_mlir(element).is_float else IntegerAttr(int(value), element)  # type: ignore
    number = rewriter.emit(arith.ConstantOp(attribute))
    if shape is None:
        return number
    operation = BroadcastOp(number, VectorType(element, shape))
    if layout is not None:
        operation.attributes[RESULT] = layout
    return rewriter.emit(operation)


def is_neutral(operation: MultiReductionOp) -> bool:
    """Whether a reduction starts from what changes nothing."""
    owner = operation.acc.owner
    if isinstance(owner, BroadcastOp):
        owner = owner.source.owner
    value: Any = owner.value if isinstance(owner, arith.ConstantOp) else None
    if isinstance(value, DenseIntOrFPElementsAttr):
        elements = list(value.get_attrs())
        value = elements[0] if len(set(elements)) == 1 else None
    if not isinstance(value, (FloatAttr, IntegerAttr)):
        return False
    found, wanted = value.value.data, neutral(operation.kind.data, of_mlir(value.type))
    return bool(found == wanted or (found != found and wanted != wanted))
