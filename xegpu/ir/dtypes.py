"""Element types: one record each, with its spelling in NumPy, MLIR and OpenCL C."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from xegpu.support.errors import ElementTypeError

NDArray = np.ndarray[Any, Any]
"""NumPy array of any shape and type."""


@dataclass(frozen=True)
class DType:
    """Element type.

    Attributes:
        name: the name in the specifications (``bf16``, ``u8`` ...).
        bits: the bits that one element takes in memory.
        kind: ``"f"`` float, ``"i"`` signed, ``"u"`` unsigned, ``"x"`` index, ``"s"`` floats that are stored, multiplied
            by a matrix engine, widened and rounded to, and not calculated with; ``"p"`` bytes of two 4-bit integers
            along one dimension, the lower bits first, which are stored, multiplied, and read as bytes.
        numpy: the NumPy type that holds it in memory.
        mlir: the MLIR type.
        opencl: the OpenCL C type that holds it in memory, and as a scalar.
        compute: the NumPy type in which NumPy executions compute with it. A value in it is always exactly
            representable in the element type, except for tf32, which is float32 until the matrix engine reads it.
        opencl_compute: the OpenCL C type in which devices compute with it.
    """

    name: str
    bits: int
    kind: str
    numpy: np.dtype[Any]
    mlir: TypeAttribute
    opencl: str
    compute: np.dtype[Any]
    opencl_compute: str

    def __repr__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "f"

    @property
    def signed(self) -> bool:
        """Whether integers of it compare and extend as signed."""
        return self.kind in "ifxs"

    @property
    def register(self) -> str:
        """OpenCL C type of one vector element in registers; it differs from :attr:`opencl` only for ``i1``."""
        return "short" if self.name == "i1" else self.opencl

    @property
    def bytes(self) -> int:
        """Bytes of one element in memory; types under a byte count as one here."""
        return max(self.bits // 8, 1)


def _type(name: str, bits: int, kind: str, numpy: Any, mlir: TypeAttribute, opencl: str, compute: Any = None,
          opencl_compute: str = "") -> DType:
    return DType(name, bits, kind, np.dtype(numpy), mlir, opencl, np.dtype(compute or numpy), opencl_compute or opencl)


@irdl_attr_definition
class I4x2Type(ParametrizedAttribute, TypeAttribute):
    """MLIR type of two signed 4-bit integers in a byte."""

    name = "xegpu.i4x2"


@irdl_attr_definition
class U4x2Type(ParametrizedAttribute, TypeAttribute):
    """MLIR type of two unsigned 4-bit integers in a byte."""

    name = "xegpu.u4x2"


def unsigned_type(bits: int) -> IntegerType:
    """Unsigned integer type of MLIR."""
    return IntegerType(bits, Signedness.UNSIGNED)


f64 = _type("f64", 64, "f", np.float64, builtin.f64, "double")
f32 = _type("f32", 32, "f", np.float32, builtin.f32, "float")
tf32 = _type("tf32", 32, "f", np.float32, builtin.tf32, "float")
f16 = _type("f16", 16, "f", np.float16, builtin.f16, "half", np.float32)
bf16 = _type("bf16", 16, "f", ml_dtypes.bfloat16, builtin.bf16, "ushort", np.float32, "float")
e4m3 = _type("e4m3", 8, "s", ml_dtypes.float8_e4m3fn, builtin.f8E4M3FN, "uchar", np.float32)
e5m2 = _type("e5m2", 8, "s", ml_dtypes.float8_e5m2, builtin.f8E5M2, "uchar", np.float32)
i64 = _type("i64", 64, "i", np.int64, builtin.i64, "long")
i32 = _type("i32", 32, "i", np.int32, builtin.i32, "int")
i16 = _type("i16", 16, "i", np.int16, builtin.i16, "short")
i8 = _type("i8", 8, "i", np.int8, builtin.i8, "char")
i4 = _type("i4", 4, "i", ml_dtypes.int4, IntegerType(4), "char", np.int8)
u64 = _type("u64", 64, "u", np.uint64, unsigned_type(64), "ulong")
u32 = _type("u32", 32, "u", np.uint32, unsigned_type(32), "uint")
u16 = _type("u16", 16, "u", np.uint16, unsigned_type(16), "ushort")
u8 = _type("u8", 8, "u", np.uint8, unsigned_type(8), "uchar")
u4 = _type("u4", 4, "u", ml_dtypes.uint4, unsigned_type(4), "uchar", np.uint8)
i1 = _type("i1", 8, "u", np.bool_, builtin.i1, "char")
index = _type("index", 64, "x", np.int64, builtin.IndexType(), "int")

i4x2 = _type("i4", 8, "p", np.uint8, I4x2Type(), "uchar")
u4x2 = _type("u4", 8, "p", np.uint8, U4x2Type(), "uchar")



def integers_of(dtype: DType) -> range:
    """Integers that an integer type holds."""
    if dtype is i1:
        return range(2)
    low = -(1 << dtype.bits - 1) if dtype.signed else 0
    return range(low, low + (1 << dtype.bits))


ALL = (f64, f32, tf32, f16, bf16, e4m3, e5m2, i64, i32, i16, i8, i4, u64, u32, u16, u8, u4, i1, index)
BY_NAME = {dtype.name: dtype for dtype in ALL}
NUMBERS = (f64, f32, tf32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8)
"""Element types of arithmetic."""
STORED = (*NUMBERS, e4m3, e5m2, i1)
"""Element types of arrays and vectors; 4-bit integers are stored in pairs."""
PAIRS = {i4: i4x2, u4: u4x2}
"""Memory holds 4-bit integers in pairs."""
ELEMENTS = {pair: element for element, pair in PAIRS.items()}
_BY_MLIR: dict[Attribute, DType] = {dtype.mlir: dtype for dtype in (*ALL, *ELEMENTS)}
_BY_CLASS = {type(mlir): dtype for mlir, dtype in _BY_MLIR.items() if not fields(mlir)}  # type: ignore[arg-type]
"""Types without parameters, floats: as keys of one table all of them have one hash."""
_BY_NUMPY = {dtype.numpy: dtype for dtype in reversed(ALL) if dtype not in (tf32, index)}


def of(value: Any) -> DType:
    """Convert to an element type from a :class:`DType`, its name, or a NumPy or ml_dtypes type.

    Raises:
        ElementTypeError: no element type has that name.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]
    try:
        return _BY_NUMPY[np.dtype(value if value is not None else "?none")]  # to NumPy None is float64
    except (TypeError, KeyError):
        names = " ".join(BY_NAME)
        raise ElementTypeError("XT3270", f"{value!r} is not an element type", f"use one of: {names}") from None


def byte_addressable(dtype: DType) -> DType:
    """Check that elements of ``dtype`` are a whole number of bytes, and return it.

    Raises:
        ElementTypeError: it is i4 or u4, of which NumPy stores one in a byte and kernels two.
    """
    if dtype in PAIRS:
        raise ElementTypeError("XT3271",
                               f"{dtype} has half a byte, and NumPy keeps one in a byte where kernels keep two",
                               f"pass packed arrays, xt.pack(array, xt.{dtype}) or xt.view(bytes, xt.{dtype}), and "
                               f"calculate in {widened(dtype)}: .to(xt.{widened(dtype)})")
    return dtype


def widened(dtype: DType) -> DType:
    """8-bit integers that hold those of i4 or u4."""
    return i8 if dtype is i4 else u8


def nibbles(pairs: np.ndarray[Any, Any], dtype: DType) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Lower and upper elements of bytes that each hold two of ``dtype``, as 8-bit integers."""
    low, high = pairs & 15, pairs >> 4
    if dtype is u4:
        return low, high
    return ((low ^ 8) - 8).view(np.int8), ((high ^ 8) - 8).view(np.int8)


def element_type(type_: Attribute) -> DType:
    """Element type of a scalar or vector type of MLIR."""
    return of_mlir(type_.element_type if isinstance(type_, builtin.VectorType) else type_)


def of_mlir(mlir: Attribute) -> DType:
    """Convert an MLIR type to an element type.

    Raises:
        ElementTypeError: the language has no such element type.
    """
    found = _BY_CLASS.get(type(mlir)) or _BY_MLIR.get(mlir)
    if found is None:
        raise ElementTypeError("XT3272", f"element type {mlir} is not supported", f"use one of: {' '.join(BY_NAME)}")
    return found


def round_to(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Round to nearest even as ``dtype``; the result is in its compute type.

    tf32 rounds here because it is asked for by name; the matrix engine itself drops bits (:func:`truncate_tf32`).
    """
    if dtype is tf32:
        return _round_tf32(np.asarray(values, np.float32))
    if dtype in (i4, u4):
        wrapped = np.asarray(values).astype(np.int64) & 15
        return (np.where(wrapped > 7, wrapped - 16, wrapped) if dtype is i4 else wrapped).astype(dtype.compute)
    if dtype.numpy == dtype.compute:
        return np.asarray(values).astype(dtype.compute, copy=False)
    return to_compute(to_storage(np.asarray(values), dtype.numpy), dtype)


def arithmetic_result(values: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Round the result of arithmetic to ``dtype``; that on tf32 is float32's, which only a conversion rounds."""
    return np.asarray(values, np.float32) if dtype is tf32 else round_to(values, dtype)


def to_compute(stored: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Cast elements from memory to the compute type, exactly; ml_dtypes' cast of e5m2 drops the bits of NaN."""
    values = stored.astype(dtype.compute, copy=False)
    if dtype is e5m2 and (nan := np.isnan(values)).any():
        bits = stored.view(np.uint8)[nan].astype(np.uint32)
        values[nan] = (bits >> 7 << 31 | 0x7F800000 | (bits & 3) << 21).view(np.float32)
    return values


def to_storage(values: np.ndarray[Any, Any], storage: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Cast elements to the type that holds them in memory; NaN keeps the bits that fit, which ml_dtypes' casts drop."""
    stored = values.astype(storage, copy=False)
    if storage in (bf16.numpy, e5m2.numpy) and values.dtype == np.float32 and (nan := np.isnan(values)).any():
        bits = values[nan].view(np.uint32)
        if storage == bf16.numpy:
            stored.view(np.uint16)[nan] = bits >> 16 | np.where(bits & 0x7F0000, 0, 0x40)
        else:
            stored.view(np.uint8)[nan] = bits >> 31 << 7 | 0x7C | np.where(bits & 0x600000, bits >> 21 & 3, 2)
    return stored


def quiet(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 or float64 whose signalling NaN are quiet ones of the same sign, as a conversion makes them."""
    if not (nan := np.isnan(values)).any():
        return values
    word, bit = ("u4", 1 << 22) if values.dtype == np.float32 else ("u8", 1 << 51)
    return np.where(nan, (values.view(word) | bit).view(values.dtype), values)


def truncate_tf32(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 as the tf32 matrix engine reads it: the lowest 13 bits of the mantissa are ignored."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def _round_tf32(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values)
