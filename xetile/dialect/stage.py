"""Stage attribute: how far a module is lowered."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from xegpu.rewrite.structure import check_structure
from xegpu.target.targets import Target
from xetile.dialect.supervector import NAME

FIRST, RECORDED = "supervector", "xetile"
INPUTS = (FIRST, RECORDED)
"""The stages that no pass leads to: what was recorded or written in a dialect. Text in XeGPU is at ``to-xegpu``."""
IN_XETILE = (RECORDED, "lower-supervector")
"""Stages of a kernel in XeTile as an author writes it."""
IN_XEGPU = ("to-xegpu", "normalize")
"""Stages of a kernel in XeGPU as an author writes it: text is at ``normalize`` once it is read."""

STAGE, TARGET = "xetile.stage", "xetile.target"
"""A module's attributes: how far it is lowered, and for which device."""


def is_supervector(module: Operation) -> bool:
    """Whether a module has SuperVector operations."""
    return any(operation.name.startswith(f"{NAME}.") for operation in module.walk())


def stage_of(module: ModuleOp) -> str:
    """Stage of a module: its attribute, else the level of its operations."""
    attribute = module.attributes.get(STAGE)
    if isinstance(attribute, StringAttr):
        return attribute.data
    if is_supervector(module):
        return FIRST
    dialects = {operation.name.partition(".")[0] for operation in module.walk()}
    return "to-xegpu" if "xegpu" in dialects and "xetile" not in dialects else RECORDED


def only_function(module: ModuleOp) -> func.FuncOp:
    """The function of a module with exactly one."""
    (function,) = (operation for operation in module.body.block.ops if isinstance(operation, func.FuncOp))
    return function


class Pass(Protocol):
    """A module in, a new module out; the old one stays as it is."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The new module."""


_string = cache(StringAttr)


def run_pass(name: str, step: Pass, module: ModuleOp, target: Target | None = None) -> ModuleOp:
    """The module after a pass, with its stage attribute; the same module where the pass changed nothing.

    Raises:
        XeError: the kernel cannot be lowered, or the pass made a module that is not well-formed.
    """
    new = step.apply(module)
    if new is not module:
        check_structure(name, new)
        new.attributes[STAGE] = _string(name)
        if target is not None:
            new.attributes[TARGET] = _string(target.name)
    return new
