"""Provenance of a compiled kernel: its compile-time constants, and how to lower it again with others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp


class Variant(Protocol):
    """Kernel lowered with other constants."""

    @property
    def function(self) -> func.FuncOp:
        """The kernel as recorded."""

    @property
    def legal(self) -> ModuleOp:
        """The kernel in operations that its target has."""

    def live_bytes(self) -> int:
        """Estimated peak of live bytes per lane, before compilation."""

    def tiles(self) -> func.FuncOp:
        """The kernel of one subgroup, in tiles, before these are lowered."""

    def accumulator_registers(self) -> float:
        """Registers per thread of the loop-carried values of a loop with products."""

    def in_memory(self) -> int:
        """Bytes of spills and private memory of the compiled kernel."""


@dataclass(frozen=True)
class Origin:
    """Source of a lowered kernel: its function, arguments and constants.

    Attributes:
        constants: its compile-time constants, defaults included.
        again: lowers the same kernel with other constants.
    """

    constants: Mapping[str, Any]
    again: Callable[[Mapping[str, Any]], Variant]
