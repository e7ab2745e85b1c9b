"""Strip mining of columns: a row that exceeds the registers becomes loops over strips of it, one for each reduction.

    %x = load_tile %X[%m, %0] : vector<1x4096xf32>
    %s = tile_reduce <add> (mulf %x, %x) [1]
    store_tile (mulf %x, tile_broadcast (rsqrt %s)), %Y[%m, %0]
becomes, where a strip has 256 columns
    %sums = scf.for %c = %0 to %4096 step %256 iter_args(%sums = -0.0) {
      %x = load_tile %X[%m, %c] : vector<1x256xf32>
      addf %sums, (mulf %x, %x) }
    %s = tile_reduce <add> %sums [1]
    scf.for %c = %0 to %4096 step %256 {
      %x = load_tile %X[%m, %c] : vector<1x256xf32>
      store_tile (mulf %x, tile_broadcast (rsqrt %s)), %Y[%m, %c] }

Kept whole, a row that takes all registers goes to memory and comes back, in straight-line code for all of its blocks,
for which a CPU's compiler takes minutes. There, strips have four vectors a row, and what columns remain behind
the last whole one are reduced by themselves. Sums of f16 and bf16 are carried in f32, and rounded behind the loop.
What follows from loads is computed again in each loop. So no array that is stored may share elements with another
argument, which a launch refuses unless the kernel says ``may_alias``; all is stored in the last loop, and an array that
is stored as well as loaded is accessed by tiles at one place alone, loads before stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IndexType, ModuleOp, UnitAttr, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xegpu.ir.dtypes import DType, bf16, f16, f32, f64, i8, i16, i32, i64, of_mlir, u8, u16, u32, u64
from xegpu.ir.kernel_attributes import MAY_ALIAS
from xegpu.ir.matchers import DISABLE_LICM, DISABLE_UNROLL
from xegpu.ir.memref import is_address, is_shared
from xegpu.ir.traits import read_operands, written_operand
from xegpu.ir.use_def import arrays_of
from xegpu.mlir.combining_kind import combined
from xegpu.mlir.elementwise import RECORDS
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, rewrite
from xegpu.target.targets import Target
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.tile_ops import InitTileOp, LoadTileOp, StoreTileOp, tile_of
from xetile.dialect.types import TileType
from xetile.dialect.vector import IotaOp
from xetile.passes.loops.strip_mine.row_dependence import (
    OF_NUMBERS,
    is_plain,
    may_overlap,
    same_value,
)
from xetile.passes.loops.strip_mine.row_pressure import live_row_bytes
from xetile.passes.splat import neutral_splat

_EXCEEDS = 0.9
"""Part of all registers that live values may take; the rest is for addresses and the like."""
_STRIP = 0.4
"""Part of all registers that a strip and its partial sums may take: loads of the next strip are under way."""
_LEAST_BLOCKS = 4
"""Columns of a strip, to the lanes, at least: with fewer the loop takes more instructions than its strips."""
_SUMMED_WIDE = (f16, bf16)
"""Element types that are added up in f32, and rounded once, at the end."""
_OF_STRIPS = (InitTileOp, LoadTileOp, StoreTileOp, TileReduceOp, TileBroadcastOp, BroadcastOp, IotaOp)
_REDUCED = (*_SUMMED_WIDE, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64)
"""Element types of reductions."""
_END = (scf.YieldOp, func.ReturnOp)


@dataclass(frozen=True)
class StripMineColumns:
    """Pass ``strip-mine-columns``.

    Attributes:
        target: its registers and lanes.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with loops over strips; the module itself where all rows fit, or columns depend on each other."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        if MAY_ALIAS in function.attributes:
            return function
        reduced = {operation.parent_block() for operation in function.walk() if isinstance(operation, TileReduceOp)}
        strips = {block: strip for block in reduced if block is not None and (strip := self._strip(block)) is not None}
        return _ColumnStripMiner(strips, self.target.subgroup_size).function(function) if strips else function

    def _strip(self, block: Block) -> _Strip | None:
        """Strips of a block; None where it fits the registers, or cannot be split."""
        room = self.target.unrolled_bytes or max(self.target.registers) * self.target.register_bytes
        live = live_row_bytes(block, 1.0, sinks=not self.target.block_io)
        if live <= room * _EXCEEDS or (phases := _phases(block)) is None:
            return None
        columns = max(map(_columns, phases.reductions()))
        least = self.target.subgroup_size * _LEAST_BLOCKS
        if self.target.unrolled_bytes:  # wider strips are no faster, and longer to compile
            return _Strip(phases, columns, least) if columns >= 2 * least else None
        sums = max(sum(_row_bytes(each.source) for each in phases.reductions(phase)) for phase in range(phases.count))
        most = room * _STRIP / (live + sums) * columns
        widths = [width for width in range(least, columns, self.target.subgroup_size)
                  if columns % width == 0 and width <= most]
        return _Strip(phases, columns, widths[-1]) if widths else None


@dataclass(frozen=True)
class _Phases:
    """The order in which a block of operations is gone over.

    Attributes:
        block: the operations.
        of: the loop before which an operation on numbers and on columns of one element can stand, or in which what it
            is of whole rows can be computed first.
        count: loops over columns.
    """

    block: Block
    of: dict[Operation, int]
    count: int

    def reductions(self, phase: int | None = None) -> list[TileReduceOp]:
        """Reductions of whole rows, all or those of a loop."""
        return [each for each in self.of if isinstance(each, TileReduceOp) and _is_along_rows(each) and
                (phase is None or self.of[each] == phase + 1)]

    def stores(self) -> list[StoreTileOp]:
        """Stores of whole rows, all of which are in the last loop."""
        return [each for each in self.of if isinstance(each, StoreTileOp) and _is_wide(each)]

    def outside(self, phase: int) -> Iterator[Operation]:
        """Operations in front of a loop, in order; those behind the last one for ``count``."""
        return (each for each, of in self.of.items() if of == phase and not _is_wide(each))

    def inside(self, phase: int) -> list[Operation]:
        """Operations of whole rows that a loop needs, in order."""
        needed: set[Operation] = set()
        waiting: list[Operation] = [*self.reductions(phase), *(self.stores() if phase == self.count - 1 else ())]
        while waiting:
            operation = waiting.pop()
            if operation not in needed:
                needed.add(operation)
                waiting += [each.owner for each in operation.operands if isinstance(each.owner, Operation) and
                            each.owner in self.of and _is_wide(each.owner) and not _ends_loop(each.owner)]
        return [each for each in self.of if each in needed]


@dataclass(frozen=True)
class _Strip:
    """Strips of a block.

    Attributes:
        phases: its loops.
        columns: of its rows.
        width: columns of a strip.
    """

    phases: _Phases
    columns: int
    width: int

    @property
    def whole(self) -> int:
        """Columns in strips of the same width."""
        return self.columns // self.width * self.width

    def rest(self, lanes: int) -> Iterator[tuple[int, int]]:
        """First columns and columns of the strips behind those: what fills the lanes, and what does not."""
        filled = self.columns // lanes * lanes
        if filled > self.whole:
            yield self.whole, filled - self.whole
        if self.columns > filled:
            yield filled, self.columns - filled


class _ColumnStripMiner(Rewriter):
    """Rewriter of one function.

    Args:
        strips: its blocks that are taken apart.
        lanes: of a subgroup.
    """

    def __init__(self, strips: dict[Block, _Strip], lanes: int) -> None:
        super().__init__({})
        self._strips, self._lanes = strips, lanes

    def body(self, old: Block, new: Block) -> list[ConvertedValues]:
        """A block in loops over strips; other blocks as they are."""
        strip = self._strips.get(old)
        if strip is None:
            return super().body(old, new)
        with self.inside(new):
            for phase in range(strip.phases.count + 1):
                self._each(strip.phases.outside(phase))
                if phase < strip.phases.count:
                    self._phase(strip, phase)
            self._each(each for each in [old.last_op] if isinstance(each, func.ReturnOp))
        return []

    def _each(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self.location = operation.location
            self._visit(operation)

    def _phase(self, strip: _Strip, phase: int) -> None:
        """A loop over the strips, the remaining columns behind it, and the reductions of the partial results."""
        reductions = strip.phases.reductions(phase)
        initial = []
        for each in reductions:
            self.location = each.location
            initial.append(neutral_splat(self, each.kind.data, _summed(_narrowed(each.source.type, strip.width))))
        block = Block(arg_types=[IndexType(), *(value.type for value in initial)])
        block.args[0].name_hint = "column"
        with self.inside(block):
            sources = self._strip(strip, phase, block.args[0], strip.width)
            sums = [self.emit(combined(each.kind.data, total, source))
                    for each, total, source in zip(reductions, block.args[1:], sources, strict=True)]
            block.add_op(scf.YieldOp(*sums))
        loop = scf.ForOp(self.constant(0), self.constant(strip.whole), self.constant(strip.width), initial,
                         Region(block))
        loop.attributes |= {DISABLE_LICM: UnitAttr(), DISABLE_UNROLL: UnitAttr()}
        self.emit(loop)
        reduced = [self._reduced(each, total) for each, total in zip(reductions, loop.res, strict=True)]
        for start, width in strip.rest(self._lanes):
            sources = self._strip(strip, phase, self.constant(start), width)
            reduced = [self.emit(combined(each.kind.data, total, self._reduced(each, source)))
                       for each, total, source in zip(reductions, reduced, sources, strict=True)]
        for each, total in zip(reductions, reduced, strict=True):
            self.location = each.location
            type_ = each.result.type
            self.set(each.result, total if total.type == type_ else self.emit(arith.TruncFOp(total, type_)))

    def _strip(self, strip: _Strip, phase: int, column: SSAValue, width: int) -> list[SSAValue]:
        """Operations of a loop for some columns; the values to reduce."""
        for operation in strip.phases.inside(phase):
            self.location = operation.location
            if not _ends_loop(operation):
                self._narrow(operation, column, width)
        sources = []
        for each in strip.phases.reductions(phase):
            self.location = each.location
            source = self.single(each.source)
            type_ = _summed(source.type)
            sources.append(source if source.type == type_ else self.emit(arith.ExtFOp(source, type_)))
        return sources

    def _reduced(self, reduction: TileReduceOp, source: SSAValue) -> SSAValue:
        self.location = reduction.location
        return self.emit(TileReduceOp(reduction.kind.data, source, axes_of(reduction)))

    def _narrow(self, operation: Operation, column: SSAValue, width: int) -> None:
        """An operation on whole rows, for the columns of a strip."""
        operands = [self.single(operand) for operand in operation.operands]
        types = [_narrowed(result.type, width) for result in operation.results]
        if isinstance(operation, InitTileOp):
            last = len(operation.offsets)  # the source is the first operand
            operands[last] = self.add(operands[last], column)
        if isinstance(operation, IotaOp) and operation.axis.value.data == 1:
            start = self.add(operands[0], column) if operands else column
            emitted: Operation = IotaOp(types[0], 1, start)  # type: ignore[arg-type]
            self.emit(emitted)
        else:
            emitted = self.like(operation, operands, types)
        for old, new in zip(operation.results, emitted.results, strict=True):
            self.set(old, new)


def _phases(block: Block) -> _Phases | None:
    """The loops that a block becomes; None where columns depend on each other, or the order of accesses may matter."""
    *operations, end = block.ops
    if not isinstance(end, _END) or end.operands:
        return None
    widths = {width for operation in operations for value in (*operation.operands, *operation.results)
              if (width := _columns_of(value.type)) > 1}
    inside = set(operations)
    from_outside = any(_columns_of(value.type) > 1 and value.owner not in inside
                       for operation in operations for value in operation.operands)
    if len(widths) != 1 or from_outside or not all(map(_may_narrow, operations)) or not _may_load_again(operations):
        return None
    of: dict[Operation, int] = {}
    stored = 0  # stores beside the loops keep their order: two may be to one place
    for operation in operations:
        known = [of[value.owner] for value in operation.operands
                 if isinstance(value.owner, Operation) and value.owner in of]
        of[operation] = max(known, default=0) + (isinstance(operation, TileReduceOp) and _is_along_rows(operation))
        if isinstance(operation, StoreTileOp) and not _is_wide(operation):
            of[operation] = stored = max(stored, of[operation])
    count = max((phase if _ends_loop(operation) else phase + 1 for operation, phase in of.items()
                 if _ends_loop(operation) or (isinstance(operation, StoreTileOp) and _is_wide(operation))), default=0)
    phases = _Phases(block, of, count)
    return phases if phases.reductions() else None


def _may_narrow(operation: Operation) -> bool:
    """Whether each column of an operation's result is made of that column of its operands, or of all by a reduction."""
    values = (*operation.operands, *operation.results)
    if operation.regions or not all(map(is_plain, values)):
        return False
    if isinstance(operation, TileReduceOp):
        along = axes_of(operation)
        return along == (0,) or (along == (1,) and _dtype(operation.source) in _REDUCED)
    if isinstance(operation, InitTileOp):
        source = operation.source.type
        return not (is_address(source) or is_shared(source)) and tile_of(operation.result).encoding.order == (1, 0) \
            and len(operation.offsets) > 1
    if isinstance(operation, arith.ConstantOp):
        return not isinstance(operation.result.type, VectorType)  # elements may differ
    return isinstance(operation, _OF_STRIPS + OF_NUMBERS) or type(operation) in RECORDS


def _may_load_again(operations: list[Operation]) -> bool:
    """Whether each array that is stored is accessed by tiles at one place, and not loaded behind a store."""
    stored: set[SSAValue] = set()
    accessed: list[SSAValue] = []
    for operation in operations:
        read = [operation.operands[at] for at in read_operands(type(operation))]
        accessed += read
        if any(arrays_of(memory) & stored for memory in read):
            return False
        if (at := written_operand(type(operation))) is not None:
            stored |= arrays_of(operation.operands[at])
            accessed.append(operation.operands[at])
    tiles = [memory.owner for memory in accessed if arrays_of(memory) & stored]
    places: dict[SSAValue, object] = {}
    for tile in tiles:
        if not isinstance(tile, InitTileOp):
            return False
        place = (tile.source, tile.result.type, *map(same_value, (*tile.offsets, *tile.shape, *tile.strides)))
        if may_overlap(tile) or any(places.setdefault(array, place) != place for array in arrays_of(tile.result)):
            return False
    return True


def _is_along_rows(operation: TileReduceOp) -> bool:
    return axes_of(operation) == (1,) and _is_wide(operation)


def _ends_loop(operation: Operation) -> bool:
    """Whether an operation's result is there behind a loop alone."""
    return isinstance(operation, TileReduceOp) and _is_along_rows(operation)


def _is_wide(operation: Operation) -> bool:
    """Whether whole rows are an operand or a result."""
    return any(_columns_of(value.type) > 1 for value in (*operation.operands, *operation.results))


def _columns(operation: TileReduceOp) -> int:
    return _columns_of(operation.source.type)


def _columns_of(type_: Attribute) -> int:
    """Columns of a vector or a tile; 0 for other types."""
    if isinstance(type_, VectorType):
        return type_.get_shape()[-1]
    return int(type_.data.shape[-1]) if isinstance(type_, TileType) else 0


def _row_bytes(value: SSAValue) -> int:
    assert isinstance(value.type, VectorType)
    rows, columns = value.type.get_shape()
    return rows * columns * _dtype(value).bytes


def _dtype(value: SSAValue) -> DType:
    assert isinstance(value.type, VectorType)
    return of_mlir(value.type.element_type)


def _summed(type_: Any) -> Any:
    """The type in which vectors of a type are added up."""
    return VectorType(f32.mlir, type_.get_shape()) if of_mlir(type_.element_type) in _SUMMED_WIDE else type_


def _narrowed(type_: Any, width: int) -> Any:
    """The type of a strip of a value's columns."""
    if _columns_of(type_) <= 1:
        return type_
    if isinstance(type_, TileType):
        return type_.with_(shape=(*type_.data.shape[:-1], width))
    assert isinstance(type_, VectorType)
    return VectorType(type_.element_type, (*type_.get_shape()[:-1], width))
