"""The machine-code executor: builds a kernel as a GPU would get it, and simulates the machine code in NumPy."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects import func

from codegen.runtime.debug import FLAGS
from codegen.runtime.devices import requested_spirv_compiler
from codegen.runtime.program_source import Program, gpu_program, suggest_other_compiler
from codegen.simulator.findings import Finding
from codegen.simulator.launch import launch
from codegen.simulator.memory.global_memory import Allocation
from codegen.toolchain.ocloc import compile_device
from xegpu.dialect.debug import check as check_assertions
from xegpu.dialect.gather_scatter import CreateTdescOp
from xegpu.ir.memref import DescribedOp, is_address
from xegpu.support.errors import DeviceError
from xegpu.target.targets import TARGETS, Target
from xetile.compiler.arguments import Argument
from xetile.compiler.compiled import CompiledKernel
from xetile.dialect.gather_scatter import InitScatteredTileOp
from xetile.runtime.device_executor import check_compatible, packed
from xetile.runtime.grid import Grid
from xetile.runtime.launch_plan import LaunchPlan
from xetile.runtime.machine_arena import Arena, process_memory
from xetile.runtime.machine_findings import check_error

PREFIX = "machine"


class MachineExecutor:
    """Runs the machine code of kernels in a simulator of the GPU.

    Args:
        where: ``"machine:pvc"``, ``"machine:bmg"`` ...: the GPU.
        target: the device that code is made for; None for the GPU's own.
        check: whether to look for what no GPU minds: races and reads before the first write in shared local memory.

    Raises:
        DeviceError: there is no such GPU.
        TargetError: the GPU does not run code for the target.
    """

    def __init__(self, where: str, target: Target | None, check: bool = False) -> None:
        self._gpu = _gpu(where)
        self.device = f"a simulated {self._gpu.name}"
        self.target = target or self._gpu
        self._check = check
        check_compatible(self.target, self._gpu, self.device)

    def copy_in(self, arguments: Sequence[Argument]) -> tuple[Argument, ...]:
        """The arguments with copies of the arrays, between redzones.

        Raises:
            DeviceError: an array is in device memory.
        """
        for argument in arguments:
            if argument.kind == "usm":
                raise argument.not_in_host_memory("the simulator")
        host = [argument for argument in arguments if argument.kind == "numpy"]
        arena = Arena([argument.name for argument in host], [argument.source for argument in host])
        copies = iter(arena.arrays)
        return tuple(replace(a, source=next(copies), kind="usm") if a.kind == "numpy" else a for a in arguments)

    def plan(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> LaunchPlan | None:
        """Keep no plan: each launch copies its arrays."""
        return None

    def run(self, compiled: CompiledKernel, arguments: Sequence[Argument], grid: Grid) -> None:
        """Run the kernel's machine code on arguments that :meth:`copy_in` gave.

        Raises:
            CheckError: a fault of the kernel, at the author's line; or an assertion failed.
            ToolError: ocloc or iga64 is missing, or the compiler refused the kernel.
        """
        compiled.check_registers()
        program = gpu_program(compiled.source, requested_spirv_compiler())
        with suggest_other_compiler(requested_spirv_compiler(), compiled.emitted.name):
            binary = self._build(program)
        words = [_argument_bytes(value) for argument in arguments for value in packed(argument)]
        allocations = _allocations(arguments)
        flags = np.zeros(FLAGS, np.int32)
        if compiled.emitted.assertions:
            words.append(struct.pack("<Q", flags.ctypes.data))
            allocations.append(Allocation("the assertions", flags.ctypes.data, flags.view(np.uint8)))
        groups = grid[2], grid[1], grid[0]
        try:
            if _takes_addresses(compiled.function):
                allocations += process_memory(allocations)
            compiled.execution = launch(binary, program.name, self._gpu.name, words, groups,
                                        (compiled.emitted.local_size, 1, 1), allocations, check=self._check)
        except Finding as finding:
            raise check_error(finding, compiled, lambda: self._build(program, "-gline-tables-only"), program) from None
        check_assertions(compiled.emitted.assertions, flags.tolist())

    def copy_out(self, written: Sequence[int], reachable: Sequence[Argument], arguments: Sequence[Argument]) -> None:
        """Copy what the kernel wrote back to the host arrays."""
        for position in written:
            if arguments[position].kind == "numpy":
                arguments[position].source[...] = reachable[position].source.view

    def _build(self, program: Program, more: str = "") -> bytes:
        return compile_device(program.source, self._gpu.name, f"{program.options} {more}".strip(),
                              spirv=isinstance(program.source, bytes)).data


def _gpu(where: str) -> Target:
    name = where.partition(":")[2]
    found = TARGETS.get(name)
    if found is None or found.ocloc is None:
        known = ", ".join(f'"{PREFIX}:{each.name}"' for each in TARGETS.values() if each.ocloc and each.iga64)
        raise DeviceError("XT1054", f"{where!r} names no GPU whose machine code can be run",
                          f"use one of {known}")
    return found


def _argument_bytes(value: Any) -> bytes:
    """Bytes of an argument as a driver gets them."""
    return bytes(value) if not hasattr(value, "pointer") else struct.pack("<Q", value.pointer)


def _allocations(arguments: Sequence[Argument]) -> list[Allocation]:
    """The arrays of a launch; of arrays in one arena, all that is in it."""
    arenas = {id(a.source.arena): a.source.arena for a in arguments if a.rank is not None}
    return [allocation for arena in arenas.values() for allocation in arena.allocations]


def _takes_addresses(function: func.FuncOp) -> bool:
    """Whether a kernel accesses memory at addresses that are numbers: arguments, or loaded from memory."""
    return any(isinstance(operation, DescribedOp | CreateTdescOp | InitScatteredTileOp)
               and is_address(operation.source.type) for operation in function.walk())
