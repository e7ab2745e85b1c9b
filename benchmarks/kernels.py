"""The products that are measured, as a user writes them."""

from __future__ import annotations

from typing import Any

import xetile as xt


@xt.kernel
def work_group_gemm(A: Any, B: Any, C: Any, *, BM: int = 128, BN: int = 128, BK: int = 32,
                    sg: tuple[int, int] = (4, 4), acc: Any = xt.f32) -> None:
    """C = A @ B by a work-group's tiles."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg_layout=sg, sg_data=(BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg_layout=sg, sg_data=(BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg_layout=sg, sg_data=(BK, BN // sg[1])))
    total = xt.zeros((BM, BN), acc, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@xt.kernel
def subgroup_gemm(A: Any, B: Any, C: Any, *, BM: int = 32, BN: int = 64, BK: int = 32, acc: Any = xt.f32) -> None:
    """C = A @ B by a subgroup's tiles."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    total = xt.zeros((BM, BN), acc)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


def unrolled(A: Any, C: Any, *, steps: int = 64) -> None:
    """A straight line of ``steps`` times three operations."""
    tile, out = xt.init_tile(A, (0, 0), (8, 16)), xt.init_tile(C, (0, 0), (8, 16))
    total = xt.zeros((8, 16), xt.f32)
    for _ in range(steps):
        total = total + xt.load_tile(tile)
        tile = xt.update_tile_offset(tile, 8, 0)
    xt.store_tile(total, out)


def empty(A: Any, B: Any, C: Any, i: Any, j: Any, x: Any) -> None:
    """Six arguments, and nothing to do."""
