"""Where a launch goes: NumPy at two levels, or a device. Each is imported when the first kernel goes there."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from codegen.runtime.devices import best_device
from xegpu.support.errors import DeviceError
from xegpu.target.targets import Target, find_target
from xetile.arguments import Argument
from xetile.launch_grid import Grid
from xetile.launches import Launch

if TYPE_CHECKING:
    from xetile.lowered import Lowered


class Executor(Protocol):
    """A place where kernels run.

    Attributes:
        target: the device that code is made for there.
        device: the name of what runs it.
    """

    target: Target
    device: str

    def place(self, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        """The arguments where the kernel can reach them: host arrays are copied to a device."""

    def run(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> None:
        """Run the kernel on arguments that were placed; outputs are written in place."""

    def collect(self, written: Sequence[int], placed: Sequence[Argument], arguments: Sequence[Argument]) -> None:
        """Copy what the kernel wrote back to host arrays, if they were copied."""

    def ready(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> Launch | None:
        """The kernel, built, for arguments in this place's own memory; None where a launch needs all that :meth:`run`
        does."""


_devices: dict[Any, Executor] = {}


def best_place() -> str:
    """Where kernels run best here, for ``kernel.on(...)``: an Intel GPU, else the OpenCL CPU device, else NumPy.

    Level Zero devices count only where a compiler makes SPIR-V, which is all that they take.
    """
    from codegen.runtime.program_source import can_make_spirv

    return best_device(spirv=can_make_spirv()) or "numpy"


_IN_NUMPY = ("numpy", "numpy:xegpu", "numpy:program")
"""Executions that need no device."""


def executor_for(where: Any, target: Target | None) -> Executor:
    """The executor for a place: ``"numpy"``, ``"numpy:xegpu"``, a dpctl filter string or a queue.

    Raises:
        DeviceError: there is no such place.
    """
    if where in ("numpy", "numpy:xegpu"):
        from xetile import in_numpy

        kind = in_numpy.NumPyExecutor if where == "numpy" else in_numpy.NumPyXeGPUExecutor
        return kind(target or find_target("pvc"))
    if isinstance(where, str) and (where.startswith("numpy") or difflib.get_close_matches(where, _IN_NUMPY, 1)):
        raise DeviceError("XT1052", f"there is no execution {where!r}", 'use "numpy", "numpy:xegpu" or "numpy:program"')
    key = (where, target)
    if key not in _devices:
        from xetile.on_device import DeviceExecutor

        _devices[key] = DeviceExecutor(where, target)
    return _devices[key]
