"""Which constants are tile sizes: halved, the tiles of a kernel still cover its arrays."""

from __future__ import annotations

from typing import Any

import pytest

import xetile as xt
from xetile.compiler.report.coverage import covers_the_same

ROWS = xt.Spec((None, None), "f32")
SMALL = [xt.Spec((None, size, size), "f32") for size in (32, 32)]


@xt.kernel
def strips(X, Y, *, BM=16, BN=64, parts=4, step=64):
    """Strips of a work-group's rows, whose columns begin where ``step`` says, not where those before them end."""
    n = xt.group_id(1) * step
    loaded = [xt.load_tile(xt.init_tile(X, (xt.group_id(0) * BM * parts + part * BM, n), (BM, BN)))
              for part in range(parts)]
    for part, each in enumerate(loaded):
        xt.store_tile(each * 2.0, xt.init_tile(Y, ((xt.group_id(0) * parts + part) * BM, n), (BM, BN)))


@xt.kernel
def heads(X, Y, *, D=64, BM=16, parts=4):
    """Parts that no other work-group continues."""
    for part in range(parts):
        x = xt.init_tile(X, (xt.group_id(0) * BM, part * D), (BM, D))
        xt.store_tile(xt.load_tile(x) * 2.0, xt.init_tile(Y, (xt.group_id(0) * BM, part * D), (BM, D)))


@xt.kernel
def moved(X, Y, *, BM=16, BN=32, step=32, width=256):
    """Blocks of a row after another, by tiles that move."""
    x, y = (xt.init_tile(each, (xt.group_id(0) * BM, 0), (BM, BN)) for each in (X, Y))
    for _ in xt.range(0, width, step):
        xt.store_tile(xt.load_tile(x) + 1.0, y)
        x, y = xt.update_tile_offset(x, 0, step), xt.update_tile_offset(y, 0, step)


@xt.kernel(subgroups=(2, 4))
def swizzled(X, Y, *, BM=8, BN=16, band=4):
    """Work-groups in bands of rows, and the blocks of their subgroups, of which each is read again a row below."""
    group, columns = xt.group_id(0), X.shape[1] // (4 * BN)
    row = group // (band * columns) * band + group % band
    m = (row * 2 + xt.subgroup_id(0)) * BM
    n = (group // band % columns * 4 + xt.subgroup_id(1)) * BN
    x = xt.load_tile(xt.init_tile(X, (m, n), (BM, BN)))
    xt.store_tile(x + xt.load_tile(xt.init_tile(X, (m + 1, n), (BM, BN))), xt.init_tile(Y, (m, n), (BM, BN)))


@xt.kernel
def one_after_another(X, Y, *, each=8, size=32):
    """Whole matrices of a batch, several a work-group."""
    first = xt.group_id(0) * each
    for i in xt.range(first, first + each):
        x = xt.load_tile(xt.init_tile(X, (i, 0, 0), (size, size)))
        xt.store_tile(x * 2.0, xt.init_tile(Y, (i, 0, 0), (size, size)))


@xt.kernel
def grouped(X, S, Y, *, group=64, BM=16):
    """Blocks of rows, times a row of scales for each block of columns, which is a tile of an array of its own."""
    for k in xt.range(0, X.shape[1], group):
        x = xt.load_tile(xt.init_tile(X, (xt.group_id(0) * BM, k), (BM, group)))
        s = xt.load_tile(xt.init_tile(S, (k // group, 0), (1, 1)))
        xt.store_tile(x * s, xt.init_tile(Y, (xt.group_id(0) * BM, k), (BM, group)))


@pytest.mark.parametrize(("kernel", "specs", "change", "same"), [
    (strips, [ROWS] * 2, {"BM": 8}, True), (strips, [ROWS] * 2, {"parts": 2}, True),
    (strips, [ROWS] * 2, {"BN": 32}, False), (strips, [ROWS] * 2, {"BN": 32, "step": 32}, True),
    (heads, [ROWS] * 2, {"BM": 8}, True), (heads, [ROWS] * 2, {"D": 32}, False),
    (heads, [ROWS] * 2, {"parts": 2}, False),
    (moved, [ROWS] * 2, {"BN": 16}, False), (moved, [ROWS] * 2, {"BN": 16, "step": 16}, True),
    (swizzled, [ROWS] * 2, {"BM": 4}, True), (swizzled, [ROWS] * 2, {"BN": 8}, True),
    (grouped, [ROWS] * 3, {"BM": 8}, True), (grouped, [ROWS] * 3, {"group": 32}, False),
    (one_after_another, SMALL, {"each": 4}, True), (one_after_another, SMALL, {"size": 16}, False),
])
def test_what_is_left_out_is_seen(kernel: Any, specs: list[xt.Spec], change: dict[str, int], same: bool) -> None:
    recorded = kernel.lower(*specs, target="dg2").function
    changed = kernel.lower(*specs, target="dg2", **change).function
    assert covers_the_same(recorded, changed) is same
    assert covers_the_same(recorded, recorded)
