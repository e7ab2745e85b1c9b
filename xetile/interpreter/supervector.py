"""NumPy semantics of SuperVector operations (see :mod:`xegpu.interpreter.interpreter`), element by element.

A vector has the batch axes in front, then as many dimensions as its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import SSAValue

from xegpu.interpreter import dpas, memory
from xegpu.interpreter.interpreter import AcceptsLazy, Interpreter, Semantics, force
from xegpu.ir.dtypes import NDArray, of_mlir, to_storage
from xegpu.ir.memref import is_shared
from xegpu.ir.use_def import array_of
from xegpu.mlir.vector import shape_of
from xegpu.support.errors import ShapeError
from xegpu.support.location import author_location
from xetile.dialect import supervector as ops
from xetile.dialect.permutation_map import Permutation


def _coordinates(machine: Interpreter, indices: Sequence[Any], permutation: Permutation,
                 shape: Sequence[int]) -> list[NDArray]:
    """Index of every element along each dimension of memory: batch axes, then the vector's, of size 1 or the full
    extent."""
    coordinates = []
    for axis, index in enumerate(indices):
        first = np.asarray(index, np.int64)
        first = first.reshape(*(first.shape or (1,) * machine.batch), *[1] * len(shape))
        if axis in permutation:
            along = permutation.index(axis)
            sizes = [1] * len(shape)
            sizes[along] = shape[along]
            first = first + np.arange(shape[along]).reshape(sizes)
        coordinates.append(first)
    return coordinates


def _in_bounds(array: NDArray, coordinates: Sequence[NDArray]) -> NDArray:
    """In-bounds mask of element indices."""
    in_bounds: NDArray = np.asarray(True)
    for coordinate, size in zip(coordinates, array.shape, strict=True):
        in_bounds = in_bounds & (coordinate >= 0) & (coordinate < size)
    return in_bounds


def _active(machine: Interpreter, rank: int) -> Any:
    """Mask of active instances, with axes for a vector's dimensions."""
    return True if machine.active is None else machine.active.reshape(*machine.active.shape, *[1] * rank)


def _work_group(machine: Interpreter, source: SSAValue, rank: int) -> list[NDArray]:
    """Indices of the work-group in shared local memory, which has one array for each, with axes for a vector's
    dimensions."""
    group = machine.work_group if is_shared(source.type) else ()
    return [np.asarray(index).reshape(*(np.shape(index) or (1,) * machine.batch), *[1] * rank) for index in group]


def _check_in_bounds(machine: Interpreter, operation: Any, array: NDArray, coordinates: Sequence[NDArray],
                     in_bounds: NDArray, rank: int) -> None:
    """Check the guarantee of an in-bounds transfer: devices would access other memory."""
    outside = np.asarray(~in_bounds & np.asarray(_active(machine, rank), bool))
    if not outside.any():
        return
    at = np.unravel_index(int(np.argmax(outside)), outside.shape)
    count = len(operation.indices)  # shared local memory has the work-group's indices in front of these
    element = [int(np.broadcast_to(index, np.broadcast_shapes(index.shape, outside.shape))[at])
               for index in coordinates[-count:]]
    location = author_location(operation)
    read = isinstance(operation, ops.TransferReadOp)
    name = array_of(operation.source).name_hint or "its array"
    raise ShapeError("XT6020", f"this {'read' if read else 'write'} reaches {name}{element}, outside its "
                     f"{'x'.join(map(str, array.shape[-count:]))} elements, and promises to stay inside",
                     "correct the indices, or give it a padding, such as padding=0" if read else
                     "correct the indices, or drop in_bounds: elements out of bounds are not written then", location)


def _window(operation: ops.TransferReadOp | ops.TransferWriteOp) -> bool | None:
    """Orientation of a transfer that is a tile access: False for the matrix's own, True if transposed, None
    if neither."""
    rank = len(operation.indices)
    orders: dict[Permutation, bool] = {(rank - 2, rank - 1): False, (rank - 1, rank - 2): True}
    return orders.get(operation.permutation) if rank > 1 else None


def _provably_in_bounds(array: NDArray, indices: Sequence[Any], extents: Sequence[int]) -> bool:
    """In-bounds mask of blocks by their extents, for every instance."""
    return all(np.min(index) >= 0 and np.max(index) + extent <= size
               for index, extent, size in zip(indices, extents, array.shape[-len(extents):], strict=True))


def _blocks(machine: Interpreter, operation: ops.TransferReadOp, operands: Sequence[Any], *,
            transposed: bool) -> NDArray | None:
    """Blocks read from matrices, vectorized over instances; None where bounds need a check for each element."""
    array, *rest = operands
    count, shape = len(operation.indices), shape_of(operation.result)[::-1 if transposed else 1]
    indices, padding = rest[:count], rest[count] if operation.padding is not None else 0
    if np.ndim(padding):
        return None
    if operation.padding is None and not _provably_in_bounds(array, indices, (*[1] * (count - 2), *shape)):
        return None
    *lead, row, column = indices
    group = machine.work_group if is_shared(operation.source.type) else ()
    vector = memory.read(array, row, column, (shape[0], shape[1]), machine.batch, padding, (*group, *lead))
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    value = memory.as_numbers(vector, of_mlir(type_.element_type))
    value = value.copy() if np.may_share_memory(value, array) else value  # the kernel may write this array afterwards
    return np.swapaxes(value, -1, -2) if transposed else value


def _transfer_read(machine: Interpreter, operation: ops.TransferReadOp, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``transfer_read``."""
    if (transposed := _window(operation)) is not None and \
            (blocks := _blocks(machine, operation, operands, transposed=transposed)) is not None:
        return blocks
    array, *rest = operands
    count, shape = len(operation.indices), shape_of(operation.result)
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    coordinates = [*_work_group(machine, operation.source, len(shape)),
              *_coordinates(machine, rest[:count], operation.permutation, shape)]
    in_bounds, dtype = _in_bounds(array, coordinates), of_mlir(type_.element_type)
    if operation.padding is None:
        _check_in_bounds(machine, operation, array, coordinates, in_bounds, len(shape))
    full_shape = (*np.broadcast_shapes(*(coordinate.shape for coordinate in coordinates), (1,
                                                                                      ) * (machine.batch + len(shape)))
             [:machine.batch], *shape)
    if array.size == 0:
        vector: NDArray = np.zeros((1,) * len(full_shape), dtype.compute)
    else:
        clipped = (np.clip(coordinate, 0, size - 1) for coordinate, size in zip(coordinates, array.shape, strict=True))
        vector = memory.as_numbers(np.ascontiguousarray(array[tuple(np.broadcast_arrays(*clipped))]), dtype)
    if operation.padding is not None:
        padding = machine.as_vector(rest[count], len(shape))
        vector = np.where(in_bounds, vector, np.asarray(padding, vector.dtype))
    return np.broadcast_to(vector, np.broadcast_shapes(vector.shape, full_shape))


def _transfer_write(machine: Interpreter, operation: ops.TransferWriteOp, operands: Sequence[Any]) -> None:
    """NumPy semantics of ``transfer_write``."""
    value, array, *indices = operands
    mask_of_elements = indices.pop() if operation.mask is not None else True
    shape = shape_of(operation.value)
    if (transposed := _window(operation)) is not None and operation.in_bounds is None and \
            operation.mask is None:
        group = machine.work_group if is_shared(operation.source.type) else ()
        *lead, row, column = indices
        memory.write(array, row, column, np.swapaxes(value, -1, -2) if transposed else value, machine.active,
                     (*group, *lead))
        return
    coordinates = [*_work_group(machine, operation.source, len(shape)),
              *_coordinates(machine, indices, operation.permutation, shape)]
    in_bounds = _in_bounds(array, coordinates)
    chosen = in_bounds & _active(machine, len(shape)) & np.asarray(force(mask_of_elements), bool)
    if operation.in_bounds is not None:
        _check_in_bounds(machine, operation, array, coordinates, in_bounds, len(shape))
    full = np.broadcast_shapes(np.shape(chosen), np.shape(value), *(coordinate.shape for coordinate in coordinates))
    mask = np.broadcast_to(chosen, full)
    at = tuple(np.broadcast_to(coordinate, full)[mask] for coordinate in coordinates)
    written = to_storage(np.broadcast_to(value, full)[mask], array.dtype)
    if array.ndim:
        array[at] = written
    elif written.size:  # memory of no dimension has one element
        array[()] = written[-1]


def _type_cast(machine: Interpreter, operation: ops.TypeCastOp, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``type_cast``."""
    array: NDArray = operands[0]
    shape = operation.vector.get_shape()
    if array.shape[-len(shape):] != shape:
        expected = "x".join(map(str, shape))
        location = author_location(operation)
        raise ShapeError("XT1047", f"the array is {'x'.join(map(str, array.shape))}, and its vector_type_cast says "
                         f"{expected}", f"pass an array of {expected}, or read a part with xt.vector.transfer_read",
                         location)
    return array


def _load_vector(machine: Interpreter, operation: memref.LoadOp, operands: Sequence[Any]) -> NDArray:
    """NumPy semantics of ``memref.load`` of a cast memref: its single vector."""
    array, memory_type = operands[0], operation.memref.type
    assert isinstance(memory_type, MemRefType)
    assert isinstance(memory_type.element_type, VectorType)
    dtype = of_mlir(memory_type.element_type.element_type)
    if group := _work_group(machine, operation.memref, 0):
        vector = np.asarray(array[tuple(np.broadcast_arrays(*group))])
    else:
        vector = array.reshape(*[1] * machine.batch, *array.shape)
    return memory.as_numbers(vector.copy(), dtype)


def _store_vector(machine: Interpreter, operation: memref.StoreOp, operands: Sequence[Any]) -> None:
    """NumPy semantics of ``memref.store`` to a cast memref."""
    value, array = operands[:2]
    shape = shape_of(operation.value)
    coordinates = _work_group(machine, operation.memref, len(shape))
    coordinates += _coordinates(machine, [0] * len(shape), tuple(range(len(shape))), shape)
    full = np.broadcast_shapes(np.shape(value), *(coordinate.shape for coordinate in coordinates))
    mask = np.broadcast_to(_active(machine, len(shape)), full)
    at = tuple(np.broadcast_to(coordinate, full)[mask] for coordinate in coordinates)
    array[at] = to_storage(np.broadcast_to(value, full)[mask], array.dtype)


def _contract(machine: Interpreter, operation: ops.ContractOp, operands: Sequence[Any]) -> Any:
    """NumPy semantics of ``vector.contract``: the product of the two matrices, transposed as the maps say."""
    (lhs, rhs), acc = map(force, operands[:2]), operands[2:]
    left, right, result = operation.axes
    types = [of_mlir(value.type.element_type)  # type: ignore[attr-defined]
             for value in (operation.lhs, operation.rhs, operation.result)]
    if result[0] not in left:
        lhs, rhs, left, right, types = rhs, lhs, right, left, [types[1], types[0], types[2]]
    a = lhs if left[0] == result[0] else np.swapaxes(lhs, -1, -2)
    b = rhs if right[1] == result[1] else np.swapaxes(rhs, -1, -2)
    return dpas.accumulate(acc[0] if acc else None, a, b, (types[0], types[1], types[2]))


SEMANTICS: Semantics = {
    ops.TransferReadOp: _transfer_read,
    ops.TransferWriteOp: _transfer_write,
    ops.TypeCastOp: _type_cast,
    memref.LoadOp: _load_vector,
    memref.StoreOp: _store_vector,
    ops.ContractOp: AcceptsLazy(_contract),
}
