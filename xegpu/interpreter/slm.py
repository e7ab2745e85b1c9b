"""NumPy semantics of shared local memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.memref import AllocOp

from xegpu.interpreter.interpreter import Interpreter, Semantics
from xegpu.ir.dtypes import of_mlir

_BEFORE = 0xA5
"""Fill byte of uninitialized integers in SLM; uninitialized floats are NaN."""


def _allocated(machine: Interpreter, operation: AllocOp, operands: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Allocate SLM for each work-group, filled with a poison pattern that exposes reads before writes."""
    dtype = of_mlir(operation.memref.type.element_type)  # type: ignore[attr-defined]
    shape = (*(count for _, count in machine.groups), *operation.memref.type.get_shape())  # type: ignore[attr-defined]
    if dtype.is_float:
        return np.full(shape, np.nan, dtype.numpy)
    array = np.empty(shape, dtype.numpy)
    array.view(np.uint8)[...] = _BEFORE
    return array


SEMANTICS: Semantics = {AllocOp: _allocated}
