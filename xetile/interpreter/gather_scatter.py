"""What XeTile's operations on scattered tiles mean, and its atomic updates, in NumPy (see
:mod:`xetile.interpreter.tile_ops`).

An element is at its own offset, so blocked vectors need no treatment of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.dialect.vector import number_of
from xegpu.interpreter.gather_scatter import Array, Elements, active_elements, atomic, block_elements, made
from xegpu.interpreter.interpreter import Machine, Meanings
from xetile.dialect import gather_scatter as ops
from xetile.dialect.tile_ops import tile_of
from xetile.dialect.types import TileParameters


def _load(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    (elements, mask), tile = operands, tile_of(operation.tile)
    padding = 0 if operation.padding is None else number_of(operation.padding)
    active = active_elements(machine, np.asarray(mask, bool), len(tile.blocked_shape()))
    return elements.gather(active, padding).astype(tile.dtype.compute)  # type: ignore[no-any-return]


def _store(machine: Machine, operation: Any, operands: Sequence[Any]) -> None:
    value, elements, mask = operands
    elements.scatter(value, active_elements(machine, np.asarray(mask, bool),
                                            len(tile_of(operation.tile).blocked_shape())))


def _positions(tile: TileParameters) -> tuple[Array, Array]:
    """Row and column of every element of a tile, in shapes that broadcast to that of its vector."""
    rows, columns = np.arange(tile.shape[0])[:, None], np.arange(tile.shape[1])[None, :]
    if tile.encoding.inner_blocks is None:
        return rows, columns
    height, width = tile.encoding.inner_blocks
    return rows.reshape(-1, 1, height, 1), columns.reshape(1, -1, 1, width)


def updated(machine: Machine, operation: Any, operands: Sequence[Any]) -> tuple[Elements, Array]:
    """The elements that an atomic update reaches, and which of them count."""
    (_, place, *masks), tile = operands, tile_of(operation.tile)
    if isinstance(place, Elements):
        return place, np.asarray(masks[0] if masks else True)
    return block_elements(place.array, (*place.lead, place.row, place.column), *_positions(tile), machine.batch)


def _atomic(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    (elements, mask), tile = updated(machine, operation, operands), tile_of(operation.tile)
    rank = len(tile.blocked_shape())
    return atomic(machine, operation.kind.data, elements, operands[0], mask, tile.dtype, rank)


MEANINGS: Meanings = {
    ops.InitScatteredTileOp: lambda machine, operation, operands: made(
        machine, operation, operands[0], operands[1], tile_of(operation.result).dtype),
    ops.UpdateScatteredTileOp: lambda machine, operation, operands: operands[0].moved(operands[1]),
    ops.LoadGatherOp: _load,
    ops.StoreScatterOp: _store,
    ops.AtomicRMWTileOp: _atomic,
}
