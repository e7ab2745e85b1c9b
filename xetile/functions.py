"""Elementary functions, element by element, on float vectors and run-time floats (``math`` operations around tiles).

f16 and bf16 compute in float32 and are rounded once. Devices compute with OpenCL's accuracy, a few units in the last
place of float32; NumPy with its own.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import math
from xdsl.ir import Operation

from xegpu.errors import ElementTypeError
from xetile.tracer import current
from xetile.values import Arithmetic, Scalar, Value, Vector, plain


def _apply(name: str, operation: type[Operation], v: Any) -> Any:
    tracer = current(f"xt.{name}")
    if not isinstance(v, Arithmetic) or not (v.dtype.is_float or operation is math.AbsIOp):
        what = v.describe() if isinstance(v, Value) else f"{type(v).__name__} {plain(v)!r}"
        hint = "convert it with .to(xt.f32)" if isinstance(v, Arithmetic) else \
            "give a float vector or a run-time float; for Python numbers use the math module"
        raise ElementTypeError(f"xt.{name} takes floats, not a {what}", hint, tracer.location())
    result = tracer.emit(operation.create(operands=[v.ssa], result_types=[v.ssa.type]))
    return Vector(result, v.wg_map) if isinstance(v, Vector) else Scalar(result)


def exp(v: Any) -> Any:
    """e to the power of ``v``."""
    return _apply("exp", math.ExpOp, v)


def exp2(v: Any) -> Any:
    """2 to the power of ``v``."""
    return _apply("exp2", math.Exp2Op, v)


def log(v: Any) -> Any:
    """The natural logarithm of ``v``."""
    return _apply("log", math.LogOp, v)


def sqrt(v: Any) -> Any:
    """The square root of ``v``."""
    return _apply("sqrt", math.SqrtOp, v)


def rsqrt(v: Any) -> Any:
    """One over the square root of ``v``."""
    return _apply("rsqrt", math.RsqrtOp, v)


def tanh(v: Any) -> Any:
    """The hyperbolic tangent of ``v``."""
    return _apply("tanh", math.TanhOp, v)


def erf(v: Any) -> Any:
    """The error function of ``v``."""
    return _apply("erf", math.ErfOp, v)


def sin(v: Any) -> Any:
    """The sine of ``v``, in radians."""
    return _apply("sin", math.SinOp, v)


def cos(v: Any) -> Any:
    """The cosine of ``v``, in radians."""
    return _apply("cos", math.CosOp, v)


def floor(v: Any) -> Any:
    """``v`` rounded down to a whole number."""
    return _apply("floor", math.FloorOp, v)


def ceil(v: Any) -> Any:
    """``v`` rounded up to a whole number."""
    return _apply("ceil", math.CeilOp, v)


def absolute(v: Any) -> Any:
    """``v`` without its sign, of floats and integers; the smallest signed integer stays as it is."""
    integer = isinstance(v, Arithmetic) and not v.dtype.is_float
    return v if integer and not v.dtype.signed else _apply("abs", math.AbsIOp if integer else math.AbsFOp, v)
