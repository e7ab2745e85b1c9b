"""Stage attribute: how far a module is lowered."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from xetile.dialect.supervector import NAME

FIRST = "supervector"
"""The stage before the first pass."""

STAGE, TARGET = "xetile.stage", "xetile.target"
"""A module's attributes: how far it is lowered, and for which device."""


def is_supervector(module: Operation) -> bool:
    """Whether a module has SuperVector operations."""
    return any(operation.name.startswith(f"{NAME}.") for operation in module.walk())


def stage_of(module: ModuleOp) -> str:
    """Stage of a module: its attribute, else the level of its operations."""
    said = module.attributes.get(STAGE)
    if isinstance(said, StringAttr):
        return said.data
    if is_supervector(module):
        return FIRST
    dialects = {operation.name.partition(".")[0] for operation in module.walk()}
    return "xegpu-blocks" if "xegpu" in dialects and "xetile" not in dialects else "xetile"
