"""Products whose rows of A lie where an index vector says."""

from __future__ import annotations

from typing import Any

import xetile as xt
from benchmarks.trial_kernels.trial import Lowering, Trial, lowering, matrix


@xt.kernel
def rows_of(A: Any, indices: Any, B: Any, C: Any, *, BM: int = 32, BN: int = 64, BK: int = 32) -> None:
    """Product of the rows of A that ``indices`` names, as an expert of a mixture has them."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    rows = xt.load_tile(xt.init_tile(indices, (m, 0), (BM, 1)))
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], BK):
        a = xt.load_tile(xt.init_tile(A, (rows, k), (BM, BK)))
        acc = xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (k, n), (BK, BN))), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def moved_rows(A: Any, indices: Any, B: Any, C: Any, *, BM: int = 16, BN: int = 64, BK: int = 32) -> None:
    """The same with a tile that is made before the loop, and moves."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a = xt.init_tile(A, (xt.load_tile(xt.init_tile(indices, (m, 0), (BM, 1))), 0), (BM, BK))
    b, acc = xt.init_tile(B, (0, n), (BK, BN)), xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


def _gathered(kernel: Any) -> Lowering:
    return lowering(kernel, matrix(xt.bf16), xt.Spec((4096, 1), xt.i32), matrix(xt.bf16), matrix(xt.f32))


TRIALS = (
    Trial("rows of an index vector, bf16", _gathered(rows_of), 0.30),
    Trial("rows of an index vector, a tile that moves, bf16", _gathered(moved_rows), 0.30),
)
