"""Launch of a kernel of a device binary: payload, memory, print buffer, simulation, counts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.findings import Finding
from codegen.simulator.launch import print_buffer
from codegen.simulator.launch.payload import Sizes, cross_thread_data, implicit_arguments, surfaces
from codegen.simulator.memory import Memory
from codegen.simulator.memory.global_memory import Allocation
from codegen.simulator.simulator import load, run
from codegen.simulator.threads import THREAD_IDS


@dataclass(frozen=True)
class Execution:
    """Counts of a launch.

    Attributes:
        groups: work-groups.
        instructions: instructions executed, by category; those of all threads.
        traffic: bytes moved, by kind of message; those of all lanes that took part.
    """

    groups: int
    instructions: Mapping[str, int]
    traffic: Mapping[str, int]


def launch(binary: bytes, kernel: str, target: str, arguments: Sequence[bytes], groups: Sizes, group_size: Sizes,
           allocations: Sequence[Allocation | tuple[int, NDArray[np.uint8]]], *, check: bool = False) -> Execution:
    """Run a kernel to its end.

    Args:
        binary: the device binary.
        kernel: the kernel's name in it.
        target: the target that it was compiled for.
        arguments: bytes of each argument, as a driver gets them; pointers as addresses of 8 bytes.
        groups: work-groups along x, y, z.
        group_size: work-items of a work-group along x, y, z.
        allocations: all memory that it may access; as pairs of address and bytes they have no names.
        check: whether to look for uses of shared local memory and of registers that hardware does not mind: races,
            reads before the first write.

    Raises:
        Finding: a fault of the kernel.
        ToolError: no disassembler, or no such kernel.
    """
    program = load(binary, kernel, target)
    memory = Memory(check_shared=check)
    memory.word_slack = any(message.operation in ("icas", "fcas") for message in program.messages.values())
    for each in allocations:
        memory.globals.register(each if isinstance(each, Allocation) else Allocation("an allocation", *each))
    sections = program.kernel.sections
    for section in sections:
        data = np.frombuffer(bytearray(section.data), np.uint8)
        memory.globals.register(Allocation(section.name, section.address, data))
    records = program.kernel.payload_arguments
    buffer = None
    if any(record["arg_type"] == "printf_buffer" for record in records):
        buffer = print_buffer.new_buffer()
        memory.globals.register(Allocation("the print buffer", buffer.ctypes.data, buffer))
    private = np.zeros(program.kernel.private_bytes * THREAD_IDS, np.uint8)  # touched by those alone that there are
    if len(private):
        memory.globals.register(Allocation("private memory", private.ctypes.data, private))
    implicit = implicit_arguments(groups, group_size, {each.name: each.address for each in sections},
                                  0 if buffer is None else buffer.ctypes.data, private.ctypes.data)
    memory.surfaces = surfaces(records, arguments, implicit)
    payload = cross_thread_data(records, arguments, implicit)
    counts = run(program, memory, payload, groups, group_size)
    if buffer is not None:
        _print(buffer, {section.address: section.data for section in sections})
    return Execution(prod(groups), counts, Counter(memory.traffic))


def _print(buffer: NDArray[np.uint8], strings: Mapping[int, bytes]) -> None:
    """Write the kernel's prints to standard output."""
    def string_at(address: int) -> bytes:
        for base, data in strings.items():
            if base <= address < base + len(data):
                return data[address - base:].partition(b"\0")[0]
        raise Finding("XT6109", f"printed with a format at {address:#x}, where there is none", "print a constant text")

    sys.stdout.write("".join(print_buffer.printed(buffer, string_at)))
    sys.stdout.flush()
