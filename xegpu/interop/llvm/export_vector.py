"""Export of 2D reductions to MLIR's vector dialect, whose reductions drop the dimension:

    %r = reduce %v {kind = "add", axes = [1]} : vector<8x16xf32> -> vector<8x1xf32>
becomes
    %z = arith.constant 0.0 : f32
    %0 = vector.broadcast %z : f32 to vector<8xf32>
    %1 = vector.multi_reduction <add>, %v, %0 [1] : vector<8x16xf32> to vector<8xf32>
    %r = vector.shape_cast %1 : vector<8xf32> to vector<8x1xf32>

and of conversions from floats to integers, which saturate here and are poison beyond the limits in MLIR:

    %r = arith.fptosi %x : vector<8x16xf32> to vector<8x16xi8>
becomes
    %0 = arith.cmpf ogt, %x, %low                    // -128.0, splat
    %1 = arith.cmpf olt, %x, %high                   //  128.0
    %2 = arith.andi %0, %1
    %3 = arith.select %2, %x, %zero
    %4 = arith.fptosi %3 : vector<8x16xf32> to vector<8x16xi8>
    %5 = arith.cmpf oge, %x, %high
    %6 = arith.select %5, %largest, %4
    %7 = arith.cmpf ole, %x, %low
    %r = arith.select %7, %smallest, %6

NaN is in no order with a limit, and becomes the zero that is converted in its place. A limit that is too large for the
float type is infinity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, VectorType, bf16, f16, f32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.interop.llvm.dialect.types import LayoutAttr, SliceAttr
from xegpu.interop.llvm.dialect.types import Slice as SliceOf
from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.interop.llvm.exporter import Export
from xegpu.ir.dtypes import index, of_mlir
from xegpu.mlir.arith import CmpFOp, FPToSIOp, FPToUIOp, SelectOp
from xegpu.mlir.combining_kind import neutral
from xegpu.mlir.vector import ShapeCastOp
from xegpu.rewrite.rewriter import Rewriter, Rule

RESULT = "layout_result_0"
"""Attribute of an operation with its result's layout, in LLVM's dialect."""


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


def _saturating(rewriter: Export, operation: FPToSIOp | FPToUIOp) -> None:
    """Convert numbers between the limits, and select a limit for all others."""
    value, result = rewriter.single(operation.input), operation.result
    source, target = (of_mlir(get_element_type_or_self(each.type)) for each in (value, result))
    if target is index:
        rewriter.copy(operation)
        return
    signed = isinstance(operation, FPToSIOp)
    least, most = (-(1 << target.bits - 1), (1 << target.bits - 1) - 1) if signed else (0, (1 << target.bits) - 1)
    largest = float(ml_dtypes.finfo(source.numpy).max)  # type: ignore[no-untyped-call]
    low, high = (_constant(rewriter, limit if abs(limit) <= largest else math.copysign(math.inf, limit), value, result)
                 for limit in (least, most + 1))

    def emit(new: Operation) -> SSAValue:
        return rewriter.emit_annotated(new, result)

    inside = emit(arith.AndIOp(emit(CmpFOp(value, low, "ogt")), emit(CmpFOp(value, high, "olt"))))
    safe = emit(SelectOp(inside, value, _constant(rewriter, 0, value, result)))
    converted = emit(type(operation)(safe, result.type))
    largest_integer = _constant(rewriter, most, result, result)
    converted = emit(SelectOp(emit(CmpFOp(value, high, "oge")), largest_integer, converted))
    if signed:  # of an unsigned type, the smallest one is what zero became
        smallest = _constant(rewriter, least, result, result)
        converted = emit(SelectOp(emit(CmpFOp(value, low, "ole")), smallest, converted))
    rewriter.set(result, converted)


def _constant(rewriter: Export, number: float, like: SSAValue, old: SSAValue) -> SSAValue:
    """Constant of the type of ``like``, with the layout of ``old``."""
    element: Any = get_element_type_or_self(like.type)
    attribute = FloatAttr(number, element) if of_mlir(element).is_float else IntegerAttr(int(number), element)
    scalar = rewriter.emit(arith.ConstantOp(attribute))
    return rewriter.emit_annotated(BroadcastOp(scalar, like.type), old) if isinstance(like.type, VectorType) else scalar


RULES: dict[type[Operation], Rule] = {FPToSIOp: _saturating, FPToUIOp: _saturating}
