"""Comparisons of run-time scalars, in NumPy and in OpenCL C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation

from codegen.elementwise import computed
from codegen.emitter import Emitter, Rule
from codegen.interpreter import Machine, Meanings
from xegpu.dtypes import i1, of_mlir

_INTEGER = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_FLOAT = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<=", 13: "!="}
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {"==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
                                                ">": np.greater, ">=": np.greater_equal}


def _symbol(operation: arith.CmpiOp | arith.CmpfOp) -> str:
    predicate = operation.predicate.value.data
    return _FLOAT[predicate] if isinstance(operation, arith.CmpfOp) else _INTEGER[predicate]


def _meaning(machine: Machine, operation: Any, operands: Sequence[Any]) -> Any:
    return _NUMPY[_symbol(operation)](*operands)


def _rule(emitter: Emitter, operation: Any) -> None:
    dtype = of_mlir(operation.lhs.type)
    left, right = (computed(f"({emitter.values[operand]})", dtype, 1) for operand in operation.operands)
    emitter.define(operation.result, i1.opencl, f"{left} {_symbol(operation)} {right}")


RULES: dict[type[Operation], Rule] = {arith.CmpiOp: _rule, arith.CmpfOp: _rule}
MEANINGS: Meanings = {arith.CmpiOp: _meaning, arith.CmpfOp: _meaning}
