"""Remainders of a product's tiles: when they are launched by themselves, and that all parts make the product."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from tests.device import DEVICE_FILTER
from xegpu.ir import dtypes
from xetile.library.array_operands import Operand
from xetile.library.padding import Memory, fastest
from xetile.library.remainder import ALL, Part, divided, parts
from xetile.library.tile_heuristics import LAUNCH_CLOCKS, plans

pytestmark = pytest.mark.unoptimised
RANDOM = np.random.default_rng(41)


def _matrix(rows: int, columns: int) -> Memory:
    return Memory(0, (rows, columns), (columns, 1), dtypes.bf16)


@pytest.mark.parametrize(("target", "size", "expected"), [
    ("pvc", (2048, 2049, 2049), [(2048, 2048), (2048, 1)]),
    ("pvc", (2049, 2049, 2049), [(2048, 2048), (2048, 1), (1, 2049)]),
    ("pvc", (256, 8193, 8192), [(256, 8192), (256, 1)]),
    ("pvc", (1024, 1025, 1025), [(1024, 1025)]),  # two launches more cost as much as the product
    ("pvc", (2048, 2048, 2049), [(2048, 2048)]),
    ("bmg", (2048, 2049, 2049), [(2048, 2049)]),  # 64 tiles and 72 take four waves of 20
    ("bmg", (4097, 4097, 4097), [(4096, 4096), (4096, 1), (1, 4097)]),
])
def test_a_remainder_is_launched_by_itself_where_that_saves_time(target: str, size: tuple[int, int, int],
                                                                 expected: list[tuple[int, int]]) -> None:
    (m, n, k), record = size, xt.TARGETS[target]
    a, b, c = _matrix(m, k), _matrix(k, n), _matrix(m, n)

    def clocks(part: Part) -> float:
        piece = c.cut(part.rows, part.columns)
        found = plans(piece.shape[0], piece.shape[1], k, 1, dtypes.bf16, record)
        return fastest(a.cut(part.rows, slice(None)), b.cut(slice(None), part.columns), piece, found, dtypes.bf16,
                       record, added=False)[1].clocks

    split = divided(a, b, c, dtypes.bf16, record, False)
    assert [c.cut(part.rows, part.columns).shape for part in split] == expected
    taken = sum(map(clocks, split)) + LAUNCH_CLOCKS * (len(split) - 1)
    if len(split) > 1:
        assert taken < clocks(*ALL)
    rows, columns, depth = (-(-number // 8) * 8 for number in size)
    even = min(plan.clocks for plan in plans(rows, columns, depth, 1, dtypes.bf16, record))
    assert taken <= 1.5 * even


def test_views_have_the_memory_of_their_elements() -> None:
    array = np.zeros((3, 70, 91), np.uint16)
    whole = Memory.of(Operand("a", array, dtypes.u16))
    for rows, columns in ((slice(0, 64), slice(64, None)), (slice(7, None), slice(None)), (slice(None), slice(33, 65))):
        assert whole.cut(rows, columns) == Memory.of(Operand("a", array[..., rows, columns], dtypes.u16))


def test_a_processor_takes_all_at_once() -> None:
    a = Operand("a", np.zeros((257, 257), np.float32), dtypes.f32)
    assert parts(a, a, a, dtypes.f32, xt.TARGETS["cpu"], added=False) == ALL


_SPLIT = (Part(slice(0, 32), slice(0, 64)), Part(slice(0, 32), slice(64, None)), Part(slice(32, None), slice(None)))
CASES = {
    "bias of a row": {"bias": (1, 67)}, "bias of a column": {"bias": (33, 1)}, "bias of all": {"bias": (33, 67)},
    "old values": {"alpha": 2, "beta": -1}, "activation": {"activation": "relu", "alpha": -1}, "plain": {},
}


@pytest.mark.launches
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, np.float16, np.float32, np.int8])
@pytest.mark.parametrize("batch", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("by_columns", [False, True])
def test_parts_make_the_product(case: str, kind: Any, batch: tuple[int, ...], by_columns: bool,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    """On NumPy as pvc's kernels, and on a device; beside the result nothing is written."""
    launched: list[Part] = []  # the package has a function of its module's name
    monkeypatch.setattr(sys.modules["xetile.library.matmul"], "parts",
                        lambda *_, **__: launched.extend(_SPLIT) or _SPLIT)
    shapes = [(*batch, 33, 35), (*batch, 35, 67)]
    a, b = (RANDOM.integers(-3, 4, shape).astype(kind) for shape in shapes)
    if by_columns:
        a, b = (np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in (a, b))
    options, wide = dict(CASES[case]), np.int32 if kind is np.int8 else np.float32
    if kind is np.int8 and case not in ("plain", "bias of a row"):
        wide = np.float32
    bias = RANDOM.integers(-9, 10, options.pop("bias")).astype(wide) if "bias" in options else None
    alpha, beta = options.get("alpha", 1), options.get("beta", 0)
    whole = np.full((*batch, 35, 72), 7, wide)
    old = whole[..., 1:-1, 2:-3]
    exact = alpha * np.matmul(a.astype(np.int64), b.astype(np.int64)) + beta * old.astype(np.int64)
    exact = exact + (0 if bias is None else bias.astype(np.int64))
    expected = whole.copy()
    expected[..., 1:-1, 2:-3] = np.maximum(exact, 0) if "activation" in options else exact
    got = whole.copy()
    xt.matmul(a, b, out=got[..., 1:-1, 2:-3], bias=bias, target="pvc", **options)
    np.testing.assert_array_equal(got, expected)
    dpnp = require_dpnp()
    there = [dpnp.asarray(x.view(np.uint16) if kind is ml_dtypes.bfloat16 else x, device=DEVICE_FILTER)
             for x in (a, b)]
    if kind is ml_dtypes.bfloat16:
        there = [xt.view(x, xt.bf16) for x in there]
    result = dpnp.asarray(whole, device=DEVICE_FILTER)
    xt.matmul(*there, out=result[..., 1:-1, 2:-3], target="pvc",
              bias=None if bias is None else dpnp.asarray(bias, device=DEVICE_FILTER), **options)
    np.testing.assert_array_equal(dpnp.asnumpy(result), expected)
    assert len(launched) == 6
