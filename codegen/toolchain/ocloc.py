"""Driver of Intel's offline compiler, ocloc: device binaries, SPIR-V, disassembly and register statistics."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from codegen.toolchain import disk_cache
from codegen.toolchain.compile_error import refusal
from codegen.toolchain.process import run_program
from codegen.toolchain.program_path import ExternalProgram
from codegen.toolchain.spirv import is_spirv
from xegpu.support.errors import TargetError, ToolError
from xegpu.target.targets import TARGETS

_LENGTH = 8
_SECONDS = 600  # timeout: a compiler that takes longer hangs
_HINT = "install Debian's or Ubuntu's package intel-ocloc, or set XETILE_OCLOC to the program"
_OTHER = "what it printed is in .log of this error; xetile was written for ocloc 26 with libiga64 beside it"


@dataclass(frozen=True)
class DeviceBinary:
    """Device binary (zebin, ELF) with the compiler's log."""

    target: str
    data: bytes = field(repr=False)
    log: str = ""


@dataclass(frozen=True)
class KernelFacts:
    """Kernel of a device binary: its assembly and its ``.ze_info`` statistics.

    Attributes:
        spill_size, private_size: bytes of spill and private memory a thread. Both matter: arrays that do not fit into
            registers go to private memory with a spill size of zero.
        slm_size: bytes of shared local memory a work-group.
        grf_count: registers a thread.
        simd_size: work-items a subgroup.
    """

    name: str
    asm: str = field(repr=False)
    spill_size: int = 0
    private_size: int = 0
    slm_size: int = 0
    grf_count: int = 0
    simd_size: int = 0


@dataclass(frozen=True)
class Disassembly:
    """Disassembly of a device binary: its kernels by name, in the binary's order."""

    target: str
    kernels: Mapping[str, KernelFacts]

    def __str__(self) -> str:
        return "\n".join(f"// {name}\n{kernel.asm}" for name, kernel in self.kernels.items())


_OCLOC = ExternalProgram("ocloc", "XETILE_OCLOC", "Intel's offline compiler", "XT5101", "XT5102", _HINT)


def find_ocloc() -> str:
    """Find the path of ocloc: XETILE_OCLOC, else from PATH.

    Raises:
        ToolError: it is not installed.
    """
    return _OCLOC.path()


def has_ocloc() -> bool:
    """Whether ocloc is installed."""
    try:
        return bool(find_ocloc())
    except ToolError:
        return False


def compile_device(source: str | bytes, target: str, options: str = "", spirv: bool = False) -> DeviceBinary:
    """Compile OpenCL C, or with ``spirv`` SPIR-V, to a device binary; memoized per process.

    Raises:
        TargetError: a target that ocloc has no device for.
        ToolError: ocloc is missing or failed; ``log`` is all that it printed.
    """
    return _compiled(_ocloc_for(target), source, target, options, "-spirv_input" if spirv else "", ".bin")


def compile_spirv(source: str, target: str, options: str = "") -> bytes:
    """Compile OpenCL C to SPIR-V, with the target's extensions; memoized per process.

    Raises:
        TargetError: a target that ocloc has no device for.
        ToolError: ocloc is missing or failed; ``log`` is all that it printed.
    """
    return _compiled(_ocloc_for(target), source, target, options, "-spv_only", ".spv").data


def _ocloc_for(target: str) -> str:
    """Path of ocloc; an unsupported target is an error whether ocloc is installed or not."""
    _device_name(target)
    return find_ocloc()


@cache
def _compiled(ocloc: str, source: str | bytes, target: str, options: str, mode: str, suffix: str) -> DeviceBinary:
    stored = disk_cache.get_or_compute("ocloc", lambda: (source, target, options, mode, *_identity(ocloc)),
                             lambda: _stored(_compile(ocloc, source, target, options, mode, suffix)))
    size = int.from_bytes(stored[:_LENGTH], "little") + _LENGTH
    return DeviceBinary(target, stored[size:], stored[_LENGTH:size].decode())


def _stored(binary: DeviceBinary) -> bytes:
    """Serialize a binary for the disk cache: length of the log, log, binary."""
    log = binary.log.encode()
    return len(log).to_bytes(_LENGTH, "little") + log + binary.data


@cache
def _identity(ocloc: str) -> tuple[str, ...]:
    """Identity of the compiler in cache keys: path, modification time, version."""
    status = os.stat(shutil.which(ocloc) or ocloc)
    with tempfile.TemporaryDirectory(prefix="xetile-") as name:
        try:
            version = _run([ocloc, "query", "OCL_DRIVER_VERSION"], Path(name), "ocloc does not say its version")
        except ToolError:  # an older one
            version = ""
        files = "".join(file.read_text(errors="replace") for file in sorted(Path(name).iterdir()))
    return os.path.realpath(ocloc), str(status.st_mtime_ns), str(status.st_size), version, files


def _compile(ocloc: str, source: str | bytes, target: str, options: str, mode: str, suffix: str) -> DeviceBinary:
    device = _device_name(target)
    with tempfile.TemporaryDirectory(prefix="xetile-") as name:
        folder = Path(name)
        file = folder / "kernel.cl"
        file.write_bytes(source.encode() if isinstance(source, str) else source)
        command = [ocloc, "compile", "-file", file.name, "-device", device, "-out_dir", "out"]
        command += ["-options", with_standard(options), *([mode] if mode else [])]
        log = _run(command, folder, f"ocloc failed for {target}")
        return DeviceBinary(target, _only_file(folder / "out", suffix, log), log)


@cache
def disassemble(binary: DeviceBinary) -> Disassembly:
    """Disassemble every kernel of a binary, with its statistics; memoized per process.

    Raises:
        ToolError: ocloc is missing or failed, or cannot decode this device.
    """
    ocloc = find_ocloc()
    stored = disk_cache.get_or_compute("disassembly", lambda: (binary.data, binary.target, *_identity(ocloc)),
                             lambda: json.dumps(_disassembled(ocloc, binary)).encode())
    return Disassembly(binary.target, {name: KernelFacts(**facts) for name, facts in json.loads(stored).items()})


def _disassembled(ocloc: str, binary: DeviceBinary) -> dict[str, dict[str, str | int]]:
    """Fields of each kernel's :class:`KernelFacts`, by its name."""
    with tempfile.TemporaryDirectory(prefix="xetile-") as name:
        folder = Path(name)
        (folder / "kernel.bin").write_bytes(binary.data)
        device = _device_name(binary.target)
        command = [ocloc, "disasm", "-file", "kernel.bin", "-device", device, "-dump", "dump"]
        log = _run(command, folder, f"ocloc cannot disassemble for {binary.target}")
        return _read_dump(folder / "dump", log)


def _read_dump(dump: Path, log: str) -> dict[str, dict[str, str | int]]:
    information = dump / ".ze_info"
    if not information.exists():
        raise ToolError("XT5103", "ocloc's disassembly holds no .ze_info", _OTHER, log=log)
    kernels: dict[str, dict[str, str | int]] = {}
    for name, facts in read_ze_info(information.read_text()).items():
        text = dump / f".text.{name}.asm"
        if not text.exists():
            raise ToolError("XT5103",
                            f"ocloc could not decode kernel {name}", _OTHER, log=log)
        kernels[name] = {"name": name, "asm": text.read_text(), **facts}
    return kernels


def read_ze_info(text: str) -> dict[str, dict[str, int]]:
    """Parse the sizes of each kernel in a binary's ``.ze_info``; zero ones are left out."""
    kernels: dict[str, dict[str, int]] = {}
    facts: dict[str, int] = {}
    for line in text.split("kernels_misc_info:")[0].splitlines():
        if match := re.match(r"  - name: +'?([^\s']+)", line):
            facts = kernels.setdefault(match[1], {})
        elif match := re.match(r"      (spill_size|private_size|slm_size|grf_count|simd_size): +(\d+)", line):
            facts[match[1]] = int(match[2])
    # The compiler adds an empty kernel of this name to binaries with global symbols.
    kernels.pop("Intel_Symbol_Table_Void_Program", None)
    return kernels


def _device_name(target: str) -> str:
    """The name that ocloc's ``-device`` takes."""
    found = TARGETS[target].ocloc if target in TARGETS else None
    if found is None:
        having = ", ".join(other.name for other in TARGETS.values() if not other.is_cpu)
        raise TargetError("XT5104", f"ocloc compiles nothing for target {target!r}", f"use one of {having}")
    return found


def with_standard(options: str) -> str:
    """Build options with ``-cl-std``: ocloc's default is CL1.2, which lacks the Intel extensions that kernels use."""
    return options if "-cl-std=" in options else f"-cl-std=CL3.0 {options}".rstrip()


def _run(command: list[str], folder: Path, failure: str) -> str:
    """Run a program and return its output; bytes that are not UTF-8 are replaced."""
    try:
        done = run_program(command, _SECONDS, folder=folder)
    except subprocess.TimeoutExpired as error:
        raise ToolError("XT5105", f"{failure}: it did not end within {_SECONDS} s",
                        "smaller tiles, and loops that are not unrolled, make less code to compile") from error
    except OSError as error:
        raise ToolError("XT5105", f"{failure}: {error}", _HINT) from error
    log = (done.stdout + done.stderr).decode(errors="replace").replace("\0", "")
    if done.returncode != 0:
        raise refusal(failure, log, _source_in(folder))
    return log


def _source_in(folder: Path) -> str:
    """OpenCL C source in a program's folder; empty for SPIR-V, whose lines no log names."""
    data = next((file.read_bytes() for file in folder.glob("*.cl")), b"")
    return "" if is_spirv(data) else data.decode()


def _only_file(folder: Path, suffix: str, log: str) -> bytes:
    found = sorted(folder.glob(f"*{suffix}"))
    if len(found) != 1:
        raise ToolError("XT5103", f"ocloc reported success, but left {len(found)} {suffix} files", _OTHER, log=log)
    return found[0].read_bytes()
