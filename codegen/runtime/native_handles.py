"""Native handles of SYCL objects: the getters of the SYCL runtime, which dpctl does not expose."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

LIBRARY = "libsycl.so.9"


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
