"""NumPy semantics of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xegpu.interpreter import dpas, memory
from xegpu.interpreter.dpas import product, scaled_product
from xegpu.interpreter.interpreter import AcceptsLazy, Interpreter, Semantics, force
from xegpu.ir.dtypes import NDArray, of_mlir
from xegpu.mlir.vector import shape_of
from xetile.dialect.mma import LoadMmaOp, TileMmaOp, TileMmaScaledOp
from xetile.dialect.tile_ops import tile_of
from xetile.interpreter.vector import pack, unpack


def _tile_mma(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    """NumPy semantics of ``tile_mma``."""
    a, b, *acc = operands
    a, b, types = force(a), force(b), (operation.a, operation.b, operation.result)
    dtypes = tuple(of_mlir(value.type.element_type) for value in types)
    if len(shape_of(operation.result)) == 2:
        return dpas.accumulate(acc[0] if acc else None, a, b, dtypes)  # type: ignore[arg-type]
    result = dpas.accumulate(unpack(force(acc[0])) if acc else None, unpack(a), unpack(b), dtypes)  # type: ignore[arg-type]
    return pack(force(result), shape_of(operation.result)[2:])  # type: ignore[arg-type]


def _load_mma(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of the fused load and product."""
    acc, blocks = operands[2], shape_of(operation.result)[2:]
    tiles = [tile_of(value) for value in (operation.a, operation.b)]
    a, b = (memory.as_numbers(memory.read(window.array, window.row, window.column, tile.shape, machine.batch,
                                          lead=window.lead), tile.dtype)
            for tile, window in zip(tiles, operands, strict=False))
    types = tiles[0].dtype, tiles[1].dtype, of_mlir(operation.result.type.element_type)
    result = product(a, b, unpack(acc) if blocks else acc, types)
    return pack(result, blocks) if blocks else result  # type: ignore[arg-type]


def _tile_mma_scaled(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``tile_mma_scaled``."""
    operands = [force(operand) for operand in operands]
    if len(shape_of(operation.result)) == 2:
        return scaled_product(*operands)
    return pack(scaled_product(*map(unpack, operands)), shape_of(operation.result)[2:])  # type: ignore[arg-type]


SEMANTICS: Semantics = {
    TileMmaOp: AcceptsLazy(_tile_mma), LoadMmaOp: _load_mma, TileMmaScaledOp: _tile_mma_scaled,
}
