"""Decoder of machine code: the JSON of Intel's disassembler iga64 as :class:`Instruction` records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from codegen.simulator.instruction import (
    DATA_TYPES,
    DataType,
    ImmediateOperand,
    IndirectOperand,
    Instruction,
    LabelOperand,
    Operand,
    Predicate,
    Region,
    Register,
    RegisterOperand,
    Scoreboard,
)
from codegen.toolchain import disk_cache
from codegen.toolchain.process import run_program
from codegen.toolchain.program_path import ExternalProgram
from xegpu.support.errors import TargetError, ToolError
from xegpu.target.targets import TARGETS

# Hexadecimal floats keep every bit of an immediate; expressions of bfn would replace its truth table.
_OPTIONS = ("-Xprint-json", "-Xprint-hex-floats", "-Xno-print-bfnexprs")
_SECONDS = 120  # timeout: 58 KB of code take 50 ms
_COMPACTED, _FULL = 8, 16  # bytes of an instruction
_MODIFIERS = {"": (), "n": ("-",), "a": ("abs",), "na": ("-", "abs")}
_HINT = "install Debian's or Ubuntu's package libigc-tools, or set XETILE_IGA64 to the program"


_IGA64 = ExternalProgram("iga64", "XETILE_IGA64", "Intel's disassembler", "XT5140", "XT5141", _HINT)


def find_iga64() -> str:
    """Find the path of iga64, Intel's disassembler: XETILE_IGA64, else from PATH.

    Raises:
        ToolError: it is not installed.
    """
    return _IGA64.path()


def decoded_targets() -> list[str]:
    """Names of the targets whose machine code iga64 decodes; it has no instruction set later than xe2's."""
    return [target.name for target in TARGETS.values() if target.iga64 is not None]


def decode(code: bytes, target: str) -> tuple[Instruction, ...]:
    """Decode a kernel's code, with its relocations applied.

    Raises:
        TargetError: iga64 does not know the target's instruction set.
        ToolError: iga64 is missing or failed.
    """
    platform = TARGETS[target].iga64 if target in TARGETS else None
    if platform is None:
        raise TargetError("XT5142", f"machine code of {target} cannot be decoded: iga64 knows none later than xe2's",
                          f"use one of {', '.join(decoded_targets())}")
    iga64 = find_iga64()
    text = disk_cache.get_or_compute("iga64", lambda: (code, platform, *_identity(iga64)),
                           lambda: _disassembled(iga64, code, platform))
    return _instructions(json.loads(text))


@cache
def _identity(iga64: str) -> tuple[str, ...]:
    """Identity of the disassembler in cache keys: path, modification time, size."""
    path = shutil.which(iga64) or iga64
    status = os.stat(path)
    return os.path.realpath(path), str(status.st_mtime_ns), str(status.st_size)


def _disassembled(iga64: str, code: bytes, platform: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="xetile-") as name:
        file = Path(name) / "kernel.krn"
        file.write_bytes(code)
        command = [iga64, "-d", f"-p={platform}", *_OPTIONS, str(file)]
        try:
            done = run_program(command, _SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError("XT5143", f"iga64 cannot be run: {error}", _HINT) from error
    if done.returncode != 0 or not done.stdout.startswith(b"{"):
        raise ToolError("XT5143", "iga64 cannot decode the kernel", "see .log of this error",
                        log=(done.stdout + done.stderr).decode(errors="replace"))
    return done.stdout


def _instructions(document: Mapping[str, Any]) -> tuple[Instruction, ...]:
    elements = document["elems"]
    labels: dict[str, int] = {}
    count = 0
    for element in elements:
        if element["kind"] == "L":
            labels[element["symbol"]] = count
        else:
            count += 1
    offset = 0
    found: list[Instruction] = []
    for element in elements:
        if element["kind"] == "I":
            found.append(_instruction(element, len(found), offset, labels))
            offset += _COMPACTED if "Compacted" in element.get("opts", ()) else _FULL
    return tuple(found)


def _instruction(element: Mapping[str, Any], index: int, offset: int, labels: Mapping[str, int]) -> Instruction:
    predicate = element.get("pred")
    destination = element.get("dst")
    is_message = element["op"].startswith("send")
    return Instruction(
        index, offset, element["op"], element.get("subop", ""), element["es"], element.get("eo", 0),
        element.get("wren", False),
        None if predicate is None else Predicate(predicate.get("inv", False), predicate.get("func", "").lstrip(".")),
        element.get("fm", {}).get("cond", ""), _register(element["freg"]) if "freg" in element else None,
        bool(destination and destination.get("sat")),
        None if is_message or destination is None else _destination(destination),
        () if is_message else tuple(_operand(source, labels) for source in element["srcs"] if source is not None),
        _scoreboard(element), frozenset(element.get("opts", ())), element)


def _register(record: Mapping[str, Any]) -> Register:
    return Register(record["rn"], record.get("r", 0), record.get("sr", 0))


def _region(record: Mapping[str, Any] | None) -> Region:
    """Region of an operand; without one (dpas, macros) elements follow each other."""
    if record is None:
        return Region(1, 1, 0)
    return Region(record.get("v"), record.get("w", 1), record["h"])


def _destination(record: Mapping[str, Any]) -> RegisterOperand | IndirectOperand:
    found = _operand({**record, "rgn": record.get("rgn") or {"h": 1}}, {})
    assert isinstance(found, RegisterOperand | IndirectOperand)
    return found


def _operand(record: Mapping[str, Any], labels: Mapping[str, int]) -> Operand:
    if record["kind"] == "LB":
        return LabelOperand(labels[record["target"]])
    kind = DATA_TYPES[record["type"]] if "type" in record else DATA_TYPES["ud"]
    if record["kind"] == "IM":
        return ImmediateOperand(_bits(record["value"], kind), kind)
    modifiers = _MODIFIERS[record.get("mods", "")]
    if record["kind"] == "RI":
        return IndirectOperand(_register(record["areg"]), record["aoff"], _region(record.get("rgn")), kind, modifiers)
    if record["kind"] in ("RD", "RM"):
        return RegisterOperand(_register(record["reg"]), _region(record.get("rgn")), kind, modifiers,
                               record.get("mme", ""))
    raise ToolError("XT5143", f"iga64 gave an operand of kind {record['kind']}",
                    "this simulator knows RD, RI, RM, IM, LB")


def _bits(text: str | int, kind: DataType) -> int:
    """Bits of an immediate: hexadecimal digits are bits, decimal ones a value."""
    return int(str(text), 0) % (1 << 8 * kind.bytes)


def _scoreboard(element: Mapping[str, Any]) -> Scoreboard:
    distance, token = element.get("regDist", ""), element.get("sbid")
    pipe, _, count = distance.partition("@")
    return Scoreboard(pipe, int(count) if count else 0, None if token is None else token["id"],
                      "" if token is None else token["func"].lstrip("."))
