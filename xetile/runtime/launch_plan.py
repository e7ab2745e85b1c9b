"""Launch plans: a built kernel, its ranges and packed arguments, ready to be submitted; launch events."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from codegen.runtime.devices import Queue, import_dpctl
from codegen.runtime.launcher import start
from codegen.runtime.native_interface import KernelArguments, Range
from codegen.runtime.synchronize import wait_for
from codegen.runtime.usm import address_of
from xegpu.support.errors import DeviceError
from xetile.compiler.arguments import TypedView

_PACKERS: Mapping[type, Callable[[Any], Any]] = {ctypes.c_int: ctypes.c_int, ctypes.c_float: ctypes.c_float}


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


class _Record(threading.local):
    """Record of this thread's launches and scratch memory, while a library function is recorded.

    Attributes:
        events: kernel, plan and arguments of each launch, no plan where it has none, and blocks of scratch memory, in
            their order; None while nothing is recorded.
    """

    events: list[Any] | None = None


RECORD = _Record()


def launched(queue: Queue, kernel: Any, values: KernelArguments, global_range: Any, local_range: Any,
             args: tuple[Any, ...]) -> LaunchEvent:
    """Start a kernel; ``args`` are kept alive until it has run. Sizes are in SYCL's order of dimensions."""
    return LaunchEvent(queue, start(queue, kernel, values, global_range, local_range, args))


class LaunchPlan:
    """A built kernel with its ranges and packed arguments, for all arguments of one signature.

    Args:
        queue, kernel: dpctl's; ``kernel`` becomes None when its program is dropped.
        template: the kernel's arguments, with None where pointers go.
        slots: for each argument of a call, the position of its pointer or number in the template.
        global_range, local_range: work-items, in SYCL's order of dimensions.
        written: positions of the arguments that the kernel writes.
        extents: for the position of each array, its lowest byte and the end of its highest, from its first element.
    """

    __slots__ = ("__weakref__", "_extents", "global_range", "kernel", "local_range", "packers", "queue", "slots",
                 "template", "written")

    def __init__(self, queue: Any, kernel: Any, template: list[Any], slots: Sequence[int], global_range: list[int],
                 local_range: list[int], written: Sequence[int], extents: Mapping[int, tuple[int, int]]) -> None:
        self.queue, self.kernel, self.template, self.slots = queue, kernel, KernelArguments(template), slots
        self.global_range, self.local_range, self.written = Range(*global_range), Range(*local_range), written
        self._extents = [(position, low, high, position in written) for position, (low, high) in extents.items()]
        self.packers: list[Callable[[Any], Any]] = [_PACKERS.get(type(template[slot]), address_of) for slot in slots]

    def may_alias(self, args: Sequence[Any]) -> bool:
        """Whether the memory of an array that the kernel writes overlaps another one's, gaps between elements included.

        ``args`` have the plan's signature.
        """
        before: list[tuple[int, int, bool]] = []
        for position, low, high, is_written in self._extents:
            value = args[position]
            first = (value.array if type(value) is TypedView else value).get_array()._pointer
            low, high = first + low, first + high
            for other_low, other_high, other_is_written in before:
                if low < other_high and other_low < high and (is_written or other_is_written):
                    return True
            before.append((low, high, is_written))
        return False

    def pack(self, args: Sequence[Any]) -> KernelArguments:
        """The template with the pointers and numbers of ``args``, which have the plan's signature."""
        values = self.template.copy()
        for slot, pack, value in zip(self.slots, self.packers, args, strict=True):
            values[slot] = pack(value.array if type(value) is TypedView else value)
        return values

    def launch(self, args: tuple[Any, ...]) -> LaunchEvent:
        """Start the kernel; the arguments are kept alive until it has run."""
        return launched(self.queue, self.kernel, self.pack(args), self.global_range, self.local_range, args)

    def bind(self, args: tuple[Any, ...]) -> Callable[[], LaunchEvent]:
        """A function that starts the kernel on these arguments at each call."""
        return partial(launched, self.queue, self.kernel, self.pack(args), self.global_range, self.local_range, args)


class PreparedLaunch:
    """A launch that is bound to its arguments: ``ready = kernel.prepare(grid, A, B, C)``, then ``ready()``.

    Checks, compilation and the choice of code are done. Every launch has the same arrays, with their current contents;
    sizes and numbers are those of the preparation. It keeps the arrays alive.

    Attributes:
        name: the kernel's name.
        grid: work-groups.
    """

    __slots__ = ("_start", "grid", "name")

    def __init__(self, name: str, grid: tuple[int, int, int], start: Callable[[], LaunchEvent]) -> None:
        self.name, self.grid, self._start = name, grid, start

    def __call__(self) -> LaunchEvent:
        """Launch, asynchronously in the order of the queue if the arrays are in device memory."""
        return self._start()

    def __repr__(self) -> str:
        return f"<{self.name} prepared for {' x '.join(map(str, self.grid))} work-groups>"
