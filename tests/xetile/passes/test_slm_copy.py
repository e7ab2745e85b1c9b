"""Operands whose pitch or base block messages do not take, and that one subgroup needs: it copies them itself."""

from __future__ import annotations

from typing import Any

import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import Execution, Types, first_stages, integers, tiles, viewed
from tests.kernels import product as multiplied
from tests.xetile.passes.test_cooperative_copies import BF16, F16, I8, TF32, U8, np, specs, unaligned
from tests.xetile.passes.test_cooperative_loads import check, without_places

M, N, K = 16, 32, 32


@xt.kernel
def alone(A: Any, B: Any, C: Any, *, M: int = M, N: int = N, K: int = K, moves: bool = True,
          to: Any = xt.f32) -> None:
    """Product by one subgroup, whose tiles the loop moves, or initializes in each step."""
    m, n = xt.group_id(0) * M, xt.group_id(1) * N
    a, b = xt.init_tile(A, (m, 0), (M, K)), xt.init_tile(B, (0, n), (K, N))
    acc = xt.zeros((M, N), to)
    for k in xt.range(0, A.shape[1], K):
        if moves:
            acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
            a, b = xt.update_tile_offset(a, 0, K), xt.update_tile_offset(b, K, 0)
        else:
            acc = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (M, K))),
                              xt.load_tile(xt.init_tile(B, (k, n), (K, N))), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (M, N)))


@xt.kernel(subgroups=(2, 2))
def beside(A: Any, B: Any, C: Any, *, K: int = K, to: Any = xt.f32) -> None:
    """Products of four subgroups of a work-group, each of tiles of its own."""
    m, n = (2 * xt.group_id(0) + xt.subgroup_id(0)) * M, (2 * xt.group_id(1) + xt.subgroup_id(1)) * N
    acc = xt.zeros((M, N), to)
    for k in xt.range(0, A.shape[1], K):
        acc = xt.tile_mma(xt.load_tile(xt.init_tile(A, (m, k), (M, K))),
                          xt.load_tile(xt.init_tile(B, (k, n), (K, N))), acc)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (M, N)))


@xt.kernel
def pair(A: Any, B: Any, C: Any, D: Any, *, n: int = 32) -> None:
    """Two products of a step, whose operands B are copied through the same memory one after the other."""
    m, left, right = xt.group_id(0) * 32, xt.zeros((32, n), xt.f32), xt.zeros((32, n), xt.f32)
    for k in xt.range(0, A.shape[1], K):
        a = xt.load_tile(xt.init_tile(A, (m, k), (32, K)))
        left = xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (k, 0), (K, n))), left)
        right = xt.tile_mma(a, xt.load_tile(xt.init_tile(C, (k, 0), (K, n))), right)
    xt.store_tile(left - right, xt.init_tile(D, (m, 0), (32, n)))


def is_copied(low: xt.Lowered) -> bool:
    return "slm-copy" in first_stages(low)


@pytest.mark.unoptimised
@pytest.mark.parametrize("odd", ["a", "b", "both"])
@pytest.mark.parametrize("first", [0, 1, 2, 3], ids=lambda first: f"base {first}")
@pytest.mark.parametrize("how", ["moves", "steps", "beside", "wide"])
@pytest.mark.parametrize(("types", "execution"), [
    (BF16, Execution("numpy", "pvc")), (BF16, Execution("numpy:xegpu", "bmg")), (F16, Execution("opencl:cpu", "pvc")),
    (BF16, Execution("opencl:cpu", "bmg")), (TF32, Execution("numpy:xegpu", "pvc")),
    (TF32, Execution("opencl:cpu", "pvc")), (TF32, Execution("opencl:cpu", "bmg")), (U8, Execution("numpy", "pvc")),
    (I8, Execution("numpy:xegpu", "pvc")), (I8, Execution("opencl:cpu", "pvc")),
    (U8, Execution("opencl:cpu", "bmg"))], ids=str)
def test_the_result_is_right(types: Types, execution: Execution, how: str, first: int, odd: str) -> None:
    """Rows, columns and K that are no whole tiles, of more tiles than one; pitches of odd and of even elements."""
    generator = np.random.default_rng(1)
    kernel, height, width = {"beside": (beside, 2 * M, 2 * N), "wide": (alone, 32, 64)}.get(how, (alone, M, N))
    constants = {"beside": {}, "wide": {"M": 32, "N": 64}}.get(how, {"moves": how == "moves"})
    if types.a.bits == 8:
        constants |= {"K": 64, "to": xt.i32}
    for (m, n, k), gap in (((5, 37, 7), 0), ((37, 73, 101), 0), ((33, 66, 97), 1)):
        a = unaligned(generator, types.a, m, k, k + gap, first) if odd != "b" else \
            integers(generator, types.a, m, 104)[:, :k]
        b = unaligned(generator, types.b, k, n, n + gap, first) if odd != "a" else \
            integers(generator, types.b, k, 80)[:, :n]
        args = viewed(a, types.a), viewed(b, types.b)
        assert execution.target is None or is_copied(kernel.lower(*args, xt.Spec((m, n), types.acc), target="pvc",
                                                                  **constants))
        check(execution.bind(kernel), args, (tiles(m, height), tiles(n, width)),
              multiplied(a, b, types.acc), **constants)


@pytest.mark.parametrize("execution", [Execution("numpy", "pvc"), Execution("opencl:cpu", "pvc"),
                                       Execution("opencl:cpu", "bmg")], ids=str)
def test_two_operands_through_the_same_memory(execution: Execution) -> None:
    """The first is multiplied before the second one takes its place."""
    generator, (m, k) = np.random.default_rng(2), (45, 75)
    a, b, c = integers(generator, xt.bf16, m, 80)[:, :k], *(unaligned(generator, xt.bf16, k, 31, 33, 1)
                                                            for _ in range(2))
    assert execution.target is None or is_copied(pair.lower(a, b, c, xt.Spec((m, 31), xt.f32), target="pvc"))
    check(execution.bind(pair), (a, b, c), (tiles(m, 32), 1), multiplied(a, b, xt.f32) - multiplied(a, c, xt.f32))


def test_where_it_applies() -> None:
    """Operands in 16 bits of loops that have the registers, all of them or none, in blocks that lanes' rows fill."""
    odd = specs(BF16, 130, 141, 165)
    assert is_copied(alone.lower(*odd, target="pvc"))
    even = xt.Spec((130, 160), xt.bf16), xt.Spec((160, 141), xt.bf16), odd[2]
    assert is_copied(alone.lower(*even, target="bmg", M=32))
    assert is_copied(alone.lower(*odd, target="pvc", M=32, N=64))
    assert not is_copied(alone.lower(*odd, target="pvc", M=48, N=64))
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
@pytest.mark.parametrize(("odd", "rows", "columns", "least"), [
    ("a", 16, 128, {"pvc": 0.34, "bmg": 0.38}), ("b", 32, 64, {"pvc": 0.15, "bmg": 0.185})])
@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_instructions(target: str, odd: str, rows: int, columns: int, least: dict[str, float]) -> None:
    """A of 4097 columns, or B of 4097; nothing is spilled."""
    require_ocloc()
    shapes = (4096, 4096, 4097) if odd == "a" else (4096, 4097, 4096)
    report = alone.lower(*specs(F16, *shapes), target=target, M=rows, N=columns).report(remedies=False)
    assert (report.spill_size, report.private_size, report.loop["dpas"]) == (0, 0, 32)
    assert report.density >= least[target]
