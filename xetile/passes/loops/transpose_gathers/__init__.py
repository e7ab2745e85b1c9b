"""Transposed gathers: rows that are gathered by an index vector and used transposed are gathered as columns.

    %t = init_scattered_tile %K, (tile_broadcast %rows [1]) + (tile_broadcast %columns [0]) : tile<64x32xbf16>
    %k = load_gather %t, (tile_broadcast %columns [0]) < (tile_broadcast %ends [1]) ; %b = tile_transpose %k
becomes
    %t = init_scattered_tile %K, (tile_broadcast %rows2 [0]) + (tile_broadcast %columns2 [1]) : tile<32x64xbf16>
    %b = load_gather %t, ...
and where %b is operand B of products in a loop
    scf.if (every end is at most the first column, or beyond the last) {
      scf.for ... { %b = load_columns %K, %rows2 + first, %ends2 - first {whole} ; ... }
    } else { scf.for ... { %b = load_columns %K, ... ; ... } } {xegpu.versioned}

So are gathers of columns that a subgroup stores to shared local memory, where all take them as operand B.

The elements of a row are contiguous, and so are those that a lane has of operand B in VNNI form: a lane reads words of
its own row, and nothing is transposed in registers. The loop is there twice, since a row may end in the middle of
what is loaded, which few do: then each word is asked for. Without 2D block IO, where rows may begin anywhere,
columns are ``unaligned``, and the loop stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.gpu import BarrierOp
from xdsl.ir import Operation

from xegpu.analysis.dataflow.lane_offsets import LaneOffsets
from xegpu.analysis.uniformity import by_subgroup, per_subgroup
from xegpu.dialect.hints import hinted
from xegpu.dialect.sync import ControlBarrierArriveOp, ControlBarrierWaitOp, NbarrierArriveOp, NbarrierWaitOp
from xegpu.ir.kernel_attributes import block_arguments, function_of
from xegpu.ir.matchers import BARRIER
from xegpu.mlir.vector import shape_of
from xegpu.passes.licm import is_invariant, put_before
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.targets import Target
from xetile.dialect import tile_ops
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp
from xetile.dialect.types import TileType
from xetile.passes.loops.transpose_gathers import version
from xetile.passes.loops.transpose_gathers.columns import Columns, columns_of
from xetile.passes.loops.transpose_gathers.transposer import (
    Transposer,
    gathers_in,
    is_published,
    is_transposed,
    replace_transposes,
)

_WAITS = (ControlBarrierArriveOp, ControlBarrierWaitOp, NbarrierArriveOp, NbarrierWaitOp)


@dataclass(frozen=True)
class TransposeGathers:
    """Pass ``transpose-gathers``.

    Attributes:
        target: its lanes are the columns of a block of operand B.
        access: for each argument its access kind.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such gathers transposed; the module itself if there are none."""
        if not any(is_transposed(operation) or is_published(operation) for operation in module.walk()):
            return module
        hoisted = rewrite_in_place(module, _loops, _invariants, _hoist)
        if self.target.block_io:
            versioned = rewrite_in_place(hoisted, _loops, self._plan, version.version_loop, erases=True)
            masked = rewrite_in_place(versioned, gathers_in, self._masked, version.load_masked_columns, erases=True)
        else:
            masked = rewrite_in_place(hoisted, gathers_in, self._unaligned, _load_unaligned, erases=True)
        transposed = rewrite_in_place(masked, gathers_in, is_transposed, _transpose, erases=True)
        for load in [*transposed.walk()]:  # a copy has taken their place
            if isinstance(load, tile_ops.LoadTileOp) and not load.result.uses:
                erase(load)
        return transposed

    def _analysis(self, function: func.FuncOp) -> LaneOffsets:
        return LaneOffsets(self.target.subgroup_size, block_arguments(function, self.access))

    def _plan(self, loop: scf.ForOp) -> tuple[Columns, ...]:
        function = function_of(loop)
        analysis = self._analysis(function)
        found = [columns_of(load, loop, analysis) for load in gathers_in(loop) if load.parent is loop.body.block]
        differing = per_subgroup(function) if any(isinstance(inner, BarrierOp) for inner in loop.walk()) else set()
        return tuple(columns for columns in found if columns is not None and not any(
            value in differing and (value in columns.last or by_subgroup(value) is None) for value in columns.numbers))

    def _masked(self, load: LoadGatherOp) -> Columns | None:
        """A gather of columns that is published, and that no loop is versioned for, as in front of one."""
        function = function_of(load)
        columns = columns_of(load, None, self._analysis(function)) if is_published(load) else None
        return columns if columns is not None and columns.in_columns and columns.in_words else None

    def _unaligned(self, load: LoadGatherOp) -> Columns | None:
        """A gather whose transpose is operand B, of columns that may begin and end anywhere."""
        if self.target.fuses_loads or not is_transposed(load):
            return None
        function = function_of(load)
        analysis = LaneOffsets(self.target.subgroup_size, block_arguments(function, self.access, "rows"))
        columns = columns_of(load, None, analysis, unaligned=True)
        return columns if columns is not None and columns.is_natural else None


def _load_unaligned(inserter: Inserter, load: LoadGatherOp, columns: Columns) -> None:
    """Gather columns, each of which is asked where it begins and ends."""
    version.load_masked_columns(inserter, load, columns, unaligned=True)


def _transpose(inserter: Inserter, load: LoadGatherOp, _: bool) -> None:
    """Gather the transpose, element by element."""
    init, transposed = load.tile.owner, Transposer(inserter, load)
    assert isinstance(init, InitScatteredTileOp)
    type_ = TileType(tile_ops.tile_of(load.tile)).with_(shape=shape_of(load.result)[::-1])
    tile = transposed.insert(InitScatteredTileOp(init.source, transposed(init.indices), type_))
    columns = transposed.insert(hinted(LoadGatherOp(tile, transposed(load.mask), load.padding), load))
    replace_transposes(load, columns)


def _loops(around: Operation) -> Iterator[scf.ForOp]:
    """Loops with gathers in which subgroups do not wait for each other, since they may take different branches, or all
    wait at barriers: there the same branch is taken.

    Inner loops come first, so that both versions of an outer one have theirs.
    """
    for loop in around.walk(reverse=True):
        if isinstance(loop, scf.ForOp) and any(isinstance(each, LoadGatherOp) for each in loop.body.block.ops) and \
                not any(BARRIER in inner.attributes or isinstance(inner, _WAITS) for inner in loop.walk()) and \
                not any(isinstance(result.type, TileType) for result in loop.results):
            yield loop


def _invariants(loop: scf.ForOp) -> list[Operation]:
    """Index arithmetic on values from before a loop, such as a head's first column, which the author puts into it."""
    return [operation for operation in loop.body.block.ops if is_invariant(operation, loop.body.block)]


def _hoist(_: Inserter, loop: scf.ForOp, invariants: Sequence[Operation]) -> None:
    while invariants:
        for operation in invariants:
            put_before(loop, operation)
        invariants = _invariants(loop)
