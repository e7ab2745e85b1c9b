"""What the SuperVector operations mean, in NumPy (see :mod:`xegpu.interpreter.interpreter`): element by element.

A vector has the batch axes in front, then as many dimensions as its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, SSAValue

from xegpu.interpreter import dpas, memory
from xegpu.interpreter.interpreter import Machine, Meanings, TakesDelayed, now
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import is_shared
from xegpu.ir.use_def import array_of
from xegpu.support.errors import ShapeError
from xegpu.support.location import SourceLocation
from xetile.dialect import supervector as ops
from xetile.dialect.permutation_map import Permutation

Array = np.ndarray[Any, Any]


def _shape(type_: Attribute) -> tuple[int, ...]:
    assert isinstance(type_, VectorType)
    return type_.get_shape()


def _places(machine: Machine, indices: Sequence[Any], permutation: Permutation, shape: Sequence[int]) -> list[Array]:
    """For each dimension of memory, the index of every element: batch axes, then the vector's, of size 1 or whole."""
    places = []
    for axis, index in enumerate(indices):
        first = np.asarray(index, np.int64)
        first = first.reshape(*(first.shape or (1,) * machine.batch), *[1] * len(shape))
        if axis in permutation:
            along = permutation.index(axis)
            sizes = [1] * len(shape)
            sizes[along] = shape[along]
            first = first + np.arange(shape[along]).reshape(sizes)
        places.append(first)
    return places


def _inside(array: Array, places: Sequence[Array]) -> Array:
    inside: Array = np.asarray(True)
    for place, size in zip(places, array.shape, strict=True):
        inside = inside & (place >= 0) & (place < size)
    return inside


def _active(machine: Machine, rank: int) -> Any:
    return True if machine.active is None else machine.active.reshape(*machine.active.shape, *[1] * rank)


def _work_group(machine: Machine, source: SSAValue, rank: int) -> list[Array]:
    """Shared local memory has an array for each work-group: its indices, with axes for a vector's dimensions."""
    group = machine.work_group if is_shared(source.type) else ()
    return [np.asarray(index).reshape(*(np.shape(index) or (1,) * machine.batch), *[1] * rank) for index in group]


def _check_promise(machine: Machine, operation: Any, array: Array, places: Sequence[Array], inside: Array,
                   rank: int) -> None:
    """Raise where a transfer that promised to stay inside does not: devices would touch other memory."""
    outside = np.asarray(~inside & np.asarray(_active(machine, rank), bool))
    if not outside.any():
        return
    at = np.unravel_index(int(np.argmax(outside)), outside.shape)
    count = len(operation.indices)  # shared local memory has the work-group's indices in front of these
    element = [int(np.broadcast_to(index, np.broadcast_shapes(index.shape, outside.shape))[at])
               for index in places[-count:]]
    place = operation.location.data if isinstance(operation.location, SourceLocation) else None
    read = isinstance(operation, ops.TransferReadOp)
    name = array_of(operation.source).name_hint or "its array"
    raise ShapeError("XT6020", f"this {'read' if read else 'write'} reaches {name}{element}, outside its "
                     f"{'x'.join(map(str, array.shape[-count:]))} elements, and promises to stay inside",
                     "mend the indices, or give it a padding, such as padding=0" if read else
                     "mend the indices, or drop in_bounds, and what lies outside is not written", place)


def _window(operation: ops.TransferReadOp | ops.TransferWriteOp) -> bool | None:
    """Whether a vector lies on a matrix as a tile does: False if it does, True if transposed, None if not."""
    rank = len(operation.indices)
    turns: dict[Permutation, bool] = {(rank - 2, rank - 1): False, (rank - 1, rank - 2): True}
    return turns.get(operation.permutation) if rank > 1 else None


def _surely_inside(array: Array, indices: Sequence[Any], extents: Sequence[int]) -> bool:
    """Whether blocks of some extents lie inside an array, for every instance."""
    return all(np.min(index) >= 0 and np.max(index) + extent <= size
               for index, extent, size in zip(indices, extents, array.shape[-len(extents):], strict=True))


def _blocks(machine: Machine, operation: ops.TransferReadOp, operands: Sequence[Any], *, turned: bool) -> Array | None:
    """What is read of matrices, many blocks at once; None where a promise has to be looked at element by element."""
    array, *rest = operands
    count, shape = len(operation.indices), _shape(operation.result.type)[::-1 if turned else 1]
    indices, padding = rest[:count], rest[count] if operation.padding is not None else 0
    if np.ndim(padding):
        return None
    if operation.padding is None and not _surely_inside(array, indices, (*[1] * (count - 2), *shape)):
        return None
    *lead, row, column = indices
    group = machine.work_group if is_shared(operation.source.type) else ()
    found = memory.read(array, row, column, (shape[0], shape[1]), machine.batch, padding, (*group, *lead))
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    value = memory.as_numbers(found, of_mlir(type_.element_type))
    value = value.copy() if np.may_share_memory(value, array) else value  # the kernel may write this array afterwards
    return np.swapaxes(value, -1, -2) if turned else value


def _read(machine: Machine, operation: ops.TransferReadOp, operands: Sequence[Any]) -> Array:
    if (turned := _window(operation)) is not None and \
            (blocks := _blocks(machine, operation, operands, turned=turned)) is not None:
        return blocks
    array, *rest = operands
    count, shape = len(operation.indices), _shape(operation.result.type)
    type_ = operation.result.type
    assert isinstance(type_, VectorType)
    places = [*_work_group(machine, operation.source, len(shape)),
              *_places(machine, rest[:count], operation.permutation, shape)]
    inside, dtype = _inside(array, places), of_mlir(type_.element_type)
    if operation.padding is None:
        _check_promise(machine, operation, array, places, inside, len(shape))
    whole = (*np.broadcast_shapes(*(place.shape for place in places), (1,) * (machine.batch + len(shape)))
             [:machine.batch], *shape)
    if array.size == 0:
        found: Array = np.zeros((1,) * len(whole), dtype.compute)
    else:
        clipped = (np.clip(place, 0, size - 1) for place, size in zip(places, array.shape, strict=True))
        found = memory.as_numbers(np.ascontiguousarray(array[tuple(np.broadcast_arrays(*clipped))]), dtype)
    if operation.padding is not None:
        padding = machine.as_vector(rest[count], len(shape))
        found = np.where(inside, found, np.asarray(padding, found.dtype))
    return np.broadcast_to(found, np.broadcast_shapes(found.shape, whole))


def _write(machine: Machine, operation: ops.TransferWriteOp, operands: Sequence[Any]) -> None:
    value, array, *indices = operands
    shape = _shape(operation.value.type)
    if (turned := _window(operation)) is not None and operation.in_bounds is None:
        group = machine.work_group if is_shared(operation.source.type) else ()
        *lead, row, column = indices
        memory.write(array, row, column, np.swapaxes(value, -1, -2) if turned else value, machine.active,
                     (*group, *lead))
        return
    places = [*_work_group(machine, operation.source, len(shape)),
              *_places(machine, indices, operation.permutation, shape)]
    inside = _inside(array, places)
    if operation.in_bounds is not None:
        _check_promise(machine, operation, array, places, inside, len(shape))
    chosen = inside & _active(machine, len(shape))
    full = np.broadcast_shapes(np.shape(chosen), np.shape(value), *(place.shape for place in places))
    mask = np.broadcast_to(chosen, full)
    at = tuple(np.broadcast_to(place, full)[mask] for place in places)
    array[at] = np.broadcast_to(value, full)[mask].astype(array.dtype)


def _cast(machine: Machine, operation: ops.TypeCastOp, operands: Sequence[Any]) -> Array:
    array: Array = operands[0]
    shape = operation.vector.get_shape()
    if array.shape[-len(shape):] != shape:
        said = "x".join(map(str, shape))
        place = operation.location.data if isinstance(operation.location, SourceLocation) else None  # type: ignore
        raise ShapeError("XT1047", f"the array is {'x'.join(map(str, array.shape))}, and its one vector is said to be "
                         f"{said}", f"pass an array of {said}, or read a part with xt.vector.transfer_read", place)
    return array


def _load(machine: Machine, operation: memref.LoadOp, operands: Sequence[Any]) -> Array:
    """The single vector of a cast memref."""
    array, memory_type = operands[0], operation.memref.type
    assert isinstance(memory_type, MemRefType)
    assert isinstance(memory_type.element_type, VectorType)
    dtype = of_mlir(memory_type.element_type.element_type)
    if group := _work_group(machine, operation.memref, 0):
        found = np.asarray(array[tuple(np.broadcast_arrays(*group))])
    else:
        found = array.reshape(*[1] * machine.batch, *array.shape)
    return memory.as_numbers(found.copy(), dtype)


def _store(machine: Machine, operation: memref.StoreOp, operands: Sequence[Any]) -> None:
    value, array = operands[:2]
    shape = _shape(operation.value.type)
    places = _work_group(machine, operation.memref, len(shape))
    places += _places(machine, [0] * len(shape), tuple(range(len(shape))), shape)
    full = np.broadcast_shapes(np.shape(value), *(place.shape for place in places))
    mask = np.broadcast_to(_active(machine, len(shape)), full)
    at = tuple(np.broadcast_to(place, full)[mask] for place in places)
    array[at] = np.broadcast_to(value, full)[mask].astype(array.dtype)


def _contract(machine: Machine, operation: ops.ContractOp, operands: Sequence[Any]) -> Any:
    """The product of the two matrices as the maps turn them."""
    (lhs, rhs), acc = map(now, operands[:2]), operands[2:]
    left, right, result = operation.axes
    types = [of_mlir(value.type.element_type)  # type: ignore[attr-defined]
             for value in (operation.lhs, operation.rhs, operation.result)]
    if result[0] not in left:
        lhs, rhs, left, right, types = rhs, lhs, right, left, [types[1], types[0], types[2]]
    a = lhs if left[0] == result[0] else np.swapaxes(lhs, -1, -2)
    b = rhs if right[1] == result[1] else np.swapaxes(rhs, -1, -2)
    return dpas.accumulate(acc[0] if acc else None, a, b, (types[0], types[1], types[2]))


MEANINGS: Meanings = {
    ops.TransferReadOp: _read,
    ops.TransferWriteOp: _write,
    ops.TypeCastOp: _cast,
    memref.LoadOp: _load,
    memref.StoreOp: _store,
    ops.ContractOp: TakesDelayed(_contract),
}
