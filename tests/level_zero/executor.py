"""The software GPU's other process: compiles modules and runs kernels. ``driver/executor.cpp`` starts it.

A message is a list of byte strings, both ways: their number, then each with its length, in 32-bit numbers.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from codegen.simulator.findings import Finding
from codegen.simulator.launch import launch
from codegen.simulator.zebin import KernelRecord, read_kernels
from codegen.toolchain.ocloc import DeviceBinary, _compiled, compile_device, find_ocloc
from codegen.toolchain.spirv import is_spirv
from xegpu.support.errors import ToolError, XeError

_KNOWN_FLAGS = re.compile(
    r"-ze-opt-(disable|level=\d|greater-than-4GB-buffer-required|large-register-file|has-buffer-offset-arg)|-g|-cl-.*"
    r"|-ze-intel-enable-auto-large-GRF-mode|-ze-exp-register-file-size=\d+|-ze-opt-(regular|large)-grf-kernel.*")
"""Build options: Level Zero's, OpenCL's, which Intel's driver takes as well, and Intel's own."""
_PATCHED = re.compile(r"__INTEL|INTEL|_R0")
"""Beginnings of symbols that Intel's driver defines."""


class Executor:
    """Modules by the driver's ids, and what it may ask: the methods ``build``, ``run`` and ``release``.

    Args:
        target: whose machine code runs.
        address: where the device's memory is mapped.
        memory: its bytes.
        fault: the answer for a kernel that failed, ``fault`` or ``finding``.
    """

    def __init__(self, target: str, address: int, memory: np.ndarray, fault: str) -> None:
        self._fault = fault
        self._target, self._address, self._memory = target, address, memory
        self._binaries: dict[bytes, bytes] = {}
        self._kernels: dict[bytes, dict[str, KernelRecord]] = {}

    def build(self, module: bytes, flags: bytes, *modules: bytes) -> list[str]:
        """``built`` with a log, unknown options, missing functions and kernels; or ``refused`` with a log.

        Unknown options are no error: compilers pass over them.
        """
        options = flags.decode()
        unknown = [flag for flag in options.split() if not _KNOWN_FLAGS.fullmatch(flag)]
        if not all(map(is_spirv, modules)):
            return ["refused", "error: the module is no SPIR-V"]
        try:
            binary = _compile(modules, self._target, options)
            kernels = read_kernels(binary.data)
        except XeError as error:
            return ["refused", error.log if getattr(error, "log", "") else str(error)]
        self._binaries[module], self._kernels[module] = binary.data, kernels
        missing = {name for kernel in kernels.values() for name in kernel.undefined if not _PATCHED.match(name)}
        return ["built", binary.log, " ".join(unknown), "\n".join(sorted(missing)), *map(_describe, kernels.values())]

    def run(self, allocations: bytes, module: bytes, name: bytes, groups: bytes, group_size: bytes, offset: bytes,
            *arguments: bytes) -> list[str]:
        """``done``; or with a text ``fault``, which loses the device, or ``finding``."""
        if any(_numbers(offset)):
            return ["finding", "the simulator takes no global offsets"]
        spans = [(begin, self._memory[begin - self._address:][:size])
                 for begin, size in map(_numbers, allocations.splitlines())]
        try:
            launch(self._binaries[module], name.decode(), self._target, arguments, _numbers(groups),
                   _numbers(group_size), spans)
        except Finding as found:
            return [self._fault, str(found)]
        finally:
            sys.stdout.flush()  # what the kernel printed
        return ["done"]

    def release(self, module: bytes) -> list[str]:
        """Forget a module."""
        del self._binaries[module], self._kernels[module]
        return ["done"]


def _compile(modules: Sequence[bytes], target: str, options: str) -> DeviceBinary:
    """Compile a module of SPIR-V; several are linked first: dpnp's kernels with oneMKL's functions."""
    if len(modules) == 1:
        return compile_device(modules[0], target, options, spirv=True)
    with tempfile.TemporaryDirectory(prefix="xetile-") as name:
        command = [find_ocloc(), "link", "-out", "linked.bc", "-out_format", "LLVM_BC"]
        for number, module in enumerate(modules):
            Path(name, f"{number}.spv").write_bytes(module)
            command += ["-file", f"{number}.spv"]
        done = subprocess.run(command, cwd=name, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolError("XT5105", "ocloc does not link these modules", "", log=done.stdout + done.stderr)
        linked = Path(name, "linked.bc").read_bytes()
    # Private: the public functions take source and SPIR-V alone.
    return _compiled(find_ocloc(), linked, target, options, "-llvm_input", ".bin")


def _numbers(text: bytes) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def _describe(kernel: KernelRecord) -> str:
    """A kernel for ``parse_kernel`` of ``driver/modules.cpp``."""
    of = kernel.environment
    group = of.get("required_work_group_size", (0, 0, 0))
    numbers = (kernel.simd_size, kernel.grf_count, kernel.slm_size, of.get("spill_size", 0), of.get("private_size", 0),
               *group)
    return f"{kernel.name}\n{' '.join(map(str, numbers))} {' '.join(_arguments(kernel))}"


def _arguments(kernel: KernelRecord) -> list[str]:
    """Kind and bytes of each argument; a structure is several entries of the payload."""
    kinds: dict[int, str] = {}
    sizes: dict[int, int] = {}
    for entry in kernel.payload_arguments:
        if entry["arg_type"] not in ("arg_bypointer", "arg_byvalue"):
            continue
        index = entry["arg_index"]
        is_pointer = entry["arg_type"] == "arg_bypointer"
        kinds[index] = ("l" if entry.get("addrspace") == "local" else "p") if is_pointer else "v"
        end = 8 if is_pointer else entry.get("source_offset", 0) + entry["size"]
        sizes[index] = max(sizes.get(index, 0), end)
    return [f"{kinds[index]}{sizes[index]}" for index in sorted(kinds)]


def _map(file: int, address: int, size: int) -> np.ndarray:
    """Map a file at a fixed address, where this process has nothing; Python's mmap takes no address."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    fixed_noreplace = 0x100000  # MAP_FIXED_NOREPLACE of <linux/mman.h>
    found = libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | fixed_noreplace, file, 0)
    if found != address:
        raise OSError(ctypes.get_errno(), f"the device's memory cannot be mapped at {address:#x}")
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


def _receive(line: socket.socket) -> list[bytes] | None:
    """A message; None when the other end is closed."""

    def number() -> int:
        found: int = struct.unpack("<I", _receive_exactly(line, 4))[0]
        return found

    try:
        return [_receive_exactly(line, number()) for _ in range(number())]
    except EOFError:
        return None


def _receive_exactly(line: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = line.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def _send(line: socket.socket, message: Sequence[str]) -> None:
    parts = [part.encode() for part in message]
    line.sendall(struct.pack("<I", len(parts)) + b"".join(struct.pack("<I", len(part)) + part for part in parts))


def main() -> None:
    """Answer requests until the driver's process ends. Arguments: socket, file, address and size of the memory."""
    handle, file, address, size = map(int, sys.argv[1:])
    executor = Executor(os.environ["SOFTWARE_GPU_TARGET"], address, _map(file, address, size),
                        os.environ.get("SOFTWARE_GPU_FAULT", "fault"))
    with socket.socket(fileno=handle) as line:
        while (request := _receive(line)) is not None:
            ask, *parts = request
            _send(line, getattr(executor, ask.decode())(*parts))


if __name__ == "__main__":
    main()
