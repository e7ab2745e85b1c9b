"""What each XeTile operation means, in NumPy (see :mod:`codegen.interpreter`).

A vector is an array with the batch axes in front, in the compute type of its element type; blocked vectors have four
dimensions behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.interpreter import Machine, Meanings, Window
from xegpu import memory, positions
from xegpu.dialect.ops import number_of
from xegpu.dtypes import DType, of_mlir, round_to, tf32, truncate_tf32
from xegpu.reductions import reduce
from xegpu.reference import described
from xetile import scattered_reference
from xetile.dialect import ops, vector_ops
from xetile.dialect.ops import tile_of
from xetile.dialect.positions import IotaOp

Array = np.ndarray[Any, Any]


def pack(flat: Array, blocks: tuple[int, int]) -> Array:
    """``[..., rows, columns]`` to ``[..., rows / r, columns / c, r, c]``, a view where that is possible."""
    rows, columns = flat.shape[-2:]
    split = flat.reshape(*flat.shape[:-2], rows // blocks[0], blocks[0], columns // blocks[1], blocks[1])
    return np.swapaxes(split, -3, -2)


def unpack(blocked: Array) -> Array:
    """The inverse of :func:`pack`."""
    *batch, rows, columns, height, width = blocked.shape
    return np.swapaxes(blocked, -3, -2).reshape(*batch, rows * height, columns * width)


def _init(machine: Machine, operation: Any, operands: Sequence[Any]) -> Window:
    return Window(*described(machine, operation, operands))


def _load(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    tile, window = tile_of(operation.tile), operands[0]
    padding = 0 if operation.padding is None else number_of(operation.padding)
    block = memory.read(window.array, window.row, window.column, tile.shape, machine.batch, padding,
                        window.lead)
    block = memory.as_numbers(block, tile.dtype)
    if np.may_share_memory(block, window.array):
        block = block.copy()  # the kernel may write this array before it uses what it has loaded
    blocks = tile.encoding.inner_blocks
    return block if blocks is None else pack(block, blocks)


def _store(machine: Machine, operation: Any, operands: Sequence[Any]) -> None:
    value, window = operands
    if tile_of(operation.tile).encoding.inner_blocks is not None:
        value = unpack(value)
    memory.write(window.array, window.row, window.column, value, machine.active, window.lead)


def _mma(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    a, b, *acc = operands
    blocked = len(ops.shape_of(operation.result)) == 4
    if blocked:
        a, b, acc = unpack(a), unpack(b), [unpack(c) for c in acc]
    dtypes = [of_mlir(value.type.element_type) for value in (operation.a, operation.b, operation.result)]
    result = round_to(product(a, b, acc[0] if acc else None, *dtypes), dtypes[2])
    return pack(result, ops.shape_of(operation.result)[2:]) if blocked else result  # type: ignore[arg-type]


def product(a: Array, b: Array, acc: Array | None, a_type: DType, b_type: DType, c_type: DType) -> Array:
    """``a @ b + acc`` before it is rounded to the accumulator's type.

    Integers multiply exactly; floats in float32 (float64 for f64), the precision of the matrix engine's sums.
    """
    if a_type is tf32:
        a, b = truncate_tf32(a), truncate_tf32(b)
    if c_type.is_float:
        result = _matmul(a, b)
    else:
        result = _integer_matmul(a, b).astype(c_type.compute)
    if acc is None:
        return result
    return np.add(result, acc, out=result) if result.shape == np.broadcast_shapes(result.shape, acc.shape) \
        else result + acc


def _integer_matmul(a: Array, b: Array) -> Array:
    """Exact through float64: products of 8-bit integers stay far below 2**53, and BLAS has no integers."""
    return _matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)


def _matmul(a: Array, b: Array) -> Array:
    """``a @ b`` over the batch axes, as one product where A varies along one axis and B along another."""
    a_axes = [axis for axis, size in enumerate(a.shape[:-2]) if size > 1]
    b_axes = [axis for axis, size in enumerate(b.shape[:-2]) if size > 1]
    if len(a_axes) > 1 or len(b_axes) > 1 or a_axes == b_axes:
        batched: Array = np.matmul(a, b)
        return batched
    (m, k), n, batch = a.shape[-2:], b.shape[-1], a.ndim - 2
    groups_a, groups_b = (int(np.prod(x.shape[:-2])) for x in (a, b))
    flat_a = a.reshape(groups_a * m, k)
    flat_b = np.moveaxis(b.reshape(groups_b, k, n), 0, 1).reshape(k, groups_b * n)
    result = (flat_a @ flat_b).reshape(groups_a, m, groups_b, n).transpose(0, 2, 1, 3)
    shape = [1] * batch
    for axes, groups in ((a_axes, groups_a), (b_axes, groups_b)):
        if axes:
            shape[axes[0]] = groups
    if a_axes and b_axes and a_axes[0] > b_axes[0]:
        result = result.transpose(1, 0, 2, 3)
    return result.reshape(*shape, m, n)


def _reduce(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    rank = len(ops.shape_of(operation.source))
    axes = tuple(axis - rank for axis in vector_ops.axes_of(operation))
    return reduce(operation.kind.data, operands[0], axes, of_mlir(operation.source.type.element_type))


def _broadcast(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    shape = ops.shape_of(operation.result)
    return np.broadcast_to(operands[0], (*operands[0].shape[:-len(shape)], *shape))


def _iota(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    rows, columns, *blocks = ops.shape_of(operation.result)
    height, width = blocks or (1, 1)
    start, dtype = operands[0] if operands else 0, of_mlir(operation.result.type.element_type)
    flat = positions.whole((rows * height, columns * width), operation.axis.value.data, start, dtype, machine.batch)
    return pack(flat, (height, width)) if blocks else flat


MEANINGS: Meanings = {
    ops.InitTileOp: _init,
    ops.LoadTileOp: _load,
    ops.StoreTileOp: _store,
    ops.PrefetchTileOp: lambda machine, operation, operands: None,
    ops.UpdateTileOffsetOp: lambda machine, operation, operands: operands[0].moved(*operands[1:]),
    ops.TileMmaOp: _mma,
    ops.TileTransposeOp: lambda machine, operation, operands: np.swapaxes(operands[0], -1, -2),
    ops.TilePackOp: lambda machine, operation, operands: pack(operands[0], ops.shape_of(operation.result)[2:]),  # type: ignore
    ops.TileUnpackOp: lambda machine, operation, operands: unpack(operands[0]),
    **scattered_reference.MEANINGS,
    vector_ops.TileReduceOp: _reduce,
    vector_ops.TileBroadcastOp: _broadcast,
    vector_ops.TileConvLayoutOp: lambda machine, operation, operands: operands[0],
    IotaOp: _iota,
}
