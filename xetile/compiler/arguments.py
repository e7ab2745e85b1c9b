"""Arguments of a call: arrays, typed views, specifications and numbers in one representation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from codegen.runtime.usm import UsmArray, is_usm, usm_interface
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, DeviceError, ElementTypeError, ShapeError, XeError
from xegpu.support.location import Location
from xetile.compiler import packed
from xetile.compiler.dlpack import from_dlpack, has_dlpack, no_element_type

Sizes = tuple[int | None, ...]
_PACKAGES = ("xetile", "codegen", "xegpu")


class AtTheCall:
    """Context manager that locates errors at the caller's line; errors that have a location get it as their caller."""

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, XeError):
            at_the_call(error)


def at_the_call(error: XeError) -> None:
    """Locate an error at the line that called into this package, as :class:`AtTheCall` does."""
    error.called_from(Location.of_caller(_PACKAGES))


class Spec:
    """Shape, strides and element type of an array without data, for :meth:`Kernel.lower`.

    Args:
        shape: sizes, None where they are known at run time only.
        dtype: element type.
        strides: in elements; None for a row-major array.
    """

    def __init__(self, shape: Sizes, dtype: Any, strides: Sizes | None = None) -> None:
        with AtTheCall():
            self.shape = _spec_sizes(shape, "shape")
            if any(size is not None and size < 0 for size in self.shape):
                raise ShapeError("XT1037", f"a Spec of shape {self.shape} has a negative size",
                                 "give None for a size that is known at run time only")
            self.dtype = dtypes.of(dtype)
            self.strides = _row_major(self.shape) if strides is None else _spec_sizes(strides, "strides")
            if len(self.strides) != len(self.shape):
                raise ShapeError("XT1035", f"{len(self.strides)} stride{'' if len(self.strides) == 1 else 's'} for "
                                 f"{len(self.shape)} dimension{'' if len(self.shape) == 1 else 's'}",
                                 f"give one a dimension, or none: row-major ones are {_row_major(self.shape)}")

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype}, {self.strides})"


def _spec_sizes(values: Any, name: str) -> Sizes:
    if not isinstance(values, (tuple, list)) or not all(value is None or _is_integer(value) for value in values):
        raise ShapeError("XT1036", f"{name}= of a Spec is a tuple of integers and None, not {values!r}",
                         "for example xt.Spec((None, 1024), xt.bf16)")
    return tuple(None if value is None else int(value) for value in values)


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _row_major(shape: Sizes) -> Sizes:
    strides: list[int | None] = []
    step: int | None = 1
    for size in reversed(shape):
        strides.append(step)
        step = None if step is None or size is None else step * max(size, 1)
    return tuple(reversed(strides))


class TypedView:
    """An array reinterpreted with another element type: the result of :func:`xetile.view`."""

    def __init__(self, array: Any, dtype: DType) -> None:
        inner = array.array if isinstance(array, TypedView) else array
        argument = Argument.of("the array", inner)
        if dtype in dtypes.PAIRS:
            packed.check_bytes(argument.dtype, dtype)
            packed.contiguous_axis("the array", argument.shape, argument.strides)
        else:
            check_view("the array", argument.dtype, dtype)
        self.array: Any = inner
        self.dtype = dtype

    @property
    def shape(self) -> Sizes:
        """Sizes in elements; of 4-bit integers there are two to a byte."""
        argument = Argument.of("the array", self)
        return argument.shape if argument.packed is None else packed.unpacked_shape(argument.shape, argument.packed)


def check_view(name: str, actual: DType, requested: DType) -> None:
    """Raise unless elements of one type can be read as another.

    Raises:
        ElementTypeError: they differ in size.
    """
    if actual.bits != requested.bits:
        fitting = [str(dtype) for dtype in dtypes.ALL if dtype.bits == actual.bits and dtype is not dtypes.index]
        raise ElementTypeError("XT1034", f"{name} has elements of type {actual}, {actual.bits} bits, "
                               f"and {requested} has {requested.bits}",
                               f"view it as one of {', '.join(fitting)}; to convert values, load them and use .to(...)")


@dataclass(frozen=True)
class Argument:
    """Argument of a call.

    Attributes:
        name: the parameter's name.
        dtype: the element type, or the type of a number.
        rank: dimensions of an array, None for a number.
        shape, strides: in elements; empty for a number.
        source: the NumPy array, the USM array or the number itself; None for a :class:`Spec`.
        kind: ``"numpy"``, ``"usm"``, ``"spec"`` or ``"number"``.
        packed: the dimension, -1 or -2, along which a byte holds two 4-bit integers; the sizes count bytes.
    """

    name: str
    dtype: DType
    rank: int | None
    shape: Sizes
    strides: Sizes
    source: Any
    kind: str
    packed: int | None = None

    @classmethod
    def of(cls, name: str, value: Any) -> Argument:
        """The argument for a value of the author's call.

        Raises:
            ElementTypeError: it is neither an array nor a number, or its element type is not one of ours.
        """
        if isinstance(value, Argument):
            return value
        if isinstance(value, TypedView):
            inner = cls.of(name, value.array)
            if value.dtype in dtypes.PAIRS:
                axis = packed.contiguous_axis(name, inner.shape, inner.strides)
                return cls(name, dtypes.PAIRS[value.dtype], inner.rank, inner.shape, inner.strides, inner.source,
                           inner.kind, axis)
            return cls(name, value.dtype, inner.rank, inner.shape, inner.strides, inner.source, inner.kind)
        if isinstance(value, Spec) and value.dtype in dtypes.PAIRS:
            axis = packed.contiguous_axis(name, value.shape, value.strides)
            shape, strides = packed.in_bytes(name, value.shape, value.strides, axis)
            return cls(name, dtypes.PAIRS[value.dtype], len(shape), shape, strides, None, "spec", axis)
        if isinstance(value, Spec):
            return cls(name, value.dtype, len(value.shape), value.shape, value.strides, None, "spec")
        if isinstance(value, np.ndarray):
            return _of_numpy(name, value)
        if is_usm(value):
            return _of_usm(name, usm_interface(value))
        if has_dlpack(value) and not isinstance(value, np.generic):
            imported = from_dlpack(name, value)
            return _of_usm(name, imported) if isinstance(imported, UsmArray) else _of_numpy(name, imported)
        return _of_number(name, value)

    @property
    def key(self) -> tuple[DType, int | None, int | None]:
        """The part of an argument that a traced module depends on."""
        return self.dtype, self.rank, self.packed

    @property
    def read_only(self) -> bool:
        """Whether the array's owner forbids writing."""
        if self.kind == "numpy":
            return not self.source.flags.writeable
        return bool(self.kind == "usm" and self.source.read_only)

    def check_exists(self) -> None:
        """Raise if the argument has no array.

        Raises:
            ArgumentError: it is a :class:`Spec`.
        """
        if self.kind == "spec":
            shape = tuple(1 if size is None else size for size in self.shape)
            kind = self.dtype.numpy.type
            raise ArgumentError("XT1041", f"{self.name} is a Spec, which describes an array without elements",
                                "compile with kernel.lower(...), or launch with an array, such as "
                                f"numpy.zeros({shape}, {kind.__module__}.{kind.__name__})")

    @property
    def pointer(self) -> int | None:
        """Address of the first element on a device; None without an array, or before it is copied in."""
        return self.source.pointer if self.kind == "usm" else None

    def not_in_host_memory(self, executor: str) -> DeviceError:
        """Error of an array in device memory that ``executor`` cannot run on."""
        return DeviceError("XT1040", f"{self.name} is in device memory, so {executor} cannot run on it",
                           f"pass a NumPy array, such as dpnp.asnumpy({self.name}), or drop .on(...)")

    def numpy(self) -> Any:
        """The NumPy array viewed as its element type, or the number."""
        if self.kind == "number":
            return self.source
        if self.kind == "usm":
            raise self.not_in_host_memory("NumPy")
        return self.source.view(self.dtype.numpy) if self.source.dtype != self.dtype.numpy else self.source


def different_queues(first: str, other: str) -> DeviceError:
    """Error of two arrays, by their names, on different queues."""
    return DeviceError("XT1043", f"{first} and {other} are on different queues",
                       f"allocate both on one queue: dpnp.asarray({other}, sycl_queue={first}.sycl_queue)")


def _of_numpy(name: str, array: np.ndarray[Any, Any]) -> Argument:
    dtype = _element_type(name, array.dtype)
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):  # an attribute access imports numpy.ma
        raise ElementTypeError("XT1038", f"{name} is a masked array, and kernels support no masks",
                               f"give the masked elements a value, as in {name}.filled(0), or pass {name}.data and "
                               f"{name}.mask as two arrays")
    if any(stride % max(array.itemsize, 1) for stride in array.strides):
        raise ElementTypeError("XT1033",
                               f"{name} has strides of {array.strides} bytes, not whole elements of {array.itemsize}",
                               f"pass a copy: numpy.ascontiguousarray({name})")
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return Argument(name, dtype, array.ndim, array.shape, strides, array, "numpy")


def _of_usm(name: str, usm: UsmArray) -> Argument:
    dtype = _element_type(name, np.dtype(usm.typestr))
    return Argument(name, dtype, len(usm.shape), usm.shape, usm.strides, usm, "usm")


def _of_number(name: str, value: Any) -> Argument:
    dtype = dtypes.u64 if isinstance(value, np.uint64) else dtypes.i64 if isinstance(value, np.int64) else None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return Argument(name, dtypes.i1, None, (), (), value, "number")
    if not isinstance(value, (int, float)):
        actual = "None" if value is None else f"a {type(value).__name__}"
        if isinstance(value, DType):
            actual = f"the element type {value}"
        raise ElementTypeError("XT1030",
                               f"{name} is {actual}, which no kernel takes as a run-time argument",
                               _hint_for_number(name, value))
    if isinstance(value, int) and (dtype is not None or not -(2**31) <= value < 2**31):
        return _of_64_bits(name, value, dtype)
    return Argument(name, dtypes.index if isinstance(value, int) else dtypes.f32, None, (), (), value, "number")


def _of_64_bits(name: str, value: int, dtype: DType | None) -> Argument:
    """A 64-bit number, such as an address; sizes and indices have 32 bits."""
    dtype = dtype or (dtypes.i64 if value < 2**63 else dtypes.u64)
    if not -(2**63) <= value < 2**64:
        raise ElementTypeError("XT1031", f"{name} = {value} does not fit 64 bits",
                               f"pass a number from {-2**63} to {2**64 - 1}, or a float: float({name})")
    return Argument(name, dtype, None, (), (), dtype.numpy.type(value), "number")


def _hint_for_number(name: str, value: Any) -> str:
    if isinstance(value, DType):
        number = 1.0 if value.is_float else 1
        return f"pass a number, such as {number}, which stands for any other one; or make {name} a compile-time " \
               "constant by putting it behind a bare *"
    if isinstance(value, list):
        return f"pass an array, such as numpy.asarray({name}, numpy.float32)"
    return f"pass a NumPy array, a USM array (dpnp) or a number; or make {name} a compile-time constant by putting " \
           "it behind a bare *"


def _hint_for_element_type(name: str, dtype: np.dtype[Any]) -> str:
    if dtype.kind == "c":
        return f"pass two arrays, {name}.real.copy() and {name}.imag.copy()"
    if dtype.names:
        return f"pass one of its fields, as in {name}[{dtype.names[0]!r}].copy()"
    native = dtype.newbyteorder("=") if dtype.kind in "iufb" and not dtype.isnative else np.dtype(np.float32)
    return f"convert it, as in {name}.astype(numpy.{native})"


def _element_type(name: str, dtype: np.dtype[Any]) -> DType:
    try:
        element = dtypes.of(dtype)
    except ElementTypeError as error:
        raise no_element_type(name, f"type {dtype}", f"{_hint_for_element_type(name, dtype)}; {error.hint}") from None
    return dtypes.byte_addressable(element)
