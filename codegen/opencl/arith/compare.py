"""Comparisons and ``select`` in OpenCL C, on predicates as in :mod:`codegen.opencl.arith.predicate`."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from codegen.opencl.arith import predicate as truth
from codegen.opencl.arith.integer import cast
from codegen.opencl.arith.operands import finish, operand_groups
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.values import Fragment, computed
from xegpu.mlir.arith import CmpFOp, CmpIOp, SelectOp
from xegpu.mlir.predicates import Predicate, name_of

_FLOATS = {"one": "({0} < {1}) | ({0} > {1})", "ord": "({0} == {0}) & ({1} == {1})", "une": "{0} != {1}",
           "uno": "({0} != {0}) | ({1} != {1})", "false": "({0} < {1}) & ({0} > {1})"}
"""Text of the predicates that are not one of C's comparisons, all of which but ``!=`` are false on NaN."""


def _compare(emitter: Emitter, operation: CmpIOp | CmpFOp) -> None:
    dtype, width, groups = operand_groups(emitter, operation)
    vector, predicate = isinstance(operation.result.type, VectorType), operation.record
    opposite = predicate.unordered is True and operation.name_of_predicate not in _FLOATS
    if opposite:
        predicate = predicate.inverse()
    expressions = []
    for group in groups:
        left, right = (computed(value, dtype, width) for value in group)
        if isinstance(operation, CmpIOp):
            condition = _integers(predicate, left, right, dtype.register if vector else dtype.opencl, width)
        else:
            condition = _FLOATS.get(name_of(predicate), f"{{0}} {predicate.order} {{1}}").format(left, right)
        expressions.append(truth.from_condition(condition, width, opposite=opposite) if vector else
                           f"{'!' * opposite}({condition})")
    finish(emitter, operation, expressions)


def _integers(predicate: Predicate, left: str, right: str, c_type: str, width: int) -> str:
    """Integer comparison, signed or unsigned as the predicate says."""
    signed = c_type.removeprefix("u")
    kind = {"u": f"u{signed}", "i": signed, "": c_type}[predicate.operands]
    if kind != c_type:
        left, right = (cast(side, c_type, kind, width) for side in (left, right))
    return f"{left} {predicate.order} {right}"


def _select(emitter: Emitter, operation: SelectOp) -> None:
    condition = emitter.values[operation.condition]
    if not isinstance(operation.result.type, VectorType):
        left, right = (emitter.values[value] for value in (operation.lhs, operation.rhs))
        finish(emitter, operation, [f"({condition}) ? {left} : {right}"])
        return
    left, right = emitter.by_words(operation.lhs), emitter.by_words(operation.rhs)
    is_fragment = isinstance(condition, Fragment)
    conditions = emitter.by_words(operation.condition).names if is_fragment else (condition,) * len(left.names)
    each = is_fragment and left.width > 1
    finish(emitter, operation, [
        f"select({b}, {a}, {truth.as_wide_as(c, left.dtype, left.width)})" if each else f"({c}) ? {a} : {b}"
        for c, a, b in zip(conditions, left.names, right.names, strict=True)])


RULES: dict[type[Operation], Rule] = {CmpIOp: _compare, CmpFOp: _compare, SelectOp: _select}


