"""Constants: Python and NumPy numbers as SSA values, and compile-time constants as parts of cache keys."""

from __future__ import annotations

import dataclasses
from math import isfinite
from typing import Any

import numpy as np
from ml_dtypes import finfo
from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import Operation, SSAValue

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType, integers_of
from xegpu.support.errors import ElementTypeError
from xetile.frontend.arith_rules import convert
from xetile.frontend.notes import notes
from xetile.frontend.ssa_value import ScalarBase, Value
from xetile.frontend.tracer import current


def scalar(value: Any, dtype: DType = dtypes.index) -> SSAValue:
    """Scalar SSA value of type ``dtype``, from a Python number or a run-time scalar; an i32 becomes an index.

    Raises:
        ElementTypeError: it is neither, or a number of another type.
    """
    if isinstance(value, ScalarBase):
        if (value.dtype, dtype) == (dtypes.i32, dtypes.index):
            return convert(value.ssa, dtype)
        if value.dtype is not dtype:
            location = current().location()
            raise ElementTypeError("XT1203", f"a {value.describe()} is used where a number of type {dtype} is required",
                                   f"convert it with .to(xt.{dtype})", location, notes(location, it=value))
        return value.ssa
    value = python_number(value)
    if dtype.kind == "s":
        raise ElementTypeError("XT1214", f"{dtype} is loaded, stored, multiplied and widened, and the number {value} "
                               "is used where one of it is required",
                               "calculate in f16, which represents 8-bit floats exactly: .to(xt.f16)",
                               current().location())
    if dtype is dtypes.i1 and isinstance(value, int) and value in (0, 1):
        return current().constant(bool(value), dtype)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        location = current().location()
        operand = f"a {value.describe()}" if isinstance(value, Value) else "None" if value is None else \
            f"{type(value).__name__} {value!r:.40}"
        hint = value.number_hint() if isinstance(value, Value) else ""
        raise ElementTypeError("XT1204", f"{operand} is used where a number of type {dtype} is required", hint or
                               "give a Python number or a run-time one, such as xt.group_id(0) or array.shape[0]",
                               location, notes(location, it=value))
    if isinstance(value, float) and not dtype.is_float:
        raise ElementTypeError("XT1205", f"the number {value} is used where an integer ({dtype}) is required",
                               f"use an integer such as {int(value) if abs(value) < 2**31 else 0}" + (
                                   "; // divides to one" if dtype is dtypes.index else
                                   ", or convert the other operand: .to(xt.f32)"), current().location())
    if isinstance(value, int) and dtype.kind in "iu":
        return _integer(value, dtype)
    if dtype.is_float:
        _check_range(value, dtype)
    return current().constant(value, dtype)


def _check_range(number: float, dtype: DType) -> None:
    """Check that a finite number is none of those that round to infinity.

    Raises:
        ElementTypeError: it is.
    """
    try:
        with np.errstate(over="ignore"):
            fits = not isfinite(number) or isfinite(dtype.numpy.type(number))
    except OverflowError:  # an integer beyond float64
        fits = False
    if not fits:
        greatest = float(finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]
        text = str(number) if len(str(number)) <= 40 else f"{str(number)[:37]}..."
        infinity = "-inf" if number < 0 else "inf"
        wider = "" if dtype.bits >= 32 else ", or calculate in f32: .to(xt.f32)"
        raise ElementTypeError("XT1206", f"the number {text} does not fit {dtype}",
                               f"{dtype} holds {-greatest:g} to {greatest:g}; use float(\"{infinity}\"){wider}",
                               current().location())


def _integer(number: int, dtype: DType) -> SSAValue:
    """Integer constant: a signless one, cast to the type where that is unsigned.

    Raises:
        ElementTypeError: the type does not hold it.
    """
    held = integers_of(dtype)
    if number not in held:
        raise ElementTypeError("XT1206", f"the number {number} does not fit {dtype}",
                               f"{dtype} holds {held[0]} to {held[-1]}{_wider_type_hint(number)}", current().location())
    if dtype.kind != "u":
        return current().constant(number, dtype)
    cast: SSAValue = current().emit(_sign_cast(current().constant(_wrap(number, dtype), dtype), dtype))
    return cast


def python_number(number: Any) -> Any:
    """Python number of a NumPy scalar or 0D array; any other object unchanged."""
    if not isinstance(number, Value) and hasattr(number, "item") and getattr(number, "ndim", 1) == 0:
        number = number.item()
    return number


def scalar_of_element(number: Any, dtype: DType) -> SSAValue:
    """Scalar SSA value of an element type; a Python number must be representable.

    Run-time floats are rounded to another float type, and an index, which devices hold in 32 bits with a sign, becomes
    what represents all of these, as an i32 becomes an index.

    Raises:
        ElementTypeError: not representable, not a number, or a number of another type.
    """
    if isinstance(number, ScalarBase) and number.dtype is not dtype and (
            (dtype.is_float and number.dtype.is_float) or (number.dtype, dtype) in _REPRESENTED):
        return convert(number.ssa, dtype)
    return scalar(number, dtype)


_REPRESENTED = {(dtypes.index, dtypes.i32), (dtypes.index, dtypes.i64), (dtypes.i32, dtypes.index)}
"""Types of a run-time number and of elements that represent each of its values."""


def _wider_type_hint(number: int) -> str:
    """Hint with an integer type that represents a number."""
    signed = (dtypes.i8, dtypes.i16, dtypes.i32, dtypes.i64, dtypes.u64)
    fitting = next((each for each in signed if number in integers_of(each)), None)
    return "" if fitting is None else f"; for {number} use xt.{fitting}"


def _wrap(number: int, dtype: DType) -> int:
    """Two's complement value of an unsigned constant, as MLIR's signless attributes want it."""
    return number - (1 << dtype.bits) if number >= 1 << (dtype.bits - 1) else number


def _sign_cast(value: SSAValue, dtype: DType) -> Operation:
    """Cast of a signless constant to a signed or unsigned type."""
    return UnrealizedConversionCastOp.create(operands=[value], result_types=[dtype.mlir])


_EXACT = frozenset({int, float, str, bool, DType, type(None)})


def _is_by_identity(kind: Any) -> bool:
    """Whether objects of a type have no hash of their value: none at all, or that of their identity."""
    return kind.__hash__ in (None, object.__hash__)


def hashable(value: Any, name: str) -> Any:
    """Hashable key of a compile-time constant, with its type and sign: 1, 1.0 and True are equal in Python, as are 0.0
    and -0.0, but distinct to a kernel.

    Args:
        value: the constant.
        name: its name, for messages.

    Raises:
        ElementTypeError: it is not hashable, or an element of it is not.
    """
    kind = type(value)
    if isinstance(value, (float, complex)) and (kind is not float or value == 0 or value != value):
        return kind, repr(complex(value))  # -0.0 equals 0.0, and a NaN not even itself
    if kind in _EXACT:
        return kind, value
    if kind is range or kind.__module__ == "decimal":
        return kind, repr(value)  # range(0) equals range(1, 1), Decimal("0") equals Decimal("-0")
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return kind, value.tobytes()
    if isinstance(value, frozenset):
        return kind, frozenset(hashable(item, name) for item in value)
    if isinstance(value, (tuple, list)):
        return kind, tuple(hashable(item, name) for item in value)
    if isinstance(value, dict):
        return kind, tuple((hashable(key, name), hashable(item, name)) for key, item in value.items())
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return kind, value.dtype, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value) and not _is_by_identity(kind):
        return kind, tuple(hashable(getattr(value, field.name), name) for field in dataclasses.fields(value))
    try:
        hash(value)
    except TypeError:
        instead = f"pass a tuple, or {name}=frozenset(...)" if kind is set else \
            "pass numbers, texts, element types, functions, or tuples, lists and dicts of these; of a class of your " \
            "own make a @dataclass(frozen=True)"
        raise ElementTypeError("XT1014",
                               f"the constant {name} is a {kind.__name__}, or contains one, which has no hash",
                               instead) from None
    return kind, value
