"""NumPy semantics of a kernel's arguments (their sizes, strides and casts) and of its grid ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import gpu, memref
from xdsl.dialects.builtin import MemRefType, UnrealizedConversionCastOp

from xegpu.interpreter.interpreter import Interpreter, Semantics
from xegpu.ir.dtypes import element_type, of_mlir


def _metadata(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    array = operands[0]
    strides = [stride // array.itemsize for stride in array.strides]
    return [array, 0, *array.shape, *strides]


def _cast(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    target = operation.results[0].type
    if isinstance(target, MemRefType):
        return operands[0].view(of_mlir(target.element_type).numpy)
    dtype = element_type(target)
    return np.asarray(operands[0]).astype(dtype.compute)


def _recast(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    return operands[0]


def _axis(operation: Any) -> int:
    return "xyz".index(operation.dimension.data.value)


SEMANTICS: Semantics = {
    memref.ExtractStridedMetaDataOp: _metadata,
    UnrealizedConversionCastOp: _cast,
    memref.CastOp: _recast,
    gpu.BlockIdOp: lambda machine, op, _: machine.along(_axis(op), *machine.groups[_axis(op)]),
    gpu.GridDimOp: lambda machine, op, _: machine.grid[_axis(op)],
    gpu.SubgroupIdOp: lambda machine, op, _: machine.subgroup,
}
