"""Rounding to 8-bit floats, in integers of 32 bits: E4M3 and E5M2, to nearest even, as ml_dtypes and PyTorch do."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.mlir.arith import SelectOp
from xegpu.support.errors import ElementTypeError
from xetile.frontend.operators import splat
from xetile.frontend.ssa_value import VectorBase
from xetile.frontend.tracer import current

_F32_MANTISSA, _F32_BIAS = 23, 127


def rounded(v: Any, target: DType) -> Any:
    """The elements of a vector, rounded to an 8-bit float.

    Beyond the largest finite number E4M3 gives NaN and E5M2 infinity; NaN keeps its sign.

    Args:
        v: a vector of floats of at most 32 bits, or of integers.
        target: ``e4m3`` or ``e5m2``.

    Raises:
        ElementTypeError: a vector of f64, which would be rounded twice.
    """
    if v.dtype is dtypes.f64:
        raise ElementTypeError("XT1215", f"f64 is not rounded to {target} in one step",
                               f"round it twice, if that is good enough: .to(xt.f32).to(xt.{target})",
                               current().location())
    info = ml_dtypes.finfo(target.numpy)  # type: ignore[no-untyped-call]
    dropped = _F32_MANTISSA - info.nmant
    bits = _bits(v.to(dtypes.f32), dtypes.u32)
    magnitude = bits & 0x7FFFFFFF
    # Normal numbers: half of the last place is added, a bit less where it is even, and the exponent's bias is changed.
    bias = _F32_BIAS - (1 - info.minexp)
    half = ((1 << (dropped - 1)) - 1 - (bias << _F32_MANTISSA)) % 2**32
    normal = (magnitude + (((magnitude >> dropped) & 1) + half)) >> dropped
    # Subnormal ones: an addition of floats rounds to a multiple of the smallest, the last place of this number.
    unit = float(info.smallest_subnormal) * 2.0 ** _F32_MANTISSA
    sum_ = _bits(_bits(magnitude, dtypes.f32) + unit, dtypes.u32)
    subnormal = sum_ - _bits_of(unit)
    code = _select(magnitude < _bits_of(float(info.smallest_normal)), subnormal, normal)
    nan = int(np.array(np.nan, target.numpy).view(np.uint8))
    if target is dtypes.e5m2:
        infinity = int(np.array(np.inf, target.numpy).view(np.uint8))
        code = _select(code > infinity, _constant(infinity, code), code)
        code = _select(magnitude > _bits_of(np.inf), _constant(nan, code), code)
    else:
        code = _select(code > nan, _constant(nan, code), code)
    return _bits((code | ((bits >> 24) & 0x80)).to(dtypes.u8), target)


def _bits_of(number: float) -> int:
    """Bits of a float32."""
    return int(np.float32(number).view(np.uint32))


def _bits(v: VectorBase, target: DType) -> Any:
    """Bits of a vector, read as another element type."""
    return v.like(current().emit(arith.BitcastOp(v.ssa, VectorType(target.mlir, v.shape))))


def _constant(number: int, like: VectorBase) -> SSAValue:
    return splat(number, like)


def _select(condition: Any, a: Any, b: Any) -> Any:
    sides = [side.ssa if isinstance(side, VectorBase) else side for side in (a, b)]
    return condition.like(current().emit(SelectOp(condition.ssa, *sides)))
