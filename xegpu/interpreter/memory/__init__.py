"""NumPy semantics of block memory access, vectorized over program instances, and arrays at raw addresses.

Offsets are integers, or arrays over the batch axes. Where they form a lattice, as the tiles of a grid do, a read is a
view of the array with the instances along the batch axes, and nothing is copied; elsewhere it is a gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import numpy as np

from xegpu.ir.dtypes import DType, NDArray, i1, to_compute, to_storage
from xegpu.support.errors import ShapeError
from xegpu.target.block2d import block_io_fault

Offset = int | np.ndarray[Any, Any]
Block = np.ndarray[Any, Any]
_SPARSE = 4


@dataclass(frozen=True)
class Progression:
    """Arithmetic progression of offsets along batch axes: ``start + sum(step * i)``, with step and count per axis."""

    start: int
    axes: tuple[tuple[int, int, int], ...] = ()

    def end(self, size: int) -> int:
        """End of the last block of a size."""
        return self.start + sum(step * (count - 1) for _, step, count in self.axes) + size

    @property
    def count(self) -> int:
        """Number of offsets."""
        return prod(count for _, _, count in self.axes)


def _progression(offset: Offset) -> Progression | None:
    if not isinstance(offset, np.ndarray):
        return Progression(int(offset))
    first = (0,) * offset.ndim
    start, axes, even = int(offset[first]), [], np.zeros((1,) * offset.ndim, np.int64)
    for axis, size in enumerate(offset.shape):
        if size > 1:
            step = int(offset[(*first[:axis], 1, *first[axis + 1:])]) - start
            axes.append((axis, step, size))
            even = even + (step * np.arange(size)).reshape([-1 if axis == a else 1 for a in range(offset.ndim)])
    if any(step <= 0 for _, step, _ in axes) or not (offset == start + even).all():
        return None
    return Progression(start, tuple(axes))


Lead = tuple[Offset, ...]
"""Indices of the leading dimensions, which select a matrix of a batch."""


@dataclass(frozen=True)
class Surfaces:
    """Ragged batch: one matrix per instance, of different sizes, in one buffer.

    :func:`read` and :func:`write` accept it instead of an array.

    Attributes:
        flat: the buffer, from the first matrix's first element to the end of the last.
        first: index of each instance's first element in the buffer.
        sizes: rows and columns, per instance.
        strides: strides of rows and columns, per instance.
    """

    flat: Block
    first: Block
    sizes: tuple[Any, Any]
    strides: tuple[Any, Any]

    @property
    def surface(self) -> tuple[Any, ...]:
        """Identity of the buffer."""
        return self.flat.__array_interface__["data"], self.first.tobytes(), *map(np.ndarray.tobytes, map(
            np.asarray, (*self.sizes, *self.strides)))

    def indices(self, rows: Block, columns: Block) -> tuple[Block, Block]:
        """Indices of elements in the buffer, and the mask of those in bounds of their matrices.

        Args:
            rows, columns: coordinates of each element, in shapes that broadcast: batch axes, then those of a block.
        """
        first, height, width, down, right = (_behind(number, max(rows.ndim, columns.ndim)) for number in (
            self.first, *self.sizes, *self.strides))
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        return first + rows * down + columns * right, inside

    def read(self, row: Offset, column: Offset, shape: tuple[int, int], batch: int, padding: Any) -> Block:
        """Read blocks; out-of-bounds elements are ``padding``."""
        flat_indices, inside = self.indices(*_indices((row, column), shape, batch))
        found = np.full(np.broadcast_shapes(flat_indices.shape, inside.shape), padding, self.flat.dtype)
        inside = np.broadcast_to(inside, found.shape)
        found[inside] = self.flat[np.broadcast_to(flat_indices, found.shape)[inside]]
        return found

    def write(self, row: Offset, column: Offset, value: Block, active: Block | None) -> None:
        """Write blocks; out-of-bounds elements are dropped."""
        batch = value.ndim - 2
        flat_indices, inside = self.indices(*_indices((row, column), (value.shape[-2], value.shape[-1]), batch))
        inside = inside if active is None else inside & active
        shape = np.broadcast_shapes(flat_indices.shape, inside.shape, value.shape)
        chosen = np.broadcast_to(inside, shape)
        self.flat[np.broadcast_to(flat_indices, shape)[chosen]] = \
            to_storage(np.broadcast_to(value, shape)[chosen], self.flat.dtype)


def _behind(number: Any, axes: int) -> Block:
    """Reshape a per-instance scalar to broadcast with indices of ``axes`` axes."""
    array = np.asarray(number, np.int64)
    return array.reshape(array.shape + (1,) * (axes - array.ndim)) if array.ndim else array


def read(array: Block | Surfaces, row: Offset, column: Offset, shape: tuple[int, int], batch: int, padding: Any = 0,
         lead: Lead = ()) -> Block:
    """Read blocks of ``shape`` at (row, column); out-of-bounds elements are ``padding``.

    Args:
        array: two dimensions behind those that ``lead`` indexes, any strides.
        row, column: integers, or integer arrays with ``batch`` axes.
        shape: rows and columns of a block.
        batch: number of batch axes.
        padding: the value outside.
        lead: an index for each dimension in front of the last two, each like ``row``.

    Returns:
        ``batch`` axes, each of size 1 where no offset varies along it, then ``shape``; it may be a view of ``array``.
    """
    if isinstance(array, Surfaces):
        return array.read(row, column, shape, batch, padding)
    lattice, sizes = lattice_of((*lead, row, column)), (*[1] * len(lead), *shape)
    if lattice is None:
        return _gather(array, (*lead, row, column), shape, padding, batch)
    extents = [along.end(size) - along.start for along, size in zip(lattice, sizes, strict=True)]
    if prod(extents) > _SPARSE * prod(along.count for along in lattice) * prod(shape):
        return _gather(array, (*lead, row, column), shape, padding, batch)
    return _windows(_slab(array, [along.start for along in lattice], extents, padding), lattice, shape, batch)


def as_numbers(block: Block, dtype: DType) -> Block:
    """Convert a block from the storage to the compute type of its element type; every nonzero byte of i1 is true."""
    return block.view(np.uint8) != 0 if dtype is i1 else to_compute(block, dtype)


def lattice_of(offsets: Sequence[Offset]) -> list[Progression] | None:
    """Offsets as a lattice: progressions along disjoint batch axes; None where they form none."""
    found = [_progression(offset) for offset in offsets]
    lattice = [along for along in found if along is not None]
    axes = [axis for along in lattice for axis, _, _ in along.axes]
    return lattice if len(lattice) == len(found) and len(set(axes)) == len(axes) else None


def _windows(slab: Block, lattice: Sequence[Progression], shape: tuple[int, int], batch: int) -> Block:
    sizes, strides = [1] * batch, [0] * batch
    for along, stride in zip(lattice, slab.strides, strict=True):
        for axis, step, count in along.axes:
            sizes[axis], strides[axis] = count, step * stride
    return strided(slab, (*sizes, *shape), (*strides, *slab.strides[-2:]))


def strided(array: Block, shape: Sequence[int], strides: Sequence[int]) -> Block:
    """View of an array's memory in another shape, ``strides`` in bytes."""
    # NumPy's array interface names a type by letter and size, and ml_dtypes' float8_e5m2 as "f1" is not valid there.
    storage = array.view(np.uint8) if array.dtype.itemsize == 1 else array
    return np.lib.stride_tricks.as_strided(storage, tuple(shape), tuple(strides)).view(array.dtype)


def _slab(array: Block, starts: Sequence[int], extents: Sequence[int], padding: Any) -> Block:
    inside = [(max(start, 0), min(start + size, limit))
              for start, size, limit in zip(starts, extents, array.shape, strict=True)]
    if all(end - begin == size for (begin, end), size in zip(inside, extents, strict=True)):
        return array[tuple(slice(begin, end) for begin, end in inside)]
    slab = np.full(extents, padding, array.dtype)
    if all(end > begin for begin, end in inside):
        there = tuple(slice(begin - start, end - start) for (begin, end), start in zip(inside, starts, strict=True))
        slab[there] = array[tuple(slice(begin, end) for begin, end in inside)]
    return slab


def _indices(offsets: Sequence[Offset], shape: tuple[int, int], batch: int) -> list[Block]:
    """Index arrays of all elements: batch axes, then rows and columns, of size 1 where uniform."""
    *lead, rows, columns = (np.asarray(offset, np.int64).reshape(np.shape(offset) or (1,) * batch)[..., None, None]
                            for offset in offsets)
    return [*lead, rows + np.arange(shape[0])[:, None], columns + np.arange(shape[1])]


def _gather(array: Block, offsets: Sequence[Offset], shape: tuple[int, int], padding: Any, batch: int) -> Block:
    *lead, rows, columns = _indices(offsets, shape, batch)
    return gather(array, rows, columns, padding, lead)


def gather(array: Block, rows: Block, columns: Block, padding: Any = 0, lead: Sequence[Block] = ()) -> Block:
    """Gather elements of ``array``; out-of-bounds ones are ``padding``. The index arrays broadcast."""
    indices = (*lead, rows, columns)
    inside = _in_bounds(array, indices)
    if array.size == 0:
        return np.full(inside.shape, padding, array.dtype)
    values = array[tuple(np.clip(index, 0, size - 1) for index, size in zip(indices, array.shape, strict=True))]
    return np.where(inside, values, np.asarray(padding, array.dtype))


def _in_bounds(array: Block, indices: Sequence[Block]) -> Block:
    inside: Block = np.asarray(True)
    for index, size in zip(indices, array.shape, strict=True):
        inside = inside & (index >= 0) & (index < size)
    return inside


def in_bounds(array: Block | Surfaces, row: Offset, column: Offset, shape: tuple[int, int], batch: int,
              lead: Lead = ()) -> Block:
    """In-bounds mask of blocks of ``shape`` at (row, column), in the shape of a read."""
    if isinstance(array, Surfaces):
        return array.indices(*_indices((row, column), shape, batch))[1]
    return _in_bounds(array, _indices((*lead, row, column), shape, batch))


def write(array: Block | Surfaces, row: Offset, column: Offset, value: Block, active: Block | None = None,
          lead: Lead = ()) -> None:
    """Write blocks to ``array``; out-of-bounds elements and inactive instances are dropped.

    Args:
        array: two dimensions behind those that ``lead`` indexes, any strides; changed in place.
        row, column: integers, or integer arrays with the batch axes of ``value``.
        value: batch axes, then rows and columns.
        active: mask of instances, or of the elements of ``value``; None for all.
        lead: an index for each dimension in front of the last two, each like ``row``.
    """
    if isinstance(array, Surfaces):
        array.write(row, column, value, active[..., None, None] if active is not None and
                    active.ndim == value.ndim - 2 else active)
        return
    batch = value.ndim - 2
    shape = (value.shape[-2], value.shape[-1])
    lattice, sizes = lattice_of((*lead, row, column)), (*[1] * len(lead), *shape)
    if lattice is not None and active is None and _covers(lattice, value.shape[:-2]) and array.size:
        ends = [along.end(size) for along, size in zip(lattice, sizes, strict=True)]
        if all(along.start >= 0 for along in lattice) and all(map(int.__le__, ends, array.shape)):
            slab = array[tuple(slice(along.start, end) for along, end in zip(lattice, ends, strict=True))]
            _windows(slab, lattice, shape, batch)[...] = to_storage(value, array.dtype)
            return
    mask = active[..., None, None] if active is not None and active.ndim == batch else active
    *indices, rows, columns = _indices((*lead, row, column), shape, batch)
    scatter(array, rows, columns, value, mask, indices)


def _covers(lattice: Sequence[Progression], batch: tuple[int, ...]) -> bool:
    """Whether the lattice covers all batch axes, so that no two instances write the same elements."""
    sizes = [1] * len(batch)
    for along in lattice:
        for axis, _, count in along.axes:
            sizes[axis] = count
    return tuple(sizes) == batch


def scatter(array: Block, rows: Block, columns: Block, value: Block, active: Block | None = None,
            lead: Sequence[Block] = ()) -> None:
    """Scatter elements to ``array``; out-of-bounds and inactive ones are dropped."""
    indices = (*lead, rows, columns)
    inside = _in_bounds(array, indices)
    if active is not None:
        inside = inside & active
    shape = np.broadcast_shapes(inside.shape, value.shape)
    chosen = np.broadcast_to(inside, shape)
    chosen_indices = tuple(np.broadcast_to(index, shape)[chosen] for index in indices)
    array[chosen_indices] = to_storage(np.broadcast_to(value, shape)[chosen], array.dtype)


_LARGEST = 1 << 62
"""Upper bound on the extent of an array in bytes; NumPy rejects larger ones, whatever their strides."""


class _RawMemory:
    """NumPy array interface of raw memory, without owner or validity check."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": shape, "strides": strides,
                                    "typestr": f"<u{itemsize}", "version": 3}


def memory_at(address: Any, sizes: Sequence[Any], strides: Sequence[Any], dtype: DType, active: Any = None, *,
              aligned: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """Array at a raw address with sizes and strides.

    Args:
        address: of the first element; an array where it differs between instances.
        sizes, strides: two of each, in elements, arrays where they differ.
        dtype: element type.
        active: mask of active instances, None for all; the values of inactive ones are undefined.
        aligned: whether the author asserts that the memory is legal for 2D block IO.

    Returns:
        the array, and the leading indices of each instance's matrix in it; none where all have the same address. Where
        sizes or strides differ, or addresses are too far apart for one array, a :class:`Surfaces`.

    Raises:
        ShapeError: the memory is asserted to be aligned, and is not.
    """
    fields = [np.asarray(number) for number in (address, *sizes, *strides)]
    different = _different(fields, active)
    if aligned:
        for first, *numbers in different:
            check_aligned(first, numbers[:2], numbers[2:], dtype.numpy.itemsize)
    if not different:
        return np.empty((0, 0), dtype.numpy), ()
    _, rows, columns, *steps = different[0]
    addresses = sorted({first for first, *_ in different})
    between = gcd(*(other - addresses[0] for other in addresses)) or 1
    count = (addresses[-1] - addresses[0]) // between + 1
    alike = len({tuple(numbers) for _, *numbers in different}) == 1
    if not alike or count * rows * columns * dtype.numpy.itemsize >= _LARGEST:
        return _surfaces(fields, different, dtype, active), ()
    byte_strides = tuple(step * dtype.numpy.itemsize for step in steps)
    if len(addresses) == 1:
        return _view(addresses[0], (rows, columns), byte_strides, dtype), ()
    array = _view(addresses[0], (count, rows, columns), (between, *byte_strides), dtype)
    valid_addresses = fields[0] if active is None else np.where(active, fields[0], addresses[0])
    return array, (((valid_addresses - valid_addresses.dtype.type(addresses[0])) // between).astype(np.int64),)


def check_aligned(address: int, sizes: Sequence[int], strides: Sequence[int], itemsize: int) -> None:
    """Check the author's assertion that memory, or its transpose, is legal for 2D block IO.

    Raises:
        ShapeError: it is not.
    """
    turn = -1 if strides[-2] == 1 and strides[-1] != 1 else 1
    why = block_io_fault(address, tuple(sizes[-2:][::turn]), tuple(strides[-2:][::turn]), itemsize)
    if why:
        raise ShapeError("XT3034", f"this memory is promised to be aligned, and {why}",
                         "drop aligned=True for such memory, or allocate it with another pitch")


def _different(fields: Sequence[NDArray], active: Any) -> list[list[int]]:
    """Distinct addresses, sizes and strides of the active instances."""
    if all(number.size == 1 for number in fields):
        return [[int(number.reshape(-1)[0]) for number in fields]]
    spread = np.broadcast_arrays(*fields, True if active is None else active)
    rows = {tuple(map(int, row)) for row in zip(*(number[spread[-1]].tolist() for number in spread[:-1]), strict=True)}
    return [list(row) for row in sorted(rows)]


def _surfaces(fields: Sequence[NDArray], different: Sequence[Sequence[int]], dtype: DType, active: Any) -> Surfaces:
    """Ragged batch of one matrix per instance; those of inactive instances are empty."""
    size = dtype.numpy.itemsize
    if any((row[0] - different[0][0]) % size for row in different):
        raise ShapeError("XT3035", f"addresses of {dtype} are not whole elements apart",
                         f"let every address be a multiple of {size}")
    reach = [[size * step * max(count - 1, 0) for count, step in zip(row[1:3], row[3:], strict=True)]
             for row in different]
    lowest = min(row[0] + sum(min(span, 0) for span in spans) for row, spans in zip(different, reach, strict=True))
    last = max(row[0] + sum(max(span, 0) for span in spans) for row, spans in zip(different, reach, strict=True))
    flat = _view(lowest, ((last - lowest) // size + 1,), (size,), dtype)
    address, rows, columns, *steps = fields
    takes = True if active is None else active
    first = np.where(takes, address - address.dtype.type(lowest), 0).astype(np.int64) // size
    return Surfaces(flat, first, (np.where(takes, rows, 0), columns), (steps[0], steps[1]))


def _view(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> NDArray:
    return np.asarray(_RawMemory(address, shape, strides, dtype.numpy.itemsize)).view(dtype.numpy)
