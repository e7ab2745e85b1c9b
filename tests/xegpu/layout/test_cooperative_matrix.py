"""coopmatrix_layout.rst: its two tables, its inverse maps, its load code, and that lane maps are its registers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xegpu.ir import dtypes
from xegpu.layout import cooperative_matrix, lane_map
from xegpu.layout.cooperative_matrix import Matrix, load, store
from xegpu.layout.lane_map import LaneMap
from xegpu.support.errors import ShapeError

# The two tables as they are printed: a 4x15 matrix over 16 lanes, and a 1x17 one; a column is a lane.
TABLES = {(4, 15): """
.x 0,0  1,0  2,0  3,0  0,1  1,1  2,1  3,1  0,2  1,2  2,2  3,2  0,3  1,3  2,3  3,3
.y 0,4  1,4  2,4  3,4  0,5  1,5  2,5  3,5  0,6  1,6  2,6  3,6  0,7  1,7  2,7  3,7
.z 0,8  1,8  2,8  3,8  0,9  1,9  2,9  3,9  0,10 1,10 2,10 3,10 0,11 1,11 2,11 3,11
.w 0,12 1,12 2,12 3,12 0,13 1,13 2,13 3,13 0,14 1,14 2,14 3,14 -,-  -,-  -,-  -,-
""", (1, 17): """
.x 0,0  0,1  0,2  0,3  0,4  0,5  0,6  0,7  0,8  0,9  0,10 0,11 0,12 0,13 0,14 0,15
.y 0,16 -,-  -,-  -,-  -,-  -,-  -,-  -,-  -,-  -,-  -,-  -,-  -,-  -,-  -,-  -,-
"""}


@pytest.mark.parametrize("shape", TABLES)
def test_the_printed_tables(shape: tuple[int, int]) -> None:
    matrix = Matrix("b", *shape, 16)
    lines = TABLES[shape].strip().splitlines()
    assert matrix.components == len(lines)
    for component, line in enumerate(lines):
        elements = [matrix.element(lane, component) for lane in range(16)]
        assert line.split()[1:] == [f"{row},{column}" if column < shape[1] else "-,-" for row, column in elements]


powers = st.sampled_from([1, 2, 4, 8, 16, 32])
matrices = st.builds(
    lambda use, subgroup, down, power, columns, bits: Matrix(
        use, power if use == "b" else max(subgroup, 32 // bits if use == "a" else 1) * down, columns,
        max(subgroup, 32 // bits) if use == "a" else subgroup, bits),
    st.sampled_from(cooperative_matrix.USES), powers, st.integers(1, 3), st.sampled_from([1, 2, 4, 8, 16, 32, 64]),
    st.integers(1, 40), st.sampled_from([8, 16, 32, 64])).filter(lambda m: m.rows % m.subgroup == 0 or m.use == "b")


@given(matrices)
def test_every_element_has_one_holder_and_the_holder_is_the_inverse(matrix: Matrix) -> None:
    rows, columns = matrix.elements()
    rows, columns = np.broadcast_arrays(rows, columns)
    assert sorted(zip(rows.ravel().tolist(), columns.ravel().tolist(), strict=True)) == \
        list(product(range(matrix.rows), range(matrix.padded)))
    assert matrix.columns <= matrix.padded < matrix.columns + max(matrix.subgroup, matrix.packed)
    lanes, components = matrix.owner(rows, columns)
    np.testing.assert_array_equal(lanes, np.arange(matrix.subgroup)[:, None] + 0 * rows)
    np.testing.assert_array_equal(components, np.arange(matrix.components)[None, :] + 0 * rows)


def read_as_written(matrix: Matrix, memory: Any, position: tuple[int, int], shape: tuple[int, int],
                    strides: tuple[int, int], transpose: bool) -> Any:
    """The document's load code for accumulators and for matrix B, loop by loop, rows and columns checked."""
    S, M, N = matrix.subgroup, matrix.rows, matrix.columns
    if transpose:
        shape, strides = shape[::-1], strides[::-1]
    o = matrix.packed
    is_b = matrix.use == "b"
    I = min(M, S) if is_b else S  # noqa: E741
    K = M // I
    J = -(-I * N // S) * S // I if is_b else -(-N // o) * o
    result = np.full((S, I * K * J // S), -1, memory.dtype)
    for p, w in product(range(S), range(K)):
        i0, j0 = (p % I, p // I) if is_b else (p, 0)
        row = position[0] + i0 + w * I
        for u in range(I * J // S):
            j = j0 + u * (S // I)
            column = position[1] + j
            there = 0 <= row < shape[0] and 0 <= column < shape[1] and j < N
            result[p, w + u * K if is_b else u + w * J] = \
                memory[row * strides[0] + column * strides[1]] if there else 0
    return result


@given(matrices.filter(lambda m: m.use != "a"), st.integers(-3, 5), st.integers(-3, 5), st.booleans())
def test_loads_are_those_of_the_load_code(matrix: Matrix, down: int, right: int, transposed: bool) -> None:
    memory = np.arange(1, 1 + 31 * 23, dtype=np.int32)
    array = memory.reshape(31, 23)
    found = load(matrix, array, (down, right), transposed=transposed)
    np.testing.assert_array_equal(found, read_as_written(matrix, memory, (down, right), (31, 23), (23, 1), transposed))


@given(matrices, st.integers(-3, 5), st.integers(-3, 5), st.booleans())
def test_a_store_undoes_a_load(matrix: Matrix, down: int, right: int, transposed: bool) -> None:
    array = np.arange(1, 1 + 31 * 23, dtype=np.int32).reshape(31, 23)
    target = np.zeros_like(array)
    store(matrix, load(matrix, array, (down, right), transposed=transposed), target, (down, right),
          transposed=transposed)
    expected = np.zeros_like(array)
    part = np.s_[max(down, 0):max(down + matrix.rows, 0), max(right, 0):max(right + matrix.columns, 0)]
    (expected.T if transposed else expected)[part] = (array.T if transposed else array)[part]
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(("checked", "position", "says"), [
    ({"rows_checked": False}, (-1, 0), "XT3556"),
    ({"columns_checked": False}, (0, 1), "XT3556")])
def test_what_is_not_checked_must_lie_inside(checked: dict[str, bool], position: tuple[int, int], says: str) -> None:
    array = np.arange(128).reshape(16, 8)
    np.testing.assert_array_equal(load(Matrix("acc", 16, 8, 16), array, **checked), array)
    with pytest.raises(ShapeError, match=says):
        load(Matrix("acc", 16, 8, 16), array, position, **checked)


@pytest.mark.parametrize(("arguments", "says"), [
    (("acc", 16, 8, 12), "XT3551"), (("acc", 24, 8, 16), "XT3554"),
    (("b", 12, 8, 16), "XT3553"), (("c", 16, 8, 16), "XT3550"),
    (("acc", 16, 0, 16), "XT3552"), (("a", 2, 4, 2, 8), "XT3555")])
def test_what_no_matrix_can_be(arguments: Any, says: str) -> None:
    with pytest.raises(ShapeError, match=says):
        Matrix(*arguments)


def image(rows: Any, columns: Any) -> list[tuple[int, int]]:
    """Places in the order of the bytes of registers: components, in each the lanes, in each the elements of a word."""
    return [(int(r), int(c)) for r, c in zip(np.moveaxis(rows, 0, 1).ravel(), np.moveaxis(columns, 0, 1).ravel(),
                                             strict=True)]


@pytest.mark.parametrize("subgroup", [8, 16])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_operands_of_dpas_are_cooperative_matrices_of_the_transpose(subgroup: int, dtype: str) -> None:
    """The document's matrices are stored by columns: its A is the engine's B, its B the engine's A, in registers."""
    bits = dtypes.of(dtype).bits
    depth = 8 * 32 // bits
    left = image(*np.broadcast_arrays(*lane_map.positions((8, depth), lane_map.operand_a(subgroup, bits))))
    right = image(*np.broadcast_arrays(*lane_map.positions((depth, subgroup), lane_map.operand_b(subgroup, bits))))
    acc = image(*np.broadcast_arrays(*lane_map.positions((8, subgroup), lane_map.default(subgroup, subgroup))))
    for found, matrix in ((left, Matrix("b", depth, 8, subgroup, bits)),
                          (right, Matrix("a", subgroup, depth, subgroup, bits)),
                          (acc, Matrix("acc", subgroup, 8, subgroup))):
        rows, columns = matrix.elements()
        assert found == [(column, row) for row, column in image(*np.broadcast_arrays(rows, columns))]


@pytest.mark.parametrize(("lanes", "shape"), [((16, 1), (32, 8)), ((8, 1), (8, 8))])
def test_a_transposed_map_is_an_accumulator(lanes: tuple[int, int], shape: tuple[int, int]) -> None:
    rows, columns = (part[:, :, 0] for part in np.broadcast_arrays(*lane_map.positions(shape, LaneMap(lanes))))
    matrix = Matrix("acc", *shape, lanes[0])
    for found, expected in zip((rows, columns), np.broadcast_arrays(*matrix.elements()), strict=True):
        np.testing.assert_array_equal(found, expected)
