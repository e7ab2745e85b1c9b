"""Packed arrays of 4-bit integers: two in a byte along the contiguous dimension, the lower bits first.

The sizes of an argument count bytes, those that an author meets count elements.
"""

from __future__ import annotations

from typing import Any

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, ShapeError

Sizes = tuple[int | None, ...]


def check_bytes(actual: DType, requested: DType) -> None:
    """Raise unless elements are bytes, which can be read as pairs of 4-bit integers.

    Raises:
        ElementTypeError: they are something else.
    """
    if actual not in (dtypes.i8, dtypes.u8):
        raise ElementTypeError("XT1065", f"the array has elements of type {actual}, and packed {requested} are bytes",
                               f"pack integers with xt.pack(array, xt.{requested}); or view an array of uint8 whose "
                               "bytes hold two elements each, the first in the lower bits")


def contiguous_axis(name: str, shape: Sizes, strides: Sizes) -> int:
    """The dimension, -1 or -2, along which bytes are adjacent.

    Raises:
        ShapeError: there is none.
    """
    if not shape:
        raise ShapeError("XT1066", f"{name} has no dimensions, and 4-bit integers lie along one", "pass a vector")
    for axis in (-1, -2)[:len(shape)]:
        if strides[axis] == 1:
            return axis
    if shape[-1] == 1:
        return -1
    raise ShapeError("XT1066", f"{name} has strides of {strides}, and packed 4-bit integers are adjacent along "
                     "one of the last two dimensions", f"pass a copy: numpy.ascontiguousarray({name})")


def unpacked_shape(shape: Sizes, axis: int) -> Sizes:
    """Sizes in elements of an array of bytes."""
    sizes = list(shape)
    size = sizes[axis]
    sizes[axis] = None if size is None else 2 * size
    return tuple(sizes)


def in_bytes(name: str, shape: Sizes, strides: Sizes, axis: int) -> tuple[Sizes, Sizes]:
    """Sizes and strides in bytes of those in elements.

    Raises:
        ShapeError: one is odd, so that the last element of a line shares its byte with the next line.
    """
    sizes, steps = list(shape), list(strides)
    for values, which, halved in ((sizes, "size", [axis % len(shape)]),
                                  (steps, "stride", [d for d in range(len(shape)) if d != axis % len(shape)])):
        for d in halved:
            if (value := values[d]) is not None and value % 2:
                raise ShapeError("XT1067", f"{name} has a {which} of {value} elements of 4 bits, which are not bytes",
                                 f"make it {value + 1}: xt.pack fills the last byte of a line with a zero")
            values[d] = None if value is None else value // 2
    return tuple(sizes), tuple(steps)


def pack(array: Any, dtype: DType, axis: int) -> Any:
    """Bytes that hold the integers of a NumPy or dpnp array, two each along ``axis``, which becomes contiguous.

    Raises:
        ShapeError: no such dimension, or neither of the last two.
        ElementTypeError: not integers, or beyond the range of ``dtype``.
    """
    rank = array.ndim
    if rank == 0 or not -min(rank, 2) <= (at := axis - rank if axis >= 0 else axis) < 0:
        raise ShapeError("XT1068", f"an array of shape {tuple(array.shape)} is not packed along axis {axis}",
                         "pack along one of the last two dimensions: axis=-1 or axis=-2")
    kind = str(array.dtype)
    if kind not in ("int4", "uint4") and np_kind(array) not in "iu":
        raise ElementTypeError("XT1069", f"the array is of {kind}, not of integers",
                               "quantize first, as in numpy.round(array).astype(numpy.int8)")
    values = array.astype("int16")
    low, high = (-8, 7) if dtype is dtypes.i4 else (0, 15)
    if array.size and (int(values.min()) < low or int(values.max()) > high):
        raise ElementTypeError("XT1073", f"the elements reach from {int(values.min())} to {int(values.max())}, and "
                               f"{dtype} from {low} to {high}", f"clip them first: array.clip({low}, {high})")
    lines = values.swapaxes(-1, at)
    first, second = lines[..., ::2], lines[..., 1::2]
    result = (first & 15).astype("uint8", order="C")
    result[..., :second.shape[-1]] |= ((second & 15) << 4).astype("uint8")
    return result.swapaxes(-1, at)


def np_kind(array: Any) -> str:
    """Kind of an array's element type, as NumPy's letters."""
    return str(getattr(array.dtype, "kind", "?"))


def unpack(array: Any, dtype: DType, axis: int) -> Any:
    """Elements of packed bytes, as 8-bit integers, in an array of NumPy or dpnp."""
    lines = array.view("uint8").swapaxes(-1, axis)
    result = lines.repeat(2, -1)
    result[..., ::2] &= 15
    result[..., 1::2] >>= 4
    if dtype is dtypes.i4:
        result = ((result ^ 8) - 8).view("int8")
    return result.swapaxes(-1, axis)
