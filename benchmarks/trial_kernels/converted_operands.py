"""Products whose operands are converted to one element type in registers: 8-bit floats and integers."""

from __future__ import annotations

from typing import Any

import xetile as xt
from benchmarks.trial_kernels.trial import Lowering, Trial, lowering, matrix


@xt.kernel
def converted(A: Any, B: Any, C: Any, *, BM: int = 32, BN: int = 64, BK: int = 32, to: Any = xt.f16) -> None:
    """Product of operands that are converted to one element type by ``.to`` where they have another."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    acc = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a).to(to), xt.load_tile(b).to(to), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


def _converted(left: Any, right: Any, to: Any = xt.f16, tile: tuple[int, int] = (32, 64)) -> Lowering:
    return lowering(converted, matrix(left), matrix(right), matrix(xt.f32), to=to, BM=tile[0], BN=tile[1])


TRIALS = (
    Trial("e4m3 x e4m3 by .to(f16)", _converted(xt.e4m3, xt.e4m3), 450, dense=False),
    Trial("e5m2 x e5m2 by .to(f16)", _converted(xt.e5m2, xt.e5m2), 450, dense=False),
    Trial("e4m3 x e4m3 by .to(bf16)", _converted(xt.e4m3, xt.e4m3, xt.bf16), 450, dense=False),
    Trial("f16 x i8 by .to(f16)", _converted(xt.f16, xt.i8), 0.30),
    Trial("f16 x i8 by .to(f16), 128 x 16 a subgroup", _converted(xt.f16, xt.i8, xt.f16, (128, 16)), 0.30),
    Trial("i8 x f16 by .to(f16)", _converted(xt.i8, xt.f16), 0.25),
    Trial("bf16 x i8 by .to(bf16)", _converted(xt.bf16, xt.i8, xt.bf16), 0.30),
    Trial("bf16 x i8 by .to(bf16), 128 x 16 a subgroup", _converted(xt.bf16, xt.i8, xt.bf16, (128, 16)), 0.30),
    Trial("i8 x bf16 by .to(bf16)", _converted(xt.i8, xt.bf16, xt.bf16), 0.25),
    Trial("i8 x bf16 by .to(bf16), 16 x 128 a subgroup", _converted(xt.i8, xt.bf16, xt.bf16, (16, 128)), 0.25),
)
