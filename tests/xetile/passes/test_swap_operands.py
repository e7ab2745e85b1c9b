"""Products computed as their transpose: which ones, what they give, and what a step of them takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.gpu_code.generated_code import gemm
from tests.conftest import require_ocloc
from tests.kernels import Array, Execution, Types, first_stages, integers, tiles
from tests.kernels import product as multiplied
from tests.xetile.passes.test_cooperative_loads import by_columns, check, is_shared
from tests.xetile.passes.test_slm_transpose import BF16, F16, I8, TF32, U8, constants_of, product

EXECUTIONS = [Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("numpy:xegpu", "bmg"),
              *(Execution("opencl:cpu", target) for target in ("pvc", "bmg", "dg2"))]


@xt.kernel
def distributed(A, B, C, *, BM=32, BN=32, BK=32, sg=(2, 2), acc=xt.f32, view=None):
    """C = A @ B + 1 of ``sg`` subgroups, each of which has BM x BN of it."""
    A, B = (array if view is None else xt.view(array, view) for array in (A, B))
    m, n = xt.group_id(0) * BM * sg[0], xt.group_id(1) * BN * sg[1]
    a = xt.init_tile(A, (m, 0), (BM * sg[0], BK), wg_map=xt.wg_map(sg, (BM, BK)))
    b = xt.init_tile(B, (0, n), (BK, BN * sg[1]), wg_map=xt.wg_map(sg, (BK, BN)))
    map_c = xt.wg_map(sg, (BM, BN))
    total = xt.zeros((BM * sg[0], BN * sg[1]), acc, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total + 1, xt.init_tile(C, (m, n), (BM * sg[0], BN * sg[1]), wg_map=map_c))


@xt.kernel
def two_sums(A, B, B2, C, C2, *, BM=32, BN=16, BK=32, square=False):
    """A^T @ B, two steps a pass, and A^T @ B2; with ``square`` its second sum is A^T @ A instead."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    first, second = xt.zeros((BM, BN), xt.f32), xt.zeros((BM, BM if square else BN), xt.f32)
    for k in xt.range(0, A.shape[0], 2 * BK):
        for step in range(2):
            stored = xt.load_tile(xt.init_tile(A, (k + step * BK, m), (BK, BM)))
            a = xt.tile_transpose(stored)
            first = xt.tile_mma(a, xt.load_tile(xt.init_tile(B, (k + step * BK, n), (BK, BN))), first)
            b2 = stored if square else xt.load_tile(xt.init_tile(B2, (k + step * BK, n), (BK, BN)))
            second = xt.tile_mma(a, b2, second)
    xt.store_tile(first, xt.init_tile(C, (m, n), (BM, BN)))
    xt.store_tile(second, xt.init_tile(C2, (m, m if square else n), (BM, BM if square else BN)))


@xt.kernel
def shared_operand(A, B, B2, C, C2, *, M=64, N=16, K=32):
    """A @ B2, and A @ B, whose sum stands first among what the loop carries."""
    first, second = xt.zeros((M, N), xt.f32), xt.zeros((M, N), xt.f32)
    for k in xt.range(0, A.shape[1], K):
        a = xt.load_tile(xt.init_tile(A, (0, k), (M, K)))
        b, b2 = (xt.load_tile(xt.init_tile(each, (k, 0), (K, N))) for each in (B, B2))
        second = xt.tile_mma(a, b2, second)
        first = xt.tile_mma(a, b, first)
    xt.store_tile(first, xt.init_tile(C, (0, 0), (M, N)))
    xt.store_tile(second, xt.init_tile(C2, (0, 0), (M, N)))


@xt.kernel
def of_depth(A, B, C, *, K=64):
    """The product of 32 x 16 elements over a number of columns of A that is known."""
    total = xt.zeros((32, 16), xt.f32)
    for k in xt.range(0, K, 32):
        a, b = xt.load_tile(xt.init_tile(A, (0, k), (32, 32))), xt.load_tile(xt.init_tile(B, (k, 0), (32, 16)))
        total = xt.tile_mma(a, b, total)
    xt.store_tile(total, xt.init_tile(C, (0, 0), (32, 16)))


def operands(types: Types, stored: str, rows: int, columns: int, depth: int) -> tuple[Array, Array]:
    """A and B, of which those named in ``stored`` are stored by columns."""
    generator = np.random.default_rng(4)
    a = (by_columns if "A" in stored else integers)(generator, types.a, rows, depth)
    return a, (by_columns if "B" in stored else integers)(generator, types.b, depth, columns)


def swaps(kernel: Any, *given: Any, **constants: Any) -> bool:
    """Whether the pass changed a kernel."""
    return "swap-operands" in first_stages(kernel.lower(*given, **constants))


def specs(stored: str, types: Types = BF16) -> list[xt.Spec]:
    strides = [(1, 512) if side in stored else (512, 1) for side in "AB"]
    return [xt.Spec((512, 512), types.a, strides[0]), xt.Spec((512, 512), types.b, strides[1]),
            xt.Spec((512, 512), types.acc)]


@pytest.mark.unoptimised
@pytest.mark.parametrize("types", [BF16, F16, TF32, I8, U8], ids=str)
@pytest.mark.parametrize(("stored", "shape"), [("A", (32, 16)), ("B", (16, 64)), ("AB", (32, 32)), ("AB", (16, 48))],
                         ids=str)
@pytest.mark.parametrize("kernel", [product, distributed], ids=str)
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_the_result_is_right(types: Types, stored: str, shape: tuple[int, int], kernel: Any,
                             execution: Execution) -> None:
    """Rows, columns and K that are no whole tiles; K of less than a step, and of several and a part."""
    (rows, columns), more = shape, 1 if kernel is distributed else 0
    for k in (8, 136):
        a, b = operands(types, stored, 3 * rows - 5, 3 * columns - 8, k)
        result = multiplied(a, b, types.acc) + more
        size = 2 if more else 1
        grid = tiles(3 * rows - 5, rows * size), tiles(3 * columns - 8, columns * size)
        check(execution.bind(kernel), (a, b), grid, result.astype(types.acc.numpy), BM=rows, BN=columns,
              BK=64 if types.a.bits == 8 else 32, **constants_of(types, execution.target))


@pytest.mark.unoptimised
@pytest.mark.parametrize("square", [False, True], ids=["apart", "square"])
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_operands_of_two_sums(square: bool, execution: Execution) -> None:
    """An operand that both need, and one that is needed as A and as B, which stays as it is."""
    generator, rows = np.random.default_rng(5), 32 if square else 64
    a, b, b2 = (integers(generator, xt.bf16, 136, size) for size in (64, 40, 40))
    c, c2 = np.zeros((64, 40), np.float32), np.zeros((64, 64 if square else 40), np.float32)
    assert swaps(two_sums, a, b, b2, c, c2, target="bmg", BM=rows, square=square) is not square
    execution.bind(two_sums)[64 // rows, 3](a, b, b2, c, c2, BM=rows, square=square)
    np.testing.assert_array_equal(c, multiplied(a.T, b, xt.f32))
    if not square:
        np.testing.assert_array_equal(c2, multiplied(a.T, b2, xt.f32))
    for part in (slice(0, 32), slice(32, 64)) if square else ():
        np.testing.assert_array_equal(c2[part, part], multiplied(a.T[part], a[:, part], xt.f32))


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_shared_operand(execution: Execution) -> None:
    """The products that need it come in another order than their sums."""
    generator = np.random.default_rng(6)
    a, (b, b2) = by_columns(generator, xt.bf16, 64, 72), (integers(generator, xt.bf16, 72, 32) for _ in range(2))
    c, c2 = np.zeros((64, 16), np.float32), np.zeros((64, 16), np.float32)
    assert swaps(shared_operand, a, b, b2, c, c2, target="bmg")
    execution.bind(shared_operand)[1](a, b, b2, c, c2)
    np.testing.assert_array_equal(c, multiplied(a, b, xt.f32)[:, :16])
    np.testing.assert_array_equal(c2, multiplied(a, b2, xt.f32)[:, :16])


def test_what_is_swapped() -> None:
    """Both operands stored by columns, or the larger one of the two; not for a loop that is over before it pays."""
    for target in ("pvc", "bmg"):
        for types in (BF16, I8, TF32):
            for stored, shape in (("AB", (32, 32)), ("AB", (16, 64)), ("A", (32, 16)), ("B", (16, 64))):
                assert swaps(product, *specs(stored, types), target=target, BM=shape[0], BN=shape[1], acc=types.acc,
                             BK=512 // types.a.bits)
        for stored, shape in (("A", (32, 32)), ("A", (16, 32)), ("B", (32, 16)), ("", (32, 16)), ("AB", (8, 32))):
            assert not swaps(product, *specs(stored), target=target, BM=shape[0], BN=shape[1])
    assert not swaps(product, *specs("AB"), target="dg2")
    for depth in (64, 1024):
        assert swaps(of_depth, *specs("A"), target="pvc", K=depth) is (depth > 64)


def test_operands_of_a_work_group_are_not_shared_then() -> None:
    """Nobody waits in a step where nothing has to be transposed; A alone is shared."""
    assert is_shared(distributed, *specs("A"), BM=32, BN=64)
    assert not is_shared(distributed, *specs("AB"), BM=32, BN=64)


@pytest.mark.parametrize(("stored", "shape", "most"), [
    ("A", (256, 64), 1.5), ("AB", (256, 256), 1.05), ("B", (128, 256), 1.15),
    *(pytest.param("AB", shape, 1.05, marks=pytest.mark.everything) for shape in ((128, 128), (256, 64)))], ids=str)
@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_the_machine_code(stored: str, shape: tuple[int, int], most: float, target: str) -> None:
    """Instructions of a step by 8 x 4 subgroups, as it is prefetched, to those of the plain product; no spills."""
    require_ocloc()
    swapped, plain = (gemm.lower(*given, target=target, BM=shape[0], BN=shape[1]).report()
                      for given in (specs(stored), specs("")))
    assert swapped.spill_size + swapped.private_size == 0
    assert swapped.hot.total / swapped.unrolled <= most * plain.hot.total / plain.unrolled
