"""Padded copies of a product's operands: the copies, products of them, and when they are chosen."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_dpnp
from tests.device import DEVICE_FILTER
from tests.kernels import DEVICE, LANES, NUMPY, Array, Execution
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.target.block2d import access
from xetile.library import padding
from xetile.library.array_operands import Operand
from xetile.library.matmul_kernels import product
from xetile.library.padding import (
    Copies,
    Layout,
    Memory,
    choose_copies,
    copied_where_cheaper,
    padded,
    padded_copy,
)
from xetile.library.tile_heuristics import choose_plan, plans

RANDOM = np.random.default_rng(23)
PVC = xt.TARGETS["pvc"]
library = importlib.import_module("xetile.library.matmul")  # the package names its function so


def bits(kind: Any, *shape: int) -> Array:
    return RANDOM.integers(0, np.iinfo(kind).max, shape, kind, endpoint=True)


SOURCES = {
    "odd rows": lambda: bits(np.uint16, 37, 71), "odd base": lambda: bits(np.uint16, 40, 66)[:, 1:],
    "bytes": lambda: bits(np.uint8, 2, 3, 33, 67), "words": lambda: bits(np.uint32, 9, 259),
    "every third": lambda: bits(np.uint16, 70, 140)[1::2, ::-3], "a column": lambda: bits(np.uint8, 50, 1),
}


@pytest.mark.launches
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("execution", [NUMPY, LANES[0], *DEVICE[:1]], ids=str)
def test_copies_are_equal_and_padded_with_zeros(source: str, execution: Execution) -> None:
    array = SOURCES[source]()
    *batch, rows, columns = array.shape
    pitch = -(-columns // 64) * 64 + 64
    expected = np.zeros((*batch, rows, pitch), array.dtype)
    expected[..., :columns] = array
    for gathered in (True, False):
        copy = np.full_like(expected, 99)
        grid = (-(-rows // 32), -(-pitch // 64), int(np.prod(batch)))
        execution.bind(padded_copy)[grid](array, copy, rows=32, columns=64, sg=(2, 1), gathered=gathered)
        np.testing.assert_array_equal(copy, expected)


@pytest.mark.parametrize("dtype", [dtypes.u8, dtypes.bf16, dtypes.f32], ids=str)
def test_block_messages_reach_copies(dtype: DType) -> None:
    for shape in ((3, 37, 71), (5, 1), (2, 9, 4097)):
        array = bits(np.uint8, *shape).astype(dtype.numpy)
        for one in (Operand("a", array, dtype), Operand("a", array.swapaxes(-1, -2), dtype)):
            copy = padded(one, PVC, None)
            assert access(PVC, None, copy.shape, copy.strides(), dtype.bytes).startswith("block")
            expected = np.zeros(copy.shape, dtype.numpy)
            expected[tuple(map(slice, one.shape))] = one.array
            np.testing.assert_array_equal(copy.array, expected)


OPERANDS = {
    "plain": ((41, 67), (67, 77)), "batches": ((2, 1, 9, 67), (3, 67, 20)), "one matrix for all": ((3, 9, 35), (35, 5)),
    "a long K": ((4, 4099), (4099, 30)),
}


@pytest.mark.launches
@pytest.mark.parametrize("shapes", OPERANDS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.int8])
def test_products_of_copies_are_exact(shapes: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dpnp = require_dpnp()
    a, b = (RANDOM.integers(-1, 2, shape).astype(dtype) for shape in OPERANDS[shapes])
    a[..., -1, -1] = b[..., -1, -1] = 1
    exact = np.matmul(a.astype(np.int64), b.astype(np.int64))
    wide = np.int32 if dtype is np.int8 else np.float32
    in_parts = shapes == "a long K" and dtype is not np.int8  # which has half of the steps, too few to be shared
    sum_parts = library._sum_parts
    by_columns = [np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2) for x in (a, b)]
    for number, (left, right) in enumerate(((a, b), by_columns)):
        copied: list[str] = []
        summed: list[int] = []
        monkeypatch.setattr(padding, "choose_copies", lambda _a, _b, _bytes, plan, *_, number=number: (
            Copies(True, bool(number), plan.clocks)))  # of the plans, the one without copies stays the fastest
        real = padding.padded
        monkeypatch.setattr(padding, "padded", lambda x, *rest, real=real, copied=copied: (
            copied.append(x.name), real(x, *rest))[1])
        monkeypatch.setattr(library, "_sum_parts", lambda work, *rest, real=sum_parts, summed=summed: (
            summed.append(work.shape[0]), real(work, *rest))[1])
        np.testing.assert_array_equal(xt.matmul(left, right, out_dtype=wide, target="pvc"), exact)
        assert {"a", "b"} if number else {"a"} == set(copied)
        there = [_there(dpnp, x) for x in (left, right)]
        got = dpnp.asnumpy(xt.matmul(*there, out_dtype=wide, bias=_there(dpnp, np.ones(1, wide)), target="pvc"))
        np.testing.assert_array_equal(got, exact + 1)
        assert [parts > 1 for parts in summed] == [True, True] * in_parts


def _there(dpnp: Any, array: Array) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return xt.view(dpnp.asarray(array.view(np.uint16), device=DEVICE_FILTER), xt.bf16)
    return dpnp.asarray(array, device=DEVICE_FILTER)


@pytest.mark.parametrize(("target", "size", "accesses", "expected"), [
    ("pvc", (4096, 50257, 4096), ("block", "rows"), (False, False)),  # a copy saves less than the model tells apart
    ("bmg", (4096, 50257, 4096), ("block", "rows"), (False, False)),  # it has half of pvc's memory for a core
    ("pvc", (4096, 4096, 4097), ("rows", "columns"), (False, True)),  # shares of A cost less than a copy
    ("pvc", (2048, 8193, 8193), ("rows", "rows"), (True, True)),
    ("pvc", (1, 50257, 4096), ("block", "rows"), (False, False)),  # the copy reads what the product reads
    ("bmg", (64, 50257, 4096), ("block", "rows"), (False, False)),
    ("pvc", (64, 65, 66), ("rows", "rows"), (False, False)),  # less than a launch
    ("pvc", (4096, 4096, 4096), ("block", "block-columns"), (False, False)),
])
def test_copies_are_chosen_where_they_save_time(target: str, size: tuple[int, int, int], accesses: tuple[str, str],
                                                expected: tuple[bool, bool]) -> None:
    m, n, k = size
    plan = choose_plan(m, n, k, 1, xt.bf16, xt.TARGETS[target], sharing=True)
    a, b = (Layout(kind, False, 2, size, kind == "rows") for kind, size in zip(accesses, (m * k, k * n), strict=True))
    chosen = choose_copies(a, b, 2 * m * n, plan, xt.TARGETS[target])
    assert (chosen.a, chosen.b) == expected
    if any(expected):
        assert chosen.clocks <= 1.5 * plan.clocks  # of the product of aligned arrays


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", [NUMPY, LANES[0], Execution("opencl:cpu", "pvc"), Execution("opencl:cpu", "bmg")],
                         ids=str)
@pytest.mark.parametrize("parts", [1, 2])
def test_tiles_are_moved_inside(parts: int, execution: Execution) -> None:
    """The last tiles along rows and columns overlap those before them; nothing beside the result is written."""
    (m, n, k), tile = (45, 101, 165), {"BM": 32, "BN": 64, "BK": 32, "sg": (2, 2), "as_type": dtypes.bf16, "ahead": 3}
    for batch in ((), (2,)):
        a, b = (RANDOM.integers(-4, 5, (*batch, *shape)).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
        whole = np.full((*([parts] if parts > 1 else []), *batch, m + 2, n + 6), 77, np.float32)
        c, options = whole[..., 1:-1, 3:-3], {**tile, "parts": parts, "inside": (True, True)}
        if not batch:
            assert "peel-bounds" in product.lower(a, b, c, c, 1.0, 0.0, target="pvc", **options).stages
        grid = (-(-m // 32), -(-n // 64), 2 * parts if batch else parts)
        execution.bind(product)[grid](a, b, c, c, 1.0, 0.0, **options)
        exact = np.matmul(a.astype(np.float32), b.astype(np.float32))
        np.testing.assert_array_equal(c if parts == 1 else c.sum(0), exact)
        c[...] = 77
        assert (whole == 77).all()


def test_where_tiles_are_moved_inside() -> None:
    """Operands that are read in place, unless old values of the result are added, or it has fewer rows than a tile."""

    def inside(m: int, n: int, k: int, *, added: bool = False, dtype: DType = dtypes.bf16) -> tuple[bool, bool]:
        a, b, c = (Operand(name, np.zeros(shape, dtype.numpy), dtype)
                   for name, shape in (("a", (m, k)), ("b", (k, n)), ("c", (m, n))))
        candidates = plans(m, n, k, 1, dtype, PVC)
        return copied_where_cheaper(a, b, c, candidates, dtype, PVC, None, added=added).inside

    assert inside(1000, 1001, 777) == (True, True)
    assert inside(1024, 1001, 777) == (False, True)
    assert inside(1000, 1001, 777, added=True) == (False, False)
    assert inside(1, 1001, 777) == (False, True)
    assert inside(1000, 1024, 1024) == (False, False)


def test_copies_may_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "padded", lambda *_: pytest.fail("an operand is copied"))
    monkeypatch.setattr(padding, "choose_copies", lambda *_: Copies(True, True, 0))
    a, b = RANDOM.integers(-4, 5, (2, 33, 33)).astype(np.float32)
    for options in ({"copies": False, "target": "pvc"}, {}, {"target": "dg2"}):
        np.testing.assert_array_equal(xt.matmul(a, b, **options), a @ b)


def test_the_log_says_what_becomes_of_each_operand(caplog: pytest.LogCaptureFixture,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = RANDOM.integers(-4, 5, (2, 33, 33)).astype(np.float32)
    monkeypatch.setattr(padding, "choose_copies", lambda *_: Copies(False, True, 0))
    with caplog.at_level(logging.INFO, "xetile"):
        np.testing.assert_array_equal(xt.matmul(a, b, target="pvc"), a @ b)
    assert "operand A of the product: it is read in place" in caplog.text
    assert "operand B of the product: it is copied" in caplog.text


def test_products_without_a_depth_are_zeros() -> None:
    m, n = 2051, 2049
    np.testing.assert_array_equal(xt.matmul(np.ones((m, 0), np.float16), np.ones((0, n), np.float16), target="pvc"),
                                  np.zeros((m, n), np.float16))
    plan = choose_plan(1 << 14, 1 << 14, 0, 1, xt.bf16, PVC, sharing=True)
    nothing = Layout("rows", False, 2, 0)
    chosen = choose_copies(nothing, nothing, 1, plan, PVC)
    assert not chosen.a
    assert not chosen.b


def test_a_matrix_that_a_batch_repeats_is_copied_once() -> None:
    one = np.zeros((33, 31), np.float16)
    repeated = Operand("a", np.broadcast_to(one, (50, 33, 31)), xt.f16)
    assert Layout.of(Memory.of(repeated), PVC).elements == 33 * 31
    copy = padded(repeated, PVC, None)
    assert copy.shape[:2] == (50, 33)
    assert copy.strides()[0] == 0


def test_rows_off_words_are_known() -> None:
    flat = np.zeros(4096, np.float16)
    for pitch, expected in ((34, True), (33, False)):
        array = flat[:pitch * 20].reshape(20, pitch)[:, :31]
        layout = Layout.of(Memory.of(Operand("a", array, xt.f16)), PVC)
        assert (layout.access, layout.in_words, layout.elements) == ("rows", expected, 620)
