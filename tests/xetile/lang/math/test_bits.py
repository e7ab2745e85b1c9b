"""Population count, leading zeros and upper halves of products, against Python's integers of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_sycl_compiler
from tests.kernels import DEVICE, NUMPY, Array, Execution
from xegpu.ir.dtypes import DType

pytestmark = pytest.mark.unoptimised

EXECUTIONS = [NUMPY, Execution("numpy:xegpu", "pvc"), Execution("numpy:program", "pvc"), *DEVICE]
INTEGERS = [xt.i64, xt.i32, xt.i16, xt.i8, xt.u64, xt.u32, xt.u16, xt.u8]
SHAPE = (8, 32)


def numbers(dtype: DType, seed: int) -> Array:
    """Numbers of all magnitudes, the limits, zero, one and minus one."""
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype.numpy)
    found = rng.integers(limits.min, limits.max, SHAPE, dtype.numpy, endpoint=True)
    found >>= rng.integers(0, dtype.bits, SHAPE).astype(dtype.numpy)
    found[0, :5] = limits.min, limits.max, 0, 1, limits.max - 1
    found[1, :4] = limits.min, limits.min, -1 if limits.min else 0, limits.max
    return found


def run(execution: Execution, function: Any, results: int, dtype: DType, *arrays: Array) -> list[Array]:
    """Results of ``function`` of the arrays' vectors, and of their first elements as run-time numbers."""
    @xt.kernel
    def kernel(A, B, C):
        vectors = [xt.load_tile(xt.init_tile(array, (0, 0), SHAPE)) for array in (A, B)]
        values = [*function(*vectors)]
        if dtype.bits >= 32:  # narrower run-time numbers there are none of
            values += function(*(xt.load_scalar(array, (0, 0)) for array in (A, B)))
        for i, value in enumerate(values):
            tile = xt.init_tile(C, (8 * i, 0), SHAPE)
            xt.store_tile(xt.full(SHAPE, value, dtype) if isinstance(value, xt.Scalar) else value, tile)

    c = np.zeros((16 * results, 32), dtype.numpy)
    execution.bind(kernel)[1](*arrays, c)
    return [c[8 * i:8 * i + 8] for i in range(2 * results)]


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bits_and_upper_halves(dtype: DType, execution: Execution) -> None:
    a, b = numbers(dtype, 1), numbers(dtype, 2)
    expected = [np.vectorize(function, otypes=[object])(a.astype(object), b.astype(object)) for function in (
        lambda x, _: bin(x % 2**dtype.bits).count("1"), lambda x, _: dtype.bits - (x % 2**dtype.bits).bit_length(),
        lambda x, y: x * y >> dtype.bits)]
    found = run(execution, lambda x, y: (xt.popcount(x), xt.clz(x), xt.mul_hi(x, y)), 3, dtype, a, b)
    for function, vectors, scalars in zip(expected, found[:3], found[3:], strict=True):
        assert (vectors == function.astype(dtype.numpy)).all()
        assert dtype.bits < 32 or (scalars == function.astype(dtype.numpy)[0, 0]).all()


@pytest.mark.everything
@pytest.mark.parametrize("dtype", [xt.i8, xt.u64], ids=str)
def test_as_sycl(dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    require_sycl_compiler()
    monkeypatch.setenv("XETILE_SPIRV", "sycl")
    test_bits_and_upper_halves(dtype, DEVICE[0])


def test_others_are_refused() -> None:
    @xt.kernel
    def count(A, *, function):
        function(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))))

    for function in (xt.popcount, xt.clz, lambda v: xt.mul_hi(v, v), lambda v: xt.clz(v > 0), lambda v: xt.popcount(3)):
        with pytest.raises(xt.XeError) as caught:
            count[1](np.zeros((8, 16), np.float32), function=function)
        assert caught.value.code == "XT1270"


def test_text_reads_back() -> None:
    @xt.kernel
    def bits(A, B):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
        xt.store_tile(xt.popcount(v) + xt.clz(v), xt.init_tile(B, (0, 0), (8, 16)))

    a, b = numbers(xt.i32, 3)[:, :16].copy(), np.zeros((8, 16), np.int32)
    lowered = bits.lower(a, b)
    for text in (lowered.xetile, lowered.xegpu):
        assert "math.ctpop" in text
        assert "math.ctlz" in text
        b[...] = 0
        xt.parse(text)["bits"][1](a, b)
        assert (b == [[bin(x % 2**32).count("1") + 32 - (x % 2**32).bit_length() for x in row]
                      for row in a.tolist()]).all()
