"""NumPy semantics of gathers, scatters and atomics.

Blocks and the fragments of all lanes have the same semantics, as every element has its offset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType, VectorType

from xegpu.dialect import gather_scatter as ops
from xegpu.dialect.block_io import desc_of
from xegpu.interpreter.interpreter import Interpreter, Semantics
from xegpu.interpreter.memory import Surfaces
from xegpu.interpreter.memory.elements import Elements, WorkGroupSlice
from xegpu.ir.dtypes import DType, NDArray, of_mlir, to_compute
from xegpu.ir.memref import is_shared
from xegpu.layout.vnni import vnni
from xegpu.mlir.atomic_kind import KINDS
from xegpu.mlir.vector import shape_of


def block_elements(array: NDArray | Surfaces, at: Sequence[Any], rows: NDArray, columns: NDArray,
                   batch: int) -> tuple[Elements, NDArray]:
    """Scattered elements of a block at offsets ``at``, and the mask of those in bounds.

    Args:
        array: any strides.
        at: offsets of the block, one for each dimension; integers, or arrays over the batch axes.
        rows, columns: coordinates of each element in the block, in shapes that broadcast.
        batch: number of batch axes of ``at``.
    """
    axes = (None,) * max(rows.ndim, columns.ndim)
    *lead, y, x = (np.asarray(start, np.int64).reshape(np.shape(start) or (1,) * batch)[(..., *axes)] for start in at)
    if isinstance(array, Surfaces):
        flat_indices, inside = array.indices(y + rows, x + columns)
        return Elements(array.flat, flat_indices), inside
    inside, offsets = np.asarray(True), np.asarray(0)
    for index, size, stride in zip((*lead, y + rows, x + columns), array.shape, array.strides, strict=True):
        inside = inside & (index >= 0) & (index < size)
        offsets = offsets + index * (stride // array.itemsize)
    return Elements(array, offsets), inside


def active_elements(machine: Interpreter, mask: Any, rank: int) -> Any:
    """Clear inactive instances in the mask of a vector of ``rank`` dimensions after the batch axes."""
    if machine.active is None:
        return mask
    axes = machine.batch - machine.active.ndim + rank
    return mask & machine.active.reshape(*machine.active.shape, *[1] * axes)


def atomic(machine: Interpreter, kind: str, elements: Elements, value: NDArray, mask: Any, dtype: DType,
           rank: int) -> NDArray:
    """Atomic update by every running instance, also by those with equal values and addresses.

    Args:
        machine: the interpreter.
        kind: atomic kind.
        elements, value, mask: batch axes (the lanes among them), then ``rank`` dimensions.
        dtype: the element type.
        rank: dimensions of the vector.
    """
    batch = np.broadcast_shapes(machine.instances + (1,) * (machine.batch - len(machine.instances) + rank),
                                np.shape(value), np.shape(mask), np.shape(elements.offsets))
    mask = np.broadcast_to(active_elements(machine, mask, rank), batch)
    return elements.update(KINDS[kind], np.broadcast_to(value, batch), mask, dtype)


def create_elements(machine: Interpreter, operation: Any, source: Any, offsets: Any, dtype: DType) -> Elements:
    """Scattered elements of ``xegpu.create_tdesc``, at offsets from an array's first element or a raw address.

    Args:
        machine: the interpreter.
        operation: its first operand is a memref or an address, its second the vector of offsets.
        source, offsets: run-time values of the two operands.
        dtype: the element type.
    """
    vector = operation.operands[1]
    if isinstance(operation.operands[0].type, MemRefType):
        own = _work_group_slice(machine, operation.operands[0].type, source, _rank(vector))
        return Elements(source, offsets, own=own)
    lowest = int(np.min(source))
    base_offsets = machine.as_vector(np.asarray(source) - lowest, _rank(vector)) // dtype.bytes
    return Elements.at_address(lowest, dtype, offsets + base_offsets)


def _work_group_slice(machine: Interpreter, type_: MemRefType, source: NDArray, rank: int) -> WorkGroupSlice | None:
    """Part of an array in shared local memory that belongs to each instance's work-group; None for global memory."""
    if not is_shared(type_):
        return None
    ahead = source.ndim - len(type_.get_shape())
    begins = sum(index * (stride // source.itemsize)
                 for index, stride in zip(machine.work_group, source.strides[:ahead], strict=True))
    return WorkGroupSlice(math.prod(source.shape[ahead:]), machine.as_vector(begins, rank))


def _rank(value: Any) -> int:
    assert isinstance(value.type, VectorType)
    return len(value.type.get_shape())


def _chunked(operation: Any, elements: Elements, mask: Any) -> tuple[Elements, Any]:
    chunk = ops.scatter_of(desc_of(operation.desc)).chunk_size
    return elements.chunked(chunk), mask if chunk == 1 else np.asarray(mask)[..., None, :]


def _load_gather(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    elements, mask = _chunked(operation, *operands)
    mask = active_elements(machine, np.asarray(mask, bool), _rank(operation.result))
    return to_compute(elements.gather(mask, operation.number), desc_of(operation.desc).dtype)


def _load_rows(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    """Rows of a block from the chunks of all lanes, then an element of each row for every lane."""
    descs, (offset, *lengths) = operands[:len(operation.descs)], operands[len(operation.descs):]
    desc = desc_of(operation.descs[0])
    chunk, lanes = ops.scatter_of(desc).chunk_size, desc.shape[0]
    offset = machine.as_vector(offset, 2)
    parts = []
    for number, elements in enumerate(descs):
        moved = elements.chunked(chunk).moved(offset)
        inside = np.ones(np.shape(moved.offsets), bool)
        for length in lengths:  # one, or none
            place = 0 if operation.whole is not None else np.arange(chunk)[:, None] + offset
            inside = inside & (place < np.asarray(length)[..., number, :, None])
        mask = active_elements(machine, inside, 2)
        parts.append(moved.gather(mask, 0)[..., 0])  # lanes, then their chunks
    flat_rows = np.concatenate([part.reshape(*part.shape[:-2], lanes * chunk) for part in parts], axis=-1)
    rows = flat_rows.reshape(*flat_rows.shape[:-1], -1, lanes)
    return to_compute(np.moveaxis(rows, -1, -2)[..., None], desc.dtype)


def load_columns(machine: Interpreter, operation: Any, operands: Sequence[Any], rows: NDArray, rank: int) -> NDArray:
    """Elements of columns, those beyond their lengths zero; of a lane, of a subgroup, or in blocks.

    Args:
        machine: the interpreter.
        operation: what loads them.
        operands: an array, and for each column its offset and its length, in shapes that broadcast with ``rows``.
        rows: number of each row.
        rank: dimensions of a result.
    """
    source, offsets, lengths = operands
    dtype = of_mlir(operation.source.type.element_type)
    elements = create_elements(machine, operation, source, np.asarray(offsets), dtype).moved(rows)
    active = active_elements(machine, np.asarray(rows < np.asarray(lengths)), rank)
    return to_compute(elements.gather(active, 0), dtype)


def _load_columns(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    source, *lines = operands
    columns = load_columns(machine, operation, (source, *(np.asarray(line)[..., None, :] for line in lines)),
                           np.arange(operation.rows)[:, None], 2)
    if operation.packed is None:
        return columns
    words = vnni(columns, ops.WORD_BITS // of_mlir(operation.source.type.element_type).bits)
    return words if len(shape_of(operation.result)) == 3 else words[..., 0, :]  # of a lane's only column


def _store_scatter(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
    elements, mask = _chunked(operation, *operands[1:])
    elements.scatter(operands[0], active_elements(machine, np.asarray(mask, bool), _rank(operation.value)))


def _atomic_rmw(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    value, elements, mask = operands
    dtype, desc = of_mlir(operation.value.type.element_type), desc_of(operation.desc)
    mask = np.asarray(mask, bool)
    if desc.sg_map is None or desc.sg_map.lanes == machine.lanes:
        return atomic(machine, operation.kind.data, elements, value, mask, dtype, 1)
    assert machine.lanes is not None  # a map comes with the distribution over lanes
    own = slice(desc.sg_map.lanes)  # further lanes hold replicated elements, which are updated once
    some = replace(elements, offsets=np.asarray(elements.offsets)[..., own, :])
    old = atomic(machine, operation.kind.data, some, value[..., own, :], mask[..., own, :], dtype, 1)
    return old.take(np.arange(machine.lanes) % desc.sg_map.lanes, axis=-2)


def _block_elements(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> list[Any]:
    (window,), ((row, column), (height, width)) = operands, operation.part()
    number = np.arange(height * width)
    if lanes := desc_of(operation.result).sg_map is not None:
        assert machine.lanes is not None
        number = np.arange(machine.lanes)[:, None] % (height * width)
    return list(block_elements(window.array, (*window.lead, window.row, window.column), row + number // width,
                               column + number % width, machine.batch - lanes))


SEMANTICS: Semantics = {
    ops.CreateTdescOp: lambda machine, operation, operands: create_elements(
        machine, operation, operands[0], operands[1], desc_of(operation.result).dtype),
    ops.UpdateOffsetOp: lambda machine, operation, operands: operands[0].moved(operands[1]),
    ops.LoadGatherOp: _load_gather,
    ops.LoadRowsOp: _load_rows,
    ops.LoadColumnsOp: _load_columns,
    ops.StoreScatterOp: _store_scatter,
    ops.PrefetchOp: lambda machine, operation, operands: None,
    ops.AtomicRMWOp: _atomic_rmw,
    ops.BlockElementsOp: _block_elements,
}
