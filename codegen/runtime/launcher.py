"""Building programs and launching kernels through dpctl. All of it is asynchronous, in queue order."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

from codegen.runtime.devices import Queue, import_dpctl, needs_spirv
from codegen.runtime.usm import UsmArray
from codegen.toolchain.spirv import is_spirv
from xegpu.support.errors import BUG, DeviceError, ToolError

Program: TypeAlias = Any
Kernel: TypeAlias = Any
Event: TypeAlias = Any
Argument: TypeAlias = Any
"""A ctypes scalar, a :class:`UsmArray`, or a dpctl memory object. A half travels as ``c_uint16`` with its bits."""

# dpctl takes a signed byte under the name c_char only, and no c_bool.
_SPELLINGS: dict[type, Callable[[Any], Any]] = {
    ctypes.c_int8: lambda value: ctypes.c_char(value.value & 0xFF),
    ctypes.c_bool: lambda value: ctypes.c_uint8(value.value),
    UsmArray: UsmArray.argument,
}

_in_flight: deque[tuple[Event, Any]] = deque()


def build_program(queue: Queue, source: str | bytes, options: str = "") -> Program:
    """A dpctl program from OpenCL C (``str``) or SPIR-V (``bytes``), built for the queue's device.

    Raises:
        DeviceError: OpenCL C on a Level Zero queue, which takes SPIR-V only.
        ToolError: bytes that are no SPIR-V, or the driver's compiler failed; ``log`` is what it printed.
    """
    if needs_spirv(queue) and isinstance(source, str):
        raise DeviceError("XT5005",
                          "a Level Zero queue takes SPIR-V, not OpenCL C", "use an OpenCL queue, or compile with ocloc")
    # Drivers do not check this themselves: Intel's CPU driver loops forever over what is no SPIR-V.
    if isinstance(source, bytes) and not is_spirv(source):
        raise ToolError("XT5100", "these bytes are no SPIR-V", "make them with codegen.toolchain.ocloc.compile_spirv")
    programs = import_dpctl("dpctl.program")
    create = programs.create_program_from_source if isinstance(source, str) else programs.create_program_from_spirv
    try:
        return create(queue, source, options)
    except programs.SyclProgramCompilationError as error:
        from codegen.runtime.build_log import build_log
        from codegen.toolchain.compile_error import refusal

        log = "" if needs_spirv(queue) else build_log(queue, source, options)
        text = source if isinstance(source, str) else ""
        raise refusal(f"{queue.sycl_device.name.strip()} refused the program", log, text) from error


def find_kernel(program: Program, name: str) -> Kernel:
    """The kernel called ``name``.

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
    """Starts ``groups`` work-groups, in OpenCL's order of dimensions, of ``local_size`` work-items in dimension 0.

    Args:
        groups: one to three counts; ``get_group_id(0)`` runs over the first. Any of them zero: nothing is started.
        waits: events that must come first, besides what the queue's own order says.

    Raises:
        DeviceError: a negative count, or a launch that the driver refused.
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
    """Starts a kernel; sizes are work-items in OpenCL's order of dimensions. Returns at once, with the event.

    Arguments stay alive until the kernel has run. On an out-of-order queue, as dpnp's are, the kernel takes its place
    in the order that dpctl and dpnp keep there.

    Raises:
        DeviceError: the driver refused it.
    """
    spelled = [_SPELLINGS[type(arg)](arg) if type(arg) in _SPELLINGS else arg for arg in args]
    # SYCL counts dimensions from the slowest: OpenCL's dimension 0 is its last.
    return start(queue, kernel, spelled, list(reversed(global_size)), list(reversed(local_size)), spelled, waits)


def start(
    queue: Queue,
    kernel: Kernel,
    args: list[Argument],
    global_range: list[int],
    local_range: list[int],
    held: Any,
    waits: Sequence[Event] = (),
) -> Event:
    """Starts a kernel on arguments as dpctl takes them: what :func:`submit` and repeated launches end in.

    Args:
        args: ctypes scalars that dpctl knows, and memory objects.
        global_range, local_range: work-items, in SYCL's order of dimensions.
        held: what stays alive until the kernel has run.
        waits: events that must come first, besides what the queue's own order says.

    Raises:
        DeviceError: the driver refused it.
    """
    order = None if queue.is_in_order else import_dpctl("dpctl.utils").SequentialOrderManager[queue]
    before = [*waits, *(order.submitted_events if order else ())]
    try:
        event = queue.submit_async(kernel, args, global_range, local_range, before)
    except _refusals() as error:
        raise _refusal(queue, kernel, args, global_range[::-1], local_range[::-1]) from error
    if order:
        order.add_event_pair(event, event)
    _hold(event, held)
    return event


def keep(queue: Queue, held: Any) -> None:
    """Keeps objects alive until everything that a queue was given so far has run: memory that kernels reach by address.

    What kernels get as arguments is kept anyway.
    """
    order = None if queue.is_in_order else import_dpctl("dpctl.utils").SequentialOrderManager[queue]
    _hold(queue.submit_barrier(order.submitted_events if order else []), held)


def send(queue: Queue, source: Any, target: Any) -> None:
    """Copies a NumPy array to device memory that nothing has used yet, without waiting for what the queue does.

    Args:
        queue: the queue of kernels that will read it.
        source: contiguous.
        target: dpctl's memory object, of the same size.
    """
    event = queue.memcpy_async(target, memoryview(source).cast("B"), source.nbytes)
    if not queue.is_in_order:
        import_dpctl("dpctl.utils").SequentialOrderManager[queue].add_event_pair(event, event)
    _hold(event, (source, target))


def _hold(event: Event, held: Any) -> None:
    """Keeps what a kernel works on until it has run; dpctl's own way to do so costs milliseconds on an in-order queue.

    It looks at the two that are held longest: so the list shrinks faster than it can grow, whatever queue lags behind.
    """
    _in_flight.append((event, held))
    if _let_go():  # else: what was started later has hardly finished earlier
        _let_go()


def release_finished() -> None:
    """Lets go of the arguments of all kernels that have run."""
    for _ in range(len(_in_flight)):
        _let_go()


def _let_go() -> bool:
    """Lets go of what is held longest if its kernel has run, else puts it last. Each step is atomic: no lock."""
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
    queue: Queue, kernel: Kernel, args: Sequence[Argument], global_size: Sequence[int], local_size: Sequence[int]
) -> DeviceError:
    """Why a launch failed, as far as it can be told: the driver itself gives no reason."""
    name, limit = kernel.get_function_name(), queue.sycl_device.max_work_group_size
    if len(args) != kernel.num_args:
        return DeviceError("XT5011", f"kernel {name} takes {kernel.num_args} arguments, not {len(args)}",
                           "pass those of its signature: each pointer, size and stride by itself")
    size = local_size[0] * local_size[1] * local_size[2]
    if size > limit:
        return DeviceError("XT5012", f"a work-group of {size} work-items is over the device's limit of {limit}",
                           f"make work-groups of at most {limit} work-items: fewer subgroups")
    kinds = ", ".join(type(arg).__name__ for arg in args)
    sizes = f"{tuple(global_size)} work-items in groups of {tuple(local_size)}"
    return DeviceError("XT5013", f"{queue.sycl_device.name.strip()} refused kernel {name}: {sizes}, arguments {kinds}",
                       "XETILE_LOG=1 shows what was built, xetile devices whether this device runs kernels at all")
