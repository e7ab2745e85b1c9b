"""Cases of vectors that the subgroups of a work-group share (``wg_map``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import xetile as xt
from tests.operations.case import Case, Operands, operands, quiet
from xegpu.ir.dtypes import DType

SHAPE = (32, 32)
MAP, ROWS_MAP, WIDE_MAP = (xt.wg_map((2, 2), (16, 16)), xt.wg_map((4, 1), (8, 32)), xt.wg_map((2, 2), (8, 16)))
"""2 x 2 subgroups with a quarter each; 4 with rows; 2 x 2 that go round twice."""


def cases(dtype: DType) -> Iterator[Case]:
    """Layout conversions, transposes, broadcasts and reductions that cross subgroups."""
    a, _, _ = operands(dtype)
    x = a[4:36, 8:40]
    yield Case("layout", lambda x: _store(x, xt.tile_conv_layout(_load(x, MAP), ROWS_MAP), ROWS_MAP), x, dtype)
    yield Case("rounds", lambda x: _store(x, xt.tile_conv_layout(_load(x, WIDE_MAP), MAP), MAP), x, dtype)
    yield Case("transpose", lambda x: _store(x, xt.tile_transpose(_load(x, MAP)), MAP), x.T, dtype)
    yield Case("broadcast", _broadcast, np.repeat(x[:, :1], 32, 1), dtype)
    if dtype.kind in "iu":
        kind, function = ("xor", np.bitwise_xor)
        yield Case(kind, _reduce, function.reduce(x, axis=1, keepdims=True), dtype)
    elif dtype.kind == "f":
        yield Case("minimum", _reduce, quiet(x).min(1, keepdims=True).astype(dtype.numpy), dtype, signed_zeros=False)

def _load(x: Operands, map_: Any) -> Any:
    return xt.load_tile(xt.init_tile(x.A, (4, 8), SHAPE, wg_map=map_))


def _store(x: Operands, value: Any, map_: Any) -> None:
    xt.store_tile(value, xt.init_tile(x.out, (0, 0), value.shape, wg_map=map_))


def _broadcast(x: Operands) -> None:
    column = xt.load_tile(xt.init_tile(x.A, (4, 8), (32, 1), wg_map=xt.wg_map((2, 2), (16, 1))))
    _store(x, xt.tile_broadcast(column, SHAPE, wg_map=MAP), MAP)


def _reduce(x: Operands) -> None:
    kind = "min" if x.A.dtype.is_float else "xor"
    reduced = xt.tile_reduce(kind, _load(x, MAP), 1)
    _store(x, reduced, xt.wg_map((2, 2), (16, 1)))
