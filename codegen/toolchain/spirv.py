"""SPIR-V reader: entry points and imported functions of a module."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

MAGIC = 0x07230203
_HEADER_WORDS = 5  # magic, version, generator, bound, schema
_ENTRY_POINT, _DECORATE = 15, 71  # opcodes OpEntryPoint, OpDecorate
_LINKAGE, _IMPORT = 41, 1  # decoration LinkageAttributes, linkage type Import


def is_spirv(data: bytes) -> bool:
    """Whether bytes begin with SPIR-V's magic number."""
    return len(data) >= 4 * _HEADER_WORDS and int.from_bytes(data[:4], "little") == MAGIC


def entry_points(data: bytes) -> list[str]:
    """Names of a module's kernels (OpEntryPoint), in order."""
    return [_literal_string(words[2:]) for opcode, words in _instructions(data) if opcode == _ENTRY_POINT]


def imports(data: bytes) -> list[str]:
    """Names of a module's imported symbols, sorted, without built-in variables such as the work-group's id."""
    names = {_literal_string(words[2:]) for opcode, words in _instructions(data)
             if opcode == _DECORATE and words[1] == _LINKAGE and words[-1] == _IMPORT}
    return sorted(name for name in names if not name.startswith("__spirv_BuiltIn"))


def demangled_name(symbol: str) -> str:
    """Name of a function without the types of its arguments, which C++'s mangling adds: ``f`` of ``_Z1fPi``."""
    mangled = re.match(r"_Z(\d+)", symbol)
    return symbol[mangled.end():mangled.end() + int(mangled[1])] if mangled else symbol


def _instructions(data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Opcode and operands of every instruction."""
    words = struct.unpack(f"<{len(data) // 4}I", data[:len(data) // 4 * 4])
    at = _HEADER_WORDS
    while at < len(words):
        count, opcode = words[at] >> 16, words[at] & 0xFFFF
        if count == 0:
            return
        yield opcode, words[at + 1:at + count]
        at += count


def _literal_string(words: tuple[int, ...]) -> str:
    """Decode the null-terminated literal string at the beginning of operands."""
    return struct.pack(f"<{len(words)}I", *words).split(b"\0", 1)[0].decode(errors="replace")
