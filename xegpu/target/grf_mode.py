"""How many registers a thread shall have, where the author of a kernel says so (hardware.md, "Devices")."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr

from xegpu.target.targets import Target

REGISTERS = "xegpu.registers"
"""The function's attribute: 128 or 256."""
FOR_FRAGMENTS = 7 / 8
"""The part of the registers that fragments may take: addresses, counters and messages under way need some."""


def said(function: func.FuncOp) -> int | None:
    """The registers that a kernel asks for; None if it leaves the choice."""
    attribute = function.attributes.get(REGISTERS)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def modes(function: func.FuncOp, target: Target) -> list[int]:
    """The register modes that a kernel may be built for, the smaller first; none where a target has no such choice."""
    asked = said(function)
    return [mode for mode in target.registers if mode and asked in (None, mode)]


def room(mode: int, target: Target) -> float:
    """Bytes a lane that fragments may take of a number of registers."""
    return mode * FOR_FRAGMENTS * target.register_bytes / target.subgroup_size
