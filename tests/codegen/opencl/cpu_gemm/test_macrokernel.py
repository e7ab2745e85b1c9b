"""Products by functions of whole vectors, on the CPU device: edges, odd depths, the processor's dot products."""

from __future__ import annotations

import itertools
import logging
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from codegen.opencl import cpu_gemm
from codegen.opencl.cpu_gemm.macrokernel import ProductText
from codegen.opencl.cpu_gemm.microkernel import Numbers, RowsOfSums
from codegen.opencl.prelude.macros import CALL
from codegen.runtime import program_source
from codegen.runtime.devices import find_queue
from codegen.toolchain.cpu_features import has_feature
from tests.conftest import require_device
from xegpu.ir.dtypes import DType, bf16, f16, f32, i8
from xegpu.target.gemm_microkernel import MicrokernelShape

KINDS = (np.float32, np.float16, ml_dtypes.bfloat16)
SHAPES = ((64, 160, 96), (37, 77, 45), (5, 3, 1), (70, 96, 600))
"""M, N and K: whole tiles; parts of them, and an odd depth; less than a vector; more than a panel and a long step."""


@xt.kernel
def gemm(A, B, C, *, rows=32, columns=80, acc=xt.f32, first=1):
    """Subgroups of 32 x 80, whose vectors of columns go in two parts of three and two; or of a few rows."""
    m, n = xt.group_id(0) * rows, xt.group_id(1) * columns
    a, b = xt.init_tile(A, (m, 0), (rows, 32)), xt.init_tile(B, (0, n), (32, columns))
    total = xt.full((rows, columns), first, acc)
    for _ in xt.range(0, A.shape[1], 32):
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (rows, columns)))


def _check(shape: tuple[int, int, int], kind: Any, rows: int = 32) -> None:
    """C in a border that must stay, of integers; a row and a column that are no numbers spoil themselves alone."""
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, size).astype(kind) for size in ((m, k), (k, n)))
    expected = np.full((m + 2, n + 2), 7, np.float32)
    c = expected.copy()
    expected[1:-1, 1:-1] = 1 + a.astype(np.float32) @ b.astype(np.float32)
    run = gemm.on("opencl:cpu")[-(-m // rows), -(-n // 80)]
    run(a, b, c[1:-1, 1:-1], rows=rows)
    np.testing.assert_array_equal(c, expected)
    a[-1, 0], b[0, -1] = np.inf, np.nan
    run(a, b, c[1:-1, 1:-1], rows=rows)
    np.testing.assert_array_equal(c[:-2, :-2], expected[:-2, :-2])
    assert not np.isfinite(c[-2, -2])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_edges_and_odd_depths(kind: Any) -> None:
    require_device()
    for shape in SHAPES:
        _check(shape, kind)


BYTES = tuple(itertools.product((np.int8, np.uint8), repeat=2))


def _check_bytes(shape: tuple[int, int, int], kinds: Any, columns: int, first: int) -> None:
    """All values of both types, in C with a border that must stay."""
    (m, n, k), rng = shape, np.random.default_rng(sum(shape))
    limits = [np.iinfo(kind) for kind in kinds]
    a, b = (rng.integers(limit.min, limit.max, size, limit.dtype, endpoint=True)
            for limit, size in zip(limits, ((m, k), (k, n)), strict=True))
    expected = np.pad(first + a.astype(np.int32) @ b.astype(np.int32), 1, constant_values=7)
    for where in ("opencl:cpu", "numpy:xegpu"):
        c = np.full((m + 2, n + 2), 7, np.int32)
        run = gemm.on(where, target="cpu")[-(-m // 32), -(-n // columns)]
        run(a, b, c[1:-1, 1:-1], columns=columns, acc=xt.i32, first=first)
        np.testing.assert_array_equal(c, expected, f"{shape} in {where}")


@pytest.mark.parametrize("kinds", BYTES, ids=lambda kinds: "_".join(kind.__name__ for kind in kinds))
@pytest.mark.parametrize("columns", [64, pytest.param(80, marks=pytest.mark.everything),
                                     pytest.param(16, marks=pytest.mark.everything)])
@pytest.mark.parametrize("first", [0, 1])
def test_products_of_bytes(kinds: Any, columns: int, first: int) -> None:
    """Depths that are no multiple of four; deeper than a panel of one vector (1024) and of four (320). Sums from zero
    are one call with their store."""
    require_device()
    for shape in (*SHAPES, (33, 66, 1043)):
        _check_bytes(shape, kinds, columns, first)


def test_bytes_on_a_processor_without_their_dot_product(monkeypatch: pytest.MonkeyPatch) -> None:
    require_device()
    monkeypatch.setattr(program_source, "has_feature", lambda name: False)
    gemm.forget()
    for first in (0, 1):
        _check_bytes(SHAPES[1], BYTES[0], 64, first)
    gemm.forget()


@pytest.mark.parametrize(("kind", "rows"), list(zip(KINDS, (32, 2, 32), strict=True)), ids=str)
def test_sums_outside_the_operands(kind: Any, rows: int) -> None:
    """Nothing is added where C is larger than A and B; a NaN of A spoils its row alone."""
    require_device()
    m, n, k = 37, 77, 45
    rng = np.random.default_rng(rows)
    a, b = (rng.integers(-4, 5, size).astype(kind) for size in ((m, k), (k, n)))
    expected, c = np.ones((m + 2, n + 3), np.float32), np.zeros((m + 2, n + 3), np.float32)
    expected[:m, :n] += a.astype(np.float32) @ b.astype(np.float32)
    run = gemm.on("opencl:cpu")[-(-c.shape[0] // rows), 1]
    run(a, b, c, rows=rows)
    np.testing.assert_array_equal(c, expected)
    a[3, 4] = np.nan
    run(a, b, c, rows=rows)
    np.testing.assert_array_equal(np.delete(c, 3, 0), np.delete(expected, 3, 0))
    assert not np.isfinite(c[3, :n]).any()


@pytest.mark.parametrize(("kind", "rows"), list(zip(KINDS, (3, 1, 2), strict=True)), ids=str)
def test_few_rows(kind: Any, rows: int) -> None:
    require_device()
    for shape in SHAPES[1:]:
        _check(shape, kind, rows)


def test_a_processor_without_bf16(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The numbers are widened, and the log says so."""
    require_device()
    monkeypatch.setattr(program_source, "has_feature", lambda name: False)
    gemm.forget()
    with caplog.at_level(logging.INFO, "xetile"):
        for shape in SHAPES:
            _check(shape, ml_dtypes.bfloat16)
    assert "the CPU has no avx512_bf16" in caplog.text
    gemm.forget()


def test_sums_of_bf16_are_f32() -> None:
    """Random numbers stay within the bound of sums in f32, whichever way the processor multiplies."""
    require_device()
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((256, 256)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((256, 256), np.float32)
    gemm.on("opencl:cpu")[8, 4](a, b, c)
    wide = a.astype(np.float64), b.astype(np.float64)
    bound = 256 * 2.0 ** -23 * (np.abs(wide[0]) @ np.abs(wide[1]) + 1)
    assert (np.abs(c - (wide[0] @ wide[1] + 1)) <= bound).all()


@pytest.mark.parametrize("product", cpu_gemm.DOT_PRODUCTS, ids=lambda product: product.elements)
def test_the_instruction_is_taken_where_there_is_one(product: cpu_gemm.DotProduct) -> None:
    pair, acc = xt.Spec((None, None), product.elements), xt.f32 if product.elements == "bf16" else xt.i32
    text = gemm.lower(pair, pair, xt.Spec((None, None), acc.name), target="cpu", acc=acc).opencl
    assert f"#ifdef {product.macro}" in text
    require_device()
    source = program_source.opencl_for_cpu(text, find_queue("opencl:cpu").sycl_device)
    assert text in source
    assert (product.declarations in source) == has_feature(product.feature)


def test_only_edges_are_stored_by_calls() -> None:
    """In a call the place would be each lane's own, and 16 numbers side by side would be scattered."""
    text = gemm.lower(*[xt.Spec((None, None), "f32")] * 3, target="cpu").opencl
    heads = re.findall(r"^(.*)static void (store_\w+)\(", text, re.MULTILINE)
    assert heads
    assert all((before.strip() == CALL) == name.endswith("_edge") for before, name in heads)


def test_which_products_are_whole() -> None:
    kinds = (f32, bf16, i8)
    fitting = {(rows, a.name, b.name) for rows, a, b in itertools.product((8, 16, 512), kinds, kinds)
               if MicrokernelShape(rows, 64, a, b).fits}
    assert MicrokernelShape(1, 1024, f16, f16).is_skinny
    assert fitting == {(16, kind.name, kind.name) for kind in kinds}
    assert not MicrokernelShape(1, 1024, i8, i8).fits
    assert MicrokernelShape(16, 48, f16, f16).fits
    assert not MicrokernelShape(16, 40, f16, f16).fits


@pytest.mark.parametrize(("group", "deepest"), [(1, 256), (1, 128), (2, 256), (4, 128)])
@pytest.mark.parametrize(("width", "parts"), [(4, 43), (4, 22), (4, 6), (3, 11), (2, 3), (1, 2)])
def test_all_lines_of_the_next_panel_are_prefetched(width: int, parts: int, group: int, deepest: int) -> None:
    dtype = {1: f32, 2: bf16, 4: i8}[group]
    depth = deepest * group
    rows = RowsOfSums(Numbers(dtype, dtype, group, depth), 5, width, width * 16, parts)
    text, found = "\n".join(rows._fetched_b()).replace("/", "//"), set()
    match = re.search(r"i < (\d+).*\n.*B \+ \(k0 \+ (.*)\) \* pitch_b \+ ahead \+ first(.*);", text)
    assert match is not None
    for turn, i in itertools.product(range(parts * deepest // 16), range(int(match[1]))):
        names = {"turn": turn, "i": i, "furthest": depth - 1, "min": min}
        row, column = eval(match[2], names), eval(match[3] or "0", names)
        found |= {(row, column + int(at)) for at in re.findall(r"XETILE_FETCH\(next_row \+ (\d+)\)", text)}
    assert found == {(row, column) for row in range(depth) for column in range(0, width * 16, 64 // dtype.bytes)}


@pytest.mark.parametrize(("dtype", "depth"), [(f32, 256), (bf16, 512), (f16, 128), (i8, 512)], ids=str)
def test_panels_are_deep_where_a_is_read_in_place(dtype: DType, depth: int) -> None:
    """A copy of A beside the panel takes L2 as well."""
    group = {f32: 1, bf16: 2, f16: 1, i8: 4}[dtype]
    text = ProductText(MicrokernelShape(256, 64, dtype, dtype), group)
    assert text.count == depth
    assert f"k0 += {depth})" in "\n".join(text.body())
