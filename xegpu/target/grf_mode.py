"""GRF mode: 128 or 256 registers a thread, as the author asks or the compiler chooses (hardware.md, "Devices")."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr

from xegpu.target.targets import Target

REGISTERS = "xegpu.registers"
"""Attribute of a ``func.func`` with the requested GRF mode: 128 or 256."""
FOR_FRAGMENTS = 7 / 8
"""Fraction of the registers that fragments may take; addresses, counters and message payloads need the rest."""


def requested_registers(function: func.FuncOp) -> int | None:
    """Registers a thread that a kernel requests; None if it leaves the choice to the compiler."""
    attribute = function.attributes.get(REGISTERS)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def modes(function: func.FuncOp, target: Target) -> list[int]:
    """GRF modes that a kernel may be built for, the smaller first; none where the target has no such choice."""
    asked = requested_registers(function)
    return [mode for mode in target.registers if mode and asked in (None, mode)]


def fragment_bytes(mode: int, target: Target) -> float:
    """Register budget of fragments in a GRF mode, in bytes a lane."""
    return mode * FOR_FRAGMENTS * target.register_bytes / target.subgroup_size
