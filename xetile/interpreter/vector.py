"""NumPy semantics of operations that move the elements of vectors.

A vector is an array with the batch axes in front, in the compute type of its element type; blocked vectors have four
dimensions behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.interpreter.interpreter import Interpreter, Semantics
from xegpu.interpreter.vector import bits_by_rows
from xegpu.ir.dtypes import NDArray, of_mlir
from xegpu.layout import iota
from xegpu.mlir.vector import shape_of
from xetile.dialect.vector import IotaOp, TileBitcastOp, TileConvLayoutOp, TilePackOp, TileTransposeOp, TileUnpackOp


def pack(flat: NDArray, blocks: tuple[int, int]) -> NDArray:
    """Pack: ``[..., rows, columns]`` to ``[..., rows / r, columns / c, r, c]``, a view where that is possible."""
    rows, columns = flat.shape[-2:]
    split = flat.reshape(*flat.shape[:-2], rows // blocks[0], blocks[0], columns // blocks[1], blocks[1])
    return np.swapaxes(split, -3, -2)


def unpack(blocked: NDArray) -> NDArray:
    """Unpack: the inverse of :func:`pack`."""
    *batch, rows, columns, height, width = blocked.shape
    return np.swapaxes(blocked, -3, -2).reshape(*batch, rows * height, columns * width)


def _tile_bitcast(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``tile_bitcast``."""
    before, after = (of_mlir(value.type.element_type) for value in (operation.source, operation.result))
    values = np.swapaxes(operands[0], -1, -2) if operation.along else operands[0]
    if operation.merges:
        words = values[..., ::2, :].astype(after.compute) | values[..., 1::2, :].astype(after.compute) << 8
    else:
        words = bits_by_rows(values, before, after)
    return np.swapaxes(words, -1, -2) if operation.along else words


def _iota(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``iota``."""
    rows, columns, *blocks = shape_of(operation.result)
    height, width = blocks or (1, 1)
    start, dtype = operands[0] if operands else 0, of_mlir(operation.result.type.element_type)
    flat = iota.block_iota((rows * height, columns * width), operation.axis.value.data, start, dtype, machine.batch)
    return pack(flat, (height, width)) if blocks else flat


SEMANTICS: Semantics = {
    TileTransposeOp: lambda machine, operation, operands: np.swapaxes(operands[0], -1, -2),
    TilePackOp: lambda machine, operation, operands: pack(operands[0],
                                                          shape_of(operation.result)[2:]),  # type: ignore
    TileUnpackOp: lambda machine, operation, operands: unpack(operands[0]),
    TileConvLayoutOp: lambda machine, operation, operands: operands[0],
    TileBitcastOp: _tile_bitcast,
    IotaOp: _iota,
}
