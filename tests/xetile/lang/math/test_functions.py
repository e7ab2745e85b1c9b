"""Elementary functions in every execution, against NumPy in float64."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

pytestmark = pytest.mark.unoptimised

EXECUTIONS = [("numpy", None), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"), ("opencl:cpu", "pvc"),
              ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]
EXACT = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "erf": np.vectorize(math.erf), "sin": np.sin, "cos": np.cos, "floor": np.floor, "ceil": np.ceil, "abs": np.abs,
}
POSITIVE = {"log", "sqrt", "rsqrt"}
ROUNDING = {np.float32: 2.0**-24, np.float16: 2.0**-11, ml_dtypes.bfloat16: 2.0**-8}
RNG = np.random.default_rng(17)


@xt.kernel
def all_of_them(A, P, C, *, names):
    """C[i] = the i-th function of A, or of P where it wants positive numbers."""
    for i, name in enumerate(names):
        source = P if name in POSITIVE else A
        value = xt.load_tile(xt.init_tile(source, (0, 0), (8, 32)))
        xt.store_tile(getattr(xt, name)(value), xt.init_tile(C, (8 * i, 0), (8, 32)))


@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
@pytest.mark.parametrize("dtype", ROUNDING)
def test_every_function(dtype, where, target):
    if where == "opencl:cpu":
        require_device(where)
    a = RNG.uniform(-4, 4, (8, 32)).astype(dtype)
    p = RNG.uniform(0.01, 9, (8, 32)).astype(dtype)
    c = np.zeros((8 * len(EXACT), 32), dtype)
    all_of_them.on(where, target=target)[1](a, p, c, names=tuple(EXACT))
    for i, (name, function) in enumerate(EXACT.items()):
        expected = function((p if name in POSITIVE else a).astype(np.float64))
        # Four units of float32 for the function (OpenCL allows it), and one rounding to the type.
        bound = np.abs(expected) * (8 * 2.0**-24 + ROUNDING[dtype]) + 2.0**-24
        assert (np.abs(c[8 * i:8 * i + 8].astype(np.float64) - expected) <= bound).all(), name


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8])
@pytest.mark.parametrize(("where", "target"), EXECUTIONS)
def test_the_absolute_value_of_integers(dtype, where, target):
    @xt.kernel
    def absolute(A, C):
        xt.store_tile(xt.abs(xt.load_tile(xt.init_tile(A, (0, 0), (8, 32)))), xt.init_tile(C, (0, 0), (8, 32)))

    if where == "opencl:cpu":
        require_device(where)
    lowest = np.iinfo(dtype).min
    a = RNG.integers(lowest, np.iinfo(dtype).max, (8, 32), endpoint=True).astype(dtype)
    a[0, 0] = lowest
    c = np.zeros_like(a)
    absolute.on(where, target=target)[1](a, c)
    assert np.array_equal(c, np.abs(a))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_a_run_time_float(where):
    @xt.kernel
    def scaled(C, x):
        xt.store_tile(xt.full((8, 16), xt.exp(x) + 1.0, xt.f32), xt.init_tile(C, (0, 0), (8, 16)))

    c = np.zeros((8, 16), np.float32)
    scaled.on(where)[1](c, 0.5)
    assert np.allclose(c, np.exp(0.5) + 1, rtol=1e-6)


@pytest.mark.parametrize("wrong", [2.0, xt.i32])
def test_what_is_no_float(wrong):
    @xt.kernel
    def mistaken(C):
        v = xt.full((8, 16), 1, xt.i32) if wrong is xt.i32 else wrong
        xt.store_tile(xt.exp(v), xt.init_tile(C, (0, 0), (8, 16)))

    c = np.full((8, 16), 7, np.float32)
    with pytest.raises(xt.ElementTypeError, match=r"xt\.exp takes (floats|a vector or a run-time number)") as caught:
        mistaken[1](c)
    assert "help: " in str(caught.value)
    assert (c == 7).all()
