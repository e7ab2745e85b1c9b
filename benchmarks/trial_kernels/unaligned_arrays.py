"""Products of arrays whose rows have a pitch that no block message takes."""

from __future__ import annotations

from typing import Any

import xetile as xt
from benchmarks.kernels import work_group_gemm
from benchmarks.trial_kernels.trial import Lowering, Trial, lowering

_SHARED: dict[str, Any] = {"BM": 256, "BN": 256, "sg": (8, 4)}
"""A work-group's tile, and its subgroups."""


def _distributed(columns: int, inner: int, dtype: Any, **constants: Any) -> Lowering:
    """A product of 4096 rows whose B has ``columns`` columns and whose A has ``inner``."""
    sums = xt.f32 if dtype.is_float else xt.i32

    return lowering(work_group_gemm, xt.Spec((4096, inner), dtype), xt.Spec((inner, columns), dtype),
                    xt.Spec((4096, columns), sums), **{**_SHARED, "acc": sums, **constants})


TRIALS = (
    Trial("B of 50257 columns, bf16", _distributed(50257, 4096, xt.bf16), 0.30),
    Trial("B of 50257 columns, bf16, tiles of 128 x 128",
          _distributed(50257, 4096, xt.bf16, BM=128, BN=128, sg=(4, 2)), 0.30),
    Trial("A of 4097 columns, f16", _distributed(4096, 4097, xt.f16), 0.30),
    Trial("A of 4097 columns, B of 50257, bf16", _distributed(50257, 4097, xt.bf16), 0.30),
    Trial("B of 50257 columns, tf32", _distributed(50257, 4096, xt.tf32), 0.30),
    Trial("A of 4097 columns, tf32", _distributed(4096, 4097, xt.tf32), 0.30),
    Trial("B of 50257 columns, i8", _distributed(50257, 4096, xt.i8, BK=64), 0.25),
    Trial("A of 4097 columns, i8", _distributed(4096, 4097, xt.i8, BK=64), 0.25),
    Trial("A of 4097 columns, B of 50257, i8", _distributed(50257, 4097, xt.i8, BK=64), 0.25),
)
