"""Rounding to 8-bit floats in operations on integers of 32 bits: to nearest even, as ml_dtypes and PyTorch do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.ir.dtypes import DType, e5m2
from xegpu.mlir.arith import CmpIOp, SelectOp, TruncIOp

_MANTISSA, _BIAS = 23, 127
"""Bits of the mantissa, and the exponent's bias, of float32."""


def rounded(value: SSAValue, target: DType, emit: Callable[[Operation], Any],
            splat: Callable[[float, Attribute], SSAValue]) -> SSAValue:
    """The elements of a vector of f32, rounded to an 8-bit float.

    Beyond the largest finite number E4M3 gives NaN and E5M2 infinity; NaN keeps its sign.

    Args:
        value: the vector.
        target: ``e4m3`` or ``e5m2``.
        emit: inserts an operation, and gives its result.
        splat: a vector of the shape of ``value``, of one number of an element type.
    """
    info = ml_dtypes.finfo(target.numpy)  # type: ignore[no-untyped-call]
    dropped = _MANTISSA - info.nmant

    def cast(vector: SSAValue, element: Attribute) -> Any:
        return emit(arith.BitcastOp(vector, _like(value, element)))

    def integer(number: int) -> SSAValue:
        return splat((number + 2**31) % 2**32 - 2**31, i32)

    def chosen(predicate: str, left: SSAValue, right: SSAValue, a: SSAValue, b: SSAValue) -> Any:
        return emit(SelectOp(emit(CmpIOp(left, right, predicate)), a, b))

    bits = cast(value, i32)
    magnitude = emit(arith.AndIOp(bits, integer(0x7FFFFFFF)))
    # Normal numbers: half of the last place is added, a bit less where it is even, and the exponent's bias is changed.
    bias = _BIAS - (1 - info.minexp)
    half = ((1 << (dropped - 1)) - 1 - (bias << _MANTISSA)) % 2**32
    odd = emit(arith.AndIOp(emit(arith.ShRUIOp(magnitude, integer(dropped))), integer(1)))
    nearest = emit(arith.AddiOp(magnitude, emit(arith.AddiOp(odd, integer(half)))))
    normal = emit(arith.ShRUIOp(nearest, integer(dropped)))
    # Subnormal ones: an addition of floats rounds to a multiple of the smallest, the last place of this number.
    unit = float(info.smallest_subnormal) * 2.0 ** _MANTISSA
    sum_ = cast(emit(arith.AddfOp(cast(magnitude, f32), splat(unit, f32))), i32)
    subnormal = emit(arith.SubiOp(sum_, integer(_bits(unit))))
    code = chosen("ult", magnitude, integer(_bits(float(info.smallest_normal))), subnormal, normal)
    largest = np.inf if target is e5m2 else np.nan  # what a finite number becomes that is too large
    limit = integer(_code(largest, target))
    code = chosen("ugt", code, limit, limit, code)
    if target is e5m2:
        code = chosen("ugt", magnitude, integer(_bits(np.inf)), integer(_code(np.nan, target)), code)
    sign = emit(arith.AndIOp(emit(arith.ShRUIOp(bits, integer(24))), integer(0x80)))
    byte = emit(TruncIOp(emit(arith.OrIOp(code, sign)), _like(value, i8)))
    return cast(byte, target.mlir)  # type: ignore[no-any-return]


def _like(vector: SSAValue, element: Attribute) -> VectorType[Attribute]:
    assert isinstance(vector.type, VectorType)
    return VectorType(element, vector.type.get_shape())


def _bits(number: float) -> int:
    """Bits of a float32."""
    return int(np.float32(number).view(np.uint32))


def _code(number: float, target: DType) -> int:
    """Bits of an 8-bit float."""
    return int(np.array(number, target.numpy).view(np.uint8))
