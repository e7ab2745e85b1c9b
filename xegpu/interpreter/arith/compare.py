"""NumPy semantics of comparisons and selections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType

from xegpu.interpreter.interpreter import Interpreter, Semantics, narrow
from xegpu.ir.dtypes import element_type
from xegpu.mlir.arith import CmpFOp, CmpIOp, SelectOp
from xegpu.mlir.predicates import ORDERS


def _integers_compared(machine: Interpreter, operation: CmpIOp, operands: Sequence[Any]) -> Any:
    dtype, predicate = element_type(operation.lhs.type), operation.record
    left, right = (np.asarray(value, dtype.compute) for value in operands)
    if predicate.operands and dtype.compute != np.bool_:
        left, right = (side.view(np.dtype(f"{predicate.operands}{side.itemsize}")) for side in (left, right))
    return narrow(ORDERS[predicate.order](left, right))


def _floats_compared(machine: Interpreter, operation: CmpFOp, operands: Sequence[Any]) -> Any:
    left, right = (np.asarray(value, element_type(operation.lhs.type).compute) for value in operands)
    unordered, ordered = np.isnan(left) | np.isnan(right), ORDERS[operation.record.order](left, right)
    return narrow(ordered | unordered if operation.record.unordered else ordered & ~unordered)


def _selected(machine: Interpreter, operation: SelectOp, operands: Sequence[Any]) -> Any:
    condition, left, right = operands
    if not isinstance(condition, np.ndarray):
        return left if condition else right
    if isinstance(operation.result.type, VectorType) and not isinstance(operation.condition.type, VectorType):
        condition = machine.as_vector(condition, len(operation.result.type.get_shape()))
    chosen = np.where(condition, left, right)
    dtype = element_type(operation.result.type)
    return narrow(chosen) if dtype.kind == "x" else chosen.astype(dtype.compute, copy=False)


SEMANTICS: Semantics = {CmpIOp: _integers_compared, CmpFOp: _floats_compared, SelectOp: _selected}
