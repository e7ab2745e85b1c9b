"""Comparisons and selections, in OpenCL C and in NumPy; :mod:`codegen.truth` says what a truth value is in OpenCL C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation

from codegen import truth
from codegen.elementwise import computed, finish, operand_groups
from codegen.emitter import Emitter, Rule
from codegen.fragments import Fragment, vector_type
from codegen.interpreter import Machine, Meanings, narrow
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.mlir.arith import CmpFOp, CmpIOp, SelectOp

_FLOATS = {"oeq": "{0} == {1}", "ogt": "{0} > {1}", "oge": "{0} >= {1}", "olt": "{0} < {1}", "ole": "{0} <= {1}",
           "one": "({0} < {1}) | ({0} > {1})", "ord": "({0} == {0}) & ({1} == {1})", "une": "{0} != {1}",
           "uno": "({0} != {0}) | ({1} != {1})", "false": "({0} < {1}) & ({0} > {1})"}
_OPPOSITES = {"ueq": "one", "ugt": "ole", "uge": "olt", "ult": "oge", "ule": "ogt", "true": "false"}
"""Unordered predicates, each with the ordered one that is true exactly where it is not."""
_INTEGERS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _compare(emitter: Emitter, operation: CmpIOp | CmpFOp) -> None:
    dtype, width, groups = operand_groups(emitter, operation)
    vector, name = isinstance(operation.result.type, VectorType), operation.name_of_predicate
    opposite = isinstance(operation, CmpFOp) and name in _OPPOSITES
    expressions = []
    for group in groups:
        left, right = (computed(value, dtype, width) for value in group)
        if isinstance(operation, CmpIOp):
            holds = _integers(name, left, right, dtype.register if vector else dtype.opencl, width)
        else:
            holds = _FLOATS[_OPPOSITES.get(name, name)].format(left, right)
        expressions.append(truth.held(holds, width, opposite=opposite) if vector else f"{'!' * opposite}({holds})")
    finish(emitter, operation, expressions)


def _integers(predicate: str, left: str, right: str, c_type: str, width: int) -> str:
    """A comparison of integers, read with the sign that the predicate says."""
    signed = c_type.removeprefix("u")
    kind = {"u": f"u{signed}", "s": signed}[predicate[0]] if len(predicate) == 3 else c_type
    if kind != c_type:
        left, right = (f"as_{vector_type(kind, width)}({side})" for side in (left, right))
    return f"{left} {_INTEGERS[predicate[-2:]]} {right}"


def _select(emitter: Emitter, operation: SelectOp) -> None:
    condition = emitter.values[operation.condition]
    if not isinstance(operation.result.type, VectorType):
        left, right = (emitter.values[value] for value in (operation.lhs, operation.rhs))
        finish(emitter, operation, [f"({condition}) ? {left} : {right}"])
        return
    left, right = emitter.fragment(operation.lhs), emitter.fragment(operation.rhs)
    conditions = condition.names if isinstance(condition, Fragment) else (condition,) * len(left.names)
    each = isinstance(condition, Fragment) and left.width > 1
    finish(emitter, operation, [
        f"select({b}, {a}, {truth.as_wide_as(c, left.dtype, left.width)})" if each else f"({c}) ? {a} : {b}"
        for c, a, b in zip(conditions, left.names, right.names, strict=True)])


RULES: dict[type[Operation], Rule] = {CmpIOp: _compare, CmpFOp: _compare, SelectOp: _select}


_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}


def _element_type(type_: Attribute) -> DType:
    return of_mlir(type_.element_type if isinstance(type_, VectorType) else type_)


def _integers_compared(machine: Machine, operation: CmpIOp, operands: Sequence[Any]) -> Any:
    dtype, predicate = _element_type(operation.lhs.type), operation.name_of_predicate
    left, right = (np.asarray(value, dtype.compute) for value in operands)
    if len(predicate) == 3 and dtype.compute != np.bool_:
        left, right = (side.view(np.dtype(f"{'u' if predicate[0] == 'u' else 'i'}{side.itemsize}"))
                       for side in (left, right))
    return narrow(_ORDERS[predicate[-2:]](left, right))


def _floats_compared(machine: Machine, operation: CmpFOp, operands: Sequence[Any]) -> Any:
    left, right = (np.asarray(value, _element_type(operation.lhs.type).compute) for value in operands)
    predicate = operation.name_of_predicate
    unordered = np.isnan(left) | np.isnan(right)
    if predicate in ("true", "false", "uno", "ord"):
        shaped = {"true": unordered | True, "false": unordered & False, "uno": unordered, "ord": ~unordered}
        return narrow(shaped[predicate])
    ordered = _ORDERS[predicate[1:]](left, right)
    return narrow(ordered | unordered if predicate[0] == "u" else ordered & ~unordered)


def _selected(machine: Machine, operation: SelectOp, operands: Sequence[Any]) -> Any:
    condition, left, right = operands
    if not isinstance(condition, np.ndarray):
        return left if condition else right
    if isinstance(operation.result.type, VectorType) and not isinstance(operation.condition.type, VectorType):
        condition = machine.as_vector(condition, len(operation.result.type.get_shape()))
    chosen = np.where(condition, left, right)
    dtype = _element_type(operation.result.type)
    return narrow(chosen) if dtype.kind == "x" else chosen.astype(dtype.compute, copy=False)


MEANINGS: Meanings = {CmpIOp: _integers_compared, CmpFOp: _floats_compared, SelectOp: _selected}
