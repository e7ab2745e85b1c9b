"""Cases of shared local memory, run-time numbers and iota."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import xetile as xt
from tests.operations.case import Case, Operands, blocks, operands
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType


def cases(dtype: DType) -> Iterator[Case]:
    """Blocks and single elements through shared memory; numbers loaded and extracted; counters."""
    a, b, _ = blocks(dtype)
    whole, _, _ = operands(dtype)
    yield Case("through shared memory", _share, a.T, dtype)
    yield Case("slices of shared memory", _share_slices, np.concatenate((b[4:], a[:4])), dtype)
    if dtype in (dtypes.i32, dtypes.u32, dtypes.i64, dtypes.u64, dtypes.f32):
        yield Case("load_scalar", lambda x: xt.full((8, 16), xt.load_scalar(x.A, (9, 20)), dtype),
                   np.full((8, 16), whole[9, 20]), dtype)
        yield Case("item", lambda x: xt.full((8, 16), x.b[1:2, :1].item(), dtype), np.full((8, 16), b[1, 0]), dtype)
    if dtype is not dtypes.i1 and dtype.kind != "s":
        yield Case("rows counted", lambda x: xt.iota((8, 16), 0, dtype), np.repeat(np.arange(8)[:, None], 16, 1), dtype)
        yield Case("columns counted", lambda x: xt.iota((8, 16), 1, dtype), np.repeat(np.arange(16)[None], 8, 0), dtype)


def _share(x: Operands) -> object:
    shared = xt.alloc_slm((8, 16), x.a.dtype)
    xt.store_tile(x.a, xt.init_tile(shared, (0, 0), (8, 16)))
    xt.barrier()
    return xt.tile_transpose(xt.load_tile(xt.init_tile(shared, (0, 0), (8, 16))))


def _share_slices(x: Operands) -> object:
    shared = xt.alloc_slm((16, 16), x.a.dtype)
    xt.store_tile(x.b, xt.init_tile(shared, (0, 0), (8, 16)))
    xt.store_tile(x.a, xt.init_tile(shared, (8, 0), (8, 16)))
    xt.barrier()
    return xt.load_tile(xt.init_tile(shared, (4, 0), (8, 16)))
