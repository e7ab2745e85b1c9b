"""Loops of products at run-time columns, in two versions: for columns that block messages take, and for the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, first_stages, integers, tiles

M, N, K = 16, 32, 32


@xt.kernel
def halves(A: Any, W: Any, C: Any, shift: int, *, M: int = M, N: int = N, K: int = K, moves: bool = False) -> None:
    """A @ left + 3 * (A @ right) of W = [left | right], whose right half begins at a column of run time."""
    m, n = xt.group_id(0) * M, xt.group_id(1) * N
    h = C.shape[1]
    left, right = xt.zeros((M, N), xt.f32), xt.zeros((M, N), xt.f32)
    if moves:
        first, second = xt.init_tile(W, (0, n), (K, N)), xt.init_tile(W, (0, h + n - shift), (K, N))
    for k in xt.range(0, A.shape[1], K):
        if not moves:
            first, second = xt.init_tile(W, (k, n), (K, N)), xt.init_tile(W, (k, h + n - shift), (K, N))
        a = xt.load_tile(xt.init_tile(A, (m, k), (M, K)))
        left, right = xt.tile_mma(a, xt.load_tile(first), left), xt.tile_mma(a, xt.load_tile(second), right)
        if moves:
            first, second = xt.update_tile_offset(first, K, 0), xt.update_tile_offset(second, K, 0)
    xt.store_tile(left + 3.0 * right, xt.init_tile(C, (m, n), (M, N)))


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", [xt.f16, xt.bf16], ids=str)
@pytest.mark.parametrize("moves", [False, True])
def test_the_result_is_right(execution: Execution, dtype: Any, moves: bool) -> None:
    """Even and odd columns, also before the array, from even and odd terms."""
    generator = np.random.default_rng(3)
    for columns, shift in ((48, 0), (47, 0), (33, 1), (34, 1), (1, 1), (2, 70), (3, 70)):
        a, w = integers(generator, dtype, 21, 72)[:, :70], integers(generator, dtype, 70, 104)
        c = np.full((21, columns), 7, np.float32)
        execution.bind(halves)[tiles(21, M), tiles(columns, N)](a, w, c, shift, moves=moves)
        wide = np.pad(w.astype(np.float64), ((0, 0), (128, 128)))
        left, right = (wide[:, 128 + at:128 + at + columns] for at in (0, columns - shift))
        np.testing.assert_array_equal(c, a.astype(np.float64) @ (left + 3 * right))


SPECS = (*[xt.Spec((None, None), xt.bf16)] * 2, xt.Spec((None, None), xt.f32), 1)


def is_versioned(*specs: Any, target: str = "pvc", **constants: Any) -> bool:
    return "version-columns" in first_stages(halves.lower(*specs, target=target, **constants))


def test_where_it_applies() -> None:
    """On arrays that block messages reach, where a column is not known to be even; not where one is known to be odd."""
    wide, plain = xt.Spec((None, 256), xt.bf16), xt.Spec((None, 96), xt.f32)
    for moves in (False, True):
        assert is_versioned(*SPECS, moves=moves)
        assert is_versioned(wide, wide, plain, 1, moves=moves)
    assert not is_versioned(*SPECS, target="dg2")
    assert not is_versioned(*SPECS, target="cpu")
    assert not is_versioned(SPECS[0], xt.Spec((None, 257), xt.bf16), *SPECS[2:])


def test_stages_read_back() -> None:
    low = halves.lower(*SPECS, target="pvc")
    for stage in ("version-columns", "blocking", "peel-bounds"):
        assert xt.parse(low.stages[stage])["halves"].lower(*SPECS, target="pvc").opencl.count("dpas") == \
            low.opencl.count("dpas"), stage


@pytest.mark.everything
@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_instructions(target: str) -> None:
    """The first version has block messages alone; the report says what the second one is for."""
    require_ocloc()
    report = halves.lower(*SPECS, target=target, M=32).report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.density >= 0.65
    assert [text for text in report.slow if "version of a loop" in text] == list(report.slow)
