"""NumPy semantics of reductions and broadcasts along axes of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.interpreter.interpreter import Interpreter, Semantics
from xegpu.ir.dtypes import NDArray, of_mlir
from xegpu.mlir.combining_kind import reduce
from xegpu.mlir.vector import shape_of
from xetile.dialect.reduction import TileBroadcastOp, TileReduceOp, axes_of


def _tile_reduce(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``tile_reduce``."""
    rank = len(shape_of(operation.source))
    axes = tuple(axis - rank for axis in axes_of(operation))
    return reduce(operation.kind.data, operands[0], axes, of_mlir(operation.source.type.element_type))


def _tile_broadcast(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``tile_broadcast``."""
    shape = shape_of(operation.result)
    return np.broadcast_to(operands[0], (*operands[0].shape[:-len(shape)], *shape))


SEMANTICS: Semantics = {TileReduceOp: _tile_reduce, TileBroadcastOp: _tile_broadcast}
