"""NumPy semantics of XeTile operations (see :mod:`xegpu.interpreter.interpreter`).

A vector is an array with the batch axes in front, in the compute type of its element type; blocked vectors have four
dimensions behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.dialect.vector import number_of
from xegpu.interpreter import dpas, memory
from xegpu.interpreter.block_io import described
from xegpu.interpreter.dpas import product, scaled_product
from xegpu.interpreter.interpreter import AcceptsLazy, Interpreter, Semantics, TileView, force
from xegpu.interpreter.vector import bits_by_rows
from xegpu.ir.combining_kind import reduce
from xegpu.ir.dtypes import of_mlir
from xegpu.layout import iota
from xetile.dialect import tile_ops, vector_ops
from xetile.dialect.mma import LoadMmaOp, TileMmaScaledOp
from xetile.dialect.tile_ops import tile_of
from xetile.dialect.vector_ops import IotaOp
from xetile.interpreter import gather_scatter

Array = np.ndarray[Any, Any]


def pack(flat: Array, blocks: tuple[int, int]) -> Array:
    """Pack: ``[..., rows, columns]`` to ``[..., rows / r, columns / c, r, c]``, a view where that is possible."""
    rows, columns = flat.shape[-2:]
    split = flat.reshape(*flat.shape[:-2], rows // blocks[0], blocks[0], columns // blocks[1], blocks[1])
    return np.swapaxes(split, -3, -2)


def unpack(blocked: Array) -> Array:
    """Unpack: the inverse of :func:`pack`."""
    *batch, rows, columns, height, width = blocked.shape
    return np.swapaxes(blocked, -3, -2).reshape(*batch, rows * height, columns * width)


def _init_tile(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> TileView:
    """NumPy semantics of ``init_tile``."""
    return TileView(*described(machine, operation, operands))


def _load_tile(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Array:
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


def _tile_mma(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    """NumPy semantics of ``tile_mma``."""
    a, b, *acc = operands
    a, b, types = force(a), force(b), (operation.a, operation.b, operation.result)
    dtypes = tuple(of_mlir(value.type.element_type) for value in types)
    if len(tile_ops.shape_of(operation.result)) == 2:
        return dpas.accumulate(acc[0] if acc else None, a, b, dtypes)  # type: ignore[arg-type]
    product = dpas.accumulate(unpack(force(acc[0])) if acc else None, unpack(a), unpack(b), dtypes)  # type: ignore[arg-type]
    return pack(force(product), tile_ops.shape_of(operation.result)[2:])  # type: ignore[arg-type]


def _load_mma(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Array:
    """NumPy semantics of the fused load and product."""
    acc, blocks = operands[2], tile_ops.shape_of(operation.result)[2:]
    tiles = [tile_of(value) for value in (operation.a, operation.b)]
    a, b = (memory.as_numbers(memory.read(window.array, window.row, window.column, tile.shape, machine.batch,
                                          lead=window.lead), tile.dtype)
            for tile, window in zip(tiles, operands, strict=False))
    dtype = of_mlir(operation.result.type.element_type)
    result = product(a, b, unpack(acc) if blocks else acc, tiles[0].dtype, dtype)
    return pack(result, blocks) if blocks else result  # type: ignore[arg-type]


def _tile_mma_scaled(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Array:
    """NumPy semantics of ``tile_mma_scaled``."""
    operands = [force(operand) for operand in operands]
    if len(tile_ops.shape_of(operation.result)) == 2:
        return scaled_product(*operands)
    return pack(scaled_product(*map(unpack, operands)), tile_ops.shape_of(operation.result)[2:])  # type: ignore[arg-type]


def _tile_reduce(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Array:
    """NumPy semantics of ``tile_reduce``."""
    rank = len(tile_ops.shape_of(operation.source))
    axes = tuple(axis - rank for axis in vector_ops.axes_of(operation))
    return reduce(operation.kind.data, operands[0], axes, of_mlir(operation.source.type.element_type))


def _tile_broadcast(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Array:
    """NumPy semantics of ``tile_broadcast``."""
    shape = tile_ops.shape_of(operation.result)
    return np.broadcast_to(operands[0], (*operands[0].shape[:-len(shape)], *shape))


def _tile_bitcast(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Array:
    """NumPy semantics of ``tile_bitcast``."""
    types = (of_mlir(value.type.element_type) for value in (operation.source, operation.result))
    return bits_by_rows(operands[0], *types)


def _iota(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Array:
    """NumPy semantics of ``iota``."""
    rows, columns, *blocks = tile_ops.shape_of(operation.result)
    height, width = blocks or (1, 1)
    start, dtype = operands[0] if operands else 0, of_mlir(operation.result.type.element_type)
    flat = iota.block_iota((rows * height, columns * width), operation.axis.value.data, start, dtype, machine.batch)
    return pack(flat, (height, width)) if blocks else flat


SEMANTICS: Semantics = {
    tile_ops.InitTileOp: _init_tile,
    tile_ops.LoadTileOp: _load_tile,
    tile_ops.StoreTileOp: _store_tile,
    tile_ops.PrefetchTileOp: lambda machine, operation, operands: None,
    tile_ops.UpdateTileOffsetOp: lambda machine, operation, operands: operands[0].moved(*operands[1:]),
    tile_ops.TileMmaOp: AcceptsLazy(_tile_mma),
    LoadMmaOp: _load_mma,
    TileMmaScaledOp: _tile_mma_scaled,
    tile_ops.TileTransposeOp: lambda machine, operation, operands: np.swapaxes(operands[0], -1, -2),
    tile_ops.TilePackOp: lambda machine, operation, operands: pack(operands[0],
                                                                   tile_ops.shape_of(operation.result)[2:]),  # type: ignore
    tile_ops.TileUnpackOp: lambda machine, operation, operands: unpack(operands[0]),
    **gather_scatter.SEMANTICS,
    vector_ops.TileBitcastOp: _tile_bitcast,
    vector_ops.TileReduceOp: _tile_reduce,
    vector_ops.TileBroadcastOp: _tile_broadcast,
    vector_ops.TileConvLayoutOp: lambda machine, operation, operands: operands[0],
    IotaOp: _iota,
}
