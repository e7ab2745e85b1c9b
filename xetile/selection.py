"""``xt.where``: one of two values, by a condition (``arith.select``)."""

from __future__ import annotations

from typing import Any

from xegpu.ir import dtypes
from xegpu.mlir.arith import SelectOp
from xegpu.support.errors import ElementTypeError
from xetile.broadcasting import in_one_shape
from xetile.numbers import plain, scalar
from xetile.operands import check_shapes, matched
from xetile.operators import spread
from xetile.parties import notes
from xetile.tracer import current
from xetile.values import Arithmetic, Scalar, Value, Vector


def where(condition: Any, a: Any, b: Any) -> Any:
    """``a`` where the condition holds, else ``b``.

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
        a = _first(condition, plain(a), plain(b))
    condition, a, b = in_one_shape([condition, plain(a), plain(b)])
    like, sides = matched("xt.where", a, b)
    if isinstance(condition, Vector) and isinstance(like, Vector):
        check_shapes("xt.where", condition, like)
    elif isinstance(condition, Vector):
        sides = [spread(plain(side), condition, like.dtype) for side in (a, b)]
    shaped = like if isinstance(like, Vector) else condition
    return shaped.like(tracer.emit(SelectOp(condition.ssa, *sides)))


def _check_condition(condition: Any) -> None:
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


def _first(condition: Arithmetic, a: Any, b: Any) -> Any:
    """The first of two Python numbers as a run-time one, of the type that both have."""
    if isinstance(a, bool) and isinstance(b, bool):
        dtype = dtypes.i1
    elif isinstance(a, int) and isinstance(b, int):
        dtype = dtypes.i32 if isinstance(condition, Vector) else dtypes.index
    else:
        dtype = dtypes.f32
    return Scalar(scalar(a, dtype))
