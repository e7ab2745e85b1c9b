"""NumPy semantics of XeTile's scattered tiles and atomic updates (see :mod:`xetile.interpreter.tile_ops`).

Each element has its own offset, so blocked vectors need no special treatment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.dialect.vector import number_of
from xegpu.interpreter.gather_scatter import active_elements, atomic, block_elements, create_elements, load_columns
from xegpu.interpreter.interpreter import Interpreter, Semantics
from xegpu.interpreter.memory.elements import Elements
from xegpu.ir.dtypes import NDArray, to_compute
from xegpu.mlir.vector import shape_of
from xetile.dialect import gather_scatter as ops
from xetile.dialect.tile_ops import tile_of
from xetile.dialect.types import TileParameters


def _load_gather(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``load_gather``."""
    (elements, mask), tile = operands, tile_of(operation.tile)
    padding = 0 if operation.padding is None else number_of(operation.padding)
    active = active_elements(machine, np.asarray(mask, bool), len(tile.blocked_shape()))
    return to_compute(elements.gather(active, padding), tile.dtype)  # type: ignore[no-any-return]


def _load_columns(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``load_columns``: blocks have as many elements of a column as rows, one after the other."""
    shape = shape_of(operation.result)
    rows = np.arange(shape[0])[:, None] if len(shape) == 2 else \
        (np.arange(shape[0])[:, None] * shape[2] + np.arange(shape[2])).reshape(shape[0], 1, shape[2], 1)
    return load_columns(machine, operation, operands, rows, len(shape))


def _store_scatter(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
    """NumPy semantics of ``store_scatter``."""
    value, elements, mask = operands
    elements.scatter(value, active_elements(machine, np.asarray(mask, bool),
                                            len(tile_of(operation.tile).blocked_shape())))


def _element_indices(tile: TileParameters) -> tuple[NDArray, NDArray]:
    """Row and column index of every element of a tile, in shapes that broadcast to that of its vector."""
    rows, columns = np.arange(tile.shape[0])[:, None], np.arange(tile.shape[1])[None, :]
    if tile.encoding.inner_blocks is None:
        return rows, columns
    height, width = tile.encoding.inner_blocks
    return rows.reshape(-1, 1, height, 1), columns.reshape(1, -1, 1, width)


def updated_elements(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> tuple[Elements, NDArray]:
    """Elements that an atomic update accesses, and the mask of active ones."""
    (_, tile_value, *masks), tile = operands, tile_of(operation.tile)
    if isinstance(tile_value, Elements):
        return tile_value, np.asarray(masks[0] if masks else True)
    return block_elements(tile_value.array, (*tile_value.lead, tile_value.row, tile_value.column),
                          *_element_indices(tile), machine.batch)


def _atomic_rmw(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``atomic_rmw_tile``."""
    (elements, mask), tile = updated_elements(machine, operation, operands), tile_of(operation.tile)
    rank = len(tile.blocked_shape())
    return atomic(machine, operation.kind.data, elements, operands[0], mask, tile.dtype, rank)


SEMANTICS: Semantics = {
    ops.InitScatteredTileOp: lambda machine, operation, operands: create_elements(
        machine, operation, operands[0], operands[1], tile_of(operation.result).dtype),
    ops.UpdateScatteredTileOp: lambda machine, operation, operands: operands[0].moved(operands[1]),
    ops.LoadGatherOp: _load_gather,
    ops.LoadColumnsOp: _load_columns,
    ops.StoreScatterOp: _store_scatter,
    ops.AtomicRMWTileOp: _atomic_rmw,
}
