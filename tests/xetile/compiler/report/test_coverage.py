"""Which constants are tile sizes: halved, the tiles of a kernel still cover its arrays."""

from __future__ import annotations

from typing import Any

import pytest

import xetile as xt
from xetile.compiler.report.coverage import covers_the_same

ROWS, HALVES = (xt.Spec((None, None), dtype) for dtype in ("f32", "bf16"))
STACK = xt.Spec((None, None, None), "f32")
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


@xt.kernel
def stacked(A, B, C, each, count, *, M=48, N=16, K=16):
    """Matrices that lie behind each other, times those of another array: as many of both."""
    first = xt.group_id(0) * each
    for i in xt.range(first, xt.minimum(first + each, count), 1):
        a, b = xt.init_tile(A, (i * M, 0), (M, K)), xt.init_tile(B, (i * K, 0), (K, N))
        xt.store_tile(xt.tile_mma(xt.load_tile(a), xt.load_tile(b)), xt.init_tile(C, (i * M, 0), (M, N)))


@xt.kernel
def partial_sums(X, S, *, BM=16, BN=64):
    """Sums of a work-group's rows, which has a row of results; columns go by the other dimension of the grid."""
    at = xt.group_id(0) * BM, xt.group_id(1) * BN
    x = xt.load_tile(xt.init_tile(X, at, (BM, BN)))
    xt.store_tile(xt.tile_reduce("add", x, 0), xt.init_tile(S, (xt.group_id(0), at[1]), (1, BN)))


@xt.kernel
def scores(Q, K, S, *, D=64, BM=16, BN=32):
    """Scores of heads side by side: the columns of a head are all that is added up."""
    m, d = xt.group_id(0) * BM, xt.group_id(1) * D
    q = xt.load_tile(xt.init_tile(Q, (m, d), (BM, D)))
    for n in xt.range(0, K.shape[0], BN):
        k = xt.load_tile(xt.init_tile(K, (n, d), (BN, D)))
        s = xt.tile_mma(q, xt.tile_transpose(k))
        xt.store_tile(s, xt.init_tile(S, (xt.group_id(1), m, n), (BM, BN)))


@xt.kernel
def unrolled(A, B, C, *, BM=16, BN=32, BK=32, K=128):
    """A product of all K in Python's loop."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    acc = xt.zeros((BM, BN), xt.f32)
    for k in range(0, K, BK):
        acc = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (BM, BK))),
                          xt.load_tile(xt.init_tile(B, (k, n), (BK, BN))), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def normed(X, Y, *, D=64, BM=16):
    """Groups of columns, less their largest."""
    at = xt.group_id(0) * BM, xt.group_id(1) * D
    x = xt.load_tile(xt.init_tile(X, at, (BM, D)))
    xt.store_tile(x - xt.tile_reduce("max", x * 2.0, 1), xt.init_tile(Y, at, (BM, D)))


@pytest.mark.parametrize(("kernel", "specs", "change", "same"), [
    (strips, [ROWS] * 2, {"BM": 8}, True), (strips, [ROWS] * 2, {"parts": 2}, True),
    (strips, [ROWS] * 2, {"BN": 32}, False), (strips, [ROWS] * 2, {"BN": 32, "step": 32}, True),
    (heads, [ROWS] * 2, {"BM": 8}, True), (heads, [ROWS] * 2, {"D": 32}, False),
    (heads, [ROWS] * 2, {"parts": 2}, False),
    (moved, [ROWS] * 2, {"BN": 16}, False), (moved, [ROWS] * 2, {"BN": 16, "step": 16}, True),
    (swizzled, [ROWS] * 2, {"BM": 4}, True), (swizzled, [ROWS] * 2, {"BN": 8}, True),
    (grouped, [ROWS] * 3, {"BM": 8}, True), (grouped, [ROWS] * 3, {"group": 32}, False),
    (one_after_another, SMALL, {"each": 4}, True),
    (stacked, [HALVES, HALVES, ROWS, 8, 64], {"M": 24}, False),
    (stacked, [HALVES, HALVES, ROWS, 8, 64], {"N": 8}, False),
    (scores, [HALVES, HALVES, STACK], {"D": 32}, False), (scores, [HALVES, HALVES, STACK], {"BN": 16}, True),
    (scores, [HALVES, HALVES, STACK], {"BM": 8}, True),
    (unrolled, [HALVES, HALVES, ROWS], {"BK": 16}, True), (unrolled, [HALVES, HALVES, ROWS], {"K": 64}, False),
    (normed, [ROWS] * 2, {"D": 32}, False), (normed, [ROWS] * 2, {"BM": 8}, True),
    (partial_sums, [ROWS] * 2, {"BM": 8}, False), (partial_sums, [ROWS] * 2, {"BN": 32}, True),
    (one_after_another, SMALL, {"size": 16}, False),
])
def test_what_is_left_out_is_seen(kernel: Any, specs: list[xt.Spec], change: dict[str, int], same: bool) -> None:
    recorded = kernel.lower(*specs, target="dg2").function
    changed = kernel.lower(*specs, target="dg2", **change).function
    assert covers_the_same(recorded, changed) is same
    assert covers_the_same(recorded, recorded)
