"""Independent rows of a tile: dependence analysis for :mod:`xetile.passes.loops.strip_mine`."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, func, gpu, memref, scf
from xdsl.dialects.builtin import UnrealizedConversionCastOp, VectorType
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, SSAValue

from xegpu.ir.kernel_attributes import MAY_ALIAS
from xegpu.ir.matchers import number
from xegpu.ir.memref import is_address, is_shared
from xegpu.ir.traits import read_operands, written_operand
from xegpu.ir.traversal import is_a, of_kind, operations
from xegpu.ir.use_def import array_of, arrays_of, root_definitions
from xegpu.mlir.elementwise import RECORDS
from xetile.dialect.gather_scatter import InitScatteredTileOp, LoadGatherOp, UpdateScatteredTileOp
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.tile_ops import InitTileOp, LoadTileOp, PrefetchTileOp, StoreTileOp, UpdateTileOffsetOp, tile_of
from xetile.dialect.types import TileType
from xetile.dialect.vector import IotaOp

_OF_ROWS = (LoadTileOp, StoreTileOp, PrefetchTileOp, UpdateTileOffsetOp, InitScatteredTileOp, UpdateScatteredTileOp,
            LoadGatherOp, TileBroadcastOp, BroadcastOp, IotaOp)
"""Operations of which each row of the result is made of that row of the operands."""
OF_NUMBERS = (memref.LoadOp, memref.ExtractStridedMetaDataOp, memref.CastOp, memref.DimOp, gpu.BlockIdOp,
               gpu.SubgroupIdOp, gpu.GridDimOp, UnrealizedConversionCastOp)
"""Operations beside those of arithmetic that give numbers and write nothing."""
_KEEPING_ROWS = (*_OF_ROWS, *OF_NUMBERS, scf.ForOp, scf.IfOp, scf.YieldOp, func.ReturnOp)


def rows_of(value: SSAValue) -> int | None:
    """Rows of a vector or a tile; None for other values."""
    if isinstance(value.type, VectorType):
        return value.type.get_shape()[0]
    return value.type.data.shape[0] if isinstance(value.type, TileType) else None


def independent_rows(function: func.FuncOp) -> int | None:
    """Rows of a kernel's tile that nothing but their numbers tells apart; None if there are none.

    All its vectors and tiles have as many rows, or one, which is the same for all. A tile may be a single row.
    """
    if MAY_ALIAS in function.attributes:
        return None
    stored = [rows_of(operation.tile) or 1 for operation in of_kind(function, StoreTileOp)]
    rows = max(stored, default=0)
    if not rows or not all(_keeps_rows(operation, rows) for operation in operations(function)[1:]):
        return None
    return rows if _may_reorder(function, rows) else None


def _keeps_rows(operation: Operation, rows: int) -> bool:
    """Whether an operation makes each row of its result of that row of its operands."""
    values = (*operation.operands, *operation.results)
    if not all(map(is_plain, values)) or any(rows_of(value) not in (None, 1, rows) for value in values):
        return False
    if type(operation) is TileReduceOp:
        return rows_of(operation.source) == 1 or axes_of(operation) == (1,)
    if type(operation) is StoreTileOp:
        return rows_of(operation.tile) == rows
    if type(operation) is InitTileOp:
        source = operation.source.type
        return not (is_address(source) or is_shared(source)) and tile_of(operation.result).encoding.order == (1, 0)
    if type(operation) is arith.ConstantOp:
        return rows_of(operation.result) is None  # elements of a vector constant may differ
    return is_a(operation, _KEEPING_ROWS) or type(operation) in RECORDS


def is_plain(value: SSAValue) -> bool:
    """Whether a value is no vector or tile in blocks, none of another rank than two, and not distributed."""
    if isinstance(value.type, VectorType):
        return len(value.type.get_shape()) == 2
    if isinstance(value.type, TileType):
        encoding = value.type.data.encoding
        return encoding.inner_blocks is None and encoding.wg_map is None
    return True


def _may_reorder(function: func.FuncOp, rows: int) -> bool:
    """Whether all accesses to an array that is written begin at one row, which no loop moves."""
    entry = function.body.block
    written = {array for operation in operations(function) if (at := written_operand(type(operation))) is not None
               for array in arrays_of(operation.operands[at])}
    moved = {array for operation in of_kind(function, UpdateTileOffsetOp) if number(operation.offsets[0]) != 0
             for array in arrays_of(operation.tile)}
    if moved & written:
        return False
    first: dict[SSAValue, tuple[object, ...]] = {}
    for memory in _accesses(function):
        arrays = arrays_of(memory)
        if not arrays & written:
            continue
        origins = {_origin(root, entry, rows) for root in root_definitions(memory)}
        if len(arrays) != 1 or len(origins) != 1 or None in origins:
            return False
        (origin,), (array,) = origins, arrays
        assert origin is not None
        if first.setdefault(array, origin) != origin:
            return False
    return True


def _accesses(function: func.FuncOp) -> Iterator[SSAValue]:
    """Tiles and arrays that operations read or write through."""
    for operation in function.walk():
        for at in (*read_operands(type(operation)), written_operand(type(operation))):
            if at is not None:
                yield operation.operands[at]


def _origin(root: SSAValue, entry: Block, rows: int) -> tuple[object, ...] | None:
    """Position of a tile of all rows, without its column; None for other memory, or where a loop determines it."""
    tile = root.owner
    if not isinstance(tile, InitTileOp) or rows_of(tile.result) != rows or may_overlap(tile):
        return None
    outer = tile.offsets[:-1]
    if any(number(offset) is None and _block_of(offset) is not entry for offset in outer):
        return None
    array = array_of(tile.source)
    layout = tuple(same_value(value) for value in (*tile.shape, *tile.strides))
    return (array, tile.source.type, layout, *map(same_value, outer))


def may_overlap(tile: InitTileOp) -> bool:
    """Whether rows of a tile may share elements: those of an array do not, strides that an author writes may be any."""
    if not tile.strides:
        return False
    array, strides = tile.strides[-2].owner, tuple(tile.strides[-2:])
    if isinstance(array, memref.ExtractStridedMetaDataOp) and array_of(array.source) is array_of(tile.source) and \
            strides == tuple(array.strides[-2:]):
        return False
    (pitch, step), columns = map(number, strides), number(tile.shape[-1])
    return pitch is None or step is None or columns is None or not 0 < columns * step <= pitch


def same_value(value: SSAValue) -> object:
    """Key that is equal for equal constants, and for the same value."""
    known = number(value)
    return value if known is None else known


def _block_of(value: SSAValue) -> Block | None:
    return value.owner if isinstance(value.owner, Block) else value.owner.parent
