"""Cases that move the elements of vectors in registers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import xetile as xt
from tests.operations.case import Case, Operands, blocks
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType


def cases(dtype: DType) -> Iterator[Case]:
    """Transposes, slices, concatenations, interleaved parts, reshapes, blocks, broadcasts, bit casts, shifts."""
    a, b, _ = blocks(dtype)
    yield Case("transpose", lambda x: xt.tile_transpose(x.a), a.T, dtype)
    yield Case("rows", lambda x: x.a[2:6, :], a[2:6], dtype)
    yield Case("columns", lambda x: x.a[:, 3:7], a[:, 3:7], dtype)
    yield Case("every second row", lambda x: x.a[::2, :], a[::2], dtype)
    yield Case("concatenated rows", lambda x: xt.concatenate((x.a[:2, :], x.b[4:, :], x.a[6:, :]), 0),
               np.concatenate((a[:2], b[4:], a[6:])), dtype)
    yield Case("concatenated columns", lambda x: xt.concatenate((x.b, x.a), 1), np.hstack((b, a)), dtype)
    yield Case("interleaved rows", lambda x: xt.interleave((x.b, x.a), 0), np.stack((b, a), 1).reshape(16, 16), dtype)
    yield Case("interleaved columns", lambda x: xt.interleave((x.a, x.b)), np.stack((a, b), 2).reshape(8, 32), dtype)
    yield Case("reshape", lambda x: xt.reshape(x.a, (16, 8)), a.reshape(16, 8), dtype)
    yield Case("blocks", lambda x: xt.tile_unpack(xt.tile_pack(x.a, (4, 8))), a, dtype)
    yield Case("blocks transposed", lambda x: xt.tile_transpose(xt.tile_unpack(xt.tile_pack(x.b, (8, 8)))), b.T, dtype)
    yield Case("broadcast row", lambda x: xt.tile_broadcast(x.a[:1, :], (8, 16)), np.tile(a[:1], (8, 1)), dtype)
    yield Case("broadcast column", lambda x: xt.tile_broadcast(x.b[:, :1], (8, 16)), np.tile(b[:, :1], (1, 16)), dtype)
    yield Case("broadcast of one", lambda x: xt.tile_broadcast(x.a[5:6, 3:4], (8, 16)), np.full((8, 16), a[5, 3]),
               dtype)
    zeros = np.zeros((8, 16), dtype.numpy)
    yield Case("shifted rows", lambda x: xt.shift(x.a, 3, 0), np.concatenate((zeros[:3], a[:-3])), dtype)
    yield Case("shifted columns", lambda x: xt.shift(x.a, -1, 1), np.hstack((a[:, 1:], zeros[:, :1])), dtype)
    if dtype.bytes > 1:
        split = np.ascontiguousarray(a).view(np.uint8).reshape(8, 16, -1).transpose(0, 2, 1).reshape(-1, 16)
        for narrow in (dtypes.u8, dtypes.i8, dtypes.e4m3, dtypes.e5m2):
            yield Case(f"bytes as {narrow}", partial(_split, narrow), split.view(narrow.numpy), narrow)
    if dtype is dtypes.tf32:
        yield Case("bits by way of f32", lambda x: xt.bitcast(x.a.to(xt.f32), xt.u32), a.view(np.uint32), dtypes.u32)
    if dtype not in (dtypes.i1, dtypes.tf32):  # which have no integers of their size
        word = dtypes.BY_NAME[f"u{8 * dtype.bytes}"]
        yield Case("bits", lambda x: xt.bitcast(x.a, word), a.view(word.numpy), word)
        yield Case("bits back", lambda x: xt.bitcast(xt.bitcast(x.a, word), dtype), a, dtype)


def _split(narrow: DType, x: Operands) -> Any:
    return xt.bitcast(x.a, narrow)
