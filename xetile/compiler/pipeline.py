"""The pass pipeline, from the traced module to the emitted one; no other module lists passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from xegpu.ir.dtypes import i4x2
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
from xegpu.passes.loops.coalesce_gathers import CoalesceGathers
from xegpu.passes.loops.collapse_batch import CollapseBatch
from xegpu.passes.loops.hoist_payloads import HoistPayloads
from xegpu.passes.loops.interleave_columns import InterleaveColumns
from xegpu.passes.loops.peel_bounds import PeelBounds
from xegpu.passes.loops.unroll import Unroll
from xegpu.passes.normalize import Normalize
from xegpu.passes.pack_vnni import PackVnni
from xegpu.passes.reorder_dpas import ReorderDpas
from xegpu.passes.schedule import Schedule
from xegpu.passes.slm_panels import SlmPanels
from xegpu.target.targets import Target
from xetile.dialect.stage import IN_XEGPU, INPUTS, Pass, run_pass, stage_of
from xetile.dialect.tile_ops import InitTileOp
from xetile.dialect.vector import TileTransposeOp
from xetile.passes.blocking import Blocking
from xetile.passes.blocking.concatenated_operands import ConcatenatedOperands
from xetile.passes.blocking.unpack_blocks import UnpackBlocks
from xetile.passes.cooperative_loads import CooperativeLoads
from xetile.passes.cooperative_loads.carry_tiles import CarryTiles
from xetile.passes.cooperative_loads.cooperative_operands import CooperativeOperands
from xetile.passes.cooperative_loads.slm_copy import SlmCopy
from xetile.passes.cooperative_loads.slm_transpose import SlmTranspose
from xetile.passes.distribute_subgroups import DistributeSubgroups
from xetile.passes.duplicate_loads import DuplicateLoads
from xetile.passes.f16_operands import F16Operands
from xetile.passes.fuse_load_mma import FuseLoadMma
from xetile.passes.loops.deepen_k import DeepenK
from xetile.passes.loops.index_set_splitting import IndexSetSplitting
from xetile.passes.loops.raise_gathers import RaiseGathers
from xetile.passes.loops.reassociate import Reassociate
from xetile.passes.loops.relax_maximum import RelaxMaximum
from xetile.passes.loops.row_sums.row_sums_by_mma import RowSumsByMma
from xetile.passes.loops.row_sums.sink_row_sums import SinkRowSums
from xetile.passes.loops.simplify_indvars import SimplifyIndvars
from xetile.passes.loops.strip_mine import StripMine
from xetile.passes.loops.strip_mine.columns import StripMineColumns
from xetile.passes.loops.strip_mine.groups import StripMineGroups
from xetile.passes.loops.strip_mine.pad_columns import PadColumns
from xetile.passes.loops.swap_operands import SwapOperands
from xetile.passes.loops.transpose_gathers import TransposeGathers
from xetile.passes.loops.version_columns import VersionColumns
from xetile.passes.lower_supervector import LowerSupervector
from xetile.passes.lower_supervector.assign_wg_map import AssignWgMap
from xetile.passes.row_major import RowMajor
from xetile.passes.split_int4_mma import SplitInt4Mma
from xetile.passes.to_xegpu import ToXeGPU


@dataclass(frozen=True)
class Options:
    """Options of the passes.

    Attributes:
        target: the device.
        access: for each argument its access kind, empty for numbers.
        transposes: whether the kernel transposes vectors, or asserts the alignment of memory at raw addresses.
        shares: whether cooperative loads are allowed.
        is_text: whether the kernel was parsed from text in XeGPU.
    """

    target: Target
    access: tuple[str, ...]
    transposes: bool = False
    shares: bool = True
    is_text: bool = False

    @classmethod
    def of(cls, module: ModuleOp, target: Target, access: tuple[str, ...], *, shares: bool = True) -> Options:
        """The options for a module."""
        transposes = any(isinstance(operation, TileTransposeOp) or (
            isinstance(operation, InitTileOp) and ALIGNED in operation.attributes) for operation in module.walk())
        return cls(target, access, transposes, shares, stage_of(module) in IN_XEGPU)

    @property
    def may_be_column_major(self) -> bool:
        """Whether an operand may be column-major in memory."""
        return self.transposes or "block-columns" in self.access

    @property
    def loads_shares(self) -> bool:
        """Whether cooperative loads may apply."""
        return self.shares and self.target.block_io and (self.may_be_column_major or "rows" in self.access)

    @property
    def copies_shares(self) -> bool:
        """Whether operands may be loaded in shares: as :attr:`loads_shares`, and row by row without 2D block IO."""
        return self.loads_shares or (self.shares and not self.target.block_io and not self.target.is_cpu
                                     and "rows" in self.access)


PASSES: tuple[tuple[str, Callable[[Options], Pass | None]], ...] = (
    ("assign-wg-map", lambda options: AssignWgMap()),
    ("lower-supervector", lambda options: LowerSupervector()),
    ("simplify-indvars", lambda options: SimplifyIndvars()),
    ("carry-tiles", lambda options: CarryTiles(options.target, options.access) if options.copies_shares else None),
    ("cooperative-loads", lambda options: CooperativeLoads(options.target, options.access)
        if options.copies_shares else None),
    ("unpack-blocks", lambda options: UnpackBlocks()),
    ("duplicate-loads", lambda options: DuplicateLoads(options.target, options.access)
        if options.transposes and not options.target.fuses_loads else None),
    ("relax-maximum", lambda options: RelaxMaximum()),
    ("cooperative-operands", lambda options: CooperativeOperands(options.target, options.access)
        if options.target.block_io else None),
    ("distribute-subgroups", lambda options: DistributeSubgroups(options.target)),
    ("raise-gathers", lambda options: None if options.target.fuses_loads else
        RaiseGathers(options.target, options.access)),
    ("reassociate", lambda options: None if options.target.fuses_loads else Reassociate()),
    ("pad-columns", lambda options: PadColumns(options.target)
        if max(options.target.registers) and not options.target.block_io else None),
    ("strip-mine", lambda options: StripMine(options.target, options.access)
        if max(options.target.registers) or options.target.unrolled_bytes else None),
    ("strip-mine-columns", lambda options: StripMineColumns(options.target)),
    ("row-sums-by-mma", lambda options: RowSumsByMma(options.target) if options.target.block_io else None),
    ("sink-row-sums", lambda options: SinkRowSums(options.target) if options.target.block_io else None),
    ("concatenated-operands", lambda options: ConcatenatedOperands(options.target)
        if options.target.block_io else None),
    ("transpose-gathers", lambda options: TransposeGathers(options.target, options.access)
        if options.transposes else None),
    ("version-columns", lambda options: VersionColumns(options.access) if options.target.block_io else None),
    ("index-set-splitting", lambda options: IndexSetSplitting() if options.target.block_io else None),
    ("swap-operands", lambda options: SwapOperands(options.target, options.access) if options.loads_shares else None),
    ("row-major", lambda options: RowMajor(options.access, options.target)),
    ("slm-transpose", lambda options: SlmTranspose(options.target, options.access) if options.loads_shares else None),
    ("slm-copy", lambda options: SlmCopy(options.target, options.access)
        if options.loads_shares and "rows" in options.access else None),
    ("strip-mine-groups", lambda options: StripMineGroups(options.target, options.access)
        if options.target.block_io else None),
    ("split-int4-mma", lambda options: None if options.target.multiplies(i4x2, i4x2) else SplitInt4Mma()),
    ("fuse-load-mma", lambda options: FuseLoadMma() if options.target.fuses_loads else None),
    ("deepen-k", lambda options: DeepenK() if options.target.fuses_loads else None),
    ("f16-operands", lambda options: None if options.target.fuses_loads else F16Operands()),
    ("blocking", lambda options: Blocking(options.target, options.access)),
    ("to-xegpu", lambda options: ToXeGPU(options.target)),
    ("normalize", lambda options: Normalize() if options.is_text else None),
    ("pack-vnni", lambda options: PackVnni()),
    ("split-gathers", lambda options: SplitGathers(options.target)),
    ("distribute-lanes", lambda options: DistributeLanes(options.target, options.access)),
    ("interleave-rows", lambda options: InterleaveRows() if "block-columns" in options.access else None),
    ("interleave-columns", lambda options: InterleaveColumns()
        if options.loads_shares and "rows" in options.access else None),
    ("licm", lambda options: Licm(options.target)),
    ("schedule", lambda options: Schedule(options.target)),
    ("reorder-dpas", lambda options: ReorderDpas(options.target)),
    ("induction-variables", lambda options: InductionVariables()),
    ("check-target", lambda options: CheckTarget(options.target)),
    ("slm-panels", lambda options: SlmPanels()),
    ("legalize", lambda options: Legalize(options.target, options.access)),
    ("fuse-store", lambda options: FuseStore() if options.target.fuses_loads else None),
    ("grf-mode", lambda options: GrfMode(options.target) if max(options.target.registers) else None),
    ("unroll", lambda options: Unroll(options.target)),
    ("coalesce-gathers", lambda options: CoalesceGathers() if options.target.block_io else None),
    ("collapse-batch", lambda options: None if options.target.fuses_loads else CollapseBatch(options.target)),
    ("peel-bounds", lambda options: PeelBounds(options.target)),
    ("hoist-payloads", lambda options: HoistPayloads(options.target) if options.target.block_io else None),
)
"""Passes in order, each under the name of the stage that it leads to; None where it does not apply."""
NAMES = tuple(name for name, _ in PASSES)
STAGES = (*INPUTS, *NAMES)
"""Values of a module's stage attribute: the input dialect, or the last pass."""


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
        if name == "lower-supervector":  # a transfer may have become a transpose
            options = Options.of(module, options.target, options.access, shares=options.shares)
        yield name, module


def stages(module: ModuleOp, options: Options) -> Iterator[tuple[str, ModuleOp]]:
    """Every stage from that of the given module on, in order: the results of passes that changed something.

    Raises:
        XeError: the kernel cannot be lowered for this target; it points at the author's line.
    """
    last = None
    for name, result in steps(module, options):
        if result is not last:
            yield name, result
        last = result


def first_pass(stage: str) -> int:
    """Index in ``PASSES`` of the first pass after a stage."""
    return NAMES.index(_EQUIVALENT.get(stage, stage)) + 1 if stage != INPUTS[0] else 0


_EQUIVALENT = {"xetile": "lower-supervector"}
"""For an input dialect the pass whose result it is equivalent to."""


def after(modules: Mapping[str, ModuleOp], name: str) -> ModuleOp | None:
    """The module after a pass, None if it was parsed at a later stage; the pass itself may have changed nothing.

    Args:
        modules: the stages of the kernel, in order.
        name: the pass.
    """
    position = NAMES.index(name) + 1
    return next((module for stage, module in [*modules.items()][::-1] if first_pass(stage) <= position), None)


def precedes(stage: str, name: str) -> bool:
    """Whether a pass is still to come for a module at a stage."""
    return first_pass(stage) <= NAMES.index(name)
