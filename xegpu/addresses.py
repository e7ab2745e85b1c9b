"""Memory at an address, as NumPy sees it."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np

from xegpu.dtypes import DType
from xegpu.errors import ShapeError

Array = np.ndarray[Any, Any]


class _Place:
    """Memory in the form that NumPy accepts: nobody owns it, and nothing checks that it is there."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> None:
        self.__array_interface__ = {"data": (address, False), "shape": shape, "strides": strides,
                                    "typestr": f"<u{itemsize}", "version": 3}


def memory_at(address: Any, sizes: Sequence[Any], strides: Sequence[Any],
              dtype: DType) -> tuple[Array, tuple[Any, ...]]:
    """The memory that sizes and strides describe from an address on.

    Args:
        address: of the first element; an array where it differs between instances.
        sizes, strides: two of each, in elements, the same for all instances.
        dtype: element type.

    Returns:
        an array on that memory, and the indices of each instance's part of it, in front of row and column: none where
        all have the same address.

    Raises:
        ShapeError: sizes or strides differ between instances.
    """
    shape, steps = (tuple(_one(number) for number in numbers) for numbers in (sizes, strides))
    bytes_apart = tuple(step * dtype.numpy.itemsize for step in steps)
    places = np.asarray(address)
    first = int(places.min())
    if places.size == 1:
        return _view(first, shape, bytes_apart, dtype), ()
    beyond = [int(place) - first for place in np.unique(places)]
    between = gcd(*beyond) or 1
    array = _view(first, (beyond[-1] // between + 1, *shape), (between, *bytes_apart), dtype)
    return array, (((places - places.min()) // between).astype(np.int64),)


def _view(address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> Array:
    return np.asarray(_Place(address, shape, strides, dtype.numpy.itemsize)).view(dtype.numpy)


def _one(number: Any) -> int:
    values = np.unique(np.asarray(number))
    if len(values) != 1:
        raise ShapeError("XT3032",
                         "NumPy describes the memory at an address by the same sizes and strides for all work-groups",
                         "give each work-group its own address instead, and the sizes that all have in common")
    return int(values[0])
