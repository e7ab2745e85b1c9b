"""What each XeGPU operation means, in NumPy: on whole blocks, and on the fragments of all lanes.

An operation works on fragments when its descriptor, or it itself, carries a lane map; a value then has the lanes as
its last batch axis. ``machine`` is what runs the operations; it tells the number of batch axes and who is active.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.interpreter import memory
from xegpu.interpreter.interpreter import Machine, Meanings, Window
from xegpu.interpreter.memory import check_promise, memory_at
from xegpu.interpreter.vector import vnni
from xegpu.ir.memref import ALIGNED, is_address, is_shared
from xegpu.layout import lane_map
from xegpu.mlir.vector import shape_of
from xegpu.support.errors import ShapeError
from xegpu.support.location import author_location

Array = np.ndarray[Any, Any]


def surface(array: Array, sizes: Sequence[Any], strides: Sequence[Any]) -> Array:
    """The array that sizes and strides (in elements) describe from the first element of ``array`` on."""
    bytes_apart = tuple(stride * array.itemsize for stride in strides)
    if array.shape == tuple(sizes) and array.strides == bytes_apart:
        return array
    return memory.strided(array, sizes, bytes_apart)


def described(machine: Machine, operation: Any, operands: Sequence[Any]) -> tuple[Array, Any, Any, tuple[Any, ...]]:
    """What makes a window, from the operands of what makes a tile or a descriptor: array, row, column, lead.

    Raises:
        ShapeError: the memory is not as its author promises.
    """
    try:
        return _described(machine, operation, operands)
    except ShapeError as error:
        raise error.at(author_location(operation)) from None


def _described(machine: Machine, operation: Any, operands: Sequence[Any]) -> tuple[Array, Any, Any, tuple[Any, ...]]:
    array, *numbers = operands
    if is_address(operation.source.type):
        rows, columns, *sizes_and_strides = numbers
        array, where = memory_at(array, sizes_and_strides[:2], sizes_and_strides[2:], operation.result.type.data.dtype,
                                 machine.active, aligned=ALIGNED in operation.attributes)
        return array, rows, columns, where
    first, second = len(operation.offsets), len(operation.offsets) + len(operation.shape)
    *lead, row, column = numbers[:first]
    group = machine.work_group if is_shared(operation.source.type) else ()
    if first < second:  # else it is a memref of static shape, which describes itself
        across = [stride // array.itemsize for stride in array.strides[:len(group)]]
        sizes, strides = numbers[first:second], numbers[second:]
        if ALIGNED in operation.attributes:
            check_promise(array.ctypes.data, sizes, strides, array.itemsize)
        array = surface(array, [*array.shape[:len(group)], *sizes], [*across, *strides])
    return array, row, column, (*group, *lead)


def _load_nd(machine: Machine, operation: Any, operands: Sequence[Any]) -> Array:
    desc, window = desc_of(operation.desc), operands[0]
    rows, columns = desc.shape
    length, packed = desc.block.array_length, operation.packed is not None
    batch = machine.batch - (desc.sg_map is not None)
    whole = memory.read(window.array, window.row, window.column, (rows, columns * length), batch, lead=window.lead)
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


def _store_nd(machine: Machine, operation: Any, operands: Sequence[Any]) -> None:
    desc, (value, window) = desc_of(operation.desc), operands
    if desc.sg_map is not None:
        value = lane_map.gather(value, (desc.shape[0], desc.shape[1]), desc.sg_map)
    memory.write(window.array, window.row, window.column, value, machine.active, window.lead)


MEANINGS: Meanings = {
    CreateNdTdescOp: lambda machine, operation, operands: Window(*described(machine, operation, operands)),
    UpdateNdOffsetOp: lambda machine, operation, operands: operands[0].moved(*operands[1:]),
    LoadNdOp: _load_nd,
    StoreNdOp: _store_nd,
    PrefetchNdOp: lambda machine, operation, operands: None,
}
