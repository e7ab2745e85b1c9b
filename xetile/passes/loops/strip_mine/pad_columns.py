"""Column padding: the columns of a tile are padded to a multiple of the lanes; loads and stores check the bounds.

    %t = init_tile %X, [%m, %n], [%rows, %columns], ... : !tile<8x250xf32>
    %x = load_tile %t : vector<8x250xf32>
    %s = tile_reduce <add> %x [1]
becomes, for 8 lanes
    %limit = maxsi (addi (minsi %n, (addi %columns, -250)), 250), 0
    %t = init_tile %X, [%m, %n], [%rows, %limit], ... : !tile<8x256xf32>
    %x = load_tile %t : vector<8x256xf32>
    %s = tile_reduce <add> (select (cmpi slt (iota [1]), 250), %x, -0.0) [1]

Blocks of 2 columns, which divide 250, have four rows to fill 8 lanes; a strip of fewer rows leaves lanes idle, and
takes several times the registers, messages and instructions. Where there are no 2D block messages, every access
compares its columns with the array's anyway, so that the tile's own end costs nothing. What is reduced along a row has
the neutral element there; nothing else tells the columns apart, which are computed as if they were elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp, VectorType, i32
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.ir.matchers import number
from xegpu.ir.memref import is_address, is_shared
from xegpu.mlir.arith import CmpIOp, SelectOp
from xegpu.mlir.elementwise import RECORDS
from xegpu.rewrite.memref_operands import spelled_out
from xegpu.rewrite.rewriter import Rewriter, rewrite
from xegpu.target.targets import Target
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.tile_ops import (
    IN_BOUNDS,
    OOB,
    InitTileOp,
    LoadTileOp,
    PrefetchTileOp,
    StoreTileOp,
    UpdateTileOffsetOp,
    tile_of,
)
from xetile.dialect.types import TileType
from xetile.dialect.vector import IotaOp
from xetile.passes.loops.strip_mine.row_dependence import is_plain
from xetile.passes.splat import neutral_splat, splat

_MOST = 4, 3
"""Maximum ratio of padded to original columns: tall tiles also fill their lanes with rows, and padding costs work."""
_OF_COLUMNS = (InitTileOp, LoadTileOp, StoreTileOp, PrefetchTileOp, UpdateTileOffsetOp, TileBroadcastOp, TileReduceOp,
               BroadcastOp, IotaOp, scf.ForOp, scf.IfOp, scf.YieldOp)
"""Operations beside element-wise ones that may have padded columns."""


@dataclass(frozen=True)
class PadColumns:
    """Pass ``pad-columns``.

    Attributes:
        target: its lanes; it has no 2D block messages.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such tiles padded; the module itself where there are none, or something may tell."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        concerned = [operation for operation in function.walk() if any(
            self.columns(value.type) for value in (*operation.operands, *operation.results))]
        if not concerned or not all(map(_may_pad, concerned)):
            return function
        return _ColumnPadder(self).function(function)

    def columns(self, type_: Attribute) -> int | None:
        """Columns that vectors and tiles of a type get; None for other types, and those that stay."""
        shape = type_.get_shape() if isinstance(type_, VectorType) else \
            type_.data.shape if isinstance(type_, TileType) else ()
        lanes = self.target.subgroup_size
        if not shape or shape[-1] < lanes or shape[-1] % lanes == 0:
            return None
        padded = -(-shape[-1] // lanes) * lanes
        return padded if padded * _MOST[1] <= shape[-1] * _MOST[0] else None


def _may_pad(operation: Operation) -> bool:
    """Whether the result of an operation stays the same if its vectors and tiles have more columns."""
    if not all(map(is_plain, (*operation.operands, *operation.results))) or OOB in operation.attributes:
        return False
    if isinstance(operation, InitTileOp):
        source = operation.source.type
        return not (is_address(source) or is_shared(source)) and tile_of(operation.result).encoding.order == (1, 0)
    if isinstance(operation, UpdateTileOffsetOp):
        return number(operation.offsets[-1]) == 0  # a tile that moves has its end elsewhere
    record = RECORDS.get(type(operation))
    return isinstance(operation, _OF_COLUMNS) if record is None else record.defined != "divisor"


class _ColumnPadder(Rewriter):
    """Rewriter of one function.

    Args:
        padding: the pass, which knows the columns of types.
    """

    def __init__(self, padding: PadColumns) -> None:
        super().__init__({InitTileOp: _init_tile, TileReduceOp: _tile_reduce})
        self.padding = padding

    def copy(self, operation: Operation) -> None:
        """A copy of an operation, its vectors and tiles with their columns."""
        if not any(map(self.padding.columns, (value.type for value in (*operation.operands, *operation.results)))):
            super().copy(operation)
            return
        operands = [self.single(operand) for operand in operation.operands]
        copied = self.like(operation, operands, [self.padded(result.type) for result in operation.results])
        for old, new in zip(operation.results, copied.results, strict=True):
            new.name_hint = old.name_hint
            self.set(old, new)

    def padded(self, type_: Attribute) -> Attribute:
        """The type with its columns."""
        columns = self.padding.columns(type_)
        if columns is None:
            return type_
        if isinstance(type_, TileType):
            return type_.with_(shape=(type_.data.shape[0], columns))
        assert isinstance(type_, VectorType)
        return VectorType(type_.element_type, (type_.get_shape()[0], columns))


def _init_tile(rewriter: _ColumnPadder, operation: InitTileOp) -> None:
    """A tile whose array ends where the columns of the tile do, or before."""
    if rewriter.padding.columns(operation.result.type) is None:
        rewriter.copy(operation)
        return
    offsets = [rewriter.single(offset) for offset in operation.offsets]
    source, sizes, strides = spelled_out(rewriter, operation)
    *others, width = sizes
    columns = tile_of(operation.result).shape[1]
    limit = rewriter.shared(("end", width, offsets[-1], columns), lambda: _end(rewriter, width, offsets[-1], columns))
    tile = InitTileOp(source, offsets, [*others, limit], strides, rewriter.padded(operation.result.type))
    tile.attributes.update({name: value for name, value in operation.attributes.items() if name != IN_BOUNDS})
    rewriter.set(operation.result, rewriter.emit(tile))


def _end(rewriter: _ColumnPadder, width: SSAValue, first: SSAValue, columns: int) -> SSAValue:
    """End of the columns from ``first`` on, in an array of some width; 0 for a tile that lies in front of the array."""
    start, known = number(first), number(width)
    if start is not None and start + columns < 1 << 31:  # devices compute indices in 32 bits
        end = max(start + columns, 0)
        return rewriter.constant(min(end, known)) if known is not None else \
            rewriter.emit(arith.MinSIOp(width, rewriter.constant(end)))
    last = rewriter.emit(arith.MinSIOp(first, rewriter.add(width, -columns)))  # first + columns may overflow
    return rewriter.emit(arith.MaxSIOp(rewriter.add(last, columns), rewriter.constant(0)))


def _tile_reduce(rewriter: _ColumnPadder, operation: TileReduceOp) -> None:
    """A reduction along rows, of the columns that were there."""
    columns = rewriter.padding.columns(operation.source.type)
    if columns is None or 1 not in axes_of(operation):
        rewriter.copy(operation)
        return
    source = rewriter.single(operation.source)
    type_, last = source.type, operation.source.type
    assert isinstance(type_, VectorType)
    assert isinstance(last, VectorType)
    rest = neutral_splat(rewriter, operation.kind.data, type_)
    mask = rewriter.shared(("mask", type_.get_shape()), lambda: _mask(rewriter, type_.get_shape(), last.get_shape()[1]))
    chosen = rewriter.emit(SelectOp(mask, source, rest))
    rewriter.set(operation.result, rewriter.emit(TileReduceOp(operation.kind.data, chosen, axes_of(operation))))


def _mask(rewriter: _ColumnPadder, shape: tuple[int, ...], columns: int) -> SSAValue:
    """Mask of the first columns of a vector."""
    counters = VectorType(i32, shape)
    return rewriter.emit(CmpIOp(rewriter.emit(IotaOp(counters, 1)), splat(rewriter, columns, counters), "slt"))
