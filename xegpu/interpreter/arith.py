"""NumPy semantics of arith, math, vector, memref and gpu operations (see :mod:`xegpu.interpreter.interpreter`)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isfinite
from os.path import basename
from typing import Any

import numpy as np
from xdsl.dialects import arith, gpu, math, memref, ub
from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import MemRefType, UnrealizedConversionCastOp, VectorType
from xdsl.ir import Operation

from xegpu.dialect.inline import InlineOp, NumpyFunction
from xegpu.interpreter.interpreter import Interpreter, Semantic, Semantics, narrow
from xegpu.ir import dtypes
from xegpu.ir.dtypes import (
    DType,
    NDArray,
    arithmetic_result,
    element_type,
    of_mlir,
    quiet,
    round_to,
    to_compute,
    to_storage,
)
from xegpu.mlir.arith import IndexCastOp
from xegpu.mlir.elementwise import RECORDS, Record, Sign, read_as
from xegpu.mlir.vector import (
    ExtractOp,
    ExtractStridedSliceOp,
    InsertStridedSliceOp,
    ShapeCastOp,
    TransposeOp,
    values_of,
)
from xegpu.support.errors import ArgumentError, XeError
from xegpu.support.location import author_location


def fused(a: NDArray, b: NDArray, c: NDArray) -> NDArray:
    """Fused multiply-add ``a * b + c`` of float32 or float64 arrays, rounded once; NumPy has none."""
    return _through_double(a, b, c) if a.dtype == np.float32 else np.asarray(_exactly(a, b, c), np.float64)


def _through_double(a: NDArray, b: NDArray, c: NDArray) -> NDArray:
    """Float32 fma in float64: the product is exact, and the sum is rounded to odd, so that rounding again is right.

    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.)
    """
    product, addend = a.astype(np.float64) * b, c.astype(np.float64)
    total = np.asarray(product + addend)
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    bits = np.ascontiguousarray(total).view(np.int64).reshape(total.shape)
    away = np.where((error > 0) == (total > 0), 1, -1)  # to a larger or to a smaller magnitude
    odd = np.where((bits & 1 == 0) & (error != 0) & np.isfinite(total), bits + away, bits)
    return odd.view(np.float64).astype(np.float32)


@np.vectorize
def _exactly(a: float, b: float, c: float) -> float:
    if not (isfinite(a) and isfinite(b)):
        return a * b + c
    if not isfinite(c):
        return c  # the product is finite, though a * b may overflow
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c  # for the sign of zero
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


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
        if target.kind == "x":
            return narrow(value)
        return narrow(np.asarray(value, np.int64).astype(target.compute))  # the lowest bits
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


def _fma(machine: Interpreter, operation: Operation, operands: Sequence[Any]) -> Any:
    dtype = element_type(operation.results[0].type)
    return arithmetic_result(fused(*(np.asarray(value, dtype.compute) for value in operands)), dtype)


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


def _poison(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    type_ = operation.result.type
    return np.zeros((*[1] * machine.batch, *type_.get_shape()), element_type(type_).compute)


def _spread(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    type_ = operation.vector.type
    shape = type_.get_shape()
    value = np.asarray(machine.as_vector(operands[0], len(shape)), element_type(type_).compute)
    leading = value.shape[:machine.batch] if value.ndim > len(shape) else (1,) * machine.batch
    return np.broadcast_to(value, (*leading, *shape))


def _slice(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    return operands[0][_part_index(values_of(operation.offsets), values_of(operation.sizes))]


def _shuffle(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    axis = -len(operation.v1.type.get_shape())
    leading = np.broadcast_shapes(*(operand.shape[:axis] for operand in operands))
    both = [np.broadcast_to(operand, (*leading, *operand.shape[axis:])) for operand in operands]
    return np.take(np.concatenate(both, axis), operation.mask.get_values(), axis)


def _part_index(offsets: Sequence[int], sizes: Sequence[int]) -> tuple[Any, ...]:
    return (..., *(slice(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True)))


def _insert(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    source, dest = operands
    shape = source.shape[len(source.shape) - len(values_of(operation.offsets)):]
    leading = np.broadcast_shapes(source.shape[:-len(shape)], dest.shape[:-len(shape)])
    result = np.broadcast_to(dest, (*leading, *dest.shape[-len(shape):])).copy()
    result[_part_index(values_of(operation.offsets), shape)] = source
    return result


def _extract(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    position = tuple(operation.static_position.get_values())
    rank = len(operation.vector.type.get_shape())
    return operands[0][(..., *position, *[slice(None)] * (rank - len(position)))]


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


def _inline(machine: Interpreter, operation: InlineOp, operands: Sequence[Any]) -> Any:
    """The author's function, of read-only arrays of one shape in the element types of memory."""
    author = operation.numpy.data if operation.numpy is not None else NumpyFunction("no line")
    if author.function is None:
        raise ArgumentError("XT1285", "an inline text that was read from MLIR has no NumPy semantics: text holds only "
                            f"where its function stands, {author.label}",
                            "run it on a device or a machine, as in .on(\"machine:pvc\"); or run the kernel itself, "
                            "not its text", author_location(operation))
    types = [element_type(value.type) for value in operation.inputs]
    arrays = np.broadcast_arrays(*(to_storage(np.asarray(value, dtype.compute), dtype.numpy)
                                   for value, dtype in zip(operands, types, strict=True)))
    for array in arrays:
        array.flags.writeable = False
    try:
        with np.errstate(all="ignore"):
            found = author.function(*arrays)
    except XeError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[1:2]  # behind this function's own, if it is one of Python
        where = f"{basename(frames[0].filename)}:{frames[0].lineno}" if frames else author.label
        raise ArgumentError("XT1283", f"the NumPy function of an inline text ({where}) raised "
                            f"{type(error).__name__}: {error}", "it is called with arrays of any shape, of all "
                            "instances at once, and computes element by element",
                            author_location(operation)) from error
    return _checked_results(operation, author, found, arrays[0].shape)


def _checked_results(operation: InlineOp, author: NumpyFunction, found: Any, shape: tuple[int, ...]) -> Any:
    """Results of an author's function in their compute types; raises if they are not what the operation gives."""
    types = [element_type(value.type) for value in operation.outputs]
    results = found if len(types) > 1 else (found,)
    if not isinstance(results, tuple) or len(results) != len(types):
        raise _wrong_result(operation, author, f"{len(types)} results", _result_description(found))
    for result, dtype in zip(results, types, strict=True):
        if not isinstance(result, (np.ndarray, np.generic)) or result.dtype != dtype.numpy or \
                result.shape != shape:
            raise _wrong_result(operation, author, f"{dtype.numpy} of shape {shape}", _result_description(result))
    values = [narrow(to_compute(np.asarray(result), dtype)) for result, dtype in zip(results, types, strict=True)]
    return values if len(values) > 1 else values[0]


def _result_description(result: Any) -> str:
    if isinstance(result, (np.ndarray, np.generic)):
        return f"{result.dtype} of shape {result.shape}"
    return f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"


def _wrong_result(operation: InlineOp, author: NumpyFunction, wanted: str, found: str) -> XeError:
    """Error of an author's function whose result is none of the operation's."""
    return ArgumentError("XT1284", f"the NumPy function of an inline text ({author.label}) gives {found}, not {wanted}",
                         "compute element by element, and convert the result: .astype(numpy.float32); several results "
                         "are a tuple", author_location(operation))


SEMANTICS: Semantics = {
    InlineOp: _inline,
    **{kind: _elementwise(record) for kind, record in RECORDS.items() if record.numpy is not None},
    **{kind: _convert for kind, record in RECORDS.items() if record.family == "conversion"},
    math.FmaOp: _fma,
    arith.BitcastOp: _bitcast,
    arith.ConstantOp: _constant,
    ub.PoisonOp: _poison,
    xvector.BroadcastOp: _spread,
    ExtractOp: _extract,
    ExtractStridedSliceOp: _slice,
    InsertStridedSliceOp: _insert,
    xvector.ShuffleOp: _shuffle,
    ShapeCastOp: lambda machine, op, operands: operands[0].reshape(
        *operands[0].shape[:-len(op.source.type.get_shape())], *op.result.type.get_shape()),
    TransposeOp: lambda machine, operation, operands: np.swapaxes(operands[0], -1, -2),
    memref.ExtractStridedMetaDataOp: _metadata,
    UnrealizedConversionCastOp: _cast,
    memref.CastOp: _recast,
    gpu.BlockIdOp: lambda machine, op, _: machine.along(_axis(op), *machine.groups[_axis(op)]),
    gpu.GridDimOp: lambda machine, op, _: machine.grid[_axis(op)],
    gpu.SubgroupIdOp: lambda machine, op, _: machine.subgroup,
}
