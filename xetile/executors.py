"""Where a launch goes: NumPy at two levels, or a device."""

from __future__ import annotations

import ctypes
import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from xdsl.ir import Operation

from codegen import apart
from codegen.devices import Queue, best_device, device_target, find_queue, needs_spirv
from codegen.diagnostics import watched
from codegen.interpreter import Meaning, Window
from codegen.launcher import launch
from codegen.log import LOGGER
from codegen.meanings import MEANINGS as BUILTIN_MEANINGS
from codegen.programs import build_kernel
from codegen.roads import can_make_spirv, chosen_road, naming_the_other, opencl_for_cpu, road_for
from codegen.spirv import entry_points
from codegen.usm import UsmArray, copy_in, copy_out
from xegpu import barriers
from xegpu.control_flow import place
from xegpu.dtypes import DType
from xegpu.errors import DeviceError, ShapeError, TargetError
from xegpu.parties import elsewhere
from xegpu.reference import meanings as xegpu_meanings
from xegpu.targets import TARGETS, Target, find_target
from xetile.arguments import Argument
from xetile.launches import Launch
from xetile.lowered import Lowered, only_function
from xetile.passes.workgroup_to_subgroup import subgroups_of
from xetile.pipeline import stage_of
from xetile.reference import MEANINGS as XETILE_MEANINGS
from xetile.supervector_reference import MEANINGS as SUPERVECTOR_MEANINGS

MEANINGS: Mapping[type[Operation], Meaning] = {**BUILTIN_MEANINGS, **xegpu_meanings(Window),  # type: ignore[arg-type]
                                                    **XETILE_MEANINGS, **SUPERVECTOR_MEANINGS}
Grid = tuple[int, int, int]
_INT = 2**31


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


def _numpy_arguments(arguments: Sequence[Argument]) -> list[Any]:
    return [argument.numpy() for argument in arguments]


class _InHostMemory:
    """What the NumPy executions share: arrays are used where they are."""

    device = "NumPy"

    def __init__(self, target: Target) -> None:
        self.target = target

    def place(self, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        return tuple(arguments)

    def collect(self, written: Sequence[int], placed: Sequence[Argument], arguments: Sequence[Argument]) -> None:
        """Nothing was copied."""

    def ready(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> Launch | None:
        """NumPy has nothing to build."""
        return None


class NumPyExecutor(_InHostMemory):
    """The recorded XeTile program, all instances at once."""

    def run(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> None:
        function = lowered.function
        lowered.dump({stage_of(lowered.module): lowered.module})
        apart.run(function, _numpy_arguments(arguments), grid, subgroups_of(function), MEANINGS,
                  lanes_of(function))


class NumPyXeGPUExecutor(_InHostMemory):
    """The fully lowered program, lane by lane."""

    def run(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> None:
        function = only_function(lowered.modules["xegpu"])
        lowered.dump(lowered.modules)
        apart.run(function, _numpy_arguments(arguments), grid, subgroups_of(function), MEANINGS,
                  lanes_of(function))


def lanes_of(function: Any) -> int | None:
    """Lanes of a distributed function, None for one that works on whole blocks."""
    size = function.attributes.get("xegpu.subgroup_size")
    return None if size is None else int(size.value.data)


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
        stranger = next((a.name for a in arguments if a.kind == "usm" and a.source.queue != self.queue), None)
        if stranger is not None:
            raise DeviceError("XT1044", f"{stranger} is on another queue than the kernel runs on",
                              "drop .on(...), and the kernel runs on the queue of its arrays; or move the array: "
                              f"dpnp.asarray({stranger}, sycl_queue=queue)")
        host = [argument for argument in arguments if argument.kind == "numpy"]
        copies = iter(copy_in([argument.source for argument in host], self.queue))
        return tuple(replace(a, source=next(copies), kind="usm") if a.kind == "numpy" else a for a in arguments)

    def ready(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> Launch | None:
        kernel = self._kernel(lowered)
        if 0 in grid or lowered.emitted.is_watched or any(argument.kind == "numpy" for argument in arguments):
            return None
        passed = [_passed(argument) for argument in arguments]
        template = [value for values in passed for value in values]
        places = [sum(map(len, passed[:position])) for position in range(len(passed))]
        local = lowered.emitted.local_size
        return Launch(self.queue, kernel, [None if isinstance(v, UsmArray) else v for v in template], places,
                      [*grid[:2], grid[2] * local], [1, 1, local])

    def run(self, lowered: Lowered, arguments: Sequence[Argument], grid: Grid) -> None:
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
            waits = barriers.apart(only_function(lowered.modules["xegpu"]))
            raise TargetError("XT4001",
                              f"{emitted.name} has subgroups that wait for each other where not all of them come by, "
                              f"and {self.device} runs the subgroups of a work-group one after the other",
                              'run it on "numpy" or on a GPU, or let all subgroups come by the barrier',
                              notes=elsewhere(None, [("they wait here", place(waits[0]))]))
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
        text = opencl_for_cpu(emitted.text) if on_cpu else emitted.text
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


_devices: dict[Any, Executor] = {}


def best_place() -> str:
    """Where kernels run best here, for ``kernel.on(...)``: an Intel GPU, else the OpenCL CPU device, else NumPy.

    Level Zero devices count only where a compiler makes SPIR-V, which is all that they take.
    """
    return best_device(spirv=can_make_spirv()) or "numpy"


_IN_NUMPY = ("numpy", "numpy:xegpu", "numpy:program")
"""Executions that need no device."""


def executor_for(where: Any, target: Target | None) -> Executor:
    """The executor for a place: ``"numpy"``, ``"numpy:xegpu"``, a dpctl filter string or a queue.

    Raises:
        DeviceError: there is no such place.
    """
    if where == "numpy":
        return NumPyExecutor(target or find_target("pvc"))
    if where == "numpy:xegpu":
        return NumPyXeGPUExecutor(target or find_target("pvc"))
    if isinstance(where, str) and (where.startswith("numpy") or difflib.get_close_matches(where, _IN_NUMPY, 1)):
        raise DeviceError("XT1052", f"there is no execution {where!r}", 'use "numpy", "numpy:xegpu" or "numpy:program"')
    key = (where, target)
    if key not in _devices:
        _devices[key] = DeviceExecutor(where, target)
    return _devices[key]
