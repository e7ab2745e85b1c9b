"""Device discovery through dpctl, which is imported lazily, when a device is first needed."""

from __future__ import annotations

import os
import platform
import re
import sys
from functools import cache
from typing import Any, TypeAlias

from xegpu.support.errors import DeviceError
from xegpu.target.targets import CPU_TARGET, TARGETS, listed

Queue: TypeAlias = Any
"""A ``dpctl.SyclQueue``; dpctl has no type annotations."""

VARIABLE = "XETILE_SPIRV"
"""Names the SPIR-V compiler (:mod:`codegen.runtime.program_source`)."""
OPTIONS_VARIABLE = "XETILE_BUILD_OPTIONS"
"""Adds options to those of a device's own compiler."""
_DRIVER = "libintelocl.so"
INSTALL = 'pip install "xetile[device]"'
_NOTHING_FOUND = f"dpctl sees no device at all: {INSTALL}, and import xetile before anything that lists devices"

# Device ids of Meteor Lake and of Arrow Lake S and U: also named "Arc Graphics", but without DPAS.
_WITHOUT_DPAS = frozenset({0x7D40, 0x7D41, 0x7D45, 0x7D55, 0x7D60, 0x7D67, 0x7DD5})


@cache
def register_cpu_driver() -> None:
    """Register the pip-installed CPU driver with the OpenCL loader, unless OCL_ICD_FILENAMES is set already.

    The pip package registers itself nowhere. The loader reads this variable once, when devices are first listed,
    and then goes through /etc/OpenCL/vendors as always, so GPUs that are registered there stay visible. Call it before
    anything lists devices: afterwards it has no effect.
    """
    if os.environ.get("OCL_ICD_FILENAMES"):
        return
    if driver := _installed_driver():
        os.environ["OCL_ICD_FILENAMES"] = os.path.realpath(driver)


def _installed_driver() -> str | None:
    """Path of the pip-installed CPU driver: in the environment's ``lib``, else from the package's file list."""
    usual = os.path.join(sys.prefix, "lib", _DRIVER)
    if os.path.exists(usual):
        return usual
    import importlib.metadata  # a tenth of what importing xetile takes

    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    driver = next((file for file in files if file.name == _DRIVER), None)
    return None if driver is None else str(driver.locate())


def import_dpctl(module: str = "dpctl") -> Any:
    """Import dpctl, or one of its submodules.

    Raises:
        DeviceError: it is not installed, or its libraries do not load.
    """
    register_cpu_driver()
    try:
        __import__(module)  # on the launch path: several times faster than importlib.import_module
        return sys.modules[module]
    except ImportError as error:
        raise DeviceError("XT5000", f"no device: dpctl does not import ({error})", f"install it: {INSTALL}") from error


def all_devices() -> list[tuple[str, Any]]:
    """Devices that dpctl lists, each with its filter string.

    Raises:
        DeviceError: dpctl is missing.
    """
    return [(device.filter_string, device) for device in import_dpctl().get_devices()]


def find_queue(where: str | Queue) -> Queue:
    """Look up the in-order queue of a filter string, one per string; a queue is returned unchanged.

    Args:
        where: a dpctl filter string (``"opencl:cpu"``, ``"level_zero:gpu"``, ``"gpu"``) or a ``dpctl.SyclQueue``.

    Raises:
        DeviceError: dpctl is missing, or there is no such device.
    """
    if isinstance(where, str):
        return _queue_of_filter(where)
    if isinstance(where, import_dpctl().SyclQueue):
        return where
    raise DeviceError("XT5001",
                      f"{where!r} is not a device", 'give a filter string such as "opencl:cpu", or a dpctl.SyclQueue')


@cache
def _queue_of_filter(where: str) -> Queue:
    dpctl = import_dpctl()
    try:
        return dpctl.SyclQueue(where, property="in_order")
    except (dpctl.SyclQueueCreationError, dpctl.SyclDeviceCreationError, ValueError, TypeError) as error:
        found = [f"{device.filter_string} ({device.name.strip()})" for device in dpctl.get_devices()]
        there = f"the devices here are {', '.join(found)}" if found else _NOTHING_FOUND
        raise DeviceError("XT5002", f"there is no device {where!r}", there) from error


@cache
def best_sycl_device(spirv: bool = True) -> str | None:
    """Filter string of the best device: a GPU of a known target, Level Zero before OpenCL, or the CPU.

    ``None`` without dpctl and without any such device.

    Args:
        spirv: whether a SPIR-V compiler is installed, which Level Zero devices need.
    """
    try:
        dpctl = import_dpctl()
    except DeviceError:
        return None
    for backend in ("level_zero", "opencl") if spirv else ("opencl",):
        for device in dpctl.get_devices(backend=backend, device_type="gpu"):
            if _is_known(device):
                return str(device.filter_string)
    return "opencl:cpu" if dpctl.get_devices(backend="opencl", device_type="cpu") else None


def device_target(queue: Queue) -> str:
    """Target name of the queue's device, ``cpu`` for any CPU.

    Raises:
        DeviceError: an unknown device, or one without a matrix engine.
    """
    return _target_of_device(queue.sycl_device)


def _target_of_device(device: Any) -> str:
    if device.is_cpu:
        return CPU_TARGET
    info = import_dpctl("dpctl.utils").intel_device_info(device)
    return gpu_target(info.get("device_id"), device.name)


def _is_known(device: Any) -> bool:
    try:
        return bool(_target_of_device(device))
    except DeviceError:
        return False


def gpu_target(device_id: int | None, name: str) -> str:
    """Target name of a GPU by its PCI device id, or if that is unknown, by its name.

    Raises:
        DeviceError: both are unknown, or the device has no matrix engine.
    """
    hint = f"pass target=, one of {listed(lambda target: not target.is_cpu, 'or')}, to say which code it takes"
    number = -1 if device_id is None else device_id
    if number in _WITHOUT_DPAS:
        raise DeviceError("XT5003",
                          f"{name} (device id {number:#06x}) has no matrix engine (DPAS)", 'run on "opencl:cpu"')
    by_id = (target.name for target in TARGETS.values() for low, high in target.device_ids if low <= number <= high)
    by_name = (target.name for target in TARGETS.values() if target.device_name and re.search(target.device_name, name))
    found = next(by_id, None) or next(by_name, None)
    if found is None:
        known = "" if device_id is None else f" (device id {number:#06x})"
        raise DeviceError("XT5004", f"{name}{known} is in no target table", hint)
    return found


def has_intel_cpu_compiler(device: Any) -> bool:
    """Whether a device's programs are built by Intel's compiler for x86-64 processors.

    No other CPU runtime is known to do what :mod:`codegen.opencl.cpu_gemm` is written for: that compiler leaves calls
    of undefined functions out of its vectorization of work-items, finds them by their ``__asm`` labels when it links,
    and takes LLVM's names of x86 instructions. The processor, and with it the device's name, may be another vendor's.

    Args:
        device: a ``dpctl.SyclDevice``.
    """
    return bool(device.is_cpu) and "intel" in device.sycl_platform.vendor.lower() \
        and platform.machine().lower() in ("x86_64", "amd64")


def needs_spirv(queue: Queue) -> bool:
    """Whether the queue takes SPIR-V only: dpctl refuses OpenCL C source on a Level Zero queue."""
    return bool(queue.backend.name == "level_zero")


def requested_spirv_compiler() -> str:
    """Value of XETILE_SPIRV; "" if it is not set."""
    return os.environ.get(VARIABLE, "")


def added_options() -> str:
    """Build options from XETILE_BUILD_OPTIONS for OpenCL C: ``-cl-opt-disable`` builds fast and runs slowly."""
    return os.environ.get(OPTIONS_VARIABLE, "")


_ENVIRON = vars(os.environ)["_data"]  # private: the dictionary of encoded names behind os.environ
_SPIRV, _OPTIONS = os.environ.encodekey(VARIABLE), os.environ.encodekey(OPTIONS_VARIABLE)


def build_settings() -> tuple[object, object]:
    """A key that differs whenever :func:`requested_spirv_compiler` or :func:`added_options` do.

    Every launch asks. Of a variable that is not set ``os.environ.get`` tells by way of two exceptions, in twenty times
    the time that the dictionary behind it takes.
    """
    return _ENVIRON.get(_SPIRV), _ENVIRON.get(_OPTIONS)
