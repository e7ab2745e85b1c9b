"""Build log of a program, which dpctl does not expose: the program is built again through the driver's C API."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

from codegen.runtime.devices import Queue, needs_spirv
from codegen.runtime.level_zero_log import level_zero_log

_ALL_DEVICES = 0xFFFFFFFF  # CL_DEVICE_TYPE_ALL
# CL_DEVICE_NAME, CL_DRIVER_VERSION, CL_PROGRAM_BUILD_LOG
_DEVICE_NAME = 0x102B
_DRIVER_VERSION = 0x102D
_BUILD_LOG = 0x1183


def build_log(queue: Queue, source: str | bytes, options: str) -> str:
    """Rebuild OpenCL C (``str``) or SPIR-V (``bytes``) on the queue's device and return the build log.

    Empty if the driver's library or the device is not found: it is for an error message, and must not raise another
    error.
    """
    if needs_spirv(queue):
        return level_zero_log(queue, source, options) if isinstance(source, bytes) else ""
    library = opencl_library()
    if library is None:
        return ""
    wanted = (queue.sycl_device.name, queue.sycl_device.driver_version)
    for device in _devices(library):
        if (_device_text(library, device, _DEVICE_NAME), _device_text(library, device, _DRIVER_VERSION)) == wanted:
            return _log_of(library, device, source, options)
    return ""


@cache
def opencl_library() -> Any:
    """OpenCL loader through ctypes: the one that dpctl uses, else the system's; None without any."""
    for name in (*_installed_by_pip(), "libOpenCL.so.1"):
        try:
            library: Any = ctypes.CDLL(name)
        except OSError:
            continue
        library.clCreateContext.restype = c_void_p
        library.clCreateProgramWithSource.restype = c_void_p
        library.clCreateProgramWithIL.restype = c_void_p
        return library
    return None


def _installed_by_pip() -> Iterator[str]:
    """Paths of the OpenCL loader of dpctl's run-time packages."""
    import importlib.metadata

    for package in ("intel-cmplr-lib-rt", "intel-cmplr-lib-ur", "intel-opencl-rt", "intel-sycl-rt"):
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        yield from (str(file.locate()) for file in files if file.name == "libOpenCL.so.1")


def _devices(library: Any) -> list[int]:
    return [device for platform in _ids(library.clGetPlatformIDs) for device in _ids(library.clGetDeviceIDs, platform)]


def _ids(function: Any, platform: int | None = None) -> list[int]:
    first = () if platform is None else (c_void_p(platform), c_uint64(_ALL_DEVICES))
    count = c_uint32(0)
    if function(*first, c_uint32(0), None, byref(count)) != 0 or count.value == 0:
        return []
    found = (c_void_p * count.value)()
    function(*first, count, found, None)
    return [identifier for identifier in found if identifier]


def _device_text(library: Any, device: int, what: int) -> str:
    return _info_string(lambda *rest: library.clGetDeviceInfo(c_void_p(device), c_uint32(what), *rest))


def _info_string(query: Any) -> str:
    size = c_size_t(0)
    if query(c_size_t(0), None, byref(size)) != 0:
        return ""
    buffer = ctypes.create_string_buffer(size.value + 1)
    query(size, buffer, None)
    return buffer.value.decode(errors="replace")


def _log_of(library: Any, device: int, source: str | bytes, options: str) -> str:
    devices = (c_void_p * 1)(device)
    context = library.clCreateContext(None, c_uint32(1), devices, None, None, byref(c_int32()))
    if not context:
        return ""
    program = _program(library, context, source)
    log = ""
    if program:
        library.clBuildProgram(c_void_p(program), c_uint32(1), devices, c_char_p(options.encode()), None, None)
        log = _program_log(library, program, device)
        library.clReleaseProgram(c_void_p(program))
    library.clReleaseContext(c_void_p(context))
    return log


def _program_log(library: Any, program: int, device: int) -> str:
    handles = (c_void_p(program), c_void_p(device), c_uint32(_BUILD_LOG))
    return _info_string(lambda *rest: library.clGetProgramBuildInfo(*handles, *rest))


def _program(library: Any, context: int, source: str | bytes) -> int | None:
    if isinstance(source, bytes):
        program = library.clCreateProgramWithIL(c_void_p(context), source, c_size_t(len(source)), byref(c_int32()))
    else:
        text = (c_char_p * 1)(source.encode())
        program = library.clCreateProgramWithSource(c_void_p(context), c_uint32(1), text, None, byref(c_int32()))
    return program or None
