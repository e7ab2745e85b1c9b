"""What XeGPU's operations on single elements mean, in NumPy (see :mod:`xegpu.reference`).

Whole registers and the single elements of all lanes mean the same: an element is at its own offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Operation

from xegpu.atomics import KINDS
from xegpu.dialect import scattered as ops
from xegpu.dialect.descriptors import desc_of
from xegpu.dtypes import DType, of_mlir
from xegpu.memrefs import is_shared
from xegpu.scattered_memory import Array, Elements, block_elements


def active_elements(machine: Any, mask: Any, rank: int) -> Any:
    """A mask without the instances that take no part; the vector has ``rank`` dimensions behind the batch axes."""
    if machine.active is None:
        return mask
    axes = machine.batch - machine.active.ndim + rank
    return mask & machine.active.reshape(*machine.active.shape, *[1] * axes)


def atomic(machine: Any, kind: str, elements: Elements, value: Array, mask: Any, dtype: DType, rank: int) -> Array:
    """An atomic update by every instance that runs, also by those whose values and places are the same.

    Args:
        machine: what runs the operation.
        kind: of the update.
        elements, value, mask: batch axes (the lanes among them), then ``rank`` dimensions.
        dtype: the element type.
        rank: dimensions of the vector.
    """
    batch = np.broadcast_shapes(machine.instances + (1,) * (machine.batch - len(machine.instances) + rank),
                                np.shape(value), np.shape(mask), np.shape(elements.offsets))
    mask = np.broadcast_to(active_elements(machine, mask, rank), batch)
    return elements.update(KINDS[kind], np.broadcast_to(value, batch), mask, dtype)


def made(machine: Any, operation: Any, source: Any, offsets: Any, dtype: DType) -> Elements:
    """Elements off from an array's first one, or from an address.

    Args:
        machine: what runs the operation.
        operation: its first operand is a memref or an address, its second the vector of offsets.
        source, offsets: what these are.
        dtype: the element type.
    """
    _, vector = operation.operands
    if isinstance(operation.operands[0].type, MemRefType):
        return Elements(source, offsets + _of_group(machine, operation.operands[0].type, source, _rank(vector)))
    lowest = int(np.min(source))
    apart = machine.as_vector(np.asarray(source) - lowest, _rank(vector)) // dtype.bytes
    return Elements.at_address(lowest, dtype, offsets + apart)


def _of_group(machine: Any, type_: Any, source: Array, rank: int) -> Any:
    """Where the array of each instance's work-group begins in shared local memory, in elements; else 0."""
    if not is_shared(type_):
        return 0
    ahead = source.ndim - len(type_.get_shape())
    begins = sum(index * (stride // source.itemsize)
                 for index, stride in zip(machine.work_group, source.strides[:ahead], strict=True))
    return machine.as_vector(begins, rank)


def _rank(value: Any) -> int:
    assert isinstance(value.type, VectorType)
    return len(value.type.get_shape())


def _chunked(operation: Any, elements: Elements, mask: Any) -> tuple[Elements, Any]:
    chunk = ops.scatter_of(desc_of(operation.desc)).chunk_size
    return elements.chunked(chunk), mask if chunk == 1 else np.asarray(mask)[..., None, :]


def _load(machine: Any, operation: Any, operands: Sequence[Any]) -> Array:
    elements, mask = _chunked(operation, *operands)
    mask = active_elements(machine, np.asarray(mask, bool), _rank(operation.result))
    return elements.gather(mask, operation.number).astype(desc_of(operation.desc).dtype.compute)


def _store(machine: Any, operation: Any, operands: Sequence[Any]) -> None:
    elements, mask = _chunked(operation, *operands[1:])
    elements.scatter(operands[0], active_elements(machine, np.asarray(mask, bool), _rank(operation.value)))


def _atomic(machine: Any, operation: Any, operands: Sequence[Any]) -> Array:
    value, elements, mask = operands
    dtype, desc = of_mlir(operation.value.type.element_type), desc_of(operation.desc)
    mask = np.asarray(mask, bool)
    if desc.sg_map is None or desc.sg_map.lanes == machine.lanes:
        return atomic(machine, operation.kind.data, elements, value, mask, dtype, 1)
    own = slice(desc.sg_map.lanes)  # lanes beyond the elements hold copies, and take no part
    some = replace(elements, offsets=np.asarray(elements.offsets)[..., own, :])
    old = atomic(machine, operation.kind.data, some, value[..., own, :], mask[..., own, :], dtype, 1)
    return old.take(np.arange(machine.lanes) % desc.sg_map.lanes, axis=-2)


def _elements(machine: Any, operation: Any, operands: Sequence[Any]) -> list[Any]:
    (window,), ((row, column), (height, width)) = operands, operation.part()
    lanes = desc_of(operation.result).sg_map is not None
    number = np.arange(machine.lanes)[:, None] % (height * width) if lanes else np.arange(height * width)
    return list(block_elements(window.array, (*window.lead, window.row, window.column), row + number // width,
                               column + number % width, machine.batch - lanes))


MEANINGS: Mapping[type[Operation], Callable[..., Any]] = {
    ops.CreateTdescOp: lambda machine, operation, operands: made(
        machine, operation, operands[0], operands[1], desc_of(operation.result).dtype),
    ops.UpdateOffsetOp: lambda machine, operation, operands: operands[0].moved(operands[1]),
    ops.LoadGatherOp: _load,
    ops.StoreScatterOp: _store,
    ops.PrefetchOp: lambda machine, operation, operands: None,
    ops.AtomicRMWOp: _atomic,
    ops.BlockElementsOp: _elements,
}
