"""Element-wise functions of float vectors and run-time floats (``math`` dialect), select, bitcast.

f16 and bf16 compute in float32 and are rounded once. Devices compute with OpenCL's accuracy, a few units in the last
place of float32; NumPy with its own. Where a function takes ``fast``, a GPU's own instructions may approximate it:
True, False, or None (the default) for what ``@xt.kernel(fast_math=...)`` says.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

from xegpu.ir import dtypes
from xegpu.mlir.arith import SelectOp
from xegpu.support.errors import ElementTypeError
from xetile.dialect.vector import TileBitcastOp
from xetile.frontend import operators
from xetile.frontend.broadcast import broadcast_operands
from xetile.frontend.constants import python_number, scalar
from xetile.frontend.notes import notes
from xetile.frontend.operators import binary, splat
from xetile.frontend.operators.sub_byte import SubByteVector
from xetile.frontend.ssa_value import Arithmetic, Value
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector, element_type
from xetile.lang.checks import describe_argument
from xetile.lang.operands import check_operands, matched_operands


def _apply(name: str, operation: type[Operation], v: Any, fast: bool | None = False) -> Any:
    """Emit a unary function of a vector or scalar; ``fast`` of None is what the kernel says (``fast_math``)."""
    tracer = current(f"xt.{name}")
    if not isinstance(v, Arithmetic) or not v.dtype.is_float:
        raise _float_error(name, v)
    approximate = tracer.fast_math if fast is None else fast
    flags = {"fastmath": arith.FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])} if approximate else {}
    result = tracer.emit(operation.create(operands=[v.ssa], result_types=[v.ssa.type], properties={**flags}))
    return Vector(result, v.wg_map) if isinstance(v, Vector) else Scalar(result)


def _float_error(name: str, v: Any) -> ElementTypeError:
    """Error for an operand that a float function does not take."""
    location = current().location()
    if isinstance(v, SubByteVector):
        v.refuse()
    if isinstance(v, Arithmetic):
        return ElementTypeError("XT1211", f"xt.{name} takes floats, not a {v.describe()}",
                                "convert it with .to(xt.f32)", location, notes(location, it=v))
    hint = "load its elements first: xt.load_tile(tile)" if isinstance(v, Value) else \
        "of Python numbers calculate with the math module, or make a run-time one: xt.scalar(2.0, xt.f32)"
    return ElementTypeError("XT1212", f"xt.{name} takes a vector or a run-time number, not {describe_argument(v)}",
                            hint, location, notes(location, it=v))


def exp(v: Any, *, fast: bool | None = None) -> Any:
    """e to the power of ``v``."""
    return _apply("exp", math.ExpOp, v, fast)


def exp2(v: Any, *, fast: bool | None = None) -> Any:
    """2 to the power of ``v``."""
    return _apply("exp2", math.Exp2Op, v, fast)


def expm1(v: Any) -> Any:
    """e to the power of ``v``, minus one, accurate near zero."""
    return _apply("expm1", math.ExpM1Op, v)


def log(v: Any, *, fast: bool | None = None) -> Any:
    """The natural logarithm of ``v``."""
    return _apply("log", math.LogOp, v, fast)


def log2(v: Any, *, fast: bool | None = None) -> Any:
    """The logarithm of ``v`` to base 2."""
    return _apply("log2", math.Log2Op, v, fast)


def log10(v: Any, *, fast: bool | None = None) -> Any:
    """The logarithm of ``v`` to base 10."""
    return _apply("log10", math.Log10Op, v, fast)


def log1p(v: Any) -> Any:
    """The natural logarithm of one plus ``v``, accurate near zero."""
    return _apply("log1p", math.Log1pOp, v)


def sqrt(v: Any) -> Any:
    """The square root of ``v``."""
    return _apply("sqrt", math.SqrtOp, v)


def rsqrt(v: Any, *, fast: bool | None = None) -> Any:
    """One over the square root of ``v``."""
    return _apply("rsqrt", math.RsqrtOp, v, fast)


def cbrt(v: Any) -> Any:
    """The cube root of ``v``."""
    return _apply("cbrt", math.CbrtOp, v)


def sinh(v: Any) -> Any:
    """The hyperbolic sine of ``v``."""
    return _apply("sinh", math.SinhOp, v)


def cosh(v: Any) -> Any:
    """The hyperbolic cosine of ``v``."""
    return _apply("cosh", math.CoshOp, v)


def tanh(v: Any, *, fast: bool | None = None) -> Any:
    """The hyperbolic tangent of ``v``."""
    return _apply("tanh", math.TanhOp, v, fast)


def erf(v: Any, *, fast: bool | None = None) -> Any:
    """The error function of ``v``."""
    return _apply("erf", math.ErfOp, v, fast)


def sin(v: Any) -> Any:
    """The sine of ``v``, in radians."""
    return _apply("sin", math.SinOp, v)


def cos(v: Any) -> Any:
    """The cosine of ``v``, in radians."""
    return _apply("cos", math.CosOp, v)


def tan(v: Any) -> Any:
    """The tangent of ``v``, in radians."""
    return _apply("tan", math.TanOp, v)


def asin(v: Any) -> Any:
    """The angle, in radians, whose sine is ``v``."""
    return _apply("asin", math.AsinOp, v)


def acos(v: Any) -> Any:
    """The angle, in radians, whose cosine is ``v``."""
    return _apply("acos", math.AcosOp, v)


def atan(v: Any) -> Any:
    """The angle, in radians, whose tangent is ``v``."""
    return _apply("atan", math.AtanOp, v)


def floor(v: Any) -> Any:
    """``v`` rounded down to an integer."""
    return _apply("floor", math.FloorOp, v)


def ceil(v: Any) -> Any:
    """``v`` rounded up to an integer."""
    return _apply("ceil", math.CeilOp, v)


def trunc(v: Any) -> Any:
    """``v`` rounded toward zero to an integer."""
    return _apply("trunc", math.TruncOp, v)


def round_even(v: Any) -> Any:
    """``v`` rounded to the nearest integer, ties to even, as Python's ``round`` does."""
    return _apply("round", math.RoundEvenOp, v)


def absolute(v: Any) -> Any:
    """``v`` without its sign, of floats and integers; the smallest signed integer stays as it is."""
    if not isinstance(v, Arithmetic):
        raise _float_error("abs", v)
    return operators.absolute(v)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two values, element by element; NaN if either is NaN."""
    return _extreme("maximum", a, b)


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two values, element by element; NaN if either is NaN."""
    return _extreme("minimum", a, b)


def maxnum(a: Any, b: Any) -> Any:
    """The larger of two values, element by element; NaN counts as missing, so it is the other one."""
    return _extreme("maxnum", a, b)


def minnum(a: Any, b: Any) -> Any:
    """The smaller of two values, element by element; NaN counts as missing, so it is the other one."""
    return _extreme("minnum", a, b)


def _extreme(operator: str, a: Any, b: Any) -> Any:
    """Emit a maximum or a minimum."""
    current(f"xt.{operator}")
    if all(isinstance(python_number(side), (int, float)) for side in (a, b)):
        return max(a, b) if operator.startswith("max") else min(a, b)
    return binary(operator, a, b)


def atan2(y: Any, x: Any) -> Any:
    """The angle, in radians, of the point (``x``, ``y``)."""
    return _apply_nary("atan2", math.Atan2Op, y, x)


def copysign(v: Any, sign: Any) -> Any:
    """``v`` with the sign of ``sign``."""
    return _apply_nary("copysign", math.CopySignOp, v, sign)


def fma(a: Any, b: Any, c: Any) -> Any:
    """Fused multiply-add ``a * b + c``, rounded once in f32 and f64; f16 and bf16 compute it in float32 and round that.

    Args:
        a, b, c: float vectors of one shape, run-time floats or numbers; not all of them Python numbers.

    Raises:
        ElementTypeError, ShapeError: they are not floats, or differ in type, shape or map.
    """
    return _apply_nary("fma", math.FmaOp, a, b, c)


def _apply_nary(name: str, operation: type[Operation], *sides: Any) -> Any:
    """Emit an n-ary function of matched_operands operands."""
    tracer = current(f"xt.{name}")
    like, operands = matched_operands(f"xt.{name}", *sides)
    if not like.dtype.is_float:
        raise _float_error(name, like)
    return like.like(tracer.emit(operation.create(operands=operands, result_types=[like.ssa.type])))


def bitcast(v: Any, dtype: Any) -> Any:
    """Bitcast of ``v`` to another element type (``arith.bitcast``, ``xetile.tile_bitcast``).

    Of a narrower type each row of a vector becomes rows, the lowest bits first: 16 x 64 of ``u32`` are 32 x 64 of
    ``f16``, whose rows 2i and 2i + 1 are the lower and the upper half of row i. So the matrix engine holds the rows of
    B, and nothing moves.

    Args:
        v: a vector or a run-time number.
        dtype: the element type, of as many bits as that of ``v``; of a vector, of a half, a quarter or an eighth too.

    Raises:
        ElementTypeError: the sizes do not go together, or one of the types is ``i1``, an index or ``tf32``, which
            have no bits to read; ``.to(xt.f32)`` keeps all of ``tf32``.
    """
    tracer = current("xt.bitcast")
    target = element_type(dtype)
    if not isinstance(v, Arithmetic):
        raise ElementTypeError("XT1212", f"xt.bitcast takes a vector or a run-time number, not {describe_argument(v)}",
                               "convert Python numbers with NumPy: numpy.float32(v).view(numpy.int32)",
                               tracer.location())
    if isinstance(v, Vector) and v.dtype.bits > target.bits and not {v.dtype, target} & {dtypes.i1, dtypes.index}:
        map_ = v.wg_map and v.wg_map.split(v.dtype.bits // target.bits)
        return Vector(tracer.emit(TileBitcastOp(v.ssa, target.mlir, map_)), map_)
    if v.dtype is not target and (v.dtype.bits != target.bits or {v.dtype, target} & _WITHOUT_BITS):
        raise _unreadable(v, target)
    if v.dtype is target:
        return v
    shaped = v.ssa.type
    result = VectorType(target.mlir, shaped.get_shape()) if isinstance(shaped, VectorType) else target.mlir
    return v.like(tracer.emit(arith.BitcastOp(v.ssa, result)))


_WITHOUT_BITS = {dtypes.i1, dtypes.index, dtypes.tf32}
"""Element types whose elements are not read as others of their size; tf32 has 19 bits in MLIR, and 32 in memory."""


def _unreadable(v: Arithmetic, target: dtypes.DType) -> ElementTypeError:
    """Error of a bitcast whose types do not go together."""
    is_vector, is_tf32 = isinstance(v, Vector), v.dtype is dtypes.tf32
    fitting = [str(t) for t in dtypes.ALL if t.bits >= 8 and t not in _WITHOUT_BITS and (
        (t.bits == v.dtype.bits and not is_tf32) or (is_vector and t.bits < v.dtype.bits))]
    narrower = " or of narrower ones" if is_vector else ""
    return ElementTypeError("XT1213", f"the bits of {v.dtype} cannot be read as {target}",
                            f"bits are read as types of the same size{narrower}, here {', '.join(fitting)}; "
                            f".to({target}) converts values"
                            f"{', and .to(xt.f32) keeps all bits of tf32' if is_tf32 else ''}",
                            current("xt.bitcast").location())


def where(condition: Any, a: Any, b: Any) -> Any:
    """Select: ``a`` where the condition is true, else ``b`` (``arith.select``).

    Args:
        condition: truth values (``i1``): a vector, for each element, or one run-time value for all.
        a, b: vectors of one shape, run-time numbers or Python numbers. Two Python numbers become f32, or i32 under a
            vector and an index under a run-time condition if both are integers, or i1 if both are truth values.

    Raises:
        ElementTypeError: the condition is none; the types of ``a`` and ``b`` differ.
        ShapeError: shapes or work-group maps differ.
    """
    tracer = current("xt.where")
    _check_condition(condition)
    if not any(isinstance(side, Value) for side in (a, b)):
        a = _as_scalar(condition, python_number(a), python_number(b))
    condition, a, b = broadcast_operands([condition, python_number(a), python_number(b)])
    like, sides = matched_operands("xt.where", a, b)
    if isinstance(condition, Vector) and isinstance(like, Vector):
        check_operands("xt.where", condition, like, types=False)
    elif isinstance(condition, Vector):
        sides = [splat(python_number(side), condition, like.dtype) for side in (a, b)]
    shaped = like if isinstance(like, Vector) else condition
    return shaped.like(tracer.emit(SelectOp(condition.ssa, *sides)))


def _check_condition(condition: Any) -> None:
    """Check that the condition of a select is an i1."""
    if isinstance(condition, Arithmetic) and condition.dtype is dtypes.i1:
        return
    if isinstance(condition, Arithmetic):
        what, hint = f"a {condition.describe()}", "compare it, as in v > 0, or convert it with .to(xt.i1)"
    else:
        what = f"a {condition.describe()}" if isinstance(condition, Value) else \
            "None" if condition is None else f"a {type(condition).__name__}"
        hint = "compare vectors or run-time numbers; where the condition is known when the kernel is compiled, " \
               "Python itself chooses: `a if condition else b`"
    location = current().location()
    raise ElementTypeError("XT1165", f"the condition of xt.where is {what}", hint, location,
                           notes(location, it=condition))


def _as_scalar(condition: Arithmetic, a: Any, b: Any) -> Any:
    """First of two Python numbers as a run-time scalar, of the type that both have."""
    if isinstance(a, bool) and isinstance(b, bool):
        dtype = dtypes.i1
    elif isinstance(a, int) and isinstance(b, int):
        dtype = dtypes.i32 if isinstance(condition, Vector) else dtypes.index
    else:
        dtype = dtypes.f32
    return Scalar(scalar(a, dtype))
