"""Single elements of NumPy memory, each at an offset of its own: gathers, scatters and atomic updates.

Offsets count elements from an array's first one, as they lie in memory; what is masked off is not looked at.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xegpu.atomics import Kind
from xegpu.dtypes import DType
from xegpu.errors import ShapeError
from xegpu.memory import Surfaces, strided

Array = np.ndarray[Any, Any]


def flat(array: Array) -> tuple[Array, int]:
    """All memory from an array's lowest element to its highest as one dimension, and where its first element lies."""
    if not array.size:
        return np.empty(0, array.dtype), 0
    steps = [stride // array.itemsize for stride in array.strides]
    reach = [(size - 1) * step for size, step in zip(array.shape, steps, strict=True)]
    first = -sum(distance for distance in reach if distance < 0)
    ascending = array[tuple(slice(None, None, -1 if step < 0 else 1) for step in steps)]
    length = sum(map(abs, reach)) + 1
    return strided(ascending, (length,), (array.itemsize,)), first


def _bare(address: int, count: int, dtype: Any) -> Array:
    """An array on memory at an address."""
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.ndarray((count,), dtype, memory)


def identity(array: Array) -> tuple[Any, ...]:
    """What tells an array from others: two views of one array are alike."""
    interface = array.__array_interface__
    return interface["data"], array.shape, array.strides, interface["typestr"]


@dataclass(frozen=True)
class Elements:
    """A scattered tile or descriptor at run time.

    Attributes:
        array: the array whose memory the elements lie in; what is made on an address has one element there.
        offsets: for each element its distance from the array's first one; batch axes in front.
        bounded: whether the array's memory ends where it does; that at an address goes on.
    """

    array: Array
    offsets: Any
    bounded: bool = True

    @classmethod
    def at_address(cls, address: int, dtype: DType, offsets: Any) -> Elements:
        """Elements of the memory of this process, off from an address."""
        return cls(_bare(address, 1, dtype.numpy), offsets, False)

    def _memory(self, active: Array, offsets: Array) -> tuple[Array, int]:
        """Memory that holds all active elements, and where in it the array's first one lies."""
        if self.bounded:
            return flat(self.array)
        reached = offsets[active] if active.any() else np.zeros(1, np.int64)
        low, high = int(reached.min()), int(reached.max())
        address = self.array.ctypes.data + low * self.array.itemsize
        return _bare(address, high - low + 1, self.array.dtype), -low

    @property
    def surface(self) -> tuple[Any, ...]:
        """What tells its array from others."""
        return identity(self.array)

    def moved(self, offsets: Any) -> Elements:
        """Every element moved by an offset of its own."""
        return self.at(self.offsets + offsets)

    def at(self, offsets: Any) -> Elements:
        """Elements of the same array elsewhere."""
        return replace(self, offsets=offsets)

    def chunked(self, chunk: int) -> Elements:
        """``chunk`` elements from each offset on, along a dimension in front of the last one."""
        if chunk == 1:
            return self
        return self.at(np.asarray(self.offsets)[..., None, :] + np.arange(chunk)[:, None])

    def _places(self, mask: Any) -> tuple[Array, Array, Array]:
        """Memory, positions in it, and which of them count, the last two in one shape."""
        offsets, active = np.broadcast_arrays(np.asarray(self.offsets, np.int64), np.asarray(mask, bool))
        memory, first = self._memory(active, offsets)
        outside = active & ((offsets < -first) | (offsets >= len(memory) - first))
        if outside.any():
            raise ShapeError("XT3314",
                             f"element {offsets[outside][0]} lies outside an array whose memory holds elements "
                             f"{-first} to {len(memory) - first - 1}",
                             "mask off what lies outside: a device would touch it")
        return memory, offsets + first, active

    def gather(self, mask: Any, padding: Any) -> Array:
        """The elements; those masked off are ``padding``."""
        memory, at, active = self._places(mask)
        result = np.full(at.shape, padding, self.array.dtype)
        result[active] = memory[at[active]]
        return result

    def scatter(self, value: Any, mask: Any) -> None:
        """Write the elements that are not masked off; where two fall on one place, the later lane stays."""
        shape = np.broadcast_shapes(np.shape(mask), np.shape(value))
        memory, at, active = self._places(np.broadcast_to(mask, shape))
        value = np.broadcast_to(value, at.shape)
        memory[at[active]] = value[active].astype(self.array.dtype)

    def update(self, kind: Kind, value: Array, mask: Any, dtype: DType) -> Array:
        """Update the elements one after the other; the values that each found, 0 where masked off."""
        shape = np.broadcast_shapes(np.shape(mask), np.shape(value))
        memory, at, active = self._places(np.broadcast_to(mask, shape))
        values = np.broadcast_to(value, at.shape)[active].astype(dtype.compute)
        old, places = np.zeros(len(values), dtype.compute), at[active]
        for turn in _turns(places):
            old[turn] = memory[places[turn]].astype(dtype.compute)
            memory[places[turn]] = kind.updated(old[turn], values[turn], dtype).astype(memory.dtype)
        result = np.zeros(at.shape, dtype.compute)
        result[active] = old
        return result


def _turns(places: Array) -> Iterator[Array]:
    """Positions in ``places``, in groups without two equal places; equal places keep their order."""
    if not len(places):
        return
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.r_[True, ordered[1:] != ordered[:-1]]
    positions = np.arange(len(places))
    turn = positions - np.maximum.accumulate(np.where(starts, positions, 0))
    by_turn = order[np.argsort(turn, kind="stable")]
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def block_elements(array: Array | Surfaces, at: Sequence[Any], rows: Array, columns: Array,
                   batch: int) -> tuple[Elements, Array]:
    """Elements of an array at a place plus ``rows`` and ``columns``, and which of them lie inside it.

    Args:
        array: any strides.
        at: where a block stands, for each dimension; integers, or arrays over the batch axes.
        rows, columns: the place of each element in the block, in shapes that broadcast.
        batch: number of batch axes of ``at``.
    """
    axes = (None,) * max(rows.ndim, columns.ndim)
    *lead, y, x = (np.asarray(start, np.int64).reshape(np.shape(start) or (1,) * batch)[(..., *axes)] for start in at)
    if isinstance(array, Surfaces):
        places, inside = array.places(y + rows, x + columns)
        return Elements(array.flat, places), inside
    inside, offsets = np.asarray(True), np.asarray(0)
    for index, size, stride in zip((*lead, y + rows, x + columns), array.shape, array.strides, strict=True):
        inside = inside & (index >= 0) & (index < size)
        offsets = offsets + index * (stride // array.itemsize)
    return Elements(array, offsets), inside
