"""The one list of passes, from the recorded kernel to what is emitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from xegpu.ir.memref import ALIGNED
from xegpu.passes.check_target import CheckTarget
from xegpu.passes.distribute_lanes import DistributeLanes
from xegpu.passes.distribute_lanes.split_gathers import SplitGathers
from xegpu.passes.fuse_store import FuseStore
from xegpu.passes.grf_mode import GrfMode
from xegpu.passes.induction_variables import InductionVariables
from xegpu.passes.interleave_rows import InterleaveRows
from xegpu.passes.legalize import Legalize
from xegpu.passes.licm import Licm
from xegpu.passes.loops.hoist_payloads import HoistPayloads
from xegpu.passes.loops.peel_bounds import PeelBounds
from xegpu.passes.loops.unroll import Unroll
from xegpu.passes.normalize import Normalize
from xegpu.passes.pack_vnni import PackVnni
from xegpu.passes.reorder_dpas import ReorderDpas
from xegpu.passes.schedule import Schedule
from xegpu.passes.slm_panels import SlmPanels
from xegpu.target.targets import Target
from xetile.dialect.stage import IN_XEGPU, INPUTS, Pass, run_pass, stage_of
from xetile.dialect.tile_ops import InitTileOp, TileTransposeOp
from xetile.passes.blocking import Blocking
from xetile.passes.blocking.unpack_blocks import UnpackBlocks
from xetile.passes.cooperative_loads import CooperativeLoads
from xetile.passes.cooperative_loads.carry_tiles import CarryTiles
from xetile.passes.deepen_k import DeepenK
from xetile.passes.distribute_subgroups import DistributeSubgroups
from xetile.passes.fuse_load_mma import FuseLoadMma
from xetile.passes.lower_supervector import LowerSupervector
from xetile.passes.lower_supervector.assign_wg_map import AssignWgMap
from xetile.passes.row_major import RowMajor
from xetile.passes.to_xegpu import ToXeGPU


@dataclass(frozen=True)
class Options:
    """What the passes depend on.

    Attributes:
        target: the device.
        access: for each argument, how its memory may be reached, empty for numbers.
        transposes: whether the kernel transposes vectors, or says itself how memory lies that block messages reach.
        shares: whether subgroups may load operands for each other.
        is_text: whether the kernel was read as text in XeGPU.
    """

    target: Target
    access: tuple[str, ...]
    transposes: bool = False
    shares: bool = True
    is_text: bool = False

    @classmethod
    def of(cls, module: ModuleOp, target: Target, access: tuple[str, ...], *, shares: bool = True) -> Options:
        """What the passes of a module depend on."""
        transposes = any(isinstance(operation, TileTransposeOp) or (
            isinstance(operation, InitTileOp) and ALIGNED in operation.attributes) for operation in module.walk())
        return cls(target, access, transposes, shares, stage_of(module) in IN_XEGPU)

    @property
    def turns(self) -> bool:
        """Whether memory may hold an operand the other way round."""
        return self.transposes or "block-columns" in self.access

    @property
    def loads_shares(self) -> bool:
        """Whether subgroups may load operands for each other."""
        return self.shares and self.target.block_io and self.turns


PASSES: tuple[tuple[str, Callable[[Options], Pass | None]], ...] = (
    ("assign-wg-map", lambda options: AssignWgMap()),
    ("lower-supervector", lambda options: LowerSupervector()),
    ("carry-tiles", lambda options: CarryTiles(options.target, options.access) if options.loads_shares else None),
    ("cooperative-loads", lambda options: CooperativeLoads(options.target, options.access)
        if options.loads_shares else None),
    ("unpack-blocks", lambda options: UnpackBlocks()),
    ("distribute-subgroups", lambda options: DistributeSubgroups(options.target)),
    ("row-major", lambda options: RowMajor(options.access)),
    ("fuse-load-mma", lambda options: FuseLoadMma() if options.target.fuses_loads else None),
    ("deepen-k", lambda options: DeepenK() if options.target.fuses_loads else None),
    ("blocking", lambda options: Blocking(options.target)),
    ("to-xegpu", lambda options: ToXeGPU(options.target)),
    ("normalize", lambda options: Normalize() if options.is_text else None),
    ("pack-vnni", lambda options: PackVnni()),
    ("split-gathers", lambda options: SplitGathers(options.target)),
    ("distribute-lanes", lambda options: DistributeLanes(options.target)),
    ("interleave-rows", lambda options: InterleaveRows() if "block-columns" in options.access else None),
    ("licm", lambda options: Licm()),
    ("schedule", lambda options: Schedule(options.target)),
    ("reorder-dpas", lambda options: ReorderDpas(options.target)),
    ("induction-variables", lambda options: InductionVariables()),
    ("check-target", lambda options: CheckTarget(options.target)),
    ("slm-panels", lambda options: SlmPanels()),
    ("legalize", lambda options: Legalize(options.target, options.access)),
    ("fuse-store", lambda options: FuseStore() if options.target.fuses_loads else None),
    ("grf-mode", lambda options: GrfMode(options.target) if max(options.target.registers) else None),
    ("unroll", lambda options: Unroll(options.target)),
    ("peel-bounds", lambda options: PeelBounds()),
    ("hoist-payloads", lambda options: HoistPayloads(options.target) if options.target.block_io else None),
)
"""Passes in order, each under the name of the stage that it leads to; None where a target or a kernel needs it not."""
NAMES = tuple(name for name, _ in PASSES)
STAGES = (*INPUTS, *NAMES)
"""What a module may say of how far it is lowered: the dialect that it was recorded or written in, or its last pass."""


def stage_names(options: Options) -> tuple[str, ...]:
    """The stages that a kernel may go through with these options, in order."""
    return (*INPUTS, *(name for name, make in PASSES if make(options) is not None))


def steps(module: ModuleOp, options: Options) -> Iterator[tuple[str, ModuleOp]]:
    """The module at its own stage, and after each pass from there on; the same module where a pass changed nothing.

    Raises:
        XeError: the kernel cannot be lowered for this target; it points at the author's line.
    """
    stage = stage_of(module)
    yield stage, module
    for name, make in PASSES[first_pass(stage):]:
        if (step := make(options)) is None:
            continue
        module = run_pass(name, step, module, options.target)
        if name == "lower-supervector":  # what was a transfer may be transposed now
            options = Options.of(module, options.target, options.access, shares=options.shares)
        yield name, module


def stages(module: ModuleOp, options: Options) -> Iterator[tuple[str, ModuleOp]]:
    """Every stage from that of the given module on, in order: what the passes made that changed something.

    Raises:
        XeError: the kernel cannot be lowered for this target; it points at the author's line.
    """
    last = None
    for name, made in steps(module, options):
        if made is not last:
            yield name, made
        last = made


def first_pass(stage: str) -> int:
    """Which of ``PASSES`` comes first behind a stage."""
    return NAMES.index(_BEHIND.get(stage, stage)) + 1 if stage != INPUTS[0] else 0


_BEHIND = {"xetile": "lower-supervector"}
"""The pass whose result a recorded or written dialect is like."""


def after(modules: Mapping[str, ModuleOp], name: str) -> ModuleOp | None:
    """What a kernel is after a pass, if its stages begin before it; the pass itself may have changed nothing.

    Args:
        modules: the stages of the kernel, in order.
        name: the pass.
    """
    position = NAMES.index(name) + 1
    return next((module for stage, module in [*modules.items()][::-1] if first_pass(stage) <= position), None)


def precedes(stage: str, name: str) -> bool:
    """Whether a pass is still to come for a module at a stage."""
    return first_pass(stage) <= NAMES.index(name)
