"""Approximate functions: bounds of their errors, by machine code too, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, sqrt
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_ocloc
from tests.kernels import DEVICE, NUMPY, Array, Execution
from xetile.library.activations import ACTIVATIONS

pytestmark = pytest.mark.optimised

_erf = np.vectorize(erf)
ULP = 2.0**-23
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[Array], Array], Callable[[Array], Array], float]] = {
    # function; reference; bound of the error at x, absolute; instructions of 16 elements
    "exp": (xt.exp, np.exp, lambda x: np.exp(x) * (4 + np.abs(x)) * ULP, 4),
    "exp2": (xt.exp2, np.exp2, lambda x: np.exp2(x) * 4 * ULP, 4),
    "log": (xt.log, np.log, lambda x: (1 + np.abs(np.log(x))) * 4 * ULP, 4),
    "log2": (xt.log2, np.log2, lambda x: (1 + np.abs(np.log2(x))) * 4 * ULP, 4),
    "log10": (xt.log10, np.log10, lambda x: (1 + np.abs(np.log10(x))) * 4 * ULP, 4),
    "rsqrt": (xt.rsqrt, lambda x: 1 / np.sqrt(x), lambda x: 4 * ULP / np.sqrt(x), 4),
    "tanh": (xt.tanh, np.tanh, lambda x: 0 * x + 4 * ULP, 12),
    "erf": (xt.erf, _erf, lambda x: 0 * x + 4e-5, 12),
    "sigmoid": (ACTIVATIONS["sigmoid"], lambda x: 1 / (1 + np.exp(-x)), lambda x: 0 * x + 4 * ULP, 12),
    "silu": (ACTIVATIONS["silu"], lambda x: x / (1 + np.exp(-x)), lambda x: (1 + np.abs(x)) * 8 * ULP, 12),
    "gelu": (ACTIVATIONS["gelu"], lambda x: 0.5 * x * (1 + _erf(x * sqrt(0.5))), lambda x: np.abs(x) * 3e-5, 9),
    "gelu_tanh": (ACTIVATIONS["gelu_tanh"],
                  lambda x: 0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
                  lambda x: (1 + np.abs(x)) * 8 * ULP, 7),
}
MACHINES = [Execution(f"machine:{target}", target) for target in ("pvc", "bmg")]


@xt.kernel(fast_math=True)
def applied(A: Any, B: Any, *, name: str) -> None:
    at = (xt.group_id(0) * 8, 0)
    xt.store_tile(FUNCTIONS[name][0](xt.load_tile(xt.init_tile(A, at, (8, 16)))), xt.init_tile(B, at, (8, 16)))


@xt.kernel
def both(A: Any, B: Any, C: Any) -> None:
    tile, v = (8, 16), xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
    xt.store_tile(xt.exp(v, fast=True), xt.init_tile(B, (0, 0), tile))
    xt.store_tile(xt.exp(v), xt.init_tile(C, (0, 0), tile))


def inputs(name: str) -> Array:
    rng = np.random.default_rng(5)
    if name.startswith("log") or name == "rsqrt":
        return np.concatenate([np.exp2(rng.uniform(-126, 127, (64, 16))), rng.uniform(0.5, 2, (64, 16))]).astype("f4")
    x = rng.uniform(-4, 4, (128, 16))
    x[:64] *= 20 if name.startswith("exp") else 5
    x[0, :4] = 0, 80, -80, -0.0
    return x.astype(np.float32)


@pytest.mark.parametrize("execution", [NUMPY, Execution("numpy:xegpu", "pvc"), *DEVICE, *MACHINES], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds(name: str, execution: Execution) -> None:
    _, reference, bound, _ = FUNCTIONS[name]
    if execution in MACHINES:
        require_ocloc()
    x, y = inputs(name), np.full((128, 16), 7, np.float32)
    kernel = applied.on(execution.where) if execution in MACHINES else execution.bind(applied)
    kernel[16](x, y, name=name)
    wide = x.astype(np.float64)
    assert (np.abs(y - reference(wide)) <= bound(wide)).all()


@pytest.mark.parametrize("execution", [NUMPY, *DEVICE], ids=str)
@pytest.mark.parametrize(("name", "special"), [
    ("exp", {np.inf: np.inf, -np.inf: 0, np.nan: np.nan}), ("log", {0.0: -np.inf, np.inf: np.inf, -1.0: np.nan}),
    ("tanh", {np.inf: 1, -np.inf: -1, np.nan: np.nan}), ("erf", {np.inf: 1, -np.inf: -1, np.nan: np.nan}),
    ("gelu", {np.inf: np.inf, np.nan: np.nan})])
def test_special_values(name: str, special: dict[float, float], execution: Execution) -> None:
    x, y = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    x[0, :len(special)] = list(special)
    execution.bind(applied)[1](x, y, name=name)
    np.testing.assert_array_equal(y[0, :len(special)], np.float32(list(special.values())))


@pytest.mark.parametrize("dtype", [xt.f16, xt.bf16, xt.f64], ids=str)
def test_other_types(dtype: xt.DType) -> None:
    """f16 and bf16 compute in f32, f64 has no approximation."""
    matrix = xt.Spec((8, 16), dtype)
    text = applied.lower(matrix, matrix, target="pvc", name="tanh").opencl
    assert ("native" in text) is (dtype is not xt.f64)


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_instructions(name: str, target: str) -> None:
    require_ocloc()
    matrix = xt.Spec((4096, 16), xt.f32)
    vector = applied.lower(matrix, matrix, target=target, name=name).report().hot.categories["vector"]
    assert vector / 8 <= FUNCTIONS[name][3] + 1  # one for addresses


def test_a_call_says_it_for_itself() -> None:
    matrix = xt.Spec((8, 16), xt.f32)
    lowered = both.lower(matrix, matrix, matrix, target="pvc")
    assert lowered.stages["xetile"].count("fastmath<afn>") == 1
    again = xt.parse(lowered.stages["xetile"])["both"].lower(matrix, matrix, matrix, target="pvc")
    for text in (lowered.opencl, again.opencl):
        assert text.count("native_exp2(") == 1
        assert text.count("= exp(") == 1


@xt.kernel
def logarithms(A: Any, B: Any) -> None:
    at = (xt.group_id(0) * 32, 0)
    xt.store_tile(xt.log2(xt.load_tile(xt.init_tile(A, at, (32, 16)))), xt.init_tile(B, at, (32, 16)))


@pytest.mark.parametrize("execution", [*DEVICE, *MACHINES], ids=str)
def test_log2_is_accurate_everywhere(execution: Execution) -> None:
    """Without ``fast``: below the 3 units of its record, exact for powers of two, also where x is subnormal."""
    if execution in MACHINES:
        require_ocloc()
    rng = np.random.default_rng(7)
    powers = [*(1 << np.arange(23)), *(np.arange(1, 255) << 23)]
    special = [0, 1 << 31, 0x7F800000, 0xFF800000, 0xBF800000]
    bits = np.concatenate([powers, special, 0x3F800000 + np.arange(-40, 40), rng.integers(1, 0x800000, 30),
                           rng.integers(0x3F000000, 0x40000000, 800), rng.integers(0, 1 << 32, 856)])
    x, y = bits.astype(np.uint32).view(np.float32).reshape(-1, 16), np.zeros((128, 16), np.float32)
    (logarithms.on(execution.where) if execution in MACHINES else execution.bind(logarithms))[4](x, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.log2(x.astype(np.float64))
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(y[~finite], expected[~finite])
    np.testing.assert_array_equal(y.reshape(-1)[:len(powers)], np.r_[-149:-126, -126:128])
    errors = np.abs(y[finite] - expected[finite]) / np.spacing(np.abs(expected[finite]).astype(np.float32))
    assert errors.max() < 2.5


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_log2_takes_no_more_than_log(target: str) -> None:
    require_ocloc()
    matrix = xt.Spec((4096, 16), xt.f32)
    vector = logarithms.lower(matrix, matrix, target=target).report().hot.categories["vector"]
    assert vector / 32 <= 27


@xt.kernel
def tangents(A: Any, B: Any) -> None:
    at = (xt.group_id(0) * 32, 0)
    xt.store_tile(xt.tanh(xt.load_tile(xt.init_tile(A, at, (32, 16)))), xt.init_tile(B, at, (32, 16)))


@pytest.mark.parametrize("execution", [*DEVICE, *MACHINES], ids=str)
def test_tanh_is_accurate_everywhere(execution: Execution) -> None:
    """Without ``fast``: below the 5 units of its record, also where x is subnormal, and odd."""
    if execution in MACHINES:
        require_ocloc()
    rng = np.random.default_rng(8)
    special = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F1FFFFF, 0x3F200000, 0xBF200000]
    bits = np.concatenate([special, rng.integers(1, 0x800000, 40), rng.integers(0x3D800000, 0x41200000, 1600),
                           rng.integers(0, 1 << 32, 400)])
    x, y = bits.astype(np.uint32).view(np.float32).reshape(-1, 16), np.zeros((128, 16), np.float32)
    (tangents.on(execution.where) if execution in MACHINES else execution.bind(tangents))[4](x, y)
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = np.tanh(x.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(y[known]), np.signbit(expected[known]))
    errors = np.abs(y[known] - expected[known]) / np.spacing(np.abs(expected[known]).astype(np.float32))
    assert errors.max() < 3
    assert np.abs(y[known]).max() == 1


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_tanh_takes_a_few_instructions(target: str) -> None:
    """20 of 16 lanes for a register, where Intel's function takes 139."""
    require_ocloc()
    matrix = xt.Spec((4096, 16), xt.f32)
    report = tangents.lower(matrix, matrix, target=target).report()
    assert report.hot.categories["vector"] / 32 <= 20
    assert (report.hot.categories["branch"], report.spill_size, report.private_size) == (0, 0, 0)
