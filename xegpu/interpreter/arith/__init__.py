"""NumPy semantics of element-wise operations of arith and math, of conversions and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from xegpu.interpreter.interpreter import Interpreter, Semantic, Semantics, narrow
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType, NDArray, arithmetic_result, element_type, quiet, round_to, to_compute, to_storage
from xegpu.mlir.arith import IndexCastOp
from xegpu.mlir.elementwise import RECORDS, Record, Sign, read_as


def _elementwise(record: Record) -> Semantic:
    """NumPy semantics of an operation with a function in its record."""
    assert record.numpy is not None
    function = record.numpy

    def semantics(machine: Interpreter, operation: Operation, operands: Sequence[Any]) -> Any:
        dtype = element_type(operation.results[0].type)
        if record.family == "integer":
            return _integers(record, function, operands, dtype)
        return arithmetic_result(function(*(np.asarray(value, dtype.compute) for value in operands)), dtype)

    return semantics


def _integers(record: Record, function: Callable[..., Any], operands: Sequence[Any], dtype: DType) -> Any:
    if dtype is dtypes.i1:
        truths = [np.asarray(value, np.bool_) for value in operands]
        return narrow(_TRUTH[record.truth](truths[0], truths[-1]))
    if dtype.kind == "x" and record.operands != "u":
        if all(isinstance(value, int) for value in operands):  # uniform over all instances
            operands = [np.int64(value) for value in operands]
        result = function(*operands)
        return narrow(result.item() if isinstance(result, np.generic) else result)
    operands = [_read(value, dtype, record.operands) for value in operands]
    with np.errstate(over="ignore"):  # the smallest integer divided by -1
        result = np.asarray(function(*operands))
    return narrow(result.view(np.int32).astype(np.int64)) if dtype.kind == "x" else result.view(dtype.compute)


_TRUTH: dict[str, Callable[[Any, Any], Any]] = {
    "^": lambda a, b: a ^ b, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "a": lambda a, b: a | (b & False),
    "~": lambda a, b: ~a, "0": lambda a, b: (a | b) & False,
}
"""Operations on truth values (``Record.truth``), in the shape of both operands."""


def _read(value: Any, dtype: DType, sign: Sign) -> NDArray:
    """Integers, read with a signedness; devices have 32 bits of an index."""
    if dtype.kind == "x":
        return np.asarray(value, np.int64).astype(np.uint32 if sign == "u" else np.int32)
    array = np.asarray(value, dtype.compute)
    if dtype is dtypes.i1:
        return -array.astype(np.int8) if sign == "i" else array
    return array.view(read_as(dtype, sign).compute)


def _convert(machine: Interpreter, operation: Operation, operands: Sequence[Any]) -> Any:
    source, target = element_type(operation.operands[0].type), element_type(operation.results[0].type)
    sign, value = RECORDS[type(operation)], operands[0]
    if dtypes.i1 in (source, target) or (source.kind in "iux" and type(operation) is not IndexCastOp):
        value = _read(value, source, sign.operands) if not source.is_float else np.asarray(value, np.float64)
    if target is dtypes.i1:
        if source.is_float:
            return narrow(value >= 1 if sign.result == "u" else value <= -1)
        return narrow(value & 1 != 0)
    if type(operation) is IndexCastOp:
        number = np.asarray(value, np.int64)  # an index has 64 bits, as products with strides need them
        return narrow(number if target.kind == "x" else number.astype(target.compute))  # else the lowest bits
    if source.is_float and not target.is_float:
        limits = dtypes.i32 if target.kind == "x" else target
        whole = _saturated(np.nan_to_num(np.trunc(np.asarray(value, np.float64))), read_as(limits, sign.result))
        return narrow(whole.astype(np.int64)) if target.kind == "x" else whole.view(target.compute)
    if source in (dtypes.f16, dtypes.e5m2) and target is not dtypes.f16:
        value = quiet(np.asarray(value))
    return round_to(np.asarray(value), target)


def _saturated(whole: Any, target: DType) -> Any:
    """Convert integral floats to integers with saturation; the limits of 64 bits are not representable as floats."""
    limits = np.iinfo(target.compute)
    inside = (whole >= limits.min) & (whole < float(limits.max) + 1)
    numbers = np.where(inside, whole, 0).astype(target.compute)
    return np.where(inside, numbers, np.where(whole < 0, limits.min, limits.max).astype(target.compute))


def _bitcast(machine: Interpreter, operation: Operation, operands: Sequence[Any]) -> Any:
    source, target = element_type(operation.operands[0].type), element_type(operation.results[0].type)
    if source.numpy == target.numpy:
        return operands[0]
    return to_compute(to_storage(np.asarray(operands[0]), source.numpy).view(target.numpy), target)


def _constant(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    dtype = element_type(operation.result.type)
    if isinstance(operation.result.type, VectorType):
        values, shape = np.array(list(operation.value.get_values()), dtype.compute), operation.result.type.get_shape()
        return np.resize(values, (*[1] * machine.batch, *shape))  # a splat has one
    number = operation.value.value.data
    return int(number) if dtype.kind == "x" else round_to(np.asarray(number), dtype)


SEMANTICS: Semantics = {
    **{kind: _elementwise(record) for kind, record in RECORDS.items() if record.numpy is not None},
    **{kind: _convert for kind, record in RECORDS.items() if record.family == "conversion"},
    arith.BitcastOp: _bitcast,
    arith.ConstantOp: _constant,
}
