"""Kernels of a device, built or taken from the cache on disk."""

from __future__ import annotations

from typing import Any

from codegen import disk_cache
from codegen.binaries import binary_of, can_keep, program_of, versions
from codegen.devices import Queue
from codegen.launcher import build_program, find_kernel
from codegen.processor import description

_KIND = "program"


def build_kernel(queue: Queue, source: str | bytes, options: str, name: str) -> Any:
    """A kernel of a program from OpenCL C or SPIR-V, from the cache if some process built the same for such a device.

    Raises:
        XeError: what :func:`codegen.launcher.build_program` and :func:`codegen.launcher.find_kernel` raise.
    """
    if not disk_cache.is_on() or not can_keep(queue):
        return find_kernel(build_program(queue, source, options), name)
    key = _key(queue, source, options)
    if (binary := disk_cache.find(_KIND, key)) is not None:
        program = program_of(queue, binary)
        if program is not None and program.has_sycl_kernel(name):
            return program.get_sycl_kernel(name)
        disk_cache.drop(_KIND, key)
    kernel = find_kernel(build_program(queue, source, options), name)
    if (binary := binary_of(queue, kernel)) is not None:
        disk_cache.keep(_KIND, key, binary)
    return kernel


def _key(queue: Queue, source: str | bytes, options: str) -> str:
    device = queue.sycl_device
    return disk_cache.key_of(source, type(source).__name__, options, device.name, device.driver_version, device.vendor,
                             versions(), description() if device.is_cpu else "")
