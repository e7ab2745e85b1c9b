"""Interfaces below dpctl: native handles of SYCL objects, and kernel launches with packed arguments.

The handles are the SYCL runtime's, which dpctl does not expose. The launches are those of dpctl's C interface:
``submit_async`` above it looks at the type of each argument again at every launch, in 0.3 us, 15 us for 56 of them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from codegen.runtime.devices import Queue, import_dpctl

LIBRARY = "libsycl.so.9"
_INTERFACE = "DPCTLSyclInterface.dll" if sys.platform == "win32" else "libDPCTLSyclInterface.so"
_KINDS: dict[type, int] = {ctypes.c_int32: 4, ctypes.c_uint32: 5, ctypes.c_int64: 6, ctypes.c_uint64: 7,
                           ctypes.c_float: 8, ctypes.c_double: 9}
"""DPCTLKernelArgType (``dpctl_sycl_enum_types.h``) of numbers."""
_POINTER = 10
"""DPCTL_VOID_PTR"""
_EVENT = b"SyclEventRef"
"""Name of a capsule from which dpctl makes an event; it copies the capsule's event."""
Range = ctypes.c_size_t * 3
"""Work-items, in SYCL's order of dimensions."""


@cache
def native_getter(kind: str) -> Any:
    """``getNative`` of a SYCL class, called with the address of a SYCL object; private API of the runtime.

    Args:
        kind: ``context``, ``device``, ``event`` or ``kernel``.

    Raises:
        OSError: the runtime is not loaded.
        AttributeError: this runtime has no such function.
    """
    getter = getattr(ctypes.CDLL(LIBRARY), f"_ZNK4sycl3_V1{len(kind)}{kind}9getNativeEv")
    getter.restype, getter.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    return getter


class KernelArguments:
    """Arguments of a kernel as the C interface takes them: pointers by value, numbers by address.

    Args:
        values: ctypes' numbers, and None where pointers go.
    """

    __slots__ = ("_addresses", "_kinds", "_numbers")

    def __init__(self, values: Sequence[Any]) -> None:
        count = len(values)
        self._numbers = list(values)
        self._addresses = (ctypes.c_void_p * count)(*(
            None if value is None else ctypes.addressof(value) for value in values))
        self._kinds = (ctypes.c_int * count)(*(
            _POINTER if value is None else _KINDS[type(value)] for value in values))

    def __len__(self) -> int:
        return len(self._kinds)

    def __setitem__(self, slot: int, value: Any) -> None:
        """Pass an address as a pointer, or a number of ctypes."""
        if type(value) is int:
            self._addresses[slot] = value
        else:
            self._addresses[slot] = ctypes.addressof(value)
            self._numbers[slot] = value

    def copy(self) -> KernelArguments:
        """The same arguments, to be changed."""
        other = KernelArguments.__new__(KernelArguments)
        other._addresses = type(self._addresses).from_buffer_copy(self._addresses)
        other._kinds, other._numbers = self._kinds, self._numbers.copy()
        return other

    def pointers(self) -> list[int]:
        """Addresses of the pointers among the arguments."""
        return [address or 0 for address, kind in zip(self._addresses, self._kinds, strict=True) if kind == _POINTER]

    def kinds(self) -> list[str]:
        """Types of the arguments, as messages have them."""
        return ["pointer" if value is None else type(value).__name__ for value in self._numbers]

    def submit(self, queue: Queue, kernel: Any, global_range: Any, local_range: Any, before: Sequence[Any]) -> Any:
        """Submit a kernel behind the events ``before``: its event, None if the driver rejected the launch."""
        interface, count = _interface(), len(before)
        waits = (ctypes.c_void_p * count)(*(event.addressof_ref() for event in before)) if count else None
        made = interface.DPCTLQueue_SubmitNDRange(
            kernel.addressof_ref(), queue.addressof_ref(), self._addresses, self._kinds, len(self._kinds),
            global_range, local_range, 3, waits, count)
        if made is None:
            return None
        try:
            return import_dpctl().SyclEvent(_capsule()(made, _EVENT, None))
        finally:
            interface.DPCTLEvent_Delete(made)


@cache
def _interface() -> Any:
    """dpctl's C interface, called with Python's lock held, as dpctl calls it."""
    library = ctypes.PyDLL(os.path.join(os.path.dirname(import_dpctl().__file__), _INTERFACE))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    submit, delete = library.DPCTLQueue_SubmitNDRange, library.DPCTLEvent_Delete
    submit.restype, submit.argtypes = pointer, (*[pointer] * 4, size, pointer, pointer, size, pointer, size)
    delete.restype, delete.argtypes = None, (pointer,)
    return library


@cache
def _capsule() -> Any:
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi))
