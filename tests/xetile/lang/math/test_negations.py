"""Negations that Intel's compiler for GPUs drops a zero from, or takes for an absolute value's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, integers
from tests.xetile.lang.math.test_zero_signs import EVERYWHERE, assert_same

SUMS, CHOICES = 24, 15


@xt.kernel
def sums_with_zeros(A: Any, B: Any, I: Any, C: Any, *, dtype: Any, wide: Any) -> None:  # noqa: E741
    a, b = (xt.load_tile(xt.init_tile(X, (0, 0), (1, 16))) for X in (A, B))
    i = xt.load_tile(xt.init_tile(I, (0, 0), (1, 16)))
    z, one = xt.zeros((1, 16), dtype), xt.full((1, 16), 1.0, dtype)
    values = [xt.fma(-a, 1.0, z), xt.fma(one, -a, z), xt.fma(a * -1.0, 1.0, z), xt.fma(a * -b, 1.0, z),
              xt.fma(z, one, -a), xt.fma(z, z, -a), xt.fma(-a, one, (i & 0).to(dtype)),
              a * -1.0 - -0.0, -a - -z, -a - z * -1.0,
              a * -b + 0.0, -a * b - -0.0, -a * -b * -b + 0.0, xt.abs(b) * -a + 0.0, xt.maximum(-a, -a) + 0.0,
              ((-a).to(wide) + 0.0).to(dtype),
              -a + (i - i).to(dtype), (i * 0).to(dtype) - a, ((i & 1) >> 1).to(dtype) - a,
              ((i & 3) // 4).to(dtype) - a, ((i & 1) & (i & 2)).to(dtype) - a, (i % 1).to(dtype) - a,
              (a < a).to(dtype) - a, ((i + 1) - i - 1).to(dtype) - a]
    assert len(values) == SUMS
    for row, value in enumerate(values):
        xt.store_tile(value, xt.init_tile(C, (row, 0), (1, 16)))


@xt.kernel
def choices_of_signs(A: Any, C: Any, n: Any, *, dtype: Any, wide: Any) -> None:
    a, one, scalar = xt.load_tile(xt.init_tile(A, (0, 0), (1, 16))), xt.full((1, 16), 1.0, dtype), n.to(dtype)
    chosen = scalar
    with xt.when(scalar < 0.0):
        chosen = -scalar
    values = [xt.where(a < 0.0, -a, a), xt.where(a < 0.0, -a, a), xt.where(-a > 0.0, -a, a),
              xt.where(a < 0.0, a * -1.0, a), xt.where(a < 0.0, a / -1.0, a), xt.where(a < 0.0, -one, one) * a,
              xt.where(a < 0.0, (-a).to(wide), a.to(wide)).to(dtype), xt.where(a >= 0.0, a, -a),
              xt.where(a > 0.0, a, -a), xt.where(a > -a, a, -a), xt.where(a <= 0.0, -a, a),
              a * xt.where(a > 0.0, one, -one),
              xt.where(a < 0.0, a, -a), xt.where(a > 0.0, -a, a), xt.full((1, 16), chosen, dtype)]
    assert len(values) == CHOICES
    for row, value in enumerate(values):
        xt.store_tile(value, xt.init_tile(C, (row, 0), (1, 16)))


def _run(kernel: xt.Kernel, dtype: xt.DType, where: str, rows: int, *more: Any) -> tuple[np.ndarray, np.ndarray]:
    if where.startswith("machine"):
        require_ocloc()
    a = np.resize([0.0, -0.0, 1.0, -1.0], (1, 16)).astype(dtype.numpy)
    c = np.full((rows, 16), 7, dtype.numpy)
    before = (np.ones_like(a), np.resize(np.array([0, 0, 1, -1, 3], np.int32), (1, 16))) if not more else ()
    kernel.on(where)[1](a, *before, c, *more, dtype=dtype, wide=xt.f16 if dtype is xt.f32 else xt.f32)
    return a.astype(np.float64), c.astype(np.float64)


@EVERYWHERE
def test_a_zero_that_is_added_to_a_negation_is_kept(dtype: xt.DType, where: str) -> None:
    a, c = _run(sums_with_zeros, dtype, where, SUMS)
    assert_same(c, np.repeat(0 - a, SUMS, axis=0))


@EVERYWHERE
def test_a_choice_between_two_signs_is_no_absolute_value(dtype: xt.DType, where: str) -> None:
    a, c = _run(choices_of_signs, dtype, where, CHOICES, -0.0)
    below, above = np.where(a < 0, -a, a), np.where(a > 0, a, -a)
    assert_same(c, np.concatenate([*[below] * 8, *[above] * 4, np.where(a < 0, a, -a), np.where(a > 0, -a, a),
                                   np.full((1, 16), -0.0)]))


LANES = "!xegpu.tensor_desc<8x16xf32, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>"
IN_PART = """
func.func @in_part(%A: memref<8x16xf32>, %B: memref<8x16xf32>, %C: memref<8x16xf32>) {
  %0 = arith.constant 0 : index
  %ta = xetile.init_tile %A[%0, %0] : memref<8x16xf32> -> !xetile.tile<8x16xf32>
  %tb = xetile.init_tile %B[%0, %0] : memref<8x16xf32> -> !xetile.tile<8x16xf32>
  %tc = xetile.init_tile %C[%0, %0] : memref<8x16xf32> -> !xetile.tile<8x16xf32>
  %a = xetile.load_tile %ta : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %b = xetile.load_tile %tb : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %z = arith.constant dense<0.0> : vector<4x16xf32>
  %p = arith.constant dense<1.0> : vector<4x16xf32>
  %n = arith.constant dense<-1.0> : vector<4x16xf32>
  %h = vector.extract_strided_slice %a {offsets = [0, 0], sizes = [4, 16], strides = [1, 1]}
      : vector<8x16xf32> to vector<4x16xf32>
  %l = arith.cmpf olt, %h, %z : vector<4x16xf32>
  %s = arith.select %l, %n, %p : vector<4x16xi1>, vector<4x16xf32>
  %m = vector.insert_strided_slice %s, %b {offsets = [0, 0], strides = [1, 1]}
      : vector<4x16xf32> into vector<8x16xf32> to vector<8x16xf32>
  %x = vector.insert_strided_slice %h, %b {offsets = [0, 0], strides = [1, 1]}
      : vector<4x16xf32> into vector<8x16xf32> to vector<8x16xf32>
  %r = arith.mulf %m, %x : vector<8x16xf32>
  xetile.store_tile %r, %tc : vector<8x16xf32>, !xetile.tile<8x16xf32>
  return
}
"""
OF_SOME_ELEMENTS = """
func.func @of_some_elements(%A: memref<8x16xf32>, %C: memref<8x16xf32>) {
  %0 = arith.constant 0 : index
  %a = XeGPU.create_nd_tdesc %A, %0, %0 : memref<8x16xf32>, index, index into LANES
  %c = XeGPU.create_nd_tdesc %C, %0, %0 : memref<8x16xf32>, index, index into LANES
  %v = XeGPU.load_nd %a : LANES into vector<8x1xf32>
  %w = arith.constant dense<[[-1.0], [2.0], [4.0], [-1.0], [-1.0], [-1.0], [0.5], [8.0]]> : vector<8x1xf32>
  %z = arith.constant dense<[[0.0], [2.0], [4.0], [0.0], [0.0], [-1.0], [0.5], [8.0]]> : vector<8x1xf32>
  %d = arith.divf %v, %w : vector<8x1xf32>
  %s = arith.addf %d, %z : vector<8x1xf32>
  XeGPU.store_nd %s, %c : vector<8x1xf32>, LANES
  return
}
""".replace("LANES", LANES)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_part_with_other_factors_is_no_choice_of_signs(execution: Execution) -> None:
    a, b = integers(np.random.default_rng(3), np.float32, 2, 8, 16)
    c = np.full((8, 16), 7, np.float32)
    execution.bind(xt.parse(IN_PART)["in_part"])[1](a, b, c)
    np.testing.assert_array_equal(c, np.concatenate([np.abs(a[:4]), b[4:] * b[4:]]))


@pytest.mark.parametrize("execution", [each for each in EXECUTIONS if each.target not in ("dg2", "cpu")], ids=str)
def test_a_quotient_of_some_elements_is_no_negation(execution: Execution) -> None:
    """A kernel at lane level, for one target's lanes."""
    a = integers(np.random.default_rng(3), np.float32, 8, 16)
    c = np.full((8, 16), 7, np.float32)
    divisors, added = np.array([-1, 2, 4, -1, -1, -1, 0.5, 8]), np.array([0, 2, 4, 0, 0, -1, 0.5, 8])
    execution.bind(xt.parse(OF_SOME_ELEMENTS)["of_some_elements"])[1](a, c)
    np.testing.assert_array_equal(c, a / divisors[:, None] + added[:, None])


@xt.kernel
def long_chains(A: Any, C: Any, *, length: Any) -> None:
    a = xt.load_tile(xt.init_tile(A, (0, 0), (1, 16)))
    product, known = -a, xt.full((1, 16), 1.0, xt.f32)
    for _ in range(length):
        product, known = product * a, known * 0.5 + 0.5
    xt.store_tile((product + 0.0) * (known - a), xt.init_tile(C, (0, 0), (1, 16)))


def test_chains_are_longer_than_the_stack_of_python() -> None:
    spec = xt.Spec((None, None), "f32")
    text = str(long_chains.lower(spec, spec, length=600, target="pvc").opencl)
    assert "^ (int)0x80000000" in text
    assert "fma" in text


FAR = """
func.func @far(%n: i32, %C: memref<8x16xf32>) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : i32
  %far = arith.constant 2147483647 : i32
  %bit = arith.andi %n, %1 : i32
  %none = arith.shrui %bit, %far : i32
  %f = arith.sitofp %none : i32 to f32
  %g = arith.sitofp %n : i32 to f32
  %d = arith.subf %f, %g : f32
  %v = vector.broadcast %d : f32 to vector<8x16xf32>
  %c = xetile.init_tile %C[%0, %0] : memref<8x16xf32> -> !xetile.tile<8x16xf32>
  xetile.store_tile %v, %c : vector<8x16xf32>, !xetile.tile<8x16xf32>
  return
}
"""


def test_a_shift_by_far_more_than_a_word_is_lowered() -> None:
    """Its distance is no exponent: 2 to this power takes minutes."""
    assert "fma" in str(xt.parse(FAR)["far"].lower(np.int32(1), xt.Spec((8, 16), "f32"), target="pvc").opencl)
