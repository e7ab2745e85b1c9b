"""Operands whose pitch or base block messages do not take, and that one subgroup needs: it copies them itself."""

from __future__ import annotations

from typing import Any

import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import Execution, Types, integers, tiles
from tests.kernels import product as multiplied
from tests.xetile.passes.test_cooperative_copies import BF16, F16, np, specs, unaligned
from tests.xetile.passes.test_cooperative_loads import check, without_places

M, N, K = 16, 32, 32


@xt.kernel
def alone(A: Any, B: Any, C: Any, *, M: int = M, N: int = N, K: int = K, moves: bool = True) -> None:
    """Product by one subgroup, whose tiles the loop moves, or initializes in each step."""
    m, n = xt.group_id(0) * M, xt.group_id(1) * N
    a, b = xt.init_tile(A, (m, 0), (M, K)), xt.init_tile(B, (0, n), (K, N))
    acc = xt.zeros((M, N), xt.f32)
    for k in xt.range(0, A.shape[1], K):
        if moves:
            acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
            a, b = xt.update_tile_offset(a, 0, K), xt.update_tile_offset(b, K, 0)
        else:
            acc = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (M, K))),
                              xt.load_tile(xt.init_tile(B, (k, n), (K, N))), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (M, N)))


@xt.kernel(subgroups=(2, 2))
def beside(A: Any, B: Any, C: Any) -> None:
    """Products of four subgroups of a work-group, each of tiles of its own."""
    m, n = (2 * xt.group_id(0) + xt.subgroup_id(0)) * M, (2 * xt.group_id(1) + xt.subgroup_id(1)) * N
    acc = xt.zeros((M, N), xt.f32)
    for k in xt.range(0, A.shape[1], K):
        acc = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (M, K))),
                          xt.load_tile(xt.init_tile(B, (k, n), (K, N))), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (M, N)))


def is_copied(low: xt.Lowered) -> bool:
    return "slm-copy" in low.stages


@pytest.mark.unoptimised
@pytest.mark.parametrize("odd", ["a", "b", "both"])
@pytest.mark.parametrize("first", [0, 1, 2], ids=lambda first: f"base {2 * first}")
@pytest.mark.parametrize("how", ["moves", "steps", "beside"])
@pytest.mark.parametrize(("types", "execution"), [
    (BF16, Execution("numpy", "pvc")), (BF16, Execution("numpy:xegpu", "bmg")), (F16, Execution("opencl:cpu", "pvc")),
    (BF16, Execution("opencl:cpu", "bmg"))], ids=str)
def test_the_result_is_right(types: Types, execution: Execution, how: str, first: int, odd: str) -> None:
    """Rows, columns and K that are no whole tiles, of more tiles than one; pitches of odd and of even elements."""
    generator = np.random.default_rng(1)
    kernel, group = (beside, 2) if how == "beside" else (alone, 1)
    constants = {} if how == "beside" else {"moves": how == "moves"}
    for (m, n, k), gap in (((5, 37, 7), 0), ((37, 73, 101), 0), ((33, 66, 97), 1)):
        a = unaligned(generator, types.a, m, k, k + gap, first) if odd != "b" else \
            integers(generator, types.a, m, 104)[:, :k]
        b = unaligned(generator, types.b, k, n, n + gap, first) if odd != "a" else \
            integers(generator, types.b, k, 80)[:, :n]
        assert execution.target is None or is_copied(kernel.lower(a, b, xt.Spec((m, n), xt.f32), target="pvc",
                                                                  **constants))
        check(execution.bind(kernel), (a, b), (tiles(m, group * M), tiles(n, group * N)),
              multiplied(a, b, xt.f32), **constants)


def test_where_it_applies() -> None:
    """Operands in 16 bits of loops that have the registers, all of them or none, in blocks that lanes' rows fill."""
    odd = specs(BF16, 130, 141, 165)
    assert is_copied(alone.lower(*odd, target="pvc"))
    even = xt.Spec((130, 160), xt.bf16), xt.Spec((160, 141), xt.bf16), odd[2]
    assert is_copied(alone.lower(*even, target="bmg", M=32))
    assert not is_copied(alone.lower(*odd, target="pvc", M=32, N=64))
    assert not is_copied(alone.lower(*odd, target="pvc", M=8))
    assert not is_copied(alone.lower(*odd, target="pvc", K=16))
    assert not is_copied(alone.lower(*specs(BF16, 128, 144, 160), target="pvc"))
    for target in ("dg2", "cpu"):
        assert not is_copied(alone.lower(*odd, target=target))


def test_stages_read_back() -> None:
    odd = specs(BF16, 130, 141, 165)
    low = alone.lower(*odd, target="bmg")
    for stage in ("slm-copy", "blocking", "distribute-lanes", "peel-bounds"):
        again = xt.parse(low.stages[stage])["alone"].lower(*odd, target="bmg")
        assert without_places(again.opencl) == without_places(low.opencl), stage


@pytest.mark.everything
@pytest.mark.parametrize(("target", "least"), [("pvc", 0.34), ("bmg", 0.38)])
def test_instructions(target: str, least: float) -> None:
    """A of 4097 columns times 128 columns of B; nothing is spilled."""
    require_ocloc()
    report = alone.lower(*specs(F16, 4096, 4096, 4097), target=target, N=128).report(remedies=False)
    assert (report.spill_size, report.private_size, report.loop["dpas"]) == (0, 0, 32)
    assert report.density >= least
