"""Operands whose extents are no powers of two: messages of several sizes give the same products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution
from xegpu.ir import dtypes

pytestmark = pytest.mark.unoptimised


@xt.kernel
def product(A, B, C, *, M=48, N=48, K=48, acc=xt.f32, carried=False):
    """A tile a subgroup; tiles of the operands that the loop carries, or makes anew."""
    m, n = xt.group_id(0) * M, xt.group_id(1) * N
    out, a, b = xt.zeros((M, N), acc), xt.init_tile(A, (m, 0), (M, K)), xt.init_tile(B, (0, n), (K, N))
    for k in xt.range(0, A.shape[1], K):
        if not carried:
            a, b = xt.init_tile(A, (m, k), (M, K)), xt.init_tile(B, (k, n), (K, N))
        out = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), out)
        if carried:
            a, b = xt.update_tile_offset(a, 0, K), xt.update_tile_offset(b, K, 0)
    xt.store_tile(out, xt.init_tile(C, (m, n), (M, N)))


@pytest.mark.parametrize("execution", [*EXECUTIONS, Execution("machine:pvc", "pvc"), Execution("machine:bmg", "bmg")],
                         ids=str)
@pytest.mark.parametrize(("tile", "dtype"), [((48, 48, 48), "f16"), ((24, 48, 80), "bf16"), ((40, 80, 16), "bf16"),
                                             ((48, 16, 96), "i8"), ((24, 48, 96), "u8"), ((24, 48, 32), "f32"),
                                             ((56, 16, 48), "f16")])
@pytest.mark.parametrize("carried", [False, True])
def test_products(execution: Execution, tile: tuple[int, int, int], dtype: str, carried: bool) -> None:
    """Arrays that block messages reach and others, with edges inside of tiles."""
    rng, kind = np.random.default_rng(sum(tile)), dtypes.of(dtype)
    for m, n, k in ((70, 96, 128), (61, 70, 101)):
        low = -4 if dtype != "u8" else 0
        a, b = (rng.integers(low, 5, shape).astype(kind.numpy) for shape in ((m, k), (k, n)))
        c = np.full((m, n), 7, np.float32 if kind.is_float else np.int32)
        execution.bind(product)[-(-m // tile[0]), -(-n // tile[1])](
            a, b, c, M=tile[0], N=tile[1], K=tile[2], acc=xt.f32 if kind.is_float else xt.i32, carried=carried)
        np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


SPECS = [xt.Spec((None, 1024), dtype) for dtype in ("f16", "f16", "f32")]


def _loads(**constants: Any) -> int:
    return product.lower(*SPECS, target="pvc", **constants).stages["to-xegpu"].count("xegpu.load_nd")


def test_each_operand_takes_four_messages() -> None:
    """32 and 16 rows by two blocks and one, not nine blocks; a tile that the loop carries is one descriptor."""
    assert _loads() == 8
    assert _loads(carried=True) == 18
    assert _loads(M=32, N=32, K=32) == 2


@pytest.mark.parametrize(("target", "least"), [("pvc", 0.25), ("bmg", 0.43)])
def test_density(target: str, least: float) -> None:
    require_ocloc()
    assert product.lower(*SPECS, target=target).report(remedies=False).density > least
