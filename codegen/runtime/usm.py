"""Arrays in unified shared memory (USM): kernel arguments, and copies of NumPy arrays to and from the device."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from codegen.runtime.devices import Queue, import_dpctl
from codegen.runtime.synchronize import copy, finish
from xegpu.support.errors import DeviceError

LINE = 64
"""Cache line in bytes. A copy's first element is aligned to it, as 2D block IO requires; NumPy's arrays rarely are."""

_HUGE_PAGE = 2 << 20
"""Bytes of a huge page of x86."""
_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
"""Linux's advice; other systems have none."""


@dataclass(frozen=True)
class UsmArray:
    """Array in USM.

    Attributes:
        pointer: address of element (0, 0, ...).
        shape: in elements.
        strides: in elements; may be negative or zero.
        typestr: NumPy's type string, ``"<f4"``.
        queue: the queue it belongs to.
        read_only: the owner forbids writing.
        owner: keeps the memory alive.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    typestr: str
    queue: Queue
    read_only: bool
    owner: Any = field(repr=False, compare=False)

    def argument(self) -> Any:
        """Kernel argument for a ``global`` pointer: a dpctl memory object that starts exactly at :attr:`pointer`.

        It refers to existing memory and keeps its owner alive. dpctl takes no bare addresses as arguments.
        """
        return import_dpctl("dpctl.memory").as_usm_memory(_Span(self.pointer, 1, self.queue, self.owner))


class _Span:
    """Range of USM at an exact address, as ``__sycl_usm_array_interface__``."""

    __slots__ = ("__sycl_usm_array_interface__", "owner")

    def __init__(self, pointer: int, size: int, queue: Queue, owner: Any) -> None:
        self.owner = owner
        self.__sycl_usm_array_interface__ = {
            "data": (pointer, False),
            "shape": (size,),
            "strides": None,
            "typestr": "|u1",
            "version": 1,
            "syclobj": queue,
        }


def usm_interface(array: Any) -> UsmArray:
    """USM array from an object's ``__sycl_usm_array_interface__``, without copying: dpnp arrays, dpctl memory objects.

    Of dpnp's arrays the attributes are read instead: their interface property waits for the queue.

    Raises:
        DeviceError: it is no USM array.
    """
    usm = array.get_array() if hasattr(type(array), "get_array") else array
    if hasattr(type(usm), "usm_data"):  # dpctl's array; its address, _pointer, has no public name but in the interface
        return UsmArray(usm._pointer, tuple(usm.shape), tuple(usm.strides), usm.dtype.str, usm.sycl_queue,
                        not usm.flags.writable, array)
    interface = getattr(array, "__sycl_usm_array_interface__", None)
    if interface is None:
        raise DeviceError("XT5020", f"a {type(array).__name__} is not in USM", "give a NumPy array, or one of dpnp's")
    base, flag = interface["data"]
    typestr, shape = interface["typestr"], tuple(interface["shape"])
    pointer = base + interface.get("offset", 0) * np.dtype(typestr).itemsize
    strides = interface.get("strides")
    whole = row_major(shape) if strides is None else tuple(strides)
    memory = import_dpctl("dpctl.memory")
    queue = interface["syclobj"]
    if not isinstance(queue, import_dpctl().SyclQueue):
        queue = memory.as_usm_memory(array).sycl_queue
    # dpctl's memory objects set the read-only flag of the interface, although they are writable.
    is_memory = isinstance(array, (memory.MemoryUSMDevice, memory.MemoryUSMShared, memory.MemoryUSMHost))
    return UsmArray(pointer, shape, whole, typestr, queue, bool(flag) and not is_memory, array)


def is_usm(value: Any) -> bool:
    """Whether an object has ``__sycl_usm_array_interface__``; the property itself is not evaluated."""
    name = "__sycl_usm_array_interface__"
    return hasattr(type(value), name) or name in getattr(value, "__dict__", ())


def signature(array: Any) -> tuple[Any, ...] | None:
    """Launch cache signature of a dpnp array: all of :func:`usm_interface`, with the address modulo 64 bytes.

    None for other objects. Reading dpnp's attributes takes a fraction of the time of the interface.
    """
    try:
        usm = array.get_array()  # dpctl's array, whose address is private: the public interface takes far longer
        return usm._pointer % LINE, usm.shape, usm.strides, usm.dtype, usm.flags.writable, usm.sycl_queue
    except (AttributeError, TypeError):
        return None


def address_of(array: Any) -> int:
    """Address of a dpnp array's first element. It does not own the memory: keep the array alive."""
    return array.get_array()._pointer  # type: ignore[no-any-return]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides of a contiguous array, in elements."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def copy_in(arrays: Sequence[np.ndarray], queue: Queue) -> list[UsmArray]:
    """Copy NumPy arrays to the queue's device, with the same strides and with the first element 64-byte aligned.

    Of a view, everything from its first byte to its last is copied, gaps included, so that the strides are the same.
    Arrays that overlap on the host overlap on the device in the same way; of those, only the :func:`anchor` is always
    aligned so, and the others to their elements.

    Raises:
        DeviceError: strides are not a whole number of elements, or the device has no memory left.
    """
    found: dict[int, UsmArray] = {}
    for low, high, members in merged_spans(arrays):
        memory, start = _allocate(low, high, anchor(arrays, members) - low, queue)
        for index in members:
            array = arrays[index]
            pointer = start + array.ctypes.data - low
            readonly = not array.flags.writeable
            strides = _element_strides(array)
            found[index] = UsmArray(pointer, array.shape, strides, array.dtype.str, queue, readonly, memory)
    return [found[index] for index in range(len(arrays))]


def scratch_copy(array: UsmArray) -> UsmArray:
    """Copy a device array to new memory, with the same strides and the same address modulo 64 bytes."""
    if 0 in array.shape:
        return array
    size = np.dtype(array.typestr).itemsize
    reach = [stride * (count - 1) * size for stride, count in zip(array.strides, array.shape, strict=True)]
    low = array.pointer + sum(r for r in reach if r < 0)
    bytes_ = array.pointer + sum(r for r in reach if r > 0) + size - low
    memory = import_dpctl("dpctl.memory").MemoryUSMDevice(bytes_ + 2 * LINE, alignment=LINE, queue=array.queue)
    start = usm_interface(memory).pointer + low % LINE
    copy(array.queue, memory_at(start, bytes_, array.queue, memory),
         memory_at(low, bytes_, array.queue, array.owner), bytes_)
    return replace(array, pointer=start + array.pointer - low, owner=memory, read_only=False)


def copy_out(source: UsmArray, target: np.ndarray) -> None:
    """Copy a device array back to the host array of :func:`copy_in`, after waiting for the queue.

    Only the view's elements are written; the gaps between them on the host are unchanged.

    Raises:
        DeviceError: ``target`` has another shape or other strides, or cannot be written.
    """
    if source.shape != target.shape or source.strides != _element_strides(target):
        raise DeviceError("XT5021",
                          f"shape {source.shape}, strides {source.strides} do not fit {target.shape} on the host",
                          "pass the array that was copied to the device")
    if not target.flags.writeable:
        raise DeviceError("XT5022",
                          "a read-only NumPy array cannot receive results", "give a writable copy: array.copy()")
    low, high = bounds(target)
    if low == high:
        return
    gapless = target.flags.c_contiguous or target.flags.f_contiguous
    landed = _host_bytes(low, high) if gapless else np.empty(high - low, np.uint8)
    first = target.ctypes.data - low
    finish(source.queue)
    copy(source.queue, landed, memory_at(source.pointer - first, high - low, source.queue, source.owner), high - low)
    if not gapless:
        target[...] = np.ndarray(target.shape, target.dtype, landed, first, target.strides)


def _element_strides(array: np.ndarray) -> tuple[int, ...]:
    if any(stride % array.itemsize for stride in array.strides):
        reason = f"strides of {array.strides} bytes are not a whole number of {array.itemsize}-byte elements"
        raise DeviceError("XT5023", reason, "give a copy: numpy.ascontiguousarray(array)")
    return tuple(stride // array.itemsize for stride in array.strides)


def bounds(array: np.ndarray) -> tuple[int, int]:
    """Address range of an array: first byte, and one past the last; equal if it is empty."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, high
    for size, stride in zip(array.shape, array.strides, strict=True):
        low += min(0, stride * (size - 1))
        high += max(0, stride * (size - 1))
    return low, high + array.itemsize


def merged_spans(arrays: Sequence[np.ndarray]) -> Iterator[tuple[int, int, list[int]]]:
    """Disjoint address ranges, each (first byte, one past the last, array indices): overlapping arrays share one."""
    order = sorted((*bounds(array), index) for index, array in enumerate(arrays))
    spans: list[tuple[int, int, list[int]]] = []
    for low, high, index in order:
        if spans and low < spans[-1][1]:
            first, last, members = spans[-1]
            spans[-1] = (first, max(last, high), [*members, index])
        else:
            spans.append((low, high, [index]))
    yield from spans


def anchor(arrays: Sequence[np.ndarray], members: Sequence[int]) -> int:
    """Address to align of overlapping arrays: where the first one of the largest elements begins.

    Behind a multiple of 64 bytes there, every array whose host address is a multiple of its element's size has one
    on the device.
    """
    return max((arrays[index] for index in members), key=lambda array: array.itemsize).ctypes.data


def out_of_memory(queue: Queue, size: int) -> DeviceError:
    """Error of an allocation of ``size`` bytes that a device refused."""
    return DeviceError("XT5024", f"{queue.sycl_device.name.strip()} cannot allocate {size} bytes",
                       "free arrays on the device, or split the problem")


def _allocate(low: int, high: int, aligned: int, queue: Queue) -> tuple[Any, int]:
    """Allocate device memory for the host's bytes from ``low`` to ``high``; returns it and the address of ``low``.

    The byte at offset ``aligned`` from ``low`` is 64-byte aligned.
    """
    dpctl_memory = import_dpctl("dpctl.memory")
    try:
        memory = dpctl_memory.MemoryUSMDevice(high - low + 2 * LINE, alignment=LINE, queue=queue)
    except (dpctl_memory.USMAllocationError, MemoryError, ValueError) as error:
        raise out_of_memory(queue, high - low) from error
    base = usm_interface(memory).pointer
    advise_huge_pages(base, high - low, queue)
    start = base + (-aligned - base) % LINE
    if high > low:
        copy(queue, memory_at(start, high - low, queue, memory), _host_bytes(low, high), high - low)
    return memory, start


def is_large(size: int) -> bool:
    """Whether so many bytes may have huge pages."""
    return size >= 2 * _HUGE_PAGE and _HUGE_PAGES is not None


def advise_huge_pages(pointer: int, size: int, queue: Queue) -> None:
    """Let the system back new memory of a CPU by huge pages, if there is enough of it: a page fault clears 2 MB.

    With pages of 4 KB, a new result of 2048 x 2048 takes 4,096 faults, 5 % of the time of its product.
    """
    if is_large(size) and queue.sycl_device.is_cpu:
        first = -(-pointer // mmap.PAGESIZE) * mmap.PAGESIZE
        _madvise()(first, (pointer + size - first) // mmap.PAGESIZE * mmap.PAGESIZE, _HUGE_PAGES)  # a hint: may fail


@cache
def _madvise() -> Any:
    function = ctypes.CDLL(None).madvise
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function


def memory_at(pointer: int, size: int, queue: Queue, owner: Any) -> Any:
    """dpctl memory object of existing USM; it keeps ``owner`` alive."""
    return import_dpctl("dpctl.memory").as_usm_memory(_Span(pointer, size, queue, owner))


class _HostSpan:
    """Range of host memory, as NumPy's ``__array_interface__``."""

    def __init__(self, low: int, high: int) -> None:
        self.__array_interface__ = {"data": (low, False), "shape": (high - low,), "typestr": "|u1", "version": 3}


def _host_bytes(low: int, high: int) -> np.ndarray:
    return np.asarray(_HostSpan(low, high))
