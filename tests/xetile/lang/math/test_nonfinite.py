"""Infinities and NaN: in fused multiply-adds, beyond the edges of products, and the bits that copies keep."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, EXECUTIONS, NUMPY, Execution, gemm, gemm_onto
from xegpu.ir import dtypes
from xegpu.target.targets import find_target

pytestmark = pytest.mark.unoptimised
BITS = {dtypes.bf16: np.uint16, dtypes.f16: np.uint16, dtypes.e5m2: np.uint8, dtypes.e4m3: np.uint8}


@xt.kernel
def fused(A, B, C, D):
    a, b, c = (xt.load_tile(xt.init_tile(array, (0, 0), (8, 16))) for array in (A, B, C))
    xt.store_tile(xt.fma(a, b, c), xt.init_tile(D, (0, 0), (8, 16)))


@pytest.mark.parametrize("execution", [e for e in EXECUTIONS if "f64" not in
                                       map(str, find_target(e.target).unsupported_types)], ids=str)
def test_a_finite_product_that_overflows_alone_adds_nothing_to_infinity(execution: Execution) -> None:
    cases = [(1e308, 1e308, -math.inf, -math.inf), (1e308, -1e308, math.inf, math.inf),
             (math.inf, 0.0, 1.0, math.nan), (math.inf, 1.0, -math.inf, math.nan), (1e308, 10.0, -1e308, math.inf)]
    a, b, c, d = (np.zeros((8, 16)) for _ in range(4))
    for array, numbers in zip((a, b, c), zip(*cases, strict=True), strict=False):
        array[0, :len(cases)] = numbers
    execution.bind(fused)[1](a, b, c, d)
    np.testing.assert_array_equal(d[0, :len(cases)], [case[-1] for case in cases])


@pytest.mark.parametrize("execution", [NUMPY, *DEVICE], ids=str)
@pytest.mark.parametrize("shape", [(16, 20, 16, 32), (16, 16, 16, 32), (5, 32, 16, 32), (2, 13, 2, 32), (1, 32, 2, 32)],
                         ids=str)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.bf16], ids=str)
def test_padding_times_infinity_is_nan(dtype: xt.DType, shape: tuple[int, int, int, int],
                                       execution: Execution) -> None:
    """C has columns that B lacks, or rows that A lacks: there a factor is 0, and infinity times 0 is NaN."""
    rows_a, columns_b, rows, columns = shape
    a, b = np.ones((rows_a, 16), dtype.numpy), np.ones((16, columns_b), dtype.numpy)
    a[-1, 3], b[5, 1] = np.inf, np.nan
    padded_a, padded_b = np.zeros((rows, 16), np.float32), np.zeros((16, columns), np.float32)
    padded_a[:rows_a], padded_b[:, :columns_b] = a, b
    with np.errstate(invalid="ignore"):
        expected = (padded_a[:, :, None] * padded_b).sum(1)
    for kernel in (gemm, gemm_onto):
        c = np.zeros((rows, columns), np.float32)
        execution.bind(kernel)[1, 1](a, b, c, BM=rows, BN=32)
        np.testing.assert_array_equal(c, expected)


@xt.kernel
def copied(A, B, C):
    v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))
    xt.store_tile(v, xt.init_tile(B, (0, 0), (8, 32)))
    xt.store_tile(xt.bitcast(v, xt.u8 if v.dtype.bits == 8 else xt.u16), xt.init_tile(C, (0, 0), (8, 32)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", BITS, ids=str)
def test_copies_keep_the_bits_of_nan(dtype: xt.DType, execution: Execution) -> None:
    word = BITS[dtype]
    bits = np.arange(256, dtype=np.uint32).reshape(8, 32).astype(word)
    if word is np.uint16:
        bits *= 257
        bits[0, :8] = 0x7c01, 0x7e01, 0xfc01, 0x7f81, 0x7fc1, 0xffff, 0xff81, 0x7fff
    b, c = np.zeros_like(bits), np.zeros_like(bits)
    execution.bind(copied)[1](bits.view(dtype.numpy), b.view(dtype.numpy), c)
    np.testing.assert_array_equal(b, bits)
    np.testing.assert_array_equal(c, bits)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_e5m2_widens_with_the_bits_of_quiet_nan(execution: Execution) -> None:
    @xt.kernel
    def widened(A, B):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 32))).to(xt.f16)
        xt.store_tile(xt.bitcast(v, xt.u16), xt.init_tile(B, (0, 0), (8, 32)))

    bits = np.arange(256, dtype=np.uint8).reshape(8, 32)
    bits[(bits & 0x7f) == 0x7d] = 0  # signalling
    b = np.zeros((8, 32), np.uint16)
    execution.bind(widened)[1](bits.view(ml_dtypes.float8_e5m2), b)
    np.testing.assert_array_equal(b, bits.astype(np.uint16) << 8)
