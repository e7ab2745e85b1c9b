"""NumPy semantics of block operations of XeGPU, on blocks and on the fragments of all lanes.

An operation works on fragments when its descriptor, or the operation itself, has a lane map; a value then has the lanes
as its last batch axis. ``machine`` is the interpreter; it has the number of batch axes and the active instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xegpu.dialect.block_io import (
    CreateNdTdescOp,
    GetNdOffsetsOp,
    LoadNdOp,
    PrefetchNdOp,
    SetNdOffsetsOp,
    StoreNdOp,
    UpdateNdOffsetOp,
    desc_of,
)
from xegpu.dialect.bounds import InBoundsOp, NoAliasOp
from xegpu.dialect.payload import PayloadCreateOp, PayloadPrefetchOp, PayloadSetOp, SubgroupBroadcastOp
from xegpu.dialect.types import valid_of
from xegpu.interpreter import memory
from xegpu.interpreter.interpreter import Interpreter, Semantics, TileView
from xegpu.interpreter.memory import check_aligned, memory_at
from xegpu.ir.dtypes import NDArray
from xegpu.ir.memref import ALIGNED, is_address, is_shared
from xegpu.layout import lane_map
from xegpu.layout.vnni import vnni
from xegpu.mlir.vector import shape_of


def surface(array: NDArray, sizes: Sequence[Any], strides: Sequence[Any]) -> NDArray:
    """View of an array's memory with other sizes and strides (in elements), from its first element on."""
    byte_strides = tuple(stride * array.itemsize for stride in strides)
    if array.shape == tuple(sizes) and array.strides == byte_strides:
        return array
    return memory.strided(array, sizes, byte_strides)


def described(machine: Interpreter, operation: Any,
              operands: Sequence[Any]) -> tuple[NDArray, Any, Any, tuple[Any, ...]]:
    """Array, row, column and leading indices that the operands of an init operation describe.

    Raises:
        ShapeError: the memory violates what the author asserts of it.
    """
    array, *numbers = operands
    if is_address(operation.source.type):
        rows, columns, *sizes_and_strides = numbers
        array, where = memory_at(array, sizes_and_strides[:2], sizes_and_strides[2:], operation.result.type.data.dtype,
                                 machine.active, aligned=ALIGNED in operation.attributes)
        return array, rows, columns, where
    first, second = len(operation.offsets), len(operation.offsets) + len(operation.shape)
    *lead, row, column = numbers[:first]
    group = machine.work_group if is_shared(operation.source.type) else ()
    if first < second:  # else a memref of static shape, whose type has sizes and strides
        across = [stride // array.itemsize for stride in array.strides[:len(group)]]
        sizes, strides = numbers[first:second], numbers[second:]
        if not group and any(np.size(number) > 1 for number in (*sizes, *strides)):  # they differ between instances
            there = np.asarray(True)
            for index, size in zip(lead, sizes, strict=False):
                there = there & (np.asarray(index) >= 0) & (np.asarray(index) < size)
            address = array.ctypes.data + array.itemsize * sum(
                (np.where(there, index, 0) * stride for index, stride in zip(lead, strides, strict=False)), np.int64(0))
            extents = [np.where(there, size, 0) for size in sizes[-2:]] if lead else sizes[-2:]
            array, where = memory_at(address, extents, strides[-2:], operation.result.type.data.dtype,
                                     machine.active, aligned=ALIGNED in operation.attributes)
            return array, row, column, where
        if ALIGNED in operation.attributes:
            check_aligned(array.ctypes.data, sizes, strides, array.itemsize)
        array = surface(array, [*array.shape[:len(group)], *sizes], [*across, *strides])
    return array, row, column, (*group, *lead)


def _load_nd(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> NDArray:
    desc, window = desc_of(operation.desc), operands[0]
    rows, columns = desc.shape
    length, packed = desc.block.array_length, operation.packed is not None
    batch = machine.batch - (desc.sg_map is not None)
    whole = memory.read(window.array, window.row, window.column, (rows, columns * length), batch, lead=window.lead)
    if (valid := valid_of(operation)) is not None:
        whole = whole.copy()
        whole[..., valid[0]:, :] = whole[..., valid[1]:] = 0
    blocks = np.stack(np.split(memory.as_numbers(whole, desc.dtype), length, axis=-1), axis=-3)
    if desc.sg_map is not None:
        fragments = np.moveaxis(lane_map.scatter(blocks, desc.sg_map, machine.lanes), -3, -4)
        return fragments if length > 1 else np.asarray(fragments[..., 0, :, :])
    blocks = vnni(blocks, 32 // desc.dtype.bits) if packed else blocks
    if operation.transposes:
        together = operation.transposes // desc.dtype.bits
        words = blocks.reshape(*blocks.shape[:-1], columns // together, together)
        return np.swapaxes(words, -3, -2).reshape(*whole.shape[:-2], *shape_of(operation.result))
    return blocks if length > 1 else blocks.reshape(*whole.shape[:-2], *shape_of(operation.result))


def _store_nd(machine: Interpreter, operation: Any, operands: Sequence[Any]) -> None:
    desc, (value, window) = desc_of(operation.desc), operands
    if desc.sg_map is not None:
        value = lane_map.gather(value, (desc.shape[0], desc.shape[1]), desc.sg_map)
    if (valid := valid_of(operation)) is not None:
        value = value[..., :valid[0], :valid[1]]
    memory.write(window.array, window.row, window.column, value, machine.active, window.lead)


def _in_bounds(machine: Interpreter, operation: InBoundsOp, operands: Sequence[Any]) -> list[Any]:
    """Bounds and alignment check of a box, with the rows and columns that remain behind it."""
    (window,), (top, left, bottom, right) = operands, operation.sides
    array, size = window.array, desc_of(operation.desc).dtype.bytes
    row, column, exists = window.row, window.column, True
    if isinstance(array, memory.Surfaces):
        (height, width), pitch = array.sizes, array.strides[0] * array.flat.itemsize
        address = array.flat.ctypes.data + array.first * array.flat.itemsize
    else:
        (height, width), pitch, address = array.shape[-2:], array.strides[-2], array.ctypes.data
        for index, count, stride in zip(window.lead, array.shape, array.strides, strict=False):
            exists, address = exists & (index >= 0) & (index < count), address + index * stride
    inside = exists & (row + top >= 0) & (column + left >= 0) & (row + bottom <= height) & (column + right <= width)
    if (multiple := operation.bytes_of_alignment) > 1:
        inside = inside & ((address | pitch | (column + left) * size) % multiple == 0)
    if operation.pitch is not None:
        inside = inside & (pitch >= operation.pitch.value.data * size)
    rows, columns = height - (row + bottom), width - (column + right)
    return [np.bool_(inside) if np.ndim(inside) == 0 else inside, rows, columns]


def _no_alias(machine: Interpreter, operation: NoAliasOp, operands: Sequence[Any]) -> Any:
    """Whether one of two matrices ends where the other begins, or before."""
    (left, left_end), (right, right_end) = (_extent(window) for window in operands)
    apart = (np.asarray(left_end) <= right) | (np.asarray(right_end) <= left)
    return np.bool_(apart) if np.ndim(apart) == 0 else apart


def _extent(window: TileView) -> tuple[Any, Any]:
    """Address of a descriptor's matrix, and of what is behind it."""
    array = window.array
    if isinstance(array, memory.Surfaces):
        size = array.flat.itemsize
        address = array.flat.ctypes.data + array.first * size
        return address, address + array.sizes[0] * array.strides[0] * size
    address = array.ctypes.data + sum(index * stride
                                      for index, stride in zip(window.lead, array.strides, strict=False))
    return address, address + array.shape[-2] * array.strides[-2]


@dataclass
class Payload:
    """A payload at run time.

    Attributes:
        window: the descriptor of the block whose address it holds.
    """

    window: Any


def _payload_set(machine: Interpreter, operation: PayloadSetOp, operands: Sequence[Any]) -> None:
    payload, desc = operands
    if operation.rows is not None:
        payload.window = replace(payload.window, row=desc.row)
    if operation.columns is not None:
        payload.window = replace(payload.window, column=desc.column)


SEMANTICS: Semantics = {
    CreateNdTdescOp: lambda machine, operation, operands: TileView(*described(machine, operation, operands)),
    UpdateNdOffsetOp: lambda machine, operation, operands: operands[0].moved(*operands[1:]),
    GetNdOffsetsOp: lambda machine, operation, operands: [operands[0].row, operands[0].column],
    SetNdOffsetsOp: lambda machine, operation, operands: replace(operands[0], row=operands[1], column=operands[2]),
    LoadNdOp: _load_nd,
    StoreNdOp: _store_nd,
    PrefetchNdOp: lambda machine, operation, operands: None,
    InBoundsOp: _in_bounds,
    NoAliasOp: _no_alias,
    PayloadCreateOp: lambda machine, operation, operands: Payload(operands[0]),
    PayloadSetOp: _payload_set,
    PayloadPrefetchOp: lambda machine, operation, operands: None,
    SubgroupBroadcastOp: lambda machine, operation, operands: operands[0],
}
