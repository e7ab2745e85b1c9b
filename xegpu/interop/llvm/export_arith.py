"""Export of conversions from floats to integers, which saturate here and are poison beyond the limits in MLIR's arith.

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
from typing import Any

import ml_dtypes
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.type import get_element_type_or_self

from xegpu.interop.llvm.exporter import Export
from xegpu.ir.dtypes import index, of_mlir
from xegpu.mlir.arith import CmpFOp, FPToSIOp, FPToUIOp, SelectOp
from xegpu.rewrite.rewriter import Rule


def _saturating(rewriter: Export, operation: FPToSIOp | FPToUIOp) -> None:
    """Convert what lies between the limits, and select the limits for the rest."""
    value, result = rewriter.single(operation.input), operation.result
    source, target = (of_mlir(get_element_type_or_self(each.type)) for each in (value, result))
    if target is index:
        rewriter.copy(operation)
        return
    signed = isinstance(operation, FPToSIOp)
    least, most = (-(1 << target.bits - 1), (1 << target.bits - 1) - 1) if signed else (0, (1 << target.bits) - 1)
    largest = float(ml_dtypes.finfo(source.numpy).max)  # type: ignore[no-untyped-call]
    low, high = (_splat(rewriter, limit if abs(limit) <= largest else math.copysign(math.inf, limit), value, result)
                 for limit in (least, most + 1))

    def emit(new: Operation) -> SSAValue:
        return rewriter.emit_annotated(new, result)

    inside = emit(arith.AndIOp(emit(CmpFOp(value, low, "ogt")), emit(CmpFOp(value, high, "olt"))))
    safe = emit(SelectOp(inside, value, _splat(rewriter, 0, value, result)))
    converted = emit(type(operation)(safe, result.type))
    largest_integer = _splat(rewriter, most, result, result)
    converted = emit(SelectOp(emit(CmpFOp(value, high, "oge")), largest_integer, converted))
    if signed:  # of an unsigned type, the smallest one is what zero became
        smallest = _splat(rewriter, least, result, result)
        converted = emit(SelectOp(emit(CmpFOp(value, low, "ole")), smallest, converted))
    rewriter.set(result, converted)


def _splat(rewriter: Export, number: float, like: SSAValue, old: SSAValue) -> SSAValue:
    """Constant of the type of ``like``, with the layout of ``old``."""
    element: Any = get_element_type_or_self(like.type)
    attribute = FloatAttr(number, element) if of_mlir(element).is_float else IntegerAttr(int(number), element)
    scalar = rewriter.emit(arith.ConstantOp(attribute))
    return rewriter.emit_annotated(BroadcastOp(scalar, like.type), old) if isinstance(like.type, VectorType) else scalar


RULES: dict[type[Operation], Rule] = {FPToSIOp: _saturating, FPToUIOp: _saturating}
