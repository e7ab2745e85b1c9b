"""Build log of a Level Zero module, which dpctl does not ask for: the module is built again through the loader."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_size_t, c_uint32, c_void_p
from typing import Any

from codegen.runtime.devices import Queue
from codegen.runtime.native_interface import native_getter

LOADER = "libze_loader.so.1"  # the name under which the SYCL runtime and dpctl open it
_MODULE_DESCRIPTION = 0x1B  # ZE_STRUCTURE_TYPE_MODULE_DESC
_SPIRV = 0  # ZE_MODULE_FORMAT_IL_SPIRV


class _ModuleDescription(ctypes.Structure):
    """``ze_module_desc_t``."""

    _fields_ = [("type", c_uint32), ("next", c_void_p), ("format", c_uint32), ("size", c_size_t), ("data", c_char_p),
                ("flags", c_char_p), ("constants", c_void_p)]


def level_zero_log(queue: Queue, spirv: bytes, options: str) -> str:
    """Build and link SPIR-V on the queue's device and return what the driver says.

    A driver builds a module that imports functions, and names those that it does not find when the module is linked.

    Returns:
        the log; empty if the driver takes the module, or the loader is not found.
    """
    try:
        library: Any = ctypes.CDLL(LOADER)
        context = c_void_p(native_getter("context")(queue.sycl_context.addressof_ref()))
        device = c_void_p(native_getter("device")(queue.sycl_device.addressof_ref()))
    except (OSError, AttributeError):
        return ""
    module, log = c_void_p(), c_void_p()
    description = _ModuleDescription(_MODULE_DESCRIPTION, None, _SPIRV, len(spirv), spirv, options.encode(), None)
    if library.zeModuleCreate(context, device, byref(description), byref(module), byref(log)):
        return _build_log_string(library, log)
    _build_log_string(library, log)  # warnings
    failed = library.zeModuleDynamicLink(c_uint32(1), byref(module), byref(log))
    text = _build_log_string(library, log)
    library.zeModuleDestroy(module)
    return text if failed else ""


def _build_log_string(library: Any, log: c_void_p) -> str:
    """Text of a build log, which is destroyed; empty for a null handle."""
    if not log:
        return ""
    size = c_size_t(0)
    library.zeModuleBuildLogGetString(log, byref(size), None)
    buffer = ctypes.create_string_buffer(size.value + 1)
    library.zeModuleBuildLogGetString(log, byref(size), buffer)
    library.zeModuleBuildLogDestroy(log)
    log.value = None
    return buffer.value.decode(errors="replace")
