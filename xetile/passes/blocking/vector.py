"""Blocking of vector operations: reductions, broadcasts and transpositions (XeTile.md, "Internal Operations").

    %r = tile_reduce <add> %v [1] : vector<32x64xf32> -> vector<32x1xf32>
    %b = tile_broadcast %r [1] : vector<32x1xf32> -> vector<32x64xf32>
    %t = tile_transpose %b : vector<32x64xf32> -> vector<64x32xf32>
becomes
    %r = tile_reduce <add> (pack (unpack %v)) [1, 3] : vector<2x4x16x16xf32> -> vector<2x1x16x1xf32>
    %b = tile_broadcast %r [1, 3] : vector<2x1x16x1xf32> -> vector<2x4x16x16xf32>
    %t = pack (tile_transpose (unpack %b)) : vector<64x32xf32> -> vector<8x2x8x16xf32>

Blocks of a matrix have as many rows as blocks of its reduced column, or as many columns as those of its reduced row, so
that each block is reduced from, or broadcast to, complete blocks. A block of a column has as many rows as the subgroup
has lanes where they divide it, so that it fills a register.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from xegpu.analysis.webs import Webs
from xegpu.ir.memref import is_shared
from xegpu.mlir.combining_kind import keep_nnan
from xegpu.mlir.vector import shape_of
from xegpu.rewrite.rewriter import Rule
from xetile.dialect import tile_ops
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.vector import TileBitcastOp, TilePackOp, TileTransposeOp, TileUnpackOp
from xetile.dialect.wg_map import Pair
from xetile.passes.to_xegpu.rearrange import KINDS


def _flat(value: SSAValue) -> Pair:
    rows, columns = shape_of(value)
    return rows, columns


def _aligned_blocks(rewriter: Any, reduced: Pair, full: Pair) -> tuple[Pair, Pair]:
    """Blocks of a vector of size 1 along some dimensions, and of the vector that it is reduced from or broadcast to."""
    small, large = rewriter.sizes.compute_block(reduced), rewriter.sizes.compute_block(full)
    rows = small[0] if reduced[0] == full[0] else large[0]
    columns = small[1] if reduced[1] == full[1] else large[1]
    return small, (rows, columns)


def _blocked_axes(axes: tuple[int, ...]) -> list[int]:
    return sorted([*axes, *(axis + 2 for axis in axes)])


def _tile_reduce(rewriter: Any, operation: TileReduceOp) -> None:
    if len(shape_of(operation.source)) == 4:
        rewriter.copy(operation)
        return
    small, large = _aligned_blocks(rewriter, _flat(operation.result), _flat(operation.source))
    source = rewriter.reblock(rewriter.single(operation.source), large)
    result = rewriter.emit(keep_nnan(TileReduceOp(operation.kind.data, source, _blocked_axes(axes_of(operation))),
                                     operation))
    rewriter.set(operation.result, rewriter.reblock(result, small))


def _tile_broadcast(rewriter: Any, operation: TileBroadcastOp) -> None:
    shape = shape_of(operation.result)
    if len(shape) == 4:
        rewriter.copy(operation)
        return
    small, large = _aligned_blocks(rewriter, _flat(operation.source), _flat(operation.result))
    source = rewriter.reblock(rewriter.single(operation.source), small)
    blocked = (shape[0] // large[0], shape[1] // large[1], *large)
    result = rewriter.emit(TileBroadcastOp(source, blocked, _blocked_axes(axes_of(operation))))
    rewriter.set(operation.result, rewriter.reblock(result, rewriter.sizes.compute_block(_flat(operation.result))))


def _tile_bitcast(rewriter: Any, operation: TileBitcastOp) -> None:
    if len(shape_of(operation.source)) == 4:
        rewriter.copy(operation)
        return
    source = rewriter.reblock(rewriter.single(operation.source), rewriter.sizes.compute_block(_flat(operation.source)))
    result = rewriter.emit(TileBitcastOp(source, operation.result.type.element_type))  # type: ignore[attr-defined]
    rewriter.set(operation.result, rewriter.reblock(result, rewriter.sizes.compute_block(_flat(operation.result))))


def _tile_transpose(rewriter: Any, operation: TileTransposeOp) -> None:
    flat = rewriter.emit(TileUnpackOp(rewriter.single(operation.source)))
    transposed = rewriter.emit(TileTransposeOp(flat))
    blocks = rewriter.sizes.compute_block(_flat(operation.result))
    rewriter.set(operation.result, rewriter.emit(TilePackOp(transposed, blocks)))


def _rearrange(rewriter: Any, operation: Operation) -> None:
    """A slice, a cast or an insertion: of whole vectors, whose elements it moves between blocks."""
    flat = [rewriter.emit(TileUnpackOp(rewriter.single(operand))) for operand in operation.operands]
    moved = rewriter.like(operation, flat, [operation.results[0].type]).results[0]
    rewriter.set(operation.results[0], rewriter.emit(TilePackOp(moved, rewriter.sizes.compute_block(_flat(
        operation.results[0])))))


RULES: dict[type[Any], Rule] = {**dict.fromkeys(KINDS, _rearrange),
                                TileReduceOp: _tile_reduce, TileBroadcastOp: _tile_broadcast,
                                TileTransposeOp: _tile_transpose,
                                TileBitcastOp: _tile_bitcast}
"""Rules of :mod:`xetile.passes.blocking`; its rewriter has the block sizes."""

OPERATIONS = tuple(RULES)


# Copies of row-major tiles to the transpose of an array in shared local memory.
#
#     %v = load_tile %t : tile<16x16xbf16>
#     store_tile %v, %s : tile<16x16xbf16, order = [0, 1]>
#
# They are loaded in VNNI format, as operand B is: a lane's words are a column, whose elements are contiguous in the
# transpose. So no transposition in registers is necessary.


def copies_transpose(tiles: Webs, tile: SSAValue) -> bool:
    """Whether all loads, or all stores, of a tile are parts of such copies, and it has no other uses.

    Args:
        tiles: the webs of the kernel's tiles.
        tile: one of its tiles.
    """
    others = tile_ops.UpdateTileOffsetOp, tile_ops.PrefetchTileOp
    users = [use.operation for use in tiles.uses(tile) if not isinstance(use.operation, others)]
    if users and all(isinstance(user, tile_ops.StoreTileOp) for user in users):
        return _is_slm_transpose(tile) and all(_is_copied(user.operands[0]) for user in users)
    loaded = [user.result for user in users if isinstance(user, tile_ops.LoadTileOp)]
    return bool(loaded) and len(loaded) == len(users) and not _is_column_major(tile) and all(
        value.uses and _is_copied(value) for value in loaded)


def _is_copied(value: SSAValue) -> bool:
    """Whether a value is loaded from a row-major tile, and only stored to a transpose in shared local memory."""
    load = value.owner
    return isinstance(load, tile_ops.LoadTileOp) and load.padding is None and not _is_column_major(load.tile) and all(
        isinstance(use.operation, tile_ops.StoreTileOp) and _is_slm_transpose(use.operation.tile) for use in value.uses)


def _is_column_major(tile: SSAValue) -> bool:
    return tile_ops.tile_of(tile).encoding.order == (0, 1)


def _is_slm_transpose(tile: SSAValue) -> bool:
    """Whether a tile is initialized where it is used, on the transpose of an array in shared local memory."""
    owner = tile.owner
    return isinstance(owner, tile_ops.InitTileOp) and _is_column_major(tile) and is_shared(owner.source.type)
