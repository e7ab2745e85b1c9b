"""Program cache: device binaries of OpenCL programs, extracted from dpctl's programs and loaded into new ones.

dpctl builds programs from source and from SPIR-V, and cannot load device binaries. The SYCL runtime can, by
``make_kernel_bundle``, and dpctl has a constructor for other extensions, ``SyclProgram_Make``. Both are private API and
are looked up by name; where a name is missing, nothing is cached, and every process builds anew. A Level Zero driver
has a cache of its own (NEO_CACHE_PERSISTENT).
"""

from __future__ import annotations

import ctypes
import platform
import sys
from ctypes import byref, c_bool, c_char, c_int, c_int32, c_size_t, c_ubyte, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from codegen.runtime.build_log import opencl_library
from codegen.runtime.devices import Queue, import_dpctl
from codegen.runtime.launcher import build_program, find_kernel
from codegen.runtime.native_interface import LIBRARY, native_getter
from codegen.runtime.progress import progress_bar
from codegen.runtime.unresolved import unresolved
from codegen.toolchain import disk_cache
from codegen.toolchain.cpu_features import description
from codegen.toolchain.spirv import is_spirv
from xegpu.support.errors import DeviceError, ToolError

_MAKE = "_ZN4sycl3_V16detail18make_kernel_bundleEmRKNS0_7contextEbNS0_12bundle_stateENS0_7backendE"
_SIGNATURE = b"struct PySyclProgramObject *(DPCTLSyclKernelBundleRef)"
_EXECUTABLE, _OPENCL = 2, 1  # sycl::bundle_state::executable, sycl::backend::opencl
# CL_KERNEL_PROGRAM, CL_PROGRAM_DEVICES, CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BINARIES
_KERNEL_PROGRAM, _DEVICES, _BINARY_SIZES, _BINARIES = 0x1194, 0x1163, 0x1165, 0x1166
_POINTER = ctypes.sizeof(c_void_p)
_KERNEL_BUNDLE_BYTES = 16  # sizeof(sycl::kernel_bundle): one std::shared_ptr
_LOSES_REFERENCES = "0.22."
"""Prefix of the releases of dpctl that leak references to OpenCL objects.

The program: once when it is made (clCreateProgramWith...; its kernel bundle retains it again) and once in
``get_sycl_kernel`` (``get_native`` of a kernel bundle retains it). The kernel: once in ``get_sycl_kernel``
(clCreateKernel; its SYCL object retains it again). Intel's CPU driver holds 6 MB for each such program.
"""


@dataclass(frozen=True)
class _Interface:
    """Private functions of dpctl and the SYCL runtime that import and export native programs."""

    sycl: Any
    opencl: Any
    malloc: Any
    program: Any

    def native(self, kind: str, reference: int) -> int:
        """Native OpenCL handle of a SYCL object, retained."""
        return int(native_getter(kind)(reference))


@cache
def _interface() -> _Interface | None:
    """Look up the functions; None if one is missing, or the calling convention is not that of Linux on x86-64."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return None
    opencl = opencl_library()
    # private: dpctl makes no program of a driver's handle publicly, but exports its C functions to Cython
    capsules = getattr(import_dpctl("dpctl.program._program"), "__pyx_capi__", {})
    try:
        sycl = ctypes.CDLL(LIBRARY)
        make = getattr(sycl, _MAKE)
        for kind in ("context", "device", "kernel"):
            native_getter(kind)
        malloc = ctypes.CDLL(None).malloc
        pointer = _capsule(capsules["SyclProgram_Make"])
    except (OSError, AttributeError, KeyError, ValueError):
        return None
    if opencl is None:
        return None
    make.restype, make.argtypes = c_void_p, [c_void_p, c_uint64, c_void_p, c_bool, c_char, c_int]
    malloc.restype, malloc.argtypes = c_void_p, [c_size_t]
    opencl.clCreateProgramWithBinary.restype = c_void_p
    return _Interface(sycl, opencl, malloc, ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p)(pointer))


def _capsule(capsule: Any) -> int:
    """Address in a PyCapsule of the expected signature; ValueError for another."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, _SIGNATURE))


def can_keep(queue: Queue) -> bool:
    """Whether programs of this queue's device can be cached."""
    return queue.backend.name == "opencl" and _interface() is not None


def versions() -> str:
    """Versions of the packages that build and load programs, for cache keys."""
    import importlib.metadata

    found = []
    for package in ("dpctl", "intel-sycl-rt", "intel-opencl-rt"):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)


def binary_of(queue: Queue, kernel: Any) -> bytes | None:
    """Device binary of a dpctl kernel's program for the queue's device; None if the driver does not provide it."""
    interface = _interface()
    if interface is None:
        return None
    library, program = interface.opencl, c_void_p()
    handle = c_void_p(interface.native("kernel", kernel.addressof_ref()))
    unknown = library.clGetKernelInfo(handle, c_uint32(_KERNEL_PROGRAM), c_size_t(_POINTER), byref(program), None)
    library.clReleaseKernel(handle)
    if unknown:
        return None
    device = interface.native("device", queue.sycl_device.addressof_ref())
    devices = list(_program_info_array(library, program, _DEVICES, c_void_p))  # a context may have several
    sizes = list(_program_info_array(library, program, _BINARY_SIZES, c_size_t))
    if device not in devices or len(sizes) != len(devices) or not sizes[devices.index(device)]:
        return None
    data = (c_ubyte * sizes[devices.index(device)])()
    pointers = (c_void_p * len(devices))(*(ctypes.addressof(data) if d == device else None for d in devices))
    if library.clGetProgramInfo(program, c_uint32(_BINARIES), c_size_t(ctypes.sizeof(pointers)), pointers, None):
        return None
    return bytes(data)


def _program_info_array(library: Any, program: c_void_p, what: int, kind: Any) -> Any:
    """``clGetProgramInfo`` of an array property, one element per device; empty on failure."""
    size = c_size_t()
    if library.clGetProgramInfo(program, c_uint32(what), c_size_t(0), None, byref(size)):
        return ()
    found = (kind * (size.value // ctypes.sizeof(kind)))()
    return () if library.clGetProgramInfo(program, c_uint32(what), size, found, None) else found


def program_of(queue: Queue, binary: bytes) -> Any | None:
    """Load a dpctl program from a device binary of :func:`binary_of`; None if the driver rejects it."""
    interface = _interface()
    if interface is None:
        return None
    context, library = queue.sycl_context.addressof_ref(), interface.opencl
    device = (c_void_p * 1)(interface.native("device", queue.sycl_device.addressof_ref()))
    data = (c_ubyte * len(binary)).from_buffer_copy(binary)
    status, error = c_int32(), c_int32()
    program = library.clCreateProgramWithBinary(
        c_void_p(interface.native("context", context)), c_uint32(1), device, (c_size_t * 1)(len(binary)),
        (c_void_p * 1)(ctypes.addressof(data)), byref(status), byref(error))
    if not program or status.value or error.value:
        return None
    if library.clBuildProgram(c_void_p(program), c_uint32(1), device, b"", None, None):
        library.clReleaseProgram(c_void_p(program))
        return None
    # The function writes its result to the address in its first argument, as C++ does on x86-64. The dpctl program
    # ends the bundle by C++'s delete, which is free() here.
    bundle = interface.malloc(_KERNEL_BUNDLE_BYTES)
    getattr(interface.sycl, _MAKE)(bundle, program, context, False, bytes([_EXECUTABLE]), _OPENCL)
    library.clReleaseProgram(c_void_p(program))  # the bundle has retained it
    return interface.program(bundle)


def _release_lost_references(queue: Queue, kernel: Any, of_program: int) -> None:
    """Release the references that dpctl leaks, so that a program is freed with its last kernel.

    Args:
        queue: the queue of the kernel's device.
        kernel: from ``get_sycl_kernel``.
        of_program: number of leaked references to its program, see ``_LOSES_REFERENCES``.
    """
    interface = _interface() if queue.backend.name == "opencl" else None
    if interface is None or not import_dpctl().__version__.startswith(_LOSES_REFERENCES):
        return
    library, program = interface.opencl, c_void_p()
    handle = c_void_p(interface.native("kernel", kernel.addressof_ref()))
    if not library.clGetKernelInfo(handle, c_uint32(_KERNEL_PROGRAM), c_size_t(_POINTER), byref(program), None):
        for _ in range(of_program):
            library.clReleaseProgram(program)
        library.clReleaseKernel(handle)  # that of clCreateKernel
    library.clReleaseKernel(handle)  # that of native()



_KIND = "program"
_LONG_TEXT = 128
"""KiB of source from which on a compiler takes several seconds, and a terminal shows that it is compiling."""


def build_kernel(queue: Queue, source: str | bytes, options: str, name: str, text: str = "") -> Any:
    """Build a kernel from OpenCL C or SPIR-V, or load it from the disk cache.

    Args:
        text: OpenCL C from which SPIR-V was made, for the author's line in errors.

    Raises:
        ToolError: the driver lacks functions that SPIR-V imports.
        XeError: what :func:`codegen.runtime.launcher.build_program` and :func:`codegen.runtime.launcher.find_kernel`
        raise.
    """
    if not disk_cache.is_on() or not can_keep(queue):
        kernel = _build_anew(queue, source, options, name, text)
        _release_lost_references(queue, kernel, 2)
        return kernel
    key = _key(queue, source, options)
    if (binary := disk_cache.find(key)) is not None:
        program = program_of(queue, binary)
        kernel = program.get_sycl_kernel(name) if program is not None else None
        if kernel is not None and kernel.addressof_ref():
            _release_lost_references(queue, kernel, 1)
            return kernel
        disk_cache.drop(key)
    kernel = _build_anew(queue, source, options, name, text)
    if (binary := binary_of(queue, kernel)) is not None:
        disk_cache.keep(key, binary)
    _release_lost_references(queue, kernel, 2)
    return kernel


def _build_anew(queue: Queue, source: str | bytes, options: str, name: str, text: str) -> Any:
    size = len(source) >> 10
    try:
        with progress_bar(f"building {name}, {size} KiB of {'OpenCL C' if isinstance(source, str) else 'SPIR-V'}", 0,
                          lambda done: "", is_wanted=size >= _LONG_TEXT):
            return find_kernel(build_program(queue, source, options), name)
    except (DeviceError, ToolError) as error:
        log = error.log if isinstance(error, ToolError) else ""
        if isinstance(source, bytes) and is_spirv(source) and (
                missing := unresolved(queue, source, options, log, text)):
            raise missing from error
        raise


def _key(queue: Queue, source: str | bytes, options: str) -> disk_cache.Key:
    device = queue.sycl_device
    return disk_cache.key_of(_KIND, source, type(source).__name__, options, device.name, device.driver_version,
                             device.vendor, versions(), description() if device.is_cpu else "")
