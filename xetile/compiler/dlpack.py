"""DLPack import: NumPy and USM arrays over the memory of objects with ``__dlpack__``, without a copy.

NumPy's own ``from_dlpack`` reads neither bf16 nor 8-bit floats, nor memory of SYCL devices; here the capsule is read as
the C structures of DLPack 1.0 (``dlpack.h``) and kept until the array is gone.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import ml_dtypes
import numpy as np

from codegen.runtime.devices import import_dpctl
from codegen.runtime.usm import UsmArray, row_major
from xegpu.support.errors import ArgumentError, DeviceError, ElementTypeError

_HOST = (1, 3, 11)
"""kDLCPU, kDLCUDAHost and kDLROCMHost: memory that the host reads and writes."""
_ONEAPI = 14
"""kDLOneAPI: unified shared memory of a SYCL device, whose number counts dpctl's devices."""
_DEVICES = {2: "a CUDA device", 4: "an OpenCL buffer", 7: "a Vulkan device", 8: "a Metal device", 10: "a ROCm device",
            13: "CUDA managed memory", 15: "a WebGPU device"}
_READ_ONLY = 1
"""DLPACK_FLAG_BITMASK_READ_ONLY"""
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
"""NumPy's kind for each DLDataTypeCode that it has."""
_FLOATS = {4: ml_dtypes.bfloat16, 10: ml_dtypes.float8_e4m3fn, 12: ml_dtypes.float8_e5m2}
"""DLDataTypeCode of the other floats: kDLBfloat, kDLFloat8_e4m3fn, kDLFloat8_e5m2."""


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64))


class _Managed(ctypes.Structure):
    """DLManagedTensor, of a capsule named ``dltensor``."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, of a capsule named ``dltensor_versioned``."""

    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor))


_DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_API = ctypes.pythonapi
_IS_VALID = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _API))
_POINTER = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _API))
_SET_NAME = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _API))
_NEW = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _API))
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}
"""Name of a capsule whose tensor has an owner; its strings live as long as any capsule, as ``SetName`` asks."""


class _Owner:
    """Owner of an imported tensor; calls its deleter when it is gone. NumPy finds host memory by its interface."""

    def __init__(self, managed: _Managed | _Versioned) -> None:
        self.__array_interface__: dict[str, Any] = {}
        if managed.deleter:
            finalizer = weakref.finalize(self, _DELETER(managed.deleter), ctypes.addressof(managed))
            finalizer.atexit = False  # the exporter may be gone by then


def has_dlpack(value: Any) -> bool:
    """Whether an object exports its memory by DLPack."""
    return hasattr(type(value), "__dlpack__") and hasattr(type(value), "__dlpack_device__")


def from_dlpack(name: str, value: Any) -> np.ndarray[Any, Any] | UsmArray:
    """NumPy array, or array in USM, over the memory of an object with ``__dlpack__``.

    Args:
        name: what errors call it.
        value: the object.

    Raises:
        DeviceError: it is in the memory of a device that kernels do not run on.
        ArgumentError: its owner does not export it.
        ElementTypeError: neither NumPy nor ml_dtypes has its element type.
    """
    device = int(value.__dlpack_device__()[0])
    if device not in (*_HOST, _ONEAPI):
        raise DeviceError("XT1090", f"{name} is in the memory of {_DEVICES.get(device, f'a device of type {device}')}, "
                          "and kernels run on Intel GPUs and in host memory",
                          f"copy it to the host, as in {name}.cpu(), or to an Intel GPU, as in {name}.to('xpu')")
    queue = _queue_of(value) if device == _ONEAPI else None
    if getattr(value, "is_neg", bool)():  # torch's lazy negation of a.conj().imag, which its __dlpack__ passes over
        raise ArgumentError("XT1091", f"{name} does not export its memory, which holds elements of the other sign",
                            f"pass {name}.resolve_neg()")
    managed, flags = _managed(name, value)
    tensor = managed.tensor
    dtype = _element_type(name, tensor)
    shape = tuple(tensor.shape[:tensor.ndim])
    strides = tuple(tensor.strides[:tensor.ndim]) if tensor.strides else row_major(shape)
    pointer, read_only, owner = (tensor.data or 0) + tensor.byte_offset, bool(flags & _READ_ONLY), _Owner(managed)
    if queue is not None:
        return UsmArray(pointer, shape, strides, dtype.str, queue, read_only, owner)
    if 0 in shape:
        return np.empty(shape, dtype)
    byte_strides = tuple(stride * dtype.itemsize for stride in strides)
    # Bytes first: the interface has no names for the types of ml_dtypes.
    owner.__array_interface__ = {"data": (pointer, read_only), "shape": shape, "strides": byte_strides,
                                 "typestr": f"|V{dtype.itemsize}", "version": 3}
    return np.asarray(owner).view(dtype)


def _managed(name: str, value: Any) -> tuple[_Managed | _Versioned, int]:
    """Managed tensor of an object, which belongs to the caller from then on, and its flags."""
    try:
        try:
            capsule = value.__dlpack__(max_version=(1, 0))
        except TypeError:  # an exporter older than DLPack 1.0
            capsule = value.__dlpack__()
    except (BufferError, RuntimeError) as error:
        raise ArgumentError("XT1091", f"{name} does not export its memory: {error}",
                            f"pass an array that does, such as {name}.detach() of a tensor with gradients") from error
    kind = next(kind for kind in _USED if _IS_VALID(capsule, kind))
    address = _POINTER(capsule, kind)
    _SET_NAME(capsule, _USED[kind])
    if kind == b"dltensor":
        return _Managed.from_address(address), 0
    versioned = _Versioned.from_address(address)
    return versioned, versioned.flags


def no_element_type(name: str, type_: str, hint: str) -> ElementTypeError:
    """Error for an array whose elements have a type that no kernel knows."""
    return ElementTypeError("XT1032", f"{name} has elements of {type_}, which is not an element type here", hint)


def _element_type(name: str, tensor: _Tensor) -> np.dtype[Any]:
    """NumPy's type for the elements of a tensor."""
    if tensor.lanes == 1 and tensor.code in _FLOATS:
        return np.dtype(_FLOATS[tensor.code])  # type: ignore[no-any-return]
    if tensor.lanes != 1 or tensor.code not in _KINDS or tensor.bits % 8:
        raise no_element_type(name, f"DLPack's type {tensor.code} of {tensor.bits} bits",
                              "convert it to one of floats or integers")
    return np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")


def _queue_of(value: Any) -> Any:
    """SYCL queue of an array: torch's current stream on its device, else dpctl's queue of the device."""
    dpctl = import_dpctl()
    number = int(value.__dlpack_device__()[1])
    if type(value).__module__.partition(".")[0] == "torch":
        import torch

        # The address of a sycl::queue; dpctl takes it in a capsule of this name, and copies the queue.
        stream = torch.xpu.current_stream(value.device)
        return dpctl.SyclQueue(_NEW(stream.sycl_queue, b"SyclQueueRef", None))
    from dpctl.memory import MemoryUSMShared

    return MemoryUSMShared(1, queue=dpctl.SyclQueue(dpctl.get_devices()[number])).sycl_queue
