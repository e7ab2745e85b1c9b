"""Assembled instructions, executed on a few threads with random registers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from codegen.simulator.alu.arith import BUILDERS
from codegen.simulator.alu.operands import Binding
from codegen.simulator.decoder import decode, find_iga64
from codegen.simulator.scheduler import new_execution
from codegen.simulator.threads import Threads
from xegpu.target.targets import TARGETS

THREADS, REGISTERS = 3, 32
_NUMPY = {"ub": "u1", "w": "i2", "uw": "u2", "d": "i4", "ud": "u4", "q": "i8", "f": "f4", "hf": "f2", "df": "f8"}


class Machine:
    """Threads with random registers, and a copy of what those were."""

    def __init__(self, target: str, folder: Path, seed: int = 1) -> None:
        self.target, self._folder = target, folder
        number = np.arange(THREADS)
        width = 32 if target == "dg2" else 64
        self.threads = Threads.allocate(REGISTERS, width, number * 0, number, np.zeros((THREADS, 3), np.int64))
        random = np.random.default_rng(seed)
        self.threads.grf[...] = random.integers(0, 256, self.threads.grf.shape)
        self.threads.flag[...] = random.integers(0, 2, self.threads.flag.shape)
        self.execution = new_execution(self.threads, 16)
        self.execution.rows[...] = True
        self.execution.lanes[:, :16] = random.integers(0, 2, (THREADS, 16))
        self.execution.all_rows = True
        self.before = self.bytes()

    def bytes(self) -> np.ndarray[Any, Any]:
        """General registers of each thread: (T, bytes)."""
        return self.threads.payload(0, REGISTERS).reshape(THREADS, -1).copy()

    def run(self, text: str) -> np.ndarray[Any, Any]:
        """Assemble and execute instructions; the registers after them."""
        source, code = self._folder / "code.asm", self._folder / "code.krn"
        source.write_text(text)
        platform = TARGETS[self.target].iga64
        subprocess.run([find_iga64(), "-a", f"-p={platform}", str(source), "-o", str(code)], check=True)
        with np.errstate(all="ignore"):
            for instruction in decode(code.read_bytes(), self.target):
                BUILDERS[instruction.op](Binding(instruction, self.threads, self.execution))()
        return self.bytes()

    def expect(self, position: int, value: Any, kind: str, thread: int) -> None:
        """Write an element into the registers as they are expected: at a byte of a thread."""
        raw = np.array(value).astype(_NUMPY[kind]).tobytes()
        self.before[thread, position:position + len(raw)] = np.frombuffer(raw, np.uint8)

    def element(self, position: int, kind: str, thread: int) -> Any:
        """An element of the registers as they were."""
        size = np.dtype(_NUMPY[kind]).itemsize
        return self.before[thread, position:position + size].view(_NUMPY[kind])[0]
