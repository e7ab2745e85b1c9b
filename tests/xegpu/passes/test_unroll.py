"""Several steps of a loop in one: the same results for every number of steps, and no fewer errors."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from benchmarks.code_snapshot.kernels import carried_rotation
from tests.conftest import require_device

BK = 32
DEPTHS = (0, BK, 3 * BK, 5 * BK + 8)


@xt.kernel
def product(A, B, C, *, steps=None, BM=16, BN=32, ahead=2):
    """A product whose tiles are prefetched, and which also counts its steps: an integer that the loop carries."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    pa, pb = xt.init_tile(A, (m, ahead * BK), (BM, BK)), xt.init_tile(B, (ahead * BK, n), (BK, BN))
    acc, count = xt.zeros((BM, BN), xt.f32), xt.scalar(0)
    for k in xt.range(0, A.shape[1], BK, unroll=steps):
        xt.prefetch_tile(pa); xt.prefetch_tile(pb)
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, pa = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(pa, 0, BK)
        b, pb = xt.update_tile_offset(b, BK, 0), xt.update_tile_offset(pb, BK, 0)
        count = count + k + 1
    xt.store_tile(acc + count.to(xt.f32), xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def plain(A, B, C, *, steps=None, BM=16, BN=32, first=0, depth=None):
    """A product and nothing else, on a range that begins anywhere."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, first), (BM, BK)), xt.init_tile(B, (first, n), (BK, BN))
    acc = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(first, A.shape[1] if depth is None else depth, BK, unroll=steps):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


def operands(depth: int, rows: int = 24, columns: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(depth)
    a, b = (rng.integers(-4, 5, shape).astype(ml_dtypes.bfloat16) for shape in ((rows, depth), (depth, columns)))
    return a, b, np.full((rows, columns), -77, np.float32)


def expected(a: np.ndarray, b: np.ndarray, counted: bool, first: int = 0) -> np.ndarray:
    steps = range(first, a.shape[1], BK)
    return a[:, first:].astype(np.float32) @ b[first:].astype(np.float32) + (sum(k + 1 for k in steps) * counted)


@pytest.mark.parametrize(("where", "target", "steps"), [
    ("numpy", None, 2), ("numpy:xegpu", "bmg", None), ("numpy:xegpu", "pvc", 4),
    *(("opencl:cpu", target, steps) for target, steps in (("pvc", 2), ("bmg", None), ("bmg", 4), ("dg2", 2)))])
def test_every_number_of_steps(where: str, target: str | None, steps: int | None) -> None:
    if where.startswith("opencl"):
        require_device()
    for depth in DEPTHS:
        a, b, c = operands(depth)
        product.on(where, target=target)[2, 2](a, b, c, steps=steps)
        assert np.array_equal(c, expected(a, b, True)), (depth, "counted")
    a, b, c = operands(7 * BK)
    plain.on(where, target=target)[2, 2](a, b, c, steps=steps, first=BK)
    assert np.array_equal(c, expected(a, b, False, BK))


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("where", "target"), [("numpy", None), ("opencl:cpu", "pvc"), ("opencl:cpu", "cpu")])
def test_what_is_carried_goes_from_step_to_step(where: str, target: str | None, steps: int) -> None:
    if where.startswith("opencl"):
        require_device()
    x = np.random.default_rng(1).integers(-3, 4, (64, 16)).astype(np.float32)
    for n in (0, 2, 5, 12):
        y = np.full((8, 16), 9, np.float32)
        carried_rotation.on(where, target=target)[1](x, y, n, steps=steps)
        a, b, c = (np.full((8, 16), value, np.float32) for value in range(3))
        for position, k in enumerate(range(1, n, 2)):
            a = a + x[8 * position:8 * position + 8] if k > 4 else a
            a, b, c = b, c, a * 2 + np.float32(k)
        assert np.array_equal(y, a + b * 3 + c * 5), n


def heads(target: str, **constants) -> list[str]:
    """The loops of the plain product."""
    return re.findall(r"for \((.*)\) \{", written(target, **constants))


def written(target: str, **constants) -> str:
    """The text of the plain product."""
    arrays = [xt.Spec((None, None), dtype) for dtype in ("bf16", "bf16", "f32")]
    return plain.lower(*arrays, target=target, **constants).opencl


def grows(head: str) -> str:
    """Step of a loop's counter, which may be unsigned."""
    return head.partition("+= ")[2].removesuffix("u")


def test_the_loops_that_are_written() -> None:
    assert [grows(head) for head in heads("bmg")] == ["256", "32"]  # unrolled by itself, the rest apart
    assert [grows(head) for head in heads("pvc")] == [grows(head) for head in heads("bmg", steps=1)] == ["32"]
    assert [grows(head) for head in heads("pvc", steps=4)] == ["128", "32"]
    assert re.search(r"= \w+ - 96;", written("pvc", steps=4))
    assert [grows(head) for head in heads("cri", steps=4, depth=512)] == ["128"]  # 16 steps: nothing is left over
    assert [grows(head) for head in heads("pvc", steps=4, depth=64)] == ["64"]  # two steps in all


def test_the_option_is_in_the_text_and_comes_back() -> None:
    arrays = xt.Spec((None, None), "bf16"), xt.Spec((None, None), "bf16"), xt.Spec((None, None), "f32")
    low = plain.lower(*arrays, target="pvc", steps=2)
    for stage in ("xetile", "distribute-subgroups", "distribute-lanes", "legalize"):
        assert "xegpu.unroll = 2" in low.stages[stage], stage
    assert xt.parse(low.stages["blocking"])["plain"].lower(*arrays, target="pvc").opencl.count("for (") == 2


@xt.kernel
def wrong(X, *, steps):
    for _ in xt.range(4, unroll=steps):
        xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(X, (0, 0), (8, 16)))


@pytest.mark.parametrize(("steps", "kind", "message"), [
    (0, ValueError, "unroll of xt.range is 0, and must be between 1 and 64"),
    (65, ValueError, "is 65"),
    (2.0, TypeError, "unroll of xt.range is 2.0, not an integer"),
    (True, TypeError, "is True, not an integer"),
])
def test_wrong_numbers_of_steps(steps, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)) as raised:
        wrong.lower(xt.Spec((8, 16), "f32"), steps=steps)
    assert "xt.range(4, unroll=steps)" in str(raised.value)
