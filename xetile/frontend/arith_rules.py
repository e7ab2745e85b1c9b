"""Operator tables: the arith or math operation of each operator and element type, constant folding, conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.mlir import arith as conversions
from xegpu.mlir.arith import CmpFOp, CmpIOp
from xegpu.mlir.elementwise import RECORDS
from xegpu.mlir.predicates import predicate_of
from xegpu.support.errors import ElementTypeError
from xetile.frontend.tracer import current

Rule = Callable[[SSAValue, SSAValue], Operation]


def _compare(kind: str) -> dict[str, Rule]:
    """Comparison operators of a kind of element types."""
    return {symbol: partial(CmpFOp if kind == "f" else CmpIOp, predicate=predicate_of(symbol, kind))
            for symbol in COMPARISONS}


COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def _operators(kind: str) -> dict[str, Rule]:
    """Operator table of a kind of element types, from the records of the operations."""
    constructors: dict[str, Any] = {operator: operation for operation, record in RECORDS.items()
                                    if kind in record.kinds for operator in record.operators}
    return {**constructors, **_compare(kind)}


_KINDS: dict[str, dict[str, Rule]] = {**{kind: _operators(kind) for kind in "fiux"}, "s": {}}
_TRUTH: dict[str, Rule] = {symbol: _KINDS["u"][symbol] for symbol in ("&", "|", "^", *COMPARISONS)}


def rules_of(dtype: DType) -> dict[str, Rule]:
    """Operator table of an element type: operator to the constructor of its operation."""
    return _TRUTH if dtype is dtypes.i1 else _KINDS[dtype.kind]


_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b,
    "%": lambda a, b: a % b, "maximum": max, "minimum": min,
}


def constant_of(value: SSAValue) -> int | float | None:
    """Value of a scalar constant; None for any other SSA value (``m_Constant``)."""
    if isinstance(value.owner, arith.ConstantOp) and hasattr(value.owner.value, "value"):
        return value.owner.value.value.data  # type: ignore[no-any-return]
    return None


def fold(operator: str, dtype: DType, left: SSAValue, right: SSAValue) -> SSAValue | None:
    """Constant folding of index arithmetic: both sides constant, or one the identity element; None otherwise."""
    if dtype.kind != "x":
        return None
    a, b = constant_of(left), constant_of(right)
    if a is not None and b is not None and operator in _FOLD and (b != 0 or operator not in ("//", "%")):
        return current().constant(_FOLD[operator](a, b), dtype)
    if (b == 0 and operator in "+-") or (b == 1 and operator in ("*", "//")):
        return left
    if (a == 0 and operator == "+") or (a == 1 and operator == "*"):
        return right
    return None


def convert(value: SSAValue, target: DType) -> SSAValue:
    """Conversion of a scalar or vector to another element type other than ``i1``, which takes a comparison with
    zero."""
    type_ = value.type
    source = of_mlir(type_.element_type if isinstance(type_, VectorType) else type_)
    if source is target:
        return value
    if target.kind == "s":
        raise ElementTypeError("XT1215", f"a run-time number of {source} is not rounded to {target}",
                               f"round a vector of it: xt.full(shape, number, xt.f32).to(xt.{target})",
                               current().location())
    if source.kind == "s" and target not in (dtypes.f16, dtypes.bf16):  # these hold every 8-bit float
        return convert(convert(value, dtypes.f16), target)
    if {source, target} == {dtypes.f16, dtypes.bf16}:  # same width, so neither extends nor truncates
        return convert(convert(value, dtypes.f32), target)
    result = VectorType(target.mlir, type_.get_shape()) if isinstance(type_, VectorType) else target.mlir
    if "x" in (source.kind, target.kind):
        if dtypes.i32 not in (source, target):  # an index converts to 32 bits only, as devices count with these
            return convert(convert(value, dtypes.i32), target)
        return current().emit(conversions.IndexCastOp(value, result))  # type: ignore[no-any-return]
    return current().emit(_conversion(source, target)(value, result))  # type: ignore


def _conversion(source: DType, target: DType) -> type[Operation]:
    """Cast operation between two element types."""
    if source.kind in "fs" and target.is_float:
        wider = target.bits > source.bits or (source is dtypes.tf32 and target.bits >= 32)
        return arith.ExtFOp if wider else arith.TruncFOp
    if source.is_float:
        return conversions.FPToSIOp if target.signed else conversions.FPToUIOp
    if target.is_float:
        return conversions.SIToFPOp if source.signed else conversions.UIToFPOp
    if target.bits > source.bits or source is dtypes.i1:
        return conversions.ExtSIOp if source.signed else conversions.ExtUIOp
    return arith.BitcastOp if target.bits == source.bits else conversions.TruncIOp
