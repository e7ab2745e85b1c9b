"""Device binaries (zebin, ELF): a kernel's code with its relocations applied, and what its launch needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import Any

import yaml
from elftools.elf.elffile import ELFFile

from xegpu.support.errors import ToolError

CROSS_THREAD_OFFSET = "__INTEL_PATCH_CROSS_THREAD_OFFSET_OFF_R0"
"""Symbol for the offset of the cross-thread data behind r0.0: zero, per-thread data are in registers."""
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader  # libyaml's parser takes a twentieth
CONSTANTS_ADDRESS = 0x6000_0000_0000
"""Where the first data section stands in the address space; a page between each and the next."""
_PAGE = 4096
_SYMBOL_TABLE = "Intel_Symbol_Table_Void_Program"  # an empty kernel that the compiler adds for global symbols
# R_ZE_SYM_ADDR, R_ZE_SYM_ADDR_32, R_ZE_SYM_ADDR_32_HI, R_PER_THREAD_PAYLOAD_OFFSET: bytes, and the shift of the value
_RELOCATIONS = {1: (8, 0), 2: (4, 0), 3: (4, 32), 4: (4, 0)}


@dataclass(frozen=True)
class DataSection:
    """Section of constants or variables that the code refers to, at its address."""

    name: str
    address: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class KernelRecord:
    """Kernel of a device binary.

    Attributes:
        code: its instructions, relocations applied.
        sections: the binary's data, which must be in memory at their addresses while it runs.
        information: its record in ``.ze_info``.
        undefined: symbols that its code refers to and that nothing defines.
        entry: byte offset of the first instruction that runs, behind the part that loads per-thread data.
    """

    name: str
    code: bytes = field(repr=False)
    sections: tuple[DataSection, ...]
    information: Mapping[str, Any] = field(repr=False)
    undefined: tuple[str, ...]

    @property
    def environment(self) -> Mapping[str, Any]:
        """``execution_env`` of the record."""
        found: Mapping[str, Any] = self.information["execution_env"]
        return found

    @property
    def payload_arguments(self) -> Sequence[Mapping[str, Any]]:
        """Arguments in the cross-thread data: ``arg_type``, ``offset``, ``size``, ``arg_index`` ..."""
        return self.information.get("payload_arguments") or []

    @property
    def per_thread_payload(self) -> Sequence[Mapping[str, Any]]:
        """Data of each thread in registers from r1: ``arg_type``, ``offset``, ``size``."""
        return self.information.get("per_thread_payload_arguments") or []

    @property
    def entry(self) -> int:
        """Byte offset of the first instruction that runs: per-thread data come in registers, as hardware fills them."""
        return int(self.environment.get("offset_to_skip_per_thread_data_load", 0))

    @property
    def simd_size(self) -> int:
        """Work-items of a thread."""
        return int(self.environment["simd_size"])

    @property
    def grf_count(self) -> int:
        """General registers of a thread."""
        return int(self.environment["grf_count"])

    @property
    def slm_size(self) -> int:
        """Bytes of shared local memory of a work-group, without local memory arguments."""
        return int(self.environment.get("slm_size", 0))

    @property
    def barrier_count(self) -> int:
        """Barriers of a work-group."""
        return int(self.environment.get("barrier_count", 0))

    @property
    def inline_bytes(self) -> int:
        """Bytes of cross-thread data that come in registers."""
        return int(self.environment.get("inline_data_payload_size", 0))

    @cached_property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory of a thread: spilled registers and private arrays."""
        return sum(int(each["size"]) for each in self._buffers if each.get("type") == "scratch")

    @property
    def private_bytes(self) -> int:
        """Bytes of private memory of a thread that lie in a buffer of the driver's, not in scratch memory."""
        return sum(int(each["size"]) * (self.simd_size if each.get("is_simt_thread") else 1) for each in self._buffers
                   if each.get("type") == "global" and each.get("usage") == "private_space")

    @property
    def _buffers(self) -> Sequence[Mapping[str, Any]]:
        return self.information.get("per_thread_memory_buffers") or []


def read_kernels(binary: bytes) -> dict[str, KernelRecord]:
    """Kernels of a device binary by name, in its order.

    Raises:
        ToolError: it is no device binary, or has a relocation that is not known.
    """
    try:
        elf: Any = ELFFile(BytesIO(binary))
        text = elf.get_section_by_name(".ze_info").data().decode()
    except Exception as error:  # pyelftools raises many kinds for bytes that are no ELF
        raise ToolError("XT5146", f"this is not a device binary of Intel's compiler: {error}",
                        "compile for a device that ocloc knows") from error
    information = yaml.load(text.replace("\0", ""), _LOADER)
    sections = _data_sections(elf)
    return {record["name"]: _kernel(elf, record, sections) for record in information["kernels"]
            if record["name"] != _SYMBOL_TABLE}


def _data_sections(elf: Any) -> tuple[DataSection, ...]:
    """Sections ``.data.*`` and ``.bss.*``, laid out one after the other."""
    address = CONSTANTS_ADDRESS
    found: list[tuple[str, int, bytes]] = []
    for section in elf.iter_sections():
        if section.name.startswith((".data.", ".bss.")) and section["sh_size"]:
            data = section.data() if section["sh_type"] != "SHT_NOBITS" else bytes(section["sh_size"])
            found.append((section.name, address, data))
            address += -(-len(data) // _PAGE) * _PAGE + _PAGE
    bases = {name: base for name, base, _ in found}
    return tuple(DataSection(name, base, _linked(elf, name, data, bases)[0]) for name, base, data in found)


def _kernel(elf: Any, record: Mapping[str, Any], sections: tuple[DataSection, ...]) -> KernelRecord:
    name = f".text.{record['name']}"
    code = elf.get_section_by_name(name).data()
    linked, undefined = _linked(elf, name, code, {each.name: each.address for each in sections})
    return KernelRecord(record["name"], linked, sections, record, undefined)


def _linked(elf: Any, name: str, data: bytes, bases: Mapping[str, int]) -> tuple[bytes, tuple[str, ...]]:
    """A section's bytes with its relocations applied, and the symbols that are not defined."""
    linked, undefined = bytearray(data), []
    for prefix in (".rel", ".rela"):
        table = elf.get_section_by_name(prefix + name)
        if table is None:
            continue
        symbols = elf.get_section(table["sh_link"])
        for relocation in table.iter_relocations():
            symbol = symbols.get_symbol(relocation["r_info_sym"])
            if relocation["r_info_type"] not in _RELOCATIONS:
                raise ToolError("XT5146", f"relocation of type {relocation['r_info_type']} in {name}",
                                "this simulator knows types 1 to 4")
            size, shift = _RELOCATIONS[relocation["r_info_type"]]
            at = relocation["r_offset"]
            addend = relocation["r_addend"] if prefix == ".rela" else 0  # what stands there is a filler
            value = _symbol_value(elf, symbol, bases)
            if value is None:
                undefined.append(symbol.name)
                continue
            linked[at:at + size] = (((value + addend) >> shift) % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(linked), tuple(undefined)


def _symbol_value(elf: Any, symbol: Any, bases: Mapping[str, int]) -> int | None:
    """Address of a symbol; None if nothing that this simulator loads defines it."""
    if symbol.name == CROSS_THREAD_OFFSET:
        return 0
    if symbol["st_shndx"] == "SHN_UNDEF":
        return None
    base = bases.get(elf.get_section(symbol["st_shndx"]).name)
    return None if base is None else base + int(symbol["st_value"])
