"""Cases of gathers, scatters and atomic updates of single elements, of rows, and of windows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import xetile as xt
from tests.operations.case import COLUMNS, MOST, ROWS, Case, Operands, blocks, operands, quiet
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType

OFFSET = np.array([[(37 * (16 * i + j) + 11) % (ROWS * COLUMNS) for j in range(16)] for i in range(8)])
"""Position of each element of a gather: far from each other, none twice."""
SLOT = np.array([[(5 * i + 3 * j) % 32 for j in range(16)] for i in range(8)])
"""Position of each element of an update, several times the same."""


def cases(dtype: DType) -> Iterator[Case]:
    """Single elements by their positions, whole rows, and every atomic kind."""
    if dtype is dtypes.i1:
        return
    a, _, _ = operands(dtype)
    x, _, c = blocks(dtype)
    gathered = a.reshape(-1)[OFFSET]
    enabled = (OFFSET & 4) > 0
    yield Case("gather", lambda x: xt.load_gather(xt.init_tile(x.A, offsets=_offsets())), gathered, dtype)
    yield Case("masked gather", lambda x: xt.load_gather(xt.init_tile(x.A, offsets=_offsets()), _mask()),
               np.where(enabled, gathered, np.zeros((), dtype.numpy)), dtype)
    start = np.ones((ROWS, COLUMNS), dtype.numpy)
    scattered = start.copy()
    scattered.reshape(-1)[OFFSET[enabled]] = x[enabled]
    yield Case("masked scatter", lambda x: xt.store_scatter(x.a, xt.init_tile(x.out, offsets=_offsets()), _mask()),
               scattered, dtype, start)
    yield Case("moved", _gather_moved, a.reshape(-1)[OFFSET // 2 + 7], dtype)
    rows = np.array([39, 0, 5, 5, 40, 17, 2, 31])
    lines = np.vstack((a, np.zeros((1, COLUMNS), dtype.numpy)))[rows]
    yield Case("rows", partial(_load_rows, 0), lines[:, 40:56], dtype)
    yield Case("rows beyond the last column", partial(_load_rows, 15), np.hstack(
        (lines[:, 55:], np.zeros((8, 7), dtype.numpy))), dtype)
    if dtype.kind == "s":
        return
    window = start.copy()
    window[36:, 52:] += c[:4, :12]
    yield Case("atomic update of a window", lambda x: (xt.atomic_rmw_tile("add", x.c, xt.init_tile(
        x.out, (36, 52), (8, 16))), None)[1], window, dtype, start)
    for kind, function in _atomic_kinds(dtype).items():
        unsigned = kind in ("minu", "maxu")
        bits = quiet(x) if dtype.kind == "f" else x.view(f"u{dtype.bytes}") if unsigned else x
        exact = kind in ("add", "mul") and dtype.kind == "f"
        values = np.where(c == 0, 1, np.clip(c, -1, 1)).astype(np.float64) if kind == "mul" and exact else \
            c.astype(np.float64) if exact else bits
        first = np.arange(32, dtype=np.int8).reshape(1, 32) % (MOST + 1)
        updated = first.astype(values.dtype)
        with np.errstate(all="ignore"):
            function.at(updated.reshape(-1), SLOT.reshape(-1), values.reshape(-1))
        expected = updated.view(dtype.numpy) if unsigned else updated.astype(dtype.numpy)
        yield Case(f"atomic {kind}", partial(_update, kind, "c" if exact else "a"), expected, dtype,
                   first.astype(dtype.numpy), signed_zeros=False)


def _atomic_kinds(dtype: DType) -> dict[str, Any]:
    kinds: dict[str, Any] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    if dtype.kind == "f":
        return {**kinds, "minnumf": np.fmin, "maxnumf": np.fmax}
    kinds |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return kinds | ({"minu": np.minimum, "maxu": np.maximum} if dtype.kind == "i" else {})


def _positions() -> Any:
    row, column = xt.iota((8, 16), 0), xt.iota((8, 16), 1)
    return ((row * 16 + column) * 37 + 11) % (ROWS * COLUMNS)


def _offsets() -> Any:
    return _positions().to(xt.index)


def _mask() -> Any:
    return (_positions() & 4) > 0


def _load_rows(right: int, x: Operands) -> Any:
    """Row 40 is out of bounds: zeros."""
    i = xt.iota((8, 1), 0)
    rows = xt.where(i == 0, 39, xt.where(i == 1, 0, xt.where(i == 4, 40, xt.where(i == 5, 17, xt.where(
        i == 6, 2, xt.where(i == 7, 31, 5))))))
    return xt.load_tile(xt.init_tile(x.A, (rows, 40 + right), (8, 16)))


def _gather_moved(x: Operands) -> Any:
    tile = xt.init_tile(x.A, offsets=(_positions() // 2).to(xt.index))
    tile = xt.update_tile_offset(tile, xt.full((8, 16), 7, xt.index))
    xt.prefetch_tile(tile)
    return xt.load_gather(tile)


def _update(kind: str, operand: str, x: Operands) -> None:
    slots = (xt.iota((8, 16), 0) * 5 + xt.iota((8, 16), 1) * 3) % 32
    value = x.a if operand == "a" else x.c
    if kind == "mul" and operand == "c":
        value = xt.where(x.c == 0, 1, xt.minimum(xt.maximum(x.c, -1), 1))
    xt.atomic_rmw_tile(kind, value, xt.init_tile(x.out, offsets=slots.to(xt.index)))
