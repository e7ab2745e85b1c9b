"""Synchronization with queues and events, and detection of a lost Level Zero device.

A kernel that reads where no memory is mapped loses the device. dpctl does not say so: ``event.wait()`` and ``memcpy``
return as if all were well, and ``queue.wait()`` ends the process, because dpctl passes the runtime's exception through
a function that must not throw. So nothing here calls ``queue.wait()`` on Level Zero, and the driver itself is asked
whether an event that was waited for has come: of a lost device, no event ever comes.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from codegen.runtime.devices import Queue, needs_spirv
from codegen.runtime.native_interface import native_getter
from xegpu.support.errors import DeviceError

_SUCCESS = 0  # ZE_RESULT_SUCCESS


def finish(queue: Queue) -> None:
    """Wait for all work submitted to a queue.

    Raises:
        DeviceError: the device was lost.
    """
    if not needs_spirv(queue):
        queue.wait()
        return
    try:
        event = queue.submit_barrier([])
    except Exception as error:  # dpctl raises RuntimeError or its own kinds, and tells no reason
        raise _lost(queue) from error
    wait_for(queue, event)


def wait_for(queue: Queue, event: Any) -> None:
    """Wait for an event of a queue.

    Raises:
        DeviceError: the device was lost.
    """
    event.wait()
    if needs_spirv(queue) and not _has_come(event):
        raise _lost(queue)


def copy(queue: Queue, target: Any, source: Any, size: int) -> None:
    """Copy bytes between the host and USM, and wait for it.

    Args:
        target, source: dpctl memory objects, or objects with a writable or readable buffer.
        size: bytes.

    Raises:
        DeviceError: the device was lost.
    """
    try:
        event = queue.memcpy_async(target, source, size)
    except RuntimeError as error:
        if lost := find_loss(queue):
            raise lost from error
        raise
    wait_for(queue, event)


def find_loss(queue: Queue) -> DeviceError | None:
    """The error of a lost device, None if it works; waits for all work submitted to the queue."""
    try:
        finish(queue)
    except DeviceError as error:
        return error
    return None


def _lost(queue: Queue) -> DeviceError:
    return DeviceError("XT5014", f"{queue.sycl_device.name.strip()} was lost: a kernel accessed unmapped memory, "
                                 "or did not end",
                       'run the kernel on "numpy" with check=True, which names the line; this process cannot use the '
                       "device any more")


def _has_come(event: Any) -> bool:
    """Whether the driver says that a Level Zero event was signaled."""
    functions = _functions()
    if functions is None:
        return True
    native, query = functions
    handle = native(event.addressof_ref())
    return handle is None or int(query(ctypes.c_void_p(handle))) == _SUCCESS


@cache
def _functions() -> tuple[Any, Any] | None:
    """Getter of an event's native handle, and the driver's query; None where the runtime lacks the first."""
    try:
        return native_getter("event"), ctypes.CDLL("libze_loader.so.1").zeEventQueryStatus
    except (OSError, AttributeError):
        return None
