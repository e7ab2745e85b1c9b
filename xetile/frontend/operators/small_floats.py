"""Rounding of an author's vectors to 8-bit floats, E4M3 and E5M2."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute, SSAValue

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.mlir import float8
from xegpu.support.errors import ElementTypeError
from xetile.frontend.operators import splat
from xetile.frontend.tracer import current


def rounded(v: Any, target: DType) -> Any:
    """The elements of a vector, rounded to an 8-bit float (:func:`xegpu.mlir.float8.rounded`).

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
    wide = v.to(dtypes.f32)

    def number(value: float, element: Attribute) -> SSAValue:
        return splat(value, wide, of_mlir(element))

    return v.like(float8.rounded(wide.ssa, target, current().emit, number))
