"""Elements: the run-time value of a scattered tile or descriptor, an array and an offset for each element.

Offsets count elements in memory order from an array's first one; masked-off elements are not accessed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xegpu.interpreter.memory import strided
from xegpu.ir.dtypes import DType, NDArray, to_storage
from xegpu.mlir.atomic_kind import Kind
from xegpu.support.errors import ShapeError


def flat(array: NDArray) -> tuple[NDArray, int]:
    """1D view of an array's memory, from its lowest to its highest element, and the index of its first element."""
    if not array.size:
        return np.empty(0, array.dtype), 0
    steps = [stride // array.itemsize for stride in array.strides]
    reach = [(size - 1) * step for size, step in zip(array.shape, steps, strict=True)]
    first = -sum(distance for distance in reach if distance < 0)
    upwards: tuple[Any, ...] = tuple(slice(None, None, -1 if step < 0 else 1) for step in steps)
    ascending = array[(*upwards, ...)]  # of no dimension, too, a view
    length = sum(map(abs, reach)) + 1
    return strided(ascending, (length,), (array.itemsize,)), first


def _bare(address: int, count: int, dtype: Any) -> NDArray:
    """1D array at a raw address."""
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.ndarray((count,), dtype, memory)


def identity(array: NDArray) -> tuple[Any, ...]:
    """Identity of an array, equal for two views of one array."""
    interface = array.__array_interface__
    return interface["data"], array.shape, array.strides, interface["typestr"]


@dataclass(frozen=True)
class WorkGroupSlice:
    """Array of one work-group in the shared local memory of all.

    Attributes:
        size: its elements.
        begins: its first element, ``[batch axes, 1, ...]``, in as many dimensions as offsets have.
    """

    size: int
    begins: Any


@dataclass(frozen=True)
class Elements:
    """Run-time value of a scattered tile or descriptor.

    Attributes:
        array: the array whose memory holds the elements; at a raw address, an array of one element there.
        offsets: ``[batch axes, ...]``, offset of each element from the first one of the array, or of the work-group's
            own array in shared local memory.
        bounded: whether the array's bounds are the memory's; False at a raw address.
        own: the part of ``array`` that belongs to each work-group; None where all have the whole.
    """

    array: NDArray
    offsets: Any
    bounded: bool = True
    own: WorkGroupSlice | None = None

    @classmethod
    def at_address(cls, address: int, dtype: DType, offsets: Any) -> Elements:
        """Elements at offsets from a raw address of this process."""
        return cls(_bare(address, 1, dtype.numpy), offsets, False)

    def _memory(self, active: NDArray, offsets: NDArray) -> tuple[NDArray, int]:
        """1D view of memory with all active elements, and the index of the array's first element in it."""
        if self.bounded:
            return flat(self.array)
        reached = offsets[active] if active.any() else np.zeros(1, np.int64)
        low, high = int(reached.min()), int(reached.max())
        address = self.array.ctypes.data + low * self.array.itemsize
        return _bare(address, high - low + 1, self.array.dtype), -low

    @property
    def surface(self) -> tuple[Any, ...]:
        """Identity of its array."""
        return identity(self.array)

    @property
    def positions(self) -> Any:
        """Offset of each element from the first one of ``array``, which has the parts of all work-groups."""
        return self.offsets if self.own is None else self.offsets + self.own.begins

    def moved(self, offsets: Any) -> Elements:
        """Elements with per-element updated offsets."""
        return self.at(self.offsets + offsets)

    def at(self, offsets: Any) -> Elements:
        """Elements of the same array at other offsets."""
        return replace(self, offsets=offsets)

    def chunked(self, chunk: int) -> Elements:
        """``chunk`` adjacent elements from each offset on, along a new second-to-last dimension."""
        if chunk == 1:
            return self
        own = self.own and replace(self.own, begins=np.asarray(self.own.begins)[..., None])
        return replace(self, offsets=np.asarray(self.offsets)[..., None, :] + np.arange(chunk)[:, None], own=own)

    def _addressed(self, mask: Any) -> tuple[NDArray, NDArray, NDArray]:
        """Memory as 1D view, indices into it, and their mask; the last two have the same shape."""
        begins = 0 if self.own is None else self.own.begins
        offsets, active, begins = np.broadcast_arrays(np.asarray(self.offsets, np.int64), np.asarray(mask, bool),
                                                      begins)
        memory, first = self._memory(active, offsets)
        size = self.own.size if self.own else len(memory)
        outside = active & ((offsets < -first) | (offsets >= size - first))
        if outside.any():
            raise ShapeError("XT3314",
                             f"element {offsets[outside][0]} lies outside an array whose memory holds elements "
                             f"{-first} to {size - first - 1}",
                             "mask off what lies outside: a device would touch it")
        return memory, offsets + (first + begins), active

    def gather(self, mask: Any, padding: Any) -> NDArray:
        """Gather the elements; masked-off ones are ``padding``."""
        memory, at, active = self._addressed(mask)
        result = np.full(at.shape, padding, self.array.dtype)
        result[active] = memory[at[active]]
        return result

    def scatter(self, value: Any, mask: Any) -> None:
        """Scatter to the elements that are not masked off; of two at one address, the later lane wins."""
        shape = np.broadcast_shapes(np.shape(mask), np.shape(value))
        memory, at, active = self._addressed(np.broadcast_to(mask, shape))
        value = np.broadcast_to(value, at.shape)
        memory[at[active]] = to_storage(value[active], self.array.dtype)

    def update(self, kind: Kind, value: NDArray, mask: Any, dtype: DType) -> NDArray:
        """Update the elements in sequence and return their old values, 0 where masked off."""
        shape = np.broadcast_shapes(np.shape(mask), np.shape(value))
        memory, at, active = self._addressed(np.broadcast_to(mask, shape))
        values = np.broadcast_to(value, at.shape)[active].astype(dtype.compute)
        old, flat_indices = np.zeros(len(values), dtype.compute), at[active]
        for turn in _conflict_free(flat_indices):
            old[turn] = memory[flat_indices[turn]].astype(dtype.compute)
            memory[flat_indices[turn]] = kind.updated(old[turn], values[turn], dtype).astype(memory.dtype)
        result = np.zeros(at.shape, dtype.compute)
        result[active] = old
        return result


def _conflict_free(flat_indices: NDArray) -> Iterator[NDArray]:
    """Partition the indices of ``flat_indices`` into groups without duplicates; duplicates keep their order."""
    if not len(flat_indices):
        return
    order = np.argsort(flat_indices, kind="stable")
    ordered = flat_indices[order]
    starts = np.r_[True, ordered[1:] != ordered[:-1]]
    positions = np.arange(len(flat_indices))
    turn = positions - np.maximum.accumulate(np.where(starts, positions, 0))
    by_turn = order[np.argsort(turn, kind="stable")]
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])
