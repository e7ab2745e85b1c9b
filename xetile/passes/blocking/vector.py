"""Blocking of operations on vectors: reductions, broadcasts and transpositions (XeTile.md, "Internal Operations").

    %r = tile_reduce <add> %v [1] : vector<32x64xf32> -> vector<32x1xf32>
    %b = tile_broadcast %r [1] : vector<32x1xf32> -> vector<32x64xf32>
    %t = tile_transpose %b : vector<32x64xf32> -> vector<64x32xf32>
becomes
    %r = tile_reduce <add> (pack (unpack %v)) [1, 3] : vector<2x4x16x16xf32> -> vector<2x1x16x1xf32>
    %b = tile_broadcast %r [1, 3] : vector<2x1x16x1xf32> -> vector<2x4x16x16xf32>
    %t = pack (tile_transpose (unpack %b)) : vector<64x32xf32> -> vector<8x2x8x16xf32>

Blocks of the matrix have the rows of the blocks of its column, or the columns of those of its row: then each of these
comes from, or goes to, whole blocks. A column has as many rows as the subgroup has lanes where they divide it, so that
what is computed with it fills a register.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from xegpu.analysis.webs import Webs
from xegpu.ir.memref import is_shared
from xegpu.rewrite.rewriter import Rule
from xetile.dialect import tile_ops
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of
from xetile.dialect.vector import TileBitcastOp, TilePackOp, TileTransposeOp, TileUnpackOp
from xetile.dialect.wg_map import Pair


def _flat(value: SSAValue) -> Pair:
    rows, columns = tile_ops.shape_of(value)
    return rows, columns


def _lined_up(rewriter: Any, narrow: Pair, wide: Pair) -> tuple[Pair, Pair]:
    """Blocks of a vector of size 1 along some dimensions, and of the vector that it comes from or goes to."""
    small, large = rewriter.sizes.compute_block(narrow), rewriter.sizes.compute_block(wide)
    rows = small[0] if narrow[0] == wide[0] else large[0]
    columns = small[1] if narrow[1] == wide[1] else large[1]
    return small, (rows, columns)


def _paired(axes: tuple[int, ...]) -> list[int]:
    return sorted([*axes, *(axis + 2 for axis in axes)])


def _tile_reduce(rewriter: Any, operation: TileReduceOp) -> None:
    if len(tile_ops.shape_of(operation.source)) == 4:
        rewriter.copy(operation)
        return
    small, large = _lined_up(rewriter, _flat(operation.result), _flat(operation.source))
    source = rewriter.reblock(rewriter.single(operation.source), large)
    made = rewriter.emit(TileReduceOp(operation.kind.data, source, _paired(axes_of(operation))))
    rewriter.set(operation.result, rewriter.reblock(made, small))


def _tile_broadcast(rewriter: Any, operation: TileBroadcastOp) -> None:
    result = tile_ops.shape_of(operation.result)
    if len(result) == 4:
        rewriter.copy(operation)
        return
    small, large = _lined_up(rewriter, _flat(operation.source), _flat(operation.result))
    source = rewriter.reblock(rewriter.single(operation.source), small)
    shape = (result[0] // large[0], result[1] // large[1], *large)
    made = rewriter.emit(TileBroadcastOp(source, shape, _paired(axes_of(operation))))
    rewriter.set(operation.result, rewriter.reblock(made, rewriter.sizes.compute_block(_flat(operation.result))))


def _tile_bitcast(rewriter: Any, operation: TileBitcastOp) -> None:
    if len(tile_ops.shape_of(operation.source)) == 4:
        rewriter.copy(operation)
        return
    source = rewriter.reblock(rewriter.single(operation.source), rewriter.sizes.compute_block(_flat(operation.source)))
    made = rewriter.emit(TileBitcastOp(source, operation.result.type.element_type))  # type: ignore[attr-defined]
    rewriter.set(operation.result, rewriter.reblock(made, rewriter.sizes.compute_block(_flat(operation.result))))


def _tile_transpose(rewriter: Any, operation: TileTransposeOp) -> None:
    flat = rewriter.emit(TileUnpackOp(rewriter.single(operation.source)))
    turned = rewriter.emit(TileTransposeOp(flat))
    blocks = rewriter.sizes.compute_block(_flat(operation.result))
    rewriter.set(operation.result, rewriter.emit(TilePackOp(turned, blocks)))


RULES: dict[type[Any], Rule] = {TileReduceOp: _tile_reduce, TileBroadcastOp: _tile_broadcast,
                                TileTransposeOp: _tile_transpose,
                                TileBitcastOp: _tile_bitcast}
"""Rules of :mod:`xetile.passes.blocking`, whose rebuilder knows the block sizes."""

OPERATIONS = tuple(RULES)


# Tiles that are copied from rows of memory to the transpose of an array in shared local memory.
#
#     %v = load_tile %t : tile<16x16xbf16>
#     store_tile %v, %s : tile<16x16xbf16, order = [0, 1]>
#
# They are loaded in words of several rows, as the second operand of a product is: the words of a lane are a column, and
# a column's elements are neighbours in the transpose. So nothing has to change places on the way.


def transposes(tiles: Webs, tile: SSAValue) -> bool:
    """Whether all that is loaded, or all that is stored, through a tile is copied so, and nothing else happens to it.

    Args:
        tiles: the tiles of the kernel, each with those it is moved and carried into.
        tile: one of them.
    """
    users = [use.operation for use in tiles.uses(tile) if not isinstance(use.operation, tile_ops.UpdateTileOffsetOp)]
    if users and all(isinstance(user, tile_ops.StoreTileOp) for user in users):
        return _is_turned_slm(tile) and all(_loaded_to_store(user.operands[0]) for user in users)
    loaded = [user.result for user in users if isinstance(user, tile_ops.LoadTileOp)]
    return bool(loaded) and len(loaded) == len(users) and not _is_turned(tile) and all(
        value.uses and _loaded_to_store(value) for value in loaded)


def _loaded_to_store(value: SSAValue) -> bool:
    """Whether a value comes from rows of memory, and is stored to columns of shared local memory alone."""
    load = value.owner
    return isinstance(load, tile_ops.LoadTileOp) and load.padding is None and not _is_turned(load.tile) and all(
        isinstance(use.operation, tile_ops.StoreTileOp) and _is_turned_slm(use.operation.tile) for use in value.uses)


def _is_turned(tile: SSAValue) -> bool:
    return tile_ops.tile_of(tile).encoding.order == (0, 1)


def _is_turned_slm(tile: SSAValue) -> bool:
    """Whether a tile is made where it is used, on the transpose of an array in shared local memory."""
    owner = tile.owner
    return isinstance(owner, tile_ops.InitTileOp) and _is_turned(tile) and is_shared(owner.source.type)
