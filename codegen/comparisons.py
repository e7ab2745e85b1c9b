"""Comparisons, selections and what reads truth values, in NumPy and in OpenCL C.

A truth value (``i1``) is a byte of 0 or 1 everywhere: in memory, in a scalar (``char``) and in a fragment (``char8``).
OpenCL's comparisons of vectors give 0 or -1 in integers as wide as the operands; they are narrowed at once, and widened
again where a selection needs them so wide. Intel's compiler sees through both and keeps a flag register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation

from codegen.elementwise import computed, finish, operand_groups
from codegen.emitter import Emitter, Rule
from codegen.fragments import Fragment, vector_type
from codegen.interpreter import Machine, Meanings, narrow
from xegpu.dialect.comparisons import CmpFOp, CmpIOp, SelectOp
from xegpu.dtypes import DType, of_mlir

_FLOATS = {"oeq": "{0} == {1}", "ogt": "{0} > {1}", "oge": "{0} >= {1}", "olt": "{0} < {1}", "ole": "{0} <= {1}",
           "one": "({0} < {1}) | ({0} > {1})", "ord": "({0} == {0}) & ({1} == {1})", "une": "{0} != {1}",
           "uno": "({0} != {0}) | ({1} != {1})", "false": "({0} < {1}) & ({0} > {1})"}
_OPPOSITES = {"ueq": "one", "ugt": "ole", "uge": "olt", "ult": "oge", "ule": "ogt", "true": "false"}
"""Unordered predicates, each with the ordered one that is true exactly where it is not."""
_INTEGERS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SIZES = {8: "char", 16: "short", 32: "int", 64: "long"}


def _compare(emitter: Emitter, operation: CmpIOp | CmpFOp) -> None:
    dtype, width, groups = operand_groups(emitter, operation)
    expressions = []
    for group in groups:
        left, right = (computed(value, dtype, width) for value in group)
        if isinstance(operation, CmpIOp):
            holds, opposite = _integers(operation.name_of_predicate, left, right, dtype, width), False
        else:
            opposite = operation.name_of_predicate in _OPPOSITES
            name = _OPPOSITES.get(operation.name_of_predicate, operation.name_of_predicate)
            holds = _FLOATS[name].format(left, right)
        expressions.append(_narrowed(holds, opposite, width))
    finish(emitter, operation, expressions)


def _integers(predicate: str, left: str, right: str, dtype: DType, width: int) -> str:
    """A comparison of integers, read with the sign that the predicate says."""
    signed = dtype.opencl.removeprefix("u")
    kind = {"u": f"u{signed}", "s": signed}.get(predicate[0], dtype.opencl) if len(predicate) == 3 else dtype.opencl
    if kind != dtype.opencl:
        left, right = (f"as_{vector_type(kind, width)}({side})" for side in (left, right))
    return f"{left} {_INTEGERS[predicate[-2:]]} {right}"


def _narrowed(holds: str, opposite: bool, width: int) -> str:
    """What OpenCL's comparison gives, 0 or -1 in a vector and 0 or 1 in a scalar, as a byte of 0 or 1."""
    if width == 1:
        return f"!({holds})" if opposite else holds
    bytes_, one = vector_type("char", width), "(char)1"
    return f"(convert_{bytes_}({holds}) + {one})" if opposite else f"(convert_{bytes_}({holds}) & {one})"


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
        f"select({b}, {a}, {_widened(c, left.dtype, left.width)})" if each else f"({c}) ? {a} : {b}"
        for c, a, b in zip(conditions, left.names, right.names, strict=True)])


def _widened(condition: str, dtype: DType, width: int) -> str:
    """Bytes of 0 or 1 as ``select`` wants them: 0 or -1, as wide as what is selected."""
    wide = vector_type(_SIZES[8 * np.dtype(dtype.numpy).itemsize], width)
    read = condition if wide.startswith("char") else f"convert_{wide}({condition})"
    return f"{read} != ({wide})(0)"


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
