"""Blocks of NumPy arrays for many instances at once, against a loop over elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xegpu.interpreter import memory

Array = np.ndarray[Any, Any]
BATCH = (3, 4)


def naive_read(array: Array, rows: Array, columns: Array, shape: tuple[int, int], padding: int) -> Array:
    result = np.full((*BATCH, *shape), padding, array.dtype)
    for i, j, r, c in np.ndindex(*result.shape):
        row, column = rows[i, j] + r, columns[i, j] + c
        if 0 <= row < array.shape[0] and 0 <= column < array.shape[1]:
            result[i, j, r, c] = array[row, column]
    return result


def naive_write(array: Array, rows: Array, columns: Array, value: Array, active: Array) -> None:
    for i, j, r, c in np.ndindex(*value.shape):
        row, column = rows[i, j] + r, columns[i, j] + c
        if active[i, j] and 0 <= row < array.shape[0] and 0 <= column < array.shape[1]:
            array[row, column] = value[i, j, r, c]


@st.composite
def offsets(draw: st.DrawFn, axis: int) -> tuple[Any, Array]:
    """Offsets as an execution has them (a number, a progression along an axis, or anything), and one an instance."""
    start, step = draw(st.integers(-9, 20)), draw(st.sampled_from([1, 2, 4, 5, 8]))
    kind = draw(st.sampled_from(["number", "lattice", "along both", "any"]))
    if kind == "number":
        return start, np.full(BATCH, start)
    if kind == "any":
        values = np.array(draw(st.lists(st.integers(-20, 40), min_size=12, max_size=12))).reshape(BATCH)
        return values, values
    if kind == "along both":
        values = start + 4 * np.arange(3)[:, None] + 13 * np.arange(4)
        return values, values
    shape = [1, 1]
    shape[axis] = BATCH[axis]
    values = (start + step * np.arange(BATCH[axis])).reshape(shape)
    return values, np.broadcast_to(values, BATCH)


shapes = st.tuples(st.integers(1, 5), st.integers(1, 6))
sizes = st.tuples(st.integers(0, 30), st.integers(0, 30))
views = st.sampled_from([lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2], lambda a: a[1::3, ::-1]])


@given(sizes, views, offsets(0), offsets(1), shapes, st.sampled_from([0, -7]))
def test_reads_are_those_of_the_loop(size: tuple[int, int], view: Any, row: tuple[Any, Array],
                                     column: tuple[Any, Array], shape: tuple[int, int], padding: int) -> None:
    array = view(np.arange(size[0] * size[1]).reshape(size) + 100)
    found = memory.read(array, row[0], column[0], shape, len(BATCH), padding)
    assert found.ndim == 4
    np.testing.assert_array_equal(np.broadcast_to(found, (*BATCH, *shape)),
                                  naive_read(array, row[1], column[1], shape, padding))


@given(sizes, offsets(0), offsets(0), shapes)
def test_reads_whose_offsets_share_an_axis(size: tuple[int, int], row: tuple[Any, Array], column: tuple[Any, Array],
                                           shape: tuple[int, int]) -> None:
    array = np.arange(size[0] * size[1]).reshape(size) + 100
    found = memory.read(array, row[0], column[0], shape, len(BATCH))
    np.testing.assert_array_equal(np.broadcast_to(found, (*BATCH, *shape)),
                                  naive_read(array, row[1], column[1], shape, 0))


@given(sizes, views, st.integers(-9, 20), st.integers(-9, 20), shapes, st.tuples(st.integers(0, 3), st.integers(0, 3)),
       st.none() | st.lists(st.booleans(), min_size=12, max_size=12))
def test_writes_are_those_of_the_loop(size: tuple[int, int], view: Any, row: int, column: int,
                                      shape: tuple[int, int], gap: tuple[int, int], active: list[bool] | None) -> None:
    """Blocks that do not overlap: what several instances write to one place has no defined outcome."""
    array, expected = (view(np.full(size, -1)) for _ in range(2))
    rows = (row + (shape[0] + gap[0]) * np.arange(3)).reshape(3, 1)
    columns = (column + (shape[1] + gap[1]) * np.arange(4)).reshape(1, 4)
    value = np.arange(12 * shape[0] * shape[1]).reshape(*BATCH, *shape)
    mask = None if active is None else np.array(active).reshape(BATCH)
    memory.write(array, rows, columns, value, mask)
    everywhere = np.broadcast_to(rows, BATCH), np.broadcast_to(columns, BATCH)
    naive_write(expected, *everywhere, value, np.ones(BATCH, bool) if mask is None else mask)
    np.testing.assert_array_equal(array, expected)


def test_an_aligned_read_copies_nothing() -> None:
    array = np.arange(64 * 96).reshape(64, 96)
    rows, columns = (16 * np.arange(4)).reshape(4, 1), (32 * np.arange(3)).reshape(1, 3)
    found = memory.read(array, rows, columns, (16, 32), 2)
    assert found.base is not None
    assert np.shares_memory(found[0, 0], array)
    np.testing.assert_array_equal(found, array.reshape(4, 16, 3, 32).swapaxes(1, 2))


@pytest.mark.parametrize("row", [0, np.array([[5]])])
def test_what_does_not_vary_has_size_one(row: Any) -> None:
    assert memory.read(np.zeros((9, 9)), row, 3, (2, 2), 2).shape == (1, 1, 2, 2)


def test_single_elements_are_gathered_and_scattered() -> None:
    array = np.arange(20).reshape(4, 5)
    rows, columns = np.array([[0, 3, -1, 4]]), np.array([[4, 0, 2, 2]])
    np.testing.assert_array_equal(memory.gather(array, rows, columns, 9), [[4, 15, 9, 9]])
    memory.scatter(array, rows, columns, np.array([[70, 71, 72, 73]]), np.array([[True, False, True, True]]))
    assert array[0, 4] == 70
    assert array[3, 0] == 15
    assert 72 not in array
    assert 73 not in array
