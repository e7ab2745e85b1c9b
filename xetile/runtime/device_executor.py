"""A device, through dpctl, as the place where kernels run."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from codegen.runtime.debug import watched
from codegen.runtime.devices import Queue, chosen_road, device_target, find_queue, needs_spirv
from codegen.runtime.launcher import launch
from codegen.runtime.program_cache import build_kernel
from codegen.runtime.program_source import naming_the_other, opencl_for_cpu, road_for
from codegen.runtime.usm import UsmArray, copy_in, copy_out
from codegen.toolchain.logger import LOGGER
from codegen.toolchain.spirv import entry_points
from xegpu.analysis import barriers
from xegpu.ir.dtypes import DType
from xegpu.support.errors import DeviceError, ShapeError, TargetError
from xegpu.support.location import author_location
from xegpu.support.notes import notes_at
from xegpu.target.targets import TARGETS, Target, find_target
from xetile.compiler.arguments import Argument
from xetile.compiler.compiled import Lowered, only_function
from xetile.runtime.grid import Grid
from xetile.runtime.launch_cache import Launch

_INT = 2**31


class DeviceExecutor:
    """A device through dpctl.

    Args:
        where: a dpctl filter string or queue.
        target: the device that code is made for; None for the one that it runs on. On the CPU device a GPU's own text
            runs, with the builtins that the CPU lacks emulated.

    Raises:
        DeviceError: there is no such device, or it is a GPU in no table and no target is given.
        TargetError: the device cannot run code for the target.
    """

    def __init__(self, where: str | Queue, target: Target | None) -> None:
        self.queue = find_queue(where)
        self.device = str(self.queue.sycl_device.name).strip()
        try:
            own = find_target(device_target(self.queue))
        except DeviceError:
            if target is None:
                raise
            own = target  # a GPU that no table knows: the author says what it takes
        self.target = target or own
        check_fits(self.target, own, self.device)
        self._kernels: WeakKeyDictionary[Lowered, dict[tuple[str, str], Any]] = WeakKeyDictionary()

    def place(self, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        """The arguments on the device: host arrays are copied there."""
        stranger = next((a.name for a in arguments if a.kind == "usm" and a.source.queue != self.queue), None)
        if stranger is not None:
            raise DeviceError("XT1044", f"{stranger} is on another queue than the kernel runs on",
                              "drop .on(...), and the kernel runs on the queue of its arrays; or move the array: "
                              f"dpnp.asarray({stranger}, sycl_queue=queue)")
        host = [argument for argument in arguments if argument.kind == "numpy"]
        copies = iter(copy_in([argument.source for argument in host], self.queue))
        return tuple(replace(a, source=next(copies), kind="usm") if a.kind == "numpy" else a for a in arguments)

    def ready(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> Launch | None:
        """The built kernel with its grid; None with arrays of the host, without work-groups, or with assertions."""
        kernel = self._kernel(lowered)
        if 0 in grid or lowered.emitted.is_watched or any(argument.kind == "numpy" for argument in arguments):
            return None
        passed = [_passed(argument) for argument in arguments]
        template = [value for values in passed for value in values]
        places = [sum(map(len, passed[:position])) for position in range(len(passed))]
        local = lowered.emitted.local_size
        return Launch(self.queue, kernel, [None if isinstance(v, UsmArray) else v for v in template], places,
                      [*grid[:2], grid[2] * local], [1, 1, local], lowered.written)

    def run(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> None:
        """Launch the kernel on arguments that were placed; the arrays are written in the queue's order."""
        kernel = self._kernel(lowered)
        packed = [value for argument in arguments for value in _passed(argument)]
        emitted = lowered.emitted

        def start(more: Sequence[Any]) -> Any:
            return launch(self.queue, kernel, [*packed, *more], grid[::-1], emitted.local_size)

        if emitted.is_watched:
            watched(self.queue, emitted.assertions, start)
        else:
            start([])

    def collect(self, written: Sequence[int], placed: Sequence[Argument], arguments: Sequence[Argument]) -> None:
        """Copy what the kernel wrote back to arrays of the host."""
        for position in written:
            if arguments[position].kind == "numpy":
                copy_out(placed[position].source, arguments[position].source)

    def _kernel(self, lowered: Lowered) -> Any:
        key, built = (chosen_road(), added_options()), self._kernels.setdefault(lowered, {})
        if key not in built:  # the choice may change while a program runs
            built[key] = self._built(lowered, road_for(self.queue))
        return built[key]

    def _built(self, lowered: Lowered, road: str) -> Any:
        emitted, on_cpu = lowered.emitted, _is_cpu(self.queue)
        if on_cpu and emitted.apart:
            waits = barriers.divergent_operations(only_function(lowered.modules["xegpu"]))
            raise TargetError("XT4001",
                              f"{emitted.name} has subgroups that wait for each other where not all of them come by, "
                              f"and {self.device} runs the subgroups of a work-group one after the other",
                              'run it on "numpy" or on a GPU, or let all subgroups come by the barrier',
                              notes=notes_at(None, [("they wait here", author_location(waits[0]))]))
        if not on_cpu:
            lowered.check_registers()
        source, options, name = self.program_of(lowered)
        with naming_the_other(road, emitted.name):
            return build_kernel(self.queue, source, options, name)

    def program_of(self, lowered: Lowered) -> tuple[str | bytes, str, str]:
        """What is built for a kernel: OpenCL C or SPIR-V, with its options and the name of the kernel in it."""
        emitted, on_cpu, road = lowered.emitted, _is_cpu(self.queue), road_for(self.queue)
        if road:
            source = lowered.spirv(road, emulated=on_cpu)
            (name,) = entry_points(source)
            return source, self._options(emitted.options, road), name
        LOGGER.info("%s gets %s as OpenCL C", self.device, emitted.name)
        text = opencl_for_cpu(emitted.text, self.queue.sycl_device) if on_cpu else emitted.text
        return text, self._options(emitted.options, road), emitted.name

    def _options(self, options: str, road: str) -> str:
        added = "" if road else added_options()  # the CPU's compiler makes wrong code of SPIR-V without its optimiser
        return f"{self._needed(options, road)} {added}".strip()

    def _needed(self, options: str, road: str) -> str:
        if needs_spirv(self.queue):
            return options.replace("-cl-intel-256-GRF-per-thread", "-ze-opt-large-register-file")
        if _is_cpu(self.queue):
            return "" if road else "-cl-std=CL3.0"
        return options if road else f"-cl-std=CL3.0 {options}"


def added_options() -> str:
    """What XETILE_BUILD_OPTIONS adds for a device's own compiler: ``-cl-opt-disable`` builds fast and runs slowly."""
    return os.environ.get("XETILE_BUILD_OPTIONS", "")


def _is_cpu(queue: Queue) -> bool:
    return bool(queue.sycl_device.is_cpu)


def check_fits(target: Target, own: Target, device: str) -> None:
    """Raise unless a device runs code for ``target``: a GPU builds what it cannot run, and gives garbage.

    Args:
        target: the device that code is made for.
        own: the target of the device that shall run it.
        device: the device's name.

    Raises:
        TargetError: subgroups of another size, or block messages that the device has not.
    """
    if own.ocloc is None:  # the CPU device, which emulates every GPU
        return
    runs = [t.name for t in TARGETS.values() if t.ocloc and t.subgroup == own.subgroup and t.blocks <= own.blocks]
    if target.name not in runs:
        raise TargetError("XT4000", f"code for {target.name} does not run on {device}, which takes code for {own.name}",
                          f"drop target=, or choose one of {', '.join(runs)}; \"opencl:cpu\" runs the text of "
                          "every GPU")


def _passed(argument: Argument) -> list[Any]:
    """What a kernel gets for one argument: a number, or a pointer with its sizes and strides in elements."""
    if argument.kind == "number":
        return [_number(argument.source, argument.dtype)]
    array: UsmArray = argument.source
    for size in (*array.shape, *array.strides):
        if not -_INT <= size < _INT:
            raise ShapeError("XT1046", f"{argument.name} has a size or stride of {size} elements",
                             "devices count with 32-bit integers: pass a part of the array")
    return [array, *(ctypes.c_int(value) for value in (*array.shape, *array.strides))]


def _number(value: Any, dtype: DType) -> Any:
    if dtype.is_float:
        return ctypes.c_float(value)
    wide = {"i64": ctypes.c_int64, "u64": ctypes.c_uint64}.get(dtype.name)
    return ctypes.c_int(value) if wide is None else wide(int(value))
