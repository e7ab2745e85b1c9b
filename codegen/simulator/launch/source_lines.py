"""Line of a program's source that an instruction was compiled from, by the DWARF debug information of the binary."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from elftools.elf.elffile import ELFFile


def source_line(binary: bytes, kernel: str, offset: int, first: int) -> int | None:
    """Line of an instruction in a kernel's own body: for an instruction of an inlined function, the line of the call.

    Args:
        binary: a device binary with debug information.
        kernel: the kernel's name.
        offset: byte offset of the instruction in the kernel's code.
        first: first line of the kernel; functions that it calls stand above.
    """
    elf = ELFFile(BytesIO(binary))
    information = elf.get_dwarf_info(relocate_dwarf_sections=False)
    base = _base(elf, kernel)
    for unit in information.iter_CUs():
        table = information.line_program_for_CU(unit)
        if table is None:
            continue
        line = _table_line(table, base + offset)
        if line is not None and line < first:
            calls = [call for call in _calls(information, unit, base + offset) if call >= first]
            return calls[0] if calls else line
        if line is not None:
            return line
    return None


def _base(elf: Any, kernel: str) -> int:
    """Address that the debug information gives the kernel's code: it is not linked, and its sections start at 0."""
    section = elf.get_section_by_name(f".text.{kernel}")
    return int(section["sh_addr"])


def _table_line(table: Any, address: int) -> int | None:
    """Line of the last row at or before an address."""
    found, best = None, -1
    for entry in table.get_entries():
        state = entry.state
        if state is not None and not state.end_sequence and best < state.address <= address and state.line:
            found, best = int(state.line), state.address
    return found


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
