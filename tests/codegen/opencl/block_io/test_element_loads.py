"""Memory that block IO cannot reach: right for every view of an array, and nothing outside it touched."""

from __future__ import annotations

import numpy as np
import pytest

import xetile as xt
from codegen.opencl.block_io.block_slice import WholeBlock
from tests.conftest import require_device, require_ocloc
from xegpu.dialect.types import BlockTdesc, TensorDesc
from xegpu.ir import dtypes
from xegpu.layout.lane_map import LaneMap
from xegpu.support.errors import TargetError

pytestmark = pytest.mark.unoptimised

M, N, K = 70, 83, 100
RNG = np.random.default_rng(2)


@xt.kernel
def product(A, B, C, *, BK, acc_type):
    """C = A x B in tiles that start outside C on two sides and end outside on the others."""
    m, n = xt.group_id(0) * 16 - 3, xt.group_id(1) * 32 - 5
    a, b = xt.init_tile(A, (m, 0), (16, BK)), xt.init_tile(B, (0, n), (BK, 32))
    acc = xt.zeros((16, 32), acc_type)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (16, 32)))


def view(big: np.ndarray, rows: int, columns: int, kind: str) -> np.ndarray:
    """A view of ``rows`` x ``columns`` elements of a larger array."""
    if kind == "transposed":
        return np.ascontiguousarray(big[:columns, :rows]).T
    row, column, step = {"even rows": (0, 0, 1), "odd start": (1, 3, 1), "strided": (0, 0, 2)}[kind]
    return big[row:row + rows * step:step, column:column + columns * step:step]


@pytest.mark.execution("opencl:cpu")
@pytest.mark.parametrize("kind", ["even rows", "odd start", "strided", "transposed"])
@pytest.mark.parametrize("target", ["pvc", "dg2", "cpu"])
@pytest.mark.parametrize(("name", "acc_type", "step"), [("bf16", xt.f32, 32), ("i8", xt.i32, 64), ("f32", xt.f32, 16)])
def test_every_view_gives_the_same_product(name: str, acc_type, step: int, target: str, kind: str) -> None:
    require_device()
    element = dtypes.of(name).numpy
    a, b = (view(RNG.integers(-4, 5, (210, 210)).astype(element), *shape, kind) for shape in ((M, K), (K, N)))
    frame = np.full((M + 2, N + 4), 7, acc_type.numpy)
    inner = frame[1:-1, 2:-2]
    product.on("opencl:cpu", target=target)[-(-(M + 3) // 16), -(-(N + 5) // 32)](
        a, b, inner, BK=step, acc_type=acc_type)
    np.testing.assert_array_equal(inner, a.astype(np.float64) @ b.astype(np.float64))
    assert frame.sum() - inner.sum() == 7 * (frame.size - inner.size)


@xt.kernel
def rows_apart(A, C):
    """Sums of two slices of more words than a processor loads without calls, which nothing says to be out of bounds."""
    first, second = (xt.vector.transfer_read(A, (row, 0), (64, 64)) for row in (0, 1))
    xt.vector.transfer_write(first + second, C, (0, 0))


@pytest.mark.execution("opencl:cpu")
@pytest.mark.parametrize("name", ["f32", "i64", "i8"])
def test_slices_in_bounds_are_loaded_with_and_without_calls_in_one_kernel(name: str) -> None:
    require_device()
    a = RNG.integers(-4, 5, (65, 64)).astype(dtypes.of(name).numpy)
    c = np.zeros_like(a[:-1])
    rows_apart.on("opencl:cpu", target="cpu")[1](a, c)
    np.testing.assert_array_equal(c, a[:-1] + a[1:])


@xt.kernel
def slices(A, C, column):
    """Slices of 8 x 32 from any column on, which nothing says to be out of bounds."""
    row = xt.group_id(0) * 8
    xt.vector.transfer_write(xt.vector.transfer_read(A, (row + 1, column), (8, 32)), C, (row, 0))


@pytest.mark.parametrize(("target", "name", "columns"), [("dg2", "f16", 67), ("pvc", "i8", 66), ("bmg", "f16", 66)])
def test_a_promise_of_bounds_is_none_of_alignment(target: str, name: str, columns: int) -> None:
    """Machine code in the simulator, which checks that block messages read at multiples of 4 bytes."""
    require_ocloc()
    a = RNG.integers(-60, 60, (17, columns)).astype(dtypes.of(name).numpy)
    kernel = slices.on(f"machine:{target}")
    for column in (0, 1, 2, columns - 32):
        c = np.zeros((16, 32), a.dtype)
        kernel[2](a, c, column)
        np.testing.assert_array_equal(c, a[1:, column:column + 32])


@xt.kernel
def padded(A, C):
    xt.store_tile(xt.load_tile(xt.init_tile(A, (-3, -3), (8, 16)), padding=5), xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("shape", [(0, 7), (7, 0)])
def test_tiles_over_the_corner_of_an_empty_array_read_nothing(shape: tuple[int, int]) -> None:
    """Machine code in the simulator, which checks each access: an array without elements has no memory to read."""
    require_ocloc()
    c = np.zeros((8, 16), np.float32)
    padded.on("machine:dg2")[1](np.empty(shape, np.float32), c)
    assert (c == 5).all()


@xt.kernel
def neighbours(A, C):
    """Three points of a row; two of the tiles begin at odd columns, which block messages of 16 bits do not reach."""
    row, column = xt.group_id(0) * 8, xt.group_id(1) * 32
    left, here, right = (xt.load_tile(xt.init_tile(A, (row, column + i), (8, 32))) for i in (-1, 0, 1))
    xt.store_tile(left + 2 * here - right, xt.init_tile(C, (row, column), (8, 32)))


@pytest.mark.parametrize(("target", "name", "columns", "most"), [
    ("pvc", "f16", 128, 520), ("pvc", "i16", 129, 800), ("bmg", "u8", 131, 700), ("dg2", "i16", 130, 1500)])
def test_tiles_at_any_column_take_a_message_a_word_and_no_branch(target: str, name: str, columns: int,
                                                                 most: int) -> None:
    """With a branch and a loop of bounds-checked words it was two to three times as many instructions."""
    require_ocloc()
    a = RNG.integers(0 if name == "u8" else -60, 60, (19, columns)).astype(dtypes.of(name).numpy)
    c, padded_rows = np.zeros_like(a), np.pad(a, ((0, 0), (1, 1)))
    kernel = neighbours.on(f"machine:{target}")
    kernel[3, 5](a, c)
    np.testing.assert_array_equal(c, padded_rows[:, :-2] + 2 * a - padded_rows[:, 2:])
    ran = kernel.report().execution
    assert ran is not None
    assert sum(ran.instructions.values()) < most * ran.groups


def test_variables_of_whole_rows_or_parts_of_one() -> None:
    """A variable that ends one row and begins another is no piece of a block."""
    def pieces(rows: int, columns: int, width: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        desc = TensorDesc((rows, columns), xt.i8.mlir, BlockTdesc(access="rows"), LaneMap((1, 8)))
        return [(piece.at, piece.shape) for piece in WholeBlock(desc, (0, 0), (rows, columns), 8).pieces(width)]

    assert pieces(2, 32, 2) == [((row, column), (1, 16)) for row in (0, 1) for column in (0, 16)]
    assert pieces(4, 16, 4) == [((0, 0), (2, 16)), ((2, 0), (2, 16))]
    assert len(pieces(3, 24, 1)) == 9
    for rows, columns, width in ((2, 24, 2), (4, 24, 4), (2, 48, 4)):
        with pytest.raises(TargetError, match="XT9400"):
            pieces(rows, columns, width)
