"""Executors: where a launch runs, in NumPy at two levels, on a simulated GPU or on a device.

Each is imported when a kernel first uses it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from codegen.runtime.devices import best_sycl_device
from xegpu.support.errors import ArgumentError, DeviceError, ToolError
from xegpu.target.targets import Target, find_target
from xetile.compiler.arguments import Argument, different_queues
from xetile.runtime.grid import Grid
from xetile.runtime.launch_plan import LaunchEvent, LaunchPlan

if TYPE_CHECKING:
    from xetile.compiler.compiled import CompiledKernel


class Executor(Protocol):
    """Runs compiled kernels.

    Attributes:
        target: the device that code is generated for.
        device: the name of the device that runs it.
    """

    target: Target
    device: str

    def copy_in(self, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        """The arguments with host arrays copied to the device."""

    def run(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> LaunchEvent | None:
        """Run the kernel on arguments of :meth:`copy_in`; outputs are written in place. None where it has ended."""

    def copy_out(self, outputs: Sequence[int], reachable: Sequence[Argument], arguments: Sequence[Argument]) -> None:
        """Copy outputs back to the host arrays that were copied in."""

    def plan(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> LaunchPlan | None:
        """The launch plan for arguments in the executor's memory; None where a launch needs all of :meth:`run`."""


def best_device() -> str:
    """The fastest device of this machine, for ``kernel.on(...)``: an Intel GPU, else the OpenCL CPU, else NumPy.

    Level Zero devices take SPIR-V alone, so they count only if a compiler of SPIR-V is installed.
    """
    from codegen.runtime.program_source import can_make_spirv

    return best_sycl_device(spirv=can_make_spirv()) or "numpy"


_NUMPY_EXECUTIONS = ("numpy", "numpy:xegpu", "numpy:program")
"""Executions that need no device."""


def select_executor(kernel_target: Target | None, where: Any, target: str | Target | None,
                    arguments: Sequence[Argument]) -> Executor:
    """The executor for a call: the one at ``where``, or that of the arrays if it is None.

    Args:
        kernel_target: the device that the kernel is written for, None for any.
        where: as in ``kernel.on(where)``.
        target: the device that code is generated for; None for the kernel's own, or that of the executor.
        arguments: of the call.

    Raises:
        DeviceError: there is no such executor, or the arrays are on several.
    """
    chosen = kernel_target if target is None else find_target(target)
    return executor_of_arrays(arguments, chosen) if where is None else executor_at(where, chosen)


def executor_at(where: Any, target: Target | None) -> Executor:
    """The executor named ``"numpy"``, ``"numpy:xegpu"`` or ``"machine:..."``, or that of a queue or its filter string.

    Raises:
        DeviceError: there is no such executor.
    """
    if isinstance(where, str) and where in ("numpy", "numpy:xegpu"):
        from xetile.runtime import numpy_executor

        kind = numpy_executor.NumPyExecutor if where == "numpy" else numpy_executor.NumPyXeGPUExecutor
        return kind(target or find_target())
    if isinstance(where, str) and (where.startswith("numpy") or difflib.get_close_matches(where, _NUMPY_EXECUTIONS, 1)):
        raise DeviceError("XT1052", f"there is no execution {where!r}", 'use "numpy", "numpy:xegpu" or "numpy:program"')
    if is_machine(where):
        return machine_executor(where, target, check=False)
    from xetile.runtime.device_executor import DeviceExecutor

    return DeviceExecutor(where, target)


def is_machine(where: Any) -> bool:
    """Whether a place is a simulated GPU that runs machine code, such as ``"machine:pvc"``."""
    return isinstance(where, str) and where.partition(":")[0] == "machine"


def machine_executor(where: str, target: Target | None, check: Any) -> Executor:
    """The executor of machine code on a simulated GPU.

    Args:
        where: ``"machine:pvc"`` and the like.
        target: the device that code is made for; None for the simulated one.
        check: whether to look for what no GPU minds.

    Raises:
        ArgumentError: ``check`` is neither True nor False: the checks have no names here.
        DeviceError: there is no such GPU.
        TargetError: the GPU does not run code for the target.
        ToolError: a package that reads device binaries is not installed.
    """
    if check not in (True, False):
        raise ArgumentError("XT1056", f"check={check!r} names checks, and machine code has one set of them",
                            f'write .on("{where}", check=True)')
    return _machine_executor_type()(where, target, check)


def check_simulator() -> None:
    """Raise unless machine code can be executed here.

    Raises:
        ToolError: Intel's offline compiler, its disassembler, or a package that reads device binaries is missing.
    """
    from codegen.simulator.decoder import find_iga64
    from codegen.toolchain import ocloc

    ocloc.find_ocloc()
    find_iga64()
    _machine_executor_type()


def _machine_executor_type() -> Callable[[str, Target | None, Any], Executor]:
    try:
        from xetile.runtime.machine_executor import MachineExecutor
    except ImportError as error:  # PyYAML and pyelftools, which device binaries are read with
        raise ToolError("XT5147", f"machine code cannot be read: {error}",
                        'install what the simulator needs: pip install "xetile[simulator]"') from error
    return MachineExecutor


def executor_of_arrays(arguments: Sequence[Argument], target: Target | None) -> Executor:
    """The executor of a call's arrays: that of their common queue, or NumPy for host arrays.

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
        return executor_at("numpy", target)
    queues = [argument.source.queue for argument in arrays]
    elsewhere = next((a for a, queue in zip(arrays, queues, strict=True) if queue != queues[0]), None)
    if elsewhere is not None:
        raise different_queues(arrays[0].name, elsewhere.name)
    return executor_at(queues[0], target)
