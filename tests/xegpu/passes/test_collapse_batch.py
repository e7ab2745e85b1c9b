"""Loops over the matrices of a batch: all as one where they lie behind each other, each by itself where they do not."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import Execution
from xegpu.ir import dtypes

RNG = np.random.default_rng(11)
VIEWS = ("plain", "transposed", "rows apart", "matrices apart", "every other", "all reversed", "odd start",
         "16 bytes on")


@xt.kernel
def products(A, B, C, each, *, M=16, N=16, K=16, first_row=0, acc=xt.f32):
    """Several products a subgroup, as the tutorial's tiles write them."""
    first = xt.group_id(0) * each
    for i in xt.range(first, first + each):
        a = xt.load_tile(xt.init_tile(A, (i, first_row, 0), (M, K)))
        b = xt.load_tile(xt.init_tile(B, (i, 0, 0), (K, N)))
        c = xt.tile_mma(a, b, xt.zeros((M, N), acc))
        xt.store_tile(c.to(C.dtype), xt.init_tile(C, (i, first_row, 0), (M, N)))


@xt.kernel
def products_of_one(A, B, C, each):
    """The same, stored one below the other to one matrix."""
    first = xt.group_id(0) * each
    for i in xt.range(first, first + each):
        c = xt.tile_mma(xt.load_tile(xt.init_tile(A, (i, 0, 0), (16, 16))),
                        xt.load_tile(xt.init_tile(B, (i, 0, 0), (16, 16))))
        xt.store_tile(c.to(C.dtype), xt.init_tile(C, (i * 16, 0), (16, 16)))


@xt.kernel(may_alias=True)
def products_of_heads(A, B, C, D, each):
    """Products of two heads of a batch with the same B."""
    for i in xt.range(0, each):
        b = xt.load_tile(xt.init_tile(B, (i, 0, 0), (64, 64)))
        heads = [xt.load_tile(xt.init_tile(A, (head, i, 0, 0), (40, 64))) for head in (0, 1)]
        for product, array in zip([xt.tile_mma(a, b) for a in heads], (C, D), strict=True):
            xt.store_tile(product.to(array.dtype), xt.init_tile(array, (i, 0, 0), (40, 64)))


@xt.kernel(may_alias=True)
def products_in_place(A, B, D, each, *, M, N, first):
    """Products of matrices that are loaded twice: with B, stored in their place before or behind the second load, and
    of what is there then with B."""
    for i in xt.range(0, each):
        b, a = xt.load_tile(xt.init_tile(B, (i, 0, 0), (N, N))), xt.init_tile(A, (i, 0, 0), (M, N))
        c = xt.tile_mma(xt.load_tile(a), b).to(A.dtype)
        if first == "store":
            xt.store_tile(c, xt.init_tile(A, (i, 0, 0), (M, N)))
        again = xt.load_tile(a)
        if first == "load":
            xt.store_tile(c, xt.init_tile(A, (i, 0, 0), (M, N)))
        xt.store_tile(xt.tile_mma(again, b).to(D.dtype), xt.init_tile(D, (i, 0, 0), (M, N)))


@xt.kernel
def streamed(A, B, C, each):
    """Products of matrices that are read once."""
    for i in xt.range(0, each):
        a = xt.load_tile(xt.init_tile(A, (i, 0, 0), (16, 16)), l1="streaming")
        b = xt.load_tile(xt.init_tile(B, (i, 0, 0), (16, 16)), l1="uncached")
        xt.store_tile(xt.tile_mma(a, b), xt.init_tile(C, (i, 0, 0), (16, 16)))


@xt.kernel
def doubled(A, B, C, each):
    """Products with one A, which are stored, and read and stored once more through the same tile."""
    a = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))
    for i in xt.range(0, each):
        tile = xt.init_tile(C, (i, 0, 0), (8, 16))
        xt.store_tile(xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (i, 0, 0), (32, 16)))), tile)
        xt.store_tile(xt.load_tile(tile) * 2, tile)


@xt.kernel
def less_their_maxima(A, B, C, each, *, M, N, K, axis):
    """Products less the largest element of each row or column, zeros behind the ends of matrices among them."""
    for i in xt.range(0, each):
        a, b = xt.load_tile(xt.init_tile(A, (i, 0, 0), (M, K))), xt.load_tile(xt.init_tile(B, (i, 0, 0), (K, N)))
        c = xt.tile_mma(a, b)
        xt.store_tile(c - xt.tile_reduce("max", c, axis), xt.init_tile(C, (i, 0, 0), (M, N)))


@xt.kernel
def sums_of_heads(A, B, C, start, step, *, unroll=None):
    """Sums of products of some heads of a batch, each head with the next one's B; the loop's step is known at run time,
    unless it is unrolled."""
    batch = xt.group_id(0)
    c = xt.zeros((16, 16), xt.f32)
    for h in xt.range(start, A.shape[1], step if unroll is None else 2, unroll=unroll):
        c = xt.tile_mma(xt.load_tile(xt.init_tile(A, (batch, h, 0, 0), (16, 16))),
                        xt.load_tile(xt.init_tile(B, (batch, h + 1, 0, 0), (16, 16))), c)
    xt.store_tile(c, xt.init_tile(C, (batch, 0, 0), (16, 16)))


@xt.kernel
def in_two_orders(A, B, C, D, each):
    """Products of matrices that no tile fits, stored from left to right, and once more from right to left."""
    for i in xt.range(0, each):
        a, b = xt.load_tile(xt.init_tile(A, (i, 0, 0), (16, 16))), xt.init_tile(B, (i, 0, 0), (16, 16))
        left, right = xt.tile_mma(a, xt.load_tile(b)), xt.tile_mma(a, xt.load_tile(xt.update_tile_offset(b, 0, 16)))
        c, d = xt.init_tile(C, (i, 0, 0), (16, 16)), xt.init_tile(D, (i, 0, 0), (16, 16))
        xt.store_tile(left, c)
        xt.store_tile(right, xt.update_tile_offset(c, 0, 16))
        xt.store_tile(right, xt.update_tile_offset(d, 0, 16))
        xt.store_tile(left, d)


@xt.kernel
def parts_of_products(A, B, C, each, *, M, rows, columns):
    """Products of tiles at some rows and columns of matrices, each stored where it belongs, or at other columns."""
    for i in xt.range(0, each):
        a, b, c = (xt.init_tile(array, (i, 0, 0), shape)
                   for array, shape in ((A, (M, 32)), (B, (32, 16)), (C, (M, 16))))
        for row in rows:
            for column, to in columns:
                part = xt.tile_mma(xt.load_tile(xt.update_tile_offset(a, row, 0)),
                                   xt.load_tile(xt.update_tile_offset(b, 0, column)))
                xt.store_tile(part, xt.update_tile_offset(c, row, to))


def view(values: np.ndarray, kind: str) -> np.ndarray:
    """The values in memory of another kind, filled up with threes."""
    n, rows, columns = values.shape
    shape, part = {
        "plain": (values.shape, np.s_[:]), "rows apart": ((n, rows, columns + 16), np.s_[:, :, :columns]),
        "matrices apart": ((n, rows + 2, columns), np.s_[:, :rows]),
        "every other": ((2 * n, rows, columns), np.s_[::2]),
        "all reversed": (values.shape, np.s_[::-1, ::-1]), "transposed": ((n, columns, rows), np.s_[:]),
        "odd start": ((values.size + 1,), np.s_[1:]),
        "16 bytes on": ((values.size + 16 // values.itemsize,), np.s_[16 // values.itemsize:]),
    }[kind]
    size = prod(shape) * values.itemsize
    memory = np.empty(size + 64, np.uint8)  # a surface of 2D block messages begins at a multiple of 64 bytes
    memory = memory[-memory.ctypes.data % 64:][:size].view(values.dtype)
    memory[...] = 3
    found = memory.reshape(shape)[part]
    found = {"transposed": lambda: found.swapaxes(1, 2), "odd start": lambda: found.reshape(values.shape),
             "16 bytes on": lambda: found.reshape(values.shape)}.get(kind, lambda: found)()
    found[...] = values
    return found


def check(execution: Execution, size: tuple[int, int, int], kinds: tuple[str, str, str], dtype: str = "bf16",
          out: Any = np.float32, *, count: int = 12, each: int = 7, first_row: int = 0) -> None:
    """Random integers, the results and all that lies beside them; by default four products at once and single ones."""
    rows, columns, depth = size
    element, k = dtypes.of(dtype).numpy, 16 if dtypes.of(dtype).is_float else 32
    a, b = (view(RNG.integers(-4, 5, shape).astype(element), kind)
            for shape, kind in zip(((count, rows, depth), (count, depth, columns)), kinds, strict=False))
    c = view(np.full((count, rows, columns), 7, out), kinds[2])
    memory = c
    while memory.base is not None and memory.base.dtype == c.dtype:
        memory = memory.base
    beside = memory.copy()
    execution.bind(products)[-(-count // each) + 1](
        a, b, c, each, M=-(-rows // 8) * 8, N=-(-columns // 16) * 16, K=-(-depth // k) * k, first_row=first_row,
        acc=xt.f32 if dtypes.of(dtype).is_float else xt.i32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    expected[:, :first_row] = 7
    np.testing.assert_array_equal(c.astype(np.float64), expected.astype(out).astype(np.float64))
    c[...] = 7
    np.testing.assert_array_equal(memory.astype(np.float64), beside.astype(np.float64))


EXECUTIONS = [Execution("numpy:xegpu", "bmg"), Execution("numpy:xegpu", "dg2"), Execution("opencl:cpu", "bmg"),
              Execution("opencl:cpu", "dg2"), Execution("numpy:xegpu", "pvc"), Execution("opencl:cpu", "pvc"),
              Execution("machine:pvc", "pvc"), Execution("machine:bmg", "bmg")]


@pytest.mark.parametrize("kind", VIEWS)
@pytest.mark.parametrize("execution", EXECUTIONS[:1] + EXECUTIONS[2:3], ids=str)
def test_any_view_of_an_operand_gives_the_same_products(execution: Execution, kind: str) -> None:
    for position in range(3):
        kinds = tuple(kind if at == position else "plain" for at in range(3))
        check(execution, (16, 16, 16), kinds)  # type: ignore[arg-type]


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize(("size", "dtype", "out"), [
    ((16, 16, 16), "bf16", ml_dtypes.bfloat16), ((16, 16, 16), "f16", np.float32), ((32, 32, 32), "bf16", np.float32),
    ((32, 16, 16), "bf16", np.float32), ((16, 32, 16), "bf16", np.float32), ((16, 16, 32), "f16", np.float32),
    ((16, 16, 32), "i8", np.int32),
    ((32, 32, 32), "u8", np.int32), ((24, 24, 24), "f16", np.float16),
    ((13, 16, 16), "bf16", np.float32), ((16, 16, 16), "f32", np.float32), ((17, 17, 17), "bf16", np.float32),
    ((33, 33, 33), "f16", np.float16), ((40, 40, 40), "bf16", np.float32), ((17, 35, 33), "i8", np.int32),
    ((20, 22, 26), "u8", np.int32), ((28, 20, 36), "f16", np.float16), ((40, 40, 40), "i8", np.int32),
    ((28, 24, 48), "u8", np.int32), ((28, 28, 28), "i8", np.int32), ((33, 33, 33), "bf16", np.float32),
    ((32, 17, 33), "f16", np.float32), ((48, 33, 17), "i8", np.int32), ((35, 34, 21), "bf16", ml_dtypes.bfloat16),
    ((42, 42, 7), "i8", np.int8), ((44, 44, 44), "f16", np.float32), ((46, 45, 46), "bf16", np.float32),
    ((48, 48, 48), "i8", np.int32), ((36, 36, 36), "bf16", np.float32)])
def test_every_type_and_size(size: tuple[int, int, int], dtype: str, out: Any, execution: Execution) -> None:
    check(execution, size, ("plain", "plain", "plain"), dtype, out)


@pytest.mark.parametrize("execution", [*EXECUTIONS[:1], *EXECUTIONS[2:3], *EXECUTIONS[5:]], ids=str)
@pytest.mark.parametrize(("rows", "columns", "depth", "dtype"), [
    (17, 17, 17, "bf16"), (20, 20, 20, "i8"), (40, 40, 40, "bf16"), (33, 47, 31, "bf16"), (24, 24, 24, "bf16"),
    (28, 20, 36, "bf16"), (22, 28, 22, "f16"), (33, 33, 33, "bf16")])
def test_matrices_beside_one_do_not_reach_into_it(rows: int, columns: int, depth: int, dtype: str,
                                                  execution: Execution) -> None:
    """Rows that no tile fits end where those of the next matrix begin, which are not zeros."""
    kind = dtypes.of(dtype)
    a, b = (view(RNG.integers(-4, 5, shape).astype(kind.numpy), "plain")
            for shape in ((7, rows, depth), (7, depth, columns)))
    if kind.is_float:
        a[1::2], b[1::2] = np.inf, np.nan
    c = view(np.full((7, rows, columns), 7, np.float32 if kind.is_float else np.int32), "plain")
    k = 16 if kind.is_float else 32
    execution.bind(products)[2](a, b, c, 4, M=-(-rows // 8) * 8, N=-(-columns // 16) * 16, K=-(-depth // k) * k,
                                acc=xt.f32 if kind.is_float else xt.i32)
    np.testing.assert_array_equal(c[::2], a[::2].astype(c.dtype) @ b[::2].astype(c.dtype))


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_what_other_rows_and_columns_are_needed_for(target: str) -> None:
    """Where a step reads rows of other matrices, and columns of other rows, nothing that is stored depends on them."""
    a, b = (view(sign * RNG.integers(1, 5, shape).astype(ml_dtypes.bfloat16), "plain")  # zeros are larger than sums
            for sign, shape in ((-1, (4, 28, 24)), (1, (4, 24, 20))))
    for axis in (0, 1):
        c = view(np.full((4, 28, 20), 7, np.float32), "plain")
        less_their_maxima.on("numpy:xegpu", target=target)[1](a, b, c, 4, M=32, N=32, K=32, axis=axis)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32), f"axis {axis}")


def test_results_that_are_put_together_in_two_ways() -> None:
    a, b = (RNG.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((5, 13, 11), (5, 11, 20)))
    c, d = np.full((2, 5, 13, 20), 7, np.float32)
    in_two_orders.on("opencl:cpu", target="pvc")[1](a, b, c, d, 5)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(d, expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("size", "tile", "rows", "columns"), [
    (24, 8, (0,), ((0, 0), (16, 16))), (24, 16, (0,), ((0, 0), (16, 16))), (24, 16, (0, 16), ((0, 0), (16, 16))),
    (24, 32, (0,), ((0, 0), (16, 16))), (28, 16, (0,), ((0, 0), (16, 16))), (24, 24, (0,), ((0, 16), (16, 0))),
    (24, 24, (0, 24), ((0, 0),)), (16, 8, (0,), ((0, 0),)), (28, 32, (0, 32, 64), ((0, 0), (16, 16))),
    (31, 32, (0,), ((0, 0), (16, 16))), (31, 16, (0,), ((0, 0), (16, 16))), (31, 16, (0, 16), ((0, 16), (16, 0))),
    (31, 32, (0, 32), ((0, 16),)), (31, 24, (0, 24), ((0, 0), (16, 16)))])
def test_tiles_of_some_rows_and_columns(size: int, tile: int, rows: tuple[int, ...],
                                        columns: tuple[tuple[int, int], ...], target: str) -> None:
    """Tiles that leave out rows of matrices, go beyond them, or put columns elsewhere."""
    a, b = (view(RNG.integers(-4, 5, (6, size, size)).astype(ml_dtypes.bfloat16), "plain") for _ in range(2))
    c = view(np.full((6, size, size), 7, np.float32), "plain")
    parts_of_products.on("numpy:xegpu", target=target)[1](a, b, c, 6, M=tile, rows=rows, columns=columns)
    padded = np.zeros((6, 128, 32), np.float32)
    padded[:, :size, :size] = a.astype(np.float32) @ b.astype(np.float32)
    expected = np.full_like(padded, 7)
    for row in rows:
        for column, to in columns:
            expected[:, row:row + tile, to:to + 16] = padded[:, row:row + tile, column:column + 16]
    np.testing.assert_array_equal(c, expected[:, :size, :size])


def test_batches_of_no_matrix_and_tiles_that_leave_theirs() -> None:
    for count, first_row in ((0, 0), (1, 0), (3, 8), (9, 8), (3, 0)):
        check(EXECUTIONS[0], (16, 16, 16), ("plain", "plain", "plain"), count=count, first_row=first_row)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("kernel", [products, products_of_one])
def test_products_that_overwrite_operands_of_later_ones(kernel: Any, target: str) -> None:
    """The matrices of four products are loaded at once only where none of them is stored before."""
    n = 9
    memory = view(RNG.integers(-4, 5, (n + 1, 16, 16)).astype(ml_dtypes.bfloat16), "plain")
    b = view(np.stack([np.eye(16)[RNG.permutation(16)] for _ in range(n)]).astype(ml_dtypes.bfloat16), "plain")
    expected = memory.astype(np.float32)
    for i in range(n):
        expected[i + 1] = expected[i] @ b[i].astype(np.float32)
    c = memory[1:] if kernel is products else memory[1:].reshape(n * 16, 16)
    xt.kernel(may_alias=True)(kernel.function).on("numpy:xegpu", target=target)[1](memory[:-1], b, c, n)
    np.testing.assert_array_equal(memory.astype(np.float32), expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_products_that_overwrite_rows_of_their_operand(target: str) -> None:
    """Rows of A are loaded behind what is stored only where that is none of them."""
    n, rows, size = 3, 40, 60
    memory = view(RNG.integers(-4, 5, (1, n * rows + 16, size)).astype(ml_dtypes.bfloat16), "plain")[0]
    b = view(np.stack([np.eye(size)[RNG.permutation(size)] for _ in range(n)]).astype(ml_dtypes.bfloat16), "plain")
    expected = memory.astype(np.float32)
    for i in range(n):
        product = expected[i * rows:(i + 1) * rows] @ b[i].astype(np.float32)
        expected[i * rows + 16:(i + 1) * rows + 16] = product
    a, c = (part.reshape(n, rows, size) for part in (memory[:-16], memory[16:]))
    xt.kernel(may_alias=True)(products.function).on("numpy:xegpu", target=target)[1](a, b, c, n, M=rows, N=64, K=64)
    np.testing.assert_array_equal(memory.astype(np.float32), expected)


@pytest.mark.parametrize("first", ["store", "load"])
@pytest.mark.parametrize(("rows", "size", "M", "N"), [(36, 36, 40, 48), (16, 60, 16, 64), (24, 24, 24, 32)])
def test_blocks_that_are_loaded_twice_in_a_step(rows: int, size: int, M: int, N: int, first: str) -> None:
    n = 3
    a = view(RNG.integers(-4, 5, (n, rows, size)).astype(ml_dtypes.bfloat16), "plain")
    b = view(np.stack([np.eye(size)[RNG.permutation(size)] for _ in range(n)]).astype(ml_dtypes.bfloat16), "plain")
    d = view(np.zeros((n, rows, size), ml_dtypes.bfloat16), "plain")
    once = a.astype(np.float32) @ b.astype(np.float32)
    products_in_place.on("numpy:xegpu", target="pvc")[1](a, b, d, n, M=M, N=N, first=first)
    np.testing.assert_array_equal(a.astype(np.float32), once)
    np.testing.assert_array_equal(d.astype(np.float32), once @ b.astype(np.float32) if first == "store" else once)


@pytest.mark.parametrize("head", [0, 1])
def test_products_that_overwrite_rows_of_one_of_two_heads(head: int) -> None:
    """Rows of both heads of A are loaded behind what is stored only where that is none of either."""
    n, rows, size = 2, 40, 60
    memory = view(RNG.integers(-4, 5, (1, 2 * (n + 1) * rows, size)).astype(ml_dtypes.bfloat16), "plain")[0]
    b = view(np.stack([np.eye(size)[RNG.permutation(size)] for _ in range(n)]).astype(ml_dtypes.bfloat16), "plain")
    d = view(np.zeros((n, rows, size), ml_dtypes.bfloat16), "plain")
    expected, expected_d, start = memory.astype(np.float32), np.zeros((n, rows, size), np.float32), (n + 1) * rows
    for i in range(n):
        first, second = (expected[at + i * rows:][:rows] @ b[i].astype(np.float32) for at in (0, start))
        expected[head * start + i * rows + 16:][:rows], expected_d[i] = first, second
    a, c = memory.reshape(2, n + 1, rows, size), memory[head * start + 16:][:n * rows].reshape(n, rows, size)
    products_of_heads.on("numpy:xegpu", target="pvc")[1](a, b, c, d, n)
    np.testing.assert_array_equal(memory.astype(np.float32), expected)
    np.testing.assert_array_equal(d.astype(np.float32), expected_d)


@pytest.mark.parametrize("execution", EXECUTIONS[4:7], ids=str)
def test_results_that_are_read_again_in_their_step(execution: Execution) -> None:
    """Stores do not move behind the loads of what they stored."""
    a, b = (RNG.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((8, 32), (5, 32, 16)))
    c = view(np.full((5, 8, 16), 7, np.float32), "plain")
    execution.bind(doubled)[1](a, view(b, "plain"), c, 5)
    np.testing.assert_array_equal(c, 2 * (a.astype(np.float32) @ b.astype(np.float32)))


@pytest.mark.parametrize("execution", EXECUTIONS[:4:2], ids=str)
@pytest.mark.parametrize("unroll", [None, 2])
def test_one_of_several_leading_dimensions_and_sums_over_it(unroll: int | None, execution: Execution) -> None:
    a, b = (RNG.integers(-4, 5, (3, 6, 16, 16)).astype(ml_dtypes.bfloat16) for _ in range(2))
    shifted = np.concatenate([b[:, 1:], np.zeros_like(b[:, :1])], axis=1).astype(np.float32)
    for start, step in ((0, 2), (1, 2), (-2, 2), (6, 2)):
        c = np.full((3, 16, 16), 7, np.float32)
        execution.bind(sums_of_heads)[3](a, b, c, start, step, unroll=unroll)
        heads = range(start, 6, step)
        expected = sum((a[:, h].astype(np.float32) @ shifted[:, h] for h in heads if h >= 0), np.zeros_like(c))
        np.testing.assert_array_equal(c, expected, f"from {start}")


@pytest.mark.parametrize(("each", "loops"), [(4, 1), (3, 2)])
def test_the_first_loops_do_all_of_contiguous_arrays_and_nothing_of_others(each: int, loops: int) -> None:
    """The other ones are taken out of the text of the stage: four products are one step of the first."""
    array, result = xt.Spec((None, 16, 16), "bf16"), xt.Spec((None, 16, 16), "f32")
    text = products.lower(array, array, result, 2, target="pvc").stages["collapse-batch"]
    following = list(re.finditer(r"scf\.for %\w+ = (%next\w*) to (%\w+)", text))
    assert len(following) == 2, "each loop goes on where the one before it ended"
    for other in reversed(following[loops - 1:]):
        text = text[:other.start(2)] + other[1] + text[other.end(2):]
    a, b = (RNG.integers(-4, 5, (each, 16, 16)).astype(ml_dtypes.bfloat16) for _ in range(2))
    read = xt.parse(text)["products"]
    for kind in VIEWS:
        c = view(np.full((each, 16, 16), 7, np.float32), "plain")
        read.on("numpy")[1](view(a, kind), view(b, "plain"), c, each)
        done = kind == "plain" or (kind == "16 bytes on" and loops == 2)  # block messages take multiples of 64
        expected = a.astype(np.float32) @ b.astype(np.float32) if done else np.full_like(c, 7)
        np.testing.assert_array_equal(c, expected, kind)


def test_loads_of_several_matrices_keep_their_cache_hints() -> None:
    array, result = xt.Spec((None, 16, 16), "bf16"), xt.Spec((None, 16, 16), "f32")
    text = streamed.lower(array, array, result, 8, target="pvc").stages["collapse-batch"]
    loads = [line for line in text.splitlines() if "load_nd" in line]
    assert len(loads) == 6, "two in each of the three loops"
    assert ["streaming" if "streaming" in line else "uncached" * ("uncached" in line) for line in loads] == \
        3 * ["streaming", "uncached"]


@pytest.mark.parametrize(("size", "dtype", "pvc", "bmg"), [
    (16, "bf16", 20, 16), (32, "bf16", 56, 31), (17, "bf16", 195, 170), (24, "bf16", 84, 70), (28, "bf16", 190, 165),
    (33, "bf16", 425, 365), (40, "i8", 285, 225), (48, "i8", 230, 175), (44, "bf16", 355, 260),
    (46, "bf16", 730, 565), (36, "bf16", 315, 232)])
@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_addresses_and_bounds_are_not_asked_for_again_in_each_step(size: int, dtype: str, pvc: int, bmg: int,
                                                                   target: str) -> None:
    require_ocloc()
    is_float, k = dtypes.of(dtype).is_float, 32 // dtypes.of(dtype).bytes
    array, result = xt.Spec((10000, size, size), dtype), xt.Spec((10000, size, size), "f32" if is_float else "i32")
    rows, columns, depth = (-(-size // multiple) * multiple for multiple in (8, 16, k))
    report = products.lower(array, array, result, 8, target=target, M=rows, N=columns, K=depth,
                            acc=result.dtype).report(remedies=False)
    steps = report.loop["dpas"] // (rows * columns * depth // (8 * 16 * k))
    assert report.spill_size + report.private_size == 0
    assert report.hot.total <= {"pvc": pvc, "bmg": bmg}[target] * steps


def test_the_report_names_the_loop_that_it_counts() -> None:
    """Matrices that do not lie behind each other are left to the second loop, which is not the one that is counted."""
    require_ocloc()
    specs = [xt.Spec((None, 64, 64), dtype) for dtype in ("f16", "f16", "f32")]
    report = products.lower(*specs, 8, target="pvc", M=32, N=32, K=32).report(remedies=False)
    (second,) = report.mix.others
    assert second.categories["dpas"] == report.loop["dpas"] == 16
    assert second.total > report.hot.total
    (note,) = [note for note in report.table().notes if "over the batch" in note]
    assert "A with 32 rows or more, B with 32 rows or more, C with 32 rows or more; " in note
    assert f"a loop of {second.total} instructions, of which 16 are dpas" in note
    first_row = products.lower(*specs, 8, target="pvc", M=32, N=32, K=32, first_row=8).report(remedies=False)
    assert "A with 40 rows or more, B with 32" in str(first_row)
