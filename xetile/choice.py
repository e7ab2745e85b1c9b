"""Where a kernel runs that is not told where: where its arrays are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xegpu.support.errors import DeviceError
from xegpu.target.targets import Target, find_target
from xetile.arguments import Argument
from xetile.executors import Executor, executor_for


def executor_of(own: Target | None, where: Any, target: str | Target | None,
                arguments: Sequence[Argument]) -> Executor:
    """Where a kernel runs: at ``where``, or where its arrays are if that is None.

    Args:
        own: the device that the kernel itself is made for, None for none in particular.
        where: as in ``kernel.on(where)``.
        target: the device that code is generated for; None for the kernel's own, or that of the place.
        arguments: what the kernel is called with.

    Raises:
        DeviceError: there is no such place, or the arrays are in several.
    """
    found = own if target is None else find_target(target)
    return executor_of_arrays(arguments, found) if where is None else executor_for(where, found)


def executor_of_arrays(arguments: Sequence[Argument], target: Target | None) -> Executor:
    """Where the arrays of a call are: on the queue of them all, or in host memory, where NumPy runs.

    Raises:
        DeviceError: they are in several places.
    """
    arrays = [argument for argument in arguments if argument.rank is not None]
    kinds = {argument.kind for argument in arrays}
    if kinds == {"usm", "numpy"}:
        names = {kind: next(a.name for a in arrays if a.kind == kind) for kind in kinds}
        raise DeviceError("XT1042",
                          f"{names['usm']} is on a device and {names['numpy']} is a NumPy array in host memory",
                          f"copy it to the device, as in dpnp.asarray({names['numpy']}), or have host arrays copied "
                          f"there and back: .on({names['usm']}.sycl_queue)")
    if kinds != {"usm"}:
        return executor_for("numpy", target)
    queues = [argument.source.queue for argument in arrays]
    other = next((a for a, queue in zip(arrays, queues, strict=True) if queue != queues[0]), None)
    if other is not None:
        raise DeviceError("XT1043", f"{arrays[0].name} and {other.name} are on different queues",
                          f"make both on one queue: dpnp.asarray({other.name}, sycl_queue={arrays[0].name}.sycl_queue)")
    return executor_for(queues[0], target)
