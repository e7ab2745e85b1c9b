"""Weights of 4 bits, two columns in a byte, with rows of zero points and scales of every kind, and what they take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.trial_kernels.quantized_weights import pairs_of_four_bits
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution
from tests.xetile.lang.matmul.test_dequantized_operands import MACHINES, TYPES

pytestmark = pytest.mark.unoptimised

ZEROS = {"rounded": None, "bytes": np.int8, "a number": 3, "no zeros": 0}
"""Types of zero points, of which the first is that of A, or one for all."""
NUMBERS = (0.37, -0.0, np.nan, -1.75, np.inf, 3e-5, -0.011, 21.5)
"""Scales of columns, in turn."""
LESS = (7.5, -0.0, 1e-4, 8, 0.3, np.nan, -np.inf, 1e-6, 2.0**-12, 100.5, 15)
"""Zero points of columns, in turn; some are smaller than the last place of a bias."""


@xt.kernel
def along_n(A: Any, W: Any, S: Any, Z: Any, C: Any, *, zero: int | None, scaled: bool = True, BN: int = 64) -> None:
    n, acc = xt.group_id(0) * BN, xt.zeros((32, BN), xt.f32)
    for k in xt.range(0, A.shape[1], 32):
        weights = xt.load_tile(xt.init_tile(W, (k, n), (32, BN))).to(A.dtype)
        scale, stored = (xt.load_tile(xt.init_tile(each, (k // 32, n), (1, BN))) for each in (S, Z))
        if zero != 0:
            weights = weights - (stored.to(A.dtype) if zero is None else zero)
        a = xt.load_tile(xt.init_tile(A, (0, k), (32, 32)))
        acc = xt.tile_mma(a, weights * scale if scaled else weights, acc)
    xt.store_tile(acc, xt.init_tile(C, (0, n), (32, BN)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, *MACHINES], ids=str)
@pytest.mark.parametrize("wide", [True, False], ids=["64", "16"])
@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("kind", [xt.u4, xt.i4], ids=str)
@pytest.mark.parametrize("name", TYPES)
def test_every_weight_with_zeros_and_scales_of_all_kinds(name: str, kind: Any, zeros: str, wide: bool,
                                                         execution: Execution) -> None:
    """Bit for bit as it is written, for all 16 weights, numbers of both signs, infinite ones and NaN."""
    dtype, columns, low = TYPES[name], 70, -8 if kind is xt.i4 else 0
    rng, less = np.random.default_rng(5), ZEROS[zeros]
    stored = np.arange(64 * columns).reshape(columns, 64).T % 16 + low
    scales = np.resize(np.array(NUMBERS, np.float32), (2, columns)).astype(dtype)
    rows: Any = np.resize(np.array(LESS, np.float32), (2, columns)).astype(dtype)
    if less is np.int8:
        rows = rng.integers(-128, 128, (2, columns), np.int8)
    zero = less if isinstance(less, int) else None
    group = np.arange(64) // 32
    with np.errstate(all="ignore"):
        taken = rows[group].astype(np.float32) if zero is None else np.float32(zero)
        weights = (stored - taken).astype(dtype).astype(np.float32)
        weights = (weights * scales[group].astype(np.float32)).astype(dtype).astype(np.float32)
        a = np.eye(64, dtype=np.float32)[rng.permutation(64)[:32]]
        expected = a @ weights
    c = np.full((32, columns), 99, np.float32)
    packed = xt.pack(stored.astype(np.uint8 if low == 0 else np.int8), kind, -1)
    tile = 64 if wide else 16
    execution.bind(along_n)[-(-columns // tile)](a.astype(dtype), packed, scales, rows, c, zero=zero, BN=tile)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("name", "most"), [("f16", 257), ("bf16", 385)])
def test_instructions_for_pairs(name: str, most: int, target: str) -> None:
    """Four for 32 weights of f16 and six of bf16, and those of rows; numbers of lanes come before the loop."""
    require_ocloc()
    matrix, rows = xt.Spec((4096, 4096), name), xt.Spec((32, 4096), name)
    report = pairs_of_four_bits.lower(matrix, xt.Spec((4096, 4096), xt.u4), rows, rows, xt.Spec((4096, 4096), xt.f32),
                                      target=target, step=32).report(remedies=False)
    assert report.spill_size + report.private_size == 0
    assert report.loop["vector"] * 32 / report.loop["dpas"] <= most
