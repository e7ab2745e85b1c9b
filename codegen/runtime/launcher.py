"""Program builds and kernel launches through dpctl; launches are asynchronous, in queue order."""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

from codegen.runtime.devices import Queue, import_dpctl, needs_spirv
from codegen.runtime.native_interface import KernelArguments
from codegen.runtime.synchronize import find_loss, wait_for
from codegen.runtime.usm import UsmArray
from codegen.toolchain.spirv import is_spirv
from xegpu.support.errors import BUG, DeviceError, ToolError

Program: TypeAlias = Any
Kernel: TypeAlias = Any
Event: TypeAlias = Any
Argument: TypeAlias = Any
"""Kernel argument: a ctypes scalar, a :class:`UsmArray`, or a dpctl memory object. A half is passed as ``c_uint16``."""

# dpctl accepts a signed byte as c_char only, and no c_bool.
_SPELLINGS: dict[type, Callable[[Any], Any]] = {
    ctypes.c_int8: lambda value: ctypes.c_char(value.value & 0xFF),
    ctypes.c_bool: lambda value: ctypes.c_uint8(value.value),
    UsmArray: UsmArray.argument,
}

_MOST_AHEAD = 32
"""Launches of a thread that may be under way on an out-of-order queue. Each is one more event that a launch waits for,
which takes a microsecond of the host; half of them keep a device busy while the host sleeps."""

_in_flight: deque[tuple[Event, Any]] = deque()


def build_program(queue: Queue, source: str | bytes, options: str = "") -> Program:
    """Build a dpctl program from OpenCL C (``str``) or SPIR-V (``bytes``) for the queue's device.

    Raises:
        DeviceError: OpenCL C on a Level Zero queue, which takes SPIR-V only.
        ToolError: bytes that are no SPIR-V, or the driver's compiler failed; ``log`` is what it printed.
    """
    if needs_spirv(queue) and isinstance(source, str):
        raise DeviceError("XT5005",
                          "a Level Zero queue takes SPIR-V, not OpenCL C", "use an OpenCL queue, or compile with ocloc")
    # Drivers do not validate this: Intel's CPU driver loops forever on bytes that are not SPIR-V.
    if isinstance(source, bytes) and not is_spirv(source):
        raise ToolError("XT5100", "these bytes are not SPIR-V", "make them with codegen.toolchain.ocloc.compile_spirv")
    programs = import_dpctl("dpctl.program")
    create = programs.create_program_from_source if isinstance(source, str) else programs.create_program_from_spirv
    try:
        return create(queue, source, options)
    except programs.SyclProgramCompilationError as error:
        from codegen.runtime.build_log import build_log
        from codegen.toolchain.compile_error import refusal

        log = build_log(queue, source, options)
        text = source if isinstance(source, str) else ""
        raise refusal(f"{queue.sycl_device.name.strip()} refused the program", log, text) from error


def find_kernel(program: Program, name: str) -> Kernel:
    """Look up a kernel of a program by name.

    Raises:
        DeviceError: there is none of that name.
    """
    kernel = program.get_sycl_kernel(name)  # not has_sycl_kernel, which makes an OpenCL kernel and never releases it
    if not kernel.addressof_ref():
        raise DeviceError("XT9403", f"the program has no kernel {name!r}", BUG)
    return kernel


def launch(
    queue: Queue,
    kernel: Kernel,
    args: Sequence[Argument],
    groups: Sequence[int],
    local_size: int,
    waits: Sequence[Event] = (),
) -> Event:
    """Launch ``groups`` work-groups, in OpenCL's order of dimensions, of ``local_size`` work-items in dimension 0.

    Args:
        groups: one to three counts; ``get_group_id(0)`` runs over the first. If any is zero, nothing is launched.
        waits: additional dependencies, besides the queue's order.

    Raises:
        DeviceError: a negative count, or a launch that the driver rejected.
    """
    counts = (*groups, 1, 1)[:3]
    if len(groups) not in (1, 2, 3) or min(counts) < 0 or local_size < 1:
        raise DeviceError("XT5010", f"cannot launch {tuple(groups)} work-groups of {local_size} work-items",
                          "give one to three numbers of work-groups, none negative, and work-groups of one or more")
    if 0 in counts:
        return import_dpctl().SyclEvent()
    global_size = (counts[0] * local_size, counts[1], counts[2])
    return submit(queue, kernel, args, global_size, (local_size, 1, 1), waits)


def submit(
    queue: Queue,
    kernel: Kernel,
    args: Sequence[Argument],
    global_size: Sequence[int],
    local_size: Sequence[int],
    waits: Sequence[Event] = (),
) -> Event:
    """Submit a kernel asynchronously and return its event; sizes are work-items in OpenCL's order of dimensions.

    Arguments are kept alive until the kernel has run. On an out-of-order queue, as dpnp's are, the kernel is ordered by
    dpctl's and dpnp's sequential order manager.

    Raises:
        DeviceError: the driver rejected the launch.
    """
    spelled = [_SPELLINGS[type(arg)](arg) if type(arg) in _SPELLINGS else arg for arg in args]
    # SYCL numbers dimensions from the slowest: OpenCL's dimension 0 is its last.
    return start(queue, kernel, spelled, list(reversed(global_size)), list(reversed(local_size)), spelled, waits)


def start(
    queue: Queue,
    kernel: Kernel,
    args: list[Argument] | KernelArguments,
    global_range: Any,
    local_range: Any,
    keep_alive: Any,
    waits: Sequence[Event] = (),
) -> Event:
    """Submit a kernel with arguments in dpctl's types; common end of :func:`submit` and of repeated launches.

    Asynchronous, unless too many are under way; but on an in-order queue of a CPU device where dpnp is loaded, whose
    work would overtake the kernel.

    Args:
        args: ctypes scalars that dpctl accepts, and memory objects; or all of them as the C interface takes them.
        global_range, local_range: work-items, in SYCL's order of dimensions; of the C interface if ``args`` are.
        keep_alive: objects to keep alive until the kernel has run.
        waits: additional dependencies, besides the queue's order.

    Raises:
        DeviceError: the driver rejected the launch.
    """
    order = None if queue.is_in_order else import_dpctl("dpctl.utils").SequentialOrderManager[queue]
    before = [*waits, *(_pending(queue, order.submitted_events) if order else ())]
    if isinstance(args, KernelArguments):
        event = args.submit(queue, kernel, global_range, local_range, before)
        if event is None:
            raise _refusal(queue, kernel, args.kinds(), global_range[::-1], local_range[::-1])
    else:
        try:
            event = queue.submit_async(kernel, args, global_range, local_range, before)
        except _refusals() as error:
            kinds = [type(arg).__name__ for arg in args]
            raise _refusal(queue, kernel, kinds, global_range[::-1], local_range[::-1]) from error
    if order:
        order.add_event_pair(event, event)
    if order is None and _is_overtaken(queue):
        event.wait()
    _keep_until(event, keep_alive)
    return event


def _pending(queue: Queue, events: list[Event]) -> list[Event]:
    """The events that a launch is ordered behind; the host waits for the first half of more than they may be."""
    if len(events) <= _MOST_AHEAD:
        return events
    wait_for(queue, events[len(events) // 2])
    return [event for event in events if event.execution_status is not _complete()]


def _is_overtaken(queue: Queue) -> bool:
    """Whether dpnp's work may overtake a launch on an in-order queue.

    On a CPU device dpnp 0.20 calls oneMKL for arithmetic of f32 and f64, in host tasks that wait for the events of its
    sequential order manager and for nothing else. That manager cannot have the event of a launch either: dpnp then
    submits the next host task without giving up the interpreter's lock, for which the one before it waits.
    """
    return "dpnp" in sys.modules and queue.sycl_device.is_cpu


def order_after(queue: Queue, event: Event) -> None:
    """Order later work on a queue behind an event of the same queue, which may come from another thread.

    Launches on an in-order queue need no more. On another one a thread's launches are ordered behind the events that
    its order manager has, which are not those of every thread.
    """
    if not queue.is_in_order and event.execution_status is not _complete():
        import_dpctl("dpctl.utils").SequentialOrderManager[queue].add_event_pair(event, event)


def keep(queue: Queue, keep_alive: Any) -> None:
    """Keep objects alive until all work submitted to a queue so far has run: memory that kernels access by address.

    Kernel arguments are kept alive anyway.
    """
    _keep_until(completion(queue), keep_alive)


def completion(queue: Queue) -> Event:
    """The event of all work submitted to a queue so far; work that is submitted later does not delay it."""
    order = None if queue.is_in_order else import_dpctl("dpctl.utils").SequentialOrderManager[queue]
    return queue.submit_barrier(order.submitted_events if order else [])


def send(queue: Queue, source: Any, target: Any) -> None:
    """Copy a NumPy array to unused device memory, without waiting for the queue.

    Args:
        queue: the queue of kernels that will read it.
        source: contiguous array.
        target: dpctl memory object of the same size.
    """
    event = queue.memcpy_async(target, memoryview(source).cast("B"), source.nbytes)
    if not queue.is_in_order:
        import_dpctl("dpctl.utils").SequentialOrderManager[queue].add_event_pair(event, event)
    _keep_until(event, (source, target))


def _keep_until(event: Event, keep_alive: Any) -> None:
    """Keep a kernel's arguments alive until it has run; dpctl's host task for it costs milliseconds on in-order queues.

    The two oldest entries are checked on each call, so that the list shrinks faster than it grows, whatever queue lags.
    """
    _in_flight.append((event, keep_alive))
    if _let_go():  # else: what was started later has hardly finished earlier
        _let_go()


def release_finished() -> None:
    """Release the arguments of all kernels that have run."""
    for _ in range(len(_in_flight)):
        _let_go()


def _let_go() -> bool:
    """Release the oldest entry if its kernel has run, else requeue it. Each step is atomic, so no lock is needed."""
    try:
        entry = _in_flight.popleft()
    except IndexError:
        return False
    if entry[0].execution_status is _complete():
        return True
    _in_flight.append(entry)
    return False


@cache
def _complete() -> Any:
    return import_dpctl().event_status_type.complete


def _refusals() -> tuple[type[Exception], ...]:
    dpctl = import_dpctl()
    return dpctl.SyclKernelSubmitError, dpctl.SyclKernelInvalidRangeError, TypeError, ValueError


def _refusal(
    queue: Queue, kernel: Kernel, kinds: Sequence[str], global_size: Sequence[int], local_size: Sequence[int]
) -> DeviceError:
    """Diagnose a failed launch as far as possible; the driver gives no reason."""
    if needs_spirv(queue) and (lost := find_loss(queue)):
        return lost
    name, limit = kernel.get_function_name(), queue.sycl_device.max_work_group_size
    if len(kinds) != kernel.num_args:
        return DeviceError("XT5011", f"kernel {name} takes {kernel.num_args} arguments, not {len(kinds)}",
                           "pass those of its signature: each pointer, size and stride by itself")
    size = local_size[0] * local_size[1] * local_size[2]
    if size > limit:
        return DeviceError("XT5012", f"a work-group of {size} work-items is over the device's limit of {limit}",
                           f"make work-groups of at most {limit} work-items: fewer subgroups")
    sizes = f"{tuple(global_size)} work-items in groups of {tuple(local_size)}"
    return DeviceError("XT5013", f"{queue.sycl_device.name.strip()} refused kernel {name}: {sizes}, arguments "
                       f"{', '.join(kinds)}",
                       "XETILE_LOG=1 shows what was built, xetile devices whether this device runs kernels at all")
