"""NumPy semantics of vector operations, of XeGPU and of MLIR, on blocks and on the fragments of all lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import ub
from xdsl.dialects import vector as xvector

from xegpu.dialect.block_io import desc_of
from xegpu.dialect.convert_layout import MASK, SIGN_BIT, ConvertLayoutOp, DequantizeOp, WidenOp, word_of
from xegpu.dialect.vector import BitcastOp, ExtractScalarOp, IotaOp, PackOp, PadOp, ShuffleOp
from xegpu.interpreter import memory
from xegpu.interpreter.interpreter import BATCH, Interpreter, Semantics, narrow
from xegpu.ir.dtypes import DType, NDArray, element_type, of_mlir, round_to, to_compute, to_storage
from xegpu.layout import iota, lane_map
from xegpu.layout.vnni import vnni
from xegpu.mlir.vector import (
    ExtractOp,
    ExtractStridedSliceOp,
    InsertStridedSliceOp,
    ShapeCastOp,
    TransposeOp,
    shape_of,
    values_of,
)


def _pad(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    value, window = operands
    lanes = None if operation.sg_map is None else operation.sg_map.data
    rows, columns = desc_of(operation.desc).shape
    whole = value if lanes is None else lane_map.gather(value, (rows, columns), lanes)
    batch = machine.batch - (lanes is not None)
    mask = memory.in_bounds(window.array, window.row, window.column, (rows, columns), batch, window.lead)
    dtype = of_mlir(operation.result.type.element_type)
    padded = np.where(mask, whole, round_to(np.asarray(operation.number), dtype)).astype(dtype.compute)
    return padded if lanes is None else lane_map.scatter(padded, lanes, machine.lanes)


def _pack(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    source: NDArray = operands[0]
    words, *_, factor = shape_of(operation.result)
    if operation.sg_map is None:
        return vnni(source, factor)
    return source.reshape(*source.shape[:-2], words, factor)


def bits_by_rows(values: NDArray, wide: DType, narrow: DType) -> NDArray:
    """Bitcast to narrower elements along the rows of ``[..., rows, columns]``, the lowest bits first."""
    parts = np.ascontiguousarray(to_storage(values, wide.numpy)).astype(wide.numpy.newbyteorder("<"), copy=False)
    split = parts[..., None].view(narrow.numpy)
    rows = to_compute(np.moveaxis(split, -1, -2), narrow)
    *outer, count, factor, columns = rows.shape
    return rows.reshape(*outer, count * factor, columns)


def _bitcast(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    types = (of_mlir(value.type.element_type) for value in (operation.source, operation.result))
    return bits_by_rows(operands[0], *types)


def _convert_layout(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    whole = lane_map.gather(operands[0], operation.block_shape(), operation.source_map.data)
    return lane_map.scatter(whole, operation.target_map.data, machine.lanes)


def _widen(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    target = operation.target_map.data
    (row, column), (height, width) = operation.start(), target.block(shape_of(operation.result), target.unit[1])
    whole = lane_map.gather(operands[0], operation.block_shape(), operation.source_map.data)
    part = whole[..., row:row + height, column:column + width]
    return lane_map.scatter(round_to(part, of_mlir(operation.result.type.element_type)), target, machine.lanes)


def _dequantize(machine: Interpreter, operation: DequantizeOp, operands: Sequence[Any]) -> NDArray:
    words, zero, scale = operands
    if (word := word_of(operation.words)).bits > (narrow := of_mlir(operation.words.type.element_type)).bits:  # type: ignore[attr-defined]
        words = np.ascontiguousarray(to_storage(words, narrow.numpy)).view(word.numpy)
    dtype = of_mlir(operation.result.type.element_type)  # type: ignore[attr-defined]
    fields = operation.rows_of_word
    if (columns := operation.columns) is not None:
        rows = columns.start + columns.pitch * np.arange(2 * shape_of(operation.result)[0])
        unit, lane = np.divmod(np.array(columns.offsets)[:, None] + rows, len(columns.offsets))
        shifts = np.array(columns.bits)[:, None, None].astype(words.dtype)
        words = np.asarray(words)[..., lane, unit, 0][..., None] >> shifts
    else:
        of_rows = operation.first_bit + 4 * (np.arange(words.shape[-2] * fields) % fields)
        words = np.repeat(words, fields, -2) >> of_rows[:, None].astype(words.dtype)
    if not operation.whole:
        words = (words & words.dtype.type(MASK)).astype(np.int32) ^ operation.flipped
        words = (words ^ SIGN_BIT) - SIGN_BIT if operation.signed else words
    weights = round_to(words, dtype)
    result = round_to(round_to(weights - zero, dtype) * scale, dtype)
    return result.reshape(*result.shape[:-2], *shape_of(operation.result))


def _iota(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    shape, axis = operation.block_shape(), operation.axis.value.data
    dtype = of_mlir(operation.result.type.element_type)
    if operation.sg_map is None:
        return iota.block_iota(shape, axis, operands[0], dtype, machine.batch)
    return iota.lane_iota(shape, axis, operands[0], dtype, machine.batch, operation.sg_map.data,
                          machine.lanes or operation.sg_map.data.lanes)


def _extract_scalar(machine: Interpreter, operation: ExtractScalarOp, operands: Sequence[Any]) -> Any:
    vector = np.asarray(operands[0])
    return narrow(vector.reshape(*vector.shape[:BATCH], -1)[..., 0])  # of lanes the first one


def _shuffle(machine: Interpreter, operation: ShuffleOp, operands: Sequence[Any]) -> NDArray:
    shapes, maps = operation.block_shapes(), operation.lane_maps()
    blocks = list(operands) if maps is None else \
        [lane_map.gather(value, shape, lanes) for value, shape, lanes in zip(operands, shapes, maps, strict=False)]
    outer = np.broadcast_shapes(*(block.shape[:-2] for block in blocks))
    elements = np.concatenate([np.broadcast_to(block, (*outer, *block.shape[-2:])).reshape(*outer, -1)
                               for block in blocks], -1)
    result = elements[..., np.array(operation.mask.get_values())].reshape(*outer, *shapes[-1])
    return result if maps is None else lane_map.scatter(result, maps[-1], machine.lanes)


def _poison(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    type_ = operation.result.type
    return np.zeros((*[1] * machine.batch, *type_.get_shape()), element_type(type_).compute)


def _broadcast(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    type_ = operation.vector.type
    shape = type_.get_shape()
    value = np.asarray(machine.as_vector(operands[0], len(shape)), element_type(type_).compute)
    leading = value.shape[:machine.batch] if value.ndim > len(shape) else (1,) * machine.batch
    return np.broadcast_to(value, (*leading, *shape))


def _extract_slice(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    return operands[0][_part_index(values_of(operation.offsets), values_of(operation.sizes))]


def _shuffle_rows(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
    axis = -len(operation.v1.type.get_shape())
    leading = np.broadcast_shapes(*(operand.shape[:axis] for operand in operands))
    both = [np.broadcast_to(operand, (*leading, *operand.shape[axis:])) for operand in operands]
    return np.take(np.concatenate(both, axis), operation.mask.get_values(), axis)


def _part_index(offsets: Sequence[int], sizes: Sequence[int]) -> tuple[Any, ...]:
    return (..., *(slice(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True)))


def _insert_slice(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> Any:
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


SEMANTICS: Semantics = {
    PackOp: _pack,
    BitcastOp: _bitcast,
    PadOp: _pad,
    ConvertLayoutOp: _convert_layout,
    ExtractScalarOp: _extract_scalar,
    IotaOp: _iota,
    WidenOp: _widen,
    DequantizeOp: _dequantize,
    ShuffleOp: _shuffle,
    ub.PoisonOp: _poison,
    xvector.BroadcastOp: _broadcast,
    ExtractOp: _extract,
    ExtractStridedSliceOp: _extract_slice,
    InsertStridedSliceOp: _insert_slice,
    xvector.ShuffleOp: _shuffle_rows,
    ShapeCastOp: lambda machine, op, operands: operands[0].reshape(
        *operands[0].shape[:-len(op.source.type.get_shape())], *op.result.type.get_shape()),
    TransposeOp: lambda machine, operation, operands: np.swapaxes(operands[0], -1, -2),
}
