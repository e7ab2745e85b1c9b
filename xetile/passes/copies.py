"""Tiles that are copied from rows of memory to the transpose of an array in shared local memory.

    %v = load_tile %t : tile<16x16xbf16>
    store_tile %v, %s : tile<16x16xbf16, order = [0, 1]>

They are loaded in words of several rows, as the second operand of a product is: the words of a lane are a column, and
a column's elements are neighbours in the transpose. So nothing has to change places on the way.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from xegpu.analysis.webs import Webs
from xegpu.ir.memref import is_shared
from xetile.dialect import ops


def transposes(tiles: Webs, tile: SSAValue) -> bool:
    """Whether all that is loaded, or all that is stored, through a tile is copied so, and nothing else happens to it.

    Args:
        tiles: the tiles of the kernel, each with those it is moved and carried into.
        tile: one of them.
    """
    users = [use.operation for use in tiles.uses(tile) if not isinstance(use.operation, ops.UpdateTileOffsetOp)]
    if users and all(isinstance(user, ops.StoreTileOp) for user in users):
        return _is_turned_slm(tile) and all(_loaded_to_store(user.operands[0]) for user in users)
    loaded = [user.result for user in users if isinstance(user, ops.LoadTileOp)]
    return bool(loaded) and len(loaded) == len(users) and not _is_turned(tile) and all(
        value.uses and _loaded_to_store(value) for value in loaded)


def _loaded_to_store(value: SSAValue) -> bool:
    """Whether a value comes from rows of memory, and is stored to columns of shared local memory alone."""
    load = value.owner
    return isinstance(load, ops.LoadTileOp) and load.padding is None and not _is_turned(load.tile) and all(
        isinstance(use.operation, ops.StoreTileOp) and _is_turned_slm(use.operation.tile) for use in value.uses)


def _is_turned(tile: SSAValue) -> bool:
    return ops.tile_of(tile).encoding.order == (0, 1)


def _is_turned_slm(tile: SSAValue) -> bool:
    """Whether a tile is made where it is used, on the transpose of an array in shared local memory."""
    owner = tile.owner
    return isinstance(owner, ops.InitTileOp) and _is_turned(tile) and is_shared(owner.source.type)
