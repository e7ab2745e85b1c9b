"""Text rounds to 8-bit floats as ml_dtypes does, in every execution, and refuses arithmetic on them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xetile as xt
from tests.kernels import Execution

EXECUTIONS = [Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"), Execution("opencl:cpu", "pvc")]
TYPES = {"f8E5M2": ml_dtypes.float8_e5m2, "f8E4M3FN": ml_dtypes.float8_e4m3fn}
SOURCES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def text(source: str, target: str, line: str) -> str:
    """A kernel that applies a line to a block of A, once with a loop around it."""
    a, b = f"!xegpu.tensor_desc<8x32x{source}>", f"!xegpu.tensor_desc<8x32x{target}>"
    return f"""
gpu.module @m {{
  gpu.func @f(%A: memref<32x32x{source}>, %B: memref<32x32x{target}>) kernel {{
    %a = xegpu.create_nd_tdesc %A : memref<32x32x{source}> -> {a}
    %b = xegpu.create_nd_tdesc %B : memref<32x32x{target}> -> {b}
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c24 = arith.constant 24 : index
    scf.for %i = %c0 to %c24 step %c8 {{
      %v = xegpu.load_nd %a[%i, 0] : {a} -> vector<8x32x{source}>
      {line}
      xegpu.store_nd %w, %b[%i, 0] : vector<8x32x{target}>, {b}
    }}
    gpu.return
  }}
}}
"""


def numbers(dtype: Any) -> Any:
    """Any bits, with infinities, NaN, limits of both types, ties, subnormal numbers and both zeros among them."""
    rng = np.random.default_rng(6)
    wide = rng.integers(0, 2 ** 32, 32 * 32, np.uint32).view(np.float32)
    some = np.array([np.inf, np.nan, 57344, 61439, 61440, 65535, 448, 464, 465, 480, 2 ** -16, 2 ** -17, 3 * 2 ** -17,
                     2 ** -9, 2 ** -10, 3 * 2 ** -10, 1.125, 1.0625, 1.1875, 0], np.float32)
    wide[:100] = np.concatenate([some, -some, 1.0001 * some, 0.9999 * some, -1.0001 * some])
    middling = rng.normal(size=400).astype(np.float32)
    wide[100:500] = middling * np.float32(2) ** rng.integers(-18, 18, 400)
    with np.errstate(all="ignore"):
        return rng.permutation(wide).astype(dtype).reshape(32, 32)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("operation", ["arith.truncf", "xegpu.truncf"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("target", TYPES)
def test_truncf(source: str, target: str, operation: str, execution: Execution) -> None:
    arrow = "to" if operation == "arith.truncf" else "->"
    line = f"%w = {operation} %v : vector<8x32x{source}> {arrow} vector<8x32x{target}>"
    a, b = numbers(SOURCES[source]), np.zeros((32, 32), np.uint8).view(TYPES[target])
    with np.errstate(all="ignore"):
        expected = a.astype(np.float32).astype(TYPES[target])
    expected[24:] = 0
    execution.bind(xt.parse(text(source, target, line))["f"])[1](a, b)
    codes, wanted = b.view(np.uint8), expected.view(np.uint8)
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(codes[~nan], wanted[~nan])
    assert np.isnan(b[nan].astype(np.float32)).all()
    np.testing.assert_array_equal(codes[nan] >> 7, np.signbit(a[nan]))


@pytest.mark.parametrize(("line", "code"), [
    ("%w = arith.addf %v, %v : vector<8x32xf8E5M2>", "XT3273"),
    ("%w = math.absf %v : vector<8x32xf8E5M2>", "XT3273"),
    ("%x = arith.constant dense<3> : vector<8x32xi32>\n%w = arith.sitofp %x : vector<8x32xi32> to vector<8x32xf8E5M2>",
     "XT3273"),
    ("%x = arith.constant dense<3.0> : vector<8x32xf64>\n"
     "%w = arith.truncf %x : vector<8x32xf64> to vector<8x32xf8E5M2>", "XT1215"),
    ("%x = arith.constant 3.0 : f32\n%n = arith.truncf %x : f32 to f8E5M2\n"
     "%w = vector.broadcast %n : f8E5M2 to vector<8x32xf8E5M2>", "XT3273"),
])
def test_arithmetic_is_refused(line: str, code: str) -> None:
    with pytest.raises(xt.XeError) as caught:
        xt.parse(text("f8E5M2", "f8E5M2", line))
    assert caught.value.code == code
    assert caught.value.location is not None
    assert caught.value.location.line == 11 + line.count("\n") - ("broadcast" in line)
