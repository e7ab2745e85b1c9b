"""Array operands of :func:`xetile.matmul`: NumPy's rules of shapes, types and batches for NumPy and dpnp arrays."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from types import ModuleType
from typing import Any

import numpy as np

from codegen.runtime.caching_allocator import ALLOCATOR, Block
from codegen.runtime.usm import LINE, advise_huge_pages
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, DeviceError, ElementTypeError, ShapeError
from xetile.compiler.arguments import Argument, TypedView, different_queues
from xetile.runtime.aliasing import overlaps_itself
from xetile.runtime.launch_plan import RECORD, LaunchEvent

ENGINE = (dtypes.f16, dtypes.bf16, dtypes.tf32, dtypes.f32)
"""Floating-point types of operands."""


@dataclass(frozen=True)
class Operand:
    """Array operand: a NumPy or dpnp array, with its element type.

    Attributes:
        name: what errors call it.
        array: the array.
        dtype: the element type.
    """

    name: str
    array: Any
    dtype: DType

    @classmethod
    def of(cls, name: str, value: Any) -> Operand:
        """Operand from an argument of the author.

        Raises:
            ElementTypeError: it is no array, or one of other elements than the language's.
        """
        array = value.array if isinstance(value, TypedView) else value
        argument = Argument.of(name, value)
        if argument.kind == "numpy" and not isinstance(array, np.ndarray):
            array = argument.source  # the memory of an object with __dlpack__
        if argument.rank is None or argument.kind == "spec":
            raise ElementTypeError("XT7009",
                                   f"{name} is {'a description' if argument.kind == 'spec' else 'a number'}, not an "
                                   "array", f"pass a NumPy or dpnp array, such as numpy.asarray({name})")
        if argument.packed is not None:
            raise ElementTypeError("XT7016", f"{name} is a packed array of {argument.dtype}, which functions of the "
                                   "library do not take", "multiply it in a kernel, by tile_mma; 4-bit weights go into "
                                   f"xt.int4_matmul; xt.unpack({name}) gives 8-bit integers")
        if argument.kind == "usm" and not hasattr(array, "swapaxes"):
            raise DeviceError("XT7009", f"{name} is a {type(array).__name__}, which has no shape to work with",
                              f"pass a dpnp array: dpnp.asarray({name})")
        operand = cls(name, array, argument.dtype)
        operand.__dict__["described"] = argument  # the cached property's value, which takes microseconds of each call
        return operand

    @cached_property
    def described(self) -> Argument:
        """The kernel argument's description: sizes, strides, address."""
        return Argument.of(self.name, self.argument)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, in elements."""
        return tuple(self.array.shape)

    @property
    def argument(self) -> Any:
        """Kernel argument: the array, viewed as the operand's element type."""
        same = dtypes.of(np.dtype(self.array.dtype)) is self.dtype
        return self.array if same else TypedView(self.array, self.dtype)

    @property
    def library(self) -> ModuleType:
        """Array library of the operand, NumPy or dpnp."""
        if isinstance(self.array, np.ndarray):
            return np
        import dpnp
        return dpnp  # type: ignore[no-any-return]

    def reshaped(self, shape: tuple[int, ...]) -> Operand:
        """Reshape; of a contiguous array, a view."""
        return replace(self, array=self.array.reshape(shape))

    def matrix(self) -> Operand:
        """Only matrix of a batch of one, as a view."""
        return replace(self, array=self.array[(0,) * (len(self.shape) - 2)])

    def as_row(self) -> Operand:
        """View with a first dimension of one."""
        return replace(self, array=self.array[None, ...])

    def as_column(self) -> Operand:
        """View with a last dimension of one."""
        return replace(self, array=self.array[..., None])

    def spread(self, batch: tuple[int, ...]) -> Operand:
        """Broadcast view with the leading dimensions ``batch``."""
        return replace(self, array=self.library.broadcast_to(self.array, (*batch, *self.shape[-2:])))

    def strides(self) -> tuple[int, ...]:
        """Strides in elements."""
        return tuple(stride for stride in self.described.strides if stride is not None)


def empty_like_input(operand: Operand, shape: tuple[int, ...], dtype: DType) -> Operand:
    """New array in the memory and on the queue of an operand."""
    if operand.library is np:
        return Operand("the result", np.empty(shape, dtype.numpy), dtype)
    return Operand("the result", new_array(operand.array, shape, _storage(dtype)), dtype)


def new_array(like: Any, shape: tuple[int, ...], storage: np.dtype[Any]) -> Any:
    """New dpnp array in the memory and on the queue of another one."""
    import dpnp

    queue, size = like.sycl_queue, math.prod(shape) * storage.itemsize
    if ALLOCATOR.caches(queue, size):
        return dpnp.ndarray(shape, storage, ALLOCATOR.allocate(queue, size, like.usm_type), sycl_queue=queue)
    array = dpnp.empty(shape, dtype=storage, usm_type=like.usm_type, sycl_queue=queue)
    advise_huge_pages(array.get_array()._pointer, size, queue)
    return array


class Scratch:
    """Arrays that only the next launches use, in memory that is kept for those after.

    Args:
        like: an operand; the arrays are in its memory and on its queue.
        layouts: shape and element type of each array.

    Attributes:
        operands: the arrays.

    Raises:
        DeviceError: the device has no memory left.
    """

    def __init__(self, like: Operand, *layouts: tuple[tuple[int, ...], DType]) -> None:
        self._block: Block | None = None
        if like.library is np:
            self.operands = [empty_like_input(like, shape, dtype) for shape, dtype in layouts]
            return
        queue, sizes = like.array.sycl_queue, [math.prod(shape) * dtype.bytes for shape, dtype in layouts]
        starts = [0, *accumulate(-(-size // LINE) * LINE for size in sizes)]

        def arrays(memory: Any) -> list[Operand]:
            return [Operand("scratch", like.library.ndarray(
                shape, _storage(dtype), memory, start // dtype.bytes, sycl_queue=queue), dtype)
                for (shape, dtype), start in zip(layouts, starts, strict=False)]

        self._block = ALLOCATOR.take(queue, max(starts[-1], LINE))
        if RECORD.events is not None:
            RECORD.events.append(self._block)
        self.operands = self._block.views(layouts, arrays)

    def used_until(self, launch: LaunchEvent) -> None:
        """Give the memory to later launches, behind this one; without this call it is freed."""
        if self._block is not None and launch.sycl_event is not None:
            ALLOCATOR.give_back(self._block, launch.sycl_event)
            self._block = None


def _storage(dtype: DType) -> np.dtype[Any]:
    """NumPy's element type of dpnp's arrays for elements of a type: dpnp has no bfloat16."""
    return np.dtype(np.uint16) if dtype is dtypes.bf16 else dtype.numpy


def result_type(a: DType, b: DType) -> DType:
    """Result type of a product by NumPy's promotion rules.

    Raises:
        ElementTypeError: there is no product of these types.
    """
    try:
        return dtypes.of(np.result_type(a.numpy, b.numpy))
    except (TypeError, ElementTypeError):
        raise _no_product(a, b) from None


def engine_type(a: DType, b: DType) -> DType:
    """Element type in which operands are multiplied; i32 for products of 8-bit integers.

    Raises:
        ElementTypeError: there is no product of these types.
    """
    if {a, b} <= {dtypes.i8, dtypes.u8}:
        return dtypes.i32
    if dtypes.tf32 in (a, b):
        return dtypes.tf32
    common = result_type(a, b)
    if common not in ENGINE:
        raise _no_product(a, b)
    return common


def _no_product(a: DType, b: DType) -> ElementTypeError:
    return ElementTypeError("XT7002", f"xt.matmul does not multiply {a} by {b}",
                            "it takes f16, bf16, f32 and tf32, mixed as NumPy promotes them, and i8 and u8; convert "
                            "one operand, as in a.astype(numpy.float32)")


def check_matrices(*operands: Operand) -> None:
    """Check that operands have two dimensions.

    Raises:
        ShapeError: one has another number.
    """
    for operand in operands:
        if len(operand.shape) != 2:
            raise ShapeError("XT7008", f"{operand.name} has {len(operand.shape)} dimensions",
                             "pass matrices, (M, K) and (K, N); xt.matmul takes batches of one size")


def check_shapes(a: Operand, b: Operand) -> tuple[int, ...]:
    """Batch dimensions of the product of two operands, broadcast by NumPy's rules.

    Raises:
        ShapeError: the inner dimensions differ, or the leading ones do not broadcast.
    """
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError("XT7011",
                         f"a is {shape_text(a.shape)} and b is {shape_text(b.shape)}: a has {a.shape[-1]} columns and "
                         f"b {b.shape[-2]} rows", "these must be equal; transpose one of them: b.swapaxes(-1, -2)"
                         if a.shape[-1] == b.shape[-1] else
                         f"pass b with {a.shape[-1]} rows, or a with {b.shape[-2]} columns")
    try:
        return tuple(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    except ValueError:
        batches = [shape_text(operand.shape[:-2], "none") for operand in (a, b)]
        raise ShapeError("XT7007", f"the batches of a, {batches[0]}, and of b, {batches[1]}, do not broadcast",
                         "make each pair of sizes equal, or one of them 1") from None


def folded(a: Operand, c: Operand) -> tuple[Operand, Operand] | None:
    """A and C with batches folded into rows, if both are contiguous, so that this is a view; else None."""
    if not (a.array.flags.c_contiguous and c.array.flags.c_contiguous):
        return None
    rows = math.prod(a.shape[:-1])
    return a.reshaped((rows, a.shape[-1])), c.reshaped((rows, c.shape[-1]))


def overlap(a: Operand, b: Operand) -> bool:
    """Whether two arrays may share memory, by the spans of their addresses."""
    (low_a, high_a), (low_b, high_b) = span(a), span(b)
    return low_a < high_b and low_b < high_a


def span(operand: Operand) -> tuple[int, int]:
    """Address range of an array's memory: first address, and the one after the last."""
    shape, size = operand.shape, operand.dtype.bytes
    start = operand.array.ctypes.data if operand.library is np else operand.described.pointer
    assert start is not None
    if 0 in shape:
        return start, start
    reach = [stride * (count - 1) * size for stride, count in zip(operand.strides(), shape, strict=True)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + size


def shape_text(shape: Sequence[int], of_scalar: str = "one number") -> str:
    """Shape in a message: ``64x32``."""
    return "x".join(map(str, shape)) or of_scalar


def check_same_device(*operands: Operand) -> None:
    """Check that all arrays are of one library and on one queue.

    Raises:
        DeviceError: some are NumPy's and some are on a device, or they are on different queues.
    """
    host = next((x for x in operands if x.library is np), None)
    if host is not None and any(x.library is not np for x in operands):
        raise DeviceError("XT7010", f"{host.name} is a NumPy array, and others are on a device",
                          f"copy it there: dpnp.asarray({host.name})")
    if host is None:
        check_queues(operands)


def check_queues(operands: Sequence[Operand]) -> None:
    """Check that all device arrays are on one queue.

    Raises:
        DeviceError: they are not.
    """
    queue = operands[0].array.sycl_queue
    other = next((operand for operand in operands if operand.array.sycl_queue != queue), None)
    if other is not None:
        raise different_queues(operands[0].name, other.name)


def check_writable(*results: Operand) -> None:
    """Check that output arrays are writeable, and that each of their elements has one index.

    Raises:
        ArgumentError: an element of one has several indices.
        ElementTypeError: one is read-only.
    """
    fixed = next((result for result in results if result.described.read_only), None)
    if fixed is not None:
        raise ElementTypeError("XT1045", f"the result goes into {fixed.name}, which is read-only",
                               f"pass an array that can be written, such as {fixed.name}.copy()")
    shared = next((result for result in results if overlaps_itself(result.described)), None)
    if shared is not None:
        raise ArgumentError("XT1039", f"the result goes into {shared.name}, {shape_text(shared.shape)} with strides of "
                            f"{shared.strides()} elements, which share their place in memory",
                            f"pass an array with a place for each element, such as {shared.name}.copy()")


def one_number(name: str, value: Any, whole: str, hint: str) -> float:
    """Factor of a complete result, checked.

    Args:
        name: the parameter's.
        value: what the author passed.
        whole: what it is a factor of.
        hint: what to do with several.

    Raises:
        ArgumentError: it is no number.
    """
    if isinstance(value, numbers.Real) or (getattr(value, "shape", None) == () and isinstance(value, np.ndarray)):
        return float(value)
    shape = getattr(value, "shape", None)
    shown = repr(value)[:40] if shape is None else f"an array of {shape_text(shape)}"
    raise ArgumentError("XT7013", f"{name} is {shown}, and must be one number for {whole}",
                        f"{hint}; one number is {name}=0.5")


def copied_where_shared(operand: Operand, result: Operand) -> Operand:
    """Operand, copied if the result may alias it."""
    return replace(operand, array=operand.array.copy()) if overlap(operand, result) else operand


def result_for(out: Any, like: Operand, shape: tuple[int, ...], dtype: DType) -> Operand:
    """Output array: the author's, checked, or a new one.

    Raises:
        DeviceError: the array is not where the operands are.
        ElementTypeError: it is read-only.
        ShapeError: it has another shape.
    """
    if out is None:
        return empty_like_input(like, shape, dtype)
    result = Operand.of("out", out)
    check_same_device(like, result)
    check_writable(result)
    check_result_shape(result, shape)
    return result


def check_result_shape(result: Operand, shape: tuple[int, ...]) -> None:
    """Check that an author's output array has the shape of the result.

    Raises:
        ShapeError: it has another.
    """
    if result.shape != shape:
        raise ShapeError("XT7003",
                         f"{result.name} is {result.shape}, and the result {shape}", f"pass an array of {shape}")
