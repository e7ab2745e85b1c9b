"""Rows by an index vector that are used transposed: gathered as columns, in bounds or not, of every alignment."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Array, Execution, first_stages

pytestmark = pytest.mark.unoptimised
MACHINES = [Execution(f"machine:{gpu}", gpu) for gpu in ("pvc", "bmg", "dg2")]
BF16 = ml_dtypes.bfloat16


@xt.kernel
def scores(Q, K, rows, S, first, *, D=64, BN=32, matrix=None, column=None, moved=False):
    """Q times the transposed rows of K that an index vector names, from a column on, steps of rows added up."""
    m, begin = xt.group_id(0) * 8, first if column is None else column
    q = xt.load_tile(xt.init_tile(Q, (m, 0), (8, D)))
    acc = xt.zeros((8, BN), xt.f32 if Q.dtype.is_float else xt.i32)
    for n in xt.range(0, rows.shape[0], BN):
        index = xt.load_tile(xt.init_tile(rows, (n,), (BN,)))
        at = () if matrix is None else (matrix,)
        tile = xt.init_tile(K, (*at, index, begin + n * 2 if moved else begin), (BN, D))
        acc = xt.tile_mma(q, xt.tile_transpose(xt.load_tile(tile)), acc)
    xt.store_tile(acc, xt.init_tile(S, (m, 0), (8, BN)))


def expected(q: Array, k: Array, rows: Array, first: int, constants: dict[str, Any]) -> Array:
    """The same in NumPy; what lies outside K, and rows behind the last index, are zero and row 0."""
    matrix, columns, depth = constants.get("matrix"), constants.get("BN", 32), constants.get("D", 64)
    if matrix is not None:
        k = k[matrix] if matrix < len(k) else np.zeros_like(k[0])
    height, width = k.shape
    framed = np.zeros((height, 1024))
    framed[:, 256:256 + width] = k
    index = np.pad(rows, (0, -len(rows) % columns))
    result = np.zeros((len(q), columns))
    for n in range(0, len(index), columns):
        begin = 256 + first + (2 * n if constants.get("moved") else 0)
        step = np.array([framed[row, begin:begin + depth] if 0 <= row < height else np.zeros(depth)
                         for row in index[n:n + columns]])
        result += q.astype(np.float64) @ step.T
    return result


CASES = {
    "whole rows": (BF16, (50, 64), 0, {}),
    "deeper than a block": (np.float16, (50, 128), 0, {"D": 128, "BN": 16}),
    "three blocks of depth": (BF16, (50, 96), 0, {"D": 96, "column": 0}),
    "a later column": (BF16, (50, 136), 72, {"column": 72}),
    "rows end in a step": (BF16, (50, 72), 16, {"column": 16}),
    "before the first column": (BF16, (50, 64), -2, {"column": -2}),
    "in the middle of a word": (BF16, (50, 64), 3, {}),
    "a matrix of a batch": (BF16, (3, 40, 64), 0, {"matrix": 1}),
    "no matrix of a batch": (BF16, (3, 40, 64), 0, {"matrix": 3}),
    "columns that move": (BF16, (50, 200), 0, {"moved": True, "column": 0}),
    "bytes": (np.int8, (50, 80), 4, {"column": 4}),
    "bytes that end in a word": (np.uint8, (50, 68), 8, {"column": 8}),
    "pitch that messages do not take": (BF16, (50, 51), 0, {}),
}


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_all_executions(case: str, execution: Execution) -> None:
    dtype, shape, first, constants = CASES[case]
    rng = np.random.default_rng(3)
    low = 0 if dtype is np.uint8 else -3
    q, k = (rng.integers(low, 4, size).astype(dtype) for size in ((16, constants.get("D", 64)), shape))
    rows = rng.integers(-2, shape[-2] + 2, 70).astype(np.int32)
    rows[:4] = 0, shape[-2] - 1, shape[-2], -1
    out = np.zeros((16, constants.get("BN", 32)), np.int32 if np.dtype(dtype).kind in "iu" else np.float32)
    execution.bind(scores)[2](q, k, rows, out, first, **constants)
    np.testing.assert_array_equal(out, expected(q, k, rows, first, constants))


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
def test_words_of_32_bits(execution: Execution) -> None:
    @xt.kernel
    def product(Q, K, rows, S):
        index = xt.load_tile(xt.init_tile(rows, (0,), (16,)))
        acc = xt.zeros((8, 16), xt.f32)
        for k in xt.range(0, Q.shape[1], 16):
            b = xt.tile_transpose(xt.load_tile(xt.init_tile(K, (index, k), (16, 16))))
            acc = xt.tile_mma(xt.load_tile(xt.init_tile(Q, (0, k), (8, 16))), b, acc)
        xt.store_tile(acc, xt.init_tile(S, (0, 0), (8, 16)))

    rng = np.random.default_rng(4)
    q, k = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((8, 40), (30, 40)))
    rows, out = rng.integers(-1, 32, 16), np.zeros((8, 16), np.float32)
    narrow = "tf32" if execution.target in ("pvc", "bmg") else "f32"
    execution.bind(product)[1](xt.view(q, narrow), xt.view(k, narrow), rows, out)
    named = np.where(((rows >= 0) & (rows < 30))[:, None], k[np.clip(rows, 0, 29)], 0)
    np.testing.assert_array_equal(out, q @ named.T)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_gathers_of_several_loops(execution: Execution) -> None:
    """Gathers that have to be asked about beside those that move along, in a loop and in one inside that one."""
    @xt.kernel
    def product(Q, K, L, rows, S, first):
        q, acc = xt.load_tile(xt.init_tile(Q, (0, 0), (8, 32))), xt.zeros((8, 16), xt.f32)
        for n in xt.range(0, rows.shape[0], 16):
            index = xt.load_tile(xt.init_tile(rows, (n,), (16,)))
            for tile in (xt.init_tile(K, (n // 16, index, first * 2), (16, 32)), xt.init_tile(L, (index, n), (16, 32))):
                acc = xt.tile_mma(q, xt.tile_transpose(xt.load_tile(tile)), acc)
            for k in xt.range(0, 32, 16):
                for tile in (xt.init_tile(L, (index, first * 4), (16, 32)), xt.init_tile(L, (index, k), (16, 32))):
                    acc = xt.tile_mma(q, xt.tile_transpose(xt.load_tile(tile)), acc)
        xt.store_tile(acc, xt.init_tile(S, (0, 0), (8, 16)))

    rng = np.random.default_rng(6)
    q, k, wide = (rng.integers(-3, 4, shape).astype(BF16) for shape in ((8, 32), (3, 30, 48), (30, 72)))
    rows = rng.integers(0, 30, 64).astype(np.int32)
    exact = np.zeros((8, 16), np.float32)
    for step, index in enumerate(rows.reshape(4, 16)):
        parts = [k[step, :, 16:48] if step < 3 else np.zeros((30, 32)), *(wide[:, at:at + 32] for at in (
            16 * step, 32, 0, 32, 16))]
        for part in parts:
            columns = np.pad(np.float32(part), ((0, 0), (0, 32 - part.shape[1])))
            exact += q.astype(np.float32) @ columns[index].T
    out = np.zeros_like(exact)
    execution.bind(product)[1](q, k, wide, rows, out, 8)
    np.testing.assert_array_equal(out, exact)


def test_the_order_of_reads_and_writes_stays() -> None:
    """A gather behind a store reads what was stored, with an index that was loaded before another store."""
    @xt.kernel
    def written(Q, K, rows, S):
        acc = xt.zeros((8, 16), xt.f32)
        for n in xt.range(0, 32, 16):
            place = xt.init_tile(rows, (0, 0), (16, 1))
            index = xt.load_tile(place)
            xt.store_tile(xt.zeros((16, 1), xt.i32), place)
            tile = xt.init_tile(K, (n, 0), (16, 32))
            xt.store_tile(xt.load_tile(tile) * 2, tile)
            keys = xt.load_tile(xt.init_tile(K, (index + n.to(xt.i32), 0), (16, 32)))
            acc = xt.tile_mma(xt.load_tile(xt.init_tile(Q, (0, 0), (8, 32))), xt.tile_transpose(keys), acc)
        xt.store_tile(acc, xt.init_tile(S, (0, 0), (8, 16)))

    rng = np.random.default_rng(5)
    q, k = (rng.integers(-3, 4, shape).astype(BF16) for shape in ((8, 32), (32, 32)))
    order = rng.permutation(16).astype(np.int32)
    wide = 2 * k.astype(np.float32)
    exact = q.astype(np.float32) @ (wide[:16][order] + wide[16:][np.zeros(16, int)]).T
    for where in ("numpy", "numpy:xegpu"):
        out, rows = np.zeros((8, 16), np.float32), order.reshape(16, 1).copy()
        written.on(where, target="pvc")[1](q, k.copy(), rows, out)
        np.testing.assert_array_equal(out, exact)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_machine_code(target: str) -> None:
    """A lane reads words of its own row: few messages, and nothing is moved to transpose them."""
    require_ocloc()
    wide, narrow = (xt.Spec((None, None), dtype) for dtype in ("bf16", "f32"))
    report = scores.lower(wide, wide, xt.Spec((None,), "i32"), narrow, 0, target=target, column=0).report()
    assert report.spill_size == report.private_size == 0
    assert report.loop["vector"] < 80  # 2,300 where 32 x 64 elements are gathered, then transposed


def test_columns_that_are_computed_in_the_loop() -> None:
    """A head's first column is the same in all steps, wherever the author computes it."""
    @xt.kernel
    def product(Q, K, rows, S):
        q, acc = xt.load_tile(xt.init_tile(Q, (0, 0), (8, 64))), xt.zeros((8, 16), xt.f32)
        for n in xt.range(0, rows.shape[0], 16):
            index = xt.load_tile(xt.init_tile(rows, (n,), (16,)))
            keys = xt.load_tile(xt.init_tile(K, (index, xt.group_id(0) * 64), (16, 64)))
            acc = xt.tile_mma(q, xt.tile_transpose(keys), acc)
        xt.store_tile(acc, xt.init_tile(S, (0, xt.group_id(0) * 16), (8, 16)))

    wide, narrow = (xt.Spec((None, None), dtype) for dtype in ("bf16", "f32"))
    stages = first_stages(product.lower(wide, wide, xt.Spec((None,), "i32"), narrow, target="pvc"))
    assert "load_columns" in stages["transpose-gathers"]


def test_what_stays() -> None:
    """Gathers that something else uses as well, and those of computed positions."""
    @xt.kernel
    def both(A, rows, B, C):
        index = xt.load_tile(xt.init_tile(rows, (0,), (16,)))
        value = xt.load_tile(xt.init_tile(A, (index, 0), (16, 16)))
        xt.store_tile(value, xt.init_tile(B, (0, 0), (16, 16)))
        xt.store_tile(xt.tile_transpose(value), xt.init_tile(C, (0, 0), (16, 16)))

    matrix = xt.Spec((None, None), "f32")
    stages = first_stages(both.lower(matrix, xt.Spec((None,), "i32"), matrix, matrix))
    assert "transpose-gathers" not in stages
