"""Strip mining: a tile of independent rows that exceeds the registers becomes a loop over strips of rows.

    %x = load_tile %X[%m, %0] : vector<8x256xf32>
    %y = divf %x, tile_broadcast (tile_reduce <add> %x [1]) [1]
    store_tile %y, %Y[%m, %0]
becomes, where a register file holds two rows
    scf.for %r = %0 to %8 step %2 {
      %x = load_tile %X[%m + %r, %0] : vector<2x256xf32>
      %y = divf %x, tile_broadcast (tile_reduce <add> %x [1]) [1]
      store_tile %y, %Y[%m + %r, %0] }

A kernel of softmax or of a norm has whole rows of a tile in registers between the reduction along them and the store,
an element-wise one of several arrays has them from the loads to the stores, whose order stays. Rows are independent
there, so that a strip of them is loaded, computed and stored before the next one. What all rows share (weights of one
row) is loaded for each strip, from the cache: before the loop Intel's compiler would repeat it for the rows of a strip,
in as many registers as these take.

Without block messages a single row that is updated in place is a strip, too: loads and stores of one tile share their
addresses, which Intel's compiler would keep from the loads to the stores.

The loads of a strip come behind the stores of those before it. That is correct where no array that is written shares
elements with another argument, which a launch refuses unless the kernel says ``may_alias``, and where all accesses to
an array that is written begin at the same row: strips have rows of their own then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, UnitAttr, VectorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xegpu.ir.kernel_attributes import subgroup_count
from xegpu.ir.matchers import DISABLE_LICM, DISABLE_UNROLL
from xegpu.ir.traversal import of_kind
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, rewrite
from xegpu.target.grf_mode import FOR_FRAGMENTS, REGISTERS, modes
from xegpu.target.targets import Target
from xetile.dialect.reduction import TileReduceOp
from xetile.dialect.tile_ops import InitTileOp, LoadTileOp, StoreTileOp
from xetile.dialect.types import TileType
from xetile.dialect.vector import IotaOp
from xetile.passes.blocking import oversized_vectors
from xetile.passes.loops.strip_mine.row_dependence import independent_rows, rows_of
from xetile.passes.loops.strip_mine.row_pressure import live_row_bytes

_WITH_ADDRESSES = 0.6
"""Fraction of the registers that rows may take where they are not read by 2D block messages: addresses take some."""


@dataclass(frozen=True)
class StripMine:
    """Pass ``strip-mine``.

    Attributes:
        target: its registers, and whether it has block IO.
        access: for each argument its access kind.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with loops over strips; the module itself where all rows fit, or some depend on each other."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        rows = independent_rows(function)
        if rows is None or (rows == 1 and not self._divides_rows_for_addresses(function)):
            return function
        if self.target.unrolled_bytes and not of_kind(function, TileReduceOp):
            return function  # straight-line code of many arrays is short to compile
        usable, block = self._modes(function), function.body.block
        sizes = [mode * self._fragment_bytes for mode in usable] or [self.target.unrolled_bytes]
        if live_row_bytes(block, 1.0, sinks=not self.target.block_io) <= sizes[-1] or any(oversized_vectors(function)):
            return function
        heights = [height for height in (16, 8, 4, 2, 1) if height < rows and rows % height == 0] or [1]
        pressures = {height: live_row_bytes(block, height / rows, sinks=not self.target.block_io) for height in heights}
        height = next((each for each in heights if pressures[each] <= sizes[-1]), heights[-1])
        new = _StripMiner(rows, height).function(function)
        if usable and pressures[height] > sizes[0]:
            new.attributes[REGISTERS] = IntegerAttr(usable[-1], i64)
        return new

    def _divides_rows_for_addresses(self, function: func.FuncOp) -> bool:
        """Whether a single row becomes a strip, too."""
        return bool(max(self.target.registers)) and not self.target.block_io and \
            any(map(_is_updated, of_kind(function, InitTileOp)))

    @property
    def _fragment_bytes(self) -> float:
        """Bytes of a register, less the part of it that addresses take."""
        by_blocks = self.target.block_io and all(kind in ("", "block") for kind in self.access)
        return self.target.register_bytes * (FOR_FRAGMENTS if by_blocks else _WITH_ADDRESSES)

    def _modes(self, function: func.FuncOp) -> list[int]:
        """GRF modes in which a work-group may have as many subgroups as the kernel's, the smaller first; none on
        CPUs."""
        if not max(self.target.registers):
            return []
        allowed = zip(self.target.registers, self.target.max_subgroups, strict=True)
        fitting = [mode for mode, most in allowed if subgroup_count(function) <= most]
        return [mode for mode in modes(function, self.target) if mode in fitting] or modes(function, self.target)


class _StripMiner(Rewriter):
    """Rewriter of one function.

    Args:
        rows: of the tile.
        height: rows of a strip.
    """

    def __init__(self, rows: int, height: int) -> None:
        super().__init__({})
        self.rows, self.height = rows, height
        self.stored: dict[SSAValue, SSAValue] = {}  # for tiles that are loaded as well: loads take larger blocks
        self.row: SSAValue | None = None

    def body(self, old: Block, new: Block) -> list[ConvertedValues]:
        """The function's body: operations common to all rows, then the loop of the others; other blocks as they are."""
        if self.row is not None:
            return super().body(old, new)
        *operations, end = old.ops
        before: set[Operation] = set()
        for operation in operations:
            if _is_of_numbers(operation) and all(isinstance(each.owner, Block) or each.owner in before
                                                 for each in operation.operands):  # not of loops in the strip
                before.add(operation)
        strip = Block(arg_types=[IndexType()])
        self.row = strip.args[0]
        self.row.name_hint = "row"
        with self.inside(new):
            self._rewrite(operation for operation in operations if operation in before)
            with self.inside(strip):
                self._rewrite(operation for operation in operations if operation not in before)
            strip.add_op(scf.YieldOp())
            loop = scf.ForOp(self.constant(0), self.constant(self.rows), self.constant(self.height), [], Region(strip))
            loop.attributes |= {DISABLE_LICM: UnitAttr(), DISABLE_UNROLL: UnitAttr()}
            self.emit(loop)
            self._rewrite([end])
        return []

    def _rewrite(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self.location = operation.location
            self._visit(operation)

    def visit(self, operation: Operation) -> None:
        """Rewrite one operation: tiles begin at the strip's first row, and vectors have its rows."""
        if operation.regions:
            super().visit(operation)
            return
        operands = [self.single(operand) for operand in operation.operands]
        if isinstance(operation, StoreTileOp):
            operands[1] = self.stored.get(operation.tile, operands[1])
        if isinstance(operation, InitTileOp) and rows_of(operation.result) == self.rows:
            at = len(operation.offsets) - 1  # behind the source: the last offset but one
            operands[at] = self.add(operands[at], self._row())
        types = [self._strip_type(result) for result in operation.results]
        if isinstance(operation, IotaOp) and operation.axis.value.data == 0 and types != [operation.result.type]:
            start = operands[0] if operands else self.constant(0)
            emitted: Operation = IotaOp(types[0], 0, self.add(start, self._row()))  # type: ignore[arg-type]
            self.emit(emitted)
        elif not types or any(rows_of(value) is not None for value in (*operation.operands, *operation.results)):
            emitted = self.like(operation, operands, types)
        else:
            self.copy(operation)
            return
        for old, new in zip(operation.results, emitted.results, strict=True):
            self.set(old, new)
        if _is_updated(operation):
            self.stored[operation.results[0]] = self.like(operation, operands, types).results[0]

    def _row(self) -> SSAValue:
        assert self.row is not None
        return self.row

    def _strip_type(self, value: SSAValue) -> Attribute:
        """The type of a value of the strip."""
        if rows_of(value) != self.rows:
            return value.type
        if isinstance(value.type, TileType):
            return value.type.with_(shape=(self.height, value.type.data.shape[1]))
        assert isinstance(value.type, VectorType)
        return VectorType(value.type.element_type, (self.height, value.type.get_shape()[1]))


def _is_updated(operation: Operation) -> bool:
    """Whether an operation initializes a tile that is loaded and stored, as a residual is, and nothing else."""
    return isinstance(operation, InitTileOp) and \
        {type(use.operation) for use in operation.result.uses} == {LoadTileOp, StoreTileOp}


def _is_of_numbers(operation: Operation) -> bool:
    """Whether an operation computes numbers alone, which are the same for all strips."""
    return bool(operation.results) and not operation.regions and \
        all(rows_of(value) is None for value in (*operation.operands, *operation.results))
