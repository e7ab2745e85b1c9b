"""Math functions: computed in float64 and rounded, or off by up to a unit in the last place, as hardware may be."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable

import numpy as np

from codegen.simulator.alu.operands import Binding, Step
from codegen.simulator.alu.regions import Array

VARIABLE = "XETILE_MATH_ERRORS"
"""Environment variable: a seed of errors of up to a unit in the last place. Without it results are the nearest ones."""

_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "inv": lambda a: 1 / a, "sqt": np.sqrt, "rsqt": lambda a: 1 / np.sqrt(a), "exp": np.exp2, "log": np.log2,
    "sin": np.sin, "cos": np.cos, "fdiv": lambda a, b: a / b, "pow": lambda a, b: np.abs(a) ** b,
}
# First steps of macros for exact division and root, with their early-out flag: the final result, the rest is skipped.
_MACROS: dict[str, Callable[..., Array]] = {"invm": lambda a, b: a / b, "rsqtm": np.sqrt}


def build_math(binding: Binding) -> Step:
    """Builder of ``math``."""
    instruction = binding.instruction
    if instruction.subop in _MACROS:
        return _macro(binding)
    if instruction.subop not in _FUNCTIONS:
        raise binding.unknown()
    function, finish = _FUNCTIONS[instruction.subop], binding.finish()
    sources = _sources(binding, instruction.subop in ("fdiv", "pow"))
    seed = os.environ.get(VARIABLE)
    if seed:
        return lambda: finish(_inexact(function, [read() for read in sources], zlib.crc32(seed.encode())))
    return lambda: finish(function(*(read() for read in sources)).astype(np.float32))


def _inexact(function: Callable[..., Array], operands: list[Array], seed: int) -> Array:
    """Results rounded faithfully: half of those that are no numbers of float32 to the neighbour that is farther off.

    Which ones is a function of the operands, as it is where hardware interpolates in a table: a hash of their bits
    (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014, whose multipliers these are).
    """
    exact = np.asarray(function(*operands))
    nearest = exact.astype(np.float32)
    bits: Array = np.array(seed, np.uint64)
    for operand in operands:
        bits = (bits ^ np.ascontiguousarray(operand, np.float64).view(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    error = exact - nearest
    other = np.nextafter(nearest, np.copysign(np.float32(np.inf), error).astype(np.float32))
    return np.where((bits >> np.uint64(63) == 1) & (error != 0) & np.isfinite(nearest), other, nearest)


def _sources(binding: Binding, two: bool) -> list[Callable[[], Array]]:
    return [binding.source(each, np.dtype(np.float64)) for each in range(1 + two)]


def _macro(binding: Binding) -> Step:
    instruction = binding.instruction
    assert instruction.destination is not None
    function, storage = _MACROS[instruction.subop], instruction.destination.type.storage
    sources = _sources(binding, instruction.subop == "invm")
    converted, write, mask = binding.converter(), binding.writer(), binding.write_mask
    if instruction.condition not in ("eo", ""):
        raise binding.unknown(f"with condition {instruction.condition}")
    set_flags = binding.flag_writer() if instruction.condition else None

    def step() -> None:
        lanes = mask()
        write(converted(function(*(read() for read in sources)).astype(storage)), lanes)
        if set_flags is not None:
            set_flags(np.ones((1,) * (1 + len(binding.axes)), np.bool_), lanes)

    return step
