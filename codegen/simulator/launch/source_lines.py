"""Line of a program's source that an instruction was compiled from, by the DWARF debug information of the binary."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from elftools.elf.elffile import ELFFile

_WHOLE_ADDRESS = 1
"""Relocation of 8 bytes (R_ZE_SYM_ADDR); the others have 4."""


def source_line(binary: bytes, kernel: str, offset: int, first: int) -> int | None:
    """Line of an instruction in a kernel's own body: for an instruction of an inlined function, the line of the call.

    Where the compiler tells no call, it is the last line of the body that an instruction before has.

    Args:
        binary: a device binary with debug information.
        kernel: the kernel's name.
        offset: byte offset of the instruction in the kernel's code.
        first: first line of the kernel; functions that it calls stand above.
    """
    elf: Any = ELFFile(BytesIO(_relocated(binary)))
    information = elf.get_dwarf_info(relocate_dwarf_sections=False)
    address = int(elf.get_section_by_name(f".text.{kernel}")["sh_addr"]) + offset
    for unit in information.iter_CUs():
        table = information.line_program_for_CU(unit)
        if table is None:
            continue
        lines = _lines(table, address)
        if lines and lines[-1] >= first:
            return lines[-1]
        if lines:
            calls = (call for call in _calls(information, unit, address) if call >= first)
            return next(calls, next((line for line in reversed(lines) if line >= first), None))
    return None


def _relocated(binary: bytes) -> bytes:
    """The binary with the relocations of its debug information applied: against sections that start at address 0."""
    data = bytearray(binary)
    elf: Any = ELFFile(BytesIO(binary))
    for section in elf.iter_sections():
        if section.name.startswith(".rela.debug"):
            start = elf.get_section(section["sh_info"])["sh_offset"]
            for each in section.iter_relocations():
                size = 8 if each["r_info_type"] == _WHOLE_ADDRESS else 4
                at = start + each["r_offset"]
                data[at:at + size] = int(each["r_addend"]).to_bytes(size, "little")
    return bytes(data)


def _lines(table: Any, address: int) -> list[int]:
    """Lines of the rows at or before an address, in the order of addresses."""
    rows = [(entry.state.address, int(entry.state.line)) for entry in table.get_entries()
            if entry.state is not None and not entry.state.end_sequence and entry.state.line]
    return [line for at, line in sorted(rows, key=lambda row: row[0]) if at <= address]


def _calls(information: Any, unit: Any, address: int) -> Iterator[int]:
    """Lines of the calls that were inlined around an address, the outermost first."""
    for entry in unit.iter_DIEs():
        if entry.tag == "DW_TAG_inlined_subroutine" and "DW_AT_call_line" in entry.attributes and any(
                low <= address < high for low, high in _ranges(information, unit, entry)):
            yield int(entry.attributes["DW_AT_call_line"].value)


def _ranges(information: Any, unit: Any, entry: Any) -> Iterator[tuple[int, int]]:
    """Address ranges of an entry."""
    attributes = entry.attributes
    if "DW_AT_low_pc" in attributes and "DW_AT_high_pc" in attributes:
        low, high = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        yield low, high.value if high.form == "DW_FORM_addr" else low + high.value
    elif "DW_AT_ranges" in attributes:
        for each in information.range_lists().get_range_list_at_offset(attributes["DW_AT_ranges"].value, unit):
            yield each.begin_offset, each.end_offset
