"""The one list of passes, from the recorded kernel to what is emitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp

from xegpu.passes.distribute import Distribute
from xegpu.passes.legalise import Legalise
from xegpu.passes.pack import Pack
from xegpu.targets import Target
from xetile.passes.blocking import Blocking
from xetile.passes.to_xegpu import ToXeGPU
from xetile.passes.workgroup_to_subgroup import WorkgroupToSubgroup


class Pass(Protocol):
    """A module in, a new module out; the old one stays as it is."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The new module."""


@dataclass(frozen=True)
class Options:
    """What the passes depend on.

    Attributes:
        target: the device.
        access: for each argument, how its memory may be reached, empty for numbers.
    """

    target: Target
    access: tuple[str, ...]


PASSES: tuple[tuple[str, Callable[[Options], Pass]], ...] = (
    ("subgroup", lambda options: WorkgroupToSubgroup(options.target)),
    ("blocked", lambda options: Blocking(options.target)),
    ("xegpu-blocks", lambda options: ToXeGPU(options.target)),
    ("xegpu-packed", lambda options: Pack()),
    ("xegpu-lanes", lambda options: Distribute(options.target)),
    ("xegpu", lambda options: Legalise(options.target, options.access)),
)
"""Stage names with the pass that leads to each; the first stage is ``xetile``, what was recorded or parsed."""


def stages(module: ModuleOp, options: Options) -> Iterator[tuple[str, ModuleOp]]:
    """Every stage in order, the given module first.

    Raises:
        XeError: the kernel cannot be lowered for this target; it points at the author's line.
    """
    yield "xetile", module
    for name, make in PASSES:
        module = make(options).apply(module)
        yield name, module
