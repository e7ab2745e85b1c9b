"""How many registers a thread shall have, where the author of a kernel says so (hardware.md, "Devices")."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr

REGISTERS = "xegpu.registers"
"""The function's attribute: 128 or 256."""


def said(function: func.FuncOp) -> int | None:
    """The registers that a kernel asks for; None if it leaves the choice."""
    attribute = function.attributes.get(REGISTERS)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None
