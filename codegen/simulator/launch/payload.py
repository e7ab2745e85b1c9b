"""Cross-thread data: the arguments of a launch as ``.ze_info`` lays them out for the kernel."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from codegen.simulator.findings import Finding

Sizes = tuple[int, int, int]
_SURFACE_STATE = 64
"""Bytes from one surface state to the next: offsets of buffers that are addressed by them are its multiples."""


_CONSTANTS = 0
"""Number of the surface state of the binary's constants; those of arguments follow."""


def surface_offset(record: Mapping[str, Any]) -> int:
    """Offset of the surface state of a bindless argument's buffer; none is 0."""
    number = _CONSTANTS if record["arg_type"] == "const_base" else int(record["arg_index"]) + 1
    return (number + 1) * _SURFACE_STATE


def surfaces(records: Sequence[Mapping[str, Any]], arguments: Sequence[bytes],
             implicit: Mapping[str, bytes]) -> dict[int, int]:
    """Addresses of the buffers behind the offsets of surface states."""
    return {surface_offset(each): int.from_bytes(
        implicit["const_base"] if each["arg_type"] == "const_base" else arguments[int(each["arg_index"])], "little")
        for each in records if each.get("addrmode") == "bindless"}


def implicit_arguments(groups: Sizes, group_size: Sizes, sections: Mapping[str, int], print_buffer: int,
                       private: int) -> dict[str, bytes]:
    """Arguments that the compiler adds, by their kind.

    Args:
        groups: work-groups along x, y, z.
        group_size: work-items of a work-group along x, y, z.
        sections: addresses of the binary's data sections.
        print_buffer: address of the buffer for ``printf``.
        private: address of all threads' private memory.
    """
    dimensions = max((axis for axis in (3, 2) if groups[axis - 1] * group_size[axis - 1] > 1), default=1)
    local, count = struct.pack("<3I", *group_size), struct.pack("<3I", *groups)
    return {
        "local_size": local, "enqueued_local_size": local, "group_count": count,
        "global_size": struct.pack("<3I", *(a * b for a, b in zip(groups, group_size, strict=True))),
        "work_dimensions": struct.pack("<I", dimensions),
        "const_base": struct.pack("<Q", sections.get(".data.const", sections.get(".bss.const", 0))),
        "global_base": struct.pack("<Q", sections.get(".data.global", sections.get(".bss.global", 0))),
        "printf_buffer": struct.pack("<Q", print_buffer),
        "private_base_stateless": struct.pack("<Q", private),
        "buffer_offset": b"",  # pointers start where their buffers do
        "global_id_offset": b"",  # ids start at 0
    }


def cross_thread_data(records: Sequence[Mapping[str, Any]], arguments: Sequence[bytes],
                      implicit: Mapping[str, bytes]) -> bytes:
    """Lay out the arguments of a launch.

    Args:
        records: ``payload_arguments`` of the kernel's ``.ze_info``.
        arguments: bytes of each of its arguments, pointers as 8 bytes.
        implicit: what :func:`implicit_arguments` gives.

    Raises:
        Finding: a record that this simulator does not know.
    """
    size = max((int(each["offset"]) + int(each["size"]) for each in records), default=0)
    data = bytearray(size)
    for each in records:
        offset, length = int(each["offset"]), int(each["size"])
        data[offset:offset + length] = _argument_bytes(each, arguments, implicit)[:length].ljust(length, b"\0")
    return bytes(data)


def _argument_bytes(record: Mapping[str, Any], arguments: Sequence[bytes], implicit: Mapping[str, bytes]) -> bytes:
    kind = record["arg_type"]
    if record.get("addrmode") == "bindless":
        return struct.pack("<I", surface_offset(record))
    if kind in ("arg_bypointer", "arg_byvalue"):
        start = int(record.get("source_offset", 0))
        return arguments[int(record["arg_index"])][start:]
    if kind not in implicit:
        raise Finding("XT6109", f"the kernel has the implicit argument {kind}, which is not simulated",
                      "those that OpenCL C and the language's operations are compiled to are; report this one with "
                      "the kernel")
    return implicit[kind]
