"""Loops of multiply-adds on a GPU without block messages: first the steps all of whose blocks are in bounds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from benchmarks.gpu_code.library_spills import kernels
from tests.conftest import require_device, require_ocloc, require_simulator
from tests.kernels import gemm, integers, wide

SIZES = ((40, 56, 64), (33, 45, 65), (16, 24, 7), (7, 17, 40))
"""M, N and K: whole tiles and steps, a part of each, no step in bounds, no tile in bounds."""


def bordered(array: Any, more: int = 0) -> Any:
    """A view of the same elements between others; rows are ``more`` elements longer than the border takes."""
    frame = np.full((array.shape[0] + 2, array.shape[1] + 3 + more), 99, array.dtype)
    view = frame[1:-1, 1:1 + array.shape[1]]
    view[...] = array
    return view


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("left", "right"), [("f32", "f32"), ("f16", "f32"), ("f32", "bf16")])
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(("execution", "target"), [("numpy:xegpu", "dg2"), ("opencl:cpu", "dg2"), ("opencl:cpu", "pvc"),
                                                   ("machine:dg2", "dg2")])
def test_products_by_multiply_adds(execution: str, target: str, more: int, left: str, right: str,
                                   size: tuple[int, int, int]) -> None:
    if execution == "opencl:cpu":
        require_device()
    elif execution.startswith("machine"):
        require_simulator()
    m, n, k = size
    rng = np.random.default_rng(m)
    a, b = integers(rng, left, m, k), integers(rng, right, k, n)
    c = np.full((m + 2, n + 3), 7, np.float32)
    converting.on(execution, target=target)[-(-m // 16), -(-n // 16)](bordered(a, more), bordered(b), c[1:-1, 1:-2])
    expected = np.full_like(c, 7)
    expected[1:-1, 1:-2] = wide(a) @ wide(b)
    np.testing.assert_array_equal(c, expected)


@xt.kernel
def converting(A, B, C, *, BM=16, BN=16, BK=16):
    """Product in f32 of operands of any type of float."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, BN))
    total = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        total = xt.tile_mma(xt.load_tile(a).to(xt.f32), xt.load_tile(b).to(xt.f32), total)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


def test_a_step_that_ends_one_element_outside() -> None:
    """The last one, which the device would read as it is, with what lies behind the arrays; NumPy reads zeros there."""
    test_products_by_multiply_adds("opencl:cpu", "dg2", 0, "f32", "f32", (32, 48, 31))


def test_the_first_loop_asks_nothing() -> None:
    spec = xt.Spec((None, None), "f32")
    text = gemm.lower(spec, spec, spec, target="dg2").opencl
    first, rest = re.findall(r"  for \(.*?\n  }", text, re.DOTALL)
    assert "read_block_f32" in first
    assert "load_block" not in first
    assert "load_block_f32" in rest


@pytest.mark.parametrize("target", ["dg2", "arl"])
@pytest.mark.parametrize(("name", "most"), [("matmul 64x64 f32, rows", 700), ("matmul 8x64 f32, rows", 380),
                                            ("matmul 32x64 f32 x f16", 730), ("matmul 64x64 f32 x bf16", 800)])
def test_a_step_takes_half_of_the_instructions(name: str, most: int, target: str) -> None:
    """With a check in each block 1,367, 829 and 1,315; and none in memory."""
    require_ocloc()
    report = dict(kernels(xt.TARGETS[target]))[name]().report(remedies=False)
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.hot.total <= most


def test_a_step_that_fills_the_registers_keeps_its_checks() -> None:
    """32 x 64 sums of a subgroup with both operands take 224 registers: read without a branch, they spill 2 KB."""
    rows, columns = xt.Spec((4096, 4097), "f32"), xt.Spec((4097, 4099), "f32")
    result = xt.Spec((4096, 4099), "f32")
    large = gemm.lower(rows, columns, result, target="pvc", BM=32, BN=64)
    small = gemm.lower(rows, columns, result, target="pvc", BM=16, BN=32)
    assert "peel-bounds" not in large.stages
    assert "peel-bounds" in small.stages
    assert "peel-bounds" not in gemm.lower(rows, columns, result, target="cpu").stages


@xt.kernel
def dropping(A, B, S, C, *, BM=16, BN=16, BK=16):
    """Product of A, of which a hash drops elements, and whose rows gathered numbers scale in each step."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    row = xt.iota((BM, BK), 0).to(xt.u32) + m.to(xt.u32)
    total = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, A.shape[1], BK):
        a, b = xt.load_tile(xt.init_tile(A, (m, k), (BM, BK))), xt.load_tile(xt.init_tile(B, (k, n), (BK, BN)))
        bits = (row * 0x9E3779B1) ^ (xt.iota((BM, BK), 1).to(xt.u32) + k.to(xt.u32)) * 0x7FEB352D
        which = (xt.iota((BM, 1), 0) * 7 + (k // BK).to(xt.i32)) % 5
        a = xt.where(bits >> 31 == 0, a.to(xt.f32), 0.0)
        total = xt.tile_mma(a.to(A.dtype), b, total)
        total = total * xt.load_gather(xt.init_tile(S, which.to(xt.index)), which >= 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN)))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("execution", ["numpy:xegpu", "opencl:cpu", "machine:dg2"])
def test_casts_and_gathers_in_a_step(execution: str, size: tuple[int, int, int]) -> None:
    """Unsigned numbers and gathered ones leave a loop straight: it is peeled as well."""
    if execution == "opencl:cpu":
        require_device()
    elif execution.startswith("machine"):
        require_simulator()
    m, n, k = size
    rng = np.random.default_rng(n)
    a, b, scale = integers(rng, "f16", m, k), integers(rng, "f16", k, n), np.float32([1, 2, -1, 0.5, 1])
    c = np.full((m + 2, n + 3), 7, np.float32)
    kernel = dropping.on(execution, target="dg2")
    kernel[-(-m // 16), -(-n // 16)](bordered(a), bordered(b), scale, c[1:-1, 1:-2])
    rows, columns = np.arange(m, dtype=np.uint32)[:, None], np.arange(k, dtype=np.uint32)
    bits = (rows * np.uint32(0x9E3779B1)) ^ (columns * np.uint32(0x7FEB352D))
    kept = np.where(bits >> 31 == 0, wide(a), 0)
    expected = np.full_like(c, 7)
    expected[1:-1, 1:-2] = 0
    for step in range(0, k, 16):
        factors = scale[(np.arange(m) % 16 * 7 + step // 16) % 5][:, None]
        expected[1:-1, 1:-2] = (expected[1:-1, 1:-2] + kept[:, step:step + 16] @ wide(b)[step:step + 16]) * factors
    np.testing.assert_array_equal(c, expected)
    assert "peel-bounds" in dropping.lower(a, b, scale, c, target="dg2").stages
