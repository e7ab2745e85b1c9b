"""What a page asks of the kernel that it shows."""

from __future__ import annotations

from typing import Any, Protocol

from xdsl.dialects.builtin import ModuleOp

from xegpu.support.location import Location
from xegpu.target.targets import Target


class Shown(Protocol):
    """A lowered kernel."""

    target: Target
    location: Location

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def modules(self) -> dict[str, ModuleOp]:
        """Every stage as IR, in order."""

    @property
    def emitted(self) -> Any:
        """The emitted text, with the name that the kernel has in it."""

    @property
    def opencl(self) -> str:
        """The emitted text."""

    def report(self) -> Any:
        """What the machine code uses."""

    def isa(self) -> Any:
        """The disassembly."""
