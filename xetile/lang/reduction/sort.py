"""Sorting along a dimension: ``xt.sort``, ``xt.top_k``.

Rows of a vector are registers, so columns are sorted by a network of comparators between rows, of two instructions
each; rows are transposed first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.dialect.wg_map import WgMap
from xetile.frontend.broadcast import cast
from xetile.frontend.constants import python_number
from xetile.frontend.notes import notes
from xetile.frontend.tracer import current
from xetile.frontend.values import Vector
from xetile.lang.creation import full
from xetile.lang.layout import tile_transpose
from xetile.lang.layout.shapes import axis_of, check_vector, concatenate, redistributed, undivided
from xetile.lang.math import bitcast, maximum, minimum, where

_LONGEST = 256
"""Elements that a network sorts: 3,839 comparators."""
_KEYS = {dtypes.f64: dtypes.i64, dtypes.f32: dtypes.i32, dtypes.f16: dtypes.i16, dtypes.bf16: dtypes.i16}
"""Integers as wide as a float, whose order is that of the keys made of it."""


def sort(v: Vector, axis: int = -1, *, descending: bool = False, indices: bool = False) -> Any:
    """The elements in ascending order along ``axis``.

    NaN counts as larger than all numbers, as in NumPy, and -0.0 as smaller than 0.0.

    Args:
        v: a vector of one dimension or two, of integers or floats.
        axis: the dimension, of at most 256 elements; negative ones count from the last.
        descending: from the largest to the smallest.
        indices: whether the positions are wanted, too: the result is then (values, positions in ``i32``), and equal
            elements keep their order.

    Raises:
        ElementTypeError: the element type has no order.
        RankError: no such axis, or a vector of other dimensions.
        ShapeError: too many elements.
    """
    rows, along = _rows("sort", v, axis)
    if not indices:
        keys = _sorted_keys([_key(row) for row in rows], descending)
        return _sorted_result([_element_of_key(key, v.dtype) for key in keys], v, along)
    values, positions = _sorted_pairs(rows, descending)
    return _sorted_result(values, v, along), _sorted_result(positions, v, along)


def top_k(v: Vector, k: int, axis: int = -1) -> tuple[Vector, Vector]:
    """The ``k`` largest elements along ``axis``, from the largest on, and their positions in ``i32``.

    Of equal elements the first one counts as larger; NaN is larger than all numbers.

    Args:
        v, axis: as in :func:`sort`.
        k: a compile-time integer, from 1 to the number of elements.

    Raises:
        As :func:`sort`, and ShapeError: ``k`` is no such number.
    """
    rows, along = _rows("top_k", v, axis)
    count = python_number(k)
    if type(count) is not int or not 1 <= count <= len(rows):
        location = current().location()
        raise ShapeError("XT1273", f"top_k of {len(rows)} elements takes k from 1 to {len(rows)}, not {k!r:.40}",
                         "give a compile-time integer", location, notes(location, it=v))
    values, positions = _sorted_pairs(rows, descending=True)
    return _sorted_result(values[:count], v, along), _sorted_result(positions[:count], v, along)


def comparators(count: int) -> Iterator[tuple[int, int]]:
    """Batcher's merge exchange: pairs (i, j), i < j, to be put in order one after the other, for any count.

    Knuth, The Art of Computer Programming, volume 3, section 5.2.2, algorithm M.
    """
    top = 1 << max((count - 1).bit_length() - 1, 0)
    p = top if count > 1 else 0
    while p:
        q, r, distance = top, 0, p
        while distance:
            yield from ((i, i + distance) for i in range(count - distance) if i & p == r)
            distance, q, r = q - p, q >> 1, p
        p >>= 1


def _rows(name: str, v: Any, axis: Any) -> tuple[list[Vector], int]:
    """Operand as the rows of a matrix, and the axis."""
    current(f"xt.{name}")
    check_vector(name, v)
    along = axis_of(axis, v)
    location = current().location()
    if v.dtype not in _KEYS and (v.dtype is dtypes.i1 or v.dtype.kind not in "iu"):
        raise ElementTypeError("XT1274", f"{name} takes integers of 8 to 64 bits and floats of 16 to 64, not a "
                               f"{v.describe()}",
                               "convert it: v.to(xt.f32)", location, notes(location, it=v))
    if v.shape[along] > _LONGEST:
        raise ShapeError("XT1273", f"{name} takes at most {_LONGEST} elements along an axis, and a {v.describe()} has "
                         f"{v.shape[along]}", "sort parts, and merge them through memory", location,
                         notes(location, it=v))
    whole = undivided(v, along)
    columns = whole if along == 0 and len(v.shape) == 2 else tile_transpose(cast(whole, (1, *v.shape)[-2:]))
    return [columns[i:i + 1] for i in range(columns.shape[0])], along


def _sorted_result(rows: list[Vector], v: Vector, along: int) -> Vector:
    """Rows of the sorted matrix, as the operand lay."""
    joined = concatenate(rows, 0)
    result = joined if along == 0 and len(v.shape) == 2 else tile_transpose(joined)
    if v.wg_map is not None:  # the vector's own distribution, of top_k with all elements in each subgroup
        data = tuple(len(rows) if axis == along + 2 - len(v.shape) and len(rows) != v.shape[along] else size
                     for axis, size in enumerate(v.wg_map.sg_data))
        result = redistributed(result, WgMap(v.wg_map.sg_layout, (data[0], data[1])))
    return result if len(v.shape) == 2 else cast(result, (len(rows),))


def _key(row: Vector) -> Vector:
    """Integers in the order of the elements: of floats the bits, inverted below the sign in negative ones."""
    integer = _KEYS.get(row.dtype)
    if integer is None:
        return row
    greatest = int(np.iinfo(integer.numpy).max)
    bits = bitcast(row, integer)
    return where(row == row, bits ^ ((bits >> (integer.bits - 1)) & greatest), greatest)  # type: ignore[no-any-return]


def _element_of_key(key: Vector, dtype: DType) -> Vector:
    """The element of a key: inverting is its own inverse, and the greatest key is a NaN."""
    integer = _KEYS.get(dtype)
    if integer is None:
        return key
    greatest = int(np.iinfo(integer.numpy).max)
    return bitcast(key ^ ((key >> (integer.bits - 1)) & greatest), dtype)  # type: ignore[no-any-return]


def _sorted_keys(keys: list[Vector], descending: bool) -> list[Vector]:
    first, second = (maximum, minimum) if descending else (minimum, maximum)
    for i, j in comparators(len(keys)):
        keys[i], keys[j] = first(keys[i], keys[j]), second(keys[i], keys[j])
    return keys


def _sorted_pairs(rows: list[Vector], descending: bool) -> tuple[list[Vector], list[Vector]]:
    """Elements and positions, sorted; positions of equal elements ascend."""
    if rows[0].dtype.bits <= 16:
        return _sorted_packed(rows, descending)
    keys = [_key(row) for row in rows]
    positions = [full(row.shape, i, dtypes.i32, wg_map=row.wg_map) for i, row in enumerate(rows)]
    for i, j in comparators(len(rows)):
        before = keys[j] > keys[i] if descending else keys[j] < keys[i]
        swap = before | ((keys[j] == keys[i]) & (positions[j] < positions[i]))
        for each in (keys, positions):
            each[i], each[j] = where(swap, each[j], each[i]), where(swap, each[i], each[j])
    return [_element_of_key(key, rows[0].dtype) for key in keys], positions


def _sorted_packed(rows: list[Vector], descending: bool) -> tuple[list[Vector], list[Vector]]:
    """Keys of at most 16 bits with the positions below them, in one integer of 32 bits.

    Positions count down where the order descends, so that those of equal elements ascend.
    """
    dtype, last = rows[0].dtype, len(rows) - 1
    word = dtypes.u32 if dtype.kind == "u" else dtypes.i32
    packed = [(_key(row).to(word) << 16) | (last - i if descending else i) for i, row in enumerate(rows)]
    packed = _sorted_keys(packed, descending)
    low = [(each & 0xFFFF).to(dtypes.i32) for each in packed]
    values = [_element_of_key((each >> 16).to(_KEYS.get(dtype, dtype)), dtype) for each in packed]
    return values, [last - position if descending else position for position in low]
