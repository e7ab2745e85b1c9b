"""Memory at an address, as NumPy sees it."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np

from xegpu.block_io import fault
from xegpu.dtypes import DType
from xegpu.errors import ShapeError
from xegpu.memory import Surfaces

Array = np.ndarray[Any, Any]
_LARGEST = 1 << 62
"""Bytes that NumPy says an array has, wherever its elements lie: more than these it refuses."""


class _Place:
    """Memory in the form that NumPy accepts: nobody owns it, and nothing checks that it is there."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": shape, "strides": strides,
                                    "typestr": f"<u{itemsize}", "version": 3}


def memory_at(address: Any, sizes: Sequence[Any], strides: Sequence[Any], dtype: DType, active: Any = None, *,
              aligned: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """The memory that sizes and strides describe from an address on.

    Args:
        address: of the first element; an array where it differs between instances.
        sizes, strides: two of each, in elements, arrays where they differ.
        dtype: element type.
        active: the instances that take part, None for all; the numbers of the others mean nothing.
        aligned: whether 2D block messages are promised to reach it.

    Returns:
        an array on that memory, and the indices of each instance's part of it, in front of row and column: none where
        all have the same address. Where sizes or strides differ, or addresses lie too far apart for an array, it is
        a :class:`Surfaces`.

    Raises:
        ShapeError: the promise is not kept.
    """
    given = [np.asarray(number) for number in (address, *sizes, *strides)]
    different = _different(given, active)
    if aligned:
        for first, *numbers in different:
            check_promise(first, numbers[:2], numbers[2:], dtype.numpy.itemsize)
    if not different:
        return np.empty((0, 0), dtype.numpy), ()
    _, rows, columns, *steps = different[0]
    addresses = sorted({first for first, *_ in different})
    between = gcd(*(place - addresses[0] for place in addresses)) or 1
    count = (addresses[-1] - addresses[0]) // between + 1
    alike = len({tuple(numbers) for _, *numbers in different}) == 1
    if not alike or count * rows * columns * dtype.numpy.itemsize >= _LARGEST:
        return _surfaces(given, different, dtype, active), ()
    bytes_apart = tuple(step * dtype.numpy.itemsize for step in steps)
    if len(addresses) == 1:
        return _view(addresses[0], (rows, columns), bytes_apart, dtype), ()
    array = _view(addresses[0], (count, rows, columns), (between, *bytes_apart), dtype)
    places = given[0] if active is None else np.where(active, given[0], addresses[0])
    return array, (((places - places.dtype.type(addresses[0])) // between).astype(np.int64),)


def check_promise(address: int, sizes: Sequence[int], strides: Sequence[int], itemsize: int) -> None:
    """Raise unless 2D block messages may reach memory, row by row or column by column, as its author promised.

    Raises:
        ShapeError: they may not.
    """
    turn = -1 if strides[-2] == 1 and strides[-1] != 1 else 1
    why = fault(address, tuple(sizes[-2:][::turn]), tuple(strides[-2:][::turn]), itemsize)
    if why:
        raise ShapeError("XT3034", f"this memory is promised to be aligned, and {why}",
                         "drop aligned=True for such memory, or allocate it with another pitch")


def _different(given: Sequence[Array], active: Any) -> list[list[int]]:
    """Address, sizes and strides of the instances that take part, each that occurs once."""
    if all(number.size == 1 for number in given):
        return [[int(number.reshape(-1)[0]) for number in given]]
    spread = np.broadcast_arrays(*given, True if active is None else active)
    rows = {tuple(map(int, row)) for row in zip(*(number[spread[-1]].tolist() for number in spread[:-1]), strict=True)}
    return [list(row) for row in sorted(rows)]


def _surfaces(given: Sequence[Array], different: Sequence[Sequence[int]], dtype: DType, active: Any) -> Surfaces:
    """Matrices of different sizes, one for each instance; those that take no part have none of any size."""
    size = dtype.numpy.itemsize
    lowest = min(row[0] for row in different)
    if any((row[0] - lowest) % size for row in different):
        raise ShapeError("XT3035", f"addresses of {dtype} are not whole elements apart",
                         f"let every address be a multiple of {size}")
    last = max(row[0] + size * sum(abs(step) * max(count - 1, 0) for count, step in zip(row[1:3], row[3:], strict=True))
               for row in different)
    flat = _view(lowest, ((last - lowest) // size + 1,), (size,), dtype)
    address, rows, columns, *steps = given
    takes = True if active is None else active
    first = np.where(takes, address - address.dtype.type(lowest), 0).astype(np.int64) // size
    return Surfaces(flat, first, (np.where(takes, rows, 0), columns), (steps[0], steps[1]))


def _view(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> Array:
    return np.asarray(_Place(address, shape, strides, dtype.numpy.itemsize)).view(dtype.numpy)
