"""Batches of small products, by hand and by the library."""

from __future__ import annotations

from typing import Any

import xetile as xt
from benchmarks.trial_kernels.trial import Lowering, Trial, lowering
from xetile.library.stacked_products import stacked_product


@xt.kernel
def small_products(A: Any, B: Any, C: Any, *, each: int = 8, size: int = 32) -> None:
    """Products of small matrices of a batch, several a subgroup, one after another."""
    first = xt.group_id(0) * each
    for i in xt.range(first, first + each):
        a = xt.load_tile(xt.init_tile(A, (i, 0, 0), (size, size)))
        b = xt.load_tile(xt.init_tile(B, (i, 0, 0), (size, size)))
        c = xt.tile_mma(a, b, xt.zeros((size, size), xt.f32))
        xt.store_tile(c.to(C.dtype), xt.init_tile(C, (i, 0, 0), (size, size)))


def _small(size: int, to: Any = xt.f32) -> Lowering:
    inputs, result = xt.Spec((10000, size, size), xt.bf16), xt.Spec((10000, size, size), to)
    return lowering(small_products, inputs, inputs, result, size=size)


def _stacked(size: int, dtype: Any = xt.bf16, to: Any = xt.f32) -> Lowering:
    depth = 32 // dtype.bytes
    rows, columns, inner = (-(-size // multiple) * multiple for multiple in (8, 16, depth))
    is_one = size * dtype.bytes >= 64 and size == rows == inner  # as xt.matmul passes them
    shape = (10000 * size, size) if is_one else (10000, size, size)
    inputs, result = xt.Spec(shape, dtype), xt.Spec(shape, to)
    return lowering(stacked_product, inputs, inputs, result, 1.0, 0.0, 10000, 4, M=rows, N=columns, K=inner,
                    BM=rows, BN=columns)


TRIALS = (
    Trial("10,000 products of 16 x 16, bf16 into f32", _small(16), 0.25),
    Trial("10,000 products of 32 x 32, bf16 into f32", _small(32), 0.25),
    Trial("10,000 products of 48 x 48, bf16 into f32", _small(48), 0.25),
    Trial("10,000 products of 16 x 16 by xt.matmul, bf16 into f32", _stacked(16), 0.25),
    Trial("10,000 products of 17 x 17 by xt.matmul, bf16 into f32", _stacked(17), 0.25),
    Trial("10,000 products of 24 x 24 by xt.matmul, bf16 into f32", _stacked(24), 0.25),
    Trial("10,000 products of 32 x 32 by xt.matmul, bf16 into f32", _stacked(32), 0.25),
    Trial("10,000 products of 33 x 33 by xt.matmul, bf16 into f32", _stacked(33), 0.25),
    Trial("10,000 products of 48 x 48 by xt.matmul, bf16 into f32", _stacked(48), 0.25),
    Trial("10,000 products of 40 x 40 by xt.matmul, i8 into i32", _stacked(40, xt.i8, xt.i32), 0.25),
    Trial("10,000 products of 48 x 48 by xt.matmul, i8 into i32", _stacked(48, xt.i8, xt.i32), 0.25),
)
