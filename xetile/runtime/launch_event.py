"""Events of launches: whether a kernel has run, waiting for it, and how long it took."""

from __future__ import annotations

from typing import Any

from codegen.runtime.devices import Queue, import_dpctl
from codegen.runtime.synchronize import wait_for
from xegpu.support.errors import DeviceError


class LaunchEvent:
    """Event of a launch: ``event = kernel[grid](A, B, C)``, then ``event.wait()``.

    Launches on arrays in host memory have ended when the call returns.

    Attributes:
        sycl_event: dpctl's event; None where the launch ended with the call.
    """

    __slots__ = ("_queue", "sycl_event")

    def __init__(self, queue: Queue | None = None, sycl_event: Any = None) -> None:
        self._queue, self.sycl_event = queue, sycl_event

    def __repr__(self) -> str:
        return f"<launch that {'has run' if self.done else 'is under way'}>"

    @property
    def done(self) -> bool:
        """Whether the kernel has run."""
        return self.sycl_event is None or \
            self.sycl_event.execution_status == import_dpctl().event_status_type.complete

    def wait(self) -> None:
        """Wait until the kernel has run.

        Raises:
            DeviceError: the device was lost.
        """
        if self.sycl_event is not None:
            wait_for(self._queue, self.sycl_event)

    @property
    def milliseconds(self) -> float:
        """The kernel's time on the device; waits for it.

        Raises:
            DeviceError: the queue records no times, or the launch was not on a queue.
        """
        if self.sycl_event is None or self._queue is None or not self._queue.has_enable_profiling:
            raise DeviceError("XT1064", "this launch has no times",
                              'launch on arrays of a queue that records them: dpctl.SyclQueue("gpu", '
                              'property="enable_profiling"); xt.bench measures without')
        self.wait()
        return float(self.sycl_event.profiling_info_end - self.sycl_event.profiling_info_start) * 1e-6


ENDED = LaunchEvent()
"""Event of every launch that ended with its call."""
