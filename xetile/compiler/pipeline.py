"""The one list of passes, from the recorded kernel to what is emitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp, StringAttr

from xegpu.ir.memref import ALIGNED
from xegpu.passes.distribute import Distribute
from xegpu.passes.induction_variables import Counters
from xegpu.passes.interleave_rows import Interleave
from xegpu.passes.legalize import Legalise
from xegpu.passes.pack_vnni import Pack
from xegpu.passes.schedule import Schedule
from xegpu.target.targets import Target
from xetile.dialect.stage import FIRST, STAGE, TARGET, stage_of
from xetile.dialect.tile_ops import InitTileOp, TileTransposeOp
from xetile.passes.blocking import Blocking
from xetile.passes.cooperative_loads import SharedOperands
from xetile.passes.deepen_k import DeeperProducts
from xetile.passes.distribute import WorkgroupToSubgroup
from xetile.passes.fuse_load_mma import LoadedProducts
from xetile.passes.lower_supervector import ToTiles
from xetile.passes.row_major import Orders
from xetile.passes.to_xegpu import ToXeGPU


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
        transposes: whether the kernel transposes vectors, or says itself how memory lies that block messages reach.
        shares: whether subgroups may load operands for each other.
    """

    target: Target
    access: tuple[str, ...]
    transposes: bool = False
    shares: bool = True

    @classmethod
    def of(cls, module: ModuleOp, target: Target, access: tuple[str, ...], *, shares: bool = True) -> Options:
        """What the passes of a module depend on."""
        transposes = any(isinstance(operation, TileTransposeOp) or (
            isinstance(operation, InitTileOp) and ALIGNED in operation.attributes) for operation in module.walk())
        return cls(target, access, transposes, shares)

    @property
    def turns(self) -> bool:
        """Whether memory may hold an operand the other way round."""
        return self.transposes or "block-columns" in self.access


PASSES: tuple[tuple[str, Callable[[Options], Pass | None]], ...] = (
    ("xetile", lambda options: ToTiles()),
    ("shared-operands", lambda options: SharedOperands(options.target, options.access)
        if options.shares and options.target.block_io and options.turns else None),
    ("subgroup", lambda options: WorkgroupToSubgroup(options.target)),
    ("row-major", lambda options: Orders(options.access)),
    ("loaded-products", lambda options: LoadedProducts() if options.target.fuses_loads else None),
    ("deeper-products", lambda options: DeeperProducts() if options.target.fuses_loads else None),
    ("blocked", lambda options: Blocking(options.target)),
    ("xegpu-blocks", lambda options: ToXeGPU(options.target)),
    ("xegpu-packed", lambda options: Pack()),
    ("xegpu-lanes", lambda options: Distribute(options.target)),
    ("xegpu-interleaved", lambda options: Interleave() if "block-columns" in options.access else None),
    ("xegpu-scheduled", lambda options: Schedule(options.target)),
    ("xegpu-counted", lambda options: Counters()),
    ("xegpu", lambda options: Legalise(options.target, options.access)),
)
"""Stage names with the pass that leads to each, None where the target needs it not.

What was recorded or parsed is at the first of them, ``xetile``, or before it, at ``supervector``, where it has
operations of that dialect.
"""

def stage_names(options: Options) -> tuple[str, ...]:
    """The stages that a kernel goes through with these options, in order."""
    return (FIRST, *(name for name, make in PASSES if make(options) is not None))


def stages(module: ModuleOp, options: Options) -> Iterator[tuple[str, ModuleOp]]:
    """Every stage from that of the given module on, in order.

    Raises:
        XeError: the kernel cannot be lowered for this target; it points at the author's line.
    """
    stage = stage_of(module)
    yield stage, module
    names = [name for name, _ in PASSES]
    for name, make in PASSES[names.index(stage) + 1 if stage in names else 0:]:
        if (step := make(options)) is None:
            continue
        module = step.apply(module)
        if name == PASSES[0][0]:  # what was a transfer may be transposed now
            options = Options.of(module, options.target, options.access, shares=options.shares)
        module.attributes.update({STAGE: StringAttr(name), TARGET: StringAttr(options.target.name)})
        yield name, module
