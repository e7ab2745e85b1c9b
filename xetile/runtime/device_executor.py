"""Device executor: builds compiled kernels for a dpctl queue, and launches them on it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from codegen.runtime import usm
from codegen.runtime.debug import watched
from codegen.runtime.devices import Queue, build_settings, device_target, find_queue
from codegen.runtime.launcher import launch
from codegen.runtime.program_cache import build_kernel
from codegen.runtime.program_source import Program, queue_program, spirv_compiler_for, suggest_other_compiler
from codegen.runtime.usm import UsmArray
from xegpu.analysis import barriers
from xegpu.ir.dtypes import DType
from xegpu.ir.use_def import used_arguments
from xegpu.support.errors import DeviceError, ShapeError, TargetError
from xegpu.support.location import author_location
from xegpu.support.notes import notes_at
from xegpu.target.targets import TARGETS, Target, find_target
from xetile.compiler.arguments import Argument
from xetile.compiler.compiled import CompiledKernel
from xetile.dialect.stage import only_function
from xetile.runtime.aliasing import extent
from xetile.runtime.built_programs import PROGRAMS
from xetile.runtime.grid import Grid
from xetile.runtime.launch_plan import LaunchEvent, LaunchPlan

_INT_LIMIT = 2**31
"""Sizes and strides are arguments of the C type ``int``, and so is the offset of a gathered element."""


class DeviceExecutor:
    """Runs kernels on a dpctl queue.

    Args:
        where: a dpctl filter string or queue.
        target: the device that code is generated for; None for the queue's. The CPU device runs code for GPUs, too,
            with emulated builtins.

    Raises:
        DeviceError: there is no such device, or it is an unknown GPU and ``target`` is None.
        TargetError: the device cannot run code for the target.
    """

    def __init__(self, where: str | Queue, target: Target | None) -> None:
        self.queue = find_queue(where)
        self.device = str(self.queue.sycl_device.name).strip()
        try:
            native = find_target(device_target(self.queue))
        except DeviceError:
            if target is None:
                raise
            native = target  # an unknown GPU: the author names a target that it is compatible with
        self.target = target or native
        check_compatible(self.target, native, self.device)

    def copy_in(self, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        """The arguments with host arrays copied to the device.

        Raises:
            DeviceError: an array is on another queue.
        """
        elsewhere = next((a.name for a in arguments if a.kind == "usm" and a.source.queue != self.queue), None)
        if elsewhere is not None:
            raise DeviceError("XT1044", f"{elsewhere} is on another queue than the kernel runs on",
                              "drop .on(...), and the kernel runs on the queue of its arrays; or move the array: "
                              f"dpnp.asarray({elsewhere}, sycl_queue=queue)")
        host = [argument for argument in arguments if argument.kind == "numpy"]
        copies = iter(usm.copy_in([argument.source for argument in host], self.queue))
        return tuple(replace(a, source=next(copies), kind="usm") if a.kind == "numpy" else a for a in arguments)

    def plan(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> LaunchPlan | None:
        """The launch plan of the built kernel; None with host arrays, an empty grid, or assertions."""
        _check_extents(compiled, arguments)
        kernel = self.build(compiled)
        if 0 in grid or compiled.emitted.is_watched or any(argument.kind == "numpy" for argument in arguments):
            return None
        values = [packed(argument) for argument in arguments]
        template = [value for each in values for value in each]
        slots = [sum(map(len, values[:position])) for position in range(len(values))]
        local = compiled.emitted.local_size
        extents = {position: extent(arguments[position]) for position in used_arguments(compiled.function)
                   if arguments[position].kind == "usm"}
        plan = LaunchPlan(self.queue, kernel, [None if isinstance(v, UsmArray) else v for v in template], slots,
                          [*grid[:2], grid[2] * local], [1, 1, local], compiled.written,
                          {position: span for position, span in extents.items() if span is not None})
        PROGRAMS.add_plan(compiled, (self.queue, build_settings()), plan)
        return plan

    def run(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> LaunchEvent | None:
        """Launch the kernel on arguments of :meth:`copy_in`, asynchronously in the queue's order."""
        _check_extents(compiled, arguments)
        kernel = self.build(compiled)
        values = [value for argument in arguments for value in packed(argument)]
        emitted = compiled.emitted

        def start(extra: Sequence[Any]) -> Any:
            return launch(self.queue, kernel, [*values, *extra], grid[::-1], emitted.local_size)

        if emitted.is_watched:
            watched(self.queue, emitted.assertions, start)
            return None
        return LaunchEvent(self.queue, start([]))

    def copy_out(self, outputs: Sequence[int], reachable: Sequence[Argument], arguments: Sequence[Argument]) -> None:
        """Copy outputs back to the host arrays that were copied in."""
        for position in outputs:
            if arguments[position].kind == "numpy":
                usm.copy_out(reachable[position].source, arguments[position].source)

    def build(self, compiled: CompiledKernel) -> Any:
        """The built kernel, cached by queue and build settings, which are environment variables and may change."""
        return PROGRAMS.find(compiled, (self.queue, build_settings()),
                             lambda: self._build(compiled, spirv_compiler_for(self.queue)))

    def _build(self, compiled: CompiledKernel, compiler: str) -> Any:
        emitted, on_cpu = compiled.emitted, _is_cpu(self.queue)
        if on_cpu and emitted.divergent_barriers:
            divergent = barriers.divergent_operations(only_function(compiled.final))
            raise TargetError("XT4001",
                              f"{emitted.name} has a barrier in control flow that differs between subgroups, and "
                              f"{self.device} runs the subgroups of a work-group one after the other",
                              'run it on "numpy" or on a GPU, or let all subgroups reach the barrier',
                              notes=notes_at(None, [("the barrier is here", author_location(divergent[0]))]))
        if not on_cpu:
            compiled.check_registers()
        program = self.program(compiled)
        with suggest_other_compiler(compiler, emitted.name):
            return build_kernel(self.queue, program.source, program.options, program.name, emitted.text)

    def program(self, compiled: CompiledKernel) -> Program:
        """The program that the queue builds for a kernel."""
        return queue_program(compiled.source, self.queue)


def _is_cpu(queue: Queue) -> bool:
    return bool(queue.sycl_device.is_cpu)


def check_compatible(target: Target, native: Target, device: str) -> None:
    """Raise unless a device runs code for ``target``: a driver also builds incompatible code, with wrong results.

    Args:
        target: the device that code is generated for.
        native: the target of the device that runs it.
        device: the device's name.

    Raises:
        TargetError: subgroups of another size, or block messages that the device lacks.
    """
    if native.is_cpu:  # it emulates every GPU
        return
    compatible = [each.name for each in TARGETS.values()
            if not each.is_cpu and each.subgroup_size == native.subgroup_size and each.blocks <= native.blocks]
    if target.name not in compatible:
        raise TargetError("XT4000",
                          f"code for {target.name} does not run on {device}, which takes code for {native.name}",
                          f"drop target=, or choose one of {', '.join(compatible)}; \"opencl:cpu\" runs the text of "
                          "every GPU")


def _check_extents(compiled: CompiledKernel, arguments: Sequence[Argument]) -> None:
    """Raise if an array is longer than the 32-bit offsets of its gathered or scattered elements reach."""
    for position, operation in compiled.scattered.items():
        name, array = arguments[position].name, arguments[position].source
        extent = 1 + sum((size - 1) * abs(stride) for size, stride in zip(array.shape, array.strides, strict=True))
        if extent > _INT_LIMIT:
            raise ShapeError("XT1048", f"{name} extends over {extent} elements, and {compiled.name} addresses single "
                             "elements of it, with offsets of 32 bits",
                             f"pass a part of it, such as {name}[first:last], with offsets from there; tiles at a row "
                             "and a column reach into arrays of any size",
                             notes=notes_at(None, [("elements are addressed here", author_location(operation))]))


def packed(argument: Argument) -> list[Any]:
    """The device arguments of one argument: a number, or a pointer with its sizes and strides in elements."""
    if argument.kind == "number":
        return [_c_scalar(argument.source, argument.dtype)]
    array: UsmArray = argument.source
    for size in (*array.shape, *array.strides):
        if not -_INT_LIMIT <= size < _INT_LIMIT:
            raise ShapeError("XT1046", f"{argument.name} has a size or stride of {size} elements",
                             "sizes and strides are 32-bit integers: pass a part of the array")
    return [array, *(ctypes.c_int(value) for value in (*array.shape, *array.strides))]


def _c_scalar(value: Any, dtype: DType) -> Any:
    if dtype.is_float:
        return ctypes.c_float(value)
    c_type = {"i64": ctypes.c_int64, "u64": ctypes.c_uint64}.get(dtype.name)
    return ctypes.c_int(value) if c_type is None else c_type(int(value))
