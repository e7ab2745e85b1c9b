"""Products by loads that are put together: exact in all executions, and in block messages of operand B."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.kernels import EXECUTIONS, Execution, first_stages

pytestmark = pytest.mark.unoptimised
BM, SIZES = 16, (16, 32, 16)
KEYS = sum(SIZES)


@xt.kernel
def of_pages(Q, K, V, pages, O, *, D=32, sizes=SIZES, more=0, sums=True, subgroups=2):  # noqa: E741
    """(Q @ K'.T + 1) @ V' + 2 with rows of pages, 1 and 2 only with ``sums``; ``more`` is added to the keys."""
    layout, rows = (subgroups, 1), BM // subgroups
    whole = xt.f32 if K.dtype.is_float else xt.i32
    map_q, map_s = xt.wg_map(layout, (rows, D)), xt.wg_map(layout, (rows, sum(sizes)))
    q = xt.load_tile(xt.init_tile(Q, (xt.group_id(0) * BM, 0), (BM, D), wg_map=map_q))
    keys, values = [], []
    for i, size in enumerate(sizes):
        row = xt.load_scalar(pages, i).to(xt.index) * 16
        k, v = (xt.load_tile(xt.init_tile(A, (row, 0), (size, D), wg_map=xt.wg_map(layout, (size, D)))) for A in (K, V))
        keys, values = [*keys, k + more if more else k], [*values, v]
    k, v = xt.concatenate(keys, 0), xt.concatenate(values, 0)
    kt = xt.tile_transpose(k, wg_map=xt.wg_map(layout, (D, sum(sizes))))
    s = xt.tile_mma(q, kt, xt.full((BM, sum(sizes)), 1, whole, wg_map=map_s)) if sums else xt.tile_mma(q, kt)
    out = xt.full((BM, D), 2, whole, wg_map=map_q)
    out = xt.tile_mma(s.to(V.dtype), v, out) if sums else xt.tile_mma(s.to(V.dtype), v)
    xt.store_tile(out, xt.init_tile(O, (xt.group_id(0) * BM, 0), (BM, D), wg_map=map_q))


def _specs(dtype: Any = "bf16") -> list[xt.Spec]:
    matrix = xt.Spec((None, None), dtype)
    return [matrix, matrix, matrix, xt.Spec((None,), "i32"),
            xt.Spec((None, None), "i32" if dtype == "i8" else "f32")]


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.int8])
@pytest.mark.parametrize(("sizes", "more", "sums"), [(SIZES, 0, True), ((32, 32), 0, False), ((8, 24), 0, True),
                                                     (SIZES, 1, False)])
def test_all_executions(execution: Execution, dtype: Any, sizes: tuple[int, ...], more: int, sums: bool) -> None:
    """Pages in any order, the last of which ends outside of the array; rows of Q that are no multiple of the tile."""
    rng = np.random.default_rng(len(sizes) + more)
    q, k, v = (rng.integers(-1, 2, (rows, 32)).astype(dtype) for rows in (25, 75, 75))
    pages = rng.permutation(5)[:len(sizes)].astype(np.int32)
    pages[-1] = 4
    integer = dtype is np.int8
    out = np.full((27, 35), 7, np.int32 if integer else np.float32)
    execution.bind(of_pages)[2](q, k, v, pages, out[1:-1, 1:-2], sizes=sizes, more=more, sums=sums)
    wide = [np.concatenate([np.pad(a.astype(np.int64), ((0, 32), (0, 0)))[16 * page:16 * page + size]
                            for page, size in zip(pages, sizes, strict=True)]) for a in (k, v)]
    s = q.astype(np.int64) @ (wide[0] + more).T + sums
    np.testing.assert_array_equal(out[1:-1, 1:-2], s @ wide[1] + 2 * sums)
    out[1:-1, 1:-2] = 7
    assert (out == 7).all()


def test_each_load_is_an_operand() -> None:
    stages = of_pages.lower(*_specs(), target="pvc").stages
    split, messages = stages["concatenated-operands"], stages["pack-vnni"]
    assert split.count("xetile.tile_mma") == 2 * len(SIZES)
    assert split.count("xetile.tile_transpose") == len(SIZES)
    assert "xetile.tile_transpose" not in stages["row-major"]
    assert messages.count("transpose_bit_width = 32") == 2 * KEYS // 16
    assert "{packed}" in messages
    assert not any(word in messages for word in ("xegpu.pack ", "xegpu.shuffle"))


@pytest.mark.parametrize(("target", "constants"), [("pvc", {"sizes": (8, 24)}), ("dg2", {})])
def test_others_stay(target: str, constants: dict[str, Any]) -> None:
    """Parts that are no operands of products, and targets without block messages."""
    assert "concatenated-operands" not in first_stages(of_pages.lower(*_specs(), target=target, **constants))


def test_what_is_computed_stays() -> None:
    split = of_pages.lower(*_specs(), target="pvc", more=1).stages["concatenated-operands"]
    assert split.count("xetile.tile_mma") == 1 + len(SIZES)
