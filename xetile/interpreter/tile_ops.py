"""NumPy semantics of tiles (see :mod:`xegpu.interpreter.interpreter`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.dialect.vector import number_of
from xegpu.interpreter import memory
from xegpu.interpreter.block_io import described
from xegpu.interpreter.interpreter import Interpreter, Semantics, TileView
from xegpu.ir.dtypes import NDArray
from xetile.dialect import tile_ops
from xetile.dialect.tile_ops import tile_of
from xetile.interpreter.vector import pack, unpack


def _init_tile(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> TileView:
    """NumPy semantics of ``init_tile``."""
    return TileView(*described(machine, operation, operands))


def _load_tile(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``load_tile``."""
    tile, window = tile_of(operation.tile), operands[0]
    padding = 0 if operation.padding is None else number_of(operation.padding)
    block = memory.read(window.array, window.row, window.column, tile.shape, machine.batch, padding,
                        window.lead)
    block = memory.as_numbers(block, tile.dtype)
    if isinstance(window.array, np.ndarray) and np.may_share_memory(block, window.array):
        block = block.copy()  # the kernel may write this array before it uses what it has loaded
    blocks = tile.encoding.inner_blocks
    return block if blocks is None else pack(block, blocks)


def _store_tile(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
    """NumPy semantics of ``store_tile``."""
    value, window = operands
    if tile_of(operation.tile).encoding.inner_blocks is not None:
        value = unpack(value)
    memory.write(window.array, window.row, window.column, value, machine.active, window.lead)


SEMANTICS: Semantics = {
    tile_ops.InitTileOp: _init_tile,
    tile_ops.LoadTileOp: _load_tile,
    tile_ops.StoreTileOp: _store_tile,
    tile_ops.PrefetchTileOp: lambda machine, operation, operands: None,
    tile_ops.UpdateTileOffsetOp: lambda machine, operation, operands: operands[0].moved(*operands[1:]),
}
