"""NumPy semantics of block reductions and broadcasts, on blocks and on the fragments of all lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xegpu.dialect.reduction import BroadcastOp, ReduceOp
from xegpu.ir.dtypes import NDArray, of_mlir
from xegpu.layout import lane_map
from xegpu.mlir.combining_kind import reduce


def _reduce(machine: Any, operation: Any, operands: Sequence[Any]) -> NDArray:
    blocks: Sequence[NDArray] = operands
    if operation.maps is not None:
        shape = operation.larger(operation.sources[0])
        blocks = [lane_map.gather(block, shape, operation.maps[0]) for block in blocks]
    leading = np.broadcast_shapes(*(block.shape for block in blocks))
    together = np.stack([np.broadcast_to(block, leading) for block in blocks])
    axes = (0, *(axis - 2 for axis in operation.dimensions))
    result = reduce(operation.kind.data, together, axes, of_mlir(operation.result.type.element_type))[0]
    return result if operation.maps is None else lane_map.scatter(result, operation.maps[1], machine.lanes)


def _broadcast(machine: Any, operation: Any, operands: Sequence[Any]) -> NDArray:
    (block,), shape = operands, operation.larger(operation.result)
    if operation.maps is not None:
        block = lane_map.gather(block, operation.smaller(operation.result), operation.maps[0])
    result = np.broadcast_to(block, (*block.shape[:-2], *shape))
    return result if operation.maps is None else lane_map.scatter(result, operation.maps[1], machine.lanes)


SEMANTICS: Mapping[type[Operation], Callable[..., Any]] = {ReduceOp: _reduce, BroadcastOp: _broadcast}
