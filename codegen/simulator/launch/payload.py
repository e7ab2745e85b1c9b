"""Cross-thread data: the arguments of a launch as ``.ze_info`` lays them out for the kernel."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from codegen.simulator.findings import Finding

Sizes = tuple[int, int, int]
_SURFACE_STATE = 64
"""Bytes from one surface state to the next: offsets of buffers that are addressed by them are its multiples."""


def surface_offset(argument: int) -> int:
    """Offset of the surface state of an argument's buffer; none is 0."""
    return (argument + 1) * _SURFACE_STATE


def cross_thread_data(records: Sequence[Mapping[str, Any]], arguments: Sequence[bytes], groups: Sizes,
                      group_size: Sizes, print_buffer: int = 0) -> bytes:
    """Lay out the arguments of a launch.

    Args:
        records: ``payload_arguments`` of the kernel's ``.ze_info``.
        arguments: bytes of each of its arguments, pointers as 8 bytes.
        groups: work-groups along x, y, z.
        group_size: work-items of a work-group along x, y, z.
        print_buffer: address of the buffer for ``printf``.

    Raises:
        Finding: a record that this simulator does not know.
    """
    size = max((int(each["offset"]) + int(each["size"]) for each in records), default=0)
    data = bytearray(size)
    for each in records:
        offset, length = int(each["offset"]), int(each["size"])
        value = _value(each, arguments, groups, group_size, print_buffer)
        data[offset:offset + length] = value[:length].ljust(length, b"\0")
    return bytes(data)


def _value(record: Mapping[str, Any], arguments: Sequence[bytes], groups: Sizes, group_size: Sizes,
           print_buffer: int) -> bytes:
    kind = record["arg_type"]
    if kind == "arg_bypointer" and record.get("addrmode") == "bindless":
        return struct.pack("<I", surface_offset(int(record["arg_index"])))
    if kind in ("arg_bypointer", "arg_byvalue"):
        start = int(record.get("source_offset", 0))
        return arguments[int(record["arg_index"])][start:]
    if kind in ("local_size", "enqueued_local_size"):
        return struct.pack("<3I", *group_size)
    if kind == "group_count":
        return struct.pack("<3I", *groups)
    if kind == "global_size":
        return struct.pack("<3I", *(count * size for count, size in zip(groups, group_size, strict=True)))
    if kind == "work_dimensions":
        return struct.pack("<I", 3 if groups[2] * group_size[2] > 1 else 2 if groups[1] * group_size[1] > 1 else 1)
    if kind == "printf_buffer":
        return struct.pack("<Q", print_buffer)
    if kind in ("buffer_offset", "global_id_offset"):  # pointers start where their buffers do, and ids at 0
        return b""
    raise Finding("XT6109", f"has the implicit argument {kind}, which is not simulated",
                  "kernels of this package do without it; report this one with the kernel")
