"""The order in which work-groups walk a grid."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device


@xt.kernel
def visited(C, Order, *, rows):
    """Each work-group adds one to the tile that it stands on, and says when its turn was."""
    m, n = xt.grouped_id(rows)
    tile = xt.init_tile(C, (m * 8, n * 16), (8, 16))
    xt.store_tile(xt.load_tile(tile) + 1, tile)
    turn = (xt.group_id(0) * xt.num_groups(1) + xt.group_id(1)).to(xt.f32)
    xt.store_tile(xt.full((8, 16), 0, xt.f32) + turn, xt.init_tile(Order, (m * 8, n * 16), (8, 16)))


def bands(down: int, across: int, rows: int) -> list[tuple[int, int]]:
    """The positions in order, by plain loops."""
    return [(m, n) for first in range(0, down, rows) for n in range(across)
            for m in range(first, min(first + rows, down))]


@pytest.mark.parametrize(("where", "target"), [("numpy", None), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc"),
                                               ("opencl:cpu", "cpu")])
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_each_tile_has_its_turn_once(where: str, target: str | None, rows: int) -> None:
    if where.startswith("opencl"):
        require_device()
    for down, across in ((1, 1), (3, 5), (7, 4), (10, 3), (2, 9)):
        c = np.zeros((down * 8, across * 16), np.float32)
        order = np.full_like(c, -1)
        visited.on(where, target=target)[down, across](c, order, rows=rows)
        assert np.all(c == 1)
        turns = order[::8, ::16]
        assert np.array_equal(order, np.repeat(np.repeat(turns, 8, 0), 16, 1))
        assert [tuple(np.argwhere(turns == turn)[0]) for turn in range(down * across)] == bands(down, across, rows)


@xt.kernel
def product(A, B, C, *, rows=4, BK=32):
    m, n = xt.grouped_id(rows)
    a, b = xt.init_tile(A, (m * 16, 0), (16, BK)), xt.init_tile(B, (0, n * 32), (BK, 32))
    acc = xt.zeros((16, 32), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m * 16, n * 32), (16, 32)))


def test_a_product_keeps_its_block_messages() -> None:
    specs = [xt.Spec((None, None), dtype) for dtype in ("bf16", "bf16", "f32")]
    text = product.lower(*specs, target="pvc").opencl
    assert text.count("2d_block_read") == 2
    assert text.count("2d_block_write") == 4


@pytest.mark.parametrize(("rows", "kind", "message"), [
    (0, ValueError, "xt.grouped_id takes at least one row, not 0"),
    (2.5, TypeError, "xt.grouped_id takes a compile-time number of rows, not 2.5"),
    (True, TypeError, "not True"),
])
def test_wrong_rows(rows, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)) as raised:
        visited.lower(xt.Spec((8, 16), "f32"), xt.Spec((8, 16), "f32"), rows=rows)
    assert "xt.grouped_id(rows)" in str(raised.value)


def test_a_run_time_number_of_rows() -> None:
    @xt.kernel
    def wrong(C):
        m, n = xt.grouped_id(C.shape[0])
        xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (m, n), (8, 16)))

    with pytest.raises(TypeError, match="XT1062"):
        wrong.lower(xt.Spec((8, 16), "f32"))
