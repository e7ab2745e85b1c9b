"""Arithmetic in machine code: every operator and conversion of OpenCL C's scalar types against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from codegen.simulator.alu import rounding
from tests.codegen.simulator.run_opencl import TARGETS, run_opencl

Array = np.ndarray[Any, Any]
_ITEMS = 150  # no multiple of a work-group, nor of a subgroup
_TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8",
          "ulong": "u8", "half": "f2", "float": "f4", "double": "f8"}


def _has(target: str, kind: str) -> bool:
    """Whether a GPU has the type: Xe-HPG has no float64."""
    return not (target == "dg2" and kind == "double")


_INTEGERS = [name for name, code in _TYPES.items() if code[0] != "f"]


def _integers(kind: np.dtype[Any], seed: int) -> Array:
    """Random integers of all magnitudes, with the ends of the range."""
    random = np.random.default_rng(seed)
    raw = random.integers(0, 1 << 63, _ITEMS, np.uint64) * np.uint64(2) + random.integers(0, 2, _ITEMS, np.uint64)
    values = (raw >> random.integers(0, 64, _ITEMS).astype(np.uint64)).astype(kind)
    limits = np.iinfo(kind)
    values[:6] = [limits.min, limits.max, limits.min, limits.max, 0, 1]
    return values


def _wide(value: Array) -> list[int]:
    return [int(each) for each in value]


def _sat(values: list[int], kind: np.dtype[Any]) -> Array:
    limits = np.iinfo(kind)
    return np.array([min(max(each, limits.min), limits.max) for each in values], kind)


def _wrapped(values: list[int], kind: np.dtype[Any]) -> Array:
    bits = 8 * kind.itemsize
    return np.array([each % (1 << bits) for each in values], f"u{kind.itemsize}").view(kind)


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_INTEGER: Mapping[str, Callable[[int, int, int], int]] = {
    "x + y": lambda x, y, bits: x + y,
    "x - y": lambda x, y, bits: x - y,
    "x * y": lambda x, y, bits: x * y,
    "x & y": lambda x, y, bits: x & y,
    "x | ~y": lambda x, y, bits: x | ~y,
    "x ^ y": lambda x, y, bits: x ^ y,
    "x << (y & (BITS - 1))": lambda x, y, bits: x << (y & bits - 1),
    "x >> (y & (BITS - 1))": lambda x, y, bits: x >> (y & bits - 1),
    "x / (y | 1)": lambda x, y, bits: _quotient(x, y | 1),
    "x % (y | 1)": lambda x, y, bits: x - _quotient(x, y | 1) * (y | 1),
    "min(x, y)": lambda x, y, bits: min(x, y),
    "max(x, y)": lambda x, y, bits: max(x, y),
    "abs_diff(x, y)": lambda x, y, bits: abs(x - y),
    "mul_hi(x, y)": lambda x, y, bits: x * y >> bits,
    "hadd(x, y)": lambda x, y, bits: x + y >> 1,
    "rhadd(x, y)": lambda x, y, bits: x + y + 1 >> 1,
    "popcount(x)": lambda x, y, bits: (x % (1 << bits)).bit_count(),
    "clz(x)": lambda x, y, bits: bits - (x % (1 << bits)).bit_length(),
    "rotate(x, (T)5)": lambda x, y, bits: (x % (1 << bits) << 5) | (x % (1 << bits) >> bits - 5),
    "x < y ? x + (T)3 : y": lambda x, y, bits: x + 3 if x < y else y,
    "(x == y || x > (T)7) ? (T)1 : (T)0": lambda x, y, bits: int(x == y or x > 7),
    "mad_hi(x, y, x)": lambda x, y, bits: (x * y >> bits) + x,
}
_SATURATED: Mapping[str, Callable[[int, int], int]] = {
    "add_sat(x, y)": lambda x, y: x + y,
    "sub_sat(x, y)": lambda x, y: x - y,
}


def _elementwise(kind: str, expressions: list[str], result: str = "T") -> str:
    stores = "\n".join(f"o[{position} * n + i] = {each};" for position, each in enumerate(expressions))
    return f"""
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define T {kind}
#define BITS (8 * (int)sizeof(T))
kernel SIMD void f(global const T *a, global const T *b, global {result} *o, int n) {{
    int i = get_global_id(0);
    if (i < n) {{ T x = a[i], y = b[i];
{stores}
    }}
}}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", _INTEGERS)
def test_integers(kind: str, target: str) -> None:
    dtype = np.dtype(_TYPES[kind])
    a, b = _integers(dtype, 1), _integers(dtype, 2)[::-1].copy()
    expressions = [*_INTEGER, *_SATURATED]
    out = np.full((len(expressions), _ITEMS), 99, dtype)
    run_opencl(_elementwise(kind, expressions), "f", target, a, b, out, np.int32(_ITEMS), items=192)
    pairs = list(zip(_wide(a), _wide(b), strict=True))
    for row, (text, function) in zip(out, _INTEGER.items(), strict=False):
        expected = _wrapped([function(x, y, 8 * dtype.itemsize) for x, y in pairs], dtype)
        np.testing.assert_array_equal(row, expected, text)
    for row, (text, saturated) in zip(out[len(_INTEGER):], _SATURATED.items(), strict=True):
        np.testing.assert_array_equal(row, _sat([saturated(x, y) for x, y in pairs], dtype), text)


_FLOATS: Mapping[str, Callable[[Array, Array], Array]] = {
    "x + y": lambda x, y: x + y,
    "x - y * y": lambda x, y: x - y * y,
    "-x * fabs(y)": lambda x, y: -x * np.abs(y),
    "floor(x)": lambda x, y: np.floor(x),
    "ceil(x)": lambda x, y: np.ceil(x),
    "trunc(x)": lambda x, y: np.trunc(x),
    "rint(x)": lambda x, y: np.rint(x),
    "fmin(x, y)": lambda x, y: np.fmin(x, y),
    "fmax(x, y)": lambda x, y: np.fmax(x, y),
    "x < y ? x : -y": lambda x, y: np.where(x < y, x, -y),
    "x > y ? x : y": lambda x, y: np.where(x > y, x, y),  # sel with gt, in which NaN does not lose
    "x <= y ? x : y": lambda x, y: np.where(x <= y, x, y),
    "x == y ? x : y": lambda x, y: np.where(x == y, x, y),
    "isnan(x) || x >= y ? (T)1 : (T)0": lambda x, y: (np.isnan(x) | (x >= y)).astype(x.dtype),
    "copysign(x, y)": np.copysign,
    "clamp(x, (T)0, (T)1)": lambda x, y: np.clip(x, 0, 1),
    "ldexp(x, 3)": lambda x, y: x * x.dtype.type(8),
}


@pytest.mark.parametrize(("kind", "target"), [(kind, target) for kind in ("half", "float", "double")
                                              for target in TARGETS if _has(target, kind)])
def test_floats(kind: str, target: str) -> None:
    dtype = np.dtype(_TYPES[kind])
    random = np.random.default_rng(3)
    # few bits: products and sums are exact, so that contraction to fused multiply-add changes nothing
    a, b = ((random.integers(-64, 64, _ITEMS) / 4).astype(dtype) for _ in range(2))
    a[:4], b[0] = [-0.0, 0.5, 1.5, 2.5], 0.0
    b[4:7] = [np.inf, -np.inf, np.nan]
    out = np.full((len(_FLOATS), _ITEMS), 99, dtype)
    run_opencl(_elementwise(kind, list(_FLOATS)), "f", target, a, b, out, np.int32(_ITEMS), items=192)
    for row, (text, function) in zip(out, _FLOATS.items(), strict=True):
        np.testing.assert_array_equal(row, function(a, b), text)
        if "?" in text:
            np.testing.assert_array_equal(np.signbit(row), np.signbit(function(a, b)), text)


_MATH: Mapping[str, Callable[[Array, Array], Array]] = {
    "x / y": lambda x, y: x / y, "sqrt(x)": lambda x, y: np.sqrt(x), "rsqrt(x)": lambda x, y: 1 / np.sqrt(x),
    "exp(x)": lambda x, y: np.exp(x), "log(x)": lambda x, y: np.log(x), "sin(x)": lambda x, y: np.sin(x),
    "cos(x)": lambda x, y: np.cos(x), "pow(x, y)": lambda x, y: x ** y, "tanh(x)": lambda x, y: np.tanh(x),
    "atan2(x, y)": lambda x, y: np.arctan2(x, y), "fmod(x, y)": lambda x, y: np.fmod(x, y),
}


@pytest.mark.parametrize("target", TARGETS)
def test_math_of_float(target: str) -> None:
    random = np.random.default_rng(4)
    a, b = (random.uniform(0.1, 8, _ITEMS).astype(np.float32) for _ in range(2))
    out = np.full((len(_MATH), _ITEMS), 99, np.float32)
    run_opencl(_elementwise("float", list(_MATH)), "f", target, a, b, out, np.int32(_ITEMS), items=192)
    for row, (text, function) in zip(out, _MATH.items(), strict=True):
        expected = function(a.astype(np.float64), b.astype(np.float64))
        np.testing.assert_allclose(row, expected, 1e-6, 4e-6, err_msg=text)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_double_division_root_and_fused(target: str) -> None:
    random = np.random.default_rng(5)
    a, b = (random.uniform(0.1, 8, _ITEMS) for _ in range(2))
    expressions = ["x / y", "sqrt(x)", "fma(x, y, -x * y)", "1 / x"]
    out = np.full((len(expressions), _ITEMS), 99.0)
    source = "#pragma OPENCL FP_CONTRACT OFF\n" + _elementwise("double", expressions)
    run_opencl(source, "f", target, a, b, out, np.int32(_ITEMS), items=192)
    np.testing.assert_array_equal(out[0], a / b)
    np.testing.assert_array_equal(out[1], np.sqrt(a))
    np.testing.assert_array_equal(out[3], 1 / a)
    errors = [float(Fraction(x) * Fraction(y) - Fraction(x * y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(out[2], errors)
    assert np.count_nonzero(out[2])


@pytest.mark.parametrize("target", TARGETS)
def test_correctly_rounded_division(target: str) -> None:
    random = np.random.default_rng(6)
    a, b = (random.uniform(0.1, 8, _ITEMS).astype(np.float32) for _ in range(2))
    out = np.full((2, _ITEMS), 99, np.float32)
    run_opencl(_elementwise("float", ["x / y", "sqrt(x)"]), "f", target, a, b, out, np.int32(_ITEMS), items=192,
               options="-cl-fp32-correctly-rounded-divide-sqrt")
    np.testing.assert_array_equal(out, [a / b, np.sqrt(a)])




@pytest.mark.parametrize(("kind", "target"), [(kind, target) for kind in _TYPES for target in TARGETS
                                              if _has(target, kind)])
def test_conversions(kind: str, target: str) -> None:
    """From one type to all others; integers wrap, or saturate where it is asked for."""
    names = [name for name in _TYPES if _has(target, name)]
    dtype = np.dtype(_TYPES[kind])
    values = _integers(dtype, 7) if dtype.kind != "f" else \
        np.random.default_rng(7).uniform(-120, 120, _ITEMS).astype(dtype)
    stores, expected = [], []
    for name in names:
        other = np.dtype(_TYPES[name])
        if other.kind == "f":
            stores.append((name, f"convert_{name}(x)"))
            with np.errstate(over="ignore"):
                expected.append(values.astype(other))
            continue
        stores.append((name, f"convert_{name}_sat(x)"))
        expected.append(_sat(_wide(np.trunc(values.astype(float)) if dtype.kind == "f" else values), other))
        if dtype.kind != "f":
            stores.append((name, f"convert_{name}(x)"))
            expected.append(_wrapped(_wide(values), other))
    outputs = [np.full(_ITEMS, 99, each.dtype) for each in expected]
    parameters = ", ".join(f"global {name} *o{position}" for position, (name, _) in enumerate(stores))
    body = " ".join(f"o{position}[i] = {text};" for position, (_, text) in enumerate(stores))
    source = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" \
             f"kernel SIMD void f(global const {kind} *a, int n, {parameters}) {{ int i = get_global_id(0);\n" \
             f"if (i < n) {{ {kind} x = a[i]; {body} }} }}"
    run_opencl(source, "f", target, values, np.int32(_ITEMS), *outputs, items=192)
    for output, wanted, (_, text) in zip(outputs, expected, stores, strict=True):
        np.testing.assert_array_equal(output, wanted, f"{kind}: {text}")


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize(("kind", "name"),
                         [("double", "float"), ("float", "half"), ("int", "float"), ("long", "float")])
def test_directed_rounding(kind: str, name: str, target: str) -> None:
    """Conversions with a rounding mode change that of the machine."""
    dtype, other = np.dtype(_TYPES[kind]), np.dtype(_TYPES[name])
    random = np.random.default_rng(8)
    values = random.uniform(-100, 100, _ITEMS).astype(dtype) if dtype.kind == "f" else _integers(dtype, 8)
    modes = ("rte", "rtz", "rtp", "rtn")
    out = np.full((4, _ITEMS), 99, other)
    run_opencl(_elementwise(kind, [f"convert_{name}_{mode}(x)" for mode in modes], name), "f", target, values, values,
               out, np.int32(_ITEMS), items=192)
    nearest = values.astype(other)
    wide = values.astype(np.longdouble)
    down = np.where(nearest > wide, np.nextafter(nearest, other.type(-np.inf)), nearest)
    up = np.where(nearest < wide, np.nextafter(nearest, other.type(np.inf)), nearest)
    np.testing.assert_array_equal(out, [nearest, np.where(wide > 0, down, up), up, down])


def test_the_sign_of_a_fused_sum_that_is_zero() -> None:
    cases = [(0.0, -0.0, -0.0, -0.0), (0.0, 0.0, -0.0, 0.0), (5e-324, -0.0, -0.0, -0.0), (1.0, -0.0, -0.0, -0.0),
             (2.0, 3.0, -6.0, 0.0), (1e-200, -1e-200, 0.0, -0.0), (1e-200, 1e-200, -0.0, 0.0)]
    a, b, c, expected = (np.array(column) for column in zip(*cases, strict=True))
    found = rounding.fused(a, b, c, rounding.TO_EVEN)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_a_product_that_overflows_alone_in_a_fused_sum() -> None:
    """Compared with exact fractions: the sum may be finite, or the addend's infinity."""
    random = np.random.default_rng(9)
    a, b = (random.choice([-1, 1], 500) * random.uniform(1e154, 1.8e154, 500) for _ in range(2))
    opposite = -np.sign(a) * np.sign(b)
    c = opposite * random.uniform(0, np.finfo(np.float64).max, 500)
    c[::50] = opposite[::50] * np.inf
    with np.errstate(all="ignore"):
        found = rounding.fused(a, b, c, rounding.TO_EVEN)
    for x, y, z, result in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
        try:
            expected = z if np.isinf(z) else float(Fraction(x) * Fraction(y) + Fraction(z))
        except OverflowError:
            expected = -np.copysign(np.inf, z)
        assert result == expected
