"""Execution state that the instructions of a block share: threads and lanes that run, rounding mode, flags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.instruction import Register
from codegen.simulator.threads import Threads


class UnknownInstruction(Exception):
    """Instruction, or form of one, that is not modelled."""


@dataclass
class Execution:
    """State that the instructions of a block share while they run.

    Attributes:
        rows: threads that run, (T,).
        lanes: lanes that run, (T, 32).
        all_rows: whether every thread runs.
        full: whether every lane of every thread runs that a thread can have.
        rounding: mode of cr0: 0 to even, 1 up, 2 down, 3 to zero.
        width: lanes that a thread can have.
    """

    rows: NDArray[np.bool_]
    lanes: NDArray[np.bool_]
    width: int
    all_rows: bool = False
    full: bool = False
    rounding: int = 0


def flag_bits(threads: Threads, register: Register, size: int) -> NDArray[np.bool_]:
    """View of the bits of a flag register operand of ``size`` bytes: (T, bits)."""
    first = 8 * size * register.subregister
    return threads.flag[register.number, :, first:first + 8 * size]


def rounding_mode(control: NDArray[np.uint8], rows: NDArray[np.bool_]) -> int:
    """Rounding mode of the threads that run: bits 5:4 of cr0.0.

    Raises:
        UnknownInstruction: they differ.
    """
    modes = np.unique(control[0, rows, 0] >> 4 & 3)
    if len(modes) > 1:
        raise UnknownInstruction("threads with different rounding modes at one instruction")
    return int(modes[0]) if len(modes) else 0
